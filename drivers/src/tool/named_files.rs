//! Reads the files that a program call names, so that an approval can be bound to them, and the acceptance of an MCP server.

use std::collections::BTreeSet;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use cap_std::fs::{File, Metadata, MetadataExt};
use ostler_kernel::event::Failure;
use ostler_kernel::gate::{NamedPaths, named_paths};
use ostler_kernel::lineage;
use ostler_kernel::port::{NAMED_TEXT_BYTES_MAX, NamedFile};

use super::blocking_tool::{CancelFlag, off_runtime};
use super::process::program_file;
use super::workspace::{CHUNK_BYTES, PATH_BYTES_MAX, Workspace};

/// Bytes that are read for one call of a tool.
pub(super) const READ_BYTES_MAX: u64 = 64 << 20;

/// Bytes of texts that are kept for one call.
const TEXTS_BYTES_MAX: usize = 64 << 10;

/// Bytes of the longest standard input whose words count as words of the call: a shell runs it.
const STDIN_BYTES_MAX: usize = 1 << 20;

/// Files that may hold secrets: a change shows, but the text is not kept.
const PRIVATE: [&str; 9] = [
    ".git/config",
    ".git/config.worktree",
    ".hg/hgrc",
    ".npmrc",
    ".yarnrc",
    ".yarnrc.yml",
    ".env",
    ".envrc",
    "gradle.properties",
];

/// Files that are looked for in the folders of one call: named ones, those of modules, and those by convention.
const SOUGHT_MAX: usize = 50_000;

/// What a call goes by, as far as its parameters say.
pub(crate) struct Naming {
    pub argv: Vec<String>,
    pub stdin: Option<String>,
    /// The folder of the call, below the workspace.
    pub cwd: Option<String>,
    /// See [`Program::distrusted`](super::process::Program).
    pub distrusted: Vec<PathBuf>,
    /// The program counts if the search path finds it below this folder.
    pub searched_below: Arc<Path>,
    /// Bytes that are read. A file beyond is bound by its size and times, which no program can set back.
    pub read_bytes_max: u64,
}

/// The regular files below the workspace that a call names, by path: the program too, if the search path finds it there. A link that
/// leads out of the workspace is bound by where it leads.
pub(crate) async fn named_files(naming: Naming, root: Arc<Path>) -> Vec<NamedFile> {
    let found = off_runtime(move |cancel| {
        let Naming { argv, stdin, cwd, distrusted, searched_below, read_bytes_max } = naming;
        let program = argv.first().map(|name| program_file(name, &distrusted));
        let stdin = stdin.filter(|text| text.len() <= STDIN_BYTES_MAX);
        let words: Vec<String> = argv.into_iter().chain(stdin).collect();
        let mut named = named_paths(&words);
        named.paths.extend(program.and_then(|file| in_folder(&searched_below, &file)));
        let workspace = Workspace::open(&root)?;
        let here = cwd.map_or_else(|| Ok(PathBuf::from(".")), |cwd| workspace.relative(&cwd))?;
        read(&workspace, &root, &here, &named, read_bytes_max, cancel)
    });
    // The call itself tells what is wrong with its folder.
    found.await.unwrap_or_default()
}

fn read(
    workspace: &Workspace,
    root: &Path,
    here: &Path,
    named: &NamedPaths,
    bytes_max: u64,
    cancel: &CancelFlag,
) -> Result<Vec<NamedFile>, Failure> {
    let mut folders = BTreeSet::new();
    // Programs look for such files in the folders above as well.
    let mut search = |folder: &Path| folders.extend(folder.ancestors().map(Path::to_owned));
    search(&plain(here));
    let mut files: BTreeSet<PathBuf> = BTreeSet::new();
    // Nearly every word names nothing, so the system is asked once for each before anything else is done. It follows a link that
    // leads out of the workspace and perhaps back.
    let found = |path: &Path| std::fs::metadata(root.join(path)).ok();
    for path in named.paths.iter().filter(|path| path.len() <= PATH_BYTES_MAX) {
        cancel.check()?;
        // A path that leads out of the workspace is not the plan's to change.
        let Some(path) = below(root, here, path) else { continue };
        match found(&path) {
            Some(found) if found.is_dir() => search(&path),
            Some(_) => drop(files.insert(path)),
            None => {}
        }
    }
    let names = named.conventional.iter().map(ToString::to_string);
    let names = names.chain(named.paths.iter().cloned()).chain(named.modules());
    let names: Vec<String> = names.filter(|name| name.len() <= PATH_BYTES_MAX).take(SOUGHT_MAX).collect();
    let sought = folders.iter().flat_map(|folder| names.iter().map(move |name| folder.join(name)));
    for path in sought.take(SOUGHT_MAX).filter_map(|path| climb(&path)) {
        cancel.check()?;
        if found(&path).is_some_and(|found| found.is_file()) {
            files.insert(path);
        }
    }
    let (mut left, mut text_left, mut read) = (bytes_max, TEXTS_BYTES_MAX, Vec::new());
    for path in files {
        cancel.check()?;
        let mut file = match opened(workspace, &path) {
            Some(file) => digested(&path, file, &mut left),
            None => behind_link(workspace, root, &path, &mut left),
        };
        if let Some(file) = &mut file {
            file.text.take_if(|text| text.len() > text_left);
            text_left -= file.text.as_ref().map_or(0, String::len);
        }
        read.extend(file);
    }
    Ok(read)
}

fn opened(workspace: &Workspace, path: &Path) -> Option<File> {
    let relative = workspace.relative(path.to_str()?).ok()?;
    workspace.file(&relative).ok()
}

/// The file that a program finds behind a link that no tool follows, because it is absolute or leads out of the workspace. A file
/// outside is not the plan's to change, and the link is: it is bound by where it leads.
fn behind_link(workspace: &Workspace, root: &Path, path: &Path, left: &mut u64) -> Option<NamedFile> {
    let real = root.join(path).canonicalize().ok()?;
    if let Ok(within) = real.strip_prefix(root.canonicalize().ok()?) {
        return digested(path, opened(workspace, within)?, left);
    }
    let bytes = real.metadata().ok().filter(std::fs::Metadata::is_file)?.len();
    let digest = lineage::hash("aos/file-link/1", &[real.as_os_str().as_bytes()]);
    Some(NamedFile { path: path.to_str()?.to_owned(), digest, bytes, text: None })
}

/// The path of a named file below the workspace, without `.` and `..`; `None` if it leads out.
fn below(root: &Path, here: &Path, path: &str) -> Option<PathBuf> {
    let path = Path::new(path);
    if path.is_absolute() { path.strip_prefix(root).ok().map(plain) } else { climb(&here.join(path)) }
}

/// A file in a folder of the search path, named from this folder; `None` if it lies elsewhere.
fn in_folder(root: &Path, file: &Path) -> Option<String> {
    let folder = file.parent().filter(|_| file.is_absolute())?.canonicalize().ok()?;
    let below = folder.strip_prefix(root.canonicalize().ok()?).ok()?;
    Some(root.join(below).join(file.file_name()?).to_str()?.to_owned())
}

fn climb(path: &Path) -> Option<PathBuf> {
    let mut plain = PathBuf::new();
    for component in path.components() {
        match component {
            Component::Normal(name) => plain.push(name),
            Component::CurDir => {}
            Component::ParentDir if plain.pop() => {}
            Component::ParentDir | Component::RootDir | Component::Prefix(_) => return None,
        }
    }
    Some(plain)
}

fn plain(path: &Path) -> PathBuf {
    climb(path).unwrap_or_default()
}

/// A file that cannot be read is bound to nothing: the program cannot read it either.
fn digested(path: &Path, mut file: File, left: &mut u64) -> Option<NamedFile> {
    let meta = file.metadata().ok()?;
    let path = path.to_str()?.to_owned();
    if meta.len() > *left {
        return Some(stamped(path, &meta));
    }
    let (mut hasher, mut start, mut bytes) = (blake3::Hasher::new(), Vec::new(), 0);
    let mut piece = vec![0; CHUNK_BYTES];
    loop {
        let read = file.read(&mut piece).ok()?;
        if read == 0 {
            break;
        }
        hasher.update(&piece[..read]);
        bytes += read as u64;
        if start.len() <= NAMED_TEXT_BYTES_MAX {
            start.extend_from_slice(&piece[..read.min(NAMED_TEXT_BYTES_MAX + 1 - start.len())]);
        }
        *left = left.saturating_sub(read as u64);
        if *left == 0 {
            return Some(stamped(path, &file.metadata().ok()?));
        }
    }
    let is_private = PRIVATE.iter().any(|private| Path::new(&path).ends_with(private));
    let text = Some(start).filter(|start| !is_private && start.len() <= NAMED_TEXT_BYTES_MAX);
    let text = text.and_then(|start| String::from_utf8(start).ok());
    let digest = ostler_kernel::id::Digest(*hasher.finalize().as_bytes());
    Some(NamedFile { path, digest, bytes, text })
}

fn stamped(path: String, meta: &Metadata) -> NamedFile {
    let stamp = [meta.dev(), meta.ino(), meta.len()].map(u64::to_le_bytes).concat();
    let times =
        [meta.ctime(), meta.ctime_nsec(), meta.mtime(), meta.mtime_nsec()].map(i64::to_le_bytes).concat();
    let digest = lineage::hash("aos/file-stamp/1", &[&stamp, &times]);
    NamedFile { path, digest, bytes: meta.len(), text: None }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn naming(argv: Vec<String>, stdin: Option<String>, cwd: Option<String>, root: &Path) -> Naming {
        let (searched_below, read_bytes_max) = (root.into(), READ_BYTES_MAX);
        Naming { argv, stdin, cwd, distrusted: Vec::new(), searched_below, read_bytes_max }
    }

    async fn names(root: &Path, argv: &[&str], cwd: Option<&str>) -> Vec<NamedFile> {
        let argv = argv.iter().map(ToString::to_string).collect();
        let cwd = cwd.map(str::to_owned);
        named_files(naming(argv, None, cwd, root), root.into()).await
    }

    #[tokio::test]
    async fn files_are_named_with_their_contents_and_only_below_the_workspace() {
        let folder = tempfile::tempdir().expect("a folder");
        let root = folder.path().join("work");
        std::fs::create_dir_all(root.join("lib")).expect("a folder");
        for (name, text) in [
            ("work/Makefile", "all:\n"),
            ("work/lib/makefile", "lib:\n"),
            ("work/run.sh", "x"),
            ("out.sh", "y"),
        ] {
            std::fs::write(folder.path().join(name), text).expect("it is written");
        }
        std::os::unix::fs::symlink(folder.path().join("out.sh"), root.join("link.sh")).expect("a link");
        let paths = |files: Vec<NamedFile>| files.into_iter().map(|file| file.path).collect::<Vec<_>>();
        assert_eq!(paths(names(&root, &["make", "-C", "lib"], None).await), ["Makefile", "lib/makefile"]);
        assert_eq!(paths(names(&root, &["make"], Some("lib")).await), ["Makefile", "lib/makefile"]);
        assert_eq!(paths(names(&root, &["sh", "../run.sh"], Some("lib")).await), ["run.sh"]);
        let absolute = root.join("run.sh");
        let absolute = absolute.to_str().expect("UTF-8");
        assert_eq!(paths(names(&root, &["sh", "-c", &format!(". {absolute}")], None).await), ["run.sh"]);
        for outside in ["../out.sh", "/etc/passwd", "lib"] {
            assert_eq!(names(&root, &["cat", outside], None).await, [], "{outside}");
        }
        let fed = |text: &str| naming(vec!["sh".to_owned()], Some(text.to_owned()), None, &root);
        std::fs::write(root.join("lib/own.sh"), "").expect("it is written");
        let code = "./run.sh\ncd lib; ./own.sh";
        assert_eq!(paths(named_files(fed(code), root.as_path().into()).await), ["lib/own.sh", "run.sh"]);
        let long = format!("./run.sh{}", " ".repeat(STDIN_BYTES_MAX));
        assert_eq!(named_files(fed(&long), root.as_path().into()).await, []);
        let before = names(&root, &["./run.sh"], None).await;
        assert_eq!((before[0].text.as_deref(), before[0].bytes), (Some("x"), 1));
        std::fs::write(root.join("run.sh"), "z".repeat(NAMED_TEXT_BYTES_MAX + 1)).expect("it is written");
        let after = names(&root, &["./run.sh"], None).await;
        assert_ne!(before[0].digest, after[0].digest);
        assert_eq!(after[0].text, None);
    }

    /// A link is the plan's to change, also one that no tool follows.
    #[tokio::test]
    async fn a_link_is_bound_to_what_a_program_finds_behind_it() {
        let folder = tempfile::tempdir().expect("a folder");
        let root = folder.path().join("work");
        std::fs::create_dir_all(root.join("lib")).expect("a folder");
        let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).expect("written");
        for name in ["out.sh", "more.sh", "work/in.sh", "work/lib/run.sh"] {
            write(name, "1");
        }
        let link = |target: &Path| {
            let _ = std::fs::remove_file(root.join("run.sh"));
            std::os::unix::fs::symlink(target, root.join("run.sh")).expect("a link");
        };
        let run = async || names(&root, &["sh", "run.sh"], None).await;
        link(&folder.path().join("out.sh"));
        let out = run().await;
        assert_eq!((&*out[0].path, out[0].text.as_deref()), ("run.sh", None), "what is outside is not shown");
        write("out.sh", "2");
        assert_eq!(run().await, out, "a file outside is not the plan's to change");
        link(&folder.path().join("more.sh"));
        assert_ne!(run().await, out);
        // An absolute link back into the workspace.
        link(&root.join("in.sh"));
        let within = run().await;
        assert_eq!(within[0].text.as_deref(), Some("1"));
        write("work/in.sh", "2");
        assert_ne!(run().await, within);
        std::fs::remove_file(root.join("run.sh")).expect("removed");
        std::os::unix::fs::symlink(root.join("lib"), root.join("linked")).expect("a link");
        let before = names(&root, &["make", "-C", "linked", "run.sh"], None).await;
        assert_eq!(before.iter().map(|file| &*file.path).collect::<Vec<_>>(), ["linked/run.sh"]);
        write("work/lib/run.sh", "2");
        assert_ne!(names(&root, &["make", "-C", "linked", "run.sh"], None).await, before);
    }

    #[tokio::test]
    async fn modules_are_found_in_the_folders_that_a_call_names() {
        let folder = tempfile::tempdir().expect("a folder");
        let root = folder.path();
        std::fs::create_dir_all(root.join("src/pkg")).expect("a folder");
        for file in ["tool.py", "src/tool.py", "src/pkg/__init__.py", "src/pkg/go.py"] {
            std::fs::write(root.join(file), "").expect("it is written");
        }
        let many = (0..SOUGHT_MAX / 10).map(|at| format!("w{at}")).collect::<Vec<_>>().join(" ");
        for (argv, expected) in [
            (&["python3", "-m", "tool"][..], &["tool.py"][..]),
            (&["env", "PYTHONPATH=src", "python3", "-mtool"], &["src/tool.py", "tool.py"]),
            (
                &["env", "PYTHONPATH=src", "python3", "-m", "pkg.go"],
                &["src/pkg/__init__.py", "src/pkg/go.py"],
            ),
            (&["python3", "-m", "other"], &[]),
            // A word that is longer than a path names no file.
            (&["cat", &"a/".repeat(1 << 19), "tool.py"], &["tool.py"]),
            // Beyond the limit only files that a word names as they are.
            (&["sh", "-c", &format!("{many}; ./tool.py; python3 -m pkg.go")], &["tool.py"]),
        ] {
            let found = names(root, argv, None).await;
            assert_eq!(found.iter().map(|file| file.path.as_str()).collect::<Vec<_>>(), expected);
        }
    }

    #[test]
    fn a_file_beyond_what_is_read_is_bound_by_its_times() {
        let folder = tempfile::tempdir().expect("a folder");
        let dir = cap_std::fs::Dir::open_ambient_dir(folder.path(), cap_std::ambient_authority())
            .expect("it opens");
        let stamp = |left: &mut u64| {
            let file = dir.open("big").expect("it opens");
            digested(Path::new("big"), file, left).expect("it is read")
        };
        std::fs::write(folder.path().join("big"), "12345").expect("it is written");
        let first = stamp(&mut 4);
        assert_eq!(first, stamp(&mut 4));
        assert_ne!(first.digest, stamp(&mut 100).digest);
        std::fs::write(folder.path().join("big"), "123456").expect("it is written");
        assert_ne!(first.digest, stamp(&mut 4).digest);
    }

    #[tokio::test]
    async fn what_git_goes_by_is_named_also_from_a_folder_below_and_its_text_is_not_kept() {
        let folder = tempfile::tempdir().expect("a folder");
        let root = folder.path();
        std::fs::create_dir_all(root.join(".git/hooks")).expect("a folder");
        std::fs::create_dir_all(root.join("lib")).expect("a folder");
        for name in [".git/config", ".git/hooks/pre-push", ".git/HEAD", ".gitattributes"] {
            std::fs::write(root.join(name), "secret").expect("it is written");
        }
        let named = names(root, &["git", "push"], Some("lib")).await;
        let told: Vec<_> = named.iter().map(|file| (file.path.as_str(), file.text.is_some())).collect();
        let expected = [(".git/config", false), (".git/hooks/pre-push", true), (".gitattributes", true)];
        assert_eq!(told, expected);
    }
}
