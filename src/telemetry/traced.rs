//! A journal that notifies of its records, and the thread that makes spans of them.
//!
//! An append says only which stream has grown; the thread reads the records behind it once they are durable. So an append costs
//! nothing but a place in a queue, and an append that did not fit in the queue is caught up with by the next.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::thread::JoinHandle;

use ostler_kernel::id::RunId;
use ostler_kernel::port::{
    Journal, JournalError, JournalLayer, Position, Seq, StreamBatch, StreamId, StreamKind,
};

use tokio::runtime::Handle;

use super::counts::Counts;
use super::run_spans::RunSpans;
use super::span::Span;

/// Appends that may wait for the thread.
const NOTICES_MAX: usize = 8_192;

/// Runs whose state is kept; others are read again from their first record.
const RUNS_KEPT_MAX: usize = 1_024;

const READ_AT_ONCE: usize = 1_024;

/// An append to the stream of a run.
struct Appended {
    stream: StreamId,
    /// The last record before the append.
    after: Seq,
    /// The last record of the append. Later ones have a notice of their own, which finds the run over if they were read with this one.
    upto: Seq,
}

enum Notice {
    Appended(Appended),
    Stop,
}

/// The journal of a system, and the queue to the thread.
pub(super) struct Traced {
    journal: Arc<dyn Journal>,
    notices: SyncSender<Notice>,
    counts: Arc<Counts>,
}

/// Ends the thread.
pub(super) struct Reading {
    notices: SyncSender<Notice>,
    thread: JoinHandle<()>,
}

/// Starts the thread. `ended` gets each span and returns at once.
///
/// # Panics
///
/// No runtime of tokio is entered.
pub(super) fn trace(
    journal: Arc<dyn Journal>,
    has_contents: bool,
    counts: Arc<Counts>,
    ended: impl Fn(Span) + Send + 'static,
) -> std::io::Result<(Arc<dyn Journal>, Reading)> {
    let (notices, received) = sync_channel(NOTICES_MAX);
    let mut reader = Reader {
        journal: Arc::clone(&journal),
        runtime: Handle::current(),
        has_contents,
        runs: BTreeMap::new(),
        turn: 0,
    };
    let of_thread = Arc::clone(&counts);
    let thread = std::thread::Builder::new().name("ostler-spans".to_owned()).spawn(move || {
        reader.read(&received, &of_thread, &ended);
    })?;
    let reading = Reading { notices: notices.clone(), thread };
    Ok((Arc::new(Traced { journal, notices, counts }), reading))
}

impl Reading {
    /// Waits until the thread has handled the notices so far. Blocks.
    pub(super) fn stop(self) {
        if self.notices.send(Notice::Stop).is_ok() {
            let _ = self.thread.join(); // a panic was reported by its hook
        }
    }
}

impl Traced {
    fn notify(&self, appended: Vec<Appended>) {
        for appended in appended {
            if let Err(TrySendError::Full(_)) = self.notices.try_send(Notice::Appended(appended)) {
                self.counts.dropped(1);
            }
        }
    }
}

struct Reader {
    journal: Arc<dyn Journal>,
    runtime: Handle,
    has_contents: bool,
    runs: BTreeMap<RunId, Kept>,
    turn: u64,
}

struct Kept {
    spans: RunSpans,
    seen: Seq,
    turn: u64,
}

impl Reader {
    fn read(&mut self, received: &Receiver<Notice>, counts: &Counts, ended: &dyn Fn(Span)) {
        while let Ok(Notice::Appended(appended)) = received.recv() {
            self.turn += 1;
            let run = RunId(uuid_of(appended.stream));
            if let Err(problem) = self.catch_up(run, &appended, ended) {
                // Read again from the beginning with the next record.
                self.runs.remove(&run);
                counts.dropped(1);
                tracing::debug!(%run, %problem, "spans of a run were dropped");
            }
        }
    }

    /// Makes the spans that end behind the last record seen. Of a run that is not kept, those of earlier records were sent
    /// by the process that wrote them.
    fn catch_up(&mut self, run: RunId, appended: &Appended, ended: &dyn Fn(Span)) -> Result<(), String> {
        let turn = self.turn;
        let fresh = || Kept { spans: RunSpans::new(run, self.has_contents), seen: Seq(0), turn };
        let known = self.runs.contains_key(&run);
        let kept = self.runs.entry(run).or_insert_with(fresh);
        let silent = if known { Seq(0) } else { appended.after };
        kept.turn = turn;
        let mut is_over = false;
        loop {
            let wanted = appended.upto.0.saturating_sub(kept.seen.0).min(READ_AT_ONCE as u64) as usize;
            if wanted == 0 {
                break;
            }
            let records = self.journal.read(appended.stream, kept.seen, wanted);
            let records = records.map_err(|error| error.to_string())?;
            let Some(last) = records.last() else { break };
            let end = last.seq;
            let durable = self.runtime.block_on(self.journal.durable(last.position));
            durable.map_err(|error| error.to_string())?;
            for record in &records {
                let spans = kept.spans.record(record).map_err(|error| error.to_string())?;
                if record.seq > silent {
                    spans.into_iter().for_each(ended);
                }
                is_over |= matches!(record.event, ostler_kernel::event::Event::RunClosed { .. });
            }
            kept.seen = end;
        }
        if is_over {
            self.runs.remove(&run);
        } else if self.runs.len() > RUNS_KEPT_MAX {
            let oldest = self.runs.iter().min_by_key(|(_, kept)| kept.turn).map(|(run, _)| *run);
            oldest.map(|oldest| self.runs.remove(&oldest));
        }
        Ok(())
    }
}

fn uuid_of(stream: StreamId) -> uuid::Uuid {
    uuid::Uuid::from_bytes(stream.key)
}

impl JournalLayer for Traced {
    fn below(&self) -> &dyn Journal {
        &*self.journal
    }

    fn append(&self, batches: Vec<StreamBatch>) -> Result<Position, JournalError> {
        let of_runs = batches.iter().filter(|batch| batch.stream.kind == StreamKind::Run);
        let appended = of_runs
            .map(|batch| Appended {
                stream: batch.stream,
                after: batch.expected,
                upto: Seq(batch.expected.0 + batch.events.len() as u64),
            })
            .collect();
        let position = self.journal.append(batches)?;
        self.notify(appended);
        Ok(position)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use metrics_exporter_prometheus::PrometheusBuilder;
    use ostler_actors::SharedRecorder;
    use ostler_kernel::event::{Event, RunOpened};
    use ostler_kernel::id::ClientId;
    use ostler_kernel::json;
    use ostler_kernel::plan::{Plan, Policy};
    use ostler_kernel::run::RunOutcome;
    use ostler_store::MemoryJournal;

    use super::*;

    fn dropped(traced: impl Fn(Arc<Counts>)) -> bool {
        let recorder = Arc::new(PrometheusBuilder::new().build_recorder());
        let handle = recorder.handle();
        let shared: SharedRecorder = recorder;
        traced(Arc::new(Counts::new(Some(&shared))));
        handle.render().contains(r#"ostler_telemetry_spans_total{result="dropped"} 1"#)
    }

    fn batch(run: RunId, after: u64, event: Event) -> StreamBatch {
        let stream = StreamId::run(&ClientId::from("acme"), run);
        StreamBatch { stream, expected: Seq(after), at_ms: 7, events: vec![event] }
    }

    fn opened(run: RunId) -> Event {
        let draft = json::to_canonical(&empty_plan()).unwrap();
        Event::RunOpened(Box::new(RunOpened {
            run,
            client: "acme".into(),
            agent: "worker".into(),
            plan: draft,
            intent: 0,
            scope: "default".to_owned(),
            workspace: "/".to_owned(),
            policy_epoch: 1,
            seed: 1,
        }))
    }

    fn empty_plan() -> Plan {
        let plan = serde_json::json!({
            "id": "p", "version": 1, "nodes": [], "outputs": [], "outputs_declared": false, "policy": Policy::SIMULATION,
        });
        serde_json::from_value(plan).unwrap()
    }

    #[test]
    fn notices_beyond_the_queue_are_counted_and_stop_no_append() {
        let is_counted = dropped(|counts| {
            let (notices, _received) = sync_channel(1);
            let traced = Traced { journal: Arc::new(MemoryJournal::default()), notices, counts };
            for run in [1, 2].map(|id| RunId(uuid::Uuid::from_u128(id))) {
                Journal::append(&traced, vec![batch(run, 0, opened(run))]).unwrap();
            }
        });
        assert!(is_counted);
    }

    #[test]
    fn spans_of_an_earlier_process_are_not_sent_again() {
        let run = RunId(uuid::Uuid::from_u128(1));
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let journal = Arc::new(MemoryJournal::default());
        let append =
            |journal: &dyn Journal, after, event| journal.append(vec![batch(run, after, event)]).unwrap();
        append(&*journal, 0, opened(run));
        append(&*journal, 1, Event::RunClosed { outcome: RunOutcome::Succeeded });
        for (after, names) in [(1, vec!["invoke_agent worker"]), (2, vec![])] {
            let seen = Mutex::new(Vec::new());
            let stream = StreamId::run(&ClientId::from("acme"), run);
            let mut reader = Reader {
                journal: journal.clone(),
                runtime: runtime.handle().clone(),
                has_contents: false,
                runs: BTreeMap::new(),
                turn: 0,
            };
            let ended = |span: Span| seen.lock().unwrap().push(span.name);
            reader.catch_up(run, &Appended { stream, after: Seq(after), upto: Seq(2) }, &ended).unwrap();
            assert_eq!(seen.into_inner().unwrap(), names, "records up to {after} are of another process");
            assert!(reader.runs.is_empty(), "a run that is over is forgotten");
        }
    }
}
