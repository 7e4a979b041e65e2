//! Identity, invoices, reuse and hashing.

use std::collections::BTreeMap;
use std::hint::black_box;
use std::sync::Arc;
use std::time::{Duration, Instant};

use ostler::kernel::event::ReuseTerms;
use ostler::kernel::json::Object;
use ostler::kernel::lineage::{self, ExecutableSpec, Manifest, Material};
use ostler::kernel::plan::Plan;
use ostler::kernel::run::{Change, OpeningTerms};
use ostler::{Ostler, Submission};
use serde_json::{Map, Value, json};

use crate::plans;
use crate::table::{Row, median};

const ROUNDS: usize = 21;

const REUSED_NODES: usize = 1_000;

const ARTIFACT_BYTES: usize = 256 << 20;

pub(crate) fn rows() -> Vec<Row> {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let mut rows = vec![identity()];
    rows.extend(runtime.block_on(invoices()));
    rows.extend(runtime.block_on(reused()));
    rows.push(hashing());
    rows
}

/// Runs `measured` repeatedly; the middle of the times, in seconds.
fn middle(mut measured: impl FnMut()) -> f64 {
    let time = |_| {
        let begun = Instant::now();
        measured();
        begun.elapsed().as_secs_f64()
    };
    median((0..ROUNDS).map(time))
}

/// Identity of work with literal parameters of 1 KiB and two inputs, which are digests already.
fn identity() -> Row {
    const TIMES: u32 = 10_000;
    let sigma = ExecutableSpec {
        kind: "tool",
        tool: Some("fs.list"),
        tool_version: Some("3"),
        ..ExecutableSpec::default()
    };
    let params: Map<String, Value> =
        Map::from_iter([("path".to_owned(), json!("src")), ("text".to_owned(), json!("x".repeat(1_000)))]);
    let params = Object::from(params);
    let refs = ["criteria", "costs"].map(|name| (name.to_owned(), lineage::hash("t", &[name.as_bytes()])));
    let (refs, receipts) = (BTreeMap::from(refs), BTreeMap::new());
    let seconds = middle(|| {
        for _ in 0..TIMES {
            let material =
                Material { sigma: &sigma, params: &params, refs: &refs, receipts: &receipts, world: None };
            black_box(Manifest::new(black_box(material)).unwrap().reuse());
        }
    });
    Row::ratio("identity of a node with 1 KiB of inputs", 5.0, seconds / f64::from(TIMES) * 1e6).unit("µs")
}

/// The invoice of an edit: what it executes again at most.
async fn invoices() -> Vec<Row> {
    let os = plans::in_memory().await;
    let plan = plans::plan(&os, plans::dense(10_000, 3));
    let executed = os.submit(Submission::plan(Arc::clone(&plan))).await.unwrap();
    assert!(executed.outcome().await.unwrap().is_success());
    let run = os.system().view(executed.id(), None).await.unwrap().run;
    os.shutdown().await;
    let of = |at: usize| {
        let node = &plan.nodes[at].id;
        middle(|| {
            black_box(run.repeat(Change { edited: Some(black_box(node)), ..Change::default() }));
        }) * 1e3
    };
    let (all, tenth) = (of(0), of(plan.nodes.len() - 1_000));
    let figure = "invoice of an edit in 10,000 nodes, all of them below it";
    vec![
        Row::ratio(figure, 20.0, all).unit("ms"),
        Row::ratio("the same with a tenth of them below ÷ a tenth of that", 2.0, tenth / (all / 10.0)),
    ]
}

/// A source, distinct nodes that read its result, and one that waits for all of them; `edit` is a parameter of one node.
fn fan(nodes: usize, edit: u32) -> Value {
    let name = |at: usize| format!("n{at:05}");
    let middle = (1..nodes - 1).map(|at| {
        let edit = if at == 1 { edit } else { 0 };
        json!({
            "id": name(at), "tool": "text.render", "params": {"values": {"at": at, "edit": edit}},
            "param_refs": {"template": {"from": name(0), "path": "text", "template": "{} {{ at }} {{ edit }}"}},
        })
    });
    let source =
        json!({"id": name(0), "tool": "text.render", "params": {"template": "source", "values": {}}});
    let deps: Vec<String> = (1..nodes - 1).map(name).collect();
    let last = json!({"id": name(nodes - 1), "tool": "text.render", "deps": deps, "params": {"template": "end", "values": {}}});
    let all: Vec<Value> = std::iter::once(source).chain(middle).chain([last]).collect();
    json!({"id": "fan", "policy": {"slots": plans::SLOTS}, "nodes": all})
}

async fn run(os: &Ostler, plan: &Arc<Plan>) -> Duration {
    let submission = Submission {
        terms: OpeningTerms { reuse: Some(ReuseTerms::default()), ..OpeningTerms::default() },
        ..Submission::plan(Arc::clone(plan))
    };
    let begun = Instant::now();
    let run = os.submit(submission).await.unwrap();
    assert!(run.outcome().await.unwrap().is_success());
    begun.elapsed()
}

/// Runs in a folder: executed in full, reused in full, and with one edit.
async fn reused() -> Vec<Row> {
    let folder = plans::folder();
    let os = plans::in_folder(folder.path()).await;
    let (mut full, mut reused, mut edited) = (Vec::new(), Vec::new(), Vec::new());
    for round in 0..7 {
        // Another source is another work of every node.
        let mut fresh = fan(REUSED_NODES, 0);
        fresh["nodes"][0]["params"]["template"] = json!(format!("source {round}"));
        let mut edit = fresh.clone();
        edit["nodes"][1]["params"]["values"]["edit"] = json!(1);
        let (fresh, edit) = (plans::plan(&os, fresh), plans::plan(&os, edit));
        full.push(run(&os, &fresh).await.as_secs_f64() * 1e3);
        reused.push(run(&os, &fresh).await.as_secs_f64() * 1e3);
        edited.push(run(&os, &edit).await.as_secs_f64() * 1e3);
    }
    os.shutdown().await;
    let (full, reused, edited) = (median(full), median(reused), median(edited));
    vec![
        Row::ratio("a run of 1,000 nodes, all reused, in a folder", 50.0, reused).unit("ms"),
        Row::ratio("the same ÷ executed in full", None, reused / full).note(format!("{full:.0} ms in full")),
        Row::ratio("the same with one edit ÷ executed in full", None, edited / full),
    ]
}

fn hashing() -> Row {
    let content = vec![7_u8; ARTIFACT_BYTES];
    let seconds = middle(|| {
        black_box(lineage::artifact("text/plain", black_box(&content)));
    });
    let figure = "hashing an artifact of 256 MiB, for each byte";
    let rate = ARTIFACT_BYTES as f64 / seconds / 1e9;
    Row::ratio(figure, 1.0, seconds / ARTIFACT_BYTES as f64 * 1e9).unit("ns").note(format!("{rate:.1} GB/s"))
}
