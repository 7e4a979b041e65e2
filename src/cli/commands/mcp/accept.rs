//! `ostler mcp accept`.

use std::io::{BufRead, IsTerminal, stdin};
use std::path::Path;

use clap::Args;
use ostler::config::Config;
use ostler_drivers::mcp::{Acceptance, Difference, FileDifference, MCP_PREFIX};
use ostler_kernel::port::NamedFile;
use serde_json::{Value, json};

use crate::cli::arguments::Globals;
use crate::cli::commands::mcp::{differences, server, show, show_refused};
use crate::cli::exit::{Failure, code};
use crate::cli::output::approval::short_digest;
use crate::cli::output::cells::harmless_line;
use crate::cli::output::terminal::{Out, status_line};
use crate::cli::output::units::plural;
use crate::cli::session::api_client::path_segment;
use crate::cli::session::{AccessMode, Session};

/// Files of a program that are listed.
const PINNED_SHOWN: usize = 20;

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
    let program = server.program().await;
    let changed = server.program_differences(&program);
    if !globals.json {
        pinned_lines(&program).into_iter().for_each(|line| out.line(line));
    }
    if !changed.is_empty() {
        // A changed program does not start before a person has seen the change.
        if !globals.json {
            show(&changed, &mut out);
        }
        if !yes && !confirmed(&name, "program")? {
            said(globals, &mut out, &name, (&[], &[], &program), "nothing was accepted");
            return Ok(code::WAITS);
        }
    }
    let looked = server.look_at(&program).await;
    let listing = looked.map_err(|why| Failure::internal(format!("MCP server {name}: {why}")))?;
    let mut found = differences(server, &listing);
    if let Some(unknown) = tools.iter().find(|tool| !found.iter().any(|found| found.tool() == *tool)) {
        return Err(Failure::invalid(format!(
            "tool {unknown} of server {name} does not differ from what was accepted; `ostler mcp probe {name}` shows what does"
        )));
    }
    found.retain(|difference| tools.is_empty() || tools.iter().any(|tool| tool == difference.tool()));
    if found.is_empty() && changed.is_empty() && server.accepted().is_some() {
        said(globals, &mut out, &name, (&[], &[], &program), "nothing differs from what was accepted");
        return Ok(code::SUCCEEDED);
    }
    if !globals.json {
        show_refused(&listing, &mut out);
        show(&found, &mut out);
    }
    if !yes && !found.is_empty() && !confirmed(&name, "tools")? {
        said(globals, &mut out, &name, (&[], &[], &program), "nothing was accepted");
        return Ok(code::WAITS);
    }
    let mut session = Session::open(globals, Path::new("."), AccessMode::Create).await?;
    let path = format!("/v1/devices/{}/accept", path_segment(&format!("{MCP_PREFIX}{name}")));
    let taken: Result<Value, _> = session.post_idempotent(&path, &acceptance(&found, program.clone())).await;
    session.stop().await;
    taken?;
    let tools =
        format!("{}; a process that holds the data folder knows them when it starts again", counted(&found));
    let told = match (changed.len(), found.is_empty()) {
        (0, _) => format!("accepted: {tools}"),
        (files, true) => format!("accepted: the program ({})", plural(files, "file")),
        (files, false) => format!("accepted: the program ({}) and {tools}", plural(files, "file")),
    };
    said(globals, &mut out, &name, (&changed, &found, &program), &told);
    Ok(code::SUCCEEDED)
}

/// The files that an acceptance pins, as far as a screen shows them.
fn pinned_lines(program: &[NamedFile]) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for file in program.iter().take(PINNED_SHOWN) {
        let digest = file.digest.to_string();
        let (path, digest) = (harmless_line(&file.path), short_digest(&digest));
        lines.push(format!("pins {path} ({digest}, {} bytes)", file.bytes));
    }
    if program.len() > PINNED_SHOWN {
        lines.push(format!("… {} more", program.len() - PINNED_SHOWN));
    }
    lines
}

/// The number of tools that were added, changed and removed.
fn counted(found: &[Difference]) -> String {
    let removed = found.iter().filter(|one| matches!(one, Difference::Removed(_))).count();
    match (found.len() - removed, removed) {
        (now, 0) => plural(now, "tool"),
        (0, removed) => format!("{} removed", plural(removed, "tool")),
        (now, removed) => format!("{} and {removed} removed", plural(now, "tool")),
    }
}

/// Tells what was accepted: changed files of the program, and tools. As JSON all files of the program are told.
fn said(
    globals: &Globals,
    out: &mut Out,
    name: &str,
    (changed, tools, program): (&[FileDifference], &[Difference], &[NamedFile]),
    told: &str,
) {
    if globals.json {
        let changed: Vec<&str> = changed.iter().map(FileDifference::path).collect();
        let pinned: Vec<&str> = program.iter().map(|file| &*file.path).collect();
        let tools: Vec<&str> = tools.iter().map(Difference::tool).collect();
        out.json(
            &json!({"type": "accepted", "server": name, "program": changed, "pinned": pinned, "tools": tools}),
        );
    } else {
        out.line(told);
    }
}

fn acceptance(found: &[Difference], program: Vec<NamedFile>) -> Acceptance {
    let mut acceptance = Acceptance { program: Some(program), ..Acceptance::default() };
    for difference in found {
        match difference {
            Difference::Added(now) | Difference::Changed { now, .. } => acceptance.tools.push(now.clone()),
            Difference::Removed(tool) => acceptance.removed.push(tool.name.clone()),
        }
    }
    acceptance
}

/// Asks at the terminal.
fn confirmed(name: &str, what: &str) -> Result<bool, Failure> {
    if !stdin().is_terminal() {
        status_line(format!("accept the {what} with `ostler mcp accept {name} --yes`, or at a terminal"));
        return Ok(false);
    }
    status_line(format!("accept the {what} of server {name} as shown? [y/N]"));
    let mut line = String::new();
    stdin().lock().read_line(&mut line).map_err(|error| Failure::internal(error.to_string()))?;
    Ok(matches!(line.trim(), "y" | "yes"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_pinned_is_listed_up_to_a_screen() {
        let digest = ostler_kernel::id::Digest([7; 32]);
        let file = |at: usize| NamedFile {
            path: format!("{at}\u{1b}.py"),
            digest,
            bytes: 12,
            text: None,
            unbound: None,
            by_word: true,
        };
        let files: Vec<NamedFile> = (0..PINNED_SHOWN + 2).map(file).collect();
        let lines = pinned_lines(&files);
        assert_eq!(lines.len(), PINNED_SHOWN + 1);
        assert_eq!(lines[0], "pins 0\u{fffd}.py (b3:07070707070707070707070707070707, 12 bytes)");
        assert_eq!(lines[PINNED_SHOWN], "… 2 more");
        assert_eq!(pinned_lines(&files[..1]).len(), 1);
    }
}
