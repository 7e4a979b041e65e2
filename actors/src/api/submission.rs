//! Opening a run.

use std::path::PathBuf;
use std::sync::Arc;

use ostler_kernel::event::{Event, Parent, RunOpened, RunTerms};
use ostler_kernel::gate::SCOPE_DEFAULT;
use ostler_kernel::id::{AgentId, CLIENT_DEFAULT, ClientId, NAME_RULE, RunId, Ticks, is_name};
use ostler_kernel::json::JsonError;
use ostler_kernel::plan::Plan;
use ostler_kernel::port::{JournalError, Position, RunRow, RunRowStatus, Seq, StreamBatch, StreamId};
use ostler_kernel::run::RunFoldError;

use crate::api::system::System;
use crate::base::error::RunError;
use crate::base::lock::lock;
use crate::registry::RegistryMessage;

/// A plan to run, and on what terms.
#[derive(Debug, Clone, PartialEq)]
pub struct Submission {
    /// The plan, validated. Who submits it again and again submits this again: its text is known then, and need not be looked for.
    pub plan: Arc<Plan>,
    /// Who pays. An agent's own client counts where one is named.
    pub client: ClientId,
    /// Who runs it; `None`: an agent of its own.
    pub agent: Option<AgentId>,
    /// The most impact it may have, 0..=2.
    pub intent: u8,
    /// The scope it acts in.
    pub scope: String,
    /// The folder its tools may touch.
    pub workspace: PathBuf,
    /// The id it is to have, from [`new_run_id`]: who submits once more because no answer came gets the run that was
    /// opened then, if it was, and if all else is the same. `None`: a new one.
    pub run: Option<RunId>,
    /// Credits that its attempts may cost, all together; `None`: as many as its client has.
    pub budget: Option<u64>,
}

impl Submission {
    /// A plan for client [`CLIENT_DEFAULT`], with intent 1, in the scope [`SCOPE_DEFAULT`] and the current folder.
    pub fn plan(plan: impl Into<Arc<Plan>>) -> Submission {
        Submission {
            plan: plan.into(),
            client: CLIENT_DEFAULT.into(),
            agent: None,
            intent: 1,
            scope: SCOPE_DEFAULT.to_owned(),
            workspace: PathBuf::from("."),
            run: None,
            budget: None,
        }
    }
}

/// What a submission says of a run: all of it must be the same where it is repeated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Term {
    /// [`Submission::plan`].
    Plan,
    /// [`Submission::client`].
    Client,
    /// [`Submission::agent`].
    Agent,
    /// [`Submission::intent`].
    Intent,
    /// [`Submission::scope`].
    Scope,
    /// [`Submission::workspace`].
    Workspace,
    /// [`Submission::budget`].
    Budget,
}

impl Term {
    /// Its name in [`Submission`].
    pub fn as_str(&self) -> &'static str {
        match self {
            Term::Plan => "plan",
            Term::Client => "client",
            Term::Agent => "agent",
            Term::Intent => "intent",
            Term::Scope => "scope",
            Term::Workspace => "workspace",
            Term::Budget => "budget",
        }
    }

    /// What of a run is not as it was when it was opened. The policy may have changed since, and the seed is drawn anew.
    fn between(then: &RunOpened, now: &RunOpened) -> Vec<Term> {
        let RunOpened { run: _, client, agent, plan, intent, scope, workspace, policy_epoch: _, seed: _ } =
            now;
        let terms = [
            (Term::Plan, then.plan != *plan),
            (Term::Client, then.client != *client),
            (Term::Agent, then.agent != *agent),
            (Term::Intent, then.intent != *intent),
            (Term::Scope, then.scope != *scope),
            (Term::Workspace, then.workspace != *workspace),
        ];
        terms.into_iter().filter_map(|(term, differs)| differs.then_some(term)).collect()
    }
}

/// Why a submission was not taken.
#[derive(Debug, thiserror::Error)]
pub enum SubmitError {
    /// The plan holds something that canonical JSON cannot.
    #[error("the plan cannot be written down: {0}")]
    Plan(#[from] JsonError),
    /// The name of the client is no name.
    #[error("client name {0:?} is not {NAME_RULE}")]
    Client(String),
    /// There are as many clients as can be.
    #[error("there are {0} clients, which is as many as can be: name one of them")]
    TooManyClients(usize),
    /// More impact than there is.
    #[error("intent {0} is not 0, 1 or 2")]
    Intent(u8),
    /// There is no such scope, so no call could be made.
    #[error("no scope {scope:?}: there is {known}")]
    Scope {
        /// What was asked for.
        scope: String,
        /// What there is.
        known: String,
    },
    /// The agent takes something else.
    #[error("agent {agent} does not take what this plan begins with: {what}")]
    Input {
        /// Which agent.
        agent: AgentId,
        /// What is wrong.
        what: String,
    },
    /// The folder is not there.
    #[error("workspace {folder}: {why}")]
    Workspace {
        /// Which folder.
        folder: PathBuf,
        /// Why not.
        why: String,
    },
    /// There is a run of this id, opened on other terms.
    #[error(
        "run {run} was opened before, with another {}: submit what was submitted then, or take a new id",
        differs.iter().map(Term::as_str).collect::<Vec<_>>().join(", ")
    )]
    Taken {
        /// Which run.
        run: RunId,
        /// What is not as it was then; at least one.
        differs: Vec<Term>,
    },
    /// The run of this id was opened before, and its records cannot be read.
    #[error(transparent)]
    Unreadable(Box<RunError>),
    /// The journal did not take it.
    #[error(transparent)]
    Journal(#[from] JournalError),
}

/// Whether there is anything to say of a run besides how it was opened.
fn has_terms(terms: &RunTerms) -> bool {
    *terms != RunTerms::default()
}

/// A new id, which begins with the time: 1970 where the clock says that it is earlier.
pub fn new_run_id() -> RunId {
    if std::time::SystemTime::now() >= std::time::UNIX_EPOCH {
        return RunId(uuid::Uuid::now_v7());
    }
    RunId(uuid::Builder::from_unix_timestamp_millis(0, &rand::random()).into_uuid())
}

impl System {
    /// Opens a run and drives it. The run is durable when this returns; dropping the future may or may not have
    /// opened it.
    pub async fn submit(&self, submission: Submission) -> Result<RunId, SubmitError> {
        self.open(submission, None).await
    }

    /// The same, of a run that somebody may have asked for in the name of another run.
    pub(crate) async fn open(
        &self,
        submission: Submission,
        parent: Option<Parent>,
    ) -> Result<RunId, SubmitError> {
        let Submission { mut plan, client, agent, intent, scope, workspace, run: wanted, budget } =
            submission;
        let terms = RunTerms { budget, parent };
        let workspace = self.check_terms(&client, intent, &scope, workspace)?;
        let run = wanted.unwrap_or_else(new_run_id);
        let agent = agent.unwrap_or_else(|| AgentId::from(run.to_string().as_str()));
        let profile = self.services.profiles.of(&agent);
        profile.takes(&plan).map_err(|what| SubmitError::Input { agent: agent.clone(), what })?;
        if profile.constrains() {
            profile.constrain(Arc::make_mut(&mut plan));
        }
        let (plan_id, nodes) = (plan.id.clone(), plan.nodes.len() as u32);
        let text = self.services.plans.spell(plan)?;
        let opened = RunOpened {
            run,
            client,
            agent,
            plan: text,
            intent,
            scope,
            workspace: workspace.to_string_lossy().into_owned(),
            policy_epoch: self.services.gate.epoch,
            seed: rand::random(),
        };
        let at_ms = self.services.clock.now();
        let Some(position) = self.append_opening(&opened, &terms, wanted.is_some(), at_ms)? else {
            return self.opened_before(opened, &terms).await;
        };
        // It begins at once: nothing acts before what it follows from is durable, and what is undone is gone with all of it.
        let row = RunRow::opened(&opened, plan_id, nodes, at_ms, position);
        self.services.driven.add(run, false);
        self.services.driven.note_quiet(run, Seq(1 + u64::from(has_terms(&terms))), Some(position));
        self.drive(row, false);
        self.services.journal.durable(position).await?;
        Ok(run)
    }

    /// Whether something may be run on these terms, and in which folder.
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
        let gate = &self.services.gate;
        if !gate.has_scope(scope) {
            let known: Vec<&str> = gate.scopes.keys().map(String::as_str).collect();
            return Err(SubmitError::Scope { scope: scope.to_owned(), known: known.join(", ") });
        }
        workspace
            .canonicalize()
            .map_err(|error| SubmitError::Workspace { folder: workspace, why: error.to_string() })
    }

    /// Appends the first record of a run; `None` if there is a run of this id. Clients have streams of their own, so
    /// who may want an id that another has taken looks, and appends, before anybody else does.
    fn append_opening(
        &self,
        opened: &RunOpened,
        terms: &RunTerms,
        is_wanted: bool,
        at_ms: Ticks,
    ) -> Result<Option<Position>, JournalError> {
        let _one_at_a_time = is_wanted.then(|| lock(&self.services.opening));
        if is_wanted && self.services.journal.run(opened.run)?.is_some() {
            return Ok(None);
        }
        let stream = StreamId::run(&opened.client, opened.run);
        let mut events = vec![Event::RunOpened(Box::new(opened.clone()))];
        events.extend(has_terms(terms).then(|| Event::RunTerms(Box::new(terms.clone()))));
        let batch = StreamBatch { stream, expected: Seq(0), at_ms, events };
        match self.services.append(batch) {
            Err(JournalError::Conflict { .. }) => Ok(None),
            appended => appended.map(Some),
        }
    }

    /// The run that this id was given to before, if it was opened on the same terms. It goes on if nobody drives it.
    async fn opened_before(&self, now: RunOpened, terms: &RunTerms) -> Result<RunId, SubmitError> {
        let run = now.run;
        let unreadable = |error| SubmitError::Unreadable(Box::new(error));
        let row = self.row(run).map_err(unreadable)?;
        let stream = StreamId::run(&row.client, run);
        let mut records = self.services.journal.read(stream, Seq(0), 1)?;
        records.extend(self.services.journal.read(stream, Seq(1), 1)?);
        let Some(Event::RunOpened(then)) = records.first().map(|record| &record.event) else {
            return Err(unreadable(RunError::Fold(RunFoldError::Unopened(run))));
        };
        let mut differs = Term::between(then, &now);
        let budget = match records.get(1).map(|record| &record.event) {
            Some(Event::RunTerms(terms)) => terms.budget,
            _ => None,
        };
        differs.extend((budget != terms.budget).then_some(Term::Budget));
        if !differs.is_empty() {
            return Err(SubmitError::Taken { run, differs });
        }
        self.stand_by(row).await?;
        Ok(run)
    }

    /// Whether there is a run of this id, whatever it was opened with. If so it is durable when this returns, and goes on if nobody
    /// drove it.
    ///
    /// # Errors
    ///
    /// The journal cannot be asked, or has lost it again.
    pub async fn has_opened(&self, run: RunId) -> Result<bool, JournalError> {
        let Some(row) = self.services.journal.run(run)? else { return Ok(false) };
        self.stand_by(row).await?;
        Ok(true)
    }

    /// Waits until a run that was opened before is durable, and lets it go on.
    async fn stand_by(&self, row: RunRow) -> Result<(), JournalError> {
        self.services.journal.durable(row.position).await?;
        if row.status == RunRowStatus::Open && !self.services.driven.has(row.run) {
            self.drive(row, true);
        }
        Ok(())
    }

    pub(crate) fn drive(&self, row: RunRow, by_name: bool) {
        let run = row.run;
        self.services.driven.add(run, by_name);
        self.services.links.tell_registry(RegistryMessage::Drive(row));
        // Whoever takes up the run of a job sees to it that the job gets to its end.
        if self.services.market.has_open(run) {
            self.pursue(run);
        }
    }
}
