//! The handle of a running system.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use metrics::Recorder;
use ostler_kernel::gate::{CallClass, GatePolicy};
use ostler_kernel::id::{AgentId, ClientId, NodeId};
use ostler_kernel::plan::{Diagnostic, Plan, PlanDraft, Settings};
use ostler_kernel::port::{
    ArtifactStore, Journal, JournalError, LockdownStore, OutputStore, PolicySource, TemplateStore, Tool,
    WorkspaceWrites,
};
use ostler_kernel::run::{Diagnoser, Planner};
use ostler_supervisor::{Exit, SupervisorRef};
use ractor::{ActorRef, RpcReplyPort};
use serde_json::{Map, Value};
use tokio::sync::{OnceCell, Semaphore, watch};
use tokio::time::Instant;

use crate::api::assembly::Parts;
use crate::api::tree;
use crate::base::limits::{Limits, PLANS_JUDGED_AT_ONCE_MAX};
use crate::base::paused_time::SPACE_RETRY;
use crate::devices::Devices;
use crate::messages::registry::{AgentRow, RegistryMessage};
use crate::metrics::{Measures, StageLook};
use crate::pipelines::pipeline_map::PipelineMap;
use crate::run::services::RunServices;
use crate::state::attempt_table::InDoubt;
use crate::state::evaluation::Evaluating;
use crate::state::kernel_context::KernelContext;
use crate::state::ledger::{ClientConfig, Ledger};
use crate::state::rates::{ModelRates, Rates};
use crate::state::toolbox::{Toolbox, ToolboxError};
use crate::storage::run_reader;

/// Parts and settings of a system.
pub struct SystemConfig {
    /// Stores the records.
    pub journal: Arc<dyn Journal>,
    /// Stores large results.
    pub artifacts: Arc<dyn ArtifactStore>,
    /// Keeps the output of programs.
    pub output: Arc<dyn OutputStore>,
    /// Counts the calls that write in workspaces.
    pub writes: Arc<dyn WorkspaceWrites>,
    /// Tools that plans may call.
    pub tools: Vec<Arc<dyn Tool>>,
    /// Policy of the gate.
    pub gate: GatePolicy,
    /// Slots of the whole system.
    pub slots: u32,
    /// Slots of a run without a limit in its plan.
    pub run_slots: u32,
    /// Shutdown time for attempts acting on the world.
    pub drain: Duration,
    /// Clients with configured terms.
    pub clients: Vec<ClientConfig>,
    /// Rate limits of models, by the name NAME of the tool `model.NAME`.
    pub models: BTreeMap<String, ModelRates>,
    /// Recorder of metrics.
    pub measures: Measures,
    /// Weights and judge of evaluations.
    pub evaluation: Evaluating,
    /// Writes patches and new versions of plans; [`StaticPlanner`](ostler_kernel::run::StaticPlanner) by default.
    pub planner: Arc<dyn Planner>,
    /// Finds the causes of failures.
    pub diagnoser: Arc<dyn Diagnoser>,
}

/// Time limit for actors to report their state.
const LOOK: Duration = Duration::from_secs(1);

/// The reason why a system did not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The tools are inconsistent.
    #[error(transparent)]
    Tools(#[from] ToolboxError),
    /// Records of clients cannot be read.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// An actor did not start.
    #[error("the tree did not start: {0}")]
    Tree(#[from] ostler_supervisor::StartError),
}

/// A running system. A clone is another handle of the same system.
#[derive(Clone)]
pub struct System {
    pub(crate) services: Arc<RunServices>,
    pub(crate) pipelines: Arc<PipelineMap>,
    /// Held while a run is opened under a chosen id.
    pub(crate) opening: Arc<Mutex<()>>,
    /// Learnt plans; none without a store.
    pub(crate) templates: Arc<OnceLock<Arc<dyn TemplateStore>>>,
    /// Store of the lockdown; empty: a lockdown ends with the process.
    pub(crate) lockdown: Arc<OnceLock<Arc<dyn LockdownStore>>>,
    /// Source of [`System::reload_policy`]; empty: the policy cannot be reloaded.
    pub(crate) policy_source: Arc<OnceLock<Arc<dyn PolicySource>>>,
    pub(crate) root: SupervisorRef,
    /// Empty without devices.
    pub(crate) devices: Arc<OnceCell<Devices>>,
    pub(crate) drain: Duration,
}

impl System {
    /// Starts the actors. Open runs stay inactive until [`System::resume`] or [`System::resume_all`].
    pub async fn start(config: SystemConfig) -> Result<System, StartError> {
        System::start_within(config, Limits::default()).await
    }

    /// The same with other limits.
    pub async fn start_within(config: SystemConfig, limits: Limits) -> Result<System, StartError> {
        let SystemConfig {
            journal,
            artifacts,
            output,
            writes,
            tools,
            gate,
            run_slots,
            clients,
            models,
            measures,
            evaluation,
            planner,
            diagnoser,
            ..
        } = config;
        let tokens = clients.iter();
        let tokens = tokens.filter_map(|client| Some((client.name.clone(), client.tokens_per_minute?)));
        let tokens: Vec<(ClientId, u32)> = tokens.collect();
        let accounts = journal.accounts()?;
        let ledger = Ledger::new(clients, accounts.clone());
        let toolbox = Toolbox::new(tools)?.with_judge(evaluation.judge_model.clone());
        let rates = Rates::new(&toolbox, &models, tokens, config.slots);
        let parts = Parts {
            artifacts,
            output,
            writes,
            gate,
            run_slots,
            limits,
            measures,
            evaluation,
            planner,
            diagnoser,
            rates,
        };
        let services = Arc::new(parts.assemble(journal, Arc::new(toolbox), ledger, &accounts));
        let pipelines = PipelineMap::new(Arc::clone(&services.journal), services.measures.clone(), limits);
        let pipelines = Arc::new(pipelines);
        let root = match tree::start(&services, &pipelines, config.slots).await {
            Ok(root) => root,
            Err(error) => {
                read_clients(&**services.journal)?;
                return Err(error.into());
            }
        };
        tokio::spawn(watch_over(Arc::clone(&services), root.clone()));
        let system = System {
            services,
            pipelines,
            opening: Arc::default(),
            templates: Arc::default(),
            lockdown: Arc::default(),
            policy_source: Arc::default(),
            root,
            devices: Arc::default(),
            drain: config.drain,
        };
        system.services.executor.children.set(Some(Arc::new(system.clone())));
        Ok(system)
    }

    /// The tools.
    pub fn toolbox(&self) -> &Toolbox {
        &self.services.gatekeeper.toolbox
    }

    /// Settings for normalising and validating plans.
    pub fn settings(&self) -> Settings<'_> {
        self.services.kernel.settings()
    }

    /// Intent of a run that is submitted without an intent.
    pub fn default_intent(&self) -> u8 {
        self.services.gatekeeper.policy().default_intent
    }

    /// True if a tool has this name, whether or not a scope allows it.
    pub fn has_tool(&self, name: &str) -> bool {
        self.services.gatekeeper.toolbox.version(name).is_some()
    }

    /// Names of all tools, ascending.
    pub fn tool_names(&self) -> impl Iterator<Item = &str> {
        self.services.gatekeeper.toolbox.iter().map(|tool| tool.spec().name.as_str())
    }

    /// Class of a call with these parameters; absent ones count as the worst. The worst of all for an unknown tool.
    pub fn class_of(&self, tool: &str, params: &Map<String, Value>) -> CallClass {
        self.services.gatekeeper.toolbox.class(tool, params)
    }

    /// Normalises and validates a plan with the settings of the system. A large plan takes long, so validation runs on
    /// threads of its own, at most [`PLANS_JUDGED_AT_ONCE_MAX`] at once.
    ///
    /// # Errors
    ///
    /// All faults of the plan.
    pub async fn judge_plan(&self, draft: PlanDraft) -> Result<Plan, Vec<Diagnostic>> {
        self.validate(draft, |settings| settings).await
    }

    /// Like [`System::judge_plan`], for version 1 of a goal run, which may hold results of earlier runs.
    ///
    /// # Errors
    ///
    /// All faults of the plan.
    pub async fn judge_opening(&self, draft: PlanDraft) -> Result<Plan, Vec<Diagnostic>> {
        self.validate(draft, KernelContext::of_goal).await
    }

    async fn validate(
        &self,
        draft: PlanDraft,
        fitted: impl FnOnce(Settings<'_>) -> Settings<'_> + Send + 'static,
    ) -> Result<Plan, Vec<Diagnostic>> {
        static PLACES: Semaphore = Semaphore::const_new(PLANS_JUDGED_AT_ONCE_MAX);
        let place = PLACES.acquire().await;
        let services = Arc::clone(&self.services);
        let judging = tokio::task::spawn_blocking(move || {
            let _place = place; // kept even if nobody waits any more
            draft.validate(&fitted(services.kernel.settings()))
        });
        judging.await.unwrap_or_else(|broken| std::panic::resume_unwind(broken.into_panic()))
    }

    /// All agents.
    pub async fn agents(&self) -> Vec<AgentRow> {
        self.ask_registry(|reply| RegistryMessage::List { reply }).await.unwrap_or_default()
    }

    /// One agent; `None` if no agent has the name.
    pub async fn agent(&self, agent: &AgentId) -> Option<AgentRow> {
        let agent = agent.clone();
        self.ask_registry(|reply| RegistryMessage::Find { agent, reply }).await.flatten()
    }

    /// Asks the registry and waits for its answer, also through a restart; `None`: it ended without an answer.
    pub(crate) async fn ask_registry<T: Send + 'static>(
        &self,
        message: impl FnOnce(RpcReplyPort<T>) -> RegistryMessage,
    ) -> Option<T> {
        ask(&self.services.mailboxes.registry.up().await.ok()?, message).await
    }

    /// Writes the present state of queue and agents, and the usage of clients, into a recorder made for the answer.
    /// Does nothing without metrics; leaves out actors without an answer within a second.
    pub async fn look(&self, into: &(dyn Recorder + Sync)) {
        let queue = self.services.scheduler.look();
        let agents = self.ask_registry(|reply| RegistryMessage::Count { reply });
        let agents = tokio::time::timeout(LOOK, agents).await.ok().flatten().unwrap_or_default();
        let rows = self.pipelines.opened().into_iter().map(|log| log.row());
        let stages = rows.flat_map(|row| {
            let pipeline = row.pipeline.to_string();
            let hearing = row.stages.into_iter().filter(|stage| !stage.subscribes.is_empty());
            hearing.map(move |stage| StageLook {
                pipeline: pipeline.clone(),
                stage: stage.stage.to_string(),
                lag: stage.lag,
                parked_total: stage.parked_total,
            })
        });
        self.services.measures.look(into, queue, &agents, &stages.collect::<Vec<_>>());
        let (reputations, jobs) = (self.services.evaluation.reputations(), self.services.market.count());
        self.services.measures.look_at_market(into, &reputations, &jobs);
    }

    /// The reason why the system has halted; `None` while it runs.
    pub fn halted(&self) -> Option<String> {
        let halted = self.services.journal.status.halted();
        halted.or_else(|| {
            self.services.journal.status.is_stopping().then(|| "it is being shut down".to_owned())
        })
    }

    /// Watches why the disk has no space, for records (nothing goes on) or for a result (the rest goes on); `None`
    /// while there is space. Work resumes by itself.
    pub fn full(&self) -> watch::Receiver<Option<String>> {
        self.services.journal.disk.watch()
    }

    /// Shutdown time for attempts acting on the world.
    pub fn drain(&self) -> Duration {
        self.drain
    }

    /// Nodes, of any run, whose attempt acts on the world: [`System::shutdown`] waits for them.
    pub fn acting_nodes(&self) -> BTreeSet<NodeId> {
        self.services.attempts.acting_nodes()
    }

    /// Number of driven runs.
    pub fn active(&self) -> usize {
        self.services.active_runs.all().len()
    }

    /// Signals changes of runs; subscribed before the state is read, it misses none.
    pub fn watch_changes(&self) -> watch::Receiver<u64> {
        self.services.journal.status.watch_changes()
    }

    /// Starts nothing more; running attempts continue. [`System::shutdown`] does the first.
    pub async fn start_nothing(&self) {
        self.close_jobs().await;
        self.services.journal.status.stop();
    }

    /// Shuts down: stops grants, cancels pure attempts, lets acting attempts finish within the configured time, stops
    /// the remaining ones, and stops the actors. Open runs stay open. Recorded events are durable on return, if the
    /// disk takes them in time. Returns the attempts that were stopped while acting.
    pub async fn shutdown(&self) -> Vec<InDoubt> {
        self.start_nothing().await;
        self.services.scheduler.stop();
        self.services.attempts.stop_pure();
        let _ = tokio::time::timeout(self.drain, self.services.attempts.drained()).await;
        self.root.stop().await;
        if let Some(devices) = self.devices.get() {
            devices.tree.stop().await;
        }
        // Without drivers, these attempts end without a record.
        let in_doubt: Vec<InDoubt> = self.services.attempts.stop_acting();
        for InDoubt { run, node } in &in_doubt {
            tracing::warn!(%run, %node, "it acts on the world and did not end in time: it is in doubt");
        }
        // The process may end when this returns, so the last records must be durable whoever else holds the journal.
        let appended = self.pipelines.opened().iter().map(|log| log.position()).max();
        let last = self.services.journal.last_appended().max(appended.unwrap_or_default());
        let durable = self.services.journal.durable(last);
        match tokio::time::timeout(self.drain, durable).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tracing::warn!(%error, "what was recorded last may not be durable"),
            Err(_) => tracing::warn!("what was recorded last is not durable yet"),
        }
        self.services.mailboxes.clear();
        self.services.executor.children.set(None);
        in_doubt
    }
}

/// Shortest time between two full rereads after rollbacks.
const READ_AGAIN: Duration = Duration::from_secs(10);

/// Checks that all records of clients can be read, as the actors do when they start.
fn read_clients(journal: &dyn Journal) -> Result<(), JournalError> {
    for stream in journal.clients()? {
        run_reader::each(journal, stream, None, |_| Ok::<(), JournalError>(()))?;
    }
    Ok(())
}

/// Restarts the tree after a rollback, looks for disk space, and reports the end of the tree.
async fn watch_over(services: Arc<RunServices>, root: SupervisorRef) {
    let (mut undone, mut at, mut full) = (0, Instant::now(), services.journal.disk.watch());
    loop {
        let undone_again = async {
            tokio::time::sleep_until(at).await;
            services.journal.rollbacks(undone).await
        };
        let is_full = async {
            let _ = full.wait_for(Option::is_some).await;
            tokio::time::sleep(SPACE_RETRY).await;
        };
        tokio::select! {
            exit = root.wait_exit() => return ended(&services, &root, exit),
            times = undone_again => {
                (undone, at) = (times, Instant::now() + READ_AGAIN);
                services.journal.disk.is_missing("what was ordered has no room on the disk");
                services.attempts.sweep();
                // A registry that is starting may have read rolled back records.
                if let Ok(registry) = services.mailboxes.registry.up().await {
                    let _ = registry.cast(RegistryMessage::RolledBack);
                }
            }
            () = is_full => look_for_space(&services),
        }
    }
}

/// Resumes everything that waits for disk space, if any exists.
fn look_for_space(services: &RunServices) {
    services.attempts.sweep();
    if services.journal.has_room() {
        services.journal.disk.is_found(|| services.mailboxes.tell_registry(RegistryMessage::SpaceFound));
    }
}

fn ended(services: &RunServices, root: &SupervisorRef, exit: Exit) {
    let causes: Vec<String> =
        root.causes().iter().map(|cause| format!("{} ended: {}", cause.id, cause.exit)).collect();
    match exit {
        Exit::Normal | Exit::Shutdown if causes.is_empty() => services.journal.status.end("it was shut down"),
        Exit::Normal | Exit::Shutdown => {
            services.journal.status.halt(&format!("too many restarts: {}", causes.join(", so ")));
        }
        exit => services.journal.status.halt(&format!("the tree has ended: {exit}")),
    }
}

/// Asks an actor and waits for its answer; `None` if it ended without one.
pub(crate) async fn ask<M: ractor::Message, T: Send + 'static>(
    actor: &ActorRef<M>,
    message: impl FnOnce(RpcReplyPort<T>) -> M,
) -> Option<T> {
    let (sender, receiver) = ractor::concurrency::oneshot();
    actor.cast(message(sender.into())).ok()?;
    receiver.await.ok()
}
