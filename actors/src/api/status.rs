//! The status of a run, with what goes with it.

use ostler_kernel::id::RunId;
use ostler_kernel::run::{RunStatus, StatusFacts, WaitReason};

use crate::api::system::System;
use crate::api::view::RunView;
use crate::base::error::RunError;

/// The status of a run at the last record of a [`RunView`], and the reasons for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunStatusView {
    /// The status.
    pub status: RunStatus,
    /// What a waiting run waits for.
    pub waits_for: Option<WaitReason>,
    /// Why the run is suspended or quarantined.
    pub reason: Option<String>,
    /// The run of the same agent that comes first and waits for a person: this one goes on after that one has ended.
    pub blocked_by: Option<RunId>,
    /// Whether this process executes the run, or has it in line.
    pub active: bool,
}

impl System {
    /// The status of a run right now, if the view holds its last record. Does not wait.
    pub fn status(&self, view: &RunView) -> Result<RunStatusView, RunError> {
        let settled = self.settled_by(view)?;
        let at_rest = settled.as_ref().map(|settled| settled.status);
        // A run that was closed this moment, after the view was read, still counts as active.
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
        Ok(RunStatusView { status, waits_for, reason, blocked_by, active })
    }
}

impl RunStatusView {
    /// The status of a run as of a record that others follow: as if a process executed it.
    pub fn in_the_past(view: &RunView) -> RunStatusView {
        let (status, waits_for) = RunStatus::of(view.status_facts(true));
        RunStatusView { status, waits_for, reason: view.parked.clone(), blocked_by: None, active: false }
    }
}
