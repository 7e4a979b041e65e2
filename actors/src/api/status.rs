//! The status of a run with its reasons.

use ostler_kernel::id::RunId;
use ostler_kernel::run::{RunStatus, StatusFacts, WaitReason};

use crate::api::system::System;
use crate::api::view::RunView;
use crate::base::error::RunError;

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
}

impl System {
    /// The present status of a run with its last record in the view. Does not wait.
    pub fn status(&self, view: &RunView) -> Result<RunStatusView, RunError> {
        let settled = self.settled_by(view)?;
        let at_rest = settled.as_ref().map(|settled| settled.status);
        // A run that closed after the view was read still counts as active.
        let active =
            !matches!(at_rest, Some(RunStatus::Queued | RunStatus::Suspended | RunStatus::Quarantined));
        let waits_for_person = match at_rest {
            Some(RunStatus::Waiting) => true,
            Some(RunStatus::Queued) => self.waits_for_person(&view.run),
            _ => false,
        };
        let (status, waits_for) = RunStatus::of(StatusFacts {
            quarantined: at_rest == Some(RunStatus::Quarantined),
            suspended: at_rest == Some(RunStatus::Suspended),
            waits_for_person,
            ..view.status_facts(active)
        });
        let blocked_by = self.held_up_by(view.opened.run).filter(|_| status == RunStatus::Waiting);
        let reason = settled.and_then(|settled| settled.reason);
        Ok(RunStatusView { status, waits_for, reason, blocked_by, active: active && !status.is_over() })
    }
}

impl RunStatusView {
    /// The status as of a record in the past: as if a process drove the run.
    pub fn in_the_past(view: &RunView) -> RunStatusView {
        let (status, waits_for) = RunStatus::of(view.status_facts(true));
        RunStatusView { status, waits_for, reason: view.parked.clone(), blocked_by: None, active: false }
    }
}
