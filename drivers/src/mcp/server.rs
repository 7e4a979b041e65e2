//! A configured server: its accepted tools, and its connection.

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
use super::tool::MCP_PREFIX;
use crate::tool::tool_spec::transient;

/// A server of `[mcp.NAME]`. The supervised device connects on the first call.
pub struct McpServer {
    /// `NAME` of the table `[mcp.NAME]`.
    table: String,
    pub(super) config: McpConfig,
    device: String,
    place: Place,
    /// File of the accepted tools; `None` keeps the tools in memory alone.
    pins: Option<Pins>,
    accepted: Mutex<Option<Accepted>>,
    link: watch::Sender<Link>,
    wanted: Notify,
    served: AtomicBool,
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

pub(super) struct Up {
    pub(super) caller: Caller,
    /// The tools that the server lists.
    listed: Mutex<BTreeMap<String, Definition>>,
    broken: Notify,
}

impl Up {
    /// Ends the connection after a call without an answer.
    pub(super) fn lost(&self) {
        self.broken.notify_one();
    }

    /// Present definition of a tool; `None` if the server no longer lists the tool.
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
    /// Reads the accepted tools from `pins`; without `pins` the tools live as long as this value.
    ///
    /// # Errors
    ///
    /// The accepted tools cannot be read.
    pub fn new(name: &str, config: McpConfig, place: Place, pins: Option<Pins>) -> io::Result<McpServer> {
        let accepted = pins.as_ref().map_or(Ok(None), |pins| pins.read(name))?;
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
    /// The reason for the missing list.
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

    /// Returns the connection, and starts the server if necessary. Waits at most `wait_ms`.
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

    /// Records that the server answered a call, for [`DeviceEnd::served`].
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
        self.store_listing(&up, &listing);
        self.link.send_replace(Link::Up(Arc::clone(&up)));
        let mut ended = std::pin::pin!(connection.ended());
        loop {
            let listed = tokio::select! {
                why = &mut ended => return why,
                () = up.broken.notified() => return "the answer to a call was lost".to_owned(),
                listed = up.caller.changed(Duration::from_millis(self.start_ms())) => listed,
            };
            match listed {
                Ok(listing) => self.store_listing(&up, &listing),
                Err(why) => return why,
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

/// Sets the connection to [`Link::Down`] on drop, also if [`Device::serve`] is dropped.
struct SetDown<'a>(&'a McpServer);

impl Drop for SetDown<'_> {
    fn drop(&mut self) {
        self.0.link.send_replace(Link::Down);
    }
}
