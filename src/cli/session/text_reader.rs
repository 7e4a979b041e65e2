//! Streaming what the models of a run write.

use std::collections::BTreeMap;

use ostler_kernel::id::NodeId;
use ostler_server::TEXT_POSITIONS_MAX;
use ostler_server::wire::{TextPosition, TextRow};

use crate::cli::session::api_client::{ApiError, Client, path_segment};
use crate::cli::session::row_stream::RowStream;

/// Places in the texts of a run. Connecting again goes on from there.
pub(crate) struct TextReader {
    path: String,
    /// For each text that has not ended, the place behind the last piece.
    read: BTreeMap<(NodeId, u32), TextPosition>,
    rows: RowStream<TextRow>,
}

impl TextReader {
    /// The texts of a run, each from its beginning.
    pub(crate) fn of(run: &str) -> TextReader {
        let path = format!("/v1/runs/{}/text", path_segment(run));
        TextReader { path, read: BTreeMap::new(), rows: RowStream::default() }
    }

    /// Streams the texts until the run is settled.
    pub(crate) async fn connect(&mut self, client: &Client) -> Result<(), ApiError> {
        let after: Vec<String> =
            self.read.values().take(TEXT_POSITIONS_MAX).map(ToString::to_string).collect();
        self.rows.request(client, &format!("{}?until=settled&after={}", self.path, after.join(","))).await
    }

    /// The next row; `None` at the end. Dropping the future loses nothing.
    pub(crate) async fn next(&mut self) -> Result<Option<TextRow>, ApiError> {
        let row = self.rows.next().await?;
        if let Some(row) = &row {
            let text = (row.node.clone(), row.attempt);
            match row.piece {
                Some(_) => drop(self.read.insert(text, row.position())),
                None => drop(self.read.remove(&text)),
            }
        }
        Ok(row)
    }
}
