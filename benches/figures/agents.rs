//! Memory per agent: with an actor and a run of ten nodes (against a bare actor), and without an actor. Each in a process of its own,
//! by the growth of that process.

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use futures::future::join_all;
use ostler::kernel::gate::{CallClass, Permit};
use ostler::kernel::plan::{Effect, Idempotency};
use ostler::kernel::port::{BoxFuture, CallContext, Tool, ToolResult, ToolSpec};
use ostler::{AgentProfile, Ostler, Submission};
use ractor::{Actor, ActorProcessingErr, ActorRef};
use serde_json::{Map, Value, json};

use crate::memory::resident_mb;
use crate::plans;
use crate::table::{Row, median};

/// Measures bytes per agent in a process with a data folder.
type Measure = fn(&Path) -> f64;

/// Arguments that select a child process.
pub(crate) const CHILDREN: [(&str, Measure); 4] =
    [("--live-agents", live), ("--bare-actors", bare), ("--rows", rows_only), ("--million", million)];

const ROUNDS: usize = 5;
const LIVE: usize = 2_000;
const BARE: usize = 50_000;
const ROWS: usize = 50_000;

/// The maximum number of agents.
const MILLION: usize = 1_000_000;

/// Agents spawned concurrently.
const AT_ONCE: usize = 1_000;

/// Runs submitted concurrently.
const SUBMITTED_AT_ONCE: usize = 20;

pub(crate) fn rows() -> Vec<Row> {
    let measured = |child: &str| {
        let data = plans::folder();
        let out =
            Command::new(std::env::current_exe().unwrap()).arg(child).arg(data.path()).output().unwrap();
        assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
        String::from_utf8(out.stdout).unwrap().trim().parse::<f64>().unwrap()
    };
    let (mut live, mut bare, mut passive) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        live.push(measured(CHILDREN[0].0));
        bare.push(measured(CHILDREN[1].0));
        passive.push(measured(CHILDREN[2].0));
    }
    let begun = Instant::now();
    let million = measured(CHILDREN[3].0) * MILLION as f64 / 1e6;
    let took = begun.elapsed().as_secs_f64();
    let ratio = median(live.iter().zip(&bare).map(|(live, bare)| live / bare));
    let note = format!("{:.0} B ÷ {:.0} B", median(live), median(bare));
    vec![
        Row::ratio("a live agent with a run of ten nodes ÷ a bare actor, memory", 2.5, ratio).note(note),
        Row::ratio("an agent without an actor, memory", 512.0, median(passive)).unit("B"),
        Row::ratio("a million registered agents, each with a profile: more", 1_000.0, million)
            .unit("MB")
            .note(format!("registered in {took:.0} s")),
    ]
}

/// Prints bytes per agent.
pub(crate) fn child(measure: Measure, data: &Path) {
    println!("{}", measure(data));
}

/// Difference in bytes, divided by `count`.
fn each(count: usize, before_mb: f64) -> f64 {
    (resident_mb() - before_mb) * 1e6 / count as f64
}

fn within<T>(work: impl Future<Output = T>) -> T {
    tokio::runtime::Runtime::new().unwrap().block_on(work)
}

/// Occupies the only slot, so that all other runs stay ready and keep their actors.
struct Hold(ToolSpec);

impl Tool for Hold {
    fn spec(&self) -> &ToolSpec {
        &self.0
    }

    fn class(&self, _: &Map<String, Value>) -> CallClass {
        CallClass { impact: 0, effect: Effect::Read, idem: Idempotency::Natural }
    }

    fn call(&self, _: Permit, _: CallContext) -> BoxFuture<'_, ToolResult> {
        Box::pin(std::future::pending())
    }
}

fn live(data: &Path) -> f64 {
    within(async {
        let (name, version, description) = ("hold".to_owned(), "1".to_owned(), "holds".to_owned());
        let any = json!({"type": "object"});
        let hold = Hold(ToolSpec { name, version, description, params: any.clone(), result: any });
        let os = Ostler::builder().data_dir(data).slots(1).tool(hold).start().await.unwrap();
        let nodes: Vec<Value> = (0..10)
            .map(|at| {
                let deps: Vec<String> = (at > 0).then(|| format!("n{}", at - 1)).into_iter().collect();
                json!({"id": format!("n{at}"), "deps": deps, "tool": "hold", "timeout": "1h"})
            })
            .collect();
        let plan = plans::plan(&os, json!({"id": "ten", "nodes": nodes}));
        // The first agents pay for shared structures.
        begin(&os, 0..100, &plan).await;
        let before = resident_mb();
        begin(&os, 100..100 + LIVE, &plan).await;
        let grown = each(LIVE, before);
        os.shutdown().await;
        grown
    })
}

async fn begin(os: &Ostler, numbers: std::ops::Range<usize>, plan: &ostler::kernel::plan::Plan) {
    let all = numbers.end;
    // In small groups, because agents in admission cost more than admitted ones.
    let mut left = numbers.len();
    while left > 0 {
        let some = left.min(SUBMITTED_AT_ONCE);
        join_all((0..some).map(|_| os.submit(Submission::plan(plan.clone())))).await;
        left -= some;
    }
    while os.agents().await.iter().filter(|agent| agent.state == "live").count() < all {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    tokio::time::sleep(Duration::from_millis(500)).await;
}

struct Idle;

impl Actor for Idle {
    type Msg = u64;
    type State = u64;
    type Arguments = ();

    async fn pre_start(&self, _: ActorRef<u64>, (): ()) -> Result<u64, ActorProcessingErr> {
        Ok(0)
    }
}

fn bare(_: &Path) -> f64 {
    within(async {
        let spawn = async |count: usize| {
            let mut actors = Vec::with_capacity(count);
            for _ in 0..count {
                actors.push(Actor::spawn(None, Idle, ()).await.unwrap().0);
            }
            actors
        };
        let some = spawn(100).await;
        let before = resident_mb();
        let actors = spawn(BARE).await;
        tokio::time::sleep(Duration::from_millis(300)).await;
        let grown = each(actors.len(), before);
        drop(some);
        grown
    })
}

/// Registers agents, each after the one a thousand before is durable.
async fn register(os: &Ostler, numbers: std::ops::Range<usize>, profile: fn(usize) -> AgentProfile) {
    for from in numbers.clone().step_by(AT_ONCE) {
        let some = from..numbers.end.min(from + AT_ONCE);
        for spawned in join_all(some.map(|at| os.spawn(profile(at)))).await {
            spawned.unwrap();
        }
    }
}

fn rows_only(data: &Path) -> f64 {
    within(async {
        let os = Ostler::builder().data_dir(data).start().await.unwrap();
        let mute = |at| AgentProfile::new(&format!("agent-{at}"));
        register(&os, 0..1_000, mute).await;
        tokio::time::sleep(Duration::from_millis(500)).await;
        let before = resident_mb();
        register(&os, 1_000..1_000 + ROWS, mute).await;
        tokio::time::sleep(Duration::from_millis(500)).await;
        let grown = each(ROWS, before);
        os.shutdown().await;
        grown
    })
}

/// Registers a million agents with a capability each.
fn million(data: &Path) -> f64 {
    within(async {
        let os = Ostler::builder().data_dir(data).start().await.unwrap();
        tokio::time::sleep(Duration::from_millis(500)).await;
        let before = resident_mb();
        let skilled = |at: usize| {
            AgentProfile::new(&format!("agent-{at}")).capabilities([["search", "review", "write"][at % 3]])
        };
        register(&os, 0..MILLION, skilled).await;
        tokio::time::sleep(Duration::from_millis(500)).await;
        let grown = each(MILLION, before);
        assert_eq!(os.agents().await.len(), MILLION);
        os.shutdown().await;
        grown
    })
}
