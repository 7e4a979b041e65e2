//! The connection of a command to a data folder: through the process that holds it, or by opening the
//! folder.

pub(crate) mod api_client;
pub(crate) mod approval_prompt;
pub(crate) mod cancel_run;
pub(crate) mod follow;
pub(crate) mod holder;
pub(crate) mod new_servers;
pub(crate) mod open_errors;
pub(crate) mod output_reader;
mod questions_below;
pub(crate) mod report;
pub(crate) mod row_stream;
pub(crate) mod settings;
pub(crate) mod shared_session;
pub(crate) mod signals;
pub(crate) mod text_reader;
pub(crate) mod watch_run;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use ostler::config::Config;
use ostler::{Ostler, StartError};
use ostler_drivers::tool::DataFolder;
use ostler_kernel::id::CLIENT_DEFAULT;
use ostler_kernel::plan::{Plan, PlanDraft, nearest};
use ostler_server::wire::{ClientList, Lockdown, RunList, RunRef, SubmitRequest, Summary};
use ostler_server::{OperatorSecret, router};
use ostler_store::OpenError;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::sync::watch;

use crate::cli::arguments::Globals;
use crate::cli::arguments::metrics::MetricsOption;
use crate::cli::exit::Failure;
use crate::cli::output::hints;
use crate::cli::output::terminal::Out;
use crate::cli::output::terminal::status_line;
use crate::cli::output::units::plural;
use crate::cli::session::api_client::{ApiError, Client, path_segment};
use crate::cli::session::holder::{
    InProcessSystem, Listener, connect, disk_full_text, is_shutting_down, open_in_process, open_listener,
    shut_down,
};
use crate::cli::session::open_errors::{holder_stopping, open_failure, start_failure};
use crate::cli::session::settings::{
    MadeFolder, SettingsFault, data_folder_exists, folder_without_settings, missing_folder_text,
    no_runs_text, read_settings,
};
use crate::cli::session::signals::Signals;

/// How long to wait for a holder that does not answer, and may be starting or exiting.
const HOLDER_TIMEOUT: Duration = Duration::from_secs(5);

const RETRY_INTERVAL: Duration = Duration::from_millis(50);

const POLL_INTERVAL: Duration = Duration::from_millis(500);

/// Reconnection attempts, each after the holder of the data folder changed.
pub(crate) const RECONNECTS_MAX: usize = 8;

/// How a command uses the data folder. All but `Create` require an existing one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AccessMode {
    /// Reads, for a short time.
    Read,
    /// Cancels runs; a process that is shutting down accepts this too.
    Cancel,
    /// Executes runs, also those of other terminals that connect.
    Execute,
    /// Like `Execute`; creates a missing data folder.
    Create,
}

/// A connection to a data folder, and the system if this process opened it.
pub(crate) struct Session {
    pub(crate) client: Client,
    held: Option<InProcessSystem>,
    /// `None`: in memory.
    data: Option<PathBuf>,
    globals: Globals,
    workspace: PathBuf,
    mode: AccessMode,
}

/// Text for a configuration that this command line or the environment names in vain.
fn config_unused_text(file: &Path, pid: u32) -> String {
    format!(
        "note: {} is not used: process {pid} holds the data folder, and read its configuration when it started",
        file.display()
    )
}

/// Connects to the process that holds the data folder although the configuration that a command finds cannot be used: a fault in a
/// file, or a file that a step has written, must not keep anybody from stopping what runs.
async fn holder_without_settings(globals: &Globals, fault: &SettingsFault) -> Option<(Client, PathBuf)> {
    let spared = fault.spared(globals)?;
    let data = folder_without_settings(globals)?;
    let (client, health) = connect(&data).await?;
    status_line(config_unused_text(spared, health.pid));
    Some((client, data))
}

/// The data folder of a command that only reads, and so goes by no configuration; `None` if there is no folder.
fn reading_without_settings(globals: &Globals, fault: &SettingsFault) -> Option<PathBuf> {
    let spared = fault.spared(globals)?.display();
    let data = folder_without_settings(globals)?;
    if !data_folder_exists(&data).ok()? {
        return None;
    }
    status_line(format!(
        "note: {spared} is not used, as it has faults or may be the work of a step: `ostler policy check`"
    ));
    Some(data)
}

/// Opens a session with a data folder that may have things of a kind; fails if there is no folder.
pub(crate) async fn open_existing(
    what: &str,
    globals: &Globals,
    mode: AccessMode,
) -> Result<Session, Failure> {
    if let Ok((_, Some(data))) = read_settings(globals, Path::new("."))
        && let Some(nothing) = missing_folder_text(what, Some(&data))?
    {
        return Err(Failure::invalid(nothing));
    }
    Session::open(globals, Path::new("."), mode).await
}

/// Bytes of a journal, and its last change.
pub(crate) type JournalStamp = Option<(u64, SystemTime)>;

fn journal_stamp(data: &Path) -> JournalStamp {
    let segments = std::fs::read_dir(data.join("journal")).ok()?;
    let stamps = segments.filter_map(|segment| {
        let metadata = segment.ok()?.metadata().ok()?;
        Some((metadata.len(), metadata.modified().ok()?))
    });
    stamps.reduce(|(bytes, last), (more, changed)| (bytes + more, last.max(changed)))
}

/// Most pairs of letters compared in the search for a client of a similar name.
const PAIRS_MAX: usize = 1_000_000;

impl Session {
    /// Connects to the holder of the data folder, or opens the folder.
    pub(crate) async fn open(
        globals: &Globals,
        workspace: &Path,
        mode: AccessMode,
    ) -> Result<Session, Failure> {
        Session::open_with_metrics(globals, workspace, mode, MetricsOption::default()).await
    }

    /// Like [`Session::open`], and serves metrics of this process. Fails if another process holds the data
    /// folder, because that one does the work.
    pub(crate) async fn open_with_metrics(
        globals: &Globals,
        workspace: &Path,
        mode: AccessMode,
        metrics: MetricsOption,
    ) -> Result<Session, Failure> {
        let made = |client, held, data: Option<&Path>| {
            let (globals, workspace) = (globals.clone(), workspace.to_owned());
            Ok(Session { client, held, data: data.map(Path::to_owned), globals, workspace, mode })
        };
        let (mut config, data) = match read_settings(globals, workspace) {
            Ok(settings) => settings,
            Err(fault) => match holder_without_settings(globals, &fault).await {
                Some((client, data)) => {
                    metrics.require_in_process(&data)?;
                    return made(client, None, Some(&data));
                }
                None if mode == AccessMode::Read => match reading_without_settings(globals, &fault) {
                    Some(data) => (Config::default(), Some(data)),
                    None => return Err(fault.report(globals)),
                },
                None => return Err(fault.report(globals)),
            },
        };
        let ensure_operator_key = || {
            if mode != AccessMode::Read {
                // A data folder accepts its maker's key from the start. If there can be none, what needs one tells.
                let _ = OperatorSecret::of_user();
            }
        };
        let Some(data) = data else {
            ensure_operator_key();
            let builder = metrics
                .apply_to(Ostler::builder().config(config).memory().without_resume().without_new_servers());
            let os = builder.start().await.map_err(start_failure)?;
            metrics.announce(&os);
            let client = Client::InProcess(router(os.system().clone(), os.operators().clone()));
            return made(client, Some(InProcessSystem { os, listener: None }), None);
        };
        if mode != AccessMode::Create
            && let Some(nothing) = no_runs_text(Some(&data))?
        {
            return Err(Failure::invalid(nothing));
        }
        let made_folder = (mode == AccessMode::Create).then(|| MadeFolder::at(&data)).transpose()?;
        let (started, starts_nothing) =
            (Instant::now(), matches!(mode, AccessMode::Read | AccessMode::Cancel));
        loop {
            let answer = connect(&data).await;
            let leaving = answer.as_ref().and_then(|(_, health)| health.leaving_within_ms);
            if let Some((client, health)) = answer.filter(|_| starts_nothing || leaving.is_none()) {
                if let Some(why) = health.disk_full {
                    status_line(disk_full_text(&why));
                }
                if let (Some(file), false) = (&globals.config, starts_nothing) {
                    status_line(config_unused_text(file, health.pid));
                }
                metrics.require_in_process(&data)?;
                return made(client, None, Some(&data));
            }
            ensure_operator_key();
            let builder = Ostler::builder().config(config.clone()).data_dir(&data);
            let builder = builder.without_resume().without_socket().without_new_servers();
            let builder = if mode == AccessMode::Read { builder.inspect_only() } else { builder };
            let builder = if starts_nothing { builder.without_callbacks() } else { builder };
            match metrics.apply_to(builder).start().await {
                Ok(os) => {
                    if let Some(Err(changed)) = made_folder.as_ref().map(MadeFolder::keep) {
                        os.shutdown().await;
                        return Err(changed);
                    }
                    metrics.announce(&os);
                    let (client, held) = open_in_process(os, &data, mode, config.retention.keep).await?;
                    return made(client, Some(held), Some(&data));
                }
                Err(StartError::Models(error)) if starts_nothing && !config.models.is_empty() => {
                    status_line(format!("note: models: {error}; this command needs none"));
                    config.models.clear();
                    config.roles.clear();
                }
                Err(StartError::Store(OpenError::Held { .. })) if started.elapsed() < HOLDER_TIMEOUT => {
                    tokio::time::sleep(RETRY_INTERVAL).await;
                }
                Err(StartError::Store(error @ OpenError::Held { .. })) => {
                    return Err(match leaving {
                        Some(wait) => holder_stopping(&error, wait),
                        None => open_failure(&data, &error),
                    });
                }
                Err(StartError::Store(error)) => return Err(open_failure(&data, &error)),
                Err(error) => return Err(start_failure(error)),
            }
        }
    }

    /// Connects again after the holder of the data folder ended. While the holder shuts down, which it may do for as long as its programs
    /// act, this waits, and says so.
    pub(crate) async fn reconnect(&mut self, mode: AccessMode) -> Result<(), Failure> {
        if self.client.is_remote() {
            // A process that is shutting down does not accept this request.
            if let Some(data) = &self.data {
                let mut since = Some(Instant::now());
                while is_shutting_down(data).await {
                    if since.take_if(|since| since.elapsed() > POLL_INTERVAL).is_some() {
                        status_line(
                            "waiting for the process that holds the data folder: it is shutting down",
                        );
                    }
                    tokio::time::sleep(RETRY_INTERVAL).await;
                }
            }
            *self = Session::open(&self.globals, &self.workspace, mode).await?;
        }
        Ok(())
    }

    /// Requests nothing but reads from now on, so a configuration that cannot be used does not end the session with its holder.
    pub(crate) fn only_read(&mut self) {
        self.mode = AccessMode::Read;
    }

    /// Connects again as the session was opened.
    async fn reconnect_again(&mut self) -> Result<(), ApiError> {
        self.reconnect(self.mode).await.map_err(ApiError::Failed)
    }

    /// Calls `ask`, and again after reconnecting if the request was not sent. `idempotent` requests are
    /// repeated also if the previous holder may have accepted them.
    pub(crate) async fn with_retry<T>(
        &mut self,
        idempotent: bool,
        ask: impl AsyncFn(&Client) -> Result<T, ApiError>,
    ) -> Result<T, ApiError> {
        for _ in 0..RECONNECTS_MAX {
            match ask(&self.client).await {
                Err(error) if error.may_be_repeated(idempotent) => {}
                answer => return answer,
            }
            self.reconnect_again().await?;
        }
        ask(&self.client).await
    }

    pub(crate) async fn get<T: DeserializeOwned>(&mut self, path: &str) -> Result<T, ApiError> {
        self.with_retry(true, async |client| client.get(path).await).await
    }

    /// Posts a request that must not be repeated.
    pub(crate) async fn post<T: DeserializeOwned>(
        &mut self,
        path: &str,
        body: &impl Serialize,
    ) -> Result<T, ApiError> {
        self.with_retry(false, async |client| client.post(path, body).await).await
    }

    pub(crate) async fn post_idempotent<T: DeserializeOwned>(
        &mut self,
        path: &str,
        body: &impl Serialize,
    ) -> Result<T, ApiError> {
        self.with_retry(true, async |client| client.post(path, body).await).await
    }

    /// Opens a run; its id makes the request idempotent.
    pub(crate) async fn submit(
        &mut self,
        terms: &SubmitRequest<Arc<Plan>>,
        draft: &PlanDraft,
    ) -> Result<RunRef, ApiError> {
        self.with_retry(true, async |client| client.submit(terms, draft).await).await
    }

    /// Warns if the client has no run yet and a known client has a similar name: the name may be mistyped.
    pub(crate) async fn note_new_client(&mut self, name: &str) {
        if name == CLIENT_DEFAULT {
            return;
        }
        let Ok(ClientList { clients }) = self.get("/v1/clients").await else { return };
        let names = || clients.iter().map(|known| known.client.as_str());
        if names().any(|known| known == name) {
            return;
        }
        if let Some(meant) = nearest(name, names(), &mut PAIRS_MAX.clone()) {
            status_line(format!("note: client {name} is new; client {meant} exists already"));
        }
    }

    /// Warns of a lockdown: a run whose call is denied fails for good.
    pub(crate) async fn note_lockdown(&mut self) {
        if self.get::<Lockdown>("/v1/lockdown").await.is_ok_and(|lockdown| lockdown.on) {
            let off = hints::command("lockdown off", &[], "");
            status_line(format!(
                "warning: a lockdown is on: the gate denies every call, and a run whose call is denied fails; `{off}` ends it"
            ));
        }
    }

    pub(crate) async fn summary(&mut self, run: &str) -> Result<Summary, Failure> {
        let summary: Summary = self.get(&format!("/v1/runs/{}", path_segment(run))).await?;
        hints::know_model(&summary.run, summary.model_file.as_deref());
        Ok(summary)
    }

    /// Waits until runs of other terminals in this process settle, then shuts down.
    pub(crate) async fn close(mut self, signals: &mut Signals) -> Result<(), Failure> {
        let Some(InProcessSystem { os, mut listener }) = self.held.take() else { return Ok(()) };
        let (mut said, mut interrupted) = (false, None);
        while let Some(Listener { socket, data, router }) = &listener {
            interrupted = self.wait_for_other_runs(&os, signals, &mut said).await;
            if interrupted.is_some() {
                break;
            }
            let was_in_place = socket.is_in_place();
            let _ = socket.close(); // a socket file that remains refuses connections and is replaced
            socket.answered().await;
            // A second listener would replace the socket of another holder.
            if !was_in_place || os.system().active() == 0 || self.running().await == 0 {
                break;
            }
            // A client connected at the last moment.
            listener = open_listener(data, router.clone()).ok();
        }
        signals.kill_on_exit(os.programs());
        shut_down(os, listener).await;
        interrupted.map_or(Ok(()), |code| Err(Failure::silent(code)))
    }

    /// Returns the line that announces the end of this process; `None`: another process executes the runs.
    pub(crate) fn stopping_text(&self) -> Option<String> {
        let system = self.held.as_ref()?.os.system();
        Some(holder::stopping_text(&system.acting_nodes(), system.drain()))
    }

    pub(crate) fn programs(&self) -> Option<&DataFolder> {
        self.held.as_ref()?.os.programs()
    }

    /// Notifies of a full disk, if this process holds the data folder.
    pub(crate) fn disk_full_changes(&self) -> Option<watch::Receiver<Option<String>>> {
        Some(self.held.as_ref()?.os.system().full())
    }

    /// Lets go of the data folder, so that other commands can hold it, and opens it again once another process holds it or its journal
    /// has changed since `seen`; `None` once `out` has no reader.
    pub(crate) async fn wait_for_work(
        self,
        seen: JournalStamp,
        out: &Out,
    ) -> Result<Option<Session>, Failure> {
        let (globals, workspace, mode, data) =
            (self.globals.clone(), self.workspace.clone(), self.mode, self.data.clone());
        self.stop().await;
        if let Some(data) = data {
            while connect(&data).await.is_none() && journal_stamp(&data) == seen {
                if out.is_closed() {
                    return Ok(None);
                }
                tokio::time::sleep(POLL_INTERVAL).await;
            }
        }
        Session::open(&globals, &workspace, mode).await.map(Some)
    }

    /// Whether another process holds the data folder.
    pub(crate) async fn is_held(&self) -> bool {
        match &self.data {
            Some(data) => connect(data).await.is_some(),
            None => false,
        }
    }

    pub(crate) fn journal_stamp(&self) -> JournalStamp {
        journal_stamp(self.data.as_ref()?)
    }

    /// Shuts down at once; open runs stay open.
    pub(crate) async fn stop(mut self) {
        if let Some(InProcessSystem { os, listener }) = self.held.take() {
            shut_down(os, listener).await;
        }
    }

    pub(crate) async fn stop_with<T>(self, failure: impl Into<Failure>) -> Result<T, Failure> {
        self.stop().await;
        Err(failure.into())
    }

    /// Waits until no run is active. Returns the exit code if a signal ends the wait.
    async fn wait_for_other_runs(&self, os: &Ostler, signals: &mut Signals, said: &mut bool) -> Option<u8> {
        let mut changes = os.system().watch_changes();
        while os.system().active() > 0 {
            let running = self.running().await;
            if running == 0 {
                break;
            }
            if !*said {
                status_line(format!(
                    "waiting for {} of other terminals in this process; ^C stops, state is kept",
                    plural(running, "run")
                ));
                *said = true;
            }
            tokio::select! {
                () = tokio::time::sleep(POLL_INTERVAL) => {}
                _ = changes.changed() => {}
                code = signals.next() => return Some(code),
            }
        }
        None
    }

    async fn running(&self) -> usize {
        match self.client.get::<RunList>("/v1/runs?open=true").await {
            Ok(list) => list.runs.iter().filter(|line| line.is_in_progress()).count(),
            Err(_) => 0,
        }
    }
}
