//! Failures: one class each, whatever the provider calls them.

use ostler_kernel::port::{ModelError, ModelErrorClass};
use serde_json::Value;

use super::json::{self, Object, Parsed};

/// An answer beyond a limit of the decoder.
pub(super) fn beyond(what: &str, max: usize) -> ModelError {
    ModelError {
        message: format!("the response has more than {max} {what}; ask for a shorter answer"),
        ..bare(ModelErrorClass::InvalidOutput)
    }
}

/// A failure that no error body describes.
pub(super) fn bare(class: ModelErrorClass) -> ModelError {
    ModelError { class, status: None, message: String::new(), retry_after_s: None, is_unsent: false }
}

/// An HTTP error with this body, which may be no JSON.
pub(super) fn of_http(status: u16, body: &str) -> ModelError {
    let value = match json::parse(body) {
        Parsed::Value(value) => value,
        Parsed::Cut | Parsed::Invalid => Value::Null,
    };
    of_body(Some(status), &value, body)
}

/// A failure that a response with a success status describes; `fallback` is the message where the body has none.
pub(super) fn of_value(body: &Value, fallback: &str) -> ModelError {
    of_body(None, body, fallback)
}

/// A failure that an object of a successful response describes.
pub(super) fn of_object(body: &Object) -> ModelError {
    described(None, Some(body), "")
}

fn of_body(status: Option<u16>, body: &Value, fallback: &str) -> ModelError {
    let body = match body {
        Value::Array(items) => items.first().and_then(Value::as_object),
        other => other.as_object(),
    };
    described(status, body, fallback)
}

fn described(status: Option<u16>, body: Option<&Object>, fallback: &str) -> ModelError {
    let empty = Object::new();
    let outer = body.unwrap_or(&empty);
    let error = json::object(outer, "error").unwrap_or(outer);
    let message = message(error).unwrap_or(fallback).trim().to_owned();
    let status = status.or_else(|| told_status(error));
    ModelError {
        class: class(status, error, &message),
        status,
        message,
        retry_after_s: None,
        is_unsent: false,
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
fn class(status: Option<u16>, error: &Object, message: &str) -> ModelErrorClass {
    if status == Some(413) {
        return ModelErrorClass::ContextTooLong;
    }
    let own = ["code", "type", "status"].iter().filter_map(|key| json::text(error, key));
    let inner = json::object(error, "innererror").and_then(|inner| json::text(inner, "code"));
    let names: Vec<String> = own.chain(inner).map(str::to_lowercase).collect();
    if let Some(class) = names.iter().find_map(|name| named(name)) {
        return class;
    }
    let message = message.to_lowercase();
    if matches!(status, None | Some(400 | 422)) && CONTEXT_WORDS.iter().any(|words| message.contains(words)) {
        return ModelErrorClass::ContextTooLong;
    }
    let metadata = json::object(error, "metadata");
    if metadata.is_some_and(|data| json::has(data, "reasons") || json::has(data, "flagged_input")) {
        return ModelErrorClass::Refused;
    }
    match status {
        Some(401..=403) => ModelErrorClass::Auth,
        Some(404) => ModelErrorClass::NotFound,
        Some(408) => ModelErrorClass::Server,
        Some(429) => ModelErrorClass::RateLimited,
        Some(501) => ModelErrorClass::InvalidRequest,
        Some(503 | 529) => ModelErrorClass::Overloaded,
        None if names.iter().any(|name| name == "invalid_request_error" || name == "invalid_argument") => {
            ModelErrorClass::InvalidRequest
        }
        None => ModelErrorClass::Server,
        Some(400..=499) => ModelErrorClass::InvalidRequest,
        Some(_) => ModelErrorClass::Server,
    }
}

/// The class of an error name that providers use; `invalid_request_error` is none, since it comes with many causes.
fn named(name: &str) -> Option<ModelErrorClass> {
    Some(match name {
        "rate_limit_error"
        | "rate_limit_exceeded"
        | "rate_limited"
        | "too_many_requests"
        | "resource_exhausted" => ModelErrorClass::RateLimited,
        "overloaded_error"
        | "overloaded"
        | "engine_overloaded"
        | "service_unavailable"
        | "unavailable_error"
        | "unavailable" => ModelErrorClass::Overloaded,
        "context_length_exceeded" | "exceed_context_size_error" | "request_too_large" => {
            ModelErrorClass::ContextTooLong
        }
        "authentication_error"
        | "permission_error"
        | "invalid_api_key"
        | "forbidden"
        | "permission_denied"
        | "unauthenticated"
        | "insufficient_quota"
        | "billing_error" => ModelErrorClass::Auth,
        "not_found_error" | "model_not_found" | "invalid_model" | "not_found" => ModelErrorClass::NotFound,
        "content_filter" | "content_policy_violation" | "responsibleaipolicyviolation" => {
            ModelErrorClass::Refused
        }
        "api_error"
        | "server_error"
        | "internal_error"
        | "internal_server_error"
        | "internal"
        | "timeout_error"
        | "deadline_exceeded" => ModelErrorClass::Server,
        _ => return None,
    })
}
