//! Answers from outside the system to nodes of kind `wait`.

use std::sync::{Arc, OnceLock};

use ostler_kernel::callback::CallbackKey;
use ostler_kernel::id::{NodeId, RunId};
use ostler_kernel::port::RunRowStatus;
use ostler_kernel::run::ANSWER_ID_BYTES_MAX;
use serde_json::Value;

use crate::api::system::System;
use crate::base::error::RunError;
use crate::base::limits::WAIT_ANSWERS_MAX;
use crate::messages::agent::Request;
use crate::messages::answer::BY_BYTES_MAX;
use crate::messages::wait_answer::{WaitAnswerRequest, WaitVerdict};
use crate::run::suspended_runs;

/// A value from outside for a node of kind `wait`.
#[derive(Debug, Clone, PartialEq)]
pub struct WaitAnswer {
    /// The value, judged by the contract of the node.
    pub value: Value,
    /// The sender's id of the answer, 1 to [`ANSWER_ID_BYTES_MAX`] bytes; a second delivery with the same id is a duplicate.
    pub id: Option<String>,
    /// Name of the answering operator, up to [`BY_BYTES_MAX`] bytes; empty for a sender that knows only the address of the node.
    pub by: String,
}

impl WaitAnswer {
    fn check(&self) -> Result<(), RunError> {
        let bad = |text: &str, most: usize| text.len() > most || text.chars().any(char::is_control);
        if self.id.as_deref().is_some_and(|id| id.is_empty() || bad(id, ANSWER_ID_BYTES_MAX)) {
            let what = format!(
                "the id of an answer has 1 to {ANSWER_ID_BYTES_MAX} bytes without control characters"
            );
            return Err(RunError::Said(what));
        }
        if bad(&self.by, BY_BYTES_MAX) {
            return Err(RunError::Said(format!("who answers is named in at most {BY_BYTES_MAX} bytes")));
        }
        Ok(())
    }
}

impl System {
    /// Passes a value to a node of kind `wait`, or keeps the value until the node waits. A suspended run records the answer and
    /// stays suspended. Durable on return; a repetition with the same id is an
    /// [`AnswerVerdict::Duplicate`](ostler_kernel::event::AnswerVerdict::Duplicate).
    ///
    /// # Errors
    ///
    /// The run is unknown or cannot be read, the value is too large, or [`WAIT_ANSWERS_MAX`] answers are being decided. A rejected
    /// answer is a verdict, not an error.
    pub async fn answer_wait(
        &self,
        run: RunId,
        node: NodeId,
        answer: WaitAnswer,
    ) -> Result<WaitVerdict, RunError> {
        answer.check()?;
        let Ok(_turn) = self.services.wait_answers.try_acquire() else {
            return Err(RunError::Crowded(WAIT_ANSWERS_MAX));
        };
        let row = self.row(run)?;
        if let RunRowStatus::Closed(_) | RunRowStatus::Quarantined(_) = row.status {
            return self.late(run, &node, answer.id.as_deref()).await;
        }
        let WaitAnswer { value, id, by } = answer;
        let kept = self.services.results.keep(&value).await;
        let output = kept.map_err(|failure| RunError::Result(failure.message))?;
        let (value, verdict) = (Arc::new(value), Arc::new(OnceLock::new()));
        let request = WaitAnswerRequest {
            node: node.clone(),
            id: id.clone(),
            value,
            output,
            by,
            verdict: Arc::clone(&verdict),
        };
        let decided = if self.rests(run) {
            let position = suspended_runs::answer_wait(&self.services, &row, &request);
            match position {
                Ok(position) => {
                    self.services.journal.durable(position).await?;
                    // A suspended run continues only on request.
                    if row.status == RunRowStatus::Open { self.take_up(run, false) } else { Ok(()) }
                }
                Err(error) => Err(error),
            }
        } else {
            self.until_answered(run, || Box::pin(self.tell(run, Request::WaitAnswer(request.clone())))).await
        };
        match (decided, verdict.get()) {
            (Ok(()), Some(verdict)) => Ok(verdict.clone()),
            // The run ended before the answer was decided.
            (Ok(()) | Err(RunError::Over), None) => self.late(run, &node, id.as_deref()).await,
            (Err(RunError::Over), Some(verdict)) => Ok(verdict.clone()),
            (Err(error), _) => Err(error),
        }
    }

    /// Gives waits an address below `base`, which has no slash at its end. The first base stays.
    pub fn serve_callbacks(&self, base: String, key: CallbackKey) {
        self.services.gatekeeper.callbacks.serve(base, key);
    }

    /// True if `token` is that of the wait's address. Reads no record.
    pub fn verifies_callback(&self, run: RunId, node: &NodeId, token: &str) -> bool {
        self.services.gatekeeper.callbacks.verifies(run, node, token)
    }

    /// The callback address of a wait with a hidden token; `None` without a listener.
    pub fn shown_callback(&self, run: RunId, node: &NodeId) -> Option<String> {
        Some(self.services.gatekeeper.callbacks.shown(run, node)?.url)
    }

    async fn late(&self, run: RunId, node: &NodeId, id: Option<&str>) -> Result<WaitVerdict, RunError> {
        let view = self.view(run, None).await?;
        Ok(view.run.answer_verdict(node, id, false, self.services.journal.now()).into())
    }
}
