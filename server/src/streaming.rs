//! Streams as JSON lines or as server-sent events, as the client prefers.

use std::convert::Infallible;
use std::error::Error;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::http::{HeaderMap, header};
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use futures::{Stream, StreamExt};
use serde::Serialize;

use crate::problem::Problem;
use crate::wire::{EventLine, OutputRow, PipelineEventLine, TextRow};

const NDJSON: &str = "application/x-ndjson";

/// Interval of keep-alive comments in a quiet stream of server-sent events.
const KEEP_ALIVE: Duration = Duration::from_secs(15);

pub(crate) trait StreamItem: Serialize {
    /// The id of a server-sent event: the place behind the item.
    fn id(&self) -> String;
    /// Kind of the event.
    fn kind(&self) -> &str;
}

impl StreamItem for EventLine {
    fn id(&self) -> String {
        self.seq.to_string()
    }

    fn kind(&self) -> &str {
        &self.kind
    }
}

impl StreamItem for PipelineEventLine {
    fn id(&self) -> String {
        self.seq.to_string()
    }

    fn kind(&self) -> &str {
        &self.kind
    }
}

impl StreamItem for OutputRow {
    fn id(&self) -> String {
        self.seq.to_string()
    }

    fn kind(&self) -> &str {
        &self.row_type
    }
}

impl StreamItem for TextRow {
    fn id(&self) -> String {
        self.position().to_string()
    }

    fn kind(&self) -> &str {
        &self.row_type
    }
}

/// The last event that a reconnecting client has seen.
pub(crate) fn last_event_id(headers: &HeaderMap) -> Result<Option<u64>, Problem> {
    let Some(id) = headers.get("last-event-id") else { return Ok(None) };
    let id = id.to_str().ok().and_then(|id| id.parse().ok());
    id.map(Some).ok_or_else(|| Problem::bad("last_event_id", "Last-Event-ID is not a sequence number"))
}

/// JSON lines if the client accepts them, else server-sent events. An error ends the stream.
pub(crate) fn respond<L: StreamItem, E: Error + Send + Sync + 'static>(
    headers: &HeaderMap,
    lines: impl Stream<Item = Result<L, E>> + Send + 'static,
) -> Response {
    let accepts = headers.get(header::ACCEPT).and_then(|accept| accept.to_str().ok()).unwrap_or_default();
    if accepts.contains(NDJSON) { ndjson(lines) } else { server_sent_events(lines) }
}

fn ndjson<L: StreamItem, E: Error + Send + Sync + 'static>(
    lines: impl Stream<Item = Result<L, E>> + Send + 'static,
) -> Response {
    let lines = lines.map(|line| -> Result<Bytes, E> {
        let mut text = serde_json::to_vec(&line?).expect("names, numbers and JSON are JSON");
        text.push(b'\n');
        Ok(text.into())
    });
    ([(header::CONTENT_TYPE, NDJSON)], Body::from_stream(lines)).into_response()
}

fn server_sent_events<L: StreamItem, E: Error>(
    lines: impl Stream<Item = Result<L, E>> + Send + 'static,
) -> Response {
    let events = lines.map(|line| -> Result<Event, Infallible> {
        Ok(match line {
            Ok(line) => {
                let text = serde_json::to_string(&line).expect("names, numbers and JSON are JSON");
                Event::default().id(line.id()).event(line.kind()).data(text)
            }
            Err(error) => Event::default().event("problem").data(error.to_string()),
        })
    });
    Sse::new(events).keep_alive(KeepAlive::new().interval(KEEP_ALIVE)).into_response()
}
