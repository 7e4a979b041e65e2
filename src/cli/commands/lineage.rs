//! `ostler lineage`.

use std::collections::BTreeSet;
use std::path::Path;

use clap::Args;
use ostler_server::wire::RunList;
use serde_json::json;

use super::explain::{Fates, fates, word};
use crate::cli::arguments::Globals;
use crate::cli::arguments::values::{node_name, run_name};
use crate::cli::exit::{Failure, code};
use crate::cli::output::cells::harmless_line;
use crate::cli::output::labels::short_id;
use crate::cli::output::terminal::{Out, status_line};
use crate::cli::session::{AccessMode, Session};

/// Most other runs that are searched, the newest first.
const RUNS_READ_MAX: usize = 200;

#[derive(Debug, Args)]
pub(crate) struct LineageArgs {
    /// The run: its id, a part of it, or @last
    #[arg(value_parser = run_name)]
    run: String,
    /// The node
    #[arg(value_parser = node_name)]
    node: String,
    /// Show the nodes behind the result
    #[arg(long, conflicts_with = "down")]
    up: bool,
    /// Show the nodes that used the result, in this run and in others
    #[arg(long)]
    down: bool,
}

pub(crate) async fn lineage(globals: &Globals, args: LineageArgs) -> Result<u8, Failure> {
    let mut out = Out::new();
    let mut session = Session::open(globals, Path::new("."), AccessMode::Read).await?;
    let printed = print_lineage(&mut session, globals, &args, &mut out).await;
    session.stop().await;
    printed.map(|()| code::SUCCEEDED)
}

async fn print_lineage(
    session: &mut Session,
    globals: &Globals,
    args: &LineageArgs,
    out: &mut Out,
) -> Result<(), Failure> {
    let (run, fates) = fates(session, &args.run, out).await?;
    if !fates.nodes.contains_key(&args.node) {
        return Err(Failure::invalid(format!(
            "run {run} has no node {}; `ostler show {run}` lists its nodes",
            args.node
        )));
    }
    if !args.down {
        print_related(globals, out, &run, &fates, &args.node, Direction::Up);
        return Ok(());
    }
    print_related(globals, out, &run, &fates, &args.node, Direction::Down);
    let record = fates.record_of(&run, &args.node);
    let Some(record) = record else { return Ok(()) };
    let list: RunList = session.get(&format!("/v1/runs?limit={RUNS_READ_MAX}")).await?;
    if list.next.is_some() {
        status_line(format!("note: looked through the newest {RUNS_READ_MAX} runs only"));
    }
    for other in list.runs.iter().filter(|other| other.run != run) {
        let (other, fates) = super::explain::fates(session, &other.run, out).await?;
        let users: Vec<&String> = fates
            .nodes
            .keys()
            .filter(|node| fates.record_of(&other, node).as_ref() == Some(&record))
            .collect();
        for node in users {
            print_related(globals, out, &other, &fates, node, Direction::Down);
        }
    }
    Ok(())
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Direction {
    Up,
    Down,
}

impl Fates {
    /// Run and number of the record behind a node's result.
    fn record_of(&self, run: &str, node: &str) -> Option<(String, u64)> {
        let fate = self.nodes.get(node)?;
        if fate.recorded.is_some() {
            return Some((run.to_owned(), fate.recorded_seq));
        }
        let from = &fate.decided.as_ref()?["from"];
        Some((from["run"].as_str()?.to_owned(), from["seq"].as_u64()?))
    }

    fn next_to<'a>(&'a self, node: &'a str, direction: Direction) -> Vec<&'a str> {
        match direction {
            Direction::Up => match self.nodes.get(node) {
                Some(fate) => fate.deps.iter().map(String::as_str).collect(),
                None => Vec::new(),
            },
            Direction::Down => {
                let uses = self.nodes.iter().filter(|(_, fate)| fate.deps.iter().any(|dep| dep == node));
                uses.map(|(id, _)| id.as_str()).collect()
            }
        }
    }
}

/// Prints a node and everything above or below it as a tree; the second mention of a node is not unfolded.
fn print_related(
    globals: &Globals,
    out: &mut Out,
    run: &str,
    fates: &Fates,
    node: &str,
    direction: Direction,
) {
    let (mut open, mut seen) = (vec![(node, 0_usize)], BTreeSet::new());
    while let Some((node, depth)) = open.pop() {
        let is_new = seen.insert(node);
        let Some(fate) = fates.nodes.get(node) else { continue };
        let artifact =
            fate.artifact.as_deref().map(|digest| format!("b3:{}", &digest[..12.min(digest.len())]));
        if globals.json {
            out.json(&json!({
                "type": "lineage", "run": run, "node": node, "depth": depth, "state": word(fate),
                "artifact": fate.artifact, "record": fates.record_of(run, node).map(|(run, seq)| json!({"run": run, "seq": seq})),
            }));
        } else {
            let place = format!("{}{}/{node}", "  ".repeat(depth), short_id(run));
            let origin = fates.record_of(run, node).filter(|(origin, _)| origin != run);
            let origin =
                origin.map(|(origin, _)| format!("  made in run {}", short_id(&origin))).unwrap_or_default();
            let artifact = artifact.map(|artifact| format!("  {artifact}")).unwrap_or_default();
            let again = if is_new { "" } else { "  (above)" };
            out.line(harmless_line(&format!("{place}  {}{artifact}{origin}{again}", word(fate))));
        }
        if is_new {
            let mut next = fates.next_to(node, direction);
            next.reverse();
            open.extend(next.into_iter().map(|node| (node, depth + 1)));
        }
    }
}
