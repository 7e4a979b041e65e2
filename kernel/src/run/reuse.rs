//! Recorded results in the place of executions.

use super::apply::IllegalStep;
use super::decision::Decision;
use super::intent::executable;
use super::node_status::NodeStatus;
use super::{RefDigests, Run};
use crate::event::{Event, ResultRecorded, ReuseDecided, ReuseDecision, ReuseTerms};
use crate::json::{self, Json, JsonError};
use crate::lineage::{Manifest, Material, Repetition};
use crate::plan::{Approval, Kind, Node};
use crate::run::{NodeState, TransitionReason};

impl Run {
    /// How the run takes part in reuse; `None`: not at all.
    pub fn reuse_terms(&self) -> Option<&ReuseTerms> {
        self.reuse.as_ref()
    }

    /// True if results of the node may be recorded and looked up: the run takes part, the node only computes or asks a model, and no
    /// person has a say in it. The nodes of a goal run follow from each other's answers, so they never do.
    pub fn is_reusable(&self, node: &Node) -> bool {
        let is_watched =
            self.plan.policy.oversight.is_some() || node.asks_after() || node.approval != Approval::None;
        self.reuse.is_some()
            && self.goal.is_none()
            && matches!(node.kind, Kind::Tool | Kind::Model)
            && !is_watched
            && repetition(node).allows_reuse()
    }

    /// What an attempt of the node would work with. `refs` are the digests of [`Run::attempt_input`].
    ///
    /// # Errors
    ///
    /// A parameter without canonical form.
    pub fn manifest(
        &self,
        node: &Node,
        refs: &RefDigests,
        tool_version: Option<&str>,
    ) -> Result<Manifest, JsonError> {
        let sigma = executable(node, tool_version);
        let receipts = self.receipts(node);
        Manifest::new(Material {
            sigma: &sigma,
            params: &node.params,
            refs,
            receipts: &receipts,
            world: None,
        })
    }

    /// The record of the result that the node has just ended with; `None` if the node did not, or its result changes the plan.
    pub fn recorded_result(&self, node: &Node, attempt: u32, manifest: &Manifest) -> Option<Event> {
        let instance = self.instance(&node.id)?;
        let output = instance.output.as_ref().filter(|output| output.directive.is_none())?;
        if instance.status != NodeStatus::Executed || instance.attempts != attempt {
            return None;
        }
        Some(Event::ResultRecorded(Box::new(ResultRecorded {
            node: node.id.clone(),
            attempt,
            reuse: manifest.reuse(),
            manifest: manifest.abridged(),
            contract: contract_text(node),
            output: output.clone(),
        })))
    }

    pub(super) fn apply_reuse(&mut self, decided: &ReuseDecided) -> Result<(), IllegalStep> {
        if let ReuseDecision::Reused(result) = &decided.decision {
            let index = self.find(&decided.node)?;
            self.instances[index].output = Some(result.output.clone());
        }
        Ok(())
    }
}

impl Decision<'_, '_, '_> {
    /// Ends a ready node with a recorded result.
    pub(super) fn reused(&mut self, decided: Box<ReuseDecided>) {
        let Some(at) = self.run.position(&decided.node) else { return };
        let is_ready = self.run.instances[at].status == NodeStatus::Ready;
        if is_ready && matches!(decided.decision, ReuseDecision::Reused(_)) {
            self.emit(Event::ReuseDecided(decided));
            self.transit(at, NodeState::Executed, TransitionReason::Reused);
        }
    }
}

/// What the node declares about repeating its work. No read of a plan names the state of the world that it saw.
pub fn repetition(node: &Node) -> Repetition {
    let class = node.reach();
    Repetition { effect: class.effect, idem: class.idem, reusable: false, has_world: false }
}

/// Canonical text of the node's contract.
pub fn contract_text(node: &Node) -> Json {
    json::to_canonical(&node.contract).expect("the rules of a plan are canonical")
}
