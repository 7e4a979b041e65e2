//! A login by a person.

use std::sync::Arc;

use oauth2::TokenResponse;
use oauth2::basic::BasicTokenType;
use reqwest::Url;
use rmcp::transport::auth::{
    AuthError, AuthorizationManager, AuthorizationMetadata, CredentialStore, InMemoryCredentialStore,
    OAuthClientConfig,
};

use super::callback::{Callback, parameter, state_of};
use super::kept::Kept;
use super::requests::is_secret;
use super::{CHALLENGE_BYTES_MAX, LOGIN_SCOPES_MAX, Login, LoginState, STEPS, is_scope};
use crate::mcp::result::clipped;

/// Name under which Ostler registers itself.
const CLIENT_NAME: &str = "Ostler";

/// A login that waits for its person.
pub struct BegunLogin {
    login: Arc<Login>,
    manager: AuthorizationManager,
    tokens: InMemoryCredentialStore,
    callback: Callback,
    client_secret: Option<String>,
    challenge: Option<String>,
    address: Url,
    state: String,
    issuer: String,
}

impl std::fmt::Debug for BegunLogin {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "BegunLogin(at {})", self.issuer)
    }
}

/// A login that a person finished.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoggedIn {
    /// The authorization server.
    pub issuer: String,
    /// Scopes of the token.
    pub scopes: Vec<String>,
    /// State of the login, with the end of the token.
    pub state: LoginState,
}

impl Login {
    /// Asks the server who gives tokens for it, registers Ostler there if need be, and makes the address for the person.
    /// `challenge`: what the server answered without a token.
    pub(in crate::mcp) async fn begin(
        self: &Arc<Login>,
        challenge: Option<String>,
    ) -> Result<BegunLogin, String> {
        let begun = tokio::time::timeout(STEPS, self.begin_in_time(challenge)).await;
        begun.unwrap_or_else(|_| Err(format!("no address to log in at within {} s", STEPS.as_secs())))
    }

    async fn begin_in_time(self: &Arc<Login>, challenge: Option<String>) -> Result<BegunLogin, String> {
        if !is_secret(&self.url) {
            return Err(
                "its address is neither https nor a loopback address, so a token would be seen on its way"
                    .into(),
            );
        }
        let challenge = challenge.filter(|text| !text.is_empty() && text.len() <= CHALLENGE_BYTES_MAX);
        let mut manager = self.manager().await.map_err(told)?;
        let found = manager.resolve_metadata_from_challenge(challenge.as_deref()).await.map_err(told)?;
        let issuer = self.issuer(found.source.is_discovered(), &found.metadata)?;
        manager.set_metadata(found.metadata.clone());
        let before = self.read().await.map_err(|error| error.to_string())?;
        let before = before.filter(|kept| kept.credentials.issuer.as_deref() == Some(&issuer));
        let scopes = self.scopes(&manager, before.as_ref()).await;
        let callback = Callback::listen(self.config.callback_port).await;
        let callback = callback.map_err(|error| format!("cannot listen for the browser: {error}"))?;
        let tokens = InMemoryCredentialStore::new();
        manager.set_credential_store(tokens.clone());
        let client = self.client(&mut manager, &found.metadata, &callback, &scopes).await?;
        let scopes: Vec<&str> = scopes.iter().map(String::as_str).collect();
        let address = manager.get_authorization_url(&scopes).await.map_err(told)?;
        let address = Url::parse(&address).map_err(|error| format!("its address to log in at: {error}"))?;
        // A browser may do more than show a page with an address of another kind.
        self.requests().check(&address).map_err(|why| format!("its address to log in at: {why}"))?;
        let state = state_of(&address).ok_or("the address to log in at has no state")?;
        let (login, client_secret) = (Arc::clone(self), client.client_secret);
        Ok(BegunLogin { login, manager, tokens, callback, client_secret, challenge, address, state, issuer })
    }

    /// The authorization server, if it may be used.
    pub(super) fn issuer(
        &self,
        discovered: bool,
        metadata: &AuthorizationMetadata,
    ) -> Result<String, String> {
        let nobody = "it does not say who gives tokens for it; get one elsewhere, and name its environment variable in `token_env`";
        let issuer = metadata.issuer.clone().filter(|_| discovered).ok_or(nobody)?;
        let endpoints = [Some(&metadata.token_endpoint), metadata.registration_endpoint.as_ref()];
        for endpoint in endpoints.into_iter().flatten() {
            let url = Url::parse(endpoint).map_err(|error| format!("{}: {error}", clipped(endpoint)))?;
            self.requests()
                .check(&url)
                .map_err(|why| format!("an address of {}: {why}", clipped(&issuer)))?;
        }
        let same = |named: &String| named.trim_end_matches('/') == issuer.trim_end_matches('/');
        // Without the member a server does not do the proof, says the specification of MCP.
        let proofs = metadata.code_challenge_methods_supported.as_deref().unwrap_or_default();
        if !proofs.iter().any(|method| method == "S256") {
            return Err("its authorization server does not offer the proof S256 (PKCE)".to_owned());
        }
        match &self.config.issuer {
            Some(named) if !same(named) => Err(format!(
                "it names the authorization server {}, and `issuer` is {named}",
                clipped(&issuer)
            )),
            _ => Ok(issuer),
        }
    }

    /// Scopes to ask for: the configured ones, or those that the server names; with those of the login before, and those that calls
    /// were refused for since.
    async fn scopes(&self, manager: &AuthorizationManager, before: Option<&Kept>) -> Vec<String> {
        let named = match self.config.scopes.is_empty() {
            true => manager.select_initial_scopes(&[]).await,
            false => self.config.scopes.clone(),
        };
        let earlier =
            before.into_iter().flat_map(|kept| kept.credentials.granted_scopes.iter().chain(&kept.wanted));
        let mut scopes: Vec<String> = Vec::new();
        for scope in named.iter().chain(earlier).filter(|scope| is_scope(scope)) {
            if !scopes.contains(scope) && scopes.len() < LOGIN_SCOPES_MAX {
                scopes.push(scope.clone());
            }
        }
        scopes
    }

    /// The client of the login: registered by hand, by a metadata document, or now.
    async fn client(
        &self,
        manager: &mut AuthorizationManager,
        metadata: &AuthorizationMetadata,
        callback: &Callback,
        scopes: &[String],
    ) -> Result<OAuthClientConfig, String> {
        let takes_document = metadata.additional_fields.get("client_id_metadata_document_supported");
        let takes_document = takes_document.and_then(serde_json::Value::as_bool).unwrap_or(false);
        let document = self.config.client_metadata_url.as_ref().filter(|_| takes_document);
        let Some(id) = self.config.client_id.as_ref().or(document) else {
            if metadata.registration_endpoint.is_none() {
                return Err(
                    "its authorization server registers no clients: set `client_id` in `oauth` of its table"
                        .into(),
                );
            }
            let scopes: Vec<&str> = scopes.iter().map(String::as_str).collect();
            let registered = manager.register_client(CLIENT_NAME, &callback.address(), &scopes).await;
            return registered.map_err(told);
        };
        let mut client = OAuthClientConfig::new(id, callback.address()).with_scopes(scopes.to_vec());
        if let Some(variable) = &self.config.client_secret_env {
            let secret = std::env::var(variable);
            client = client.with_client_secret(
                secret.map_err(|_| format!("the environment variable {variable} is not set"))?,
            );
        }
        manager.configure_client(client.clone()).map_err(told)?;
        Ok(client)
    }
}

impl BegunLogin {
    /// The address at which the person logs in.
    pub fn address(&self) -> &str {
        self.address.as_str()
    }

    /// The authorization server.
    pub fn issuer(&self) -> &str {
        &self.issuer
    }

    /// True if a browser may have returned with this address.
    pub fn is_answered_by(&self, returned: &str) -> bool {
        Url::parse(returned.trim()).is_ok_and(|url| state_of(&url).as_deref() == Some(&self.state))
    }

    /// Waits for the browser to return, without an end. Cancel-safe.
    pub async fn returned(&self) -> String {
        self.callback.returned(&self.state).await.into()
    }

    /// Finishes the login with the address that a browser returned to, or that a person pasted: checks `state` and `iss`, fetches the
    /// tokens, and keeps them. Durable on return.
    ///
    /// # Errors
    ///
    /// The reason, also if the address belongs to another login. Nothing is kept then.
    pub async fn finish(self, returned: &str) -> Result<LoggedIn, String> {
        let returned = Url::parse(returned.trim())
            .map_err(|_| "no address: paste the whole address, from http:// on".to_owned())?;
        if state_of(&returned).as_deref() != Some(&self.state) {
            return Err("the address belongs to another login: its `state` is not of this one".to_owned());
        }
        if let Some(error) = parameter(&returned, "error") {
            let more = parameter(&returned, "error_description").map(|text| format!(": {text}"));
            return Err(format!("refused: {}", clipped(&format!("{error}{}", more.unwrap_or_default()))));
        }
        let code = parameter(&returned, "code").ok_or("the address has no `code`")?;
        let iss = parameter(&returned, "iss");
        let exchange = self.manager.exchange_code_for_token_with_issuer(&code, &self.state, iss.as_deref());
        let exchanged = tokio::time::timeout(STEPS, exchange).await;
        let exchanged = exchanged.map_err(|_| format!("no token within {} s", STEPS.as_secs()))?;
        let tokens = exchanged.map_err(told)?;
        if *tokens.token_type() != BasicTokenType::Bearer {
            return Err("it gave a token that is no bearer token".to_owned());
        }
        let credentials = self.tokens.load().await.map_err(told)?.ok_or("there is no token")?;
        let (url, wanted) = (self.login.url.as_str().to_owned(), Vec::new());
        let scopes = credentials.granted_scopes.clone();
        let (challenge, client_secret) = (self.challenge, self.client_secret);
        let kept = Kept { url, challenge, client_secret, wanted, credentials };
        let state = self.login.keep(&kept).await;
        let state = state.map_err(|error| format!("the login cannot be kept: {error}"))?;
        Ok(LoggedIn { issuer: self.issuer, scopes, state })
    }
}

/// An error of the library, with its innermost reason, on one line. What servers wrote is part of it, tokens are not.
fn told(error: AuthError) -> String {
    let mut text = error.to_string();
    let mut inner = std::error::Error::source(&error);
    while let Some(cause) = inner {
        text = format!("{text}: {cause}");
        inner = cause.source();
    }
    clipped(&text)
}
