//! Approvals by the plan, and by the oversight mode of the run.

use super::Run;
use super::decision::Decision;
use super::intent::GENERATION;
use super::node_status::NodeStatus;
use crate::agent::{RequestKind, spot_draw};
use crate::plan::{Approval, Kind};

/// Impact from which a step escalates: 2, control.
pub(super) const CONTROLS: u8 = 2;

impl Run {
    /// True if a person must approve a node before the node acts: the plan asks for an approval, the run has an oversight
    /// mode and the node's impact escalates, the gate held the call, or no yes of this run covers the effect.
    pub(super) fn asks_before(&self, at: usize) -> bool {
        let node = &self.plan.nodes[at];
        let escalates = self.plan.policy.oversight.is_some() && node.reach().impact >= CONTROLS;
        node.approval == Approval::Before
            || escalates
            || self.instances[at].is_held_by_gate()
            || self.lacks_own_yes(at)
    }
}

impl Decision<'_, '_, '_> {
    /// True for an opening node that asks for no work: a person confirms a plan, and this is none.
    fn only_says(&self, at: usize) -> bool {
        let (Some(goal), Some(output)) = (self.run.goal(), &self.run.instances[at].output) else {
            return false;
        };
        output.inline.as_ref().is_some_and(|result| goal.only_says(&self.run.plan.nodes[at].id, result))
    }

    /// True if a person has to approve a result before it is published: the plan asks for an approval or judges the result by
    /// a person, or the oversight mode does
    /// (`unsure` results escalate). Results of control nodes and of waits need none.
    pub(super) fn asks_after(&self, at: usize, unsure: bool) -> bool {
        let node = &self.run.plan.nodes[at];
        if node.asks_after() {
            return !self.only_says(at);
        }
        let Some(oversight) = self.run.plan.policy.oversight else { return false };
        let works = match node.kind {
            Kind::Tool | Kind::Model | Kind::SubAgent => true,
            Kind::Reflection
            | Kind::Observer
            | Kind::MicroPlanner
            | Kind::Interjection
            | Kind::Aggregator
            | Kind::HumanApproval
            | Kind::Wait
            | Kind::Collector
            | Kind::Earlier => false,
        };
        let waited =
            matches!(self.run.instances[at].status, NodeStatus::Running { sleep_until: Some(_), .. });
        let kind = if unsure { RequestKind::Escalation } else { RequestKind::Checkpoint };
        works && !waited && oversight.asks(kind, spot_draw(self.cx.run_id, &node.id, GENERATION.into()))
    }
}
