//! Dispatch: starts attempts of ready nodes in the order of (level, id) while slots are free. Asking a person takes no slot.

use std::sync::Arc;

use serde_json::Value;

use super::Run;
use super::decision::{Decision, DecisionContext};
use super::inputs::resolve;
use super::node_status::NodeStatus;
use crate::agent::OVERSIGHT_WAIT;
use crate::event::{Event, HumanRequest, HumanRequestKind, Timer, TimerKind};
use crate::id::{Digest, NodeId, Ticks};
use crate::json::Json;
use crate::plan::Kind;
use crate::run::{NodeState, TransitionReason};

impl Run {
    /// The question to a person before a node goes on: the approval of its start, or the question of a human_approval node.
    /// `None` if no person has to answer, or one has approved already.
    pub fn question(&self, node: &NodeId) -> Option<HumanRequestKind> {
        let at = self.position(node)?;
        if self.needs_approval(at) {
            Some(HumanRequestKind::Before)
        } else if self.plan.nodes[at].kind == Kind::HumanApproval {
            Some(HumanRequestKind::Node)
        } else {
            None
        }
    }

    /// The question for the approval document of a ready node: the open question ([`Run::question`]), or the approved one
    /// once more, to check that the approval still covers the work.
    pub fn approval_kind(&self, node: &NodeId) -> Option<HumanRequestKind> {
        if self.asks_before(self.position(node)?) {
            Some(HumanRequestKind::Before)
        } else {
            self.question(node)
        }
    }

    /// True if an attempt may do the work of the document with the digest `shown`: no approval is needed, or a person
    /// approved exactly this document.
    pub fn is_approved(&self, node: &NodeId, shown: impl FnOnce() -> Digest) -> bool {
        self.position(node).is_some_and(|at| !self.asks_before(at) || self.approves(at, Some(shown())))
    }

    fn approves(&self, at: usize, shown: Option<Digest>) -> bool {
        self.instances[at].approved && self.instances[at].shown.as_deref() == shown.as_ref()
    }

    /// Asks a person the question of [`Run::approval_kind`] about a ready node; `shown` is the digest of the document. Gives no
    /// records if a person approved this document already. An approval of another document is void: the question is asked again.
    pub fn ask(&mut self, cx: &mut DecisionContext<'_>, node: &NodeId, shown: Option<Digest>) -> Vec<Event> {
        self.ask_unless(cx, node, shown, |run, at| run.approves(at, shown))
    }

    /// [`Run::ask`], also if a person approved this document: the approved attempt could not begin.
    pub fn ask_once_more(
        &mut self,
        cx: &mut DecisionContext<'_>,
        node: &NodeId,
        shown: Option<Digest>,
    ) -> Vec<Event> {
        self.ask_unless(cx, node, shown, |_, _| false)
    }

    fn ask_unless(
        &mut self,
        cx: &mut DecisionContext<'_>,
        node: &NodeId,
        shown: Option<Digest>,
        is_answered: impl FnOnce(&Run, usize) -> bool,
    ) -> Vec<Event> {
        let shows = self.approval_kind(node);
        let mut decision = Decision::new(self, cx);
        let Some(at) = decision.run.position(node) else { return Vec::new() };
        if decision.run.instances[at].status != NodeStatus::Ready {
            return Vec::new();
        }
        match shows {
            Some(HumanRequestKind::Node) => decision.start(at, shown),
            Some(_) if !is_answered(decision.run, at) => {
                decision.ask(at, TransitionReason::ApproveBefore, HumanRequestKind::Before, shown);
            }
            Some(_) | None => {}
        }
        decision.propagate();
        decision.events
    }

    /// Replaces the open question of a node after a change of its document. The new question has its own number and
    /// deadline; the old one is closed.
    pub fn ask_again(
        &mut self,
        cx: &mut DecisionContext<'_>,
        node: &NodeId,
        shown: Option<Digest>,
    ) -> Vec<Event> {
        let mut decision = Decision::new(self, cx);
        if let Some(at) = decision.run.position(node)
            && let NodeStatus::WaitingHuman { ask, .. } = decision.run.instances[at].status
            && matches!(ask, HumanRequestKind::Before | HumanRequestKind::Node)
            && decision.run.instances[at].shown.as_deref() != shown.as_ref()
        {
            decision.request(at, ask, shown);
            decision.propagate();
        }
        decision.events
    }

    /// Attempts that may start now within the plan's own limit on concurrent attempts.
    pub fn free_slots(&self) -> usize {
        match self.plan.policy.slots {
            0 => usize::MAX,
            slots => (slots as usize).saturating_sub(self.counts.running),
        }
    }

    /// Starts an attempt of a ready node. Gives no records if the node is no longer ready or needs an approval first. An attempt
    /// with `sleep_until` only waits until then and holds no slot.
    pub fn start(
        &mut self,
        cx: &mut DecisionContext<'_>,
        node: &NodeId,
        sleep_until: Option<Ticks>,
    ) -> Vec<Event> {
        let mut decision = Decision::new(self, cx);
        if let Some(at) = decision.run.position(node)
            && decision.run.instances[at].status == NodeStatus::Ready
            && !decision.run.needs_approval(at)
        {
            decision.start(at, None);
            if let Some(due) = sleep_until {
                decision.emit(Event::TimerSet(Timer { node: node.clone(), kind: TimerKind::Sleep, at: due }));
            }
        }
        decision.events
    }

    /// Starts an attempt of a ready node whose call the gate denies: no approval could lead to it, so none is asked for. The
    /// caller ends the attempt with the denial.
    pub fn start_denied(&mut self, cx: &mut DecisionContext<'_>, node: &NodeId) -> Vec<Event> {
        let mut decision = Decision::new(self, cx);
        if let Some(at) = decision.run.position(node)
            && decision.run.instances[at].status == NodeStatus::Ready
        {
            decision.start(at, None);
        }
        decision.events
    }

    /// Goes once through the ready nodes in the order of (level, id): asks for approvals, and starts attempts while slots are
    /// free.
    pub fn dispatch(&mut self, cx: &mut DecisionContext<'_>) -> Vec<Event> {
        let mut decision = Decision::new(self, cx);
        for (_, at) in decision.run.ready.clone() {
            if decision.run.needs_approval(at) {
                decision.ask(at, TransitionReason::ApproveBefore, HumanRequestKind::Before, None);
            } else if decision.run.plan.nodes[at].kind == Kind::Wait {
                decision.start_wait(at, decision.run.inputs_resolve(at));
            } else if decision.run.plan.nodes[at].kind == Kind::Collector || decision.run.free_slots() > 0 {
                decision.start(at, None);
            }
        }
        decision.events
    }

    /// Starts a wait, without slot or call. `resolves`: all references of the wait resolve; otherwise the caller ends the
    /// attempt.
    pub fn start_wait(&mut self, cx: &mut DecisionContext<'_>, node: &NodeId, resolves: bool) -> Vec<Event> {
        let mut decision = Decision::new(self, cx);
        if let Some(at) = decision.run.position(node)
            && decision.run.instances[at].status == NodeStatus::Ready
        {
            decision.start_wait(at, resolves);
        }
        decision.events
    }

    /// True if the references of a node resolve against the recorded results.
    fn inputs_resolve(&self, at: usize) -> bool {
        let value = |node: &NodeId| {
            let inline = self.instance(node).and_then(|instance| instance.result()?.inline.as_ref());
            Arc::new(inline.map_or(Value::Null, Json::value))
        };
        resolve(self, &self.plan.nodes[at], &value).is_ok()
    }

    fn needs_approval(&self, at: usize) -> bool {
        self.asks_before(at) && !self.instances[at].approved
    }
}

impl Decision<'_, '_, '_> {
    fn start(&mut self, at: usize, shown: Option<Digest>) {
        let attempt = self.run.instances[at].attempts + 1;
        self.transit(at, NodeState::Running, TransitionReason::Attempt(attempt));
        if self.run.plan.nodes[at].kind == Kind::HumanApproval {
            self.ask(at, TransitionReason::HumanNode, HumanRequestKind::Node, shown);
        }
    }

    fn start_wait(&mut self, at: usize, resolves: bool) {
        self.start(at, None);
        if resolves {
            self.ask(at, TransitionReason::Wait, HumanRequestKind::Wait, None);
        }
    }

    pub(super) fn ask(
        &mut self,
        at: usize,
        reason: TransitionReason,
        kind: HumanRequestKind,
        shown: Option<Digest>,
    ) {
        self.transit(at, NodeState::WaitingHuman, reason);
        self.request(at, kind, shown);
    }

    /// The deadline is the node's human timeout, or [`OVERSIGHT_WAIT`] for a node without one. A question about an attempt in
    /// doubt has no deadline.
    fn request(&mut self, at: usize, kind: HumanRequestKind, shown: Option<Digest>) {
        let node = &self.run.plan.nodes[at];
        let wait = if kind == HumanRequestKind::Wait { node.deadline } else { node.human_timeout };
        let wait = wait.unwrap_or(OVERSIGHT_WAIT);
        let wait = Some(wait).filter(|_| kind != HumanRequestKind::InDoubt);
        let deadline = wait.map(|wait| self.cx.now.saturating_add(wait));
        self.emit(Event::HumanRequest(HumanRequest { node: self.id(at), kind, deadline, shown }));
        self.record_material(at, kind, shown);
        self.carry_approval(at);
    }
}
