//! Where an agent stands with a run: seven states, and the arrows of the Agent Scheduler paper (section 12) and no other.
//!
//! The paper's code stays `running` when a step raises an exception; here it fails, as the paper's table says.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::event::{Event, Outcome};
use crate::run::{Run, RunOutcome};

/// Where an agent stands with a run. The last three absorb.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AgentState {
    /// It has not begun, or begins anew after its work was sent back.
    Pending,
    /// It works.
    Running,
    /// Nothing goes on before a person answers.
    WaitingApproval,
    /// It rests where it can go on from, and holds nothing.
    Checkpointed,
    /// It did what it was to do.
    Completed,
    /// It did not.
    Failed,
    /// It was told to stop.
    Cancelled,
}

impl AgentState {
    /// Every state.
    pub const ALL: [AgentState; 7] = [
        AgentState::Pending,
        AgentState::Running,
        AgentState::WaitingApproval,
        AgentState::Checkpointed,
        AgentState::Completed,
        AgentState::Failed,
        AgentState::Cancelled,
    ];

    /// Where an agent stands with a run (execution model, section 2): `driven` by this process or not, `parked` or not,
    /// closed or not.
    pub fn of(run: &Run, closed: Option<RunOutcome>, parked: bool, driven: bool) -> AgentState {
        match closed {
            Some(RunOutcome::Succeeded | RunOutcome::Concluded) => AgentState::Completed,
            Some(RunOutcome::Failed) => AgentState::Failed,
            Some(RunOutcome::Cancelled) => AgentState::Cancelled,
            None if parked => AgentState::Checkpointed,
            None if run.waits_for_person() => AgentState::WaitingApproval,
            None if !run.has_begun() || run.is_sent_back() => AgentState::Pending,
            None if driven => AgentState::Running,
            // All there is to it is in the journal, and it holds nothing.
            None => AgentState::Checkpointed,
        }
    }

    /// Whether nothing can follow.
    pub fn is_terminal(self) -> bool {
        match self {
            AgentState::Completed | AgentState::Failed | AgentState::Cancelled => true,
            AgentState::Pending
            | AgentState::Running
            | AgentState::WaitingApproval
            | AgentState::Checkpointed => false,
        }
    }

    /// The word used in answers and events.
    pub fn as_str(self) -> &'static str {
        match self {
            AgentState::Pending => "pending",
            AgentState::Running => "running",
            AgentState::WaitingApproval => "waiting_approval",
            AgentState::Checkpointed => "checkpointed",
            AgentState::Completed => "completed",
            AgentState::Failed => "failed",
            AgentState::Cancelled => "cancelled",
        }
    }
}

impl fmt::Display for AgentState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// What can be said to an agent about a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Message {
    /// Here is your work.
    AssignJob,
    /// Do the next step: an agent that rests goes on with it.
    ExecuteStep,
    /// A person is to look before anything goes on.
    RequestApproval,
    /// Rest where you can go on from.
    Checkpoint,
    /// All steps are done.
    Complete,
    /// A step raised an exception that nothing mends.
    Raise,
    /// The person says yes.
    Approve,
    /// The person says no: once more, as often as that may be.
    Reject,
    /// Stop.
    Cancel,
}

impl Message {
    /// Every message.
    pub const ALL: [Message; 9] = [
        Message::AssignJob,
        Message::ExecuteStep,
        Message::RequestApproval,
        Message::Checkpoint,
        Message::Complete,
        Message::Raise,
        Message::Approve,
        Message::Reject,
        Message::Cancel,
    ];

    /// The states in which an agent takes it.
    pub fn expected(self) -> &'static [AgentState] {
        use AgentState as S;
        match self {
            Message::AssignJob => &[S::Pending],
            Message::ExecuteStep => &[S::Running, S::Checkpointed],
            Message::RequestApproval | Message::Checkpoint | Message::Complete | Message::Raise => {
                &[S::Running]
            }
            Message::Approve | Message::Reject => &[S::WaitingApproval],
            Message::Cancel => &[S::Pending, S::Running, S::WaitingApproval, S::Checkpointed],
        }
    }

    /// Refuses it in a state in which an agent does not take it.
    ///
    /// # Errors
    ///
    /// [`InvalidState`], with the states in which it would be taken.
    pub fn check(self, current: AgentState) -> Result<(), InvalidState> {
        let expected = self.expected();
        if expected.contains(&current) { Ok(()) } else { Err(InvalidState { current, expected }) }
    }
}

/// A message that an agent does not take where it stands. Nothing has changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("invalid state: the run is {}; this is for one that is {}", stands(*.current), words(.expected))]
pub struct InvalidState {
    /// Where it stands.
    pub current: AgentState,
    /// Where it would take the message.
    pub expected: &'static [AgentState],
}

fn stands(state: AgentState) -> String {
    if state.is_terminal() { format!("over ({state})") } else { state.to_string() }
}

fn words(states: &[AgentState]) -> String {
    states.iter().map(|state| state.as_str()).collect::<Vec<_>>().join(" or ")
}

/// An agent and a run: where it stands, and how often its work was sent back.
///
/// ```
/// use ostler_kernel::agent::{AgentState, Lifecycle, Message};
/// let waits = Lifecycle::new(1).take(Message::AssignJob)?.take(Message::RequestApproval)?;
/// let again = waits.take(Message::Reject)?;
/// assert_eq!(again.state(), AgentState::Pending);
/// let waits = again.take(Message::AssignJob)?.take(Message::RequestApproval)?;
/// assert_eq!(waits.take(Message::Reject)?.state(), AgentState::Failed);
/// # Ok::<(), ostler_kernel::agent::InvalidState>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Lifecycle {
    state: AgentState,
    rejections: u32,
    rejections_max: u32,
}

impl Lifecycle {
    /// Pending, with nothing sent back yet.
    pub fn new(rejections_max: u32) -> Lifecycle {
        Lifecycle { state: AgentState::Pending, rejections: 0, rejections_max }
    }

    /// Where it stands.
    pub fn state(&self) -> AgentState {
        self.state
    }

    /// Times that its work was sent back.
    pub fn rejections(&self) -> u32 {
        self.rejections
    }

    /// What follows from a message.
    ///
    /// # Errors
    ///
    /// [`InvalidState`] for a message that has no arrow from here.
    pub fn take(self, message: Message) -> Result<Lifecycle, InvalidState> {
        message.check(self.state)?;
        let sent_back = message == Message::Reject && self.rejections < self.rejections_max;
        let state = match message {
            Message::AssignJob | Message::ExecuteStep | Message::Approve => AgentState::Running,
            Message::RequestApproval => AgentState::WaitingApproval,
            Message::Checkpoint => AgentState::Checkpointed,
            Message::Complete => AgentState::Completed,
            Message::Reject if sent_back => AgentState::Pending,
            Message::Raise | Message::Reject => AgentState::Failed,
            Message::Cancel => AgentState::Cancelled,
        };
        Ok(Lifecycle { state, rejections: self.rejections + u32::from(sent_back), ..self })
    }
}

/// What an agent tells of itself while it lives, by the words of the paper (section 7.7).
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

    /// What a record of a run tells of its agent.
    pub fn of(event: &Event) -> Option<Telemetry> {
        match event {
            Event::AttemptResult(result) => Some(match result.outcome {
                Outcome::Ok(_) => Telemetry::StepCompleted,
                Outcome::Failed(_) => Telemetry::StepFailed,
            }),
            Event::HumanRequest(_) => Some(Telemetry::ApprovalRequested),
            Event::RunClosed { outcome: RunOutcome::Cancelled } => Some(Telemetry::AgentCancelled),
            Event::RunClosed { .. } => Some(Telemetry::JobCompleted),
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
    use proptest::prelude::*;

    use super::*;

    /// Every message in every state, with work that may be sent back once more, and with work that may not.
    #[test]
    fn every_state_answers_every_message() {
        let mut matrix = String::new();
        for state in AgentState::ALL {
            for message in Message::ALL {
                for (left, rejections_max) in [("", 1), (" (no more)", 0)] {
                    if !left.is_empty() && message != Message::Reject {
                        continue;
                    }
                    let stands = Lifecycle { state, rejections: 0, rejections_max };
                    let answer = match stands.take(message) {
                        Ok(after) => after.state.to_string(),
                        Err(InvalidState { current, expected }) => {
                            assert_eq!(current, state);
                            format!("invalid_state, expected {}", words(expected))
                        }
                    };
                    let said = format!("{message:?}{left}");
                    matrix += &format!("{:16} {said:24} {answer}\n", state.as_str());
                }
            }
        }
        expect![[r#"
            pending          AssignJob                running
            pending          ExecuteStep              invalid_state, expected running or checkpointed
            pending          RequestApproval          invalid_state, expected running
            pending          Checkpoint               invalid_state, expected running
            pending          Complete                 invalid_state, expected running
            pending          Raise                    invalid_state, expected running
            pending          Approve                  invalid_state, expected waiting_approval
            pending          Reject                   invalid_state, expected waiting_approval
            pending          Reject (no more)         invalid_state, expected waiting_approval
            pending          Cancel                   cancelled
            running          AssignJob                invalid_state, expected pending
            running          ExecuteStep              running
            running          RequestApproval          waiting_approval
            running          Checkpoint               checkpointed
            running          Complete                 completed
            running          Raise                    failed
            running          Approve                  invalid_state, expected waiting_approval
            running          Reject                   invalid_state, expected waiting_approval
            running          Reject (no more)         invalid_state, expected waiting_approval
            running          Cancel                   cancelled
            waiting_approval AssignJob                invalid_state, expected pending
            waiting_approval ExecuteStep              invalid_state, expected running or checkpointed
            waiting_approval RequestApproval          invalid_state, expected running
            waiting_approval Checkpoint               invalid_state, expected running
            waiting_approval Complete                 invalid_state, expected running
            waiting_approval Raise                    invalid_state, expected running
            waiting_approval Approve                  running
            waiting_approval Reject                   pending
            waiting_approval Reject (no more)         failed
            waiting_approval Cancel                   cancelled
            checkpointed     AssignJob                invalid_state, expected pending
            checkpointed     ExecuteStep              running
            checkpointed     RequestApproval          invalid_state, expected running
            checkpointed     Checkpoint               invalid_state, expected running
            checkpointed     Complete                 invalid_state, expected running
            checkpointed     Raise                    invalid_state, expected running
            checkpointed     Approve                  invalid_state, expected waiting_approval
            checkpointed     Reject                   invalid_state, expected waiting_approval
            checkpointed     Reject (no more)         invalid_state, expected waiting_approval
            checkpointed     Cancel                   cancelled
            completed        AssignJob                invalid_state, expected pending
            completed        ExecuteStep              invalid_state, expected running or checkpointed
            completed        RequestApproval          invalid_state, expected running
            completed        Checkpoint               invalid_state, expected running
            completed        Complete                 invalid_state, expected running
            completed        Raise                    invalid_state, expected running
            completed        Approve                  invalid_state, expected waiting_approval
            completed        Reject                   invalid_state, expected waiting_approval
            completed        Reject (no more)         invalid_state, expected waiting_approval
            completed        Cancel                   invalid_state, expected pending or running or waiting_approval or checkpointed
            failed           AssignJob                invalid_state, expected pending
            failed           ExecuteStep              invalid_state, expected running or checkpointed
            failed           RequestApproval          invalid_state, expected running
            failed           Checkpoint               invalid_state, expected running
            failed           Complete                 invalid_state, expected running
            failed           Raise                    invalid_state, expected running
            failed           Approve                  invalid_state, expected waiting_approval
            failed           Reject                   invalid_state, expected waiting_approval
            failed           Reject (no more)         invalid_state, expected waiting_approval
            failed           Cancel                   invalid_state, expected pending or running or waiting_approval or checkpointed
            cancelled        AssignJob                invalid_state, expected pending
            cancelled        ExecuteStep              invalid_state, expected running or checkpointed
            cancelled        RequestApproval          invalid_state, expected running
            cancelled        Checkpoint               invalid_state, expected running
            cancelled        Complete                 invalid_state, expected running
            cancelled        Raise                    invalid_state, expected running
            cancelled        Approve                  invalid_state, expected waiting_approval
            cancelled        Reject                   invalid_state, expected waiting_approval
            cancelled        Reject (no more)         invalid_state, expected waiting_approval
            cancelled        Cancel                   invalid_state, expected pending or running or waiting_approval or checkpointed
        "#]].assert_eq(&matrix);
    }

    proptest! {
        #[test]
        fn nothing_follows_an_end_and_work_is_sent_back_a_limited_number_of_times(
            messages in prop::collection::vec(prop::sample::select(Message::ALL.as_slice()), 0..60),
            rejections_max in 0..4u32,
        ) {
            let mut life = Lifecycle::new(rejections_max);
            for message in messages {
                match life.take(message) {
                    Ok(after) => {
                        prop_assert!(!life.state.is_terminal());
                        life = after;
                    }
                    Err(refused) => prop_assert!(!refused.expected.contains(&life.state)),
                }
                prop_assert!(life.rejections <= rejections_max);
            }
        }
    }
}
