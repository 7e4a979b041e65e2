//! The way to the data folder: through the process that holds it, or by holding it.

use std::collections::BTreeSet;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::Router;
use ostler::config::{Config, ConfigError, StoreUrl};
use ostler::{InDoubt, Ostler, StartError};
use ostler_drivers::tool::{DataFolder, ToolConfig, builtin};
use ostler_kernel::plan::HumanDuration;
use ostler_kernel::port::JournalError;
use ostler_server::wire::{Health, RunList, Standing, Summary};
use ostler_server::{ChildPrograms, ControlSocket, router, socket_path};
use ostler_store::{OpenError, Opened, Store};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::sync::watch;

use super::advice::placed;
use super::cells::harmless_line;
use super::client::{Client, Refused, part};
use super::exit::Failure;
use super::measured::Measured;
use super::term::{Out, count, say, span, span_written};
use super::{Globals, findings, signals::Signals};

/// How long a holder that does not answer is waited for: it may be starting, or ending.
const PATIENCE: Duration = Duration::from_secs(5);

/// How long a process that holds the data folder may take to say that it is well.
pub(crate) const ANSWER: Duration = Duration::from_secs(2);

/// How long until a holder that starts or ends is looked for again.
const AGAIN: Duration = Duration::from_millis(50);

/// How often the runs of other terminals are looked at.
const LOOK: Duration = Duration::from_millis(500);

/// Times that the way is looked for again because whoever held the data folder has left it.
pub(crate) const RENEWALS_MAX: usize = 8;

/// What is wanted of the data folder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Want {
    /// To read; short. The data folder must be there.
    Look,
    /// To cancel, which whoever lets go of the data folder takes, too. The data folder must be there.
    Cancel,
    /// To let runs go on; others may join. The data folder must be there.
    Drive,
    /// To open a run; others may join. Makes a data folder where there is none.
    Begin,
}

/// The way to the data folder, and what this process holds of it.
pub(crate) struct Session {
    pub(crate) client: Client,
    held: Option<Held>,
    globals: Globals,
    workspace: PathBuf,
    want: Want,
}

struct Held {
    os: Ostler,
    /// Where others ask: with whom the data folder was opened to drive.
    door: Option<Door>,
}

struct Door {
    socket: ControlSocket,
    data: PathBuf,
    router: Router,
}

/// The configuration that counts and the data folder; `None`: memory.
pub(crate) fn settings(globals: &Globals, workspace: &Path) -> Result<(Config, Option<PathBuf>), Failure> {
    let named = globals.data.clone();
    let data = named.clone().unwrap_or_else(|| PathBuf::from(ostler::DATA_FOLDER));
    // Who may not look into it cannot know by which configuration it is to be gone.
    is_there(&data)?;
    let config = match Config::find(globals.config.as_deref(), &data, workspace) {
        Some(path) => Config::read_for(&path, &tools()).map_err(|error| refused(error, globals))?,
        None => Config::default(),
    };
    let data = match (named, &config.store.url) {
        (None, Some(StoreUrl::File(path))) => Some(path.clone()),
        (None, Some(StoreUrl::Memory)) => None,
        _ => Some(data),
    };
    Ok((config, data))
}

/// Names of the tools that the command has, those that a configuration can switch off among them.
fn tools() -> BTreeSet<String> {
    let tools = builtin(&ToolConfig::default(), None);
    tools.iter().map(|tool| tool.spec().name.clone()).collect()
}

/// Whether there is a data folder.
///
/// # Errors
///
/// Nobody can say: it may not be looked into, say.
pub(crate) fn is_there(data: &Path) -> Result<bool, Failure> {
    // Where one of them is, runs were kept, even if the others are gone.
    let found = ["format", "journal", "index.redb"].map(|part| std::fs::metadata(data.join(part)));
    match found.into_iter().reduce(Result::or).expect("there are three") {
        Ok(_) => Ok(true),
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => Ok(false),
        Err(error) => {
            let advice = match error.kind() {
                ErrorKind::PermissionDenied => "ask as the user whose it is, or name another with --data",
                _ => "see what stands there, or name another with --data",
            };
            let place = data.display();
            Err(Failure::store(format!("cannot look into the data folder {place}: {error}; {advice}")))
        }
    }
}

/// What is said of runs where there is no data folder; `None` if there is one.
pub(crate) fn no_folder(data: Option<&Path>) -> Result<Option<String>, Failure> {
    nothing_of("run", data)
}

/// What is said of something that stands in a data folder where there is none; `None` if there is one.
pub(crate) fn nothing_of(what: &str, data: Option<&Path>) -> Result<Option<String>, Failure> {
    Ok(match data {
        Some(data) if is_there(data)? => None,
        Some(data) => {
            Store::check_place(data).map_err(|error| not_opened(data, &error))?;
            let data = harmless_line(&data.display().to_string());
            Some(format!("there is no {what} yet: no data folder at {data} (--data names another)"))
        }
        None => Some(format!("there is no {what} yet: what is kept in memory is gone with its process")),
    })
}

/// Tells what is wrong with a configuration.
fn refused(error: ConfigError, globals: &Globals) -> Failure {
    match error {
        ConfigError::Content { source_text, findings } => {
            findings::tell(&source_text, &findings, globals.json, &mut Out::new())
        }
        ConfigError::Read(_) => Failure::invalid(error.to_string()),
    }
}

/// Whether there is nothing to list or to go on with, since there is no data folder; that is said then, and is no fault.
pub(crate) fn is_empty(what: &str, globals: &Globals) -> Result<bool, Failure> {
    let (_, data) = settings(globals, Path::new("."))?;
    let nothing = nothing_of(what, data.as_deref())?;
    if let Some(nothing) = nothing.as_ref().filter(|_| !globals.json) {
        say(nothing);
    }
    Ok(nothing.is_some())
}

impl Session {
    /// Finds the way. Only who begins makes a data folder.
    pub(crate) async fn open(globals: &Globals, workspace: &Path, want: Want) -> Result<Session, Failure> {
        Session::open_measured(globals, workspace, want, Measured::default()).await
    }

    /// The same; what goes on in this process is measured. Refused where another process holds the data folder: it does
    /// the work then.
    pub(crate) async fn open_measured(
        globals: &Globals,
        workspace: &Path,
        want: Want,
        measured: Measured,
    ) -> Result<Session, Failure> {
        let (config, data) = settings(globals, workspace)?;
        let made = |client, held| {
            let (globals, workspace) = (globals.clone(), workspace.to_owned());
            Ok(Session { client, held, globals, workspace, want })
        };
        let Some(data) = data else {
            let builder = measured.to(Ostler::builder().config(config).memory().let_runs_rest());
            let os = builder.start().await.map_err(not_started)?;
            measured.say(&os);
            let client = Client::Here(router(os.system().clone()));
            return made(client, Some(Held { os, door: None }));
        };
        if want != Want::Begin
            && let Some(nothing) = no_folder(Some(&data))?
        {
            return Err(Failure::invalid(nothing));
        }
        let (begun, starts_nothing) = (Instant::now(), matches!(want, Want::Look | Want::Cancel));
        loop {
            let answer = answering(&data).await;
            let leaving = answer.as_ref().and_then(|(_, health)| health.leaving_within_ms);
            if let Some((client, health)) = answer.filter(|_| starts_nothing || leaving.is_none()) {
                if let Some(why) = health.disk_full {
                    say(no_room(&why));
                }
                measured.only_here(&data)?;
                return made(client, None);
            }
            let builder = Ostler::builder().config(config.clone()).data_dir(&data).let_runs_rest().alone();
            let builder = if want == Want::Look { builder.to_look() } else { builder };
            match measured.to(builder).start().await {
                Ok(os) => {
                    measured.say(&os);
                    let (client, held) = hold(os, &data, want, config.retention.keep).await?;
                    return made(client, Some(held));
                }
                Err(StartError::Store(OpenError::Held { .. })) if begun.elapsed() < PATIENCE => {
                    tokio::time::sleep(AGAIN).await;
                }
                Err(StartError::Store(error @ OpenError::Held { .. })) => {
                    return Err(match leaving {
                        Some(wait) => being_left(&error, wait),
                        None => not_opened(&data, &error),
                    });
                }
                Err(StartError::Store(error)) => return Err(not_opened(&data, &error)),
                Err(error) => return Err(not_started(error)),
            }
        }
    }

    /// Finds the way again: another process held the data folder, and is gone or on its way.
    pub(crate) async fn renew(&mut self, want: Want) -> Result<(), Failure> {
        if self.client.is_remote() {
            // Whoever lets go of it takes their time, and does nothing of this.
            if let (_, Some(data)) = settings(&self.globals, &self.workspace)? {
                while is_being_left(&data).await {
                    tokio::time::sleep(AGAIN).await;
                }
            }
            *self = Session::open(&self.globals, &self.workspace, want).await?;
        }
        Ok(())
    }

    /// Asks, and asks whoever holds the data folder by now where the process that held it had left it before it was asked; with
    /// `twice` also where it may have done what it was asked for: that is to be no harm.
    pub(crate) async fn asked<T>(
        &mut self,
        twice: bool,
        ask: impl AsyncFn(&Client) -> Result<T, Refused>,
    ) -> Result<T, Refused> {
        for _ in 0..RENEWALS_MAX {
            match ask(&self.client).await {
                Err(Refused::NotThere(_)) => {}
                Err(Refused::Gone(_)) if twice => {}
                answer => return answer,
            }
            self.renew(self.want).await.map_err(Refused::Failed)?;
        }
        ask(&self.client).await
    }

    /// Gets a JSON document, from whoever holds the data folder by now.
    pub(crate) async fn get<T: DeserializeOwned>(&mut self, path: &str) -> Result<T, Refused> {
        self.asked(true, async |client| client.get(path).await).await
    }

    /// Posts what is not to be done twice.
    pub(crate) async fn post<T: DeserializeOwned>(
        &mut self,
        path: &str,
        body: &impl Serialize,
    ) -> Result<T, Refused> {
        self.asked(false, async |client| client.post(path, body).await).await
    }

    /// Posts what is the same if it is done twice.
    pub(crate) async fn post_again<T: DeserializeOwned>(
        &mut self,
        path: &str,
        body: &impl Serialize,
    ) -> Result<T, Refused> {
        self.asked(true, async |client| client.post(path, body).await).await
    }

    /// The summary of a run.
    pub(crate) async fn summary(&mut self, run: &str) -> Result<Summary, Failure> {
        Ok(self.get(&format!("/v1/runs/{}", part(run))).await?)
    }

    /// Stays while runs of other terminals go on here, then lets go of the data folder.
    pub(crate) async fn close(mut self, signals: &mut Signals) -> Result<(), Failure> {
        let Some(Held { os, mut door }) = self.held.take() else { return Ok(()) };
        let (mut said, mut interrupted) = (false, None);
        while let Some(Door { socket, data, router }) = &door {
            interrupted = self.stay(&os, signals, &mut said).await;
            if interrupted.is_some() {
                break;
            }
            let _ = socket.close(); // one that stays there refuses, and is replaced
            socket.answered().await;
            if os.system().active() == 0 || self.running().await == 0 {
                break;
            }
            // Somebody has come in at the last moment.
            door = open_door(data, router.clone()).ok();
        }
        signals.will_kill(os.programs());
        leave(os, door).await;
        interrupted.map_or(Ok(()), |code| Err(Failure::silent(code)))
    }

    /// The programs that steps start in this process, if it holds a data folder.
    pub(crate) fn programs(&self) -> Option<&DataFolder> {
        self.held.as_ref()?.os.programs()
    }

    /// Why there is no room on the disk for what is to be written, if this process holds a data folder.
    pub(crate) fn room(&self) -> Option<watch::Receiver<Option<String>>> {
        Some(self.held.as_ref()?.os.system().full())
    }

    /// Lets go of the data folder at once; open runs stay open.
    pub(crate) async fn stop(mut self) {
        if let Some(Held { os, door }) = self.held.take() {
            leave(os, door).await;
        }
    }

    /// Waits until no run goes on here; gives the exit code if somebody would not wait.
    async fn stay(&self, os: &Ostler, signals: &mut Signals, said: &mut bool) -> Option<u8> {
        let mut stirs = os.system().stirs();
        while os.system().active() > 0 {
            let running = self.running().await;
            if running == 0 {
                break;
            }
            if !*said {
                say(format!(
                    "staying for {} of other terminals in this process; ^C stops that, the state is kept",
                    count(running, "run")
                ));
                *said = true;
            }
            tokio::select! {
                () = tokio::time::sleep(LOOK) => {}
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

/// Lets go of the data folder: who looks and who cancels is answered as long as it waits for what acts. Whoever follows something there
/// hears of it by the end of the system.
async fn leave(os: Ostler, door: Option<Door>) {
    if let Some(door) = &door {
        door.socket.leave();
        os.system().start_nothing().await;
        door.socket.answered().await;
    }
    tell_in_doubt(&os.shutdown().await);
    if let Some(door) = door {
        let _ = door.socket.close(); // one that stays there refuses, and is replaced
        door.socket.finish().await;
    }
}

/// What was stopped while it acted, as the process would not wait for it any longer.
fn tell_in_doubt(in_doubt: &[InDoubt]) {
    for InDoubt { run, node } in in_doubt {
        say(format!(
            "{node} of run {run} was not done in time and was stopped: it is in doubt, and whoever takes the run up is asked ([shutdown] wait in ostler.toml gives it longer)"
        ));
    }
}

/// What was found and done when the data folder was opened.
fn tell_opened(opened: &Opened, data: &Path, keep: Option<HumanDuration>) {
    let place = data.display();
    if let Some(torn) = &opened.torn {
        say(format!(
            "note: the last write to {place} was cut short; {} bytes that nobody was told of were dropped ({})",
            torn.bytes, torn.what
        ));
    }
    if let Some(lost) = &opened.lost_end {
        say(placed(&format!(
            "note: {place} is damaged: {lost}; what is listed is what the index knows, and nothing is written; {TO_REPAIR}"
        )));
    }
    if opened.format_missing {
        say(format!("note: {place} had records and no format file, which was written anew"));
    }
    if let Some(keep) = keep.filter(|_| opened.removed > 0) {
        let (runs, were) = (count(opened.removed, "run"), if opened.removed == 1 { "was" } else { "were" });
        say(format!("note: {runs} older than keep = {} {were} removed", span_written(keep)));
    }
}

async fn hold(os: Ostler, data: &Path, want: Want, keep: Option<HumanDuration>) -> Result<(Client, Held), Failure> {
    if let Some(opened) = os.opened() {
        tell_opened(opened, data, keep);
    }
    if os.ended() > 0 {
        say(format!(
            "note: the process that held {} before died; what its steps had left running was ended",
            data.display()
        ));
    }
    let router = router(os.system().clone());
    let client = Client::Here(router.clone());
    if want == Want::Look {
        return Ok((client, Held { os, door: None }));
    }
    match open_door(data, router) {
        Ok(door) => Ok((client, Held { os, door: Some(door) })),
        Err(error) => {
            os.shutdown().await;
            let at = data.join("control.sock");
            Err(Failure::store(format!("cannot listen at {}: {error}", at.display())))
        }
    }
}

fn open_door(data: &Path, router: Router) -> std::io::Result<Door> {
    let socket = ControlSocket::bind(data, router.clone(), ChildPrograms::Steps)?;
    Ok(Door { socket, data: data.to_owned(), router })
}

/// What is said when the disk is full that the process writes to that holds the data folder.
pub(crate) fn no_room(why: &str) -> String {
    format!("the disk is full ({why}): what has no room waits for some")
}

/// The way to a process that holds the data folder, if one answers, and how it is.
pub(crate) async fn answering(data: &Path) -> Option<(Client, Health)> {
    let (path, folder) = socket_path(data).ok()?;
    let client = Client::Socket { path, _folder: folder.map(Arc::new) };
    // A suspended process takes connections, but answers none.
    let answer = tokio::time::timeout(ANSWER, client.get::<Health>("/healthz")).await;
    let health = answer.ok()?.ok()?;
    Some((client, health))
}

/// Whether the process that holds the data folder lets go of it.
async fn is_being_left(data: &Path) -> bool {
    answering(data).await.is_some_and(|(_, health)| health.leaving_within_ms.is_some())
}

/// The data folder is held by a process that ends, and waits for what acts on the world no longer than so many milliseconds.
fn being_left(held: &OpenError, wait_ms: u64) -> Failure {
    let wait = span(i64::try_from(wait_ms).unwrap_or(i64::MAX));
    let what = format!(
        "{held}, which is ending and waits up to {wait} for work that acts on the world: until then it answers `ostler ps` and `ostler cancel RUN`; ask again when it is gone, nothing is lost"
    );
    Failure::store(placed(&what))
}

fn not_started(error: StartError) -> Failure {
    match error {
        StartError::Metrics { .. } => Failure::invalid(error.to_string()),
        StartError::System(ostler_actors::StartError::Journal(error @ JournalError::Damaged { .. })) => {
            let what =
                format!("{error}, in what is on record of a client, which every command reads: {TO_REPAIR}");
            Failure::store(placed(&what))
        }
        error => Failure::internal(error.to_string()),
    }
}

pub(crate) fn not_opened(data: &Path, error: &OpenError) -> Failure {
    let place = data.display();
    if !data.is_dir() {
        match error {
            OpenError::Io { error, .. } => {
                return Failure::store(format!("cannot make the data folder {place}: {error}"));
            }
            OpenError::ReadOnly { .. } => {
                return Failure::store(format!(
                    "cannot make the data folder {place}: you may not write where it would lie; name another with --data, or OSTLER_DATA"
                ));
            }
            _ => {}
        }
    }
    let nothing_written = format!(": nothing was written; {TO_REPAIR}");
    let advice = match error {
        OpenError::Held { .. } => {
            ", which does not answer at control.sock: wait for it, or end it; nothing is lost"
        }
        OpenError::Damaged { .. } => &nothing_written,
        OpenError::NewerFormat { .. } => "; use that one",
        OpenError::NotOurs { .. } | OpenError::Foreign { .. } | OpenError::NotAFolder { .. } => {
            "; --data names another folder"
        }
        OpenError::LeadsNowhere { .. } => "; make that folder, or name another with --data",
        OpenError::NotAFile { .. } => "; see what it is, and remove it",
        OpenError::Lost { .. } => "; see who holds it, and try again",
        OpenError::ReadOnly { .. } => ": copy it to where you may write, and name that with --data",
        OpenError::Io { .. } => "",
    };
    let told = error.to_string();
    let place = place.to_string();
    let told = if told.contains(&place) { told } else { format!("{place}: {told}") };
    Failure::store(placed(&format!("{told}{advice}")))
}

/// What to do about damage.
const TO_REPAIR: &str = "`ostler doctor` tells what it touches, `ostler doctor --repair` sets that aside";
