//! How events change the tables of runs and of accounts.

use std::cmp::Reverse;
use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};

use ostler_kernel::evaluation::Reputation;
use ostler_kernel::event::{Accounts, Evaluated, Event};
use ostler_kernel::id::{AgentId, ClientId, RunId, Ticks};
use ostler_kernel::json::Json;
use ostler_kernel::port::{AccountRow, Position, RunRow, RunRowStatus, StreamId, StreamKind};
use serde::Deserialize;
use serde::de::IgnoredAny;

use crate::codec::{self, CodecError};

/// The run that a stream is about.
pub(crate) fn run_of(stream: &StreamId) -> Option<RunId> {
    match stream.kind {
        StreamKind::Run | StreamKind::Attempts => Some(RunId(uuid::Uuid::from_bytes(stream.key))),
        StreamKind::Client | StreamKind::Pipeline | StreamKind::PipelineLog => None,
    }
}

/// What a stream is about, for people.
pub(crate) fn name_of(stream: &StreamId) -> String {
    let key = u128::from_be_bytes(stream.key);
    match (stream.kind, run_of(stream)) {
        (_, Some(run)) => format!("run {run}"),
        (StreamKind::Pipeline | StreamKind::PipelineLog, _) => format!("pipeline {key:032x}"),
        _ => format!("client {key:032x}"),
    }
}

/// The run whose lines a record of this stream may change: its own, or the one that a verdict is on.
pub(crate) fn subject_of(stream: &StreamId, event: &Event) -> Option<RunId> {
    match (stream.kind, event) {
        (StreamKind::Run, Event::Verdict(_)) => None,
        (StreamKind::Run, _) => run_of(stream),
        (StreamKind::Client, Event::Verdict(verdict)) => Some(verdict.run),
        (StreamKind::Client | StreamKind::Attempts | StreamKind::Pipeline | StreamKind::PipelineLog, _) => {
            None
        }
    }
}

/// What an event does to the tables.
pub(crate) enum Change {
    /// The line of its run begins.
    Begin(RunRow),
    /// The run stands otherwise, and since when that is so, unless it is open.
    Stand(RunRowStatus, Option<Ticks>),
    /// An attempt of the run ended, and this is what it cost.
    Charge(Option<Accounts>, u64),
    /// The run was evaluated, by its records or by a person.
    Evaluate(Evaluated),
    /// A person did something about the run.
    Act,
}

/// Whose line of the table of accounts.
pub(crate) type AccountKey = (ClientId, Option<AgentId>);

/// Whose account pays for a run.
pub(crate) fn account_of(row: &RunRow) -> AccountKey {
    (row.client.clone(), row.named_agent().cloned())
}

/// Whose line this is.
pub(crate) fn key_of(row: &AccountRow) -> AccountKey {
    (row.client.clone(), row.agent.clone())
}

/// The line of an account that a checkpoint at `position` holds.
pub(crate) fn checkpointed(account: &[u8], position: Position) -> Result<AccountRow, CodecError> {
    let row: AccountRow = codec::decode_row(account)?;
    Ok(AccountRow { position: position.0, ..row })
}

/// What of a plan stands in the table.
#[derive(Default, Deserialize)]
struct Skimmed {
    #[serde(default)]
    id: String,
    #[serde(default)]
    nodes: Vec<IgnoredAny>,
}

/// Reads what events do to the tables. Apart from [`Lines::apply`] because it may take long: a plan is skimmed for its id
/// and its size. Not again for the last few: who runs plans often opens run after run with the same texts.
#[derive(Default)]
pub(crate) struct Reader(Mutex<VecDeque<(Json, Arc<Skimmed>)>>);

/// Plans of which is kept what was skimmed, at most; the newest.
const SKIMMED_MAX: usize = 4;

impl Reader {
    fn skim(&self, plan: &Json) -> Arc<Skimmed> {
        let last = || self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let known: Vec<(Json, Arc<Skimmed>)> = last().iter().cloned().collect();
        if let Some((_, skimmed)) = known.into_iter().find(|(text, _)| text == plan) {
            return skimmed;
        }
        let skimmed: Arc<Skimmed> = Arc::new(serde_json::from_str(plan.as_str()).unwrap_or_default());
        let mut last = last();
        last.truncate(SKIMMED_MAX - 1);
        last.push_front((plan.clone(), Arc::clone(&skimmed)));
        skimmed
    }

    /// What `event` does to the tables, if anything.
    pub(crate) fn change(&self, event: &Event, at_ms: Ticks) -> Option<Change> {
        match event {
            Event::RunOpened(opened) => {
                let plan = self.skim(&opened.plan);
                let (id, nodes) = (plan.id.clone(), plan.nodes.len() as u32);
                Some(Change::Begin(RunRow::opened(opened, id, nodes, at_ms, Position(0))))
            }
            Event::RunRecovered { .. } => Some(Change::Stand(RunRowStatus::Open, None)),
            Event::Parked { reason } => Some(Change::Stand(RunRowStatus::Parked(reason.clone()), Some(at_ms))),
            Event::RunClosed { outcome } => Some(Change::Stand(RunRowStatus::Closed(*outcome), Some(at_ms))),
            Event::AttemptResult(result) | Event::LateResult(result) => (result.cost > 0
                || result.accounts.is_some())
            .then_some(Change::Charge(result.accounts, result.cost)),
            Event::Evaluated(evaluated) => Some(Change::Evaluate(*evaluated)),
            Event::Verdict(verdict) => Some(Change::Evaluate(verdict.evaluated)),
            Event::HumanAnswer(_) => Some(Change::Act),
            Event::Operator(act) => act.is_by_person().then_some(Change::Act),
            _ => None,
        }
    }

    /// What the events of a batch do to the tables, and to the lines of which run: all that its attempts cost at once, at the end.
    pub(crate) fn changes(&self, stream: &StreamId, events: &[Event], at_ms: Ticks) -> Vec<(RunId, Change)> {
        let (mut changes, mut charge) = (Vec::new(), None);
        for event in events {
            let Some(run) = subject_of(stream, event) else { continue };
            match self.change(event, at_ms) {
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

/// Lines of both tables: all of them, or those that changed of late.
#[derive(Clone, Default)]
pub(crate) struct Lines {
    pub(crate) rows: HashMap<RunId, RunRow>,
    pub(crate) accounts: HashMap<AccountKey, AccountRow>,
}

impl Lines {
    /// Lets a change of a run take effect, which stands at `position`. The lines that it is about must be here, if there
    /// are any; a run that was never opened has none.
    pub(crate) fn apply(&mut self, run: RunId, change: Change, position: Position) {
        match change {
            Change::Begin(row) => {
                self.rows.insert(run, RunRow { position, ..row });
            }
            Change::Stand(standing, closed_ms) => {
                if let Some(row) = self.rows.get_mut(&run) {
                    (row.status, row.closed_ms, row.position) = (standing, closed_ms, position);
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
            Change::Evaluate(evaluated) => {
                if let Some(row) = self.rows.get_mut(&run) {
                    (row.evaluated, row.position) = (Some(evaluated), position);
                }
                if let Some(row) = self.account(run) {
                    row.reputation = row.reputation.after(evaluated.composite);
                    row.position = position.0;
                }
            }
            Change::Act => {
                if let Some(row) = self.rows.get_mut(&run) {
                    (row.acts, row.position) = (row.acts.saturating_add(1), position);
                }
            }
        }
    }

    /// The account that pays for a run, which begins here if it is not there.
    fn account(&mut self, run: RunId) -> Option<&mut AccountRow> {
        let key = self.rows.get(&run).map(account_of)?;
        let none = |(client, agent): &AccountKey| AccountRow {
            client: client.clone(),
            agent: agent.clone(),
            accounts: None,
            spent: 0,
            reputation: Reputation::default(),
            settled: 0,
            position: 0,
        };
        Some(self.accounts.entry(key).or_insert_with_key(none))
    }
}

/// The lines in the order in which they are given out, newest first; with `open_only`, those with work left.
pub(crate) fn listed(rows: impl Iterator<Item = RunRow>, open_only: bool) -> Vec<RunRow> {
    let mut rows: Vec<RunRow> = rows.filter(|row| !open_only || row.status == RunRowStatus::Open).collect();
    rows.sort_by_key(|row| Reverse((row.opened_ms, row.run)));
    rows
}
