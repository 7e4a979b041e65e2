//! Where an agent stands with a run: seven states, and what it takes in each, by the table of the Agent Scheduler paper
//! (section 12).
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
            None if !run.has_started() || run.is_sent_back() => AgentState::Pending,
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
pub enum LifecycleMessage {
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

impl LifecycleMessage {
    /// Every message.
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

    /// The states in which an agent takes it.
    pub fn expected(self) -> &'static [AgentState] {
        use AgentState as S;
        match self {
            LifecycleMessage::AssignJob => &[S::Pending],
            LifecycleMessage::ExecuteStep => &[S::Running, S::Checkpointed],
            LifecycleMessage::RequestApproval
            | LifecycleMessage::Checkpoint
            | LifecycleMessage::Complete
            | LifecycleMessage::Raise => &[S::Running],
            LifecycleMessage::Approve | LifecycleMessage::Reject => &[S::WaitingApproval],
            LifecycleMessage::Cancel => &[S::Pending, S::Running, S::WaitingApproval, S::Checkpointed],
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
#[error("invalid state: the run is {}; this is for one that is {}", stands(*.current), all_told(.expected))]
pub struct InvalidState {
    /// Where it stands.
    pub current: AgentState,
    /// Where it would take the message.
    pub expected: &'static [AgentState],
}

fn stands(state: AgentState) -> String {
    match listed(state) {
        Some(word) if state.is_terminal() => format!("over ({state}; `ps` says {word})"),
        None if state.is_terminal() => format!("over ({state})"),
        _ => told(&state),
    }
}

fn all_told(states: &[AgentState]) -> String {
    states.iter().map(told).collect::<Vec<_>>().join(" or ")
}

/// A state, and what it is called in the table of runs.
fn told(state: &AgentState) -> String {
    match listed(*state) {
        Some(word) => format!("{state} (`ps` says {word})"),
        None => state.to_string(),
    }
}

/// What the table of runs calls a state, if that is another word.
fn listed(state: AgentState) -> Option<&'static str> {
    match state {
        AgentState::Pending => Some("open or running"),
        AgentState::WaitingApproval => Some("waiting"),
        AgentState::Completed => Some("succeeded or concluded"),
        AgentState::Running | AgentState::Checkpointed | AgentState::Failed | AgentState::Cancelled => None,
    }
}

/// An agent and a run: where it stands, and what else says whether it takes a message. What follows from one that it takes
/// stands in the records of the run, from which this is read.
///
/// | what is said | is taken besides where [`LifecycleMessage::expected`] says |
/// |:--|:--|
/// | `ExecuteStep` | wherever a run stands that no process drives: it is taken up, and stands where it stood |
/// | `Approve`, `Reject` | while a node asks and others go on, or would if somebody drove the run; not where it was set aside |
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct RunLifecycle {
    state: AgentState,
    /// This process drives the run.
    driven: bool,
    /// It was set aside, and nobody took it up since.
    parked: bool,
    /// A node of it waits for a person.
    asks: bool,
    /// An attempt of it is under way, or was when its process left it: what became of that may turn out to be in doubt.
    at_work: bool,
}

impl RunLifecycle {
    /// As a run tells it; see [`AgentState::of`].
    pub fn of(run: &Run, closed: Option<RunOutcome>, parked: bool, driven: bool) -> RunLifecycle {
        let at_work = closed.is_none() && run.has_work_in_flight();
        RunLifecycle {
            state: AgentState::of(run, closed, parked, driven),
            driven,
            parked,
            asks: run.has_open_question(),
            at_work,
        }
    }

    /// Where it stands.
    pub fn state(self) -> AgentState {
        self.state
    }

    /// Refuses what it does not take where it stands.
    ///
    /// # Errors
    ///
    /// [`InvalidState`], with the states in which it would be taken.
    pub fn accepts(self, message: LifecycleMessage) -> Result<(), InvalidState> {
        let RunLifecycle { state, driven, parked, asks, .. } = self;
        let besides = match message {
            LifecycleMessage::ExecuteStep => !driven,
            LifecycleMessage::Approve | LifecycleMessage::Reject => asks && (driven || !parked),
            LifecycleMessage::AssignJob
            | LifecycleMessage::RequestApproval
            | LifecycleMessage::Checkpoint
            | LifecycleMessage::Complete
            | LifecycleMessage::Raise
            | LifecycleMessage::Cancel => false,
        };
        match message.check(state) {
            Err(_) if besides && !state.is_terminal() => Ok(()),
            checked => checked,
        }
    }

    /// Refuses that a person settles what is in doubt where nothing can be: as an answer, but for an attempt that is under way by
    /// its records. Whether it is in doubt may be known only when the run is taken up.
    ///
    /// # Errors
    ///
    /// [`InvalidState`], with the states in which it would be taken.
    pub fn accepts_resolution(self) -> Result<(), InvalidState> {
        match self.accepts(LifecycleMessage::Approve) {
            Err(_) if self.at_work && (self.driven || !self.parked) => Ok(()),
            taken => taken,
        }
    }
}

impl InvalidState {
    /// What needs a run that goes on was said of one that was set aside, or comes to rest for that.
    pub const SUSPENDED: InvalidState = InvalidState {
        current: AgentState::Checkpointed,
        expected: &[AgentState::Pending, AgentState::Running, AgentState::WaitingApproval],
    };
}

impl RunLifecycle {
    /// Refuses to ask a person whether a run goes on of which nothing goes on before somebody resumes it: it was set aside, or comes
    /// to rest for that (`comes_to_rest`). Nobody could answer either.
    ///
    /// # Errors
    ///
    /// [`InvalidState`], with the states in which it would be asked.
    pub fn accepts_interjection(self, comes_to_rest: bool) -> Result<(), InvalidState> {
        self.accepts_operation()?;
        if comes_to_rest { Err(InvalidState::SUSPENDED) } else { Ok(()) }
    }

    /// Refuses whatever an operator does to one node (cancel, skip, interject) where the run is over, or was set aside: it would be
    /// taken up for that, and nobody has resumed it.
    ///
    /// # Errors
    ///
    /// [`InvalidState`], with the states in which it would be done.
    pub fn accepts_operation(self) -> Result<(), InvalidState> {
        self.accepts(LifecycleMessage::Cancel)?;
        if self.parked && !self.driven { Err(InvalidState::SUSPENDED) } else { Ok(()) }
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

    fn stands(state: AgentState) -> RunLifecycle {
        let driven = !matches!(state, AgentState::Checkpointed);
        RunLifecycle {
            state,
            driven,
            parked: !driven,
            asks: state == AgentState::WaitingApproval,
            at_work: false,
        }
    }

    fn words(states: &[AgentState]) -> String {
        states.iter().map(|state| state.as_str()).collect::<Vec<_>>().join(" or ")
    }

    fn answer(stands: RunLifecycle, message: LifecycleMessage) -> String {
        match stands.accepts(message) {
            Ok(()) => "taken".to_owned(),
            Err(InvalidState { current, expected }) => {
                assert_eq!(current, stands.state);
                format!("invalid_state, expected {}", words(expected))
            }
        }
    }

    #[test]
    fn a_refusal_says_what_the_table_of_runs_calls_the_states() {
        for (state, message, expected) in [
            (
                AgentState::Completed,
                LifecycleMessage::Checkpoint,
                "the run is over (completed; `ps` says succeeded or concluded); this is for one that is running",
            ),
            (
                AgentState::Failed,
                LifecycleMessage::Approve,
                "the run is over (failed); this is for one that is waiting_approval (`ps` says waiting)",
            ),
        ] {
            let refused = message.check(state).unwrap_err().to_string();
            assert_eq!(refused, format!("invalid state: {expected}"));
        }
    }

    #[test]
    fn every_state_answers_every_message() {
        let mut matrix = String::new();
        for state in AgentState::ALL {
            for message in LifecycleMessage::ALL {
                let (said, answer) = (format!("{message:?}"), answer(stands(state), message));
                matrix += &format!("{:16} {said:15} {answer}\n", state.as_str());
            }
        }
        expect![[r#"
            pending          AssignJob       taken
            pending          ExecuteStep     invalid_state, expected running or checkpointed
            pending          RequestApproval invalid_state, expected running
            pending          Checkpoint      invalid_state, expected running
            pending          Complete        invalid_state, expected running
            pending          Raise           invalid_state, expected running
            pending          Approve         invalid_state, expected waiting_approval
            pending          Reject          invalid_state, expected waiting_approval
            pending          Cancel          taken
            running          AssignJob       invalid_state, expected pending
            running          ExecuteStep     taken
            running          RequestApproval taken
            running          Checkpoint      taken
            running          Complete        taken
            running          Raise           taken
            running          Approve         invalid_state, expected waiting_approval
            running          Reject          invalid_state, expected waiting_approval
            running          Cancel          taken
            waiting_approval AssignJob       invalid_state, expected pending
            waiting_approval ExecuteStep     invalid_state, expected running or checkpointed
            waiting_approval RequestApproval invalid_state, expected running
            waiting_approval Checkpoint      invalid_state, expected running
            waiting_approval Complete        invalid_state, expected running
            waiting_approval Raise           invalid_state, expected running
            waiting_approval Approve         taken
            waiting_approval Reject          taken
            waiting_approval Cancel          taken
            checkpointed     AssignJob       invalid_state, expected pending
            checkpointed     ExecuteStep     taken
            checkpointed     RequestApproval invalid_state, expected running
            checkpointed     Checkpoint      invalid_state, expected running
            checkpointed     Complete        invalid_state, expected running
            checkpointed     Raise           invalid_state, expected running
            checkpointed     Approve         invalid_state, expected waiting_approval
            checkpointed     Reject          invalid_state, expected waiting_approval
            checkpointed     Cancel          taken
            completed        AssignJob       invalid_state, expected pending
            completed        ExecuteStep     invalid_state, expected running or checkpointed
            completed        RequestApproval invalid_state, expected running
            completed        Checkpoint      invalid_state, expected running
            completed        Complete        invalid_state, expected running
            completed        Raise           invalid_state, expected running
            completed        Approve         invalid_state, expected waiting_approval
            completed        Reject          invalid_state, expected waiting_approval
            completed        Cancel          invalid_state, expected pending or running or waiting_approval or checkpointed
            failed           AssignJob       invalid_state, expected pending
            failed           ExecuteStep     invalid_state, expected running or checkpointed
            failed           RequestApproval invalid_state, expected running
            failed           Checkpoint      invalid_state, expected running
            failed           Complete        invalid_state, expected running
            failed           Raise           invalid_state, expected running
            failed           Approve         invalid_state, expected waiting_approval
            failed           Reject          invalid_state, expected waiting_approval
            failed           Cancel          invalid_state, expected pending or running or waiting_approval or checkpointed
            cancelled        AssignJob       invalid_state, expected pending
            cancelled        ExecuteStep     invalid_state, expected running or checkpointed
            cancelled        RequestApproval invalid_state, expected running
            cancelled        Checkpoint      invalid_state, expected running
            cancelled        Complete        invalid_state, expected running
            cancelled        Raise           invalid_state, expected running
            cancelled        Approve         invalid_state, expected waiting_approval
            cancelled        Reject          invalid_state, expected waiting_approval
            cancelled        Cancel          invalid_state, expected pending or running or waiting_approval or checkpointed
        "#]].assert_eq(&matrix);
    }

    #[test]
    fn what_nobody_drives_is_taken_up_and_a_question_is_answered_while_others_go_on() {
        use AgentState as S;
        let rests = RunLifecycle { asks: true, ..stands(S::Checkpointed) };
        let left = RunLifecycle { parked: false, ..rests };
        for (stands, message, taken) in [
            (RunLifecycle { driven: false, ..stands(S::Pending) }, LifecycleMessage::ExecuteStep, true),
            (
                RunLifecycle { driven: false, ..stands(S::WaitingApproval) },
                LifecycleMessage::ExecuteStep,
                true,
            ),
            (RunLifecycle { driven: false, ..stands(S::Failed) }, LifecycleMessage::ExecuteStep, false),
            (
                RunLifecycle { driven: false, ..stands(S::WaitingApproval) },
                LifecycleMessage::Checkpoint,
                false,
            ),
            (RunLifecycle { asks: true, ..stands(S::Running) }, LifecycleMessage::Approve, true),
            (RunLifecycle { asks: true, ..stands(S::Running) }, LifecycleMessage::Reject, true),
            (RunLifecycle { asks: true, ..stands(S::Completed) }, LifecycleMessage::Approve, false),
            (left, LifecycleMessage::Approve, true),
            (rests, LifecycleMessage::Approve, false),
            // It is about to go on.
            (RunLifecycle { driven: true, ..rests }, LifecycleMessage::Approve, true),
        ] {
            assert_eq!(stands.accepts(message).is_ok(), taken, "{stands:?} {message:?}");
        }
    }

    #[test]
    fn what_a_process_left_under_way_is_settled_before_anybody_has_asked() {
        let rests = RunLifecycle { at_work: true, ..stands(AgentState::Checkpointed) };
        let left = RunLifecycle { parked: false, ..rests };
        assert_eq!(left.accepts_resolution(), Ok(()));
        assert!(left.accepts(LifecycleMessage::Approve).is_err(), "nothing is asked");
        assert!(rests.accepts_resolution().is_err(), "it was set aside");
        assert_eq!(stands(AgentState::WaitingApproval).accepts_resolution(), Ok(()));
    }
}
