//! The process at the other end of the socket. Programs of a plan run as the same user, so the socket's mode does not
//! keep them out; but only the gate decides what a plan may do, so no program may approve its own steps or open runs.

use std::fs;
use std::os::unix::ffi::OsStrExt;

use axum::extract::connect_info::ConnectInfo;
use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use ostler_kernel::port::CALL_MARK;
use rustix::process::geteuid;
use tokio::net::UnixStream;

use crate::problem::Problem;

/// Programs that the process starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChildPrograms {
    /// Only programs of steps: every descendant counts as a step, even without the mark in its environment.
    Steps,
    /// Also other programs, as in an application that embeds the library: only the mark counts.
    Any,
}

const ANCESTORS_MAX: usize = 64;

/// Flag of a process that is ending and has released its memory and environment (`PF_EXITING`,
/// `include/linux/sched.h`).
const EXITING: u64 = 0x4;

#[derive(Debug, Clone, Copy)]
pub(crate) struct Peer {
    /// `None` if the system does not tell.
    pid: Option<i32>,
    is_own: bool,
    /// The process belongs to the user or to root. The mode of the socket demands that too, but a sandboxed program
    /// can change modes.
    may_ask: bool,
    origin: Origin,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Origin {
    /// No sign of a step.
    Outside,
    /// A descendant of the process, without a mark.
    Child,
    /// The process cannot be inspected, for example because it has ended. It may belong to a step, so it counts as one.
    Unknown,
    /// A step of a run, of this process or another, has started it.
    Within,
}

impl Peer {
    pub(crate) fn of(stream: &UnixStream) -> Peer {
        let peer = stream.peer_cred().ok();
        let is_own = peer.as_ref().is_some_and(|peer| peer.uid() == geteuid().as_raw());
        let may_ask = is_own || peer.as_ref().is_some_and(|peer| peer.uid() == ROOT);
        let pid = peer.and_then(|peer| peer.pid());
        Peer { pid, is_own, may_ask, origin: origin(pid, is_own) }
    }

    /// True if a step has started it, or may have.
    pub(crate) fn may_be_a_step(&self, children: ChildPrograms) -> bool {
        self.origin.may_be_a_step(children)
    }
}

impl Origin {
    fn may_be_a_step(self, children: ChildPrograms) -> bool {
        match self {
            Origin::Outside => false,
            Origin::Child => children == ChildPrograms::Steps,
            Origin::Unknown | Origin::Within => true,
        }
    }
}

pub(crate) const ROOT: u32 = 0;

/// Refuses all requests of other users, and changes requested by a step; a step may read. The peer is inspected again
/// for each change: a process that has ended may have passed the connection on.
pub(crate) async fn refuse_from_within(
    State(children): State<ChildPrograms>,
    ConnectInfo(peer): ConnectInfo<Peer>,
    request: Request,
    next: Next,
) -> Response {
    if !peer.may_ask {
        let what = "only the user whose process this is, and root, may ask here";
        return Problem::new(StatusCode::FORBIDDEN, "asked_by_another_user", what).into_response();
    }
    if request.method().is_safe() {
        return next.run(request).await;
    }
    let origin = peer.origin.max(origin(peer.pid, peer.is_own));
    if !origin.may_be_a_step(children) {
        return next.run(request).await;
    }
    let what = match origin {
        Origin::Unknown => {
            "the process that connected is gone or cannot be looked at in /proc, so it may be a step's: ask from a \
             process that stays until it has its answer"
        }
        _ => "a step of a run may not steer the process that runs it: the gate says what a step may do",
    };
    Problem::new(StatusCode::FORBIDDEN, "asked_from_within", what).into_response()
}

/// The origin of a process: whether it or an ancestor has the mark of a step, or descends from this process. Reads `/proc`;
/// without it, every process is from outside.
fn origin(pid: Option<i32>, is_own: bool) -> Origin {
    if !cfg!(target_os = "linux") {
        return Origin::Outside;
    }
    let this = std::process::id() as i32;
    // Where this process is itself part of a step, so is all around it.
    let around = std::env::var_os(CALL_MARK).unwrap_or_default();
    let Some(peer) = pid.and_then(Seen::of).filter(|peer| peer.lives) else { return Origin::Unknown };
    if peer.pid == this {
        return Origin::Outside;
    }
    if peer.environment.is_none() && is_own {
        return Origin::Unknown;
    }
    let mut seen = peer;
    for _ in 0..ANCESTORS_MAX {
        let Seen { pid, parent, ref environment, .. } = seen;
        if environment.as_ref().is_some_and(|it| is_marked(it, around.as_bytes())) {
            return Origin::Within;
        }
        if parent == this {
            return Origin::Child;
        }
        if parent <= 1 {
            return Origin::Outside;
        }
        seen = match Seen::of(parent) {
            // Of another user's process only the parent is visible.
            Some(ancestor) if ancestor.lives => ancestor,
            // If the process has ended, its child has another parent by now; otherwise it is ending, or hidden as
            // another user's.
            found => match Seen::of(pid).filter(|child| child.lives) {
                Some(child) if child.parent != parent => child,
                Some(_) if found.is_none() => return Origin::Outside,
                _ => return Origin::Unknown,
            },
        };
    }
    Origin::Unknown
}

/// Whether an environment has the mark of a step other than the one `around`.
fn is_marked(environment: &[u8], around: &[u8]) -> bool {
    let entries = environment.split(|byte| *byte == 0);
    let mut marks = entries.filter_map(|entry| entry.strip_prefix(CALL_MARK.as_bytes())?.strip_prefix(b"="));
    marks.any(|mark| !mark.is_empty() && mark != around)
}

struct Seen {
    pid: i32,
    parent: i32,
    lives: bool,
    /// `None` if it is not readable.
    environment: Option<Vec<u8>>,
}

impl Seen {
    /// `None` if the process has ended, or cannot be inspected.
    fn of(pid: i32) -> Option<Seen> {
        // The environment first: a process that still lives afterwards had a readable one.
        let environment = fs::read(format!("/proc/{pid}/environ")).ok();
        let stat = fs::read(format!("/proc/{pid}/stat")).ok()?;
        let stat = String::from_utf8_lossy(&stat);
        // The program's name is in parentheses and may contain anything.
        let mut words = stat.rsplit_once(')')?.1.split_whitespace();
        let (state, parent) = (words.next()?, words.next()?.parse().ok()?);
        let flags: u64 = words.nth(4)?.parse().ok()?;
        let lives = !matches!(state, "Z" | "X") && flags & EXITING == 0;
        Some(Seen { pid, parent, lives, environment })
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use std::io::{BufRead, BufReader};
    use std::process::{Child, Command, Stdio};

    use super::*;

    /// A shell that runs a script, and the id of the process that connected, which stays until its input ends.
    fn staying(script: &str, mark: &str) -> (Child, i32) {
        let mut command = Command::new("sh");
        command.args(["-c", script]).env(CALL_MARK, mark).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().expect("sh starts");
        let mut line = String::new();
        BufReader::new(child.stdout.take().expect("a pipe")).read_line(&mut line).expect("it speaks");
        (child, line.trim().parse().expect("an id"))
    }

    const ORPHAN: &str = "exec 3<&0; (sh -c 'echo $$; read line <&3' &)";

    #[test]
    fn who_is_gone_or_not_told_may_have_been_a_steps() {
        let (mut child, pid) = staying("echo $$; read line", "");
        drop(child.stdin.take());
        let stat = format!("/proc/{pid}/stat");
        while !fs::read_to_string(&stat).expect("it is not reaped").contains(") Z ") {
            std::thread::yield_now();
        }
        assert_eq!(origin(Some(pid), true), Origin::Unknown, "ended, and not reaped");
        child.wait().expect("it ended");
        assert_eq!(origin(Some(pid), true), Origin::Unknown, "gone");
        assert_eq!(origin(None, true), Origin::Unknown);
        assert_eq!(origin(Some(0), false), Origin::Unknown, "not of this namespace");
    }

    #[test]
    fn what_descends_from_this_process_or_bears_its_mark_is_from_within() {
        let own = format!("{}-0-0@", std::process::id());
        for (script, mark, expected) in [
            ("echo $$; read line", "", Origin::Child),
            ("exec env -i /bin/sh -c 'echo $$; read line'", &own, Origin::Child),
            ("env -i /bin/sh -c 'echo $$; read line'; true", &own, Origin::Within),
            (ORPHAN, &own, Origin::Within),
            (ORPHAN, "1-0-0@", Origin::Within),
            (ORPHAN, "", Origin::Outside),
        ] {
            let (mut child, pid) = staying(script, mark);
            let input = child.stdin.take();
            if script == ORPHAN {
                child.wait().expect("it ends");
            }
            assert_eq!(origin(Some(pid), true), expected, "{script} {mark}");
            drop(input);
            child.wait().expect("it ends");
        }
        assert_eq!(origin(i32::try_from(std::process::id()).ok(), true), Origin::Outside, "itself");
    }
}
