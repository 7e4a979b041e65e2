//! Sends spans to a collector: OTLP over HTTP, as protobuf.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use opentelemetry::trace::{Link, SpanContext, SpanId, SpanKind, Status, TraceFlags, TraceId, TraceState};
use opentelemetry::{Array, InstrumentationScope, KeyValue, StringValue};
use opentelemetry_otlp::{Protocol, SpanExporter, WithExportConfig, WithHttpConfig};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::trace::{SpanData, SpanEvents, SpanExporter as _, SpanLinks};
use ostler_kernel::id::Ticks;
use tokio::sync::mpsc;
use tokio::time::{Instant, timeout, timeout_at};

use super::counts::Counts;
use super::span::{Place, Span, Value};

/// Spans that may wait for the collector; more are dropped.
pub(super) const SPANS_QUEUED_MAX: usize = 4_096;

/// Most spans of a request.
const BATCH_MAX: usize = 512;

/// Longest wait of a span for others to be sent with it.
const BATCH_WAIT: Duration = Duration::from_secs(1);

/// Most time of a request.
const EXPORT_TIMEOUT: Duration = Duration::from_secs(5);

/// An exporter to the endpoint; `https` reads the platform's certificates, which blocks. Headers come from the environment
/// variable `OTEL_EXPORTER_OTLP_HEADERS`, as in every program with OpenTelemetry.
pub(super) fn exporter(endpoint: &str) -> Result<SpanExporter, String> {
    let client = ostler_drivers::http_client(endpoint.starts_with("https:"))?;
    let builder = SpanExporter::builder()
        .with_http()
        .with_http_client(client)
        .with_protocol(Protocol::HttpBinary)
        .with_timeout(EXPORT_TIMEOUT)
        .with_endpoint(endpoint);
    let mut exporter = builder.build().map_err(|error| error.to_string())?;
    let version = KeyValue::new("service.version", env!("CARGO_PKG_VERSION"));
    let service = Resource::builder().with_attribute(version);
    let named = std::env::var_os("OTEL_SERVICE_NAME").is_some();
    let service = if named { service } else { service.with_service_name("ostler") };
    exporter.set_resource(&service.build());
    Ok(exporter)
}

/// Sends what comes until the queue is closed, and then the rest. A collector that does not answer costs its spans, and nothing else.
pub(super) async fn send(exporter: SpanExporter, mut spans: mpsc::Receiver<Span>, counts: Arc<Counts>) {
    let scope = InstrumentationScope::builder("ostler").with_version(env!("CARGO_PKG_VERSION")).build();
    let mut is_failing = false;
    while let Some(first) = spans.recv().await {
        let mut batch = vec![data(first, &scope)];
        let until = Instant::now() + BATCH_WAIT;
        while batch.len() < BATCH_MAX
            && let Ok(Some(span)) = timeout_at(until, spans.recv()).await
        {
            batch.push(data(span, &scope));
        }
        let sent = batch.len();
        let problem = match timeout(EXPORT_TIMEOUT, exporter.export(batch)).await {
            Ok(Ok(())) => None,
            Ok(Err(error)) => Some(error.to_string()),
            Err(_) => Some("no answer in time".to_owned()),
        };
        match problem {
            None => {
                counts.exported(sent);
                is_failing = false;
            }
            Some(problem) => {
                counts.failed(sent);
                // Once, until it works again.
                if !is_failing {
                    tracing::warn!(%problem, "the collector of [telemetry] takes no spans; they are dropped");
                }
                is_failing = true;
            }
        }
    }
}

fn data(span: Span, scope: &InstrumentationScope) -> SpanData {
    let Span { place, parent, link, name, is_client, start, end, attributes, error } = span;
    let mut links = SpanLinks::default();
    links.links.extend(link.map(|link| Link::new(context(link), Vec::new(), 0)));
    SpanData {
        span_context: context(place),
        parent_span_id: parent.map_or(SpanId::INVALID, SpanId::from_bytes),
        parent_span_is_remote: false,
        span_kind: if is_client { SpanKind::Client } else { SpanKind::Internal },
        name: name.into(),
        start_time: time(start),
        end_time: time(end),
        attributes: attributes.into_iter().map(|(name, value)| KeyValue::new(name, plain(value))).collect(),
        dropped_attributes_count: 0,
        events: SpanEvents::default(),
        links,
        status: error.map_or(Status::Unset, Status::error),
        instrumentation_scope: scope.clone(),
    }
}

fn plain(value: Value) -> opentelemetry::Value {
    match value {
        Value::Text(text) => text.into(),
        Value::Texts(texts) => {
            let texts = texts.into_iter().map(StringValue::from).collect();
            opentelemetry::Value::Array(Array::String(texts))
        }
        Value::Count(count) => i64::try_from(count).unwrap_or(i64::MAX).into(),
    }
}

fn context(Place { trace, span }: Place) -> SpanContext {
    let (trace, span) = (TraceId::from_bytes(trace), SpanId::from_bytes(span));
    SpanContext::new(trace, span, TraceFlags::SAMPLED, false, TraceState::default())
}

fn time(at: Ticks) -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_millis(u64::try_from(at).unwrap_or(0))
}
