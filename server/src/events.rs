//! Records as they are told, once, or as they come.

use futures::{Stream, stream};
use ostler_actors::{EventCursor, RunError, Settled, System};
use ostler_kernel::id::RunId;
use ostler_kernel::port::{BoxFuture, Recorded, Seq};

use crate::event_json::event_json;
use crate::wire::EventLine;

/// How long a stream goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Until {
    /// To the record that closes the run.
    Closed,
    /// To that, or until nothing goes on in the run.
    Settled,
    /// To the record that is the last one now.
    Now,
}

/// A record as a line.
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
    /// Nothing more is waited for: what is known is told, and that is all.
    ending: bool,
    over: bool,
    settled: Option<BoxFuture<'static, Result<Settled, RunError>>>,
}

/// The records after `after`, as lines. A journal that fails ends the stream with an error.
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
                        // What led here is known by now: nothing more is waited for.
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
            // The system ends, and not the run: whoever follows it asks the next process.
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
