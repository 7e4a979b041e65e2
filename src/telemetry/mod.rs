//! Traces for OpenTelemetry: what runs, models and tools do, as spans over OTLP.
//!
//! Spans are made from the records of the journal, in a thread of their own, so nothing in the system waits for them, and the
//! trace of a run goes on in another process: its ids follow from the id of the run.
//!
//! | file | content |
//! |---|---|
//! | `names` | names of operations and attributes |
//! | `span`, `run_spans` | spans, and how they follow from the records of a run |
//! | `traced` | the journal that notifies of its records, and the thread that reads them |
//! | `exporter` | the queue to the collector |
//! | `counts` | what became of the spans |

mod counts;
mod exporter;
mod names;
mod run_spans;
mod span;
mod traced;

use std::sync::Arc;
use std::time::Duration;

use ostler_actors::SharedRecorder;
use ostler_kernel::port::Journal;
use tokio::sync::mpsc;
use tokio::sync::mpsc::error::TrySendError;
use tokio::task::JoinHandle;

use counts::Counts;
use exporter::SPANS_QUEUED_MAX;
use traced::Reading;

use crate::config::Traces;

/// Longest wait for the collector when the system stops.
const LAST_SPANS: Duration = Duration::from_secs(3);

/// The traces of a system. Dropping it loses the spans that were not sent.
pub(crate) struct Telemetry {
    reading: Reading,
    sending: JoinHandle<()>,
}

impl Telemetry {
    /// Starts to trace what is appended to the journal that comes back. Sends nothing before the first span.
    ///
    /// # Errors
    ///
    /// The endpoint is no address, or the thread cannot be started.
    pub(crate) async fn start(
        traces: Traces,
        journal: Arc<dyn Journal>,
        recorder: Option<&SharedRecorder>,
    ) -> Result<(Arc<dyn Journal>, Telemetry), String> {
        let Traces { endpoint, contents } = traces;
        let exporter = tokio::task::spawn_blocking(move || exporter::exporter(&endpoint)).await;
        let exporter = exporter.map_err(|error| error.to_string())??;
        let counts = Arc::new(Counts::new(recorder));
        let (queue, spans) = mpsc::channel(SPANS_QUEUED_MAX);
        let of_queue = Arc::clone(&counts);
        let ended = move |span| {
            if let Err(TrySendError::Full(_)) = queue.try_send(span) {
                of_queue.dropped(1);
            }
        };
        let traced = traced::trace(journal, contents, Arc::clone(&counts), ended);
        let (journal, reading) = traced.map_err(|error| error.to_string())?;
        let sending = tokio::spawn(exporter::send(exporter, spans, counts));
        Ok((journal, Telemetry { reading, sending }))
    }

    /// Sends the spans of all records so far, as far as the collector takes them in a short time.
    pub(crate) async fn stop(self) {
        let Telemetry { reading, mut sending } = self;
        let rest = async {
            // The thread drops the queue, which ends the task behind the last span.
            let _ = tokio::task::spawn_blocking(|| reading.stop()).await;
            (&mut sending).await
        };
        if tokio::time::timeout(LAST_SPANS, rest).await.is_err() {
            sending.abort();
        }
    }
}
