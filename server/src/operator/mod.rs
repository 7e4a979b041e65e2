//! Who decides is proven: requests that only an operator may make carry a signature by an operator's key.
//!
//! A refused request gets a challenge. The same request, signed together with the challenge by the secret key that an
//! accepted public key belongs to, is accepted once. The secret never crosses the socket.

mod challenge;
mod keys;
mod secret;

use axum::body::Body;
use axum::extract::{FromRequest, FromRequestParts, Request, State};
use axum::http::request::Parts;
use axum::http::{HeaderMap, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use ostler_kernel::lineage;

pub(crate) use challenge::{Challenges, random};
pub use keys::{KeyRefused, OPERATORS_MAX, OperatorKeys, OperatorRow, PublicKey};
pub(crate) use keys::{from_hex, to_hex};
pub use secret::{OperatorSecret, SecretError, account, user_folder};

use crate::extract::RawBody;
use crate::problem::Problem;
use crate::routes::Api;

/// The header of a proof: public key, challenge and signature, separated by spaces.
pub const PROOF_HEADER: &str = "ostler-operator";

/// Highest intent that a request may have without a proof: the default.
pub(crate) const INTENT_UNPROVEN_MAX: u8 = 1;

/// An operator, as proven. A handler that takes one is for operators alone.
///
/// A program that calls the router within its own process may put one into the extensions of a request: whoever holds the
/// router can do everything anyway. Nothing that comes over a socket can.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Operator {
    /// Name of the operator's key, for the journal.
    pub by: String,
}

impl FromRequestParts<Api> for Operator {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, api: &Api) -> Result<Operator, Problem> {
        parts.extensions.get().cloned().ok_or_else(|| unproven(api))
    }
}

/// The operator of a request that others may make too, within limits.
pub(crate) struct AnyCaller(Option<Operator>);

impl FromRequestParts<Api> for AnyCaller {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &Api) -> Result<AnyCaller, Problem> {
        Ok(AnyCaller(parts.extensions.get().cloned()))
    }
}

impl AnyCaller {
    /// Refuses an intent that only an operator may give. A request without an intent has the default of the policy.
    pub(crate) fn may_intend(&self, intent: Option<u8>, api: &Api) -> Result<(), Problem> {
        let intent = intent.unwrap_or_else(|| api.system.default_intent());
        if intent <= INTENT_UNPROVEN_MAX || self.0.is_some() { Ok(()) } else { Err(unproven(api)) }
    }
}

fn unproven(api: &Api) -> Problem {
    let what = "only an operator decides this, and the request proves none: `ostler` does so with the operator key of its user \
                (`ostler operator key`)";
    Problem::new(StatusCode::FORBIDDEN, "operator_unproven", what).with_challenge(api.challenges().issue())
}

/// What is signed: the challenge and the whole request.
fn signed(challenge: &str, method: &str, target: &str, body: &[u8]) -> [u8; 32] {
    lineage::hash("aos/operator/1", &[challenge.as_bytes(), method.as_bytes(), target.as_bytes(), body]).0
}

/// Verifies the proof of a request that has one; a wrong one is refused.
pub(crate) async fn recognise(State(api): State<Api>, request: Request, next: Next) -> Response {
    match recognised(&api, request).await {
        Ok(request) => next.run(request).await,
        Err(problem) => problem.into_response(),
    }
}

async fn recognised(api: &Api, request: Request) -> Result<Request, Problem> {
    if !request.headers().contains_key(PROOF_HEADER) {
        return Ok(request);
    }
    // The body limit is an extension of the request.
    let (mut parts, body) = request.into_parts();
    let whole = Request::from_parts(parts.clone(), body);
    let RawBody(bytes) = RawBody::from_request(whole, &()).await?;
    let proof = Proof::of(&parts.headers)?;
    let target = parts.uri.path_and_query().map_or("/", |target| target.as_str());
    let message = signed(proof.challenge, parts.method.as_str(), target, &bytes);
    let refused = |what: String| Problem::new(StatusCode::FORBIDDEN, "operator_proof", what);
    if !proof.key.verifies(&message, &proof.signature) {
        return Err(refused("the proof does not fit the request: its signature is wrong".to_owned()));
    }
    // Before the challenge is used up: a key that is not accepted uses up nothing.
    let by = api.operators().name(&proof.key).ok_or_else(|| unknown(api, &proof.key))?;
    api.challenges().redeem(proof.challenge).map_err(|what| refused(what.to_owned()))?;
    parts.extensions.insert(Operator { by });
    Ok(Request::from_parts(parts, Body::from(bytes)))
}

/// What to do about a damaged list of keys.
pub const CURE: &str = "put its line right, or delete it: as the owner of the folder you may edit the file; a list without any line \
                        accepts the key of its next user";

fn unknown(api: &Api, key: &PublicKey) -> Problem {
    let accepted = api.operators().rows();
    let damaged = api.operators().damage().filter(|_| accepted.is_empty());
    if let Some(damage) = damaged {
        let what = format!("the list of accepted operator keys is damaged: {damage}; {CURE}");
        return Problem::new(StatusCode::FORBIDDEN, "operator_unknown", what);
    }
    let what = match accepted.is_empty() {
        true => format!(
            "this data folder accepts no operator key yet: when no process holds it, any `ostler` command that runs something \
             there makes it accept the key of its user (this one is {key})"
        ),
        false => {
            let names: Vec<String> =
                accepted.iter().map(|row| format!("{} ({})", row.key, row.name)).collect();
            format!(
                "this data folder does not accept the operator key {key}, but {}: ask one of these operators for \
                 `ostler operator add {key} --name NAME`",
                names.join(" and ")
            )
        }
    };
    Problem::new(StatusCode::FORBIDDEN, "operator_unknown", what)
}

struct Proof<'a> {
    key: PublicKey,
    challenge: &'a str,
    signature: Vec<u8>,
}

impl Proof<'_> {
    fn of(headers: &HeaderMap) -> Result<Proof<'_>, Problem> {
        let parsed = headers.get(PROOF_HEADER).and_then(|value| value.to_str().ok()).and_then(|text| {
            let mut words = text.split(' ');
            let (key, challenge, signature) = (words.next()?, words.next()?, words.next()?);
            let key = key.parse().ok()?;
            let signature = keys::from_hex(signature)?;
            words.next().is_none().then_some(Proof { key, challenge, signature })
        });
        parsed.ok_or_else(|| {
            let what = format!("the header {PROOF_HEADER} is not a public key, a challenge and a signature");
            Problem::new(StatusCode::FORBIDDEN, "operator_proof", what)
        })
    }
}
