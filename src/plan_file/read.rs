//! Reading a file that a person named: a small regular file of text, or an error, and never a wait.

use std::fs::OpenOptions;
use std::io::Read;
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// Why a file could not be read at all.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// The file system said no.
    #[error("cannot read {}: {error}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// What it said.
        error: std::io::Error,
    },
    /// Its name says no format.
    #[error("{}: a file of this kind ends in .yaml, .yml, .json or .toml", path.display())]
    Format {
        /// The file.
        path: PathBuf,
    },
    /// It is something else than a file: it might never end, or never begin.
    #[error("{} is {what}, expected a file", path.display())]
    NotAFile {
        /// What was named.
        path: PathBuf,
        /// What it is.
        what: &'static str,
    },
    /// It has more bytes than such a file may have.
    #[error("{} has more than {bytes_max} bytes, the most of such a file", path.display())]
    TooLarge {
        /// The file.
        path: PathBuf,
        /// The most.
        bytes_max: usize,
    },
    /// It is not UTF-8.
    #[error("{} is no text: byte {at} is not UTF-8", path.display())]
    NotText {
        /// The file.
        path: PathBuf,
        /// The first bad byte.
        at: usize,
    },
}

/// The text of a regular file.
///
/// # Errors
///
/// See [`ReadError`]. Opening a pipe or a device does not wait.
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
        _ => Some("no file"),
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
