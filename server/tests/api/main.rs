//! The API over a system in memory.
#![allow(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

mod idempotency;
mod lists;

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::http::{Request, Response, StatusCode};
use axum::{Extension, Router};
use http_body_util::BodyExt;
use ostler_actors::{Measures, System, SystemConfig};
use ostler_drivers::tool::{ToolConfig, builtin};
use ostler_kernel::event::{Event, RunOpened};
use ostler_kernel::gate::{GatePolicy, Scope};
use ostler_kernel::id::RunId;
use ostler_kernel::port::{Journal, Seq, StreamBatch, StreamId};
use ostler_kernel::run::RunOutcome;
use ostler_server::{BODY_BYTES_MAX, BODY_DEPTH_MAX, Operator, OperatorKeys, RUNS_LISTED_MAX, router};
use ostler_store::disk::FaultyDisk;
use ostler_store::{MemoryArtifacts, MemoryJournal, MemoryOutput, Options, SegmentJournal, WriteCounts};
use serde_json::{Value, json};
use tower::ServiceExt;

async fn api() -> Router {
    api_over(MemoryJournal::default()).await
}

async fn api_over(journal: impl Journal) -> Router {
    let tools = builtin(&ToolConfig::default(), None);
    let scope = Scope { tools: tools.iter().map(|tool| (tool.spec().name.clone(), None)).collect() };
    let gate = GatePolicy {
        scopes: [("default".to_owned(), scope)].into(),
        ceiling: 2,
        epoch: 1,
        ..GatePolicy::default()
    };
    let config = SystemConfig {
        journal: Arc::new(journal),
        artifacts: Arc::new(MemoryArtifacts::default()),
        output: Arc::new(MemoryOutput::default()),
        writes: Arc::new(WriteCounts::default()),
        tools,
        gate,
        slots: 4,
        run_slots: 4,
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

async fn send(api: &Router, request: Request<Body>) -> Response<Body> {
    api.clone().oneshot(request).await.unwrap()
}

async fn text(response: Response<Body>) -> String {
    String::from_utf8(response.into_body().collect().await.unwrap().to_bytes().to_vec()).unwrap()
}

async fn value(response: Response<Body>) -> Value {
    serde_json::from_str(&text(response).await).unwrap()
}

fn get(path: &str) -> Request<Body> {
    Request::get(path).body(Body::empty()).unwrap()
}

fn post(path: &str, body: &Value) -> Request<Body> {
    Request::post(path).body(Body::from(body.to_string())).unwrap()
}

fn submission(name: &str) -> Value {
    let render = json!({"id": "say", "tool": "text.render", "params": {"template": "hi", "values": {}}});
    json!({"plan": {"id": name, "nodes": [render]}, "workspace": "/"})
}

async fn submit(api: &Router, name: &str) -> String {
    let response = send(api, post("/v1/runs", &submission(name))).await;
    assert_eq!(response.status(), StatusCode::CREATED);
    value(response).await["run"].as_str().unwrap().to_owned()
}

/// Waits for the end of a run, and gives its records.
async fn records(api: &Router, run: &str) -> Vec<Value> {
    let request = Request::get(format!("/v1/runs/{run}/events")).header("accept", "application/x-ndjson");
    let response = send(api, request.body(Body::empty()).unwrap()).await;
    assert_eq!(response.headers()["content-type"], "application/x-ndjson");
    text(response).await.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[track_caller]
fn check_problem(status: StatusCode, problem: &Value, expected: (u16, &str)) {
    assert_eq!((status.as_u16(), problem["code"].as_str()), (expected.0, Some(expected.1)), "{problem}");
    assert_eq!(problem["status"], expected.0);
    assert!(!problem["detail"].as_str().unwrap().is_empty());
}

async fn refused(api: &Router, request: Request<Body>, expected: (u16, &str)) -> Value {
    let response = send(api, request).await;
    let status = response.status();
    assert_eq!(response.headers()["content-type"], "application/problem+json", "{expected:?}");
    let problem = value(response).await;
    check_problem(status, &problem, expected);
    problem
}

#[tokio::test]
async fn a_run_is_opened_followed_and_told() {
    let api = api().await;
    let run = submit(&api, "hello").await;
    let told = records(&api, &run).await;
    let numbers: Vec<u64> = told.iter().map(|line| line["seq"].as_u64().unwrap()).collect();
    assert_eq!(numbers, (1..=told.len() as u64).collect::<Vec<_>>());
    assert_eq!(told.last().unwrap()["body"], json!({"outcome": "succeeded"}));
    let summary = value(send(&api, get(&format!("/v1/runs/{run}"))).await).await;
    assert_eq!((&summary["outcome"], &summary["nodes"]), (&json!("succeeded"), &json!({"say": "executed"})));
    let graph = value(send(&api, get(&format!("/v1/runs/{run}/graph"))).await).await;
    assert_eq!(graph["nodes"][0]["artifact"], summary["outputs"]["say"]);
    let artifact = send(&api, get("/v1/runs/@last/nodes/say/artifact")).await;
    assert_eq!(artifact.headers()["content-type"], "application/json");
    assert_eq!(artifact.headers()["etag"], format!("{}", summary["outputs"]["say"]));
    assert_eq!(text(artifact).await, r#"{"text":"hi"}"#);
    let results = value(send(&api, get("/v1/runs/@last/results")).await).await;
    assert_eq!(results, json!({"read": 1, "bytes": r#"{"text":"hi"}"#.len(), "damaged": []}));
    assert_eq!(value(send(&api, get("/healthz")).await).await["status"], "ok");
    assert!(value(send(&api, get("/v1/agents")).await).await["agents"].is_array());
}

#[tokio::test]
async fn server_sent_events_go_on_after_the_last_id() {
    let api = api().await;
    let run = submit(&api, "hello").await;
    let told = records(&api, &run).await;
    let request = Request::get(format!("/v1/runs/{run}/events")).header("last-event-id", "2");
    let response = send(&api, request.body(Body::empty()).unwrap()).await;
    assert_eq!(response.headers()["content-type"], "text/event-stream");
    let body = text(response).await;
    let ids: Vec<u64> =
        body.lines().filter_map(|line| line.strip_prefix("id: ")).map(|id| id.parse().unwrap()).collect();
    assert_eq!(ids, (3..=told.len() as u64).collect::<Vec<_>>(), "{body}");
    let data: Vec<Value> = body
        .lines()
        .filter_map(|line| line.strip_prefix("data: "))
        .map(|data| serde_json::from_str(data).unwrap())
        .collect();
    assert_eq!(data, told[2..]);
}

#[tokio::test]
async fn a_stream_after_the_end_of_a_run_ends() {
    let api = api().await;
    let run = submit(&api, "hello").await;
    let last = records(&api, &run).await.len();
    for until in ["closed", "settled", "now"] {
        let path = format!("/v1/runs/{run}/events?after={last}&until={until}");
        let ended =
            tokio::time::timeout(Duration::from_secs(60), async { text(send(&api, get(&path)).await).await });
        assert_eq!(ended.await.expect(until), "", "{until}");
    }
}

#[tokio::test]
async fn the_table_of_runs_comes_in_pages_newest_first() {
    let api = api().await;
    let mut runs = Vec::new();
    for at in 0..5 {
        runs.push(submit(&api, &format!("p{at}")).await);
    }
    runs.reverse();
    let mut seen = Vec::new();
    let mut path = "/v1/runs?limit=2".to_owned();
    loop {
        let list = value(send(&api, get(&path)).await).await;
        let page = list["runs"].as_array().unwrap();
        assert!(page.len() <= 2);
        seen.extend(page.iter().map(|line| line["run"].as_str().unwrap().to_owned()));
        let Some(next) = list["next"].as_str() else { break };
        path = format!("/v1/runs?limit=2&after={next}");
    }
    assert_eq!(seen, runs);
}

#[tokio::test]
async fn what_is_wrong_is_a_problem_with_a_code() {
    let api = api().await;
    let run = submit(&api, "hello").await;
    records(&api, &run).await;
    for (request, expected) in [
        (get("/v1/nothing"), (404, "path_unknown")),
        (Request::delete("/v1/runs").body(Body::empty()).unwrap(), (405, "method_unknown")),
        (get("/v1/runs/0198f3c2-0000-7000-8000-000000000001"), (404, "run_unknown")),
        (get("/v1/runs/ffffffff"), (404, "run_unknown")),
        (get("/v1/runs/abc"), (400, "run_name")),
        (get("/v1/runs/@last?at=0"), (400, "at")),
        (get("/v1/runs/@last?att=1"), (400, "query")),
        (get("/v1/runs?after=x"), (400, "cursor")),
        (get("/v1/runs/@last/nodes/nope/artifact"), (404, "node_unknown")),
        (post("/v1/runs/@last/cancel", &Value::Null), (409, "invalid_state")),
        (post("/v1/runs/@last/resume", &Value::Null), (409, "invalid_state")),
        (post("/v1/runs/@last/resolve", &json!({"node": "say", "how": "done"})), (400, "resolve")),
        (
            post("/v1/runs/@last/resolve", &json!({"node": "say", "how": "redo", "value": 1})),
            (400, "resolve"),
        ),
        (post("/v1/runs/@last/resolve", &json!({"node": "say", "how": "redo"})), (409, "invalid_state")),
        (
            post("/v1/runs/@last/resolve", &json!({"node": "say", "attempt": 1, "how": "redo"})),
            (409, "invalid_state"),
        ),
        (post("/v1/runs", &json!({"plan": 1})), (400, "body")),
        (
            post("/v1/runs", &json!({"plan": {"id": "p", "nodes": [], "x": 1}, "workspace": "/"})),
            (400, "body"),
        ),
        (
            post("/v1/runs", &json!({"plan": {"id": "p", "nodes": []}, "workspace": "/"})),
            (422, "plan_invalid"),
        ),
    ] {
        refused(&api, request, expected).await;
    }
    let with = |key: &str, value: Value| {
        let mut body = submission("p");
        body[key] = value;
        post("/v1/runs", &body)
    };
    refused(&api, with("workspace", json!("relative")), (422, "workspace_unusable")).await;
    refused(&api, with("workspace", json!("/nowhere/at/all")), (422, "workspace_unusable")).await;
    refused(&api, with("intent", json!(3)), (422, "intent_out_of_range")).await;
    refused(&api, with("fresh", json!(["*"])), (422, "fresh")).await;
    refused(&api, with("client", json!("a b")), (400, "client_name")).await;
    let faults = refused(
        &api,
        post(
            "/v1/runs",
            &json!({"plan": {"id": "p", "nodes": [{"id": "a", "tool": "nope"}]}, "workspace": "/"}),
        ),
        (422, "plan_invalid"),
    )
    .await;
    assert!(faults["faults"].as_array().unwrap().iter().any(|fault| fault["code"] == "V20"), "{faults}");
}

#[tokio::test]
async fn whatever_a_path_or_a_method_is_it_is_a_problem_that_is_told() {
    let api = api().await;
    for path in [
        "/v1/runs/%ff",
        "/v1/runs/%ff/events",
        "/v1/runs/x/nodes/%ff/artifact",
        "/v1/approvals/%ff",
        "/v1/evaluations?like=%ff&%ff",
        "/v1/market/%ff",
        "/v1/clients/%ff",
        "/v1/pipelines/%ff",
        "/v1/pipelines/p/stages/%ff/events",
    ] {
        let code = if path.contains('?') { "query" } else { "path" };
        refused(&api, get(path), (400, code)).await;
    }
    for path in ["/v1/runs/%ff/cancel", "/v1/agents/%ff/release", "/v1/pipelines/p/stages/%ff/ack"] {
        refused(&api, post(path, &json!({})), (400, "path")).await;
    }
    for path in ["/", "/v1", "/v1/runs/", "/v1/%ff", "/%ff", "/v2/runs", "//v1/runs"] {
        refused(&api, get(path), (404, "path_unknown")).await;
    }
    for (method, path) in
        [("DELETE", "/v1/runs"), ("PUT", "/healthz"), ("POST", "/v1/runs/%ff"), ("QUERY", "/v1/audit")]
    {
        let request = Request::builder().method(method).uri(path).body(Body::empty()).unwrap();
        refused(&api, request, (405, "method_unknown")).await;
    }
}

#[tokio::test]
async fn bodies_have_a_size_and_a_depth() {
    let api = api().await;
    let run = submit(&api, "hello").await;
    for path in [
        "runs",
        &format!("runs/{run}/evaluation"),
        &format!("runs/{run}/resolve"),
        &format!("approvals/{run}:n:1"),
        "agents",
        "agents/worker/offer",
        "market",
        "clients/acme",
        "pipelines",
        "pipelines/p/events",
        "pipelines/p/stages/s/ack",
        "pipelines/p/stages/s/catch-up",
    ] {
        let large = Request::post(format!("/v1/{path}")).body(Body::from(vec![b' '; BODY_BYTES_MAX + 1]));
        let problem = refused(&api, large.unwrap(), (413, "body_too_large")).await;
        assert!(problem["detail"].as_str().unwrap().contains("more than 5242880 bytes"), "{path}: {problem}");
    }
    refused(&api, post("/v1/runs/@last/resume?what=1", &json!({})), (400, "query")).await;
    let deep = |levels: usize| {
        let mut body = submission("p");
        let mut value = json!(1);
        for _ in 0..levels {
            value = json!([value]);
        }
        body["plan"]["nodes"][0]["params"]["values"] = json!({"x": value});
        body
    };
    // The body, plan, nodes, node, params and values are six levels.
    let fits = send(&api, post("/v1/runs", &deep(BODY_DEPTH_MAX - 6))).await;
    assert_eq!(fits.status(), StatusCode::CREATED, "{}", text(fits).await);
    let problem = refused(&api, post("/v1/runs", &deep(BODY_DEPTH_MAX - 6 + 1)), (400, "body")).await;
    assert!(problem["detail"].as_str().unwrap().contains("deep"), "{problem}");
}

#[tokio::test]
async fn a_submission_that_is_repeated_with_its_id_must_say_the_same() {
    let api = api().await;
    let named = |extra: &Value| {
        let mut body = submission("p");
        body["run"] = json!("0198f3c2-0000-7000-8000-00000000000a");
        body.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
        post("/v1/runs", &body)
    };
    for same in [json!({}), json!({}), json!({"intent": 1, "workspace": "/tmp/.."})] {
        assert_eq!(send(&api, named(&same)).await.status(), StatusCode::CREATED, "{same}");
    }
    for (other, differs) in [
        (json!({"intent": 2}), "intent"),
        (json!({"workspace": "/tmp"}), "workspace"),
        (json!({"client": "c", "intent": 0}), "client, intent"),
        (json!({"plan": submission("q")["plan"]}), "plan"),
    ] {
        let problem = refused(&api, named(&other), (409, "run_taken")).await;
        let told = problem["detail"].as_str().unwrap();
        assert!(told.contains(&format!("with another {differs}:")), "{told}");
    }
}

#[tokio::test]
async fn questions_are_listed_and_answered_once_for_what_they_show() {
    let api = api().await;
    let plan = json!({"id": "p", "nodes": [
        {"id": "draft", "tool": "text.render", "params": {"template": "a", "values": {}},
         "approval": "after", "human_timeout": "1h"},
        {"id": "ok", "kind": "human_approval", "params": {"question": "?"}, "human_timeout": "1h"},
        {"id": "nap", "tool": "time.sleep", "params": {"ms": 50_000}},
    ]});
    let run = value(send(&api, post("/v1/runs", &json!({"plan": plan, "workspace": "/"}))).await).await;
    let run = run["run"].as_str().unwrap();
    let begun = std::time::Instant::now();
    let listed = loop {
        let listed = value(send(&api, get(&format!("/v1/approvals?run={run}&limit=1"))).await).await;
        if listed["next"].is_string() {
            break listed;
        }
        assert!(begun.elapsed().as_secs() < 60, "{listed}");
        tokio::task::yield_now().await;
    };
    let draft = &listed["approvals"][0];
    assert_eq!((&draft["node"], &draft["result"]), (&json!("draft"), &json!({"text": "a"})));
    let after = listed["next"].as_str().unwrap();
    let rest = value(send(&api, get(&format!("/v1/approvals?after={after}"))).await).await;
    assert_eq!((&rest["approvals"][0]["node"], &rest["next"]), (&json!("ok"), &Value::Null));
    let ok = &rest["approvals"][0];
    let path = |question: &Value| format!("/v1/approvals/{}", question["id"].as_str().unwrap());
    let says = |decision: &str, digest: &Value| json!({"decision": decision, "digest": digest, "note": "n"});
    let mut refusing_and_granting = says("reject", &draft["digest"]);
    refusing_and_granting["also"] = json!({"pattern": "touch *", "valid_ms": 1_000});
    let unknown = "0198f3c2-0000-7000-8000-000000000001:ok:1";
    let later = path(ok).replace(":ok:1", ":ok:2");
    let nap = path(ok).replace(":ok:1", ":nap:1");
    for (at, body, expected) in [
        (path(draft), says("approve", &ok["digest"]), (409, "other_digest")),
        (path(draft), says("approve", &json!("b3:12")), (400, "digest")),
        (path(draft), says("maybe", &draft["digest"]), (400, "body")),
        (path(draft), json!({"decision": "approve"}), (400, "body")),
        (path(draft), refusing_and_granting, (400, "also")),
        (later, says("approve", &ok["digest"]), (409, "not_asked")),
        (nap, says("approve", &ok["digest"]), (409, "not_asked")),
        (format!("/v1/approvals/{unknown}"), says("approve", &ok["digest"]), (404, "run_unknown")),
        ("/v1/approvals/x".to_owned(), says("approve", &ok["digest"]), (400, "approval_name")),
    ] {
        refused(&api, post(&at, &body), expected).await;
    }
    let long = json!({"decision": "approve", "digest": ok["digest"], "note": "x".repeat(4_097)});
    refused(&api, post(&path(ok), &long), (422, "answer_unwritable")).await;
    assert_eq!(send(&api, post(&path(draft), &says("approve", &draft["digest"]))).await.status(), 200);
    refused(&api, post(&path(draft), &says("reject", &draft["digest"])), (409, "already_answered")).await;
    refused(&api, get(&path(draft)), (404, "approval_unknown")).await;
    assert_eq!(value(send(&api, get(&path(ok))).await).await["digest"], ok["digest"]);
    let interject = |text: &str, wait_ms: u64| {
        post(&format!("/v1/runs/{run}/interject"), &json!({"text": text, "wait_ms": wait_ms}))
    };
    refused(&api, interject("go on?", 0), (400, "body")).await;
    refused(&api, interject(" ", 1), (422, "answer_unwritable")).await;
    refused(&api, interject(&"x".repeat(4_097), 1), (422, "answer_unwritable")).await;
    let stop = |node: &str, how: &str| post(&format!("/v1/runs/{run}/nodes/{node}/{how}"), &Value::Null);
    refused(&api, stop("draft", "skip"), (409, "node_over")).await;
    refused(&api, stop("nobody", "cancel"), (404, "node_unknown")).await;
    assert_eq!(send(&api, stop("nap", "cancel")).await.status(), 200);
    assert_eq!(send(&api, stop("ok", "skip")).await.status(), 200);
    let told = records(&api, run).await;
    assert_eq!(told.last().unwrap()["body"], json!({"outcome": "failed"}));
    for (question, decision) in [(ok, "approve"), (draft, "approve"), (draft, "reject")] {
        let says = says(decision, &question["digest"]);
        let problem = refused(&api, post(&path(question), &says), (409, "invalid_state")).await;
        assert_eq!((&problem["current"], &problem["expected"]), (&json!("failed"), &json!(["waiting"])));
    }
    refused(&api, stop("ok", "skip"), (409, "invalid_state")).await;
}

fn closed(run: RunId) -> StreamBatch {
    let (client, agent) = ("local".into(), "a".into());
    let stream = StreamId::run(&client, run);
    let plan = ostler_kernel::json::canonical(&json!({"id": "p"})).unwrap();
    let opened = RunOpened {
        run,
        client,
        agent,
        plan,
        intent: 1,
        scope: "default".to_owned(),
        workspace: "/".to_owned(),
        policy_epoch: 1,
        seed: 1,
    };
    let events = vec![Event::RunOpened(opened.into()), Event::RunClosed { outcome: RunOutcome::Succeeded }];
    StreamBatch { stream, expected: Seq(0), at_ms: 1, events }
}

#[tokio::test]
async fn a_page_of_the_table_of_runs_is_no_longer_than_the_limit() {
    let journal = MemoryJournal::default();
    for number in 0..=RUNS_LISTED_MAX as u128 {
        journal.append(vec![closed(format!("{number:032x}").parse().unwrap())]).unwrap();
    }
    let api = api_over(journal).await;
    let more = RUNS_LISTED_MAX + 1;
    for path in ["/v1/runs".to_owned(), format!("/v1/runs?limit={more}")] {
        let page = value(send(&api, get(&path)).await).await;
        assert_eq!(page["runs"].as_array().unwrap().len(), RUNS_LISTED_MAX, "{path}");
        let next = page["next"].as_str().unwrap();
        let rest = value(send(&api, get(&format!("/v1/runs?after={next}"))).await).await;
        assert_eq!((rest["runs"].as_array().unwrap().len(), &rest["next"]), (1, &Value::Null), "{path}");
    }
}

#[tokio::test]
async fn the_tree_of_supervision_is_told() {
    let tree = value(send(&api().await, get("/v1/tree")).await).await;
    let child = |name: &str, kind: &str| json!({"name": name, "kind": kind, "state": "running", "generation": 1, "restarts": 0});
    let children = [
        child("registry", "worker"),
        child("evaluator", "worker"),
        child("scheduler", "worker"),
        child("pipelines", "worker"),
        child("pool", "pool"),
    ];
    assert_eq!(tree, json!({"children": children}));
}

#[tokio::test]
async fn a_quarantined_agent_is_told_with_its_reason_and_released() {
    let journal = MemoryJournal::default();
    let stream = StreamId::client(&"acme".into());
    let events = vec![
        Event::AgentRegistered { agent: "ill".into(), client: "acme".into(), weight: 100 },
        Event::AgentQuarantined { agent: "ill".into(), reason: "it failed too often".into() },
    ];
    journal.append(vec![StreamBatch { stream, expected: Seq(0), at_ms: 1, events }]).unwrap();
    let api = api_over(journal).await;
    let agents = value(send(&api, get("/v1/agents")).await).await;
    let agent = &agents["agents"][0];
    assert_eq!((&agent["state"], &agent["reason"]), (&json!("quarantined"), &json!("it failed too often")));

    let release = || post("/v1/agents/ill/release", &json!({}));
    let released = send(&api, release()).await;
    assert_eq!(value(released).await, json!({"agent": "ill"}));
    refused(&api, release(), (409, "agent_in_service")).await;
    refused(&api, post("/v1/agents/nobody/release", &json!({})), (404, "agent_unknown")).await;
    let agents = value(send(&api, get("/v1/agents")).await).await;
    assert_eq!((&agents["agents"][0]["state"], agents["agents"][0].get("reason")), (&json!("idle"), None));
}

#[tokio::test]
async fn a_run_is_judged_and_its_agent_told() {
    let api = api().await;
    let run = submit(&api, "hello").await;
    records(&api, &run).await;
    let path = format!("/v1/runs/{run}/evaluation");
    let told = value(send(&api, get(&path)).await).await;
    assert_eq!((&told["domain"], &told["scores"]["speed"]), (&json!("default"), &json!(1_000)));
    assert_eq!(told["weights"]["quality"], 250);
    assert!(told["scores"].get("quality").is_none(), "{told}");
    let verdict = json!({"quality_pm": 500, "by": "ann", "note": "so so"});
    let judged = value(send(&api, post(&path, &verdict)).await).await;
    assert_eq!(judged["scores"]["quality"], 500);
    assert_eq!(judged["verdicts"][0]["by"], "ann");
    assert!(judged["composite_micro"].as_u64() < told["composite_micro"].as_u64());
    for (body, expected) in [
        (json!({"by": "ann"}), (400, "verdict_empty")),
        (json!({"quality_pm": 1_001, "by": "ann"}), (422, "score_out_of_range")),
        (json!({"quality_pm": 1, "by": ""}), (422, "answer_unwritable")),
        (json!({"quality_pm": -1, "by": "ann"}), (400, "body")),
        (json!({"quality_pm": 1}), (400, "body")),
    ] {
        refused(&api, post(&path, &body), expected).await;
    }
    refused(&api, get("/v1/evaluations?like=nobody"), (404, "agent_unknown")).await;
    send(&api, post("/v1/agents", &json!({"agent": "idle"}))).await;
    refused(&api, get("/v1/evaluations?like=idle"), (409, "agent_not_evaluated")).await;
    let agents = value(send(&api, get("/v1/evaluations")).await).await;
    assert_eq!((&agents["agents"][0]["runs"], &agents["agents"][0]["client"]), (&json!(1), &json!("local")));
}

#[tokio::test]
async fn a_job_is_posted_and_followed_to_its_end() {
    let api = api().await;
    let offer = json!({"capabilities": ["greeting"], "price": 10});
    let problem = refused(&api, post("/v1/agents/greeter/offer", &offer), (404, "agent_unknown")).await;
    assert!(problem["detail"].as_str().unwrap().contains("`ostler spawn greeter` makes it"), "{problem}");
    assert_eq!(value(send(&api, get("/v1/agents")).await).await, json!({"agents": []}), "nothing is made");
    send(&api, post("/v1/agents", &json!({"agent": "greeter", "client": "acme"}))).await;
    let offered = value(send(&api, post("/v1/agents/greeter/offer", &offer)).await).await;
    assert_eq!((&offered["agent"], &offered["price"]), (&json!("greeter"), &json!(10)));
    assert_eq!(offered["client"], "acme");
    let mut job = submission("hello");
    job["title"] = json!("greet");
    job["client"] = json!("acme");
    job["capabilities"] = json!(["greeting"]);
    job["budget"] = json!(50);
    let response = send(&api, post("/v1/market", &job)).await;
    assert_eq!(response.status(), StatusCode::CREATED);
    let id = value(response).await["job"].as_str().unwrap().to_owned();
    let over = value(send(&api, get(&format!("/v1/market/{id}?at=evaluation"))).await).await;
    assert_eq!((&over["stage"], &over["winner"]), (&json!("evaluation"), &json!("greeter")));
    assert_eq!((&over["proposals"][0]["score"], &over["outcome"]), (&json!(6_200), &json!("succeeded")));
    assert_eq!(value(send(&api, get("/v1/market")).await).await["jobs"].as_array().unwrap().len(), 1);
    assert_eq!(
        value(send(&api, get("/v1/audit")).await).await,
        json!({"calls": [], "clients": []}),
        "nobody is metered"
    );
    let changed = |key: &str, value: Value| {
        let mut changed = job.clone();
        changed[key] = value;
        changed
    };
    for (body, expected) in [
        (changed("budget", json!(0)), (422, "job_invalid")),
        (changed("title", json!("")), (422, "job_invalid")),
        (changed("deadline_ms", json!(1)), (422, "job_invalid")),
        (changed("domain", json!("cooking")), (422, "domain_unknown")),
        (changed("plan", json!({"id": "p", "nodes": []})), (422, "plan_invalid")),
        (changed("workspace", json!("here")), (422, "workspace_unusable")),
        (changed("oversight", json!("lax")), (400, "body")),
        (changed("job", json!("x")), (400, "job_name")),
    ] {
        refused(&api, post("/v1/market", &body), expected).await;
    }
    let mut another = changed("job", json!(id));
    another["title"] = json!("greet again");
    refused(&api, post("/v1/market", &another), (409, "job_taken")).await;
    let again = value(send(&api, post("/v1/market", &changed("job", json!(id)))).await).await;
    assert_eq!(again["stage"], "evaluation", "posted once more, it is the same job");
    let unknown = "01a203e4-dde0-7695-bfe0-3f44d789f3e4";
    refused(&api, get(&format!("/v1/market/{unknown}")), (404, "job_unknown")).await;
    refused(&api, post(&format!("/v1/market/{unknown}/resume"), &Value::Null), (404, "job_unknown")).await;
    refused(&api, post("/v1/agents/a%20b/offer", &json!({})), (404, "agent_unknown")).await;
    let others = json!({"client": "other"});
    refused(&api, post("/v1/agents/greeter/offer", &others), (409, "agent_taken")).await;
    let cooking = json!({"agent": "cook", "profile": {"domain": "cooking"}});
    refused(&api, post("/v1/agents", &cooking), (422, "domain_unknown")).await;
    let odd = json!({"client": "acme", "capabilities": ["a b"]});
    refused(&api, post("/v1/agents/greeter/offer", &odd), (422, "offer_invalid")).await;
}

/// The newest is the one that was opened last, whatever its id; what an attempt opens is nobody's last.
#[tokio::test]
async fn the_last_run_is_the_one_that_was_opened_last() {
    let journal = MemoryJournal::default();
    let ids = [
        ("ffffffff-0000-7000-8000-000000000001", 1),
        ("00000000-0000-7000-8000-000000000002", 2),
        ("eeeeeeee-0000-8000-8000-000000000003", 3),
    ];
    for (id, at_ms) in ids {
        journal.append(vec![StreamBatch { at_ms, ..closed(id.parse().unwrap()) }]).unwrap();
    }
    let api = api_over(journal).await;
    let told = text(send(&api, get("/v1/runs/@last/events?until=now")).await).await;
    assert!(told.contains(ids[1].0), "{told}");
    let list = value(send(&api, get("/v1/runs")).await).await;
    let listed: Vec<_> = list["runs"].as_array().unwrap().iter().map(|line| line["run"].clone()).collect();
    assert_eq!(listed, [ids[2].0, ids[1].0, ids[0].0]);
}

#[tokio::test(start_paused = true)]
async fn who_sends_no_body_is_not_waited_for() {
    let api = api().await;
    let begun = tokio::time::Instant::now();
    for path in ["/v1/runs", "/v1/agents"] {
        let never = Body::from_stream(futures::stream::pending::<Result<Vec<u8>, std::io::Error>>());
        refused(&api, Request::post(path).body(never).unwrap(), (408, "body_late")).await;
    }
    assert_eq!(begun.elapsed(), Duration::from_secs(20));
}

#[tokio::test]
async fn an_id_that_somebody_chooses_for_a_run_is_one_of_version_7() {
    let api = api().await;
    for id in [
        "ffffffff-ffff-ffff-ffff-ffffffffffff",
        "00000000-0000-0000-0000-000000000000",
        "eeeeeeee-0000-8000-8000-000000000003",
        "x",
    ] {
        let mut request = submission("p");
        request["run"] = id.into();
        refused(&api, post("/v1/runs", &request), (400, "run_id")).await;
    }
}
