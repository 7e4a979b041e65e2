//! Answers of people to approval requests.

use ostler_kernel::id::{Digest, NodeId, Ticks};
use ostler_kernel::run::{Run, RunInput};

use crate::base::error::RunError;

/// Bytes of the name of who answers.
pub const BY_BYTES_MAX: usize = 64;

/// Bytes of what they say besides yes or no.
pub const NOTE_BYTES_MAX: usize = 4 * 1_024;

/// What a person says to a question.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    pub(crate) approve: bool,
    pub(crate) by: String,
    pub(crate) note: String,
}

impl Answer {
    /// Yes, by `operator`.
    pub fn approve() -> Answer {
        Answer { approve: true, by: "operator".to_owned(), note: String::new() }
    }

    /// No, by `operator`. Before an action that cancels the node; a refused result may be tried again.
    pub fn reject() -> Answer {
        Answer { approve: false, ..Answer::approve() }
    }

    /// Who says so: up to [`BY_BYTES_MAX`] bytes.
    pub fn by(self, by: impl Into<String>) -> Answer {
        Answer { by: by.into(), ..self }
    }

    /// In their words: up to [`NOTE_BYTES_MAX`] bytes.
    pub fn note(self, note: impl Into<String>) -> Answer {
        Answer { note: note.into(), ..self }
    }

    /// Refuses what would not fit into a record.
    pub(crate) fn check(&self) -> Result<(), RunError> {
        let Answer { by, note, .. } = self;
        if by.is_empty() || by.len() > BY_BYTES_MAX || by.chars().any(char::is_control) {
            let what =
                format!("who answers is named in 1 to {BY_BYTES_MAX} bytes without control characters");
            return Err(RunError::Said(what));
        }
        if note.len() > NOTE_BYTES_MAX {
            let bytes = note.len();
            return Err(RunError::Said(format!(
                "a note of {bytes} bytes: at most {NOTE_BYTES_MAX} are kept"
            )));
        }
        Ok(())
    }
}

/// An answer on its way to the actor that drives the run.
pub(crate) struct AnswerRequest {
    pub(crate) node: NodeId,
    pub(crate) request: u32,
    pub(crate) shown: Digest,
    pub(crate) answer: Answer,
}

impl AnswerRequest {
    /// What it means for the run; refused if it is not for what the node asks now.
    pub(crate) fn into_input(self, run: &Run, now: Ticks) -> Result<RunInput, RunError> {
        let AnswerRequest { node, request, shown, answer: Answer { approve, by, note } } = self;
        run.check_answer(&node, request, shown, now)?;
        Ok(RunInput::HumanAnswer { node, request, approve, by, note })
    }
}
