//! Pipelines over the API: a stage that is dealt with elsewhere, all the way.
#![allow(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::http::{Request, StatusCode};
use axum::{Extension, Router};
use http_body_util::BodyExt;
use ostler_actors::{Measures, System, SystemConfig};
use ostler_kernel::gate::GatePolicy;
use ostler_server::{Operator, OperatorKeys, router};
use ostler_store::{MemoryArtifacts, MemoryJournal, MemoryOutput, WriteCounts};
use serde_json::{Value, json};
use tower::ServiceExt;

async fn api() -> Router {
    let config = SystemConfig {
        journal: Arc::new(MemoryJournal::default()),
        artifacts: Arc::new(MemoryArtifacts::default()),
        output: Arc::new(MemoryOutput::default()),
        writes: Arc::new(WriteCounts::default()),
        tools: Vec::new(),
        gate: GatePolicy::default(),
        slots: 1,
        run_slots: 1,
        drain: Duration::from_secs(1),
        clients: Vec::new(),
        models: Default::default(),
        measures: Measures::default(),
        evaluation: Default::default(),
        planner: Arc::new(ostler_kernel::run::StaticPlanner),
        diagnoser: Arc::new(ostler_kernel::run::RuleDiagnoser),
    };
    let router = router(System::start(config).await.unwrap(), OperatorKeys::in_memory());
    // These tests are the operator.
    router.layer(Extension(Operator { by: "ann".to_owned() }))
}

async fn text(api: &Router, request: Request<Body>) -> (StatusCode, String) {
    let response = api.clone().oneshot(request).await.unwrap();
    let status = response.status();
    let bytes = response.into_body().collect().await.unwrap().to_bytes();
    (status, String::from_utf8(bytes.to_vec()).unwrap())
}

async fn get(api: &Router, path: &str) -> (u16, Value) {
    let (status, text) = text(api, Request::get(path).body(Body::empty()).unwrap()).await;
    (status.as_u16(), serde_json::from_str(&text).unwrap())
}

async fn post(api: &Router, path: &str, body: Value) -> (u16, Value) {
    let request = Request::post(path).body(Body::from(body.to_string())).unwrap();
    let (status, text) = text(api, request).await;
    (status.as_u16(), serde_json::from_str(&text).unwrap())
}

/// Panics unless a request was refused with this code.
#[track_caller]
fn refused(answer: (u16, Value), status: u16, code: &str) {
    assert_eq!((answer.0, &answer.1["code"]), (status, &json!(code)), "{}", answer.1);
}

fn spec() -> Value {
    json!({"id": "p", "stages": [
        {"name": "a", "publishes": ["x", "unheard"]},
        {"name": "b", "subscribes": ["x"], "publishes": ["y"]},
    ]})
}

#[tokio::test]
async fn a_stage_is_dealt_with_over_the_api_from_its_first_event_to_its_end() {
    let api = api().await;
    let (status, made) = post(&api, "/v1/pipelines", spec()).await;
    assert_eq!((status, &made["head"]), (201, &json!(0)));
    for n in 1..=3 {
        let event = json!({"stage": "a", "kind": "x", "data": n});
        assert_eq!(
            post(&api, "/v1/pipelines/p/events", event).await,
            (201, json!({"pipeline": "p", "seq": n}))
        );
    }
    let (_, heard) = get(&api, "/v1/pipelines/p/stages/b/events?limit=2").await;
    assert_eq!((&heard["after"], &heard["upto"], &heard["ended"]), (&json!(0), &json!(2), &json!(false)));
    let data: Vec<&Value> = heard["events"].as_array().unwrap().iter().map(|event| &event["data"]).collect();
    assert_eq!(data, [&json!(1), &json!(2)]);
    let ack = json!({"after": 0, "upto": 2, "state": {"sum": 3}, "publish": [{"kind": "y", "data": 3}]});
    let (status, stands) = post(&api, "/v1/pipelines/p/stages/b/ack", ack.clone()).await;
    assert_eq!((status, &stands["stages"][1]["cursor"], &stands["head"]), (200, &json!(2), &json!(4)));
    refused(post(&api, "/v1/pipelines/p/stages/b/ack", ack).await, 409, "cursor_moved");
    let nothing = json!({"after": 2, "upto": 2, "publish": [{"kind": "y", "data": 3}]});
    refused(post(&api, "/v1/pipelines/p/stages/b/ack", nothing).await, 409, "nothing_acknowledged");
    refused(post(&api, "/v1/pipelines/p/stages/b/end", json!({})).await, 409, "stage_not_through");

    let (_, heard) = get(&api, "/v1/pipelines/p/stages/b/events").await;
    assert_eq!((&heard["state"], &heard["upto"]), (&json!({"sum": 3}), &json!(4)));
    assert_eq!(post(&api, "/v1/pipelines/p/stages/a/end", json!({})).await.0, 200);
    let rest = json!({"after": 2, "upto": 4});
    assert_eq!(post(&api, "/v1/pipelines/p/stages/b/ack", rest).await.0, 200);
    assert_eq!(get(&api, "/v1/pipelines/p/stages/b/events").await.1["ended"], true);
    let (_, stands) = post(&api, "/v1/pipelines/p/stages/b/end", json!({})).await;
    assert_eq!(stands["stages"][1]["state"], "ended");

    let (_, stands) =
        post(&api, "/v1/pipelines/p/stages/b/catch-up", json!({"from": 2, "keep_state": true})).await;
    assert_eq!((&stands["stages"][1]["lag"], &stands["stages"][1]["state"]), (&json!(2), &json!("external")));
    let (_, list) = get(&api, "/v1/pipelines").await;
    assert_eq!(list["pipelines"][0], stands);
    assert_eq!(get(&api, "/v1/pipelines/p").await.1, stands);
}

#[tokio::test]
async fn events_are_told_as_lines_and_as_server_sent_events_from_any_point() {
    let api = api().await;
    post(&api, "/v1/pipelines", spec()).await;
    for n in 1..=3 {
        post(&api, "/v1/pipelines/p/events", json!({"stage": "a", "kind": "x", "data": {"n": n}})).await;
    }
    let path = "/v1/pipelines/p/events?until=now&after=1";
    let lines = Request::get(path).header("accept", "application/x-ndjson").body(Body::empty()).unwrap();
    let (_, lines) = text(&api, lines).await;
    let seqs: Vec<Value> =
        lines.lines().map(|line| serde_json::from_str::<Value>(line).unwrap()["seq"].clone()).collect();
    assert_eq!(seqs, [2, 3]);
    let sent = Request::get("/v1/pipelines/p/events?until=now").header("last-event-id", "2");
    let (_, sent) = text(&api, sent.body(Body::empty()).unwrap()).await;
    assert!(sent.starts_with("id: 3\nevent: x\ndata: {"), "{sent}");
    refused(get(&api, "/v1/pipelines/p/events?after=9").await, 404, "event_unknown");
    refused(get(&api, &format!("/v1/pipelines/p/events?after={}", u64::MAX)).await, 404, "event_unknown");
    // One that goes on tells what comes later too.
    let request = Request::get("/v1/pipelines/p/events?after=3").body(Body::empty()).unwrap();
    let mut body = api.clone().oneshot(request).await.unwrap().into_body();
    post(&api, "/v1/pipelines/p/events", json!({"stage": "a", "kind": "x", "data": 4})).await;
    let frame = body.frame().await.unwrap().unwrap().into_data().unwrap();
    assert!(frame.starts_with(b"id: 4\n"), "{frame:?}");
}

#[tokio::test]
async fn what_is_asked_for_wrongly_has_a_code_and_changes_nothing() {
    let api = api().await;
    let mut wrong = spec();
    wrong["stages"][1]["subscribes"] = json!(["x", "z"]);
    wrong["stages"][1]["name"] = json!("a");
    let (status, problem) = post(&api, "/v1/pipelines", wrong).await;
    assert_eq!((status, &problem["code"]), (422, &json!("pipeline_invalid")));
    let codes: Vec<&Value> =
        problem["faults"].as_array().unwrap().iter().map(|fault| &fault["code"]).collect();
    assert_eq!(codes, ["duplicate_stage", "invalid_subscription"]);
    refused(get(&api, "/v1/pipelines/p").await, 404, "pipeline_unknown");
    refused(post(&api, "/v1/pipelines", json!({"id": "p"})).await, 400, "body");

    post(&api, "/v1/pipelines", spec()).await;
    let mut other = spec();
    other["keep"] = json!({"events": 5});
    refused(post(&api, "/v1/pipelines", other).await, 409, "pipeline_taken");
    let event = |stage: &str, kind: &str| json!({"stage": stage, "kind": kind, "data": null});
    refused(post(&api, "/v1/pipelines/p/events", event("a", "y")).await, 422, "unauthorized_publish");
    refused(post(&api, "/v1/pipelines/p/events", event("c", "y")).await, 404, "stage_unknown");
    let large = json!({"stage": "a", "kind": "x", "data": "x".repeat(300_000)});
    refused(post(&api, "/v1/pipelines/p/events", large).await, 413, "event_too_large");
    let much = vec![json!({"kind": "y", "data": "x".repeat(250_000)}); 17];
    let much = json!({"after": 0, "upto": 0, "publish": much});
    refused(post(&api, "/v1/pipelines/p/stages/b/ack", much).await, 413, "output_too_large");
    refused(get(&api, "/v1/pipelines/p/stages/a/events").await, 409, "stage_is_source");
    refused(post(&api, "/v1/pipelines/p/stages/b/release", json!({})).await, 409, "stage_not_stopped");
    refused(post(&api, "/v1/pipelines/p/stages/b/catch-up", json!({"from": 0})).await, 400, "from");
    refused(post(&api, "/v1/pipelines/p/stages/b/catch-up", json!({"from": 2})).await, 404, "event_unknown");
    refused(
        post(&api, "/v1/pipelines/p/stages/b/ack", json!({"after": 0, "upto": 1})).await,
        404,
        "event_unknown",
    );
    assert_eq!(get(&api, "/v1/pipelines/p").await.1["head"], 0);
}
