//! One HTTP exchange: with the provider, or with a cassette.

use ostler_kernel::port::ModelError;
use serde_json::Value;

use super::transport::{Head, Transport};

/// The other end of an exchange.
#[derive(Debug)]
pub(super) enum Exchange {
    Http(Transport),
}

/// The body of a response. Dropping it closes the connection.
pub(super) enum Body<'a> {
    Http { response: reqwest::Response, transport: &'a Transport },
}

impl Exchange {
    pub(super) async fn send(
        &self,
        path: &str,
        headers: &[(&'static str, &'static str)],
        body: &Value,
    ) -> Result<(Head, Body<'_>), ModelError> {
        match self {
            Exchange::Http(transport) => {
                let (head, response) = transport.send(path, headers, body.to_string().into_bytes()).await?;
                Ok((head, Body::Http { response, transport }))
            }
        }
    }
}

impl Body<'_> {
    /// The next bytes; `None` after the last.
    pub(super) async fn chunk(&mut self) -> Result<Option<Vec<u8>>, ModelError> {
        match self {
            Body::Http { response, transport } => {
                let chunk = response.chunk().await.map_err(|error| transport.lost(&error))?;
                Ok(chunk.map(Vec::from))
            }
        }
    }
}
