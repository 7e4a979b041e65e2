//! Providers that refuse the next turn of a conversation without their opaque data get the data back, unchanged.
#![allow(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

mod common;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex};

use ostler_actors::{Chat, ModelExchanges, Program, ProgramContext, Submission, System};
use ostler_drivers::model::{AnsweredCall, ModelConfig, Models, ModelsConfig, Provider, cassette};
use ostler_kernel::event::Failure;
use ostler_kernel::id::RunId;
use ostler_kernel::plan::{HumanDuration, PlanDraft, PolicyDraft};
use ostler_kernel::policy::{
    Aggregator, BaseTokens, Budgets, ContextForm, GOAL_LIMIT, GoalModels, GoalTerms, Mode, View, opening_plan,
};
use ostler_kernel::port::{Tool, Usage};
use ostler_kernel::run::RunOutcome;
use ostler_store::MemoryJournal;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// A provider: the bodies it got, and its address.
struct Served {
    port: u16,
    bodies: Arc<Mutex<Vec<Value>>>,
}

/// Serves the answers of `answer`: a status and a document for each request.
async fn serve(answer: fn(&Value) -> (u16, Value)) -> Served {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let bodies: Arc<Mutex<Vec<Value>>> = Arc::default();
    let kept = bodies.clone();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let body = read(&mut stream).await;
            let (status, document) = answer(&body);
            kept.lock().unwrap().push(body);
            let document = document.to_string();
            let response = format!(
                "HTTP/1.1 {status} .\r\ncontent-type: application/json\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{document}",
                document.len()
            );
            let _ = stream.write_all(response.as_bytes()).await;
        }
    });
    Served { port, bodies }
}

async fn read(stream: &mut TcpStream) -> Value {
    let mut request = Vec::new();
    loop {
        let text = String::from_utf8_lossy(&request).into_owned();
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")).unwrap();
            if body.len() >= length.parse().unwrap() {
                return serde_json::from_str(body).unwrap();
            }
        }
        assert!(stream.read_buf(&mut request).await.unwrap() > 0, "a whole request: {text}");
    }
}

/// Gemini's compatible API: a call carries a thought signature, and the next turn is refused without it.
fn gemini(body: &Value) -> (u16, Value) {
    let usage = json!({"prompt_tokens": 20, "completion_tokens": 5});
    let message = match body["messages"].as_array().unwrap().iter().find(|said| said["role"] == "assistant") {
        None => {
            let call = json!({"id": "call-7", "type": "function", "extra_content": {"google": {"thought_signature": "sig-α"}},
                "function": {"name": "fs_list", "arguments": "{\"path\":\".\"}"}});
            json!({"role": "assistant", "content": null, "tool_calls": [call]})
        }
        Some(said) if said["tool_calls"][0]["extra_content"]["google"]["thought_signature"] != "sig-α" => {
            let error = json!({"code": 400, "message": "Function call is missing a thought_signature"});
            return (400, json!({"error": error}));
        }
        Some(_) => {
            let result =
                body["messages"].as_array().unwrap().iter().find(|said| said["role"] == "tool").unwrap();
            assert_eq!(result["tool_call_id"], "call-7");
            assert!(result["content"].as_str().unwrap().contains("a.md"), "{result}");
            json!({"role": "assistant", "content": "one file"})
        }
    };
    let finish = if message.get("tool_calls").is_some() { "tool_calls" } else { "stop" };
    (
        200,
        json!({"id": "r", "model": "g", "choices": [{"message": message, "finish_reason": finish}], "usage": usage}),
    )
}

/// Anthropic: signed thinking comes before a call, and must come back before the call.
fn anthropic(body: &Value) -> (u16, Value) {
    let usage = json!({"input_tokens": 20, "output_tokens": 5});
    let thinking = json!({"type": "thinking", "thinking": "list first", "signature": "signed"});
    let call = json!({"type": "tool_use", "id": "toolu_1", "name": "fs_list", "input": {"path": "."}});
    let turns = body["messages"].as_array().unwrap();
    let (content, stop) = match turns.iter().find(|said| said["role"] == "assistant") {
        None => (json!([thinking, call]), "tool_use"),
        Some(said) if said["content"] != json!([thinking, call]) => {
            let error =
                json!({"type": "invalid_request_error", "message": "expected thinking, but found tool_use"});
            return (400, json!({"type": "error", "error": error}));
        }
        Some(_) => {
            assert_eq!(turns.last().unwrap()["content"][0]["tool_use_id"], "toolu_1");
            (json!([{"type": "text", "text": "one file"}]), "end_turn")
        }
    };
    (
        200,
        json!({"id": "m", "type": "message", "model": "c", "content": content, "stop_reason": stop, "usage": usage}),
    )
}

fn models(folder: &Path, provider: Provider, port: u16) -> Vec<Arc<dyn Tool>> {
    let path = if provider == Provider::Openai { "/v1" } else { "" };
    let table = json!({"provider": provider.as_str(), "base_url": format!("http://127.0.0.1:{port}{path}"), "model": "m"});
    built(folder, serde_json::from_value(table).unwrap())
}

fn built(folder: &Path, config: ModelConfig) -> Vec<Arc<dyn Tool>> {
    let models = BTreeMap::from([("default".to_owned(), config)]);
    let config = ModelsConfig { models, ..ModelsConfig::default() };
    Models::new(&config, folder, &|_| None).unwrap().tools()
}

fn react() -> GoalTerms {
    let named = || Some("default".to_owned());
    GoalTerms {
        goal: "count the files".to_owned(),
        mode: Mode::React,
        aggregator: Aggregator::Off,
        context: ContextForm::Bounded,
        digest_tokens: 64,
        budgets: Budgets::of_mode(Mode::React),
        base: BaseTokens::default(),
        control_timeout: HumanDuration::Whole(60),
        human_timeout: HumanDuration::Whole(60),
        opened_at: 0,
        model_file: None,
        models: GoalModels { planner: named(), executor: named() },
        tools: Some(vec!["fs.list".to_owned()]),
        confirm: false,
        on: Vec::new(),
        templates: Vec::new(),
    }
}

/// Runs the goal to its end.
async fn ask(system: &System, folder: &Path) -> RunId {
    let limit = Some(GOAL_LIMIT);
    let policy =
        PolicyDraft { max_nodes: limit, max_versions: limit, max_depth: limit, ..PolicyDraft::default() };
    let draft = PlanDraft { policy: Some(policy), ..opening_plan(&react()) };
    let plan = draft.validate(&system.settings()).unwrap();
    let goal = Some(Arc::new(react()));
    let submission = Submission { workspace: folder.into(), goal, ..Submission::plan(plan) };
    let run = system.submit(submission).await.unwrap();
    system.outcome(run).await.unwrap();
    run
}

async fn check_goal(provider: Provider, answer: fn(&Value) -> (u16, Value)) {
    let served = serve(answer).await;
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("a.md"), "text").unwrap();
    let journal = Arc::new(MemoryJournal::default());
    let system = common::system(journal, models(folder.path(), provider, served.port)).await;
    let run = ask(&system, folder.path()).await;
    let view = system.view(run, None).await.unwrap();
    let answer = View::of(&view.run, 0).unwrap().final_answer().map(|answer| answer.answer);
    let bodies = served.bodies.lock().unwrap().clone();
    assert_eq!(
        (view.closed, answer.as_deref()),
        (Some(RunOutcome::Succeeded), Some("one file")),
        "{bodies:?}"
    );
    assert_eq!(bodies.len(), 2, "no turn was refused");
    let exported = system.model_exchanges(run).await.unwrap();
    assert_eq!((exported.exchanges.len(), exported.left_out.len()), (2, 0));
    check_replay(folder.path(), &exported).await;
}

/// A cassette of the exported calls answers alike, without the provider.
async fn check_replay(folder: &Path, exported: &ModelExchanges) {
    let answered = exported.exchanges.iter().map(|exchange| AnsweredCall {
        params: exchange.params.clone(),
        result: exchange.result.clone(),
        finish: exchange.call.finish.clone(),
        model: exchange.call.answered_by.clone(),
        response_id: exchange.call.response_id.clone(),
        usage: Usage::default(),
    });
    let lines = cassette(&answered.collect::<Vec<_>>()).unwrap();
    let tape = folder.with_extension("jsonl");
    std::fs::write(&tape, lines.join("\n")).unwrap();
    let table = json!({"provider": "cassette", "file": tape});
    let tools = built(folder, serde_json::from_value(table).unwrap());
    std::fs::remove_file(&tape).unwrap();
    let system = common::system(Arc::new(MemoryJournal::default()), tools).await;
    let run = ask(&system, folder).await;
    let view = system.view(run, None).await.unwrap();
    let answer = View::of(&view.run, 0).unwrap().final_answer().map(|answer| answer.answer);
    assert_eq!(answer.as_deref(), Some("one file"));
    assert_eq!(system.model_exchanges(run).await.unwrap().exchanges[0].result, exported.exchanges[0].result);
}

#[tokio::test]
async fn a_turn_of_a_goal_run_gives_thought_signatures_back() {
    check_goal(Provider::Openai, gemini).await;
}

#[tokio::test]
async fn a_turn_of_a_goal_run_gives_signed_thinking_back() {
    check_goal(Provider::Anthropic, anthropic).await;
}

/// Asks with a tool, calls it, and asks again with the result.
async fn converse(agent: ProgramContext, _: Value) -> Result<Value, Failure> {
    let model = agent.model("default");
    let schema = json!({"type": "object", "properties": {"path": {"type": "string"}}});
    let offer = json!([{"name": "fs.list", "description": "Lists files.", "params": schema}]);
    let chat = Chat::user("count the files").with("tools", offer);
    let first: Value = model.chat("first", chat.clone()).await?;
    let next = chat.answer(&first).result(&first["calls"][0], r#"{"files":["a.md"]}"#);
    let second: Value = model.chat("second", next).await?;
    Ok(json!({"answer": second["text"]}))
}

async fn check_program(provider: Provider, answer: fn(&Value) -> (u16, Value)) {
    let served = serve(answer).await;
    let folder = tempfile::tempdir().unwrap();
    let mut tools = models(folder.path(), provider, served.port);
    tools.push(Arc::new(Program::new("counter", "1", converse)));
    let system = common::system(Arc::new(MemoryJournal::default()), tools).await;
    let run =
        common::submit(&system, json!({"id": "p", "nodes": [{"id": "count", "tool": "counter"}]})).await;
    system.outcome(run).await.unwrap();
    assert_eq!(common::states(&system, run).await, "count executed");
    assert_eq!(common::value(&system, run, "count").await, json!({"answer": "one file"}));
    assert_eq!(served.bodies.lock().unwrap().len(), 2, "no turn was refused");
    let exported = system.model_exchanges(run).await.unwrap();
    assert_eq!(
        (exported.exchanges.len(), exported.left_out.len()),
        (2, 0),
        "the questions of programs are recorded with their answers"
    );
}

#[tokio::test]
async fn a_program_gives_thought_signatures_back() {
    check_program(Provider::Openai, gemini).await;
}

#[tokio::test]
async fn a_program_gives_signed_thinking_back() {
    check_program(Provider::Anthropic, anthropic).await;
}
