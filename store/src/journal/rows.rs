//! How events change the table of runs.

use std::cmp::Reverse;

use ostler_kernel::event::Event;
use ostler_kernel::id::{RunId, Ticks};
use ostler_kernel::port::{Position, RunRow, RunStanding, StreamId, StreamKind};
use serde::Deserialize;
use serde::de::IgnoredAny;

/// The run whose stream this is.
pub(crate) fn run_of(stream: &StreamId) -> Option<RunId> {
    match stream.kind {
        StreamKind::Run => Some(RunId(uuid::Uuid::from_bytes(stream.key))),
        StreamKind::Client => None,
    }
}

/// What an event does to the line of its run.
pub(crate) enum RowChange {
    /// The line begins.
    Begin(RunRow),
    /// The run stands otherwise, and since when that is so, unless it is open.
    Stand(RunStanding, Option<Ticks>),
}

/// What of a plan stands in the table.
#[derive(Default, Deserialize)]
struct Skimmed {
    #[serde(default)]
    id: String,
    #[serde(default)]
    nodes: Vec<IgnoredAny>,
}

/// What `event` does to the line of its run, if anything. Apart from [`RowChange::apply`] because it may take
/// long: a plan is skimmed for its id and its size.
pub(crate) fn change(event: &Event, at_ms: Ticks) -> Option<RowChange> {
    match event {
        Event::RunOpened(opened) => {
            let plan: Skimmed = serde_json::from_str(opened.plan.as_str()).unwrap_or_default();
            Some(RowChange::Begin(RunRow {
                run: opened.run,
                client: opened.client.clone(),
                agent: opened.agent.clone(),
                plan: plan.id,
                nodes: plan.nodes.len() as u32,
                opened_ms: at_ms,
                closed_ms: None,
                standing: RunStanding::Open,
                position: Position(0),
            }))
        }
        Event::RunRecovered { .. } => Some(RowChange::Stand(RunStanding::Open, None)),
        Event::Parked { reason } => Some(RowChange::Stand(RunStanding::Parked(reason.clone()), Some(at_ms))),
        Event::RunClosed { outcome } => Some(RowChange::Stand(RunStanding::Closed(*outcome), Some(at_ms))),
        _ => None,
    }
}

impl RowChange {
    /// The line after the change, which stands at `position`, when `row` is the one before. A run that was never opened has none.
    pub(crate) fn apply(self, row: Option<RunRow>, position: Position) -> Option<RunRow> {
        match self {
            RowChange::Begin(row) => Some(RunRow { position, ..row }),
            RowChange::Stand(standing, closed_ms) => {
                row.map(|row| RunRow { standing, closed_ms, position, ..row })
            }
        }
    }
}

/// The lines in the order in which they are given out, newest first; with `open_only`, those with work left.
pub(crate) fn listed(rows: impl Iterator<Item = RunRow>, open_only: bool) -> Vec<RunRow> {
    let mut rows: Vec<RunRow> = rows.filter(|row| !open_only || row.standing == RunStanding::Open).collect();
    rows.sort_by_key(|row| Reverse((row.opened_ms, row.run)));
    rows
}
