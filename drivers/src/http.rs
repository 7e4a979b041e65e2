//! HTTP for what is no tool and no model.

use std::time::Duration;

use reqwest::{Client, ClientBuilder};

use crate::tool::tls;

/// Connection timeout.
const CONNECT: Duration = Duration::from_secs(5);

/// A client without redirects, proxies and retries. With `https` it trusts the platform's certificates, and reading them blocks.
///
/// # Errors
///
/// The certificates cannot be read, or the client cannot be set up.
pub fn http_client(https: bool) -> Result<Client, String> {
    let tls = if https { tls::with_platform_roots() } else { tls::without_roots() }?;
    let builder = ClientBuilder::new()
        .tls_backend_preconfigured(tls)
        .user_agent(concat!("ostler/", env!("CARGO_PKG_VERSION")))
        .redirect(reqwest::redirect::Policy::none())
        .retry(reqwest::retry::never())
        .referer(false)
        .no_proxy()
        .connect_timeout(CONNECT);
    builder.build().map_err(|error| format!("cannot set a client up: {error}"))
}
