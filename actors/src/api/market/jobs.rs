//! Posting jobs and offers, and their state.

use std::collections::BTreeSet;
use std::path::PathBuf;

use ostler_kernel::agent::Oversight;
use ostler_kernel::id::{AgentId, ClientId, RunId, Ticks};
use ostler_kernel::json;
use ostler_kernel::ledger::Amounts;
use ostler_kernel::market::{Job, JobState, MarketStep, Offer, Proposal, Stage, score};
use ostler_kernel::plan::PlanDraft;
use ostler_kernel::port::{Position, RunRowStatus};
use ostler_kernel::run::Canceller;
use serde::{Deserialize, Serialize};

use crate::api::submission::new_run_id;
use crate::api::system::System;
use crate::messages::market::{MarketError, OfferRefused};
use crate::messages::registry::RegistryMessage;
use crate::messages::submission::SubmitError;
use crate::state::market::{Entry, spent};

/// A job to post.
#[derive(Debug, Clone, PartialEq)]
pub struct JobRequest {
    /// Id of the job and its run, which makes posting idempotent. `None`: a new id.
    pub id: Option<RunId>,
    /// The paying client; only agents of this client propose.
    pub client: ClientId,
    /// One line for people.
    pub title: String,
    /// Required capabilities.
    pub capabilities: BTreeSet<String>,
    /// Domain with the weights for the run; `None`: the agent's own.
    pub domain: Option<String>,
    /// Budget of the job in credits.
    pub budget: u64,
    /// Deadline in milliseconds since the Unix epoch.
    pub deadline: Option<Ticks>,
    /// Oversight of the run.
    pub oversight: Oversight,
    /// The plan.
    pub plan: PlanDraft,
    /// Highest allowed impact, 0 to 2.
    pub intent: u8,
    /// Name of the scope.
    pub scope: String,
    /// The folder that the tools may touch.
    pub workspace: PathBuf,
}

/// State of a job.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobRow {
    /// Id of the job and its run.
    pub job: RunId,
    /// The client that pays.
    pub client: ClientId,
    /// One line for people.
    pub title: String,
    /// Present stage.
    pub stage: Stage,
    /// All proposals before the contract, then that of the winner.
    pub proposals: Vec<ProposalRow>,
    /// The agent with the contract.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub winner: Option<AgentId>,
    /// Price of the winner in credits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub price: Option<u64>,
    /// Budget of the job in credits.
    pub budget: u64,
    /// Deadline in milliseconds since the Unix epoch.
    #[serde(rename = "deadline_ms", default, skip_serializing_if = "Option::is_none")]
    pub deadline: Option<Ticks>,
    /// Oversight of the run.
    pub oversight: Oversight,
    /// Cost so far in credits.
    pub spent: u64,
    /// Outcome of the run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outcome: Option<String>,
    /// Score of the run in thousandths, verdicts included.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub composite_pm: Option<u16>,
    /// Reason of a failure.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Time of the posting.
    pub posted_ms: Ticks,
    /// Time of the present stage.
    pub since_ms: Ticks,
}

/// A proposal of an agent for a job.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProposalRow {
    /// The agent.
    pub agent: AgentId,
    /// Price in credits.
    pub price: u64,
    /// Declared duration of the work in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time_ms: Option<u64>,
    /// Reputation of the agent at that time, in thousandths.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reputation_pm: Option<u16>,
    /// Score, 0 to 10,000: six tenths reputation, four tenths price.
    pub score: u64,
}

fn proposal_row(proposal: &Proposal, budget: u64) -> ProposalRow {
    ProposalRow {
        agent: proposal.agent.clone(),
        price: proposal.price,
        time_ms: proposal.time_ms,
        reputation_pm: proposal.reputation_pm,
        score: score(proposal, budget),
    }
}

impl System {
    /// Replaces the offer of an agent. Durable on return; dropping the future may or may not have taken effect.
    ///
    /// # Errors
    ///
    /// [`OfferRefused`]; nothing has changed then.
    pub async fn offer(&self, agent: &str, offer: Offer) -> Result<(), OfferRefused> {
        let (agent, offer) = (AgentId::from(agent), Box::new(offer));
        let offered = self.ask_registry(|reply| RegistryMessage::Offer { agent, offer, reply }).await;
        let position = offered.ok_or(OfferRefused::Restarting)??;
        Ok(self.services.journal.durable(position).await?)
    }

    /// The offer of an agent; `None` without one.
    pub fn offered(&self, agent: &str) -> Option<Offer> {
        self.services.market.offer(&agent.into()).map(|offer| (*offer).clone())
    }

    /// Posts a job and moves it along. The job is durable on return; dropping the future may or may not have
    /// posted it.
    ///
    /// # Errors
    ///
    /// [`MarketError`]; nothing has changed then.
    pub async fn post(&self, request: JobRequest) -> Result<RunId, MarketError> {
        let JobRequest { id, client, title, capabilities, domain, budget, deadline, oversight, plan, .. } =
            request;
        let JobRequest { intent, scope, workspace, .. } = request;
        let workspace = self.check_terms(&client, intent, &scope, workspace)?;
        self.services.evaluation.domains.check(domain.as_deref())?;
        self.judge_plan(plan.clone()).await.map_err(MarketError::Plan)?;
        let plan = json::to_canonical(&plan).map_err(SubmitError::Plan)?;
        let (id, scope) = (id.unwrap_or_else(new_run_id), scope);
        let workspace = workspace.to_string_lossy().into_owned();
        let job = Job {
            id,
            client,
            title,
            capabilities,
            domain,
            budget,
            deadline,
            oversight,
            plan,
            intent,
            scope,
            workspace,
        };
        let position = match self.posted_before(&job)? {
            Some(position) => position,
            None => match self.post_anew(&job).await {
                // A concurrent post of the same job counts as this one.
                Err(MarketError::Taken(_)) => self.posted_before(&job)?.ok_or(MarketError::Taken(id))?,
                posted => posted?,
            },
        };
        self.services.journal.durable(position).await?;
        self.pursue(id);
        Ok(id)
    }

    /// Position of the last record of an equal job; `None` if there is none.
    fn posted_before(&self, job: &Job) -> Result<Option<Position>, MarketError> {
        match self.services.market.entry(job.id) {
            Some(Entry { standing, position, .. }) if is_same(standing.job(), job) => Ok(Some(position)),
            Some(_) => Err(MarketError::Taken(job.id)),
            None => Ok(None),
        }
    }

    /// Posts a new job, and returns the position of its record.
    async fn post_anew(&self, job: &Job) -> Result<Position, MarketError> {
        let id = job.id;
        job.check(self.services.journal.now())?;
        self.services.market.check_budget(job, 0, Amounts::default())?;
        if self.services.journal.run(id)?.is_some() {
            return Err(MarketError::Taken(id));
        }
        let step = Box::new(MarketStep::Posted(job.clone()));
        let asked = self.ask_registry(|reply| RegistryMessage::Market { job: id, step, reply }).await;
        asked.ok_or(MarketError::Restarting)?
    }

    /// All jobs, oldest first.
    ///
    /// # Errors
    ///
    /// The journal cannot be read.
    pub fn jobs(&self) -> Result<Vec<JobRow>, MarketError> {
        self.services.market.entries().into_iter().map(|entry| self.job_row(entry)).collect()
    }

    /// One job.
    ///
    /// # Errors
    ///
    /// The job is unknown, or the journal cannot be read.
    pub fn job(&self, job: RunId) -> Result<JobRow, MarketError> {
        self.job_row(self.services.market.entry(job).ok_or(MarketError::Unknown(job))?)
    }

    /// Moves an open job along, unless a task does so already; a late job's run is cancelled first. Dropping the future
    /// may leave both to the next caller.
    ///
    /// # Errors
    ///
    /// The job is unknown.
    pub async fn resume_job(&self, job: RunId) -> Result<(), MarketError> {
        let entry = self.services.market.entry(job).ok_or(MarketError::Unknown(job))?;
        if !self.services.market.has_open(job) {
            return Ok(());
        }
        // A late run must not be found running after this returns.
        let deadline = entry.standing.job().deadline;
        if deadline.is_some_and(|deadline| deadline <= self.services.journal.now())
            && let Err(error) = self.cancel_by(job, Canceller::Deadline).await
        {
            tracing::debug!(%job, %error, "it is late, and whoever takes it on cancels its run");
        }
        self.pursue(job);
        Ok(())
    }

    /// Waits until a job has reached the stage, or no task moves the job along; the returned row is durable. Dropping
    /// the future loses nothing.
    ///
    /// # Errors
    ///
    /// The job is unknown, or the journal failed.
    pub async fn job_at(&self, job: RunId, stage: Stage) -> Result<JobRow, MarketError> {
        let mut changes = self.services.journal.status.watch_changes();
        loop {
            changes.mark_unchanged();
            let is_pursued = self.services.market.is_pursued(job);
            let entry = self.services.market.entry(job).ok_or(MarketError::Unknown(job))?;
            if entry.standing.stage() >= stage || !is_pursued {
                self.services.journal.durable(entry.position).await?;
                return self.job_row(entry);
            }
            let _ = changes.changed().await;
        }
    }

    /// Waits until a job is over, or no task moves the job along; the returned row is durable. Dropping the future
    /// loses nothing.
    ///
    /// # Errors
    ///
    /// The job is unknown, or the journal failed.
    pub async fn job_over(&self, job: RunId) -> Result<JobRow, MarketError> {
        self.job_at(job, Stage::Evaluation).await
    }

    fn job_row(&self, Entry { standing, posted_ms, since_ms, .. }: Entry) -> Result<JobRow, MarketError> {
        let (job, contract) = (standing.job(), standing.contract());
        let run = self.services.journal.run(job.id)?;
        let mut row = JobRow {
            job: job.id,
            client: job.client.clone(),
            title: job.title.clone(),
            stage: standing.stage(),
            proposals: contract.iter().map(|contract| proposal_row(&contract.proposal, job.budget)).collect(),
            winner: contract.map(|contract| contract.winner.clone()),
            price: contract.map(|contract| contract.price),
            budget: job.budget,
            deadline: job.deadline,
            oversight: job.oversight,
            spent: 0,
            outcome: None,
            composite_pm: run.as_ref().and_then(|run| run.evaluated).map(|evaluated| evaluated.composite),
            reason: None,
            posted_ms,
            since_ms,
        };
        if let Some(RunRowStatus::Closed(outcome)) = run.as_ref().map(|run| &run.status) {
            row.outcome = Some(outcome.to_string());
        }
        match standing {
            JobState::Proposed(proposed) => {
                let rows = proposed.proposals.iter().map(|proposal| proposal_row(proposal, row.budget));
                row.proposals = rows.collect();
            }
            JobState::Execution(_) => {
                row.spent = run.map(|run| spent(&**self.services.journal, &run)).transpose()?.unwrap_or(0);
            }
            JobState::Evaluation(evaluation) => {
                row.spent = evaluation.closing.spent;
                row.outcome = Some(evaluation.closing.outcome.to_string());
                row.composite_pm = row.composite_pm.or(evaluation.closing.composite);
            }
            JobState::Failed(abandoned) => {
                (row.spent, row.reason) = (abandoned.spent, Some(abandoned.reason));
            }
            JobState::Job(_) | JobState::Contract(_) | JobState::Decomposition(_) => {}
        }
        Ok(row)
    }
}

/// True if a posted job equals a known one; a closed job's plan is only in the records.
fn is_same(known: &Job, job: &Job) -> bool {
    let plan = if known.plan == json::Json::null() { known.plan.clone() } else { job.plan.clone() };
    *known == Job { plan, ..job.clone() }
}
