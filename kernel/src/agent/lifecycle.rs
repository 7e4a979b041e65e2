//! The requests that a run accepts in each status, by the table of the Agent Scheduler paper (section 12).
//!
//! The paper's seven agent states are [`RunStatus`]: `pending` is queued, `waiting_approval` is waiting, `checkpointed` is
//! suspended, `completed` is succeeded or concluded. The paper's code leaves an agent `running` when a step raises an
//! exception; here the run fails, as the paper's table says.

use crate::event::{Event, Outcome};
use crate::run::{RunOutcome, RunStatus, StatusFacts, WaitReason};

/// A request to the agent of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum LifecycleMessage {
    /// Start the run.
    AssignJob,
    /// Continue the run: `resume`.
    ExecuteStep,
    /// Ask a person before anything goes on.
    RequestApproval,
    /// Suspend the run: `checkpoint`.
    Checkpoint,
    /// All steps succeeded.
    Complete,
    /// A step failed for good.
    Raise,
    /// A person approves.
    Approve,
    /// A person rejects: the work is done again, as often as the plan allows.
    Reject,
    /// Cancel the run.
    Cancel,
}

impl LifecycleMessage {
    /// All requests.
    pub const ALL: [LifecycleMessage; 9] = [
        LifecycleMessage::AssignJob,
        LifecycleMessage::ExecuteStep,
        LifecycleMessage::RequestApproval,
        LifecycleMessage::Checkpoint,
        LifecycleMessage::Complete,
        LifecycleMessage::Raise,
        LifecycleMessage::Approve,
        LifecycleMessage::Reject,
        LifecycleMessage::Cancel,
    ];

    /// The statuses of a run that accepts the request.
    pub fn expected(self) -> &'static [RunStatus] {
        use RunStatus as S;
        match self {
            LifecycleMessage::AssignJob => &[S::Queued],
            LifecycleMessage::ExecuteStep => &[S::Running, S::Suspended],
            LifecycleMessage::RequestApproval
            | LifecycleMessage::Checkpoint
            | LifecycleMessage::Complete
            | LifecycleMessage::Raise => &[S::Running],
            LifecycleMessage::Approve | LifecycleMessage::Reject => &[S::Waiting],
            LifecycleMessage::Cancel => &[S::Queued, S::Running, S::Waiting, S::Suspended],
        }
    }
}

/// A request that the run does not accept in its status. Nothing has changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("invalid state: the run is {}; this request needs a run that is {}", described(*.current), alternatives(.expected))]
pub struct InvalidState {
    /// The status of the run.
    pub current: RunStatus,
    /// The accepting statuses.
    pub expected: &'static [RunStatus],
}

impl InvalidState {
    /// A request for a live run, sent to a suspended run or one about to be.
    pub const SUSPENDED: InvalidState = InvalidState {
        current: RunStatus::Suspended,
        expected: &[RunStatus::Queued, RunStatus::Running, RunStatus::Waiting],
    };
}

fn described(status: RunStatus) -> String {
    if status.is_over() { format!("over ({status})") } else { status.to_string() }
}

fn alternatives(statuses: &[RunStatus]) -> String {
    statuses.iter().map(|status| status.as_str()).collect::<Vec<_>>().join(" or ")
}

/// The facts behind the requests a run accepts. All come from the run's records, except `active`.
///
/// | request | is accepted besides in [`LifecycleMessage::expected`] |
/// |:--|:--|
/// | `ExecuteStep` | of a run that no process executes, in any status that is not final; the status stays |
/// | `ExecuteStep`, `Checkpoint` and those of the work | while the run waits for credits, a timer, a rate or a value from outside |
/// | `Approve`, `Reject` | while a node asks and others go on, or would if a process executed the run; not if it is suspended |
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct RunLifecycle {
    status: RunStatus,
    wait: Option<WaitReason>,
    active: bool,
    suspended: bool,
    has_open_question: bool,
    /// By the records an attempt is under way. If its process has died, the attempt may turn out to be in doubt.
    has_work_in_flight: bool,
}

impl RunLifecycle {
    /// The lifecycle of a run with these facts.
    pub fn of(facts: StatusFacts<'_>) -> RunLifecycle {
        let StatusFacts { run, closed, suspended, active, .. } = facts;
        let (status, wait) = RunStatus::of(facts);
        RunLifecycle {
            status,
            wait,
            active,
            suspended,
            has_open_question: run.has_open_question(),
            has_work_in_flight: closed.is_none() && run.has_work_in_flight(),
        }
    }

    /// The status of the run.
    pub fn status(self) -> RunStatus {
        self.status
    }

    /// Refuses a request that the run does not accept in its status.
    ///
    /// # Errors
    ///
    /// [`InvalidState`], with the statuses in which the run accepts the request.
    pub fn accepts(self, message: LifecycleMessage) -> Result<(), InvalidState> {
        let RunLifecycle { status, wait, active, suspended, has_open_question, .. } = self;
        let expected = message.expected();
        let waits_for_no_person = wait.is_some_and(|wait| wait != WaitReason::Person);
        let besides = match message {
            LifecycleMessage::ExecuteStep => !active || waits_for_no_person,
            LifecycleMessage::Approve | LifecycleMessage::Reject => {
                has_open_question && (active || !suspended)
            }
            LifecycleMessage::RequestApproval
            | LifecycleMessage::Checkpoint
            | LifecycleMessage::Complete
            | LifecycleMessage::Raise => waits_for_no_person,
            LifecycleMessage::AssignJob | LifecycleMessage::Cancel => false,
        };
        let is_expected = match message {
            LifecycleMessage::Approve | LifecycleMessage::Reject => wait == Some(WaitReason::Person),
            _ => expected.contains(&status),
        };
        if is_expected || (besides && !status.is_over()) {
            Ok(())
        } else {
            Err(InvalidState { current: status, expected })
        }
    }

    /// Refuses the resolution of an attempt in doubt. The rules are those of an answer, but an attempt in flight by the
    /// records is accepted too: only recovery finds out whether such an attempt is in doubt.
    ///
    /// # Errors
    ///
    /// [`InvalidState`], with the statuses in which the run accepts the resolution.
    pub fn accepts_resolution(self) -> Result<(), InvalidState> {
        match self.accepts(LifecycleMessage::Approve) {
            Err(_) if self.has_work_in_flight && (self.active || !self.suspended) => Ok(()),
            accepted => accepted,
        }
    }

    /// Refuses to ask a person about a run that only `resume` continues: it is suspended, or `suspending`. No answer could
    /// take effect.
    ///
    /// # Errors
    ///
    /// [`InvalidState`], with the statuses in which the run accepts the question.
    pub fn accepts_interjection(self, suspending: bool) -> Result<(), InvalidState> {
        self.accepts_operation()?;
        if suspending { Err(InvalidState::SUSPENDED) } else { Ok(()) }
    }

    /// Refuses an operation on one node (cancel, skip, interject) if the run is over, or suspended: the operation would
    /// continue the run, and only `resume` may.
    ///
    /// # Errors
    ///
    /// [`InvalidState`], with the statuses in which the run accepts the operation.
    pub fn accepts_operation(self) -> Result<(), InvalidState> {
        self.accepts(LifecycleMessage::Cancel)?;
        if self.suspended && !self.active { Err(InvalidState::SUSPENDED) } else { Ok(()) }
    }
}

/// Telemetry events of an agent, named as in the paper (section 7.7).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[allow(missing_docs)] // the variants are the words of the events
pub enum Telemetry {
    AgentStarted,
    JobAssigned,
    StepCompleted,
    StepReplayed,
    StepFailed,
    ApprovalRequested,
    CheckpointCreated,
    JobCompleted,
    AgentCancelled,
    AgentTerminated,
}

impl Telemetry {
    /// Every event.
    pub const ALL: [Telemetry; 10] = [
        Telemetry::AgentStarted,
        Telemetry::JobAssigned,
        Telemetry::StepCompleted,
        Telemetry::StepReplayed,
        Telemetry::StepFailed,
        Telemetry::ApprovalRequested,
        Telemetry::CheckpointCreated,
        Telemetry::JobCompleted,
        Telemetry::AgentCancelled,
        Telemetry::AgentTerminated,
    ];

    /// The telemetry event behind a record of a run, if any.
    pub fn of(event: &Event) -> Option<Telemetry> {
        match event {
            Event::AttemptResult(result) => Some(match result.outcome {
                Outcome::Ok(_) => Telemetry::StepCompleted,
                Outcome::Failed(_) => Telemetry::StepFailed,
            }),
            Event::HumanRequest(_) => Some(Telemetry::ApprovalRequested),
            Event::RunClosed { outcome } => match outcome {
                RunOutcome::Succeeded | RunOutcome::Concluded => Some(Telemetry::JobCompleted),
                RunOutcome::Cancelled => Some(Telemetry::AgentCancelled),
                // The step that it failed for told so.
                RunOutcome::Failed => None,
            },
            _ => None,
        }
    }

    /// The word of the event.
    pub fn as_str(self) -> &'static str {
        match self {
            Telemetry::AgentStarted => "agent_started",
            Telemetry::JobAssigned => "job_assigned",
            Telemetry::StepCompleted => "step_completed",
            Telemetry::StepReplayed => "step_replayed",
            Telemetry::StepFailed => "step_failed",
            Telemetry::ApprovalRequested => "approval_requested",
            Telemetry::CheckpointCreated => "checkpoint_created",
            Telemetry::JobCompleted => "job_completed",
            Telemetry::AgentCancelled => "agent_cancelled",
            Telemetry::AgentTerminated => "agent_terminated",
        }
    }
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;

    fn lifecycle(status: RunStatus) -> RunLifecycle {
        let waits = status == RunStatus::Waiting;
        let suspended = status == RunStatus::Suspended;
        RunLifecycle {
            status,
            wait: waits.then_some(WaitReason::Person),
            active: !suspended,
            suspended,
            has_open_question: waits,
            has_work_in_flight: false,
        }
    }

    fn answer(lifecycle: RunLifecycle, message: LifecycleMessage) -> String {
        match lifecycle.accepts(message) {
            Ok(()) => "accepted".to_owned(),
            Err(InvalidState { current, expected }) => {
                assert_eq!(current, lifecycle.status);
                format!("invalid_state, expected {}", alternatives(expected))
            }
        }
    }

    #[test]
    fn a_refusal_names_the_status_and_those_that_accept_the_request() {
        for (status, message, expected) in [
            (
                RunStatus::Succeeded,
                LifecycleMessage::Checkpoint,
                "the run is over (succeeded); this request needs a run that is running",
            ),
            (
                RunStatus::Queued,
                LifecycleMessage::Approve,
                "the run is queued; this request needs a run that is waiting",
            ),
        ] {
            let refused = lifecycle(status).accepts(message).unwrap_err().to_string();
            assert_eq!(refused, format!("invalid state: {expected}"));
        }
    }

    #[test]
    fn every_status_answers_every_request() {
        let mut matrix = String::new();
        for status in RunStatus::ALL.into_iter().filter(|status| *status != RunStatus::Quarantined) {
            for message in LifecycleMessage::ALL {
                let (name, answer) = (format!("{message:?}"), answer(lifecycle(status), message));
                matrix += &format!("{:9} {name:15} {answer}\n", status.as_str());
            }
        }
        expect![[r#"
            queued    AssignJob       accepted
            queued    ExecuteStep     invalid_state, expected running or suspended
            queued    RequestApproval invalid_state, expected running
            queued    Checkpoint      invalid_state, expected running
            queued    Complete        invalid_state, expected running
            queued    Raise           invalid_state, expected running
            queued    Approve         invalid_state, expected waiting
            queued    Reject          invalid_state, expected waiting
            queued    Cancel          accepted
            running   AssignJob       invalid_state, expected queued
            running   ExecuteStep     accepted
            running   RequestApproval accepted
            running   Checkpoint      accepted
            running   Complete        accepted
            running   Raise           accepted
            running   Approve         invalid_state, expected waiting
            running   Reject          invalid_state, expected waiting
            running   Cancel          accepted
            waiting   AssignJob       invalid_state, expected queued
            waiting   ExecuteStep     invalid_state, expected running or suspended
            waiting   RequestApproval invalid_state, expected running
            waiting   Checkpoint      invalid_state, expected running
            waiting   Complete        invalid_state, expected running
            waiting   Raise           invalid_state, expected running
            waiting   Approve         accepted
            waiting   Reject          accepted
            waiting   Cancel          accepted
            suspended AssignJob       invalid_state, expected queued
            suspended ExecuteStep     accepted
            suspended RequestApproval invalid_state, expected running
            suspended Checkpoint      invalid_state, expected running
            suspended Complete        invalid_state, expected running
            suspended Raise           invalid_state, expected running
            suspended Approve         invalid_state, expected waiting
            suspended Reject          invalid_state, expected waiting
            suspended Cancel          accepted
            succeeded AssignJob       invalid_state, expected queued
            succeeded ExecuteStep     invalid_state, expected running or suspended
            succeeded RequestApproval invalid_state, expected running
            succeeded Checkpoint      invalid_state, expected running
            succeeded Complete        invalid_state, expected running
            succeeded Raise           invalid_state, expected running
            succeeded Approve         invalid_state, expected waiting
            succeeded Reject          invalid_state, expected waiting
            succeeded Cancel          invalid_state, expected queued or running or waiting or suspended
            concluded AssignJob       invalid_state, expected queued
            concluded ExecuteStep     invalid_state, expected running or suspended
            concluded RequestApproval invalid_state, expected running
            concluded Checkpoint      invalid_state, expected running
            concluded Complete        invalid_state, expected running
            concluded Raise           invalid_state, expected running
            concluded Approve         invalid_state, expected waiting
            concluded Reject          invalid_state, expected waiting
            concluded Cancel          invalid_state, expected queued or running or waiting or suspended
            failed    AssignJob       invalid_state, expected queued
            failed    ExecuteStep     invalid_state, expected running or suspended
            failed    RequestApproval invalid_state, expected running
            failed    Checkpoint      invalid_state, expected running
            failed    Complete        invalid_state, expected running
            failed    Raise           invalid_state, expected running
            failed    Approve         invalid_state, expected waiting
            failed    Reject          invalid_state, expected waiting
            failed    Cancel          invalid_state, expected queued or running or waiting or suspended
            cancelled AssignJob       invalid_state, expected queued
            cancelled ExecuteStep     invalid_state, expected running or suspended
            cancelled RequestApproval invalid_state, expected running
            cancelled Checkpoint      invalid_state, expected running
            cancelled Complete        invalid_state, expected running
            cancelled Raise           invalid_state, expected running
            cancelled Approve         invalid_state, expected waiting
            cancelled Reject          invalid_state, expected waiting
            cancelled Cancel          invalid_state, expected queued or running or waiting or suspended
        "#]]
        .assert_eq(&matrix);
    }

    #[test]
    fn what_no_process_executes_is_resumed_and_a_question_is_answered_while_others_go_on() {
        use RunStatus as S;
        let suspended = RunLifecycle { has_open_question: true, ..lifecycle(S::Suspended) };
        let left = RunLifecycle { suspended: false, status: S::Queued, ..suspended };
        let inactive = |status| RunLifecycle { active: false, ..lifecycle(status) };
        let asking = |status| RunLifecycle { has_open_question: true, ..lifecycle(status) };
        let short = RunLifecycle { wait: Some(WaitReason::Credits), ..lifecycle(S::Waiting) };
        for (lifecycle, message, accepted) in [
            (inactive(S::Queued), LifecycleMessage::ExecuteStep, true),
            (inactive(S::Waiting), LifecycleMessage::ExecuteStep, true),
            (inactive(S::Failed), LifecycleMessage::ExecuteStep, false),
            (inactive(S::Waiting), LifecycleMessage::Checkpoint, false),
            (asking(S::Running), LifecycleMessage::Approve, true),
            (asking(S::Running), LifecycleMessage::Reject, true),
            (asking(S::Succeeded), LifecycleMessage::Approve, false),
            (left, LifecycleMessage::Approve, true),
            (suspended, LifecycleMessage::Approve, false),
            // The run is about to continue.
            (RunLifecycle { active: true, ..suspended }, LifecycleMessage::Approve, true),
            (short, LifecycleMessage::Checkpoint, true),
            (short, LifecycleMessage::ExecuteStep, true),
        ] {
            assert_eq!(lifecycle.accepts(message).is_ok(), accepted, "{lifecycle:?} {message:?}");
        }
        let answered = RunLifecycle { has_open_question: false, ..short };
        assert!(answered.accepts(LifecycleMessage::Approve).is_err(), "credits are no answer");
    }

    #[test]
    fn an_attempt_that_a_process_left_under_way_is_resolved_before_recovery_asks() {
        let suspended = RunLifecycle { has_work_in_flight: true, ..lifecycle(RunStatus::Suspended) };
        let left = RunLifecycle { suspended: false, status: RunStatus::Queued, ..suspended };
        assert_eq!(left.accepts_resolution(), Ok(()));
        assert!(left.accepts(LifecycleMessage::Approve).is_err(), "no question is open");
        assert!(suspended.accepts_resolution().is_err());
        assert_eq!(lifecycle(RunStatus::Waiting).accepts_resolution(), Ok(()));
    }
}
