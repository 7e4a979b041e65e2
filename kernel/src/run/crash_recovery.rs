//! Taking a run up again, after the process that drove it or its actor has died; or ending it without.

use super::decision::{Decision, DecisionContext};
use super::{Canceller, Completion, NodeState, NodeStatus, Operation, Run, RunInput};
use crate::event::Event;
use crate::id::NodeId;

/// Times that a run may take its process down with it, without any progress between, before it is set aside.
pub const RECOVERIES_MAX: u32 = 3;

/// What happened to a run that is taken up, besides what its own records tell.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RecoveryContext {
    /// It had been set aside.
    pub was_parked: bool,
    /// Somebody asked for this very run, so it is tried however often it failed before.
    pub forced: bool,
    /// An attempt that did not live to its end noted that it had got further, after the run was taken up last.
    pub made_progress: bool,
}

/// How a run is taken up.
#[derive(Debug, Clone, PartialEq)]
#[must_use]
pub enum CrashRecovery {
    /// It goes on.
    Resumed {
        /// The records that follow; they have taken effect.
        events: Vec<Event>,
        /// Running nodes whose attempt is to be done again, under the same number.
        rerun: Vec<NodeId>,
    },
    /// It is to be set aside, and why; the run is to be dropped as it is.
    Parked(String),
}

impl Run {
    /// Takes a run up. `lost` are the running nodes whose attempt nobody knows of any more. `since` tells what else there
    /// is to know.
    pub fn recover_from_crash(
        &mut self,
        cx: &mut DecisionContext<'_>,
        lost: &[NodeId],
        since: RecoveryContext,
    ) -> CrashRecovery {
        let RecoveryContext { was_parked, forced, made_progress } = since;
        let recoveries = if made_progress { 0 } else { self.recoveries };
        let is_over = recoveries >= RECOVERIES_MAX && !forced;
        let set_aside =
            || CrashRecovery::Parked(format!("it ended {recoveries} processes in a row without getting on"));
        if is_over && !lost.is_empty() {
            return set_aside();
        }
        let mut decision = Decision::new(self, cx);
        if was_parked {
            decision.emit(Event::RunRecovered { count: 0 });
        }
        if !lost.is_empty() {
            decision.emit(Event::RunRecovered { count: recoveries + 1 });
        }
        decision.drop_open_planner_requests();
        lost.iter().for_each(|node| decision.attempt_lost(node));
        decision.propagate();
        let events = decision.events;
        if is_over && self.has_ready_nodes() {
            return set_aside();
        }
        let runs = |node: &&NodeId| {
            self.instance(node)
                .is_some_and(|instance| instance.state() == NodeState::Running && !instance.is_draining())
        };
        let rerun = lost.iter().filter(runs).cloned().collect();
        CrashRecovery::Resumed { events, rerun }
    }

    /// Counts a recovery of a run of which no attempt was lost. Durable before the first attempt begins that a process makes of a
    /// run that another has opened: what ends the process before there is a record of it is counted as well.
    pub fn count_recovery(&mut self, cx: &mut DecisionContext<'_>) -> Vec<Event> {
        let count = self.recoveries + 1;
        let mut decision = Decision::new(self, cx);
        decision.emit(Event::RunRecovered { count });
        decision.events
    }

    /// Takes leave of a run, as its process is to end in good order: it has not ended that process, and those that it may have ended
    /// before were not in a row. The records, which have taken effect.
    pub fn record_clean_shutdown(&mut self, cx: &mut DecisionContext<'_>) -> Vec<Event> {
        if self.recoveries == 0 {
            return Vec::new();
        }
        let mut decision = Decision::new(self, cx);
        decision.emit(Event::RunRecovered { count: 0 });
        decision.events
    }

    /// Cancels a run that nobody drives, and closes it: the records, which have taken effect. No attempt of it may
    /// be known to this process. `None` if there is nothing left to cancel, and the run waits to be closed in its
    /// own way.
    pub fn cancel_and_close(&mut self, cx: &mut DecisionContext<'_>, by: Canceller) -> Option<Vec<Event>> {
        let mut events = self.decide(cx, RunInput::Operator(Operation::CancelPlan(by)));
        if !self.cancelled {
            return None;
        }
        for node in self.running() {
            events.extend(self.decide(cx, RunInput::AttemptLost(node)));
        }
        loop {
            let (more, quiet) = self.check_completion(cx);
            assert!(
                quiet == Completion::Done || !more.is_empty(),
                "nothing is under way in a run that was cancelled"
            );
            events.extend(more);
            if quiet == Completion::Done {
                break;
            }
        }
        events.push(Event::RunClosed { outcome: self.outcome() });
        Some(events)
    }

    fn running(&self) -> Vec<NodeId> {
        let running = |instance: &super::NodeInstance| matches!(instance.status, NodeStatus::Running { .. });
        let nodes = self.instances().filter(|(_, instance)| running(instance));
        nodes.map(|(node, _)| node.id.clone()).collect()
    }
}

impl Decision<'_, '_, '_> {
    /// Patches and new versions that were being written: nobody writes them any more.
    fn drop_open_planner_requests(&mut self) {
        let patched =
            |status: &NodeStatus| matches!(status, NodeStatus::FailedRetryable { retry_at: None, .. });
        let nodes = self.run.instances().filter(|(_, instance)| patched(&instance.status));
        let nodes: Vec<NodeId> = nodes.map(|(node, _)| node.id.clone()).collect();
        nodes.iter().for_each(|node| self.patched(node, None));
        if self.run.is_replanning() {
            self.replanned(None);
        }
    }
}
