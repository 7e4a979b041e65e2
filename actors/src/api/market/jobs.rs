//! Posting jobs, offering to do them, and how they stand.

use std::collections::BTreeSet;
use std::path::PathBuf;

use ostler_kernel::agent::Oversight;
use ostler_kernel::id::{AgentId, ClientId, RunId, Ticks};
use ostler_kernel::json;
use ostler_kernel::market::{Job, JobState, MarketStep, Offer, Proposal, Stage};
use ostler_kernel::plan::PlanDraft;
use ostler_kernel::port::{Position, RunRowStatus};
use ostler_kernel::run::Canceller;

use crate::api::submission::new_run_id;
use crate::api::system::System;
use crate::messages::market::{MarketError, OfferRefused};
use crate::messages::registry::RegistryMessage;
use crate::messages::submission::SubmitError;
use crate::state::market::{Entry, check_balance, spent};

/// Work to be put up on the market.
#[derive(Debug, Clone, PartialEq)]
pub struct JobRequest {
    /// The id that it and its run are to have: who posts once more because no answer came posts the same job. `None`: a new one.
    pub id: Option<RunId>,
    /// Who pays, and whose agents propose.
    pub client: ClientId,
    /// One line for people.
    pub title: String,
    /// What an agent must be able to do.
    pub capabilities: BTreeSet<String>,
    /// What it is about: whose weights it is judged by; `None`: what the agent says of itself counts.
    pub domain: Option<String>,
    /// Credits that it may cost at most.
    pub budget: u64,
    /// When it must be over, in milliseconds since the Unix epoch; `None`: whenever.
    pub deadline: Option<Ticks>,
    /// How closely people watch.
    pub oversight: Oversight,
    /// What is to be done.
    pub plan: PlanDraft,
    /// The most impact it may have, 0..=2.
    pub intent: u8,
    /// The scope it acts in.
    pub scope: String,
    /// The folder its tools may touch.
    pub workspace: PathBuf,
}

/// A job, as it stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JobRow {
    /// The job, and its run.
    pub job: RunId,
    /// Who pays.
    pub client: ClientId,
    /// One line for people.
    pub title: String,
    /// Where it is.
    pub stage: Stage,
    /// What agents propose, as long as none has the contract; then what the winner proposed.
    pub proposals: Vec<Proposal>,
    /// Who has the contract.
    pub winner: Option<AgentId>,
    /// What the winner asked for, in credits.
    pub price: Option<u64>,
    /// Credits that it may cost at most.
    pub budget: u64,
    /// When it must be over.
    pub deadline: Option<Ticks>,
    /// How closely people watch.
    pub oversight: Oversight,
    /// Credits that it cost so far.
    pub spent: u64,
    /// How its run ended.
    pub outcome: Option<String>,
    /// How well it was done, in thousandths, by its run's records or by a person since.
    pub composite_pm: Option<u16>,
    /// Why it failed, if it did.
    pub reason: Option<String>,
    /// When it was posted.
    pub posted_ms: Ticks,
    /// When it came to where it is.
    pub since_ms: Ticks,
}

impl System {
    /// Lets an agent offer something from here on, instead of what it offered before. Durable when it returns; dropping the
    /// future may or may not have offered it.
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

    /// What an agent offers; `None`: nothing.
    pub fn offered(&self, agent: &str) -> Option<Offer> {
        self.services.market.offer(&agent.into()).map(|offer| (*offer).clone())
    }

    /// Posts a job, and takes it from stage to stage. The job is durable when this returns; dropping the future may or may not
    /// have posted it.
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
                // Whoever posted the same meanwhile posted it as well.
                Err(MarketError::Taken(_)) => self.posted_before(&job)?.ok_or(MarketError::Taken(id))?,
                posted => posted?,
            },
        };
        self.services.journal.durable(position).await?;
        self.pursue(id);
        Ok(id)
    }

    /// Where it is written down how a job stands that was posted before; `None`: it was not.
    fn posted_before(&self, job: &Job) -> Result<Option<Position>, MarketError> {
        match self.services.market.entry(job.id) {
            Some(Entry { standing, position, .. }) if is_same(standing.job(), job) => Ok(Some(position)),
            Some(_) => Err(MarketError::Taken(job.id)),
            None => Ok(None),
        }
    }

    /// Posts a job that nobody has posted, and gives where that is written down.
    async fn post_anew(&self, job: &Job) -> Result<Position, MarketError> {
        let id = job.id;
        job.check(self.services.journal.now())?;
        check_balance(&self.services.ledger, &job.client, job.budget, 0)?;
        if self.services.journal.run(id)?.is_some() {
            return Err(MarketError::Taken(id));
        }
        let step = Box::new(MarketStep::Posted(job.clone()));
        let asked = self.ask_registry(|reply| RegistryMessage::Market { job: id, step, reply }).await;
        asked.ok_or(MarketError::Restarting)?
    }

    /// All jobs, the oldest first.
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
    /// There is none, or the journal cannot be read.
    pub fn job(&self, job: RunId) -> Result<JobRow, MarketError> {
        self.job_row(self.services.market.entry(job).ok_or(MarketError::Unknown(job))?)
    }

    /// Takes a job on that is not over, unless that is done already; the run of one that is late is cancelled first. Dropping the future
    /// may leave both to the next who asks.
    ///
    /// # Errors
    ///
    /// There is none.
    pub async fn resume_job(&self, job: RunId) -> Result<(), MarketError> {
        let entry = self.services.market.entry(job).ok_or(MarketError::Unknown(job))?;
        if !self.services.market.has_open(job) {
            return Ok(());
        }
        // Who is told that it goes on is not to find its run under way when it is late already.
        let deadline = entry.standing.job().deadline;
        if deadline.is_some_and(|deadline| deadline <= self.services.journal.now())
            && let Err(error) = self.cancel_by(job, Canceller::Deadline).await
        {
            tracing::debug!(%job, %error, "it is late, and whoever takes it on cancels its run");
        }
        self.pursue(job);
        Ok(())
    }

    /// Waits until a job is at this stage or beyond, or nothing takes it on any more; what it tells of that is durable. Dropping
    /// the future loses nothing.
    ///
    /// # Errors
    ///
    /// There is none, or the journal cannot be read or written.
    pub async fn job_at(&self, job: RunId, stage: Stage) -> Result<JobRow, MarketError> {
        let mut stirs = self.services.journal.status.watch_changes();
        loop {
            stirs.mark_unchanged();
            let is_pursued = self.services.market.is_pursued(job);
            let entry = self.services.market.entry(job).ok_or(MarketError::Unknown(job))?;
            if entry.standing.stage() >= stage || !is_pursued {
                self.services.journal.durable(entry.position).await?;
                return self.job_row(entry);
            }
            let _ = stirs.changed().await;
        }
    }

    /// Waits until a job is over, or nothing takes it on any more; what it tells of that is durable. Dropping the future loses
    /// nothing.
    ///
    /// # Errors
    ///
    /// There is none, or the journal cannot be read or written.
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
            proposals: contract.map(|contract| vec![contract.proposal.clone()]).unwrap_or_default(),
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
            JobState::Proposed(proposed) => row.proposals = proposed.proposals,
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

/// Whether a job is posted once more; one that is over has its plan in the records only.
fn is_same(known: &Job, job: &Job) -> bool {
    let plan = if known.plan == json::Json::null() { known.plan.clone() } else { job.plan.clone() };
    *known == Job { plan, ..job.clone() }
}
