//! Identifies the data folder of programs, and kills programs that a crashed process left running.
//!
//! Three independent ways find such programs: the control group of their call (where one can be had), the mark in the environment
//! (which a program can clear) and a pid file in `programs/` (which is missing if the process died between starting the program and
//! writing the file).

use std::collections::BTreeSet;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, UNIX_EPOCH};
use std::{fs, io};

use super::pid_files::{PidFile, PidFiles};
use super::process_tree::{Process, ProcessTree, kill, process, processes};
use super::temporary_folder::TemporaryFolder;
use crate::cage::end_groups_of;

pub(crate) const DATA_FOLDER_ENTRIES: [&str; 3] = ["journal", "format", "lock"];

const PROGRAMS: &str = "programs";

const TERMINATION_TIMEOUT: Duration = Duration::from_secs(5);

const POLL_INTERVAL: Duration = Duration::from_millis(2);

/// A data folder as the owner of programs.
///
/// Its id consists of device, inode and creation time of the lock file (the time because inode numbers are reused). The id
/// survives a move of the folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DataFolder {
    path: PathBuf,
    id: String,
}

/// Reasons why orphaned programs could not be terminated.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TerminateError {
    /// The current process is itself a descendant of such a program.
    #[error(
        "this process was started by a step of a run of {}, whose holder is gone: what a step started may not take \
         its data folder up; ask from outside of the run",
        path.display()
    )]
    FromWithin {
        /// The data folder.
        path: PathBuf,
    },
    /// Killed processes did not disappear in time.
    #[error(
        "programs of {} that an earlier process started were killed and do not end: {}; see what they wait for \
         (`ps -o pid,stat,wchan,args`), and try again once they are gone",
        path.display(),
        pids.iter().map(|pid| format!("process {pid}")).collect::<Vec<_>>().join(", ")
    )]
    Alive {
        /// The data folder.
        path: PathBuf,
        /// Ids of the remaining processes.
        pids: Vec<i32>,
    },
}

impl DataFolder {
    /// The data folder at `path`, which must exist.
    ///
    /// # Errors
    ///
    /// The lock file cannot be read.
    pub fn of(path: &Path) -> io::Result<DataFolder> {
        let lock = fs::symlink_metadata(path.join("lock"))?;
        // A reused inode number comes with a new creation time.
        let made = lock.created().ok().and_then(|made| made.duration_since(UNIX_EPOCH).ok());
        let made = made.map_or(0, |made| made.as_nanos());
        let id = format!("{:x}.{:x}.{made:x}", lock.dev(), lock.ino());
        Ok(DataFolder { path: path.canonicalize()?, id })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn id(&self) -> &str {
        &self.id
    }

    /// Writes a pid file for a program, until the result is dropped. `None` if that fails, for example because the disk is full; the
    /// program still has its mark.
    pub(super) fn write_pid_file(&self, pid: i32) -> Option<PidFile> {
        self.pid_files().write(&pid.to_string(), &self.pid_file_content(process(pid)?)).ok()
    }

    fn pid_files(&self) -> PidFiles {
        PidFiles::at(&self.path.join(PROGRAMS))
    }

    /// Content of a pid file. Differs for a copied folder, after a reboot, and for another process with the same id.
    fn pid_file_content(&self, process: Process) -> String {
        let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
        format!("{} {} {}", self.id, boot.trim(), process.started)
    }

    /// Kills all programs of this folder with their descendants, waits until they are gone, and returns the number of processes.
    /// The caller must hold the folder's lock and must not have started a program yet: any program found is then an orphan of a
    /// crashed process.
    ///
    /// # Errors
    ///
    /// See [`TerminateError`].
    pub fn terminate_orphans(&self) -> Result<usize, TerminateError> {
        let begun = Instant::now();
        let mut leaders = BTreeSet::new();
        let wait = || {
            std::thread::sleep(POLL_INTERVAL);
            begun.elapsed()
        };
        let ended = self.terminate_each(|| self.left(&mut leaders), kill, wait)?;
        // The pid files are stale now, and nobody uses the temporary files.
        self.pid_files().clear();
        TemporaryFolder::remove_all_of(&self.id);
        Ok(ended)
    }

    /// Kills all programs of this folder with their descendants, without waiting. Call with the folder's lock held and the process
    /// about to exit. The next process to open the folder terminates programs started meanwhile.
    pub fn kill_running(&self) {
        let own = std::process::id() as i32;
        let running = self.left(&mut BTreeSet::new());
        running.iter().filter(|process| process.pid != own).for_each(kill);
    }

    /// Kills the processes that `left` returns until there are none, and returns their number. `wait` pauses and returns the total
    /// time waited.
    fn terminate_each(
        &self,
        mut left: impl FnMut() -> BTreeSet<Process>,
        mut kill: impl FnMut(&Process),
        mut wait: impl FnMut() -> Duration,
    ) -> Result<usize, TerminateError> {
        let own = std::process::id() as i32;
        let (mut ended, mut waited) = (BTreeSet::new(), Duration::ZERO);
        loop {
            let left = left();
            if left.is_empty() {
                return Ok(ended.len());
            }
            if left.iter().any(|process| process.pid == own) {
                return Err(TerminateError::FromWithin { path: self.path.clone() });
            }
            if waited > TERMINATION_TIMEOUT {
                let pids = left.iter().map(|process| process.pid).collect();
                return Err(TerminateError::Alive { path: self.path.clone(), pids });
            }
            left.iter().for_each(&mut kill);
            ended.extend(left);
            waited = wait();
        }
    }

    /// All live descendants of the folder's programs. `leaders` collects the programs found by pid file, because their process
    /// groups identify descendants after the programs are gone.
    fn left(&self, leaders: &mut BTreeSet<i32>) -> BTreeSet<Process> {
        let (tree, all) = (ProcessTree::of_folder(&self.id), processes(0));
        let noted: Vec<&Process> = all.iter().filter(|process| self.has_pid_file(process)).collect();
        leaders.extend(noted.iter().map(|process| process.pid));
        let mut left: BTreeSet<Process> = noted.into_iter().copied().collect();
        let grouped = end_groups_of(&self.id);
        left.extend(all.iter().filter(|process| grouped.contains(&process.pid)));
        left.extend(tree.members(None, &all));
        for leader in leaders.iter() {
            left.extend(tree.members(Some(*leader), &all));
        }
        left
    }

    fn has_pid_file(&self, process: &Process) -> bool {
        self.pid_files()
            .read(&process.pid.to_string())
            .is_some_and(|file| file == self.pid_file_content(*process))
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    /// Terminates a fake process that disappears after `goes_after`.
    fn check(goes_after: Duration) -> Result<usize, TerminateError> {
        let folder = DataFolder { path: "/data".into(), id: String::new() };
        // Any other process; the fake `kill` spares it.
        let other = process(std::os::unix::process::parent_id() as i32).expect("it waits for this one");
        let (waited, mut killed) = (std::cell::Cell::new(Duration::ZERO), 0);
        let left = || if waited.get() > goes_after { BTreeSet::new() } else { BTreeSet::from([other]) };
        let wait = || {
            waited.set(waited.get() + Duration::from_millis(500));
            waited.get()
        };
        let ended = folder.terminate_each(left, |_| killed += 1, wait);
        if let Err(TerminateError::Alive { pids, .. }) = &ended {
            assert_eq!(*pids, [other.pid]);
        }
        assert_eq!(
            killed,
            goes_after.min(TERMINATION_TIMEOUT).as_millis() / 500 + 1,
            "it is killed again and again"
        );
        ended
    }

    #[test]
    fn what_was_killed_may_take_a_while_to_go_and_no_longer() {
        assert_eq!(check(Duration::ZERO), Ok(1));
        assert_eq!(check(TERMINATION_TIMEOUT), Ok(1));
        assert!(matches!(
            check(TERMINATION_TIMEOUT + Duration::from_millis(500)),
            Err(TerminateError::Alive { .. })
        ));
    }

    #[test]
    fn who_came_of_such_a_program_kills_nothing() {
        let folder = DataFolder { path: "/data".into(), id: String::new() };
        let own = || BTreeSet::from([process(std::process::id() as i32).expect("it runs")]);
        let ended = folder.terminate_each(own, |_| panic!("it is not asked to"), || Duration::ZERO);
        assert_eq!(ended, Err(TerminateError::FromWithin { path: "/data".into() }));
    }
}
