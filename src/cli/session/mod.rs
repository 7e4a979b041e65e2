//! The connection of a command to a data folder: through the process that holds it, or by opening it.

pub(crate) mod api_client;
pub(crate) mod approval_prompt;
pub(crate) mod follow;
pub(crate) mod holder;
pub(crate) mod open_errors;
pub(crate) mod report;
pub(crate) mod settings;
pub(crate) mod signals;
pub(crate) mod watch_run;

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use ostler::{Ostler, StartError};
use ostler_drivers::tool::DataFolder;
use ostler_server::router;
use ostler_server::wire::{RunList, Standing, Summary};
use ostler_store::OpenError;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::sync::watch;

use crate::cli::arguments::Globals;
use crate::cli::arguments::metrics::MetricsOption;
use crate::cli::exit::Failure;
use crate::cli::output::terminal::status_line;
use crate::cli::output::units::plural;
use crate::cli::session::api_client::{ApiError, Client, path_segment};
use crate::cli::session::holder::{
    InProcessSystem, Listener, connect, disk_full_text, is_shutting_down, open_in_process, open_listener,
    shut_down,
};
use crate::cli::session::open_errors::{holder_stopping, open_failure, start_failure};
use crate::cli::session::settings::{load_settings, no_runs_text};
use crate::cli::session::signals::Signals;

/// How long a holder that does not answer is waited for: it may be starting, or ending.
const HOLDER_TIMEOUT: Duration = Duration::from_secs(5);

/// How long until a holder that starts or ends is looked for again.
const RETRY_INTERVAL: Duration = Duration::from_millis(50);

/// How often the runs of other terminals are looked at.
const POLL_INTERVAL: Duration = Duration::from_millis(500);

/// Times that the way is looked for again because whoever held the data folder has left it.
pub(crate) const RECONNECTS_MAX: usize = 8;

/// What is wanted of the data folder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AccessMode {
    /// To read; short. The data folder must be there.
    Read,
    /// To cancel, which whoever lets go of the data folder takes, too. The data folder must be there.
    Cancel,
    /// To let runs go on; others may join. The data folder must be there.
    Execute,
    /// To open a run; others may join. Makes a data folder where there is none.
    Create,
}

/// The way to the data folder, and what this process holds of it.
pub(crate) struct Session {
    pub(crate) client: Client,
    held: Option<InProcessSystem>,
    globals: Globals,
    workspace: PathBuf,
    want: AccessMode,
}

impl Session {
    /// Finds the way. Only who begins makes a data folder.
    pub(crate) async fn open(
        globals: &Globals,
        workspace: &Path,
        want: AccessMode,
    ) -> Result<Session, Failure> {
        Session::open_with_metrics(globals, workspace, want, MetricsOption::default()).await
    }

    /// The same; what goes on in this process is measured. Refused where another process holds the data folder: it does
    /// the work then.
    pub(crate) async fn open_with_metrics(
        globals: &Globals,
        workspace: &Path,
        want: AccessMode,
        metrics: MetricsOption,
    ) -> Result<Session, Failure> {
        let (config, data) = load_settings(globals, workspace)?;
        let made = |client, held| {
            let (globals, workspace) = (globals.clone(), workspace.to_owned());
            Ok(Session { client, held, globals, workspace, want })
        };
        let Some(data) = data else {
            let builder = metrics.apply_to(Ostler::builder().config(config).memory().let_runs_rest());
            let os = builder.start().await.map_err(start_failure)?;
            metrics.announce(&os);
            let client = Client::InProcess(router(os.system().clone()));
            return made(client, Some(InProcessSystem { os, listener: None }));
        };
        if want != AccessMode::Create
            && let Some(nothing) = no_runs_text(Some(&data))?
        {
            return Err(Failure::invalid(nothing));
        }
        let (begun, starts_nothing) = (Instant::now(), matches!(want, AccessMode::Read | AccessMode::Cancel));
        loop {
            let answer = connect(&data).await;
            let leaving = answer.as_ref().and_then(|(_, health)| health.leaving_within_ms);
            if let Some((client, health)) = answer.filter(|_| starts_nothing || leaving.is_none()) {
                if let Some(why) = health.disk_full {
                    status_line(disk_full_text(&why));
                }
                metrics.require_in_process(&data)?;
                return made(client, None);
            }
            let builder = Ostler::builder().config(config.clone()).data_dir(&data).let_runs_rest().alone();
            let builder = if want == AccessMode::Read { builder.to_look() } else { builder };
            match metrics.apply_to(builder).start().await {
                Ok(os) => {
                    metrics.announce(&os);
                    let (client, held) = open_in_process(os, &data, want, config.retention.keep).await?;
                    return made(client, Some(held));
                }
                Err(StartError::Store(OpenError::Held { .. })) if begun.elapsed() < HOLDER_TIMEOUT => {
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

    /// Finds the way again: another process held the data folder, and is gone or on its way.
    pub(crate) async fn reconnect(&mut self, want: AccessMode) -> Result<(), Failure> {
        if self.client.is_remote() {
            // Whoever lets go of it takes their time, and does nothing of this.
            if let (_, Some(data)) = load_settings(&self.globals, &self.workspace)? {
                while is_shutting_down(&data).await {
                    tokio::time::sleep(RETRY_INTERVAL).await;
                }
            }
            *self = Session::open(&self.globals, &self.workspace, want).await?;
        }
        Ok(())
    }

    /// Asks, and asks whoever holds the data folder by now where the process that held it had left it before it was asked; with
    /// `twice` also where it may have done what it was asked for: that is to be no harm.
    pub(crate) async fn with_retry<T>(
        &mut self,
        idempotent: bool,
        ask: impl AsyncFn(&Client) -> Result<T, ApiError>,
    ) -> Result<T, ApiError> {
        for _ in 0..RECONNECTS_MAX {
            match ask(&self.client).await {
                Err(ApiError::NotSent(_)) => {}
                Err(ApiError::ConnectionLost(_)) if idempotent => {}
                answer => return answer,
            }
            self.reconnect(self.want).await.map_err(ApiError::Failed)?;
        }
        ask(&self.client).await
    }

    /// Gets a JSON document, from whoever holds the data folder by now.
    pub(crate) async fn get<T: DeserializeOwned>(&mut self, path: &str) -> Result<T, ApiError> {
        self.with_retry(true, async |client| client.get(path).await).await
    }

    /// Posts what is not to be done twice.
    pub(crate) async fn post<T: DeserializeOwned>(
        &mut self,
        path: &str,
        body: &impl Serialize,
    ) -> Result<T, ApiError> {
        self.with_retry(false, async |client| client.post(path, body).await).await
    }

    /// Posts what is the same if it is done twice.
    pub(crate) async fn post_idempotent<T: DeserializeOwned>(
        &mut self,
        path: &str,
        body: &impl Serialize,
    ) -> Result<T, ApiError> {
        self.with_retry(true, async |client| client.post(path, body).await).await
    }

    /// The summary of a run.
    pub(crate) async fn summary(&mut self, run: &str) -> Result<Summary, Failure> {
        Ok(self.get(&format!("/v1/runs/{}", path_segment(run))).await?)
    }

    /// Stays while runs of other terminals go on here, then lets go of the data folder.
    pub(crate) async fn close(mut self, signals: &mut Signals) -> Result<(), Failure> {
        let Some(InProcessSystem { os, mut listener }) = self.held.take() else { return Ok(()) };
        let (mut said, mut interrupted) = (false, None);
        while let Some(Listener { socket, data, router }) = &listener {
            interrupted = self.wait_for_other_runs(&os, signals, &mut said).await;
            if interrupted.is_some() {
                break;
            }
            let _ = socket.close(); // one that stays there refuses, and is replaced
            socket.answered().await;
            if os.system().active() == 0 || self.running().await == 0 {
                break;
            }
            // Somebody has come in at the last moment.
            listener = open_listener(data, router.clone()).ok();
        }
        signals.kill_on_exit(os.programs());
        shut_down(os, listener).await;
        interrupted.map_or(Ok(()), |code| Err(Failure::silent(code)))
    }

    /// The programs that steps start in this process, if it holds a data folder.
    pub(crate) fn programs(&self) -> Option<&DataFolder> {
        self.held.as_ref()?.os.programs()
    }

    /// Why there is no room on the disk for what is to be written, if this process holds a data folder.
    pub(crate) fn disk_full_changes(&self) -> Option<watch::Receiver<Option<String>>> {
        Some(self.held.as_ref()?.os.system().full())
    }

    /// Lets go of the data folder at once; open runs stay open.
    pub(crate) async fn stop(mut self) {
        if let Some(InProcessSystem { os, listener }) = self.held.take() {
            shut_down(os, listener).await;
        }
    }

    /// Shuts down and returns the failure.
    pub(crate) async fn stop_with<T>(self, failure: impl Into<Failure>) -> Result<T, Failure> {
        self.stop().await;
        Err(failure.into())
    }

    /// Waits until no run goes on here; gives the exit code if somebody would not wait.
    async fn wait_for_other_runs(&self, os: &Ostler, signals: &mut Signals, said: &mut bool) -> Option<u8> {
        let mut stirs = os.system().stirs();
        while os.system().active() > 0 {
            let running = self.running().await;
            if running == 0 {
                break;
            }
            if !*said {
                status_line(format!(
                    "staying for {} of other terminals in this process; ^C stops that, the state is kept",
                    plural(running, "run")
                ));
                *said = true;
            }
            tokio::select! {
                () = tokio::time::sleep(POLL_INTERVAL) => {}
                _ = stirs.changed() => {}
                code = signals.next() => return Some(code),
            }
        }
        None
    }

    async fn running(&self) -> usize {
        match self.client.get::<RunList>("/v1/runs?open=true").await {
            Ok(list) => list.runs.iter().filter(|line| line.standing == Standing::Running).count(),
            Err(_) => 0,
        }
    }
}
