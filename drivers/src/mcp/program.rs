//! The files that a server's command names or executes. They are pinned as the definitions of the tools are: other code under accepted
//! definitions is another server.

use std::fmt;
use std::path::{Path, PathBuf};

use ostler_kernel::port::NamedFile;

use super::config::McpConfig;
use super::definition::harmless;
use super::held;
use super::stamps::Stamps;
use crate::tool::{Naming, Way, is_as_read, lexical, named_files};

/// Bytes of a running program's files whose contents are compared before each call, the smallest files first. A file beyond is compared by
/// its size and times, which a store into a mapped page leaves as they are.
pub const MCP_CALL_BYTES_MAX: u64 = 8 << 20;

/// The files of a server's program, as they were when they were read.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct ProgramFiles {
    /// The files, by path: from the folder of the configuration, or absolute.
    pub(super) files: Vec<NamedFile>,
    stamps: Stamps,
    /// The folder of the configuration.
    folder: PathBuf,
}

impl ProgramFiles {
    /// Reads the files that the command of a server names; none for a server at an address.
    pub(super) async fn read(config: &McpConfig, folder: &Path) -> ProgramFiles {
        if config.command.is_empty() {
            return ProgramFiles::default();
        }
        let folder = folder.canonicalize().unwrap_or_else(|_| folder.to_owned());
        let naming = Naming {
            argv: config.command.clone(),
            stdin: None,
            cwd: folder.to_str().map(str::to_owned),
            written: vec![folder.clone()],
            hidden: Vec::new(),
        };
        // A command may name files anywhere.
        let mut files = named_files(|| naming, Path::new("/").into()).await;
        let may_change: Vec<PathBuf> =
            config.may_change.iter().map(|path| placed(&folder, &from_folder(&folder, path))).collect();
        files.retain(|file| {
            let path = placed(&folder, &Path::new("/").join(&file.path));
            !may_change.iter().any(|may_change| path.starts_with(may_change))
        });
        // After the digests: a file that changes in between has another digest, or another stamp, at the next look.
        let stamps = Stamps::of(files.iter().map(|file| Path::new("/").join(&file.path)));
        for file in &mut files {
            let path = Path::new("/").join(&file.path);
            let shown = path.strip_prefix(&folder).unwrap_or(&path);
            file.path = shown.to_string_lossy().into_owned();
        }
        ProgramFiles { files, stamps, folder }
    }

    /// The files that changed from `self` to `now`, also if their contents are the same again, for a message; `None` if nothing did.
    pub(super) fn changed(&self, now: &ProgramFiles) -> Option<String> {
        let files = held::changed(&self.files, &now.files);
        files.or_else(|| self.stamps.changed(&now.stamps, &self.folder).map(str::to_owned))
    }

    /// True if a file was written or replaced since, whatever its content is now, or a link or a folder on the way to it was replaced, or
    /// if a small file has another content, whatever its times are. May block.
    pub(super) fn is_touched(&self) -> bool {
        self.stamps.is_touched() || !self.has_same_contents()
    }

    fn has_same_contents(&self) -> bool {
        let mut files: Vec<&NamedFile> = self.files.iter().collect();
        files.sort_by_key(|file| file.bytes);
        let mut left = MCP_CALL_BYTES_MAX;
        for file in files {
            let path = self.folder.join(&file.path);
            // A pattern with many files has no path.
            if file.bytes >= left || Way::of(&path).real.symlink_metadata().is_err() {
                continue;
            }
            if !is_as_read(&path, file, &mut left) {
                return false;
            }
        }
        true
    }

    /// The first file that nothing can be bound to, with the reason, for a message; `None` if all can be compared.
    pub(super) fn unbound(files: &[NamedFile]) -> Option<String> {
        files.iter().find_map(|file| Some(format!("{} {}", file.path, file.unbound.as_ref()?)))
    }
}

impl McpConfig {
    /// The files that words of the command name, and that may not change. `folder`: that of the configuration.
    pub fn pinned_files(&self, folder: &Path) -> Vec<PathBuf> {
        let folder = folder.canonicalize().unwrap_or_else(|_| folder.to_owned());
        let place = |path: &Path| placed(&folder, &from_folder(&folder, path));
        let may_change: Vec<PathBuf> = self.may_change.iter().map(|path| place(path)).collect();
        let named = self.command.iter().map(|word| place(Path::new(word)));
        let is_pinned =
            |path: &PathBuf| path.is_file() && !may_change.iter().any(|free| path.starts_with(free));
        named.filter(is_pinned).collect()
    }

    /// The folders that the server may write. `folder`: that of the configuration.
    pub fn written_folders(&self, folder: &Path) -> Vec<PathBuf> {
        self.write.iter().map(|path| from_folder(folder, path)).collect()
    }
}

/// A path of `may_change`, or a word of the command, as it is written.
fn from_folder(folder: &Path, given: &Path) -> PathBuf {
    match (given.strip_prefix("~"), std::env::home_dir()) {
        (Ok(rest), Some(home)) => home.join(rest),
        _ => folder.join(given),
    }
}

/// A path without links, except those below the folder of the configuration, which a step may have made: a link in the place of a
/// database that may change does not free the file behind it.
fn placed(folder: &Path, path: &Path) -> PathBuf {
    let path = lexical(path);
    let is_folder = |above: &&Path| above.canonicalize().is_ok_and(|real| real == *folder);
    match path.ancestors().filter(is_folder).last().and_then(|above| path.strip_prefix(above).ok()) {
        Some(below) => folder.join(below),
        None => path.canonicalize().unwrap_or(path),
    }
}

/// Difference between an accepted file of a server's program and the present one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FileDifference {
    /// A file that is not accepted.
    Added(NamedFile),
    /// An accepted file with another content now.
    Changed {
        /// The accepted file.
        accepted: NamedFile,
        /// The present file.
        now: NamedFile,
    },
    /// An accepted file that is gone, or that the command no longer names.
    Removed(NamedFile),
}

impl FileDifference {
    /// Differences of two lists, by path, in the order of the paths.
    pub fn between(accepted: &[NamedFile], now: &[NamedFile]) -> Vec<FileDifference> {
        let find = |among: &[NamedFile], path: &str| among.iter().find(|file| file.path == path).cloned();
        let mut found: Vec<FileDifference> = now
            .iter()
            .filter_map(|file| match find(accepted, &file.path) {
                None => Some(FileDifference::Added(file.clone())),
                Some(known) if known.digest == file.digest => None,
                Some(known) => Some(FileDifference::Changed { accepted: known, now: file.clone() }),
            })
            .collect();
        let gone = accepted.iter().filter(|file| find(now, &file.path).is_none());
        found.extend(gone.cloned().map(FileDifference::Removed));
        found.sort_by(|one, other| one.path().cmp(other.path()));
        found
    }

    /// Path of the file.
    pub fn path(&self) -> &str {
        match self {
            FileDifference::Added(file) | FileDifference::Removed(file) => &file.path,
            FileDifference::Changed { accepted, .. } => &accepted.path,
        }
    }
}

impl fmt::Display for FileDifference {
    /// Writes the lines that went after `-` and those that came after `+`, or the digests where a text is long or none.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let empty = |file: &NamedFile| NamedFile { text: Some(String::new()), ..file.clone() };
        let (before, after, word) = match self {
            FileDifference::Added(file) => (None, Some(file), "added"),
            FileDifference::Removed(file) => (Some(file), None, "removed"),
            FileDifference::Changed { accepted, now } => (Some(accepted), Some(now), "changed"),
        };
        write!(f, "{} ({word})", harmless(self.path()))?;
        let lines = match (before, after) {
            (Some(before), Some(after)) => after.difference(before),
            (None, Some(after)) => after.difference(&empty(after)),
            (Some(before), None) => empty(before).difference(before),
            (None, None) => None,
        };
        for (sign, file) in [('-', before), ('+', after)] {
            if let Some(file) = file {
                write!(f, "\n  {sign} {}, {} bytes", file.digest, file.bytes)?;
            }
        }
        lines.into_iter().flatten().try_for_each(|line| write!(f, "\n    {line}"))
    }
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;

    fn file(path: &str, text: Option<&str>) -> NamedFile {
        let bytes = text.unwrap_or("a long one").as_bytes();
        let digest = ostler_kernel::lineage::hash("test", &[bytes]);
        NamedFile {
            path: path.to_owned(),
            digest,
            bytes: bytes.len() as u64,
            text: text.map(str::to_owned),
            unbound: None,
            by_word: true,
        }
    }

    #[test]
    fn a_difference_shows_the_lines_of_texts_and_the_digests_of_all() {
        let accepted = [file("a.py", Some("1\n2\n")), file("gone.py", Some("x")), file("same.py", None)];
        let now = [file("a.py", Some("1\n3\n")), file("bin", None), file("same.py", None)];
        let found = FileDifference::between(&accepted, &now);
        let shown: Vec<String> = found.iter().map(ToString::to_string).collect();
        let digest = |file: &NamedFile| file.digest.to_string();
        let text = shown.join("\n");
        let text = text.replace(&digest(&accepted[0]), "ONE").replace(&digest(&now[0]), "TWO");
        let text = text.replace(&digest(&accepted[1]), "GONE").replace(&digest(&now[1]), "BIN");
        expect![[r#"
            a.py (changed)
              - ONE, 4 bytes
              + TWO, 4 bytes
                -2
                +3
            bin (added)
              + BIN, 10 bytes
            gone.py (removed)
              - GONE, 1 bytes
                -x"#]]
        .assert_eq(&text);
        let named = FileDifference::between(&[], &[file("a\n  + b", None)]);
        assert!(named[0].to_string().starts_with("a\u{fffd}  + b (added)\n"), "a name is one line");
    }
    /// A program that mapped a file and wrote to the page before changes the file later without a trace in its times.
    const MAPPED: &str = "import mmap, sys\n\
        file = open('handler.py', 'r+b')\n\
        page = mmap.mmap(file.fileno(), 0)\n\
        page[:] = b'kind'\n\
        print('ready', flush=True)\n\
        sys.stdin.readline()\n\
        page[:] = b'evil'\n\
        print('done.', flush=True)\n\
        sys.stdin.readline()\n";

    #[tokio::test]
    async fn a_store_into_a_mapped_page_of_a_running_program_shows() {
        use std::io::{Read, Write};
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("handler.py"), "kind").unwrap();
        let mut python = std::process::Command::new("python3");
        python.args(["-c", MAPPED]).current_dir(folder.path());
        let piped = std::process::Stdio::piped;
        let mut holder = python.stdin(piped()).stdout(piped()).spawn().unwrap();
        let (mut told, mut said) = (holder.stdin.take().unwrap(), holder.stdout.take().unwrap());
        let mut line = [0; 6];
        said.read_exact(&mut line).unwrap();
        let config: McpConfig = toml::from_str("command = [\"python3\", \"handler.py\"]").unwrap();
        let program = ProgramFiles::read(&config, folder.path()).await;
        assert_eq!((program.files.len(), program.is_touched()), (1, false));
        told.write_all(b"\n").unwrap();
        said.read_exact(&mut line).unwrap();
        assert!(program.is_touched(), "other code, whatever the times are");
        drop(told);
        holder.wait().unwrap();
    }

    #[tokio::test]
    async fn a_file_deeper_than_any_path_is_not_bound() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        let [first, second] = ["a", "b"].map(|letter| vec![letter.repeat(250); 9].join("/"));
        for (folder, below, link) in [(root.to_owned(), first, "l1"), (root.join("l1"), second, "l2")] {
            std::fs::create_dir_all(folder.join(&below)).unwrap();
            std::os::unix::fs::symlink(below, folder.join(link)).unwrap();
        }
        std::fs::write(root.join("l1/l2/server.sh"), "").unwrap();
        let config: McpConfig = toml::from_str("command = [\"sh\", \"l1/l2/server.sh\"]").unwrap();
        let program = ProgramFiles::read(&config, root).await;
        let told = ProgramFiles::unbound(&program.files);
        assert!(told.is_some_and(|told| told.ends_with("lies deeper than any path names")));
    }
}
