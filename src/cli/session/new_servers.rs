//! The first start of MCP servers. The first list of tools is accepted, because the operator has just configured the server.

use ostler::config::Config;
use ostler_drivers::mcp::{Listing, MCP_PREFIX};

use crate::cli::output::cells::harmless_line;
use crate::cli::output::terminal::status_line;
use crate::cli::output::units::plural;

/// Starts the new servers with tools named in `text`, or all new servers without a text, and accepts the listed tools. A failure
/// is reported on stderr, and the server has no tools.
pub(crate) async fn accept_new_servers(config: &Config, text: Option<&str>) {
    let is_named = |name: &str| text.is_none_or(|text| text.contains(&format!("{MCP_PREFIX}{name}.")));
    for server in config.servers.new_ones().filter(|server| is_named(server.name())) {
        let name = server.name();
        match config.servers.accept_first(server).await {
            Ok(Listing { tools, server, .. }) => {
                let (tools, server) = (plural(tools.len(), "tool"), harmless_line(&server));
                status_line(format!(
                    "MCP server {name} ({server}) is new: accepted {tools}; `ostler mcp tools {name}` lists them"
                ));
            }
            Err(why) => status_line(format!("MCP server {name} has no tools: {}", harmless_line(&why))),
        }
    }
}
