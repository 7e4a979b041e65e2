//! Recorded results in the place of executions.

use serde_json::{Map, Value};

use super::apply::IllegalStep;
use super::decision::Decision;
use super::intent::executable;
use super::node_status::{NodeStatus, WorkIdentity};
use super::{RefDigests, Run};
use crate::event::{
    ArtifactEdited, Event, ResultKept, ResultRecorded, ReuseDecided, ReuseDecision, ReuseTerms,
};
use crate::id::{Digest, NodeId};
use crate::json::{self, Json, JsonError};
use crate::lineage::{Manifest, Material, Repetition, StalePolicy};
use crate::plan::{Approval, Effect, Freshness, Kind, Node, Plan};
use crate::run::{NodeState, TransitionReason};

impl Run {
    /// Terms of reuse; `None` if the run takes no part in reuse.
    pub fn reuse_terms(&self) -> Option<&ReuseTerms> {
        self.reuse.as_ref()
    }

    /// True if a recorded result may stand in for the node: its results are recorded, and no source has to be asked first.
    pub fn is_reusable(&self, node: &Node) -> bool {
        self.is_reusable_in(&self.plan, node)
    }

    /// The same for a node of a plan that takes the place of the run's.
    pub(super) fn is_reusable_in(&self, plan: &Plan, node: &Node) -> bool {
        self.is_recorded_in(plan, node) && repetition(node).allows_reuse()
    }

    /// True if results of the node are recorded: the run takes part in reuse, the node only computes, asks a model, or reads
    /// under a policy of freshness, and no person decides about the node. Nodes of a goal run are never recorded, because each
    /// follows from earlier answers.
    pub fn is_recorded(&self, node: &Node) -> bool {
        self.is_recorded_in(&self.plan, node)
    }

    fn is_recorded_in(&self, plan: &Plan, node: &Node) -> bool {
        let is_read = node.reach().effect == Effect::Read && node.fresh.is_recorded();
        let is_watched =
            plan.policy.oversight.is_some() || node.asks_after() || node.approval != Approval::None;
        self.reuse.is_some()
            && self.goal.is_none()
            && matches!(node.kind, Kind::Tool | Kind::Model)
            && !is_watched
            && (is_read || repetition(node).allows_reuse())
    }

    /// True if a node above may have changed the world in this run: a read recorded earlier does not tell what it did.
    pub fn follows_an_effect(&self, node: &Node) -> bool {
        let Some(at) = self.position(&node.id) else { return false };
        self.graph.above(at).into_iter().any(|above| {
            let instance = &self.instances[above];
            instance.attempts > 0 && instance.was_sent && self.plan.nodes[above].acts()
        })
    }

    /// Manifest of the work of an attempt in a workspace. `refs` are the digests of [`Run::attempt_input`].
    ///
    /// # Errors
    ///
    /// A parameter without canonical form.
    pub fn manifest(
        &self,
        node: &Node,
        refs: &RefDigests,
        tool_version: Option<&str>,
        workspace: &str,
    ) -> Result<Manifest, JsonError> {
        let sigma = executable(node, tool_version);
        let receipts = self.receipts(node);
        // The same path is another file in another workspace.
        let world = node.fresh.is_recorded().then(|| format!("{RECORDED} {workspace}"));
        Manifest::new(Material {
            sigma: &sigma,
            params: &node.params,
            refs,
            receipts: &receipts,
            world: world.as_deref(),
        })
    }

    /// The inputs of the node among the resolved parameters of its call: name, and value as received.
    pub fn inputs_in<'a>(&self, node: &'a Node, params: &'a Map<String, Value>) -> Vec<(&'a str, &'a Value)> {
        let references = node.param_refs.keys().filter_map(|name| Some((name.as_str(), params.get(name)?)));
        let results = params.get("values").filter(|_| node.calls_model()).and_then(Value::as_object);
        let read = node.deps.iter().filter_map(|dep| {
            let value = results?.get(dep.n.as_str())?.get("result")?;
            Some((dep.n.as_str(), value))
        });
        references.chain(read).collect()
    }

    /// Record of the result with which the node has just ended; `None` if the node did not end with a result, or if the
    /// result changes the plan. `reuse` is the identity of the work, `manifest` the abridged manifest.
    pub fn recorded_result(
        &self,
        node: &Node,
        attempt: u32,
        reuse: Digest,
        manifest: Manifest,
    ) -> Option<Event> {
        let instance = self.instance(&node.id)?;
        let output = instance.output.as_ref().filter(|output| output.directive.is_none())?;
        if instance.status != NodeStatus::Executed || instance.attempts != attempt {
            return None;
        }
        Some(Event::ResultRecorded(Box::new(ResultRecorded {
            node: node.id.clone(),
            attempt,
            reuse,
            manifest,
            contract: contract_text(node),
            output: output.clone(),
        })))
    }

    /// Artifacts of people in place of results.
    pub fn edits(&self) -> impl Iterator<Item = &ArtifactEdited> {
        self.edits.values()
    }

    /// A person's artifact in the place of the node's result.
    pub fn edit_of(&self, node: &NodeId) -> Option<&ArtifactEdited> {
        self.edits.get(node)
    }

    /// The same, unless this run has dropped it because the inputs of the node had changed: a repetition does not bring it back.
    pub(super) fn standing_edit(&self, node: &NodeId) -> Option<&ArtifactEdited> {
        let is_dropped = |edit: &ArtifactEdited| {
            let has_result = self.instance(node).is_some_and(|instance| instance.result().is_some());
            edit.stale == StalePolicy::Recompute && has_result && !self.is_edited(node)
        };
        self.edit_of(node).filter(|edit| !is_dropped(edit))
    }

    /// Results of earlier runs that this run keeps.
    pub fn kept_results(&self) -> impl Iterator<Item = &ResultKept> {
        self.kept.values()
    }

    /// The result that the node had in the repeated run, if the node keeps the result.
    pub fn kept_result(&self, node: &NodeId) -> Option<&ResultKept> {
        self.kept.get(node)
    }

    /// True unless the node keeps a result other than `artifact`: a newer record of the same work does not take its place.
    pub fn is_kept_as(&self, node: &NodeId, artifact: Digest) -> bool {
        let kept = self.kept.get(node).and_then(|kept| kept.output.as_ref());
        kept.is_none_or(|kept| kept.artifact == artifact)
    }

    /// Identity of the work behind a kept result; `None` if it is unknown.
    pub fn kept_work(&self, node: &NodeId) -> Option<WorkIdentity> {
        self.kept_works.get(node).copied()
    }

    pub(super) fn apply_reuse(&mut self, decided: &ReuseDecided) -> Result<(), IllegalStep> {
        let output = match &decided.decision {
            ReuseDecision::Reused(result) => Some(&result.output),
            ReuseDecision::Edited { output, .. } => Some(output),
            ReuseDecision::Kept { output, .. } => output.as_ref(),
            ReuseDecision::Recomputed(_) => return Ok(()),
        };
        let index = self.find(&decided.node)?;
        let kept = self.kept_works.get(&decided.node);
        let identity = match decided.decision {
            ReuseDecision::Kept { .. } => kept.copied(),
            // No receipt depends on this key, because acting nodes are never reused.
            _ => decided.reuse.map(|reuse| WorkIdentity { reuse, idempotency_key: reuse }),
        };
        let made_in = match &decided.decision {
            ReuseDecision::Reused(result) => Some(result.from.run),
            ReuseDecision::Kept { from, .. } => Some(*from),
            ReuseDecision::Edited { .. } | ReuseDecision::Recomputed(_) => None,
        };
        let instance = &mut self.instances[index];
        (instance.output, instance.identity, instance.made_in) = (output.cloned(), identity, made_in);
        Ok(())
    }
}

impl Decision<'_, '_, '_> {
    /// Ends a ready node with a recorded result, or a person's artifact.
    pub(super) fn reused(&mut self, decided: Box<ReuseDecided>) {
        let Some(at) = self.run.position(&decided.node) else { return };
        let reason = match decided.decision {
            ReuseDecision::Reused(_) | ReuseDecision::Kept { .. } => TransitionReason::Reused,
            ReuseDecision::Edited { .. } => TransitionReason::Edited,
            ReuseDecision::Recomputed(_) => return,
        };
        if self.run.instances[at].status == NodeStatus::Ready {
            self.emit(Event::ReuseDecided(decided));
            self.transit(at, NodeState::Executed, reason);
            let output = self.run.instances[at].output.as_ref();
            let directive = output.and_then(|output| output.directive.as_ref());
            if directive.is_some_and(|directive| directive.conclude) {
                self.stop_for_conclusion(at);
            }
        }
    }
}

/// World token of all recorded reads. Their policies bound the age of the record instead ([0053]).
///
/// [0053]: https://github.com/ostler-os/ostler/blob/main/docs/decisions/0053-freshness-bounds-the-age-of-a-read.md
const RECORDED: &str = "recorded";

/// The node's declarations about repeating its work.
pub fn repetition(node: &Node) -> Repetition {
    let class = node.reach();
    let age_max = match node.fresh {
        Freshness::Within(most) => Some(most),
        Freshness::Always | Freshness::Never | Freshness::Etag => None,
    };
    let has_world = node.fresh.allows_reuse();
    Repetition { effect: class.effect, idem: class.idem, reusable: false, has_world, age_max }
}

/// Canonical text of the node's contract.
pub fn contract_text(node: &Node) -> Json {
    json::to_canonical(&node.contract).expect("the rules of a plan are canonical")
}
