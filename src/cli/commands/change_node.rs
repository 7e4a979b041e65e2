//! Cancelling and skipping single nodes.

use std::path::Path;

use ostler_server::wire::{RunRef, Summary};
use serde_json::Value;

use crate::cli::arguments::Globals;
use crate::cli::arguments::metrics::MetricsOption;
use crate::cli::exit::Failure;
use crate::cli::output::terminal::{Out, status_line};
use crate::cli::output::{hints, labels};
use crate::cli::session::api_client::{ApiError, path_segment};
use crate::cli::session::signals::Signals;
use crate::cli::session::watch_run::{Done, answered, go_on};
use crate::cli::session::{AccessMode, Session};

pub(crate) async fn post(session: &mut Session, run: &str, what: &str) -> Result<RunRef, ApiError> {
    session.post(&format!("/v1/runs/{}/{what}", path_segment(run)), &Value::Null).await
}

pub(crate) async fn stop_node(
    globals: &Globals,
    run: &str,
    node: &str,
    how: &str,
    metrics: MetricsOption,
) -> Result<u8, Failure> {
    let mut out = Out::new();
    let mut signals = Signals::listen()?;
    let mut session =
        Session::open_with_metrics(globals, Path::new("."), AccessMode::Execute, metrics).await?;
    let before = match session.summary(run).await {
        Ok(before) => before,
        Err(failure) => return session.stop_with(failure).await,
    };
    let what = format!("nodes/{}/{how}", path_segment(node));
    if let Err(refused) = post(&mut session, &before.run, &what).await {
        return session.stop_with(refused).await;
    }
    let state = match session.summary(&before.run).await {
        Ok(mut after) => after.nodes.remove(node).unwrap_or_default(),
        Err(failure) => return session.stop_with(failure).await,
    };
    let done = stopped(&before, node, state);
    let was_in_doubt = before.waiting.iter().any(|waiting| waiting.node == node && waiting.id.is_none());
    if was_in_doubt && !globals.json {
        status_line(format!("{node} was in doubt: its effect is unknown, and is not asked for any more"));
    }
    go_on(session, &mut signals, globals, before, done, &mut out).await.map(answered)
}

fn stopped<'n>(before: &Summary, node: &'n str, state: String) -> Done<'n> {
    let text = match state.as_str() {
        "cancelled" | "skipped" => format!("{state} {node}"),
        "running" => format!(
            "{node} is changing the world: it runs to its end, and its result counts (`{}` shows it)",
            hints::show(&before.run)
        ),
        _ => format!("{node} had ended before: {}", labels::state(&state)),
    };
    let word = if state == "running" { "draining".to_owned() } else { state };
    Done { node, word, text, answers: false }
}
