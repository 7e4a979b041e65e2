//! Budgets of tokens and money: reserved before a call, settled after it, shared by child runs, and never exceeded.
#![allow(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

mod common;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use common::{left_by, plan, states, system, until};
use ostler_actors::{Answer, Chat, ClientChange, Program, ProgramContext, Submission, System};
use ostler_drivers::model::{ModelConfig, Models, ModelsConfig, PriceConfig, Provider, UsdPerMillion};
use ostler_kernel::event::{CallTerms, Event};
use ostler_kernel::id::RunId;
use ostler_kernel::ledger::{Amounts, CallLimits};
use ostler_kernel::plan::{HumanDuration, PlanDraft, PolicyDraft};
use ostler_kernel::policy::{
    Aggregator, BaseTokens, Budgets, ContextForm, GOAL_LIMIT, GoalModels, GoalTerms, Mode, View, opening_plan,
};
use ostler_kernel::port::{ChildRunSpec, Journal, Position, Seq, StreamBatch, StreamId, Tool};
use ostler_kernel::run::{AnswerError, FailureCategory, OpeningTerms, RunOutcome};
use ostler_store::MemoryJournal;
use serde_json::{Value, json};

/// Answers of 100 tokens, after 200 tokens of input, whatever is asked.
const SCRIPT: &str = r#"
latency: 5ms
rules:
  - when: {}
    text: "done"
    tokens: {input: 200, output: 100}
"#;

/// A dollar for a million tokens of input, four for a million tokens of output.
const NANO_OF_CALL: u64 = 200 * 1_000 + 100 * 4_000;

fn priced() -> Option<PriceConfig> {
    let usd = UsdPerMillion { input: 1.0, output: 4.0, cache_read: None, cache_write: None };
    Some(PriceConfig::PerMillion(usd))
}

fn model(folder: &Path, config: ModelConfig) -> Vec<Arc<dyn Tool>> {
    std::fs::write(folder.join("script.yaml"), SCRIPT).unwrap();
    let models = BTreeMap::from([("default".to_owned(), config)]);
    let config = ModelsConfig { models, ..ModelsConfig::default() };
    Models::new(&config, folder, &|_| None).unwrap().tools()
}

fn scripted(folder: &Path) -> Vec<Arc<dyn Tool>> {
    model(folder, ModelConfig { price: priced(), ..ModelConfig::scripted("script.yaml") })
}

/// A plan of so many calls, each with at most 300 tokens of output. Prompts are about as long as the script says.
fn calls(many: usize, slots: u32) -> Value {
    let prompt = "word ".repeat(160);
    let nodes: Vec<Value> = (0..many)
        .map(|at| {
            json!({"id": format!("n{at:02}"), "model": "default", "retries": 0, "patches": 0,
                "params": {"prompt": prompt, "max_output_tokens": 300}})
        })
        .collect();
    json!({"id": "calls", "policy": {"slots": slots}, "nodes": nodes})
}

fn within(limits: CallLimits, asks: bool) -> Option<CallTerms> {
    Some(CallTerms { account: None, limits, asks })
}

fn usd(nano_usd: u64) -> CallLimits {
    CallLimits { tokens: None, nano_usd: Some(nano_usd) }
}

fn tokens(tokens: u64) -> CallLimits {
    CallLimits { tokens: Some(tokens), nano_usd: None }
}

async fn open(system: &System, source: Value, calls: Option<CallTerms>) -> RunId {
    let plan = plan(system, source);
    let submission = Submission { client: "acme".into(), intent: 2, ..Submission::plan(plan) };
    system
        .submit(Submission { terms: OpeningTerms { calls, ..OpeningTerms::default() }, ..submission })
        .await
        .unwrap()
}

async fn ended(system: &System, run: RunId) -> RunOutcome {
    system.outcome(run).await.unwrap();
    system.view(run, None).await.unwrap().closed.unwrap()
}

async fn asks(system: &System, run: RunId) {
    until(async || !system.approvals(run).await.unwrap().is_empty()).await;
}

async fn used(system: &System, run: RunId) -> Amounts {
    let view = system.view(run, None).await.unwrap();
    let account = system.call_account(&view).unwrap().unwrap();
    assert!(account.limits.hold(account.used.plus(account.held)), "{account:?}");
    account.used
}

/// Checks, record by record in the order of the journal, that what is used and reserved stays within the limits. Returns the
/// sum at the end.
fn check_records(journal: &MemoryJournal, limits: CallLimits) -> Amounts {
    let mut records: Vec<(Position, Event)> = Vec::new();
    for row in journal.runs(false).unwrap() {
        let stream = StreamId::attempts(&row.client, row.run);
        let read = journal.read(stream, Seq(0), usize::MAX).unwrap();
        records.extend(read.into_iter().map(|record| (record.position, record.event)));
    }
    records.sort_by_key(|(position, _)| *position);
    let mut used = Amounts::default();
    for (_, event) in &records {
        match event {
            Event::CallReserved(call) => used = call.charge(used),
            Event::CallSettled(call) => {
                assert!(call.prices.is_some() || call.used.is_zero(), "a charge names its prices");
                used = call.charge(used);
            }
            _ => {}
        }
        assert!(limits.hold(used), "{used:?} of {limits:?}");
    }
    used
}

async fn raise(system: &System, run: RunId, answer: Answer) -> Result<(), ostler_actors::RunError> {
    let question = system.approvals(run).await.unwrap().remove(0);
    system.answer(&question.id, question.digest.unwrap(), answer).await
}

#[tokio::test(flavor = "multi_thread")]
async fn forty_calls_at_once_never_use_more_than_the_budget_of_their_run() {
    let folder = tempfile::tempdir().unwrap();
    for limits in [tokens(5_000), usd(20 * NANO_OF_CALL)] {
        let journal = Arc::new(MemoryJournal::default());
        let system = system(journal.clone(), scripted(folder.path())).await;
        let run = open(&system, calls(40, 40), within(limits, false)).await;
        assert_eq!(ended(&system, run).await, RunOutcome::Failed);
        let view = system.view(run, None).await.unwrap();
        let usage = view.run.model_usage();
        let sum = check_records(&journal, limits);
        assert_eq!(used(&system, run).await, sum);
        assert_eq!((sum.tokens, sum.nano_usd), (usage.tokens(), usage.nano_usd), "nothing else was called");
        // The last calls were given up with less than the smallest useful answer left.
        assert!((14..=20).contains(&usage.calls), "{limits:?}: {usage:?}");
        let failed = view.run.instances().filter_map(|(_, instance)| instance.failure.as_deref());
        let failed: Vec<FailureCategory> = failed.map(|failure| failure.category).collect();
        assert_eq!(failed.len() as u32 + usage.calls, 40);
        assert!(failed.iter().all(|category| *category == FailureCategory::ResourceExhaustion));
        system.shutdown().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn runs_of_a_client_share_its_balance_and_a_deposit_lets_them_go_on() {
    let folder = tempfile::tempdir().unwrap();
    let journal = Arc::new(MemoryJournal::default());
    let system = system(journal.clone(), scripted(folder.path())).await;
    let deposit = |nano_usd| ClientChange { nano_usd: Some(nano_usd), ..ClientChange::default() };
    let most = 10 * NANO_OF_CALL as i64;
    system.change_client("acme", deposit(most)).await.unwrap();
    let runs = [
        open(&system, calls(10, 10), None).await,
        open(&system, calls(10, 10), None).await,
        open(&system, calls(20, 20), within(usd(u64::MAX / 4), true)).await,
    ];
    // Every run ends or asks.
    for run in runs {
        until(async || {
            system.view(run, None).await.unwrap().closed.is_some() || {
                let (view, open) =
                    (system.view(run, None).await.unwrap(), system.approvals(run).await.unwrap());
                let running = view.run.instances().filter(|(_, instance)| instance.is_live()).count();
                running == open.len()
            }
        })
        .await;
    }
    check_records(&journal, usd(most as u64));
    let row = system.clients().await.into_iter().find(|row| row.client.as_str() == "acme").unwrap();
    let balance = row.nano_usd.unwrap();
    assert_eq!(balance.deposited - balance.spent as i64, balance.left);
    assert!(balance.left >= 0 && balance.reserved == 0, "{balance:?}");
    let run = runs[2];
    let question = system.approvals(run).await.unwrap().remove(0);
    assert!(question.shortfall.as_ref().unwrap().of_client);
    let refused = raise(&system, run, Answer::approve().raise(Amounts { tokens: 0, nano_usd: 1 })).await;
    assert!(refused.unwrap_err().to_string().contains("ostler credit"));
    system.change_client("acme", deposit(100 * NANO_OF_CALL as i64)).await.unwrap();
    for run in runs {
        if system.view(run, None).await.unwrap().closed.is_none() {
            raise(&system, run, Answer::approve()).await.unwrap();
        }
        assert_eq!(ended(&system, run).await, RunOutcome::Succeeded, "{}", states(&system, run).await);
    }
    assert_eq!(check_records(&journal, CallLimits::default()).nano_usd, 40 * NANO_OF_CALL);
    let spent = 40 * NANO_OF_CALL;
    // The next process knows the balance from the journal's table of accounts.
    system.shutdown().await;
    let again = common::system(journal, scripted(folder.path())).await;
    let row = again.clients().await.into_iter().find(|row| row.client.as_str() == "acme").unwrap();
    assert_eq!(row.nano_usd.unwrap().spent, spent);
    again.shutdown().await;
}

/// Three calls one after the other, of which the budget allows one.
fn chain() -> Value {
    let prompt = "word ".repeat(160);
    let node = |id: &str, deps: &[&str]| {
        json!({"id": id, "model": "default", "deps": deps, "retries": 0, "patches": 0,
            "params": {"prompt": prompt, "max_output_tokens": 300}})
    };
    json!({"id": "chain", "nodes": [node("a", &[]), node("b", &["a"]), node("c", &["b"])]})
}

#[tokio::test(flavor = "multi_thread")]
async fn a_person_raises_the_budget_and_the_node_goes_on() {
    let folder = tempfile::tempdir().unwrap();
    let system = system(Arc::new(MemoryJournal::default()), scripted(folder.path())).await;
    let run = open(&system, chain(), within(tokens(600), true)).await;
    asks(&system, run).await;
    assert_eq!(states(&system, run).await, "a executed, b waiting_human, c pending");
    let question = system.approvals(run).await.unwrap().remove(0);
    let short = question.shortfall.clone().unwrap();
    assert_eq!((short.of_client, short.left.tokens, short.model.as_str()), (false, Some(300), "default"));
    let why = |error: ostler_actors::RunError| error.to_string();
    let none = raise(&system, run, Answer::approve()).await.map_err(why).unwrap_err();
    assert_eq!(none, AnswerError::NoRaise("b".into()).to_string());
    let money = Answer::approve().raise(Amounts { tokens: 0, nano_usd: 5 });
    assert!(raise(&system, run, money).await.map_err(why).unwrap_err().contains("no such limit"));
    let more = Answer::approve().raise(Amounts { tokens: 5_000, nano_usd: 0 });
    raise(&system, run, more).await.unwrap();
    assert_eq!(ended(&system, run).await, RunOutcome::Succeeded);
    assert_eq!(used(&system, run).await.tokens, 900);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_person_refuses_and_the_node_fails_without_another_question() {
    let folder = tempfile::tempdir().unwrap();
    let system = system(Arc::new(MemoryJournal::default()), scripted(folder.path())).await;
    let run = open(&system, calls(3, 3), within(tokens(600), true)).await;
    until(async || system.approvals(run).await.unwrap().len() == 2).await;
    raise(&system, run, Answer::reject()).await.unwrap();
    assert_eq!(ended(&system, run).await, RunOutcome::Failed);
    let view = system.view(run, None).await.unwrap();
    let failed = view.run.instances().filter_map(|(_, instance)| instance.failure.as_deref());
    let failed: Vec<&str> = failed.map(|failure| failure.message.as_str()).collect();
    assert_eq!(failed.len(), 2, "one answer holds for all: {failed:?}");
    assert!(failed[0].starts_with("a call of model default needs at least "), "{failed:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_question_about_the_budget_does_not_outlive_its_run() {
    let folder = tempfile::tempdir().unwrap();
    let system = system(Arc::new(MemoryJournal::default()), scripted(folder.path())).await;
    let run = open(&system, chain(), within(tokens(600), true)).await;
    asks(&system, run).await;
    system.cancel(run).await.unwrap();
    assert_eq!(ended(&system, run).await, RunOutcome::Cancelled);
    assert!(system.approvals(run).await.unwrap().is_empty());
}

#[tokio::test(start_paused = true)]
async fn silence_ends_the_question_and_never_raises() {
    let folder = tempfile::tempdir().unwrap();
    let journal = Arc::new(MemoryJournal::default());
    let system = system(journal.clone(), scripted(folder.path())).await;
    let mut source = chain();
    source["nodes"][1]["human_timeout"] = json!("1h");
    let run = open(&system, source, within(tokens(600), true)).await;
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(states(&system, run).await, "a executed, b waiting_human, c pending");
    tokio::time::sleep(Duration::from_secs(2 * 3_600)).await;
    assert_eq!(ended(&system, run).await, RunOutcome::Failed);
    assert_eq!(states(&system, run).await, "a executed, b failed, c cancelled");
    assert_eq!(used(&system, run).await.tokens, 300);
}

/// A program that makes so many calls itself, and one in a child run.
fn program(many: usize) -> Program {
    Program::new("caller", "1", move |agent: ProgramContext, _: Value| async move {
        for at in 0..many {
            let chat = Chat::user("word ".repeat(160)).with("max_output_tokens", json!(300));
            agent.model("default").text(&format!("call {at}"), chat).await?;
        }
        let child: PlanDraft = serde_json::from_value(calls(1, 1)).unwrap();
        let end = agent.spawn("child", ChildRunSpec::plan(child)).await?;
        Ok(json!({"outcome": end.outcome}))
    })
}

fn with_program(folder: &Path, many: usize) -> Vec<Arc<dyn Tool>> {
    let mut tools = scripted(folder);
    tools.push(Arc::new(program(many)));
    tools
}

fn calling() -> Value {
    json!({"id": "p", "nodes": [{"id": "n", "tool": "caller", "retries": 0, "patches": 0}]})
}

#[tokio::test(flavor = "multi_thread")]
async fn a_child_run_uses_the_account_of_its_parent_and_its_question_raises_it() {
    let folder = tempfile::tempdir().unwrap();
    let journal = Arc::new(MemoryJournal::default());
    let system = system(journal.clone(), with_program(folder.path(), 3)).await;
    // A call reserves up to 1.4 million and uses 0.6 million: two calls fit.
    let run = open(&system, calling(), within(usd(1_900_000), true)).await;
    let child = || system.runs(false).unwrap().into_iter().map(|row| row.run).find(|other| *other != run);
    asks(&system, run).await;
    assert!(child().is_none());
    let more = || Answer::approve().raise(Amounts { tokens: 0, nano_usd: NANO_OF_CALL });
    raise(&system, run, more()).await.unwrap();
    until(async || child().is_some()).await;
    let child = child().unwrap();
    asks(&system, child).await;
    assert_eq!(used(&system, child).await.nano_usd, 3 * NANO_OF_CALL, "the calls of its parent");
    raise(&system, child, more()).await.unwrap();
    assert_eq!(ended(&system, run).await, RunOutcome::Succeeded, "{}", states(&system, run).await);
    let view = system.view(child, None).await.unwrap();
    let shared = system.call_account(&view).unwrap().unwrap();
    let limits = usd(1_900_000 + 2 * NANO_OF_CALL);
    assert_eq!((shared.account, shared.limits), (run, limits));
    assert_eq!(used(&system, run).await, Amounts { tokens: 1_200, nano_usd: 4 * NANO_OF_CALL });
    assert_eq!(check_records(&journal, limits), shared.used);
    system.shutdown().await;
    let again = common::system(left_by(&journal), with_program(folder.path(), 3)).await;
    let view = again.view(run, None).await.unwrap();
    assert_eq!(again.call_account(&view).unwrap(), Some(shared), "the records say the same");
    again.shutdown().await;
}

/// Everything that was written up to this position.
fn until_position(journal: &MemoryJournal, last: Position) -> Arc<MemoryJournal> {
    let left = Arc::new(MemoryJournal::default());
    let rows = journal.runs(false).unwrap();
    let of_run = |row: &ostler_kernel::port::RunRow| {
        [StreamId::run(&row.client, row.run), StreamId::attempts(&row.client, row.run)]
    };
    let streams: Vec<StreamId> = rows.iter().flat_map(of_run).chain(journal.clients().unwrap()).collect();
    let mut records = Vec::new();
    for stream in streams {
        let read = journal.read(stream, Seq(0), usize::MAX).unwrap();
        records.extend(read.into_iter().map(|record| (stream, record)));
    }
    records.retain(|(_, record)| record.position <= last);
    records.sort_by_key(|(_, record)| (record.position, record.seq));
    for (stream, record) in records {
        let (expected, events) = (Seq(record.seq.0 - 1), vec![record.event]);
        left.append(vec![StreamBatch { stream, expected, at_ms: record.at_ms, events }]).unwrap();
    }
    left
}

#[tokio::test(flavor = "multi_thread")]
async fn whenever_the_process_dies_the_budget_holds_and_lost_calls_count_in_full() {
    let folder = tempfile::tempdir().unwrap();
    let journal = Arc::new(MemoryJournal::default());
    let first = system(journal.clone(), with_program(folder.path(), 3)).await;
    let limits = usd(9 * NANO_OF_CALL);
    let run = open(&first, calling(), within(limits, false)).await;
    assert_eq!(ended(&first, run).await, RunOutcome::Succeeded);
    assert_eq!(used(&first, run).await.nano_usd, 4 * NANO_OF_CALL);
    first.shutdown().await;
    let mut positions: Vec<Position> = Vec::new();
    for row in journal.runs(false).unwrap() {
        for stream in [StreamId::run(&row.client, row.run), StreamId::attempts(&row.client, row.run)] {
            let records = journal.read(stream, Seq(0), usize::MAX).unwrap();
            positions.extend(records.iter().map(|record| record.position));
        }
    }
    positions.sort();
    positions.dedup();
    assert!(positions.len() > 10, "there are places to die at: {}", positions.len());
    let mut lost_in_all = 0;
    for last in positions {
        let left = until_position(&journal, last);
        let second = system(left.clone(), with_program(folder.path(), 3)).await;
        second.resume_all().await.unwrap();
        assert_eq!(ended(&second, run).await, RunOutcome::Succeeded, "cut at {last:?}");
        let sum = check_records(&left, limits);
        assert_eq!(used(&second, run).await, sum, "cut at {last:?}");
        let calls = 4 * NANO_OF_CALL;
        assert!(sum.nano_usd >= calls, "a call was forgotten: {sum:?}, cut at {last:?}");
        let view = second.view(run, None).await.unwrap();
        let usage = view.run.model_usage();
        let lost = second.lost_calls(&view).unwrap();
        lost_in_all += lost.len();
        let of_lost: u64 = lost.iter().map(|call| call.amounts.nano_usd).sum();
        assert!(sum.nano_usd >= usage.nano_usd + of_lost, "{lost:?} are part of {sum:?}, cut at {last:?}");
        assert!(usage.calls >= 3, "the calls of recorded steps were made: {usage:?}, cut at {last:?}");
        second.shutdown().await;
    }
    assert!(lost_in_all > 0, "some calls die between reservation and end");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_model_without_a_known_price_is_not_called_under_a_budget_of_money() {
    let folder = tempfile::tempdir().unwrap();
    // Nothing listens there: a call would end as a failed connection.
    let config = ModelConfig {
        provider: Provider::Openai,
        base_url: Some("http://127.0.0.1:9/v1".to_owned()),
        model: Some("no-such-model".to_owned()),
        ..ModelConfig::scripted("script.yaml")
    };
    let config = ModelConfig { file: None, ..config };
    let system = system(Arc::new(MemoryJournal::default()), model(folder.path(), config)).await;
    let run = open(&system, calls(1, 1), within(usd(1_000_000_000), true)).await;
    assert_eq!(ended(&system, run).await, RunOutcome::Failed);
    let view = system.view(run, None).await.unwrap();
    let failure = view.run.instance(&"n00".into()).unwrap().failure.clone().unwrap();
    assert_eq!(failure.category, FailureCategory::Structural);
    for told in ["its price is unknown", "price = \"free\"", "[models.default]"] {
        assert!(failure.message.contains(told), "{told}: {}", failure.message);
    }
    assert_eq!(view.run.model_usage().calls, 0);
}

const GOAL: &str = r#"
roles:
  planner:
    - answer: {answer: null, missing: null, steps: [
        {id: list, tool: fs.list, params: {path: .}, refs: [], after: [], why: null}]}
      tokens: {input: 840, output: 100}
  reflect:
    - answer: {decision: continue, verdict: "one file", next: null, cancel: []}
      tokens: {input: 200, output: 100}
  answer:
    - answer: {answer: "there is one file", citations: [list]}
      tokens: {input: 200, output: 100}
"#;

async fn goal(system: &System, folder: &Path, calls: Option<CallTerms>) -> RunId {
    let named = || Some("default".to_owned());
    let mode = Mode::Reflect;
    let terms = GoalTerms {
        goal: "count the files".to_owned(),
        mode,
        aggregator: Aggregator::Executor,
        context: ContextForm::Bounded,
        digest_tokens: 64,
        budgets: Budgets { tokens: calls.and_then(|calls| calls.limits.tokens), ..Budgets::of_mode(mode) },
        base: BaseTokens::default(),
        control_timeout: HumanDuration::Whole(60),
        human_timeout: HumanDuration::Whole(60),
        opened_at: 0,
        models: GoalModels { planner: named(), executor: named() },
        model_file: None,
        tools: Some(vec!["fs.list".to_owned()]),
        confirm: false,
        on: Vec::new(),
        templates: Vec::new(),
    };
    let policy = PolicyDraft {
        max_nodes: Some(GOAL_LIMIT),
        max_versions: Some(GOAL_LIMIT),
        max_depth: Some(GOAL_LIMIT),
        max_replans: Some(0),
        ..PolicyDraft::default()
    };
    let draft = PlanDraft { policy: Some(policy), ..opening_plan(&terms) };
    let plan = draft.validate(&system.settings()).unwrap();
    let goal = Some(Arc::new(terms));
    let submission = Submission { client: "acme".into(), workspace: folder.into(), ..Submission::plan(plan) };
    system
        .submit(Submission { goal, terms: OpeningTerms { calls, ..OpeningTerms::default() }, ..submission })
        .await
        .unwrap()
}

/// The answer and its labels.
async fn answer(system: &System, run: RunId) -> String {
    let view = system.view(run, None).await.unwrap();
    let goal = View::of(&view.run, 0).unwrap();
    let labels: Vec<&str> = goal.labels().iter().map(|label| label.as_str()).collect();
    format!("{} {labels:?}", goal.final_answer().unwrap().answer)
}

/// The path of the step is wrong, and the micro-planner corrects it.
const MENDED: &str = r#"
roles:
  planner:
    - answer: {answer: null, missing: null, steps: [
        {id: list, tool: fs.list, params: {path: none}, refs: [], after: [], why: null}]}
      tokens: {input: 840, output: 100}
  micro:
    - answer: {decision: retry, tool: null, params: {path: .}, refs: null}
      tokens: {input: 200, output: 100}
  reflect:
    - answer: {decision: continue, verdict: "one file", next: null, cancel: []}
      tokens: {input: 200, output: 100}
  answer:
    - answer: {answer: "there is one file", citations: [list]}
      tokens: {input: 200, output: 100}
"#;

fn of_goal(folder: &Path) -> Vec<Arc<dyn Tool>> {
    thinking(folder, GOAL)
}

fn thinking(folder: &Path, script: &str) -> Vec<Arc<dyn Tool>> {
    std::fs::write(folder.join("goal.yaml"), script).unwrap();
    let config =
        ModelConfig { price: priced(), max_output_tokens: 300, ..ModelConfig::scripted("goal.yaml") };
    model(folder, config)
}

/// The first call reserves about 1,150 tokens and uses 940. What is left is too little for the reflection.
const FOR_ONE_CALL: u64 = 1_260;

#[tokio::test(flavor = "multi_thread")]
async fn a_goal_run_is_raised_concludes_with_what_is_there_or_keeps_the_rules_of_its_mode() {
    let workspace = tempfile::tempdir().unwrap();
    std::fs::write(workspace.path().join("a.md"), "text").unwrap();
    let folder = tempfile::tempdir().unwrap();
    let system = system(Arc::new(MemoryJournal::default()), of_goal(folder.path())).await;
    let ask = async |asks| {
        let run = goal(&system, workspace.path(), within(tokens(FOR_ONE_CALL), asks)).await;
        if asks {
            common::until(async || !system.approvals(run).await.unwrap().is_empty()).await;
        }
        run
    };
    let raised = ask(true).await;
    assert_eq!(states(&system, raised).await, "list executed, plan.1 executed, reflect.1 waiting_human");
    raise(&system, raised, Answer::approve().raise(Amounts { tokens: 20_000, nano_usd: 0 })).await.unwrap();
    assert_eq!(ended(&system, raised).await, RunOutcome::Succeeded);
    assert_eq!(answer(&system, raised).await, "there is one file [\"grounded\"]");
    let concluded = ask(true).await;
    raise(&system, concluded, Answer::reject()).await.unwrap();
    assert_eq!(ended(&system, concluded).await, RunOutcome::Succeeded);
    let told = answer(&system, concluded).await;
    assert!(told.contains("list: ") && told.contains("incomplete"), "{told}");
    assert!(used(&system, concluded).await.tokens <= FOR_ONE_CALL);
    let unasked = ask(false).await;
    assert_eq!(ended(&system, unasked).await, RunOutcome::Succeeded);
    assert!(used(&system, unasked).await.tokens <= FOR_ONE_CALL);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_micro_planner_asks_for_more_budget_like_any_call() {
    let workspace = tempfile::tempdir().unwrap();
    std::fs::write(workspace.path().join("a.md"), "text").unwrap();
    let folder = tempfile::tempdir().unwrap();
    let system = system(Arc::new(MemoryJournal::default()), thinking(folder.path(), MENDED)).await;
    let ask = async |is_asked| {
        let run = goal(&system, workspace.path(), within(tokens(FOR_ONE_CALL), is_asked)).await;
        if is_asked {
            asks(&system, run).await;
            let waiting = "list waiting_human, plan.1 executed, reflect.1 pending";
            assert_eq!(states(&system, run).await, waiting);
        }
        run
    };
    let raised = ask(true).await;
    let attempts = async || {
        let view = system.view(raised, None).await.unwrap();
        view.run.instance(&"list".into()).unwrap().attempts
    };
    let before = attempts().await;
    raise(&system, raised, Answer::approve().raise(Amounts { tokens: 20_000, nano_usd: 0 })).await.unwrap();
    assert_eq!(ended(&system, raised).await, RunOutcome::Succeeded, "{}", states(&system, raised).await);
    assert_eq!(answer(&system, raised).await, "there is one file [\"grounded\"]");
    assert_eq!(attempts().await, before + 1, "the step runs again with its patch, and not before");
    let concluded = ask(true).await;
    raise(&system, concluded, Answer::reject()).await.unwrap();
    ended(&system, concluded).await;
    assert!(
        states(&system, concluded).await.contains("list skipped"),
        "{}",
        states(&system, concluded).await
    );
    let cancelled = ask(true).await;
    system.cancel(cancelled).await.unwrap();
    assert_eq!(ended(&system, cancelled).await, RunOutcome::Cancelled);
    let unasked = ask(false).await;
    ended(&system, unasked).await;
    assert!(states(&system, unasked).await.contains("list failed"), "{}", states(&system, unasked).await);
    for run in [concluded, cancelled, unasked] {
        assert_eq!(used(&system, run).await.tokens, 940);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_limits_of_a_plan_hold_beside_those_of_its_submission_and_not_in_a_child_run() {
    let folder = tempfile::tempdir().unwrap();
    let system = system(Arc::new(MemoryJournal::default()), scripted(folder.path())).await;
    let mut source = chain();
    source["policy"] = json!({"usd": "0.50", "tokens": 900});
    for (given, expected) in [
        (None, CallLimits { tokens: Some(900), nano_usd: Some(500_000_000) }),
        (within(tokens(5_000), true), CallLimits { tokens: Some(900), nano_usd: Some(500_000_000) }),
        (within(usd(7), true), CallLimits { tokens: Some(900), nano_usd: Some(7) }),
        (
            Some(CallTerms { account: None, limits: tokens(300), asks: false }),
            CallLimits { tokens: Some(300), nano_usd: Some(500_000_000) },
        ),
    ] {
        let run = open(&system, source.clone(), given).await;
        let view = system.view(run, None).await.unwrap();
        assert_eq!(system.call_account(&view).unwrap().unwrap().limits, expected);
        // It may have ended by itself.
        let _ = system.cancel(run).await;
    }
}

/// A program that opens a run of itself so often, and at the bottom calls the model without end.
fn spender() -> Program {
    Program::new("spender", "1", move |agent: ProgramContext, input: Value| async move {
        let left = input["left"].as_u64().unwrap_or(5);
        if left > 0 {
            let params = serde_json::Map::from_iter([("left".to_owned(), json!(left - 1))]);
            let end = agent.spawn("below", ChildRunSpec::call("spender", params)).await?;
            return Ok(json!(end.outcome));
        }
        for at in 0.. {
            agent.model("default").text(&format!("call {at}"), Chat::user("again")).await?;
        }
        Ok(json!(null))
    })
}

#[tokio::test]
async fn no_call_is_reserved_below_a_run_once_its_cancellation_is_acknowledged() {
    let folder = tempfile::tempdir().unwrap();
    let journal = Arc::new(MemoryJournal::default());
    let mut tools = scripted(folder.path());
    tools.push(Arc::new(spender()));
    let system = system(journal.clone(), tools).await;
    let source = json!({"id": "p", "nodes": [{"id": "n", "tool": "spender", "retries": 0, "patches": 0}]});
    let run = open(&system, source, within(tokens(10_000_000), true)).await;
    let reserved = || {
        let rows = journal.runs(false).unwrap();
        let logs = rows.iter().map(|row| StreamId::attempts(&row.client, row.run));
        let records = logs.flat_map(|log| journal.read(log, Seq(0), usize::MAX).unwrap());
        records.filter(|record| matches!(record.event, Event::CallReserved(_))).count()
    };
    until(async || reserved() > 3).await;
    system.cancel(run).await.unwrap();
    let then = reserved();
    until(async || system.runs(true).unwrap().is_empty()).await;
    assert_eq!(reserved(), then);
    system.shutdown().await;
}
