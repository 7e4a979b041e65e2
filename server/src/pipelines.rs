//! Handlers for pipelines, their events, and stages that another process consumes.

use axum::Json;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use futures::{Stream, stream};
use ostler_actors::{EventCursor, PipelineError, PipelineEvent, PipelineHandle, PublishError};
use ostler_kernel::event::Event;
use ostler_kernel::json::{Json as Canonical, canonical};
use ostler_kernel::pipeline::{PipelineSpec, PublishRefusal};
use ostler_kernel::port::{JournalError, Recorded};
use serde::Deserialize;
use serde_json::Value;

use crate::extract::{JsonBody, PathParams, QueryParams};
use crate::problem::Problem;
use crate::routes::Api;
use crate::streaming::{last_event_id, respond};
use crate::wire::{
    AckRequest, CatchUpRequest, EventRef, PipelineEventLine, PipelineList, PipelineRow, PublishRequest,
    StageEvents,
};

/// Largest number of events in one read of an external stage.
pub const STAGE_EVENTS_MAX: usize = 256;

pub(crate) async fn list(State(api): State<Api>) -> Result<Json<PipelineList>, Problem> {
    let mut pipelines = api.system.pipelines().await?;
    for row in &mut pipelines {
        match api.system.pipeline(row.pipeline.as_str()) {
            Ok(pipeline) => pipeline.read_dead_letters(row)?,
            // It was removed meanwhile.
            Err(PipelineError::Unknown(_)) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(Json(PipelineList { pipelines }))
}

pub(crate) async fn create(
    State(api): State<Api>,
    JsonBody(spec): JsonBody<PipelineSpec>,
) -> Result<Response, Problem> {
    let pipeline = api.system.create_pipeline(&spec).await?;
    Ok((StatusCode::CREATED, durable_row(&pipeline).await?).into_response())
}

pub(crate) async fn one(
    State(api): State<Api>,
    PathParams(id): PathParams<String>,
) -> Result<Json<PipelineRow>, Problem> {
    let pipeline = api.system.pipeline(&id)?;
    let mut row = pipeline.row();
    pipeline.read_dead_letters(&mut row)?;
    pipeline.durable().await?;
    Ok(Json(row))
}

/// Answers with the last state of the removed pipeline.
pub(crate) async fn remove(
    State(api): State<Api>,
    PathParams(id): PathParams<String>,
) -> Result<Json<PipelineRow>, Problem> {
    Ok(Json(api.system.remove_pipeline(&id).await?))
}

/// The state of a pipeline, durable on return.
async fn durable_row(pipeline: &PipelineHandle) -> Result<Json<PipelineRow>, Problem> {
    let row = pipeline.row();
    pipeline.durable().await?;
    Ok(Json(row))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct EventsQuery {
    after: Option<u64>,
    until: Option<Until>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Until {
    /// The last event at the time of the request.
    Now,
    /// None: the stream ends with its connection.
    Forever,
}

pub(crate) async fn events(
    State(api): State<Api>,
    PathParams(id): PathParams<String>,
    QueryParams(query): QueryParams<EventsQuery>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let pipeline = api.system.pipeline(&id)?;
    let row = pipeline.row();
    let after = query.after.or(last_event_id(&headers)?).unwrap_or(row.oldest - 1);
    let last = (query.until == Some(Until::Now)).then_some(row.head);
    let lines = follow(pipeline.events_after(after)?, after, last);
    Ok(respond(&headers, lines))
}

/// Streams events up to `last`. A journal error ends the stream.
fn follow(
    cursor: EventCursor,
    after: u64,
    last: Option<u64>,
) -> impl Stream<Item = Result<PipelineEventLine, JournalError>> + Send {
    let state = (cursor, after);
    stream::unfold(state, move |(mut cursor, at)| async move {
        if last.is_some_and(|last| at >= last) {
            return None;
        }
        let line = match cursor.next().await {
            Some(record) => record.and_then(recorded),
            // Clients reconnect to the next process.
            None => Err(JournalError::Refused("the system has ended".to_owned())),
        };
        let at = line.as_ref().map_or(u64::MAX, |line| line.seq);
        Some((line, (cursor, at)))
    })
}

fn recorded(record: Recorded) -> Result<PipelineEventLine, JournalError> {
    let Event::Published(event) = record.event else {
        let (place, what) = (format!("record {}", record.seq.0), "it is no event".to_owned());
        return Err(JournalError::Damaged { place, what });
    };
    Ok(PipelineEventLine {
        line_type: LINE_TYPE.to_owned(),
        seq: record.seq.0,
        at_ms: record.at_ms,
        stage: event.stage.to_string(),
        kind: event.kind.to_string(),
        data: event.data.value(),
    })
}

/// The `type` of a line.
const LINE_TYPE: &str = "pipeline_event";

pub(crate) async fn publish(
    State(api): State<Api>,
    PathParams(id): PathParams<String>,
    JsonBody(request): JsonBody<PublishRequest>,
) -> Result<Response, Problem> {
    let PublishRequest { stage, kind, data } = request;
    let pipeline = api.system.pipeline(&id)?;
    let publisher = pipeline.publisher(&stage)?;
    let seq = publisher.publish(&kind, &data).await.map_err(PipelineError::from)?;
    Ok((StatusCode::CREATED, Json(EventRef { pipeline: id, seq })).into_response())
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct StageEventsQuery {
    limit: Option<usize>,
}

pub(crate) async fn stage_events(
    State(api): State<Api>,
    PathParams((id, stage)): PathParams<(String, String)>,
    QueryParams(query): QueryParams<StageEventsQuery>,
) -> Result<Json<StageEvents>, Problem> {
    let limit = query.limit.unwrap_or(STAGE_EVENTS_MAX).clamp(1, STAGE_EVENTS_MAX);
    let heard = api.system.pipeline(&id)?.heard(&stage, limit).await?;
    Ok(Json(StageEvents {
        after: heard.after,
        gap: heard.gap,
        state: heard.state.map(|state| state.value()),
        events: heard.events.iter().map(event).collect(),
        upto: heard.upto,
        ended: heard.ended,
    }))
}

fn event(event: &PipelineEvent) -> PipelineEventLine {
    PipelineEventLine {
        line_type: LINE_TYPE.to_owned(),
        seq: event.seq,
        at_ms: event.at_ms,
        stage: event.stage.to_string(),
        kind: event.kind.to_string(),
        data: event.value(),
    }
}

pub(crate) async fn ack(
    State(api): State<Api>,
    PathParams((id, stage)): PathParams<(String, String)>,
    JsonBody(request): JsonBody<AckRequest>,
) -> Result<Json<PipelineRow>, Problem> {
    let AckRequest { after, upto, state, publish } = request;
    let written = |value: &Value| -> Result<Canonical, Problem> {
        canonical(value).map_err(|error| Problem::bad("body", error.to_string()))
    };
    let state = state.as_ref().map(written).transpose()?;
    let mut events = Vec::with_capacity(publish.len());
    for output in publish {
        events.push((output.kind, written(&output.data)?));
    }
    let pipeline = api.system.pipeline(&id)?;
    pipeline.ack(&stage, after, upto, state, events).await?;
    durable_row(&pipeline).await
}

pub(crate) async fn catch_up(
    State(api): State<Api>,
    PathParams((id, stage)): PathParams<(String, String)>,
    JsonBody(request): JsonBody<CatchUpRequest>,
) -> Result<Json<PipelineRow>, Problem> {
    let CatchUpRequest { from, keep_state } = request;
    let after = from.checked_sub(1).ok_or_else(|| Problem::bad("from", "events are numbered from 1"))?;
    let pipeline = api.system.pipeline(&id)?;
    pipeline.catch_up(&stage, after, keep_state).await?;
    durable_row(&pipeline).await
}

pub(crate) async fn release(
    State(api): State<Api>,
    PathParams((id, stage)): PathParams<(String, String)>,
) -> Result<Json<PipelineRow>, Problem> {
    let pipeline = api.system.pipeline(&id)?;
    pipeline.release(&stage).await?;
    durable_row(&pipeline).await
}

pub(crate) async fn end(
    State(api): State<Api>,
    PathParams((id, stage)): PathParams<(String, String)>,
) -> Result<Json<PipelineRow>, Problem> {
    let pipeline = api.system.pipeline(&id)?;
    pipeline.end(&stage).await?;
    durable_row(&pipeline).await
}

impl From<PipelineError> for Problem {
    fn from(error: PipelineError) -> Problem {
        let (status, code) = match &error {
            PipelineError::Spec(faults) => return Problem::pipeline(faults),
            PipelineError::Taken(_) => (StatusCode::CONFLICT, "pipeline_taken"),
            PipelineError::TooMany(_) => (StatusCode::UNPROCESSABLE_ENTITY, "too_many_pipelines"),
            PipelineError::Unknown(_) => (StatusCode::NOT_FOUND, "pipeline_unknown"),
            PipelineError::UnknownStage { .. } => (StatusCode::NOT_FOUND, "stage_unknown"),
            PipelineError::Source(_) => (StatusCode::CONFLICT, "stage_is_source"),
            PipelineError::Attached(_) => (StatusCode::CONFLICT, "stage_attached"),
            PipelineError::Beyond { .. } => (StatusCode::NOT_FOUND, "event_unknown"),
            PipelineError::Gone { .. } => (StatusCode::GONE, "event_gone"),
            PipelineError::Moved { .. } => (StatusCode::CONFLICT, "cursor_moved"),
            PipelineError::NotStopped(_) => (StatusCode::CONFLICT, "stage_not_stopped"),
            PipelineError::NothingAcknowledged { .. } => (StatusCode::CONFLICT, "nothing_acknowledged"),
            PipelineError::HasCode { .. } | PipelineError::HasEvents { .. } => {
                (StatusCode::CONFLICT, "pipeline_in_use")
            }
            PipelineError::NotThrough(_) => (StatusCode::CONFLICT, "stage_not_through"),
            PipelineError::Publish(refused) => match &**refused {
                PublishError::Refused(PublishRefusal::UnauthorizedPublish { .. }) => {
                    (StatusCode::UNPROCESSABLE_ENTITY, "unauthorized_publish")
                }
                PublishError::Refused(PublishRefusal::TooLarge { .. })
                | PublishError::StateTooLarge { .. } => (StatusCode::PAYLOAD_TOO_LARGE, "event_too_large"),
                PublishError::Refused(PublishRefusal::TooMuch { .. }) => {
                    (StatusCode::PAYLOAD_TOO_LARGE, "output_too_large")
                }
                PublishError::Refused(PublishRefusal::Ended(_)) => (StatusCode::CONFLICT, "stage_ended"),
                PublishError::Behind { .. } => (StatusCode::SERVICE_UNAVAILABLE, "stage_behind"),
                PublishError::Data(_) => (StatusCode::BAD_REQUEST, "body"),
                PublishError::TooLate => (StatusCode::CONFLICT, "stage_through"),
                PublishError::Journal(error) => return error.clone().into(),
            },
            PipelineError::Illegal { .. } => (StatusCode::INTERNAL_SERVER_ERROR, "journal_illegal"),
            PipelineError::Journal(error) => return error.clone().into(),
            PipelineError::Restarting => (StatusCode::SERVICE_UNAVAILABLE, "restarting"),
            PipelineError::Halted(_) => (StatusCode::SERVICE_UNAVAILABLE, "halted"),
        };
        Problem::new(status, code, error.to_string())
    }
}
