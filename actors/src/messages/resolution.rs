//! Settlements of attempts in doubt.

use ostler_kernel::event::{AttemptResult, Outcome, Output};
use ostler_kernel::id::{Digest, NodeId};
use ostler_kernel::run::{Resolution, ResolutionKind, Run, RunInput};

use crate::base::error::RunError;

pub(crate) enum StoredHow {
    Done(Output),
    Redo,
    Fail,
}

impl StoredHow {
    /// The kind of settlement, and the digest of the result.
    pub(crate) fn settlement(&self) -> (ResolutionKind, Option<Digest>) {
        match self {
            StoredHow::Done(output) => (ResolutionKind::Done, Some(output.artifact)),
            StoredHow::Redo => (ResolutionKind::Redo, None),
            StoredHow::Fail => (ResolutionKind::Fail, None),
        }
    }
}

pub(crate) struct ResolveRequest {
    pub(crate) node: NodeId,
    /// The attempt that the person looked at; `None`: the one in doubt.
    pub(crate) attempt: Option<u32>,
    pub(crate) how: StoredHow,
    pub(crate) by: String,
}

impl ResolveRequest {
    /// The decision input; refused if the node is not in doubt.
    pub(crate) fn into_input(self, run: &Run) -> Result<RunInput, RunError> {
        let ResolveRequest { node, attempt, how, by } = self;
        let attempt = run.check_resolution(&node, attempt)?;
        let how = match how {
            StoredHow::Done(output) => {
                let outcome = Outcome::Ok(output);
                let result = AttemptResult::without_cost(node.clone(), attempt, outcome);
                Resolution::Done(Box::new(result))
            }
            StoredHow::Redo => Resolution::Redo,
            StoredHow::Fail => Resolution::Fail,
        };
        Ok(RunInput::Resolved { node, how, by })
    }
}
