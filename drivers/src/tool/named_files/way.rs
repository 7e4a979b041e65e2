//! The way on which the system finds a file.

use std::io::ErrorKind;
use std::path::{Component, Path, PathBuf};

/// Links that are followed on the way to a file, as the system does.
const LINKS_MAX: usize = 40;

/// Links and folders on the way to a file, and where it ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Way {
    /// The links and folders that are passed, and the file, in order.
    pub(crate) passed: Vec<PathBuf>,
    /// The path without links. Nothing needs to be there.
    pub(crate) real: PathBuf,
    /// True if the way leads through the folder of a process in `/proc`, also by `/dev/fd`: it leads each process to another place.
    pub(crate) is_of_process: bool,
}

impl Way {
    /// The way to a file at an absolute path. May block.
    pub(crate) fn of(file: &Path) -> Way {
        Way::below(Path::new(""), file)
    }

    /// The way to a file from a folder without links on its own path. May block.
    pub(crate) fn below(folder: &Path, file: &Path) -> Way {
        let mut way = Way { passed: Vec::new(), real: folder.to_owned(), is_of_process: false };
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
            way.is_of_process = is_process(&way.real, &part);
            if way.is_of_process {
                break;
            }
            way.passed.push(place.clone());
            match place.read_link() {
                Err(error) if error.kind() == ErrorKind::NotFound => (way.real, is_missing) = (place, true),
                Ok(target) if links < LINKS_MAX => {
                    links += 1;
                    rest.extend(parts(&target));
                }
                _ => way.real = place,
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
            assert_eq!(Way::below(&root, Path::new(path)).is_of_process, expected, "{path}");
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
        assert_eq!(real("loop"), root.join("loop"));
        assert_eq!(Way::of(&root.join("l/y")).real, root.join("a/x"));
    }
}
