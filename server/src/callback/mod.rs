//! The listener for callbacks: answers to waits, over TCP, by an address that proves itself.
//!
//! It serves `POST /v1/callback/{run}/{node}/{token}` and nothing else. A request whose token is wrong learns nothing, and costs
//! one keyed hash: no record is read, and no body.

mod key;

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::{DefaultBodyLimit, FromRequest, Path, Request, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use axum::{Json, Router};
use hyper::header::CONTENT_LENGTH;
use ostler_actors::{RunError, System, WaitAnswer};
use ostler_kernel::event::AnswerVerdict;
use ostler_kernel::id::{NodeId, RunId};
use serde_json::Value;
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::extract::{BODY_BYTES_MAX, RawBody, body_too_large, parse_body};
use crate::problem::Problem;
use crate::tcp::serve_tcp;
use crate::wire::CallbackAnswered;

pub use key::{CallbackKeyError, callback_key};

/// Connections at once. For a further one, the oldest connection of the address with the most is closed.
pub const CALLBACK_CONNECTIONS_MAX: usize = 64;

/// Callbacks with a valid token that are received and decided at once; a further one is asked to come again. Operators have
/// places of their own.
pub const CALLBACKS_AT_ONCE_MAX: usize = 16;

/// Time for running requests at the end.
const LAST_ANSWERS: Duration = Duration::from_secs(2);

/// Header by which a sender marks a repeated delivery.
const ID_HEADER: &str = "idempotency-key";

/// A bound listener, which does not serve yet.
#[derive(Debug)]
pub struct CallbackListener {
    listener: TcpListener,
    address: SocketAddr,
}

/// A serving listener. Dropping it leaves it serving; see [`CallbackServer::stop`].
#[derive(Debug)]
pub struct CallbackServer {
    address: SocketAddr,
    stop: CancellationToken,
    served: JoinHandle<()>,
}

impl CallbackListener {
    /// Binds the address; port 0 takes a free port.
    ///
    /// # Errors
    ///
    /// The address is taken, or not one of this machine.
    pub async fn bind(address: SocketAddr) -> io::Result<CallbackListener> {
        let listener = TcpListener::bind(address).await?;
        let address = listener.local_addr()?;
        Ok(CallbackListener { listener, address })
    }

    /// The bound address.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Passes callbacks to `system`, which has the key of their tokens already.
    pub fn serve(self, system: System) -> CallbackServer {
        let CallbackListener { listener, address } = self;
        let stop = CancellationToken::new();
        let served =
            tokio::spawn(serve_tcp(listener, router(system), CALLBACK_CONNECTIONS_MAX, stop.clone()));
        CallbackServer { address, stop, served }
    }
}

impl CallbackServer {
    /// The bound address.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Takes no more connections, and waits for running requests, for two seconds at most.
    pub async fn stop(self) {
        let CallbackServer { stop, mut served, .. } = self;
        stop.cancel();
        if tokio::time::timeout(LAST_ANSWERS, &mut served).await.is_err() {
            served.abort();
        }
    }
}

#[derive(Clone)]
struct Callbacks {
    system: System,
    turns: Arc<Semaphore>,
}

fn router(system: System) -> Router {
    let callbacks = Callbacks { system, turns: Arc::new(Semaphore::new(CALLBACKS_AT_ONCE_MAX)) };
    Router::new()
        .route("/v1/callback/{run}/{node}/{token}", post(answer))
        .fallback(async || unknown())
        .method_not_allowed_fallback(async || unknown())
        .layer(DefaultBodyLimit::max(BODY_BYTES_MAX))
        .with_state(callbacks)
}

/// The one refusal of strangers, whatever is wrong with the address.
fn unknown() -> Problem {
    Problem::new(StatusCode::NOT_FOUND, "callback_unknown", "there is nothing at this address")
}

/// `POST /v1/callback/{run}/{node}/{token}`: the body is the answer.
async fn answer(
    State(callbacks): State<Callbacks>,
    path: Option<Path<(String, String, String)>>,
    headers: HeaderMap,
    request: Request,
) -> Result<Response, Problem> {
    let Path((run, node, token)) = path.ok_or_else(unknown)?;
    let run: RunId = run.parse().map_err(|_| unknown())?;
    let node = NodeId::from(node.as_str());
    if !callbacks.system.verifies_callback(run, &node, &token) {
        return Err(unknown());
    }
    let Ok(_turn) = callbacks.turns.try_acquire() else {
        let what = format!("{CALLBACKS_AT_ONCE_MAX} callbacks are being decided: send this one again later");
        return Err(Problem::new(StatusCode::SERVICE_UNAVAILABLE, "crowded", what));
    };
    // A body that is too long is refused before it is received; one without a length, as soon as it is.
    let length = headers.get(CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse::<usize>().ok());
    if length.is_some_and(|length| length > BODY_BYTES_MAX) {
        return Err(body_too_large());
    }
    let id = headers.get(ID_HEADER).map(|id| id.to_str().map(str::to_owned));
    let id = id.transpose().map_err(|_| Problem::bad("id", "Idempotency-Key is no plain text"))?;
    let RawBody(body) = RawBody::from_request(request, &()).await?;
    let value: Value = parse_body(&body)?;
    let given = WaitAnswer { value, id, by: String::new() };
    let verdict = callbacks.system.answer_wait(run, node, given).await;
    let verdict = verdict.map_err(|error| match error {
        RunError::Unknown(_) | RunError::UnknownNode(_) => unknown(),
        error => error.into(),
    });
    told(verdict?.verdict)
}

fn told(verdict: AnswerVerdict) -> Result<Response, Problem> {
    let refused = |status, code, what: &str| Err(Problem::new(status, code, what));
    let status = match verdict {
        AnswerVerdict::Accepted | AnswerVerdict::Duplicate => StatusCode::OK,
        AnswerVerdict::Kept => StatusCode::ACCEPTED,
        AnswerVerdict::Invalid => {
            let what = "the answer does not have the form that is expected here";
            return refused(StatusCode::UNPROCESSABLE_ENTITY, "invalid", what);
        }
        AnswerVerdict::Full => {
            let what = "as many early answers as are kept have come already";
            return refused(StatusCode::TOO_MANY_REQUESTS, "full", what);
        }
        AnswerVerdict::Late => {
            return refused(StatusCode::GONE, "late", "this address has been used, or its time is over");
        }
        // The plan was replaced, or the records of the run were removed.
        AnswerVerdict::Unknown => return Err(unknown()),
    };
    Ok((status, Json(CallbackAnswered { verdict })).into_response())
}
