//! `ostler mcp accept`.

use std::io::{BufRead, IsTerminal, stdin};

use clap::Args;
use ostler::config::Config;
use ostler_drivers::mcp::{Definition, Difference, McpServer};
use serde_json::json;

use crate::cli::arguments::Globals;
use crate::cli::commands::mcp::{differences, server, show, show_refused};
use crate::cli::exit::{Failure, code};
use crate::cli::output::terminal::{Out, status_line};
use crate::cli::output::units::plural;

#[derive(Debug, Args)]
pub(super) struct AcceptArgs {
    /// Name of the server in the configuration
    name: String,
    /// Tools to accept [default: all that differ]
    tools: Vec<String>,
    /// Accept without asking
    #[arg(long, short)]
    yes: bool,
}

pub(super) async fn accept(globals: &Globals, config: &Config, args: AcceptArgs) -> Result<u8, Failure> {
    let AcceptArgs { name, tools, yes } = args;
    let (server, mut out) = (server(config, &name)?, Out::new());
    let looked = server.look().await;
    let listing = looked.map_err(|why| Failure::internal(format!("MCP server {name}: {why}")))?;
    let mut found = differences(server, &listing);
    if let Some(unknown) = tools.iter().find(|tool| !found.iter().any(|found| found.tool() == *tool)) {
        return Err(Failure::invalid(format!(
            "tool {unknown} of server {name} does not differ from what was accepted; `ostler mcp probe {name}` shows what does"
        )));
    }
    found.retain(|difference| tools.is_empty() || tools.iter().any(|tool| tool == difference.tool()));
    if found.is_empty() && server.accepted().is_some() {
        said(globals, &mut out, &name, &found, "nothing differs from what was accepted");
        return Ok(code::SUCCEEDED);
    }
    if !globals.json {
        show_refused(&listing, &mut out);
        show(&found, &mut out);
    }
    if !yes && !confirmed(&name)? {
        said(globals, &mut out, &name, &[], "nothing was accepted");
        return Ok(code::WAITS);
    }
    let tools = accepted(server, &found);
    config.servers.accept(server, tools).map_err(|error| Failure::store(format!("MCP: {error}")))?;
    let told = format!(
        "accepted: {}; a process that holds the data folder knows them when it starts again",
        plural(found.len(), "tool")
    );
    said(globals, &mut out, &name, &found, &told);
    Ok(code::SUCCEEDED)
}

fn said(globals: &Globals, out: &mut Out, name: &str, accepted: &[Difference], told: &str) {
    if globals.json {
        let tools: Vec<&str> = accepted.iter().map(Difference::tool).collect();
        out.json(&json!({"type": "accepted", "server": name, "tools": tools}));
    } else {
        out.line(told);
    }
}

/// The accepted tools with these differences accepted too.
fn accepted(server: &McpServer, found: &[Difference]) -> Vec<Definition> {
    let mut tools = server.accepted().unwrap_or_default();
    for difference in found {
        tools.retain(|tool| tool.name != difference.tool());
        match difference {
            Difference::Added(now) | Difference::Changed { now, .. } => tools.push(now.clone()),
            Difference::Removed(_) => {}
        }
    }
    tools.sort_by(|one, other| one.name.cmp(&other.name));
    tools
}

/// Asks at the terminal.
fn confirmed(name: &str) -> Result<bool, Failure> {
    if !stdin().is_terminal() {
        status_line(format!("accept them with `ostler mcp accept {name} --yes`, or at a terminal"));
        return Ok(false);
    }
    status_line(format!("accept the tools of server {name} as they are now? [y/N]"));
    let mut line = String::new();
    stdin().lock().read_line(&mut line).map_err(|error| Failure::internal(error.to_string()))?;
    Ok(matches!(line.trim(), "y" | "yes"))
}
