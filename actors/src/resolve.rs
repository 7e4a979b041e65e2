//! Settling attempts in doubt.

use ostler_kernel::event::{AttemptResult, HumanRequestKind, Outcome, Output};
use ostler_kernel::id::NodeId;
use ostler_kernel::run::{Input, Resolution, Run, Standing};
use serde_json::Value;

use crate::system::RunError;

/// How a person settles an attempt whose result was lost.
#[derive(Debug, Clone, PartialEq)]
pub enum ResolveHow {
    /// It was done; this is its result.
    Done(Value),
    /// It is to be done again.
    Redo,
    /// It counts as failed.
    Fail,
}

/// The same, with the result stored.
pub(crate) enum StoredHow {
    Done(Output),
    Redo,
    Fail,
}

pub(crate) struct ResolveRequest {
    pub(crate) node: NodeId,
    pub(crate) how: StoredHow,
    pub(crate) by: String,
}

impl ResolveRequest {
    /// What it means for the run; refused if the node is not in doubt.
    pub(crate) fn into_input(self, run: &Run) -> Result<Input, RunError> {
        let ResolveRequest { node, how, by } = self;
        let instance = run.instance(&node).ok_or_else(|| RunError::UnknownNode(node.clone()))?;
        let in_doubt = HumanRequestKind::InDoubt;
        if !matches!(instance.standing, Standing::WaitingHuman { ask, .. } if ask == in_doubt) {
            return Err(RunError::NotInDoubt { node, state: instance.state() });
        }
        let how = match how {
            StoredHow::Done(output) => {
                let (attempt, outcome) = (instance.attempts, Outcome::Ok(output));
                let result = AttemptResult::unpaid(node.clone(), attempt, outcome);
                Resolution::Done(Box::new(result))
            }
            StoredHow::Redo => Resolution::Redo,
            StoredHow::Fail => Resolution::Fail,
        };
        Ok(Input::Resolved { node, how, by })
    }
}
