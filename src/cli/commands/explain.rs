//! `ostler explain`.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use clap::Args;
use ostler_kernel::id::{Digest, NodeId};
use ostler_kernel::json::canonical;
use ostler_kernel::lineage::Manifest;
use ostler_kernel::policy::SEARCH_TOOL;
use ostler_server::wire::{EventLine, JudgedResultView, Summary};
use serde_json::{Value, json};

use crate::cli::arguments::Globals;
use crate::cli::arguments::values::{node_name, run_name};
use crate::cli::exit::{Failure, code};
use crate::cli::output::cells::{fit_name, harmless_line, padded, width};
use crate::cli::output::changes::{Changes, NO_CHANGE, Roots};
use crate::cli::output::labels;
use crate::cli::output::live::View;
use crate::cli::output::summary::verdicts::verdict_text;
use crate::cli::output::terminal::{Out, style_of};
use crate::cli::session::api_client::path_segment;
use crate::cli::session::follow::{Display, connection_lost, stream_events};
use crate::cli::session::{AccessMode, Session};

#[derive(Debug, Args)]
pub(crate) struct ExplainArgs {
    /// The run: its id, a part of it, or @last
    #[arg(value_parser = run_name)]
    run: String,
    /// Explain this node alone
    #[arg(value_parser = node_name)]
    node: Option<String>,
    /// Compare what the nodes worked with in another run
    #[arg(long, value_name = "RUN", value_parser = run_name)]
    against: Option<String>,
}

/// State, reuse decision and result of a node, from the records of its run.
#[derive(Debug, Default)]
pub(super) struct NodeFate {
    pub(super) state: String,
    pub(super) reason: String,
    pub(super) failure: Option<String>,
    pub(super) denial: Option<String>,
    /// The last record of the kind `reuse_decided`.
    pub(super) decided: Option<Value>,
    /// The record of the kind `result_recorded`.
    pub(super) recorded: Option<Value>,
    /// The record of the kind `approval_carried`.
    carried: Option<Value>,
    /// Sequence number of `recorded`.
    pub(super) recorded_seq: u64,
    /// Digest of the result.
    pub(super) artifact: Option<String>,
    pub(super) deps: Vec<String>,
    /// Words of the search for tools that the result is.
    searched: Option<String>,
    /// Kind of the node in the plan.
    kind: String,
    /// Literal parameters of the node in the plan.
    params: Value,
    /// It is executed although a record exists.
    is_fresh: bool,
}

/// Collects the fate of each node.
#[derive(Debug, Default)]
pub(super) struct Fates {
    pub(super) nodes: BTreeMap<String, NodeFate>,
    /// The run takes part in reuse.
    takes_part: bool,
    changes: Changes,
    /// Verdicts of models on the last judged attempt of each node.
    verdicts: Vec<JudgedResultView>,
    /// The run that this one continues, and the nodes that were executed by then.
    forked: Option<(String, BTreeSet<String>)>,
}

impl View for Fates {
    fn record(&mut self, line: &EventLine, _: &mut Out) {
        let body = &line.body;
        self.changes.record(line);
        for plan in [&body["plan"], &body["revision"]] {
            for node in plan["nodes"].as_array().into_iter().flatten() {
                let deps = node["deps"].as_array().into_iter().flatten();
                let deps = deps.filter_map(|dep| dep["n"].as_str().map(str::to_owned)).collect();
                let fate = self.nodes.entry(node["id"].as_str().unwrap_or_default().to_owned()).or_default();
                fate.deps = deps;
                fate.kind = node["kind"].as_str().unwrap_or_default().to_owned();
                fate.params = node["params"].clone();
            }
        }
        if line.kind == "reuse_terms" {
            let (everything, named) = (body["fresh"] == "Everything", &body["fresh"]["Nodes"]);
            self.takes_part = true;
            for (node, fate) in &mut self.nodes {
                let named =
                    named.as_array().is_some_and(|named| named.iter().any(|name| name == node.as_str()));
                fate.is_fresh = everything || named;
            }
        }
        if line.kind == "forked" {
            let done = body["done"].as_array().into_iter().flatten();
            let done = done.filter_map(|done| done[0].as_str().map(str::to_owned)).collect();
            self.forked = Some((body["from"].as_str().unwrap_or_default().to_owned(), done));
        }
        let Some(fate) = body["node"].as_str().and_then(|node| self.nodes.get_mut(node)) else { return };
        let text = |key: &str| body[key].as_str().unwrap_or_default().to_owned();
        match line.kind.as_str() {
            "node_transition" => (fate.state, fate.reason) = (text("to"), text("reason")),
            "attempt_result" => {
                fate.failure = body["outcome"]["failed"]["message"].as_str().map(str::to_owned);
                fate.artifact = body["outcome"]["ok"]["artifact"].as_str().map(str::to_owned);
                fate.searched = searched(&body["outcome"]["ok"]["inline"]);
            }
            "gate_decision" => fate.denial = Some(format!("{}: {}", text("code"), text("detail"))),
            "reuse_decided" => {
                fate.artifact = body["artifact"].as_str().map(str::to_owned);
                fate.decided = Some(body.clone());
            }
            "approval_carried" => fate.carried = Some(body.clone()),
            "result_recorded" => (fate.recorded, fate.recorded_seq) = (Some(body.clone()), line.seq),
            _ => {}
        }
    }

    fn has_shown_nodes(&self) -> bool {
        true
    }
}

/// Words of a planner's or a turn's search for tools; `None` for any other result.
fn searched(result: &Value) -> Option<String> {
    let calls = result["calls"].as_array().into_iter().flatten();
    let mut searches = calls.filter(|call| call["tool"] == SEARCH_TOOL);
    let words = result["search"].as_str().or_else(|| searches.next()?["params"]["words"].as_str());
    words.map(str::to_owned)
}

impl Fates {
    /// The reason for the state of a node, in words.
    pub(super) fn why(&self, node: &str, fate: &NodeFate) -> String {
        if let Some((from, _)) = self.forked.as_ref().filter(|(_, done)| done.contains(node)) {
            return format!("taken over from run {}", labels::short_id(from));
        }
        let decided = || match &fate.decided {
            Some(decided) if decided["decision"] == "recomputed" => {
                decided["words"].as_str().unwrap_or_default().to_owned()
            }
            Some(decided) => labels::reuse(decided),
            None => self.without_decision(fate),
        };
        let approved = fate.carried.as_ref().map(labels::carried);
        match (fate.state.as_str(), &fate.searched) {
            ("executed", Some(words)) if node.starts_with("plan.") || node.starts_with("think.") => {
                format!("searched for tools: {words}")
            }
            ("executed", _) => match approved {
                Some(approved) if fate.kind == "human_approval" => approved,
                Some(approved) => format!("{}; {approved}", decided()),
                None => decided(),
            },
            ("failed" | "failed_retryable", _) => match (&fate.denial, &fate.failure) {
                (Some(denial), _) => format!("denied by the gate: {denial}"),
                (None, Some(failure)) => failure.clone(),
                (None, None) => labels::reason(&fate.reason),
            },
            _ => labels::reason(&fate.reason),
        }
    }

    /// Why a node without a decision about reuse was executed: its kind, and what it rests on.
    fn without_decision(&self, fate: &NodeFate) -> String {
        match fate.kind.as_str() {
            "aggregator" => format!("put together in every run{}", self.basis(fate)),
            "collector" => format!("collected in every run{}", self.basis(fate)),
            "wait" => "answered from outside".to_owned(),
            "human_approval" => "approved by a person".to_owned(),
            _ if !self.takes_part => "the run takes no part in reuse".to_owned(),
            _ if fate.is_fresh => "asked for anew (--fresh)".to_owned(),
            _ => "takes no part in reuse".to_owned(),
        }
    }

    /// The nodes whose results a node reads, each with the origin of its result.
    fn basis(&self, fate: &NodeFate) -> String {
        let named = fate.deps.iter().take(BASIS_MAX).map(|dep| {
            let word = self.nodes.get(dep).map_or("pending", word);
            format!("{dep} ({word})")
        });
        let named: Vec<String> = named.collect();
        let more = match fate.deps.len().saturating_sub(BASIS_MAX) {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        if named.is_empty() { String::new() } else { format!(", from {}{more}", named.join(", ")) }
    }

    /// First difference between the work of a node here and in another run.
    fn difference(&self, node: &str, other: &Fates) -> String {
        let (Some(here), there) = (self.nodes.get(node), other.nodes.get(node)) else { return String::new() };
        let Some(there) = there.filter(|_| matches!(here.kind.as_str(), "aggregator" | "collector")) else {
            return difference(here, there);
        };
        if here.artifact.is_none() || there.artifact.is_none() {
            return "without a result in one of the runs".to_owned();
        }
        let changed = |dep: &&String| {
            let of = |fates: &Fates| fates.nodes.get(*dep).and_then(|fate| fate.artifact.clone());
            of(self) != of(other)
        };
        match (here.params == there.params, here.deps.iter().find(changed)) {
            (false, _) => "a parameter in the plan changed".to_owned(),
            (true, Some(dep)) => format!("the result of {dep} changed"),
            (true, None) if here.artifact == there.artifact => "the same work".to_owned(),
            (true, None) => "its inputs changed".to_owned(),
        }
    }
}

pub(crate) async fn explain(globals: &Globals, args: ExplainArgs) -> Result<u8, Failure> {
    let mut out = Out::new();
    let mut session = Session::open(globals, Path::new("."), AccessMode::Read).await?;
    let explained = print_explanation(&mut session, globals, &args, &mut out).await;
    session.stop().await;
    explained.map(|()| code::SUCCEEDED)
}

async fn print_explanation(
    session: &mut Session,
    globals: &Globals,
    args: &ExplainArgs,
    out: &mut Out,
) -> Result<(), Failure> {
    let (run, mut fates) = fates(session, &args.run, out).await?;
    if let Some(node) = args.node.as_ref().filter(|node| !fates.nodes.contains_key(*node)) {
        return Err(Failure::invalid(format!(
            "run {run} has no node {node}; `ostler show {run}` lists its nodes"
        )));
    }
    let other = match &args.against {
        Some(other) => {
            add_records(session, &mut fates, out).await?;
            Some(fates_with_records(session, other, out).await?)
        }
        None => None,
    };
    let shown = fates.nodes.iter().filter(|(node, _)| args.node.as_ref().is_none_or(|only| only == *node));
    let columns = shown.clone().map(|(node, _)| width(node)).max().unwrap_or(0).min(out.name_width(NAME_MAX));
    for (node, fate) in shown {
        let why = match &other {
            Some(other) => fates.difference(node, other),
            None => fates.why(node, fate),
        };
        let word = word(fate);
        let verdicts: Vec<&JudgedResultView> =
            fates.verdicts.iter().filter(|verdict| verdict.node == *node).collect();
        if globals.json {
            let text = |key: &str| fate.decided.as_ref().and_then(|decided| decided[key].as_str());
            let (code, field) = (text("why"), text("field"));
            let mut explained = json!({
                "type": "explanation", "run": run, "node": node, "state": word, "why": why, "code": code, "field": field,
            });
            if !verdicts.is_empty() {
                explained["verdicts"] = json!(verdicts);
            }
            out.json(&explained);
        } else {
            let styled = out.styled(style_of(&fate.state), &padded(word, WORD_COLUMNS));
            let text =
                format!("{}  {styled}  {}", padded(&fit_name(node, columns), columns), harmless_line(&why));
            out.line(text.trim_end());
            verdicts.iter().for_each(|verdict| out.line(harmless_line(&verdict_text(verdict))));
        }
    }
    if args.node.is_none() && args.against.is_none() {
        fates.changes.print(&run, globals.json, Roots::All, out);
    }
    Ok(())
}

const NAME_MAX: usize = 28;

/// Predecessors that an explanation names.
const BASIS_MAX: usize = 8;

const WORD_COLUMNS: usize = 10;

/// The state of a node; for an executed node, the origin of its result.
pub(super) fn word(fate: &NodeFate) -> &str {
    let decision = fate.decided.as_ref().and_then(|decided| decided["decision"].as_str());
    match (fate.state.as_str(), decision) {
        ("executed", Some("cut_off")) => "cut off",
        ("executed", Some(decision @ ("reused" | "revalidated" | "edited" | "kept"))) => decision,
        ("executed", Some("recomputed")) if fate.decided.as_ref().is_some_and(is_changed) => "recomputed",
        ("", _) => "pending",
        (state, _) => labels::state(state),
    }
}

fn is_changed(decided: &Value) -> bool {
    !decided["why"].as_str().is_some_and(|why| NO_CHANGE.contains(&why))
}

/// Reads the records of a run: its id, and the fates of its nodes.
pub(super) async fn fates(
    session: &mut Session,
    run: &str,
    out: &mut Out,
) -> Result<(String, Fates), Failure> {
    let summary: Summary = session.get(&format!("/v1/runs/{}", path_segment(run))).await?;
    let mut fates = Fates { verdicts: summary.verdicts, ..Fates::default() };
    read_records(session, &summary.run, &mut fates, out).await?;
    Ok((summary.run, fates))
}

async fn read_records(
    session: &mut Session,
    run: &str,
    view: &mut (dyn View + Send),
    out: &mut Out,
) -> Result<(), Failure> {
    let mut display = Display { view, prompt: None, output: None, text: None, out };
    let (path, mut after) = (format!("/v1/runs/{}", path_segment(run)), 0);
    let read = stream_events(&session.client, &path, &mut after, "now", &mut display).await;
    read.map_err(|refused| connection_lost(refused, run))
}

/// The fates of a run. The records of reused results come from the runs that executed the work.
pub(super) async fn fates_with_records(
    session: &mut Session,
    run: &str,
    out: &mut Out,
) -> Result<Fates, Failure> {
    let (_, mut fates) = fates(session, run, out).await?;
    add_records(session, &mut fates, out).await?;
    Ok(fates)
}

async fn add_records(session: &mut Session, fates: &mut Fates, out: &mut Out) -> Result<(), Failure> {
    let origin = |fate: &NodeFate| Some(fate.decided.as_ref()?["from"]["run"].as_str()?.to_owned());
    let runs: BTreeSet<String> = fates.nodes.values().filter_map(origin).collect();
    for run in runs {
        let mut records = Records::default();
        read_records(session, &run, &mut records, out).await?;
        for fate in fates.nodes.values_mut() {
            let from = fate.decided.as_ref().map(|decided| &decided["from"]);
            let seq = from.filter(|from| from["run"] == run.as_str()).and_then(|from| from["seq"].as_u64());
            if let Some(record) = seq.and_then(|seq| records.0.get(&seq)) {
                fate.recorded = Some(record.clone());
            }
        }
    }
    Ok(())
}

/// Recorded results by their number.
#[derive(Debug, Default)]
struct Records(BTreeMap<u64, Value>);

impl View for Records {
    fn record(&mut self, line: &EventLine, _: &mut Out) {
        if line.kind == "result_recorded" {
            self.0.insert(line.seq, line.body.clone());
        }
    }

    fn has_shown_nodes(&self) -> bool {
        true
    }
}

/// First difference between the work of a node in two runs.
pub(super) fn difference(here: &NodeFate, there: Option<&NodeFate>) -> String {
    let Some(there) = there else { return "only in this run".to_owned() };
    match (here.recorded.as_ref().and_then(manifest), there.recorded.as_ref().and_then(manifest)) {
        (Some(here), Some(there)) => match here.difference(&there) {
            Some(difference) => difference.in_words(),
            None => "the same work".to_owned(),
        },
        _ => "nothing to compare: not recorded for reuse in both runs".to_owned(),
    }
}

fn manifest(recorded: &Value) -> Option<Manifest> {
    let receipts = recorded["receipts"].as_object()?.iter();
    let receipts: Option<BTreeMap<NodeId, Digest>> = receipts
        .map(|(node, receipt)| Some((NodeId::from(node.as_str()), receipt.as_str()?.parse().ok()?)))
        .collect();
    let (sigma, inputs) = (canonical(&recorded["executable"]).ok()?, canonical(&recorded["inputs"]).ok()?);
    Some(Manifest::stored(sigma, inputs, receipts?))
}
