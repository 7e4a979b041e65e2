//! Asking the API: of the process that holds the data folder over its socket, or of this one, in memory.

use std::fs::File;
use std::path::PathBuf;
use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use http_body_util::BodyExt;
use hyper::header::{ACCEPT, CONTENT_TYPE, HOST};
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use ostler_kernel::agent::AgentState;
use ostler_server::SHUTTING_DOWN;
use ostler_server::wire::ProblemDetails;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::net::UnixStream;
use tower::ServiceExt;

use super::advice::placed;
use super::cells::harmless_lines;
use super::exit::{Failure, code};

/// What is said of a process that ends while it is asked; how the connection broke says nothing more.
pub(crate) const WENT_AWAY: &str = "the process that holds the data folder went away";

/// Bytes of an answer that is taken as a whole.
const ANSWER_BYTES_MAX: usize = 1 << 30;

/// The way to the API.
#[derive(Clone)]
pub(crate) enum Client {
    /// Another process holds the data folder and answers here.
    Socket {
        path: PathBuf,
        /// The path may lead through the descriptor of the data folder.
        _folder: Option<Arc<File>>,
    },
    /// This process holds it.
    Here(Router),
}

/// Why a request was not answered as wanted.
#[derive(Debug)]
pub(crate) enum Refused {
    /// The API said no.
    Problem(Box<ProblemDetails>),
    /// The other process is gone; whether it took the request is unknown.
    Gone(String),
    /// The other process was gone before it was asked, or has done nothing of it.
    NotThere(String),
    /// No other way was found.
    Failed(Failure),
}

impl From<Refused> for Failure {
    fn from(refused: Refused) -> Failure {
        match refused {
            Refused::Gone(what) | Refused::NotThere(what) => Failure::internal(what),
            Refused::Failed(failure) => failure,
            Refused::Problem(problem) => {
                let code = match (problem.code.as_str(), problem.status) {
                    (
                        "run_quarantined" | "journal_damaged" | "journal_illegal" | "journal_failed"
                        | "artifact_damaged",
                        _,
                    ) => code::STORE,
                    (_, 400..500) => code::INVALID,
                    _ => code::INTERNAL,
                };
                let mut what = problem.detail;
                if problem.code == "run_quarantined" {
                    what += "; `ostler gc --quarantined --apply` removes what is left of it";
                }
                if problem.code == "journal_damaged" && !what.contains("ostler doctor") {
                    what +=
                        "; `ostler doctor` tells what it touches, `ostler doctor --repair` sets that aside";
                }
                if problem.current == Some(AgentState::Checkpointed) {
                    what += ": `ostler resume RUN` takes it up";
                }
                if problem.code == "disk_full" {
                    what += ": nothing of it was written down; say it again when there is room";
                }
                Failure { code, what: placed(&what) }
            }
        }
    }
}

impl Client {
    /// Whether another process answers.
    pub(crate) fn is_remote(&self) -> bool {
        matches!(self, Client::Socket { .. })
    }

    /// Sends a request and gives the answer, whatever it is.
    async fn send(&self, request: Request<Body>) -> Result<Response<Body>, Refused> {
        let gone = || Refused::Gone(WENT_AWAY.to_owned());
        match self {
            Client::Here(router) => {
                Ok(router.clone().oneshot(request).await.unwrap_or_else(|never| match never {}))
            }
            Client::Socket { path, .. } => {
                let stream = UnixStream::connect(path).await.map_err(|error| {
                    Refused::NotThere(format!("nobody answers at {}: {error}", path.display()))
                })?;
                let (mut sender, connection) =
                    hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.map_err(|_| gone())?;
                tokio::spawn(connection);
                let response = sender.send_request(request).await.map_err(|_| gone())?;
                Ok(response.map(Body::new))
            }
        }
    }

    /// Sends a request; an answer that is no success is a problem.
    pub(crate) async fn ask(
        &self,
        method: Method,
        path: &str,
        accept: &str,
        body: Option<Vec<u8>>,
    ) -> Result<Response<Body>, Refused> {
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header(HOST, "ostler")
            .header(ACCEPT, accept)
            .header(CONTENT_TYPE, "application/json")
            .body(body.map_or_else(Body::empty, Body::from))
            .map_err(|error| problem(StatusCode::BAD_REQUEST, "request", error.to_string()))?;
        let response = self.send(request).await?;
        let status = response.status();
        if status.is_success() {
            return Ok(response);
        }
        let bytes = whole(response.into_body()).await?;
        Err(match serde_json::from_slice::<ProblemDetails>(&bytes) {
            Ok(details) if details.code == SHUTTING_DOWN => Refused::NotThere(details.detail),
            // It quotes what somebody wrote, and whoever is refused prints it.
            Ok(details) => {
                let detail = harmless_lines(&details.detail);
                Refused::Problem(Box::new(ProblemDetails { detail, ..details }))
            }
            Err(_) => problem(status, "answer", format!("the answer is {status}")),
        })
    }

    /// Gets a JSON document.
    pub(crate) async fn get<T: DeserializeOwned>(&self, path: &str) -> Result<T, Refused> {
        read(self.ask(Method::GET, path, "application/json", None).await?).await
    }

    /// Posts a JSON document and reads the answer.
    pub(crate) async fn post<T: DeserializeOwned>(
        &self,
        path: &str,
        body: &impl Serialize,
    ) -> Result<T, Refused> {
        let body = serde_json::to_vec(body).expect("a request is names, numbers and JSON");
        read(self.ask(Method::POST, path, "application/json", Some(body)).await?).await
    }
}

fn problem(status: StatusCode, code: &str, detail: String) -> Refused {
    Refused::Problem(Box::new(ProblemDetails {
        kind: "about:blank".to_owned(),
        title: status.canonical_reason().unwrap_or("Error").to_owned(),
        status: status.as_u16(),
        detail,
        code: code.to_owned(),
        faults: Vec::new(),
        current: None,
        expected: Vec::new(),
    }))
}

async fn read<T: DeserializeOwned>(response: Response<Body>) -> Result<T, Refused> {
    let status = response.status();
    let bytes = whole(response.into_body()).await?;
    serde_json::from_slice(&bytes)
        .map_err(|error| problem(status, "answer", format!("the answer is of another version: {error}")))
}

/// All of a body.
pub(crate) async fn whole(body: Body) -> Result<Vec<u8>, Refused> {
    let limited = http_body_util::Limited::new(body, ANSWER_BYTES_MAX);
    match limited.collect().await {
        Ok(collected) => Ok(collected.to_bytes().to_vec()),
        Err(error) if error.is::<http_body_util::LengthLimitError>() => {
            Err(Refused::Gone(format!("the answer has more than {ANSWER_BYTES_MAX} bytes")))
        }
        Err(_) => Err(Refused::Gone(WENT_AWAY.to_owned())),
    }
}

/// A part of a path, with everything that has a meaning there escaped.
pub(crate) fn part(text: &str) -> String {
    let mut escaped = String::new();
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~@".contains(&byte) {
            escaped.push(byte as char);
        } else {
            escaped.push_str(&format!("%{byte:02X}"));
        }
    }
    escaped
}
