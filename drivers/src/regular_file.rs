//! Bounded reading of small text files, and files that Ostler itself appends to. Never blocks on pipes or devices.

use std::fs::{File, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::{Component, Path};

use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, openat, statat};
use rustix::io::Errno;

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

/// Opens a regular file for reading and appending where programs may write too. Follows no link below `folder`, and refuses a file with
/// another name, because a program may have put either there to have another file written. `makes_missing`: makes the file.
///
/// # Errors
///
/// A link, a hard link, not a regular file, or the file system refused.
///
/// # Examples
///
/// ```
/// use std::path::Path;
/// use ostler_drivers::regular_file::open_to_append;
///
/// let folder = tempfile::tempdir().unwrap();
/// std::os::unix::fs::symlink("/etc/passwd", folder.path().join("page.html")).unwrap();
/// let refused = open_to_append(folder.path(), Path::new("page.html"), true).unwrap_err();
/// assert!(refused.to_string().starts_with("page.html is a link"));
/// ```
pub fn open_to_append(folder: &Path, beneath: &Path, makes_missing: bool) -> io::Result<File> {
    let on_the_way = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    // The folder of a file that is named alone is the current one.
    let folder = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
    let mut at = openat(CWD, folder, on_the_way, Mode::empty())?;
    let mut names = beneath.components().filter(|part| *part != Component::CurDir).peekable();
    while let Some(name) = names.next() {
        let is_last = names.peek().is_none();
        let flags = match is_last {
            false => on_the_way,
            true => OFlags::RDWR | OFlags::APPEND | OFlags::NONBLOCK | OFlags::CLOEXEC,
        };
        let flags = if is_last && makes_missing { flags | OFlags::CREATE } else { flags };
        at = match openat(&at, name.as_os_str(), flags | OFlags::NOFOLLOW, Mode::from_raw_mode(0o666)) {
            Err(Errno::LOOP | Errno::NOTDIR | Errno::MLINK) if is_link(&at, name) => {
                return Err(planted(name, "a link"));
            }
            opened => opened?,
        };
        if is_last {
            let file = File::from(at);
            check_regular(&file).map_err(io::Error::other)?;
            return match file.metadata()?.nlink() {
                ..=1 => Ok(file),
                _ => Err(planted(name, "a file with other names (hard links)")),
            };
        }
    }
    Err(Errno::ISDIR.into())
}

fn is_link(folder: impl std::os::fd::AsFd, name: Component<'_>) -> bool {
    statat(folder, name.as_os_str(), AtFlags::SYMLINK_NOFOLLOW)
        .is_ok_and(|found| FileType::from_raw_mode(found.st_mode) == FileType::Symlink)
}

fn planted(name: Component<'_>, kind: &str) -> io::Error {
    let name = name.as_os_str().display();
    let what = format!("{name} is {kind}, which a program may have made: remove it, or name another file");
    io::Error::new(io::ErrorKind::InvalidInput, what)
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
