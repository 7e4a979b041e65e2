//! The transport to a server at an address: streamable HTTP.

use std::sync::Arc;

use rmcp::transport::StreamableHttpClientTransport;
use rmcp::transport::streamable_http_client::StreamableHttpClientTransportConfig;

use super::config::McpConfig;
use super::connection::MCP_MESSAGE_BYTES_MAX;
use super::login::{Authorized, Login};
use crate::http::http_client;

/// Transport for `url`. The egress list does not apply, because the operator configured the address. Redirects are not followed.
/// Requests carry the token of `token_env`, or that of the login.
pub(super) fn http_transport(
    url: &str,
    config: &McpConfig,
    login: Option<Arc<Login>>,
) -> Result<StreamableHttpClientTransport<Authorized>, String> {
    let client = http_client(url.starts_with("https:"))?;
    let mut settings = StreamableHttpClientTransportConfig::with_uri(url);
    settings.max_sse_event_size = MCP_MESSAGE_BYTES_MAX;
    settings.max_json_response_size = MCP_MESSAGE_BYTES_MAX;
    if let Some(variable) = &config.token_env {
        let token =
            std::env::var(variable).map_err(|_| format!("the environment variable {variable} is not set"))?;
        settings.auth_header = Some(token);
    }
    Ok(StreamableHttpClientTransport::with_client(Authorized::new(client, login), settings))
}
