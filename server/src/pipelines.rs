//! Pipelines, their events, and stages that are dealt with elsewhere.

use axum::Json;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use futures::{Stream, stream};
use ostler_actors::{
    EventCursor, Gap, PipelineError, PipelineEvent, PipelineHandle, PipelineRow, PublishError, StageRow,
};
use ostler_kernel::event::Event;
use ostler_kernel::json::{Json as Canonical, canonical};
use ostler_kernel::pipeline::{DeadLetter, PipelineSpec, PublishRefusal};
use ostler_kernel::port::{JournalError, Recorded};
use serde::Deserialize;
use serde_json::Value;

use crate::streaming::{last_event_id, respond};
use crate::extract::{JsonBody, PathParams, QueryParams};
use crate::problem::Problem;
use crate::routes::Api;
use crate::wire::{
    AckRequest, CatchUpRequest, EventRef, GapLine, StageEvents, DeadLetterLine, PipelineEventLine,
    PipelineLine, PipelineList, PublishRequest, StageLine,
};

/// Events that a stage which is dealt with elsewhere is told at once.
pub const STAGE_EVENTS_MAX: usize = 256;

/// Characters of a parked event that are told.
const EXCERPT_CHARS_MAX: usize = 200;

pub(crate) async fn list(State(api): State<Api>) -> Result<Json<PipelineList>, Problem> {
    let rows = api.system.pipelines().await?;
    let lines = rows.into_iter().map(|row| with_dead_letters(&api.system.pipeline(row.pipeline.as_str())?, row));
    Ok(Json(PipelineList { pipelines: lines.collect::<Result<_, Problem>>()? }))
}

pub(crate) async fn create(
    State(api): State<Api>,
    JsonBody(spec): JsonBody<PipelineSpec>,
) -> Result<Response, Problem> {
    let pipeline = api.system.create_pipeline(&spec).await?;
    Ok((StatusCode::CREATED, durable_line(&pipeline).await?).into_response())
}

pub(crate) async fn one(
    State(api): State<Api>,
    PathParams(id): PathParams<String>,
) -> Result<Json<PipelineLine>, Problem> {
    let pipeline = api.system.pipeline(&id)?;
    let line = with_dead_letters(&pipeline, pipeline.row())?;
    pipeline.durable().await?;
    Ok(Json(line))
}

/// How a pipeline stands, with what was parked, as far as that can still be read.
fn with_dead_letters(pipeline: &PipelineHandle, row: PipelineRow) -> Result<PipelineLine, Problem> {
    let mut line = line(row);
    for parked in line.stages.iter_mut().flat_map(|stage| &mut stage.parked).filter(|parked| parked.seq > 0) {
        match pipeline.event(parked.seq)? {
            Some(event) => {
                parked.kind = Some(event.kind.to_string());
                parked.excerpt = Some(excerpt(event.data.as_str()));
            }
            None => parked.gone = true,
        }
    }
    Ok(line)
}

fn excerpt(text: &str) -> String {
    match text.char_indices().nth(EXCERPT_CHARS_MAX) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

/// How a pipeline stands, durably.
async fn durable_line(pipeline: &PipelineHandle) -> Result<Json<PipelineLine>, Problem> {
    let row = pipeline.row();
    pipeline.durable().await?;
    Ok(Json(line(row)))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct EventsQuery {
    after: Option<u64>,
    until: Option<Until>,
}

/// How long the events go on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Until {
    /// To the one that is the last now.
    Now,
    /// As long as somebody listens.
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

/// Events as lines, up to `last`. A journal that fails ends them with an error.
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
        let told = match cursor.next().await {
            Some(told) => told.and_then(recorded),
            // Whoever follows it asks the next process.
            None => Err(JournalError::Refused("the system has ended".to_owned())),
        };
        let at = told.as_ref().map_or(u64::MAX, |line| line.seq);
        Some((told, (cursor, at)))
    })
}

fn recorded(record: Recorded) -> Result<PipelineEventLine, JournalError> {
    let Event::Published(event) = record.event else {
        let (place, what) = (format!("record {}", record.seq.0), "it is no event".to_owned());
        return Err(JournalError::Damaged { place, what });
    };
    Ok(PipelineEventLine {
        line_type: KIND.to_owned(),
        seq: record.seq.0,
        at_ms: record.at_ms,
        stage: event.stage.to_string(),
        kind: event.kind.to_string(),
        data: event.data.value(),
    })
}

/// What a line says that it is.
const KIND: &str = "pipeline_event";

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
        gap: heard.gap.map(gap),
        state: heard.state.map(|state| state.value()),
        events: heard.events.iter().map(event).collect(),
        upto: heard.upto,
        ended: heard.ended,
    }))
}

fn gap(gap: Gap) -> GapLine {
    GapLine { first: gap.first, last: gap.last }
}

fn event(event: &PipelineEvent) -> PipelineEventLine {
    PipelineEventLine {
        line_type: KIND.to_owned(),
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
) -> Result<Json<PipelineLine>, Problem> {
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
    durable_line(&pipeline).await
}

pub(crate) async fn catch_up(
    State(api): State<Api>,
    PathParams((id, stage)): PathParams<(String, String)>,
    JsonBody(request): JsonBody<CatchUpRequest>,
) -> Result<Json<PipelineLine>, Problem> {
    let CatchUpRequest { from, keep_state } = request;
    let after = from.checked_sub(1).ok_or_else(|| Problem::bad("from", "events are numbered from 1"))?;
    let pipeline = api.system.pipeline(&id)?;
    pipeline.catch_up(&stage, after, keep_state).await?;
    durable_line(&pipeline).await
}

pub(crate) async fn release(
    State(api): State<Api>,
    PathParams((id, stage)): PathParams<(String, String)>,
) -> Result<Json<PipelineLine>, Problem> {
    let pipeline = api.system.pipeline(&id)?;
    pipeline.release(&stage).await?;
    durable_line(&pipeline).await
}

pub(crate) async fn end(
    State(api): State<Api>,
    PathParams((id, stage)): PathParams<(String, String)>,
) -> Result<Json<PipelineLine>, Problem> {
    let pipeline = api.system.pipeline(&id)?;
    pipeline.end(&stage).await?;
    durable_line(&pipeline).await
}

fn line(row: PipelineRow) -> PipelineLine {
    PipelineLine {
        pipeline: row.pipeline.to_string(),
        head: row.head,
        oldest: row.oldest,
        bytes: row.bytes,
        keep: row.keep,
        stages: row.stages.into_iter().map(stage_line).collect(),
    }
}

fn stage_line(row: StageRow) -> StageLine {
    let names = |types: &[ostler_kernel::id::EventType]| types.iter().map(ToString::to_string).collect();
    let parked = row.parked.into_iter().map(|DeadLetter { seq, reason }| DeadLetterLine {
        seq,
        reason,
        kind: None,
        excerpt: None,
        gone: false,
    });
    StageLine {
        stage: row.stage.to_string(),
        publishes: names(&row.publishes),
        subscribes: names(&row.subscribes),
        state: row.state.to_owned(),
        reason: row.reason,
        cursor: row.cursor,
        lag: row.lag,
        missed: row.missed,
        gap: row.gap.map(gap),
        parked: parked.collect(),
        parked_total: row.parked_total,
    }
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
