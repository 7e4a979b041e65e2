//! Clients: terms, credits, and accounts that outlive the process.
#![allow(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

mod common;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use common::{Hold, PATIENCE, plan, system, within};
use ostler_actors::{
    ClientChange, ClientConfig, ClientError, ClientRow, ClientTier, Limits, Measures, Submission, System,
    SystemConfig, Weight,
};
use ostler_kernel::client_terms::DepositError;
use ostler_kernel::event::{Accounts, AttemptResult, Event, Failure, Outcome, RunOpened};
use ostler_kernel::gate::{CallClass, GatePolicy, Permit, Scope};
use ostler_kernel::id::RunId;
use ostler_kernel::json::canonical;
use ostler_kernel::plan::{Effect, Idempotency};
use ostler_kernel::port::{
    BoxFuture, CallContext, Journal, Seq, StreamBatch, StreamId, Tool, ToolResult, ToolSpec,
};
use ostler_kernel::run::{FailureCategory, RunOutcome, RunStatus};
use ostler_store::{MemoryArtifacts, MemoryJournal, MemoryOutput, WriteCounts};
use serde_json::{Map, Value, json};

async fn row(system: &System, client: &str) -> ClientRow {
    system.clients().await.into_iter().find(|row| row.client.as_str() == client).unwrap()
}

/// Waits for a state of the client; returns the row.
async fn until(system: &System, client: &str, is: impl Fn(&ClientRow) -> bool) -> ClientRow {
    let looked = async {
        loop {
            let rows = system.clients().await;
            match rows.into_iter().find(|row| row.client.as_str() == client && is(row)) {
                Some(row) => return row,
                None => tokio::task::yield_now().await,
            }
        }
    };
    tokio::time::timeout(PATIENCE, looked).await.expect("it comes to that")
}

fn credits(credits: i64) -> ClientChange {
    ClientChange { credits: Some(credits), ..ClientChange::default() }
}

/// Recorded cost of a run's attempts.
fn cost(journal: &dyn Journal, client: &str, run: RunId) -> i64 {
    let records = journal.read(StreamId::run(&client.into(), run), Seq(0), usize::MAX).unwrap();
    let costs = records.iter().map(|record| match &record.event {
        Event::AttemptResult(result) | Event::LateResult(result) => result.cost as i64,
        _ => 0,
    });
    costs.sum()
}

#[tokio::test]
async fn no_more_is_taken_back_than_is_left_beside_what_runs_holds() {
    let hold = Hold::new("hold", Effect::Read, Idempotency::Natural);
    let system = system(Arc::new(MemoryJournal::default()), vec![hold.clone()]).await;
    system.change_client("acme", credits(1_000)).await.unwrap();
    let submission =
        Submission::plan(plan(&system, json!({"id": "p", "nodes": [{"id": "n", "tool": "hold"}]})));
    let run = system.submit(Submission { client: "acme".into(), ..submission }).await.unwrap();
    hold.started().await;
    assert_eq!(row(&system, "acme").await.left, Some(900));
    let refused = system.change_client("acme", credits(-901)).await;
    let error = DepositError::TooFew { left: 900, credits: 901 };
    assert_eq!(refused, Err(ClientError::Credits { client: "acme".into(), error }));
    system.change_client("acme", credits(-900)).await.unwrap();
    assert_eq!(row(&system, "acme").await.left, Some(0));
    hold.go(1);
    system.outcome(run).await.unwrap();
    assert!(row(&system, "acme").await.left.unwrap() > 0, "what it held too much is there again");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_without_credits_is_parked_and_says_so_until_some_are_deposited_whatever_process_asks() {
    let hold = Hold::new("hold", Effect::Read, Idempotency::Natural);
    let journal = Arc::new(MemoryJournal::default());
    // A tool without history is expected to cost as much as its first attempt.
    let other = Hold::new("other", Effect::Read, Idempotency::Natural);
    let first = system(journal.clone(), vec![hold.clone(), other.clone()]).await;
    first.change_client("acme", credits(100)).await.unwrap();
    let chain = json!({"id": "p", "nodes": [
        {"id": "a", "tool": "hold"}, {"id": "b", "tool": "other", "deps": ["a"]},
    ]});
    let submission = Submission::plan(plan(&first, chain));
    let run = first.submit(Submission { client: "acme".into(), ..submission }).await.unwrap();
    hold.started().await;
    assert_eq!(row(&first, "acme").await.left, Some(0), "what runs holds what it is expected to cost");
    hold.go(1);
    // Each attempt costs at least one credit, so a second attempt is not affordable.
    let parked = until(&first, "acme", |row| row.parked && row.queued == 1).await;
    let spent = cost(&*journal, "acme", run);
    assert_eq!((parked.left, parked.running), (Some(100 - spent), 0));
    assert!(!other.has_started());
    first.shutdown().await;

    let second = system(journal.clone(), vec![hold, other.clone()]).await;
    second.resume_all().await.unwrap();
    let parked = until(&second, "acme", |row| row.parked && row.queued == 1).await;
    assert_eq!(parked.left, Some(100 - spent));
    second.change_client("acme", credits(1_000)).await.unwrap();
    other.started().await;
    other.go(1);
    assert_eq!(second.outcome(run).await.unwrap(), RunStatus::Succeeded);
    let spent = cost(&*journal, "acme", run);
    let row = until(&second, "acme", |row| row.running == 0).await;
    assert_eq!((row.left, row.spent as i64, row.parked), (Some(1_100 - spent), spent, false));
    let records = journal.read(StreamId::run(&"acme".into(), run), Seq(0), usize::MAX).unwrap();
    let told = records.iter().filter_map(|record| match record.event {
        Event::OutOfCredit { out } => Some(out),
        _ => None,
    });
    assert_eq!(told.collect::<Vec<_>>(), [true, false], "it is said once, whatever process it is");
    second.shutdown().await;
}

#[tokio::test]
async fn what_cannot_be_changed_is_refused_by_a_reason_and_changes_nothing() {
    let journal = Arc::new(MemoryJournal::default());
    let system = configured(journal.clone(), Vec::new(), 1).await;
    let served =
        |weight| ClientChange { weight: Some(weight), contracted: Some(true), ..ClientChange::default() };
    let chosen = |weight| served(Weight::Chosen(weight));
    let before = system.clients().await;
    let refused = [
        ("a b", credits(1), ClientError::Name("a b".into())),
        ("acme", chosen(0), ClientError::Weight(0)),
        ("acme", chosen(1_000_001), ClientError::Weight(1_000_001)),
        ("fixed", chosen(1), ClientError::Configured("fixed".into())),
        ("acme", credits(0), ClientError::Credits { client: "acme".into(), error: DepositError::Nothing }),
        (
            "acme",
            credits(-1),
            ClientError::Credits {
                client: "acme".into(),
                error: DepositError::TooFew { left: 0, credits: 1 },
            },
        ),
    ];
    for (client, change, expected) in refused {
        assert_eq!(system.change_client(client, change).await, Err(expected));
    }
    assert_eq!(system.clients().await, before);
    assert_eq!(journal.clients().unwrap(), []);
    // Configured values stay, also beside credits.
    system.change_client("fixed", credits(50)).await.unwrap();
    let fixed = row(&system, "fixed").await;
    assert_eq!((fixed.weight, fixed.tier, fixed.left), (7, ClientTier::Contracted, Some(50)));
    system.change_client("acme", served(Weight::OfCredits)).await.unwrap();
    system.change_client("acme", credits(2_500)).await.unwrap();
    let acme = row(&system, "acme").await;
    assert_eq!((acme.weight, &*acme.weight_from, acme.tier), (250, "credits", ClientTier::Contracted));
    system.shutdown().await;
}

#[tokio::test]
async fn what_a_change_leaves_out_stays_as_it_is() {
    let system = configured(Arc::new(MemoryJournal::default()), Vec::new(), 1).await;
    let terms = async |change: ClientChange| {
        system.change_client("acme", change).await.unwrap();
        let acme = row(&system, "acme").await;
        (acme.weight, acme.weight_from.to_string(), acme.tier == ClientTier::Contracted, acme.left)
    };
    let weight = |weight| ClientChange { weight: Some(weight), ..ClientChange::default() };
    let tier = |contracted| ClientChange { contracted: Some(contracted), ..ClientChange::default() };
    assert_eq!(terms(tier(true)).await, (100, "default".to_owned(), true, None));
    assert_eq!(terms(weight(Weight::Chosen(300))).await, (300, "chosen".to_owned(), true, None));
    assert_eq!(terms(credits(50)).await, (300, "chosen".to_owned(), true, Some(50)));
    assert_eq!(terms(tier(false)).await, (300, "chosen".to_owned(), false, Some(50)));
    assert_eq!(terms(weight(Weight::OfCredits)).await, (10, "credits".to_owned(), false, Some(50)));
    system.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_is_removed_when_nothing_uses_it_and_then_unmetered_also_in_the_next_process() {
    let (note, hold) = (Note::new(), Hold::new("hold", Effect::Read, Idempotency::Natural));
    let journal = Arc::new(MemoryJournal::default());
    let system = configured(journal.clone(), vec![note.clone(), hold.clone()], 1).await;
    let removed = async |client: &str| system.remove_client(client).await.map(|row| row.left);
    let unknown = |client: &str| Err(ClientError::Unknown(client.into()));
    assert_eq!(removed("acme").await, unknown("acme"));
    assert_eq!(removed("fixed").await, Err(ClientError::Configured("fixed".into())));
    system.change_client("acme", credits(1_000)).await.unwrap();
    let submission =
        Submission::plan(plan(&system, json!({"id": "p", "nodes": [{"id": "h", "tool": "hold"}]})));
    let run = system.submit(Submission { client: "acme".into(), ..submission }).await.unwrap();
    hold.started().await;
    assert_eq!(removed("acme").await, Err(ClientError::HasRun { client: "acme".into(), run }));
    assert_eq!(row(&system, "acme").await.deposited, Some(1_000), "nothing has changed");
    hold.go(1);
    system.outcome(run).await.unwrap();
    let left = until(&system, "acme", |row| row.running == 0).await.left;
    assert_eq!(removed("acme").await, Ok(left));
    assert_eq!(removed("acme").await, Err(ClientError::NoAccount("acme".into())));
    let is_default = |row: &ClientRow| {
        (row.left, row.parked, row.weight, &*row.weight_from) == (None, false, 100, "default")
    };
    assert!(is_default(&row(&system, "acme").await));

    // One that never ran is forgotten, and the credits of a configured one go without its terms.
    system.change_client("passing", credits(5)).await.unwrap();
    system.change_client("fixed", credits(5)).await.unwrap();
    assert_eq!((removed("passing").await, removed("fixed").await), (Ok(Some(5)), Ok(Some(5))));
    let names = async |system: &System| {
        let rows = system.clients().await.into_iter();
        rows.map(|row| (row.client.to_string(), row.left, row.weight)).collect::<Vec<_>>()
    };
    let both = vec![("acme".to_owned(), None, 100), ("fixed".to_owned(), None, 7)];
    assert_eq!(names(&system).await, both);

    // Whatever was left at a kill: it is removed here and there.
    let left = common::left_by(&journal);
    let next = configured(left, vec![note, hold], 1).await;
    assert_eq!(names(&next).await, both);
    next.change_client("acme", credits(50)).await.unwrap();
    let acme = row(&next, "acme").await;
    assert_eq!((acme.left, acme.spent), (Some(50), 0), "earlier costs stay free");
    let audits = next.audit().unwrap();
    assert!(audits.iter().all(|audit| audit.violations.is_empty()), "{audits:?}");
    assert_eq!(audits.len(), 1);
    next.shutdown().await;
    system.shutdown().await;
}

/// Logs its calls in order.
struct Note {
    spec: ToolSpec,
    calls: Mutex<Vec<String>>,
}

impl Note {
    fn new() -> Arc<Note> {
        let params = json!({"type": "object", "properties": {"who": {"type": "string"}}});
        let (name, version, description) = ("note".to_owned(), "1".to_owned(), "notes".to_owned());
        let spec = ToolSpec { name, version, description, params, result: json!({"type": "object"}) };
        Arc::new(Note { spec, calls: Mutex::default() })
    }
}

impl Tool for Note {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn class(&self, _: &Map<String, Value>) -> CallClass {
        CallClass { impact: 0, effect: Effect::Read, idem: Idempotency::Natural }
    }

    fn call(&self, permit: Permit, _: CallContext) -> BoxFuture<'_, ToolResult> {
        Box::pin(async move {
            self.calls.lock().unwrap().push(permit.params()["who"].as_str().unwrap().to_owned());
            Ok(json!({}))
        })
    }
}

/// A system with one configured client.
async fn configured(journal: Arc<dyn Journal>, tools: Vec<Arc<dyn Tool>>, slots: u32) -> System {
    let scope = Scope { tools: tools.iter().map(|tool| (tool.spec().name.clone(), None)).collect() };
    let config = SystemConfig {
        journal,
        artifacts: Arc::new(MemoryArtifacts::default()),
        output: Arc::new(MemoryOutput::default()),
        writes: Arc::new(WriteCounts::default()),
        tools,
        gate: GatePolicy {
            scopes: [("default".to_owned(), scope)].into(),
            ceiling: 2,
            ..GatePolicy::default()
        },
        slots,
        run_slots: 8,
        drain: Duration::from_secs(5),
        clients: vec![ClientConfig {
            name: "fixed".into(),
            weight: 7,
            contracted: true,
            tokens_per_minute: None,
        }],
        models: Default::default(),
        measures: Measures::default(),
        evaluation: Default::default(),
        planner: Arc::new(ostler_kernel::run::StaticPlanner),
        diagnoser: Arc::new(ostler_kernel::run::RuleDiagnoser),
    };
    System::start(config).await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_goes_on_with_the_debt_that_an_earlier_process_wrote_down() {
    let note = Note::new();
    let hold = Hold::new("hold", Effect::Read, Idempotency::Natural);
    let journal = Arc::new(MemoryJournal::default());
    // A run of an earlier process, after which client `debtor` was far ahead of the others.
    let run: RunId = "00000000-0000-7000-8000-000000000001".parse().unwrap();
    let opened = Event::RunOpened(Box::new(RunOpened {
        run,
        client: "debtor".into(),
        agent: run.to_string().as_str().into(),
        plan: canonical(&json!({"id": "p", "nodes": []})).unwrap(),
        intent: 1,
        scope: "default".into(),
        workspace: "/".into(),
        policy_epoch: 1,
        seed: 1,
    }));
    let failed = Outcome::Failed(Failure { category: FailureCategory::Crash, message: String::new() });
    let accounts = Some(Accounts { client_vruntime: 1 << 40, ..Accounts::default() });
    let ended = AttemptResult { accounts, cost: 9_000, ..AttemptResult::without_cost("n".into(), 1, failed) };
    let events =
        vec![opened, Event::AttemptResult(Box::new(ended)), Event::RunClosed { outcome: RunOutcome::Failed }];
    let stream = StreamId::run(&"debtor".into(), run);
    journal.append(vec![StreamBatch { stream, expected: Seq(0), at_ms: 1, events }]).unwrap();

    let system = configured(journal, vec![note.clone(), hold.clone()], 1).await;
    assert_eq!(row(&system, "debtor").await.spent, 9_000);
    let blocker = plan(&system, json!({"id": "p", "nodes": [{"id": "h", "tool": "hold"}]}));
    system.submit(Submission::plan(blocker)).await.unwrap();
    hold.started().await;
    let mut runs = Vec::new();
    for client in ["debtor", "other"] {
        let node = |at: usize| json!({"id": format!("n{at}"), "tool": "note", "params": {"who": client}});
        let nodes: Vec<Value> = (0..4).map(node).collect();
        let submission = Submission::plan(plan(&system, json!({"id": "p", "nodes": nodes})));
        runs.push(system.submit(Submission { client: client.into(), ..submission }).await.unwrap());
        until(&system, client, |row| row.queued == 4).await;
    }
    let lag = row(&system, "debtor").await.lag;
    assert_eq!(lag, -(1 << 40) * 100 / (1 << 16), "in credits");
    hold.go(1);
    for run in runs {
        assert_eq!(system.outcome(run).await.unwrap(), RunStatus::Succeeded);
    }
    let calls = note.calls.lock().unwrap().concat();
    assert_eq!(calls, ["other".repeat(4), "debtor".repeat(4)].concat());
    system.shutdown().await;
}

/// Logged steps of each run in the test below; all of them may be queued at once.
const NOTES: usize = 3;

#[tokio::test(flavor = "multi_thread")]
async fn of_one_client_the_older_run_goes_first() {
    let (note, hold) = (Note::new(), Hold::new("hold", Effect::Read, Idempotency::Natural));
    let system = configured(Arc::new(MemoryJournal::default()), vec![note.clone(), hold.clone()], 1).await;
    let blocker = plan(&system, json!({"id": "p", "nodes": [{"id": "h", "tool": "hold"}]}));
    system.submit(Submission::plan(blocker)).await.unwrap();
    hold.started().await;
    let mut runs = Vec::new();
    for (at, who) in ["a", "b", "c"].into_iter().enumerate() {
        // Later steps have a higher cost, which counts within a run only. All logged steps are queued before any
        // begins.
        let note = |step: usize| json!({"id": format!("n{step}"), "tool": "note", "params": {"who": who}});
        let then = |step: usize| {
            let deps = if step == 0 { vec!["n0".to_owned()] } else { vec![format!("t{}", step - 1)] };
            json!({"id": format!("t{step}"), "tool": "note", "params": {"who": ""}, "deps": deps})
        };
        let nodes: Vec<Value> = (0..NOTES).map(note).chain((0..=at).map(then)).collect();
        let submission = Submission::plan(plan(&system, json!({"id": "p", "nodes": nodes})));
        runs.push(system.submit(Submission { client: "acme".into(), ..submission }).await.unwrap());
        until(&system, "acme", |row| row.queued == (NOTES * (at + 1)) as u64).await;
        // The next run is opened later, by a clock that may be a millisecond behind.
        let opened = system.runs(false).unwrap().into_iter().map(|row| row.opened_ms).max().unwrap();
        let now_ms = || std::time::UNIX_EPOCH.elapsed().unwrap().as_millis() as i64;
        common::until(async || now_ms() > opened + 1).await;
    }
    hold.go(1);
    for run in runs {
        assert_eq!(system.outcome(run).await.unwrap(), RunStatus::Succeeded);
    }
    let calls = note.calls.lock().unwrap().concat();
    assert_eq!(calls, ["a", "b", "c"].map(|who| who.repeat(NOTES)).concat());
    system.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_attempt_of_a_client_without_metering_holds_only_its_expected_charge() {
    let (note, hold) = (Note::new(), Hold::new("hold", Effect::Read, Idempotency::Natural));
    let system = configured(Arc::new(MemoryJournal::default()), vec![note, hold.clone()], 1).await;
    let plan = plan(&system, json!({"id": "p", "nodes": [{"id": "h", "tool": "hold"}]}));
    let run = Submission { client: "acme".into(), ..Submission::plan(plan) };
    system.submit(run).await.unwrap();
    hold.started().await;
    assert_eq!(row(&system, "acme").await.reserved, 1, "nothing is known of it yet");
    hold.go(1);
    system.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nodes_for_which_the_run_queue_has_no_room_wait_and_then_run() {
    let limits = Limits { queued_jobs: 2, ..Limits::default() };
    let hold = Hold::new("hold", Effect::Read, Idempotency::Natural);
    let system = within(Arc::new(MemoryJournal::default()), vec![hold.clone()], limits).await;
    let node = |at: usize| json!({"id": format!("n{at}"), "tool": "hold"});
    let nodes: Vec<Value> = (0..7).map(node).collect();
    let plan = plan(&system, json!({"id": "p", "nodes": nodes}));
    let run = system.submit(Submission::plan(plan)).await.unwrap();
    for _ in 0..2 {
        hold.started().await;
    }
    assert_eq!(system.queue().await.unwrap().running, 2, "though there are slots for more");
    hold.go(7);
    let outcome = tokio::time::timeout(PATIENCE, system.outcome(run)).await.expect("nothing is forgotten");
    assert_eq!(outcome.unwrap(), RunStatus::Succeeded);
    system.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_runs_are_worth_bends_the_weight_of_their_client_and_outlives_the_process() {
    let journal = Arc::new(MemoryJournal::default());
    let first = system(journal.clone(), Vec::new()).await;
    // `good` renders its output; every result of `bad` breaks the contract.
    for (client, contract) in [("good", json!([])), ("bad", json!([{"method": "schema", "spec": false}]))] {
        let params = json!({"template": "x", "values": {}});
        let mut node = json!({"id": "n", "tool": "text.render", "params": params, "retries": 0});
        if contract != json!([]) {
            node["contract"] = contract;
        }
        for _ in 0..3 {
            let submission = Submission::plan(plan(&first, json!({"id": "p", "nodes": [node]})));
            let run = first.submit(Submission { client: client.into(), ..submission }).await.unwrap();
            first.outcome(run).await.unwrap();
        }
    }
    let good = until(&first, "good", |row| row.weight_served == 125).await;
    assert_eq!((good.reputation_pm, good.weight), (Some(1_000), 100));
    // Only speed scores, and nothing was revised: 250 of 750.
    let bad = until(&first, "bad", |row| row.weight_served < 100).await;
    assert_eq!((bad.reputation_pm, bad.weight_served), (Some(333), 91));
    first.shutdown().await;
    let second = system(journal, Vec::new()).await;
    assert_eq!(row(&second, "good").await.reputation_pm, Some(1_000));
    assert_eq!(row(&second, "bad").await.reputation_pm, Some(333));
    second.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_stopped_is_paid_for_by_the_records_too() {
    let hold = Hold::new("hold", Effect::Read, Idempotency::Natural);
    let journal = Arc::new(MemoryJournal::default());
    let system = system(journal.clone(), vec![hold.clone()]).await;
    system.change_client("acme", credits(1_000)).await.unwrap();
    let submission =
        Submission::plan(plan(&system, json!({"id": "p", "nodes": [{"id": "h", "tool": "hold"}]})));
    let run = system.submit(Submission { client: "acme".into(), ..submission }).await.unwrap();
    hold.started().await;
    system.cancel(run).await.unwrap();
    assert_eq!(system.outcome(run).await.unwrap(), RunStatus::Cancelled);
    let paid = cost(&*journal, "acme", run);
    assert!(paid > 0);
    assert_eq!(row(&system, "acme").await.left, Some(1_000 - paid));
    system.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn credits_are_taken_from_the_first_deposit_on() {
    let system = system(Arc::new(MemoryJournal::default()), Vec::new()).await;
    let render = json!({"id": "n", "tool": "text.render", "params": {"template": "x", "values": {}}});
    let run = async || {
        let submission = Submission::plan(plan(&system, json!({"id": "p", "nodes": [render.clone()]})));
        let run = system.submit(Submission { client: "acme".into(), ..submission }).await.unwrap();
        system.outcome(run).await.unwrap();
        until(&system, "acme", |row| row.running == 0).await.spent as i64
    };
    let free = run().await;
    assert!(free > 0, "what is told of a client that is not metered is all that its attempts cost");
    system.change_client("acme", credits(500)).await.unwrap();
    let metered = row(&system, "acme").await;
    assert_eq!((metered.left, metered.spent), (Some(500), 0), "and of one that is, what it pays for");
    let spent = run().await;
    assert_eq!(row(&system, "acme").await.left, Some(500 - spent));
    system.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn attempts_that_died_with_their_process_are_done_again_one_by_one_where_the_queue_is_small() {
    let hold = Hold::new("hold", Effect::Read, Idempotency::Natural);
    let journal = Arc::new(MemoryJournal::default());
    let first = system(journal.clone(), vec![hold.clone()]).await;
    let node = |at: usize| json!({"id": format!("n{at}"), "tool": "hold"});
    let nodes: Vec<Value> = (0..3).map(node).collect();
    let submission = Submission::plan(plan(&first, json!({"id": "p", "nodes": nodes})));
    let run = first.submit(submission).await.unwrap();
    for _ in 0..3 {
        hold.started().await;
    }
    let left = common::left_by(&journal);
    let limits = Limits { queued_jobs: 1, ..Limits::default() };
    let again = Hold::new("hold", Effect::Read, Idempotency::Natural);
    let second = within(left, vec![again.clone()], limits).await;
    second.resume_all().await.unwrap();
    for _ in 0..3 {
        again.started().await;
        again.go(1);
    }
    let outcome = tokio::time::timeout(PATIENCE, second.outcome(run)).await.expect("none is forgotten");
    assert_eq!(outcome.unwrap(), RunStatus::Succeeded);
    second.shutdown().await;
    first.shutdown().await;
}

/// Stopping and resuming again and again is not free.
#[tokio::test(start_paused = true)]
async fn an_attempt_that_ends_with_its_process_is_charged_and_runs_again() {
    let hold = Hold::new("hold", Effect::Read, Idempotency::Natural);
    let journal = Arc::new(MemoryJournal::default());
    let first = system(journal.clone(), vec![hold.clone()]).await;
    first.change_client("acme", credits(1_000)).await.unwrap();
    let submission =
        Submission::plan(plan(&first, json!({"id": "p", "nodes": [{"id": "n", "tool": "hold"}]})));
    let run = first.submit(Submission { client: "acme".into(), ..submission }).await.unwrap();
    hold.started().await;
    tokio::time::sleep(Duration::from_millis(400)).await;
    first.shutdown().await;
    let second = system(journal.clone(), vec![hold.clone()]).await;
    let left = row(&second, "acme").await.left.unwrap();
    assert!((590..=600).contains(&left), "{left}");
    second.resume_all().await.unwrap();
    hold.started().await;
    tokio::time::sleep(Duration::from_millis(300)).await;
    second.shutdown().await;
    let third = system(journal.clone(), vec![hold.clone()]).await;
    let left = row(&third, "acme").await.left.unwrap();
    assert!((280..=300).contains(&left), "{left}");
    assert_eq!(cost(&*journal, "acme", run), 1_000 - left);
    assert!(third.audit().unwrap().iter().all(|audit| audit.violations.is_empty()));
    third.resume_all().await.unwrap();
    hold.started().await;
    hold.go(1);
    assert_eq!(third.outcome(run).await.unwrap(), RunStatus::Succeeded);
}
