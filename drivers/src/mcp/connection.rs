//! A connection to a server: the handshake, the list of its tools, and calls.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rmcp::model::{
    CallToolRequest, CallToolRequestParams, CallToolResult, CancelledNotificationParam, ClientCapabilities,
    ClientConfig, ClientRequest, ElicitRequestParams, ElicitResult, ElicitationAction, ElicitationCapability,
    ErrorCode, FormElicitationCapability, Implementation, InputRequest, InputRequests, InputRequiredResult,
    InputResponses, PaginatedRequestParams, ProgressNotificationParam, ProgressToken, ProtocolVersion,
    ServerResult, UrlElicitationCapability,
};
use rmcp::service::{
    ClientInitializeError, ClientLifecycleMode, ClientServiceExt, NotificationContext, Peer,
    PeerRequestOptions, RequestContext, RequestHandle, RoleClient, RunningService, ServiceError,
};
use rmcp::{ClientHandler, ErrorData};
use serde_json::{Map, Value, json};

use super::config::McpConfig;
use super::definition::Definition;
use super::http::http_transport;
use super::question::{self, Asking, MCP_QUESTION_ROUNDS_MAX};
use super::stdio::{Place, StdioServer};

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
}

/// What a server offers.
#[derive(Debug, Clone, Default)]
pub struct Listing {
    /// Name and version that the server gives itself.
    pub server: String,
    /// Version of the protocol.
    pub protocol: String,
    /// The tools, by name.
    pub tools: Vec<Definition>,
    /// Tools that cannot be offered, and why.
    pub refused: Vec<(String, String)>,
}

/// Why a call has no result.
#[derive(Debug)]
pub(super) enum CallError {
    /// The server answered with an error: it did not do what was asked for.
    Refused(String),
    /// The server answered with an error of its own, or with something else than a result.
    Broken(String),
    /// The answer is lost.
    Lost(String),
}

/// Calls of a connection, for their progress and the questions amid them.
#[derive(Clone, Default)]
struct Host {
    calls: Arc<Mutex<HashMap<ProgressToken, Asking>>>,
}

impl Host {
    fn calls(&self) -> MutexGuard<'_, HashMap<ProgressToken, Asking>> {
        self.calls.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The only running call. Before 2026-07-28 a question does not say which call it belongs to.
    fn only_call(&self) -> Option<Asking> {
        let calls = self.calls();
        let mut running = calls.values();
        running.next().filter(|_| running.next().is_none()).cloned()
    }
}

impl ClientHandler for Host {
    fn get_info(&self) -> ClientConfig {
        let implementation = Implementation::new("ostler", env!("CARGO_PKG_VERSION"));
        let mut capabilities = ClientCapabilities::default();
        capabilities.elicitation = Some(
            ElicitationCapability::new()
                .with_form(FormElicitationCapability::default())
                .with_url(UrlElicitationCapability::default()),
        );
        ClientConfig::new(capabilities, implementation)
    }

    async fn create_elicitation(
        &self,
        request: ElicitRequestParams,
        _: RequestContext<RoleClient>,
    ) -> Result<ElicitResult, ErrorData> {
        match self.only_call() {
            Some(asking) => Ok(question::ask(&asking, request).await),
            None => Ok(ElicitResult::new(ElicitationAction::Decline)),
        }
    }

    async fn on_progress(&self, progress: ProgressNotificationParam, _: NotificationContext<RoleClient>) {
        if let Some(asking) = self.calls().get(&progress.progress_token) {
            asking.attempt.heartbeat();
        }
    }
}

impl Connection {
    /// Starts or reaches the server, and agrees on a version of the protocol: without `initialize` if the server can do so, else with.
    ///
    /// # Errors
    ///
    /// Why there is no connection.
    pub(super) async fn open(name: &str, config: &McpConfig, place: &Place) -> Result<Connection, String> {
        match Connection::open_as(name, config, place, either_handshake()).await {
            // Servers that answer what they do not know with something else than an error.
            Err(NotOpen { why, retry: true }) => {
                let again = Connection::open_as(name, config, place, ClientLifecycleMode::Initialize).await;
                again.map_err(|_| why)
            }
            opened => opened.map_err(|error| error.why),
        }
    }

    async fn open_as(
        name: &str,
        config: &McpConfig,
        place: &Place,
        mode: ClientLifecycleMode,
    ) -> Result<Connection, NotOpen> {
        let never = |why| NotOpen { why, retry: false };
        let Some(url) = &config.url else {
            let (mut program, transport) = StdioServer::start(name, config, place).await.map_err(never)?;
            return match Host::default().serve_with_lifecycle(transport, mode).await {
                Ok(running) => Ok(Connection { running, program: Some(program) }),
                Err(error) => {
                    let retry = is_odd(&error);
                    Err(NotOpen { why: program.why(&told(&error)).await, retry })
                }
            };
        };
        let transport = http_transport(url, config).map_err(never)?;
        match Host::default().serve_with_lifecycle(transport, mode).await {
            Ok(running) => Ok(Connection { running, program: None }),
            Err(error) => Err(NotOpen { why: told(&error), retry: is_odd(&error) }),
        }
    }

    /// Lists the tools.
    ///
    /// # Errors
    ///
    /// The server does not list them, or the list exceeds a limit.
    pub(super) async fn list(&self) -> Result<Listing, String> {
        let mut listing = self.listing();
        let (mut cursor, mut bytes) = (None, 0);
        for _ in 0..MCP_PAGES_MAX {
            let asked = PaginatedRequestParams::default().with_cursor(cursor);
            let page = self.running.list_tools(Some(asked)).await;
            let page = page.map_err(|error| format!("its tools are not listed: {error}"))?;
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
                    ));
                }
            }
            cursor = page.next_cursor;
            if cursor.is_none() {
                return Ok(without_twins(listing));
            }
        }
        Err(format!("its list of tools has more than {MCP_PAGES_MAX} pages"))
    }

    fn listing(&self) -> Listing {
        let info = self.running.peer_info();
        let server = info.as_ref().map(|info| {
            info.server_info.as_ref().map(|server| format!("{} {}", server.name, server.version))
        });
        Listing {
            server: server
                .flatten()
                .unwrap_or_default()
                .chars()
                .filter(|c| !c.is_control())
                .take(200)
                .collect(),
            protocol: info.map(|info| info.protocol_version.to_string()).unwrap_or_default(),
            ..Listing::default()
        }
    }

    /// The side of the connection that calls tools.
    pub(super) fn caller(&self) -> Caller {
        Caller { peer: self.running.peer().clone(), host: self.running.service().clone() }
    }

    /// Waits for the end of the connection, and says why it ended.
    pub(super) async fn ended(self) -> String {
        let Connection { running, program } = self;
        let quit = running.waiting().await;
        let plain = match quit {
            Ok(_) => "it closed the connection".to_owned(),
            Err(error) => format!("the connection broke off: {error}"),
        };
        match program {
            Some(mut program) => program.why(&plain).await,
            None => plain,
        }
    }

    /// Closes the connection, and waits a moment for the program to end.
    pub(super) async fn close(mut self) {
        let _ = self.running.close_with_timeout(CLOSE).await;
        if let Some(mut program) = self.program {
            program.end_within(CLOSE).await;
        }
    }
}

/// Why a connection was not opened.
struct NotOpen {
    why: String,
    /// The other handshake may work.
    retry: bool,
}

/// What went wrong, without the names of the library's types.
fn told(error: &ClientInitializeError) -> String {
    match error {
        _ if error.is_authorization_required() => {
            "it asks for authorization: name the environment variable with its token in `token_env`"
                .to_owned()
        }
        ClientInitializeError::TransportError { error, .. } => {
            super::result::clipped(&error.error.to_string())
        }
        ClientInitializeError::LegacyFallbackFailed { fallback, .. } => told(fallback),
        error => super::result::clipped(&error.to_string()),
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

/// Refuses every tool of a name that is listed twice: a call could mean either.
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

/// Calls tools over a connection.
#[derive(Clone)]
pub(super) struct Caller {
    peer: Peer<RoleClient>,
    host: Host,
}

impl Caller {
    pub(super) fn is_closed(&self) -> bool {
        self.peer.is_transport_closed()
    }

    /// Calls a tool, and answers the questions that the server asks instead of a result. Dropping the future tells the server that the
    /// call is cancelled.
    pub(super) async fn call(
        &self,
        tool: &str,
        arguments: Map<String, Value>,
        asking: Asking,
    ) -> Result<CallToolResult, CallError> {
        let mut params = CallToolRequestParams::new(tool.to_owned()).with_arguments(arguments);
        for _ in 0..MCP_QUESTION_ROUNDS_MAX {
            match self.call_once(params.clone(), &asking).await? {
                Answered::Result(result) => return Ok(*result),
                Answered::Questions(questions) => {
                    let InputRequiredResult { input_requests, request_state, .. } = *questions;
                    params.input_responses =
                        Some(answers(&asking, input_requests.unwrap_or_default()).await?);
                    params.request_state = request_state;
                }
            }
        }
        Err(CallError::Broken(format!("it asks more than {MCP_QUESTION_ROUNDS_MAX} times in one call")))
    }

    async fn call_once(&self, params: CallToolRequestParams, asking: &Asking) -> Result<Answered, CallError> {
        let request = ClientRequest::CallToolRequest(CallToolRequest::new(params));
        let sent = self.peer.send_cancellable_request(request, PeerRequestOptions::no_options()).await;
        let handle = sent.map_err(|error| CallError::Lost(error.to_string()))?;
        let mut call = RunningCall::new(self, handle, asking.clone());
        let answered = match call.handle.as_mut() {
            Some(handle) => (&mut handle.rx).await.unwrap_or(Err(ServiceError::TransportClosed)),
            None => Err(ServiceError::TransportClosed),
        };
        call.done = true;
        result(answered)
    }
}

/// What a server answers to a call.
enum Answered {
    Result(Box<CallToolResult>),
    /// It asks something first.
    Questions(Box<InputRequiredResult>),
}

/// Answers to the questions of a server. It may ask people, and nothing else.
async fn answers(asking: &Asking, requests: InputRequests) -> Result<InputResponses, CallError> {
    let mut answers = InputResponses::new();
    for (key, request) in requests {
        let InputRequest::Elicitation(request) = request else {
            return Err(CallError::Refused("it asks for something else than a person's answer".to_owned()));
        };
        answers.insert(key, json!(question::ask(asking, request.params).await));
    }
    Ok(answers)
}

/// A call that was sent. Cancels it on drop unless it is done.
struct RunningCall<'a> {
    caller: &'a Caller,
    handle: Option<RequestHandle<RoleClient>>,
    token: ProgressToken,
    done: bool,
}

impl RunningCall<'_> {
    fn new(caller: &Caller, handle: RequestHandle<RoleClient>, asking: Asking) -> RunningCall<'_> {
        let token = handle.progress_token.clone();
        caller.host.calls().insert(token.clone(), asking);
        RunningCall { caller, handle: Some(handle), token, done: false }
    }
}

impl Drop for RunningCall<'_> {
    fn drop(&mut self) {
        self.caller.host.calls().remove(&self.token);
        let Some(handle) = self.handle.take().filter(|_| !self.done) else { return };
        let (peer, id) = (handle.peer.clone(), handle.id.clone());
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(async move {
                let cancelled = CancelledNotificationParam::new(Some(id), None);
                let _ = peer.notify_cancelled(cancelled).await;
            });
        }
    }
}

fn result(answered: Result<ServerResult, ServiceError>) -> Result<Answered, CallError> {
    match answered {
        Ok(ServerResult::CallToolResult(result)) => Ok(Answered::Result(Box::new(result))),
        Ok(ServerResult::InputRequiredResult(asked)) => Ok(Answered::Questions(Box::new(asked))),
        Ok(_) => Err(CallError::Broken("it answered with something that is no result of a tool".to_owned())),
        Err(ServiceError::McpError(error)) => {
            let told = super::result::clipped(&error.message);
            match error.code {
                ErrorCode::INVALID_PARAMS | ErrorCode::METHOD_NOT_FOUND | ErrorCode::INVALID_REQUEST => {
                    Err(CallError::Refused(told))
                }
                _ => Err(CallError::Broken(told)),
            }
        }
        Err(error) => Err(CallError::Lost(error.to_string())),
    }
}
