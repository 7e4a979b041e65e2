//! How a system is to be, and its start.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, SystemTime};

use ostler_actors::{Evaluating, Program, RunError, System, SystemConfig};
use ostler_drivers::tool::{DataFolder, NotEnded, builtin};
use ostler_kernel::gate::GatePolicy;
use ostler_kernel::port::{ArtifactStore, Journal, Judge, Tool};
use ostler_server::{ChildPrograms, ControlSocket, router};
use ostler_store::{MemoryArtifacts, MemoryJournal, OpenError, Opened, Options, Store};

use super::Ostler;
use crate::config::{Config, StoreUrl, run_slots_default, slots_default};
use crate::metrics::Meter;

/// The data folder of who names none.
pub const DATA_FOLDER: &str = ".ostler";

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
                let mut options = Options { measures, looks: self.looks, ..Options::default() };
                if !self.looks {
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
            drain: self.config.shutdown.wait(),
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
            match ControlSocket::bind(path, router(system.clone()), ChildPrograms::Any) {
                Ok(bound) => socket = Some(bound),
                Err(error) => {
                    system.shutdown().await;
                    return Err(StartError::Socket { path: path.join("control.sock"), error });
                }
            }
        }
        let metrics = meter.map(|meter| meter.serve(system.clone()));
        let (socket, metrics) = (Arc::new(Mutex::new(socket)), Arc::new(Mutex::new(metrics)));
        Ok(Ostler { system, opened, ended, programs: folder, socket, metrics })
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
