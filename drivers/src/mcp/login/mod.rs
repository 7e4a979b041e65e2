//! Logins with OAuth at servers at an address: a person logs in once, and from then on calls carry a token that is renewed without
//! a person.
//!
//! A token is kept for the exact address of its server, and sent there alone. The MCP library does the protocol; here is what it
//! leaves open: which addresses a server may lead to, where tokens are kept, and that one renewal serves all calls.

mod authorized;
mod begin;
mod callback;
mod config;
mod kept;
mod requests;

use std::fs::File;
use std::io::{self, ErrorKind};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use reqwest::Url;
use rmcp::transport::auth::{
    AuthError, AuthorizationManager, CredentialStore, InMemoryCredentialStore, OAuthClientConfig,
};
use tokio::sync::Mutex;
use tokio::task::spawn_blocking;

pub(super) use authorized::Authorized;
pub use begin::{BegunLogin, LoggedIn};
pub use callback::LOGIN_CALLBACK_BYTES_MAX;
pub use config::OauthConfig;
pub(super) use config::is_scope;
use kept::{Kept, KeptFile};
use requests::Requests;
pub use requests::{LOGIN_ANSWER_BYTES_MAX, LOGIN_REQUEST};

/// Deadline of the steps of a login, or of a renewal, that no person takes.
const STEPS: Duration = Duration::from_secs(60);

/// Most scopes of a login.
pub const LOGIN_SCOPES_MAX: usize = 64;

/// Time between two looks at the lock of a login.
const LOCK_POLL: Duration = Duration::from_millis(20);

/// Longest challenge of a server that is kept, in bytes.
const CHALLENGE_BYTES_MAX: usize = 8 << 10;

/// The login at the address of one server. Calls share it.
#[derive(Debug)]
pub(super) struct Login {
    url: Url,
    config: OauthConfig,
    file: KeptFile,
    /// Held by the call that renews the token.
    turn: Mutex<()>,
}

/// State of a login, for people.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LoginState {
    /// Nobody logged in, or the login was removed.
    None,
    /// The token was refused or ended, and only a person can get another.
    Ended,
    /// A token is kept.
    Kept {
        /// End of the token, in seconds since 1970; `None` if unknown.
        until: Option<u64>,
        /// The token is renewed without a person.
        renewed: bool,
    },
}

impl Login {
    /// The login at `url`, kept in the user's folder. `None` if the text is no address.
    pub(super) fn new(folder: &Path, url: &str, config: OauthConfig) -> Option<Login> {
        let url = Url::parse(url).ok()?;
        let file = KeptFile::of(folder, url.as_str());
        Some(Login { url, config, file, turn: Mutex::new(()) })
    }

    async fn read(&self) -> io::Result<Option<Kept>> {
        let file = self.file.clone();
        spawn_blocking(move || file.read()).await?
    }

    /// The state of the login. May block.
    ///
    /// # Errors
    ///
    /// The file of the login is unusable.
    pub(super) fn state(&self) -> io::Result<LoginState> {
        Ok(match self.file.read()? {
            None => LoginState::None,
            Some(kept) if kept.access().is_none() || kept.is_due() && !kept.is_renewable() => {
                LoginState::Ended
            }
            Some(kept) => LoginState::Kept { until: kept.until(), renewed: kept.is_renewable() },
        })
    }

    /// Identity of the present state, which changes with each login.
    pub(super) fn stamp(&self) -> Option<(u64, i64, i64)> {
        self.file.stamp()
    }

    /// The token for a request; `None` if nobody logged in.
    ///
    /// # Errors
    ///
    /// [`AuthError::AuthorizationRequired`]: only a person can get a token. Others: the token cannot be renewed now.
    async fn token(self: &Arc<Login>) -> Result<Option<String>, AuthError> {
        let Some(kept) = self.read().await.map_err(unreadable)? else { return Ok(None) };
        match kept.access() {
            Some(token) if !kept.is_due() => Ok(Some(token.to_owned())),
            Some(token) => self.renewed(token.to_owned()).await.map(Some),
            None => Err(AuthError::AuthorizationRequired),
        }
    }

    /// Another token than `old`, which was refused or ends. Of many calls one renews it. The renewal goes on if the call is given
    /// up: a token that replaces the one for renewals must be kept.
    async fn renewed(self: &Arc<Login>, old: String) -> Result<String, AuthError> {
        let login = Arc::clone(self);
        let renewal = tokio::spawn(async move {
            let _turn = login.turn.lock().await;
            let _lock = login.locked().await.map_err(unreadable)?;
            let kept = login.read().await.map_err(unreadable)?.ok_or(AuthError::AuthorizationRequired)?;
            match kept.access() {
                None => Err(AuthError::AuthorizationRequired),
                Some(token) if token != old && !kept.is_due() => Ok(token.to_owned()),
                Some(_) if !kept.is_renewable() => Err(AuthError::AuthorizationRequired),
                Some(_) => {
                    let renewed = tokio::time::timeout(STEPS, login.renew(kept)).await;
                    renewed.unwrap_or_else(|_| {
                        Err(AuthError::TokenRefreshFailed("no answer in time".to_owned()))
                    })
                }
            }
        });
        renewal.await.map_err(|error| AuthError::InternalError(error.to_string()))?
    }

    async fn renew(&self, mut kept: Kept) -> Result<String, AuthError> {
        let mut manager = self.manager().await?;
        let memory = InMemoryCredentialStore::new();
        memory.save(kept.credentials.clone()).await?;
        manager.set_credential_store(memory.clone());
        let found = manager.resolve_metadata_from_challenge(kept.challenge.as_deref()).await?;
        let issuer = self.issuer(found.source.is_discovered(), &found.metadata).ok();
        if issuer.is_none() || issuer != kept.credentials.issuer {
            return Err(AuthError::AuthorizationRequired);
        }
        manager.set_metadata(found.metadata);
        manager.configure_client(client(&kept.credentials.client_id, kept.client_secret.clone()))?;
        match manager.refresh_token().await {
            Ok(_) => {
                kept.credentials = memory.load().await?.ok_or(AuthError::AuthorizationRequired)?;
                self.write(&kept).await.map_err(unreadable)?;
                kept.access().map(str::to_owned).ok_or(AuthError::AuthorizationRequired)
            }
            Err(AuthError::TokenRefreshRejected(_)) => {
                // No later call asks in vain.
                kept.credentials.token_response = None;
                self.write(&kept).await.map_err(unreadable)?;
                Err(AuthError::AuthorizationRequired)
            }
            Err(error) => Err(error),
        }
    }

    async fn manager(&self) -> Result<AuthorizationManager, AuthError> {
        AuthorizationManager::new_with_oauth_http_client(self.url.clone(), Arc::new(self.requests())).await
    }

    fn requests(&self) -> Requests {
        let issuer = self.config.issuer.as_deref().and_then(|issuer| Url::parse(issuer).ok());
        Requests::new(self.url.clone(), issuer)
    }

    async fn write(&self, kept: &Kept) -> io::Result<()> {
        let (file, kept) = (self.file.clone(), kept.clone());
        spawn_blocking(move || file.write(&kept)).await?
    }

    /// The turn to change the file, also among processes of the user.
    async fn locked(&self) -> io::Result<File> {
        let turn = async {
            loop {
                match self.file.try_lock()? {
                    Some(lock) => return Ok(lock),
                    None => tokio::time::sleep(LOCK_POLL).await,
                }
            }
        };
        let busy = "another process has been changing the login for too long";
        tokio::time::timeout(STEPS, turn)
            .await
            .unwrap_or_else(|_| Err(io::Error::new(ErrorKind::TimedOut, busy)))
    }

    /// Keeps a new login; durable on return.
    async fn keep(&self, kept: &Kept) -> io::Result<LoginState> {
        let _lock = self.locked().await?;
        self.write(kept).await?;
        self.state()
    }

    /// Remembers the scopes that a call was refused for, so that the next login asks for them.
    pub(super) async fn want(&self, scopes: &[String]) -> io::Result<()> {
        let _lock = self.locked().await?;
        let Some(mut kept) = self.read().await? else { return Ok(()) };
        let before = kept.wanted.len();
        for scope in scopes.iter().filter(|scope| is_scope(scope)) {
            if !kept.wanted.contains(scope) && kept.wanted.len() < LOGIN_SCOPES_MAX {
                kept.wanted.push(scope.clone());
            }
        }
        if kept.wanted.len() == before { Ok(()) } else { self.write(&kept).await }
    }

    /// Removes the login. Returns whether there was one. Waits for a renewal that is under way.
    pub(super) async fn remove(&self) -> io::Result<bool> {
        let _lock = self.locked().await?;
        self.file.remove()
    }
}

/// The client of a renewal, which is redirected nowhere.
fn client(id: &str, secret: Option<String>) -> OAuthClientConfig {
    let client = OAuthClientConfig::new(id, "http://127.0.0.1/callback");
    match secret {
        Some(secret) => client.with_client_secret(secret),
        None => client,
    }
}

fn unreadable(error: io::Error) -> AuthError {
    AuthError::CredentialStoreError(error.to_string())
}
