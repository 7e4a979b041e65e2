use ostler_kernel::id::{Digest, NodeId, Ticks};
use ostler_kernel::ledger::{Amounts, CallLimits};
use ostler_kernel::run::{Run, RunInput};

use crate::base::error::RunError;

/// Bytes of the name in [`Answer::by`].
pub const BY_BYTES_MAX: usize = 64;

/// Whom the journal names where nobody else was given.
pub(crate) const OPERATOR: &str = "operator";

/// Bytes of [`Answer::note`].
pub const NOTE_BYTES_MAX: usize = 4 * 1_024;

/// A person's answer to a question.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    pub(crate) approve: bool,
    pub(crate) by: String,
    pub(crate) note: String,
    pub(crate) raise: Amounts,
}

impl Answer {
    /// Approves, by `operator`.
    pub fn approve() -> Answer {
        Answer { approve: true, by: OPERATOR.to_owned(), note: String::new(), raise: Amounts::default() }
    }

    /// Rejects, by `operator`. Before an action the cancels the node; a rejected result may be made again.
    pub fn reject() -> Answer {
        Answer { approve: false, ..Answer::approve() }
    }

    /// Sets the person's name, up to [`BY_BYTES_MAX`] bytes.
    pub fn by(self, by: impl Into<String>) -> Answer {
        Answer { by: by.into(), ..self }
    }

    /// Sets a note, up to [`NOTE_BYTES_MAX`] bytes.
    pub fn note(self, note: impl Into<String>) -> Answer {
        Answer { note: note.into(), ..self }
    }

    /// Sets the tokens and the money that an approved budget grows by.
    pub fn raise(self, raise: Amounts) -> Answer {
        Answer { raise, ..self }
    }

    /// Refuses texts that do not fit into a record.
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

/// An answer on its way to the run's driver.
pub(crate) struct AnswerRequest {
    pub(crate) node: NodeId,
    pub(crate) request: u32,
    pub(crate) shown: Digest,
    pub(crate) answer: Answer,
}

impl AnswerRequest {
    /// The decision input; refused if the node asks something else by now. `left`: see [`Run::check_raise`].
    pub(crate) fn into_input(self, run: &Run, now: Ticks, left: CallLimits) -> Result<RunInput, RunError> {
        let AnswerRequest { node, request, shown, answer: Answer { approve, by, note, raise } } = self;
        run.check_answer(&node, request, shown, now)?;
        run.check_raise(&node, approve, raise, left)?;
        Ok(RunInput::HumanAnswer { node, request, approve, by, note, raise })
    }
}
