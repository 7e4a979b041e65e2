//! Moves a job from stage to stage.

use std::path::PathBuf;

use ostler_kernel::id::{AgentId, RunId};
use ostler_kernel::json::{self, Json};
use ostler_kernel::market::{
    Contract, Decomposition, Execution, Job, JobOutcome, JobState, MarketStep, Proposed, Stage, select,
};
use ostler_kernel::plan::{Diagnostic, Plan, PlanDraft};
use ostler_kernel::port::{JournalError, RunRowStatus};
use ostler_kernel::run::{Canceller, OpeningTerms, RunOutcome};
use tokio::time::Duration;

use crate::api::system::System;
use crate::base::paused_time::SPACE_RETRY;
use crate::messages::market::MarketError;
use crate::messages::registry::RegistryMessage;
use crate::messages::submission::{Submission, SubmitError};
use crate::state::market::spent;

/// Delay before a step that was not recorded is tried again, while actors restart.
const AGAIN: Duration = Duration::from_millis(20);

const TRIES_MAX: usize = 500;

/// Longest wait of a shutdown for jobs with closed runs.
const CLOSING_MAX: Duration = Duration::from_secs(1);

/// Delay before a late run is cancelled again.
const CANCEL_AGAIN: Duration = Duration::from_millis(200);

const LONGEST_WAIT: Duration = Duration::from_secs(3_600);

impl System {
    /// Moves a job along in a task, unless one does already.
    pub(crate) fn pursue(&self, job: RunId) {
        if !self.services.market.pursue(job) {
            return;
        }
        let system = self.clone();
        tokio::spawn(async move {
            while let Err(error) = system.take_on(job).await {
                if !system.may_have_room(&error) {
                    tracing::warn!(%job, %error, "the job stays where it is until it is taken up again");
                    break;
                }
                tokio::time::sleep(SPACE_RETRY).await;
            }
            system.services.market.stop_pursuing(job);
            system.services.journal.status.notify_changed();
        });
    }

    /// True if a step failed for lack of disk space, or was rolled back for it.
    fn may_have_room(&self, error: &MarketError) -> bool {
        let is_about_room =
            matches!(error, MarketError::Journal(JournalError::Full(_) | JournalError::Conflict { .. }));
        is_about_room
            && !self.services.journal.status.is_stopping()
            && !self.services.journal.status.has_halted()
    }

    pub(crate) fn pursue_all(&self) {
        self.services.market.open().into_iter().for_each(|job| self.pursue(job));
    }

    /// Waits briefly until jobs of closed runs are closed too, which is only a record.
    pub(crate) async fn close_jobs(&self) {
        let is_closed = |job: &RunId| {
            let row = self.services.journal.run(*job).ok().flatten();
            row.is_some_and(|row| matches!(row.status, RunRowStatus::Closed(_)))
        };
        let closed = async {
            let mut changes = self.services.journal.status.watch_changes();
            while !self.services.journal.status.has_halted()
                && self.services.market.pursued().iter().any(is_closed)
            {
                let _ = changes.changed().await;
            }
        };
        let _ = tokio::time::timeout(CLOSING_MAX, closed).await;
    }

    async fn take_on(&self, id: RunId) -> Result<(), MarketError> {
        while let Some(entry) = self.services.market.entry(id) {
            if self.services.journal.status.is_stopping() {
                return Ok(());
            }
            let step = match entry.standing {
                JobState::Job(job) => self.propose(&job).await,
                JobState::Proposed(proposed) => self.sign(&proposed),
                JobState::Contract(contract) => self.decompose(&contract).await,
                JobState::Decomposition(decomposition) => self.execute(&decomposition).await?,
                JobState::Execution(execution) => match self.evaluate(&execution).await? {
                    Some(step) => step,
                    None => return Ok(()),
                },
                JobState::Evaluation(_) | JobState::Failed(_) => return Ok(()),
            };
            self.get_on(id, step).await?;
            self.services.journal.status.notify_changed();
        }
        Ok(())
    }

    /// Records a step, durable on return. A step that does not follow from the job's stage changes nothing.
    pub(super) async fn get_on(&self, job: RunId, step: MarketStep) -> Result<(), MarketError> {
        for _ in 0..TRIES_MAX {
            let again = Box::new(step.clone());
            match self.ask_registry(|reply| RegistryMessage::Market { job, step: again, reply }).await {
                Some(Ok(position)) => return Ok(self.services.journal.durable(position).await?),
                // The credits were spent after the choice.
                Some(Err(MarketError::Credits(error))) if step.stage() == Stage::Contract => {
                    return Box::pin(self.get_on(job, failed(Stage::Contract, error.to_string(), 0))).await;
                }
                Some(Err(error)) => return Err(error),
                None if self.services.journal.status.is_stopping() => return Err(MarketError::Restarting),
                None => tokio::time::sleep(AGAIN).await,
            }
        }
        Err(MarketError::Restarting)
    }

    async fn propose(&self, job: &Job) -> MarketStep {
        let services = &self.services;
        // The decomposition reports faults of the plan.
        let plan = self.valid(read(&job.plan)).await.ok();
        let takes = |agent: &AgentId| {
            plan.as_ref().is_none_or(|it| services.evaluation.profiles.of(agent).takes(it).is_ok())
        };
        let proposals = services.market.proposals(job, services.journal.now(), takes);
        MarketStep::Proposed { proposals }
    }

    fn sign(&self, Proposed { job, proposals }: &Proposed) -> MarketStep {
        let selected = match select(job, proposals, self.services.journal.now()) {
            Ok(selected) => selected.proposal,
            Err(error) => return failed(Stage::Contract, error.to_string(), 0),
        };
        let client = self.services.ledger.client(&job.client);
        MarketStep::Signed {
            winner: selected.agent.clone(),
            price: selected.price,
            budget: job.budget,
            deadline: job.deadline,
            oversight: job.oversight,
            reserved: client.left().is_some(),
        }
    }

    /// Prepares the plan, with the approvals required by its oversight.
    async fn decompose(&self, contract: &Contract) -> MarketStep {
        let Contract { job, oversight, .. } = contract;
        let draft = read(&job.plan).map(|mut draft| {
            draft.policy.get_or_insert_default().restrict_by_job(*oversight, job.domain.as_deref());
            draft
        });
        let plan = self.valid(draft.clone()).await.and(draft).and_then(|draft| {
            let nodes = draft.nodes.len() as u32;
            let plan = json::to_canonical(&draft).map_err(|error| error.to_string())?;
            Ok(MarketStep::Decomposed { plan, nodes })
        });
        plan.unwrap_or_else(|why| failed(Stage::Decomposition, format!("the plan cannot be run: {why}"), 0))
    }

    async fn valid(&self, draft: Result<PlanDraft, String>) -> Result<Plan, String> {
        let told =
            |faults: Vec<Diagnostic>| faults.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ");
        self.judge_plan(draft?).await.map_err(told)
    }

    /// Opens the run under the id of the job, which makes it idempotent.
    async fn execute(&self, decomposition: &Decomposition) -> Result<MarketStep, MarketError> {
        let Decomposition { contract: Contract { job, winner, budget, .. }, plan, .. } = decomposition;
        // A run that a dead process opened is the job's, even if it would be refused today.
        let opened = self.services.journal.run(job.id)?;
        if opened.is_some_and(|row| row.client == job.client && row.agent == *winner)
            && self.has_opened(job.id).await?
        {
            return Ok(MarketStep::Started);
        }
        let plan = match self.valid(read(plan)).await {
            Ok(plan) => plan,
            Err(why) => return Ok(failed(Stage::Execution, format!("the plan cannot be run: {why}"), 0)),
        };
        let submission = Submission {
            goal: None,
            plan: plan.into(),
            client: job.client.clone(),
            agent: Some(winner.clone()),
            intent: job.intent,
            scope: job.scope.clone(),
            workspace: PathBuf::from(&job.workspace),
            run: Some(job.id),
            terms: OpeningTerms { budget: Some(*budget), ..OpeningTerms::default() },
        };
        match self.submit(submission).await {
            Ok(_) => Ok(MarketStep::Started),
            Err(SubmitError::Journal(error)) => Err(error.into()),
            Err(error) => Ok(failed(Stage::Execution, error.to_string(), 0)),
        }
    }

    /// Waits for the end of the run; `None`: the process ends before.
    async fn evaluate(&self, execution: &Execution) -> Result<Option<MarketStep>, MarketError> {
        let Contract { job, deadline, .. } = &execution.contract;
        let services = &self.services;
        let mut changes = services.journal.status.watch_changes();
        let mut is_late = false;
        loop {
            changes.mark_unchanged();
            let row = services.journal.run(job.id)?;
            match row.as_ref().map(|row| &row.status) {
                None => {
                    return Ok(Some(failed(Stage::Evaluation, "its run is not there any more".into(), 0)));
                }
                Some(RunRowStatus::Closed(_)) => {}
                Some(RunRowStatus::Quarantined(why)) => {
                    return Ok(Some(failed(Stage::Evaluation, format!("its run is quarantined: {why}"), 0)));
                }
                Some(RunRowStatus::Open | RunRowStatus::Parked(_)) => {
                    if services.journal.status.is_stopping() || services.journal.status.has_halted() {
                        return Ok(None);
                    }
                    let left = deadline.map(|deadline| deadline.saturating_sub(services.journal.now()));
                    if !is_late && left.is_some_and(|left| left <= 0) {
                        match self.cancel_by(job.id, Canceller::Deadline).await {
                            Ok(()) => is_late = true,
                            // Tried again: failures here come from restarts.
                            Err(error) => {
                                tracing::warn!(job = %job.id, %error, "it is late, and cannot be cancelled yet");
                                tokio::time::sleep(CANCEL_AGAIN).await;
                            }
                        }
                        continue;
                    }
                    let left = left.filter(|_| !is_late).map_or(LONGEST_WAIT, |left| {
                        Duration::from_millis(left.unsigned_abs()).min(LONGEST_WAIT)
                    });
                    let _ = tokio::time::timeout(left, changes.changed()).await;
                    continue;
                }
            }
            let Some(row) = row else { continue };
            services.journal.durable(row.position).await?;
            let spent = spent(&**services.journal, &row)?;
            let closed_ms = row.closed_ms.unwrap_or_else(|| services.journal.now());
            let RunRowStatus::Closed(outcome) = row.status else { continue };
            let late = "it was not over by its deadline";
            let why = match outcome {
                RunOutcome::Cancelled if is_late => late.to_owned(),
                RunOutcome::Cancelled if deadline.is_some_and(|it| it <= closed_ms) => late.to_owned(),
                RunOutcome::Cancelled => "its run was cancelled".to_owned(),
                RunOutcome::Succeeded | RunOutcome::Concluded | RunOutcome::Failed => {
                    let composite = row.evaluated.map(|evaluated| evaluated.composite);
                    return Ok(Some(MarketStep::Evaluated(JobOutcome { outcome, spent, composite })));
                }
            };
            return Ok(Some(failed(Stage::Evaluation, why, spent)));
        }
    }
}

fn read(plan: &Json) -> Result<PlanDraft, String> {
    serde_json::from_str(plan.as_str()).map_err(|error| error.to_string())
}

fn failed(at: Stage, reason: String, spent: u64) -> MarketStep {
    MarketStep::Failed { at, reason, spent }
}
