//! Tests of the decision about a repetition.

use std::sync::Arc;

use serde_json::json;

use super::*;
use crate::event::{Event, Output, ReuseTerms};
use crate::id::Digest;
use crate::plan::{PlanDraft, PolicyDraft, Settings};
use crate::run::NodeStatus;

fn plan(change: impl Fn(&mut Value)) -> Plan {
    let mut nodes = json!([
        {"id": "a", "params": {"text": "x"}}, {"id": "z", "deps": ["a"]}, {"id": "beside"},
        {"id": "ask", "kind": "human_approval", "human_timeout": 1, "deps": ["z"]},
        {"id": "last", "deps": ["ask", "beside"]}
    ]);
    for node in nodes.as_array_mut().unwrap() {
        node["contract"] = json!([{"method": "schema"}]);
    }
    change(&mut nodes);
    validated(nodes)
}

fn validated(nodes: Value) -> Plan {
    let draft: PlanDraft = serde_json::from_value(json!({"id": "p", "nodes": nodes})).unwrap();
    draft.validate(&Settings::simulation(PolicyDraft::default(), None)).unwrap()
}

fn run() -> Run {
    executed(&plan(|_| {}))
}

/// A run in which everything was executed.
fn executed(plan: &Plan) -> Run {
    let mut run = Run::new(Arc::new(plan.clone()), 1, 0);
    run.reuse = Some(ReuseTerms::default());
    for instance in &mut run.instances {
        instance.status = NodeStatus::Executed;
    }
    run
}

/// The nodes that are executed, each with its cause, the inputs that may change, and `?` if it asks.
fn check(run: &Run, change: Change<'_>, expected: &str) {
    let named = |nodes: &[NodeId]| nodes.iter().map(NodeId::as_str).collect::<Vec<_>>().join("+");
    let line = |line: &Recomputation| {
        let cause = line.cause.map(|cause| format!(" {cause:?}")).unwrap_or_default();
        format!("{}{}<{}{cause}", line.node, if line.asks { "?" } else { "" }, named(&line.inputs))
    };
    let decision = run.repeat(change);
    assert_eq!(decision.executed().map(line).collect::<Vec<_>>().join(", "), expected);
}

const BELOW_A: &str = "z<a, ask?<z, last<ask";

#[test]
fn an_edit_executes_everything_below_the_node_in_order_and_nothing_else() {
    let edit = |node: &str, expected: &str| {
        let node = NodeId::from(node);
        check(&run(), Change { edited: Some(&node), ..Change::default() }, expected);
    };
    edit("a", BELOW_A);
    edit("last", "");
}

#[test]
fn an_edit_executes_only_what_reads_a_part_that_differs() {
    let mut nodes = json!([
        {"id": "a"},
        {"id": "part", "param_refs": {"x": {"from": "a", "path": "same"}}},
        {"id": "other", "param_refs": {"x": {"from": "a", "path": "new.0"}}},
        {"id": "whole", "param_refs": {"x": {"from": "a", "path": "new"}}},
        {"id": "after", "deps": ["a"]},
        {"id": "acts", "deps": ["a"], "effect": "write", "impact": 1, "idem": "none"},
        {"id": "below", "deps": ["other", "part"]},
        {"id": "asks", "kind": "model", "deps": ["a"], "params": {"prompt": "{{ a.result.same }}"}},
        {"id": "told", "kind": "model", "deps": ["a"], "params": {"prompt": "{{ a.result.new }}"}}
    ]);
    for node in nodes.as_array_mut().unwrap() {
        node["contract"] = json!([{"method": "schema"}]);
    }
    let run = executed(&validated(nodes));
    let (before, now) = (json!({"same": 1, "new": [2]}), json!({"same": 1, "new": [3]}));
    let change = Change { edited: Some(&"a".into()), contents: Some((&before, &now)), ..Change::default() };
    check(&run, change, "acts<a, other<a, told<a, whole<a, below<other");
    let change = Change { contents: Some((&before, &before)), ..change };
    check(&run, change, "acts<a");
}

#[test]
fn an_artifact_of_a_person_that_stays_spares_what_is_below() {
    for (stale, expected) in [(StalePolicy::Keep, ""), (StalePolicy::Recompute, BELOW_A)] {
        let mut run = run();
        let output = Output { artifact: Digest([1; 32]), bytes: 2, inline: None, directive: None };
        let (node, author) = (NodeId::from("z"), "ann".to_owned());
        let edited = ArtifactEdited { node, output, author, base: None, stale };
        run.apply(&Event::ArtifactEdited(Box::new(edited)), 0).unwrap();
        check(&run, Change { edited: Some(&"a".into()), ..Change::default() }, expected);
    }
}

#[test]
fn an_artifact_of_a_person_that_is_asked_about_stays_or_goes_as_the_person_says() {
    let edited = |stale| {
        let mut run = run();
        let output = Output { artifact: Digest([1; 32]), bytes: 2, inline: None, directive: None };
        let (node, author) = (NodeId::from("z"), "ann".to_owned());
        let edited = ArtifactEdited { node, output, author, base: None, stale };
        let output = edited.output.clone();
        run.apply(&Event::ArtifactEdited(Box::new(edited)), 0).unwrap();
        let at = run.position(&"z".into()).unwrap();
        run.instances[at].reason = Some(TransitionReason::Edited);
        run.instances[at].output = Some(output);
        run
    };
    let (a, beside) = (NodeId::from("a"), NodeId::from("beside"));
    use StalePolicy::{Ask, Keep, Recompute};
    // The policy of the edit, what a person says now, the edited node; what stays, what is asked about, the policy from then on.
    for (policy, said, edit, stays, asked, then) in [
        (Ask, Ask, &a, "", "z", Ask),
        (Ask, Keep, &a, "z", "", Ask),
        (Ask, Recompute, &a, "", "", Recompute),
        (Keep, Ask, &a, "z", "", Keep),
        (Keep, Recompute, &a, "z", "", Keep),
        (Recompute, Keep, &a, "", "", Recompute),
        (Ask, Ask, &beside, "", "", Ask),
        (Ask, Recompute, &beside, "", "", Ask),
    ] {
        let run = edited(policy);
        let decision = run.repeat(Change { edited: Some(edit), stale: said, ..Change::default() });
        let named = |nodes: &[NodeId]| nodes.iter().map(NodeId::as_str).collect::<Vec<_>>().join("+");
        let terms = run.terms_to_repeat(RunId::default(), &decision);
        assert_eq!(
            (
                named(&decision.stale_edits).as_str(),
                named(&decision.asked_edits).as_str(),
                terms.edits[0].stale
            ),
            (stays, asked, then),
            "{policy:?}, {said:?}, {edit}"
        );
    }
    // An edit that a run has dropped is not brought back by its repetition.
    let mut run = edited(Recompute);
    let at = run.position(&"z".into()).unwrap();
    run.instances[at].reason = Some(TransitionReason::Ok);
    let terms = run.terms_to_repeat(RunId::default(), &run.repeat(Change::default()));
    assert_eq!(terms.edits, []);
}

#[test]
fn a_changed_plan_executes_what_describes_other_work_and_what_is_below() {
    let with = |change: fn(&mut Value), expected: &str| {
        let plan = Arc::new(plan(change));
        check(&run(), Change { plan: Some(&plan), ..Change::default() }, expected);
    };
    with(|nodes| nodes[0]["params"]["text"] = json!("y"), "a< Changed, z<a, ask?<z, last<ask");
    with(
        |nodes| nodes.as_array_mut().unwrap().push(json!({"id": "more", "contract": [{"method": "schema"}]})),
        "more< New",
    );
    // Another time limit is no other work; so the run is repeated as it is.
    with(|nodes| nodes[0]["timeout"] = json!(7), "ask?< Repeats, last<ask");
}

#[test]
fn what_has_no_result_or_a_withdrawn_one_is_executed() {
    let mut run = run();
    let at = run.position(&"beside".into()).unwrap();
    run.instances[at].status = NodeStatus::Failed;
    let (from, against) = ("ask".into(), BTreeMap::from([("z".into(), RecomputationCause::Withdrawn)]));
    let change = Change { from: Some(&from), ..Change::default() };
    check(&run, change, "beside< NoResult, ask?< AskedFor, last<ask+beside");
    let change = Change { against: Some(&against), ..Change::default() };
    check(&run, change, "beside< NoResult, z< Withdrawn, ask?<z, last<ask+beside");
}
