//! HTTP to the configured address of a provider, and nowhere else.

use std::time::Duration;

use ostler_kernel::port::{ModelError, ModelErrorClass};
use reqwest::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use reqwest::{Client, ClientBuilder, Response, Url};
use tokio::sync::OnceCell;

use super::key::Key;
use crate::tool::tls;

/// Connection timeout.
const CONNECT: Duration = Duration::from_secs(10);

/// Time that an idle connection stays open for the next call.
const IDLE: Duration = Duration::from_secs(15);

/// Sends requests below one URL: no redirects, no proxy, no retries. The key goes to this URL's origin only.
#[derive(Debug)]
pub(super) struct Transport {
    place: String,
    base: Url,
    key: Key,
    key_header: KeyHeader,
    client: OnceCell<Client>,
}

/// The header that carries the key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum KeyHeader {
    /// `authorization: Bearer`.
    Bearer,
    /// The key alone.
    Plain(&'static str),
}

/// Status and headers of a response.
#[derive(Debug, Clone)]
pub(super) struct Head {
    pub(super) status: u16,
    pub(super) headers: Vec<(String, String)>,
}

impl Transport {
    /// `place` names the model's table for messages, such as `models.default`.
    pub(super) fn new(place: String, base: Url, key: Key, key_header: KeyHeader) -> Transport {
        Transport { place, base, key, key_header, client: OnceCell::new() }
    }

    /// Sends a JSON body; returns once the head of the response is here.
    pub(super) async fn send(
        &self,
        path: &str,
        extra: &[(&'static str, &'static str)],
        body: Vec<u8>,
    ) -> Result<(Head, Response), ModelError> {
        let mut headers = self.key_headers()?;
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        for (name, value) in extra {
            headers.insert(HeaderName::from_static(name), HeaderValue::from_static(value));
        }
        let client = self.client.get_or_try_init(|| self.connect()).await?;
        let sent = client.post(self.url(path)).headers(headers).body(body).send().await;
        let response = sent.map_err(|error| self.not_answered(&error))?;
        let headers = response.headers().iter().map(|(name, value)| {
            (name.as_str().to_owned(), String::from_utf8_lossy(value.as_bytes()).into_owned())
        });
        Ok((Head { status: response.status().as_u16(), headers: headers.collect() }, response))
    }

    /// The connection broke while the response arrived.
    pub(super) fn lost(&self, error: &reqwest::Error) -> ModelError {
        self.connection(format!("lost the response of {}: {}", self.origin(), innermost(error)))
    }

    pub(super) fn connection(&self, message: String) -> ModelError {
        ModelError {
            class: ModelErrorClass::Connection,
            status: None,
            message,
            retry_after_s: None,
            is_unsent: false,
        }
    }

    fn unsent(&self, message: String) -> ModelError {
        ModelError { is_unsent: true, ..self.connection(message) }
    }

    /// Scheme, host and port; a path or query may hold secrets.
    pub(super) fn origin(&self) -> String {
        self.base.origin().ascii_serialization()
    }

    fn url(&self, path: &str) -> Url {
        let mut url = self.base.clone();
        if let Ok(mut segments) = url.path_segments_mut() {
            segments.pop_if_empty().extend(path.split('/'));
        }
        url
    }

    fn key_headers(&self) -> Result<HeaderMap, ModelError> {
        let mut headers = HeaderMap::new();
        let Some(secret) = self.key.secret()? else { return Ok(headers) };
        let (name, value) = match self.key_header {
            KeyHeader::Bearer => ("authorization", format!("Bearer {secret}")),
            KeyHeader::Plain(name) => (name, secret.to_owned()),
        };
        let mut value = HeaderValue::try_from(value).map_err(|_| ModelError {
            class: ModelErrorClass::Auth,
            status: None,
            message: format!(
                "the key of {} holds characters that no header can carry; set the variable again",
                self.place
            ),
            retry_after_s: None,
            is_unsent: false,
        })?;
        value.set_sensitive(true);
        headers.insert(HeaderName::from_static(name), value);
        Ok(headers)
    }

    async fn connect(&self) -> Result<Client, ModelError> {
        let tls = if self.base.scheme() == "https" {
            // Reading the platform's certificates blocks.
            let read = tokio::task::spawn_blocking(tls::with_platform_roots).await;
            read.unwrap_or_else(|error| Err(error.to_string()))
        } else {
            tls::without_roots()
        };
        let tls = tls.map_err(|why| self.unsent(why))?;
        let builder = ClientBuilder::new()
            .tls_backend_preconfigured(tls)
            .user_agent(concat!("ostler/", env!("CARGO_PKG_VERSION")))
            .redirect(reqwest::redirect::Policy::none())
            .retry(reqwest::retry::never())
            .referer(false)
            .no_proxy()
            // Servers close idle connections, and a request on a closed one fails.
            .pool_idle_timeout(IDLE)
            .connect_timeout(CONNECT);
        builder.build().map_err(|error| self.unsent(format!("cannot set a client up: {error}")))
    }

    fn not_answered(&self, error: &reqwest::Error) -> ModelError {
        let (origin, why) = (self.origin(), innermost(error));
        if !error.is_connect() {
            return self.connection(format!("no response from {origin}: {why}"));
        }
        self.unsent(format!(
            "cannot connect to {origin}: {why}; start the server, or correct base_url of {}",
            self.place
        ))
    }
}

fn innermost(error: &reqwest::Error) -> String {
    let mut inner: &dyn std::error::Error = error;
    while let Some(source) = inner.source() {
        inner = source;
    }
    inner.to_string()
}
