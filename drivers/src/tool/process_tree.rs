//! Finds all descendants of a program. A descendant may leave the process group and lose its parent, so three criteria are
//! combined: membership in the group, parent links as long as the parent lives, and a mark in the environment. A process escapes
//! only if it left the group, is orphaned *and* cleared its environment.
//!
//! A mark consists of the call's id, an `@`, and the data folder. After a crash the next process to open the folder finds the
//! descendants by the part behind the `@`.
//!
//! Reads `/proc`; finds nothing on systems without it.

use std::collections::BTreeSet;
use std::fs;
use std::io::Read;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use rustix::process::Pid;

/// Environment variable with the mark.
pub(super) use ostler_kernel::port::CALL_MARK as MARK;

/// Maximum bytes of an environment that are read.
const ENVIRONMENT_BYTES_MAX: u64 = 1 << 20;

/// Maximum passes of killing; a killed process takes a moment to disappear.
const ROUNDS_MAX: usize = 100;

const POLL_INTERVAL: Duration = Duration::from_millis(1);

#[derive(Debug, Clone)]
pub(super) enum ProcessTree {
    /// Descendants of one program; the whole mark.
    OfCall(String),
    /// Descendants of all programs of a data folder; the end of the mark.
    OfFolder(String),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Process {
    pub(super) pid: i32,
    parent: i32,
    group: i32,
    /// Start time in clock ticks since boot. Distinguishes two processes with the same id.
    pub(super) started: u64,
}

impl ProcessTree {
    /// A tree with a unique mark. `folder` identifies the data folder; empty for none.
    pub(super) fn of_call(folder: &str) -> ProcessTree {
        static CALLS: AtomicU64 = AtomicU64::new(0);
        let call = CALLS.fetch_add(1, Ordering::Relaxed);
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        let nanos = now.map_or(0, |since| since.as_nanos());
        ProcessTree::OfCall(format!("{}-{call}-{nanos:x}@{folder}", std::process::id()))
    }

    pub(super) fn of_folder(folder: &str) -> ProcessTree {
        ProcessTree::OfFolder(format!("@{folder}"))
    }

    /// The mark of a call, or the end of the marks of a folder.
    pub(super) fn mark(&self) -> &str {
        match self {
            ProcessTree::OfCall(mark) | ProcessTree::OfFolder(mark) => mark,
        }
    }

    /// Kills all descendants of `leader`, but not `leader` itself, which must not be reaped yet.
    pub(super) fn kill(&self, leader: Pid) {
        // The second pass catches processes started between listing and killing.
        for _ in 0..2 {
            if self.kill_found(Some(leader.as_raw_nonzero().get())) == 0 {
                return;
            }
        }
    }

    /// Kills the remaining processes after the leader's end, until none is left.
    pub(super) fn end(&self) {
        for _ in 0..ROUNDS_MAX {
            if self.kill_found(None) == 0 {
                return;
            }
            std::thread::sleep(POLL_INTERVAL);
        }
    }

    fn kill_found(&self, leader: Option<i32>) -> usize {
        let found = self.members(leader, &processes());
        found.iter().for_each(kill);
        found.len()
    }

    /// The members among `all`: processes with the mark, in the leader's group, or descended from a member.
    pub(super) fn members(&self, leader: Option<i32>, all: &[Process]) -> Vec<Process> {
        let started = leader.and_then(|pid| all.iter().find(|process| process.pid == pid));
        let since = started.map_or(0, |leader| leader.started);
        let young = || all.iter().filter(|process| process.started >= since && Some(process.pid) != leader);
        let mut known: BTreeSet<i32> =
            young().filter(|it| Some(it.group) == leader || self.marks(it.pid)).map(|it| it.pid).collect();
        known.extend(leader);
        // Each pass adds one generation.
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
            ProcessTree::OfCall(own) => mark == own.as_bytes(),
            ProcessTree::OfFolder(end) => mark.ends_with(end.as_bytes()),
        };
        marks.into_iter().any(is_own)
    }
}

pub(super) fn processes() -> Vec<Process> {
    let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
    let pids = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    pids.filter_map(process).collect()
}

pub(super) fn process(pid: i32) -> Option<Process> {
    let stat = fs::read(format!("/proc/{pid}/stat")).ok()?;
    let stat = String::from_utf8_lossy(&stat);
    // The command name is in parentheses and may contain any character.
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
    // From here on the descriptor pins one process. Kill only if that is still the process found before.
    let Ok(handle) = pidfd_open(pid, PidfdFlags::empty()) else { return };
    if process(found.pid).is_some_and(|process| process.started == found.started) {
        // Fails only if the process is gone or belongs to another user by now.
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
        let members = ProcessTree::of_call("").members(Some(10), &all);
        assert_eq!(members.iter().map(|member| member.pid).collect::<Vec<_>>(), [13, 12, 11, 14]);
        assert_eq!(ProcessTree::of_call("").members(None, &all), []);
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn this_process_is_seen_and_no_mark_is_given_twice() {
        let own = std::process::id() as i32;
        assert!(processes().iter().any(|process| process.pid == own && process.started > 0));
        assert_ne!(ProcessTree::of_call("").mark(), ProcessTree::of_call("").mark());
    }
}
