//! Overhead of a node that renders a constant in memory, from the run queue through the gate to its record, against bare actors and a
//! task.

use std::sync::Arc;
use std::time::Duration;

use ostler::Ostler;
use ostler::kernel::plan::Plan;

use crate::bare::Bare;
use crate::plans;
use crate::table::{Row, median, ratios};

/// Nodes of a short run.
const NODES: usize = 100;

/// Samples per side.
const ROUNDS: usize = 151;

/// Nodes of a long run, and its samples.
const NODES_MANY: usize = 10_000;
const ROUNDS_MANY: usize = 5;

pub(crate) fn rows() -> Vec<Row> {
    tokio::runtime::Runtime::new().unwrap().block_on(async {
        let (os, bare) = (plans::in_memory().await, Bare::start().await);
        let chain = plans::plan(&os, plans::chain(NODES));
        let fan = plans::plan(&os, plans::fan(NODES));
        let mut pairs = [Vec::new(), Vec::new()];
        for round in 0..=ROUNDS {
            let by_chain =
                (each(plans::run(&os, chain.clone()).await, NODES), each(bare.steps(NODES, 1).await, NODES));
            let by_fan = (
                each(plans::run(&os, fan.clone()).await, NODES + 2),
                each(bare.steps(NODES, NODES).await, NODES),
            );
            if round > 0 {
                pairs[0].push(by_chain);
                pairs[1].push(by_fan);
            }
        }
        let shapes = ["a chain of 100", "1 → 100 → 1"];
        let mut rows: Vec<Row> = shapes
            .iter()
            .zip(&pairs)
            .map(|(shape, pairs)| {
                let [ratio, ours, bare] = ratios(pairs);
                Row::ratio(format!("a text.render in {shape} ÷ three casts and a task"), 2.5, ratio)
                    .note(format!("{ours:.1} µs ÷ {bare:.1} µs"))
            })
            .collect();
        rows.push(growth(&os, "chain", plans::plan(&os, plans::chain(NODES_MANY)), &chain).await);
        rows.push(growth(&os, "fan", plans::plan(&os, plans::fan(NODES_MANY - 2)), &fan).await);
        bare.stop();
        os.shutdown().await;
        rows
    })
}

/// Cost of a node in a long run relative to one in a short run.
async fn growth(os: &Ostler, shape: &str, long: Arc<Plan>, short: &Arc<Plan>) -> Row {
    let mut pairs = Vec::new();
    for _ in 0..ROUNDS_MANY {
        let of_long = each(plans::run(os, long.clone()).await, long.nodes.len());
        let mut of_short = Vec::new();
        for _ in 0..20 {
            of_short.push(each(plans::run(os, short.clone()).await, short.nodes.len()));
        }
        pairs.push((of_long, median(of_short)));
    }
    let [ratio, of_long, of_short] = ratios(&pairs);
    Row::ratio(format!("a node of a {shape} of 10,000 ÷ a node of one of 100"), 1.25, ratio)
        .note(format!("{of_long:.1} µs ÷ {of_short:.1} µs"))
}

/// Microseconds per node.
fn each(all: Duration, nodes: usize) -> f64 {
    all.as_secs_f64() * 1e6 / nodes as f64
}
