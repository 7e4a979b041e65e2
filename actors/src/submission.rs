//! Opening a run.

use std::path::PathBuf;

use ostler_kernel::event::{Event, RunOpened};
use ostler_kernel::gate::SCOPE_DEFAULT;
use ostler_kernel::id::{AgentId, CLIENT_DEFAULT, ClientId, RunId};
use ostler_kernel::json::{self, Json, JsonError};
use ostler_kernel::plan::Plan;
use ostler_kernel::port::{JournalError, RunRow, RunStanding, Seq, StreamBatch, StreamId};

use crate::error::RunError;
use crate::registry::RegistryMessage;
use crate::system::System;

/// A plan to run, and on what terms.
#[derive(Debug, Clone, PartialEq)]
pub struct Submission {
    /// The plan, validated.
    pub plan: Plan,
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
    /// opened then, if it was. `None`: a new one.
    pub run: Option<RunId>,
}

impl Submission {
    /// A plan for client [`CLIENT_DEFAULT`], with intent 1, in the scope [`SCOPE_DEFAULT`] and the current folder.
    pub fn plan(plan: Plan) -> Submission {
        Submission {
            plan,
            client: CLIENT_DEFAULT.into(),
            agent: None,
            intent: 1,
            scope: SCOPE_DEFAULT.to_owned(),
            workspace: PathBuf::from("."),
            run: None,
        }
    }
}

/// Why a submission was not taken.
#[derive(Debug, thiserror::Error)]
pub enum SubmitError {
    /// The plan holds something that canonical JSON cannot.
    #[error("the plan cannot be written down: {0}")]
    Plan(#[from] JsonError),
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
    /// The folder is not there.
    #[error("workspace {folder}: {why}")]
    Workspace {
        /// Which folder.
        folder: PathBuf,
        /// Why not.
        why: String,
    },
    /// There is a run of this id, of another plan.
    #[error("run {0} was opened before, for another plan: submit with a new id")]
    Taken(RunId),
    /// The run of this id was opened before, and its records cannot be read.
    #[error(transparent)]
    Unreadable(Box<RunError>),
    /// The journal did not take it.
    #[error(transparent)]
    Journal(#[from] JournalError),
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
        let Submission { mut plan, client, agent, intent, scope, workspace, run: wanted } = submission;
        if intent > 2 {
            return Err(SubmitError::Intent(intent));
        }
        let scopes = &self.services.gate.scopes;
        if !scopes.contains_key(&scope) {
            let known: Vec<&str> = scopes.keys().map(String::as_str).collect();
            return Err(SubmitError::Scope { scope, known: known.join(", ") });
        }
        let workspace = workspace
            .canonicalize()
            .map_err(|error| SubmitError::Workspace { folder: workspace.clone(), why: error.to_string() })?;
        let run = wanted.unwrap_or_else(new_run_id);
        let agent = agent.unwrap_or_else(|| AgentId::from(run.to_string().as_str()));
        let (plan_id, nodes) = (plan.id.clone(), plan.nodes.len() as u32);
        plan.settle_numbers();
        let text = json::to_canonical(&plan)?;
        self.services.plans.keep(&text, plan);
        let opened = RunOpened {
            run,
            client: client.clone(),
            agent: agent.clone(),
            plan: text.clone(),
            intent,
            scope,
            workspace: workspace.to_string_lossy().into_owned(),
            policy_epoch: self.services.gate.epoch,
            seed: rand::random(),
        };
        if wanted.is_some() && self.services.journal.run(run)?.is_some() {
            return self.opened_before(run, &client, &text).await;
        }
        let at_ms = self.services.clock.now();
        let (stream, events) = (StreamId::run(&client, run), vec![Event::RunOpened(opened)]);
        let batch = StreamBatch { stream, expected: Seq(0), at_ms, events };
        let position = match self.services.journal.append(vec![batch]) {
            Err(JournalError::Conflict { .. }) => return self.opened_before(run, &client, &text).await,
            appended => appended?,
        };
        self.services.journal.durable(position).await?;
        let (closed_ms, standing) = (None, RunStanding::Open);
        let row = RunRow {
            run,
            client,
            agent,
            plan: plan_id,
            nodes,
            opened_ms: at_ms,
            closed_ms,
            standing,
            position,
        };
        self.services.drive(run, false);
        self.services.note_quiet(run, Seq(1), Some(position));
        self.drive(row, false);
        Ok(run)
    }

    /// The run that this id was given to before, if it is of the same plan. It goes on if nobody drives it.
    async fn opened_before(&self, run: RunId, client: &ClientId, text: &Json) -> Result<RunId, SubmitError> {
        let records = self.services.journal.read(StreamId::run(client, run), Seq(0), 1)?;
        match records.first().map(|record| &record.event) {
            Some(Event::RunOpened(opened)) if opened.plan == *text => {}
            _ => return Err(SubmitError::Taken(run)),
        }
        let row = self.row(run).map_err(|error| SubmitError::Unreadable(Box::new(error)))?;
        self.services.journal.durable(row.position).await?;
        if row.standing == RunStanding::Open && !self.services.drives(run) {
            self.drive(row, true);
        }
        Ok(run)
    }

    pub(crate) fn drive(&self, row: RunRow, by_name: bool) {
        self.services.drive(row.run, by_name);
        self.services.links.tell_registry(RegistryMessage::Drive(row));
    }
}
