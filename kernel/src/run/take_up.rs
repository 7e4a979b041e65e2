//! Taking a run up again, after the process that drove it or its actor has died; or ending it without.

use super::turn::{Context, Turn};
use super::{Canceller, Input, NodeState, Operation, Quiet, Run, Standing};
use crate::event::Event;
use crate::id::NodeId;

/// Times that a run may take its process down with it, without any progress between, before it is set aside.
pub const RECOVERIES_MAX: u32 = 3;

/// What happened to a run that is taken up, besides what its own records tell.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Since {
    /// It had been set aside.
    pub was_parked: bool,
    /// Somebody asked for this very run, so it is tried however often it failed before.
    pub by_name: bool,
    /// An attempt that did not live to its end noted that it had got further, after the run was taken up last.
    pub got_on: bool,
}

/// How a run is taken up.
#[derive(Debug, Clone, PartialEq)]
#[must_use]
pub enum TakenUp {
    /// It goes on.
    GoesOn {
        /// The records that follow; they have taken effect.
        events: Vec<Event>,
        /// Running nodes whose attempt is to be done again, under the same number.
        again: Vec<NodeId>,
    },
    /// It is to be set aside, and why; the run is to be dropped as it is.
    SetAside(String),
}

impl Run {
    /// Takes a run up. `lost` are the running nodes whose attempt nobody knows of any more. `since` tells what else there
    /// is to know.
    pub fn take_up(&mut self, cx: &mut Context<'_>, lost: &[NodeId], since: Since) -> TakenUp {
        let Since { was_parked, by_name, got_on } = since;
        let recoveries = if got_on { 0 } else { self.recoveries };
        let is_over = recoveries >= RECOVERIES_MAX && !by_name;
        let set_aside =
            || TakenUp::SetAside(format!("it ended {recoveries} processes in a row without getting on"));
        if is_over && !lost.is_empty() {
            return set_aside();
        }
        let mut turn = Turn { run: self, cx, events: Vec::new() };
        if was_parked {
            turn.emit(Event::RunRecovered { count: 0 });
        }
        if !lost.is_empty() {
            turn.emit(Event::RunRecovered { count: recoveries + 1 });
        }
        turn.drop_what_was_being_written();
        lost.iter().for_each(|node| turn.lost(node));
        turn.settle();
        let events = turn.events;
        if is_over && self.is_any_ready() {
            return set_aside();
        }
        let runs = |node: &&NodeId| {
            self.instance(node)
                .is_some_and(|instance| instance.state() == NodeState::Running && !instance.is_draining())
        };
        let again = lost.iter().filter(runs).cloned().collect();
        TakenUp::GoesOn { events, again }
    }

    /// Counts a recovery of a run of which no attempt was lost. Durable before the first attempt begins that a process makes of a
    /// run that another has opened: what ends the process before there is a record of it is counted as well.
    pub fn count_recovery(&mut self, cx: &mut Context<'_>) -> Vec<Event> {
        let count = self.recoveries + 1;
        let mut turn = Turn { run: self, cx, events: Vec::new() };
        turn.emit(Event::RunRecovered { count });
        turn.events
    }

    /// Takes leave of a run, as its process is to end in good order: it has not ended that process, and those that it may have ended
    /// before were not in a row. The records, which have taken effect.
    pub fn take_leave(&mut self, cx: &mut Context<'_>) -> Vec<Event> {
        if self.recoveries == 0 {
            return Vec::new();
        }
        let mut turn = Turn { run: self, cx, events: Vec::new() };
        turn.emit(Event::RunRecovered { count: 0 });
        turn.events
    }

    /// Cancels a run that nobody drives, and closes it: the records, which have taken effect. No attempt of it may
    /// be known to this process. `None` if there is nothing left to cancel, and the run waits to be closed in its
    /// own way.
    pub fn cancel_at_rest(&mut self, cx: &mut Context<'_>, by: Canceller) -> Option<Vec<Event>> {
        let mut events = self.decide(cx, Input::Operator(Operation::CancelPlan(by)));
        if !self.cancelled {
            return None;
        }
        for node in self.running() {
            events.extend(self.decide(cx, Input::Lost(node)));
        }
        loop {
            let (more, quiet) = self.quiesce(cx);
            assert!(
                quiet == Quiet::Over || !more.is_empty(),
                "nothing is under way in a run that was cancelled"
            );
            events.extend(more);
            if quiet == Quiet::Over {
                break;
            }
        }
        events.push(Event::RunClosed { outcome: self.outcome() });
        Some(events)
    }

    fn running(&self) -> Vec<NodeId> {
        let running = |instance: &super::Instance| matches!(instance.standing, Standing::Running { .. });
        let nodes = self.instances().filter(|(_, instance)| running(instance));
        nodes.map(|(node, _)| node.id.clone()).collect()
    }
}

impl Turn<'_, '_, '_> {
    /// Patches and new versions that were being written: nobody writes them any more.
    fn drop_what_was_being_written(&mut self) {
        let patched =
            |standing: &Standing| matches!(standing, Standing::FailedRetryable { retry_at: None, .. });
        let nodes = self.run.instances().filter(|(_, instance)| patched(&instance.standing));
        let nodes: Vec<NodeId> = nodes.map(|(node, _)| node.id.clone()).collect();
        nodes.iter().for_each(|node| self.patched(node, None));
        if self.run.is_replanning() {
            self.replanned(None);
        }
    }
}
