//! `ostler retract`.

use std::path::Path;

use clap::Args;
use ostler_server::wire::{RecallReport, RetractRequest, RetractionList, RetractionRow};
use serde_json::json;

use crate::cli::arguments::Globals;
use crate::cli::arguments::values::{node_name, run_name};
use crate::cli::exit::{Failure, code};
use crate::cli::output::cells::harmless_line;
use crate::cli::output::hints;
use crate::cli::output::labels::{self, short_id};
use crate::cli::output::terminal::{Out, status_line, tagged};
use crate::cli::output::units::plural;
use crate::cli::session::api_client::{ApiError, path_segment};
use crate::cli::session::{AccessMode, Session, open_existing};

/// Most lines of reached nodes; --json prints all that the answer names.
const LINES_MAX: usize = 50;

/// The forms of the command; each excludes the others.
const FORMS: [&str; 5] = ["run", "tool", "model", "list", "lift"];

#[derive(Debug, Args)]
#[command(group = clap::ArgGroup::new("what").args(FORMS).required(true))]
pub(crate) struct RetractArgs {
    /// The run: its id, a part of it, or @last
    #[arg(value_parser = run_name, requires = "node")]
    run: Option<String>,
    /// The node
    #[arg(value_parser = node_name)]
    node: Option<String>,
    /// Withdraw all results of this tool, past and future ones, of all clients
    #[arg(long, value_name = "TOOL")]
    tool: Option<String>,
    /// Withdraw all results of this configured model, past and future ones, of all clients
    #[arg(long, value_name = "MODEL")]
    model: Option<String>,
    /// Only those of this version of the tool or the model; `ostler audit` prints versions
    #[arg(long = "version", value_name = "VERSION", conflicts_with_all = ["run", "list", "lift"])]
    of_version: Option<String>,
    /// Print what would be found, and change nothing
    #[arg(long, conflicts_with_all = ["list", "lift"])]
    dry_run: bool,
    /// List the retractions in force
    #[arg(long)]
    list: bool,
    /// Lift a retraction: its results may stand in again
    #[arg(long, value_name = "ID")]
    lift: Option<String>,
}

impl RetractArgs {
    /// True if nothing but the output is written.
    pub(crate) fn only_reads(&self) -> bool {
        self.dry_run || self.list
    }
}

pub(crate) async fn retract(globals: &Globals, args: RetractArgs) -> Result<u8, Failure> {
    if args.list {
        return list(globals).await;
    }
    if let Some(id) = args.lift {
        return lift(globals, &id).await;
    }
    let RetractArgs { run, node, tool, model, of_version: version, dry_run, .. } = args;
    let request = RetractRequest { run, node, tool, version, model, dry_run };
    let mut session = Session::open(globals, Path::new("."), AccessMode::Execute).await?;
    // The same results are withdrawn once, however often it is asked.
    let recalled: Result<RecallReport, ApiError> = session.post_idempotent("/v1/retractions", &request).await;
    session.stop().await;
    let (recalled, mut out) = (recalled?, Out::new());
    if globals.json {
        let tag = if dry_run { "recall_preview" } else { "recalled" };
        out.json(&tagged(tag, &recalled));
    } else {
        print(&recalled, &mut out);
    }
    for unreadable in &recalled.unreadable {
        status_line(format!("run {}: not looked at or changed: {}", unreadable.run, unreadable.detail));
    }
    Ok(if recalled.unreadable.is_empty() { code::SUCCEEDED } else { code::FAILED })
}

fn print(recalled: &RecallReport, out: &mut Out) {
    let own = recalled.reached.iter().filter(|reached| reached.withdrawn).count();
    let records = match recalled.records {
        // The answer to a wait is no record that could stand in for another execution.
        0 if own > 0 => format!("{}, recorded for no reuse", plural(own, "result")),
        records => plural(records, "recorded result"),
    };
    match &recalled.retraction {
        Some(retraction) => {
            out.line(harmless_line(&format!("{}: withdrew {records}", described(retraction))))
        }
        None => out.line(format!("would withdraw {records}")),
    }
    let nodes = plural(recalled.reached_total, "node");
    out.line(format!("{nodes} with a withdrawn result, or one that rests on it"));
    for reached in recalled.reached.iter().take(LINES_MAX) {
        let what = if reached.withdrawn { "  withdrawn" } else { "" };
        let effect = if reached.effect { "  effect made" } else { "" };
        let place = format!("{}/{}", short_id(&reached.run), reached.node);
        out.line(harmless_line(&format!("  {place}  {}{what}{effect}", labels::state(&reached.state))));
    }
    if recalled.reached_total > LINES_MAX {
        out.line(format!("  … and {} more; --json lists more", recalled.reached_total - LINES_MAX));
    }
    let effects = recalled.reached.iter().filter(|reached| reached.effect);
    let effects = effects.map(|reached| format!("{}/{}", short_id(&reached.run), reached.node));
    let voided = recalled.voided.iter().map(|node| format!("{}/{}", short_id(&node.run), node.node));
    for (label, names) in [
        ("effects already made", effects.collect()),
        ("approvals void", voided.collect()),
        ("grants revoked", recalled.grants.clone()),
    ] {
        let names: Vec<String> = names;
        let names = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
        out.line(harmless_line(&format!("{label}: {names}")));
    }
    for run in &recalled.again {
        out.line(format!("to compute it anew: {}", hints::command("rerun", &[run], "")));
    }
}

/// Id and subject of a retraction.
fn described(retraction: &RetractionRow) -> String {
    let RetractionRow { id, run, node, tool, version, .. } = retraction;
    let version = version.as_ref().map(|version| format!(" {version}")).unwrap_or_default();
    match (run, node, tool) {
        (Some(run), Some(node), _) => format!("{id} {}/{node}", short_id(run)),
        (_, _, Some(tool)) => format!("{id} {tool}{version}"),
        _ => id.clone(),
    }
}

async fn list(globals: &Globals) -> Result<u8, Failure> {
    let mut session = open_existing("retraction", globals, AccessMode::Read).await?;
    let listed: Result<RetractionList, ApiError> = session.get("/v1/retractions").await;
    session.stop().await;
    let (listed, mut out) = (listed?, Out::new());
    for retraction in &listed.retractions {
        print_row(globals, "retraction", retraction, &mut out);
    }
    if listed.retractions.is_empty() && !globals.json {
        status_line("no retraction is in force");
    }
    Ok(code::SUCCEEDED)
}

async fn lift(globals: &Globals, id: &str) -> Result<u8, Failure> {
    let mut session = open_existing("retraction", globals, AccessMode::Execute).await?;
    let path = format!("/v1/retractions/{}/lift", path_segment(id));
    let lifted: Result<RetractionRow, ApiError> = session.post(&path, &json!({})).await;
    session.stop().await;
    print_row(globals, "retraction_lifted", &lifted?, &mut Out::new());
    Ok(code::SUCCEEDED)
}

fn print_row(globals: &Globals, tag: &str, retraction: &RetractionRow, out: &mut Out) {
    if globals.json {
        out.json(&tagged(tag, retraction));
        return;
    }
    let lifted = if tag == "retraction" { "" } else { ", lifted" };
    out.line(harmless_line(&format!("{}  by {}{lifted}", described(retraction), retraction.by)));
}
