//! Starting attempts: conformance rule 3.

use super::Run;
use super::standing::Standing;
use super::turn::{Context, Turn};
use crate::event::{Event, HumanRequest, HumanRequestKind, Timer, TimerKind};
use crate::id::{NodeId, Ticks};
use crate::plan::{Approval, Kind};
use crate::run::{NodeState, Reason};

impl Run {
    /// Asks for the approval that a ready node wants before it starts; nothing if it wants none.
    pub fn ask_approval(&mut self, cx: &mut Context<'_>, node: &NodeId) -> Vec<Event> {
        let mut turn = Turn { run: self, cx, events: Vec::new() };
        if let Some(at) = turn.run.position(node)
            && turn.run.instances[at].standing == Standing::Ready
            && turn.run.needs_approval(at)
        {
            turn.ask(at, Reason::ApproveBefore, HumanRequestKind::Before);
        }
        turn.events
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
    pub fn start(&mut self, cx: &mut Context<'_>, node: &NodeId, sleep_until: Option<Ticks>) -> Vec<Event> {
        let mut turn = Turn { run: self, cx, events: Vec::new() };
        if let Some(at) = turn.run.position(node)
            && turn.run.instances[at].standing == Standing::Ready
            && !turn.run.needs_approval(at)
        {
            turn.start(at);
            if let Some(due) = sleep_until {
                turn.emit(Event::TimerSet(Timer { node: node.clone(), kind: TimerKind::Sleep, at: due }));
            }
        }
        turn.events
    }

    /// Looks at the ready nodes once, in the order of (level, id): asks for approvals, and starts as many as there
    /// are slots.
    pub fn dispatch(&mut self, cx: &mut Context<'_>) -> Vec<Event> {
        let mut turn = Turn { run: self, cx, events: Vec::new() };
        for (_, at) in turn.run.ready.clone() {
            if turn.run.needs_approval(at) {
                turn.ask(at, Reason::ApproveBefore, HumanRequestKind::Before);
            } else if turn.run.free_slots() > 0 {
                turn.start(at);
            }
        }
        turn.events
    }

    fn needs_approval(&self, at: usize) -> bool {
        self.plan.nodes[at].approval == Approval::Before && !self.instances[at].approved
    }
}

impl Turn<'_, '_, '_> {
    fn start(&mut self, at: usize) {
        let attempt = self.run.instances[at].attempts + 1;
        self.transit(at, NodeState::Running, Reason::Attempt(attempt));
        if self.run.plan.nodes[at].kind == Kind::HumanApproval {
            self.ask(at, Reason::HumanNode, HumanRequestKind::Node);
        }
    }

    /// Asks a person; silence ends the request after the node's human timeout (an attempt in doubt waits for
    /// ever).
    pub(super) fn ask(&mut self, at: usize, reason: Reason, kind: HumanRequestKind) {
        self.transit(at, NodeState::WaitingHuman, reason);
        let wait = self.run.plan.nodes[at].human_timeout.filter(|_| kind != HumanRequestKind::InDoubt);
        let deadline = wait.map(|wait| self.cx.now.saturating_add(wait));
        let shown = self.run.instances[at].output.as_ref().map(|output| output.artifact);
        self.emit(Event::HumanRequest(HumanRequest { node: self.id(at), kind, deadline, shown }));
    }
}
