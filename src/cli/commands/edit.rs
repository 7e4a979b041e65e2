//! `ostler edit`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use ostler_drivers::regular_file::read_text;
use ostler_kernel::lineage::StalePolicy;
use ostler_server::wire::{EditRequest, EventLine, Summary};
use serde_json::{Value, json};

use super::rerun::open_and_watch;
use crate::cli::arguments::metrics::MetricsOption;
use crate::cli::arguments::values::{node_name, run_name};
use crate::cli::arguments::watch::WatchOptions;
use crate::cli::arguments::{Globals, ModelOption};
use crate::cli::exit::{Failure, code};
use crate::cli::output::live::View;
use crate::cli::output::terminal::Out;
use crate::cli::output::units::plural;
use crate::cli::session::api_client::path_segment;
use crate::cli::session::follow::{Display, connection_lost, stream_events};
use crate::cli::session::{AccessMode, Session};

/// Longest new content in bytes.
const CONTENT_BYTES_MAX: u64 = 16 << 20;

#[derive(Debug, Args)]
pub(crate) struct EditArgs {
    /// The run: its id, a part of it, or @last
    #[arg(value_parser = run_name)]
    run: String,
    /// The node
    #[arg(value_parser = node_name)]
    node: String,
    /// File with the new result, as JSON; with --text, a text that becomes the field of this name
    #[arg(long, value_name = "FILE")]
    file: PathBuf,
    /// The file is a text: the new result is {FIELD: text}
    #[arg(long, value_name = "FIELD", num_args = 0..=1, require_equals = true, default_missing_value = "text")]
    text: Option<String>,
    /// Refuse the edit if this is not the digest of the result any more
    #[arg(long, value_name = "DIGEST")]
    if_digest: Option<String>,
    /// What becomes of the edit in later runs once the inputs of the node have changed
    #[arg(long, value_name = "POLICY", default_value = "keep")]
    stale: Stale,
    /// Print what would be executed, and change nothing
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    model: ModelOption,
    #[command(flatten)]
    watch: WatchOptions,
    #[command(flatten)]
    metrics: MetricsOption,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Stale {
    /// The edit stays, and is reported as stale
    Keep,
    /// The edit is dropped, and the node executed
    Recompute,
}

impl From<Stale> for StalePolicy {
    fn from(stale: Stale) -> StalePolicy {
        match stale {
            Stale::Keep => StalePolicy::Keep,
            Stale::Recompute => StalePolicy::Recompute,
        }
    }
}

pub(crate) async fn edit(globals: &Globals, args: EditArgs) -> Result<u8, Failure> {
    let globals = &args.model.add_to(globals)?;
    let value = content(&args.file, args.text.as_deref())?;
    if args.dry_run {
        let mut out = Out::new();
        let mut session = Session::open(globals, Path::new("."), AccessMode::Read).await?;
        let printed = print_invoice(&mut session, globals, &args.run, &args.node, &mut out).await;
        session.stop().await;
        return printed.map(|()| code::SUCCEEDED);
    }
    let path = format!("/v1/runs/{}/nodes/{}/edit", path_segment(&args.run), path_segment(&args.node));
    let request = EditRequest { value, if_digest: args.if_digest, stale: args.stale.into() };
    open_and_watch(globals, &path, &request, args.watch, args.metrics).await
}

fn content(file: &Path, field: Option<&str>) -> Result<Value, Failure> {
    let text = read_text(file, CONTENT_BYTES_MAX)
        .map_err(|error| Failure::invalid(format!("{}: {error}", file.display())))?;
    if let Some(field) = field {
        return Ok(json!({ field: text.strip_suffix('\n').unwrap_or(&text) }));
    }
    ostler_kernel::json::parse_value(&text).map_err(|error| {
        Failure::invalid(format!("{}: {error}; with --text the file may be any text", file.display()))
    })
}

/// What a run knows of each node, for the invoice.
#[derive(Debug, Default)]
struct Bill {
    nodes: BTreeMap<String, NodeBill>,
}

#[derive(Debug, Default)]
struct NodeBill {
    deps: Vec<String>,
    acts: bool,
    asks: bool,
    credits: u64,
    tokens: u64,
}

impl View for Bill {
    fn record(&mut self, line: &EventLine, _: &mut Out) {
        let body = &line.body;
        for node in
            [&body["plan"], &body["revision"]].into_iter().flat_map(|plan| plan["nodes"].as_array()).flatten()
        {
            let deps = node["deps"].as_array().into_iter().flatten();
            let bill = self.nodes.entry(node["id"].as_str().unwrap_or_default().to_owned()).or_default();
            bill.deps = deps.filter_map(|dep| dep["n"].as_str().map(str::to_owned)).collect();
            bill.acts = matches!(node["effect"].as_str(), Some("write" | "external"));
            bill.asks = matches!(node["approval"].as_str(), Some("before" | "after"))
                || node["kind"] == "human_approval";
        }
        let Some(bill) = body["node"].as_str().and_then(|node| self.nodes.get_mut(node)) else { return };
        match line.kind.as_str() {
            "attempt_result" => bill.credits += body["cost"].as_u64().unwrap_or(0),
            "model_called" => {
                let tokens = |key: &str| body["call"][key].as_u64().unwrap_or(0);
                bill.tokens += tokens("input_tokens") + tokens("output_tokens");
            }
            _ => {}
        }
    }

    fn has_shown_nodes(&self) -> bool {
        true
    }
}

impl Bill {
    /// The nodes below `node`, in ascending id.
    fn below<'a>(&'a self, node: &'a str) -> Vec<&'a str> {
        let mut below: Vec<&'a str> = vec![node];
        let mut at = 0;
        while at < below.len() {
            let above = below[at];
            let consumers = self.nodes.iter().filter(|(_, bill)| bill.deps.iter().any(|dep| dep == above));
            let new: Vec<&str> =
                consumers.map(|(id, _)| id.as_str()).filter(|id| !below.contains(id)).collect();
            below.extend(new);
            at += 1;
        }
        let mut below = below.split_off(1);
        below.sort_unstable();
        below
    }
}

/// Prints what an edit would execute at most: a result that comes out equal spares what is below it.
async fn print_invoice(
    session: &mut Session,
    globals: &Globals,
    run: &str,
    node: &str,
    out: &mut Out,
) -> Result<(), Failure> {
    let summary: Summary = session.get(&format!("/v1/runs/{}", path_segment(run))).await?;
    let mut bill = Bill::default();
    let mut display = Display { view: &mut bill, prompt: None, output: None, text: None, out };
    let (path, mut after) = (format!("/v1/runs/{}", summary.run), 0);
    let read = stream_events(&session.client, &path, &mut after, "now", &mut display).await;
    read.map_err(|refused| connection_lost(refused, &summary.run))?;
    if !bill.nodes.contains_key(node) {
        return Err(Failure::invalid(format!("run {} has no node {node}", summary.run)));
    }
    let below = bill.below(node);
    let sum = |part: fn(&NodeBill) -> u64| below.iter().map(|id| part(&bill.nodes[*id])).sum::<u64>();
    let which = |is: fn(&NodeBill) -> bool| -> Vec<&str> {
        below.iter().copied().filter(|id| is(&bill.nodes[*id])).collect()
    };
    let (credits, tokens) = (sum(|bill| bill.credits), sum(|bill| bill.tokens));
    let (effects, approvals) = (which(|bill| bill.acts), which(|bill| bill.asks));
    if globals.json {
        out.json(&json!({
            "type": "invoice", "run": summary.run, "node": node, "executes_at_most": below, "credits": credits,
            "tokens": tokens, "effects": effects, "approvals": approvals,
        }));
        return Ok(());
    }
    let named = |nodes: &[&str]| if nodes.is_empty() { "none".to_owned() } else { nodes.join(", ") };
    out.line(format!("executes at most {}: {}", plural(below.len(), "node"), named(&below)));
    out.line(format!("  cost in this run  {credits} credits, {tokens} tokens"));
    out.line(format!("  effects           {}", named(&effects)));
    out.line(format!("  approvals         {}", named(&approvals)));
    Ok(())
}
