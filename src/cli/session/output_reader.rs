//! Streaming the output of the programs of a run.

use std::fmt::Write;

use axum::body::BodyDataStream;
use futures::StreamExt;
use hyper::Method;
use ostler_server::wire::OutputRow;

use crate::cli::session::api_client::{ApiError, CONNECTION_LOST, Client, path_segment};

/// Maximum bytes of one row as JSON.
const ROW_BYTES_MAX: usize = 1 << 20;

/// A place in the output of a run. Connecting again goes on from there.
pub(crate) struct OutputReader {
    path: String,
    after: u64,
    body: Option<BodyDataStream>,
    rest: Vec<u8>,
}

impl OutputReader {
    /// The output of a run, of one of its nodes, or of one attempt, from the beginning.
    pub(crate) fn of(run: &str, node: Option<&str>, attempt: Option<u64>) -> OutputReader {
        let mut path = format!("/v1/runs/{}/output?", path_segment(run));
        if let Some(node) = node {
            let _ = write!(path, "node={}&", path_segment(node));
        }
        if let Some(attempt) = attempt {
            let _ = write!(path, "attempt={attempt}&");
        }
        OutputReader { path, after: 0, body: None, rest: Vec::new() }
    }

    /// Streams the output until the run is settled.
    pub(crate) async fn connect(&mut self, client: &Client) -> Result<(), ApiError> {
        self.request(client, "settled").await
    }

    /// Streams the present output.
    pub(crate) async fn connect_until_now(&mut self, client: &Client) -> Result<(), ApiError> {
        self.request(client, "now").await
    }

    async fn request(&mut self, client: &Client, until: &str) -> Result<(), ApiError> {
        let path = format!("{}after={}&until={until}", self.path, self.after);
        let response = client.request(Method::GET, &path, "application/x-ndjson", None).await?;
        self.body = Some(response.into_body().into_data_stream());
        self.rest.clear();
        Ok(())
    }

    /// The next row; `None` at the end. Dropping the future loses nothing.
    pub(crate) async fn next(&mut self) -> Result<Option<OutputRow>, ApiError> {
        let lost = || ApiError::ConnectionLost(CONNECTION_LOST.to_owned());
        loop {
            if let Some(end) = self.rest.iter().position(|&byte| byte == b'\n') {
                let row: OutputRow = serde_json::from_slice(&self.rest[..end]).map_err(|_| lost())?;
                self.rest.drain(..=end);
                self.after = row.seq;
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
