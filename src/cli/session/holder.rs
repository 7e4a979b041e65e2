//! The process that holds a data folder: this one, or another that listens at `control.sock`.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use ostler::{InDoubt, Ostler};
use ostler_kernel::id::NodeId;
use ostler_kernel::plan::HumanDuration;
use ostler_server::wire::Health;
use ostler_server::{ChildPrograms, ControlSocket, router, socket_path};
use ostler_store::Opened;

use crate::cli::exit::Failure;
use crate::cli::output::hints::with_location;
use crate::cli::output::terminal::status_line;
use crate::cli::output::units::{duration_exact, plural};
use crate::cli::session::AccessMode;
use crate::cli::session::api_client::Client;
use crate::cli::session::open_errors::TO_REPAIR;

pub(crate) const ANSWER_TIMEOUT: Duration = Duration::from_secs(2);

pub(crate) struct InProcessSystem {
    pub(crate) os: Ostler,
    /// The control socket, except in read mode.
    pub(crate) listener: Option<Listener>,
}

pub(crate) struct Listener {
    pub(crate) socket: ControlSocket,
    pub(crate) data: PathBuf,
    pub(crate) router: Router,
}

/// Shuts the system down and releases the data folder. Reads and cancellations are answered until attempts
/// that change the world have ended; followers are notified by the end of the system.
pub(crate) async fn shut_down(os: Ostler, listener: Option<Listener>) {
    if let Some(listener) = &listener {
        listener.socket.leave();
        os.system().start_nothing().await;
        listener.socket.answered().await;
    }
    report_in_doubt(&os.shutdown().await);
    if let Some(listener) = listener {
        let _ = listener.socket.close(); // a socket file that remains refuses connections and is replaced
        listener.socket.finish().await;
    }
}

/// Nodes that the announcement of the end names.
const WAITED_FOR_SHOWN_MAX: usize = 3;

/// Line that announces the end of this process: what it waits for, for how long, and what a second ^C does.
pub(crate) fn stopping_text(acting: &BTreeSet<NodeId>, wait: Duration) -> String {
    let mut names: Vec<String> = acting.iter().take(WAITED_FOR_SHOWN_MAX).map(ToString::to_string).collect();
    let rest = acting.len() - names.len();
    if rest > 0 {
        names.push(format!("{rest} more"));
    }
    let Some(last) = names.pop() else {
        return "stopping: no attempt changes the world, so none is waited for; ^C again ends this process at once"
            .to_owned();
    };
    let (nodes, change, them) = match names.is_empty() {
        true => (last, "changes", "it"),
        false => (format!("{} and {last}", names.join(", ")), "change", "them"),
    };
    let wait = duration_exact(HumanDuration::Millis(i64::try_from(wait.as_millis()).unwrap_or(i64::MAX)));
    format!(
        "stopping: waits at most {wait} for {nodes}, which {change} the world; ^C again kills {them} at once and leaves \
         {them} in doubt"
    )
}

/// Reports attempts that were killed when the shutdown timeout expired.
fn report_in_doubt(in_doubt: &[InDoubt]) {
    for InDoubt { run, node } in in_doubt {
        status_line(format!(
            "node {node} of run {run}: killed at the shutdown timeout, so it is in doubt; `ostler resume` asks for its outcome (a longer timeout: [shutdown] wait in ostler.toml)"
        ));
    }
}

/// Reports what opening the data folder found and changed.
fn report_open(opened: &Opened, data: &Path, keep: Option<HumanDuration>) {
    let place = data.display();
    if let Some(torn) = &opened.torn {
        status_line(format!(
            "note: {place}: the last write was incomplete; {} unacknowledged bytes were dropped ({})",
            torn.bytes, torn.what
        ));
    }
    if let Some(lost) = &opened.lost_end {
        status_line(with_location(&format!(
            "note: {place}: damaged: {lost}; the list comes from the index, and nothing is written; {TO_REPAIR}"
        )));
    }
    if opened.format_missing {
        status_line(format!("note: {place}: the format file was missing, and was written again"));
    }
    if let Some(keep) = keep.filter(|_| opened.removed > 0) {
        let (runs, were) = (plural(opened.removed, "run"), if opened.removed == 1 { "was" } else { "were" });
        status_line(format!("note: {runs} older than keep = {} {were} removed", duration_exact(keep)));
    }
}

pub(crate) async fn open_in_process(
    os: Ostler,
    data: &Path,
    mode: AccessMode,
    keep: Option<HumanDuration>,
) -> Result<(Client, InProcessSystem), Failure> {
    if let Some(opened) = os.opened() {
        report_open(opened, data, keep);
    }
    if os.killed_programs() > 0 {
        status_line(format!(
            "note: {}: the previous process died; child processes that it left were killed",
            data.display()
        ));
    }
    let router = router(os.system().clone(), os.operators().clone());
    let client = Client::InProcess(router.clone());
    if mode == AccessMode::Read {
        return Ok((client, InProcessSystem { os, listener: None }));
    }
    match open_listener(data, router) {
        Ok(listener) => Ok((client, InProcessSystem { os, listener: Some(listener) })),
        Err(error) => {
            os.shutdown().await;
            let at = data.join("control.sock");
            Err(Failure::store(format!("control socket {}: cannot listen: {error}", at.display())))
        }
    }
}

pub(crate) fn open_listener(data: &Path, router: Router) -> std::io::Result<Listener> {
    let socket = ControlSocket::bind(data, router.clone(), ChildPrograms::Steps)?;
    Ok(Listener { socket, data: data.to_owned(), router })
}

pub(crate) fn disk_full_text(why: &str) -> String {
    format!("the disk is full ({why}): writes wait for space")
}

/// Connects to the process that holds the data folder, if one answers.
pub(crate) async fn connect(data: &Path) -> Option<(Client, Health)> {
    let (path, folder) = socket_path(data).ok()?;
    let client = Client::Socket { path, _folder: folder.map(Arc::new) };
    // A stopped process (SIGSTOP) accepts connections but does not answer.
    let answer = tokio::time::timeout(ANSWER_TIMEOUT, client.get::<Health>("/healthz")).await;
    let health = answer.ok()?.ok()?;
    Some((client, health))
}

pub(crate) async fn is_shutting_down(data: &Path) -> bool {
    connect(data).await.is_some_and(|(_, health)| health.leaving_within_ms.is_some())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_announcement_of_the_end_names_what_is_waited_for_and_for_how_long() {
        for (nodes, wait_s, expected) in [
            (
                &[][..],
                30,
                "stopping: no attempt changes the world, so none is waited for; ^C again ends this process at once",
            ),
            (
                &["act"],
                30,
                "stopping: waits at most 30s for act, which changes the world; ^C again kills it at once and leaves it in \
                 doubt",
            ),
            (
                &["a", "b", "c", "d", "e"],
                120,
                "stopping: waits at most 2m for a, b, c and 2 more, which change the world; ^C again kills them at once and \
                 leaves them in doubt",
            ),
        ] {
            let acting = nodes.iter().map(|name| NodeId::from(*name)).collect();
            assert_eq!(stopping_text(&acting, Duration::from_secs(wait_s)), expected);
        }
    }
}
