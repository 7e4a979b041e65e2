//! Refusals of a server for want of a token, and the login that helps.

use std::io;
use std::sync::PoisonError;
use std::time::{Duration, Instant};

use ostler_kernel::event::Failure;

use super::connection::Connection;
use super::login::{BegunLogin, Login, LoginState, OauthConfig, is_scope};
use super::refusal::{NotConnected, Refusal};
use super::server::McpServer;
use crate::tool::tool_spec::{structural, transient};

/// Time for which a refused connection is not tried again, unless somebody logs in.
const REFUSED: Duration = Duration::from_secs(10);

/// Scopes that a message names.
const SCOPES_SHOWN: usize = 8;

/// A refused connection.
#[derive(Debug)]
pub(super) struct Unauthorized {
    since: Instant,
    /// Identity of the login that was refused.
    login: Option<(u64, i64, i64)>,
    failure: Failure,
}

impl McpServer {
    /// Begins a login of a person at the address of the server.
    ///
    /// # Errors
    ///
    /// The server needs no login, or names nobody to log in at, or names somebody that must not be asked.
    pub async fn log_in(&self) -> Result<BegunLogin, String> {
        let login = match (&self.login, &self.config.token_env) {
            (Some(login), _) => login,
            (None, Some(variable)) => {
                return Err(format!("it gets the token of {variable}: remove `token_env` to log in instead"));
            }
            (None, None) if self.config.url.is_none() => {
                return Err("it is a program, and only a server with a `url` has a login".to_owned());
            }
            (None, None) => {
                return Err(
                    "a login has no place: neither XDG_CONFIG_HOME nor HOME names a folder".to_owned()
                );
            }
        };
        let looked = tokio::time::timeout(Duration::from_millis(self.start_ms()), self.look_without_token());
        let challenge = match looked.await {
            Ok(Err(NotConnected::Refused(Refusal::Login(challenge)))) => Some(challenge),
            Ok(Err(NotConnected::Other(why))) => return Err(why),
            Ok(Ok(()) | Err(NotConnected::Refused(_))) => None,
            Err(_) => return Err(format!("it did not answer within {} ms", self.start_ms())),
        };
        login.begin(challenge).await
    }

    /// Connects and lists the tools as somebody unknown, to hear who gives tokens.
    async fn look_without_token(&self) -> Result<(), NotConnected> {
        let connection = Connection::open(self.name(), &self.config, &self.place, None).await?;
        let listed = connection.list().await;
        connection.close().await;
        listed.map(drop)
    }

    /// Removes the login at the address of the server. Returns whether there was one.
    ///
    /// # Errors
    ///
    /// The file of the login cannot be removed.
    pub async fn log_out(&self) -> io::Result<bool> {
        // A login from before `token_env` came is removed too.
        let login = self.config.url.as_deref().zip(self.place.user.as_deref());
        let login = login.and_then(|(url, user)| Login::new(user, url, OauthConfig::default()));
        match login {
            Some(login) => login.remove().await,
            None => Ok(false),
        }
    }

    /// The state of the login; `None` if the server takes no login. May block.
    ///
    /// # Errors
    ///
    /// The file of the login is unusable.
    pub fn login_state(&self) -> io::Result<Option<LoginState>> {
        self.login.as_ref().map(|login| login.state()).transpose()
    }

    /// Reason for a missing connection or list.
    pub(super) fn told(&self, why: &NotConnected) -> String {
        match why {
            NotConnected::Refused(refusal) => self.refused(refusal),
            NotConnected::Other(why) => why.clone(),
        }
    }

    /// The failure of a call that was refused; keeps in mind the scopes that it needs.
    pub(super) async fn unauthorized(&self, refusal: &Refusal) -> Failure {
        if let (Refusal::Scopes(scopes), Some(login)) = (refusal, &self.login)
            && let Err(error) = login.want(scopes).await
        {
            tracing::warn!(server = %self.name(), %error, "the scopes of a refused call are not remembered");
        }
        self.failure(refusal)
    }

    fn failure(&self, refusal: &Refusal) -> Failure {
        let what = format!("server {}: {}", self.name(), self.refused(refusal));
        match refusal {
            Refusal::Login(_) | Refusal::Scopes(_) => structural(what),
            Refusal::Later(_) => transient(format!("{what}: nothing was called")),
        }
    }

    fn refused(&self, refusal: &Refusal) -> String {
        let name = self.name();
        match (refusal, &self.config.token_env) {
            (Refusal::Login(_) | Refusal::Scopes(_), Some(variable)) => {
                format!("it refuses the token of {variable}: set the variable to another one")
            }
            (Refusal::Login(_), None) => format!("login needed: `ostler mcp login {name}`"),
            (Refusal::Scopes(scopes), None) => {
                let scopes = scopes.iter().filter(|scope| is_scope(scope)).take(SCOPES_SHOWN);
                let scopes: Vec<&str> = scopes.map(String::as_str).collect();
                let scopes = if scopes.is_empty() { "other scopes".to_owned() } else { scopes.join(" ") };
                format!("the login lacks {scopes}; login needed: `ostler mcp login {name}`")
            }
            (Refusal::Later(why), _) => format!("its token cannot be renewed now: {why}"),
        }
    }

    /// Notes that a connection was refused, so that calls fail at once instead of trying again.
    pub(super) async fn note_refusal(&self, why: &NotConnected) {
        let NotConnected::Refused(refusal) = why else { return };
        let failure = self.unauthorized(refusal).await;
        let login = self.login_stamp();
        let noted = Unauthorized { since: Instant::now(), login, failure };
        *self.unauthorized.lock().unwrap_or_else(PoisonError::into_inner) = Some(noted);
    }

    /// The failure of a connection that was refused just now, unless somebody has logged in since.
    pub(super) fn still_unauthorized(&self) -> Option<Failure> {
        let noted = self.unauthorized.lock().unwrap_or_else(PoisonError::into_inner);
        let is_same =
            |noted: &&Unauthorized| noted.since.elapsed() < REFUSED && noted.login == self.login_stamp();
        noted.as_ref().filter(is_same).map(|noted| noted.failure.clone())
    }

    fn login_stamp(&self) -> Option<(u64, i64, i64)> {
        self.login.as_ref().and_then(|login| login.stamp())
    }
}
