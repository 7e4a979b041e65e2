//! Starting attempts: ready nodes in the order of (level, id), as many as there are slots. Who asks first needs none.

use super::Run;
use super::decision::{Decision, DecisionContext};
use super::node_status::NodeStatus;
use crate::agent::OVERSIGHT_WAIT;
use crate::event::{Event, HumanRequest, HumanRequestKind, Timer, TimerKind};
use crate::id::{Digest, NodeId, Ticks};
use crate::plan::Kind;
use crate::run::{NodeState, TransitionReason};

impl Run {
    /// What a person is asked before a node goes on: leave to start, or what a human_approval node is for. `None` if
    /// nobody is asked, or somebody said yes already.
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

    /// What a ready node shows before it goes on: what [`Run::question`] asks, or once more what somebody said yes to,
    /// so that their yes is held against it.
    pub fn shows(&self, node: &NodeId) -> Option<HumanRequestKind> {
        if self.asks_before(self.position(node)?) {
            Some(HumanRequestKind::Before)
        } else {
            self.question(node)
        }
    }

    /// Whether an attempt may do what has the digest `shown`: nobody is asked beforehand, or somebody said yes to
    /// exactly this.
    pub fn is_approved(&self, node: &NodeId, shown: impl FnOnce() -> Digest) -> bool {
        self.position(node).is_some_and(|at| !self.asks_before(at) || self.approves(at, Some(shown())))
    }

    fn approves(&self, at: usize, shown: Option<Digest>) -> bool {
        self.instances[at].approved && self.instances[at].shown.as_deref() == shown.as_ref()
    }

    /// Asks what [`Run::shows`] says of a ready node, and shows what has this digest. Nobody is asked again who said
    /// yes to just that; an approval that was given for something else is void, and asked for anew.
    pub fn ask(&mut self, cx: &mut DecisionContext<'_>, node: &NodeId, shown: Option<Digest>) -> Vec<Event> {
        let shows = self.shows(node);
        let mut decision = Decision::new(self, cx);
        let Some(at) = decision.run.position(node) else { return Vec::new() };
        if decision.run.instances[at].status != NodeStatus::Ready {
            return Vec::new();
        }
        match shows {
            Some(HumanRequestKind::Node) => decision.start(at, shown),
            Some(_) if !decision.run.approves(at, shown) => {
                decision.ask(at, TransitionReason::ApproveBefore, HumanRequestKind::Before, shown);
            }
            Some(_) | None => {}
        }
        decision.events
    }

    /// Asks anew, with a deadline of its own, what a node asks already, if it shows something else by now. The
    /// question before it is closed.
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
        }
        decision.events
    }

    /// How many more attempts the plan's own limit lets run at once.
    pub fn free_slots(&self) -> usize {
        match self.plan.policy.slots {
            0 => usize::MAX,
            slots => (slots as usize).saturating_sub(self.counts.running),
        }
    }

    /// Starts an attempt of a ready node; nothing if it is not ready any more or wants an approval first. With
    /// `sleep_until` the attempt is nothing but a wait, and holds no slot.
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

    /// Looks at the ready nodes once, in the order of (level, id): asks for approvals, and starts as many as there
    /// are slots.
    pub fn dispatch(&mut self, cx: &mut DecisionContext<'_>) -> Vec<Event> {
        let mut decision = Decision::new(self, cx);
        for (_, at) in decision.run.ready.clone() {
            if decision.run.needs_approval(at) {
                decision.ask(at, TransitionReason::ApproveBefore, HumanRequestKind::Before, None);
            } else if decision.run.free_slots() > 0 {
                decision.start(at, None);
            }
        }
        decision.events
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

    /// Asks a person, and shows what has this digest.
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

    /// Silence ends the question after the node's human timeout, or that of oversight where it has none (an attempt in
    /// doubt waits for ever).
    fn request(&mut self, at: usize, kind: HumanRequestKind, shown: Option<Digest>) {
        let wait = self.run.plan.nodes[at].human_timeout.unwrap_or(OVERSIGHT_WAIT);
        let wait = Some(wait).filter(|_| kind != HumanRequestKind::InDoubt);
        let deadline = wait.map(|wait| self.cx.now.saturating_add(wait));
        self.emit(Event::HumanRequest(HumanRequest { node: self.id(at), kind, deadline, shown }));
    }
}
