//! Settling attempts in doubt.

use ostler_kernel::agent::Message;
use ostler_kernel::event::{AttemptResult, Outcome, Output};
use ostler_kernel::id::{NodeId, RunId};
use ostler_kernel::run::{Input, Resolution, Run};
use serde_json::Value;

use crate::agent::Request;
use crate::error::RunError;
use crate::results;
use crate::system::System;

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
        let attempt = run.check_resolution(&node)?;
        let how = match how {
            StoredHow::Done(output) => {
                let outcome = Outcome::Ok(output);
                let result = AttemptResult::unpaid(node.clone(), attempt, outcome);
                Resolution::Done(Box::new(result))
            }
            StoredHow::Redo => Resolution::Redo,
            StoredHow::Fail => Resolution::Fail,
        };
        Ok(Input::Resolved { node, how, by })
    }
}

impl System {
    /// Settles an attempt in doubt; the run goes on. Durable when it returns.
    pub async fn resolve(&self, run: RunId, node: NodeId, how: ResolveHow) -> Result<(), RunError> {
        let how = match how {
            ResolveHow::Done(value) => {
                let view = self.view(run, None).await?;
                let contract = view.run.node(&node).ok_or_else(|| RunError::UnknownNode(node.clone()))?;
                let contract = self.services.contract(&contract.contract);
                let judged = contract.map_err(|error| RunError::Result(error.to_string()))?.judge(&value);
                if let Some(broken) = judged.broken.first() {
                    return Err(RunError::Result(broken.to_string()));
                }
                let kept = results::keep(&self.services, &value).await;
                StoredHow::Done(kept.map_err(|failure| RunError::Result(failure.message))?)
            }
            ResolveHow::Redo => StoredHow::Redo,
            ResolveHow::Fail => StoredHow::Fail,
        };
        let request = ResolveRequest { node, how, by: "operator".to_owned() };
        let resolved = self.tell(run, Request::Resolve(request)).await;
        self.or_refused(run, Message::Approve, resolved).await
    }
}
