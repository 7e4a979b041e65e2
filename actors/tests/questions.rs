//! Questions to people: their content, and their delivery in every state.
#![allow(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

mod common;

use std::path::Path;
use std::sync::{Arc, Mutex};

use common::{Hold, left_by, states, submit, system, until, within};
use ostler_actors::{Answer, Approval, Limits, RunError, System};
use ostler_kernel::event::{Event, HumanRequest};
use ostler_kernel::gate::{CallClass, Permit};
use ostler_kernel::id::{Digest, RunId};
use ostler_kernel::plan::{Effect, Idempotency};
use ostler_kernel::port::{
    BoxFuture, CallContext, Journal, NamedFile, RunRowStatus, Seq, StreamBatch, StreamId, Tool, ToolResult,
    ToolSpec,
};
use ostler_kernel::run::{AnswerError, ApprovalTest, NodeState, RunStatus};
use ostler_store::MemoryJournal;
use serde_json::{Map, Value, json};
use tokio::sync::watch;

fn tested(argv: &[&str]) -> Value {
    let contract = json!([{"method": "schema"}, {"method": "test", "p": 1, "spec": {"argv": argv}}]);
    let act = json!({"id": "act", "tool": "act", "approval": "before", "human_timeout": "1h", "contract": contract});
    json!({"id": "p", "nodes": [act]})
}

#[tokio::test(flavor = "multi_thread")]
async fn a_question_shows_the_tests_that_run_with_the_action_and_a_yes_is_for_them_too() {
    let act = Hold::new("act", Effect::Write, Idempotency::Natural);
    let system = system(Arc::new(MemoryJournal::default()), vec![act.clone()]).await;
    let mut digests = Vec::new();
    for (argv, effect, impact) in [
        (["make", "a"], Effect::External, 2),
        (["make", "b"], Effect::External, 2),
        (["ls", "a"], Effect::Read, 0),
    ] {
        let run = submit(&system, tested(&argv)).await;
        assert_eq!(system.outcome(run).await.unwrap(), RunStatus::Waiting);
        let asked = system.approvals(run).await.unwrap().remove(0);
        let shown = ApprovalTest { argv: argv.map(str::to_owned).to_vec(), effect, impact };
        assert_eq!((asked.shown.tests, asked.shown.refusal, asked.is_outdated), (vec![shown], None, false));
        assert_eq!(asked.shown.impact, 1, "the action alone");
        assert!(asked.shown.workspace.is_some(), "a program runs in a folder");
        digests.push(asked.digest.unwrap());
    }
    digests.dedup();
    assert_eq!(digests.len(), 3, "another test is another question");
    system.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_question_about_an_aggregator_shows_what_it_makes_a_text_of_and_a_yes_is_for_that() {
    let system = system(Arc::new(MemoryJournal::default()), Vec::new()).await;
    let mut digests = Vec::new();
    for (text, template) in [("{{ a.state }}", "x"), ("{{ a.state }}", "y"), ("{{ b.state }}", "x")] {
        let render = |id: &str, text: &str| json!({"id": id, "tool": "text.render", "params": {"template": "{{ t }}", "values": {"t": text}}});
        let report = json!({"id": "report", "kind": "aggregator", "approval": "before", "human_timeout": "1h",
            "deps": ["a", "b"], "param_refs": {"template": {"from": "a", "path": "text"}}});
        let run =
            submit(&system, json!({"id": "p", "nodes": [render("a", text), render("b", template), report]}))
                .await;
        assert_eq!(system.outcome(run).await.unwrap(), RunStatus::Waiting);
        let asked = system.approvals(run).await.unwrap().remove(0);
        let view = system.view(run, None).await.unwrap();
        let fate = |node: &str| {
            let output = view.run.instance(&node.into()).unwrap().output.clone().unwrap();
            json!({"state": "executed", "result": output.artifact.to_string(), "error": ""})
        };
        let expected = json!({"template": text, "values": {"a": fate("a"), "b": fate("b")}});
        assert_eq!((Value::Object(asked.shown.params), asked.is_outdated), (expected, false));
        system.answer(&asked.id, asked.digest.unwrap(), Answer::approve()).await.unwrap();
        assert_eq!(system.outcome(run).await.unwrap(), RunStatus::Succeeded);
        digests.extend(asked.digest);
    }
    digests.sort();
    digests.dedup();
    assert_eq!(digests.len(), 3, "another template or another result is another question");
    system.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_test_that_acts_is_not_run_twice_in_silence() {
    let look = Hold::new("look", Effect::Read, Idempotency::Natural);
    let shell = Hold::new("shell.run", Effect::External, Idempotency::None);
    let journal = Arc::new(MemoryJournal::default());
    let first = system(journal.clone(), vec![look.clone(), shell.clone()]).await;
    let contract = json!([{"method": "test", "p": 1, "spec": {"argv": ["make", "deploy"]}}]);
    let nodes = json!([{"id": "n", "tool": "look", "contract": contract}]);
    let run = submit(&first, json!({"id": "p", "nodes": nodes})).await;
    look.started().await;
    look.go(1);
    shell.started().await;
    let left = left_by(&journal);
    shell.go(1);
    first.shutdown().await;

    let second = system(left, vec![look, shell.clone()]).await;
    second.resume_all().await.unwrap();
    assert_eq!(second.outcome(run).await.unwrap(), RunStatus::Waiting);
    let view = second.view(run, None).await.unwrap();
    assert_eq!(view.run.instance(&"n".into()).unwrap().reason.as_ref().unwrap().to_string(), "in_doubt");
    second.shutdown().await;
    assert!(!shell.has_started());
}

/// A result stored beside the journal, and two nodes that need it: one asks, one acts.
fn needs_much() -> Value {
    let long = "x".repeat(5_000);
    json!({"id": "p", "outputs": ["ask", "use"], "nodes": [
        {"id": "much", "tool": "text.render", "params": {"template": long, "values": {}}},
        {"id": "ask", "kind": "human_approval", "param_refs": {"text": {"from": "much", "path": "text"}},
         "human_timeout": "1h"},
        {"id": "hold", "tool": "hold"},
        {"id": "use", "tool": "text.render", "params": {"values": {}}, "deps": ["hold"],
         "param_refs": {"template": {"from": "much", "path": "text"}}},
    ]})
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_whose_results_are_gone_hides_no_other_says_what_is_wrong_and_can_be_cancelled() {
    let hold = Hold::new("hold", Effect::Read, Idempotency::Natural);
    let journal = Arc::new(MemoryJournal::default());
    let first = system(journal.clone(), vec![hold.clone()]).await;
    let broken = submit(&first, needs_much()).await;
    let question = json!({"id": "ask", "kind": "human_approval", "human_timeout": "1h"});
    let sound = submit(&first, json!({"id": "q", "nodes": [question]})).await;
    assert_eq!(first.outcome(sound).await.unwrap(), RunStatus::Waiting);
    hold.started().await;
    until(async || !first.approvals(broken).await.unwrap().is_empty()).await;
    let left = left_by(&journal);
    hold.go(1);
    first.shutdown().await;

    // Only the journal is left.
    hold.go(1);
    let second = system(left, vec![hold]).await;
    let runs = |asked: &[ostler_actors::Approval]| asked.iter().map(|asked| asked.id.run).collect::<Vec<_>>();
    let asked = second.all_approvals().await.unwrap().approvals;
    assert_eq!(runs(&asked), [broken, sound]);
    let why = asked[0].shown.refusal.clone().unwrap();
    assert!(why.starts_with("the result of much cannot be read: no artifact "), "{why}");
    second.resume_all().await.unwrap();
    assert_eq!(second.outcome(broken).await.unwrap(), RunStatus::Waiting);
    let view = second.view(broken, None).await.unwrap();
    let used = view.run.instance(&"use".into()).unwrap();
    assert_eq!(used.state(), NodeState::Failed);
    assert!(used.failure.as_ref().unwrap().message.starts_with("the result of much cannot be read"));
    second.cancel(broken).await.unwrap();
    assert_eq!(second.outcome(broken).await.unwrap(), RunStatus::Cancelled);
    let asked = second.approvals(sound).await.unwrap().remove(0);
    second.answer(&asked.id, asked.digest.unwrap(), Answer::approve()).await.unwrap();
    assert_eq!(second.outcome(sound).await.unwrap(), RunStatus::Succeeded);
    assert_eq!(states(&second, sound).await, "ask executed");
    second.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_whose_records_do_not_fit_hides_no_other_and_is_set_aside() {
    let journal = Arc::new(MemoryJournal::default());
    let first = system(journal.clone(), Vec::new()).await;
    let question =
        json!({"id": "q", "nodes": [{"id": "ask", "kind": "human_approval", "human_timeout": "1h"}]});
    let mut runs = Vec::new();
    for _ in 0..2 {
        let run = submit(&first, question.clone()).await;
        assert_eq!(first.outcome(run).await.unwrap(), RunStatus::Waiting);
        runs.push(run);
    }
    let [broken, sound] = [runs[0], runs[1]];
    first.shutdown().await;
    let left = left_by(&journal);
    let stream = StreamId::run(&left.run(broken).unwrap().unwrap().client, broken);
    let expected = left.read(stream, Seq(0), usize::MAX).unwrap().last().unwrap().seq;
    let events = vec![Event::Draining { node: "nobody".into() }];
    left.append(vec![StreamBatch { stream, expected, at_ms: 0, events }]).unwrap();

    let second = system(left, Vec::new()).await;
    let all = second.all_approvals().await.unwrap();
    assert_eq!(all.approvals.iter().map(|asked| asked.id.run).collect::<Vec<_>>(), [sound]);
    assert!(
        matches!(&all.unreadable[..], [(run, RunError::Fold(_))] if *run == broken),
        "{:?}",
        all.unreadable
    );
    second.resume_all().await.unwrap();
    let standing = || second.runs(false).unwrap().into_iter().find(|row| row.run == broken).unwrap().status;
    until(async || standing() != RunRowStatus::Open).await;
    assert!(matches!(standing(), RunRowStatus::Parked(why) if why.starts_with("it cannot be read")));
    assert_eq!(second.all_approvals().await.unwrap().approvals.len(), 1);
    second.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_question_whose_time_was_over_before_the_restart_is_not_asked_anew() {
    let act = |effect| Hold::new("act", effect, Idempotency::Natural);
    let journal = Arc::new(MemoryJournal::default());
    let first = system(journal.clone(), vec![act(Effect::Write)]).await;
    let run = submit(&first, tested(&["ls"])).await;
    assert_eq!(first.outcome(run).await.unwrap(), RunStatus::Waiting);
    first.shutdown().await;
    // The same, with an old question.
    let left = Arc::new(MemoryJournal::default());
    let stream = StreamId::run(&journal.run(run).unwrap().unwrap().client, run);
    for record in journal.read(stream, Seq(0), usize::MAX).unwrap() {
        let event = match record.event {
            Event::HumanRequest(asked) => Event::HumanRequest(HumanRequest { deadline: Some(1), ..asked }),
            other => other,
        };
        let batch = StreamBatch { stream, expected: Seq(record.seq.0 - 1), at_ms: 0, events: vec![event] };
        left.append(vec![batch]).unwrap();
    }

    // By now the rendering would differ.
    let second = system(left.clone(), vec![act(Effect::External)]).await;
    assert!(second.approvals(run).await.unwrap()[0].is_outdated);
    second.resume(run).await.unwrap();
    assert_eq!(second.outcome(run).await.unwrap(), RunStatus::Failed);
    let view = second.view(run, None).await.unwrap();
    let act = view.run.instance(&"act".into()).unwrap();
    assert_eq!((act.requests, act.reason.as_ref().unwrap().to_string().as_str()), (1, "human_timeout"));
    second.shutdown().await;
}

/// A tool whose calls go by one file; the test sets its content, and when a look at the file ends.
struct Scripted {
    call: Arc<Hold>,
    content: Mutex<u8>,
    is_open: watch::Sender<bool>,
}

impl Scripted {
    fn new(content: u8) -> Arc<Scripted> {
        let call = Hold::new("script", Effect::Write, Idempotency::Natural);
        Arc::new(Scripted { call, content: Mutex::new(content), is_open: watch::Sender::new(true) })
    }

    fn becomes(&self, content: u8) {
        *self.content.lock().unwrap() = content;
    }
}

impl Tool for Scripted {
    fn spec(&self) -> &ToolSpec {
        self.call.spec()
    }

    fn class(&self, params: &Map<String, Value>) -> CallClass {
        self.call.class(params)
    }

    fn named_files(&self, _: &Map<String, Value>, _: Arc<Path>) -> BoxFuture<'_, Vec<NamedFile>> {
        let mut is_open = self.is_open.subscribe();
        Box::pin(async move {
            is_open.wait_for(|is_open| *is_open).await.unwrap();
            let digest = Digest([*self.content.lock().unwrap(); 32]);
            vec![NamedFile {
                path: "deploy.sh".to_owned(),
                digest,
                bytes: 1,
                text: None,
                unbound: None,
                by_word: true,
            }]
        })
    }

    fn call(&self, permit: Permit, context: CallContext) -> BoxFuture<'_, ToolResult> {
        self.call.call(permit, context)
    }
}

const KIND: u8 = 1;
const EVIL: u8 = 2;

/// A run that asks about a call of the tool, while `build` holds the only slot.
async fn asks_beside_a_build(script: &Arc<Scripted>) -> (System, RunId, Arc<Hold>) {
    asks_within(script, Limits::default()).await
}

async fn asks_within(script: &Arc<Scripted>, limits: Limits) -> (System, RunId, Arc<Hold>) {
    let build = Hold::new("build", Effect::Read, Idempotency::Natural);
    let tools: Vec<Arc<dyn Tool>> = vec![build.clone(), script.clone()];
    let system = within(Arc::new(MemoryJournal::default()), tools, limits).await;
    let deploy = json!({"id": "deploy", "tool": "script", "approval": "before", "human_timeout": "1h"});
    let nodes = json!([{"id": "build", "tool": "build"}, deploy]);
    let run = submit(&system, json!({"id": "p", "policy": {"slots": 1}, "nodes": nodes})).await;
    build.started().await;
    until(async || !system.approvals(run).await.unwrap().is_empty()).await;
    (system, run, build)
}

async fn question(system: &System, run: RunId) -> Approval {
    system.approvals(run).await.unwrap().remove(0)
}

async fn says_yes(system: &System, asked: &Approval) -> Result<(), RunError> {
    system.answer(&asked.id, asked.digest.unwrap(), Answer::approve().by("ann")).await
}

#[track_caller]
fn check_is_asked_anew(answered: Result<(), RunError>, number: u32) {
    let anew = AnswerError::AskedAnew { node: "deploy".into(), request: number, latest: number + 1 };
    assert!(matches!(&answered, Err(RunError::Answer(error)) if *error == anew), "{answered:?}");
}

/// Who could write the file would have one content asked about, another one looked at, and the first one started.
#[tokio::test(flavor = "multi_thread")]
async fn a_yes_to_files_that_are_others_by_now_is_refused_and_the_question_is_asked_anew() {
    let script = Scripted::new(EVIL);
    let (system, run, build) = asks_beside_a_build(&script).await;
    let first = question(&system, run).await;
    script.becomes(KIND);
    check_is_asked_anew(says_yes(&system, &first).await, 1);
    let second = question(&system, run).await;
    assert_ne!(second.digest, first.digest);
    let was: Vec<Digest> = second.files_before.iter().map(|file| file.digest).collect();
    assert_eq!((was, second.is_outdated), (vec![Digest([EVIL; 32])], false));

    script.becomes(EVIL);
    build.go(1);
    assert_eq!(system.outcome(run).await.unwrap(), RunStatus::Waiting);
    assert_eq!(states(&system, run).await, "build executed, deploy waiting_human");
    check_is_asked_anew(says_yes(&system, &second).await, 2);
    assert_eq!(question(&system, run).await.digest, first.digest);
    script.becomes(KIND);
    let third = question(&system, run).await;
    check_is_asked_anew(system.check_answer(&third.id, third.digest.unwrap()).await, 3);

    script.call.go(1);
    says_yes(&system, &question(&system, run).await).await.unwrap();
    assert_eq!(system.outcome(run).await.unwrap(), RunStatus::Succeeded);
    system.shutdown().await;
}

/// A call whose look takes long would keep all other questions from everybody.
#[tokio::test(flavor = "multi_thread")]
async fn a_question_behind_the_time_of_its_page_is_listed_with_the_files_it_was_asked_about() {
    let script = Scripted::new(KIND);
    let limits = Limits { page_looks_ms: 0, ..Limits::default() };
    let (system, run, _build) = asks_within(&script, limits).await;
    script.becomes(EVIL);
    script.is_open.send_replace(false);
    let pages = [
        system.approval_page(None, 100).await.unwrap().approvals,
        system.approval_page_of(run, None, 100).await.unwrap().approvals,
        system.approvals(run).await.unwrap(),
        system.all_approvals().await.unwrap().approvals,
    ];
    for mut page in pages {
        let asked = page.remove(0);
        let files: Vec<Digest> = asked.shown.files.iter().map(|file| file.digest).collect();
        assert_eq!((files, asked.is_looked_at, asked.is_outdated), (vec![Digest([KIND; 32])], false, false));
        assert_eq!(asked.digest, Some(asked.shown.digest()), "it shows what an answer is for");
    }
    script.is_open.send_replace(true);
    let asked = question(&system, run).await;
    assert!(asked.is_looked_at, "a look that needs no time");
    script.is_open.send_replace(false);
    let one = tokio::spawn({
        let (system, id) = (system.clone(), asked.id.clone());
        async move { system.approval(&id).await }
    });
    script.is_open.send_replace(true);
    let one = one.await.unwrap().unwrap().expect("the question is open");
    assert_eq!(
        (one.is_looked_at, one.is_outdated),
        (true, true),
        "a question by itself is looked at to the end"
    );
    check_is_asked_anew(says_yes(&system, &asked).await, 1);
    system.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_yes_holds_for_files_that_are_again_what_they_were() {
    let script = Scripted::new(KIND);
    let (system, run, build) = asks_beside_a_build(&script).await;
    let asked = question(&system, run).await;
    script.becomes(EVIL);
    assert!(question(&system, run).await.is_outdated);
    script.becomes(KIND);
    system.check_answer(&asked.id, asked.digest.unwrap()).await.unwrap();
    says_yes(&system, &asked).await.unwrap();
    script.call.go(1);
    build.go(1);
    assert_eq!(system.outcome(run).await.unwrap(), RunStatus::Succeeded);
    let view = system.view(run, None).await.unwrap();
    let deploy = view.run.instance(&"deploy".into()).unwrap();
    assert_eq!((deploy.requests, deploy.shown.as_deref()), (1, asked.digest.as_ref()));
    system.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_no_needs_no_look() {
    let script = Scripted::new(KIND);
    let (system, run, build) = asks_beside_a_build(&script).await;
    let asked = question(&system, run).await;
    script.becomes(EVIL);
    system.answer(&asked.id, asked.digest.unwrap(), Answer::reject()).await.unwrap();
    build.go(1);
    until(async || states(&system, run).await == "build executed, deploy cancelled").await;
    assert!(!script.call.has_started());
    system.shutdown().await;
}
