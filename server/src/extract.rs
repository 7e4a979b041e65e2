//! Extractors of the API: query, path and body, each refused as a [`Problem`] instead of axum's plain text.

use std::time::Duration;

use axum::body::Bytes;
use axum::extract::rejection::BytesRejection;
use axum::extract::{FromRequest, FromRequestParts, Path, Query, Request};
use axum::http::StatusCode;
use axum::http::request::Parts;
use ostler_kernel::json;
use serde::de::DeserializeOwned;

use crate::problem::Problem;

/// Maximum bytes of a request body.
pub const BODY_BYTES_MAX: usize = 5 << 20;

/// Maximum nesting depth of arrays and objects in a request body.
pub const BODY_DEPTH_MAX: usize = 64;

/// Time limit for receiving a whole body, so that a stalled client does not hold a connection.
const BODY_WAIT: Duration = Duration::from_secs(10);

pub(crate) struct QueryParams<T>(pub(crate) T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequestParts<S> for QueryParams<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Problem> {
        let query = Query::<T>::try_from_uri(&parts.uri);
        query
            .map(|Query(params)| QueryParams(params))
            .map_err(|error| Problem::bad("query", error.body_text()))
    }
}

pub(crate) struct PathParams<T>(pub(crate) T);

impl<T: DeserializeOwned + Send, S: Send + Sync> FromRequestParts<S> for PathParams<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        let path = Path::<T>::from_request_parts(parts, state).await;
        path.map(|Path(params)| PathParams(params)).map_err(|error| Problem::bad("path", error.body_text()))
    }
}

/// The bytes of a request body.
pub(crate) struct RawBody(pub(crate) Bytes);

impl<S: Send + Sync> FromRequest<S> for RawBody {
    type Rejection = Problem;

    async fn from_request(request: Request, state: &S) -> Result<Self, Problem> {
        let received = tokio::time::timeout(BODY_WAIT, Bytes::from_request(request, state)).await;
        let late = || {
            let what = format!("the body of the request did not come within {} s", BODY_WAIT.as_secs());
            Problem::new(StatusCode::REQUEST_TIMEOUT, "body_late", what)
        };
        received.map_err(|_| late())?.map_err(body_problem).map(RawBody)
    }
}

pub(crate) struct JsonBody<T>(pub(crate) T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequest<S> for JsonBody<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, state: &S) -> Result<Self, Problem> {
        let RawBody(bytes) = RawBody::from_request(request, state).await?;
        parse_body(&bytes).map(JsonBody)
    }
}

/// Parses strict JSON: no duplicate keys, at most [`BODY_DEPTH_MAX`] levels.
pub(crate) fn parse_body<T: DeserializeOwned>(bytes: &Bytes) -> Result<T, Problem> {
    let text = std::str::from_utf8(bytes).map_err(|error| Problem::bad("body", error.to_string()))?;
    let value = json::parse_value(text).map_err(|error| Problem::bad("body", error.to_string()))?;
    if json::depth(&value) > BODY_DEPTH_MAX {
        return Err(Problem::bad("body", format!("the body is nested more than {BODY_DEPTH_MAX} deep")));
    }
    serde_json::from_value(value).map_err(|error| Problem::bad("body", error.to_string()))
}

pub(crate) fn body_too_large() -> Problem {
    let what = format!("the body has more than {BODY_BYTES_MAX} bytes");
    Problem::new(StatusCode::PAYLOAD_TOO_LARGE, "body_too_large", what)
}

fn body_problem(error: BytesRejection) -> Problem {
    match error.status() {
        StatusCode::PAYLOAD_TOO_LARGE => body_too_large(),
        status => Problem::new(status, "body", error.body_text()),
    }
}
