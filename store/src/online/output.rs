//! Output of programs: a file of JSON lines a run, or memory.

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, ErrorKind, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use ostler_kernel::id::RunId;
use ostler_kernel::port::{OUTPUT_RUN_BYTES_MAX, OUTPUT_RUN_NOTES_BYTES_MAX, OutputStore};

use crate::data_folder::output_files::output_file;
use crate::disk::free_bytes;
use crate::disk::lock::LockName;
use crate::disk::safe_open::{make_folder, open_regular};

/// Free space that output leaves to records and results, in bytes.
const FREE_BYTES_MIN: u64 = 16 << 20;

const WITH_NOTES_BYTES_MAX: u64 = OUTPUT_RUN_BYTES_MAX + OUTPUT_RUN_NOTES_BYTES_MAX;

/// Output in files `RUN.jsonl` of a folder, made with the first chunk.
pub struct FolderOutput {
    root: PathBuf,
    lock: Option<LockName>,
}

impl FolderOutput {
    /// Output in the folder `root`, of a data folder that no other process uses.
    pub fn at(root: &Path) -> FolderOutput {
        FolderOutput { root: root.to_owned(), lock: None }
    }

    /// Refuses to append once the lock is lost.
    pub(crate) fn held_by(self, lock: LockName) -> FolderOutput {
        FolderOutput { lock: Some(lock), ..self }
    }

    fn append_up_to(&self, run: RunId, chunks: &[u8], run_bytes_max: u64, free_min: u64) -> io::Result<()> {
        self.lock.as_ref().map_or(Ok(()), LockName::check)?;
        let path = output_file(&self.root, run);
        let mut options = File::options();
        options.append(true).create(true).mode(0o600);
        let opened = match open_regular(&mut options, &path) {
            Err(error) if error.kind() == ErrorKind::NotFound => {
                make_folder(&self.root)?;
                open_regular(&mut options, &path)?
            }
            opened => opened?,
        };
        if free_bytes(&self.root).is_some_and(|free| free < free_min) {
            return Err(ErrorKind::StorageFull.into());
        }
        let mut file = opened.ok_or_else(|| io::Error::other("not a regular file"))?;
        check_room(file.metadata()?.len(), chunks, run_bytes_max)?;
        // One write, so that chunks of several attempts never mix.
        file.write_all(chunks)
    }
}

impl OutputStore for FolderOutput {
    fn append(&self, run: RunId, chunks: &[u8]) -> io::Result<()> {
        self.append_up_to(run, chunks, OUTPUT_RUN_BYTES_MAX, FREE_BYTES_MIN)
    }

    fn append_note(&self, run: RunId, note: &[u8]) -> io::Result<()> {
        self.append_up_to(run, note, WITH_NOTES_BYTES_MAX, 0)
    }

    fn read(&self, run: RunId, after: u64, bytes_max: usize) -> io::Result<Vec<u8>> {
        let opened = match open_regular(File::options().read(true), &output_file(&self.root, run)) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
            opened => opened?,
        };
        let mut file = opened.ok_or_else(|| io::Error::other("not a regular file"))?;
        // A place beyond the end may be one that no file can have, which seeking refuses.
        if after >= file.metadata()?.len() {
            return Ok(Vec::new());
        }
        file.seek(SeekFrom::Start(after))?;
        let mut bytes = Vec::new();
        file.take(bytes_max as u64).read_to_end(&mut bytes)?;
        Ok(bytes)
    }
}

/// Output in memory, with the limit of the store on disk.
#[derive(Default)]
pub struct MemoryOutput(Mutex<HashMap<RunId, Vec<u8>>>);

impl MemoryOutput {
    fn append_up_to(&self, run: RunId, chunks: &[u8], run_bytes_max: u64) -> io::Result<()> {
        let mut runs = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let kept = runs.entry(run).or_default();
        check_room(kept.len() as u64, chunks, run_bytes_max)?;
        kept.extend_from_slice(chunks);
        Ok(())
    }
}

impl OutputStore for MemoryOutput {
    fn append(&self, run: RunId, chunks: &[u8]) -> io::Result<()> {
        self.append_up_to(run, chunks, OUTPUT_RUN_BYTES_MAX)
    }

    fn append_note(&self, run: RunId, note: &[u8]) -> io::Result<()> {
        self.append_up_to(run, note, WITH_NOTES_BYTES_MAX)
    }

    fn read(&self, run: RunId, after: u64, bytes_max: usize) -> io::Result<Vec<u8>> {
        let runs = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let kept = runs.get(&run).map(Vec::as_slice).unwrap_or_default();
        let rest = usize::try_from(after).ok().and_then(|after| kept.get(after..)).unwrap_or_default();
        Ok(rest[..rest.len().min(bytes_max)].to_vec())
    }
}

fn check_room(kept: u64, chunks: &[u8], run_bytes_max: u64) -> io::Result<()> {
    match kept.saturating_add(chunks.len() as u64) > run_bytes_max {
        true => Err(ErrorKind::FileTooLarge.into()),
        false => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(store: &dyn OutputStore) {
        let (run, other) = (RunId(uuid::Uuid::from_u128(1)), RunId(uuid::Uuid::from_u128(2)));
        assert_eq!(store.read(run, 0, 10).unwrap(), b"");
        store.append(run, b"one\ntwo\n").unwrap();
        store.append(run, b"three\n").unwrap();
        assert_eq!(store.read(run, 0, 100).unwrap(), b"one\ntwo\nthree\n");
        assert_eq!(store.read(run, 4, 4).unwrap(), b"two\n");
        assert_eq!(store.read(run, 14, 4).unwrap(), b"");
        assert_eq!(store.read(run, u64::MAX >> 1, 4).unwrap(), b"");
        assert_eq!(store.read(other, 0, 4).unwrap(), b"");
        let piece = vec![b'x'; 1 << 20];
        for _ in 0..63 {
            store.append(run, &piece).unwrap();
        }
        let full = store.append(run, &piece).unwrap_err();
        assert_eq!(full.kind(), ErrorKind::FileTooLarge);
        store.append(run, &vec![b'x'; piece.len() - 14]).unwrap();
        let mut notes = 0;
        while store.append_note(run, &piece[..1 << 10]).is_ok() {
            notes += 1_u64 << 10;
        }
        assert_eq!(notes, OUTPUT_RUN_NOTES_BYTES_MAX);
        store.append(other, b"has room\n").unwrap();
    }

    #[test]
    fn what_was_appended_is_read_from_any_place_up_to_the_limit_of_a_run() {
        check(&MemoryOutput::default());
        let folder = tempfile::tempdir().unwrap();
        check(&FolderOutput::at(&folder.path().join("output")));
    }

    #[test]
    fn a_link_is_not_followed() {
        let folder = tempfile::tempdir().unwrap();
        let run = RunId(uuid::Uuid::from_u128(1));
        let target = folder.path().join("target");
        std::fs::write(&target, "kept").unwrap();
        std::os::unix::fs::symlink(&target, output_file(folder.path(), run)).unwrap();
        let store = FolderOutput::at(folder.path());
        assert!(store.append(run, b"line\n").is_err() && store.read(run, 0, 9).is_err());
        assert_eq!(std::fs::read(&target).unwrap(), b"kept");
    }
}
