//! What came of a program, wherever it went: a process may leave the group of the one that started it, and be
//! orphaned. It is found by its parents as long as they live, and after that by a mark in the environment it was
//! started with. One that is orphaned *and* has cleared its environment is lost sight of.
//!
//! The mark tells the call and, behind an `@`, the data folder it is made for: so what a process leaves that is killed
//! is found by the next that takes the folder up.
//!
//! Looks at `/proc`; where there is none, nothing is found.

use std::collections::BTreeSet;
use std::fs;
use std::io::Read;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use rustix::process::Pid;

/// The environment variable that carries the mark of a call.
pub(super) use ostler_kernel::port::CALL_MARK as MARK;

/// How much of an environment is looked at.
const ENVIRONMENT_BYTES_MAX: u64 = 1 << 20;

/// How often the family is looked for until nobody is left of it: a killed process takes a moment to go.
const ROUNDS_MAX: usize = 100;

/// Between two looks.
const MOMENT: Duration = Duration::from_millis(1);

/// Processes that belong together.
#[derive(Debug, Clone)]
pub(super) enum Family {
    /// Those that came of one program: its mark.
    OfCall(String),
    /// Those that came of any program of a data folder: what their marks end in.
    OfFolder(String),
}

/// A process that has not ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Process {
    pub(super) pid: i32,
    parent: i32,
    /// The id of its group.
    group: i32,
    /// In ticks of the kernel since it started: tells two processes with one id apart.
    pub(super) started: u64,
}

impl Family {
    /// A family with a mark that no other has, nor had before on this machine. `folder` tells the data folder it
    /// works for; empty: none.
    pub(super) fn of_call(folder: &str) -> Family {
        static CALLS: AtomicU64 = AtomicU64::new(0);
        let call = CALLS.fetch_add(1, Ordering::Relaxed);
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        let nanos = now.map_or(0, |since| since.as_nanos());
        Family::OfCall(format!("{}-{call}-{nanos:x}@{folder}", std::process::id()))
    }

    /// All that works for a data folder, whoever started it.
    pub(super) fn of_folder(folder: &str) -> Family {
        Family::OfFolder(format!("@{folder}"))
    }

    /// What [`MARK`] is to be for this one; of all of a folder, what it ends in.
    pub(super) fn mark(&self) -> &str {
        match self {
            Family::OfCall(mark) | Family::OfFolder(mark) => mark,
        }
    }

    /// Kills all that came of `leader`, which is not reaped yet, but not itself.
    pub(super) fn kill(&self, leader: Pid) {
        // What was started between the look and the kill is found by the second look.
        for _ in 0..2 {
            if self.kill_found(Some(leader.as_raw_nonzero().get())) == 0 {
                return;
            }
        }
    }

    /// Kills all that is left after the leader has ended, until nobody is.
    pub(super) fn end(&self) {
        for _ in 0..ROUNDS_MAX {
            if self.kill_found(None) == 0 {
                return;
            }
            std::thread::sleep(MOMENT);
        }
    }

    /// How many were found.
    fn kill_found(&self, leader: Option<i32>) -> usize {
        let found = self.members(leader, &processes());
        found.iter().for_each(kill);
        found.len()
    }

    /// Those of `all` that carry the mark, are in the group of the leader, or descend from it or from such a one.
    pub(super) fn members(&self, leader: Option<i32>, all: &[Process]) -> Vec<Process> {
        let started = leader.and_then(|pid| all.iter().find(|process| process.pid == pid));
        let since = started.map_or(0, |leader| leader.started);
        let young = || all.iter().filter(|process| process.started >= since && Some(process.pid) != leader);
        let mut known: BTreeSet<i32> =
            young().filter(|it| Some(it.group) == leader || self.marks(it.pid)).map(|it| it.pid).collect();
        known.extend(leader);
        // Each pass goes one generation on.
        loop {
            let before = known.len();
            let children =
                young().filter(|process| known.contains(&process.parent)).map(|process| process.pid);
            let children: Vec<i32> = children.collect();
            known.extend(children);
            if known.len() == before {
                return young().filter(|process| known.contains(&process.pid)).copied().collect();
            }
        }
    }

    fn marks(&self, pid: i32) -> bool {
        let mut environment = Vec::new();
        let Ok(file) = fs::File::open(format!("/proc/{pid}/environ")) else { return false };
        if file.take(ENVIRONMENT_BYTES_MAX).read_to_end(&mut environment).is_err() {
            return false;
        }
        let named = format!("{MARK}=");
        let marks = environment.split(|byte| *byte == 0).filter_map(|it| it.strip_prefix(named.as_bytes()));
        let is_own = |mark: &[u8]| match self {
            Family::OfCall(own) => mark == own.as_bytes(),
            Family::OfFolder(end) => mark.ends_with(end.as_bytes()),
        };
        marks.into_iter().any(is_own)
    }
}

/// All processes but those that have ended.
pub(super) fn processes() -> Vec<Process> {
    let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
    let pids = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    pids.filter_map(process).collect()
}

/// A process, unless it has ended.
pub(super) fn process(pid: i32) -> Option<Process> {
    let stat = fs::read(format!("/proc/{pid}/stat")).ok()?;
    let stat = String::from_utf8_lossy(&stat);
    // The name stands in parentheses and may hold anything.
    let (_, rest) = stat.rsplit_once(") ")?;
    let mut words = rest.split(' ');
    let state = words.next()?;
    let parent = words.next()?.parse().ok()?;
    let group = words.next()?.parse().ok()?;
    let started = words.nth(16)?.parse().ok()?;
    (!matches!(state, "Z" | "X")).then_some(Process { pid, parent, group, started })
}

#[cfg(target_os = "linux")]
pub(super) fn kill(found: &Process) {
    use rustix::process::{PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
    let Some(pid) = Pid::from_raw(found.pid) else { return };
    // From here on the id stands for one process: if it is the one that was found, that one is killed.
    let Ok(handle) = pidfd_open(pid, PidfdFlags::empty()) else { return };
    if process(found.pid).is_some_and(|process| process.started == found.started) {
        // Fails only if it is gone, or has become somebody else's: then there is nothing to do.
        let _ = pidfd_send_signal(&handle, Signal::KILL);
    }
}

#[cfg(not(target_os = "linux"))]
pub(super) fn kill(_: &Process) {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn descendants_of_all_generations_and_the_group_are_members_and_nobody_else() {
        let process = |(pid, parent, group, started)| Process { pid, parent, group, started };
        let all = [
            (10, 1, 10, 5),
            (13, 12, 13, 7),
            (12, 11, 10, 7),
            (11, 10, 10, 6),
            (14, 1, 10, 8),
            (20, 1, 20, 6),
            (9, 10, 10, 4),
            (21, 20, 20, 9),
        ];
        let all = all.map(process);
        let members = Family::of_call("").members(Some(10), &all);
        assert_eq!(members.iter().map(|member| member.pid).collect::<Vec<_>>(), [13, 12, 11, 14]);
        assert_eq!(Family::of_call("").members(None, &all), []);
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn this_process_is_seen_and_no_mark_is_given_twice() {
        let own = std::process::id() as i32;
        assert!(processes().iter().any(|process| process.pid == own && process.started > 0));
        assert_ne!(Family::of_call("").mark(), Family::of_call("").mark());
    }
}
