//! Contract rules that a model or a person judges.
#![allow(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

mod common;

use std::sync::Arc;

use common::{plan, states, submit, system};
use ostler_actors::{Answer, Submission, System};
use ostler_drivers::model::{Models, ModelsConfig};
use ostler_kernel::event::{Event, HumanRequestKind, Outcome, ResultJudged};
use ostler_kernel::id::RunId;
use ostler_kernel::port::{Journal, ModelCall, Seq, StreamId};
use ostler_kernel::run::RunStatus;
use ostler_store::MemoryJournal;
use serde_json::{Value, json};

/// A system with the scripted models `default` and `other`, which answer by the same script.
struct World {
    system: System,
    journal: Arc<MemoryJournal>,
}

impl World {
    async fn new(script: &str) -> World {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("script.yaml"), script).unwrap();
        let scripted = json!({"provider": "scripted", "file": "script.yaml"});
        let config = json!({"models": {"default": scripted, "other": scripted}});
        let config: ModelsConfig = serde_json::from_value(config).unwrap();
        let tools = Models::new(&config, folder.path(), &|_| None).unwrap().tools();
        let journal = Arc::new(MemoryJournal::default());
        World { system: system(journal.clone(), tools).await, journal }
    }

    fn records(&self, run: RunId) -> Vec<Event> {
        let client = self.journal.run(run).unwrap().unwrap().client;
        let records = self.journal.read(StreamId::run(&client, run), Seq(0), usize::MAX).unwrap();
        records.into_iter().map(|record| record.event).collect()
    }

    /// Categories and messages of the failed attempts.
    fn failures(&self, run: RunId) -> Vec<String> {
        let failed = |event| match event {
            Event::AttemptResult(result) => match result.outcome {
                Outcome::Failed(failure) => Some(format!("{}: {}", failure.category, failure.message)),
                Outcome::Ok(_) => None,
            },
            _ => None,
        };
        self.records(run).into_iter().filter_map(failed).collect()
    }

    /// Attempt and model of the recorded calls, and their tokens.
    fn calls(&self, run: RunId) -> Vec<(u32, String, u64)> {
        let called = |event| match event {
            Event::ModelCalled { attempt, call, .. } => {
                let ModelCall { model, input_tokens, output_tokens, .. } = *call;
                Some((attempt, model, input_tokens + output_tokens))
            }
            _ => None,
        };
        self.records(run).into_iter().filter_map(called).collect()
    }
}

/// A node that renders `hello`, with this contract.
fn rendered(contract: Value) -> Value {
    let params = json!({"template": "{{ v }}", "values": {"v": "hello"}});
    json!({"id": "p", "policy": {"backoff_base": 0}, "nodes": [
        {"id": "a", "tool": "text.render", "params": params, "retries": 1, "human_timeout": "1h", "contract": contract},
    ]})
}

fn asks(spec: Value) -> Value {
    rendered(json!([{"method": "model", "p": 0.9, "spec": spec}]))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_result_counts_if_the_model_says_that_it_holds() {
    let script = r#"
rules:
  - when: {role: judge, node: a, contains: "[result]\n{\"text\":\"hello\"}\n[end of result]"}
    answer: {holds: true, why: fine}
    tokens: {input: 7, output: 3}
"#;
    let world = World::new(script).await;
    let run = submit(&world.system, asks(json!({"ask": "Is it polite?", "model": "other"}))).await;
    assert_eq!(world.system.outcome(run).await.unwrap(), RunStatus::Succeeded, "{:?}", world.failures(run));
    assert_eq!(world.calls(run), [(1, "other".to_owned(), 10)], "the attempt pays for the call");
    world.system.shutdown().await;
}

/// Rule, model, precision, verdict and reason of each recorded verdict, with the tokens of the call in the record before it.
fn verdicts(records: &[Event]) -> Vec<String> {
    let judged = records.windows(2).filter_map(|pair| match pair {
        [Event::ModelCalled { node, attempt, call }, Event::ResultJudged(judged)] => {
            assert_eq!((node, *attempt), (&judged.node, judged.attempt), "the call is that of the attempt");
            let ResultJudged { rule, model, precision, holds, why, .. } = &**judged;
            Some(format!(
                "{attempt}: contract[{rule}] {model} {precision:?} {holds} {why:?}, {}",
                call.input_tokens
            ))
        }
        _ => None,
    });
    judged.collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn each_verdict_has_a_record_behind_that_of_its_call() {
    let script = r#"
rules:
  - when: {role: judge, contains: "Is it long?", ordinal: 1}
    answer: {holds: false, why: " one word "}
    tokens: {input: 8, output: 3}
  - when: {role: judge, contains: "Is it long?"}
    answer: {holds: true, why: ""}
    tokens: {input: 9, output: 3}
  - when: {role: judge}
    answer: {holds: true, why: fine}
    tokens: {input: 7, output: 3}
  - when: {node: a}
    text: hello
    tokens: {input: 5, output: 1}
"#;
    let world = World::new(script).await;
    let contract = json!([
        {"method": "schema"},
        {"method": "model", "p": 0.9, "spec": {"ask": "Is it polite?", "model": "other"}},
        {"method": "model", "spec": "Is it long?"},
    ]);
    let node = json!({"id": "a", "model": "default", "params": {"prompt": "Write."}, "retries": 1, "contract": contract});
    let run = submit(&world.system, json!({"id": "p", "policy": {"backoff_base": 0}, "nodes": [node]})).await;
    assert_eq!(world.system.outcome(run).await.unwrap(), RunStatus::Succeeded, "{:?}", world.failures(run));
    let records = world.records(run);
    let expected = [
        r#"1: contract[1] other Some(0.9) true "fine", 7"#,
        r#"1: contract[2] default None false "one word", 8"#,
        r#"2: contract[1] other Some(0.9) true "fine", 7"#,
        r#"2: contract[2] default None true "", 9"#,
    ];
    assert_eq!(verdicts(&records), expected);
    let view = world.system.view(run, None).await.unwrap();
    let shown: Vec<(u32, u32)> =
        view.figures.judged["a"].iter().map(|judged| (judged.verdict.attempt, judged.verdict.rule)).collect();
    assert_eq!(shown, [(2, 1), (2, 2)], "verdicts on the last attempt");
    world.system.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_result_that_does_not_hold_fails_with_the_reason_and_is_tried_again() {
    let script =
        "roles: {judge: [{answer: {holds: false, why: no greeting}}, {answer: {holds: true, why: fine}}]}";
    let world = World::new(script).await;
    let run = submit(&world.system, asks(json!("Is it polite?"))).await;
    assert_eq!(world.system.outcome(run).await.unwrap(), RunStatus::Succeeded);
    let told = "invalid_output: contract[0]: model default judges that it does not hold: no greeting";
    assert_eq!(world.failures(run), [told]);
    assert_eq!(world.calls(run).iter().map(|call| call.0).collect::<Vec<_>>(), [1, 2]);
    world.system.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_model_that_wrote_a_refused_answer_is_told_why() {
    let script = r#"
rules:
  - when: {role: judge, ordinal: 1}
    answer: {holds: false, why: no greeting}
  - when: {role: judge}
    answer: {holds: true, why: fine}
  - when: {node: a, contains: no greeting}
    text: Dear reader
  - when: {node: a}
    text: Reader
"#;
    let world = World::new(script).await;
    let contract = json!([{"method": "model", "spec": "Is it polite?"}]);
    let node = json!({"id": "a", "model": "default", "params": {"prompt": "Write."}, "retries": 1, "contract": contract});
    let run = submit(&world.system, json!({"id": "p", "policy": {"backoff_base": 0}, "nodes": [node]})).await;
    assert_eq!(world.system.outcome(run).await.unwrap(), RunStatus::Succeeded, "{:?}", world.failures(run));
    assert_eq!(common::value(&world.system, run, "a").await, json!({"text": "Dear reader"}));
    world.system.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_judging_call_that_fails_keeps_its_category() {
    for (script, spec, told) in [
        (
            "roles: {judge: [{fail: overloaded, message: busy, repeat: true}]}",
            json!("?"),
            "transient: contract[0]: the judging call failed: model default: overloaded: busy",
        ),
        (
            "roles: {judge: [{text: it is fine, repeat: true}]}",
            json!("?"),
            "invalid_output: contract[0]: the judging call failed: the answer is not JSON",
        ),
        (
            "roles: {judge: [{answer: {fine: true}, repeat: true}]}",
            json!("?"),
            "invalid_output: contract[0]: model default gives no verdict {holds, why}",
        ),
        (
            "{}",
            json!({"ask": "?", "model": "big"}),
            "structural: contract[0]: the model big is not configured; add [models.big], or name another model",
        ),
    ] {
        let world = World::new(script).await;
        let run = submit(&world.system, asks(spec)).await;
        assert_eq!(world.system.outcome(run).await.unwrap(), RunStatus::Failed, "{script}");
        let failures = world.failures(run);
        assert!(failures.last().unwrap().starts_with(told), "{failures:?}");
        world.system.shutdown().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_model_outside_of_the_scope_may_not_judge() {
    let world = World::new("roles: {judge: [{answer: {holds: true, why: fine}}]}").await;
    let submission = Submission::plan(plan(&world.system, asks(json!("?"))));
    let submission = Submission { scope: "without_models".to_owned(), ..submission };
    let run = world.system.submit(submission).await.unwrap();
    assert_eq!(world.system.outcome(run).await.unwrap(), RunStatus::Failed);
    let failures = world.failures(run);
    assert!(
        failures[0].starts_with("gate_denied: contract[0]: model.default may not judge the result: "),
        "{failures:?}"
    );
    assert_eq!(world.calls(run), []);
    world.system.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_person_is_asked_the_question_of_the_contract_once_the_other_rules_hold() {
    let world = World::new(
        "roles: {judge: [{answer: {holds: false, why: rude}}, {answer: {holds: true, why: fine}}]}",
    )
    .await;
    let rules = json!([
        {"method": "human", "spec": {"ask": "Is it polite?"}},
        {"method": "model", "spec": "Is it short?"},
    ]);
    for (answer, end) in [(Answer::approve(), RunStatus::Succeeded), (Answer::reject(), RunStatus::Failed)] {
        let run = submit(&world.system, rendered(rules.clone())).await;
        assert_eq!(world.system.outcome(run).await.unwrap(), RunStatus::Waiting, "{:?}", world.failures(run));
        let asked = world.system.approvals(run).await.unwrap().remove(0);
        assert_eq!(
            (asked.shown.ask, asked.shown.questions),
            (HumanRequestKind::After, vec!["Is it polite?".to_owned()])
        );
        assert!(asked.result.is_some() && asked.deadline.is_some());
        world.system.answer(&asked.id, asked.digest.unwrap(), answer.by("ann")).await.unwrap();
        assert_eq!(world.system.outcome(run).await.unwrap(), end, "{}", states(&world.system, run).await);
        assert_eq!(world.failures(run).len(), 1, "nobody is asked about a rude result");
        let answers = world.records(run).into_iter().filter(|event| matches!(event, Event::HumanAnswer(_)));
        assert_eq!(answers.count(), 1);
    }
    world.system.shutdown().await;
}
