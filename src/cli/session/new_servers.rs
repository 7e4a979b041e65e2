//! The first start of MCP servers. The first list of tools is accepted, because the operator has just configured the server.

use std::path::Path;

use ostler::config::Config;
use ostler_drivers::mcp::{Listing, MCP_PREFIX};
use ostler_drivers::tool::lacks_file;

use crate::cli::arguments::Globals;
use crate::cli::exit::Failure;
use crate::cli::output::cells::harmless_line;
use crate::cli::output::terminal::status_line;
use crate::cli::output::units::plural;
use crate::cli::session::{AccessMode, Session};

/// Starts the new servers with tools named in `text`, and accepts the listed tools. A failure of a server is reported on stderr, and
/// the server has no tools.
///
/// # Errors
///
/// The data folder, which holds what was accepted, cannot be made.
pub(crate) async fn accept_new_servers(
    globals: &Globals,
    workspace: &Path,
    config: &Config,
    text: &str,
) -> Result<(), Failure> {
    let is_named = |name: &str| text.contains(&format!("{MCP_PREFIX}{name}."));
    let mut new = config.servers.new_ones().filter(|server| is_named(server.name())).peekable();
    if new.peek().is_some() {
        // A folder that comes into being where a program of a server can write could be the program's.
        Session::open(globals, workspace, AccessMode::Create).await?.stop().await;
    }
    for server in new {
        let name = server.name();
        match config.servers.accept_first(server).await {
            Ok(Listing { tools, server, .. }) => {
                let (tools, server) = (plural(tools.len(), "tool"), harmless_line(&server));
                status_line(format!(
                    "MCP server {name} ({server}) is new: accepted {tools}; `ostler mcp tools {name}` lists them"
                ));
            }
            Err(why) => {
                let cage = cage_hint(name, &why);
                status_line(format!("MCP server {name} has no tools: {}{cage}", harmless_line(&why)));
            }
        }
    }
    Ok(())
}

/// A hint at the cage for a server that lacked a file.
fn cage_hint(name: &str, why: &str) -> String {
    if !lacks_file(why) {
        return String::new();
    }
    format!(
        "; its cage may keep it from a file: list what it needs as `read` or `write` in [mcp.{name}], or see `sandbox` there"
    )
}
