//! The folder that tools may access. Paths are opened beneath it component by component, so that no link, no `..` and no race
//! leads out.

use std::ffi::OsStr;
use std::fmt::{self, Display};
use std::io::{self, Read};
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use cap_std::fs::{Dir, File, Metadata, OpenOptions, OpenOptionsExt};
use ostler_kernel::event::Failure;
use ostler_kernel::port::OPERATOR_KEY;
use rustix::fs::{CWD, Mode, OFlags, openat};

use super::blocking_tool::CancelFlag;
use super::data_folder::DATA_FOLDER_ENTRIES;
use super::tool_spec::{exhausted, structural, transient};
use crate::cage::FileWrites;

/// Why no tool may touch a folder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Closed {
    /// The entries of a data folder are there. Whether one of Ostler's processes made them cannot be told, so all are closed.
    LikeData,
    /// The secret that an operator is proven with is there.
    OperatorKey,
}

/// Why no tool may touch a folder with these entries; `None`: tools may.
fn closed(exists: impl Fn(&str) -> bool) -> Option<Closed> {
    match DATA_FOLDER_ENTRIES.iter().all(|name| exists(name)) {
        true => Some(Closed::LikeData),
        false => exists(OPERATOR_KEY).then_some(Closed::OperatorKey),
    }
}

impl fmt::Display for Closed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Closed::LikeData => {
                let [first, second, third] = DATA_FOLDER_ENTRIES;
                write!(
                    f,
                    "looks like a data folder of ostler, which no tool may touch: it holds {first}, {second} and {third}; if it is none, \
                     rename one of them"
                )
            }
            Closed::OperatorKey => write!(f, "is the folder of an operator key, which no tool may touch"),
        }
    }
}

#[derive(Debug)]
pub(super) struct Workspace {
    root: Arc<Path>,
    dir: Dir,
}

/// Reason for which the file tools refuse `path` in the workspace `root`, whatever the gate says; `None` if they take it.
pub fn refused_path(root: &Path, path: &str) -> Option<String> {
    let root = root.canonicalize().unwrap_or_else(|_| root.to_owned());
    let workspace = Workspace::open(&Arc::from(root));
    workspace.and_then(|workspace| workspace.relative(path)).err().map(|failure| failure.message)
}

impl Workspace {
    pub(super) fn open(root: &Arc<Path>) -> Result<Workspace, Failure> {
        let dir = open_without_links(root).map_err(|error| {
            let hint = match error.kind() {
                io::ErrorKind::NotADirectory => "; a link may have come in the place of a folder on the way",
                _ => "",
            };
            failure_of(&error, format!("cannot open the workspace {}: {error}{hint}", root.display()))
        })?;
        let closed = |folder: &Path| closed(|name| folder.join(name).exists());
        if let Some((folder, why)) = root.ancestors().find_map(|folder| Some((folder, closed(folder)?))) {
            let (root, folder) = (root.display(), folder.display());
            return Err(structural(format!("no tool may use the workspace {root}: {folder} {why}")));
        }
        Ok(Workspace { root: root.clone(), dir })
    }

    /// The folder. Expects paths from [`Workspace::relative`].
    pub(super) fn dir(&self) -> &Dir {
        &self.dir
    }

    /// `path` relative to the workspace, without `.` and `..`; `.` for the workspace itself. An absolute path must lie within the
    /// workspace; a relative one must never climb above its start.
    pub(super) fn relative(&self, path: &str) -> Result<PathBuf, Failure> {
        let relative = self.within(path)?;
        self.guard(&relative)?;
        Ok(relative)
    }

    /// The same for a path that no tool opens, because a program does: it may lie in a folder that no tool may touch.
    pub(super) fn within(&self, path: &str) -> Result<PathBuf, Failure> {
        if path.len() > PATH_BYTES_MAX {
            return Err(structural(format!(
                "the path has {} bytes, and no system opens one of more than {PATH_BYTES_MAX}",
                path.len()
            )));
        }
        let given = Path::new(path);
        let inside = if given.is_absolute() {
            given.strip_prefix(&self.root).map_err(|_| self.outside(path))?
        } else if path.is_empty() {
            return Err(structural("the path is empty: `.` is the workspace itself"));
        } else {
            given
        };
        let mut relative = PathBuf::new();
        for component in inside.components() {
            match component {
                Component::Normal(name) => relative.push(name),
                Component::CurDir => {}
                Component::ParentDir if relative.pop() => {}
                Component::ParentDir | Component::RootDir | Component::Prefix(_) => {
                    return Err(self.outside(path));
                }
            }
        }
        Ok(if relative.as_os_str().is_empty() { PathBuf::from(".") } else { relative })
    }

    /// Refuses paths into a data folder, through any name or link. A plan must not access the records by which it is judged.
    fn guard(&self, relative: &Path) -> Result<(), Failure> {
        // Below what exists there is nothing yet; a folder that is made meanwhile is checked when it is opened.
        let Some((real, _)) = self.existing(relative) else { return Ok(()) };
        let mut above = PathBuf::new();
        for component in real.components() {
            above.push(component);
            if let Some(why) = self.closed(&above) {
                return Err(self.in_closed(relative, why));
            }
        }
        Ok(())
    }

    fn in_closed(&self, relative: &Path, why: Closed) -> Failure {
        let (path, root) = (relative.display(), self.root.display());
        structural(format!("{path} in {root}: it or a folder around it {why}"))
    }

    /// Opens a folder for writing, and makes what is missing of it. `real` has no links.
    pub(super) fn open_or_make(&self, real: &Path) -> Result<Dir, OpenRefusal> {
        self.open_each(real, true)
    }

    /// Opens a folder that exists. `real` has no links.
    pub(super) fn open_real(&self, real: &Path) -> Result<Dir, OpenRefusal> {
        self.open_each(real, false)
    }

    /// Each folder on the way is opened from the one before without following a link, and checked after it is open: a link or a
    /// folder that is swapped meanwhile leads nowhere else.
    fn open_each(&self, real: &Path, makes_missing: bool) -> Result<Dir, OpenRefusal> {
        let mut options = OpenOptions::new();
        let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW;
        options.read(true).custom_flags(flags.bits().cast_signed());
        let mut folder = self.dir.open_dir(".")?;
        for name in real.components().filter(|component| matches!(component, Component::Normal(_))) {
            let opened = match folder.open_with(name, &options) {
                Err(error) if makes_missing && error.kind() == io::ErrorKind::NotFound => {
                    match folder.create_dir(name) {
                        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                            return Err(error.into());
                        }
                        _ => folder.open_with(name, &options)?,
                    }
                }
                opened => opened?,
            };
            folder = Dir::from_std_file(opened.into_std());
            if let Some(why) = closed(|name| folder.exists(name)) {
                return Err(OpenRefusal::Closed(why));
            }
        }
        Ok(folder)
    }

    /// Failure for a folder on the way to `path`.
    pub(super) fn refusal(&self, path: &Path, refusal: OpenRefusal) -> Failure {
        match refusal {
            OpenRefusal::Closed(why) => self.in_closed(path, why),
            OpenRefusal::Io(error) => self.refused(path, error),
        }
    }

    /// Why no tool may touch a folder; `None`: tools may.
    pub(super) fn closed(&self, folder: &Path) -> Option<Closed> {
        closed(|name| self.dir.exists(folder.join(name)))
    }

    /// Refuses writes to Ostler's configuration files and to git's folder, which contains hooks.
    pub(super) fn guard_write(&self, relative: &Path) -> Result<(), Failure> {
        self.guard_name(relative, &self.real(relative))
    }

    /// Refuses guarded names in a path, and in the path without links.
    pub(super) fn guard_name(&self, relative: &Path, real: &Path) -> Result<(), Failure> {
        match [relative, real].iter().flat_map(|path| path.iter()).find(|name| is_guarded(name)) {
            None => Ok(()),
            Some(name) => Err(structural(format!(
                "{} in {} is not written by a plan: {} is guarded",
                relative.display(),
                self.root.display(),
                name.display()
            ))),
        }
    }

    /// Refuses a configuration of the process under any of its names. The folder is open, so no link leads elsewhere.
    pub(super) fn guard_config(
        &self,
        path: &Path,
        folder: &Dir,
        name: &Path,
        writes: &FileWrites,
    ) -> Result<(), Failure> {
        if !writes.is_config(folder, name) {
            return Ok(());
        }
        Err(structural(format!(
            "{} in {} is not written by a plan: it is the configuration of this process",
            path.display(),
            self.root.display()
        )))
    }

    /// Resolves links of the existing part of a path.
    pub(super) fn real(&self, relative: &Path) -> PathBuf {
        match self.existing(relative) {
            Some((real, part)) => real.join(relative.strip_prefix(part).unwrap_or(Path::new(""))),
            None => relative.to_owned(),
        }
    }

    /// The existing part of a path: without links, and as it is written.
    fn existing<'a>(&self, relative: &'a Path) -> Option<(PathBuf, &'a Path)> {
        relative.ancestors().find_map(|part| {
            let place = if part.as_os_str().is_empty() { Path::new(".") } else { part };
            Some((self.dir.canonicalize(place).ok()?, part))
        })
    }

    /// Opens a regular file for reading. Does not block on a pipe.
    pub(super) fn file(&self, path: &Path) -> Result<File, Failure> {
        let real = self.resolved(path)?;
        let (Some(name), folder) = (real.file_name(), real.parent().unwrap_or(Path::new(""))) else {
            return Err(self.irregular(path, "a folder"));
        };
        let folder = self.open_real(folder).map_err(|refusal| self.refusal(path, refusal))?;
        let mut options = OpenOptions::new();
        // Links were resolved above. A link here was created since, and its target is unchecked.
        let flags = OFlags::NONBLOCK | OFlags::NOFOLLOW;
        options.read(true).custom_flags(flags.bits().cast_signed());
        let file = folder.open_with(name, &options).map_err(|error| self.refused(path, error))?;
        let metadata = file.metadata().map_err(|error| self.refused(path, error))?;
        self.regular(path, &metadata)?;
        Ok(file)
    }

    pub(super) fn regular(&self, path: &Path, found: &Metadata) -> Result<(), Failure> {
        if found.is_file() {
            return Ok(());
        }
        Err(self.irregular(path, if found.is_dir() { "a folder" } else { "no regular file" }))
    }

    fn irregular(&self, path: &Path, kind: &str) -> Failure {
        structural(format!("{} in {} is {kind}", path.display(), self.root.display()))
    }

    /// Reads a regular file of at most `limit` bytes; `advice` completes the error message.
    pub(super) fn read(
        &self,
        path: &Path,
        limit: u64,
        advice: &str,
        cancel: &CancelFlag,
    ) -> Result<Vec<u8>, Failure> {
        let mut bytes = Vec::new();
        let mut file = self.file(path)?;
        loop {
            cancel.check()?;
            let mut piece = (&mut file).take(CHUNK_BYTES as u64);
            let read = piece.read_to_end(&mut bytes).map_err(|error| self.refused(path, error))?;
            if bytes.len() as u64 > limit {
                return Err(exhausted(format!("{} has more than {limit} bytes: {advice}", path.display())));
            }
            if read == 0 {
                return Ok(bytes);
            }
        }
    }

    /// Opens a folder. Its links are resolved before, and none is followed while it is opened.
    pub(super) fn folder(&self, path: &Path) -> Result<Dir, Failure> {
        self.open_real(&self.resolved(path)?).map_err(|refusal| self.refusal(path, refusal))
    }

    /// The path of an existing file or folder without links.
    pub(super) fn resolved(&self, path: &Path) -> Result<PathBuf, Failure> {
        self.dir.canonicalize(path).map_err(|error| self.refused(path, error))
    }

    /// Failure for a file system error.
    pub(super) fn refused(&self, path: impl AsRef<Path>, error: io::Error) -> Failure {
        let path = path.as_ref();
        if error.kind() == io::ErrorKind::PermissionDenied && error.raw_os_error().is_none() {
            return self.outside(path.display());
        }
        failure_of(&error, format!("{} in {}: {error}", path.display(), self.root.display()))
    }

    fn outside(&self, path: impl Display) -> Failure {
        let root = self.root.display();
        structural(format!("{path} leads out of the workspace {root}: only paths beneath it can be used"))
    }
}

/// Reasons against opening a folder.
#[derive(Debug)]
pub(super) enum OpenRefusal {
    Closed(Closed),
    Io(io::Error),
}

impl From<io::Error> for OpenRefusal {
    fn from(error: io::Error) -> OpenRefusal {
        OpenRefusal::Io(error)
    }
}

/// Failure with the category of a file system error.
fn failure_of(error: &io::Error, message: String) -> Failure {
    use io::ErrorKind as K;
    match error.kind() {
        K::StorageFull | K::QuotaExceeded | K::FileTooLarge => exhausted(message),
        K::Interrupted | K::TimedOut | K::ResourceBusy => transient(message),
        _ if is_out_of_resources(error) => transient(message),
        _ => structural(message),
    }
}

/// True if memory, processes or descriptors ran out.
pub(super) fn is_out_of_resources(error: &io::Error) -> bool {
    use io::ErrorKind as K;
    matches!(error.kind(), K::WouldBlock | K::OutOfMemory)
        || matches!(error.raw_os_error(), Some(EMFILE | ENFILE))
}

/// Bytes read or written between two checks of the cancel flag.
pub(super) const CHUNK_BYTES: usize = 256 << 10;

/// Longest path in bytes that a tool takes; systems open none that is longer.
pub(super) const PATH_BYTES_MAX: usize = 4_096;

/// Opens a folder from the root on, and follows no link: the path had none when the run was submitted, and a step of another run may
/// have put one there.
fn open_without_links(folder: &Path) -> io::Result<Dir> {
    let folder = std::path::absolute(folder)?;
    let on_the_way = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let names: Vec<&OsStr> = folder
        .components()
        .filter_map(|part| if let Component::Normal(name) = part { Some(name) } else { None })
        .collect();
    let mut at = openat(CWD, "/", on_the_way, Mode::empty())?;
    for name in names {
        at = openat(&at, name, on_the_way, Mode::empty())?;
    }
    let opened = openat(&at, ".", OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
    Ok(Dir::from_std_file(opened.into()))
}

/// Names that no plan may write, at any depth.
const GUARDED: [&str; 3] = [".git", ".ostler", "ostler.toml"];

/// True if no plan may write this name.
pub(crate) fn is_guarded(name: &OsStr) -> bool {
    GUARDED.iter().any(|guarded| name.eq_ignore_ascii_case(guarded))
}

/// Too many open files in the process or system; `std` has no `ErrorKind` for either.
const EMFILE: i32 = rustix::io::Errno::MFILE.raw_os_error();
const ENFILE: i32 = rustix::io::Errno::NFILE.raw_os_error();

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use expect_test::{Expect, expect};

    use super::*;

    #[test]
    fn a_workspace_that_cannot_be_opened_for_want_of_descriptors_is_tried_again() {
        use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
        // Runs in a process of its own, because the limit would affect other tests.
        const CHILD: &str = "OSTLER_TEST_WITHOUT_DESCRIPTORS";
        if std::env::var_os(CHILD).is_none() {
            let name = "tool::workspace::tests::a_workspace_that_cannot_be_opened_for_want_of_descriptors_is_tried_again";
            let mut again = std::process::Command::new(std::env::current_exe().unwrap());
            let output = again.args(["--exact", name, "--nocapture"]).env(CHILD, "1").output().unwrap();
            let said = String::from_utf8_lossy(&output.stdout);
            assert!(output.status.success() && said.contains("1 passed"), "{said}");
            return;
        }
        let root: Arc<Path> = tempfile::tempdir().unwrap().keep().into();
        let limit = getrlimit(Resource::Nofile);
        setrlimit(Resource::Nofile, Rlimit { current: Some(0), ..limit }).unwrap();
        let opened = Workspace::open(&root);
        setrlimit(Resource::Nofile, limit).unwrap();
        std::fs::remove_dir(&root).unwrap();
        let failure = opened.unwrap_err();
        assert_eq!(failure.category, ostler_kernel::run::FailureCategory::Transient, "{}", failure.message);
        let failure = Workspace::open(&root).unwrap_err();
        assert_eq!(failure.category, ostler_kernel::run::FailureCategory::Structural, "{}", failure.message);
    }

    fn check(path: &str, expected: Expect) {
        let root = tempfile::tempdir().unwrap();
        let outside = tempfile::tempdir().unwrap();
        std::fs::write(outside.path().join("secret"), "secret").unwrap();
        std::fs::create_dir(root.path().join("sub")).unwrap();
        std::fs::write(root.path().join("sub/in.txt"), "inside").unwrap();
        symlink(outside.path(), root.path().join("out")).unwrap();
        symlink(outside.path().join("secret"), root.path().join("sub/out.txt")).unwrap();
        symlink("../../..", root.path().join("sub/up")).unwrap();
        symlink("sub/in.txt", root.path().join("link")).unwrap();
        symlink("loop", root.path().join("loop")).unwrap();
        rustix::fs::mkfifoat(
            rustix::fs::CWD,
            root.path().join("pipe"),
            rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR,
        )
        .unwrap();

        let workspace = Workspace::open(&Arc::from(root.path())).unwrap();
        let path = path.replace("ROOT", root.path().to_str().unwrap());
        let read = workspace
            .relative(&path)
            .and_then(|path| workspace.read(&path, 6, "ask for less", &CancelFlag::default()));
        let shown = match read {
            Ok(bytes) => String::from_utf8(bytes).unwrap(),
            Err(failure) => format!("{}: {}", failure.category, failure.message),
        };
        expected.assert_eq(
            &shown
                .replace('\0', "\\0")
                .replace(root.path().to_str().unwrap(), "ROOT")
                .replace(outside.path().to_str().unwrap(), "OUT"),
        );
    }

    #[test]
    fn files_beneath_the_workspace_open_by_any_name() {
        check("sub/in.txt", expect!["inside"]);
        check("./sub//in.txt", expect!["inside"]);
        check("sub/../sub/in.txt", expect!["inside"]);
        check("ROOT/sub/in.txt", expect!["inside"]);
        check("link", expect!["inside"]);
    }

    #[test]
    fn a_link_in_the_place_of_the_workspace_or_of_a_folder_around_it_is_not_followed() {
        let around = tempfile::tempdir().unwrap();
        let around = around.path().canonicalize().unwrap();
        let (inner, private) = (around.join("outer/inner"), around.join("private"));
        std::fs::create_dir_all(&inner).unwrap();
        std::fs::create_dir_all(private.join("inner")).unwrap();
        assert!(Workspace::open(&Arc::from(&*inner)).is_ok());
        for swapped in ["outer/inner", "outer"] {
            let (at, kept) = (around.join(swapped), around.join("kept"));
            std::fs::rename(&at, &kept).unwrap();
            symlink(&private, &at).unwrap();
            let failure = Workspace::open(&Arc::from(&*inner)).unwrap_err();
            assert!(failure.message.contains("a link may have come"), "{}", failure.message);
            std::fs::remove_file(&at).unwrap();
            std::fs::rename(&kept, &at).unwrap();
        }
    }

    #[test]
    fn no_name_leads_into_a_data_folder_or_to_what_is_guarded() {
        let root = tempfile::tempdir().unwrap();
        for folder in ["data/journal", ".git/hooks", "plain"] {
            std::fs::create_dir_all(root.path().join(folder)).unwrap();
        }
        for file in ["data/format", "data/lock", "data/journal/1.seg", "ostler.toml"] {
            std::fs::write(root.path().join(file), "x").unwrap();
        }
        symlink("data/journal", root.path().join("link")).unwrap();
        symlink(".git", root.path().join("git")).unwrap();
        let workspace = Workspace::open(&Arc::from(root.path())).unwrap();
        let readable = |path: &str| workspace.relative(path).is_ok();
        for path in ["data", "data/lock", "data/journal/1.seg", "data/new", "link", "link/1.seg", "link/new"]
        {
            assert!(!readable(path), "{path}");
        }
        let writable =
            |path: &str| workspace.relative(path).and_then(|path| workspace.guard_write(&path)).is_ok();
        for path in [".git/hooks/pre-commit", "git/config", ".GIT/config", "ostler.toml", "plain/ostler.toml"]
        {
            assert!(readable(path) && !writable(path), "{path}");
        }
        for path in ["plain/a.txt", "new/b.txt", ".gitignore"] {
            assert!(writable(path), "{path}");
        }
    }

    #[test]
    fn no_name_leads_out() {
        check(
            "../secret",
            expect![
                "structural: ../secret leads out of the workspace ROOT: only paths beneath it can be used"
            ],
        );
        check(
            "sub/../../secret",
            expect![
                "structural: sub/../../secret leads out of the workspace ROOT: only paths beneath it can be used"
            ],
        );
        check(
            "/etc/passwd",
            expect![
                "structural: /etc/passwd leads out of the workspace ROOT: only paths beneath it can be used"
            ],
        );
        check(
            "ROOT/../x",
            expect![
                "structural: ROOT/../x leads out of the workspace ROOT: only paths beneath it can be used"
            ],
        );
        check(
            "ROOTx/y",
            expect!["structural: ROOTx/y leads out of the workspace ROOT: only paths beneath it can be used"],
        );
        check(
            "out/secret",
            expect![
                "structural: out/secret leads out of the workspace ROOT: only paths beneath it can be used"
            ],
        );
        check(
            "sub/out.txt",
            expect![
                "structural: sub/out.txt leads out of the workspace ROOT: only paths beneath it can be used"
            ],
        );
        check(
            "sub/up/etc/passwd",
            expect![
                "structural: sub/up/etc/passwd leads out of the workspace ROOT: only paths beneath it can be used"
            ],
        );
    }

    #[test]
    fn what_is_no_file_is_named() {
        check("", expect!["structural: the path is empty: `.` is the workspace itself"]);
        let long = "a/".repeat(1 << 19);
        check(
            &long,
            expect!["structural: the path has 1048576 bytes, and no system opens one of more than 4096"],
        );
        check(".", expect!["structural: . in ROOT is a folder"]);
        check("sub", expect!["structural: sub in ROOT is a folder"]);
        check("pipe", expect!["structural: pipe in ROOT is no regular file"]);
        check("loop", expect!["structural: loop in ROOT: Too many levels of symbolic links (os error 40)"]);
        check("missing", expect!["structural: missing in ROOT: No such file or directory (os error 2)"]);
        check("a\0b", expect![[r#"structural: a\0b in ROOT: Invalid argument (os error 22)"#]]);
        check("sub/in.txt/x", expect!["structural: sub/in.txt/x in ROOT: Not a directory (os error 20)"]);
    }
}
