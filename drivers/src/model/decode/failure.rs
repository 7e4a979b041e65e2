//! Failures: one class each, whatever the provider calls them.

use std::fmt;

use serde_json::{Value, json};

use super::json::{self, Object, Parsed};

/// Classes of failed calls, by the reaction that helps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Class {
    /// Wait, then retry.
    RateLimited,
    /// Wait, or use another model.
    Overloaded,
    /// Shorten the prompt, or use a model with a larger context.
    ContextTooLong,
    /// Never retry: the request itself is wrong.
    InvalidRequest,
    /// A person must provide a key, rights or money.
    Auth,
    /// The model or the path does not exist.
    NotFound,
    /// A policy of the provider refuses the request.
    Refused,
    /// A retry may help.
    Server,
    /// An answer came that is no answer.
    InvalidOutput,
    /// The bytes ended too early.
    Connection,
}

impl Class {
    /// The name in cases and records.
    pub fn as_str(self) -> &'static str {
        match self {
            Class::RateLimited => "rate_limited",
            Class::Overloaded => "overloaded",
            Class::ContextTooLong => "context_too_long",
            Class::InvalidRequest => "invalid_request",
            Class::Auth => "auth",
            Class::NotFound => "not_found",
            Class::Refused => "refused",
            Class::Server => "server",
            Class::InvalidOutput => "invalid_output",
            Class::Connection => "connection",
        }
    }

    /// The class of an error name that providers use; `invalid_request_error` is none, since it comes with many causes.
    fn named(name: &str) -> Option<Class> {
        Some(match name {
            "rate_limit_error"
            | "rate_limit_exceeded"
            | "rate_limited"
            | "too_many_requests"
            | "resource_exhausted" => Class::RateLimited,
            "overloaded_error"
            | "overloaded"
            | "engine_overloaded"
            | "service_unavailable"
            | "unavailable_error"
            | "unavailable" => Class::Overloaded,
            "context_length_exceeded" | "exceed_context_size_error" | "request_too_large" => {
                Class::ContextTooLong
            }
            "authentication_error"
            | "permission_error"
            | "invalid_api_key"
            | "forbidden"
            | "permission_denied"
            | "unauthenticated"
            | "insufficient_quota"
            | "billing_error" => Class::Auth,
            "not_found_error" | "model_not_found" | "invalid_model" | "not_found" => Class::NotFound,
            "content_filter" | "content_policy_violation" | "responsibleaipolicyviolation" => Class::Refused,
            "api_error"
            | "server_error"
            | "internal_error"
            | "internal_server_error"
            | "internal"
            | "timeout_error"
            | "deadline_exceeded" => Class::Server,
            _ => return None,
        })
    }
}

/// A call that gave no answer.
#[derive(Debug, Clone, PartialEq)]
pub struct Failure {
    /// The class, which decides the reaction of the caller.
    pub class: Class,
    /// The HTTP status, or the one that a body with status 200 tells.
    pub status: Option<u16>,
    /// The provider's message, for operators; may be empty.
    pub message: String,
    /// Seconds until the provider allows the next try.
    pub retry_after_s: Option<f64>,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.class.as_str())?;
        if let Some(status) = self.status {
            write!(f, " (status {status})")?;
        }
        if self.message.is_empty() { Ok(()) } else { write!(f, ": {}", self.message) }
    }
}

impl std::error::Error for Failure {}

impl Failure {
    /// A failure that no error body describes.
    pub(super) fn bare(class: Class) -> Failure {
        Failure { class, status: None, message: String::new(), retry_after_s: None }
    }

    /// An HTTP error with this body, which may be no JSON.
    pub(super) fn of_http(status: u16, body: &str) -> Failure {
        let value = match json::parse(body) {
            Parsed::Value(value) => value,
            Parsed::Cut | Parsed::Invalid => Value::Null,
        };
        Failure::of_body(Some(status), &value, body)
    }

    /// A failure that a response with a success status describes; `fallback` is the message where the body has none.
    pub(super) fn of_value(body: &Value, fallback: &str) -> Failure {
        Failure::of_body(None, body, fallback)
    }

    /// A failure that an object of a successful response describes.
    pub(super) fn of_object(body: &Object) -> Failure {
        Failure::described(None, Some(body), "")
    }

    fn of_body(status: Option<u16>, body: &Value, fallback: &str) -> Failure {
        let body = match body {
            Value::Array(items) => items.first().and_then(Value::as_object),
            other => other.as_object(),
        };
        Failure::described(status, body, fallback)
    }

    fn described(status: Option<u16>, body: Option<&Object>, fallback: &str) -> Failure {
        let empty = Object::new();
        let outer = body.unwrap_or(&empty);
        let error = json::object(outer, "error").unwrap_or(outer);
        let message = message(error).unwrap_or(fallback).trim().to_owned();
        let status = status.or_else(|| told_status(error));
        Failure { class: class(status, error, &message), status, message, retry_after_s: None }
    }

    /// The failure in the form of the conformance cases.
    pub fn to_json(&self) -> Value {
        json!({"error": {
            "class": self.class.as_str(),
            "status": self.status,
            "message_contains": self.message,
            "retry_after_s": self.retry_after_s,
        }})
    }
}

fn message(error: &Object) -> Option<&str> {
    let detail = || match error.get("detail")? {
        Value::String(text) => Some(text.as_str()),
        Value::Array(items) => items.first()?.as_object()?.get("msg")?.as_str(),
        _ => None,
    };
    let found = json::first_text(error, &["message", "error"]).or_else(detail);
    found.filter(|text| !text.trim().is_empty())
}

/// The status that an error object tells: a number from 400 to 599, also as three digits of text.
fn told_status(error: &Object) -> Option<u16> {
    ["code", "status"].iter().find_map(|key| {
        let status = match error.get(*key)? {
            Value::Number(number) => number.as_u64().and_then(|status| u16::try_from(status).ok())?,
            Value::String(text) if text.len() == 3 && text.bytes().all(|byte| byte.is_ascii_digit()) => {
                text.parse().ok()?
            }
            _ => return None,
        };
        (400..600).contains(&status).then_some(status)
    })
}

/// Known words in messages about a prompt that exceeds the context.
const CONTEXT_WORDS: [&str; 6] = [
    "context length",
    "context window",
    "context limit",
    "context size",
    "prompt is too long",
    "input is too long",
];

/// The first rule that applies decides: names come before statuses, since gateways send many causes with one status.
fn class(status: Option<u16>, error: &Object, message: &str) -> Class {
    if status == Some(413) {
        return Class::ContextTooLong;
    }
    let own = ["code", "type", "status"].iter().filter_map(|key| json::text(error, key));
    let inner = json::object(error, "innererror").and_then(|inner| json::text(inner, "code"));
    let names: Vec<String> = own.chain(inner).map(str::to_lowercase).collect();
    if let Some(class) = names.iter().find_map(|name| Class::named(name)) {
        return class;
    }
    let message = message.to_lowercase();
    if matches!(status, None | Some(400 | 422)) && CONTEXT_WORDS.iter().any(|words| message.contains(words)) {
        return Class::ContextTooLong;
    }
    let metadata = json::object(error, "metadata");
    if metadata.is_some_and(|data| json::has(data, "reasons") || json::has(data, "flagged_input")) {
        return Class::Refused;
    }
    match status {
        Some(401..=403) => Class::Auth,
        Some(404) => Class::NotFound,
        Some(408) => Class::Server,
        Some(429) => Class::RateLimited,
        Some(501) => Class::InvalidRequest,
        Some(503 | 529) => Class::Overloaded,
        None if names.iter().any(|name| name == "invalid_request_error" || name == "invalid_argument") => {
            Class::InvalidRequest
        }
        None => Class::Server,
        Some(400..=499) => Class::InvalidRequest,
        Some(_) => Class::Server,
    }
}
