//! Rows of a stream of JSON lines.

use std::marker::PhantomData;

use axum::body::BodyDataStream;
use futures::StreamExt;
use hyper::Method;
use serde::de::DeserializeOwned;

use crate::cli::session::api_client::{ApiError, CONNECTION_LOST, Client};

/// Maximum bytes of one row as JSON.
const ROW_BYTES_MAX: usize = 1 << 20;

/// The rows of one response; none before a request.
pub(crate) struct RowStream<R> {
    body: Option<BodyDataStream>,
    rest: Vec<u8>,
    rows: PhantomData<fn() -> R>,
}

impl<R> Default for RowStream<R> {
    fn default() -> RowStream<R> {
        RowStream { body: None, rest: Vec::new(), rows: PhantomData }
    }
}

impl<R: DeserializeOwned> RowStream<R> {
    /// Replaces the stream by that of another request.
    pub(crate) async fn request(&mut self, client: &Client, path: &str) -> Result<(), ApiError> {
        let response = client.request(Method::GET, path, "application/x-ndjson", None).await?;
        self.body = Some(response.into_body().into_data_stream());
        self.rest.clear();
        Ok(())
    }

    /// The next row; `None` at the end. Dropping the future loses nothing.
    pub(crate) async fn next(&mut self) -> Result<Option<R>, ApiError> {
        let lost = || ApiError::ConnectionLost(CONNECTION_LOST.to_owned());
        loop {
            if let Some(end) = self.rest.iter().position(|&byte| byte == b'\n') {
                let row: R = serde_json::from_slice(&self.rest[..end]).map_err(|_| lost())?;
                self.rest.drain(..=end);
                return Ok(Some(row));
            }
            let Some(body) = &mut self.body else { return Ok(None) };
            match body.next().await {
                Some(Ok(chunk)) if self.rest.len() + chunk.len() <= ROW_BYTES_MAX => {
                    self.rest.extend_from_slice(&chunk);
                }
                None => self.body = None,
                Some(_) => {
                    self.body = None;
                    return Err(lost());
                }
            }
        }
    }
}
