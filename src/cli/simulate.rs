//! `ostler simulate`: cases in virtual time, by the decisions that real runs make.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use ostler_sim::{graph, queue};
use serde_json::json;

use super::Globals;
use super::cells::{fit, fit_name};
use super::exit::{Failure, code};
use super::term::Out;

#[derive(Debug, Args)]
pub(crate) struct SimulateArgs {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    /// Live through plans with scripted outcomes, one JSON object a line
    ///
    /// A line is a case: an `id`, a `plan` as `ostler run` takes it, and what is to happen. `script` has the attempts of each node in
    /// turn, {"ok": VALUE} or {"fail": "timeout"}, with the ticks that it takes as `dur`. `human` has the answers of people to each
    /// node, {"approve": TICKS} or {"reject": TICKS}; `control` what an operator does, {"at": TICK, "op": "cancel", "node": NODE};
    /// `patch` and `replans` what planners answer. What comes of it is printed in the form of `expect`, which a case may have too.
    #[command(
        after_help = "Examples:\n  ostler simulate graph cases.jsonl\n  ostler simulate graph cases.jsonl --check"
    )]
    Graph(FileArgs),
    /// Live through a trace of the run queue, one JSON object a line
    ///
    /// A line is an operation: `op`, and what it needs. {"op": "client", "id": "ada", "weight": 200} adds a client, {"op": "enqueue",
    /// "id": "j", "client": "ada", "est": 5} a job, {"op": "dispatch"} says which is next, {"op": "settle", "id": "j", "actual": 7} what
    /// it cost. There are also config, remove_client, agent, dag, step, cancel, credit, weight, rep, tier, advance and stat. What
    /// follows is printed, in lines; an operation that cannot be is answered by {"error": CODE, "op": OP}, and the trace goes on.
    /// --check compares with FILE.expected.jsonl beside FILE.jsonl.
    #[command(
        after_help = "Examples:\n  ostler simulate queue trace.jsonl\n  ostler simulate queue trace.jsonl --check"
    )]
    Queue(FileArgs),
}

#[derive(Debug, Args)]
struct FileArgs {
    /// The cases
    file: PathBuf,
    /// Compare with what is expected; exit 1 if anything differs
    #[arg(long)]
    check: bool,
}

pub(crate) fn simulate(globals: &Globals, args: SimulateArgs) -> Result<u8, Failure> {
    match args.what {
        What::Graph(args) => graph_cases(&args, globals.json, &mut Out::new()),
        What::Queue(args) => queue_trace(&args, globals.json, &mut Out::new()),
    }
}

/// Tells how a comparison ended.
fn compared(passed: usize, failed: usize, json: bool, out: &mut Out) -> u8 {
    if json {
        out.json(&json!({"type": "compared", "passed": passed, "failed": failed}));
    } else {
        out.line(format!("{passed} passed, {failed} failed"));
    }
    if failed == 0 { code::SUCCEEDED } else { code::FAILED }
}

fn unreadable(path: &Path, error: &std::io::Error) -> Failure {
    Failure::invalid(format!("cannot read {}: {error}", path.display()))
}

/// A check of nothing is no check that passed.
fn nothing_to_check(path: &Path, lacks: &str) -> Failure {
    Failure::invalid(format!("{}: there is {lacks} in it, so nothing was checked", path.display()))
}

fn graph_cases(args: &FileArgs, json: bool, out: &mut Out) -> Result<u8, Failure> {
    let file = std::fs::File::open(&args.file).map_err(|error| unreadable(&args.file, &error))?;
    let (mut passed, mut failed) = (0, 0);
    let mut lines_by_id: BTreeMap<String, usize> = BTreeMap::new();
    for (at, line) in BufReader::new(file).lines().enumerate() {
        let line = line.map_err(|error| unreadable(&args.file, &error))?;
        if line.trim().is_empty() {
            continue;
        }
        let lived = graph::live(&line).map_err(|error| {
            let told = fit(&error.to_string(), usize::MAX);
            Failure::invalid(format!("{}:{}: {told}", args.file.display(), at + 1))
        })?;
        if let Some(before) = lines_by_id.insert(lived.id.clone(), at + 1) {
            return Err(Failure::invalid(format!(
                "{}:{}: case {:?} stands in line {before} already: give each case an id of its own",
                args.file.display(),
                at + 1,
                lived.id
            )));
        }
        if !args.check {
            out.json(&json!({"id": lived.id, "expect": lived.actual}));
            continue;
        }
        if lived.expected.is_none() {
            return Err(Failure::invalid(format!(
                "{}:{}: case {:?} expects nothing, so it cannot be checked",
                args.file.display(),
                at + 1,
                lived.id
            )));
        }
        match lived.difference() {
            None => passed += 1,
            Some(difference) => {
                failed += 1;
                if json {
                    out.json(&json!({"type": "difference", "id": lived.id, "difference": difference}));
                } else {
                    out.line(format!(
                        "{}: {}",
                        fit_name(&lived.id, usize::MAX),
                        fit(&difference, usize::MAX)
                    ));
                }
            }
        }
    }
    if !args.check {
        return Ok(code::SUCCEEDED);
    }
    if lines_by_id.is_empty() {
        return Err(nothing_to_check(&args.file, "no case"));
    }
    Ok(compared(passed, failed, json, out))
}

fn queue_trace(args: &FileArgs, json: bool, out: &mut Out) -> Result<u8, Failure> {
    let input = std::fs::read_to_string(&args.file).map_err(|error| unreadable(&args.file, &error))?;
    let printed = queue::run_trace(&input);
    if !args.check {
        out.raw(printed.as_bytes());
        return Ok(code::SUCCEEDED);
    }
    if input.trim().is_empty() {
        return Err(nothing_to_check(&args.file, "no operation"));
    }
    let beside = args.file.with_extension("expected.jsonl");
    let expected = std::fs::read_to_string(&beside).map_err(|error| unreadable(&beside, &error))?;
    let (expected, printed): (Vec<&str>, Vec<&str>) = (expected.lines().collect(), printed.lines().collect());
    let longest = expected.len().max(printed.len());
    let failed = (0..longest).filter(|&at| expected.get(at) != printed.get(at)).count();
    if let Some(at) = (0..longest).find(|&at| expected.get(at) != printed.get(at)) {
        let told = |lines: &[&str]| lines.get(at).map_or("nothing".to_owned(), |line| (*line).to_owned());
        let (expected, got) = (told(&expected), told(&printed));
        if json {
            out.json(&json!({"type": "difference", "line": at + 1, "expected": expected, "got": got}));
        } else {
            out.line(format!("line {}: expected {}", at + 1, fit(&expected, usize::MAX)));
            out.line(format!("line {}: got      {}", at + 1, fit(&got, usize::MAX)));
        }
    }
    Ok(compared(longest - failed, failed, json, out))
}
