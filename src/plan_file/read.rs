//! Bounded reading of small text files. Never blocks on pipes or devices.

use std::fs::OpenOptions;
use std::io::Read;
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use super::Format;

/// Reason for not reading a file.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// An IO error.
    #[error("cannot read {}: {error}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The error of the operating system.
        error: std::io::Error,
    },
    /// The extension names no format.
    #[error("{}: unknown format; use a name that ends in .yaml, .yml, .json or .toml", path.display())]
    Format {
        /// The file.
        path: PathBuf,
    },
    /// A folder in the place of a plan, a job or a pipeline.
    #[error("{} is a folder, expected a file; {}", path.display(), name_instead(.file.as_deref()))]
    Folder {
        /// The folder.
        path: PathBuf,
        /// The first file in it, by name, of a known format.
        file: Option<PathBuf>,
    },
    /// Not a regular file: reading might block or never end.
    #[error("{} is {what}, expected a file", path.display())]
    NotAFile {
        /// The path.
        path: PathBuf,
        /// Kind of the file.
        what: &'static str,
    },
    /// The file exceeds the size limit.
    #[error("{} is larger than {bytes_max} bytes, the limit for such a file", path.display())]
    TooLarge {
        /// The file.
        path: PathBuf,
        /// The limit.
        bytes_max: usize,
    },
    /// The file is not UTF-8.
    #[error("{} is not text: byte {at} is not UTF-8", path.display())]
    NotText {
        /// The file.
        path: PathBuf,
        /// Offset of the first invalid byte.
        at: usize,
    },
}

fn name_instead(file: Option<&Path>) -> String {
    match file {
        Some(file) => format!("name a file in it, such as {}", file.display()),
        None => "no name in it ends in .yaml, .yml, .json or .toml; name another place".to_owned(),
    }
}

/// Entries of a folder that are searched for a file to name.
const ENTRIES_SEARCHED_MAX: usize = 10_000;

fn folder(path: &Path) -> ReadError {
    let entries = std::fs::read_dir(path).into_iter().flatten().take(ENTRIES_SEARCHED_MAX).flatten();
    let files = entries.map(|entry| entry.path()).filter(|file| Format::of(file).is_some() && file.is_file());
    ReadError::Folder { path: path.to_owned(), file: files.min() }
}

/// Returns the format of a file by its name.
///
/// # Errors
///
/// The path is a folder, or its name has no known extension.
pub(crate) fn format_of(path: &Path) -> Result<Format, ReadError> {
    if path.is_dir() {
        return Err(folder(path));
    }
    Format::of(path).ok_or_else(|| ReadError::Format { path: path.to_owned() })
}

/// Reads a regular file as text.
///
/// # Errors
///
/// See [`ReadError`]. Opening a pipe or a device does not block.
pub(crate) fn read_text(path: &Path, bytes_max: usize) -> Result<String, ReadError> {
    let io = |error| ReadError::Io { path: path.to_owned(), error };
    let nonblock = rustix::fs::OFlags::NONBLOCK.bits() as i32;
    let file = OpenOptions::new().read(true).custom_flags(nonblock).open(path).map_err(io)?;
    let kind = file.metadata().map_err(io)?.file_type();
    let what = match kind {
        _ if kind.is_file() => None,
        _ if kind.is_dir() => Some("a folder"),
        _ if kind.is_fifo() => Some("a pipe"),
        _ if kind.is_char_device() || kind.is_block_device() => Some("a device"),
        _ => Some("not a regular file"),
    };
    if let Some(what) = what {
        return Err(ReadError::NotAFile { path: path.to_owned(), what });
    }
    let mut bytes = Vec::new();
    file.take(bytes_max as u64 + 1).read_to_end(&mut bytes).map_err(io)?;
    if bytes.len() > bytes_max {
        return Err(ReadError::TooLarge { path: path.to_owned(), bytes_max });
    }
    String::from_utf8(bytes)
        .map_err(|error| ReadError::NotText { path: path.to_owned(), at: error.utf8_error().valid_up_to() })
}
