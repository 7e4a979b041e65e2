//! A configured server: its accepted tools, and its connection while there is one.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use ostler_kernel::event::Failure;
use ostler_kernel::port::{BoxFuture, Device, DeviceEnd};
use tokio::sync::{Notify, watch};

use super::config::{MCP_START_MS_DEFAULT, McpConfig};
use super::connection::{Caller, Connection, Listing};
use super::definition::{Definition, Difference};
use super::stdio::Place;
use crate::tool::tool_spec::transient;

/// A server of `[mcp.NAME]`. As a device it runs while calls want it.
pub struct McpServer {
    /// Name of its table.
    table: String,
    pub(super) config: McpConfig,
    device: String,
    place: Place,
    accepted: Mutex<Option<Vec<Definition>>>,
    link: watch::Sender<Link>,
    wanted: Notify,
    served: AtomicBool,
}

/// The connection as calls see it.
#[derive(Clone)]
enum Link {
    /// There is none; a call may want it.
    Down,
    /// Calls are refused.
    Refused { why: String, wait_ms: u64 },
    /// There is one.
    Up(Arc<Up>),
}

pub(super) struct Up {
    pub(super) caller: Caller,
    /// Tools whose definition is not the accepted one, and the difference.
    held: BTreeMap<String, &'static str>,
    broken: Notify,
}

impl Up {
    /// Ends the connection, because a call over it was lost.
    pub(super) fn lost(&self) {
        self.broken.notify_one();
    }

    /// Why a tool is held, if it is.
    pub(super) fn held(&self, tool: &str) -> Option<&'static str> {
        self.held.get(tool).copied()
    }
}

impl std::fmt::Debug for McpServer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "McpServer({})", self.table)
    }
}

impl McpServer {
    /// A server whose tools were accepted as `accepted`; `None`: nobody accepted any yet.
    pub fn new(name: &str, config: McpConfig, place: Place, accepted: Option<Vec<Definition>>) -> McpServer {
        McpServer {
            table: name.to_owned(),
            config,
            device: format!("mcp.{name}"),
            place,
            accepted: Mutex::new(accepted),
            link: watch::Sender::new(Link::Down),
            wanted: Notify::new(),
            served: AtomicBool::new(false),
        }
    }

    /// Name in the configuration.
    pub fn name(&self) -> &str {
        &self.table
    }

    /// The table of the configuration.
    pub fn config(&self) -> &McpConfig {
        &self.config
    }

    /// Replaces the accepted tools. A running connection goes on with those that it began with.
    pub fn accept(&self, tools: Vec<Definition>) {
        *self.accepted.lock().unwrap_or_else(PoisonError::into_inner) = Some(tools);
    }

    /// The accepted tools; `None`: nobody accepted any yet.
    pub fn accepted(&self) -> Option<Vec<Definition>> {
        self.accepted.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Connects for a moment and lists the tools.
    ///
    /// # Errors
    ///
    /// Why the server does not list its tools.
    pub async fn look(&self) -> Result<Listing, String> {
        let (connection, listing) = self.connect().await?;
        connection.close().await;
        Ok(listing)
    }

    async fn connect(&self) -> Result<(Connection, Listing), String> {
        let start_ms = self.start_ms();
        let open = async {
            let connection = Connection::open(&self.table, &self.config, &self.place).await?;
            let listing = connection.list().await?;
            Ok((connection, listing))
        };
        let opened = tokio::time::timeout(Duration::from_millis(start_ms), open).await;
        opened.unwrap_or_else(|_| Err(format!("it did not start and list its tools within {start_ms} ms")))
    }

    fn start_ms(&self) -> u64 {
        self.config.start_ms.unwrap_or(MCP_START_MS_DEFAULT)
    }

    /// The connection, started if there is none. Waits at most `wait_ms`.
    pub(super) async fn up(&self, wait_ms: u64) -> Result<Arc<Up>, Failure> {
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
                    Link::Down => self.wanted.notify_one(),
                }
                if link.changed().await.is_err() {
                    return Err(transient(format!("server {} is gone", self.table)));
                }
            }
        };
        let waited = tokio::time::timeout(Duration::from_millis(wait_ms), up).await;
        waited.unwrap_or_else(|_| {
            Err(transient(format!(
                "server {} did not start within {wait_ms} ms: nothing was called",
                self.table
            )))
        })
    }

    /// Notes that a call has a result.
    pub(super) fn worked(&self) {
        self.served.store(true, Ordering::Relaxed);
    }

    async fn run(&self) -> String {
        let (connection, listing) = match self.connect().await {
            Ok(opened) => opened,
            Err(why) => return why,
        };
        let held = held(&self.accepted().unwrap_or_default(), &listing);
        if !held.is_empty() {
            let tools: Vec<&str> = held.keys().map(String::as_str).collect();
            tracing::warn!(
                server = %self.table, tools = tools.join(", "),
                "tools differ from the accepted definitions: `ostler mcp accept` shows how"
            );
        }
        let up = Arc::new(Up { caller: connection.caller(), held, broken: Notify::new() });
        self.link.send_replace(Link::Up(Arc::clone(&up)));
        tokio::select! {
            why = connection.ended() => why,
            () = up.broken.notified() => "the answer to a call was lost".to_owned(),
        }
    }
}

/// Tools of which calls are held: changed, added since, or gone.
fn held(accepted: &[Definition], listing: &Listing) -> BTreeMap<String, &'static str> {
    let differences = Difference::between(accepted, &listing.tools);
    let why = |difference: &Difference| match difference {
        Difference::Added(_) => "was added to the server",
        Difference::Changed { .. } => "is described differently by its server",
        Difference::Removed(_) => "is gone from its server",
    };
    differences.iter().map(|difference| (difference.tool().to_owned(), why(difference))).collect()
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
}

/// Takes the connection from calls, also if the device is dropped.
struct SetDown<'a>(&'a McpServer);

impl Drop for SetDown<'_> {
    fn drop(&mut self) {
        self.0.link.send_replace(Link::Down);
    }
}
