//! Streaming the output of the programs of a run.

use std::fmt::Write;

use ostler_server::wire::OutputRow;

use crate::cli::session::api_client::{ApiError, Client, path_segment};
use crate::cli::session::row_stream::RowStream;

/// A place in the output of a run. Connecting again goes on from there.
pub(crate) struct OutputReader {
    path: String,
    after: u64,
    rows: RowStream<OutputRow>,
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
        OutputReader { path, after: 0, rows: RowStream::default() }
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
        self.rows.request(client, &path).await
    }

    /// The next row; `None` at the end. Dropping the future loses nothing.
    pub(crate) async fn next(&mut self) -> Result<Option<OutputRow>, ApiError> {
        let row = self.rows.next().await?;
        if let Some(row) = &row {
            self.after = row.seq;
        }
        Ok(row)
    }
}
