//! Questions about the state of a run.

use std::sync::Arc;

use super::{NodeInstance, NodeStatus, Run, RunOutcome, StateCounts};
use crate::evaluation::{Scores, Target};
use crate::event::{Exposure, Output, RunTerms};
use crate::id::NodeId;
use crate::plan::{Graph, Node, Plan};
use crate::policy::View;
use serde_json::{Value, json};

impl Run {
    /// The current version of the plan.
    pub fn plan(&self) -> &Arc<Plan> {
        &self.plan
    }

    /// The edges of the current version.
    pub fn graph(&self) -> &Arc<Graph> {
        &self.graph
    }

    /// Every node with its instance, in ascending order of ids.
    pub fn instances(&self) -> impl Iterator<Item = (&Node, &NodeInstance)> {
        self.plan.nodes.iter().zip(&self.instances)
    }

    /// The instance of a node; `None` if the current version has no such node.
    pub fn instance(&self, node: &NodeId) -> Option<&NodeInstance> {
        self.position(node).map(|at| &self.instances[at])
    }

    /// A node of the current version.
    pub fn node(&self, node: &NodeId) -> Option<&Node> {
        self.position(node).map(|at| &self.plan.nodes[at])
    }

    /// True if the whole run was cancelled.
    pub fn is_cancelled(&self) -> bool {
        self.cancelled
    }

    /// True if the planner is writing a new version.
    pub fn is_replanning(&self) -> bool {
        self.replan.is_pending
    }

    /// Number of the open request for a patch of the node, from 1; `None` without one.
    pub fn open_patch_request(&self, node: &NodeId) -> Option<u32> {
        let instance = self.instance(node)?;
        let is_open = matches!(instance.status, NodeStatus::FailedRetryable { retry_at: None, .. });
        is_open.then_some(instance.patch_count + 1)
    }

    /// Number of the open replan request, from 1; `None` without one.
    pub fn open_replan_request(&self) -> Option<u32> {
        self.replan.is_pending.then_some(self.replan.asked)
    }

    /// True if `node` runs, and `attempt` is its last attempt. The result of any other attempt is late.
    pub fn is_current(&self, node: &NodeId, attempt: u32) -> bool {
        self.instance(node).is_some_and(|instance| {
            instance.attempts == attempt && matches!(instance.status, NodeStatus::Running { .. })
        })
    }

    /// True if nothing goes on until a person answers.
    pub fn waits_for_person(&self) -> bool {
        self.counts.awaiting == 0 && self.needs_answer()
    }

    /// True if nothing goes on until somebody answers: a person, or the sender of the value of a wait.
    pub fn needs_answer(&self) -> bool {
        let StateCounts { running, sleeping, waiting, awaiting, retryable, .. } = self.counts;
        let is_idle = running + sleeping + retryable == 0 && self.ready.is_empty();
        waiting + awaiting > 0 && is_idle && !self.replan.is_pending
    }

    /// True if waits alone need answers, and no person is asked.
    pub fn needs_values_alone(&self) -> bool {
        self.counts.waiting == 0 && self.needs_answer()
    }

    /// True if the run has started an attempt or asked a person.
    pub fn has_started(&self) -> bool {
        self.instances.iter().any(|instance| instance.attempts + instance.requests > 0)
    }

    /// True if nothing is in flight and a person rejected the last result of a ready node.
    pub fn is_sent_back(&self) -> bool {
        let StateCounts { running, sleeping, waiting, awaiting, retryable, .. } = self.counts;
        let sent_back = |&(_, at): &(u32, usize)| {
            let instance = &self.instances[at];
            let last = instance.answered.as_ref().filter(|answered| answered.request == instance.requests);
            last.is_some_and(|answered| !answered.approve)
        };
        running + sleeping + waiting + awaiting + retryable == 0 && self.ready.iter().any(sent_back)
    }

    /// True if any node waits for a person, to approve or to settle an attempt in doubt, or for a value from outside.
    pub fn has_open_question(&self) -> bool {
        self.counts.waiting + self.counts.awaiting > 0
    }

    /// True if any node is ready for dispatch.
    pub fn has_ready_nodes(&self) -> bool {
        !self.ready.is_empty()
    }

    /// True if an attempt runs, by the records, or the planner is writing a new version.
    pub fn has_work_in_flight(&self) -> bool {
        self.counts.running > 0 || self.replan.is_pending
    }

    /// True if the run waits for timers or people alone: nothing runs, is ready, or is about to be.
    pub fn is_only_waiting(&self) -> bool {
        let StateCounts { running, sleeping, waiting, awaiting, retryable, .. } = self.counts;
        let is_idle = running + retryable == 0 && self.ready.is_empty();
        sleeping + waiting + awaiting > 0 && is_idle && !self.replan.is_pending
    }

    /// True if the next step of the run is a timer (or an answer): nothing runs, is ready, or is being replanned.
    pub fn waits_for_timer(&self) -> bool {
        let StateCounts { running, sleeping, awaiting, retryable, .. } = self.counts;
        let is_idle = running == 0 && self.ready.is_empty();
        sleeping + awaiting + retryable > 0 && is_idle && !self.replan.is_pending
    }

    /// The winner of an any_of node (`$winner` in its references); `None` before a candidate is executed.
    pub fn winner(&self, node: &NodeId) -> Option<&NodeId> {
        let winner = self.joins[self.position(node)?].winner()?;
        Some(&self.plan.nodes[winner].id)
    }

    /// True if the plan's contract was checked for the current version and does not hold.
    pub fn violates_contract(&self) -> bool {
        self.contract == Some((self.plan.version, false))
    }

    /// The results of the executed outputs, in the order of the plan's `outputs`.
    pub fn outputs(&self) -> impl Iterator<Item = (&NodeId, &Output)> {
        self.plan.outputs.iter().filter_map(|id| Some((id, self.instance(id)?.result()?)))
    }

    /// True if every output is executed or absent; true for a plan without outputs.
    pub fn outputs_settled(&self) -> bool {
        let settled =
            |instance: &NodeInstance| instance.status == NodeStatus::Executed || instance.is_guarded_out();
        self.plan.outputs.iter().all(|id| self.instance(id).is_some_and(settled))
    }

    /// Outputs ruled out by guards, in the order of the plan's `outputs`.
    pub fn absent_outputs(&self) -> impl Iterator<Item = &NodeId> {
        self.plan.outputs.iter().filter(|id| self.instance(id).is_some_and(NodeInstance::is_guarded_out))
    }

    /// The result of a collector: the item results in the order of the list, and the indices of unexecuted items. `value`
    /// returns the result of an executed node.
    pub fn collected(&self, node: &Node, value: &dyn Fn(&NodeId) -> Arc<Value>) -> Value {
        let (mut items, mut missing) = (Vec::new(), Vec::new());
        for (at, item) in node.items().unwrap_or_default().iter().enumerate() {
            if self.instance(item).is_some_and(|instance| instance.status == NodeStatus::Executed) {
                items.push((*value(item)).clone());
            } else {
                items.push(Value::Null);
                missing.push(at);
            }
        }
        json!({"items": items, "missing": missing})
    }

    /// The outcome if the run ended now. A goal run succeeds by an answer; any other run by the first that applies of cancelled, succeeded (failed if the plan's contract does not
    /// hold), concluded, failed.
    pub fn outcome(&self) -> RunOutcome {
        if let Some(outcome) = self.undo.outcome {
            outcome
        } else if let Some(view) = View::of(self, 0) {
            view.outcome()
        } else if self.cancelled {
            RunOutcome::Cancelled
        } else if self.outputs_settled() {
            match self.contract {
                Some((_, false)) => RunOutcome::Failed,
                Some((_, true)) | None => RunOutcome::Succeeded,
            }
        } else if self.concluded {
            RunOutcome::Concluded
        } else {
            RunOutcome::Failed
        }
    }

    /// Credits that the attempts cost so far, late ones included.
    pub fn cost(&self) -> u64 {
        self.tally.cost()
    }

    /// Scores of the run from its records. `None` without an ended attempt, for a cancelled run, and for a goal run that
    /// failed before the first step of its plan.
    pub fn scores(&self, target: &Target) -> Option<Scores> {
        if self.cancelled || View::of(self, 0).is_some_and(View::did_nothing) {
            return None;
        }
        let patched: u64 = self.instances.iter().map(|instance| u64::from(instance.patch_count)).sum();
        let patches: u64 = self.plan.nodes.iter().map(|node| u64::try_from(node.patches).unwrap_or(0)).sum();
        let revisions_max = patches + u64::from(self.plan.policy.max_replans);
        self.tally.scores(patched + u64::from(self.replan.accepted), revisions_max, target)
    }

    /// What the caller of the run had read.
    pub fn exposure(&self) -> &Exposure {
        &self.exposure
    }

    /// Descriptions of nodes under which attempts began, before later versions of the plan replaced them. What those attempts read and
    /// wrote stays read and written.
    pub fn replaced(&self) -> &[Node] {
        &self.replaced
    }

    /// Budget and parent of the run.
    pub fn terms(&self) -> &RunTerms {
        &self.terms
    }
}
