//! Why a data folder could not be opened.

use std::io;
use std::path::{Path, PathBuf};

use crate::disk::lock::LockLost;
use crate::format::FORMAT;
use crate::format::damage::{Damage, OpenJournalError};

/// Why a data folder could not be opened, examined or changed.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// Another process, or another part of this process, holds the folder.
    #[error("{} is held by {}", path.display(), pid.map_or("another process".into(), |pid| format!("process {pid}")))]
    Held {
        /// The folder.
        path: PathBuf,
        /// The holder's process id, unless the holder has not recorded one yet.
        pid: Option<u32>,
    },
    /// Durable records are lost or changed. The folder was not changed.
    #[error("{} is damaged: {}", path.display(), describe(damages))]
    Damaged {
        /// The folder.
        path: PathBuf,
        /// All damage of the journal.
        damages: Vec<Damage>,
    },
    /// A later version of this program wrote the folder.
    #[error("{} has format {found}, this program knows up to {FORMAT}: a newer one wrote it", path.display())]
    NewerFormat {
        /// The folder.
        path: PathBuf,
        /// The version in the format file.
        found: u32,
    },
    /// The format file belongs to another program.
    #[error("{} is not a data folder: its format file says {found:?}", path.display())]
    NotOurs {
        /// The folder.
        path: PathBuf,
        /// The start of the format file.
        found: String,
    },
    /// The format file is damaged; the journal beside it is one of this program.
    #[error("{} has a damaged format file, which says {found:?}", path.display())]
    FormatDamaged {
        /// The folder.
        path: PathBuf,
        /// The start of the format file.
        found: String,
    },
    /// The folder has other content and no format file.
    #[error("{} is not a data folder: {entry} is in it", path.display())]
    Foreign {
        /// The folder.
        path: PathBuf,
        /// An entry of the folder.
        entry: String,
    },
    /// The folder is read-only.
    #[error("{} may only be read", path.display())]
    ReadOnly {
        /// The folder.
        path: PathBuf,
    },
    /// The lock file was deleted or replaced during a change. Nothing was changed from then on.
    #[error("{}: the lock file was deleted or replaced; another process may hold the folder now", path.display())]
    Lost {
        /// The folder.
        path: PathBuf,
    },
    /// The path names something other than a folder.
    #[error("{} is not a folder", path.display())]
    NotAFolder {
        /// The path.
        path: PathBuf,
    },
    /// The path is, or leads through, a dangling link. The target is not created.
    #[error("{} is a link that leads nowhere: {} is not there", link.display(), target.display())]
    LeadsNowhere {
        /// The link.
        link: PathBuf,
        /// The missing target.
        target: PathBuf,
    },
    /// A link or another special file has the name of a file of the data folder. Links are not followed.
    #[error("{} is not a regular file, and ostler made none but such", path.display())]
    NotAFile {
        /// The path.
        path: PathBuf,
    },
    /// The file system reported an error.
    #[error("{}: {error}", path.display())]
    Io {
        /// The folder.
        path: PathBuf,
        /// The error.
        error: io::Error,
    },
}

const DAMAGES_LISTED_MAX: usize = 5;

fn describe(damages: &[Damage]) -> String {
    let mut listed: Vec<String> = damages.iter().take(DAMAGES_LISTED_MAX).map(Damage::to_string).collect();
    if damages.len() > DAMAGES_LISTED_MAX {
        listed.push(format!("{} more places", damages.len() - DAMAGES_LISTED_MAX));
    }
    listed.join("; ")
}

impl OpenError {
    pub(crate) fn journal(path: &Path, error: OpenJournalError) -> OpenError {
        match error {
            OpenJournalError::Damaged(damages) => OpenError::Damaged { path: path.to_owned(), damages },
            OpenJournalError::Io(error) => OpenError::io(path, error),
        }
    }

    pub(crate) fn io(path: &Path, error: io::Error) -> OpenError {
        let path = path.to_owned();
        if LockLost::is_in(&error) {
            return OpenError::Lost { path };
        }
        match error.kind() {
            io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
                OpenError::ReadOnly { path }
            }
            io::ErrorKind::NotADirectory => OpenError::NotAFolder { path },
            _ => OpenError::Io { path, error },
        }
    }
}
