//! Which steps a person is asked about: those that the plan says, and those that the oversight of the run adds.

use super::Run;
use super::decision::Decision;
use super::intent::GENERATION;
use super::node_status::NodeStatus;
use crate::agent::{RequestKind, spot_draw};
use crate::plan::{Approval, Kind};

/// The impact of a step that controls something.
const CONTROLS: u8 = 2;

impl Run {
    /// Whether a person is asked before a node acts: its plan says so, or it is about to control something and the run is
    /// watched.
    pub(super) fn asks_before(&self, at: usize) -> bool {
        let node = &self.plan.nodes[at];
        let escalates = self.plan.policy.oversight.is_some() && node.reach().impact >= CONTROLS;
        node.approval == Approval::Before || escalates
    }
}

impl Decision<'_, '_, '_> {
    /// Whether a person is asked before a result is used: the plan says so, oversight does, or the result itself is `unsure`
    /// and the run is watched. A wait has no result to look at.
    pub(super) fn asks_after(&self, at: usize, unsure: bool) -> bool {
        let node = &self.run.plan.nodes[at];
        if node.approval == Approval::After {
            return true;
        }
        let Some(oversight) = self.run.plan.policy.oversight else { return false };
        let works = match node.kind {
            Kind::Tool | Kind::Model | Kind::SubAgent => true,
            Kind::Reflection
            | Kind::Observer
            | Kind::MicroPlanner
            | Kind::Interjection
            | Kind::Aggregator
            | Kind::HumanApproval => false,
        };
        let waited =
            matches!(self.run.instances[at].status, NodeStatus::Running { sleep_until: Some(_), .. });
        let kind = if unsure { RequestKind::Escalation } else { RequestKind::Checkpoint };
        works && !waited && oversight.asks(kind, spot_draw(self.cx.run_id, &node.id, GENERATION.into()))
    }
}
