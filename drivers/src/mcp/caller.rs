//! Calls over a connection: their progress, their cancellation, and the questions amid them.

use std::collections::HashMap;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use ostler_kernel::port::OutputStream;
use rmcp::model::{
    CallToolRequest, CallToolRequestParams, CallToolResult, CancelledNotificationParam, ClientCapabilities,
    ClientConfig, ClientRequest, ElicitRequestParams, ElicitResult, ElicitationAction, ElicitationCapability,
    ErrorCode, FormElicitationCapability, Implementation, InputRequest, InputRequests, InputRequiredResult,
    InputResponses, ProgressNotificationParam, ProgressToken, ServerResult, UrlElicitationCapability,
};
use rmcp::service::{
    NotificationContext, Peer, PeerRequestOptions, RequestContext, RequestHandle, RoleClient, ServiceError,
};
use rmcp::{ClientHandler, ErrorData};
use serde_json::{Map, Value, json};
use tokio::sync::Notify;

use super::connection::{self, Listing};
use super::given_up::GivenUp;
use super::question::{self, Asking, MCP_QUESTION_ROUNDS_MAX};
use super::refusal::{NotConnected, Refusal};
use super::result::clipped;

/// Reason for a call without a result.
#[derive(Debug)]
pub(super) enum CallError {
    /// The server refused the request; the tool did nothing.
    Refused(String),
    /// The call has no token, or not the right one; the tool did nothing.
    Unauthorized(Refusal),
    /// The server answered with an internal error, or with no result of a tool. The tool may have done a part of the work.
    Broken(String),
    /// The connection ended before the answer. The tool may have done the work.
    Lost(String),
}

/// Receives the notifications and questions of a server, and assigns them to the running calls.
#[derive(Clone, Default)]
pub(super) struct Host {
    /// Notified when the server changes its list of tools.
    changed: Arc<Notify>,
    calls: Arc<Mutex<HashMap<ProgressToken, Asking>>>,
}

impl Host {
    fn calls(&self) -> MutexGuard<'_, HashMap<ProgressToken, Asking>> {
        self.calls.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The only running call, or `None` if several run: before protocol version 2026-07-28 a question does not name its call.
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
        context: RequestContext<RoleClient>,
    ) -> Result<ElicitResult, ErrorData> {
        match self.only_call() {
            Some(asking) => {
                let answer = question::ask(&asking, request).await;
                if asking.turn.is_some() && asking.given_up.load(Ordering::Relaxed) {
                    // With an answer the server would go on with the call, until it is ended.
                    context.ct.cancelled().await;
                }
                Ok(answer)
            }
            None => Ok(ElicitResult::new(ElicitationAction::Decline)),
        }
    }

    async fn on_progress(&self, progress: ProgressNotificationParam, _: NotificationContext<RoleClient>) {
        let asking = self.calls().get(&progress.progress_token).cloned();
        if let Some(asking) = asking {
            asking.attempt.heartbeat();
            asking.attempt.output(OutputStream::Stderr, told(&progress).as_bytes());
        }
    }

    async fn on_tool_list_changed(&self, _: NotificationContext<RoleClient>) {
        self.changed.notify_one();
    }
}

/// Progress of a call as a line for people.
fn told(progress: &ProgressNotificationParam) -> String {
    let ProgressNotificationParam { progress: done, total, message, .. } = progress;
    let total = total.map(|total| format!(" of {total}")).unwrap_or_default();
    let message = message.as_deref().map(|message| format!(": {}", clipped(message))).unwrap_or_default();
    format!("progress {done}{total}{message}\n")
}

/// Calls tools over a connection.
#[derive(Clone)]
pub(super) struct Caller {
    peer: Peer<RoleClient>,
    host: Host,
    given_up: GivenUp,
}

impl Caller {
    pub(super) fn new(peer: Peer<RoleClient>, host: Host, given_up: GivenUp) -> Caller {
        Caller { peer, host, given_up }
    }

    /// The calls that were given up.
    pub(super) fn given_up(&self) -> &GivenUp {
        &self.given_up
    }

    /// Waits for a change of the server's tools, and lists the tools again.
    ///
    /// # Errors
    ///
    /// The server does not list the tools in time.
    pub(super) async fn changed(&self, within: Duration) -> Result<Listing, NotConnected> {
        self.host.changed.notified().await;
        let listed = tokio::time::timeout(within, connection::list(&self.peer)).await;
        listed.unwrap_or_else(|_| Err("its tools changed, and are not listed in time".to_owned().into()))
    }

    pub(super) fn is_closed(&self) -> bool {
        self.peer.is_transport_closed()
    }

    /// Calls a tool, and answers the questions that the server asks instead of a result. Dropping the future cancels the call at the
    /// server.
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
        let handle = sent.map_err(|error| unanswered(&error))?;
        let mut call = RunningCall::new(self, handle, asking.clone());
        let answered = match call.handle.as_mut() {
            Some(handle) => (&mut handle.rx).await.unwrap_or(Err(ServiceError::TransportClosed)),
            None => Err(ServiceError::TransportClosed),
        };
        if matches!(answered, Ok(_) | Err(ServiceError::McpError(_))) {
            call.handle = None;
        }
        result(answered)
    }
}

/// Answer of a server to a call.
enum Answered {
    Result(Box<CallToolResult>),
    /// Questions to answer before the result.
    Questions(Box<InputRequiredResult>),
}

/// Answers the questions of a server. Only questions to a person are allowed.
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

/// A sent call. Dropping the value cancels a call without an answer, and holds its turn until the server has answered or ended.
struct RunningCall<'a> {
    caller: &'a Caller,
    /// `None` once the call is answered.
    handle: Option<RequestHandle<RoleClient>>,
    token: ProgressToken,
    asking: Asking,
}

impl RunningCall<'_> {
    fn new(caller: &Caller, handle: RequestHandle<RoleClient>, asking: Asking) -> RunningCall<'_> {
        let token = handle.progress_token.clone();
        caller.host.calls().insert(token.clone(), asking.clone());
        RunningCall { caller, handle: Some(handle), token, asking }
    }
}

impl Drop for RunningCall<'_> {
    fn drop(&mut self) {
        self.caller.host.calls().remove(&self.token);
        let Some(RequestHandle { peer, id, rx, .. }) = self.handle.take() else { return };
        self.asking.given_up.store(true, Ordering::Relaxed);
        let turn = self.asking.turn.as_ref();
        let unanswered = turn.map(|turn| self.caller.given_up.begin(&id, turn.hold()));
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(async move {
                let cancelled = CancelledNotificationParam::new(Some(id), None);
                let told = peer.notify_cancelled(cancelled);
                let settled = async {
                    match unanswered {
                        Some(unanswered) => unanswered.settle(rx).await,
                        None => drop(rx),
                    }
                };
                // A server that does not read takes no cancellation.
                let _ = tokio::join!(told, settled);
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
            let told = clipped(&error.message);
            match error.code {
                ErrorCode::INVALID_PARAMS | ErrorCode::METHOD_NOT_FOUND | ErrorCode::INVALID_REQUEST => {
                    Err(CallError::Refused(told))
                }
                _ => Err(CallError::Broken(told)),
            }
        }
        Err(error) => Err(unanswered(&error)),
    }
}

/// A call that the server did not answer, without type names of the library.
fn unanswered(error: &ServiceError) -> CallError {
    match (Refusal::of(error), error) {
        (Some(refusal), _) => CallError::Unauthorized(refusal),
        (None, ServiceError::TransportSend(error)) => CallError::Lost(clipped(&error.error.to_string())),
        (None, error) => CallError::Lost(error.to_string()),
    }
}
