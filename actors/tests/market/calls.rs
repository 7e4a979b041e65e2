//! Contracts set aside the tokens and the money of a job's calls, and the records of calls add up.

use std::collections::BTreeMap;
use std::path::Path;

use ostler_actors::CallViolation;
use ostler_drivers::model::{ModelConfig, Models, ModelsConfig};
use ostler_kernel::ledger::{Amount, Amounts, CreditError};
use ostler_kernel::port::{Position, StreamBatch};
use ostler_kernel::run::RunStatus;

use super::kept::up_to;
use super::*;

/// Answers of 100 tokens after 200 tokens of input, whatever is asked.
const SCRIPT: &str = "rules:\n  - when: {}\n    text: done\n    tokens: {input: 200, output: 100}\n";

fn model(folder: &Path) -> Vec<Arc<dyn Tool>> {
    std::fs::write(folder.join("script.yaml"), SCRIPT).unwrap();
    let models = BTreeMap::from([("default".to_owned(), ModelConfig::scripted("script.yaml"))]);
    Models::new(&ModelsConfig { models, ..ModelsConfig::default() }, folder, &|_| None).unwrap().tools()
}

fn with_tokens(tokens: u64, nodes: Value) -> Value {
    json!({"id": "p", "policy": {"tokens": tokens}, "nodes": nodes})
}

/// A call of 300 tokens once a person agrees.
fn asks_and_calls(tokens: u64) -> Value {
    with_tokens(
        tokens,
        json!([
            {"id": "first", "model": "default", "params": {"prompt": "word ".repeat(160), "max_output_tokens": 300}},
            {"id": "ok", "kind": "human_approval", "human_timeout": "9h", "deps": ["first"]},
            {"id": "second", "model": "default", "deps": ["ok"],
                "params": {"prompt": "word ".repeat(160), "max_output_tokens": 300}},
        ]),
    )
}

fn call() -> Value {
    json!({"id": "p", "nodes": [{"id": "n", "model": "default", "retries": 0, "patches": 0,
        "params": {"prompt": "word ".repeat(160), "max_output_tokens": 300}}]})
}

async fn deposit_tokens(system: &System, tokens: i64) {
    let change = ClientChange { tokens: Some(tokens), ..ClientChange::default() };
    system.change_client("acme", change).await.unwrap();
}

/// Free, set aside and used tokens.
async fn tokens(system: &System) -> (i64, u64, u64) {
    let row = system.clients().await.remove(0).tokens.unwrap();
    (row.left - row.for_jobs as i64, row.for_jobs, row.spent)
}

async fn asked(system: &System) -> ostler_actors::Approval {
    until(async || system.all_approvals().await.unwrap().approvals.len() == 1).await;
    system.all_approvals().await.unwrap().approvals.remove(0)
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_contract_sets_aside_pays_for_its_calls_and_for_no_others() {
    let folder = tempfile::tempdir().unwrap();
    let journal = Arc::new(MemoryJournal::default());
    let first = system(journal.clone(), model(folder.path())).await;
    deposit_tokens(&first, 2_000).await;
    offers(&first, "a", 5).await;
    let beyond = first.post(job(500, asks_and_calls(2_001))).await.unwrap_err();
    let error = CreditError::BeyondCalls { left: Amount::Tokens(2_000), wanted: Amount::Tokens(2_001) };
    assert!(matches!(&beyond, MarketError::Credits(found) if *found == error), "{beyond:?}");
    assert_eq!(error.to_string(), "2001 tokens cannot be reserved: 2000 tokens are free");

    let posted = first.post(job(500, asks_and_calls(1_800))).await.unwrap();
    asked(&first).await;
    // The first call came out of the contract.
    assert_eq!(tokens(&first).await, (200, 1_500, 300));
    let withdrawal = ClientChange { tokens: Some(-201), ..ClientChange::default() };
    assert!(first.change_client("acme", withdrawal).await.is_err(), "what is set aside cannot be withdrawn");
    let plan = common::plan(&first, call());
    let other = Submission { client: "acme".into(), intent: 2, ..Submission::plan(plan) };
    let other = first.submit(other).await.unwrap();
    until(async || first.approvals(other).await.unwrap().len() == 1).await;
    let question = first.approvals(other).await.unwrap().remove(0);
    let short = question.shortfall.as_ref().unwrap();
    assert_eq!((short.of_client, short.left.tokens), (true, Some(200)), "{short:?}");

    // The next process knows the same.
    let left = up_to(&journal, Position(u64::MAX));
    let second = system(left, model(folder.path())).await;
    assert_eq!(tokens(&second).await, (200, 1_500, 300), "after a restart");
    assert_eq!(second.audit_calls().unwrap().remove(0).violations, []);
    second.resume_all().await.unwrap();
    until(async || second.all_approvals().await.unwrap().approvals.len() == 2).await;
    let open = second.all_approvals().await.unwrap().approvals;
    let of_job = open.iter().find(|row| row.id.run == posted).unwrap();
    second.answer(&of_job.id, of_job.digest.unwrap(), Answer::approve()).await.unwrap();
    assert_eq!(over(&second, posted).await.outcome.as_deref(), Some("succeeded"));
    // What the job has not used is free again, and the other run goes on.
    assert_eq!(tokens(&second).await, (1_400, 0, 600));
    let question = second.approvals(other).await.unwrap().remove(0);
    second.answer(&question.id, question.digest.unwrap(), Answer::approve()).await.unwrap();
    assert_eq!(second.outcome(other).await.unwrap(), RunStatus::Succeeded);
    assert_eq!(tokens(&second).await, (1_100, 0, 900));
    let audit = second.audit_calls().unwrap().remove(0);
    assert_eq!((audit.used.tokens, audit.aside, audit.violations), (900, Amounts::default(), vec![]));
}

#[tokio::test]
async fn calls_that_do_not_add_up_are_told() {
    let folder = tempfile::tempdir().unwrap();
    let journal = Arc::new(MemoryJournal::default());
    let first = system(journal.clone(), model(folder.path())).await;
    deposit_tokens(&first, 5_000).await;
    offers(&first, "a", 5).await;
    let nodes = call()["nodes"].clone();
    let posted = first.post(job(500, with_tokens(1_000, nodes))).await.unwrap();
    over(&first, posted).await;
    first.shutdown().await;
    let whole = up_to(&journal, Position(u64::MAX));
    let acme = "acme".into();
    let change = |event: &mut Event, with: u8| match (event, with) {
        (Event::CallReserved(call), 0) => call.amounts.tokens = 1_001,
        (Event::CallSettled(call), 1) => call.reserved.tokens += 1,
        (Event::CallSettled(call), 2) => call.call ^= 1,
        _ => {}
    };
    for with in 0..3 {
        let left = Arc::new(MemoryJournal::default());
        for stream in
            [StreamId::client(&acme), StreamId::run(&acme, posted), StreamId::attempts(&acme, posted)]
        {
            for record in whole.read(stream, Seq(0), usize::MAX).unwrap() {
                let mut event = record.event;
                change(&mut event, with);
                let (expected, events) = (Seq(record.seq.0 - 1), vec![event]);
                left.append(vec![StreamBatch { stream, expected, at_ms: record.at_ms, events }]).unwrap();
            }
        }
        let second = system(left, model(folder.path())).await;
        let found = second.audit_calls().unwrap().remove(0).violations;
        let is_expected = |one: &CallViolation| match with {
            0 => matches!(one, CallViolation::Beyond { account, .. } if *account == posted),
            1 => matches!(one, CallViolation::Freed { run, .. } if *run == posted),
            _ => matches!(one, CallViolation::Unreserved { run, .. } if *run == posted),
        };
        assert!(found.iter().any(is_expected), "{with}: {found:?}");
        second.shutdown().await;
    }
}
