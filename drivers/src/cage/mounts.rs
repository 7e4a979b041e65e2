//! What the program does not see or change of the folders that its cage shows: in a mount namespace of its own.

use std::ffi::CStr;
use std::fs;
use std::path::Path;

use rustix::fs::{StatVfsMountFlags, statvfs};
use rustix::io::Errno;
use rustix::mount::{MountFlags, MountPropagationFlags, mount, mount_bind, mount_change, mount_remount};
use rustix::process::{getgid, getuid};
use rustix::thread::UnshareFlags;

use super::spec::CageSpec;

/// An empty folder that nobody can write in.
const EMPTY: &CStr = c"size=4k,mode=555";

/// Hides and freezes what the cage names. Does nothing if it names nothing. Returns whether the process has a user namespace of its
/// own now.
pub(super) fn separate(spec: &CageSpec) -> Result<bool, String> {
    if spec.hide.is_empty() && spec.freeze.is_empty() {
        return Ok(false);
    }
    let unshared = unshare();
    if let Err(error) = &unshared {
        let kept: Vec<_> =
            spec.hide.iter().chain(&spec.freeze).map(|path| path.display().to_string()).collect();
        return Err(format!(
            "{} would be within its reach: this machine gives no mount namespace ({error}); keep the data folder and the configuration \
             outside of the workspace (--data DIR, --config FILE), or install bubblewrap",
            kept.join(", ")
        ));
    }
    mount_change("/", MountPropagationFlags::REC | MountPropagationFlags::PRIVATE)
        .map_err(|error| format!("mounts: {error}"))?;
    for path in &spec.hide {
        let flags = MountFlags::RDONLY | MountFlags::NOSUID | MountFlags::NODEV;
        mount("tmpfs", path, "tmpfs", flags, EMPTY)
            .map_err(|error| format!("{}: {error}", path.display()))?;
    }
    for path in &spec.pin {
        mount_bind(path, path).map_err(|error| format!("{}: {error}", path.display()))?;
    }
    for path in &spec.freeze {
        freeze(path).map_err(|error| format!("{}: {error}", path.display()))?;
    }
    unshared
}

fn freeze(path: &Path) -> Result<(), Errno> {
    mount_bind(path, path)?;
    // A user's namespace may not clear these.
    let now = statvfs(path)?.f_flag;
    let kept = [
        (StatVfsMountFlags::NOSUID, MountFlags::NOSUID),
        (StatVfsMountFlags::NODEV, MountFlags::NODEV),
        (StatVfsMountFlags::NOEXEC, MountFlags::NOEXEC),
        (StatVfsMountFlags::NOATIME, MountFlags::NOATIME),
        (StatVfsMountFlags::RELATIME, MountFlags::RELATIME),
    ];
    let kept = kept.into_iter().filter(|(flag, _)| now.contains(*flag)).map(|(_, flag)| flag);
    let flags = kept.fold(MountFlags::BIND | MountFlags::RDONLY, |all, flag| all | flag);
    mount_remount(path, flags, c"")
}

/// A mount namespace; with a user namespace around it where the process has no right to one alone: `true`.
fn unshare() -> Result<bool, String> {
    if leave(UnshareFlags::NEWNS).is_ok() {
        return Ok(false);
    }
    let (user, group) = (getuid().as_raw(), getgid().as_raw());
    leave(UnshareFlags::NEWUSER | UnshareFlags::NEWNS).map_err(|error| error.to_string())?;
    let write = |file: &str, text: String| fs::write(file, text).map_err(|error| format!("{file}: {error}"));
    write("/proc/self/setgroups", "deny".to_owned())?;
    write("/proc/self/uid_map", format!("{user} {user} 1"))?;
    write("/proc/self/gid_map", format!("{group} {group} 1"))?;
    Ok(true)
}

#[expect(
    deprecated,
    reason = "its successor is unsafe for the sake of shared tables of files, which are not asked for"
)]
fn leave(flags: UnshareFlags) -> Result<(), Errno> {
    rustix::thread::unshare(flags)
}
