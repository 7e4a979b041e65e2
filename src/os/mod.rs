//! The facade of the library: a running system.

mod builder;
mod operator_files;
mod run;
mod stores;

use std::fmt;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};

use ostler_actors::{
    AgentEvaluation, AgentProfile, AgentRow, Answer, Approval, ClientChange, ClientError, ClientRow, Goal,
    GoalError, InDoubt, JobRequest, JobRow, MarketError, OfferRefused, PipelineError, PipelineHandle,
    PipelineRow, ReleaseError, RunError, SpawnError, Submission, SubmitError, System, TreeRow,
};
use ostler_drivers::tool::DataFolder;
use ostler_kernel::id::RunId;
use ostler_kernel::market::Offer;
use ostler_kernel::pipeline::PipelineSpec;
use ostler_kernel::plan::{Diagnostic, Plan, PlanDraft};
use ostler_server::{CallbackServer, ControlSocket, OperatorKeys};
use ostler_store::Opened;
use serde_json::Value;

pub use builder::{DATA_FOLDER, OstlerBuilder, StartError};
pub use run::{Agent, Run};

use crate::metrics::Endpoint;
use crate::telemetry::Telemetry;

/// A running system. A clone is another handle of the same system.
#[derive(Clone)]
pub struct Ostler {
    system: System,
    opened: Option<Opened>,
    ended: usize,
    /// Registry of child processes in the data folder; `None` in memory.
    programs: Option<DataFolder>,
    operators: OperatorKeys,
    /// The control socket, until shutdown.
    socket: Arc<Mutex<Option<ControlSocket>>>,
    /// The metrics endpoint, until shutdown.
    metrics: Arc<Mutex<Option<Endpoint>>>,
    /// The listener for callbacks, until shutdown.
    callbacks: Arc<Mutex<Option<CallbackServer>>>,
    /// The traces, until shutdown.
    telemetry: Arc<Mutex<Option<Telemetry>>>,
}

/// All faults of a plan.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Faults(pub Vec<Diagnostic>);

impl fmt::Display for Faults {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the plan breaks {} rules", self.0.len())?;
        self.0.iter().try_for_each(|fault| write!(f, "\n{fault}"))
    }
}

impl std::error::Error for Faults {}

impl Ostler {
    /// Returns a builder with default options.
    pub fn builder() -> OstlerBuilder {
        OstlerBuilder::default()
    }

    /// Validates a plan with the tools and limits of this system.
    ///
    /// # Errors
    ///
    /// All faults of the plan.
    pub fn plan(&self, draft: PlanDraft) -> Result<Plan, Faults> {
        draft.validate(&self.system.settings()).map_err(Faults)
    }

    /// Creates an agent, or finds an existing one. An agent executes its submissions one at a time. Durable
    /// on return.
    ///
    /// # Errors
    ///
    /// See [`SpawnError`]: the name may belong to another client.
    pub async fn spawn(&self, profile: AgentProfile) -> Result<Agent, SpawnError> {
        let agent = self.system.spawn(profile).await?;
        Ok(Agent { agent, system: self.system.clone() })
    }

    /// Builds a plan of one node that calls a program or tool.
    ///
    /// # Errors
    ///
    /// The program is unknown, or does not accept the input.
    pub fn call(&self, program: &str, input: Value) -> Result<Submission, Faults> {
        let input = match input {
            Value::Object(input) => input,
            Value::Null => serde_json::Map::new(),
            other => serde_json::Map::from_iter([("input".to_owned(), other)]),
        };
        Ok(Submission::plan(self.plan(PlanDraft::call(program, input))?))
    }

    /// Runs a plan with an agent of its own. Durable on return. Dropping the future may or may not leave an
    /// open run.
    ///
    /// # Errors
    ///
    /// See [`SubmitError`].
    pub async fn submit(&self, submission: Submission) -> Result<Run, SubmitError> {
        let id = self.system.submit(submission).await?;
        Ok(Run { id, system: self.system.clone() })
    }

    /// Opens a run for a goal in the words of a user: a model plans the steps, and the output `answer` is the answer. Durable on
    /// return. Dropping the future may or may not leave an open run.
    ///
    /// # Errors
    ///
    /// See [`GoalError`]: for example, no model is configured.
    pub async fn goal(&self, goal: Goal) -> Result<Run, GoalError> {
        let id = self.system.goal(goal).await?;
        Ok(Run { id, system: self.system.clone() })
    }

    /// Returns a handle of an earlier run.
    pub fn run(&self, id: RunId) -> Run {
        Run { id, system: self.system.clone() }
    }

    /// Returns the runs that are not closed and not suspended, newest first. A restarted program finds its runs in this list.
    ///
    /// # Errors
    ///
    /// The journal cannot be read.
    pub fn open_runs(&self) -> Result<Vec<Run>, RunError> {
        let rows = self.system.runs(true)?;
        Ok(rows.into_iter().map(|row| self.run(row.run)).collect())
    }

    /// Returns the pending approvals of all readable open runs; [`Run::approvals`] reports why a run cannot
    /// be read.
    ///
    /// # Errors
    ///
    /// See [`RunError`].
    pub async fn approvals(&self) -> Result<Vec<Approval>, RunError> {
        Ok(self.system.all_approvals().await?.approvals)
    }

    /// Answers an approval for the content shown; the run continues. Durable on return.
    ///
    /// # Errors
    ///
    /// [`RunError::Answer`]: the approval was answered, its content changed, or its deadline passed;
    /// nothing is changed.
    pub async fn answer(&self, approval: &Approval, answer: Answer) -> Result<(), RunError> {
        // A request without a digest is not answered by its current content: the node asks again first.
        let shown = approval.digest.unwrap_or_else(|| approval.shown.digest());
        self.system.answer(&approval.id, shown, answer).await
    }

    /// Returns all known clients with their terms, credits and attempts.
    pub async fn clients(&self) -> Vec<ClientRow> {
        self.system.clients().await
    }

    /// Changes the terms or credits of a client, and adds an unknown client. Durable on return. Dropping the
    /// future may or may not change them.
    ///
    /// # Errors
    ///
    /// See [`ClientError`]; nothing is changed.
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

    /// Removes the terms and credits of a client, which is unmetered from then on, and returns its last state. Its runs and
    /// agents stay, and terms of the configuration. Durable on return. Dropping the future may or may not remove them.
    ///
    /// # Errors
    ///
    /// See [`ClientError`]: for example, a run or a job of the client is open. Nothing is removed then.
    pub async fn remove_client(&self, client: &str) -> Result<ClientRow, ClientError> {
        self.system.remove_client(client).await
    }

    /// Creates a pipeline, or finds one with the same declaration. Stages start when their code is attached: see
    /// [`PipelineHandle::attach`] and [`PipelineHandle::on`]. Durable on return. Dropping the future may or may
    /// not create the pipeline.
    ///
    /// # Errors
    ///
    /// [`PipelineError::Spec`] with all faults of the declaration, or see [`PipelineError`]; nothing is created.
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

    /// Removes a pipeline that is not in use, with its events and the state of its stages, and returns its last state. Handles
    /// of it become invalid. Durable on return. Dropping the future may or may not remove it.
    ///
    /// # Errors
    ///
    /// See [`PipelineError`]: a stage has code here, or events left. Nothing is removed then.
    pub async fn remove_pipeline(&self, id: &str) -> Result<PipelineRow, PipelineError> {
        self.system.remove_pipeline(id).await
    }

    /// Returns an existing pipeline.
    ///
    /// # Errors
    ///
    /// The pipeline is unknown or cannot be read.
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

    /// Returns all pipelines with the progress of their stages, by name.
    ///
    /// # Errors
    ///
    /// A pipeline cannot be read.
    pub async fn pipelines(&self) -> Result<Vec<PipelineRow>, PipelineError> {
        self.system.pipelines().await
    }

    /// Returns all agents with their profile, state and open runs.
    pub async fn agents(&self) -> Vec<AgentRow> {
        self.system.agents().await
    }

    /// Releases a quarantined agent. Durable on return. Dropping the future may or may not release the
    /// agent.
    ///
    /// # Errors
    ///
    /// See [`ReleaseError`]; nothing is changed.
    pub async fn release(&self, agent: &str) -> Result<(), ReleaseError> {
        self.system.release(agent).await
    }

    /// Returns the evaluations of agents over the runs that are kept, by client and name.
    ///
    /// # Errors
    ///
    /// See [`RunError`].
    pub fn evaluations(&self) -> Result<Vec<AgentEvaluation>, RunError> {
        self.system.evaluations()
    }

    /// Sets the offer of an agent for market jobs, instead of an earlier one. Durable on return.
    ///
    /// # Errors
    ///
    /// See [`OfferRefused`]; nothing is changed.
    pub async fn offer(&self, agent: &str, offer: Offer) -> Result<(), OfferRefused> {
        self.system.offer(agent, offer).await
    }

    /// Posts a job on the market: the agents of its client propose, and the winner runs its plan. The job
    /// is durable on return; [`Ostler::job`] waits for its end.
    ///
    /// # Errors
    ///
    /// See [`MarketError`]; nothing is changed.
    pub async fn post(&self, job: JobRequest) -> Result<RunId, MarketError> {
        self.system.post(job).await
    }

    /// Waits for the end of a job. Cancel-safe.
    ///
    /// # Errors
    ///
    /// The job is unknown, or the journal cannot be read.
    pub async fn job(&self, job: RunId) -> Result<JobRow, MarketError> {
        self.system.job_over(job).await
    }

    /// Returns all jobs, oldest first.
    ///
    /// # Errors
    ///
    /// The journal cannot be read.
    pub fn jobs(&self) -> Result<Vec<JobRow>, MarketError> {
        self.system.jobs()
    }

    /// Returns the supervision tree, with the restarts of each actor.
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

    /// Returns the underlying system, for functions that this facade omits.
    pub fn system(&self) -> &System {
        &self.system
    }

    /// Returns what opening the data folder found and changed; `None` in memory.
    pub fn opened(&self) -> Option<&Opened> {
        self.opened.as_ref()
    }

    /// Returns the registry of child processes in the data folder; `None` in memory.
    pub fn programs(&self) -> Option<&DataFolder> {
        self.programs.as_ref()
    }

    /// Returns the operator keys whose decisions are accepted from other processes.
    pub fn operators(&self) -> &OperatorKeys {
        &self.operators
    }

    /// Number of child processes of the last holder that were killed at the start.
    pub fn killed_programs(&self) -> usize {
        self.ended
    }

    /// Address of the listener for callbacks, if it is serving.
    pub fn callback_address(&self) -> Option<SocketAddr> {
        let callbacks = self.callbacks.lock().unwrap_or_else(PoisonError::into_inner);
        callbacks.as_ref().map(CallbackServer::address)
    }

    /// Address of the metrics endpoint, if it is serving.
    pub fn metrics_address(&self) -> Option<SocketAddr> {
        let metrics = self.metrics.lock().unwrap_or_else(PoisonError::into_inner);
        metrics.as_ref().map(Endpoint::address)
    }

    /// Shuts down. Attempts that change the world may run to their end for 30 s, or as long as `[shutdown]
    /// wait` says; all others are stopped at once. Open runs stay open, and continue when the data folder
    /// is opened again. Returns the attempts that were not done in time: their child processes are killed,
    /// and they are in doubt. Dropping the future leaves the shutdown to the next call, or to the end of
    /// the process.
    pub async fn shutdown(&self) -> Vec<InDoubt> {
        let callbacks = self.callbacks.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(callbacks) = callbacks {
            callbacks.stop().await;
        }
        let socket = self.socket.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(socket) = &socket {
            socket.leave();
        }
        let in_doubt = self.system.shutdown().await;
        if let Some(socket) = &socket {
            let _ = socket.close(); // a socket file that remains refuses connections and is replaced
        }
        if let Some(programs) = self.programs.as_ref().filter(|_| !in_doubt.is_empty()) {
            programs.kill_running();
        }
        if let Some(socket) = socket {
            socket.finish().await;
        }
        let metrics = self.metrics.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(metrics) = metrics {
            metrics.stop().await;
        }
        let telemetry = self.telemetry.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(telemetry) = telemetry {
            telemetry.stop().await;
        }
        in_doubt
    }
}
