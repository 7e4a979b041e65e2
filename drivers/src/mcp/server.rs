//! A configured server: its accepted tools, and its connection.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use ostler_kernel::event::Failure;
use ostler_kernel::port::{BoxFuture, Device, DeviceEnd, NamedFile};
use serde_json::Value;
use tokio::sync::{Notify, watch};
use tokio::time::Instant;

use super::authorization::Unauthorized;
use super::config::{MCP_START_MS_DEFAULT, McpConfig};
use super::connection::{Connection, Listing};
use super::definition::{Definition, Difference};
use super::held::{self, MAY_CHANGE};
use super::login::{Login, OauthConfig};
use super::pins::{Acceptance, Accepted, Pins};
use super::program::ProgramFiles;
use super::refusal::NotConnected;
use super::stdio::Place;
use super::tool::MCP_PREFIX;
use super::up::{LAST_WORDS, LOST, UNANSWERED, Up};
use crate::tool::tool_spec::transient;

/// Starts for one call: a file of the program may change while it runs, and once more while it starts.
const STARTS_MAX: usize = 3;

/// A server of `[mcp.NAME]`. The supervised device connects on the first call.
pub struct McpServer {
    /// `NAME` of the table `[mcp.NAME]`.
    table: String,
    pub(super) config: McpConfig,
    device: String,
    pub(super) place: Place,
    /// File of the accepted tools; `None` keeps the tools in memory alone.
    pins: Option<Pins>,
    accepted: Mutex<Option<Accepted>>,
    link: watch::Sender<Link>,
    wanted: Notify,
    served: AtomicBool,
    /// The login for `url`; `None` without a place for logins, and beside a `token_env`.
    pub(super) login: Option<Arc<Login>>,
    /// The last refusal of a connection for want of a token.
    pub(super) unauthorized: Mutex<Option<Unauthorized>>,
}

/// State of the connection, for calls.
#[derive(Clone)]
enum Link {
    /// Not connected; a call starts the server.
    Down,
    /// Calls fail at once.
    Refused { why: String, wait_ms: u64 },
    /// Connected.
    Up(Arc<Up>),
}

impl std::fmt::Debug for McpServer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "McpServer({})", self.table)
    }
}

impl McpServer {
    /// Reads the accepted tools from `pins`; without `pins` the tools live as long as this value.
    ///
    /// # Errors
    ///
    /// The accepted tools cannot be read.
    pub fn new(name: &str, config: McpConfig, place: Place, pins: Option<Pins>) -> io::Result<McpServer> {
        let accepted = pins.as_ref().map_or(Ok(None), |pins| pins.read(name))?;
        let login = login(&config, &place);
        Ok(McpServer {
            table: name.to_owned(),
            config,
            device: format!("{MCP_PREFIX}{name}"),
            place,
            pins,
            accepted: Mutex::new(accepted),
            link: watch::Sender::new(Link::Down),
            wanted: Notify::new(),
            served: AtomicBool::new(false),
            login,
            unauthorized: Mutex::default(),
        })
    }

    /// `NAME` of the table `[mcp.NAME]`.
    pub fn name(&self) -> &str {
        &self.table
    }

    /// The table of the configuration.
    pub fn config(&self) -> &McpConfig {
        &self.config
    }

    /// Accepts tools, in the name of `by`. Tools built from earlier definitions stay unchanged. Durable on return with `pins`; may
    /// block.
    ///
    /// # Errors
    ///
    /// The file cannot be written; the accepted tools stay unchanged.
    pub fn accept_tools(&self, acceptance: Acceptance, by: Option<&str>) -> io::Result<()> {
        let mut accepted = self.accepted.lock().unwrap_or_else(PoisonError::into_inner);
        let changed = accepted.clone().unwrap_or_default().with(acceptance, by);
        if let Some(pins) = &self.pins {
            pins.write(&self.table, &changed)?;
        }
        *accepted = Some(changed);
        Ok(())
    }

    /// The accepted tools; `None` before the first acceptance.
    pub fn accepted(&self) -> Option<Accepted> {
        self.accepted.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// True if the definition is accepted.
    pub(super) fn accepts(&self, now: &Definition) -> bool {
        let accepted = self.accepted.lock().unwrap_or_else(PoisonError::into_inner);
        accepted.iter().flat_map(|accepted| &accepted.tools).any(|tool| tool == now)
    }

    /// Connects, lists the tools, and closes the connection.
    ///
    /// # Errors
    ///
    /// The reason for the missing list: also that the program is held.
    pub async fn look(&self) -> Result<Listing, String> {
        let connected = self.connect(None).await;
        let (connection, listing, _) = connected.map_err(|why| self.told(&why))?;
        connection.close().await;
        Ok(listing)
    }

    /// The same, for a program that is accepted as it is in `program`, whatever was accepted before.
    ///
    /// # Errors
    ///
    /// The reason for the missing list: also that the program is another one by now.
    pub async fn look_at(&self, program: &[NamedFile]) -> Result<Listing, String> {
        let connected = self.connect(Some(program)).await;
        let (connection, listing, _) = connected.map_err(|why| self.told(&why))?;
        connection.close().await;
        Ok(listing)
    }

    /// Connects as [`Self::connect_now`] does, and notes a refusal for want of a token.
    async fn connect(
        &self,
        accepted: Option<&[NamedFile]>,
    ) -> Result<(Connection, Listing, ProgramFiles), NotConnected> {
        let connected = self.connect_now(accepted).await;
        if let Err(why) = &connected {
            self.note_refusal(why).await;
        }
        connected
    }

    /// Starts the program, unless its files differ from the accepted ones, and lists the tools. Files that change while the program
    /// starts end it: it may have read them.
    async fn connect_now(
        &self,
        accepted: Option<&[NamedFile]>,
    ) -> Result<(Connection, Listing, ProgramFiles), NotConnected> {
        let program = ProgramFiles::read(&self.config, &self.place.folder).await;
        if let Some(unbound) = ProgramFiles::unbound(&program.files) {
            return Err(format!("{unbound}; it was not started").into());
        }
        let held = match accepted {
            Some(accepted) => {
                held::changed(accepted, &program.files).map(|files| format!("{files} changed meanwhile"))
            }
            None => self.held(&program.files),
        };
        held.map_or(Ok(()), Err)?;
        let start_ms = self.start_ms();
        let open = async {
            let login = self.login.as_ref();
            let connection = Connection::open(&self.table, &self.config, &self.place, login).await?;
            let listing = connection.list().await?;
            Ok::<_, NotConnected>((connection, listing))
        };
        let opened = tokio::time::timeout(Duration::from_millis(start_ms), open).await;
        let (connection, mut listing) = opened.unwrap_or_else(|_| {
            Err(format!("it did not start and list its tools within {start_ms} ms").into())
        })?;
        let now = ProgramFiles::read(&self.config, &self.place.folder).await;
        if let Some(files) = program.changed(&now) {
            return Err(format!(
                "{files} changed while it started, so it was ended before any call; {MAY_CHANGE}"
            )
            .into());
        }
        listing.program.clone_from(&program.files);
        Ok((connection, listing, program))
    }

    pub(super) fn start_ms(&self) -> u64 {
        self.config.start_ms.unwrap_or(MCP_START_MS_DEFAULT)
    }

    /// Returns the connection to the accepted program, and starts the program if necessary. Waits at most `wait_ms` for a start.
    ///
    /// # Errors
    ///
    /// The server is held, or down. Nothing was called.
    pub(super) async fn ready(&self, wait_ms: u64) -> Result<Arc<Up>, Failure> {
        let until = Instant::now() + Duration::from_millis(wait_ms);
        let left_ms =
            || u64::try_from(until.saturating_duration_since(Instant::now()).as_millis()).unwrap_or(0).max(1);
        for _ in 0..STARTS_MAX {
            if !self.is_up() {
                let program = self.program().await;
                if let Some(unbound) = ProgramFiles::unbound(&program) {
                    return Err(transient(format!("server {}: {unbound}: nothing was called", self.table)));
                }
                self.held(&program).map_or(Ok(()), |why| Err(held::failure(why)))?;
            }
            let up = self.up(left_ms()).await?;
            if !up.settles_within(left_ms()).await {
                let why = "still works on a call that was given up, and nothing was called: retry once it has answered, or give the node a \
                           longer `timeout`";
                return Err(transient(format!("server {} {why}", self.table)));
            }
            if !up.has_ended() {
                if !up.is_touched().await {
                    return Ok(up);
                }
                up.end("a file of its program changed while it ran");
            }
            // Another call may have found the same, and the server may have started again since.
            self.link.send_if_modified(|link| {
                let is_same = matches!(link, Link::Up(now) if Arc::ptr_eq(now, &up));
                if is_same {
                    *link = Link::Down;
                }
                is_same
            });
        }
        let name = &self.table;
        Err(transient(format!("server {name}: the files of its program keep changing: nothing was called")))
    }

    fn is_up(&self) -> bool {
        matches!(&*self.link.borrow(), Link::Up(up) if !up.caller.is_closed())
    }

    /// Returns the connection, and starts the server if necessary. Waits at most `wait_ms`.
    async fn up(&self, wait_ms: u64) -> Result<Arc<Up>, Failure> {
        let mut link = self.link.subscribe();
        let up = async {
            loop {
                match &*link.borrow_and_update() {
                    Link::Up(up) if !up.caller.is_closed() => return Ok(Arc::clone(up)),
                    Link::Up(_) => {}
                    Link::Refused { why, wait_ms } => {
                        let again = format!("it is tried again after {wait_ms} ms");
                        return Err(transient(format!("server {} is down: {why}; {again}", self.table)));
                    }
                    Link::Down => match self.still_unauthorized() {
                        Some(failure) => return Err(failure),
                        None => self.wanted.notify_one(),
                    },
                }
                if link.changed().await.is_err() {
                    return Err(transient(format!("server {} is gone", self.table)));
                }
            }
        };
        let waited = tokio::time::timeout(Duration::from_millis(wait_ms), up).await;
        waited.unwrap_or_else(|_| {
            Err(transient(format!(
                "server {} did not start within the time of the call: nothing was called",
                self.table
            )))
        })
    }

    /// Records that the server answered a call, for [`DeviceEnd::served`].
    pub(super) fn worked(&self) {
        self.served.store(true, Ordering::Relaxed);
    }

    async fn run(&self) -> String {
        let (connection, listing, program) = match self.connect(None).await {
            Ok(opened) => opened,
            Err(why) => return self.told(&why),
        };
        let up = Arc::new(Up {
            caller: connection.caller(),
            listed: Mutex::default(),
            program,
            broken: Notify::new(),
            why: OnceLock::new(),
            ended: watch::Sender::new(None),
        });
        self.store_listing(&up, &listing);
        self.link.send_replace(Link::Up(Arc::clone(&up)));
        let why = self.serve_until_end(&up, connection).await;
        up.ended.send_replace(Some(why.clone()));
        why
    }

    /// Returns the reason for the end of the connection.
    async fn serve_until_end(&self, up: &Up, connection: Connection) -> String {
        let mut ended = std::pin::pin!(connection.ended());
        loop {
            let listed = tokio::select! {
                why = &mut ended => return why,
                () = up.broken.notified() => {
                    let why = up.why.get().copied().unwrap_or_default();
                    if why != LOST {
                        return why.to_owned();
                    }
                    // A program that ended says on standard error why it did.
                    let ended = tokio::time::timeout(LAST_WORDS, ended).await;
                    return ended.unwrap_or_else(|_| why.to_owned());
                }
                () = up.caller.given_up().unanswered() => {
                    up.end(UNANSWERED);
                    continue;
                }
                listed = up.caller.changed(Duration::from_millis(self.start_ms())) => listed,
            };
            match listed {
                Ok(listing) => self.store_listing(up, &listing),
                Err(why) => return self.told(&why),
            }
        }
    }

    /// Stores the listed tools, and warns of tools that differ from the accepted definitions; a call of such a tool is held.
    fn store_listing(&self, up: &Up, listing: &Listing) {
        let accepted = self.accepted().unwrap_or_default().tools;
        let differences = Difference::between(&accepted, &listing.tools);
        if !differences.is_empty() {
            let tools: Vec<&str> = differences.iter().map(Difference::tool).collect();
            tracing::warn!(
                server = %self.table, tools = tools.join(", "),
                "tools differ from the accepted definitions: `ostler mcp accept` shows how"
            );
        }
        let listed = listing.tools.iter().map(|tool| (tool.name.clone(), tool.clone())).collect();
        *up.listed.lock().unwrap_or_else(PoisonError::into_inner) = listed;
    }
}

impl Device for McpServer {
    fn name(&self) -> &str {
        &self.device
    }

    fn wanted(&self) -> BoxFuture<'_, ()> {
        Box::pin(self.wanted.notified())
    }

    fn serve(&self) -> BoxFuture<'_, DeviceEnd> {
        Box::pin(async move {
            self.served.store(false, Ordering::Relaxed);
            let down = SetDown(self);
            let why = self.run().await;
            drop(down);
            tracing::warn!(server = %self.table, %why, "an MCP server ended");
            DeviceEnd { served: self.served.load(Ordering::Relaxed), why }
        })
    }

    fn refuse(&self, why: &str, wait_ms: u64) {
        self.link.send_replace(Link::Refused { why: why.to_owned(), wait_ms });
    }

    fn allow(&self) {
        self.link.send_replace(Link::Down);
    }

    fn accept(&self, accepted: Value, by: &str) -> Result<(), String> {
        let acceptance: Acceptance =
            serde_json::from_value(accepted).map_err(|error| format!("no list of tools: {error}"))?;
        for tool in &acceptance.tools {
            tool.check().map_err(|why| format!("tool {}: {why}", tool.name))?;
        }
        self.accept_tools(acceptance, Some(by)).map_err(|error| error.to_string())
    }
}

fn login(config: &McpConfig, place: &Place) -> Option<Arc<Login>> {
    let (url, user) = (config.url.as_ref()?, place.user.as_ref()?);
    let oauth: OauthConfig = config.oauth.clone().unwrap_or_default();
    let login = config.token_env.is_none().then(|| Login::new(user, url, oauth));
    login.flatten().map(Arc::new)
}

/// Sets the connection to [`Link::Down`] on drop, also if [`Device::serve`] is dropped.
struct SetDown<'a>(&'a McpServer);

impl Drop for SetDown<'_> {
    fn drop(&mut self) {
        self.0.link.send_replace(Link::Down);
    }
}
