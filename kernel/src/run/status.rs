//! The status of a run: the one vocabulary of `ps`, `show`, the API and messages.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::{Run, RunOutcome};

/// The status of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RunStatus {
    /// Open, and its agent has not started it: another run of the agent comes first, no attempt has a slot yet, a person
    /// sent its work back, or no process executes it. A run without a process waits for `ostler resume`.
    Queued,
    /// Attempts run, or run as soon as a slot is free.
    Running,
    /// Nothing goes on until somebody answers, credits arrive, a timer fires or a model may be called; [`WaitReason`] says which.
    Waiting,
    /// Suspended on request, because it ended its process again and again, or because its records cannot be read. Only
    /// `ostler resume RUN` continues it.
    Suspended,
    /// Closed: every output is there. Final.
    Succeeded,
    /// Closed: a reflection ended it early with what it had. Final.
    Concluded,
    /// Closed: an output cannot be produced. Final.
    Failed,
    /// Closed: a person, a deadline or the gate ended it. Final.
    Cancelled,
    /// Damaged: a repair set it apart with what is left of its records. Final.
    Quarantined,
}

/// The thing that a run with [`RunStatus::Waiting`] waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WaitReason {
    /// A person's answer: in this run, or in the run of the same agent that comes before it.
    Person,
    /// A value from outside for a node of kind `wait`; no person is asked.
    Answer,
    /// Credits of its client.
    Credits,
    /// A timer: the back-off before a retry, or a sleep of the plan.
    Timer,
    /// The rate limits of its models: all its work in flight waits for them, or for a provider that asked to wait.
    Rate,
}

/// The facts that decide the status of a run.
#[derive(Debug, Clone, Copy)]
pub struct StatusFacts<'a> {
    /// The run, folded from its records.
    pub run: &'a Run,
    /// Outcome of a closed run.
    pub closed: Option<RunOutcome>,
    /// The run is quarantined by the journal.
    pub quarantined: bool,
    /// The last record, late results aside, suspends the run.
    pub suspended: bool,
    /// An agent of this process executes it, or has it in line.
    pub active: bool,
    /// Nothing goes on until somebody answers: in the run, or in the one that its agent has to end first.
    pub needs_answer: bool,
    /// By its records, the credits of its client are used up.
    pub out_of_credit: bool,
    /// All its work that is ready or in flight waits for the rate limits of models.
    pub waits_for_rate: bool,
}

impl RunStatus {
    /// All statuses, in the order of a run's life.
    pub const ALL: [RunStatus; 9] = [
        RunStatus::Queued,
        RunStatus::Running,
        RunStatus::Waiting,
        RunStatus::Suspended,
        RunStatus::Succeeded,
        RunStatus::Concluded,
        RunStatus::Failed,
        RunStatus::Cancelled,
        RunStatus::Quarantined,
    ];

    /// The status that follows from the facts, with the reason if it is [`RunStatus::Waiting`].
    pub fn of(facts: StatusFacts<'_>) -> (RunStatus, Option<WaitReason>) {
        let StatusFacts { run, closed, quarantined, suspended, active, needs_answer, .. } = facts;
        let StatusFacts { out_of_credit, waits_for_rate, .. } = facts;
        let waiting = |reason| (RunStatus::Waiting, Some(reason));
        match closed {
            _ if quarantined => (RunStatus::Quarantined, None),
            Some(outcome) => (outcome.into(), None),
            None if suspended => (RunStatus::Suspended, None),
            None if needs_answer && run.needs_values_alone() => waiting(WaitReason::Answer),
            None if needs_answer => waiting(WaitReason::Person),
            None if active && waits_for_rate => waiting(WaitReason::Rate),
            None if !active || !run.has_started() || run.is_sent_back() => (RunStatus::Queued, None),
            // Attempts that run when the credits end run to their end.
            None if out_of_credit && !run.has_work_in_flight() => waiting(WaitReason::Credits),
            None if run.waits_for_timer() => waiting(WaitReason::Timer),
            None => (RunStatus::Running, None),
        }
    }

    /// Whether the run is closed: no record follows.
    pub fn is_over(self) -> bool {
        self.outcome().is_some()
    }

    /// The outcome of a closed run.
    pub fn outcome(self) -> Option<RunOutcome> {
        match self {
            RunStatus::Succeeded => Some(RunOutcome::Succeeded),
            RunStatus::Concluded => Some(RunOutcome::Concluded),
            RunStatus::Failed => Some(RunOutcome::Failed),
            RunStatus::Cancelled => Some(RunOutcome::Cancelled),
            RunStatus::Queued
            | RunStatus::Running
            | RunStatus::Waiting
            | RunStatus::Suspended
            | RunStatus::Quarantined => None,
        }
    }

    /// The lower-case word of tables, messages and JSON.
    pub fn as_str(self) -> &'static str {
        match self {
            RunStatus::Queued => "queued",
            RunStatus::Running => "running",
            RunStatus::Waiting => "waiting",
            RunStatus::Suspended => "suspended",
            RunStatus::Succeeded => "succeeded",
            RunStatus::Concluded => "concluded",
            RunStatus::Failed => "failed",
            RunStatus::Cancelled => "cancelled",
            RunStatus::Quarantined => "quarantined",
        }
    }
}

impl From<RunOutcome> for RunStatus {
    fn from(outcome: RunOutcome) -> RunStatus {
        match outcome {
            RunOutcome::Succeeded => RunStatus::Succeeded,
            RunOutcome::Concluded => RunStatus::Concluded,
            RunOutcome::Failed => RunStatus::Failed,
            RunOutcome::Cancelled => RunStatus::Cancelled,
        }
    }
}

impl fmt::Display for RunStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A word that is no status of a run.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no status of a run")]
pub struct UnknownStatus(String);

impl FromStr for RunStatus {
    type Err = UnknownStatus;

    fn from_str(word: &str) -> Result<RunStatus, UnknownStatus> {
        let found = RunStatus::ALL.into_iter().find(|status| status.as_str() == word);
        found.ok_or_else(|| UnknownStatus(word.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_statuses_are_the_same_in_text_and_in_json() {
        for status in RunStatus::ALL {
            assert_eq!(status.to_string().parse(), Ok(status));
            assert_eq!(serde_json::to_value(status).expect("a word"), status.as_str());
            assert_eq!(status.outcome().map(RunStatus::from), status.is_over().then_some(status));
        }
        assert!("parked".parse::<RunStatus>().is_err());
    }
}
