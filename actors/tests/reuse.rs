//! Recorded results replace executions, within one client, and only for work without effects.
#![allow(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

mod common;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use common::{plan, states, value};
use ostler_actors::{Again, Answer, NodeEdit, Submission, System};
use ostler_drivers::model::{ModelConfig, Models, ModelsConfig};
use ostler_kernel::event::{Event, Fresh, ReuseBasis, ReuseDecision, ReuseTerms};
use ostler_kernel::gate::{CallClass, Permit};
use ostler_kernel::id::{ClientId, RunId};
use ostler_kernel::lineage::StalePolicy;
use ostler_kernel::plan::{Effect, Idempotency};
use ostler_kernel::port::{BoxFuture, CallContext, Journal, Seq, StreamId, Tool, ToolResult, ToolSpec};
use ostler_kernel::run::{OpeningTerms, RunStatus};
use ostler_store::MemoryJournal;
use serde_json::{Map, Value, json};

/// A tool that joins its parameters, and counts its calls.
struct Joins {
    spec: ToolSpec,
    effect: Effect,
    calls: Mutex<u32>,
    /// Results that a read was offered.
    offered: Mutex<Vec<Value>>,
}

impl Joins {
    fn new(name: &str, version: &str, effect: Effect) -> Arc<Joins> {
        let spec = ToolSpec {
            name: name.to_owned(),
            version: version.to_owned(),
            description: "joins".to_owned(),
            params: json!({"type": "object", "additionalProperties": true}),
            result: json!({"type": "object"}),
        };
        Arc::new(Joins { spec, effect, calls: Mutex::default(), offered: Mutex::default() })
    }

    fn calls(&self) -> u32 {
        std::mem::take(&mut *self.calls.lock().unwrap())
    }
}

impl Tool for Joins {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn class(&self, _: &Map<String, Value>) -> CallClass {
        CallClass { impact: u8::from(self.effect.acts()), effect: self.effect, idem: Idempotency::Natural }
    }

    fn call(&self, permit: Permit, context: CallContext) -> BoxFuture<'_, ToolResult> {
        self.offered.lock().unwrap().extend(context.recorded.map(|recorded| (*recorded).clone()));
        *self.calls.lock().unwrap() += 1;
        let params = permit.into_params();
        let text: Vec<String> = params.values().map(|value| value.to_string().replace('"', "")).collect();
        // Too long for the record: the result is stored as an artifact.
        let long = params.get("long").map(|_| "x".repeat(6_000)).unwrap_or_default();
        Box::pin(async move { Ok(json!({"all": text.concat(), "kind": "joined", "long": long})) })
    }
}

/// `a` feeds `b` and `c`; `d` reads both. `b` reads a constant part of the result of `a`; `c` reads the part that depends on `n`.
fn diamond(n: u64) -> Value {
    json!({"id": "diamond", "nodes": [
        {"id": "a", "tool": "join", "params": {"n": n, "long": true}},
        {"id": "b", "tool": "join", "param_refs": {"in": {"from": "a", "path": "kind"}}},
        {"id": "c", "tool": "join", "param_refs": {"in": {"from": "a", "path": "all"}}},
        {"id": "d", "tool": "join", "param_refs": {"l": {"from": "b", "path": "all"}, "r": {"from": "c", "path": "all"}}},
    ]})
}

async fn run_as(system: &System, client: &str, source: Value, fresh: Fresh) -> RunId {
    let submission = Submission {
        client: client.into(),
        intent: 2,
        terms: OpeningTerms { reuse: Some(ReuseTerms { fresh }), ..OpeningTerms::default() },
        ..Submission::plan(plan(system, source))
    };
    let run = system.submit(submission).await.unwrap();
    assert_eq!(system.outcome(run).await.unwrap(), RunStatus::Succeeded);
    run
}

async fn run(system: &System, source: Value) -> RunId {
    run_as(system, "acme", source, Fresh::Nothing).await
}

/// The reuse decision about each node, in the words of the records.
fn decisions(journal: &MemoryJournal, run: RunId) -> BTreeMap<String, String> {
    let records = journal.read(StreamId::run(&ClientId::from("acme"), run), Seq(0), usize::MAX).unwrap();
    let decided = records.into_iter().filter_map(|record| match record.event {
        Event::ReuseDecided(decided) => Some(decided),
        _ => None,
    });
    let words = |decision| match decision {
        ReuseDecision::Recomputed(reason) => reason.to_string(),
        ReuseDecision::Kept { .. } => "kept".to_owned(),
        ReuseDecision::Edited { author, .. } => format!("edited by {author}"),
        ReuseDecision::Reused(result) => match result.basis {
            ReuseBasis::Same => "reused".to_owned(),
            ReuseBasis::Revalidated => "revalidated".to_owned(),
            ReuseBasis::CutOff(above) => format!("cut off {above:?}"),
            ReuseBasis::Fresh { most, .. } => format!("fresh {most:?}"),
        },
    };
    decided.map(|decided| (decided.node.to_string(), words(decided.decision))).collect()
}

fn told(decisions: &BTreeMap<String, String>) -> String {
    let pairs: Vec<String> = decisions.iter().map(|(node, what)| format!("{node} {what}")).collect();
    pairs.join(", ")
}

async fn world() -> (System, Arc<Joins>, Arc<MemoryJournal>) {
    let (tool, journal) = (Joins::new("join", "1", Effect::None), Arc::new(MemoryJournal::default()));
    (common::system(journal.clone(), vec![tool.clone()]).await, tool, journal)
}

#[tokio::test(flavor = "multi_thread")]
async fn an_equal_run_executes_nothing_and_an_edited_one_what_depends_on_the_edit() {
    let (system, tool, journal) = world().await;
    let first = run(&system, diamond(1)).await;
    assert_eq!(tool.calls(), 4);
    assert_eq!(told(&decisions(&journal, first)), "a no_record, b no_record, c no_record, d no_record");

    let second = run(&system, diamond(1)).await;
    assert_eq!(
        (tool.calls(), told(&decisions(&journal, second))),
        (0, "a reused, b reused, c reused, d reused".into())
    );
    assert_eq!(value(&system, second, "d").await, value(&system, first, "d").await);
    assert_eq!(states(&system, second).await, "a executed, b executed, c executed, d executed");

    let third = run(&system, diamond(2)).await;
    let now = decisions(&journal, third);
    assert_eq!((tool.calls(), &*now["a"], &*now["b"]), (3, "param.n", "cut off [\"a\"]"));
    assert!(now["c"].starts_with("ref.in("), "{now:?}");
    assert!(now["d"].starts_with("ref.r("), "{now:?}");

    // The first input again: the first run serves the results.
    let fourth = run(&system, diamond(1)).await;
    assert_eq!(
        (tool.calls(), told(&decisions(&journal, fourth))),
        (0, "a reused, b reused, c reused, d reused".into())
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn cosmetic_changes_of_a_plan_change_nothing() {
    let (system, tool, _) = world().await;
    run(&system, diamond(1)).await;
    assert_eq!(tool.calls(), 4);
    let mut other = diamond(1);
    (other["id"], other["title"]) = (json!("another"), json!("Another title"));
    other["nodes"].as_array_mut().unwrap().reverse();
    run(&system, other).await;
    assert_eq!(tool.calls(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_asked_for_anew_is_executed() {
    let (system, tool, _) = world().await;
    run(&system, diamond(1)).await;
    tool.calls();
    run_as(&system, "acme", diamond(1), Fresh::Nodes(vec!["c".into()])).await;
    assert_eq!(tool.calls(), 1);
    run_as(&system, "acme", diamond(1), Fresh::Everything).await;
    assert_eq!(tool.calls(), 4);
}

#[tokio::test(flavor = "multi_thread")]
async fn no_client_is_served_by_the_records_of_another() {
    let (system, tool, _) = world().await;
    run(&system, diamond(1)).await;
    tool.calls();
    run_as(&system, "another", diamond(1), Fresh::Nothing).await;
    assert_eq!(tool.calls(), 4);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_without_terms_of_reuse_neither_reuses_nor_records() {
    let (system, tool, _) = world().await;
    let plain =
        || Submission { client: "acme".into(), intent: 2, ..Submission::plan(plan(&system, diamond(1))) };
    for _ in 0..2 {
        let run = system.submit(plain()).await.unwrap();
        assert_eq!(system.outcome(run).await.unwrap(), RunStatus::Succeeded);
        assert_eq!(tool.calls(), 4);
    }
    run(&system, diamond(1)).await;
    assert_eq!(tool.calls(), 4);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_acts_or_reads_is_executed_each_time_and_its_consumers_with_it_if_they_read_its_effect() {
    for effect in [Effect::Write, Effect::External, Effect::Read] {
        let (acts, joins) = (Joins::new("act", "1", effect), Joins::new("join", "1", Effect::None));
        let journal = Arc::new(MemoryJournal::default());
        let system = common::system(journal.clone(), vec![acts.clone(), joins.clone()]).await;
        let source = json!({"id": "p", "nodes": [
            {"id": "a", "tool": "act"},
            {"id": "b", "tool": "join", "deps": ["a"]},
        ]});
        for expected in [1, 0] {
            let run = run(&system, source.clone()).await;
            assert_eq!((acts.calls(), joins.calls()), (1, expected), "{effect:?}");
            assert_eq!(decisions(&journal, run)["a"], "not_reusable");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn another_version_of_a_tool_is_another_work() {
    let journal = Arc::new(MemoryJournal::default());
    let source = json!({"id": "p", "nodes": [{"id": "a", "tool": "join", "params": {"n": 1}}]});
    let system = common::system(journal.clone(), vec![Joins::new("join", "1", Effect::None)]).await;
    run(&system, source.clone()).await;
    system.shutdown().await;
    let second = Joins::new("join", "2", Effect::None);
    let system = common::system(journal.clone(), vec![second.clone()]).await;
    let run = run(&system, source).await;
    assert_eq!((second.calls(), told(&decisions(&journal, run))), (1, "a sigma.tool_version".into()));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_new_contract_revalidates_and_a_broken_one_executes() {
    let (system, tool, journal) = world().await;
    let ruled = |bytes: u64| {
        let rule = json!({"method": "code", "spec": {"check": "max_bytes", "path": "all", "value": bytes}});
        json!({"id": "p", "nodes": [{"id": "a", "tool": "join", "params": {"n": 1}, "contract": [rule]}]})
    };
    run(&system, ruled(10)).await;
    assert_eq!(tool.calls(), 1);
    let second = run(&system, ruled(20)).await;
    assert_eq!((tool.calls(), told(&decisions(&journal, second))), (0, "a revalidated".into()));
    let strict = Submission {
        client: "acme".into(),
        intent: 2,
        terms: OpeningTerms { reuse: Some(ReuseTerms::default()), ..OpeningTerms::default() },
        ..Submission::plan(plan(&system, ruled(0)))
    };
    let third = system.submit(strict).await.unwrap();
    assert_eq!(system.outcome(third).await.unwrap(), RunStatus::Failed);
    assert_eq!((tool.calls() > 0, told(&decisions(&journal, third))), (true, "a contract_failed".into()));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_recovered_run_has_the_results_that_it_reused() {
    let (system, tool, journal) = world().await;
    let first = run(&system, diamond(1)).await;
    let second = run(&system, diamond(1)).await;
    let expected = value(&system, first, "d").await;
    tool.calls();
    system.shutdown().await;
    let system = common::system(journal, vec![tool.clone()]).await;
    assert_eq!(states(&system, second).await, "a executed, b executed, c executed, d executed");
    assert_eq!(value(&system, second, "b").await["kind"], "joined");
    // Records hold small results; a long result is in the artifact store, which this test keeps in memory.
    assert_eq!(value(&system, second, "d").await, expected);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_person_is_asked_behind_a_reused_result() {
    let (system, tool, _) = world().await;
    let source = || {
        json!({"id": "p", "nodes": [
            {"id": "a", "tool": "join", "params": {"n": 1}},
            {"id": "b", "kind": "human_approval", "deps": ["a"], "human_timeout": "1h"},
            {"id": "c", "tool": "join", "deps": ["a"], "approval": "before", "human_timeout": "1h"},
        ]})
    };
    for calls in [1, 0] {
        let submission = Submission {
            client: "acme".into(),
            intent: 2,
            terms: OpeningTerms { reuse: Some(ReuseTerms::default()), ..OpeningTerms::default() },
            ..Submission::plan(plan(&system, source()))
        };
        let run = system.submit(submission).await.unwrap();
        common::until(async || states(&system, run).await == "a executed, b waiting_human, c waiting_human")
            .await;
        assert_eq!(tool.calls(), calls);
    }
}

fn edit(node: &str, value: Value) -> Again {
    let edit =
        NodeEdit { node: node.into(), value, author: "ada".into(), seen: None, stale: StalePolicy::Keep };
    Again { edit: Some(edit), ..Again::default() }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_edited_artifact_executes_what_is_below_it_and_nothing_else() {
    let (system, tool, journal) = world().await;
    let first = run(&system, diamond(1)).await;
    tool.calls();
    let own = json!({"all": "by hand", "kind": "joined", "long": ""});
    let second = system.run_again(first, edit("c", own.clone())).await.unwrap();
    assert_eq!(system.outcome(second).await.unwrap(), RunStatus::Succeeded);
    let now = decisions(&journal, second);
    assert_eq!((tool.calls(), &*now["a"], &*now["b"], &*now["c"]), (1, "reused", "reused", "edited by ada"));
    assert_eq!(value(&system, second, "c").await, own);
    assert_eq!(value(&system, second, "d").await["all"], "joinedby hand");

    // The repetition keeps the edit, even with an execution from the edited node on.
    let again = Again { from: Some("c".into()), ..Again::default() };
    let third = system.run_again(second, again).await.unwrap();
    assert_eq!(system.outcome(third).await.unwrap(), RunStatus::Succeeded);
    assert_eq!(tool.calls(), 1);
    assert_eq!(value(&system, third, "d").await, value(&system, second, "d").await);
    // A person's artifact serves no other run.
    let fourth = run(&system, diamond(1)).await;
    assert_eq!((tool.calls(), value(&system, fourth, "c").await["all"].clone()), (0, json!("true1")));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_edit_that_cannot_be_is_refused_and_opens_nothing() {
    let (acts, joins) = (Joins::new("act", "1", Effect::Write), Joins::new("join", "1", Effect::None));
    let journal = Arc::new(MemoryJournal::default());
    let system = common::system(journal.clone(), vec![acts, joins]).await;
    let rule = json!({"method": "code", "spec": {"check": "max_bytes", "path": "all", "value": 40}});
    let source = json!({"id": "p", "nodes": [
        {"id": "a", "tool": "act"},
        {"id": "b", "tool": "join", "deps": ["a"], "contract": [rule]},
    ]});
    let first = run(&system, source).await;
    let ok = || json!({"all": "mine"});
    let other = ostler_kernel::id::DigestStart::from(ostler_kernel::id::Digest([7; 32]));
    let with_digest = |node: &str| {
        let mut again = edit(node, ok());
        again.edit.as_mut().unwrap().seen = Some(other.clone());
        again
    };
    for (again, why) in [
        (edit("a", ok()), "it changed the world"),
        (with_digest("b"), "its result is b3:"),
        (edit("b", json!({"all": "x".repeat(80)})), "breaks the contract"),
        (edit("zz", ok()), "no node zz"),
    ] {
        let refused = system.run_again(first, again).await.unwrap_err().to_string();
        assert!(refused.contains(why), "{refused}");
    }
    assert_eq!(journal.runs(false).unwrap().len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_edit_repeats_no_effect_and_asks_only_about_the_one_that_it_reaches() {
    let (acts, joins) = (Joins::new("act", "1", Effect::Write), Joins::new("join", "1", Effect::None));
    let journal = Arc::new(MemoryJournal::default());
    let system = common::system(journal.clone(), vec![acts.clone(), joins.clone()]).await;
    let source = json!({"id": "pay", "nodes": [
        {"id": "ok", "kind": "human_approval", "human_timeout": "1h"},
        {"id": "charge", "tool": "act", "deps": ["ok"], "approval": "before", "human_timeout": "1h"},
        {"id": "note", "tool": "join", "deps": ["charge"]},
        {"id": "mail", "tool": "act", "param_refs": {"text": {"from": "note", "path": "all"}}},
    ]});
    let submission = Submission {
        client: "acme".into(),
        intent: 2,
        terms: OpeningTerms { reuse: Some(ReuseTerms::default()), ..OpeningTerms::default() },
        ..Submission::plan(plan(&system, source))
    };
    let first = system.submit(submission).await.unwrap();
    let approve = async |run, node: &str| {
        common::until(async || system.approvals(run).await.unwrap().len() == 1).await;
        let asked = system.approvals(run).await.unwrap().remove(0);
        assert_eq!(asked.id.node, node.into());
        system.answer(&asked.id, asked.digest.unwrap(), Answer::approve()).await.unwrap();
        asked
    };
    approve(first, "ok").await;
    approve(first, "charge").await;
    assert_eq!(system.outcome(first).await.unwrap(), RunStatus::Succeeded);
    assert_eq!(acts.calls(), 2);

    let second = system.run_again(first, edit("note", json!({"all": "mine"}))).await.unwrap();
    // The answer of `ok` stood for another mail.
    let asked = approve(second, "mail").await;
    assert_eq!((asked.guards, asked.changes.len()), (vec!["ok".into()], 1));
    assert_eq!(system.outcome(second).await.unwrap(), RunStatus::Succeeded);
    let now = decisions(&journal, second);
    assert_eq!(
        (acts.calls(), &*now["ok"], &*now["charge"], &*now["note"]),
        (1, "kept", "kept", "edited by ada")
    );
    assert_eq!(value(&system, second, "mail").await["all"], "mine");

    let again = Again { from: Some("mail".into()), ..Again::default() };
    let third = system.run_again(second, again).await.unwrap();
    let asked = approve(third, "mail").await;
    assert_eq!(asked.changes, [], "it is the same mail, once more");
    assert_eq!(system.outcome(third).await.unwrap(), RunStatus::Succeeded);
    assert_eq!((acts.calls(), &*decisions(&journal, third)["charge"]), (1, "kept"));
    // A repetition without a change acts again, and asks first.
    let fourth = system.run_again(third, Again::default()).await.unwrap();
    common::until(async || system.approvals(fourth).await.unwrap().len() == 1).await;
    assert_eq!(acts.calls(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reused_list_gives_the_children_that_it_gave() {
    let (system, tool, journal) = world().await;
    let source = json!({"id": "p", "nodes": [
        {"id": "l", "tool": "json.query", "params": {"query": "$[*]", "value": ["a", "b", "c"]}},
        {"id": "d", "tool": "join", "for_each": {"from": "l", "path": "result", "as": "text", "max": 5}},
        {"id": "x", "tool": "join", "params": {"n": 1}, "deps": ["l"]},
        {"id": "all", "tool": "join", "params": {"n": 2}, "deps": ["d", "x"]},
    ]});
    for calls in [5, 0, 0] {
        let run = run(&system, source.clone()).await;
        assert_eq!(tool.calls(), calls);
        assert_eq!(value(&system, run, "d").await["items"].as_array().unwrap().len(), 3);
        if calls == 0 {
            assert_eq!(
                (&*decisions(&journal, run)["l"], &*decisions(&journal, run)["d.2"]),
                ("reused", "reused")
            );
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn equal_questions_to_a_model_are_draws_of_their_own_and_each_node_has_its_own_again() {
    let folder = tempfile::tempdir().unwrap();
    let rule = |node: &str| format!("  - {{when: {{node: {node}}}, repeat: true, text: draft of {node}}}\n");
    let script = format!("rules:\n{}{}{}", rule("d1"), rule("d2"), rule("d3"));
    std::fs::write(folder.path().join("script.yaml"), script).unwrap();
    let models = BTreeMap::from([("default".to_owned(), ModelConfig::scripted("script.yaml"))]);
    let config = ModelsConfig { models, ..ModelsConfig::default() };
    let tools = Models::new(&config, folder.path(), &|_| None).unwrap().tools();
    let journal = Arc::new(MemoryJournal::default());
    let system = common::system(journal.clone(), tools).await;
    let draft = |id: &str, deps: &[&str]| json!({"id": id, "deps": deps, "model": "default", "params": {"prompt": "Write a slogan."}});
    let source = json!({"id": "best", "nodes": [draft("d1", &[]), draft("d2", &[]), draft("d3", &["d1"])]});
    let mut drafts: Vec<Vec<Value>> = Vec::new();
    for _ in 0..3 {
        let run = run(&system, source.clone()).await;
        let of = async |node: &str| value(&system, run, node).await["text"].clone();
        drafts.push(vec![of("d1").await, of("d2").await, of("d3").await]);
    }
    assert_eq!(drafts[0], ["draft of d1", "draft of d2", "draft of d3"]);
    assert_eq!((&drafts[1], &drafts[2]), (&drafts[0], &drafts[0]));
}

/// A read with a policy of freshness, and a consumer of its result.
async fn read_twice(fresh: Value) -> (u32, u32, String, Vec<Value>) {
    let (reads, joins) = (Joins::new("look", "1", Effect::Read), Joins::new("join", "1", Effect::None));
    let journal = Arc::new(MemoryJournal::default());
    let system = common::system(journal.clone(), vec![reads.clone(), joins.clone()]).await;
    let source = json!({"id": "p", "nodes": [
        {"id": "a", "tool": "look", "params": {"n": 1}, "fresh": fresh},
        {"id": "b", "tool": "join", "param_refs": {"in": {"from": "a", "path": "all"}}},
    ]});
    run(&system, source.clone()).await;
    let second = run(&system, source).await;
    let offered = std::mem::take(&mut *reads.offered.lock().unwrap());
    (reads.calls(), joins.calls(), told(&decisions(&journal, second)), offered)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_read_is_reused_while_it_is_fresh() {
    let (reads, joins, told, _) = read_twice(json!("never")).await;
    assert_eq!((reads, joins, told.as_str()), (1, 1, "a fresh None, b reused"));
    let (reads, joins, told, _) = read_twice(json!("1h")).await;
    assert_eq!((reads, joins, told.as_str()), (1, 1, "a fresh Some(3600000), b reused"));
    let (reads, joins, told, _) = read_twice(json!("always")).await;
    assert_eq!((reads, joins, told.as_str()), (2, 1, "a not_reusable, b cut off [\"a\"]"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_read_that_may_be_revalidated_is_offered_its_recorded_result() {
    let (reads, joins, told, offered) = read_twice(json!("etag")).await;
    assert_eq!((reads, joins, told.as_str()), (2, 1, "a not_modified, b cut off [\"a\"]"));
    assert_eq!(offered, [json!({"all": "1", "kind": "joined", "long": ""})]);
}
