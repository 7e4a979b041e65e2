//! The HTTP endpoint for Prometheus: `/metrics`, and `/healthz` and `/readyz`.
//!
//! Each system has a recorder of its own, so that systems in one process do not mix. Events are recorded as
//! they happen; gauges are computed for each response.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Json, Router};
use metrics_exporter_prometheus::{Matcher, PrometheusBuilder, PrometheusHandle, PrometheusRecorder};
use ostler_actors::metric::{self, Type};
use ostler_actors::{Measures, SharedRecorder, System};
use ostler_server::serve_tcp;
use ostler_store::JournalMetrics;
use serde_json::json;
use tokio::net::TcpListener;
use tokio::sync::Mutex;
use tokio::task::JoinHandle;
use tokio_util::sync::{CancellationToken, DropGuard};

/// Maximum age of a cached response: gauges of all clients and agents are costly.
const FRESH: Duration = Duration::from_secs(1);

/// Connections at once: see [`serve_tcp`].
const METRICS_CONNECTIONS_MAX: usize = 64;

const UPKEEP: Duration = Duration::from_secs(5);

const LAST_ANSWERS: Duration = Duration::from_secs(1);

const TEXT: &str = "text/plain; version=0.0.4; charset=utf-8";

/// A bound listener and a recorder, created before the system starts.
pub(crate) struct Meter {
    listener: TcpListener,
    address: SocketAddr,
    recorder: Arc<PrometheusRecorder>,
}

/// A serving endpoint; dropping it stops it.
pub(crate) struct Endpoint {
    address: SocketAddr,
    stop: DropGuard,
    served: JoinHandle<()>,
}

fn recorder() -> PrometheusRecorder {
    let mut builder = PrometheusBuilder::new();
    for metric in metric::ALL {
        if let Type::Histogram(bounds) = metric.kind {
            let matcher = Matcher::Full(metric.name.to_owned());
            builder = builder.set_buckets_for_metric(matcher, bounds).expect("every histogram has bounds");
        }
    }
    let recorder = builder.build_recorder();
    metric::ALL.iter().for_each(|metric| metric.describe(&recorder));
    recorder
}

impl Meter {
    pub(crate) async fn bind(address: SocketAddr) -> std::io::Result<Meter> {
        let listener = TcpListener::bind(address).await?;
        let address = listener.local_addr()?;
        Ok(Meter { listener, address, recorder: Arc::new(recorder()) })
    }

    /// Recorder handles for the system.
    pub(crate) fn measures(&self) -> Measures {
        Measures::recording(Arc::clone(&self.recorder) as _)
    }

    /// The recorder itself.
    pub(crate) fn recorder(&self) -> SharedRecorder {
        Arc::clone(&self.recorder) as _
    }

    /// Recorder handles for the journal.
    pub(crate) fn journal(&self) -> JournalMetrics {
        let recorder = &*self.recorder;
        JournalMetrics {
            append_seconds: metric::APPEND_SECONDS.histogram(recorder, []),
            records: metric::RECORDS.counter(recorder, []),
            fsyncs: metric::FSYNCS.counter(recorder, []),
            group_size: metric::GROUP_SIZE.histogram(recorder, []),
        }
    }

    pub(crate) fn serve(self, system: System) -> Endpoint {
        let Meter { listener, address, recorder } = self;
        let stop = CancellationToken::new();
        let recorded = recorder.handle();
        let page = Page { system, recorded: recorded.clone(), last: Mutex::default() };
        let router = Router::new()
            .route("/metrics", get(metrics))
            .route("/healthz", get(health))
            .route("/readyz", get(ready))
            .with_state(Arc::new(page));
        let serve = serve_tcp(listener, router, METRICS_CONNECTIONS_MAX, stop.clone());
        let served = tokio::spawn(async move {
            tokio::select! {
                () = serve => {}
                () = upkeep(recorded) => {}
            }
        });
        Endpoint { address, stop: stop.drop_guard(), served }
    }
}

impl Endpoint {
    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Stops after a grace period for open requests.
    pub(crate) async fn stop(self) {
        let Endpoint { stop, mut served, .. } = self;
        drop(stop);
        if tokio::time::timeout(LAST_ANSWERS, &mut served).await.is_err() {
            served.abort();
        }
    }
}

async fn upkeep(recorded: PrometheusHandle) {
    let mut interval = tokio::time::interval(UPKEEP);
    loop {
        interval.tick().await;
        recorded.run_upkeep();
    }
}

struct Page {
    system: System,
    recorded: PrometheusHandle,
    last: Mutex<Option<(Instant, String)>>,
}

async fn metrics(State(page): State<Arc<Page>>) -> Response {
    // Held while a response is made, so that concurrent scrapes share it.
    let mut last = page.last.lock().await;
    let fresh = last.take().filter(|(made, _)| made.elapsed() < FRESH);
    let (made, text) = match fresh {
        Some(fresh) => fresh,
        None => (Instant::now(), text(&page).await),
    };
    *last = Some((made, text.clone()));
    ([(header::CONTENT_TYPE, TEXT)], text).into_response()
}

async fn text(page: &Page) -> String {
    let standing = recorder();
    page.system.look(&standing).await;
    page.recorded.render() + &standing.handle().render()
}

async fn health() -> Response {
    Json(json!({"status": "ok"})).into_response()
}

async fn ready(State(page): State<Arc<Page>>) -> Response {
    let halted = page.system.halted().map(|why| ("halted", why));
    let full = || page.system.full().borrow().clone().map(|why| ("disk_full", why));
    match halted.or_else(full) {
        None => Json(json!({"status": "ready"})).into_response(),
        Some((status, why)) => {
            (StatusCode::SERVICE_UNAVAILABLE, Json(json!({"status": status, "why": why}))).into_response()
        }
    }
}
