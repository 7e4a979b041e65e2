//! Who asks at the socket. The programs of a plan run as the same user, so the mode of the socket does not keep them out; but
//! what a plan may do is the gate's to say, and no program of it may approve its own steps or open runs of its own.

use std::collections::BTreeSet;
use std::fs;

use axum::extract::Request;
use axum::extract::connect_info::{ConnectInfo, Connected};
use axum::http::StatusCode;
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use axum::serve::IncomingStream;
use ostler_kernel::port::CALL_MARK;
use tokio::net::UnixListener;

use crate::problem::Problem;

/// Ancestors of a process that are looked at.
const ANCESTORS_MAX: usize = 64;

/// The process at the other end.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Peer {
    /// Whether it was started by a step of a run that this process drives.
    from_within: bool,
}

impl Connected<IncomingStream<'_, UnixListener>> for Peer {
    fn connect_info(stream: IncomingStream<'_, UnixListener>) -> Peer {
        let pid = stream.io().peer_cred().ok().and_then(|peer| peer.pid());
        Peer { from_within: pid.is_some_and(is_from_within) }
    }
}

/// Refuses what a step of a run wants changed; it may look on.
pub(crate) async fn refuse_from_within(
    ConnectInfo(peer): ConnectInfo<Peer>,
    request: Request,
    next: Next,
) -> Response {
    if peer.from_within && !request.method().is_safe() {
        let what = "a step of a run may not steer the process that runs it: the gate says what a step may do";
        return Problem::new(StatusCode::FORBIDDEN, "asked_from_within", what).into_response();
    }
    next.run(request).await
}

/// Whether a process, or one that it came from, bears a mark of this process. Looks at `/proc`; where there is none,
/// nobody does.
fn is_from_within(pid: i32) -> bool {
    let mark = format!("{CALL_MARK}={}-", std::process::id());
    let this = std::process::id() as i32;
    let mut seen = BTreeSet::new();
    let mut next = Some(pid);
    while let Some(pid) = next.filter(|pid| *pid > 1 && *pid != this)
        && seen.len() < ANCESTORS_MAX
        && seen.insert(pid)
    {
        let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        if environment.split(|byte| *byte == 0).any(|entry| entry.starts_with(mark.as_bytes())) {
            return true;
        }
        next = parent(pid);
    }
    false
}

fn parent(pid: i32) -> Option<i32> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name of the program stands in parentheses, and may hold anything.
    stat.rsplit_once(')')?.1.split_whitespace().nth(1)?.parse().ok()
}
