//! `ostler mcp`.

mod accept;
mod list;
mod login;
mod serve;

use std::fmt::Display;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use clap::{Args, Subcommand};
use ostler::config::Config;
use ostler_drivers::mcp::{Difference, FileDifference, Listing, McpServer};
use serde_json::json;

use crate::cli::arguments::Globals;
use crate::cli::exit::{Failure, code};
use crate::cli::output::cells::{harmless_line, harmless_lines};
use crate::cli::output::terminal::Out;
use crate::cli::output::units::{elapsed, plural};
use crate::cli::session::settings::load_settings;

#[derive(Debug, Args)]
pub(crate) struct McpArgs {
    #[command(subcommand)]
    what: What,
}

impl McpArgs {
    /// True if nothing but the output is written.
    pub(crate) fn only_reads(&self) -> bool {
        matches!(self.what, What::Ls | What::Tools(_) | What::Probe(_))
    }
}

#[derive(Debug, Subcommand)]
enum What {
    /// List the configured servers
    #[command(after_help = "Example:\n  ostler mcp ls")]
    Ls,
    /// List the accepted tools, with their impact
    #[command(after_help = "Examples:\n  ostler mcp tools\n  ostler mcp tools git --json")]
    Tools(list::ToolsArgs),
    /// Start a server for a moment, and compare its tools with the accepted
    #[command(after_help = "Example:\n  ostler mcp probe git")]
    Probe(ProbeArgs),
    /// Accept the program and the tools of a server, after showing differences
    ///
    /// The program is started, to list its tools, once you have accepted its files. The command needs your operator key, as an approval
    /// does.
    #[command(
        after_help = "Examples:\n  ostler mcp accept git\n  ostler mcp accept git git_log git_status\n  ostler mcp accept git --yes"
    )]
    Accept(accept::AcceptArgs),
    /// Log in at a server that asks for it, in a browser
    ///
    /// A server with a `url` may ask for a token of OAuth. The command prints the address to log in at, opens it with the program in
    /// $BROWSER, or with that of the desktop at a terminal, and waits for the browser to return to a port of this machine. Where no
    /// browser runs on this machine, open the address elsewhere, and paste the address at which the browser ends here. The token is
    /// kept in the folder of your operator key, for the address of the server alone, and is renewed without you.
    #[command(after_help = "Examples:\n  ostler mcp login tracker\n  ostler mcp login tracker --wait 30m")]
    Login(login::LoginArgs),
    /// Remove the login at a server
    ///
    /// The token is removed from this machine. To revoke it, use the page of the service.
    #[command(after_help = "Example:\n  ostler mcp logout tracker")]
    Logout(login::LogoutArgs),
    /// Be a server for other programs: runs, approvals, results
    #[command(
        after_help = "Examples:\n  ostler mcp serve\n  ostler mcp serve --intent 0 --workspace ../project\n  ostler mcp serve --http 127.0.0.1:8765 --token-env OSTLER_MCP_TOKEN"
    )]
    Serve(serve::ServeArgs),
}

#[derive(Debug, Args)]
struct ProbeArgs {
    /// Name of the server in the configuration
    name: String,
}

pub(crate) async fn mcp(globals: &Globals, args: McpArgs) -> Result<u8, Failure> {
    let (config, _) = load_settings(globals, Path::new("."))?;
    match args.what {
        What::Ls => Ok(list::servers(globals, &config).await),
        What::Tools(args) => list::tools(globals, &config, &args).await,
        What::Probe(args) => probe(globals, &config, &args.name).await,
        What::Accept(args) => accept::accept(globals, &config, args).await,
        What::Login(args) => login::login(globals, &config, args).await,
        What::Logout(args) => login::logout(globals, &config, &args).await,
        What::Serve(args) => serve::serve(globals, args).await,
    }
}

fn server<'a>(config: &'a Config, name: &str) -> Result<&'a Arc<McpServer>, Failure> {
    config.servers.get(name).ok_or_else(|| {
        let known: Vec<&str> = config.servers.iter().map(|server| server.name()).collect();
        let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
        Failure::invalid(format!("no MCP server {name:?} is configured; there is {known}"))
    })
}

async fn probe(globals: &Globals, config: &Config, name: &str) -> Result<u8, Failure> {
    let (server, mut out) = (server(config, name)?, Out::new());
    let program = server.program().await;
    if let Some(held) = server.held(&program) {
        let changed = server.program_differences(&program);
        if globals.json {
            let differ: Vec<&str> = changed.iter().map(FileDifference::path).collect();
            out.json(
                &json!({"type": "probe", "server": name, "works": false, "told": held, "program": differ}),
            );
        } else {
            out.line(format!("not started: {}", harmless_line(&held)));
            show(&changed, &mut out);
        }
        return Ok(code::FAILED);
    }
    let since = Instant::now();
    let looked = server.look().await;
    let ms = i64::try_from(since.elapsed().as_millis()).unwrap_or(i64::MAX);
    let listing = match looked {
        Ok(listing) => listing,
        Err(why) => {
            if globals.json {
                let told = json!({"type": "probe", "server": name, "works": false, "told": why, "ms": ms});
                out.json(&told);
            } else {
                out.line(format!("fails  {}  {}", elapsed(ms), harmless_line(&why)));
            }
            return Ok(code::FAILED);
        }
    };
    let differences = differences(server, &listing);
    if globals.json {
        let differ: Vec<&str> = differences.iter().map(Difference::tool).collect();
        out.json(&json!({
            "type": "probe", "server": name, "works": true, "told": listing.server, "protocol": listing.protocol,
            "ms": ms, "tools": listing.tools.len(), "refused": listing.refused, "differ": differ,
            "login": login::state_json(server),
        }));
        return Ok(code::SUCCEEDED);
    }
    let (told, tools) = (harmless_line(&listing.server), plural(listing.tools.len(), "tool"));
    out.line(format!("works  {}  {told}, protocol {}, {tools}", elapsed(ms), listing.protocol));
    if let Some(told) = login::state_line(server) {
        out.line(told);
    }
    show_refused(&listing, &mut out);
    show(&differences, &mut out);
    if !differences.is_empty() {
        out.line(format!("`ostler mcp accept {name}` accepts them as they are now"));
    }
    Ok(code::SUCCEEDED)
}

/// Differences between the accepted tools of a server and the listed tools.
fn differences(server: &McpServer, listing: &Listing) -> Vec<Difference> {
    Difference::between(&server.accepted().unwrap_or_default().tools, &listing.tools)
}

fn show_refused(listing: &Listing, out: &mut Out) {
    for (tool, why) in &listing.refused {
        out.line(format!("cannot be offered: {}: {}", harmless_line(tool), harmless_line(why)));
    }
}

fn show(differences: &[impl Display], out: &mut Out) {
    for difference in differences {
        out.line(harmless_lines(&difference.to_string()));
    }
}
