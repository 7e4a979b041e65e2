//! Settling attempts in doubt.

use ostler_kernel::agent::LifecycleMessage;
use ostler_kernel::id::{NodeId, RunId};
use ostler_kernel::run::ResolutionError;
use serde_json::Value;

use crate::api::system::System;
use crate::base::error::RunError;
use crate::messages::agent::Request;
use crate::messages::answer::OPERATOR;
use crate::messages::resolution::{ResolveRequest, StoredHow};
use crate::run::suspended_runs;

/// A person's settlement of an attempt with a lost result.
#[derive(Debug, Clone, PartialEq)]
pub enum ResolveHow {
    /// The attempt took effect, with the result.
    Done(Value),
    /// Run the node again.
    Redo,
    /// The attempt failed.
    Fail,
    /// The run has ended, and nothing is left of the node's effect.
    Gone,
}

impl System {
    /// Settles the attempt of a node that is in doubt; the run goes on. In a closed run, [`ResolveHow::Gone`] settles a node whose
    /// effect stayed unknown: nothing is left of it. Durable on return. A repetition settles
    /// whichever attempt is in doubt by then; [`System::resolve_attempt`] avoids that.
    ///
    /// # Errors
    ///
    /// [`RunError::InvalidState`] if the run has no open question or is suspended (use [`System::resume`] first).
    pub async fn resolve(&self, run: RunId, node: NodeId, how: ResolveHow) -> Result<(), RunError> {
        self.resolve_by(OPERATOR.to_owned(), run, node, None, how).await
    }

    /// Settles one attempt of a node, counted from 1; the run goes on. Durable on return. A repetition changes
    /// nothing unless another attempt of the node was settled since. Dropping the future loses only the answer.
    pub async fn resolve_attempt(
        &self,
        run: RunId,
        node: NodeId,
        attempt: u32,
        how: ResolveHow,
    ) -> Result<(), RunError> {
        self.resolve_by(OPERATOR.to_owned(), run, node, Some(attempt), how).await
    }

    /// Like [`System::resolve_attempt`] or, without an attempt, [`System::resolve`], by a person of this name.
    pub async fn resolve_by(
        &self,
        by: String,
        run: RunId,
        node: NodeId,
        attempt: Option<u32>,
        how: ResolveHow,
    ) -> Result<(), RunError> {
        if how == ResolveHow::Gone {
            let position = suspended_runs::settle_by_hand(&self.services, &self.row(run)?, &node, &by)?;
            return Ok(self.services.journal.durable(position).await?);
        }
        let view = self.view(run, None).await?;
        if view.closed.is_some() && attempt.is_none() && view.run.is_unsure(&node) {
            return Err(ResolutionError::Ended { node }.into());
        }
        let taken = self.lifecycle_by(&view).accepts_resolution();
        if attempt.is_none() {
            taken?;
        }
        self.check_has_all(&view)?;
        let how = match how {
            ResolveHow::Done(value) => {
                let contract = view.run.node(&node).ok_or_else(|| RunError::UnknownNode(node.clone()))?;
                let judged = self.services.gatekeeper.judge(&contract.contract, &value);
                let judged = judged.map_err(|error| RunError::Result(error.to_string()))?;
                if let Some(broken) = judged.broken.first() {
                    return Err(RunError::Result(broken.to_string()));
                }
                let kept = self.services.results.keep(&value).await;
                StoredHow::Done(kept.map_err(|failure| RunError::Result(failure.message))?)
            }
            ResolveHow::Redo => StoredHow::Redo,
            ResolveHow::Fail | ResolveHow::Gone => StoredHow::Fail,
        };
        let (settlement, result) = how.settlement();
        let request = ResolveRequest { node: node.clone(), attempt, how, by };
        let resolved = match taken {
            Ok(()) => self.tell(run, Request::Resolve(request)).await,
            Err(refused) => Err(refused.into()),
        };
        // A repeated request may have been done before.
        if let (Some(attempt), Err(RunError::InvalidState(_) | RunError::Over | RunError::Resolution(_))) =
            (attempt, &resolved)
            && let Ok(view) = self.view(run, None).await
            && view.run.is_resolved(&node, attempt, settlement, result)
        {
            return Ok(());
        }
        self.or_refused(run, LifecycleMessage::Approve, resolved).await
    }
}
