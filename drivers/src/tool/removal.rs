//! Removes folders that programs filled, whatever the depth: without recursion, and with few open descriptors.

use std::fs;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::time::Instant;

use rustix::fs::{AtFlags, CWD, Dir, Mode, OFlags, fchmod, fstat, openat, renameat, unlinkat};
use rustix::io::Errno;
use rustix::path::Arg;

/// A folder for reading, and no link to one.
const FOLDER: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// Removes a folder with all that is in it. Follows no links, takes a constant number of descriptors, and gives itself the right to
/// enter folders of this user.
///
/// Folders two levels down are moved up to the first level before they are emptied, so neither a stack nor a path grows with the
/// depth.
///
/// # Errors
///
/// The file system refused, or `until` has passed ([`io::ErrorKind::TimedOut`]); what was not removed is still there.
pub(super) fn remove_folder(path: &Path, until: Option<Instant>) -> io::Result<()> {
    let root = open_folder(CWD, path)?;
    let (mut passes, mut moved) = (0, 0);
    // Reading a folder may leave out what is moved into it meanwhile. Only a folder moved up justifies another pass, so a program
    // that still runs cannot keep this one busy with files.
    while passes <= moved + 1 && remove_entries(&root, until, &mut moved)? {
        passes += 1;
    }
    fs::remove_dir(path)
}

/// Removes the entries of a folder; what lies deeper is moved up into it. True if there were any.
fn remove_entries(root: &OwnedFd, until: Option<Instant>, moved: &mut u64) -> io::Result<bool> {
    let mut had_any = false;
    for entry in Dir::read_from(root)? {
        let entry = entry?;
        let name = entry.file_name();
        if matches!(name.to_bytes(), b"." | b"..") {
            continue;
        }
        had_any = true;
        check(until)?;
        if !is_removed(root, name)? {
            lift(&open_folder(root.as_fd(), name)?, root, until, moved)?;
            is_removed(root, name)?;
        }
    }
    Ok(had_any)
}

/// Removes the files of a folder, and moves its folders into `root` under names that are free.
fn lift(folder: &OwnedFd, root: &OwnedFd, until: Option<Instant>, moved: &mut u64) -> io::Result<()> {
    for entry in Dir::read_from(folder)? {
        let entry = entry?;
        let name = entry.file_name();
        check(until)?;
        if matches!(name.to_bytes(), b"." | b"..") || is_removed(folder, name)? {
            continue;
        }
        loop {
            let free = moved.to_string();
            *moved += 1;
            match renameat(folder, name, root, &free) {
                Ok(()) => break,
                Err(Errno::EXIST | Errno::NOTEMPTY | Errno::NOTDIR) => {}
                // A folder that is moved gets another parent, which is a write.
                Err(Errno::ACCESS) => drop(open_folder(folder.as_fd(), name)?),
                Err(error) => return Err(error.into()),
            }
        }
    }
    Ok(())
}

fn check(until: Option<Instant>) -> io::Result<()> {
    match until {
        Some(until) if Instant::now() >= until => Err(io::ErrorKind::TimedOut.into()),
        _ => Ok(()),
    }
}

/// Removes an entry; false for a folder that has entries.
fn is_removed(folder: &OwnedFd, name: &std::ffi::CStr) -> io::Result<bool> {
    let removed = match unlinkat(folder, name, AtFlags::empty()) {
        // Linux says the one of a folder, POSIX the other.
        Err(Errno::ISDIR | Errno::PERM) => unlinkat(folder, name, AtFlags::REMOVEDIR),
        removed => removed,
    };
    match removed {
        Ok(()) | Err(Errno::NOENT) => Ok(true),
        Err(Errno::NOTEMPTY | Errno::EXIST) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// Opens a folder, whose entries may be changed then.
fn open_folder(at: BorrowedFd<'_>, name: impl Arg + Copy) -> io::Result<OwnedFd> {
    let opened = match openat(at, name, FOLDER, Mode::empty()) {
        Err(Errno::ACCESS) => {
            allow(at, name)?;
            openat(at, name, FOLDER, Mode::empty())?
        }
        opened => opened?,
    };
    if Mode::from_raw_mode(fstat(&opened)?.st_mode).contains(Mode::RWXU) {
        return Ok(opened);
    }
    fchmod(&opened, Mode::RWXU)?;
    Ok(opened)
}

/// Gives this user all rights to a folder that cannot be read.
#[cfg(target_os = "linux")]
fn allow(at: BorrowedFd<'_>, name: impl Arg) -> Result<(), Errno> {
    use std::os::fd::AsRawFd;
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let place = openat(at, name, flags, Mode::empty())?;
    rustix::fs::chmod(format!("/proc/self/fd/{}", place.as_raw_fd()), Mode::RWXU)
}

#[cfg(not(target_os = "linux"))]
fn allow(_: BorrowedFd<'_>, _: impl Arg) -> Result<(), Errno> {
    Err(Errno::ACCESS)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};

    use rustix::fs::mkdirat;

    use super::*;

    /// Deeper than any path is long, and than a stack of two MiB is deep.
    const DEPTH: usize = 20_000;

    #[test]
    fn a_folder_of_any_depth_is_removed_with_what_lies_beside() {
        // In memory: on a disk each removal of a folder takes milliseconds.
        let memory = Some(Path::new("/dev/shm")).filter(|memory| memory.is_dir());
        let place = memory.map_or_else(tempfile::tempdir, tempfile::tempdir_in).unwrap();
        let root = place.path().join("root");
        fs::create_dir(&root).unwrap();
        let mut folder = openat(CWD, &root, FOLDER, Mode::empty()).unwrap();
        for level in 0..DEPTH {
            // Names that what is moved up would get are taken.
            for name in ["a", "0", "1"] {
                mkdirat(&folder, name, Mode::RWXU).unwrap();
                if level >= 10 {
                    break;
                }
            }
            openat(&folder, "file", OFlags::CREATE | OFlags::WRONLY | OFlags::CLOEXEC, Mode::RUSR).unwrap();
            folder = openat(&folder, "a", FOLDER, Mode::empty()).unwrap();
        }
        drop(folder);
        let passed = remove_folder(&root, Some(Instant::now())).unwrap_err();
        assert_eq!(passed.kind(), io::ErrorKind::TimedOut);
        remove_folder(&root, None).unwrap();
        assert!(!root.exists());
    }

    #[test]
    fn links_are_removed_and_not_followed_and_rights_do_not_matter() {
        let place = tempfile::tempdir().unwrap();
        let (root, other) = (place.path().join("root"), place.path().join("other"));
        fs::create_dir_all(root.join("closed/inner/deep")).unwrap();
        fs::create_dir(&other).unwrap();
        fs::write(other.join("kept"), "").unwrap();
        symlink(&other, root.join("link")).unwrap();
        symlink(&other, root.join("closed/inner/link")).unwrap();
        for folder in ["closed/inner/deep", "closed/inner", "closed"] {
            fs::set_permissions(root.join(folder), fs::Permissions::from_mode(0o000)).unwrap();
        }
        remove_folder(&root, None).unwrap();
        assert!(!root.exists() && other.join("kept").exists());
        assert!(remove_folder(&root, None).is_err(), "it is gone");
        symlink(&other, &root).unwrap();
        assert!(remove_folder(&root, None).is_err(), "a link is no folder");
        assert!(other.join("kept").exists());
    }
}
