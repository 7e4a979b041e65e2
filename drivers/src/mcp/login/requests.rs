//! The requests of a login: to permitted addresses only, bounded, with a deadline, and without redirects.

use std::net::IpAddr;
use std::time::Duration;

use ostler_kernel::gate::Egress;
use reqwest::{Request, Url};
use rmcp::transport::auth::{OAuthHttpClient, OAuthHttpClientError, OAuthHttpClientFuture, OAuthHttpRequest};
use serde::Deserialize;

use crate::mcp::result::clipped;
use crate::tool::HttpClient;

/// Largest answer of an authorization server, in bytes.
pub const LOGIN_ANSWER_BYTES_MAX: usize = 256 << 10;

/// Deadline of one request of a login.
pub const LOGIN_REQUEST: Duration = Duration::from_secs(20);

/// Sends the requests of a login at one server.
#[derive(Debug, Clone)]
pub(super) struct Requests {
    server: Url,
    /// Authorization server that the configuration names.
    issuer: Option<Url>,
    /// For each request.
    deadline: Duration,
}

impl Requests {
    pub(super) fn new(server: Url, issuer: Option<Url>) -> Requests {
        Requests { server, issuer, deadline: LOGIN_REQUEST }
    }

    /// Refuses an address that is not secret on its way, or that may lie in a network of the user without the configuration
    /// saying so.
    pub(super) fn check(&self, url: &Url) -> Result<(), String> {
        self.client(url).map(|_| ())
    }

    fn client(&self, url: &Url) -> Result<HttpClient, String> {
        if !is_secret(url) {
            return Err(format!("{} is neither https nor a loopback address", place(url)));
        }
        let (Some(host), Some(port)) = (url.host_str(), url.port_or_known_default()) else {
            return Err("an address without a host".to_owned());
        };
        let opens = self.opens(url);
        if !opens && is_loopback(url) {
            return Err(format!("{} is this machine, and the server is elsewhere", place(url)));
        }
        let entry = if opens { format!("{host}:{port}") } else { format!("*:{port}") };
        let client = Egress::new([entry]).map(HttpClient::new).map_err(|error| error.to_string())?;
        client.judge(url.as_str()).map_err(|fault| fault.to_string())?;
        Ok(client)
    }

    /// True if the configuration opens private addresses for this host: the host of the server, the named authorization server, and
    /// for a server of this machine any loopback address.
    fn opens(&self, url: &Url) -> bool {
        let is_named = |named: &Url| named.host() == url.host();
        is_named(&self.server)
            || self.issuer.as_ref().is_some_and(is_named)
            || is_loopback(&self.server) && is_loopback(url)
    }

    async fn send(&self, request: OAuthHttpRequest) -> Result<oauth2::HttpResponse, OAuthHttpClientError> {
        let request = Request::try_from(request.request)?;
        let url = request.url().clone();
        let client = self.client(&url)?;
        let (client, _) = client.open(url.as_str()).await.map_err(|failure| failure.message)?;
        let mut response = client.execute(request).await.map_err(reqwest::Error::without_url)?;
        let mut answer = oauth2::http::Response::builder().status(response.status());
        for (name, value) in response.headers() {
            answer = answer.header(name, value);
        }
        let mut body = Vec::new();
        while let Some(piece) = response.chunk().await.map_err(reqwest::Error::without_url)? {
            if body.len() + piece.len() > LOGIN_ANSWER_BYTES_MAX {
                return Err(format!("its answer is larger than {LOGIN_ANSWER_BYTES_MAX} bytes").into());
            }
            body.extend_from_slice(&piece);
        }
        check_speaker(&url, &body)?;
        Ok(answer.body(body)?)
    }
}

impl OAuthHttpClient for Requests {
    /// Redirects are not followed, whatever the request wishes: they would carry secrets to another address.
    fn execute(&self, request: OAuthHttpRequest) -> OAuthHttpClientFuture<'_> {
        Box::pin(async move {
            let sent = tokio::time::timeout(self.deadline, self.send(request)).await;
            sent.unwrap_or_else(|_| Err(format!("no answer within {} ms", self.deadline.as_millis()).into()))
        })
    }
}

/// Refuses metadata of an authorization server that another server publishes. With the name of a good server and a token endpoint of its
/// own, it would get the codes that the good one gives. The library compares the two by the form of the address, which a server chooses.
fn check_speaker(url: &Url, body: &[u8]) -> Result<(), String> {
    #[derive(Deserialize)]
    struct Metadata {
        issuer: String,
        #[serde(rename = "token_endpoint")]
        _token_endpoint: String,
    }
    let Ok(Metadata { issuer, .. }) = serde_json::from_slice(body) else { return Ok(()) };
    let is_same = Url::parse(&issuer).is_ok_and(|issuer| issuer.origin() == url.origin());
    if is_same { Ok(()) } else { Err(format!("{} says that it is {}", place(url), clipped(&issuer))) }
}

/// True if nobody on the way reads along: https, or within this machine.
pub(super) fn is_secret(url: &Url) -> bool {
    url.scheme() == "https" || url.scheme() == "http" && is_loopback(url)
}

/// True for an address of this machine, by name or as a number.
pub(super) fn is_loopback(url: &Url) -> bool {
    match literal(url) {
        Some(address) => address.is_loopback(),
        None => url.domain().is_some_and(|name| name == "localhost" || name.ends_with(".localhost")),
    }
}

/// True for an address of a private network as a number. The library leads to none.
pub(super) fn is_private_literal(url: &Url) -> bool {
    literal(url).is_some_and(|address| !address.is_loopback() && !ostler_kernel::gate::is_public(address))
}

fn literal(url: &Url) -> Option<IpAddr> {
    url.host_str()?.trim_matches(['[', ']']).parse().ok()
}

/// Scheme, host and port. Paths and queries may hold secrets and are not shown.
pub(super) fn place(url: &Url) -> String {
    url.origin().ascii_serialization()
}

#[cfg(test)]
mod tests {
    use rmcp::transport::auth::{AuthError, AuthorizationManager};

    use super::*;

    #[tokio::test]
    async fn a_server_that_never_answers_is_given_up() {
        let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/mcp", silent.local_addr().unwrap());
        let mut requests = Requests::new(Url::parse(&url).unwrap(), None);
        requests.deadline = Duration::from_millis(50);
        let client = std::sync::Arc::new(requests);
        let manager = AuthorizationManager::new_with_oauth_http_client(&url, client).await.unwrap();
        let failed = manager.resolve_metadata().await.unwrap_err();
        let AuthError::DiscoveryRequestFailed { source, .. } = failed else { panic!("{failed}") };
        assert_eq!(source.to_string(), "no answer within 50 ms");
    }

    #[track_caller]
    fn check(server: &str, issuer: Option<&str>, asked: &str, permitted: bool) {
        let url = |text: &str| Url::parse(text).unwrap();
        let checked = Requests::new(url(server), issuer.map(url)).check(&url(asked));
        assert_eq!(checked.is_ok(), permitted, "{server} sends to {asked}: {checked:?}");
    }

    #[test]
    fn a_server_leads_to_public_addresses_and_to_those_that_the_configuration_names() {
        let public = "https://mcp.example.com/mcp";
        check(public, None, "https://login.example.com/authorize", true);
        check(public, None, "https://93.184.216.34/token", true);
        for internal in [
            "http://login.example.com/token",
            "http://localhost:80/token",
            "https://localhost/token",
            "https://127.0.0.1/token",
            "https://10.0.0.1/token",
            "https://[::1]/token",
            "https://[fd00::1]/token",
            "https://169.254.169.254/latest/meta-data",
            "http://169.254.169.254/latest/meta-data",
            "file:///etc/passwd",
        ] {
            check(public, None, internal, false);
        }
        check(public, Some("https://10.0.0.1"), "https://10.0.0.1:444/token", true);
        check(public, Some("https://10.0.0.1"), "https://10.0.0.2/token", false);
        check("http://localhost:1/mcp", None, "http://127.0.0.1:2/token", true);
        check("http://127.0.0.1:1/mcp", None, "https://169.254.169.254/x", false);
        check("http://127.0.0.1:1/mcp", None, "https://10.0.0.1/x", false);
        check("http://[::1]:1/mcp", None, "http://[::1]:2/token", true);
        check("https://10.0.0.5/mcp", None, "https://10.0.0.6/token", false);
        check("https://10.0.0.5/mcp", None, "http://127.0.0.1/token", false);
    }
}
