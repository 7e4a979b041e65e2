//! `ostler mcp accept`.

use std::io::{BufRead, IsTerminal, stdin};
use std::path::Path;

use clap::Args;
use ostler::config::Config;
use ostler_drivers::mcp::{Acceptance, Difference, MCP_PREFIX};
use serde_json::{Value, json};

use crate::cli::arguments::Globals;
use crate::cli::commands::mcp::{differences, server, show, show_refused};
use crate::cli::exit::{Failure, code};
use crate::cli::output::terminal::{Out, status_line};
use crate::cli::output::units::plural;
use crate::cli::session::api_client::path_segment;
use crate::cli::session::{AccessMode, Session};

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
    let mut session = Session::open(globals, Path::new("."), AccessMode::Create).await?;
    let path = format!("/v1/devices/{}/accept", path_segment(&format!("{MCP_PREFIX}{name}")));
    let taken: Result<Value, _> = session.post_idempotent(&path, &acceptance(&found)).await;
    session.stop().await;
    taken?;
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

fn acceptance(found: &[Difference]) -> Acceptance {
    let mut acceptance = Acceptance::default();
    for difference in found {
        match difference {
            Difference::Added(now) | Difference::Changed { now, .. } => acceptance.tools.push(now.clone()),
            Difference::Removed(tool) => acceptance.removed.push(tool.name.clone()),
        }
    }
    acceptance
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
