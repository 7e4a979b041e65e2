//! Memory of a run of 10,000 nodes that wait for an answer from outside: cargo bench --bench waits
//!
//! Counts allocated bytes, so the figure does not depend on what the allocator or the system keeps back. The records of the run are a
//! part of it in memory; in a folder they are on the disk.
#![allow(missing_docs, reason = "a program")]
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a program that measures, prints, and stops at the first error"
)]

use std::sync::Arc;
use std::time::Duration;

use ostler::kernel::plan::{Plan, PlanDraft};
use ostler::kernel::run::RunStatus;
use ostler::{Ostler, Submission};
use peak_alloc::PeakAlloc;
use serde_json::{Value, json};

#[global_allocator]
static HEAP: PeakAlloc = PeakAlloc;

const WAITS: usize = 10_000;

/// Within this time a run that only waits has given up its actor.
const AT_REST: Duration = Duration::from_secs(3);

fn main() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    println!("{WAITS} nodes that wait, in allocated megabytes\n");
    println!("| records | the plan alone | waiting, more | at rest, more |\n|---|---|---|---|");
    for (name, builder) in [
        ("in memory", Ostler::builder().memory()),
        ("in a folder", Ostler::builder().data_dir(folder.path())),
    ] {
        runtime.block_on(async {
            let os = builder.start().await.unwrap();
            // What is made once is there afterwards.
            wait(&os, plan(&os, 10)).await;
            let before = HEAP.current_usage();
            let plan = plan(&os, WAITS);
            let planned = HEAP.current_usage();
            wait(&os, Arc::clone(&plan)).await;
            let waiting = HEAP.current_usage();
            tokio::time::sleep(AT_REST).await;
            let at_rest = HEAP.current_usage();
            let more = |now: usize, then: usize| (now as f64 - then as f64) / 1e6;
            println!(
                "| {name} | {:.2} | {:.2} | {:.2} |",
                more(planned, before),
                more(waiting, planned),
                more(at_rest, planned)
            );
            drop(plan);
            os.shutdown().await;
        });
    }
}

fn plan(os: &Ostler, waits: usize) -> Arc<Plan> {
    let node = |at: usize| json!({"id": format!("w{at}"), "kind": "wait", "deadline": "1h"});
    let nodes: Vec<Value> = (0..waits).map(node).collect();
    let source = json!({"id": "waits", "policy": {"max_nodes": WAITS + 10}, "nodes": nodes});
    let draft: PlanDraft = serde_json::from_value(source).unwrap();
    Arc::new(os.plan(draft).unwrap())
}

/// Submits the plan; returns when every node waits.
async fn wait(os: &Ostler, plan: Arc<Plan>) {
    let run = os.submit(Submission::plan(plan)).await.unwrap();
    assert_eq!(run.outcome().await.unwrap(), RunStatus::Waiting);
}
