//! Refusals of servers for want of a token, as the library reports them.

use std::error::Error;

use rmcp::transport::auth::AuthError;
use rmcp::transport::streamable_http_client::{AuthRequiredError, InsufficientScopeError};

use super::result::clipped;

/// Reason for a request that a server refused, or that was not sent. Nothing was called.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Refusal {
    /// A person has to log in. Holds what the server answered, where it says who gives tokens.
    Login(String),
    /// The token does not allow the call; these scopes would.
    Scopes(Vec<String>),
    /// The token cannot be renewed now.
    Later(String),
}

impl Refusal {
    /// The refusal behind an error; `None` if the error has another reason.
    pub(super) fn of(error: &(dyn Error + 'static)) -> Option<Refusal> {
        let mut next = Some(error);
        while let Some(error) = next {
            if let Some(refused) = error.downcast_ref::<AuthRequiredError>() {
                return Some(Refusal::Login(refused.www_authenticate_header.clone()));
            }
            if let Some(refused) = error.downcast_ref::<InsufficientScopeError>() {
                return Some(Refusal::scopes(refused));
            }
            if let Some(error) = error.downcast_ref::<AuthError>() {
                return Some(match error {
                    AuthError::AuthorizationRequired => Refusal::Login(String::new()),
                    error => Refusal::Later(clipped(&error.to_string())),
                });
            }
            next = error.source();
        }
        None
    }

    /// A server that forbids something says with `insufficient_scope` that a login would help.
    fn scopes(refused: &InsufficientScopeError) -> Refusal {
        let scopes = refused.required_scope.as_deref().unwrap_or_default();
        Refusal::Scopes(scopes.split_whitespace().map(str::to_owned).collect())
    }
}

/// Reason for a missing connection or list.
#[derive(Debug)]
pub(super) enum NotConnected {
    Refused(Refusal),
    Other(String),
}

impl From<String> for NotConnected {
    fn from(why: String) -> NotConnected {
        NotConnected::Other(why)
    }
}
