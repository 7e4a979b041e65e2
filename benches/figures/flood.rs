//! One client floods the system, another of equal weight arrives with little work: wait of its steps against the wait without the
//! flood, and its share of the slots while it has work.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use ostler::kernel::gate::{CallClass, Permit};
use ostler::kernel::plan::{Effect, Idempotency};
use ostler::kernel::port::{BoxFuture, CallContext, Tool, ToolResult, ToolSpec};
use ostler::{Ostler, Run, Submission};
use serde_json::{Map, Value, json};

use crate::plans;
use crate::table::{Row, median, ratios};

/// Slots, and duration of an attempt.
const SLOTS: u32 = 4;
const WORK: Duration = Duration::from_millis(5);

/// Steps of the newcomer and of each flooding run, and number of flooding runs: a hundred steps for one.
const STEPS: usize = 100;
const STEPS_OF_FLOOD: usize = 400;
const RUNS_OF_FLOOD: usize = 25;

/// Samples per figure.
const ROUNDS: usize = 7;

pub(crate) fn rows() -> Vec<Row> {
    tokio::runtime::Runtime::new().unwrap().block_on(async {
        let (mut waits, mut shares) = (Vec::new(), Vec::new());
        for _ in 0..ROUNDS {
            let alone = sample(0).await;
            let flooded = sample(RUNS_OF_FLOOD).await;
            waits.push((flooded.wait, alone.wait));
            shares.push(flooded.share);
        }
        let [ratio, flooded, alone] = ratios(&waits);
        let share = median(shares.iter().copied());
        let (least, most) = shares
            .iter()
            .fold((1.0, 0.0), |(least, most), share| (f64::min(least, *share), f64::max(most, *share)));
        vec![
            Row::ratio("wait for a slot beside a flood of 100 to 1 ÷ the wait alone", 3.0, ratio)
                .note(format!("{flooded:.1} ms ÷ {alone:.1} ms, {STEPS} steps of 5 ms, {SLOTS} slots")),
            Row::ratio(
                "the same: how far its share is from its entitlement",
                0.05,
                (share - 0.5).abs() / 0.5,
            )
            .note(format!("a share of {share:.3} ({least:.3} to {most:.3}), entitled to 0.5")),
        ]
    })
}

/// Measurements of a newcomer.
struct Met {
    /// Median milliseconds from submission to the start of a step.
    wait: f64,
    /// Share of the steps started while the newcomer had waiting steps.
    share: f64,
}

async fn sample(runs_of_flood: usize) -> Met {
    let started = Arc::new(Mutex::new(Vec::new()));
    let work = Work::new(Arc::clone(&started));
    let os = Ostler::builder().memory().slots(SLOTS).tool(work).start().await.unwrap();
    for _ in 0..runs_of_flood {
        submit(&os, "flood", STEPS_OF_FLOOD).await;
    }
    let flood = runs_of_flood * STEPS_OF_FLOOD;
    while os.system().queue().await.is_none_or(|queue| queue.queued + u64::from(SLOTS) + 100 < flood as u64) {
        tokio::task::yield_now().await;
    }
    let begun = Instant::now();
    let run = submit(&os, "late", STEPS).await;
    assert!(run.outcome().await.unwrap().is_success());
    let started = std::mem::take(&mut *started.lock().unwrap());
    let late: Vec<Instant> = started.iter().filter(|(_, late)| *late).map(|(at, _)| *at).collect();
    let (first, last) = (late[0], late[STEPS - 1]);
    let meanwhile = started.iter().filter(|(at, _)| *at >= first && *at <= last).count();
    let waits = late.iter().map(|at| at.duration_since(begun).as_secs_f64() * 1e3);
    os.shutdown().await;
    Met { wait: median(waits), share: STEPS as f64 / meanwhile as f64 }
}

async fn submit(os: &Ostler, client: &str, steps: usize) -> Run {
    let node =
        |at: usize| json!({"id": format!("n{at}"), "tool": "work", "params": {"late": client == "late"}});
    let nodes: Vec<Value> = (0..steps).map(node).collect();
    let plan = plans::plan(os, json!({"id": client, "policy": {"slots": steps}, "nodes": nodes}));
    os.submit(Submission { client: client.into(), ..Submission::plan(plan) }).await.unwrap()
}

/// Takes a while, and records start time and client.
struct Work {
    spec: ToolSpec,
    started: Arc<Mutex<Vec<(Instant, bool)>>>,
}

impl Work {
    fn new(started: Arc<Mutex<Vec<(Instant, bool)>>>) -> Work {
        let spec = ToolSpec {
            name: "work".into(),
            version: "1".into(),
            description: "Take a while.".into(),
            params: json!({"type": "object", "properties": {"late": {"type": "boolean"}}}),
            result: json!({"type": "object"}),
        };
        Work { spec, started }
    }
}

impl Tool for Work {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn class(&self, _params: &Map<String, Value>) -> CallClass {
        CallClass { impact: 0, effect: Effect::None, idem: Idempotency::Natural }
    }

    fn call(&self, permit: Permit, _context: CallContext) -> BoxFuture<'_, ToolResult> {
        Box::pin(async move {
            let late = permit.params()["late"] == true;
            self.started.lock().unwrap().push((Instant::now(), late));
            tokio::time::sleep(WORK).await;
            Ok(json!({}))
        })
    }
}
