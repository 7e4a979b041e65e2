//! Reading of plan files and the like, with errors that name the file.

use std::path::{Path, PathBuf};

use ostler_drivers::regular_file;

use super::{Format, PLAN_FILE_BYTES_MAX};

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
    let files = entries.map(|entry| entry.path()).filter(|file| match Format::of(file) {
        Some(Format::Toml) => file.is_file() && !is_configuration(file),
        Some(_) => file.is_file(),
        None => false,
    });
    ReadError::Folder { path: path.to_owned(), file: files.min() }
}

/// True if a TOML file has none of the keys that a plan, a job or a pipeline needs.
fn is_configuration(file: &Path) -> bool {
    let Ok(text) = read_text(file, PLAN_FILE_BYTES_MAX) else { return true };
    let keys = ["nodes", "stages", "plan"];
    !text.lines().any(|line| keys.iter().any(|key| line.trim_start_matches('[').starts_with(key)))
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
    regular_file::read_text(path, bytes_max as u64).map_err(|error| {
        let path = path.to_owned();
        match error {
            regular_file::ReadError::Io(error) => ReadError::Io { path, error },
            regular_file::ReadError::NotAFile(what) => ReadError::NotAFile { path, what },
            regular_file::ReadError::TooLarge(_) => ReadError::TooLarge { path, bytes_max },
            regular_file::ReadError::NotText(at) => ReadError::NotText { path, at },
        }
    })
}
