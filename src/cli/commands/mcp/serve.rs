//! `ostler mcp serve`: this program as a server of the Model Context Protocol, over standard input and output or HTTP.

mod http;
mod tools;

use std::sync::Arc;

use clap::Args;
use futures::StreamExt;
use futures::stream::FuturesUnordered;
use ostler::config::Config;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, Implementation, ListToolsResult,
    PaginatedRequestParams, ProgressNotificationParam, ServerCapabilities, ServerConfig,
};
use rmcp::service::{RequestContext, ServerInitializeError};
use rmcp::{ErrorData, RoleServer, ServerHandler, ServiceExt};
use serde_json::Value;
use tokio::sync::{Semaphore, mpsc, oneshot, watch};

use crate::cli::arguments::Globals;
use crate::cli::arguments::bounds::{Bounds, check_outside_data};
use crate::cli::exit::{Failure, code};
use crate::cli::session::settings::load_settings;
use crate::cli::session::shared_session::SharedSession;
use crate::cli::session::signals::Signals;
use crate::cli::session::{AccessMode, Session};

/// Most bytes of an artifact in one answer of `read_artifact`; further calls read the rest.
pub(super) const TEXT_BYTES_MAX: usize = 1 << 20;

/// Most calls answered at the same time, without those that wait for a run; further calls wait.
const CALLS_MAX: usize = 32;

/// Most calls of `wait_for_run` at the same time; a further one is refused.
const WAITS_MAX: usize = 64;

/// Most calls that are answered or wait for that; a further one is refused.
const PENDING_MAX: usize = 256;

#[derive(Debug, Args)]
pub(super) struct ServeArgs {
    #[command(flatten)]
    bounds: Bounds,
    #[command(flatten)]
    http: http::HttpArgs,
    /// Offer a tool that answers approvals: clients of this server may then decide in your place
    #[arg(long)]
    approvals: bool,
}

/// Answers the calls. Submitted runs get the rights of the command line.
struct Served {
    session: SharedSession,
    config: Config,
    intent: u8,
    scope: String,
    workspace: String,
}

/// Protocol side of the server, on tasks of the MCP library. Calls go to [`Served`] on the task of the command.
#[derive(Clone)]
struct Talker {
    calls: mpsc::Sender<(tools::Call, Reply)>,
    places: Arc<Semaphore>,
    approvals: bool,
}

type Reply = oneshot::Sender<Result<Value, Failure>>;

/// Highest intent of a client without a token.
const INTENT_UNPROVEN_MAX: u8 = 1;

pub(super) async fn serve(globals: &Globals, args: ServeArgs) -> Result<u8, Failure> {
    let workspace = args.bounds.workspace()?;
    let (config, data) = load_settings(globals, workspace.as_ref())?;
    if let Some(data) = data {
        check_outside_data(workspace.as_ref(), &data)?;
    }
    let intent = args.bounds.intent.unwrap_or(config.policy.default_intent);
    let unproven = intent <= INTENT_UNPROVEN_MAX && !args.approvals;
    let endpoint = args.http.endpoint(unproven).await?;
    let session = Session::open(globals, workspace.as_ref(), AccessMode::Create).await?;
    let served =
        Served { session: SharedSession::of(session), intent, config, scope: args.bounds.scope, workspace };
    let mut signals = Signals::listen()?;
    let (calls, asked) = mpsc::channel(1);
    let places = Arc::new(Semaphore::new(PENDING_MAX));
    let ended = tokio::select! {
        ended = talk(Talker { calls, places, approvals: args.approvals }, endpoint) => ended,
        code = signals.next() => Ok(code),
        () = answer_all(&served, asked) => Ok(code::SUCCEEDED),
    };
    served.session.stop().await;
    ended
}

/// Answers calls, several at once.
async fn answer_all(served: &Served, mut asked: mpsc::Receiver<(tools::Call, Reply)>) {
    let (mut running, mut waiting) = (FuturesUnordered::new(), FuturesUnordered::new());
    loop {
        tokio::select! {
            call = asked.recv(), if running.len() < CALLS_MAX => {
                let Some((call, reply)) = call else { return };
                match call {
                    tools::Call::Wait(_) if waiting.len() < WAITS_MAX => waiting.push(answer(served, call, reply)),
                    tools::Call::Wait(_) => {
                        let what = format!("{WAITS_MAX} calls wait for runs already; ask again once one has ended");
                        let _ = reply.send(Err(Failure::invalid(what)));
                    }
                    call => running.push(answer(served, call, reply)),
                }
            }
            Some(()) = running.next() => {}
            Some(()) = waiting.next() => {}
        }
    }
}

/// Answers a call. An abandoned `wait_for_run` ends; every other call is carried out.
async fn answer(served: &Served, call: tools::Call, mut reply: Reply) {
    let is_wait = matches!(call, tools::Call::Wait(_));
    let answered = tokio::select! {
        answered = served.answer(call) => answered,
        () = reply.closed(), if is_wait => return,
    };
    let _ = reply.send(answered);
}

/// Serves until the client closes the connection; at an address, until the future is dropped.
async fn talk(talker: Talker, endpoint: Option<http::Endpoint>) -> Result<u8, Failure> {
    if let Some(endpoint) = endpoint {
        return endpoint.serve(talker).await.map(|()| code::SUCCEEDED);
    }
    let transport = (tokio::io::stdin(), tokio::io::stdout());
    let running = match talker.serve(transport).await {
        Ok(running) => running,
        Err(ServerInitializeError::ConnectionClosed(_)) => return Ok(code::SUCCEEDED),
        Err(error) => return Err(Failure::internal(format!("MCP: {error}"))),
    };
    let quit = running.waiting().await;
    quit.map(|_| code::SUCCEEDED).map_err(|error| Failure::internal(format!("MCP: {error}")))
}

impl Talker {
    async fn ask(&self, call: tools::Call) -> Result<Value, Failure> {
        let Ok(_place) = self.places.try_acquire() else {
            let what =
                format!("{PENDING_MAX} calls wait for their answers already; ask again once one has come");
            return Err(Failure::invalid(what));
        };
        let (reply, answer) = oneshot::channel();
        let ending = || Failure::internal("the server is ending");
        self.calls.send((call, reply)).await.map_err(|_| ending())?;
        answer.await.unwrap_or_else(|_| Err(ending()))
    }
}

impl Talker {
    /// Asks, and sends progress notifications meanwhile if the client gave a token for progress.
    async fn ask_and_tell(
        &self,
        call: tools::Call,
        context: &RequestContext<RoleServer>,
    ) -> Result<Value, Failure> {
        let Some(token) = context.meta.get_progress_token() else { return self.ask(call).await };
        let (told, mut progress) = watch::channel(tools::Progress::default());
        let mut asked = std::pin::pin!(self.ask(call.telling(told)));
        loop {
            tokio::select! {
                answered = &mut asked => return answered,
                Ok(()) = progress.changed() => {
                    let tools::Progress { ended, nodes } = *progress.borrow_and_update();
                    let told = ProgressNotificationParam::new(token.clone(), ended as f64);
                    let _ = context.peer.notify_progress(told.with_total(nodes as f64)).await;
                }
            }
        }
    }
}

impl ServerHandler for Talker {
    fn get_info(&self) -> ServerConfig {
        let mut config = ServerConfig::new(ServerCapabilities::builder().enable_tools().build());
        config.server_info = Implementation::new("ostler", env!("CARGO_PKG_VERSION"));
        config.instructions = Some(tools::INSTRUCTIONS.to_owned());
        config
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        Ok(ListToolsResult::with_all_items(tools::listed(self.approvals)))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let arguments = Value::Object(request.arguments.unwrap_or_default());
        let Some(call) = tools::Call::of(&request.name, arguments, self.approvals) else {
            return Err(ErrorData::invalid_params(format!("there is no tool {:?}", request.name), None));
        };
        // Wrong arguments are an error of the tool, because clients show such errors to their model.
        let answered = match call.map_err(Failure::invalid) {
            Ok(call) => tokio::select! {
                answered = self.ask_and_tell(call, &context) => answered,
                () = context.ct.cancelled() => Err(Failure::internal("the call was cancelled")),
            },
            Err(failure) => Err(failure),
        };
        let result = match answered {
            Ok(value) => {
                let text = ContentBlock::text(value.to_string());
                let mut result = CallToolResult::success(vec![text]);
                result.structured_content = Some(value);
                result
            }
            Err(failure) => CallToolResult::error(vec![ContentBlock::text(failure.what)]),
        };
        Ok(CallToolResponse::Complete(result))
    }
}
