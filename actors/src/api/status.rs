//! The status of a run with its reasons.

use ostler_kernel::id::RunId;
use ostler_kernel::run::{NodeState, NodeStatus, Run, RunStatus, StatusFacts, WaitReason};

use crate::api::system::System;
use crate::api::view::RunView;
use crate::base::error::RunError;
use crate::scheduler::RateWait;

/// The status of a run at the last record of a [`RunView`], with its reasons.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunStatusView {
    /// The status.
    pub status: RunStatus,
    /// Reason of a waiting run's wait.
    pub waits_for: Option<WaitReason>,
    /// Reason of a suspension or quarantine.
    pub reason: Option<String>,
    /// The earlier run of the same agent that waits for a person and holds this one.
    pub blocked_by: Option<RunId>,
    /// The process drives the run, or has it in line.
    pub active: bool,
    /// Calls of models that wait for a rate limit, or for their provider.
    pub rate_waits: Vec<RateWait>,
}

impl System {
    /// The present status of a run with its last record in the view. Does not wait.
    pub fn status(&self, view: &RunView) -> Result<RunStatusView, RunError> {
        let settled = self.settled_by(view)?;
        let at_rest = settled.as_ref().map(|settled| settled.status);
        // A run that closed after the view was read still counts as active.
        let active =
            !matches!(at_rest, Some(RunStatus::Queued | RunStatus::Suspended | RunStatus::Quarantined));
        let needs_answer = match at_rest {
            Some(RunStatus::Waiting) => true,
            Some(RunStatus::Queued) => self.needs_answer(&view.run),
            _ => false,
        };
        let opened = &view.opened;
        let rate_waits = match active {
            true => self.services.scheduler.rate_waits(&opened.agent, opened.run),
            false => Vec::new(),
        };
        let (status, waits_for) = RunStatus::of(StatusFacts {
            quarantined: at_rest == Some(RunStatus::Quarantined),
            suspended: at_rest == Some(RunStatus::Suspended),
            needs_answer,
            waits_for_rate: !rate_waits.is_empty() && only_waits(&view.run, &rate_waits),
            ..view.status_facts(active)
        });
        let blocked_by = self.held_up_by(view.opened.run).filter(|_| status == RunStatus::Waiting);
        let reason = settled.and_then(|settled| settled.reason);
        let active = active && !status.is_over();
        Ok(RunStatusView { status, waits_for, reason, blocked_by, active, rate_waits })
    }
}

impl RunStatusView {
    /// The status as of a record in the past: as if a process drove the run.
    pub fn in_the_past(view: &RunView) -> RunStatusView {
        let (status, waits_for) = RunStatus::of(view.status_facts(true));
        let (reason, rate_waits) = (view.parked.clone(), Vec::new());
        RunStatusView { status, waits_for, reason, blocked_by: None, active: false, rate_waits }
    }
}

/// True if every node that is ready or running is among those that wait.
fn only_waits(run: &Run, waits: &[RateWait]) -> bool {
    let in_flight = run.instances().filter(|(_, instance)| {
        let sleeps = matches!(instance.status, NodeStatus::Running { sleep_until: Some(_), .. });
        matches!(instance.state(), NodeState::Ready | NodeState::Running) && !sleeps
    });
    in_flight.into_iter().all(|(node, _)| waits.iter().any(|wait| wait.node == node.id))
}
