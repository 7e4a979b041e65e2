//! What the program does not see or change of the folders that its cage shows: in a mount namespace of its own.

use std::ffi::CStr;
use std::fs;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};

use ostler_kernel::port::CageRung;
use rustix::fs::{CWD, Mode, OFlags, ResolveFlags, StatVfsMountFlags, fstatvfs, openat2, statvfs};
use rustix::io::Errno;
use rustix::mount::{
    MountFlags, MountPropagationFlags, MoveMountFlags, OpenTreeFlags, mount, mount_change, mount_remount,
    move_mount, open_tree,
};
use rustix::process::{fchdir, getgid, getuid};
use rustix::thread::UnshareFlags;

use super::spec::CageSpec;

/// An empty folder that nobody can write in.
const EMPTY: &CStr = c"size=4k,mode=555";

/// A mount namespace of this process: needless, made, or impossible.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Separated {
    /// The cage needs none.
    Needless,
    /// Yes; `true`: with a user namespace around it.
    Done(bool),
    /// The machine gives none: why.
    Impossible(String),
}

impl Separated {
    /// True if the process has a user namespace of its own. Without any namespace an error if the cage needs one.
    pub(super) fn for_landlock(self, spec: &CageSpec) -> Result<bool, String> {
        let why = match self {
            Separated::Needless => return Ok(false),
            Separated::Done(is_own_user) => return Ok(is_own_user),
            Separated::Impossible(_) if spec.hide.is_empty() && spec.freeze.is_empty() => return Ok(false),
            Separated::Impossible(why) => why,
        };
        let kept: Vec<_> =
            spec.hide.iter().chain(&spec.freeze).map(|path| path.display().to_string()).collect();
        Err(format!(
            "{} would be within its reach: this machine gives no mount namespace ({why}); keep the data folder and the configuration \
             outside of the workspace (--data DIR, --config FILE), or install bubblewrap",
            kept.join(", ")
        ))
    }
}

/// Makes a mount namespace in which the paths that the cage names are hidden and frozen.
///
/// Programs of other calls rename and link while this runs. So every place is opened once, through no link, and mounted on by that
/// descriptor.
pub(super) fn separate(spec: &CageSpec) -> Result<Separated, String> {
    let needs = !spec.hide.is_empty() || !spec.freeze.is_empty();
    let makes_read_only = spec.rung == CageRung::Landlock && !spec.observes;
    if !needs && !makes_read_only {
        return Ok(Separated::Needless);
    }
    let is_own_user = match unshare(UnshareFlags::NEWNS) {
        Ok(is_own_user) => is_own_user,
        Err(error) => return Ok(Separated::Impossible(error)),
    };
    mount_change("/", MountPropagationFlags::REC | MountPropagationFlags::PRIVATE)
        .map_err(|error| format!("mounts: {error}"))?;
    let mounts = MountPoint::all(&fs::read_to_string("/proc/self/mountinfo").unwrap_or_default());
    if makes_read_only {
        keep_writable(&spec.write, &mounts)?;
    }
    // Before what lies beneath: nobody moves the place of a mount away.
    for path in &spec.pin {
        cover(path)?;
    }
    for path in &spec.freeze {
        let mount = cover(path)?;
        make_read_only(&by_descriptor(&mount)).map_err(|error| at(path, error))?;
    }
    for path in &spec.hide {
        hide(path)?;
        // The folder may be within reach through another mount of its file system.
        for other in aliases(&mounts, path) {
            match hide(&other) {
                Ok(()) => {}
                Err(_) if !other.exists() => {}
                Err(error) => return Err(error),
            }
        }
    }
    // The working directory of this process still lies beneath the new mounts.
    let folder = std::env::current_dir().map_err(|error| format!("its folder: {error}"))?;
    fchdir(place(&folder)?).map_err(|error| at(&folder, error))?;
    Ok(Separated::Done(is_own_user))
}

fn at(path: &Path, error: Errno) -> String {
    format!("{}: {error}", path.display())
}

/// Makes every mount outside of these paths read-only, because Landlock has no right for modes, owners and times.
fn keep_writable(paths: &[PathBuf], mounts: &[MountPoint]) -> Result<(), String> {
    for path in paths.iter().filter(|path| path.exists()) {
        // A path beneath another one is there with it.
        if !paths.iter().any(|outer| outer != path && path.starts_with(outer)) {
            cover(path)?;
        }
    }
    // A mount at or beneath a writable path is covered by the new mount, or part of the new mount.
    let is_written = |path: &Path| paths.iter().any(|folder| path.starts_with(folder));
    for MountPoint { path, .. } in mounts.iter().filter(|mount| !is_written(&mount.path)) {
        // On a mount that cannot be changed only modes, owners and times stay open: Landlock still refuses writes.
        let _ = make_read_only(path);
    }
    Ok(())
}

/// Keeps the modes and owners of devices from root, who owns them: a device on a read-only mount can be written to, and keeps its mode.
/// Bubblewrap takes such a mount over as it is.
pub(super) fn keep_devices<'a>(devices: impl Iterator<Item = &'a Path>) -> Result<(), String> {
    // Without the right to a mount namespace this process is not the root that owns devices.
    if !getuid().is_root() || leave(UnshareFlags::NEWNS).is_err() {
        return Ok(());
    }
    mount_change("/", MountPropagationFlags::REC | MountPropagationFlags::PRIVATE)
        .map_err(|error| format!("mounts: {error}"))?;
    for device in devices {
        let mount = cover(device)?;
        make_read_only(&by_descriptor(&mount)).map_err(|error| at(device, error))?;
    }
    Ok(())
}

/// A file or folder as it is now, reached through no link.
fn place(path: &Path) -> Result<OwnedFd, String> {
    let flags = OFlags::PATH | OFlags::CLOEXEC;
    openat2(CWD, path, flags, Mode::empty(), ResolveFlags::NO_SYMLINKS).map_err(|error| at(path, error))
}

/// The path by which calls without descriptors reach what is open.
fn by_descriptor(opened: &OwnedFd) -> PathBuf {
    PathBuf::from(format!("/proc/self/fd/{}", opened.as_raw_fd()))
}

/// Mounts a place over itself, with all mounts beneath it. Returns the new mount.
fn cover(path: &Path) -> Result<OwnedFd, String> {
    let place = place(path)?;
    let copied = OpenTreeFlags::OPEN_TREE_CLONE
        | OpenTreeFlags::OPEN_TREE_CLOEXEC
        | OpenTreeFlags::AT_EMPTY_PATH
        | OpenTreeFlags::AT_RECURSIVE;
    let tree = open_tree(&place, "", copied).map_err(|error| at(path, error))?;
    let both = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH | MoveMountFlags::MOVE_MOUNT_T_EMPTY_PATH;
    move_mount(&tree, "", &place, "", both).map_err(|error| at(path, error))?;
    Ok(tree)
}

/// Mounts an empty folder over another one.
fn hide(path: &Path) -> Result<(), String> {
    let flags = MountFlags::RDONLY | MountFlags::NOSUID | MountFlags::NODEV;
    let covered = place(path)?;
    mount("tmpfs", by_descriptor(&covered), "tmpfs", flags, EMPTY).map_err(|error| at(path, error))?;
    let found = fstatvfs(place(path)?).map_err(|error| at(path, error))?;
    match found.f_flag.contains(StatVfsMountFlags::RDONLY) {
        true => Ok(()),
        false => Err(format!("{}: another folder came into its place", path.display())),
    }
}

/// A line of `/proc/self/mountinfo`.
#[derive(Debug, Clone, PartialEq, Eq)]
struct MountPoint {
    /// Major and minor number of the device.
    device: String,
    /// The folder of the file system that is mounted.
    root: PathBuf,
    path: PathBuf,
}

impl MountPoint {
    fn all(text: &str) -> Vec<MountPoint> {
        let mount = |line: &str| {
            let mut fields = line.split(' ').skip(2);
            let (device, root, path) = (fields.next()?, fields.next()?, fields.next()?);
            Some(MountPoint { device: device.to_owned(), root: unescaped(root), path: unescaped(path) })
        };
        text.lines().filter_map(mount).collect()
    }
}

/// A path as the kernel writes it: blanks, tabs, line breaks and backslashes are octal numbers.
fn unescaped(path: &str) -> PathBuf {
    let signs = [("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")];
    PathBuf::from(signs.iter().fold(path.to_owned(), |path, (sign, c)| path.replace(sign, c)))
}

/// Where other mounts of the same file system show a folder, or a part of it.
fn aliases(mounts: &[MountPoint], folder: &Path) -> Vec<PathBuf> {
    // Of mounts at one path the last covers the others.
    let around = mounts.iter().filter(|mount| folder.starts_with(&mount.path));
    let Some(own) = around.max_by_key(|mount| mount.path.components().count()) else { return Vec::new() };
    let Ok(within) = folder.strip_prefix(&own.path) else { return Vec::new() };
    let place = own.root.join(within);
    let others = mounts.iter().filter(|mount| mount.device == own.device && *mount != own);
    let shown = others.filter_map(|mount| match place.strip_prefix(&mount.root) {
        Ok(rest) => Some(mount.path.join(rest)),
        Err(_) => mount.root.starts_with(&place).then(|| mount.path.clone()),
    });
    let mut shown: Vec<PathBuf> = shown.filter(|path| !path.starts_with(folder)).collect();
    shown.sort();
    shown.dedup();
    shown
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
    fn mounts_are_read_with_the_blanks_of_their_paths() {
        let mounts =
            MountPoint::all("1 0 0:1 / / rw - ext4 a rw\n2 1 0:2 /x\\134 /a\\040b rw - tmpfs t rw\n");
        let read: Vec<_> =
            mounts.iter().map(|it| (it.device.as_str(), it.root.as_path(), it.path.as_path())).collect();
        assert_eq!(
            read,
            [("0:1", Path::new("/"), Path::new("/")), ("0:2", Path::new("/x\\"), Path::new("/a b"))]
        );
    }

    #[test]
    fn a_folder_is_found_in_other_mounts_of_its_file_system() {
        let mount = |device: &str, root: &str, path: &str| MountPoint {
            device: device.to_owned(),
            root: root.into(),
            path: path.into(),
        };
        let mounts = [
            mount("8:1", "/", "/"),
            mount("8:2", "/", "/data"),
            mount("8:2", "/home", "/home"),
            mount("8:2", "/home/ann/ws/.ostler/journal", "/srv/journal"),
            mount("8:2", "/other", "/other"),
            mount("8:3", "/home", "/mnt"),
        ];
        let found = aliases(&mounts, Path::new("/home/ann/ws/.ostler"));
        assert_eq!(found, [Path::new("/data/home/ann/ws/.ostler"), Path::new("/srv/journal")]);
        assert_eq!(aliases(&mounts, Path::new("/root/.ostler")), Vec::<PathBuf>::new());
    }
}
