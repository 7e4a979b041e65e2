//! Errors as RFC 9457 problem details with a stable code.

use axum::Json;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use ostler_actors::{PipelineError, RunError, SubmitError};
use ostler_kernel::agent::InvalidState;
use ostler_kernel::pipeline::SpecFault;
use ostler_kernel::plan::Diagnostic;
use ostler_kernel::policy::InterjectionError;
use ostler_kernel::port::{ArtifactError, JournalError};
use ostler_kernel::run::{AnswerError, ResolutionError, UndoError};

use crate::wire::{FaultLine, ProblemDetails};

/// A refused or failed request.
#[derive(Debug, Clone, PartialEq)]
pub struct Problem {
    status: StatusCode,
    code: &'static str,
    detail: String,
    faults: Vec<FaultLine>,
    /// The present state, and those that accept the request.
    states: Option<InvalidState>,
    names: Option<Named>,
}

/// Names that a client needs beside the text. Boxed, because every handler returns a problem by value.
#[derive(Debug, Clone, PartialEq)]
enum Named {
    /// The challenge that a proof of the operator must contain.
    Challenge(Box<str>),
    /// The nodes that the problem is about.
    Nodes(Box<[String]>),
}

impl Problem {
    pub(crate) fn new(status: StatusCode, code: &'static str, detail: impl Into<String>) -> Problem {
        Problem { status, code, detail: detail.into(), faults: Vec::new(), states: None, names: None }
    }

    /// Names the nodes that the problem is about.
    pub(crate) fn with_nodes<T: ToString>(self, nodes: &[T]) -> Problem {
        Problem { names: Some(Named::Nodes(nodes.iter().map(T::to_string).collect())), ..self }
    }

    /// Adds the challenge that a proof of the operator must contain.
    pub(crate) fn with_challenge(self, challenge: String) -> Problem {
        Problem { names: Some(Named::Challenge(challenge.into())), ..self }
    }

    pub(crate) fn detail(&self) -> &str {
        &self.detail
    }

    pub(crate) fn bad(code: &'static str, detail: impl Into<String>) -> Problem {
        Problem::new(StatusCode::BAD_REQUEST, code, detail)
    }

    pub(crate) fn faults(faults: &[Diagnostic]) -> Problem {
        let lines = faults.iter().map(|fault| FaultLine {
            code: fault.code.to_string(),
            node: fault.node.clone(),
            pointer: fault.pointer.clone(),
            detail: fault.detail.clone(),
            help: fault.help.clone(),
            line: fault.line,
        });
        let detail = format!("the plan breaks {} rules", faults.len());
        let problem = Problem::new(StatusCode::UNPROCESSABLE_ENTITY, "plan_invalid", detail);
        Problem { faults: lines.collect(), ..problem }
    }
}

impl Problem {
    pub(crate) fn pipeline(faults: &[SpecFault]) -> Problem {
        let lines = faults.iter().map(|fault| FaultLine {
            code: fault.code().to_owned(),
            node: fault.stage().unwrap_or_default().to_owned(),
            pointer: String::new(),
            detail: fault.to_string(),
            help: String::new(),
            line: None,
        });
        let detail = PipelineError::Spec(faults.to_vec()).to_string();
        let problem = Problem::new(StatusCode::UNPROCESSABLE_ENTITY, "pipeline_invalid", detail);
        Problem { faults: lines.collect(), ..problem }
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let (challenge, nodes) = match self.names {
            Some(Named::Challenge(challenge)) => (Some(challenge.into_string()), Vec::new()),
            Some(Named::Nodes(nodes)) => (None, nodes.into_vec()),
            None => (None, Vec::new()),
        };
        let details = ProblemDetails {
            kind: "about:blank".to_owned(),
            title: self.status.canonical_reason().unwrap_or("Error").to_owned(),
            status: self.status.as_u16(),
            detail: self.detail,
            code: self.code.to_owned(),
            faults: self.faults,
            current: self.states.map(|states| states.current),
            expected: self.states.map_or_else(Vec::new, |states| states.expected.to_vec()),
            nodes,
            challenge,
        };
        let media = [(header::CONTENT_TYPE, "application/problem+json")];
        (self.status, media, Json(details)).into_response()
    }
}

impl From<JournalError> for Problem {
    fn from(error: JournalError) -> Problem {
        let (status, code) = match &error {
            JournalError::Full(_) => (StatusCode::INSUFFICIENT_STORAGE, "disk_full"),
            JournalError::Damaged { .. } => (StatusCode::INTERNAL_SERVER_ERROR, "journal_damaged"),
            JournalError::Refused(_) => (StatusCode::PAYLOAD_TOO_LARGE, "record_refused"),
            JournalError::Conflict { .. } | JournalError::Poisoned(_) => {
                (StatusCode::INTERNAL_SERVER_ERROR, "journal_failed")
            }
        };
        Problem::new(status, code, error.to_string())
    }
}

impl From<RunError> for Problem {
    fn from(error: RunError) -> Problem {
        let told = error.to_string();
        let (status, code) = match error {
            RunError::Unknown(_) => (StatusCode::NOT_FOUND, "run_unknown"),
            RunError::UnknownNode(_) => (StatusCode::NOT_FOUND, "node_unknown"),
            RunError::Over => (StatusCode::CONFLICT, "run_over"),
            RunError::InvalidState(states) => {
                let problem = Problem::new(StatusCode::CONFLICT, "invalid_state", told);
                return Problem { states: Some(states), ..problem };
            }
            RunError::Quarantined(_) => (StatusCode::CONFLICT, "run_quarantined"),
            RunError::Missing(_) => (StatusCode::CONFLICT, "run_needs_more"),
            RunError::Resolution(error) => match error {
                ResolutionError::UnknownNode(_) => (StatusCode::NOT_FOUND, "node_unknown"),
                ResolutionError::NotInDoubt { .. } => (StatusCode::CONFLICT, "not_in_doubt"),
                ResolutionError::OtherAttempt { .. } => (StatusCode::CONFLICT, "other_attempt"),
                ResolutionError::Ended { .. } => (StatusCode::CONFLICT, "run_over"),
                ResolutionError::GoesOn { .. } => (StatusCode::CONFLICT, "run_goes_on"),
            },
            RunError::Undo(UndoError::Live) => (StatusCode::CONFLICT, "undo_live"),
            RunError::Undo(UndoError::Nothing { .. }) => (StatusCode::CONFLICT, "undo_nothing"),
            RunError::NodeOver { .. } => (StatusCode::CONFLICT, "node_over"),
            RunError::Intent(_) => (StatusCode::FORBIDDEN, "intent_above_token"),
            RunError::Change(_) => (StatusCode::CONFLICT, "change_refused"),
            RunError::Interjection(InterjectionError::NoGoal) => (StatusCode::CONFLICT, "run_without_goal"),
            RunError::Interjection(InterjectionError::Faulty(_) | InterjectionError::CancelWithConclude) => {
                (StatusCode::UNPROCESSABLE_ENTITY, "answer_faulty")
            }
            RunError::Said(_) => (StatusCode::UNPROCESSABLE_ENTITY, "answer_unwritable"),
            RunError::Answer(error) => match error {
                AnswerError::UnknownNode(_) => (StatusCode::NOT_FOUND, "node_unknown"),
                AnswerError::NotAsked { .. } => (StatusCode::CONFLICT, "not_asked"),
                AnswerError::Answered { .. } => (StatusCode::CONFLICT, "already_answered"),
                AnswerError::AskedAnew { .. } => (StatusCode::CONFLICT, "asked_anew"),
                AnswerError::OtherDigest { .. } => (StatusCode::CONFLICT, "other_digest"),
                AnswerError::NoRaise(_) => (StatusCode::UNPROCESSABLE_ENTITY, "raise_missing"),
                AnswerError::CannotRaise { .. } => (StatusCode::UNPROCESSABLE_ENTITY, "raise_refused"),
                AnswerError::InDoubt(_) => (StatusCode::CONFLICT, "in_doubt"),
                AnswerError::Wait(_) => (StatusCode::CONFLICT, "waits_for_value"),
                AnswerError::TooLate { .. } => (StatusCode::CONFLICT, "too_late"),
            },
            RunError::NoResult { .. } => (StatusCode::NOT_FOUND, "no_result"),
            RunError::NotAsked => (StatusCode::CONFLICT, "not_asked"),
            RunError::Result(_) => (StatusCode::UNPROCESSABLE_ENTITY, "result_refused"),
            RunError::Output(_) => (StatusCode::INTERNAL_SERVER_ERROR, "output_unreadable"),
            RunError::Fold(_) => (StatusCode::INTERNAL_SERVER_ERROR, "journal_illegal"),
            RunError::Journal(error) => return error.into(),
            RunError::Artifact(ArtifactError::Io(_)) => {
                (StatusCode::INTERNAL_SERVER_ERROR, "artifact_failed")
            }
            RunError::Artifact(ArtifactError::Full(_)) => (StatusCode::INSUFFICIENT_STORAGE, "disk_full"),
            RunError::Artifact(_) => (StatusCode::INTERNAL_SERVER_ERROR, "artifact_damaged"),
            RunError::Behind(_) => (StatusCode::CONFLICT, "behind"),
            RunError::Crowded(_) => (StatusCode::SERVICE_UNAVAILABLE, "crowded"),
            RunError::Restarting => (StatusCode::SERVICE_UNAVAILABLE, "restarting"),
            RunError::Halted(_) => (StatusCode::SERVICE_UNAVAILABLE, "halted"),
        };
        Problem::new(status, code, told)
    }
}

impl From<SubmitError> for Problem {
    fn from(error: SubmitError) -> Problem {
        let told = error.to_string();
        let code = match error {
            SubmitError::Plan(_) => "plan_unwritable",
            SubmitError::Client(_) => return Problem::bad("client_name", told),
            SubmitError::TooManyClients(_) => "too_many_clients",
            SubmitError::Intent(_) => "intent_out_of_range",
            SubmitError::AboveToken(_) => {
                return Problem::new(StatusCode::FORBIDDEN, "intent_above_token", told);
            }
            SubmitError::Scope { .. } => "scope_unknown",
            SubmitError::Input { .. } => "input_invalid",
            SubmitError::Workspace { .. } => "workspace_unusable",
            SubmitError::Taken { .. } => return Problem::new(StatusCode::CONFLICT, "run_taken", told),
            SubmitError::Unreadable(error) => return (*error).into(),
            SubmitError::Journal(error) => return error.into(),
        };
        Problem::new(StatusCode::UNPROCESSABLE_ENTITY, code, told)
    }
}
