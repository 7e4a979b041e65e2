//! The facade: a running system and what is in it.

use std::fmt;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use ostler_actors::{
    AgentEvaluation, AgentHandle, AgentProfile, AgentRow, Answer, Approval, ClientChange, ClientError,
    ClientRow, Evaluating, EvaluationError, EventCursor, JobRequest, JobRow, MarketError, OfferRefused,
    PipelineError, PipelineHandle, PipelineRow, Program, ReleaseError, ResolveHow, RunError, RunEvaluation,
    Settled, SpawnError, Submission, SubmitError, System, SystemConfig, TreeRow, VerdictRequest,
};
use ostler_drivers::tool::{DataFolder, NotEnded, builtin};
use ostler_kernel::gate::GatePolicy;
use ostler_kernel::id::{NodeId, RunId};
use ostler_kernel::market::Offer;
use ostler_kernel::pipeline::PipelineSpec;
use ostler_kernel::plan::{Fault, Plan, PlanDraft};
use ostler_kernel::port::{Artifact, ArtifactStore, Journal, Judge, Seq, Tool};
use ostler_server::{Children, ControlSocket, router};
use ostler_store::{MemoryArtifacts, MemoryJournal, OpenError, Opened, Options, Store};
use serde_json::Value;

use crate::config::{Config, StoreUrl, run_slots_default, slots_default};
use crate::metrics::{Endpoint, Meter};

/// The data folder of who names none.
pub const DATA_FOLDER: &str = ".ostler";

/// How long a shutdown waits for attempts that act on the world.
pub const DRAIN: Duration = Duration::from_secs(30);

/// How long a system of this process that was shut down may take to let go of its data folder.
const LETTING_GO: Duration = Duration::from_millis(500);

/// How a system is to be.
#[derive(Debug, Default)]
pub struct OstlerBuilder {
    place: Option<StoreUrl>,
    config: Config,
    tools: Vec<Arc<dyn Tool>>,
    gate: Option<GatePolicy>,
    judge: Option<Arc<dyn Judge>>,
    slots: Option<u32>,
    metrics: Option<SocketAddr>,
    rests: bool,
    alone: bool,
    looks: bool,
}

/// Why a system did not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// Its data folder could not be opened.
    #[error(transparent)]
    Store(#[from] OpenError),
    /// Programs that an earlier holder of the data folder left still run.
    #[error(transparent)]
    Programs(#[from] NotEnded),
    /// The actors did not come up.
    #[error(transparent)]
    System(#[from] ostler_actors::StartError),
    /// It could not listen for other processes.
    #[error("cannot listen at {}: {error}", path.display())]
    Socket {
        /// The socket.
        path: PathBuf,
        /// What the file system said.
        error: std::io::Error,
    },
    /// Metrics cannot be served where they should be. Nothing was opened.
    #[error(
        "cannot serve metrics at {address}: {}: name another address, or port 0 for any that is free",
        told(error)
    )]
    Metrics {
        /// Where.
        address: SocketAddr,
        /// What the system said.
        error: std::io::Error,
    },
    /// Its open runs could not be taken up.
    #[error("open runs cannot be taken up: {0}")]
    Resume(#[from] RunError),
}

fn told(error: &std::io::Error) -> String {
    match error.kind() {
        std::io::ErrorKind::AddrInUse => "something else listens there".to_owned(),
        std::io::ErrorKind::AddrNotAvailable => "this machine has no such address".to_owned(),
        _ => error.to_string(),
    }
}

impl OstlerBuilder {
    /// Keeps everything in this folder, made if it is not there.
    pub fn data_dir(self, path: impl Into<PathBuf>) -> Self {
        OstlerBuilder { place: Some(StoreUrl::File(path.into())), ..self }
    }

    /// Keeps everything in memory: it ends with the process.
    pub fn memory(self) -> Self {
        OstlerBuilder { place: Some(StoreUrl::Memory), ..self }
    }

    /// Takes a configuration, as of `ostler.toml`.
    pub fn config(self, config: Config) -> Self {
        OstlerBuilder { config, ..self }
    }

    /// Adds a tool to the built-in ones. It belongs to the scope `default`, and to others that name it.
    pub fn tool(mut self, tool: impl Tool) -> Self {
        self.tools.push(Arc::new(tool));
        self
    }

    /// Adds an agent that is written as code: plans call it as a tool of its name. It belongs to scopes as a tool does.
    pub fn program(self, program: Program) -> Self {
        self.tool(program)
    }

    /// Sets who may call what, instead of what the configuration says.
    pub fn gate(self, gate: GatePolicy) -> Self {
        OstlerBuilder { gate: Some(gate), ..self }
    }

    /// Asks somebody how good the results of each run are, once it is over: code, a model, a service. What it says is the quality
    /// of the run's evaluation.
    pub fn judge(self, judge: impl Judge) -> Self {
        OstlerBuilder { judge: Some(Arc::new(judge)), ..self }
    }

    /// Attempts that run at once in the whole system, 1 or more; absent: eight times the cores.
    pub fn slots(self, slots: u32) -> Self {
        OstlerBuilder { slots: Some(slots.max(1)), ..self }
    }

    /// Serves metrics for Prometheus at `/metrics` of this address, and `/healthz` and `/readyz` beside it. Port 0 takes a
    /// free one: see [`Ostler::metrics_address`]. Nobody is asked who they are: give a loopback address, such as
    /// `([127, 0, 0, 1], 9464)`, or see that nobody else gets there.
    pub fn metrics(self, address: impl Into<SocketAddr>) -> Self {
        OstlerBuilder { metrics: Some(address.into()), ..self }
    }

    /// Lets the open runs rest until they are asked for, instead of taking them up.
    pub fn let_runs_rest(self) -> Self {
        OstlerBuilder { rests: true, ..self }
    }

    /// Does not answer the `ostler` command of other terminals: they wait until this process lets go of the data
    /// folder.
    pub fn alone(self) -> Self {
        OstlerBuilder { alone: true, ..self }
    }

    /// Opens the data folder to look at what is in it: what is damaged there does not keep it from opening, as long as it need
    /// not be read, and nothing is removed from it.
    pub fn to_look(self) -> Self {
        OstlerBuilder { looks: true, ..self }
    }

    /// Opens the store, ends the programs that a holder left who died, starts the system, takes up the open runs, and
    /// answers other processes of this user at `control.sock` in the data folder.
    ///
    /// # Errors
    ///
    /// See [`StartError`]: the folder may be held by another process, or be damaged; programs that its last holder
    /// left when it died do not end; or something else listens where metrics are to be served.
    pub async fn start(self) -> Result<Ostler, StartError> {
        let place = self.place.or(self.config.store.url.clone());
        let data = match place {
            Some(StoreUrl::Memory) => None,
            Some(StoreUrl::File(path)) => Some(path),
            None => Some(PathBuf::from(DATA_FOLDER)),
        };
        let meter = match self.metrics {
            Some(address) => {
                let bound = Meter::bind(address).await;
                Some(bound.map_err(|error| StartError::Metrics { address, error })?)
            }
            None => None,
        };
        let (journal, artifacts, opened): OnDisk = match &data {
            Some(path) => {
                let measures = meter.as_ref().map(Meter::journal);
                let mut options = Options { measures, ..Options::default() };
                if self.looks {
                    options.sweep_bytes_max = None;
                } else {
                    options.unwanted = self.config.retention.unwanted(SystemTime::now());
                }
                on_disk(path, options).await?
            }
            None => (Arc::new(MemoryJournal::default()), Arc::new(MemoryArtifacts::default()), None),
        };
        let (mut folder, mut ended) = (None, 0);
        if let Some(path) = &data {
            let (found, left) = end_left(path).await?;
            (folder, ended) = (Some(found), left);
        }
        let mut tools = builtin(&self.config.tools, folder.as_ref());
        tools.extend(self.tools);
        let system = System::start(SystemConfig {
            journal,
            artifacts,
            gate: self.gate.unwrap_or_else(|| self.config.gate(&tools)),
            tools,
            slots: self.slots.unwrap_or_else(slots_default),
            run_slots: run_slots_default(),
            drain: DRAIN,
            clients: self.config.clients(),
            measures: meter.as_ref().map(Meter::measures).unwrap_or_default(),
            evaluation: Evaluating { domains: self.config.domains(), judge: self.judge },
        })
        .await?;
        if !self.rests {
            system.resume_all().await?;
        }
        let mut socket = None;
        if let (Some(path), false) = (&data, self.alone) {
            match ControlSocket::bind(path, router(system.clone()), Children::Any) {
                Ok(bound) => socket = Some(bound),
                Err(error) => {
                    system.shutdown().await;
                    return Err(StartError::Socket { path: path.join("control.sock"), error });
                }
            }
        }
        let metrics = meter.map(|meter| meter.serve(system.clone()));
        let (socket, metrics) = (Arc::new(Mutex::new(socket)), Arc::new(Mutex::new(metrics)));
        Ok(Ostler { system, opened, ended, socket, metrics })
    }
}

type OnDisk = (Arc<dyn Journal>, Arc<dyn ArtifactStore>, Option<Opened>);

async fn on_disk(path: &Path, options: Options) -> Result<OnDisk, OpenError> {
    let begun = Instant::now();
    loop {
        match Store::open_with(path, options.clone()) {
            Ok((store, opened)) => return Ok((store.journal, store.artifacts, Some(opened))),
            // After a shutdown, what was under way in this process takes a moment to let go.
            Err(OpenError::Held { pid: Some(pid), .. })
                if pid == std::process::id() && begun.elapsed() < LETTING_GO =>
            {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            Err(error) => return Err(error),
        }
    }
}

/// Ends what a holder that died has left of its programs: before anything runs, and before anybody is asked what became
/// of an attempt.
async fn end_left(path: &Path) -> Result<(DataFolder, usize), StartError> {
    let unreadable = |error| OpenError::Io { path: path.to_owned(), error };
    let folder = DataFolder::of(path).map_err(unreadable)?;
    let looked = folder.clone();
    let ended = tokio::task::spawn_blocking(move || looked.end_left()).await;
    let ended = ended.map_err(|error| unreadable(std::io::Error::other(error)))??;
    Ok((folder, ended))
}

/// A running system. Cloning it gives another handle to the same.
#[derive(Clone)]
pub struct Ostler {
    system: System,
    opened: Option<Opened>,
    ended: usize,
    /// Where other processes ask, until the shutdown.
    socket: Arc<Mutex<Option<ControlSocket>>>,
    /// Where metrics are served, until the shutdown.
    metrics: Arc<Mutex<Option<Endpoint>>>,
}

/// Everything that is wrong with a plan.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Faults(pub Vec<Fault>);

impl fmt::Display for Faults {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the plan breaks {} rules", self.0.len())?;
        self.0.iter().try_for_each(|fault| write!(f, "\n{fault}"))
    }
}

impl std::error::Error for Faults {}

impl Ostler {
    /// A system that is still to be described.
    pub fn builder() -> OstlerBuilder {
        OstlerBuilder::default()
    }

    /// Judges a plan as this system would run it.
    ///
    /// # Errors
    ///
    /// Everything that is wrong with it.
    pub fn plan(&self, draft: PlanDraft) -> Result<Plan, Faults> {
        draft.validate(&self.system.settings()).map_err(Faults)
    }

    /// Makes an agent, or finds it: it runs what is submitted to it, one run at a time. Durable when it returns.
    ///
    /// # Errors
    ///
    /// See [`SpawnError`]: the name may belong to another client.
    pub async fn spawn(&self, profile: AgentProfile) -> Result<Agent, SpawnError> {
        let agent = self.system.spawn(profile).await?;
        Ok(Agent { agent, system: self.system.clone() })
    }

    /// A plan of one node, which calls a program (or a tool) with this input.
    ///
    /// # Errors
    ///
    /// Everything that is wrong with it: there is no such program, or the input is not what it takes.
    pub fn call(&self, program: &str, input: Value) -> Result<Submission, Faults> {
        let input = match input {
            Value::Object(input) => input,
            Value::Null => serde_json::Map::new(),
            other => serde_json::Map::from_iter([("input".to_owned(), other)]),
        };
        Ok(Submission::plan(self.plan(PlanDraft::call(program, input))?))
    }

    /// Runs a plan with an agent of its own. Durable when it returns; dropping the future may or may not have
    /// opened the run.
    ///
    /// # Errors
    ///
    /// See [`SubmitError`].
    pub async fn submit(&self, submission: Submission) -> Result<Run, SubmitError> {
        let id = self.system.submit(submission).await?;
        Ok(Run { id, system: self.system.clone() })
    }

    /// A run of an earlier time, by its id.
    pub fn run(&self, id: RunId) -> Run {
        Run { id, system: self.system.clone() }
    }

    /// The questions that wait for a person, in all open runs that can be read; [`Run::approvals`] says what keeps one
    /// from being read.
    ///
    /// # Errors
    ///
    /// See [`RunError`].
    pub async fn approvals(&self) -> Result<Vec<Approval>, RunError> {
        Ok(self.system.all_approvals().await?.approvals)
    }

    /// Answers a question as it was shown; the run goes on. Durable when it returns.
    ///
    /// # Errors
    ///
    /// [`RunError::Answer`]: it was answered already, shows something else by now, or is over; nothing has changed
    /// then.
    pub async fn answer(&self, approval: &Approval, answer: Answer) -> Result<(), RunError> {
        // One that is bound to nothing is not answered by what it shows now: it is asked anew first.
        let shown = approval.digest.unwrap_or_else(|| approval.shown.digest());
        self.system.answer(&approval.id, shown, answer).await
    }

    /// All clients that anything is known of: their terms, their credits, and what runs and waits of them.
    pub async fn clients(&self) -> Vec<ClientRow> {
        self.system.clients().await
    }

    /// Changes the terms or the credits of a client, which need not have been heard of before. Durable when it returns;
    /// dropping the future may or may not have changed it.
    ///
    /// # Errors
    ///
    /// See [`ClientError`]; nothing has changed then.
    ///
    /// # Examples
    ///
    /// ```
    /// # tokio::runtime::Runtime::new().unwrap().block_on(async {
    /// use ostler::{ClientChange, Ostler};
    ///
    /// let os = Ostler::builder().memory().start().await?;
    /// os.change_client("acme", ClientChange { credits: Some(5_000), ..ClientChange::default() }).await?;
    /// let acme = &os.clients().await[0];
    /// assert_eq!((acme.left, acme.weight), (Some(5_000), 500));
    /// os.shutdown().await;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// # }).unwrap();
    /// ```
    pub async fn change_client(&self, client: &str, change: ClientChange) -> Result<(), ClientError> {
        self.system.change_client(client, change).await
    }

    /// Makes a pipeline, or finds it if there is one that is declared alike. Its stages rest until they are given their code:
    /// see [`PipelineHandle::attach`] and [`PipelineHandle::on`]. Durable when it returns; dropping the future may or may not have
    /// made it.
    ///
    /// # Errors
    ///
    /// [`PipelineError::Spec`] with everything that is wrong with it, or see [`PipelineError`]; nothing was made then.
    ///
    /// # Examples
    ///
    /// ```
    /// # tokio::runtime::Runtime::new().unwrap().block_on(async {
    /// use ostler::{Ostler, PipelineEnd, PipelineSpec, StageSpec};
    ///
    /// let os = Ostler::builder().memory().start().await?;
    /// let spec = PipelineSpec::new("words")
    ///     .stage(StageSpec::new("reader").publishes(["line"]))
    ///     .stage(StageSpec::new("counter").subscribes(["line"]).publishes(["count"]));
    /// let words = os.create_pipeline(&spec).await?;
    /// words.on("counter", |event, out| async move {
    ///     let line: String = event.read()?;
    ///     out.publish("count", &line.split_whitespace().count())?;
    ///     Ok(())
    /// })?;
    ///
    /// let reader = words.publisher("reader")?;
    /// reader.publish("line", "as the wind blows").await?;
    /// reader.end().await?;
    /// assert_eq!(words.ended().await?, PipelineEnd::Ended);
    /// assert_eq!(words.row().head, 2);
    /// os.shutdown().await;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// # }).unwrap();
    /// ```
    pub async fn create_pipeline(&self, spec: &PipelineSpec) -> Result<PipelineHandle, PipelineError> {
        self.system.create_pipeline(spec).await
    }

    /// A pipeline that was made before, by its name.
    ///
    /// # Errors
    ///
    /// There is none of this name, or it cannot be read.
    ///
    /// # Examples
    ///
    /// ```
    /// # tokio::runtime::Runtime::new().unwrap().block_on(async {
    /// use ostler::{Ostler, PipelineError, PipelineSpec, StageSpec};
    ///
    /// let os = Ostler::builder().memory().start().await?;
    /// assert!(matches!(os.pipeline("words"), Err(PipelineError::Unknown(_))));
    /// os.create_pipeline(&PipelineSpec::new("words").stage(StageSpec::new("reader").publishes(["line"]))).await?;
    /// os.pipeline("words")?.publisher("reader")?.publish("line", "so does she").await?;
    /// os.shutdown().await;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// # }).unwrap();
    /// ```
    pub fn pipeline(&self, id: &str) -> Result<PipelineHandle, PipelineError> {
        self.system.pipeline(id)
    }

    /// All pipelines, by name: how far each stage has come.
    ///
    /// # Errors
    ///
    /// One of them cannot be read.
    pub async fn pipelines(&self) -> Result<Vec<PipelineRow>, PipelineError> {
        self.system.pipelines().await
    }

    /// All agents: what they are, where their actor is, and what they have to do.
    pub async fn agents(&self) -> Vec<AgentRow> {
        self.system.agents().await
    }

    /// Puts an agent that is quarantined back into service. Durable when it returns; dropping the future may or may not have
    /// released it.
    ///
    /// # Errors
    ///
    /// See [`ReleaseError`]; nothing has changed then.
    pub async fn release(&self, agent: &str) -> Result<(), ReleaseError> {
        self.system.release(agent).await
    }

    /// How well agents do, as far as their runs are kept, by client and name.
    ///
    /// # Errors
    ///
    /// See [`RunError`].
    pub fn evaluations(&self) -> Result<Vec<AgentEvaluation>, RunError> {
        self.system.evaluations()
    }

    /// Lets an agent offer to do jobs of the market from here on, instead of what it offered before. Durable when it returns.
    ///
    /// # Errors
    ///
    /// See [`OfferRefused`]; nothing has changed then.
    pub async fn offer(&self, agent: &str, offer: Offer) -> Result<(), OfferRefused> {
        self.system.offer(agent, offer).await
    }

    /// Posts a job on the market: the agents of its client propose, one gets the contract, and runs it. The job is durable when
    /// this returns; [`Ostler::job`] waits for its end.
    ///
    /// # Errors
    ///
    /// See [`MarketError`]; nothing has changed then.
    pub async fn post(&self, job: JobRequest) -> Result<RunId, MarketError> {
        self.system.post(job).await
    }

    /// Waits for the end of a job. Dropping the future loses nothing.
    ///
    /// # Errors
    ///
    /// There is none, or the journal cannot be read.
    pub async fn job(&self, job: RunId) -> Result<JobRow, MarketError> {
        self.system.job_over(job).await
    }

    /// All jobs of the market, the oldest first.
    ///
    /// # Errors
    ///
    /// The journal cannot be read.
    pub fn jobs(&self) -> Result<Vec<JobRow>, MarketError> {
        self.system.jobs()
    }

    /// What supervises what, and how often each actor had to be started again.
    ///
    /// # Examples
    ///
    /// ```
    /// # tokio::runtime::Runtime::new().unwrap().block_on(async {
    /// let os = ostler::Ostler::builder().memory().start().await?;
    /// let tree = os.tree().await;
    /// let names: Vec<&str> = tree.iter().map(|child| child.name.as_str()).collect();
    /// assert_eq!(names, ["registry", "evaluator", "scheduler", "pipelines", "pool"]);
    /// assert!(tree.iter().all(|child| child.generation == 1 && child.restarts == 0));
    /// os.shutdown().await;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// # }).unwrap();
    /// ```
    pub async fn tree(&self) -> Vec<TreeRow> {
        self.system.tree().await
    }

    /// What everything here goes through, for what this facade leaves out.
    pub fn system(&self) -> &System {
        &self.system
    }

    /// What was found and done on opening the data folder; `None` in memory.
    pub fn opened(&self) -> Option<&Opened> {
        self.opened.as_ref()
    }

    /// Processes that the last holder of the data folder had left, and that were ended on opening it.
    pub fn ended(&self) -> usize {
        self.ended
    }

    /// Where metrics are served, as long as they are.
    pub fn metrics_address(&self) -> Option<SocketAddr> {
        let metrics = self.metrics.lock().unwrap_or_else(PoisonError::into_inner);
        metrics.as_ref().map(Endpoint::address)
    }

    /// Ends: work that acts on the world goes on to its end for up to 30 s, other work is stopped. Open runs stay
    /// open, and go on when the data folder is opened again.
    pub async fn shutdown(&self) {
        let socket = self.socket.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(socket) = &socket {
            let _ = socket.close(); // one that stays there refuses, and is replaced
        }
        self.system.shutdown().await;
        if let Some(socket) = socket {
            socket.finish().await;
        }
        let metrics = self.metrics.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(metrics) = metrics {
            metrics.stop().await;
        }
    }
}

/// An agent that was spawned.
#[derive(Clone)]
pub struct Agent {
    agent: AgentHandle,
    system: System,
}

impl Agent {
    /// Its name.
    pub fn name(&self) -> &str {
        self.agent.name().as_str()
    }

    /// Gives it a plan to run, after those it has already; its client pays. Durable when it returns; dropping the
    /// future may or may not have opened the run.
    ///
    /// # Errors
    ///
    /// See [`SubmitError`].
    pub async fn submit(&self, submission: Submission) -> Result<Run, SubmitError> {
        let id = self.agent.submit(submission).await?;
        Ok(Run { id, system: self.system.clone() })
    }
}

/// One execution of a plan.
#[derive(Clone)]
pub struct Run {
    id: RunId,
    system: System,
}

impl Run {
    /// How well it was done, by what, and what people said of it.
    ///
    /// # Errors
    ///
    /// See [`RunError`].
    pub async fn evaluation(&self) -> Result<RunEvaluation, RunError> {
        self.system.evaluation(self.id).await
    }

    /// Says how good it is, once it is over: one more score of its agent. Durable when it returns.
    ///
    /// # Errors
    ///
    /// See [`EvaluationError`]; nothing has changed then.
    pub async fn judge(&self, verdict: VerdictRequest) -> Result<(), EvaluationError> {
        self.system.judge(self.id, verdict).await
    }

    /// Its id.
    pub fn id(&self) -> RunId {
        self.id
    }

    /// Its records from the first on, each as soon as it is durable; they end with the one that closes the run.
    ///
    /// # Errors
    ///
    /// There is no such run.
    pub fn events(&self) -> Result<EventCursor, RunError> {
        self.events_after(Seq(0))
    }

    /// Its records after `after`, a sequence number that was seen before.
    ///
    /// # Errors
    ///
    /// There is no such run.
    pub fn events_after(&self, after: Seq) -> Result<EventCursor, RunError> {
        self.system.events(self.id, after)
    }

    /// Waits until it is over, or until nothing goes on in it. Dropping the future loses nothing.
    ///
    /// # Errors
    ///
    /// See [`RunError`].
    pub async fn outcome(&self) -> Result<Settled, RunError> {
        self.system.outcome(self.id).await
    }

    /// What a node published.
    ///
    /// # Errors
    ///
    /// It has no result, or see [`RunError`].
    pub async fn artifact(&self, node: &str) -> Result<Artifact, RunError> {
        self.system.artifact(self.id, &NodeId::from(node)).await
    }

    /// Stops it for good. Durable when it returns.
    ///
    /// # Errors
    ///
    /// It is over, or see [`RunError`].
    pub async fn cancel(&self) -> Result<(), RunError> {
        self.system.cancel(self.id).await
    }

    /// The questions of this run that wait for a person; [`Ostler::answer`] answers one.
    ///
    /// # Errors
    ///
    /// See [`RunError`].
    pub async fn approvals(&self) -> Result<Vec<Approval>, RunError> {
        self.system.approvals(self.id).await
    }

    /// Stops one node; what depends on it is lost with it. Durable when it returns.
    ///
    /// # Errors
    ///
    /// There is no such node, it is over, or see [`RunError`].
    pub async fn cancel_node(&self, node: &str) -> Result<(), RunError> {
        self.system.cancel_node(self.id, NodeId::from(node)).await
    }

    /// Does without one node. Durable when it returns.
    ///
    /// # Errors
    ///
    /// Those of [`Run::cancel_node`].
    pub async fn skip_node(&self, node: &str) -> Result<(), RunError> {
        self.system.skip_node(self.id, NodeId::from(node)).await
    }

    /// Settles an attempt whose result was lost; the run goes on. Durable when it returns.
    ///
    /// # Errors
    ///
    /// The node is not in doubt, or see [`RunError`].
    pub async fn resolve(&self, node: &str, how: ResolveHow) -> Result<(), RunError> {
        self.system.resolve(self.id, NodeId::from(node), how).await
    }
}
