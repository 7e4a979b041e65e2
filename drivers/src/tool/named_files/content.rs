//! Reads a named file: the digest of its content, or of the place outside that it leads to, or why nothing can be bound to it.

use std::collections::BTreeSet;
use std::fs::{File, Metadata};
use std::hash::{BuildHasher, RandomState};
use std::io::{self, ErrorKind, Read};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use ostler_kernel::event::Failure;
use ostler_kernel::id::Digest;
use ostler_kernel::lineage;
use ostler_kernel::port::{NAMED_TEXT_BYTES_MAX, NamedFile};
use rustix::fs::OFlags;

use super::NAMED_FILES_BYTES_MAX;
use super::places::is_within;
use super::way::Way;
use crate::tool::blocking_tool::CancelFlag;
use crate::tool::workspace::{CHUNK_BYTES, Workspace};

/// Bytes of texts that are kept for one call.
const TEXTS_BYTES_MAX: usize = 64 << 10;

/// Files that may hold secrets: a change shows, but the text is not kept. Settings of git are `config` in any folder.
const PRIVATE: [&str; 16] = [
    "config",
    "config.worktree",
    ".gitconfig",
    ".hg/hgrc",
    ".npmrc",
    ".yarnrc",
    ".yarnrc.yml",
    ".env",
    ".envrc",
    ".flaskenv",
    "gradle.properties",
    ".netrc",
    ".pypirc",
    ".htpasswd",
    ".dockercfg",
    ".docker/config.json",
];

/// Parts of names of files that may hold secrets.
const PRIVATE_PARTS: [&str; 18] = [
    ".env.",
    "credential",
    "secret",
    "passw",
    "pgpass",
    "-token",
    "token.txt",
    "kubeconfig",
    "service-account",
    "service_account",
    "id_rsa",
    "id_dsa",
    "id_ecdsa",
    "id_ed25519",
    ".pem",
    ".p12",
    ".key",
    ".tfvars",
];

fn is_private(name: &str) -> bool {
    let path = Path::new(name);
    let file = path.file_name().map(|file| file.to_string_lossy().to_ascii_lowercase()).unwrap_or_default();
    PRIVATE.iter().any(|private| path.ends_with(private))
        || PRIVATE_PARTS.iter().any(|part| file.contains(part))
}

/// Reads files of one call, within its limits.
pub(super) struct Reader<'a> {
    pub(super) workspace: &'a Workspace,
    pub(super) root: &'a Path,
    /// Folders that steps may write, without links.
    written: &'a BTreeSet<PathBuf>,
    /// Folders that the program does not see, without links.
    hidden: &'a [PathBuf],
    cancel: &'a CancelFlag,
    bytes_left: u64,
    text_left: usize,
}

impl<'a> Reader<'a> {
    pub(super) fn new(
        workspace: &'a Workspace,
        root: &'a Path,
        written: &'a BTreeSet<PathBuf>,
        hidden: &'a [PathBuf],
        cancel: &'a CancelFlag,
    ) -> Reader<'a> {
        Reader {
            workspace,
            root,
            written,
            hidden,
            cancel,
            bytes_left: NAMED_FILES_BYTES_MAX,
            text_left: TEXTS_BYTES_MAX,
        }
    }

    /// Reads a file; `None` if there is none, a folder, or one that the program does not see. The second value is the start of the content.
    pub(super) fn read(&mut self, path: &Path) -> Option<(NamedFile, Vec<u8>)> {
        let (mut file, start) = self.find(path)?;
        file.text.take_if(|text| text.len() > self.text_left);
        self.text_left -= file.text.as_ref().map_or(0, String::len);
        Some((file, start))
    }

    /// Reads many files as one, by the name of a pattern. It holds if each of them does.
    pub(super) fn read_together(&mut self, name: &Path, paths: &[PathBuf]) -> Result<NamedFile, Failure> {
        let (mut bytes, mut unbound, mut digests) = (0, None, Vec::new());
        for path in paths {
            self.cancel.check()?;
            let file = self.find(path).map(|(file, _)| file);
            let digest = file.as_ref().map_or([0; 32], |file| file.digest.0);
            digests.push([path.as_os_str().as_bytes(), &[0], &digest].concat());
            bytes += file.as_ref().map_or(0, |file| file.bytes);
            let why =
                file.and_then(|file| Some(format!("stands for {}, which {}", file.path, file.unbound?)));
            unbound = unbound.or(why);
        }
        let digests: Vec<&[u8]> = digests.iter().map(Vec::as_slice).collect();
        let digest = lineage::hash("aos/file-matches/1", &digests);
        Ok(NamedFile { path: shown(name), digest, bytes, text: None, unbound, by_word: false })
    }

    fn find(&mut self, path: &Path) -> Option<(NamedFile, Vec<u8>)> {
        let way = Way::below(self.root, path);
        let name = shown(path);
        let alone = |file: NamedFile| Some((file, Vec::new()));
        if let Some(why) = way.lost {
            return alone(unbound(name, why));
        }
        let is_written = is_within(&way.real, self.written);
        let within = way.real.strip_prefix(self.root).ok();
        let meta = match way.real.symlink_metadata() {
            Ok(meta) if meta.is_dir() => return None,
            Ok(meta) => meta,
            Err(error) if is_missing(&error) => return None,
            // The folder cannot be looked through, by the program neither. No step opens one that lies elsewhere.
            Err(error) if is_forbidden(&error) && !is_written => {
                return within.is_none().then(|| (led(name, &way.real, 0), Vec::new()));
            }
            Err(error) => return alone(unbound(name, &not_now(&error))),
        };
        if !meta.is_file() {
            // A pipe holds whatever somebody writes to it by then. Elsewhere nothing is a step's to replace.
            return match kind(&meta) {
                Some(kind) if is_written || meta.file_type().is_fifo() => {
                    alone(unbound(name, &format!("is {kind}: its content is not bound")))
                }
                _ if within.is_none() => alone(led(name, &way.real, meta.len())),
                _ => None,
            };
        }
        // The cage hides data folders, and not every folder that looks like one.
        let is_closed =
            |within: &Path| within.ancestors().skip(1).any(|folder| self.workspace.closed(folder).is_some());
        if self.hidden.iter().any(|folder| way.real.starts_with(folder)) {
            return None;
        }
        if within.is_none() && !is_written {
            // A file outside is not the plan's to change, and the link is: it is bound by where it leads.
            return alone(led(name, &way.real, meta.len()));
        }
        let file = match within {
            Some(within) => open_within(self.workspace, within),
            None => open(&way.real),
        };
        let file = match file {
            Ok(file) => file,
            Err(error) if is_missing(&error) => return None,
            // The program may be permitted to read the file, or may permit it to itself.
            Err(error) => return alone(unbound(name, &not_now(&error))),
        };
        let (mut found, start) = digested(&name, file, &mut self.bytes_left, self.cancel);
        // A question shows no text that no file tool may show.
        if within.is_none_or(is_closed) || is_private(&shown(&way.real)) {
            found.text = None;
        }
        Some((found, start))
    }
}

/// Flags for reading a file at a path without links. The call waits neither for a pipe nor for the holder of a lease.
const FLAGS: OFlags = OFlags::NONBLOCK.union(OFlags::NOFOLLOW).union(OFlags::NOCTTY);

/// Opens a file at a path without links.
pub(super) fn open(real: &Path) -> io::Result<File> {
    File::options().read(true).custom_flags(FLAGS.bits().cast_signed()).open(real)
}

/// Opens a file of the workspace; a link that came in the place of a folder meanwhile leads nowhere else.
fn open_within(workspace: &Workspace, within: &Path) -> io::Result<File> {
    let mut options = cap_std::fs::OpenOptions::new();
    cap_std::fs::OpenOptionsExt::custom_flags(options.read(true), FLAGS.bits().cast_signed());
    workspace.dir().open_with(within, &options).map(cap_std::fs::File::into_std)
}

/// True if the system forbids to look; a path that leads out of the workspace has no code of the system.
pub(super) fn is_forbidden(error: &io::Error) -> bool {
    error.kind() == ErrorKind::PermissionDenied && error.raw_os_error().is_some()
}

/// True if there is nothing at a path of [`Way`], or nothing can be: a word may be too long for a name, or hold a zero byte.
pub(super) fn is_missing(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory | ErrorKind::InvalidFilename)
        || error.raw_os_error() == Some(rustix::io::Errno::LOOP.raw_os_error())
        || error.kind() == ErrorKind::InvalidInput && error.raw_os_error().is_none()
}

/// Reason for a file that cannot be looked at for a cause that may pass, such as a lease of another program.
pub(super) fn not_now(error: &io::Error) -> String {
    match error.kind() {
        ErrorKind::WouldBlock => "cannot be looked at now: another program holds a lease of it".to_owned(),
        _ => format!("cannot be looked at now: {error}"),
    }
}

fn kind(meta: &Metadata) -> Option<&'static str> {
    let kind = meta.file_type();
    let kinds = [
        (kind.is_fifo(), "a pipe"),
        (kind.is_socket(), "a socket"),
        (kind.is_char_device() || kind.is_block_device(), "a device"),
    ];
    kinds.into_iter().find_map(|(is, name)| is.then_some(name))
}

/// A path for a message, another one for each path: one that is no UTF-8 has quotes and escapes, and so has one that begins with a quote.
pub(super) fn shown(path: &Path) -> String {
    let plain = path.to_str().filter(|text| !text.starts_with('"'));
    plain.map_or_else(|| format!("{path:?}"), str::to_owned)
}

/// A file with the digest of its content. Ends early, with nothing bound, once nobody waits for the look.
fn digested(name: &str, mut file: File, left: &mut u64, cancel: &CancelFlag) -> (NamedFile, Vec<u8>) {
    let read = content(&mut file, left, cancel);
    let (digest, bytes, start) = match read {
        Ok(Some(read)) => read,
        // Times prove nothing: a store into a page that a program has mapped leaves them as they are.
        Ok(None) => {
            let why = format!("is too long: of all files together {NAMED_FILES_BYTES_MAX} bytes are read");
            return (unbound(name.to_owned(), &why), Vec::new());
        }
        Err(error) => return (unbound(name.to_owned(), &not_now(&error)), Vec::new()),
    };
    let text = Some(&start).filter(|start| !is_private(name) && start.len() <= NAMED_TEXT_BYTES_MAX);
    let text = text.and_then(|start| String::from_utf8(start.clone()).ok());
    (NamedFile { path: name.to_owned(), digest, bytes, text, unbound: None, by_word: false }, start)
}

/// True if a file has the content that was read before; it may have at most `left` bytes. May block for the reading alone.
pub(crate) fn is_as_read(path: &Path, known: &NamedFile, left: &mut u64) -> bool {
    let opened = open(&Way::of(path).real);
    opened
        .is_ok_and(|file| digested(&known.path, file, left, &CancelFlag::default()).0.digest == known.digest)
}

/// Digest, size and start of a content; `None` if it has more than `left` bytes.
fn content(
    file: &mut File,
    left: &mut u64,
    cancel: &CancelFlag,
) -> io::Result<Option<(Digest, u64, Vec<u8>)>> {
    let meta = file.metadata()?;
    if !meta.is_file() {
        return Err(io::Error::other("another file has come in its place"));
    }
    if meta.len() > *left {
        return Ok(None);
    }
    let (mut hasher, mut start, mut bytes) = (blake3::Hasher::new(), Vec::new(), 0);
    let mut piece = vec![0; CHUNK_BYTES];
    loop {
        cancel.check().map_err(|given_up| io::Error::other(given_up.message))?;
        let read = match file.read(&mut piece) {
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            read => read?,
        };
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
            return Ok(None);
        }
    }
    Ok(Some((Digest(*hasher.finalize().as_bytes()), bytes, start)))
}

/// A file that nothing can be bound to. The digest is another one at each look.
pub(super) fn unbound(path: String, why: &str) -> NamedFile {
    let chance = RandomState::new();
    let [one, other] = [0, 1].map(|at| chance.hash_one(at).to_le_bytes());
    let digest = lineage::hash("aos/file-unbound/1", &[&one, &other]);
    NamedFile { path, digest, bytes: 0, text: None, unbound: Some(why.to_owned()), by_word: false }
}

/// A file outside, with the digest of its place.
fn led(path: String, real: &Path, bytes: u64) -> NamedFile {
    let digest = lineage::hash("aos/file-link/1", &[real.as_os_str().as_bytes()]);
    NamedFile { path, digest, bytes, text: None, unbound: None, by_word: false }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_of_files_that_may_hold_secrets_are_not_kept() {
        for name in [
            ".env",
            "sub/.env.local",
            ".git/config",
            "home/.gitconfig",
            ".netrc",
            "id_rsa",
            "tls/server.KEY",
            "client_secret.json",
            ".git-credentials",
            "prod.tfvars",
            "id_ecdsa",
            ".pgpass",
            ".vault-token",
        ] {
            assert!(is_private(name), "{name}");
        }
        for name in ["deploy.sh", "Makefile", "environment.yaml", "keys.md", "config.toml"] {
            assert!(!is_private(name), "{name}");
        }
    }
}
