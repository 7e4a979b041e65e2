//! The options of a system, and its start.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::SystemTime;

use ostler_actors::{Evaluating, Program, RunError, System, SystemConfig};
use ostler_drivers::HttpClearance;
use ostler_drivers::model::ModelJudge;
use ostler_drivers::tool::{DataFolder, TerminateError, builtin};
use ostler_kernel::gate::GatePolicy;
use ostler_kernel::port::{ClearanceAuthority, Journal, Judge, Tool};
use ostler_kernel::run::{Diagnoser, Planner, RuleDiagnoser, StaticPlanner};
use ostler_server::{
    CallbackKeyError, CallbackListener, ChildPrograms, ControlSocket, KeyRefused, OperatorKeys,
    OperatorSecret, PublicKey, account, callback_key, router,
};
use ostler_store::{OpenError, Options};

use super::Ostler;
use super::operator_files::{ConfiguredPolicy, LockdownFile};
use super::stores::{Stores, in_memory, on_disk};
use crate::config::{Config, ModelsError, StoreUrl, run_slots_default, slots_default};
use crate::mcp::McpServers;
use crate::metrics::Meter;
use crate::plan_folder::PlanFolder;
use crate::telemetry::Telemetry;

/// Default data folder.
pub const DATA_FOLDER: &str = ".ostler";

/// Options of a system.
#[derive(Debug, Default)]
pub struct OstlerBuilder {
    location: Option<StoreUrl>,
    config: Config,
    tools: Vec<Arc<dyn Tool>>,
    gate: Option<GatePolicy>,
    clearance: Option<Arc<dyn ClearanceAuthority>>,
    judge: Option<Arc<dyn Judge>>,
    planner: Option<Arc<dyn Planner>>,
    diagnoser: Option<Arc<dyn Diagnoser>>,
    slots: Option<u32>,
    metrics: Option<SocketAddr>,
    operators: Vec<(PublicKey, String)>,
    without_new_servers: bool,
    without_resume: bool,
    without_callbacks: bool,
    without_socket: bool,
    inspect_only: bool,
}

/// Why a system did not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The data folder could not be opened.
    #[error(transparent)]
    Store(#[from] OpenError),
    /// Child processes of an earlier holder of the data folder still run.
    #[error(transparent)]
    Programs(#[from] TerminateError),
    /// The actors did not start.
    #[error(transparent)]
    System(#[from] ostler_actors::StartError),
    /// The control socket could not be bound.
    #[error("control socket {}: cannot listen: {error}", path.display())]
    Socket {
        /// Path of the socket.
        path: PathBuf,
        /// Cause.
        error: std::io::Error,
    },
    /// The metrics endpoint could not be bound. Nothing was opened.
    #[error(
        "metrics address {address}: {}; use another address, or port 0 for a free one",
        bind_error(error)
    )]
    Metrics {
        /// Address requested.
        address: SocketAddr,
        /// Cause.
        error: std::io::Error,
    },
    /// The listener for callbacks could not be bound. Nothing was started.
    #[error(
        "callback_listen {address} of [service]: {}; use another address, or port 0 for a free one",
        bind_error(error)
    )]
    Callbacks {
        /// Address requested.
        address: SocketAddr,
        /// Cause.
        error: std::io::Error,
    },
    /// The key of callback addresses could not be read or made.
    #[error(transparent)]
    CallbackKey(#[from] CallbackKeyError),
    /// The configured models could not be set up. Nothing was opened.
    #[error("models: {0}")]
    Models(#[from] ModelsError),
    /// The list of operator keys could not be read or written.
    #[error("operator keys {}: {what}", path.display())]
    Operators {
        /// The list.
        path: PathBuf,
        /// Cause.
        what: String,
    },
    /// The client of the clearance authority cannot be set up. Nothing was opened.
    #[error("clearance: {0}")]
    Clearance(String),
    /// The accepted tools of MCP servers cannot be read.
    #[error("MCP: {0}")]
    Mcp(std::io::Error),
    /// Traces were asked for and cannot be made. Nothing was started.
    #[error("telemetry: {0}")]
    Telemetry(String),
    /// The clock is beyond the year 9999, for which answers of the control socket and of the metrics endpoint have no date.
    /// Nothing was opened.
    #[error(
        "the system clock is beyond the year 9999, for which HTTP answers have no date: set the clock, or start without socket and \
         without metrics"
    )]
    Clock,
    /// Open runs could not be resumed.
    #[error("open runs: cannot be resumed: {0}")]
    Resume(#[from] RunError),
}

fn bind_error(error: &std::io::Error) -> String {
    match error.kind() {
        std::io::ErrorKind::AddrInUse => "already in use".to_owned(),
        std::io::ErrorKind::AddrNotAvailable => "not an address of this machine".to_owned(),
        _ => error.to_string(),
    }
}

impl OstlerBuilder {
    /// Keeps all data in this folder, created if missing.
    pub fn data_dir(self, path: impl Into<PathBuf>) -> Self {
        OstlerBuilder { location: Some(StoreUrl::File(path.into())), ..self }
    }

    /// Keeps all data in memory; it is lost at the end of the process.
    pub fn memory(self) -> Self {
        OstlerBuilder { location: Some(StoreUrl::Memory), ..self }
    }

    /// Sets the configuration, as in `ostler.toml`.
    pub fn config(self, config: Config) -> Self {
        OstlerBuilder { config, ..self }
    }

    /// Adds a tool to the built-in ones, in the scope `default` and in scopes that name the tool.
    pub fn tool(mut self, tool: impl Tool) -> Self {
        self.tools.push(Arc::new(tool));
        self
    }

    /// Adds an agent written as code, which plans call like a tool.
    pub fn program(self, program: Program) -> Self {
        self.tool(program)
    }

    /// Sets the gate policy, instead of that of the configuration.
    pub fn gate(self, gate: GatePolicy) -> Self {
        OstlerBuilder { gate: Some(gate), ..self }
    }

    /// Sets the authority that clears calls of the policy's clearance routes, instead of the one at `clearance_url` of the
    /// configuration.
    pub fn clearance(self, authority: impl ClearanceAuthority) -> Self {
        OstlerBuilder { clearance: Some(Arc::new(authority)), ..self }
    }

    /// Sets the judge that rates the quality of each closed run for its evaluation: code, a model or a
    /// service. Without one, the model that `[roles] judge` of the configuration names rates the runs.
    pub fn judge(self, judge: impl Judge) -> Self {
        OstlerBuilder { judge: Some(Arc::new(judge)), ..self }
    }

    /// Sets the planner, which writes patches for failed nodes and new versions of plans, instead of
    /// [`StaticPlanner`](crate::kernel::run::StaticPlanner).
    pub fn planner(self, planner: impl Planner + 'static) -> Self {
        OstlerBuilder { planner: Some(Arc::new(planner)), ..self }
    }

    /// Sets the diagnoser, which finds the causes of failures and may raise the level of recovery, instead of the rules of
    /// [`RuleDiagnoser`].
    pub fn diagnoser(self, diagnoser: impl Diagnoser + 'static) -> Self {
        OstlerBuilder { diagnoser: Some(Arc::new(diagnoser)), ..self }
    }

    /// Sets the number of concurrent attempts, at least 1. Default: eight per core.
    pub fn slots(self, slots: u32) -> Self {
        OstlerBuilder { slots: Some(slots.max(1)), ..self }
    }

    /// Serves Prometheus metrics at `/metrics` of this address, and `/healthz` and `/readyz`. Port 0 takes
    /// a free port, see [`Ostler::metrics_address`]. The endpoint has no authentication: use a loopback
    /// address such as `([127, 0, 0, 1], 9464)`, or restrict access.
    pub fn metrics(self, address: impl Into<SocketAddr>) -> Self {
        OstlerBuilder { metrics: Some(address.into()), ..self }
    }

    /// Accepts the decisions of an operator with this key, named `name` in the journal, from other processes: `ostler operator
    /// key` prints the key of a user. Without any, a new data folder accepts the key of the user of this process, if there is one.
    /// Decisions within this process need no key: whoever has the [`Ostler`] decides.
    pub fn operator(mut self, key: PublicKey, name: impl Into<String>) -> Self {
        self.operators.push((key, name.into()));
        self
    }

    /// Starts no new MCP server. By default the start of the system waits for the first list of tools of each new server, and accepts
    /// the list.
    pub fn without_new_servers(self) -> Self {
        OstlerBuilder { without_new_servers: true, ..self }
    }

    /// Leaves open runs as they are until each is resumed explicitly.
    pub fn without_resume(self) -> Self {
        OstlerBuilder { without_resume: true, ..self }
    }

    /// Does not listen for callbacks, also if the configuration says so.
    pub fn without_callbacks(self) -> Self {
        OstlerBuilder { without_callbacks: true, ..self }
    }

    /// Does not listen at `control.sock`: the `ostler` command of other terminals waits until this process
    /// releases the data folder.
    pub fn without_socket(self) -> Self {
        OstlerBuilder { without_socket: true, ..self }
    }

    /// Opens the data folder for inspection: damage is tolerated as long as the damaged records are not
    /// needed, and nothing is removed.
    pub fn inspect_only(self) -> Self {
        OstlerBuilder { inspect_only: true, ..self }
    }

    /// The MCP servers. A new server that cannot list its tools has none.
    async fn servers(&self, data: Option<&Path>) -> Result<McpServers, StartError> {
        let config = &self.config;
        let servers = match config.servers.is_empty() {
            true => McpServers::read(&config.mcp, &config.cage_config(), &config.folder, data)
                .map_err(StartError::Mcp)?,
            false => config.servers.clone(),
        };
        if !self.without_new_servers && !self.inspect_only {
            for server in servers.new_ones() {
                if let Err(why) = servers.accept_first(server).await {
                    tracing::warn!(server = server.name(), %why, "the MCP server has no tools");
                }
            }
        }
        Ok(servers)
    }

    /// Opens the store, kills child processes of a holder that died, starts the system, resumes open runs,
    /// and listens at `control.sock` in the data folder.
    ///
    /// # Errors
    ///
    /// See [`StartError`]: the folder is held by another process or damaged, child processes of the last
    /// holder do not end, or the metrics address is taken.
    pub async fn start(self) -> Result<Ostler, StartError> {
        let location = self.location.clone().or(self.config.store.url.clone());
        let data = match location {
            Some(StoreUrl::Memory) => None,
            Some(StoreUrl::File(path)) => Some(path),
            None => Some(PathBuf::from(DATA_FOLDER)),
        };
        let models = self.config.models()?;
        let clearance = match &self.clearance {
            Some(authority) => Some(Arc::clone(authority)),
            None => configured_clearance(self.config.policy.clearance_url.clone()).await?,
        };
        let listen = self.config.service.callback_listen;
        let listen = listen.filter(|_| !self.inspect_only && !self.without_callbacks);
        if self.metrics.is_some() || listen.is_some() || (data.is_some() && !self.without_socket) {
            check_clock(SystemTime::now())?;
        }
        let meter = match self.metrics {
            Some(address) => {
                let bound = Meter::bind(address).await;
                Some(bound.map_err(|error| StartError::Metrics { address, error })?)
            }
            None => None,
        };
        let Stores { journal, artifacts, output, writes, opened } = match &data {
            Some(path) => {
                let metrics = meter.as_ref().map(Meter::journal);
                let mut options = Options { metrics, inspect: self.inspect_only, ..Options::default() };
                if !self.inspect_only {
                    options.retention = self.config.retention.policy(SystemTime::now());
                }
                on_disk(path, options).await?
            }
            None => in_memory(),
        };
        let operators = operators(data.as_deref(), &self.operators, self.inspect_only)?;
        let traced = traced(&self.config, journal, meter.as_ref()).await?;
        let (mut folder, mut ended) = (None, 0);
        if let Some(path) = &data {
            let (found, left) = kill_orphans(path).await?;
            (folder, ended) = (Some(found), left);
        }
        // Bound once the folder is held: of two processes that start, the one that does not get the folder takes no address.
        let callbacks = callback_listener(listen).await?;
        let servers = self.servers(data.as_deref()).await?;
        let mut tools = builtin(&self.config.tool_config(), folder.as_ref());
        tools.extend(models.tools());
        tools.extend(servers.tools());
        let judge_model = self.config.judge_model();
        let model_judge =
            || Some(Arc::new(ModelJudge::new(models.get(judge_model.as_deref()?)?)) as Arc<dyn Judge>);
        let evaluation = Evaluating {
            domains: self.config.domains(),
            judge: self.judge.or_else(model_judge),
            judge_model: judge_model.clone(),
        };
        tools.extend(self.tools);
        let path = self.config.path.clone().filter(|_| self.gate.is_none());
        let found = self.config.found;
        let policy_source = path.map(|path| ConfiguredPolicy { path, found, tools: tools.clone() });
        let system = System::start(SystemConfig {
            journal: traced.journal,
            artifacts,
            output,
            writes,
            gate: self.gate.unwrap_or_else(|| self.config.gate(&tools)),
            tools,
            slots: self.slots.unwrap_or_else(slots_default),
            run_slots: run_slots_default(),
            drain: self.config.shutdown.wait(),
            clients: self.config.clients(),
            models: self.config.model_rates(),
            measures: meter.as_ref().map(Meter::measures).unwrap_or_default(),
            evaluation,
            planner: self.planner.unwrap_or_else(|| Arc::new(StaticPlanner)),
            diagnoser: self.diagnoser.unwrap_or_else(|| Arc::new(RuleDiagnoser)),
        })
        .await?;
        system.start_devices(servers.devices()).await?;
        if let Some(path) = &data {
            system.offer_templates(Arc::new(PlanFolder::of_data(path)));
        }
        if let Some(path) = &data {
            system.keep_lockdown(Arc::new(LockdownFile::of_data(path)));
        }
        if let Some(authority) = clearance {
            system.clear_with(authority);
        }
        if let Some(listener) = &callbacks {
            system.serve_callbacks(
                self.config.service.base(listener.address()),
                callback_key(data.as_deref())?,
            );
        }
        if let Some(source) = policy_source {
            system.read_policy_from(Arc::new(source));
        }
        if !self.without_resume {
            system.resume_all().await?;
        }
        let mut socket = None;
        if let (Some(path), false) = (&data, self.without_socket) {
            match ControlSocket::bind(path, router(system.clone(), operators.clone()), ChildPrograms::Any) {
                Ok(bound) => socket = Some(bound),
                Err(error) => {
                    system.shutdown().await;
                    return Err(StartError::Socket { path: path.join("control.sock"), error });
                }
            }
        }
        let metrics = meter.map(|meter| meter.serve(system.clone()));
        let callbacks = callbacks.map(|listener| listener.serve(system.clone()));
        let callbacks = Arc::new(Mutex::new(callbacks));
        let (socket, metrics) = (Arc::new(Mutex::new(socket)), Arc::new(Mutex::new(metrics)));
        let telemetry = Arc::new(Mutex::new(traced.telemetry));
        Ok(Ostler {
            system,
            opened,
            ended,
            programs: folder,
            operators,
            socket,
            metrics,
            callbacks,
            telemetry,
        })
    }
}

/// The operator keys that the data folder accepts. A folder that accepts none yet takes `given`, or the user's own.
fn operators(
    data: Option<&Path>,
    given: &[(PublicKey, String)],
    inspect_only: bool,
) -> Result<OperatorKeys, StartError> {
    let failed = |path: PathBuf, what: String| StartError::Operators { path, what };
    let keys = match data {
        Some(data) => {
            OperatorKeys::of_data(data).map_err(|error| failed(data.join("operators"), error.to_string()))?
        }
        None => OperatorKeys::in_memory(),
    };
    if inspect_only {
        return Ok(keys);
    }
    let refused = |error: KeyRefused| match error {
        KeyRefused::Io { path, error } => failed(path, error.to_string()),
        other => failed(PathBuf::from("operators"), other.to_string()),
    };
    for (key, name) in given {
        keys.add(*key, name).map_err(refused)?;
    }
    // An unusable key of the user is told when it is needed.
    if let Ok(Some(secret)) = OperatorSecret::of_user_if_any() {
        keys.enrol_first(secret.public(), &account()).map_err(refused)?;
    }
    Ok(keys)
}

/// A listener at the configured address.
async fn callback_listener(address: Option<SocketAddr>) -> Result<Option<CallbackListener>, StartError> {
    let Some(address) = address else { return Ok(None) };
    let bound = CallbackListener::bind(address).await;
    bound.map(Some).map_err(|error| StartError::Callbacks { address, error })
}

/// The journal, traced if the configuration or the environment says so.
async fn traced(
    config: &Config,
    journal: Arc<dyn Journal>,
    meter: Option<&Meter>,
) -> Result<Traced, StartError> {
    let Some(traces) = config.telemetry.traces(&|name| std::env::var(name).ok()) else {
        return Ok(Traced { journal, telemetry: None });
    };
    let recorder = meter.map(Meter::recorder);
    match Telemetry::start(traces, Arc::clone(&journal), recorder.as_ref()).await {
        Ok((journal, telemetry)) => Ok(Traced { journal, telemetry: Some(telemetry) }),
        Err(problem) if config.telemetry.otlp_endpoint.is_some() => Err(StartError::Telemetry(problem)),
        // The variable may be meant for another program.
        Err(problem) => {
            tracing::warn!(%problem, "nothing is traced: the endpoint in the environment cannot be used");
            Ok(Traced { journal, telemetry: None })
        }
    }
}

struct Traced {
    journal: Arc<dyn Journal>,
    telemetry: Option<Telemetry>,
}

/// The clearance authority at a URL. Reading the certificates blocks.
async fn configured_clearance(
    url: Option<String>,
) -> Result<Option<Arc<dyn ClearanceAuthority>>, StartError> {
    let Some(url) = url else { return Ok(None) };
    let authority = tokio::task::spawn_blocking(move || HttpClearance::new(&url)).await;
    let authority = authority.unwrap_or_else(|error| Err(error.to_string()));
    Ok(Some(Arc::new(authority.map_err(StartError::Clearance)?)))
}

/// The HTTP library panics at a time that has no date.
fn check_clock(now: SystemTime) -> Result<(), StartError> {
    let since = now.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    if since.as_secs() < YEAR_10000_SECONDS { Ok(()) } else { Err(StartError::Clock) }
}

/// Seconds from 1970 to the year 10000.
const YEAR_10000_SECONDS: u64 = 253_402_300_800;

/// Kills child processes of a holder that died, before anything runs and before an attempt counts as in
/// doubt.
async fn kill_orphans(path: &Path) -> Result<(DataFolder, usize), StartError> {
    let unreadable = |error| OpenError::Io { path: path.to_owned(), error };
    let folder = DataFolder::of(path).map_err(unreadable)?;
    let looked = folder.clone();
    let ended = tokio::task::spawn_blocking(move || looked.terminate_orphans()).await;
    let ended = ended.map_err(|error| unreadable(std::io::Error::other(error)))??;
    Ok((folder, ended))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_clock_beyond_the_year_9999_is_an_error() {
        let check = |seconds| check_clock(SystemTime::UNIX_EPOCH + Duration::from_secs(seconds)).is_ok();
        assert_eq!([0, YEAR_10000_SECONDS - 1].map(check), [true; 2]);
        assert_eq!([YEAR_10000_SECONDS, YEAR_10000_SECONDS * 1_000].map(check), [false; 2]);
        assert!(check_clock(SystemTime::UNIX_EPOCH - Duration::from_secs(1)).is_ok());
    }
}
