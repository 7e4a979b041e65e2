//! The handle to a running system.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use ostler_kernel::event::{Event, Output, RunOpened};
use ostler_kernel::gate::GatePolicy;
use ostler_kernel::id::{AgentId, ClientId, Digest, NodeId, RunId};
use ostler_kernel::json::{self, JsonError};
use ostler_kernel::plan::{Plan, Settings};
use ostler_kernel::port::{
    Artifact, ArtifactError, ArtifactStore, JSON, Journal, JournalError, RunRow, RunStanding, Seq,
    StreamBatch, StreamId, Tool,
};
use ostler_kernel::run::{AnswerError, NodeState, Operation, OperationError, Run, RunOutcome, Standing};
use ostler_supervisor::{Exit, SupervisorRef};
use ractor::{ActorRef, RpcReplyPort};

use crate::agent::{AgentMessage, FoldError, open};
use crate::approval::{self, Answer, AnswerRequest, Approval, ApprovalId};
use crate::attempt;
use crate::cursor::EventCursor;
use crate::registry::{AGENT_WEIGHT, AgentRow, RegisterError, RegistryMessage};
use crate::resolve::{ResolveHow, ResolveRequest, StoredHow};
use crate::scheduler::{ClientConfig, SchedulerMessage};
use crate::services::Services;
use crate::toolbox::{Toolbox, ToolboxError};
use crate::tree;
use crate::view::{self, RunView};

/// What a system is made of.
pub struct SystemConfig {
    /// Where everything that happens is written down.
    pub journal: Arc<dyn Journal>,
    /// Where large results go.
    pub artifacts: Arc<dyn ArtifactStore>,
    /// What plans may call.
    pub tools: Vec<Arc<dyn Tool>>,
    /// Who may call what.
    pub gate: GatePolicy,
    /// Attempts that run at once in the whole system.
    pub slots: u32,
    /// Attempts that run at once in a run whose plan does not say.
    pub run_slots: u32,
    /// How long a shutdown waits for attempts that act on the world.
    pub drain: Duration,
    /// Clients that are not like any other.
    pub clients: Vec<ClientConfig>,
}

/// Why a system did not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The tools do not go together.
    #[error(transparent)]
    Tools(#[from] ToolboxError),
    /// An actor did not come up.
    #[error("the tree did not start: {0}")]
    Tree(#[from] ostler_supervisor::StartError),
}

/// What an agent is to be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AgentProfile {
    name: AgentId,
    client: ClientId,
    weight: u32,
}

impl AgentProfile {
    /// An agent of client `local`, of weight 100.
    pub fn new(name: &str) -> AgentProfile {
        AgentProfile { name: name.into(), client: "local".into(), weight: AGENT_WEIGHT }
    }

    /// Who pays for it.
    pub fn client(self, client: &str) -> AgentProfile {
        AgentProfile { client: client.into(), ..self }
    }

    /// Its weight among the agents of its client, 1 to 1,000,000.
    pub fn weight(self, weight: u32) -> AgentProfile {
        AgentProfile { weight, ..self }
    }
}

/// Why an agent was not spawned.
#[derive(Debug, thiserror::Error)]
pub enum SpawnError {
    /// The name is no name.
    #[error("agent name {0:?} is not 1 to 64 of A-Z a-z 0-9 . _ -")]
    Name(String),
    /// The weight is out of range.
    #[error("weight {0} is not within 1 and 1,000,000")]
    Weight(u32),
    /// The registry said no.
    #[error(transparent)]
    Register(#[from] RegisterError),
    /// The registry is being restarted.
    #[error("the system is restarting: try again")]
    Restarting,
}

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
}

impl Submission {
    /// A plan for client `local`, with intent 1, in the scope `default` and the current folder.
    pub fn plan(plan: Plan) -> Submission {
        Submission {
            plan,
            client: "local".into(),
            agent: None,
            intent: 1,
            scope: "default".to_owned(),
            workspace: PathBuf::from("."),
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
    /// The journal did not take it.
    #[error(transparent)]
    Journal(#[from] JournalError),
}

/// Why nothing could be done about a run.
#[derive(Debug, Clone, thiserror::Error)]
pub enum RunError {
    /// There is none of that id.
    #[error("no run {0}")]
    Unknown(RunId),
    /// It has no such node.
    #[error("no node {0} in this run")]
    UnknownNode(NodeId),
    /// It is over.
    #[error("the run is over")]
    Over,
    /// The node waits for nothing of the kind.
    #[error("node {node} is {state}, not in doubt: there is nothing to resolve")]
    NotInDoubt {
        /// Which node.
        node: NodeId,
        /// Where it stands.
        state: NodeState,
    },
    /// The node has no result.
    #[error("node {node} is {state} and has no result")]
    NoResult {
        /// Which node.
        node: NodeId,
        /// Where it stands.
        state: NodeState,
    },
    /// An answer that is not for what is asked.
    #[error(transparent)]
    Answer(#[from] AnswerError),
    /// An answer that cannot be written down.
    #[error("{0}")]
    Said(String),
    /// The node is over already.
    #[error("node {node} is {state} already: it cannot be stopped any more")]
    NodeOver {
        /// Which node.
        node: NodeId,
        /// How it ended.
        state: NodeState,
    },
    /// A result that cannot be kept.
    #[error("the result cannot be kept: {0}")]
    Result(String),
    /// Its records do not fit together.
    #[error(transparent)]
    Fold(#[from] FoldError),
    /// The journal failed.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// The artifact store failed.
    #[error(transparent)]
    Artifact(#[from] ArtifactError),
    /// The actors are being restarted.
    #[error("the system is restarting: try again")]
    Restarting,
    /// Nothing goes on any more.
    #[error("the system has halted: {0}")]
    Halted(String),
}

impl From<OperationError> for RunError {
    fn from(error: OperationError) -> RunError {
        match error {
            OperationError::Over => RunError::Over,
            OperationError::UnknownNode(node) => RunError::UnknownNode(node),
            OperationError::NodeOver { node, state } => RunError::NodeOver { node, state },
        }
    }
}

/// What a run has come to, for now or for good.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Settled {
    /// It is over.
    Closed(RunOutcome),
    /// Nothing goes on until a person answers.
    WaitsForPerson,
    /// It was set aside, and why.
    Parked(String),
    /// This process does not drive it.
    Idle,
}

/// A running system. Cloning it gives another handle to the same.
#[derive(Clone)]
pub struct System {
    pub(crate) services: Arc<Services>,
    root: SupervisorRef,
    drain: Duration,
}

/// An agent that was spawned.
#[derive(Clone)]
pub struct AgentHandle {
    system: System,
    name: AgentId,
    client: ClientId,
}

impl AgentHandle {
    /// Its name.
    pub fn name(&self) -> &AgentId {
        &self.name
    }

    /// Gives it a plan to run, after those it has already. Durable when it returns; see [`System::submit`].
    pub async fn submit(&self, submission: Submission) -> Result<RunId, SubmitError> {
        let (agent, client) = (Some(self.name.clone()), self.client.clone());
        self.system.submit(Submission { agent, client, ..submission }).await
    }
}

impl System {
    /// Starts the actors. Open runs rest until [`System::resume`] or [`System::resume_all`].
    pub async fn start(config: SystemConfig) -> Result<System, StartError> {
        let toolbox = Toolbox::new(config.tools)?;
        let services =
            Services::new(config.journal, config.artifacts, toolbox, config.gate, config.run_slots);
        let services = Arc::new(services);
        let root = tree::start(&services, config.slots, config.clients).await?;
        let (watched, halted) = (root.clone(), Arc::clone(&services));
        tokio::spawn(async move {
            let exit = watched.wait_exit().await;
            match exit {
                Exit::Normal | Exit::Shutdown => halted.end("it was shut down"),
                exit => halted.halt(&format!("the tree has ended: {exit}")),
            }
        });
        Ok(System { services, root, drain: config.drain })
    }

    /// The tools.
    pub fn toolbox(&self) -> &Toolbox {
        &self.services.toolbox
    }

    /// How plans are normalised and judged here.
    pub fn settings(&self) -> Settings<'_> {
        Settings::real(self.services.run_slots, &self.services.toolbox)
    }

    /// Makes an agent, or finds it. Durable when it returns; dropping the future may or may not have made it.
    pub async fn spawn(&self, profile: AgentProfile) -> Result<AgentHandle, SpawnError> {
        let AgentProfile { name, client, weight } = profile;
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
        if !(1..=64).contains(&name.as_str().len()) || !name.as_str().bytes().all(plain) {
            return Err(SpawnError::Name(name.to_string()));
        }
        if !(1..=ostler_scheduler::WEIGHT_MAX).contains(&weight) {
            return Err(SpawnError::Weight(weight));
        }
        let registry = self.services.links.registry().ok_or(SpawnError::Restarting)?;
        let (agent, owner) = (name.clone(), client.clone());
        let register = move |reply| RegistryMessage::Register { agent, client: owner, weight, reply };
        let position = ask(&registry, register).await.ok_or(SpawnError::Restarting)??;
        self.services.journal.durable(position).await.map_err(RegisterError::from)?;
        Ok(AgentHandle { system: self.clone(), name, client })
    }

    /// Opens a run and drives it. The run is durable when this returns; dropping the future may or may not have
    /// opened it.
    pub async fn submit(&self, submission: Submission) -> Result<RunId, SubmitError> {
        let Submission { plan, client, agent, intent, scope, workspace } = submission;
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
        let run = RunId(uuid::Uuid::now_v7());
        let agent = agent.unwrap_or_else(|| AgentId::from(run.to_string().as_str()));
        let plan_id = plan.id.clone();
        let plan = serde_json::to_value(&plan).expect("a plan holds names, numbers and JSON");
        let opened = RunOpened {
            run,
            client: client.clone(),
            agent: agent.clone(),
            plan: json::canonical(&plan)?,
            intent,
            scope,
            workspace: workspace.to_string_lossy().into_owned(),
            policy_epoch: self.services.gate.epoch,
            seed: rand::random(),
        };
        let at_ms = self.services.clock.now();
        let (stream, events) = (StreamId::run(&client, run), vec![Event::RunOpened(opened)]);
        let batch = StreamBatch { stream, expected: Seq(0), at_ms, events };
        let position = self.services.journal.append(vec![batch])?;
        self.services.journal.durable(position).await?;
        let (closed_ms, standing) = (None, RunStanding::Open);
        let row = RunRow { run, client, agent, plan: plan_id, opened_ms: at_ms, closed_ms, standing };
        self.drive(row, false);
        Ok(run)
    }

    fn drive(&self, row: RunRow, by_name: bool) {
        self.services.drive(row.run, by_name);
        self.services.links.tell_registry(RegistryMessage::Drive(row));
    }

    /// Takes up an open run that nobody drives; one that was set aside, too.
    pub async fn resume(&self, run: RunId) -> Result<(), RunError> {
        let row = self.row(run)?;
        match row.standing {
            RunStanding::Closed(_) => Err(RunError::Over),
            RunStanding::Open | RunStanding::Parked(_) => {
                self.drive(row, true);
                Ok(())
            }
        }
    }

    /// Takes up every open run that was not set aside, and gives them, oldest first.
    pub async fn resume_all(&self) -> Result<Vec<RunId>, RunError> {
        let mut rows = self.services.journal.runs(true)?;
        rows.retain(|row| row.standing == RunStanding::Open);
        rows.sort_by_key(|row| row.run);
        let runs = rows.iter().map(|row| row.run).collect();
        rows.into_iter().for_each(|row| self.drive(row, false));
        Ok(runs)
    }

    /// The table of runs, newest first.
    pub fn runs(&self, open_only: bool) -> Result<Vec<RunRow>, RunError> {
        Ok(self.services.journal.runs(open_only)?)
    }

    /// The table of agents.
    pub async fn agents(&self) -> Vec<AgentRow> {
        match self.services.links.registry() {
            Some(registry) => {
                ask(&registry, |reply| RegistryMessage::List { reply }).await.unwrap_or_default()
            }
            None => Vec::new(),
        }
    }

    fn row(&self, run: RunId) -> Result<RunRow, RunError> {
        self.services.journal.run(run)?.ok_or(RunError::Unknown(run))
    }

    /// A run, folded from its records, up to `at`; all of it durable when this returns.
    pub async fn view(&self, run: RunId, at: Option<Seq>) -> Result<RunView, RunError> {
        let view = view::fold(&*self.services.journal, &self.row(run)?, at)?;
        self.services.journal.durable(view.position).await?;
        Ok(view)
    }

    /// The records of a run after `after`.
    pub fn events(&self, run: RunId, after: Seq) -> Result<EventCursor, RunError> {
        let row = self.row(run)?;
        let journal = Arc::clone(&self.services.journal);
        Ok(EventCursor::new(journal, StreamId::run(&row.client, run), after))
    }

    /// Cancels a run. One that nobody drives is taken up, cancelled and closed. What acts on the world right now
    /// goes on to its end. Durable when it returns.
    pub async fn cancel(&self, run: RunId) -> Result<(), RunError> {
        self.tell(run, |reply| AgentMessage::Operate(Operation::CancelPlan, reply)).await
    }

    /// Cancels one node: what depends on it is lost with it. If it acts on the world right now it goes on to its end,
    /// and that is what counts. The run goes on. Durable when it returns.
    ///
    /// # Errors
    ///
    /// The node is unknown, or over already; nothing has changed then.
    pub async fn cancel_node(&self, run: RunId, node: NodeId) -> Result<(), RunError> {
        self.operate(run, Operation::Cancel(node)).await
    }

    /// Skips one node, as not needed; otherwise as [`System::cancel_node`].
    ///
    /// # Errors
    ///
    /// Those of [`System::cancel_node`].
    pub async fn skip_node(&self, run: RunId, node: NodeId) -> Result<(), RunError> {
        self.operate(run, Operation::Skip(node)).await
    }

    async fn operate(&self, run: RunId, operation: Operation) -> Result<(), RunError> {
        // What is refused does not set a run going that rests.
        self.view(run, None).await?.run.check_operation(&operation)?;
        self.tell(run, |reply| AgentMessage::Operate(operation, reply)).await
    }

    /// The questions that wait for a person, of one run or of all that are open: oldest run first, in the order of
    /// the nodes.
    pub async fn approvals(&self, run: Option<RunId>) -> Result<Vec<Approval>, RunError> {
        let mut rows = match run {
            Some(run) => vec![self.row(run)?],
            None => self.runs(true)?,
        };
        rows.sort_by_key(|row| row.run);
        let mut found = Vec::new();
        for row in rows {
            let view = self.view(row.run, None).await?;
            found.extend(approval::open(&self.services, &view).await?);
        }
        Ok(found)
    }

    /// Answers a question, for what has the digest `shown`; the run goes on. Durable when it returns.
    ///
    /// # Errors
    ///
    /// The question is not open, or shows something else ([`AnswerError`]); nothing has changed then.
    pub async fn answer(&self, id: &ApprovalId, shown: Digest, answer: Answer) -> Result<(), RunError> {
        answer.check()?;
        let ApprovalId { run, node, request } = id.clone();
        // What is refused does not set a run going that rests.
        let now = self.services.clock.now();
        self.view(run, None).await?.run.check_answer(&node, request, shown, now)?;
        let request = AnswerRequest { node, request, shown, answer };
        self.tell(run, |reply| AgentMessage::Answer(request, reply)).await
    }

    /// The value of a result, wherever it is kept.
    pub async fn value(&self, output: &Output) -> Result<serde_json::Value, RunError> {
        Ok(attempt::load(&self.services, output).await?)
    }

    /// Settles an attempt in doubt; the run goes on. Durable when it returns.
    pub async fn resolve(&self, run: RunId, node: NodeId, how: ResolveHow) -> Result<(), RunError> {
        let how = match how {
            ResolveHow::Done(value) => {
                let view = self.view(run, None).await?;
                let contract = view.run.node(&node).ok_or_else(|| RunError::UnknownNode(node.clone()))?;
                let contract = self.services.contract(&contract.contract);
                let judged = contract.map_err(|error| RunError::Result(error.to_string()))?.judge(&value);
                if let Some(broken) = judged.broken.first() {
                    return Err(RunError::Result(broken.to_string()));
                }
                let kept = attempt::keep(&self.services, &value).await;
                StoredHow::Done(kept.map_err(|failure| RunError::Result(failure.message))?)
            }
            ResolveHow::Redo => StoredHow::Redo,
            ResolveHow::Fail => StoredHow::Fail,
        };
        let request = ResolveRequest { node, how, by: "operator".to_owned() };
        self.tell(run, |reply| AgentMessage::Resolve(request, reply)).await
    }

    /// Sends to the actor that drives a run, which is brought up first if need be.
    async fn tell(
        &self,
        run: RunId,
        message: impl FnOnce(RpcReplyPort<Result<(), RunError>>) -> AgentMessage,
    ) -> Result<(), RunError> {
        if !self.services.drives(run) {
            self.resume(run).await?;
        }
        let registry = self.services.links.registry().ok_or(RunError::Restarting)?;
        let found = ask(&registry, |reply| RegistryMessage::Find { run, reply }).await;
        let actor = found.ok_or(RunError::Restarting)?.ok_or(RunError::Over)?;
        ask(&actor, message).await.ok_or(RunError::Restarting)?
    }

    /// Waits until a run is over, or until nothing can go on without a person. Dropping the future loses nothing.
    pub async fn outcome(&self, run: RunId) -> Result<Settled, RunError> {
        let mut stirs = self.services.stirs.subscribe();
        let mut cursor = self.events(run, Seq(0))?;
        let mut follower: Option<Run> = None;
        loop {
            stirs.mark_unchanged();
            if let Some(why) = self.services.halted.borrow().clone() {
                return Err(RunError::Halted(why));
            }
            while let Some(record) = cursor.next_known().await {
                let record = record?;
                match (&mut follower, &record.event) {
                    (_, Event::RunClosed { outcome }) => return Ok(Settled::Closed(*outcome)),
                    (None, Event::RunOpened(opened)) => follower = Some(open(opened, record.at_ms)?),
                    (None, _) => return Err(FoldError::Unopened(run).into()),
                    (Some(follower), event) => {
                        let seq = record.seq.0;
                        follower.apply(event, record.at_ms).map_err(|step| FoldError::Illegal {
                            run,
                            seq,
                            what: step.to_string(),
                        })?;
                    }
                }
            }
            if !self.services.drives(run) {
                return match self.row(run)?.standing {
                    RunStanding::Closed(outcome) => Ok(Settled::Closed(outcome)),
                    RunStanding::Parked(reason) => Ok(Settled::Parked(reason)),
                    RunStanding::Open => Ok(Settled::Idle),
                };
            }
            let now = self.services.clock.now();
            if follower
                .as_ref()
                .is_some_and(|run| waits_for_person(run) && !approval::silence_is_due(run, now))
            {
                return Ok(Settled::WaitsForPerson);
            }
            tokio::select! {
                _ = stirs.changed() => {}
                () = cursor.changed() => {}
            }
        }
    }

    /// The result of a node.
    pub async fn artifact(&self, run: RunId, node: &NodeId) -> Result<Artifact, RunError> {
        let view = self.view(run, None).await?;
        let instance = view.run.instance(node).ok_or_else(|| RunError::UnknownNode(node.clone()))?;
        let output = match (&instance.standing, &instance.output) {
            (Standing::Executed, Some(output)) => output,
            _ => return Err(RunError::NoResult { node: node.clone(), state: instance.state() }),
        };
        match &output.inline {
            Some(inline) => {
                Ok(Artifact { media: JSON.to_owned(), content: inline.as_str().as_bytes().to_vec() })
            }
            None => Ok(self.services.artifacts.get(output.artifact).await?),
        }
    }

    /// Runs that this process drives.
    pub fn active(&self) -> usize {
        self.services.driven().len()
    }

    /// Waits until something may have changed about how runs stand.
    pub async fn stirred(&self) {
        let _ = self.services.stirs.subscribe().changed().await;
    }

    /// Ends: no more grants; what only looks or computes is stopped; what acts on the world goes on to its end, but
    /// no longer than the configured time; then the actors stop. Open runs stay open.
    pub async fn shutdown(&self) {
        self.services.stop();
        self.services.links.tell_scheduler(SchedulerMessage::Stop);
        self.services.effects.stop_pure();
        if tokio::time::timeout(self.drain, self.services.effects.drained()).await.is_err() {
            tracing::warn!("attempts that act on the world did not end in time: they are in doubt");
        }
        self.root.stop().await;
        self.services.links.clear();
    }
}

/// Whether nothing goes on in a run until somebody answers.
fn waits_for_person(run: &Run) -> bool {
    let mut waits = false;
    for (_, instance) in run.instances() {
        match instance.standing {
            Standing::WaitingHuman { .. } => waits = true,
            Standing::Ready | Standing::Running { .. } | Standing::FailedRetryable { .. } => return false,
            _ => {}
        }
    }
    waits
}

/// Asks an actor, and waits for its answer; `None` if it ended without one.
async fn ask<M: ractor::Message, T: Send + 'static>(
    actor: &ActorRef<M>,
    message: impl FnOnce(RpcReplyPort<T>) -> M,
) -> Option<T> {
    let (sender, receiver) = ractor::concurrency::oneshot();
    actor.cast(message(sender.into())).ok()?;
    receiver.await.ok()
}
