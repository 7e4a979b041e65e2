//! `ostler mcp ls` and `ostler mcp tools`.

use std::sync::Arc;

use clap::Args;
use ostler::config::Config;
use ostler_drivers::mcp::{LoginState, McpServer};
use ostler_kernel::port::Tool;
use serde::Serialize;
use serde_json::{Map, Value};

use crate::cli::arguments::Globals;
use crate::cli::commands::mcp::login::{state_json, state_line};
use crate::cli::commands::mcp::server;
use crate::cli::exit::{Failure, code};
use crate::cli::output::cells::harmless_line;
use crate::cli::output::hints::with_location;
use crate::cli::output::table::{Cell, Column, Table};
use crate::cli::output::terminal::{Out, status_line, tagged};

#[derive(Debug, Args)]
pub(super) struct ToolsArgs {
    /// Name of a server [default: all]
    name: Option<String>,
}

/// A configured server, as JSON.
#[derive(Debug, Serialize)]
struct ServerLine {
    name: String,
    /// The program, or scheme and host of the address.
    place: String,
    /// Number of accepted tools; `null` before the first acceptance.
    tools: Option<usize>,
    /// Operator of the last acceptance; `null` if the first start of the server accepted the tools.
    by: Option<String>,
    /// Reason for not starting the server: files of its program differ from the accepted ones.
    #[serde(skip_serializing_if = "Option::is_none")]
    held: Option<String>,
    /// State of the login; absent for a server that takes none.
    #[serde(skip_serializing_if = "Value::is_null")]
    login: Value,
}

pub(super) async fn servers(globals: &Globals, config: &Config) -> u8 {
    let (mut lines, mut logins, mut out) = (Vec::new(), Vec::new(), Out::new());
    for server in config.servers.iter() {
        let (name, place) = (server.name().to_owned(), server.config().place());
        let (tools, by) = server.accepted().map(|now| (now.tools.len(), now.by)).unzip();
        let held = server.held(&server.program().await);
        let login = state_json(server);
        logins.extend(state_line(server).or_else(|| first_login(server)));
        lines.push(ServerLine { name, place, tools, by: by.flatten(), held, login });
    }
    if globals.json {
        lines.iter().for_each(|line| out.json(&tagged("server", line)));
    } else if lines.is_empty() {
        status_line("no MCP server is configured: add [mcp.NAME] to ostler.toml");
    } else {
        let row = |line: &ServerLine| -> [Cell; 4] {
            let tools = line.tools.map_or_else(|| "-".to_owned(), |tools| tools.to_string());
            let by = match (&line.by, line.tools) {
                (Some(by), _) => harmless_line(by),
                (None, Some(_)) => "(first start)".to_owned(),
                (None, None) => "(nobody yet)".to_owned(),
            };
            let place = harmless_line(&line.place);
            [line.name.as_str().into(), tools.as_str().into(), by.as_str().into(), place.as_str().into()]
        };
        print(
            &mut out,
            [
                Column::name("SERVER"),
                Column::number("TOOLS"),
                Column::text("ACCEPTED BY"),
                Column::text("PROGRAM OR ADDRESS"),
            ],
            lines.iter().map(row).collect(),
        );
        lines.iter().filter_map(|line| line.held.as_deref()).for_each(tell_held);
        logins.iter().for_each(|told| out.line(told));
    }
    code::SUCCEEDED
}

/// A line about the login at a server that nobody has reached yet: whether it asks for one is not known.
fn first_login(server: &McpServer) -> Option<String> {
    let name = server.name();
    let is_new = server.accepted().is_none() && matches!(server.login_state(), Ok(Some(LoginState::None)));
    is_new.then(|| {
        with_location(&format!("server {name}: no login; if it asks for one: `ostler mcp login {name}`"))
    })
}

fn tell_held(why: &str) {
    status_line(harmless_line(why));
}

fn print<const N: usize>(out: &mut Out, columns: [Column; N], rows: Vec<[Cell; N]>) {
    let table = Table::new(columns, &rows, out.columns());
    out.line(table.head());
    for row in &rows {
        let line = table.row(row, out);
        out.line(line);
    }
}

/// An accepted tool, as JSON.
#[derive(Debug, Serialize)]
struct ToolLine {
    name: String,
    impact: u8,
    /// Digest of the accepted definition.
    digest: String,
    description: String,
    params: Value,
}

pub(super) async fn tools(globals: &Globals, config: &Config, args: &ToolsArgs) -> Result<u8, Failure> {
    let named = args.name.as_deref().map(|name| server(config, name)).transpose()?;
    let prefix = named.map(|server| format!("mcp.{}.", server.name())).unwrap_or_default();
    let tools = config.servers.tools();
    let lines: Vec<ToolLine> =
        tools.iter().filter(|tool| tool.spec().name.starts_with(&prefix)).map(|tool| line(&**tool)).collect();
    let mut out = Out::new();
    if globals.json {
        lines.iter().for_each(|line| out.json(&tagged("tool", line)));
    } else if lines.is_empty() {
        status_line("no tool of an MCP server was accepted yet: `ostler mcp ls` lists the servers");
    } else {
        let row = |line: &ToolLine| -> [Cell; 3] {
            let described = harmless_line(line.description.trim().lines().next().unwrap_or_default());
            [line.name.as_str().into(), line.impact.to_string().into(), described.as_str().into()]
        };
        let columns =
            [Column::name("TOOL"), Column::number("IMPACT"), Column::text("DESCRIPTION").at_least(12)];
        print(&mut out, columns, lines.iter().map(row).collect());
    }
    for server in config.servers.iter().filter(|server| named.is_none_or(|named| Arc::ptr_eq(named, server)))
    {
        if let Some(why) = server.held(&server.program().await) {
            tell_held(&why);
        }
    }
    Ok(code::SUCCEEDED)
}

fn line(tool: &dyn Tool) -> ToolLine {
    let spec = tool.spec();
    ToolLine {
        name: spec.name.clone(),
        impact: tool.class(&Map::new()).impact,
        digest: spec.version.clone(),
        description: spec.description.clone(),
        params: spec.params.clone(),
    }
}
