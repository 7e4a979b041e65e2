//! Opening runs.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use ostler_kernel::event::{CallTerms, Event, Parent, RunOpened};
use ostler_kernel::id::{AgentId, ClientId, RunId, Ticks, is_name};
use ostler_kernel::json;
use ostler_kernel::ledger::CallLimits;
use ostler_kernel::policy::GoalTerms;
use ostler_kernel::port::{JournalError, Position, RunRow, RunRowStatus, Seq, StreamBatch, StreamId};
use ostler_kernel::run::{OpeningTerms, RunFoldError};

use crate::api::system::System;
use crate::base::error::RunError;
use crate::base::lock::lock;
use crate::messages::registry::RegistryMessage;
use crate::messages::submission::{Submission, SubmitError, Term};

/// The terms of calls, with the limits of the plan's own policy.
fn with_policy(calls: Option<CallTerms>, policy: CallLimits) -> Option<CallTerms> {
    match calls {
        Some(calls) => Some(CallTerms { limits: calls.limits.and(policy), ..calls }),
        None => (!policy.is_unlimited()).then_some(CallTerms { account: None, limits: policy, asks: true }),
    }
}

/// The first records of a run.
fn opening_records(
    opened: &RunOpened,
    terms: OpeningTerms,
    parent: Option<Parent>,
    goal: Option<&GoalTerms>,
) -> Result<Vec<Event>, SubmitError> {
    let mut events = vec![Event::RunOpened(Box::new(opened.clone()))];
    events.extend(terms.into_records(parent));
    if let Some(goal) = goal {
        events.push(Event::GoalOpened { terms: json::to_canonical(goal)? });
    }
    Ok(events)
}

/// Last millisecond that fits into the 48 bits of a UUID of version 7, in the year 10889.
const RUN_ID_MS_MAX: u64 = (1 << 48) - 1;

/// A new run id. It begins with the time; a clock before 1970 counts as 1970, one beyond 48 bits of milliseconds as the last of
/// them.
pub fn new_run_id() -> RunId {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    match u64::try_from(since.as_millis()) {
        Ok(1..=RUN_ID_MS_MAX) => RunId(uuid::Uuid::now_v7()),
        ms => run_id_at(ms.unwrap_or(u64::MAX)),
    }
}

fn run_id_at(ms: u64) -> RunId {
    let ms = ms.min(RUN_ID_MS_MAX);
    RunId(uuid::Builder::from_unix_timestamp_millis(ms, &rand::random()).into_uuid())
}

impl System {
    /// Opens a run and drives it. The run is durable on return; dropping the future may or may not have opened
    /// it.
    pub async fn submit(&self, submission: Submission) -> Result<RunId, SubmitError> {
        self.open(submission, None).await
    }

    /// Opens a run, also on behalf of a parent run.
    pub(crate) async fn open(
        &self,
        submission: Submission,
        parent: Option<Parent>,
    ) -> Result<RunId, SubmitError> {
        self.open_with(submission, parent, (Vec::new(), false)).await
    }

    /// Opens a run with records of an earlier one behind the opening; `asks`: they leave a question open.
    pub(crate) async fn open_with(
        &self,
        submission: Submission,
        parent: Option<Parent>,
        (taken_over, asks): (Vec<Event>, bool),
    ) -> Result<RunId, SubmitError> {
        let Submission { mut plan, client, agent, intent, scope, workspace, run: wanted, mut terms, goal } =
            submission;
        // A child run uses the account of the run that opened it.
        if parent.is_none() {
            terms.calls = with_policy(terms.calls, plan.policy.calls);
        }
        let (budget, calls) = (terms.budget, terms.calls);
        let workspace = self.check_terms(&client, intent, &scope, workspace)?;
        let run = wanted.unwrap_or_else(new_run_id);
        let agent = agent.unwrap_or_else(|| AgentId::from(run.to_string().as_str()));
        let profile = self.services.evaluation.profiles.of(&agent);
        profile.takes(&plan).map_err(|what| SubmitError::Input { agent: agent.clone(), what })?;
        if profile.constrains() {
            profile.constrain(Arc::make_mut(&mut plan));
        }
        let (plan_id, nodes) = (plan.id.clone(), plan.nodes.len() as u32);
        let text = self.services.runs.plans.spell(plan)?;
        let opened = RunOpened {
            run,
            client,
            agent,
            plan: text,
            intent,
            scope,
            workspace: workspace.to_string_lossy().into_owned(),
            policy_epoch: self.services.gatekeeper.policy().epoch,
            seed: rand::random(),
        };
        let at_ms = self.services.journal.now();
        let goal = goal.map(|goal| GoalTerms { opened_at: at_ms, ..GoalTerms::clone(&goal) });
        let mut opening = opening_records(&opened, terms, parent.clone(), goal.as_ref())?;
        opening.extend(taken_over);
        let records = opening.len() as u64;
        let Some(position) = self.append_opening(&opened, opening, wanted.is_some(), at_ms)? else {
            return self.opened_before(opened, (budget, calls), goal).await;
        };
        // Driving begins before the record is durable: acting attempts wait for it, and a rollback removes everything.
        let row = RunRow::opened(&opened, plan_id, nodes, at_ms, position);
        match &parent {
            Some(parent) => {
                self.services.active_runs.add_child(run, parent);
            }
            None => self.services.active_runs.add(run, false),
        }
        self.services.active_runs.note_quiet(run, Seq(records), (!asks).then_some(position));
        self.drive(row, false);
        self.services.journal.durable(position).await?;
        Ok(run)
    }

    /// Checks the terms of a submission, and resolves its workspace.
    pub(crate) fn check_terms(
        &self,
        client: &ClientId,
        intent: u8,
        scope: &str,
        workspace: PathBuf,
    ) -> Result<PathBuf, SubmitError> {
        if !is_name(client.as_str()) {
            return Err(SubmitError::Client(client.to_string()));
        }
        let most = self.services.limits.clients;
        if !self.services.ledger.has_room(client, most) {
            return Err(SubmitError::TooManyClients(most));
        }
        if intent > 2 {
            return Err(SubmitError::Intent(intent));
        }
        let gate = self.services.gatekeeper.policy();
        gate.admit(Some(intent)).map_err(|denial| SubmitError::AboveToken(denial.operator))?;
        if !gate.has_scope(scope) {
            let known: Vec<&str> = gate.scopes.keys().map(String::as_str).collect();
            return Err(SubmitError::Scope { scope: scope.to_owned(), known: known.join(", ") });
        }
        workspace
            .canonicalize()
            .map_err(|error| SubmitError::Workspace { folder: workspace, why: error.to_string() })
    }

    /// Appends the opening record; `None` if the run exists. A chosen id may be used in another client's stream, so it
    /// is looked up and appended under a lock.
    fn append_opening(
        &self,
        opened: &RunOpened,
        events: Vec<Event>,
        is_wanted: bool,
        at_ms: Ticks,
    ) -> Result<Option<Position>, JournalError> {
        let _one_at_a_time = is_wanted.then(|| lock(&self.opening));
        if is_wanted && self.services.journal.run(opened.run)?.is_some() {
            return Ok(None);
        }
        let stream = StreamId::run(&opened.client, opened.run);
        let batch = StreamBatch { stream, expected: Seq(0), at_ms, events };
        match self.services.journal.append_batch(batch) {
            Err(JournalError::Conflict { .. }) => Ok(None),
            appended => appended.map(Some),
        }
    }

    /// Returns an existing run with equal terms, and resumes it.
    async fn opened_before(
        &self,
        now: RunOpened,
        (budget, calls): (Option<u64>, Option<CallTerms>),
        goal: Option<GoalTerms>,
    ) -> Result<RunId, SubmitError> {
        let run = now.run;
        let unreadable = |error| SubmitError::Unreadable(Box::new(error));
        let row = self.row(run).map_err(unreadable)?;
        let stream = StreamId::run(&row.client, run);
        let mut records = self.services.journal.read(stream, Seq(0), 1)?;
        records.extend(self.services.journal.read(stream, Seq(1), OpeningTerms::RECORDS_MAX + 1)?);
        let Some(Event::RunOpened(then)) = records.first().map(|record| &record.event) else {
            return Err(unreadable(RunError::Fold(RunFoldError::Unopened(run))));
        };
        let mut differs = Term::between(then, &now);
        let (mut terms, mut goal_then) = (OpeningTerms::default(), None);
        for record in records.iter().skip(1) {
            match &record.event {
                Event::GoalOpened { terms } => goal_then = serde_json::from_str(terms.as_str()).ok(),
                event => {
                    if !terms.see(event) {
                        break;
                    }
                }
            }
        }
        // The time of the opening differs, and perhaps the templates that were the best then; both are no terms.
        let (then_at, templates) = goal_then
            .as_ref()
            .map_or((0, Vec::new()), |then: &GoalTerms| (then.opened_at, then.templates.clone()));
        let goal = goal.map(|goal| GoalTerms { opened_at: then_at, templates, ..goal });
        differs.extend((budget != terms.budget || calls != terms.calls).then_some(Term::Budget));
        differs.extend((goal != goal_then).then_some(Term::Goal));
        if !differs.is_empty() {
            return Err(SubmitError::Taken { run, differs });
        }
        self.stand_by(row).await?;
        Ok(run)
    }

    /// True if a run of the id exists, with any terms. It is durable then, and resumes if it was inactive.
    ///
    /// # Errors
    ///
    /// The journal cannot be read, or has rolled the run back.
    pub async fn has_opened(&self, run: RunId) -> Result<bool, JournalError> {
        let Some(row) = self.services.journal.run(run)? else { return Ok(false) };
        self.stand_by(row).await?;
        Ok(true)
    }

    /// Waits until an existing run is durable, and resumes it.
    async fn stand_by(&self, row: RunRow) -> Result<(), JournalError> {
        self.services.journal.durable(row.position).await?;
        if row.status == RunRowStatus::Open && !self.services.active_runs.has(row.run) {
            self.drive(row, true);
        }
        Ok(())
    }

    pub(crate) fn drive(&self, row: RunRow, by_name: bool) {
        let run = row.run;
        self.services.active_runs.add(run, by_name);
        self.services.mailboxes.tell_registry(RegistryMessage::Drive(row));
        // The process that drives a job's run also moves the job along.
        if self.services.market.has_open(run) {
            self.pursue(run);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn run_ids_of_any_time_are_of_version_7_and_in_order() {
        let ids = [0, 1, RUN_ID_MS_MAX - 1, RUN_ID_MS_MAX].map(run_id_at);
        assert!(ids.is_sorted());
        let late = run_id_at(u64::MAX);
        assert_eq!(late.0.as_bytes()[..6], [255; 6], "the last time, and not one that starts again at 0");
        assert!(ids.iter().chain([&late]).all(|id| id.0.get_version_num() == 7));
    }
}
