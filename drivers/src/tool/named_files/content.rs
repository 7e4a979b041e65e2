//! Reads a named file: its digest, or its identity and times.

use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;

use cap_std::fs::File;
use ostler_kernel::lineage;
use ostler_kernel::port::{NAMED_TEXT_BYTES_MAX, NamedFile};

use crate::tool::workspace::{CHUNK_BYTES, Closed, Workspace};

/// Bytes of texts that are kept for one call.
const TEXTS_BYTES_MAX: usize = 64 << 10;

/// Files that may hold secrets: a change shows, but the text is not kept. Settings of git are `config` in any folder.
const PRIVATE: [&str; 10] = [
    "config",
    "config.worktree",
    ".hg/hgrc",
    ".npmrc",
    ".yarnrc",
    ".yarnrc.yml",
    ".env",
    ".envrc",
    ".flaskenv",
    "gradle.properties",
];

/// Reads files of one call, within its limits.
pub(super) struct Reader<'a> {
    pub(super) workspace: &'a Workspace,
    pub(super) root: &'a Path,
    bytes_left: u64,
    text_left: usize,
}

impl<'a> Reader<'a> {
    pub(super) fn new(workspace: &'a Workspace, root: &'a Path, bytes_max: u64) -> Reader<'a> {
        Reader { workspace, root, bytes_left: bytes_max, text_left: TEXTS_BYTES_MAX }
    }

    /// Reads a file below the root; `None` if there is none, or a folder. The second value is the start of the content.
    pub(super) fn read(&mut self, path: &Path) -> Option<(NamedFile, Vec<u8>)> {
        let (mut file, start) = match opened(self.workspace, path) {
            Some(file) => digested(path, file, &mut self.bytes_left)?,
            None => self.behind_link(path)?,
        };
        file.text.take_if(|text| text.len() > self.text_left);
        self.text_left -= file.text.as_ref().map_or(0, String::len);
        Some((file, start))
    }

    /// The file that a program finds behind a link that no tool follows, because it is absolute or leads out of the workspace. A file
    /// outside is not the plan's to change, and the link is: it is bound by where it leads.
    fn behind_link(&mut self, path: &Path) -> Option<(NamedFile, Vec<u8>)> {
        let real = self.root.join(path).canonicalize().ok()?;
        let meta = real.metadata().ok().filter(|meta| !meta.is_dir())?;
        let within = real.strip_prefix(self.root.canonicalize().ok()?);
        if meta.is_file()
            && let Ok(within) = within
            && let Some(file) = opened(self.workspace, within)
        {
            return digested(path, file, &mut self.bytes_left);
        }
        let path = path.to_str()?.to_owned();
        if meta.file_type().is_fifo() {
            let identity = [meta.dev(), meta.ino()].map(u64::to_le_bytes).concat();
            let digest = lineage::hash("aos/file-pipe/1", &[&identity]);
            return Some((NamedFile { path, digest, bytes: 0, text: None }, Vec::new()));
        }
        if !meta.is_file() {
            return None;
        }
        if let Ok(within) = within {
            // The permission to read a file may come later. No program sees a data folder.
            let is_data = |folder: &Path| self.workspace.closed(folder) == Some(Closed::LikeData);
            let is_hidden = std::fs::File::open(&real).is_ok() && within.ancestors().skip(1).any(is_data);
            return (!is_hidden).then(|| (stamped(path, &meta), Vec::new()));
        }
        let digest = lineage::hash("aos/file-link/1", &[real.as_os_str().as_bytes()]);
        Some((NamedFile { path, digest, bytes: meta.len(), text: None }, Vec::new()))
    }
}

fn opened(workspace: &Workspace, path: &Path) -> Option<File> {
    let relative = workspace.relative(path.to_str()?).ok()?;
    workspace.file(&relative).ok()
}

/// A file with the digest of its content.
pub(super) fn digested(path: &Path, mut file: File, left: &mut u64) -> Option<(NamedFile, Vec<u8>)> {
    let meta = file.try_clone().ok()?.into_std().metadata().ok()?;
    let path = path.to_str()?.to_owned();
    if meta.len() > *left {
        return Some((stamped(path, &meta), Vec::new()));
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
            return Some((stamped(path, &file.into_std().metadata().ok()?), start));
        }
    }
    let is_private = PRIVATE.iter().any(|private| Path::new(&path).ends_with(private));
    let text = Some(&start).filter(|start| !is_private && start.len() <= NAMED_TEXT_BYTES_MAX);
    let text = text.and_then(|start| String::from_utf8(start.clone()).ok());
    let digest = ostler_kernel::id::Digest(*hasher.finalize().as_bytes());
    Some((NamedFile { path, digest, bytes, text }, start))
}

/// A file with the digest of its identity, size and times.
pub(super) fn stamped(path: String, meta: &std::fs::Metadata) -> NamedFile {
    let digest = lineage::hash("aos/file-stamp/1", &[&stamp(meta)]);
    NamedFile { path, digest, bytes: meta.len(), text: None }
}

/// Identity, size and times as bytes.
pub(super) fn stamp(meta: &std::fs::Metadata) -> Vec<u8> {
    let identity = [meta.dev(), meta.ino(), meta.len()].map(u64::to_le_bytes).concat();
    let times =
        [meta.ctime(), meta.ctime_nsec(), meta.mtime(), meta.mtime_nsec()].map(i64::to_le_bytes).concat();
    [identity, times].concat()
}
