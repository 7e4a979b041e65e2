//! Rate limits of models: jobs wait in the run queue for a configured rate and for a provider that asks to wait, and no wait uses
//! up a retry.
#![allow(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

mod common;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use ostler_actors::{ClientConfig, ModelRates, Program, ProgramContext, Submission, System, SystemConfig};
use ostler_drivers::model::{ModelConfig, Models, ModelsConfig, Provider};
use ostler_kernel::event::CallTerms;
use ostler_kernel::id::RunId;
use ostler_kernel::ledger::CallLimits;
use ostler_kernel::plan::{HumanDuration, PlanDraft, PolicyDraft};
use ostler_kernel::policy::{
    Aggregator, BaseTokens, Budgets, ContextForm, GOAL_LIMIT, GoalModels, GoalTerms, Mode, opening_plan,
};
use ostler_kernel::port::Tool;
use ostler_kernel::run::{OpeningTerms, RATE_WAITS_MAX, RunOutcome, RunStatus, WaitReason};
use ostler_store::MemoryJournal;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::Instant;

const ANSWER: &str = "200 OK\r\ncontent-type: application/json";
const ANSWERED: &str = r#"{"model":"m","choices":[{"message":{"content":"pong"},"finish_reason":"stop"}],"usage":{"prompt_tokens":30,"completion_tokens":10}}"#;
const SLOW_DOWN: &str = r#"{"error":{"message":"slow down","code":"rate_limit_exceeded"}}"#;

/// When a request came, and its text.
type Asked = (Instant, String);

/// A provider that answers call after call as it is told, the last answer again and again, and keeps what it was asked.
struct Provided {
    port: u16,
    asked: Arc<Mutex<Vec<Asked>>>,
}

impl Provided {
    async fn start(replies: &[(&str, &str)]) -> Provided {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let asked: Arc<Mutex<Vec<Asked>>> = Arc::default();
        let replies: Vec<String> = replies
            .iter()
            .map(|(head, body)| {
                format!(
                    "HTTP/1.1 {head}\r\nconnection: close\r\ncontent-length: {}\r\n\r\n{body}",
                    body.len()
                )
            })
            .collect();
        let times = Arc::clone(&asked);
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let (times, replies) = (Arc::clone(&times), replies.clone());
                tokio::spawn(async move {
                    let Some(request) = read(&mut stream).await else { return };
                    let call = {
                        let mut times = times.lock().unwrap();
                        times.push((Instant::now(), request));
                        times.len() - 1
                    };
                    let reply = replies.get(call).or(replies.last()).unwrap();
                    stream.write_all(reply.as_bytes()).await.unwrap();
                });
            }
        });
        Provided { port, asked }
    }

    fn tools(&self) -> Vec<Arc<dyn Tool>> {
        let model = ModelConfig {
            base_url: Some(format!("http://127.0.0.1:{}/v1", self.port)),
            model: Some("m".to_owned()),
            ..ModelConfig::of(Provider::Openai)
        };
        let models = BTreeMap::from([("default".to_owned(), model)]);
        let config = ModelsConfig { models, ..ModelsConfig::default() };
        Models::new(&config, std::path::Path::new("."), &|_| None).unwrap().tools()
    }

    /// Milliseconds from the first request to each.
    fn times(&self) -> Vec<u128> {
        let asked = self.asked.lock().unwrap();
        asked.iter().map(|(at, _)| at.duration_since(asked[0].0).as_millis()).collect()
    }
}

/// Reads one request; `None` if the connection closed before.
async fn read(stream: &mut TcpStream) -> Option<String> {
    let mut request = Vec::new();
    loop {
        let text = String::from_utf8_lossy(&request);
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
            if body.len() >= length.map_or(0, |length| length.trim().parse().unwrap()) {
                return Some(text.into_owned());
            }
        }
        if stream.read_buf(&mut request).await.unwrap_or(0) == 0 {
            return None;
        }
    }
}

const REFUSED: &str = "429 Too Many Requests\r\ncontent-type: application/json\r\nretry-after: ";

fn refused(seconds: u32) -> String {
    format!("{REFUSED}{seconds}")
}

/// A plan of independent calls without retries, whose prompts name the client.
fn calls(client: &str, count: usize) -> Value {
    let node = |at| {
        let params = json!({"prompt": format!("ping of {client}")});
        json!({"id": format!("call{at}"), "kind": "model", "retries": 0, "patches": 0, "params": params})
    };
    json!({"id": "calls", "nodes": (0..count).map(node).collect::<Vec<_>>()})
}

async fn submit(system: &System, client: &str, plan: Value) -> RunId {
    let plan = common::plan(system, plan);
    let submission = Submission { client: client.into(), intent: 2, ..Submission::plan(plan) };
    system.submit(submission).await.unwrap()
}

async fn outcome(system: &System, run: RunId) -> RunOutcome {
    system.outcome(run).await.unwrap();
    system.view(run, None).await.unwrap().closed.unwrap()
}

async fn system(tools: Vec<Arc<dyn Tool>>, change: impl FnOnce(&mut SystemConfig)) -> System {
    let mut config = common::config(Arc::new(MemoryJournal::default()), tools);
    change(&mut config);
    System::start(config).await.unwrap()
}

fn limited(requests: Option<u32>, tokens: Option<u32>) -> BTreeMap<String, ModelRates> {
    let rates = ModelRates { requests_per_minute: requests, tokens_per_minute: tokens };
    BTreeMap::from([("default".to_owned(), rates)])
}

#[tokio::test(start_paused = true)]
async fn a_provider_that_asks_to_wait_is_asked_again_after_that_without_a_retry() {
    let provider = Provided::start(&[(&refused(2), SLOW_DOWN), (ANSWER, ANSWERED)]).await;
    let system = system(provider.tools(), |_| {}).await;
    let run = submit(&system, "local", calls("local", 1)).await;
    assert_eq!(outcome(&system, run).await, RunOutcome::Succeeded);
    let view = system.view(run, None).await.unwrap();
    let (_, instance) = view.run.instances().next().unwrap();
    assert_eq!((instance.attempts, instance.retries), (1, 0));
    let times = provider.times();
    assert!(times.len() == 2 && (2_000..2_100).contains(&times[1]), "{times:?}");
}

#[tokio::test(start_paused = true)]
async fn a_wait_holds_for_all_calls_of_the_model_and_takes_no_slot() {
    let provider = Provided::start(&[(&refused(30), SLOW_DOWN), (ANSWER, ANSWERED)]).await;
    let system = system(provider.tools(), |config| config.slots = 1).await;
    let first = submit(&system, "acme", calls("acme", 1)).await;
    common::until(async || !provider.times().is_empty()).await;
    // Other work of the same client, and of others, goes on in the one slot.
    let render = json!({"id": "text", "nodes": [{"id": "text", "tool": "text.render", "params": {"template": "hi", "values": {}}}]});
    let second = submit(&system, "umbrella", calls("umbrella", 1)).await;
    for client in ["acme", "umbrella"] {
        let other = submit(&system, client, render.clone()).await;
        assert_eq!(outcome(&system, other).await, RunOutcome::Succeeded);
    }
    for run in [first, second] {
        let status = system.status(&system.view(run, None).await.unwrap()).unwrap();
        assert_eq!((status.status, status.waits_for), (RunStatus::Waiting, Some(WaitReason::Rate)));
        let [wait] = &status.rate_waits[..] else { panic!("one call waits: {status:?}") };
        assert_eq!((wait.node.as_str(), wait.model.as_str()), ("call0", "default"));
        assert!((29_000..=30_000).contains(&wait.ms), "{wait:?}");
    }
    let queue = system.queue().await.unwrap();
    assert_eq!((queue.running, queue.queued, queue.rate_waits), (0, 2, 2));
    for run in [first, second] {
        assert_eq!(outcome(&system, run).await, RunOutcome::Succeeded);
    }
    let times = provider.times();
    assert!(times.len() == 3 && times[1] >= 30_000, "{times:?}");
}

#[tokio::test(start_paused = true)]
async fn headers_that_say_that_nothing_is_left_park_the_model_before_it_refuses() {
    let last = format!("{ANSWER}\r\nx-ratelimit-remaining-requests: 0\r\nx-ratelimit-reset-requests: 7s");
    let provider = Provided::start(&[(&last, ANSWERED), (ANSWER, ANSWERED)]).await;
    let system = system(provider.tools(), |config| config.slots = 1).await;
    let run = submit(&system, "local", calls("local", 2)).await;
    assert_eq!(outcome(&system, run).await, RunOutcome::Succeeded);
    let times = provider.times();
    assert!(times.len() == 2 && (7_000..7_100).contains(&times[1]), "{times:?}");
}

#[tokio::test(start_paused = true)]
async fn a_provider_that_asks_to_wait_for_ever_fails_the_call_in_the_end() {
    for (seconds, requests) in [(1, RATE_WAITS_MAX as usize + 1), (7_200, 1)] {
        let provider = Provided::start(&[(&refused(seconds), SLOW_DOWN)]).await;
        let system = system(provider.tools(), |_| {}).await;
        let run = submit(&system, "local", calls("local", 1)).await;
        assert_eq!(outcome(&system, run).await, RunOutcome::Failed);
        assert_eq!(provider.times().len(), requests, "asked to wait {seconds} s");
    }
}

#[tokio::test(start_paused = true)]
async fn two_clients_get_equal_shares_of_a_model_of_60_requests_a_minute() {
    let provider = Provided::start(&[(ANSWER, ANSWERED)]).await;
    let system = system(provider.tools(), |config| config.models = limited(Some(60), None)).await;
    // One client has many runs, and came first.
    let mut runs = Vec::new();
    for _ in 0..4 {
        runs.push(submit(&system, "acme", calls("acme", 40)).await);
    }
    runs.push(submit(&system, "umbrella", calls("umbrella", 60)).await);
    for run in runs {
        assert_eq!(outcome(&system, run).await, RunOutcome::Succeeded);
    }
    let times = provider.times();
    assert_eq!(times.len(), 220);
    for (at, time) in times.iter().enumerate() {
        let most = times[at..].iter().take_while(|later| **later < time + 60_000).count();
        assert!(most <= 120, "{most} requests in a minute: 60 at once and 60 that came back");
    }
    // The rate binds after the first 60 requests, and while both clients want more.
    let asked = provider.asked.lock().unwrap();
    let of_umbrella = asked[60..150].iter().filter(|(_, text)| text.contains("ping of umbrella")).count();
    assert!((43..=47).contains(&of_umbrella), "{of_umbrella} of 90");
}

#[tokio::test(start_paused = true)]
async fn the_tokens_of_a_client_are_limited_and_settled_at_the_providers_count() {
    let provider = Provided::start(&[(ANSWER, ANSWERED)]).await;
    let acme = ClientConfig {
        name: "acme".into(),
        weight: 100,
        contracted: false,
        // The provider counts 40 tokens a call.
        tokens_per_minute: Some(400),
    };
    let system = system(provider.tools(), |config| config.clients = vec![acme]).await;
    let limited = submit(&system, "acme", calls("acme", 20)).await;
    let free = submit(&system, "umbrella", calls("umbrella", 20)).await;
    for run in [limited, free] {
        assert_eq!(outcome(&system, run).await, RunOutcome::Succeeded);
    }
    let asked = provider.asked.lock().unwrap();
    let times = |client: &str| -> Vec<u128> {
        let of_client = asked.iter().filter(|(_, text)| text.contains(client));
        of_client.map(|(at, _)| at.duration_since(asked[0].0).as_millis()).collect()
    };
    assert!(times("ping of umbrella").iter().all(|at| *at < 1_000));
    let times = times("ping of acme");
    // 800 tokens: 400 at once, and the others in a minute.
    let last = times.last().unwrap();
    assert!((50_000..70_000).contains(last), "{times:?}");
}

#[tokio::test(start_paused = true)]
async fn a_call_of_a_program_waits_for_its_turn_without_a_slot() {
    let provider = Provided::start(&[(&refused(20), SLOW_DOWN), (ANSWER, ANSWERED)]).await;
    let program = Program::new("ask", "1", |context: ProgramContext, _: Value| async move {
        let first = context.model("default").text("first", "ping").await?;
        let second = context.model("default").text("second", "ping").await?;
        Ok(json!([first, second]))
    });
    let mut tools = provider.tools();
    tools.push(Arc::new(program));
    let system = system(tools, |config| {
        (config.slots, config.models) = (1, limited(Some(1), None));
    })
    .await;
    let ask = json!({"id": "ask", "nodes": [{"id": "ask", "tool": "ask", "retries": 0, "patches": 0, "timeout": 10, "params": {}}]});
    let run = submit(&system, "local", ask).await;
    common::until(async || !provider.times().is_empty()).await;
    common::until(async || system.queue().await.is_some_and(|queue| queue.rate_waits == 1)).await;
    assert_eq!(system.queue().await.unwrap().running, 0);
    // Two waits of a minute are longer than the timeout, which they do not use up.
    assert_eq!(outcome(&system, run).await, RunOutcome::Succeeded);
    let times = provider.times();
    assert!(times.len() == 3 && times[1] >= 60_000 && times[2] >= 120_000, "{times:?}");
}

/// The budget of tokens is too small for the first call, which is therefore not made.
#[tokio::test(start_paused = true)]
async fn a_call_that_its_budget_refuses_uses_up_no_request() {
    let provider = Provided::start(&[(ANSWER, ANSWERED)]).await;
    let system = system(provider.tools(), |config| config.models = limited(Some(1), None)).await;
    let limits = CallLimits { tokens: Some(1), nano_usd: None };
    let plan = common::plan(&system, calls("acme", 1));
    let terms = Some(CallTerms { account: None, limits, asks: false });
    let submission = Submission {
        client: "acme".into(),
        intent: 2,
        terms: OpeningTerms { calls: terms, ..OpeningTerms::default() },
        ..Submission::plan(plan)
    };
    let refused = system.submit(submission).await.unwrap();
    assert_eq!(outcome(&system, refused).await, RunOutcome::Failed);
    let begun = Instant::now();
    let run = submit(&system, "acme", calls("acme", 1)).await;
    assert_eq!(outcome(&system, run).await, RunOutcome::Succeeded);
    assert!(begun.elapsed() < Duration::from_secs(10), "{:?}", begun.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_process_that_dies_during_a_wait_costs_the_node_nothing() {
    let provider =
        Provided::start(&[(&refused(40), SLOW_DOWN), (&refused(20), SLOW_DOWN), (ANSWER, ANSWERED)]).await;
    let journal = Arc::new(MemoryJournal::default());
    let before = System::start(common::config(Arc::clone(&journal) as _, provider.tools())).await.unwrap();
    let run = submit(&before, "local", calls("local", 1)).await;
    common::until(async || !provider.times().is_empty()).await;
    let left = common::left_by(&journal);
    before.shutdown().await;
    // The next process asks the provider, which tells what is left of the wait.
    let system = System::start(common::config(left, provider.tools())).await.unwrap();
    system.resume_all().await.unwrap();
    assert_eq!(outcome(&system, run).await, RunOutcome::Succeeded);
    let view = system.view(run, None).await.unwrap();
    let (_, instance) = view.run.instances().next().unwrap();
    assert_eq!((instance.attempts, instance.retries), (1, 0));
    let times = provider.times();
    assert!(times.len() == 3 && times[2] - times[1] >= 20_000, "{times:?}");
}

#[tokio::test(start_paused = true)]
async fn a_script_has_a_refusal_and_the_answer_behind_it_under_one_number() {
    let folder = tempfile::tempdir().unwrap();
    let script = "roles:\n  \"\":\n    - {fail: rate_limited, message: slow down, retry_after: 3}\n    - text: |-\n        not JSON\n    - answer: {n: 1}\n";
    std::fs::write(folder.path().join("script.yaml"), script).unwrap();
    let models = BTreeMap::from([("default".to_owned(), ModelConfig::scripted("script.yaml"))]);
    let config = ModelsConfig { models, ..ModelsConfig::default() };
    let tools = Models::new(&config, folder.path(), &|_| None).unwrap().tools();
    let system = system(tools, |_| {}).await;
    let params = json!({"prompt": "count", "schema": {"type": "object"}});
    let node = json!({"id": "ask", "kind": "model", "retries": 1, "patches": 0, "params": params});
    let run = submit(&system, "local", json!({"id": "ask", "nodes": [node]})).await;
    assert_eq!(outcome(&system, run).await, RunOutcome::Succeeded);
    let view = system.view(run, None).await.unwrap();
    let (_, instance) = view.run.instances().next().unwrap();
    assert_eq!((instance.attempts, instance.retries), (2, 1), "the faulty answer alone uses up a retry");
    let calls = view.report.models.unwrap();
    assert_eq!(calls.calls, 3);
}

/// A goal run with these budgets, in the mode that thinks before it answers.
async fn ask(system: &System, budgets: Budgets) -> RunId {
    let named = || Some("default".to_owned());
    let terms = GoalTerms {
        goal: "say hello".to_owned(),
        mode: Mode::React,
        aggregator: Aggregator::Executor,
        context: ContextForm::Bounded,
        digest_tokens: 64,
        budgets,
        base: BaseTokens::default(),
        control_timeout: HumanDuration::Whole(600),
        human_timeout: HumanDuration::Whole(60),
        opened_at: 0,
        model_file: None,
        models: GoalModels { planner: named(), executor: named() },
        tools: Some(Vec::new()),
        confirm: false,
        on: Vec::new(),
        templates: Vec::new(),
    };
    let most = Some(GOAL_LIMIT);
    let policy =
        PolicyDraft { max_nodes: most, max_versions: most, max_depth: most, ..PolicyDraft::default() };
    let draft = PlanDraft { policy: Some(policy), ..opening_plan(&terms) };
    let plan = draft.validate(&system.settings()).unwrap();
    system.submit(Submission { goal: Some(Arc::new(terms)), ..Submission::plan(plan) }).await.unwrap()
}

#[tokio::test(start_paused = true)]
async fn an_answer_without_a_call_waits_for_no_turn() {
    let provider = Provided::start(&[(&refused(300), SLOW_DOWN)]).await;
    let system = system(provider.tools(), |_| {}).await;
    let begun = Instant::now();
    let wall = Some(5_000);
    let run = ask(&system, Budgets { wall, ..Budgets::of_mode(Mode::React) }).await;
    system.outcome(run).await.unwrap();
    let took = begun.elapsed();
    assert!(took < Duration::from_secs(30), "{took:?}");
    assert_eq!(provider.times().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_call_that_is_made_again_after_a_refusal_counts_as_another() {
    let provider = Provided::start(&[(&refused(1), SLOW_DOWN)]).await;
    let system = system(provider.tools(), |_| {}).await;
    let run = ask(&system, Budgets { model_calls: 2, ..Budgets::of_mode(Mode::React) }).await;
    system.outcome(run).await.unwrap();
    assert_eq!(provider.times().len(), 2);
    let view = system.view(run, None).await.unwrap();
    let told = view.run.instances().filter_map(|(_, instance)| instance.failure_message().map(str::to_owned));
    let told: Vec<String> = told.collect();
    assert!(told.iter().any(|told| told.contains("2 calls of models")), "{told:?}");
}
