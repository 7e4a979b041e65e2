//! The count of calls that have written in workspaces: a table in memory, and the same in a file.
//!
//! The table has a fixed number of places. A folder has two, found by a hash of its path: one counts calls in the workspace itself, the
//! other one those in workspaces below it. Folders that share a place count each other's calls too, so an approval may be asked about
//! again for nothing, and never holds for too long.

use std::fs::File;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

use ostler_kernel::lineage;
use ostler_kernel::port::WorkspaceWrites;

use crate::disk::lock::LockName;
use crate::disk::safe_open::open_regular;

/// Places of a table, 8 bytes each.
const PLACES: usize = 4_096;

/// The place with the number of calls that run. Not zero at the opening: a process was killed while they wrote.
const RUNNING: usize = 0;

/// The counts of a data folder, or of a system in memory.
pub struct WriteCounts {
    counts: Mutex<Vec<u64>>,
    kept: Option<(File, LockName)>,
}

impl Default for WriteCounts {
    fn default() -> WriteCounts {
        WriteCounts { counts: Mutex::new(vec![0; PLACES]), kept: None }
    }
}

impl WriteCounts {
    /// The counts in the file at `path`, of a data folder that this process holds for the `epoch`-th time. A file that is missing or
    /// damaged begins with greater counts than any before.
    pub(crate) fn open(path: &Path, epoch: u64, lock: LockName) -> io::Result<WriteCounts> {
        let mut options = File::options();
        options.read(true).write(true).create(true).mode(0o600);
        let file = open_regular(&mut options, path)?.ok_or_else(|| io::Error::other("not a regular file"))?;
        let mut bytes = vec![0; 8 * PLACES];
        let is_whole = file.metadata()?.len() == bytes.len() as u64;
        if is_whole {
            file.read_exact_at(&mut bytes, 0)?;
        }
        let number = |bytes: &[u8]| u64::from_le_bytes(bytes.try_into().expect("8 bytes"));
        let mut counts: Vec<u64> = bytes.chunks_exact(8).map(number).collect();
        let everywhere = place(Kind::Itself, Path::new("/"));
        if !is_whole {
            counts[everywhere] = epoch << 32;
        } else if counts[RUNNING] > 0 {
            counts[everywhere] += 1;
        }
        counts[RUNNING] = 0;
        file.set_len(bytes.len() as u64)?;
        file.write_all_at(&counts.iter().flat_map(|count| count.to_le_bytes()).collect::<Vec<u8>>(), 0)?;
        Ok(WriteCounts { counts: Mutex::new(counts), kept: Some((file, lock)) })
    }

    /// The counts without a file, for a disk that has no room for one: greater than any before.
    pub(crate) fn unkept(epoch: u64) -> WriteCounts {
        let counts = WriteCounts::default();
        counts.counts()[place(Kind::Itself, Path::new("/"))] = epoch << 32;
        counts
    }

    fn counts(&self) -> MutexGuard<'_, Vec<u64>> {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Replaces the counts of some places. Returns whether the file has them too.
    fn change(&self, places: impl Iterator<Item = usize>, change: impl Fn(&mut u64)) -> bool {
        let mut counts = self.counts();
        let mut kept = self.kept.as_ref().map_or(Ok(()), |(_, lock)| lock.check());
        for place in places {
            change(&mut counts[place]);
            if let (Some((file, _)), Ok(())) = (&self.kept, &kept) {
                kept = file.write_all_at(&counts[place].to_le_bytes(), 8 * place as u64);
            }
        }
        if let Err(error) = &kept {
            tracing::warn!(
                %error,
                "calls that write cannot be counted in the file `writes` of the data folder, so the next process asks about approved programs again"
            );
        }
        kept.is_ok()
    }
}

impl WorkspaceWrites for WriteCounts {
    fn begin(&self, _workspace: &Path) {
        self.change([RUNNING].into_iter(), |count| *count += 1);
    }

    fn end(&self, workspace: &Path) {
        let above = workspace.ancestors().skip(1).map(|folder| place(Kind::Below, folder));
        // Last, and only if the file has the counts: until then a later process counts the call everywhere.
        if self.change([place(Kind::Itself, workspace)].into_iter().chain(above), |count| *count += 1) {
            self.change([RUNNING].into_iter(), |count| *count = count.saturating_sub(1));
        }
    }

    fn ended_in(&self, workspace: &Path) -> u64 {
        let around = workspace.ancestors().map(|folder| place(Kind::Itself, folder));
        let counts = self.counts();
        around.chain([place(Kind::Below, workspace)]).map(|place| counts[place]).sum()
    }
}

#[derive(Clone, Copy)]
enum Kind {
    Itself = 0,
    Below = 1,
}

fn place(kind: Kind, folder: &Path) -> usize {
    let digest = lineage::hash("ostler.writes.1", &[&[kind as u8], folder.as_os_str().as_bytes()]);
    let number = u64::from_le_bytes(digest.0[..8].try_into().expect("a digest has 32 bytes"));
    1 + (number % (PLACES as u64 - 1)) as usize
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::lock::HeldLock;

    #[test]
    fn a_call_counts_in_its_workspace_around_it_and_below_it() {
        let writes = WriteCounts::default();
        for (writer, looker, counts) in [
            ("/a/b", "/a/b", true),
            ("/a/b/c", "/a/b", true),
            ("/a/b/c/d/e", "/a/b", true),
            ("/a", "/a/b", true),
            ("/", "/a/b", true),
            ("/a/b", "/", true),
            ("/a/c", "/a/b", false),
            ("/a/bc", "/a/b", false),
        ] {
            let (writer, looker) = (Path::new(writer), Path::new(looker));
            writes.begin(writer);
            let before = writes.ended_in(looker);
            writes.end(writer);
            assert_eq!(writes.ended_in(looker) > before, counts, "{writer:?} {looker:?}");
        }
    }

    #[test]
    fn a_later_process_knows_the_calls_of_those_before_and_of_one_that_was_killed() {
        let folder = tempfile::tempdir().unwrap();
        let (held, _) = HeldLock::take(&folder.path().join("lock")).unwrap();
        let (path, here) = (folder.path().join("writes"), Path::new("/w"));
        let open = |epoch| WriteCounts::open(&path, epoch, held.name().clone()).unwrap();
        let first = open(1);
        let fresh = first.ended_in(here);
        first.begin(here);
        first.end(here);
        let once = first.ended_in(here);
        assert!(once > fresh);
        drop(first);
        let second = open(2);
        assert_eq!(second.ended_in(here), once, "no call ran");
        second.begin(here);
        drop(second);
        let third = open(3);
        assert!(third.ended_in(here) > once && third.ended_in(Path::new("/other")) > fresh);
        drop(third);
        for damage in ["remove", "cut"] {
            let before = open(3).ended_in(here);
            match damage {
                "remove" => std::fs::remove_file(&path).unwrap(),
                _ => File::options().write(true).open(&path).unwrap().set_len(9).unwrap(),
            }
            assert!(open(4).ended_in(here) > before, "{damage}");
            assert_eq!(std::fs::metadata(&path).unwrap().len(), 8 * PLACES as u64);
            // The next damage finds a later epoch.
            std::fs::remove_file(&path).unwrap();
            open(3);
        }
    }
}
