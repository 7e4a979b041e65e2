//! The tables of runs, accounts and recorded results, as a function of the records.
//!
//! [`ChangeReader`] turns events into [`Change`]s, and [`Tables::apply`] is the only code to change a row. Appending, recovery,
//! the index and the verifier share both, so they agree on every row.

use std::cmp::Reverse;
use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};

use ostler_kernel::evaluation::Reputation;
use ostler_kernel::event::{Accounts, Evaluated, Event, RecordPlace, ReuseDecision};
use ostler_kernel::id::{AgentId, ClientId, Digest, NodeId, RunId, Ticks};
use ostler_kernel::json::Json;
use ostler_kernel::ledger::Amounts;
use ostler_kernel::lineage::{last_record_key, record_key};
use ostler_kernel::port::{AccountRow, Position, RunRow, RunRowStatus, RunsPage, StreamId, StreamKind};
use ostler_kernel::run::NodeState;
use serde::Deserialize;
use serde::de::IgnoredAny;

use crate::format::codec::{self, CodecError};
use crate::format::stream::run_of;

/// The run whose rows an event changes: the run of the stream, or the run a verdict in a client's stream is about.
pub(crate) fn affected_run(stream: &StreamId, event: &Event) -> Option<RunId> {
    match (stream.kind, event) {
        (StreamKind::Run, Event::Verdict(_)) => None,
        (StreamKind::Run, _) => run_of(stream),
        (StreamKind::Client, Event::Verdict(verdict)) => Some(verdict.run),
        (StreamKind::Attempts, Event::CallReserved(_) | Event::CallSettled(_)) => run_of(stream),
        (StreamKind::Client | StreamKind::Attempts | StreamKind::Pipeline | StreamKind::PipelineLog, _) => {
            None
        }
    }
}

/// Effect of an event on a run's row and the account paying for the run.
pub(crate) enum Change {
    Open(RunRow),
    /// With the time of closing, unless the run is open.
    SetStatus(RunRowStatus, Option<Ticks>),
    /// Charges the cost of ended attempts to the paying account.
    Charge(Option<Accounts>, u64),
    /// Charges a call of a model to the paying account: what it holds or used, less what it held before.
    ChargeCall {
        reserved: Amounts,
        used: Amounts,
    },
    Evaluate(Evaluated),
    CountAct,
    /// Counts a node that failed.
    CountFailed,
    /// A record was bound to the node. With an identity, the record is also the newest of its work.
    Bind {
        node: NodeId,
        reuse: Option<Digest>,
        place: RecordPlace,
    },
}

impl Change {
    /// True if the change alters the row of the paying account. A row that is not loaded before would begin anew, at nothing spent.
    pub(crate) fn is_of_account(&self) -> bool {
        match self {
            Change::Open(_) | Change::Charge(..) | Change::ChargeCall { .. } | Change::Evaluate(_) => true,
            Change::SetStatus(..) | Change::CountAct | Change::CountFailed | Change::Bind { .. } => false,
        }
    }
}

/// Key of the table of accounts: the client, and the agent unless the account covers the client's unnamed agents.
pub(crate) type AccountKey = (ClientId, Option<AgentId>);

pub(crate) fn paying_account(row: &RunRow) -> AccountKey {
    (row.client.clone(), row.named_agent().cloned())
}

pub(crate) fn key_of(row: &AccountRow) -> AccountKey {
    (row.client.clone(), row.agent.clone())
}

pub(crate) fn decode_checkpointed(account: &[u8], position: Position) -> Result<AccountRow, CodecError> {
    let row = codec::decode_row(account).or_else(|error| {
        // Checkpoints before format 5 end with the position.
        let row: Result<CreditsRow, CodecError> = codec::decode_row(account);
        row.map(AccountRow::from).map_err(|_| error)
    })?;
    Ok(AccountRow { position: position.0, ..row })
}

/// [`AccountRow`] as checkpoints held it before calls of models were charged.
#[derive(Deserialize)]
struct CreditsRow {
    client: ClientId,
    agent: Option<AgentId>,
    accounts: Option<Accounts>,
    spent: u64,
    reputation: Reputation,
    settled: u64,
    position: u64,
}

impl From<CreditsRow> for AccountRow {
    fn from(row: CreditsRow) -> AccountRow {
        let CreditsRow { client, agent, accounts, spent, reputation, settled, position } = row;
        AccountRow {
            client,
            agent,
            accounts,
            spent,
            reputation,
            settled,
            position,
            calls: Amounts::default(),
        }
    }
}

#[derive(Default, Deserialize)]
struct PlanSummary {
    #[serde(default)]
    id: String,
    #[serde(default)]
    nodes: Vec<IgnoredAny>,
}

/// Reads the changes an event makes. Separate from [`Tables::apply`] because summarising a plan may take long and needs no
/// lock. Keeps the summaries of the last few plans, as clients often open run after run with one plan.
#[derive(Default)]
pub(crate) struct ChangeReader(Mutex<VecDeque<(Json, Arc<PlanSummary>)>>);

const SUMMARIES_MAX: usize = 4;

impl ChangeReader {
    fn summary(&self, plan: &Json) -> Arc<PlanSummary> {
        let last = || self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let known: Vec<(Json, Arc<PlanSummary>)> = last().iter().cloned().collect();
        if let Some((_, summary)) = known.into_iter().find(|(text, _)| text == plan) {
            return summary;
        }
        let summary: Arc<PlanSummary> = Arc::new(serde_json::from_str(plan.as_str()).unwrap_or_default());
        let mut last = last();
        last.truncate(SUMMARIES_MAX - 1);
        last.push_front((plan.clone(), Arc::clone(&summary)));
        summary
    }

    /// The change made by `event`; `None` for events without effect on the tables.
    /// `place` is the position of the event.
    pub(crate) fn change(&self, event: &Event, place: RecordPlace, at_ms: Ticks) -> Option<Change> {
        match event {
            Event::RunOpened(opened) => {
                let plan = self.summary(&opened.plan);
                let (id, nodes) = (plan.id.clone(), plan.nodes.len() as u32);
                Some(Change::Open(RunRow::opened(opened, id, nodes, at_ms, Position(0))))
            }
            Event::RunRecovered { .. } => Some(Change::SetStatus(RunRowStatus::Open, None)),
            Event::Parked { reason } => {
                Some(Change::SetStatus(RunRowStatus::Parked(reason.clone()), Some(at_ms)))
            }
            Event::RunClosed { outcome } => {
                Some(Change::SetStatus(RunRowStatus::Closed(*outcome), Some(at_ms)))
            }
            Event::AttemptResult(result) | Event::LateResult(result) => (result.cost > 0
                || result.accounts.is_some())
            .then_some(Change::Charge(result.accounts, result.cost)),
            Event::CallReserved(call) => {
                Some(Change::ChargeCall { reserved: Amounts::default(), used: call.amounts })
            }
            Event::CallSettled(call) => Some(Change::ChargeCall { reserved: call.reserved, used: call.used }),
            Event::Evaluated(evaluated) => Some(Change::Evaluate(*evaluated)),
            Event::Verdict(verdict) => Some(Change::Evaluate(verdict.evaluated)),
            Event::NodeTransition(moved) if moved.to == NodeState::Failed => Some(Change::CountFailed),
            Event::ResultRecorded(record) => {
                Some(Change::Bind { node: record.node.clone(), reuse: Some(record.reuse), place })
            }
            Event::ReuseDecided(decided) => match &decided.decision {
                ReuseDecision::Reused(result) => {
                    Some(Change::Bind { node: decided.node.clone(), reuse: None, place: result.from })
                }
                ReuseDecision::Recomputed(_) | ReuseDecision::Edited { .. } | ReuseDecision::Kept { .. } => {
                    None
                }
            },
            Event::HumanAnswer(_) => Some(Change::CountAct),
            Event::Operator(act) => act.is_by_person().then_some(Change::CountAct),
            _ => None,
        }
    }

    /// Changes made by a batch whose first record has number `first`. The last change sums up all charges of the batch.
    pub(crate) fn changes(
        &self,
        stream: &StreamId,
        first: u64,
        events: &[Event],
        at_ms: Ticks,
    ) -> Vec<(RunId, Change)> {
        let (mut changes, mut charge) = (Vec::new(), None);
        for (seq, event) in (first..).zip(events) {
            let Some(run) = affected_run(stream, event) else { continue };
            match self.change(event, RecordPlace { run, seq }, at_ms) {
                Some(Change::Charge(accounts, cost)) => {
                    let (_, last, sum) = charge.unwrap_or((run, None, 0_u64));
                    charge = Some((run, accounts.or(last), sum.saturating_add(cost)));
                }
                change => changes.extend(change.map(|change| (run, change))),
            }
        }
        changes.extend(charge.map(|(run, accounts, cost)| (run, Change::Charge(accounts, cost))));
        changes
    }
}

/// A row of the table of recorded results.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RecordRow {
    pub(crate) place: RecordPlace,
    /// Position of the record behind the row.
    pub(crate) position: u64,
}

/// Rows of all tables: all rows, or the rows changed after the index's mark.
#[derive(Clone, Default)]
pub(crate) struct Tables {
    pub(crate) runs: HashMap<RunId, RunRow>,
    pub(crate) accounts: HashMap<AccountKey, AccountRow>,
    /// By [`record_key`] and [`last_record_key`].
    pub(crate) records: HashMap<Digest, RecordRow>,
}

impl Tables {
    /// Applies a change of a run recorded at `position`. Rows existing elsewhere must be loaded before; a run without a row
    /// was never opened, and most changes ignore such a run.
    pub(crate) fn apply(&mut self, run: RunId, change: Change, position: Position) {
        match change {
            Change::Open(row) => {
                self.runs.insert(run, RunRow { position, ..row });
            }
            Change::SetStatus(status, closed_ms) => {
                if let Some(row) = self.runs.get_mut(&run) {
                    (row.status, row.closed_ms, row.position) = (status, closed_ms, position);
                }
            }
            Change::Charge(accounts, cost) => {
                if let Some(row) = self.account(run) {
                    if accounts.is_some() {
                        (row.accounts, row.settled) = (accounts, position.0);
                    }
                    row.spent = row.spent.saturating_add(cost);
                    row.position = position.0;
                }
            }
            Change::ChargeCall { reserved, used } => {
                if let Some(row) = self.account(run) {
                    row.calls = row.calls.minus(reserved).plus(used);
                    row.position = position.0;
                }
            }
            Change::Evaluate(evaluated) => {
                if let Some(row) = self.runs.get_mut(&run) {
                    (row.evaluated, row.position) = (Some(evaluated), position);
                }
                if let Some(row) = self.account(run) {
                    row.reputation = row.reputation.after(evaluated.composite);
                    row.position = position.0;
                }
            }
            Change::CountFailed => {
                if let Some(row) = self.runs.get_mut(&run) {
                    (row.failed, row.position) = (row.failed.saturating_add(1), position);
                }
            }
            Change::Bind { node, reuse, place } => {
                let Some(row) = self.runs.get(&run) else { return };
                let keys = [
                    Some(last_record_key(&row.client, &row.plan, &node)),
                    reuse.map(|reuse| record_key(&row.client, reuse)),
                ];
                let bound = RecordRow { place, position: position.0 };
                self.records.extend(keys.into_iter().flatten().map(|key| (key, bound)));
            }
            Change::CountAct => {
                if let Some(row) = self.runs.get_mut(&run) {
                    (row.acts, row.position) = (row.acts.saturating_add(1), position);
                }
            }
        }
    }

    fn account(&mut self, run: RunId) -> Option<&mut AccountRow> {
        let key = self.runs.get(&run).map(paying_account)?;
        let empty = |(client, agent): &AccountKey| AccountRow {
            client: client.clone(),
            agent: agent.clone(),
            accounts: None,
            spent: 0,
            reputation: Reputation::default(),
            settled: 0,
            position: 0,
            calls: Amounts::default(),
        };
        Some(self.accounts.entry(key).or_insert_with_key(empty))
    }
}

/// Sorts rows newest first; with `open_only`, drops rows of runs without work left.
pub(crate) fn sorted_runs(rows: impl Iterator<Item = RunRow>, open_only: bool) -> Vec<RunRow> {
    let mut rows: Vec<RunRow> = rows.filter(|row| !open_only || row.status == RunRowStatus::Open).collect();
    rows.sort_by_key(|row| Reverse(row.place()));
    rows
}

/// The first rows of the page among `rows`, newest first.
pub(crate) fn page_of<'a>(rows: impl Iterator<Item = &'a RunRow>, page: RunsPage) -> Vec<RunRow> {
    let is_open = |row: &&RunRow| !page.open_only || row.status == RunRowStatus::Open;
    let is_before = |row: &&RunRow| page.before.is_none_or(|before| row.place() < before);
    let mut rows: Vec<&RunRow> = rows.filter(is_open).filter(is_before).collect();
    rows.sort_unstable_by_key(|row| Reverse(row.place()));
    rows.into_iter().take(page.limit).cloned().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::codec::golden::samples;

    /// Replaying decodes only records that `touches_tables` selects by their kind.
    #[test]
    fn every_event_with_a_change_touches_the_tables() {
        let reader = ChangeReader::default();
        for event in samples() {
            let mut record = Vec::new();
            codec::encode(&event, &mut record).unwrap();
            let place = RecordPlace { run: RunId::default(), seq: 1 };
            let changes = reader.change(&event, place, 1).is_some();
            assert!(!changes || codec::touches_tables(&record).unwrap(), "{event:?}");
        }
    }
}
