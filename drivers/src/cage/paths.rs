//! The paths of a cage.

use std::ffi::OsStr;
use std::fs::File;
use std::io::Read;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;

use super::resolver::Resolver;

/// What every program may read and execute: libraries, programs, and settings of the system that hold no secrets. What is missing on
/// a machine is left out.
pub const SYSTEM_READ: [&str; 51] = [
    "/usr",
    "/bin",
    "/sbin",
    "/lib",
    "/lib32",
    "/lib64",
    "/libx32",
    "/opt",
    "/nix/store",
    "/gnu/store",
    "/run/current-system",
    "/etc/alternatives",
    "/etc/bash.bashrc",
    "/etc/ca-certificates",
    "/etc/crypto-policies",
    "/etc/debian_version",
    "/etc/fonts",
    "/etc/gai.conf",
    "/etc/gitattributes",
    "/etc/gitconfig",
    "/etc/group",
    "/etc/host.conf",
    "/etc/hostname",
    "/etc/hosts",
    "/etc/inputrc",
    "/etc/java",
    "/etc/ld.so.cache",
    "/etc/ld.so.conf",
    "/etc/ld.so.conf.d",
    "/etc/ld.so.preload",
    "/etc/locale.alias",
    "/etc/locale.conf",
    "/etc/localtime",
    "/etc/login.defs",
    "/etc/magic",
    "/etc/manpath.config",
    "/etc/mime.types",
    "/etc/nsswitch.conf",
    "/etc/os-release",
    "/etc/passwd",
    "/etc/perl",
    "/etc/pki/ca-trust",
    "/etc/pki/tls/certs",
    "/etc/protocols",
    "/etc/python3",
    "/etc/resolv.conf",
    "/etc/services",
    "/etc/ssl/certs",
    "/etc/ssl/openssl.cnf",
    "/etc/terminfo",
    "/etc/timezone",
];

/// Facts about the machine that say nothing about other processes. Where a cage has a `/proc` of its own it shows that one.
pub(super) const MACHINE_READ: [&str; 14] = [
    "/proc/cpuinfo",
    "/proc/filesystems",
    "/proc/loadavg",
    "/proc/meminfo",
    "/proc/stat",
    "/proc/uptime",
    "/proc/version",
    "/proc/vmstat",
    "/proc/sys/fs",
    "/proc/sys/kernel",
    "/proc/sys/net",
    "/proc/sys/vm",
    "/sys/devices/system",
    "/sys/kernel/mm",
];

/// Devices that only compute.
pub(super) const DEVICES: [&str; 5] = ["/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom"];

/// Settings of git in the home folder. Credentials have files of their own.
const GIT_SETTINGS: [&str; 4] =
    [".gitconfig", ".config/git/config", ".config/git/ignore", ".config/git/attributes"];

/// Folders in which effectful programs may write: the workspace, the temporary folder of the call and the operator's additions.
pub fn writable(workspace: &Path, more: &[PathBuf]) -> Vec<PathBuf> {
    std::iter::once(workspace).chain(more.iter().map(PathBuf::as_path)).map(Path::to_owned).collect()
}

/// Folders of the system that every program may read. In the place of a folder that holds the home folder, as `/opt` does for the account of a
/// service, stands what else is in it: its names cannot be listed then.
pub(super) fn system_read(search_path: &OsStr, home: Option<&Path>) -> Vec<PathBuf> {
    let home = own_home(search_path, home);
    let all = SYSTEM_READ.iter().map(PathBuf::from).filter(|path| path.exists());
    all.flat_map(|path| without(path, home.as_deref())).collect()
}

/// The home folder without links; `None` if it is a folder of the search path (`/usr/sbin` is the home folder of `daemon`), or holds a
/// folder of the system.
fn own_home(search_path: &OsStr, home: Option<&Path>) -> Option<PathBuf> {
    let home = home?.canonicalize().ok()?;
    let is_programs =
        std::env::split_paths(search_path).any(|folder| folder.canonicalize().is_ok_and(|it| it == home));
    let holds_system =
        |system: &str| Path::new(system).canonicalize().is_ok_and(|system| system.starts_with(&home));
    let is_system = SYSTEM_READ.iter().any(|system| holds_system(system));
    Some(home).filter(|_| !is_programs && !is_system)
}

/// A folder, or the parts of it that hold no part of `private`. Links in such a folder are left out: they may lead anywhere.
fn without(folder: PathBuf, private: Option<&Path>) -> Vec<PathBuf> {
    let real =
        folder.canonicalize().ok().filter(|real| private.is_some_and(|private| private.starts_with(real)));
    let Some(real) = real else { return vec![folder] };
    let entries = std::fs::read_dir(&real).into_iter().flatten().flatten();
    let others = entries
        .filter(|entry| entry.file_type().is_ok_and(|kind| !kind.is_symlink()))
        .map(|entry| entry.path());
    let others = others.filter(|path| Some(path.as_path()) != private);
    others.flat_map(|path| without(path, private)).collect()
}

/// What belongs to the user and every program may read all the same: settings of git, and the folders of the search path.
/// Nothing where programs write: they may have put it there, and see it if it lies in the workspace.
pub(super) fn of_user(search_path: &OsStr, home: Option<&Path>, resolver: &mut Resolver) -> Vec<PathBuf> {
    let settings = home.iter().flat_map(|home| GIT_SETTINGS.map(|file| home.join(file)));
    let programs = std::env::split_paths(search_path).filter(|folder| folder.is_absolute());
    let own_home = own_home(search_path, home);
    let home = home.and_then(|home| home.canonicalize().ok());
    let is_private = |found: &Path| home.as_ref().is_some_and(|home| home.starts_with(found));
    let is_in_home = |found: &Path| own_home.as_ref().is_some_and(|home| found.starts_with(home));
    let is_system =
        |found: &Path| SYSTEM_READ.iter().any(|system| found.starts_with(system)) && !is_in_home(found);
    let mut all: Vec<PathBuf> = settings.chain(programs).filter_map(|path| resolver.find(&path)).collect();
    all.retain(|found| !is_private(found) && !is_system(found) && !resolver.is_written(found));
    all.sort();
    all.dedup();
    all
}

/// Repository of a workspace that is a linked git worktree, if the repository is outside of the workspace. A program may have forged
/// the workspace's `.git`, so the repository must point back to the workspace, and what is shown must be a repository, and named as
/// one: a home folder or a working tree is none. Programs of the repository's own workspace may have forged that too, so
/// [`Workspaces::repository`](super::Workspaces::repository) decides.
pub(super) fn linked_repository(workspace: &Path) -> Option<PathBuf> {
    let link = workspace.join(".git");
    let text = read(&link)?;
    let folder = workspace.join(text.strip_prefix("gitdir:")?.trim()).canonicalize().ok()?;
    let back = read(&folder.join("gitdir"))?;
    let leads_back = Path::new(back.trim()).canonicalize().is_ok_and(|back| back == link);
    let worktrees = folder.parent().filter(|parent| parent.ends_with("worktrees"))?;
    let repository = worktrees.parent().filter(|_| leads_back && !folder.starts_with(workspace))?;
    is_repository(repository).then(|| repository.to_owned())
}

/// The text of a small file. A step may put a pipe or a link in its place at any moment, so the file is opened without waiting and without
/// following a link, and looked at once it is open.
fn read(file: &Path) -> Option<String> {
    let flags = (OFlags::NONBLOCK | OFlags::NOFOLLOW).bits() as i32;
    let opened = File::options().read(true).custom_flags(flags).open(file).ok()?;
    let is_small = opened.metadata().is_ok_and(|found| found.is_file() && found.len() <= LINK_BYTES_MAX);
    let mut text = String::new();
    is_small.then(|| opened.take(LINK_BYTES_MAX).read_to_string(&mut text).ok()).flatten()?;
    Some(text)
}

fn is_repository(folder: &Path) -> bool {
    let is_file = |name: &str| folder.join(name).symlink_metadata().is_ok_and(|found| found.is_file());
    let is_folder = |name: &str| folder.join(name).symlink_metadata().is_ok_and(|found| found.is_dir());
    let name = folder.file_name().unwrap_or_default().to_string_lossy();
    (name.ends_with(".git") || name == ".bare")
        && is_file("HEAD")
        && is_folder("objects")
        && is_folder("refs")
}

/// Most bytes of a file that names a folder.
const LINK_BYTES_MAX: u64 = 8 << 10;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_of_the_system_is_shown_without_the_home_folder_in_it() {
        let place = tempfile::tempdir().unwrap();
        let root = place.path().canonicalize().unwrap();
        for folder in ["opt/ci/.ssh", "opt/homes/ann", "opt/homes/bob", "opt/tool/bin", "lib"] {
            std::fs::create_dir_all(root.join(folder)).unwrap();
        }
        std::os::unix::fs::symlink("ci", root.join("opt/link")).unwrap();
        let shown = |folder: &str, home: &str| {
            let mut found = without(root.join(folder), Some(&root.join(home)));
            found.sort();
            let below =
                found.iter().map(|path| path.strip_prefix(&root).unwrap().to_str().unwrap().to_owned());
            below.collect::<Vec<_>>()
        };
        assert_eq!(shown("opt", "opt/ci"), ["opt/homes", "opt/tool"]);
        assert_eq!(shown("opt", "opt/homes/ann"), ["opt/ci", "opt/homes/bob", "opt/tool"]);
        assert_eq!(shown("lib", "opt/ci"), ["lib"]);
        assert_eq!(without(root.join("opt"), None), [root.join("opt")]);
        for (home, search_path) in [("/usr", ""), ("/", ""), ("/usr/sbin", "/usr/sbin:/usr/bin")] {
            assert_eq!(own_home(OsStr::new(search_path), Some(Path::new(home))), None, "{home}");
        }
    }

    #[test]
    fn a_worktree_has_its_repository_only_if_that_knows_the_worktree() {
        let place = tempfile::tempdir().unwrap();
        let root = place.path().canonicalize().unwrap();
        let (workspace, own) = (root.join("ws"), root.join("repository/.git/worktrees/ws"));
        std::fs::create_dir_all(&workspace).unwrap();
        std::fs::create_dir_all(&own).unwrap();
        assert_eq!(linked_repository(&workspace), None);
        let pipe = workspace.join(".git");
        rustix::fs::mkfifoat(rustix::fs::CWD, &pipe, rustix::fs::Mode::RWXU).unwrap();
        assert_eq!(linked_repository(&workspace), None, "nobody writes to the pipe");
        std::fs::remove_file(&pipe).unwrap();
        std::os::unix::fs::symlink("/proc/self/pagemap", &pipe).unwrap();
        assert_eq!(linked_repository(&workspace), None, "a link without an end");
        std::fs::remove_file(&pipe).unwrap();
        std::fs::write(workspace.join(".git"), format!("gitdir: {}\n", own.display())).unwrap();
        assert_eq!(linked_repository(&workspace), None);
        std::fs::write(own.join("gitdir"), "/elsewhere/.git\n").unwrap();
        assert_eq!(linked_repository(&workspace), None);
        std::fs::write(own.join("gitdir"), format!("{}\n", workspace.join(".git").display())).unwrap();
        assert_eq!(linked_repository(&workspace), None, "it is no repository");
        let make = |repository: &Path| {
            std::fs::write(repository.join("HEAD"), "ref: refs/heads/main\n").unwrap();
            ["objects", "refs"].iter().for_each(|name| std::fs::create_dir(repository.join(name)).unwrap());
        };
        make(&root.join("repository/.git"));
        assert_eq!(linked_repository(&workspace), Some(root.join("repository/.git")));
        // A workspace beside others, in whose folder a step wrote what git does: the folder around is no repository.
        let beside = root.join("home/worktrees/a");
        std::fs::create_dir_all(&beside).unwrap();
        std::fs::write(workspace.join(".git"), format!("gitdir: {}\n", beside.display())).unwrap();
        std::fs::write(beside.join("gitdir"), format!("{}\n", workspace.join(".git").display())).unwrap();
        make(&root.join("home"));
        assert_eq!(linked_repository(&workspace), None, "it is not named as a repository");
    }
}
