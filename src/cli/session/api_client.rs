//! Requests to the `/v1` API, over the control socket or within the process.

use std::fs::File;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

use axum::Router;
use axum::body::Body;
use http_body_util::BodyExt;
use hyper::header::{ACCEPT, CONTENT_TYPE, HOST, HeaderValue};
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use ostler_kernel::plan::{Plan, PlanDraft};
use ostler_kernel::run::RunStatus;
use ostler_server::wire::{ProblemDetails, RunRef, SubmitRequest};
use ostler_server::{OperatorSecret, PROOF_HEADER, SHUTTING_DOWN, SecretError};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::net::UnixStream;
use tower::ServiceExt;

use crate::cli::exit::{Failure, code};
use crate::cli::output::cells::harmless_lines;
use crate::cli::output::hints::with_location;

/// Error text for a process that ended during a request. The cause of the broken connection adds nothing.
pub(crate) const CONNECTION_LOST: &str = "the process that holds the data folder ended";

const ANSWER_BYTES_MAX: usize = 1 << 30;

/// The file with the secret key to use instead of the user's own.
static KEY_FILE: OnceLock<PathBuf> = OnceLock::new();

/// Proves decisions of this command with the secret key in this file.
pub(crate) fn prove_with(file: PathBuf) {
    let _ = KEY_FILE.set(file);
}

fn operator_secret() -> Result<OperatorSecret, SecretError> {
    KEY_FILE.get().map_or_else(OperatorSecret::of_user, |file| OperatorSecret::read(file))
}

#[derive(Clone)]
pub(crate) enum Client {
    /// Another process holds the data folder and listens at `path`.
    Socket {
        path: PathBuf,
        /// Keeps the descriptor open, because the path may lead through it.
        _folder: Option<Arc<File>>,
    },
    /// This process holds the data folder.
    InProcess(Router),
}

#[derive(Debug)]
pub(crate) enum ApiError {
    /// The API refused the request.
    Problem(Box<ProblemDetails>),
    /// The other process ended; it may have accepted the request.
    ConnectionLost(String),
    /// The other process ended before the request, or refused it because it was shutting down.
    NotSent(String),
    /// Reconnecting failed.
    Failed(Failure),
}

impl ApiError {
    /// True if the request had no effect, or is `idempotent` and may be repeated after it had one.
    pub(crate) fn may_be_repeated(&self, idempotent: bool) -> bool {
        match self {
            ApiError::NotSent(_) => true,
            ApiError::ConnectionLost(_) => idempotent,
            ApiError::Problem(_) | ApiError::Failed(_) => false,
        }
    }
}

impl From<ApiError> for Failure {
    fn from(refused: ApiError) -> Failure {
        match refused {
            ApiError::ConnectionLost(what) | ApiError::NotSent(what) => Failure::internal(what),
            ApiError::Failed(failure) => failure,
            ApiError::Problem(problem) => {
                let code = match (problem.code.as_str(), problem.status) {
                    (
                        "run_quarantined" | "journal_damaged" | "journal_illegal" | "journal_failed"
                        | "artifact_damaged",
                        _,
                    ) => code::STORE,
                    ("operator_unproven" | "operator_unknown" | "operator_proof", _) => code::UNPROVEN,
                    (_, 400..500) => code::INVALID,
                    _ => code::INTERNAL,
                };
                let mut what = problem.detail;
                if problem.code == "run_quarantined" {
                    what += "; `ostler gc --quarantined --apply` removes the rest";
                }
                if problem.code == "journal_damaged" && !what.contains("ostler doctor") {
                    what +=
                        "; `ostler doctor` reports what is affected, `ostler doctor --repair` quarantines it";
                }
                if problem.current == Some(RunStatus::Suspended) {
                    what += "; `ostler resume RUN` resumes it";
                }
                if problem.code == "disk_full" {
                    what += "; nothing was recorded; repeat the command when there is space";
                }
                Failure { code, what: with_location(&what) }
            }
        }
    }
}

impl Client {
    pub(crate) fn is_remote(&self) -> bool {
        matches!(self, Client::Socket { .. })
    }

    /// Sends a request and returns the response with any status.
    async fn send(&self, request: Request<Body>) -> Result<Response<Body>, ApiError> {
        let gone = || ApiError::ConnectionLost(CONNECTION_LOST.to_owned());
        match self {
            Client::InProcess(router) => {
                Ok(router.clone().oneshot(request).await.unwrap_or_else(|never| match never {}))
            }
            Client::Socket { path, .. } => {
                let stream = UnixStream::connect(path).await.map_err(|error| {
                    ApiError::NotSent(format!("{}: no process answers: {error}", path.display()))
                })?;
                let (mut sender, connection) =
                    hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.map_err(|_| gone())?;
                tokio::spawn(connection);
                let response = sender.send_request(request).await.map_err(|_| gone())?;
                Ok(response.map(Body::new))
            }
        }
    }

    /// Sends a request; a status other than 2xx is an [`ApiError::Problem`].
    pub(crate) async fn request(
        &self,
        method: Method,
        path: &str,
        accept: &str,
        body: Option<Vec<u8>>,
    ) -> Result<Response<Body>, ApiError> {
        let body = body.unwrap_or_default();
        let made = || request(method.clone(), path, accept, Body::from(body.clone()));
        self.send_proven(&made, &body).await
    }

    /// Sends a request, and once more with a proof if only an operator may make it.
    async fn send_proven(
        &self,
        made: &(dyn Fn() -> Result<Request<Body>, ApiError> + Sync),
        body: &[u8],
    ) -> Result<Response<Body>, ApiError> {
        let challenge = match self.send_checked(made()?).await {
            Err(ApiError::Problem(problem)) if problem.challenge.is_some() => problem.challenge,
            answered => return answered,
        };
        let unproven = |what: String| problem(StatusCode::FORBIDDEN, "operator_unproven", what);
        let secret = operator_secret().map_err(|error| unproven(error.to_string()))?;
        let mut request = made()?;
        let target = request.uri().path_and_query().map_or("/", |target| target.as_str());
        let proof = secret.prove(&challenge.unwrap_or_default(), request.method().as_str(), target, body);
        let proof = HeaderValue::try_from(proof).map_err(|error| unproven(error.to_string()))?;
        request.headers_mut().insert(PROOF_HEADER, proof);
        self.send_checked(request).await
    }

    async fn send_checked(&self, request: Request<Body>) -> Result<Response<Body>, ApiError> {
        let response = self.send(request).await?;
        let status = response.status();
        if status.is_success() {
            return Ok(response);
        }
        let bytes = read_body(response.into_body()).await?;
        Err(match serde_json::from_slice::<ProblemDetails>(&bytes) {
            Ok(details) if details.code == SHUTTING_DOWN => ApiError::NotSent(details.detail),
            // The detail may quote user input, and is printed.
            Ok(details) => {
                let detail = harmless_lines(&details.detail);
                ApiError::Problem(Box::new(ProblemDetails { detail, ..details }))
            }
            Err(_) => problem(status, "answer", format!("response: status {status}")),
        })
    }

    /// Opens a run. Within the process the plan goes to the API as it was validated; another process receives the draft, since it
    /// may have other tools.
    pub(crate) async fn submit(
        &self,
        terms: &SubmitRequest<Arc<Plan>>,
        draft: &PlanDraft,
    ) -> Result<RunRef, ApiError> {
        const PATH: &str = "/v1/runs";
        match self {
            Client::InProcess(_) => {
                let made = || {
                    let mut request = request(Method::POST, PATH, "application/json", Body::empty())?;
                    request.extensions_mut().insert(terms.clone());
                    Ok(request)
                };
                read(self.send_proven(&made, &[]).await?).await
            }
            Client::Socket { .. } => self.post(PATH, &terms.clone().swap_plan(draft.clone()).1).await,
        }
    }

    pub(crate) async fn get<T: DeserializeOwned>(&self, path: &str) -> Result<T, ApiError> {
        read(self.request(Method::GET, path, "application/json", None).await?).await
    }

    pub(crate) async fn post<T: DeserializeOwned>(
        &self,
        path: &str,
        body: &impl Serialize,
    ) -> Result<T, ApiError> {
        let body = serde_json::to_vec(body).expect("a request is names, numbers and JSON");
        read(self.request(Method::POST, path, "application/json", Some(body)).await?).await
    }
}

fn request(method: Method, path: &str, accept: &str, body: Body) -> Result<Request<Body>, ApiError> {
    let builder = Request::builder().method(method).uri(path).header(HOST, "ostler").header(ACCEPT, accept);
    let request = builder.header(CONTENT_TYPE, "application/json").body(body);
    request.map_err(|error| problem(StatusCode::BAD_REQUEST, "request", error.to_string()))
}

fn problem(status: StatusCode, code: &str, detail: String) -> ApiError {
    ApiError::Problem(Box::new(ProblemDetails {
        kind: "about:blank".to_owned(),
        title: status.canonical_reason().unwrap_or("Error").to_owned(),
        status: status.as_u16(),
        detail,
        code: code.to_owned(),
        faults: Vec::new(),
        current: None,
        expected: Vec::new(),
        nodes: Vec::new(),
        challenge: None,
    }))
}

async fn read<T: DeserializeOwned>(response: Response<Body>) -> Result<T, ApiError> {
    let status = response.status();
    let bytes = read_body(response.into_body()).await?;
    serde_json::from_slice(&bytes).map_err(|error| {
        problem(status, "answer", format!("response: from another version of ostler: {error}"))
    })
}

pub(crate) async fn read_body(body: Body) -> Result<Vec<u8>, ApiError> {
    let limited = http_body_util::Limited::new(body, ANSWER_BYTES_MAX);
    match limited.collect().await {
        Ok(collected) => Ok(collected.to_bytes().to_vec()),
        Err(error) if error.is::<http_body_util::LengthLimitError>() => {
            Err(ApiError::ConnectionLost(format!("response: larger than {ANSWER_BYTES_MAX} bytes")))
        }
        Err(_) => Err(ApiError::ConnectionLost(CONNECTION_LOST.to_owned())),
    }
}

/// Percent-encodes a text for use as one segment of a path.
pub(crate) fn path_segment(text: &str) -> String {
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
