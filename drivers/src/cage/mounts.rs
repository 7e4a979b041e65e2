//! What the program does not see or change of the folders that its cage shows: in a mount namespace of its own.

use std::ffi::CStr;
use std::fs;
use std::path::{Path, PathBuf};

use rustix::fs::{StatVfsMountFlags, statvfs};
use rustix::io::Errno;
use rustix::mount::{
    MountFlags, MountPropagationFlags, mount, mount_bind, mount_bind_recursive, mount_change, mount_remount,
};
use rustix::process::{getgid, getuid};
use rustix::thread::UnshareFlags;

use super::spec::CageSpec;

/// An empty folder that nobody can write in.
const EMPTY: &CStr = c"size=4k,mode=555";

/// Hides and freezes the paths that the cage names, and makes every mount outside of its writable paths read-only, because Landlock
/// has no right for modes, owners and times. Returns true if the process now has a user namespace of its own.
pub(super) fn separate(spec: &CageSpec) -> Result<bool, String> {
    let needs = !spec.hide.is_empty() || !spec.freeze.is_empty();
    if spec.observes && !needs {
        return Ok(false);
    }
    let is_own_user = match unshare(UnshareFlags::NEWNS) {
        Ok(is_own_user) => is_own_user,
        Err(_) if !needs => return Ok(false),
        Err(error) => {
            let kept: Vec<_> =
                spec.hide.iter().chain(&spec.freeze).map(|path| path.display().to_string()).collect();
            return Err(format!(
                "{} would be within its reach: this machine gives no mount namespace ({error}); keep the data folder and the \
                 configuration outside of the workspace (--data DIR, --config FILE), or install bubblewrap",
                kept.join(", ")
            ));
        }
    };
    let at = |path: &Path, error| format!("{}: {error}", path.display());
    mount_change("/", MountPropagationFlags::REC | MountPropagationFlags::PRIVATE)
        .map_err(|error| format!("mounts: {error}"))?;
    if !spec.observes {
        let others = mount_points(&fs::read_to_string("/proc/self/mountinfo").unwrap_or_default());
        for path in spec.write.iter().filter(|path| path.exists()) {
            mount_bind_recursive(path, path).map_err(|error| at(path, error))?;
        }
        // A mount at or beneath a writable path is covered by the new mount, or part of the new mount.
        let is_written = |path: &&PathBuf| spec.write.iter().any(|folder| path.starts_with(folder));
        for path in others.iter().filter(|path| !is_written(path)) {
            // On a mount that cannot be changed only modes, owners and times stay open: Landlock still refuses writes.
            let _ = make_read_only(path);
        }
    }
    // Before what lies beneath: nobody moves the place of a mount away.
    for path in &spec.pin {
        mount_bind_recursive(path, path).map_err(|error| at(path, error))?;
    }
    for path in &spec.hide {
        let flags = MountFlags::RDONLY | MountFlags::NOSUID | MountFlags::NODEV;
        mount("tmpfs", path, "tmpfs", flags, EMPTY).map_err(|error| at(path, error))?;
    }
    for path in &spec.freeze {
        mount_bind(path, path).and_then(|()| make_read_only(path)).map_err(|error| at(path, error))?;
    }
    // The working directory of this process still lies beneath the new mounts.
    std::env::current_dir()
        .and_then(std::env::set_current_dir)
        .map_err(|error| format!("its folder: {error}"))?;
    Ok(is_own_user)
}

/// Paths of all mounts, from `/proc/self/mountinfo`.
fn mount_points(mounts: &str) -> Vec<PathBuf> {
    let places = mounts.lines().filter_map(|line| line.split(' ').nth(4));
    // The kernel writes a blank in a path as `\040`.
    places.map(|place| PathBuf::from(place.replace("\\040", " "))).collect()
}

fn make_read_only(path: &Path) -> Result<(), Errno> {
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

/// A namespace of this kind; with a user namespace around it where the process has no right to one alone: `true`.
pub(super) fn unshare(kind: UnshareFlags) -> Result<bool, String> {
    if leave(kind).is_ok() {
        return Ok(false);
    }
    let (user, group) = (getuid().as_raw(), getgid().as_raw());
    leave(UnshareFlags::NEWUSER | kind).map_err(|error| error.to_string())?;
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_of_mounts_are_read_with_their_blanks() {
        let mounts = "1 0 0:1 / / rw - ext4 a rw\n2 1 0:2 / /a\\040b rw - tmpfs t rw\n";
        assert_eq!(mount_points(mounts), [PathBuf::from("/"), PathBuf::from("/a b")]);
    }
}
