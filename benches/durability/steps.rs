//! The workflow that is measured: ten steps, one after the other, each of which does nothing.

use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use ostler::kernel::gate::{CallClass, Permit};
use ostler::kernel::plan::{Effect, Idempotency, Plan, PlanDraft};
use ostler::kernel::port::{BoxFuture, CallContext, Tool, ToolResult, ToolSpec};
use ostler::{Ostler, Submission};
use serde_json::{Map, Value, json};

/// Steps of a workflow.
pub(crate) const STEPS: usize = 10;

/// Attempts at once: as many as workflows are under way at most.
pub(crate) const SLOTS: u32 = 256;

/// A tool that does nothing; by its word it acts on the world, and knows a repeated call by its key.
pub(crate) struct Act(ToolSpec);

impl Act {
    pub(crate) fn new() -> Act {
        let [any, object] = [json!({"type": "object"}), json!({"type": "object"})];
        let (name, version, description) = ("act".to_owned(), "1".to_owned(), "acts".to_owned());
        Act(ToolSpec { name, version, description, params: any, result: object })
    }
}

impl Tool for Act {
    fn spec(&self) -> &ToolSpec {
        &self.0
    }

    fn class(&self, _: &Map<String, Value>) -> CallClass {
        CallClass { impact: 1, effect: Effect::External, idem: Idempotency::Keyed }
    }

    fn call(&self, _: Permit, _: CallContext) -> BoxFuture<'_, ToolResult> {
        Box::pin(async { Ok(json!({"done": true})) })
    }
}

/// What a step does.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Acts on the world, by its word: its intent is durable before it starts.
    Effectful,
    /// Renders a constant.
    Pure,
}

pub(crate) fn plan(os: &Ostler, kind: Kind) -> Arc<Plan> {
    let nodes: Vec<Value> = (0..STEPS)
        .map(|at| {
            let deps: Vec<String> =
                at.checked_sub(1).map(|before| format!("s{before}")).into_iter().collect();
            let (tool, params) = match kind {
                Kind::Effectful => ("act", json!({})),
                Kind::Pure => ("text.render", json!({"template": "constant", "values": {}})),
            };
            json!({"id": format!("s{at}"), "tool": tool, "params": params, "deps": deps})
        })
        .collect();
    let draft: PlanDraft = serde_json::from_value(json!({"id": "steps", "nodes": nodes})).unwrap();
    Arc::new(os.plan(draft).unwrap())
}

/// A folder on the disk that is built on: a folder for temporary files may be in memory.
pub(crate) fn folder() -> tempfile::TempDir {
    tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap()
}

pub(crate) async fn start(data: &Path) -> Ostler {
    Ostler::builder().data_dir(data.join("data")).tool(Act::new()).slots(SLOTS).start().await.unwrap()
}

/// Runs so many workflows at once, each followed by another until there were `rounds` of them; gives steps per second.
pub(crate) async fn steps_per_s(os: &Ostler, plan: &Arc<Plan>, at_once: usize, rounds: usize) -> f64 {
    let begun = Instant::now();
    // From tasks of the runtime, as those of the bare log are.
    let tasks: Vec<_> = (0..at_once)
        .map(|_| {
            let (os, plan) = (os.clone(), plan.clone());
            tokio::spawn(async move {
                for _ in 0..rounds {
                    let run = os.submit(Submission::plan(plan.clone())).await.unwrap();
                    assert!(run.outcome().await.unwrap().is_success());
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
    (at_once * rounds * STEPS) as f64 / begun.elapsed().as_secs_f64()
}
