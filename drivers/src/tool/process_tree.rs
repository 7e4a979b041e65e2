//! Finds all descendants of a program. A descendant may leave the process group and lose its parent, so three criteria are
//! combined: membership in the group, parent links as long as the parent lives, and a mark in the environment. A process escapes
//! only if it left the group, is orphaned *and* cleared its environment. In a cage it does not: there its control group or its
//! process namespace ends it, unless the machine has neither.
//!
//! A mark consists of the call's id, an `@`, and the data folder. After a crash the next process to open the folder finds the
//! descendants by the part behind the `@`.
//!
//! Reads `/proc`; finds nothing on systems without it.

use std::collections::BTreeSet;
use std::fs;
use std::io::Read;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime};

use rustix::process::Pid;

/// Environment variable with the mark.
pub(super) use ostler_kernel::port::CALL_MARK as MARK;

/// Maximum bytes of an environment that are read.
const ENVIRONMENT_BYTES_MAX: u64 = 1 << 20;

/// More than a line of `stat` has: a name of 64 bytes and 51 numbers.
const STAT_BYTES_MAX: usize = 2048;

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

/// A started program. Descendants have higher process ids, unless the ids have wrapped around since.
#[derive(Debug, Clone, Copy)]
pub(super) struct Leader {
    pub(super) pid: Pid,
    started: Instant,
}

impl Leader {
    pub(super) fn new(pid: Pid) -> Leader {
        Leader { pid, started: Instant::now() }
    }

    fn raw(&self) -> i32 {
        self.pid.as_raw_nonzero().get()
    }

    /// The lowest id that the leader or a descendant can have.
    fn lowest(&self) -> i32 {
        let may_have_wrapped = match (last_pid(), pid_max()) {
            (Some(last), Some(max)) => may_have_wrapped(self.raw(), last, max, self.started.elapsed()),
            _ => true,
        };
        if may_have_wrapped { 0 } else { self.raw() }
    }
}

/// Fastest rate at which a machine is assumed to start processes and threads.
const STARTS_PER_MICROSECOND: u64 = 1;

/// True if ids may have been given out again since `leader` got its own `age` ago: the `last` one given out is lower, or there
/// was time for `max` starts.
fn may_have_wrapped(leader: i32, last: i32, max: i32, age: Duration) -> bool {
    let starts = age.as_micros().saturating_mul(STARTS_PER_MICROSECOND.into());
    last < leader || starts >= u128::from(max.unsigned_abs())
}

/// The process id given out last.
fn last_pid() -> Option<i32> {
    let text = fs::read_to_string("/proc/loadavg").ok()?;
    text.trim_end().rsplit(' ').next()?.parse().ok()
}

/// Number of process ids of this machine.
fn pid_max() -> Option<i32> {
    static MAX: OnceLock<Option<i32>> = OnceLock::new();
    *MAX.get_or_init(|| fs::read_to_string("/proc/sys/kernel/pid_max").ok()?.trim_end().parse().ok())
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
    pub(super) fn kill(&self, leader: Leader) {
        // The second pass catches processes started between listing and killing.
        for _ in 0..2 {
            if self.kill_found(Some(leader.raw()), leader.lowest()) == 0 {
                return;
            }
        }
    }

    /// Kills the remaining processes after the leader's end, until none is left.
    pub(super) fn end(&self, leader: Leader) {
        for _ in 0..ROUNDS_MAX {
            if self.kill_found(None, leader.lowest()) == 0 {
                return;
            }
            std::thread::sleep(POLL_INTERVAL);
        }
    }

    fn kill_found(&self, leader: Option<i32>, lowest: i32) -> usize {
        let found = self.members(leader, &processes(lowest));
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

/// The processes of the machine with an id of at least `lowest`.
pub(super) fn processes(lowest: i32) -> Vec<Process> {
    let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
    let pids = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    pids.filter(|pid| *pid >= lowest).filter_map(process).collect()
}

pub(super) fn process(pid: i32) -> Option<Process> {
    let mut stat = [0; STAT_BYTES_MAX];
    // The kernel gives the whole line to one read.
    let len = fs::File::open(format!("/proc/{pid}/stat")).ok()?.read(&mut stat).ok()?;
    let stat = String::from_utf8_lossy(&stat[..len]);
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
    fn ids_count_as_given_out_again_when_the_last_is_lower_or_there_was_time_for_all() {
        let after = |last, micros| may_have_wrapped(1_000, last, 32_768, Duration::from_micros(micros));
        assert!(!after(1_000, 0) && !after(1_001, 32_767));
        assert!(after(999, 0) && after(1_001, 32_768));
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn this_process_is_seen_and_no_mark_is_given_twice() {
        let own = std::process::id() as i32;
        assert!(processes(own).iter().all(|process| process.pid >= own));
        assert!(processes(0).iter().any(|process| process.pid == own && process.started > 0));
        assert_ne!(ProcessTree::of_call("").mark(), ProcessTree::of_call("").mark());
    }
}
