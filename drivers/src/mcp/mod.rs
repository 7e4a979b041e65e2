//! Servers of the Model Context Protocol, whose tools plans and models call like built-in ones.
//!
//! Only accepted tools of a server are offered. [`Pins`] keeps the accepted definitions, so no server starts to list tools. A server
//! starts with the first call ([`McpServer`] is a [`Device`](ostler_kernel::port::Device)), and lists its tools again with each start.
//! A tool that differs from its accepted definition is held, and so is a server whose program has other files than the accepted ones.

mod authorization;
mod bounded;
mod caller;
mod class;
mod config;
mod connection;
mod definition;
#[doc(hidden)]
pub mod frames;
mod given_up;
mod held;
mod http;
mod login;
mod pins;
mod program;
mod question;
mod refusal;
mod result;
mod server;
mod stamps;
mod stdio;
mod tool;
mod up;

use std::sync::Arc;

use ostler_kernel::gate::GatedTool;
use ostler_kernel::port::Tool;

pub use bounded::{MCP_REQUEST_ID_BYTES_MAX, MCP_REQUESTS_MAX};
pub use class::Annotations;
pub use config::{Confined, ImpactConfig, MCP_NAME_BYTES_MAX, MCP_START_MS_DEFAULT, McpConfig, McpFault};
pub use connection::{Listing, MCP_LIST_BYTES_MAX, MCP_MESSAGE_BYTES_MAX, MCP_PAGES_MAX, MCP_TOOLS_MAX};
pub use definition::{
    Definition, Difference, MCP_DESCRIPTION_BYTES_MAX, MCP_SCHEMA_DEPTH_MAX, MCP_TOOL_NAME_BYTES_MAX,
};
pub use given_up::MCP_GIVEN_UP_MS;
pub use held::MCP_DIFFERENCE_BYTES_MAX;
pub use login::{
    BegunLogin, LOGIN_ANSWER_BYTES_MAX, LOGIN_CALLBACK_BYTES_MAX, LOGIN_REQUEST, LOGIN_SCOPES_MAX, LoggedIn,
    LoginState, OauthConfig,
};
pub use pins::{Acceptance, Accepted, MCP_PINS_BYTES_MAX, Pins};
pub use program::{FileDifference, MCP_CALL_BYTES_MAX};
pub use question::{MCP_QUESTION_BYTES_MAX, MCP_QUESTION_MS, MCP_QUESTION_ROUNDS_MAX, MCP_QUESTIONS_MAX};
pub use result::MCP_FAILURE_BYTES;
pub use server::McpServer;
pub use stdio::Place;
pub use tool::MCP_PREFIX;

/// The accepted tools of a server. A tool whose schema the gate cannot use is left out.
pub fn tools(server: &Arc<McpServer>) -> Vec<Arc<dyn Tool>> {
    let accepted = server.accepted().unwrap_or_default().tools;
    let usable = |definition| {
        let tool = tool::McpTool::new(server, definition).map_err(|error| error.to_string())?;
        let tool: Arc<dyn Tool> = Arc::new(tool);
        GatedTool::new(Arc::clone(&tool)).map_err(|error| error.to_string())?;
        Ok::<_, String>(tool)
    };
    let tools = accepted.iter().filter_map(|definition| match usable(definition) {
        Ok(tool) => Some(tool),
        Err(error) => {
            tracing::warn!(tool = %definition.name, %error, "an accepted tool cannot be used");
            None
        }
    });
    tools.collect()
}
