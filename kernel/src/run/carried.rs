//! Approvals of an earlier run that hold in its repetition: of the same material, and of nothing that leads to an effect ([0059]).
//!
//! [0059]: https://github.com/ostler-os/ostler/blob/main/docs/decisions/0059-an-approval-holds-for-equal-material.md

use std::collections::BTreeMap;

use super::apply::IllegalStep;
use super::decision::Decision;
use super::node_status::{NodeInstance, NodeStatus, RecordedAnswer, RecordedApproval};
use super::repeat::{EarlierApproval, RecomputationCause};
use super::reuse::contract_text;
use super::{NodeState, Run, TransitionReason};
use crate::contract;
use crate::event::{ApprovalCarried, ApprovalKept, ApprovalVoid, Event, HumanRequestKind};
use crate::grant;
use crate::id::{Digest, NodeId, RunId, Ticks};
use crate::lineage;
use crate::plan::{Node, Plan};

impl Run {
    /// Approvals that this run was given of the repeated run.
    pub fn kept_approvals(&self) -> impl Iterator<Item = &ApprovalKept> {
        self.kept_approvals.values().flatten()
    }

    /// The approval that a person gave in the repeated run to a question of this kind.
    pub fn kept_approval(&self, node: &NodeId, kind: HumanRequestKind) -> Option<&ApprovalKept> {
        self.kept_approvals.get(node)?.iter().find(|kept| kept.kind == kind)
    }

    /// The approvals of this run, `from`, for a repetition with `plan`, each with the reason why it is void in any case. `first`: the
    /// nodes that are executed for a cause of their own.
    pub fn approvals_to_keep(
        &self,
        from: RunId,
        plan: &Plan,
        first: &BTreeMap<NodeId, RecomputationCause>,
    ) -> Vec<ApprovalKept> {
        let of_node = |(at, node): (usize, &Node)| {
            let mut found = self.approvals_of(from, &node.id);
            let void = if found.is_empty() { None } else { void(plan, at, first) };
            found.iter_mut().for_each(|kept| kept.void = kept.void.or(void));
            found
        };
        plan.nodes.iter().enumerate().flat_map(of_node).collect()
    }

    /// Worth of the approvals of this run for a node of a repetition with `plan`; `None` without an approval.
    pub(super) fn earlier_approval(
        &self,
        plan: &Plan,
        node: &NodeId,
        first: &BTreeMap<NodeId, RecomputationCause>,
    ) -> Option<EarlierApproval> {
        // The run in which a person answered makes no difference here.
        let approvals = self.approvals_of(RunId::default(), node);
        if approvals.is_empty() {
            return None;
        }
        let at = plan.graph().position(node)?;
        let is_void = approvals.iter().any(|kept| kept.void.is_some()) || void(plan, at, first).is_some();
        let shows_otherwise =
            |known: &Node| approvals.iter().any(|kept| shows_otherwise(kept.kind, known, &plan.nodes[at]));
        let is_other = first.get(node) == Some(&RecomputationCause::OtherTool)
            || self.node(node).is_some_and(shows_otherwise);
        Some(if is_void || is_other { EarlierApproval::Void } else { EarlierApproval::Holds })
    }

    /// The approvals of a node in this run, `from`. An approval that this run was given and did not need is handed on, unless a person
    /// has refused the node since. What was void stays void.
    pub fn approvals_of(&self, from: RunId, node: &NodeId) -> Vec<ApprovalKept> {
        let Some(instance) = self.instance(node) else { return Vec::new() };
        let own = instance.approvals.iter().map(|approval| ApprovalKept {
            node: node.clone(),
            kind: approval.kind,
            material: approval.material,
            shown: approval.shown,
            output: instance.output.clone().filter(|_| approval.kind == HumanRequestKind::After),
            by: approval.by.clone(),
            at: approval.at,
            from: approval.from.unwrap_or(from),
            void: grant::is_author(&approval.by).then_some(ApprovalVoid::Grant),
        });
        let is_new = |kept: &&ApprovalKept| instance.approvals.iter().all(|own| own.kind != kept.kind);
        let handed_on = self.kept_approvals.get(node).into_iter().flatten().filter(is_new).cloned();
        own.chain(handed_on).collect()
    }

    /// Digest of what an approval of a question covers under a policy of the gate: the shown document, and the policy; of a result, also
    /// the work behind it and the contract. `None` if the work is not known.
    pub fn approval_material(
        &self,
        node: &NodeId,
        kind: HumanRequestKind,
        shown: Digest,
        policy: Digest,
    ) -> Option<Digest> {
        let (node, instance) = self.node(node).zip(self.instance(node))?;
        if kind != HumanRequestKind::After {
            return Some(lineage::hash("ostler.approval.1", &[&shown.0, &policy.0]));
        }
        let (work, contract) = (instance.identity?.reuse, contract_text(node));
        let parts: [&[u8]; 4] = [&shown.0, &policy.0, &work.0, contract.as_str().as_bytes()];
        Some(lineage::hash("ostler.approval.1", &parts))
    }

    /// The approval of the repeated run that answers the open question of a node.
    ///
    /// The plan may have grown since the run was opened, and the gate may have held the call because strangers may have chosen its
    /// words.
    fn carried(&self, at: usize) -> Option<&ApprovalKept> {
        let NodeStatus::WaitingHuman { ask, .. } = self.instances[at].status else { return None };
        let kept = self.kept_approval(&self.plan.nodes[at].id, ask)?;
        let holds = kept.void.is_none()
            && self.instances[at].material.as_deref() == Some(&kept.material)
            && !self.instances[at].is_held_by_gate()
            && !leads_to_an_effect(&self.plan, at);
        holds.then_some(kept)
    }

    pub(super) fn apply_carried(&mut self, carried: &ApprovalCarried, at: Ticks) -> Result<(), IllegalStep> {
        let instance = self.instance_mut(&carried.node)?;
        let (request, by) = (instance.requests, carried.by.clone());
        instance.answered = Some(Box::new(RecordedAnswer { request, approve: true, by: by.clone(), at }));
        instance.approve(by, carried.at, Some(carried.from));
        Ok(())
    }
}

impl NodeInstance {
    /// Notes an approval of the open question.
    pub(super) fn approve(&mut self, by: String, at: Ticks, from: Option<RunId>) {
        use HumanRequestKind::{After, Before, Node};
        let NodeStatus::WaitingHuman { ask: kind @ (Before | After | Node), .. } = self.status else {
            return;
        };
        self.approvals.retain(|approval| approval.kind != kind);
        let covers = self.material.as_deref().copied().zip(self.shown.as_deref().copied());
        let approval =
            covers.map(|(material, shown)| RecordedApproval { kind, material, shown, by, at, from });
        self.approvals.extend(approval);
    }
}

impl Decision<'_, '_, '_> {
    /// Records what an approval of the open question covers; nothing in a simulation, which has no policy.
    pub(super) fn record_material(&mut self, at: usize, kind: HumanRequestKind, shown: Option<Digest>) {
        use HumanRequestKind::{After, Before, Node};
        let node = self.id(at);
        let covers =
            shown.zip(self.cx.settings.gate_policy).filter(|_| matches!(kind, Before | After | Node));
        let material =
            covers.and_then(|(shown, policy)| self.run.approval_material(&node, kind, shown, policy));
        if let Some(material) = material {
            self.emit(Event::ApprovalMaterial { node, material });
        }
    }

    /// Answers the open question of a node by an approval of the repeated run, if it covers the same material.
    pub(super) fn carry_approval(&mut self, at: usize) {
        let Some(kept) = self.run.carried(at) else { return };
        let ApprovalKept { node, kind, by, at: when, from, .. } = kept.clone();
        self.emit(Event::ApprovalCarried(Box::new(ApprovalCarried { node, by, at: when, from })));
        match kind {
            HumanRequestKind::Before => self.transit(at, NodeState::Ready, TransitionReason::Approved),
            _ => self.executed(at),
        }
    }
}

/// The reason why an approval of the node does not hold in a repetition, whatever the question shows.
fn void(plan: &Plan, at: usize, first: &BTreeMap<NodeId, RecomputationCause>) -> Option<ApprovalVoid> {
    let cause = |at: usize| first.get(&plan.nodes[at].id).copied();
    let is_withdrawn = |at: usize| cause(at) == Some(RecomputationCause::Withdrawn);
    if leads_to_an_effect(plan, at) {
        Some(ApprovalVoid::Effect)
    } else if is_withdrawn(at) || plan.graph().above(at).into_iter().any(is_withdrawn) {
        Some(ApprovalVoid::Withdrawn)
    } else if cause(at) == Some(RecomputationCause::AskedFor) {
        Some(ApprovalVoid::AskedFor)
    } else {
        None
    }
}

/// True if a question about the node certainly covers something else than before, whatever its inputs are.
fn shows_otherwise(kind: HumanRequestKind, before: &Node, now: &Node) -> bool {
    let work = |node: &Node| (node.kind, node.tool.clone(), node.params.clone());
    let tests = |node: &Node| -> Vec<Vec<String>> {
        contract::tests(&node.contract).into_iter().map(|test| test.argv).collect()
    };
    work(before) != work(now)
        || match kind {
            HumanRequestKind::After => before.contract != now.contract,
            _ => tests(before) != tests(now),
        }
}

/// True if the node or one below it may change the world: whoever approves it approves that too.
fn leads_to_an_effect(plan: &Plan, at: usize) -> bool {
    let below = plan.graph().reached_from(at, |_| true);
    below.into_iter().chain([at]).any(|at| plan.nodes[at].may_change_world())
}
