//! Streams what the models of a run write, while they write.

use std::collections::VecDeque;

use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::Response;
use futures::{Stream, stream};
use ostler_actors::{LiveText, RunError, Settled, TextFilter, TextPosition, TextReader};
use ostler_kernel::id::{NodeId, RunId};
use ostler_kernel::port::BoxFuture;
use serde::Deserialize;

use crate::extract::{PathParams, QueryParams};
use crate::problem::Problem;
use crate::routes::Api;
use crate::wire::TextRow;
use crate::{run_lookup, streaming};

/// Maximum positions to go on from.
pub const TEXT_POSITIONS_MAX: usize = 1_024;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Until {
    /// A state in which nothing goes on.
    Settled,
    /// The present end.
    Now,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct TextQuery {
    /// Positions behind the last rows seen, one for each text, separated by commas.
    after: Option<String>,
    until: Option<Until>,
    node: Option<NodeId>,
    attempt: Option<u32>,
}

pub(crate) async fn text(
    State(api): State<Api>,
    PathParams(name): PathParams<String>,
    QueryParams(query): QueryParams<TextQuery>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let run = run_lookup::find(&api.system, &name)?;
    let after = match (&query.after, headers.get("last-event-id")) {
        (Some(after), _) => positions("after", after)?,
        (None, Some(id)) => positions("last_event_id", id.to_str().unwrap_or("?"))?,
        (None, None) => Vec::new(),
    };
    if let Some(node) = &query.node
        && api.system.view(run, None).await?.run.instance(node).is_none()
    {
        return Err(RunError::UnknownNode(node.clone()).into());
    }
    let filter = TextFilter { node: query.node, attempt: query.attempt };
    let reader = api.system.live_text(run, filter, &after)?;
    let settled = (query.until != Some(Until::Now)).then(|| -> BoxFuture<'static, _> {
        let system = api.system.clone();
        Box::pin(async move { system.outcome(run).await })
    });
    let follow = Follow { run, reader, read: VecDeque::new(), settled };
    Ok(streaming::respond(&headers, follow.rows()))
}

fn positions(code: &'static str, text: &str) -> Result<Vec<TextPosition>, Problem> {
    let mut positions = Vec::new();
    for position in text.split(',').filter(|position| !position.is_empty()) {
        positions.push(position.parse().map_err(|error| Problem::bad(code, format!("{error}")))?);
        if positions.len() > TEXT_POSITIONS_MAX {
            return Err(Problem::bad(code, format!("more than {TEXT_POSITIONS_MAX} positions; name fewer")));
        }
    }
    Ok(positions)
}

struct Follow {
    run: RunId,
    reader: TextReader,
    read: VecDeque<LiveText>,
    /// `None`: the stream ends with the present text.
    settled: Option<BoxFuture<'static, Result<Settled, RunError>>>,
}

impl Follow {
    fn rows(self) -> impl Stream<Item = Result<TextRow, RunError>> + Send {
        stream::unfold(Some(self), |follow| async move {
            let mut follow = follow?;
            match follow.next().await {
                Ok(row) => row.map(|row| (Ok(row), Some(follow))),
                Err(error) => Some((Err(error), None)),
            }
        })
    }

    async fn next(&mut self) -> Result<Option<TextRow>, RunError> {
        loop {
            if let Some(text) = self.read.pop_front() {
                return Ok(Some(TextRow::new(self.run, text)));
            }
            self.read.extend(self.reader.read());
            if !self.read.is_empty() {
                continue;
            }
            let Some(settled) = &mut self.settled else { return Ok(None) };
            tokio::select! {
                settled = settled => {
                    settled?;
                    self.settled = None;
                }
                () = self.reader.changed() => {}
            }
        }
    }
}
