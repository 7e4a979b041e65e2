//! A configured server: its accepted tools, and its connection while there is one.

use std::collections::BTreeMap;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use ostler_kernel::event::Failure;
use ostler_kernel::port::{BoxFuture, Device, DeviceEnd};
use serde_json::Value;
use tokio::sync::{Notify, watch};

use super::caller::Caller;
use super::config::{MCP_START_MS_DEFAULT, McpConfig};
use super::connection::{Connection, Listing};
use super::definition::{Definition, Difference};
use super::pins::{Acceptance, Accepted, Pins};
use super::stdio::Place;
use crate::tool::tool_spec::transient;

/// A server of `[mcp.NAME]`. As a device it runs while calls want it.
pub struct McpServer {
    /// Name of its table.
    table: String,
    pub(super) config: McpConfig,
    device: String,
    place: Place,
    /// Where the accepted tools are kept; `None`: in memory alone.
    pins: Option<Pins>,
    accepted: Mutex<Option<Accepted>>,
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
    /// The tools that the server lists.
    listed: Mutex<BTreeMap<String, Definition>>,
    broken: Notify,
}

impl Up {
    /// Ends the connection, because a call over it was lost.
    pub(super) fn lost(&self) {
        self.broken.notify_one();
    }

    /// A tool as the server describes it now; `None`: it is gone.
    pub(super) fn listed(&self, tool: &str) -> Option<Definition> {
        self.listed.lock().unwrap_or_else(PoisonError::into_inner).get(tool).cloned()
    }
}

impl std::fmt::Debug for McpServer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "McpServer({})", self.table)
    }
}

impl McpServer {
    /// A server whose accepted tools are kept in `pins`, or else as long as this value.
    ///
    /// # Errors
    ///
    /// The accepted tools cannot be read.
    pub fn new(name: &str, config: McpConfig, place: Place, pins: Option<Pins>) -> io::Result<McpServer> {
        let accepted = pins.as_ref().map_or(Ok(None), |pins| pins.read(name))?;
        Ok(McpServer {
            table: name.to_owned(),
            config,
            device: format!("mcp.{name}"),
            place,
            pins,
            accepted: Mutex::new(accepted),
            link: watch::Sender::new(Link::Down),
            wanted: Notify::new(),
            served: AtomicBool::new(false),
        })
    }

    /// Name in the configuration.
    pub fn name(&self) -> &str {
        &self.table
    }

    /// The table of the configuration.
    pub fn config(&self) -> &McpConfig {
        &self.config
    }

    /// Accepts tools, in the name of `by`. What was made of the earlier definitions stays as it is. Durable on return if there are
    /// pins; may block.
    ///
    /// # Errors
    ///
    /// They cannot be kept; nothing is changed.
    pub fn accept_tools(&self, acceptance: Acceptance, by: Option<&str>) -> io::Result<()> {
        let mut accepted = self.accepted.lock().unwrap_or_else(PoisonError::into_inner);
        let changed = accepted.clone().unwrap_or_default().with(acceptance, by);
        if let Some(pins) = &self.pins {
            pins.write(&self.table, &changed)?;
        }
        *accepted = Some(changed);
        Ok(())
    }

    /// The accepted tools; `None`: nobody accepted any yet.
    pub fn accepted(&self) -> Option<Accepted> {
        self.accepted.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// True if a definition is the accepted one of its tool.
    pub(super) fn accepts(&self, now: &Definition) -> bool {
        let accepted = self.accepted.lock().unwrap_or_else(PoisonError::into_inner);
        accepted.iter().flat_map(|accepted| &accepted.tools).any(|tool| tool == now)
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
        let up =
            Arc::new(Up { caller: connection.caller(), listed: Mutex::default(), broken: Notify::new() });
        self.hold(&up, &listing);
        self.link.send_replace(Link::Up(Arc::clone(&up)));
        let mut ended = std::pin::pin!(connection.ended());
        loop {
            let listed = tokio::select! {
                why = &mut ended => return why,
                () = up.broken.notified() => return "the answer to a call was lost".to_owned(),
                listed = up.caller.changed(Duration::from_millis(self.start_ms())) => listed,
            };
            match listed {
                Ok(listing) => self.hold(&up, &listing),
                Err(why) => return why,
            }
        }
    }

    /// Holds the tools whose listed definition is not the accepted one.
    fn hold(&self, up: &Up, listing: &Listing) {
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

/// Takes the connection from calls, also if the device is dropped.
struct SetDown<'a>(&'a McpServer);

impl Drop for SetDown<'_> {
    fn drop(&mut self) {
        self.0.link.send_replace(Link::Down);
    }
}
