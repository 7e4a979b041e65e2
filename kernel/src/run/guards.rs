//! Effects that no yes of this run covers: a person of another run answered the guard above, or approved another attempt ([0059]).
//!
//! [0059]: https://github.com/ostler-os/ostler/blob/main/docs/decisions/0059-an-approval-holds-for-equal-material.md

use crate::event::{ApprovalKept, ApprovalVoid, Event, Forked, HumanRequestKind};
use crate::id::{Digest, NodeId, RunId, Ticks};
use crate::plan::{Kind, Node, Plan};

use super::node_status::{NodeInstance, NodeStatus, ResolutionKind};
use super::{NodeState, Run};

impl Run {
    /// The `human_approval` nodes above an effect that were answered in another run, in the order of ids. A person is asked before
    /// such an effect: the answer was given for the effects of the other run. Empty for a node that changes nothing.
    pub fn guards_elsewhere(&self, node: &NodeId) -> Vec<NodeId> {
        let Some(at) = self.position(node).filter(|&at| self.is_guarded_effect(at)) else {
            return Vec::new();
        };
        let guards = self.graph.above(at).into_iter().filter(|&at| self.is_answered_elsewhere(at));
        guards.map(|at| self.plan.nodes[at].id.clone()).collect()
    }

    /// True if a person has to be asked before an effect whatever the plan says: a guard above was answered in another run, or the
    /// node was approved for an attempt of the run that this one forks. A person who has the attempt made again has said yes here.
    pub(super) fn lacks_own_yes(&self, at: usize) -> bool {
        let instance = &self.instances[at];
        if instance.asks_again {
            return true;
        }
        let has_answers =
            !(self.kept.is_empty() && self.kept_approvals.is_empty() && self.taken_over.is_empty());
        has_answers
            && self.is_guarded_effect(at)
            && !is_to_be_redone(instance)
            && self.graph.above(at).into_iter().any(|above| self.is_answered_elsewhere(above))
    }

    /// True if an answer above has to be one of this run. An undo takes an effect back that was made, by order of the plan or a person.
    fn is_guarded_effect(&self, at: usize) -> bool {
        let node = &self.plan.nodes[at];
        node.may_change_world() && !node.is_undo()
    }

    fn is_answered_elsewhere(&self, at: usize) -> bool {
        let (node, instance) = (&self.plan.nodes[at], &self.instances[at]);
        node.kind == Kind::HumanApproval
            && instance.status == NodeStatus::Executed
            && (instance.made_in.is_some()
                || instance.approvals.iter().any(|approval| approval.from.is_some())
                || self.taken_over.contains(&node.id))
    }

    /// Keeps the nodes that the other run had answered: guards, and nodes that only later versions of the plan have.
    pub(super) fn apply_fork(&mut self, forked: &Forked) {
        let may_guard = |id: &&NodeId| self.node(id).is_none_or(|node| node.kind == Kind::HumanApproval);
        self.taken_over = forked.done.iter().map(|(node, _)| node).filter(may_guard).cloned().collect();
    }

    /// Guards of an effect of a repetition with `plan` that keep their answer of this run, although the effect is executed.
    pub(super) fn guards_kept(&self, plan: &Plan, at: usize, executed: &[bool]) -> Vec<NodeId> {
        if !plan.nodes[at].may_change_world() {
            return Vec::new();
        }
        let keeps = |&above: &usize| {
            let node = &plan.nodes[above];
            let is_done = || self.instance(&node.id).is_some_and(|it| it.status == NodeStatus::Executed);
            node.kind == Kind::HumanApproval && !executed[above] && is_done()
        };
        let guards = plan.graph().above(at).into_iter().filter(keeps);
        guards.map(|above| plan.nodes[above].id.clone()).collect()
    }

    /// The approval of a guard in this run, `from`, as it stood for an effect below. `shown`: digest of the document of the call that was
    /// made under it. `None` if what was approved is not known.
    pub fn approval_by_guard(
        &self,
        from: RunId,
        guard: &NodeId,
        effect: NodeId,
        shown: Digest,
    ) -> Option<ApprovalKept> {
        let of_guard = self.approvals_of(from, guard);
        let answered = of_guard.into_iter().find(|kept| kept.kind == HumanRequestKind::Node)?;
        let (kind, void) = (HumanRequestKind::Before, Some(ApprovalVoid::Effect));
        Some(ApprovalKept { node: effect, kind, shown, output: None, void, ..answered })
    }

    /// Voids, in a fork of `from`, every yes for an attempt that has not begun by then: the other run has used it, or may use it. Where
    /// the attempt in doubt is to be made again, the word of the person was a yes too. Returns the records, already applied.
    pub fn void_approvals(&mut self, from: RunId, now: Ticks) -> Vec<Event> {
        let void = |(node, instance): (&Node, &NodeInstance)| {
            let is_settled_here = matches!(instance.state(), NodeState::Running | NodeState::WaitingHuman);
            let counts_once = node.may_change_world() || instance.is_held_by_gate();
            let is_allowed = instance.approved || is_to_be_redone(instance) && !instance.asks_again;
            (counts_once && is_allowed && instance.is_live() && !is_settled_here)
                .then(|| void_approval(from, node, instance))
        };
        let void: Vec<Event> = self.instances().filter_map(void).collect();
        for event in &void {
            self.apply(event, now).expect("an approval applies to every node of the plan");
        }
        void
    }

    /// Takes the yes back that a fork has taken over with the records before.
    pub(super) fn apply_kept_approval(&mut self, kept: &ApprovalKept) {
        let is_void_effect = kept.kind == HumanRequestKind::Before && kept.void.is_some();
        if let Some(instance) = self.position(&kept.node).map(|at| &mut self.instances[at])
            && is_void_effect
            && (instance.approved || is_to_be_redone(instance))
        {
            (instance.approved, instance.asks_again) = (false, true);
            instance.approvals.retain(|approval| approval.kind != HumanRequestKind::Before);
        }
        self.kept_approvals.entry(kept.node.clone()).or_default().push(kept.clone());
    }
}

/// True if a person said that the last attempt is made again, and that has not begun.
fn is_to_be_redone(instance: &NodeInstance) -> bool {
    instance.resolved == Some((instance.attempts, ResolutionKind::Redo))
}

/// The yes for the next attempt of a node, void.
fn void_approval(from: RunId, node: &Node, instance: &NodeInstance) -> Event {
    let kind = HumanRequestKind::Before;
    let approval = instance.approvals.iter().find(|approval| approval.kind == kind);
    let answered = instance.answered.as_deref();
    let nothing = Digest([0; 32]);
    let shown = instance.shown.as_deref().copied().unwrap_or(nothing);
    Event::ApprovalKept(Box::new(ApprovalKept {
        node: node.id.clone(),
        kind,
        material: approval.map(|approval| approval.material).unwrap_or(nothing),
        shown: approval.map_or(shown, |approval| approval.shown),
        output: None,
        by: approval.map(|it| &it.by).or(answered.map(|it| &it.by)).cloned().unwrap_or_default(),
        at: approval.map(|it| it.at).or(answered.map(|it| it.at)).unwrap_or_default(),
        from: approval.and_then(|approval| approval.from).unwrap_or(from),
        void: Some(ApprovalVoid::Effect),
    }))
}
