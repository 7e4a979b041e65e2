//! Changes of a running plan: merging, refusals, and the revision record as the only input of recovery.
#![allow(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicUsize, Ordering};

use ostler_kernel::id::NodeId;
use ostler_kernel::plan::{
    BadParam, Change, Effect, Idempotency, Join, MergedPlan, Node, NodeProgress, PLAN_EDGES_MAX, Plan,
    PlanDraft, PolicyDraft, Revision, Settings, ToolDefaults, Tools, apply_change, expand, merge,
};
use serde_json::{Map, Value, json};

/// `a` and `b` are executed and running; `r` refers to `a`; `c`, `d` and the joins wait. The outputs are the exits.
fn waiting() -> Value {
    json!([
        {"id": "a"}, {"id": "b"}, {"id": "c", "deps": ["b"], "reads": ["b"]},
        {"id": "d", "deps": ["c", "b"]},
        {"id": "g", "kind": "aggregator", "deps": [{"n": "a", "on": "terminal"}]},
        {"id": "j", "deps": ["c", "b"], "join": "any_of", "param_refs": {"x": {"from": "$winner", "path": "v"}}},
        {"id": "r", "deps": ["b"], "param_refs": {"x": {"from": "a", "path": "v"}}},
    ])
}

fn plan_of(nodes: Value, outputs: Value) -> Plan {
    let mut value = json!({"id": "p", "nodes": nodes});
    if !outputs.is_null() {
        value["outputs"] = outputs;
    }
    with_contracts(value["nodes"].as_array_mut().unwrap());
    let draft: PlanDraft = serde_json::from_value(value).unwrap();
    draft.validate(&simulation()).unwrap()
}

fn plan() -> Plan {
    plan_of(waiting(), Value::Null)
}

fn simulation() -> Settings<'static> {
    Settings::simulation(PolicyDraft::default(), None)
}

fn with_contracts(nodes: &mut [Value]) {
    for node in nodes {
        node.as_object_mut().unwrap().entry("contract").or_insert_with(|| json!([{"method": "schema"}]));
    }
}

fn standing(id: &NodeId) -> NodeProgress {
    match id.as_str() {
        "a" => NodeProgress::Terminal,
        "b" | "g" => NodeProgress::Started,
        _ => NodeProgress::NotStarted,
    }
}

fn delta(mut delta: Value) -> Change {
    if let Some(add) = delta.get_mut("add") {
        with_contracts(add.as_array_mut().unwrap());
    }
    serde_json::from_value(json!({"delta": delta})).unwrap_or_else(|error| panic!("{delta}: {error}"))
}

fn merged(plan: &Plan, change: &Change) -> Result<MergedPlan, String> {
    let told = merge(plan, change, &standing, false, &simulation());
    told.map_err(|faults| {
        let mut pairs: Vec<String> =
            faults.iter().map(|fault| format!("{} {}", fault.code, fault.node)).collect();
        pairs.dedup();
        pairs.join(", ")
    })
}

#[track_caller]
fn refused(expected: &str, change: Value) {
    assert_eq!(merged(&plan(), &delta(change.clone())).err().unwrap_or_default(), expected, "{change}");
}

#[track_caller]
fn accepted(change: Value) -> MergedPlan {
    accepted_by(&plan(), change)
}

/// Merges a change, and checks that the journaled revision alone rebuilds the same plan.
#[track_caller]
fn accepted_by(plan: &Plan, change: Value) -> MergedPlan {
    let merged = merged(plan, &delta(change.clone())).unwrap_or_else(|codes| panic!("{change}: {codes}"));
    assert_eq!(merged.plan.version, plan.version + 1);
    assert!(merged.plan.nodes.is_sorted_by(|a, b| a.id < b.id));
    let journaled = serde_json::to_string(&merged.revision).unwrap();
    let revision: Revision = serde_json::from_str(&journaled).unwrap();
    assert_eq!(apply_change(plan, &revision), merged, "{change}");
    merged
}

fn node<'a>(plan: &'a Plan, id: &str) -> &'a Node {
    plan.nodes.iter().find(|node| node.id.as_str() == id).unwrap()
}

fn deps(plan: &Plan, id: &str) -> String {
    let names: Vec<&str> = node(plan, id).deps.iter().map(|dep| dep.n.as_str()).collect();
    names.join(" ")
}

fn ids(ids: &[NodeId]) -> String {
    ids.iter().map(NodeId::as_str).collect::<Vec<_>>().join(" ")
}

#[test]
fn what_has_started_is_neither_rewired_nor_set() {
    refused("D01 b", json!({"rewire": {"b": []}}));
    refused("D01 b", json!({"set": {"b": {"timeout": 5}}}));
    refused("D01 a", json!({"set": {"a": {"timeout": 0}}})); // terminal: no further check
    refused("D01 b, V14 b", json!({"set": {"b": {"timeout": 0}}})); // refused and checked as if accepted
    refused("D01 b, V04 b, V04 c", json!({"rewire": {"b": ["c"]}}));
    refused("D01 a", json!({"cancel": ["a", "a"]}));
    assert_eq!(ids(&accepted(json!({"cancel": ["d", "b", "d"]})).cancel), "b d");
}

#[test]
fn what_does_not_exist_is_not_changed() {
    refused(
        "D03 w, D03 x, D03 y, D03 z",
        json!({"rewire": {"w": []}, "set": {"x": {}}, "cancel": ["y"], "replace": {"z": "b"}}),
    );
    refused("D03 n", json!({"add": [{"id": "n"}], "rewire": {"n": []}}));
    refused("V03 d, V03 j", json!({"replace": {"c": "nothing"}}));
}

#[test]
fn the_structure_is_not_set() {
    refused("D06 c", json!({"set": {"c": {"deps": [], "id": "z", "timeout": 3}}}));
    refused("D06 c, V14 c", json!({"set": {"c": {"join": "any_of", "timeout": 0}}}));
    refused("D03 q, D06 q", json!({"set": {"q": {"dispatch": "ordered"}}}));
    refused("D06 c", json!({"set": {"c": {"deps": null}}}));
}

#[test]
fn the_limit_of_versions_and_the_end_of_a_run_stop_every_change() {
    let patch = |set: Value| -> Change {
        serde_json::from_value(json!({"patch": {"node": "c", "set": set}})).unwrap()
    };
    let mut last = plan();
    last.version = last.policy.max_versions;
    for (plan, closed, expected) in
        [(last.clone(), false, "D02"), (last, true, "D02 D05"), (plan(), true, "D05")]
    {
        for change in [delta(json!({})), patch(Value::Null), patch(json!({"retries": 1}))] {
            let faults = merge(&plan, &change, &standing, closed, &simulation()).unwrap_err();
            let codes: Vec<&str> = faults.iter().map(|fault| fault.code.as_str()).collect();
            assert_eq!(codes.join(" "), expected, "{change:?}");
        }
    }
    let faults = merge(&plan(), &patch(json!({"timeout": 0})), &standing, true, &simulation()).unwrap_err();
    assert_eq!(faults.len(), 2, "{faults:?}");
}

#[test]
fn a_change_made_for_another_version_is_refused() {
    refused("D08 *", json!({"base": 2}));
    accepted(json!({"base": 1}));
}

#[test]
fn outputs_may_be_replaced_named_anew_and_narrowed_but_not_cancelled() {
    let all = "d g j r";
    assert_eq!(ids(&plan().outputs), all);
    let narrowed = accepted(json!({"cancel": ["d"]}));
    assert_eq!((ids(&narrowed.plan.outputs).as_str(), narrowed.plan.outputs_declared), ("g j r", false));
    refused("D04 *", json!({"cancel": ["d", "g", "j", "r"]}));
    refused("D04 d", json!({"cancel": ["d"], "outputs": ["d"]}));
    refused("V03 zz", json!({"outputs": ["zz"]}));
    refused("D03 n, D04 n", json!({"add": [{"id": "n"}], "cancel": ["n"], "outputs": ["n"]}));

    let named = accepted(json!({"outputs": []}));
    assert!(named.plan.outputs.is_empty() && named.plan.outputs_declared);
    let replaced = accepted(json!({"add": [{"id": "n"}], "replace": {"d": "n"}}));
    assert_eq!((ids(&replaced.plan.outputs).as_str(), replaced.plan.outputs_declared), ("n g j r", false));
    // Outputs that a change names are taken literally, without applying `replace`.
    let both = accepted(json!({"add": [{"id": "n"}], "replace": {"d": "n"}, "outputs": ["d"]}));
    assert_eq!(ids(&both.plan.outputs), "d");

    let declared = plan_of(waiting(), json!(["d", "g", "j", "r"]));
    let told = merged(&declared, &delta(json!({"cancel": ["a", "d", "c"]})));
    assert_eq!(told.unwrap_err(), "D01 a, D04 d");
}

#[test]
fn a_node_emptied_of_dependencies_is_joined_anew() {
    let emptied = accepted(json!({"rewire": {"d": [], "r": []}}));
    let plan = &emptied.plan;
    assert_eq!((deps(plan, "d").as_str(), node(plan, "d").join), ("", None));
    assert_eq!((deps(plan, "r").as_str(), node(plan, "r").join), ("a", Some(Join::AllOf)));
    assert_eq!(ids(&emptied.changed), "d r");
    refused("V11 j", json!({"rewire": {"j": []}})); // the reference still names the winner
    let referring = json!({"j": {"param_refs": {"x": {"from": "c", "path": "v"}}}});
    let plan = accepted(json!({"set": referring, "rewire": {"j": []}})).plan;
    assert_eq!((deps(&plan, "j").as_str(), node(&plan, "j").join), ("c", Some(Join::AllOf)));
    let plan = accepted(json!({"rewire": {"j": ["d", "c"]}})).plan;
    assert_eq!((deps(&plan, "j").as_str(), node(&plan, "j").join), ("d c", Some(Join::AnyOf)));
}

#[test]
fn replacing_follows_rewiring_and_spares_what_is_added_or_started() {
    let change = json!({
        "add": [{"id": "n", "deps": ["b"]}, {"id": "m", "deps": ["c"]}],
        "rewire": {"d": ["b", "c"]},
        "replace": {"b": "n", "a": "m"},
    });
    let merged = accepted(change);
    let plan = &merged.plan;
    assert_eq!(deps(plan, "c"), "n");
    assert_eq!(ids(&node(plan, "c").reads), "n");
    assert_eq!(deps(plan, "d"), "n c");
    assert_eq!(deps(plan, "j"), "c n");
    assert_eq!(deps(plan, "r"), "n m");
    assert_eq!(node(plan, "r").param_refs["x"].from.as_str(), "m");
    assert_eq!(deps(plan, "g"), "a", "it has started");
    assert_eq!(deps(plan, "n"), "b", "it is new");
    assert_eq!((ids(&merged.added).as_str(), ids(&merged.changed).as_str()), ("m n", "c d j r"));
}

#[test]
fn only_nodes_that_changed_count_as_changed() {
    let same = accepted(json!({"set": {"c": {"timeout": 100, "retries": 0}}, "rewire": {"d": ["c", "b"]}}));
    assert_eq!(ids(&same.changed), "");
    assert!(same.revision.nodes.is_empty() && same.revision.outputs.is_none());
    assert_eq!(ids(&accepted(json!({"set": {"c": {"params": {"k": 1}}}})).changed), "c");
}

#[test]
fn set_normalises_nothing_and_null_takes_away() {
    refused("V11 d", json!({"set": {"d": {"param_refs": {"x": {"from": "a", "path": "v"}}}}}));
    let kept = accepted(json!({"set": {"c": {"model": "m", "human_timeout": 4}}}));
    assert_eq!(node(&kept.plan, "c").kind, node(&plan(), "c").kind);
    let gone = accepted_by(&kept.plan, json!({"set": {"c": {"model": null, "human_timeout": null}}}));
    assert_eq!((&node(&gone.plan, "c").model, node(&gone.plan, "c").human_timeout), (&None, None));
    refused("V08 c", json!({"set": {"c": {"contract": null}}}));
    refused("V09 c", json!({"set": {"c": {"contract": [{"p": 0.5}]}}}));
}

#[test]
fn a_node_that_is_over_is_judged_by_its_id_and_its_consumers_alone() {
    let over = |id: &NodeId| match id.as_str() {
        "a" | "g" => NodeProgress::Terminal,
        _ => NodeProgress::NotStarted,
    };
    let told = |change: Value| {
        let faults = merge(&plan(), &delta(change), &over, false, &simulation()).unwrap_err();
        faults.iter().map(|fault| format!("{} {}", fault.code, fault.node)).collect::<Vec<_>>().join(", ")
    };
    assert_eq!(told(json!({"add": [{"id": "a", "timeout": 0, "deps": ["b"]}]})), "V01 a");
    assert_eq!(told(json!({"add": [{"id": "n", "deps": ["g"]}]})), "V19 g");
    assert_eq!(told(json!({"add": [{"id": "b", "timeout": 0}]})), "V01 b, V14 b");
}

#[test]
fn what_is_added_needs_no_way_to_an_output() {
    let declared = plan_of(waiting(), json!(["c", "d", "g", "j", "r"]));
    accepted_by(&declared, json!({"add": [{"id": "n"}]}));
    refused("V13 *", json!({"add": (0..58).map(|at| json!({"id": format!("n{at}")})).collect::<Vec<_>>()}));
    accepted(json!({"add": (0..57).map(|at| json!({"id": format!("n{at}")})).collect::<Vec<_>>()}));
}

#[test]
fn a_patch_keeps_edges_and_may_change_nothing() {
    let patch = |value: Value| -> Change { serde_json::from_value(json!({"patch": value})).unwrap() };
    let again = merged(&plan(), &patch(json!({"node": "b"}))).unwrap();
    assert_eq!((again.plan.version, ids(&again.changed).as_str()), (2, ""));
    let other = merged(&plan(), &patch(json!({"node": "b", "set": {"retries": 3}}))).unwrap();
    assert_eq!((node(&other.plan, "b").retries, ids(&other.changed).as_str()), (3, "b"));
    assert_eq!(merged(&plan(), &patch(json!({"node": "b", "set": {"impact": 1}}))).unwrap_err(), "V15 b");
    assert_eq!(merged(&plan(), &patch(json!({"node": "b", "set": {"deps": []}}))).unwrap_err(), "D06 b");
    assert_eq!(merged(&plan(), &patch(json!({"node": "z"}))).unwrap_err(), "D03 z");
}

#[test]
fn a_change_of_the_wrong_shape_says_what_is_expected() {
    for (change, expected) in [
        (json!({"delta": {"drop": ["a"]}}), "unknown field `drop`"),
        (json!({"delta": {"set": {"c": {"whan": 1}}}}), "unknown field `whan`"),
        (json!({"delta": {"set": {"c": {"kind": null}}}}), "expected"),
        (
            json!({"delta": {"set": {"c": {"impact": 3}}}}),
            "impact is 0 (observe), 1 (operate) or 2 (control)",
        ),
        (json!({"delta": {"rewire": {"c": [1]}}}), "the id of a node, or {n: id, on: success | terminal}"),
        (json!({"delta": {"rewire": {"c": [{"n": "a", "on": "failure"}]}}}), "`success` or `terminal`"),
        (json!({"delta": {"set": {"c": {"timeout": "soon"}}}}), "\"30s\""),
        (json!({"delta": {"set": {"c": {"retries": 1.5}}}}), "i64"),
        (json!({"delta": {"set": {"c": {"retries": 9223372036854775808u64}}}}), "i64"),
        (json!({"graft": {}}), "`delta` or `patch`"),
    ] {
        let refused = serde_json::from_value::<Change>(change.clone()).unwrap_err().to_string();
        assert!(refused.contains(expected), "{change}: {refused}");
    }
}

/// A tool with impact 0 for `{"mode": "look"}` and effects otherwise.
struct OneTool;

impl Tools for OneTool {
    fn defaults(&self, tool: &str, literal: &Map<String, Value>) -> Option<ToolDefaults> {
        let looks = literal.get("mode") == Some(&json!("look"));
        let text = || ToolDefaults {
            result_schema: Some(json!({"type": "string"}).into()),
            ..ToolDefaults::default()
        };
        if tool == "text" {
            return Some(text());
        }
        (tool == "t").then(|| ToolDefaults {
            effect: if looks { Effect::Read } else { Effect::External },
            impact: if looks { 0 } else { 1 },
            idem: if looks { Idempotency::Natural } else { Idempotency::None },
            only_waits: false,
            result_schema: Some(json!({"type": "object"}).into()),
        })
    }

    fn names(&self) -> Vec<String> {
        vec!["t".into(), "text".into()]
    }
}

#[test]
fn a_real_node_stays_as_dangerous_as_its_tool_and_a_journal_needs_no_tools() {
    let settings = Settings::real(2, &OneTool);
    let draft = json!({"id": "p", "nodes": [{"id": "c", "tool": "t", "params": {"mode": "look"}}]});
    let plan = serde_json::from_value::<PlanDraft>(draft).unwrap().validate(&settings).unwrap();
    assert_eq!(node(&plan, "c").impact, 0);
    let change = delta(json!({"set": {"c": {"params": {"mode": "act"}, "impact": 0}},
        "add": [{"id": "n", "tool": "t", "timeout": "2m", "contract": [{"method": "schema"}]}]}));
    let merged = merge(&plan, &change, &standing, false, &settings).unwrap();
    for id in ["c", "n"] {
        let node = node(&merged.plan, id);
        assert_eq!((node.effect, node.impact, node.idem), (Effect::External, 1, Idempotency::None), "{id}");
    }
    assert_eq!(node(&merged.plan, "n").timeout, 120_000);
    assert_eq!(apply_change(&plan, &merged.revision).plan, merged.plan);
}

#[test]
fn a_node_that_gets_another_tool_has_nothing_of_the_one_before() {
    let settings = Settings::real(2, &OneTool);
    let check = |from: Value, set: Value, expected: (Effect, u8, Idempotency, i64, &str)| {
        let mut draft = json!({"id": "p", "nodes": [from]});
        draft["nodes"][0]["id"] = json!("c");
        let plan = serde_json::from_value::<PlanDraft>(draft).unwrap().validate(&settings).unwrap();
        let patch = serde_json::from_value(json!({"patch": {"node": "c", "set": set}})).unwrap();
        let merged = merge(&plan, &patch, &standing, false, &settings).unwrap();
        let node = node(&merged.plan, "c");
        let result = node.contract[0].spec.as_ref().unwrap()["type"].as_str().unwrap();
        assert_eq!((node.effect, node.impact, node.idem, node.retries, result), expected, "{set}");
    };
    let acts = || json!({"tool": "t", "params": {"mode": "act"}});
    let looks = (Effect::None, 0, Idempotency::Natural, 0, "string");
    check(acts(), json!({"tool": "text", "params": {}}), looks);
    let acts_now = (Effect::External, 1, Idempotency::None, 0, "object");
    check(json!({"tool": "text"}), json!({"tool": "t", "params": {"mode": "act"}}), acts_now);
    let own = json!({"tool": "t", "params": {"mode": "look"}, "contract": [{"method": "schema", "spec": {"type": "number"}}]});
    check(json!({"tool": "text"}), own, (Effect::Read, 0, Idempotency::Natural, 2, "number"));
}

#[test]
fn changes_read_back_as_they_are_written() {
    for change in [
        delta(
            json!({"base": 3, "add": [{"id": "n", "deps": ["a", {"n": "b", "on": "terminal"}], "timeout": "3s"}],
            "rewire": {"c": ["a"]}, "replace": {"a": "b"}, "set": {"c": {"model": null, "deps": null, "impact": 2}},
            "cancel": ["d"], "outputs": []}),
        ),
        serde_json::from_value(json!({"patch": {"node": "a", "set": {"timeout": 1.5}}})).unwrap(),
        serde_json::from_value(json!({"patch": {"node": "a"}})).unwrap(),
    ] {
        let again: Change = serde_json::from_value(serde_json::to_value(&change).unwrap()).unwrap();
        assert_eq!(again, change);
    }
}

/// Counts the calls whose parameters are judged: one for each node.
#[derive(Default)]
struct Counting(AtomicUsize);

impl Tools for Counting {
    fn defaults(&self, _: &str, _: &Map<String, Value>) -> Option<ToolDefaults> {
        Some(ToolDefaults::default())
    }

    fn check_params(&self, _: &str, _: &Map<String, Value>, _: &BTreeSet<&str>) -> Vec<BadParam> {
        self.0.fetch_add(1, Ordering::Relaxed);
        Vec::new()
    }

    fn names(&self) -> Vec<String> {
        vec!["t".to_owned()]
    }
}

#[test]
fn a_list_beyond_the_limits_is_refused_before_any_child_is_made() {
    let tools = Counting::default();
    let settings = Settings::real(1, &tools);
    let mut nodes: Vec<Value> = (0..99).map(|at| json!({"id": format!("d{at}"), "tool": "t"})).collect();
    let deps: Vec<Value> = nodes.iter().map(|node| node["id"].clone()).collect();
    let list = json!({"from": "d0", "path": "x", "as": "p", "max": 9_000_000_000_u64});
    nodes.push(json!({"id": "e", "tool": "t", "deps": deps, "for_each": list}));
    with_contracts(&mut nodes);
    let draft: PlanDraft = serde_json::from_value(json!({"id": "p", "nodes": nodes})).unwrap();
    let plan = draft.validate(&settings).unwrap();
    let at = plan.position(&"e".into()).unwrap();
    let expanded = |count| {
        let before = tools.0.load(Ordering::Relaxed);
        let result = expand(&plan, at, count, &|_| NodeProgress::NotStarted, false, &settings);
        let faults: Vec<String> = result.err().into_iter().flatten().map(|fault| fault.detail).collect();
        (faults, tools.0.load(Ordering::Relaxed) - before)
    };
    let (faults, asked) = expanded(10);
    assert!(faults.is_empty() && asked >= 10, "{faults:?} {asked}");
    let edges = format!("the plan has 100099 edges, at most {PLAN_EDGES_MAX} are allowed");
    assert_eq!(expanded(1_000), (vec![edges], 0));
    let (faults, asked) = expanded(usize::MAX);
    assert!(faults[0].ends_with("nodes, policy.max_nodes allows 10000") && asked == 0, "{faults:?} {asked}");
}
