//! The facade: a running system and what is in it.

mod builder;
mod run;

use std::fmt;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};

use ostler_actors::{
    AgentEvaluation, AgentProfile, AgentRow, Answer, Approval, ClientChange, ClientError, ClientRow, InDoubt,
    JobRequest, JobRow, MarketError, OfferRefused, PipelineError, PipelineHandle, PipelineRow, ReleaseError,
    RunError, SpawnError, Submission, SubmitError, System, TreeRow,
};
use ostler_drivers::tool::DataFolder;
use ostler_kernel::id::RunId;
use ostler_kernel::market::Offer;
use ostler_kernel::pipeline::PipelineSpec;
use ostler_kernel::plan::{Fault, Plan, PlanDraft};
use ostler_server::ControlSocket;
use ostler_store::Opened;
use serde_json::Value;

pub use builder::{DATA_FOLDER, OstlerBuilder, StartError};
pub use run::{Agent, Run};

use crate::metrics::Endpoint;

/// A running system. Cloning it gives another handle to the same.
#[derive(Clone)]
pub struct Ostler {
    system: System,
    opened: Option<Opened>,
    ended: usize,
    /// The data folder, as the programs know it that steps start; `None`: in memory.
    programs: Option<DataFolder>,
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

    /// The data folder as the programs know it that its steps start, by which they are found; `None`: in memory.
    pub fn programs(&self) -> Option<&DataFolder> {
        self.programs.as_ref()
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

    /// Ends: work that acts on the world goes on to its end for up to 30 s, or as long as `[shutdown] wait` says; other work is stopped.
    /// Open runs stay open, and go on when the data folder is opened again. Gives what was not done by then: its programs are
    /// killed, and it is in doubt. Dropping the future leaves it to the next call, or to the end of the process.
    pub async fn shutdown(&self) -> Vec<InDoubt> {
        let socket = self.socket.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(socket) = &socket {
            socket.leave();
        }
        let in_doubt = self.system.shutdown().await;
        if let Some(socket) = &socket {
            let _ = socket.close(); // one that stays there refuses, and is replaced
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
        in_doubt
    }
}
