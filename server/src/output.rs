//! Streams the output of the programs of a run.

use std::collections::VecDeque;

use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::Response;
use futures::{Stream, stream};
use ostler_actors::{RunError, Settled, System};
use ostler_kernel::id::{NodeId, RunId};
use ostler_kernel::port::BoxFuture;
use serde::Deserialize;
use tokio::sync::watch;

use crate::extract::{PathParams, QueryParams};
use crate::problem::Problem;
use crate::routes::Api;
use crate::wire::OutputRow;
use crate::{run_lookup, streaming};

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
pub(crate) struct OutputQuery {
    /// The `seq` of the last row seen.
    after: Option<u64>,
    until: Option<Until>,
    node: Option<NodeId>,
    attempt: Option<u64>,
}

pub(crate) async fn output(
    State(api): State<Api>,
    PathParams(name): PathParams<String>,
    QueryParams(query): QueryParams<OutputQuery>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let run = run_lookup::find(&api.system, &name)?;
    let after = query.after.or(streaming::last_event_id(&headers)?).unwrap_or(0);
    if let Some(node) = &query.node
        && api.system.view(run, None).await?.run.instance(node).is_none()
    {
        return Err(RunError::UnknownNode(node.clone()).into());
    }
    let changes = api.system.watch_output();
    let settled = (query.until != Some(Until::Now)).then(|| -> BoxFuture<'static, _> {
        let system = api.system.clone();
        Box::pin(async move { system.outcome(run).await })
    });
    let (node, attempt) = (query.node, query.attempt);
    let follow =
        Follow { system: api.system, run, after, node, attempt, read: VecDeque::new(), changes, settled };
    Ok(streaming::respond(&headers, follow.rows()))
}

struct Follow {
    system: System,
    run: RunId,
    after: u64,
    node: Option<NodeId>,
    attempt: Option<u64>,
    read: VecDeque<OutputRow>,
    changes: watch::Receiver<u64>,
    /// `None`: the stream ends with the present output.
    settled: Option<BoxFuture<'static, Result<Settled, RunError>>>,
}

impl Follow {
    fn rows(self) -> impl Stream<Item = Result<OutputRow, RunError>> + Send {
        stream::unfold(Some(self), |follow| async move {
            let mut follow = follow?;
            match follow.next().await {
                Ok(row) => row.map(|row| (Ok(row), Some(follow))),
                Err(error) => Some((Err(error), None)),
            }
        })
    }

    async fn next(&mut self) -> Result<Option<OutputRow>, RunError> {
        loop {
            if let Some(row) = self.read.pop_front() {
                return Ok(Some(row));
            }
            // Marked as seen before the output is read, so that none is missed.
            self.changes.borrow_and_update();
            if self.fill()? {
                continue;
            }
            let Some(settled) = &mut self.settled else { return Ok(None) };
            tokio::select! {
                settled = settled => {
                    settled?;
                    self.settled = None;
                }
                changed = self.changes.changed() => if changed.is_err() {
                    return Ok(None);
                },
            }
        }
    }

    /// Reads further output; false at the end.
    fn fill(&mut self) -> Result<bool, RunError> {
        let page = self.system.program_output(self.run, self.after)?;
        let Some((after, _)) = page.last() else { return Ok(false) };
        self.after = *after;
        for (seq, chunk) in page {
            let is_wanted = self.node.as_ref().is_none_or(|node| *node == chunk.node)
                && self.attempt.is_none_or(|attempt| attempt == u64::from(chunk.attempt));
            if is_wanted {
                self.read.push_back(OutputRow::new(self.run, seq, chunk));
            }
        }
        Ok(true)
    }
}
