//! Connections of the `http.*` and `web.*` tools: permitted addresses only, no redirects, no retries, no proxy.

use std::net::SocketAddr;
use std::sync::OnceLock;
use std::time::Duration;

use ostler_kernel::event::Failure;
use ostler_kernel::gate::{Destination, Egress, EgressFault};
use ostler_kernel::run::FailureCategory;
use reqwest::{Client, ClientBuilder, Response, StatusCode, Url};

use super::blocking_tool::off_runtime;
use super::tls;
use super::tool_spec::{crash, failure, structural, transient};

/// Maximum bytes of a response body.
pub const HTTP_BODY_BYTES_MAX: usize = 5 << 20;
/// Connection timeout in milliseconds.
pub const HTTP_CONNECT_MS: u64 = 10_000;

/// Opens connections to the destinations of an egress list.
#[derive(Debug)]
pub(crate) struct HttpClient {
    egress: Egress,
    tls: OnceLock<rustls::ClientConfig>,
}

impl HttpClient {
    pub(crate) fn new(egress: Egress) -> HttpClient {
        HttpClient { egress, tls: OnceLock::new() }
    }

    /// Checks a URL against the egress list, without resolving its host.
    pub(crate) fn judge(&self, url: &str) -> Result<Destination, EgressFault> {
        self.egress.judge(url)
    }

    /// A client restricted to the permitted addresses of the URL's host. Resolves the host and checks every address.
    pub(crate) async fn open(&self, url: &str) -> Result<(Client, Url), Failure> {
        let destination = self.judge(url).map_err(|fault| structural(fault.to_string()))?;
        let url = Url::parse(url).map_err(|error| structural(format!("the URL: {error}")))?;
        if url.host_str() != Some(&destination.host) || url.port_or_known_default() != Some(destination.port)
        {
            return Err(structural("the URL can be read in two ways"));
        }
        let client = self.client(&url, &destination).await?;
        Ok((client, url))
    }

    async fn client(&self, url: &Url, destination: &Destination) -> Result<Client, Failure> {
        let mut builder = ClientBuilder::new()
            .tls_backend_preconfigured(self.tls(url.scheme()).await?)
            .user_agent(concat!("ostler/", env!("CARGO_PKG_VERSION")))
            .redirect(reqwest::redirect::Policy::none())
            .retry(reqwest::retry::never())
            .referer(false)
            .no_proxy()
            .pool_max_idle_per_host(0)
            .connect_timeout(Duration::from_millis(HTTP_CONNECT_MS));
        // The gate has checked an address in the URL itself.
        if let Some(name) = url.domain() {
            let found = tokio::net::lookup_host((name, destination.port)).await;
            let found = found.map_err(|error| transient(format!("cannot look {name} up: {error}")))?;
            let addresses: Vec<SocketAddr> = found.collect();
            if let Some(refused) = addresses.iter().find(|address| !destination.may_connect(address.ip())) {
                return Err(structural(format!("{name} stands for {}, which is not public", refused.ip())));
            }
            builder = builder.resolve_to_addrs(name, &addresses);
        }
        builder.build().map_err(|error| structural(format!("cannot set a client up: {error}")))
    }

    /// TLS configuration. Reads the platform's certificates once; plain connections get an empty set.
    async fn tls(&self, scheme: &str) -> Result<rustls::ClientConfig, Failure> {
        if scheme != "https" {
            return tls::without_roots().map_err(structural);
        }
        if let Some(config) = self.tls.get() {
            return Ok(config.clone());
        }
        let config = off_runtime(|_| tls::with_platform_roots().map_err(structural)).await?;
        Ok(self.tls.get_or_init(|| config).clone())
    }
}

/// Longest validator that is sent back, in bytes.
pub(super) const ETAG_BYTES_MAX: usize = 1_024;

/// Sends a GET; with an `etag`, for a page that differs from the one with this validator. The response is a result unless its
/// status asks for patience.
pub(super) async fn get(
    client: &Client,
    url: &Url,
    accept: &'static str,
    etag: Option<&str>,
) -> Result<Response, Failure> {
    let mut request = client.get(url.clone()).header(reqwest::header::ACCEPT, accept);
    if let Some(etag) = etag {
        request = request.header(reqwest::header::IF_NONE_MATCH, etag);
    }
    let response = request.send().await.map_err(|error| not_answered(url, &error))?;
    refuse_busy(url, response.status(), true)?;
    Ok(response)
}

/// Failure of a request without a response.
pub(super) fn not_answered(url: &Url, error: &reqwest::Error) -> Failure {
    let place = place(url);
    let why = innermost(error);
    if error.is_connect() {
        transient(format!("cannot connect to {place}: {why}"))
    } else if error.is_builder() {
        structural(format!("cannot ask {place}: {why}"))
    } else {
        crash(format!("lost the answer of {place}: {why}"))
    }
}

/// Refuses a status that asks for patience. A gateway that lost the response of a request that is not repeatable is a crash,
/// because the request may have taken effect.
pub(super) fn refuse_busy(url: &Url, status: StatusCode, is_repeatable: bool) -> Result<(), Failure> {
    let said = format!("{} answers {status}", place(url));
    match status {
        StatusCode::TOO_MANY_REQUESTS => Err(failure(FailureCategory::RateLimit, said)),
        StatusCode::SERVICE_UNAVAILABLE => Err(transient(said)),
        StatusCode::BAD_GATEWAY | StatusCode::GATEWAY_TIMEOUT if is_repeatable => Err(transient(said)),
        StatusCode::BAD_GATEWAY | StatusCode::GATEWAY_TIMEOUT => Err(crash(said)),
        _ => Ok(()),
    }
}

/// The first [`HTTP_BODY_BYTES_MAX`] bytes of a body, and whether there are more.
pub(super) async fn body(url: &Url, response: &mut Response) -> Result<(Vec<u8>, bool), Failure> {
    let mut bytes = Vec::new();
    let lost =
        |error: reqwest::Error| crash(format!("lost the answer of {}: {}", place(url), innermost(&error)));
    while let Some(piece) = response.chunk().await.map_err(lost)? {
        let room = HTTP_BODY_BYTES_MAX - bytes.len();
        bytes.extend_from_slice(&piece[..piece.len().min(room)]);
        if piece.len() > room {
            return Ok((bytes, true));
        }
    }
    Ok((bytes, false))
}

/// Scheme, host and port. Paths and queries may hold secrets and are not shown.
pub(super) fn place(url: &Url) -> String {
    url.origin().ascii_serialization()
}

fn innermost(error: &reqwest::Error) -> String {
    let mut inner: &dyn std::error::Error = error;
    while let Some(source) = inner.source() {
        inner = source;
    }
    inner.to_string()
}
