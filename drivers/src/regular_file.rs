//! Bounded reading of small text files. Never blocks on pipes or devices.

use std::fs::{File, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::Path;

use rustix::fs::OFlags;

/// Reason for not reading a file. The message does not name the file.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// An IO error.
    #[error("cannot read: {0}")]
    Io(#[from] io::Error),
    /// Not a regular file, with its kind, such as `a pipe`: reading might block or never end.
    #[error("{0}, expected a file")]
    NotAFile(&'static str),
    /// The file is larger than so many bytes.
    #[error("more than {0} bytes, the limit for such a file")]
    TooLarge(u64),
    /// The file is not UTF-8; with the offset of the first invalid byte.
    #[error("no text: byte {0} is not UTF-8")]
    NotText(usize),
}

/// Reads a regular file as text of at most `bytes_max` bytes. Follows links.
///
/// # Errors
///
/// See [`ReadError`]. Opening a pipe or a device does not block.
///
/// # Examples
///
/// ```
/// use ostler_drivers::regular_file::{ReadError, read_text};
///
/// let refused = read_text("/dev/zero".as_ref(), 1 << 20);
/// assert!(matches!(refused, Err(ReadError::NotAFile("a device"))));
/// ```
pub fn read_text(path: &Path, bytes_max: u64) -> Result<String, ReadError> {
    let file = open_regular(path)?;
    let mut bytes = Vec::new();
    file.take(bytes_max.saturating_add(1)).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > bytes_max {
        return Err(ReadError::TooLarge(bytes_max));
    }
    String::from_utf8(bytes).map_err(|error| ReadError::NotText(error.utf8_error().valid_up_to()))
}

/// Opens a regular file for reading. Follows links.
///
/// # Errors
///
/// [`ReadError::NotAFile`], or the file system refused. Opening a pipe or a device does not block.
pub fn open_regular(path: &Path) -> Result<File, ReadError> {
    let nonblock = OFlags::NONBLOCK.bits().cast_signed();
    let file = OpenOptions::new().read(true).custom_flags(nonblock).open(path)?;
    check_regular(&file)?;
    Ok(file)
}

/// Checks that an open file is a regular one.
///
/// # Errors
///
/// [`ReadError::NotAFile`], or the file system refused.
pub fn check_regular(file: &File) -> Result<(), ReadError> {
    let kind = file.metadata()?.file_type();
    Err(ReadError::NotAFile(match kind {
        _ if kind.is_file() => return Ok(()),
        _ if kind.is_dir() => "a folder",
        _ if kind.is_fifo() => "a pipe",
        _ if kind.is_char_device() || kind.is_block_device() => "a device",
        _ => "not a regular file",
    }))
}
