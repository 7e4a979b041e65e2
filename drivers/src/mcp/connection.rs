//! A connection to a server: the handshake, the list of its tools, and the end.

use std::sync::Arc;
use std::time::Duration;

use rmcp::model::{PaginatedRequestParams, ProtocolVersion};
use rmcp::service::{
    ClientInitializeError, ClientLifecycleMode, ClientServiceExt, Peer, RoleClient, RunningService,
};

use super::bounded::{Bounded, Breach};
use super::caller::{Caller, Host};
use super::config::McpConfig;
use super::definition::Definition;
use super::given_up::GivenUp;
use super::http::http_transport;
use super::login::Login;
use super::refusal::{NotConnected, Refusal};
use super::stdio::{Place, StdioServer};
use ostler_kernel::port::NamedFile;

/// Most tools of a server.
pub const MCP_TOOLS_MAX: usize = 1_000;
/// Most pages of a list of tools.
pub const MCP_PAGES_MAX: usize = 100;
/// Largest list of tools, in bytes of its definitions.
pub const MCP_LIST_BYTES_MAX: usize = 16 << 20;
/// Largest message of a server, in bytes.
pub const MCP_MESSAGE_BYTES_MAX: usize = 16 << 20;

/// Time for a server to end once its connection is closed.
const CLOSE: Duration = Duration::from_secs(1);

/// A connection. Dropping it ends the server's program.
pub(super) struct Connection {
    running: RunningService<RoleClient, Host>,
    program: Option<StdioServer>,
    breach: Breach,
    given_up: GivenUp,
}

/// Tools and versions that a server reports.
#[derive(Debug, Clone, Default)]
pub struct Listing {
    /// Name and version, as reported by the server.
    pub server: String,
    /// Version of the protocol.
    pub protocol: String,
    /// The tools, by name.
    pub tools: Vec<Definition>,
    /// Refused tools: the name, and the reason.
    pub refused: Vec<(String, String)>,
    /// The files of the program that runs.
    pub program: Vec<NamedFile>,
}

impl Connection {
    /// Starts or reaches the server, and agrees on a version of the protocol, with `initialize` only if the server requires the request.
    ///
    /// # Errors
    ///
    /// The reason for the missing connection.
    pub(super) async fn open(
        name: &str,
        config: &McpConfig,
        place: &Place,
        login: Option<&Arc<Login>>,
    ) -> Result<Connection, NotConnected> {
        match Connection::open_as(name, config, place, login, either_handshake()).await {
            // Some servers answer an unknown request with something other than an error.
            Err(NotOpen { why, retry: true }) => {
                let mode = ClientLifecycleMode::Initialize;
                let again = Connection::open_as(name, config, place, login, mode).await;
                again.map_err(|_| why)
            }
            opened => opened.map_err(|error| error.why),
        }
    }

    async fn open_as(
        name: &str,
        config: &McpConfig,
        place: &Place,
        login: Option<&Arc<Login>>,
        mode: ClientLifecycleMode,
    ) -> Result<Connection, NotOpen> {
        let never = |why: String| NotOpen { why: why.into(), retry: false };
        let (breach, given_up) = (Breach::default(), GivenUp::default());
        let Some(url) = &config.url else {
            let started = StdioServer::start(name, config, place, &breach, &given_up).await;
            let (mut program, transport) = started.map_err(never)?;
            return match Host::default().serve_with_lifecycle(transport, mode).await {
                Ok(running) => Ok(Connection { running, program: Some(program), breach, given_up }),
                Err(error) => {
                    let retry = is_odd(&error);
                    let why = why(&breach, Some(&mut program), &told(&error)).await;
                    Err(NotOpen { why: why.into(), retry })
                }
            };
        };
        let transport = http_transport(url, config, login.cloned()).map_err(never)?;
        let transport = Bounded::new(transport, breach.clone(), given_up.clone());
        match Host::default().serve_with_lifecycle(transport, mode).await {
            Ok(running) => Ok(Connection { running, program: None, breach, given_up }),
            Err(error) => {
                let why = match refused(&error) {
                    Some(refusal) => NotConnected::Refused(refusal),
                    None => why(&breach, None, &told(&error)).await.into(),
                };
                Err(NotOpen { why, retry: is_odd(&error) })
            }
        }
    }

    /// Lists the tools.
    ///
    /// # Errors
    ///
    /// The server does not answer the request for the list, or the list exceeds a limit.
    pub(super) async fn list(&self) -> Result<Listing, NotConnected> {
        list(self.running.peer()).await
    }

    /// The side of the connection that calls tools.
    pub(super) fn caller(&self) -> Caller {
        Caller::new(self.running.peer().clone(), self.running.service().clone(), self.given_up.clone())
    }

    /// Waits for the end of the connection, and returns the reason.
    pub(super) async fn ended(self) -> String {
        let Connection { running, mut program, breach, given_up: _ } = self;
        let quit = running.waiting().await;
        let plain = match quit {
            Ok(_) => "it closed the connection".to_owned(),
            Err(error) => format!("the connection broke off: {error}"),
        };
        why(&breach, program.as_mut(), &plain).await
    }

    /// Closes the connection, and waits at most [`CLOSE`] for the end of the program.
    pub(super) async fn close(mut self) {
        let _ = self.running.close_with_timeout(CLOSE).await;
        if let Some(mut program) = self.program {
            program.end_within(CLOSE).await;
        }
    }
}

/// Reason for the end of a connection: a broken limit, else what the program says, else `plain`.
async fn why(breach: &Breach, program: Option<&mut StdioServer>, plain: &str) -> String {
    match (breach.get(), program) {
        (Some(what), _) => what.to_owned(),
        (None, Some(program)) => program.why(plain).await,
        (None, None) => plain.to_owned(),
    }
}

/// Reason for a connection that was not opened.
struct NotOpen {
    why: NotConnected,
    /// The other handshake may work.
    retry: bool,
}

/// The error as a message, without type names of the library.
fn told(error: &ClientInitializeError) -> String {
    match error {
        ClientInitializeError::TransportError { error, .. } => {
            super::result::clipped(&error.error.to_string())
        }
        ClientInitializeError::LegacyFallbackFailed { fallback, .. } => told(fallback),
        error => super::result::clipped(&error.to_string()),
    }
}

/// The refusal for want of a token behind an error of the handshake.
fn refused(error: &ClientInitializeError) -> Option<Refusal> {
    match error {
        ClientInitializeError::TransportError { error, .. } => Refusal::of(&*error.error),
        ClientInitializeError::LegacyFallbackFailed { fallback, .. } => refused(fallback),
        _ => None,
    }
}

fn is_odd(error: &ClientInitializeError) -> bool {
    matches!(
        error,
        ClientInitializeError::ExpectedInitResult(_) | ClientInitializeError::ExpectedInitResponse(_)
    )
}

fn either_handshake() -> ClientLifecycleMode {
    ClientLifecycleMode::Auto {
        preferred_versions: vec![ProtocolVersion::V_2026_07_28],
        legacy_version: Some(ProtocolVersion::V_2025_11_25),
    }
}

/// Lists the tools of the server at the other end.
///
/// # Errors
///
/// The server does not answer the request for the list, or the list exceeds a limit.
pub(super) async fn list(peer: &Peer<RoleClient>) -> Result<Listing, NotConnected> {
    let mut listing = listing(peer);
    let (mut cursor, mut bytes) = (None, 0);
    for _ in 0..MCP_PAGES_MAX {
        let asked = PaginatedRequestParams::default().with_cursor(cursor);
        let page = peer.list_tools(Some(asked)).await;
        let page = page.map_err(|error| match Refusal::of(&error) {
            Some(refusal) => NotConnected::Refused(refusal),
            None => format!("its tools are not listed: {error}").into(),
        })?;
        for tool in page.tools {
            let name: String = tool.name.chars().take(super::MCP_TOOL_NAME_BYTES_MAX).collect();
            match Definition::of(tool) {
                Ok(tool) => {
                    bytes += serde_json::to_string(&tool).map_or(0, |text| text.len());
                    listing.tools.push(tool);
                }
                Err(why) => listing.refused.push((name, why)),
            }
            if listing.tools.len() + listing.refused.len() > MCP_TOOLS_MAX || bytes > MCP_LIST_BYTES_MAX {
                return Err(format!(
                    "it lists more than {MCP_TOOLS_MAX} tools or {MCP_LIST_BYTES_MAX} bytes of them"
                )
                .into());
            }
        }
        cursor = page.next_cursor;
        if cursor.is_none() {
            return Ok(without_twins(listing));
        }
    }
    Err(format!("its list of tools has more than {MCP_PAGES_MAX} pages").into())
}

fn listing(peer: &Peer<RoleClient>) -> Listing {
    let info = peer.peer_info();
    let server = info
        .as_ref()
        .map(|info| info.server_info.as_ref().map(|server| format!("{} {}", server.name, server.version)));
    Listing {
        server: server.flatten().unwrap_or_default().chars().filter(|c| !c.is_control()).take(200).collect(),
        protocol: info.map(|info| info.protocol_version.to_string()).unwrap_or_default(),
        ..Listing::default()
    }
}

/// Refuses every tool with a name that is listed twice, because a call could mean either tool.
fn without_twins(mut listing: Listing) -> Listing {
    listing.tools.sort_by(|one, other| one.name.cmp(&other.name));
    let twins: Vec<String> = listing
        .tools
        .windows(2)
        .filter(|pair| pair[0].name == pair[1].name)
        .map(|pair| pair[0].name.clone())
        .collect();
    listing.tools.retain(|tool| !twins.contains(&tool.name));
    let twins = twins.into_iter().map(|name| (name, "the server lists two tools of this name".to_owned()));
    listing.refused.extend(twins);
    listing.refused.sort();
    listing.refused.dedup();
    listing
}
