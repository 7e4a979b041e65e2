//! `http.request`: sends one request and returns the response.

use std::collections::{BTreeMap, BTreeSet};

use ostler_kernel::event::Failure;
use ostler_kernel::gate::{CallClass, Permit};
use ostler_kernel::id::Digest;
use ostler_kernel::plan::{Effect, Idempotency};
use ostler_kernel::port::{BoxFuture, CallContext, Tool, ToolResult, ToolSpec};
use reqwest::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, IF_NONE_MATCH};
use reqwest::{Method, Response, StatusCode, Url};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::config::{HostPort, HttpConfig};
use super::http_client::{
    ETAG_BYTES_MAX, HTTP_BODY_BYTES_MAX, HttpClient, body, not_answered, place, refuse_busy,
};
use super::tool_spec::{READ, WORST, exhausted, object, parse, spec, structural};

/// Maximum bytes of a request body.
pub const HTTP_REQUEST_BYTES_MAX: usize = 5 << 20;
/// Maximum request headers.
pub const HTTP_HEADERS_MAX: usize = 64;

/// Headers that the caller must not set: they control routing, framing and deduplication, or make the receiver take the method for
/// another one than the gate has judged.
const RESERVED_HEADERS: [&str; 15] = [
    "connection",
    "content-length",
    "expect",
    "host",
    "idempotency-key",
    "keep-alive",
    "proxy-authorization",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "x-http-method",
    "x-http-method-override",
    "x-method-override",
];

/// Sends one request over a new connection: no redirects, no retries, no proxy. Resolves the host first, checks every address, and
/// connects only to permitted ones. All methods but GET and HEAD carry an `Idempotency-Key`.
///
/// Any response is a result, except 429 (rate limit), 503 (transient), and 502 and 504 (the gateway lost the response: transient,
/// but a crash for POST and PATCH, which may have taken effect). A failed connection is transient; a connection lost after sending
/// began is a crash. A JSON body becomes a JSON value, by content type; any other body becomes text.
#[derive(Debug)]
pub(super) struct HttpRequest {
    spec: ToolSpec,
    client: HttpClient,
    keyed: BTreeSet<HostPort>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Params {
    method: Verb,
    url: String,
    #[serde(default)]
    headers: BTreeMap<String, String>,
    body: Option<Value>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
enum Verb {
    Get,
    Head,
    Put,
    Delete,
    Post,
    Patch,
}

impl Verb {
    fn method(self) -> Method {
        match self {
            Verb::Get => Method::GET,
            Verb::Head => Method::HEAD,
            Verb::Put => Method::PUT,
            Verb::Delete => Method::DELETE,
            Verb::Post => Method::POST,
            Verb::Patch => Method::PATCH,
        }
    }

    /// True if the method only reads.
    fn is_safe(self) -> bool {
        matches!(self, Verb::Get | Verb::Head)
    }

    /// True if the method is idempotent.
    fn is_repeatable(self) -> bool {
        !matches!(self, Verb::Post | Verb::Patch)
    }
}

impl HttpRequest {
    pub(super) fn new(config: &HttpConfig) -> HttpRequest {
        let text = json!({"type": "string"});
        let spec = spec(
            "http.request",
            "Send one HTTP request. Redirects are not followed. The body is text, or any other JSON value. An answer of any status but 429, 502, 503 and 504 is a result, 404 too: a rule of the contract says which will do, such as `{method: code, spec: {check: status, value: 200}}`.",
            object(
                &["method", "url"],
                json!({
                    "method": {"enum": ["GET", "HEAD", "PUT", "DELETE", "POST", "PATCH"]},
                    "url": {"type": "string", "format": "uri", "minLength": 1, "maxLength": 8_192},
                    "headers": {
                        "type": "object",
                        "additionalProperties": text,
                        "maxProperties": HTTP_HEADERS_MAX,
                    },
                    "body": {},
                }),
            ),
            object(
                &["status", "headers", "body"],
                json!({
                    "status": {"type": "integer"},
                    "headers": {"type": "object", "additionalProperties": text},
                    "body": {},
                }),
            ),
        );
        let keyed = config.hosts.iter().filter(|(_, host)| host.idempotency).map(|(place, _)| place.clone());
        HttpRequest { spec, client: HttpClient::new(config.egress_allow.clone()), keyed: keyed.collect() }
    }

    /// Sends the request; a safe one whose answer was not modified since it was `recorded` gives the recorded answer.
    async fn send(&self, params: Params, key: Digest, recorded: Option<&Value>) -> ToolResult {
        let verb = params.method;
        let (client, url) = self.client.open(&params.url).await?;
        let given = headers(params.headers)?;
        let mut request = client.request(verb.method(), url.clone()).headers(given.clone());
        if !verb.is_safe() {
            request = request.header("idempotency-key", key.to_string());
        }
        if let Some(body) = params.body {
            if verb.is_safe() {
                return Err(structural("GET and HEAD have no body"));
            }
            let (bytes, is_json) = match body {
                Value::String(text) => (text, false),
                value => (value.to_string(), true),
            };
            if bytes.len() > HTTP_REQUEST_BYTES_MAX {
                return Err(exhausted(format!("the body has more than {HTTP_REQUEST_BYTES_MAX} bytes")));
            }
            request = if is_json { request.header(CONTENT_TYPE, "application/json") } else { request };
            request = request.body(bytes);
        }
        let is_conditional = |name: &HeaderName| name.as_str().starts_with("if-");
        let etag = recorded
            .filter(|recorded| recorded["status"] == 200)
            .and_then(|recorded| recorded["headers"]["etag"].as_str());
        let etag = etag.filter(|etag| {
            verb.is_safe() && etag.len() <= ETAG_BYTES_MAX && !given.keys().any(is_conditional)
        });
        if let Some(etag) = etag {
            request = request.header(IF_NONE_MATCH, etag);
        }
        let response = request.send().await.map_err(|error| not_answered(&url, &error))?;
        refuse_busy(&url, response.status(), verb.is_repeatable())?;
        if let (Some(recorded), Some(_), StatusCode::NOT_MODIFIED) = (recorded, etag, response.status()) {
            return Ok(recorded.clone());
        }
        answer(&url, response).await
    }
}

impl Tool for HttpRequest {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn reads_strangers(&self) -> bool {
        true
    }

    fn sends_out(&self) -> bool {
        true
    }

    fn class(&self, params: &Map<String, Value>) -> CallClass {
        let Some(verb) = params.get("method").and_then(|method| Verb::deserialize(method).ok()) else {
            return WORST;
        };
        let keyed = || {
            let url = params.get("url").and_then(Value::as_str)?;
            Some(self.keyed.contains(&HostPort::from(self.client.judge(url).ok()?)))
        };
        match verb {
            Verb::Get | Verb::Head => READ,
            Verb::Put => CallClass { impact: 1, effect: Effect::External, idem: Idempotency::Natural },
            Verb::Delete => CallClass { impact: 2, effect: Effect::External, idem: Idempotency::Natural },
            Verb::Post | Verb::Patch => {
                let idem = if keyed() == Some(true) { Idempotency::Keyed } else { Idempotency::None };
                CallClass { impact: 1, effect: Effect::External, idem }
            }
        }
    }

    fn call(&self, permit: Permit, context: CallContext) -> BoxFuture<'_, ToolResult> {
        Box::pin(async move {
            let key = permit.idempotency_key();
            self.send(parse(permit.into_params())?, key, context.recorded.as_deref()).await
        })
    }
}

fn headers(given: BTreeMap<String, String>) -> Result<HeaderMap, Failure> {
    if given.len() > HTTP_HEADERS_MAX {
        return Err(exhausted(format!("more than {HTTP_HEADERS_MAX} headers")));
    }
    let mut headers = HeaderMap::new();
    for (name, value) in given {
        let parsed = HeaderName::try_from(&name)
            .map_err(|_| structural(format!("header name {name:?} is invalid")))?;
        if RESERVED_HEADERS.contains(&parsed.as_str()) {
            return Err(structural(format!("header {parsed} is reserved: leave it out")));
        }
        let value = HeaderValue::try_from(value)
            .map_err(|_| structural(format!("header {parsed} contains an invalid character")))?;
        headers.insert(parsed, value);
    }
    Ok(headers)
}

async fn answer(url: &Url, mut response: Response) -> ToolResult {
    let (bytes, is_longer) = body(url, &mut response).await?;
    if is_longer {
        let place = place(url);
        return Err(exhausted(format!("the answer of {place} has more than {HTTP_BODY_BYTES_MAX} bytes")));
    }
    let mut headers: BTreeMap<&str, String> = BTreeMap::new();
    for (name, value) in response.headers() {
        let value = String::from_utf8_lossy(value.as_bytes());
        headers
            .entry(name.as_str())
            .and_modify(|before| {
                before.push_str(", ");
                before.push_str(&value);
            })
            .or_insert_with(|| value.into_owned());
    }
    let media =
        headers.get("content-type").map_or("", |media| media.split(';').next().unwrap_or_default().trim());
    let is_json = media == "application/json" || media.ends_with("+json");
    let parsed = if is_json { serde_json::from_slice(&bytes).ok() } else { None };
    let body: Value = parsed.unwrap_or_else(|| String::from_utf8_lossy(&bytes).into());
    Ok(json!({"status": response.status().as_u16(), "headers": headers, "body": body}))
}
