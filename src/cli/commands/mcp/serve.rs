//! `ostler mcp serve`: this program as a server of the Model Context Protocol, over standard input and output.

mod tools;

use clap::Args;
use futures::StreamExt;
use futures::stream::FuturesUnordered;
use ostler::config::Config;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, Implementation, ListToolsResult,
    PaginatedRequestParams, ServerCapabilities, ServerConfig,
};
use rmcp::service::{RequestContext, ServerInitializeError};
use rmcp::{ErrorData, RoleServer, ServerHandler, ServiceExt};
use serde_json::Value;
use tokio::sync::{Mutex, mpsc, oneshot};

use crate::cli::arguments::Globals;
use crate::cli::arguments::bounds::{Bounds, check_outside_data};
use crate::cli::exit::{Failure, code};
use crate::cli::session::settings::load_settings;
use crate::cli::session::signals::Signals;
use crate::cli::session::{AccessMode, Session};

/// Longest text of a result, in bytes; `read_artifact` gives the rest in parts.
pub(super) const TEXT_BYTES_MAX: usize = 1 << 20;

/// Calls that are answered at once; more wait.
const CALLS_MAX: usize = 32;

#[derive(Debug, Args)]
pub(super) struct ServeArgs {
    #[command(flatten)]
    bounds: Bounds,
    /// Offer a tool that answers approvals: whoever talks to this server may then decide in your place
    #[arg(long)]
    approvals: bool,
}

/// What answers the calls. The rights of its runs are those of the command line.
struct Served {
    session: Mutex<Session>,
    config: Config,
    intent: u8,
    scope: String,
    workspace: String,
}

/// The side that talks, on tasks of the protocol's own. Calls go to [`Served`] on the task of the command.
struct Talker {
    calls: mpsc::Sender<(tools::Call, Reply)>,
    approvals: bool,
}

type Reply = oneshot::Sender<Result<Value, Failure>>;

pub(super) async fn serve(globals: &Globals, args: ServeArgs) -> Result<u8, Failure> {
    let workspace = args.bounds.workspace()?;
    let (config, data) = load_settings(globals, workspace.as_ref())?;
    if let Some(data) = data {
        check_outside_data(workspace.as_ref(), &data)?;
    }
    let session = Session::open(globals, workspace.as_ref(), AccessMode::Create).await?;
    let served = Served {
        session: Mutex::new(session),
        config,
        intent: args.bounds.intent,
        scope: args.bounds.scope,
        workspace,
    };
    let mut signals = Signals::listen()?;
    let (calls, asked) = mpsc::channel(1);
    let ended = tokio::select! {
        ended = talk(Talker { calls, approvals: args.approvals }) => ended,
        code = signals.next() => Ok(code),
        () = answer_all(&served, asked) => Ok(code::SUCCEEDED),
    };
    served.session.into_inner().stop().await;
    ended
}

/// Answers calls, several at once.
async fn answer_all(served: &Served, mut asked: mpsc::Receiver<(tools::Call, Reply)>) {
    let mut running = FuturesUnordered::new();
    loop {
        tokio::select! {
            call = asked.recv(), if running.len() < CALLS_MAX => {
                let Some((call, reply)) = call else { return };
                running.push(async move {
                    let _ = reply.send(served.answer(call).await);
                });
            }
            Some(()) = running.next() => {}
        }
    }
}

/// Talks until the other side closes the connection.
async fn talk(talker: Talker) -> Result<u8, Failure> {
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
        let (reply, answer) = oneshot::channel();
        let ending = || Failure::internal("the server is ending");
        self.calls.send((call, reply)).await.map_err(|_| ending())?;
        answer.await.unwrap_or_else(|_| Err(ending()))
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
        _: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let arguments = Value::Object(request.arguments.unwrap_or_default());
        let Some(call) = tools::Call::of(&request.name, arguments, self.approvals) else {
            return Err(ErrorData::invalid_params(format!("there is no tool {:?}", request.name), None));
        };
        let call = call.map_err(|error| ErrorData::invalid_params(error, None))?;
        let result = match self.ask(call).await {
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
