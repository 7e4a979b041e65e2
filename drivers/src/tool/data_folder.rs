//! The data folder that programs work for: what tells it from others, and what its last holder left running.
//!
//! Programs are found in two ways, so that one alone may fail: by the mark in their environment, which a program can
//! clear, and by a note of each that runs in `programs/` of the data folder, which a holder that is killed between
//! starting it and writing it down has not made.

use std::collections::BTreeSet;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, UNIX_EPOCH};
use std::{fs, io};

use super::family::{Family, Process, kill, process, processes};
use super::notes::{Note, Notes};

/// What every data folder of Ostler holds.
pub(super) const DATA_FOLDER_HAS: [&str; 3] = ["journal", "format", "lock"];

/// Where the programs that run are noted, each by the id of its process.
const PROGRAMS: &str = "programs";

/// How long processes that were killed may take to go.
const GOING: Duration = Duration::from_secs(5);

/// Between two looks.
const MOMENT: Duration = Duration::from_millis(2);

/// A data folder, as the programs know it that work for it.
///
/// It is told from every other of this machine by its lock file: the device, the inode, and the time it was made, where
/// the file system knows that (an inode is given to another file once its own is gone). All stay the same when the folder
/// is moved.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DataFolder {
    path: PathBuf,
    id: String,
}

/// Why what is left of the programs of a data folder was not ended.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NotEnded {
    /// This process came of such a program itself.
    #[error(
        "this process was started by a step of a run of {}, whose holder is gone: what a step started may not take \
         its data folder up; ask from outside of the run",
        path.display()
    )]
    FromWithin {
        /// The folder.
        path: PathBuf,
    },
    /// They were killed and do not go.
    #[error(
        "programs of {} that an earlier process started were killed and do not end: {}; see what they wait for \
         (`ps -o pid,stat,wchan,args`), and try again once they are gone",
        path.display(),
        pids.iter().map(|pid| format!("process {pid}")).collect::<Vec<_>>().join(", ")
    )]
    Alive {
        /// The folder.
        path: PathBuf,
        /// Their ids.
        pids: Vec<i32>,
    },
}

impl DataFolder {
    /// The data folder at `path`, which was opened before.
    ///
    /// # Errors
    ///
    /// It has no lock file that can be looked at.
    pub fn of(path: &Path) -> io::Result<DataFolder> {
        let lock = fs::symlink_metadata(path.join("lock"))?;
        // A file that is made later can be given the number of one that was removed, but not its time.
        let made = lock.created().ok().and_then(|made| made.duration_since(UNIX_EPOCH).ok());
        let made = made.map_or(0, |made| made.as_nanos());
        let id = format!("{:x}.{:x}.{made:x}", lock.dev(), lock.ino());
        Ok(DataFolder { path: path.canonicalize()?, id })
    }

    /// What the marks of its programs end in.
    pub(super) fn id(&self) -> &str {
        &self.id
    }

    /// Notes that a program runs, until the note is dropped. A folder that cannot be written (the disk is full) is no
    /// reason not to run it: it bears the mark.
    pub(super) fn note(&self, pid: i32) -> Option<Note> {
        self.notes().write(&pid.to_string(), &self.note_of(process(pid)?)).ok()
    }

    fn notes(&self) -> Notes {
        Notes::at(&self.path.join(PROGRAMS))
    }

    /// What a note holds: a copy of this folder, or a process that was given the same id later, has another.
    fn note_of(&self, process: Process) -> String {
        let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
        format!("{} {} {}", self.id, boot.trim(), process.started)
    }

    /// Ends whatever programs of this folder run, with all that came of them, and waits until they are gone: how many
    /// processes that were. Only for who holds the folder and has started nothing yet: what runs then was left by a
    /// holder that died.
    ///
    /// # Errors
    ///
    /// See [`NotEnded`].
    pub fn end_left(&self) -> Result<usize, NotEnded> {
        let begun = Instant::now();
        let mut leaders = BTreeSet::new();
        let wait = || {
            std::thread::sleep(MOMENT);
            begun.elapsed()
        };
        let ended = self.end_each(|| self.left(&mut leaders), kill, wait)?;
        // They speak of what is gone.
        self.notes().clear();
        Ok(ended)
    }

    /// Kills whatever programs of this folder run, with all that came of them, and waits for nothing. Only for who holds the
    /// folder and is about to end: what was started meanwhile is ended by who takes it up next.
    pub fn kill_running(&self) {
        let own = std::process::id() as i32;
        let running = self.left(&mut BTreeSet::new());
        running.iter().filter(|process| process.pid != own).for_each(kill);
    }

    /// Kills what `left` finds until it finds nothing: how many processes that were. `wait` waits a moment, and tells for
    /// how long that has been done.
    fn end_each(
        &self,
        mut left: impl FnMut() -> BTreeSet<Process>,
        mut kill: impl FnMut(&Process),
        mut wait: impl FnMut() -> Duration,
    ) -> Result<usize, NotEnded> {
        let own = std::process::id() as i32;
        let (mut ended, mut waited) = (BTreeSet::new(), Duration::ZERO);
        loop {
            let left = left();
            if left.is_empty() {
                return Ok(ended.len());
            }
            if left.iter().any(|process| process.pid == own) {
                return Err(NotEnded::FromWithin { path: self.path.clone() });
            }
            if waited > GOING {
                let pids = left.iter().map(|process| process.pid).collect();
                return Err(NotEnded::Alive { path: self.path.clone(), pids });
            }
            left.iter().for_each(&mut kill);
            ended.extend(left);
            waited = wait();
        }
    }

    /// Every process that came of a program of this folder. `leaders` are the programs that were found by their note;
    /// their groups stand for them once they are gone.
    fn left(&self, leaders: &mut BTreeSet<i32>) -> BTreeSet<Process> {
        let (family, all) = (Family::of_folder(&self.id), processes());
        let noted: Vec<&Process> = all.iter().filter(|process| self.is_noted(process)).collect();
        leaders.extend(noted.iter().map(|process| process.pid));
        let mut left: BTreeSet<Process> = noted.into_iter().copied().collect();
        left.extend(family.members(None, &all));
        for leader in leaders.iter() {
            left.extend(family.members(Some(*leader), &all));
        }
        left
    }

    fn is_noted(&self, process: &Process) -> bool {
        self.notes().read(&process.pid.to_string()).is_some_and(|note| note == self.note_of(*process))
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    /// What comes of a process that is found until it was killed for `goes_after`.
    fn check(goes_after: Duration) -> Result<usize, NotEnded> {
        let folder = DataFolder { path: "/data".into(), id: String::new() };
        // Any process but this one will do: it is not really killed.
        let other = process(std::os::unix::process::parent_id() as i32).expect("it waits for this one");
        let (waited, mut killed) = (std::cell::Cell::new(Duration::ZERO), 0);
        let left = || if waited.get() > goes_after { BTreeSet::new() } else { BTreeSet::from([other]) };
        let wait = || {
            waited.set(waited.get() + Duration::from_millis(500));
            waited.get()
        };
        let ended = folder.end_each(left, |_| killed += 1, wait);
        if let Err(NotEnded::Alive { pids, .. }) = &ended {
            assert_eq!(*pids, [other.pid]);
        }
        assert_eq!(killed, goes_after.min(GOING).as_millis() / 500 + 1, "it is killed again and again");
        ended
    }

    #[test]
    fn what_was_killed_may_take_a_while_to_go_and_no_longer() {
        assert_eq!(check(Duration::ZERO), Ok(1));
        assert_eq!(check(GOING), Ok(1));
        assert!(matches!(check(GOING + Duration::from_millis(500)), Err(NotEnded::Alive { .. })));
    }

    #[test]
    fn who_came_of_such_a_program_kills_nothing() {
        let folder = DataFolder { path: "/data".into(), id: String::new() };
        let own = || BTreeSet::from([process(std::process::id() as i32).expect("it runs")]);
        let ended = folder.end_each(own, |_| panic!("it is not asked to"), || Duration::ZERO);
        assert_eq!(ended, Err(NotEnded::FromWithin { path: "/data".into() }));
    }
}
