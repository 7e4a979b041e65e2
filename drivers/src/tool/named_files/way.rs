//! The way on which the system finds a file.

use std::io::ErrorKind;
use std::path::{Component, Path, PathBuf};

use crate::tool::workspace::PATH_BYTES_MAX;

/// Links that are followed on the way to a file. The system follows as many from the folder of the program, which may be behind some.
const LINKS_MAX: usize = 40;

/// Links and folders that are passed on the way to a file.
const PASSED_MAX: usize = 4_096;

/// Bytes of the longest name in a folder.
const NAME_BYTES_MAX: usize = 255;

/// Bytes of the longest path without links that is followed: with any name behind it, and the zero byte, it is one that the system opens.
const REAL_BYTES_MAX: usize = PATH_BYTES_MAX - NAME_BYTES_MAX - 2;

/// Reason for a name that each process finds elsewhere.
pub(super) const OF_PROCESS: &str =
    "leads through the folder of a process (/proc/self, /dev/fd), where the program finds another file";

/// Reason for a name whose file is not found.
const TOO_FAR: &str = "leads through more links or folders than are followed";

/// Reason for a name that a program reaches by links, while the path without them is longer than the system takes.
const TOO_DEEP: &str = "lies deeper than any path names";

/// Links and folders on the way to a file, and where it ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Way {
    /// The links and folders that are passed, and the file, in order.
    pub(crate) passed: Vec<PathBuf>,
    /// The path without links. Nothing needs to be there.
    pub(crate) real: PathBuf,
    /// Why a program may find another file than the way does.
    pub(crate) lost: Option<&'static str>,
}

impl Way {
    /// The way to a file at an absolute path. May block.
    pub(crate) fn of(file: &Path) -> Way {
        Way::below(Path::new(""), file)
    }

    /// The way to a file from a folder without links on its own path. May block.
    pub(crate) fn below(folder: &Path, file: &Path) -> Way {
        let mut way = Way { passed: Vec::new(), real: folder.to_owned(), lost: None };
        let (mut links, mut rest, mut is_missing) = (0, parts(file), false);
        while let Some(part) = rest.pop() {
            if part == Path::new("..") {
                way.real.pop();
                continue;
            }
            let place = way.real.join(&part);
            if is_missing {
                way.real = place;
                continue;
            }
            let is_too_far = links > LINKS_MAX || way.passed.len() == PASSED_MAX;
            let of_process = is_process(&way.real, &part).then_some(OF_PROCESS);
            let has_room =
                place.as_os_str().len() <= REAL_BYTES_MAX || part.as_os_str().len() > NAME_BYTES_MAX;
            let too_deep = (!has_room).then_some(TOO_DEEP);
            way.lost = of_process.or(is_too_far.then_some(TOO_FAR)).or(too_deep);
            if way.lost.is_some() {
                break;
            }
            way.passed.push(place.clone());
            match place.read_link() {
                // The path is short enough, so a name alone is too long for the system.
                Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::InvalidFilename) => {
                    (way.real, is_missing) = (place, true);
                }
                Ok(target) => {
                    links += 1;
                    rest.extend(parts(&target));
                }
                Err(_) => way.real = place,
            }
        }
        way
    }
}

/// The parts of a path, the last one first.
fn parts(path: &Path) -> Vec<PathBuf> {
    let parts = path.components().filter(|part| *part != Component::CurDir);
    parts.rev().map(|part| Path::new(part.as_os_str()).to_owned()).collect()
}

/// True for the folder of a process, there or not: another process may see one of this number.
fn is_process(folder: &Path, name: &Path) -> bool {
    let name = name.to_str().unwrap_or_default();
    let is_name = matches!(name, "self" | "thread-self")
        || !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_digit());
    is_name && is_of_processes(folder)
}

#[cfg(target_os = "linux")]
fn is_of_processes(folder: &Path) -> bool {
    rustix::fs::statfs(folder).is_ok_and(|found| found.f_type == rustix::fs::PROC_SUPER_MAGIC)
}

#[cfg(not(target_os = "linux"))]
fn is_of_processes(_: &Path) -> bool {
    false
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn a_way_through_the_folder_of_a_process_is_told_whether_it_exists_or_not() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        symlink("/proc/self/cwd", root.join("cwd")).unwrap();
        symlink("cwd/x.sh", root.join("x.sh")).unwrap();
        std::fs::create_dir(root.join("self")).unwrap();
        for (path, expected) in [
            ("/proc/self/cwd/x.sh", true),
            ("/proc/thread-self/cwd/x.sh", true),
            ("/proc/1/root/x.sh", true),
            ("/proc/4000000/cwd", true),
            ("/dev/fd/9", true),
            ("/dev/stdin", true),
            ("/../proc/self/root", true),
            ("cwd/x.sh", true),
            ("x.sh", true),
            ("self/x.sh", false),
            ("/proc/cpuinfo", false),
            ("/dev/null", false),
        ] {
            let lost = Way::below(&root, Path::new(path)).lost;
            assert_eq!(lost, expected.then_some(OF_PROCESS), "{path}");
        }
    }

    #[test]
    fn links_are_followed_as_the_system_does() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        std::fs::create_dir_all(root.join("a/b")).unwrap();
        symlink("a/b", root.join("l")).unwrap();
        symlink(root.join("l/../x"), root.join("a/b/y")).unwrap();
        symlink("loop", root.join("loop")).unwrap();
        let real = |path: &str| Way::below(&root, Path::new(path)).real;
        assert_eq!(real("l/y"), root.join("a/x"));
        assert_eq!(real("l/../x"), root.join("a/x"));
        assert_eq!(Way::below(&root, Path::new("loop")).lost, Some(TOO_FAR));
        assert_eq!(Way::below(&root, Path::new(&"l/../../".repeat(50))).lost, Some(TOO_FAR));
        assert_eq!(Way::of(&root.join("l/y")).real, root.join("a/x"));
    }
}
