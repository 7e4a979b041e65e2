//! Continuing a run after a crash of its process or actor, and ending a run without an actor.
//!
//! Recovery first rebuilds the run from its records. Attempts in state `running` have no owner then: they are lost. A lost
//! attempt is repeated under the same number if its node may run twice, and is in doubt otherwise. The crash cases:
//!
//! * The process died before the intent was durable: no attempt exists, the node is still ready.
//! * The process died between intent and result: the attempt is lost, and its effect may have happened.
//! * The process died after the result was durable: the attempt has ended, nothing is lost.
//!
//! A run may itself kill its process (memory, a bug in a program) and would kill every later process too. So
//! [`Event::RunRecovered`] counts recoveries in a row, before the first attempt begins; after [`RECOVERIES_MAX`] of them
//! without progress the run is parked. The end of an attempt resets the count, and so do progress inside an attempt, a clean
//! shutdown and a person's `resume` of the parked run.

use super::decision::{Decision, DecisionContext};
use super::{Canceller, Completion, NodeInstance, NodeState, NodeStatus, Operation, Run, RunInput};
use crate::event::Event;
use crate::id::NodeId;

/// Recoveries in a row without progress before the run is parked.
pub const RECOVERIES_MAX: u32 = 3;

/// Facts about a recovery that the run's own records do not tell.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RecoveryContext {
    /// The run was parked.
    pub was_parked: bool,
    /// A person asked for this run by id: the limit on recoveries does not apply.
    pub forced: bool,
    /// A lost attempt reported progress since the last recovery.
    pub made_progress: bool,
}

/// Result of recovering a run.
#[derive(Debug, Clone, PartialEq)]
#[must_use]
pub enum CrashRecovery {
    /// The run goes on.
    Resumed {
        /// Records that follow; they have taken effect.
        events: Vec<Event>,
        /// Running nodes with a lost attempt to repeat under the same number.
        rerun: Vec<NodeId>,
    },
    /// The run has to be parked, for this reason. Drop the run in memory: the journal may lack some of its records.
    Parked(String),
}

impl Run {
    /// Recovers a run. `lost` are the running nodes without a known attempt in any process.
    pub fn recover_from_crash(
        &mut self,
        cx: &mut DecisionContext<'_>,
        lost: &[NodeId],
        context: RecoveryContext,
    ) -> CrashRecovery {
        let RecoveryContext { was_parked, forced, made_progress } = context;
        let recoveries = if made_progress { 0 } else { self.counters.recoveries };
        let is_over_limit = recoveries >= RECOVERIES_MAX && !forced;
        let parked = || {
            CrashRecovery::Parked(format!("the process died {recoveries} times in a row without progress"))
        };
        if is_over_limit && !lost.is_empty() {
            return parked();
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
        if is_over_limit && self.has_ready_nodes() {
            return parked();
        }
        let runs = |node: &&NodeId| {
            self.instance(node)
                .is_some_and(|instance| instance.state() == NodeState::Running && !instance.is_draining())
        };
        let rerun = lost.iter().filter(runs).cloned().collect();
        CrashRecovery::Resumed { events, rerun }
    }

    /// Counts a recovery without a lost attempt. A process makes the record durable before its first attempt in another
    /// process's run, so even a crash without any other record is counted.
    pub fn count_recovery(&mut self, cx: &mut DecisionContext<'_>) -> Vec<Event> {
        let count = self.counters.recoveries + 1;
        let mut decision = Decision::new(self, cx);
        decision.emit(Event::RunRecovered { count });
        decision.events
    }

    /// Resets the count of recoveries at a clean shutdown: the run did not kill the process. Returns no records if the count
    /// is 0.
    pub fn record_clean_shutdown(&mut self, cx: &mut DecisionContext<'_>) -> Vec<Event> {
        if self.counters.recoveries == 0 {
            return Vec::new();
        }
        let mut decision = Decision::new(self, cx);
        decision.emit(Event::RunRecovered { count: 0 });
        decision.events
    }

    /// Cancels and closes a run without an actor and without an attempt in this process. Returns the records, already
    /// applied; `None` if nothing is left to cancel and the run's actor has to close the run.
    pub fn cancel_and_close(&mut self, cx: &mut DecisionContext<'_>, by: Canceller) -> Option<Vec<Event>> {
        let mut events = self.decide(cx, RunInput::Operator(Operation::CancelPlan(by)));
        if !self.cancelled {
            return None;
        }
        for node in self.running() {
            events.extend(self.decide(cx, RunInput::AttemptLost(node)));
        }
        loop {
            let (more, completion) = self.check_completion(cx);
            assert!(
                completion == Completion::Done || !more.is_empty(),
                "nothing is in flight in a cancelled run"
            );
            events.extend(more);
            if completion == Completion::Done {
                break;
            }
        }
        events.push(Event::RunClosed { outcome: self.outcome() });
        Some(events)
    }

    fn running(&self) -> Vec<NodeId> {
        let running = |instance: &NodeInstance| matches!(instance.status, NodeStatus::Running { .. });
        let nodes = self.instances().filter(|(_, instance)| running(instance));
        nodes.map(|(node, _)| node.id.clone()).collect()
    }
}

impl Decision<'_, '_, '_> {
    /// Refuses all open requests to the planner, whose work died with its process. A goal run keeps its requests: the journal has
    /// the calls of the micro-planner, and the engine makes them again.
    fn drop_open_planner_requests(&mut self) {
        if self.run.goal().is_some() {
            return;
        }
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
