//! Nodes that need no slot and make no call: collectors and waits. Also loads the results that guards and lists need and that are
//! too large for the journal.

use std::collections::BTreeMap;
use std::sync::Arc;

use ostler_kernel::event::{AttemptResult, Outcome, Output};
use ostler_kernel::id::NodeId;
use ostler_kernel::plan::{Kind, Node};
use ostler_kernel::run::{FailureCategory, NodeState, Run, RunInput};
use serde_json::Value;

use super::driver::RunDriver;
use super::launch::Refusal;
use crate::storage::results::Apart;

/// True if the node takes no slot and makes no call.
pub(super) fn takes_no_slot(run: &Run, node: &NodeId) -> bool {
    run.node(node).is_some_and(|node| matches!(node.kind, Kind::Collector | Kind::Wait))
}

impl RunDriver {
    /// Reads the results that guards and lists wait for. Returns whether any was read.
    pub(super) async fn read_results(&mut self) -> bool {
        let wanted: Vec<(NodeId, Option<Output>)> = self
            .run
            .unread()
            .map(|node| {
                (node.clone(), self.run.instance(node).and_then(|instance| instance.result().cloned()))
            })
            .collect();
        if wanted.is_empty() {
            return false;
        }
        let mut results = Vec::with_capacity(wanted.len());
        for (node, output) in wanted {
            let result = match output {
                None => Ok(Value::Null),
                Some(output) => self.services.results.load(&output).await,
            };
            let result =
                result.map(Arc::new).map_err(|error| format!("the result of {node} cannot be read: {error}"));
            results.push((node, result));
        }
        self.decide(RunInput::ResultsRead(results));
        true
    }

    /// Starts a collector or a wait, or repeats a collector that was lost with its process. `false`: the node is of another kind.
    pub(super) async fn start_without_slot(&mut self, id: &NodeId) -> bool {
        let plan = Arc::clone(self.run.plan());
        let Some(node) = plan.node(id) else { return false };
        match node.kind {
            Kind::Collector => self.collect(node).await,
            Kind::Wait => self.wait(node).await,
            _ => return false,
        }
        true
    }

    async fn collect(&mut self, node: &Node) {
        let state = self.run.instance(&node.id).map(|instance| instance.state());
        if !matches!(state, Some(NodeState::Ready | NodeState::Running)) {
            return; // the node was stopped meanwhile
        }
        if state == Some(NodeState::Ready) {
            let events = self.within(|run, cx| run.start(cx, &node.id, None));
            self.apply_effects(events);
        }
        let attempt = self.run.instance(&node.id).map_or(0, |instance| instance.attempts);
        let items = match self.items(node).await {
            Ok(items) => items,
            Err(Apart::Unreadable(unreadable)) => {
                return self.refuse(&node.id, attempt, Refusal::unreadable(unreadable));
            }
            Err(error @ Apart::TooLarge { .. }) => {
                let refusal = Refusal::Failed(FailureCategory::ResourceExhaustion, error.to_string());
                return self.refuse(&node.id, attempt, refusal);
            }
        };
        let value = self.run.collected(node, &|item| items.get(item).cloned().unwrap_or_default());
        let kept = self.services.results.keep(&value).await;
        let outcome = kept.map_or_else(Outcome::Failed, Outcome::Ok);
        let result = AttemptResult::without_cost(node.id.clone(), attempt, outcome);
        self.decide(RunInput::Result(Box::new(result)));
    }

    async fn items(&mut self, node: &Node) -> Result<BTreeMap<NodeId, Arc<Value>>, Apart> {
        let result = |item| self.run.instance(item).and_then(|instance| instance.result().cloned());
        let ended = node.items().unwrap_or_default().iter().filter_map(|item| Some((item, result(item)?)));
        let ended: Vec<(&NodeId, Output)> = ended.collect();
        let all = ended.iter().map(|(item, output)| (*item, output));
        let results = Arc::clone(&self.services.results);
        let items = results.together(all).await?;
        Ok(items.into_iter().map(|(item, value)| (item, Arc::new(value))).collect())
    }

    /// Begins a wait, and judges the early answers in the order of arrival.
    async fn wait(&mut self, node: &Node) {
        let results = self.services.results.needed(&self.run, node).await.map_err(Refusal::unreadable);
        let resolved = results.and_then(|results| {
            let input = self.run.attempt_input(node, &results, &|_| None);
            input.map_err(|error| Refusal::Failed(error.category(), error.to_string()))
        });
        let events = self.within(|run, cx| run.start_wait(cx, &node.id, resolved.is_ok()));
        self.apply_effects(events);
        if let Err(refusal) = resolved {
            let attempt = self.run.instance(&node.id).map_or(0, |instance| instance.attempts);
            return self.refuse(&node.id, attempt, refusal);
        }
        for _ in 0..self.run.kept_answers(&node.id).len() {
            let Some(kept) = self.run.kept_answers(&node.id).first().cloned() else { break };
            let holds = match self.services.results.load(&kept.output).await {
                Ok(value) => self.services.gatekeeper.broken(&node.contract, &value).is_empty(),
                Err(_) => false,
            };
            self.decide(RunInput::KeptAnswer { node: node.id.clone(), holds });
        }
    }
}
