//! Streams of a run's records.

use futures::{Stream, stream};
use ostler_actors::{EventCursor, RunError, Settled, System};
use ostler_kernel::id::RunId;
use ostler_kernel::port::{BoxFuture, Recorded, Seq};

use crate::event_json::event_json;
use crate::wire::EventLine;

#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Until {
    /// The closing record.
    Closed,
    /// The closing record, or a state in which nothing goes on.
    Settled,
    /// The present last record.
    Now,
}

pub(crate) fn event_line(run: RunId, record: &Recorded) -> EventLine {
    let (kind, body) = event_json(&record.event);
    EventLine {
        line_type: "event".to_owned(),
        seq: record.seq.0,
        at_ms: record.at_ms,
        run: run.to_string(),
        kind: kind.to_owned(),
        body,
    }
}

struct Follow {
    run: RunId,
    cursor: EventCursor,
    until: Until,
    last_now: Seq,
    ending: bool,
    over: bool,
    settled: Option<BoxFuture<'static, Result<Settled, RunError>>>,
}

/// Streams the records after `after` as lines. A journal error ends the stream.
pub(crate) fn follow(
    system: System,
    run: RunId,
    after: Seq,
    until: Until,
    last_now: Seq,
) -> Result<impl Stream<Item = Result<EventLine, RunError>> + Send, RunError> {
    let cursor = system.events(run, after)?;
    let settled = (until == Until::Settled).then(|| -> BoxFuture<'static, _> {
        let system = system.clone();
        Box::pin(async move { system.outcome(run).await })
    });
    let over = until == Until::Now && after >= last_now;
    let state = Follow { run, cursor, until, last_now, ending: false, over, settled };
    Ok(stream::unfold(state, |mut state| async move {
        let record = state.next().await?;
        let told = record.map(|record| event_line(state.run, &record));
        Some((told, state))
    }))
}

impl Follow {
    async fn next(&mut self) -> Option<Result<Recorded, RunError>> {
        if self.over {
            return None;
        }
        let record = loop {
            if self.ending {
                break self.cursor.next_known().await;
            }
            let Some(settled) = &mut self.settled else { break self.cursor.next().await };
            tokio::select! {
                biased;
                record = self.cursor.next() => break record,
                settled = settled => {
                    self.settled = None;
                    match settled {
                        // All records up to the settled state are readable by now.
                        Ok(_) => self.ending = true,
                        Err(error) => {
                            self.over = true;
                            return Some(Err(error));
                        }
                    }
                }
            }
        };
        if record.is_none() && !self.ending && !self.cursor.is_closed().unwrap_or(false) {
            // The system ended, not the run: a follower reconnects to the next process.
            self.over = true;
            return Some(Err(RunError::Restarting));
        }
        if self.until == Until::Now
            && record
                .as_ref()
                .is_some_and(|record| record.as_ref().is_ok_and(|record| record.seq >= self.last_now))
        {
            self.over = true;
        }
        self.over |= matches!(record, None | Some(Err(_)));
        record.map(|record| record.map_err(RunError::from))
    }
}
