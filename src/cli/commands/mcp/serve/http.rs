//! Streamable HTTP at an address.

use std::net::SocketAddr;
use std::sync::Arc;

use axum::Router;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use clap::Args;
use ostler_kernel::id::Digest;
use ostler_kernel::lineage;
use ostler_server::{BODY_BYTES_MAX, serve_tcp};
use rmcp::transport::streamable_http_server::session::never::NeverSessionManager;
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use super::Talker;
use crate::cli::exit::Failure;
use crate::cli::output::terminal::status_line;

/// Connections at once, each with one request at a time: see [`serve_tcp`].
const CONNECTIONS_MAX: usize = 64;

/// Path of the endpoint.
const PATH: &str = "/mcp";

#[derive(Debug, Clone, Args)]
pub(super) struct HttpArgs {
    /// Serve streamable HTTP at this address instead of standard input and output; port 0 takes a free port
    #[arg(long, value_name = "ADDRESS")]
    http: Option<SocketAddr>,
    /// Environment variable with the token that clients must send
    #[arg(long, value_name = "VARIABLE", requires = "http")]
    token_env: Option<String>,
}

/// Listener of the server, and the checks of its requests.
pub(super) struct Endpoint {
    listener: TcpListener,
    guard: Guard,
}

#[derive(Clone)]
struct Guard {
    token: Option<Arc<str>>,
}

impl HttpArgs {
    /// Binds the address; `None` for standard input and output. `unproven`: clients get no more rights than any program of the user.
    pub(super) async fn endpoint(&self, unproven: bool) -> Result<Option<Endpoint>, Failure> {
        let Some(address) = self.http else { return Ok(None) };
        let token = match &self.token_env {
            Some(variable) => {
                let token = std::env::var(variable).ok().filter(|token| !token.is_empty());
                Some(token.ok_or_else(|| {
                    Failure::invalid(format!("the environment variable {variable} is not set"))
                })?)
            }
            None if !address.ip().is_loopback() || !unproven => {
                return Err(Failure::invalid(
                    "without a token, anybody who reaches the address may do what this server does: name the variable with one in \
                     --token-env, or serve at 127.0.0.1 with an intent of at most 1 and without --approvals",
                ));
            }
            None => None,
        };
        let listener = TcpListener::bind(address).await;
        let listener = listener.map_err(|error| Failure::invalid(format!("address {address}: {error}")))?;
        let guard = Guard { token: token.map(Arc::from) };
        Ok(Some(Endpoint { listener, guard }))
    }
}

impl Endpoint {
    /// Serves until the future is dropped.
    pub(super) async fn serve(self, talker: Talker) -> Result<(), Failure> {
        let failed = |error: std::io::Error| Failure::internal(format!("MCP: {error}"));
        let Endpoint { listener, guard } = self;
        let address = listener.local_addr().map_err(failed)?;
        // Refuses web pages of other origins, and foreign host names that resolve to this address (DNS rebinding).
        let origins = [format!("http://{address}"), format!("http://localhost:{}", address.port())];
        let config = StreamableHttpServerConfig::default()
            .with_legacy_session_mode(false)
            .with_json_response(true)
            .with_max_request_body_bytes(BODY_BYTES_MAX)
            .with_allowed_origins(origins);
        // Beyond loopback a token is required, and the host name may be any.
        let config = if address.ip().is_loopback() { config } else { config.disable_allowed_hosts() };
        let manager = Arc::new(NeverSessionManager::default());
        let service = StreamableHttpService::new(move || Ok(talker.clone()), manager, config);
        let app = Router::new().route_service(PATH, service);
        let app = app.layer(middleware::from_fn_with_state(guard, guarded));
        status_line(format!("MCP at http://{address}{PATH}"));
        serve_tcp(listener, app, CONNECTIONS_MAX, CancellationToken::new()).await;
        Ok(())
    }
}

async fn guarded(State(guard): State<Guard>, request: Request, next: Next) -> Response {
    if guard.token.as_deref().is_some_and(|token| !has(request.headers(), token)) {
        return (StatusCode::UNAUTHORIZED, [(header::WWW_AUTHENTICATE, "Bearer")]).into_response();
    }
    next.run(request).await
}

/// Compares in constant time, by the digests of the sent and of the expected token.
fn has(headers: &HeaderMap, token: &str) -> bool {
    let sent = headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
    let sent = sent.and_then(|sent| sent.split_once(' '));
    sent.is_some_and(|(scheme, sent)| scheme.eq_ignore_ascii_case("bearer") && digest(sent) == digest(token))
}

fn digest(token: &str) -> Digest {
    lineage::hash("ostler/mcp-token/1", &[token.as_bytes()])
}
