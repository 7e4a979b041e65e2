//! Calls that were given up before their answer: the server may go on with them, and write beside a call that was approved.

use std::any::Any;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rmcp::RoleClient;
use rmcp::model::{JsonRpcMessage, RequestId, ServerResult};
use rmcp::service::{RxJsonRpcMessage, ServiceError};
use tokio::sync::{Notify, oneshot, watch};

/// Time for a server to answer a call that was given up, in milliseconds. A server that may write and does not answer is ended.
pub const MCP_GIVEN_UP_MS: u64 = 10_000;

/// The answer of the library to a request.
type Answer = Result<ServerResult, ServiceError>;

/// The calls of a connection that were given up, and that have neither been answered nor ended with the server's program.
#[derive(Clone, Default)]
pub(super) struct GivenUp(Arc<State>);

#[derive(Default)]
struct State {
    /// Receivers of the answers, by the text of the request's id. The library hands no answer to a cancelled request on.
    answers: Mutex<HashMap<String, oneshot::Sender<()>>>,
    open: watch::Sender<usize>,
    unanswered: Notify,
    /// Has a receiver as long as the server's program, and all that it started, runs.
    program: watch::Sender<()>,
}

impl GivenUp {
    fn answers(&self) -> MutexGuard<'_, HashMap<String, oneshot::Sender<()>>> {
        self.0.answers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A value that the server's program keeps until its end.
    pub(super) fn program(&self) -> Arc<dyn Any + Send + Sync> {
        Arc::new(self.0.program.subscribe())
    }

    /// Notes a message of the server, which may be an answer.
    pub(super) fn note(&self, message: &RxJsonRpcMessage<RoleClient>) {
        let id = match message {
            JsonRpcMessage::Response(response) => Some(&response.id),
            JsonRpcMessage::Error(error) => error.id.as_ref(),
            _ => None,
        };
        if let Some(answered) = id.and_then(|id| self.answers().remove(&id.to_string())) {
            let _ = answered.send(());
        }
    }

    /// Begins to wait for the answer to a call that is given up now. `held`: its turn; `None` if the call has given the turn back.
    pub(super) fn begin(&self, id: &RequestId, held: Option<Arc<dyn Any + Send + Sync>>) -> Unanswered {
        let (id, (told, noted)) = (id.to_string(), oneshot::channel());
        self.answers().insert(id.clone(), told);
        self.0.open.send_modify(|open| *open += 1);
        Unanswered { given_up: self.clone(), id, noted, held }
    }

    /// Waits until the server has answered all calls that were given up, or its program has ended.
    pub(super) async fn settled(&self) {
        let mut open = self.0.open.subscribe();
        // The sender lives as long as `self`.
        let _ = open.wait_for(|open| *open == 0).await;
    }

    /// Waits for a call that the server has not answered in time.
    pub(super) async fn unanswered(&self) {
        self.0.unanswered.notified().await;
    }
}

/// A call that was given up, until it is answered or the server's program has ended.
pub(super) struct Unanswered {
    given_up: GivenUp,
    id: String,
    noted: oneshot::Receiver<()>,
    held: Option<Arc<dyn Any + Send + Sync>>,
}

impl Unanswered {
    /// Holds the turn until the end of the call. Ends the server after [`MCP_GIVEN_UP_MS`], or at once if the call has no turn: another
    /// call may have been approved meanwhile. `answer` is that of the library, which gives none once the cancellation is sent.
    pub(super) async fn settle(mut self, answer: oneshot::Receiver<Answer>) {
        let within = if self.held.is_some() { MCP_GIVEN_UP_MS } else { 0 };
        let noted = &mut self.noted;
        let answered = async move {
            if !matches!(answer.await, Ok(Ok(_) | Err(ServiceError::McpError(_)))) {
                // The sender is kept until the answer.
                let _ = noted.await;
            }
        };
        let program = &self.given_up.0.program;
        tokio::select! {
            biased;
            () = answered => {}
            () = program.closed() => {}
            () = tokio::time::sleep(Duration::from_millis(within)) => {
                self.given_up.0.unanswered.notify_one();
                program.closed().await;
            }
        }
    }
}

impl Drop for Unanswered {
    fn drop(&mut self) {
        self.given_up.answers().remove(&self.id);
        self.held = None;
        self.given_up.0.open.send_modify(|open| *open -= 1);
    }
}
