//! The measured workflow: ten sequential steps without work.

use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use ostler::kernel::gate::{CallClass, Permit};
use ostler::kernel::plan::{Effect, Idempotency, Plan, PlanDraft};
use ostler::kernel::port::{BoxFuture, CallContext, Tool, ToolResult, ToolSpec};
use ostler::{Ostler, Submission};
use serde_json::{Map, Value, json};

/// Steps per workflow.
pub(crate) const STEPS: usize = 10;

/// Slots, the maximum number of concurrent workflows.
pub(crate) const SLOTS: u32 = 256;

/// A tool without work, declared as an effect with idempotency keys.
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

/// Kind of a step.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Declared as an effect, so the intent must be durable before the start.
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

/// A folder on the disk of the build; the temporary folder may be in memory.
pub(crate) fn folder() -> tempfile::TempDir {
    tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap()
}

pub(crate) async fn start(data: &Path) -> Ostler {
    Ostler::builder().data_dir(data.join("data")).tool(Act::new()).slots(SLOTS).start().await.unwrap()
}

/// Keeps `at_once` workflows running for `rounds` rounds; returns steps per second.
pub(crate) async fn steps_per_s(os: &Ostler, plan: &Arc<Plan>, at_once: usize, rounds: usize) -> f64 {
    let begun = Instant::now();
    // From runtime tasks, like the bare log.
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
