//! Tables of diagnostics, one per rule family.

use serde_json::{Value, json};

use super::*;
use crate::contract::{CONTRACT_PATTERNS_BYTES_MAX, CONTRACT_RULES_MAX};
use crate::evaluation::Domains;
use crate::plan::{
    Effect, Idempotency, Kind, PlanDraft, PolicyDraft, SUB_AGENT_TOOL, Settings, ToolDefaults, Tools,
    normalise,
};
use crate::template::TEMPLATE_BYTES_MAX;

/// Two tools: `look` has no effect, `act` has one unless called with `{"mode": "look"}`.
pub(super) struct TwoTools;

impl Tools for TwoTools {
    fn defaults(&self, tool: &str, literal: &serde_json::Map<String, Value>) -> Option<ToolDefaults> {
        let looks = tool == "look" || literal.get("mode") == Some(&json!("look"));
        (tool == "look" || tool == "act").then(|| ToolDefaults {
            effect: if looks { Effect::Read } else { Effect::External },
            impact: if looks { 0 } else { 2 },
            idem: if looks { Idempotency::Natural } else { Idempotency::None },
            only_waits: false,
            result_schema: Some(json!({"type": "object"}).into()),
        })
    }

    fn names(&self) -> Vec<String> {
        vec!["act".into(), "look".into(), "model.m".into()]
    }
}

/// Pairs of code and node as text, such as `V01 a, V03 b`.
pub(super) fn told(result: Result<Plan, Vec<Diagnostic>>) -> String {
    let faults = result.err().unwrap_or_default();
    for fault in &faults {
        assert!(!fault.detail.is_empty() && !fault.help.is_empty(), "{fault:?}");
        assert!(!fault.detail.ends_with('.') && !fault.help.ends_with('.'), "{fault:?}");
    }
    let mut pairs: Vec<String> =
        faults.iter().map(|fault| format!("{} {}", fault.code, fault.node)).collect();
    pairs.dedup();
    pairs.join(", ")
}

pub(super) fn draft(plan: &Value) -> PlanDraft {
    serde_json::from_value(plan.clone()).unwrap_or_else(|error| panic!("{plan}: {error}"))
}

/// Adds an id to the plan and a contract to each node without one.
fn simulated(mut plan: Value) -> Result<Plan, Vec<Diagnostic>> {
    plan["id"] = json!("p");
    for node in plan["nodes"].as_array_mut().into_iter().flatten() {
        let node = node.as_object_mut().unwrap();
        node.entry("contract").or_insert_with(|| json!([{"method": "schema"}]));
    }
    draft(&plan).validate(&Settings::simulation(PolicyDraft::default(), None))
}

#[track_caller]
fn check(expected: &str, plan: Value) {
    assert_eq!(told(simulated(plan.clone())), expected, "{plan}");
}

#[track_caller]
fn check_nodes(expected: &str, nodes: Value) {
    check(expected, json!({"nodes": nodes}));
}

#[test]
fn ids_and_edges() {
    let long = "x".repeat(64);
    check_nodes("", json!([{"id": long}, {"id": "A-z_0.9"}]));
    check_nodes("V01 ", json!([{"id": ""}]));
    check_nodes("V01 é", json!([{"id": "é"}]));
    check_nodes("V01 a", json!([{"id": "a"}, {"id": "a"}, {"id": "a"}]));
    check_nodes("V02 a", json!([{"id": "a", "deps": ["a"]}]));
    check_nodes("V02 a", json!([{"id": "a", "param_refs": {"x": {"from": "a", "path": "v"}}}]));
    check_nodes("V03 a", json!([{"id": "a", "deps": ["y", {"n": "z", "on": "terminal"}]}]));
    check("V03 z", json!({"nodes": [{"id": "a"}], "outputs": ["a", "z"]}));
    check_nodes("V19 g", json!([{"id": "g", "kind": "aggregator"}, {"id": "a", "deps": ["g"]}]));
}

#[test]
fn of_an_id_used_twice_each_description_is_judged_and_the_later_has_the_edges() {
    let twice = |first: Value, second: Value| json!([first, second, {"id": "b", "deps": ["a"]}]);
    check_nodes("V01 a", twice(json!({"id": "a", "deps": ["b"]}), json!({"id": "a"})));
    check_nodes("V01 a, V04 a, V04 b", twice(json!({"id": "a"}), json!({"id": "a", "deps": ["b"]})));
    check_nodes(
        "V01 a, V14 a, V15 a",
        twice(json!({"id": "a", "timeout": 0}), json!({"id": "a", "impact": 1})),
    );
}

#[test]
fn cycles() {
    check_nodes(
        "V04 b, V04 c, V04 d",
        json!([{"id": "a"}, {"id": "b", "deps": ["a", "d"]}, {"id": "c", "deps": ["b"]},
               {"id": "d", "deps": ["c"]}, {"id": "e", "deps": ["d"]}]),
    );
    check_nodes(
        "V04 a, V04 b, V04 c, V04 d",
        json!([{"id": "a", "deps": ["b"]}, {"id": "b", "deps": ["a"]},
               {"id": "c", "deps": ["d", "a"]}, {"id": "d", "deps": ["c"]}]),
    );
    let ordered = |deps: Value| {
        json!([{"id": "a"}, {"id": "b", "deps": ["a"]}, {"id": "c"},
               {"id": "j", "deps": deps, "join": "any_of", "dispatch": "ordered"}])
    };
    check_nodes("", ordered(json!(["a", "b", "c"])));
    check_nodes("V04 a, V04 b", ordered(json!(["b", "a", "c"])));
    check_nodes("V04 a, V04 b, V04 c", ordered(json!(["b", "c", "a"])));
    check_nodes("V04 c, V06 j", ordered(json!(["a", "c", "c"])));
    check_nodes("V03 j, V04 a, V04 b", ordered(json!(["b", "gone", "a"])));
}

#[test]
fn a_cycle_is_shown() {
    let faults = simulated(json!({"nodes": [{"id": "x", "deps": ["z"]}, {"id": "y", "deps": ["x"]},
                                            {"id": "z", "deps": ["y"]}]}));
    let details: Vec<String> = faults.unwrap_err().into_iter().map(|fault| fault.detail).collect();
    assert_eq!(details, ["is in a cycle: x -> z -> y -> x"; 3]);
}

#[test]
fn a_long_cycle_is_cut_and_counted_and_told_of_every_node_in_the_same_words() {
    let node = |at: usize| json!({"id": format!("n{at}"), "deps": [format!("n{}", (at + 19) % 20)]});
    let faults = simulated(json!({"nodes": (0..20).map(node).collect::<Vec<_>>()})).unwrap_err();
    let told = "is in a cycle: n0 -> n19 -> n18 -> n17 -> n16 -> n15 -> n14 -> n13 -> … -> n0 (20 nodes)";
    assert!(faults.len() == 20 && faults.iter().all(|fault| fault.detail == told), "{faults:#?}");
    let place = |id: &str| faults.iter().find(|fault| fault.node == id).map(|fault| fault.pointer.as_str());
    assert_eq!((place("n0"), place("n7")), (Some("/nodes/0/deps/0"), Some("/nodes/7/deps/0")));
}

#[test]
fn what_leads_nowhere_is_dead_only_where_outputs_are_declared() {
    let nodes = json!([{"id": "a"}, {"id": "b", "deps": [{"n": "a", "on": "terminal"}]}, {"id": "c"},
                       {"id": "w", "effect": "write", "impact": 1},
                       {"id": "o", "kind": "observer", "deps": ["c"]}]);
    check_nodes("", nodes.clone());
    check("", json!({"nodes": nodes, "outputs": ["b"]}));
    check("V05 b", json!({"nodes": nodes, "outputs": ["a"]}));
    check("V05 a, V05 b", json!({"nodes": nodes, "outputs": []}));
}

#[test]
fn joins() {
    let any_of = |deps: Value| json!([{"id": "a"}, {"id": "b"}, {"id": "j", "deps": deps, "join": "any_of"}]);
    check_nodes("", any_of(json!(["a", "b"])));
    check_nodes("V06 j", any_of(json!([])));
    check_nodes("V06 j", any_of(json!(["a"])));
    check_nodes("V06 j", any_of(json!(["a", "b", "a"])));
    check_nodes("V18 j", any_of(json!(["a", {"n": "b", "on": "terminal"}])));
    check_nodes("V07 a", json!([{"id": "a", "join": "all_of", "deps": []}]));
}

#[test]
fn contracts() {
    check_nodes("V08 a", json!([{"id": "a", "contract": []}]));
    check_nodes("V08 a", json!([{"id": "a", "contract": null}]));
    check_nodes("V09 a", json!([{"id": "a", "contract": [{"method": "code"}, {}]}]));
    for p in [json!(0), json!(-0.5), json!(1.5), json!(1e308)] {
        check_nodes("V09 a", json!([{"id": "a", "contract": [{"method": "code", "p": p}]}]));
    }
    for p in [json!(1), json!(0.5), json!(1e-300), json!(null)] {
        check_nodes("", json!([{"id": "a", "contract": [{"method": "code", "p": p}]}]));
    }
    check("V08 *", json!({"nodes": [{"id": "a"}], "contract": []}));
    check("", json!({"nodes": [{"id": "a"}], "contract": [{"method": "test"}]})); // its script says what comes of it
    check("V09 *", json!({"nodes": [{"id": "a"}], "contract": [{"method": "code"}, {"spec": 1}]}));
    let control =
        |contract: Value| json!([{"id": "a", "effect": "external", "impact": 2, "contract": contract}]);
    check_nodes("V16 a", control(json!([{"method": "model"}, {"method": "model", "p": 0.9}])));
    check_nodes("V09 a", control(json!([{"method": "model"}, {"p": 0.9}])));
    check_nodes("V08 a", control(json!([])));
}

#[test]
fn references() {
    let reads = |deps: Value, from: &str, path: Value, strict: bool| {
        json!({"nodes": [{"id": "a"}, {"id": "c"},
            {"id": "b", "deps": deps, "param_refs": {"x": {"from": from, "path": path}}}], "strict": strict})
    };
    check("", reads(json!([]), "a", json!("v"), false));
    check("V11 b", reads(json!([]), "a", json!("v"), true));
    check("V11 b", reads(json!([{"n": "a", "on": "terminal"}]), "a", json!("v"), false));
    check("", reads(json!([{"n": "a", "on": "terminal"}, "a"]), "a", json!("v"), false));
    check("V11 b", reads(json!(["a"]), "$winner", json!("v"), false));
    check("V03 b", reads(json!(["a"]), "gone", json!("v"), false));
    for path in [json!("v"), json!("0"), json!("a-b_c.01.Z")] {
        check("", reads(json!([]), "a", path, false));
    }
    for path in [
        json!(""),
        json!("."),
        json!("a."),
        json!("a..b"),
        json!("a b"),
        json!("a\n"),
        json!("é"),
        json!(null),
    ] {
        check("V17 b", reads(json!([]), "a", path, false));
    }
    check_nodes("V10 b", json!([{"id": "a"}, {"id": "b", "reads": ["a"]}]));
    check_nodes("V10 b", json!([{"id": "b", "reads": ["gone"]}]));
    check_nodes(
        "",
        json!([{"id": "a"}, {"id": "b", "deps": [{"n": "a", "on": "terminal"}], "reads": ["a"]}]),
    );
    let winner = |from: &str| {
        json!([{"id": "a"}, {"id": "b"}, {"id": "j", "deps": ["a", "b"], "join": "any_of",
                "param_refs": {"x": {"from": from, "path": "v"}}}])
    };
    check_nodes("", winner("$winner"));
    check_nodes("V11 j", winner("a"));
    check_nodes("V03 j", winner("gone"));
}

#[test]
fn bounds() {
    check_nodes("V13 *", json!([]));
    let many = |count: usize| (0..count).map(|at| json!({"id": format!("n{at}")})).collect::<Value>();
    check_nodes("", many(64));
    check_nodes("V13 *", many(65));
    let chain = |count: usize| {
        let deps = |at: usize| if at == 0 { json!([]) } else { json!([format!("n{}", at - 1)]) };
        (0..count).map(|at| json!({"id": format!("n{at}"), "deps": deps(at)})).collect::<Value>()
    };
    check_nodes("", chain(32));
    check_nodes("V13 *", chain(33));
    for (field, value) in [
        ("timeout", json!(0)),
        ("timeout", json!(-1)),
        ("timeout", json!(i64::MIN)),
        ("heartbeat_timeout", json!(0)),
        ("heartbeat_timeout", json!(-1)),
        ("heartbeat_timeout", json!(100)),
        ("retries", json!(-1)),
        ("retries", json!(256)),
        ("retries", json!(i64::MAX)),
        ("patches", json!(i64::MIN)),
        ("patches", json!(i64::MAX)),
        ("approval", json!("before")),
        ("approval", json!("after")),
        ("kind", json!("human_approval")),
    ] {
        check_nodes("V14 a", json!([{"id": "a", field: value}]));
    }
    check_nodes("", json!([{"id": "a", "retries": 255, "timeout": i64::MAX}]));
    check_nodes("", json!([{"id": "a", "timeout": 9, "heartbeat_timeout": 8}]));
    check_nodes("", json!([{"id": "a", "retries": 15, "patches": 15}]));
    check_nodes("V14 a", json!([{"id": "a", "retries": i64::MAX, "patches": i64::MAX}]));
    check_nodes("V14 a", json!([{"id": "a", "approval": "after", "human_timeout": 0}]));
    check_nodes("", json!([{"id": "a", "human_timeout": 0}]));
    for field in ["backoff_base", "backoff_cap"] {
        check("", json!({"nodes": [{"id": "a"}], "policy": {field: 0}}));
        check("V14 *", json!({"nodes": [{"id": "a"}], "policy": {field: -1}}));
    }
    check_nodes("V15 a", json!([{"id": "a", "effect": "read", "impact": 2}]));
    check_nodes("V15 a", json!([{"id": "a", "effect": "external"}]));
}

#[test]
fn speculation() {
    let write = |id: &str, deps: Value| json!({"id": id, "deps": deps, "effect": "write", "impact": 1});
    let race = |deps: Value| json!({"id": "j", "deps": deps, "join": "any_of"});
    let b = json!({"id": "b"});
    // Another consumer of the candidate, or making the candidate an output, ends the race.
    check_nodes("V12 a", json!([write("a", json!([])), b, race(json!(["a", "b"]))]));
    check_nodes("", json!([write("a", json!([])), b, race(json!(["a", "b"])), {"id": "c", "deps": ["a"]}]));
    check("", json!({"nodes": [write("a", json!([])), b, race(json!(["a", "b"]))], "outputs": ["j", "a"]}));
    let observer = json!({"id": "o", "kind": "observer", "deps": [{"n": "a", "on": "terminal"}]});
    check_nodes("V12 a", json!([write("a", json!([])), b, race(json!(["a", "b"])), observer]));
    // A shared ancestor is in no cone; the ancestor of a single candidate is, through any number of joins.
    let shared = json!([write("r", json!([])), {"id": "a", "deps": ["r"]}, {"id": "b", "deps": ["r"]},
                        race(json!(["a", "b"]))]);
    check_nodes("", shared);
    let nested = json!([write("r", json!([])), {"id": "a", "deps": ["r"]}, b, race(json!(["a", "b"])),
                        {"id": "k", "deps": ["j", "z"], "join": "any_of"}, {"id": "z"}]);
    check_nodes("V12 r", nested);
    let diamond = json!([write("r", json!([])), {"id": "x", "deps": ["r"]}, {"id": "y", "deps": ["r"]},
                         {"id": "a", "deps": ["x", "y"]}, b, race(json!(["a", "b"]))]);
    check_nodes("V12 r", diamond);
    // A source over a terminal edge is in no cone.
    let terminal = json!([write("r", json!([])), {"id": "a", "deps": [{"n": "r", "on": "terminal"}]}, b,
                          race(json!(["a", "b"]))]);
    check_nodes("", terminal);
}

#[test]
fn a_real_run_completes_a_plan_from_its_tools() {
    let settings = Settings { executes: |_| true, ..Settings::real(4, &TwoTools) };
    let plan = draft(&json!({"id": "p", "nodes": [
        {"id": "see", "tool": "look", "timeout": "1.5s"},
        {"id": "do", "tool": "act", "impact": 1, "approval": "before", "human_timeout": "1h"},
        {"id": "peek", "tool": "act", "params": {"mode": "look"}},
        {"id": "say", "model": "m", "params": {"prompt": "x", "schema": {"type": "string"}}},
        {"id": "say2", "kind": "model", "params": {"model": "m", "prompt": "x", "schema": true}},
        {"id": "ask", "kind": "human_approval", "human_timeout": 60},
        {"id": "sum", "kind": "aggregator", "deps": ["see"], "params": {"template": "x"}},
    ]}));
    let plan = plan.validate(&settings).unwrap();
    let node = |id: &str| plan.nodes.iter().find(|node| node.id.as_str() == id).unwrap();
    let told = |id: &str| {
        let node = node(id);
        (node.effect, node.impact, node.idem, node.retries, node.timeout)
    };
    assert_eq!(told("see"), (Effect::Read, 0, Idempotency::Natural, 2, 1_500));
    assert_eq!(told("do"), (Effect::External, 2, Idempotency::None, 0, 60_000), "the plan is a floor");
    assert_eq!(told("peek"), (Effect::Read, 0, Idempotency::Natural, 2, 60_000));
    for id in ["say", "say2"] {
        assert_eq!(
            (node(id).model.as_deref(), node(id).tool.as_deref()),
            (Some("m"), Some("model.m")),
            "{id}"
        );
        assert!(!node(id).params.contains_key("model"), "{id}");
    }
    assert_eq!(node("ask").human_timeout, Some(60_000));
    assert_eq!(plan.policy, crate::plan::Policy::real(4));
    for node in &plan.nodes {
        assert!(node.contract[0].spec.is_some() && node.contract[0].p.is_none(), "{node:?}");
    }
}

#[test]
fn what_a_goal_run_adds_has_no_executor_in_a_plan_file() {
    let settings = Settings::real(4, &TwoTools);
    for kind in ["reflection", "observer", "micro_planner", "interjection"] {
        let node = json!({"id": "a", "kind": kind, "model": "m", "human_timeout": 1, "contract": [{"method": "schema"}]});
        let plan = json!({"id": "p", "nodes": [{"id": "s", "tool": "look"}, node]});
        assert!(told(draft(&plan).validate(&settings)).contains("V21 a"), "{kind}");
    }
}

/// [`TwoTools`] and the tool of sub-agents, without its own check of parameters.
struct WithAgents;

impl Tools for WithAgents {
    fn defaults(&self, tool: &str, literal: &serde_json::Map<String, Value>) -> Option<ToolDefaults> {
        TwoTools.defaults(if tool == SUB_AGENT_TOOL { "look" } else { tool }, literal)
    }

    fn names(&self) -> Vec<String> {
        [TwoTools.names(), vec![SUB_AGENT_TOOL.to_owned()]].concat()
    }
}

#[test]
fn a_sub_agent_is_checked_with_its_model_its_tools_and_its_plan() {
    let settings = Settings::real(4, &WithAgents);
    let check = |expected: &[&str], more: Value| {
        let mut node = json!({"id": "a", "kind": "sub_agent"});
        node.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let faults =
            draft(&json!({"id": "p", "nodes": [node]})).validate(&settings).err().unwrap_or_default();
        let told: Vec<String> =
            faults.iter().map(|fault| format!("{} {} {}", fault.code, fault.pointer, fault.detail)).collect();
        assert_eq!(told, expected, "{more}");
    };
    check(&[], json!({"params": {"goal": "g", "model": "m", "tools": ["look"]}}));
    check(&[], json!({"model": "m", "params": {"goal": "g"}}));
    check(&[], json!({"params": {"plan": {"id": "q", "nodes": [{"id": "s", "tool": "look"}]}}}));
    check(&["V23 /nodes/0/params sub_agent: missing parameter `goal`"], json!({"params": {}}));
    check(
        &[
            "V24 /nodes/0/params/model sub_agent: params.model: unknown model default",
            "V24 /nodes/0/params/tools/1 sub_agent: params.tools.1: unknown tool lok",
        ],
        json!({"params": {"goal": "g", "tools": ["look", "lok"]}}),
    );
    check(
        &["V21 /nodes/0/tool names the tool act, but a sub_agent calls agent.ask"],
        json!({"tool": "act", "model": "m", "effect": "external", "params": {"goal": "g"}}),
    );
    let inner = json!({"id": "q", "nodes": [{"id": "s", "kind": "sub_agent", "params": {"goal": "g"}}]});
    check(
        &["V24 /nodes/0/params/plan/nodes/0/params/model \
           sub_agent: params.plan.nodes.0.params.model: s: sub_agent: params.model: unknown model default (V24)"],
        json!({"params": {"plan": inner}}),
    );
}

#[test]
fn a_plan_that_runs_keeps_what_it_was_opened_with() {
    let settings = Settings::real(4, &TwoTools);
    let nodes = json!([
        {"id": "s", "tool": "look"},
        {"id": "g", "kind": "aggregator", "deps": ["s"], "params": {"template": "x"}},
    ]);
    let mut plan = draft(&json!({"id": "p", "nodes": nodes})).validate(&settings).unwrap();
    (plan.nodes[0].timeout, plan.nodes[1].tool) = (TIMEOUT_MS_MAX + 1, Some("look".into()));
    let mut faults = Vec::new();
    super::changed(&plan, &settings, &mut faults);
    assert_eq!(faults, []);
}

#[test]
fn a_real_run_has_rules_of_its_own() {
    let settings = Settings { executes: |kind| kind != Kind::Observer, ..Settings::real(4, &TwoTools) };
    let check = |expected: &str, node: Value| {
        let plan = json!({"id": "p", "nodes": [{"id": "s", "tool": "look"}, node]});
        assert_eq!(told(draft(&plan).validate(&settings)), expected, "{plan}");
    };
    check("", json!({"id": "a", "tool": "look", "params": {"x": 1}}));
    check("V08 a, V21 a", json!({"id": "a", "kind": "observer"}));
    check("V08 a", json!({"id": "a", "kind": "reflection"}));
    check("V08 a, V20 a", json!({"id": "a", "tool": "lok"}));
    check("V08 a, V20 a", json!({"id": "a"}));
    check("V15 a", json!({"id": "a", "tool": "act", "effect": "read"}));
    check("V21 a", json!({"id": "a", "kind": "human_approval", "human_timeout": 9, "tool": "lok"}));
    for key in ["tool", "model"] {
        check("V21 a", json!({"id": "a", "kind": "human_approval", "human_timeout": 9, key: "look"}));
        let params = json!({"template": "x", "prompt": "x", "schema": {"type": "object"}});
        check("V21 a", json!({"id": "a", "kind": "model", "model": "m", "tool": "look", "params": params}));
        let params = json!({"template": "x", "schema": {"type": "object"}});
        check(
            "V21 a",
            json!({"id": "a", "kind": "aggregator", "deps": ["s"], "params": params, "tool": "look"}),
        );
    }
    for field in ["timeout", "human_timeout"] {
        let ticks =
            |over: i64| json!({"id": "a", "tool": "look", field: format!("{}ms", TIMEOUT_MS_MAX + over)});
        check("", ticks(0));
        check("V14 a", ticks(1));
    }
    let slow = json!({"id": "p", "nodes": [{"id": "a", "tool": "look", "timeout": "-5s"}]});
    assert_eq!(
        draft(&slow).validate(&settings).unwrap_err()[0].detail,
        "timeout is -5000 ms, expected more than 0"
    );
    for (expected, rule) in [
        ("", json!({"method": "schema"})),
        ("", json!({"method": "schema", "spec": {"type": "object"}})),
        ("V09 a", json!({"method": "schema", "spec": {"type": "objekt"}})),
        ("V09 a", json!({"method": "code"})),
        ("V09 a", json!({"method": "code", "spec": {"check": "no such check"}})),
        ("", json!({"method": "code", "spec": {"check": "non_empty"}})),
        ("V09 a", json!({"method": "test", "spec": {"argv": []}})),
    ] {
        check(expected, json!({"id": "a", "tool": "look", "contract": [rule]}));
    }
    for (expected, rules) in [("", CONTRACT_RULES_MAX), ("V09 a", CONTRACT_RULES_MAX + 1)] {
        let rule = json!({"method": "schema", "spec": {"type": "object"}});
        check(expected, json!({"id": "a", "tool": "look", "contract": vec![rule; rules]}));
    }
    for (expected, mebibytes) in
        [("", CONTRACT_PATTERNS_BYTES_MAX >> 20), ("V09 a", (CONTRACT_PATTERNS_BYTES_MAX >> 20) + 1)]
    {
        let rule = json!({"method": "code", "spec": {"check": "matches", "value": "(a{1000}){20}"}});
        check(expected, json!({"id": "a", "tool": "look", "contract": vec![rule; mebibytes]}));
    }
    let params = json!({"prompt": "x", "schema": {"type": 7}});
    check("V09 a", json!({"id": "a", "model": "m", "params": params}));
    for (expected, bytes) in [("", TEMPLATE_BYTES_MAX), ("V24 a", TEMPLATE_BYTES_MAX + 1)] {
        let refs = json!({"x": {"from": "s", "path": "v", "template": "{".repeat(bytes)}});
        check(expected, json!({"id": "a", "tool": "look", "param_refs": refs}));
    }
    let refs = json!({"x": {"from": "s", "path": "v"}});
    check("V22 a", json!({"id": "a", "tool": "look", "params": {"x": 1}, "param_refs": refs}));
    let whole = json!([{"method": "schema"}, {"method": "test", "spec": {"argv": ["make"]}}]);
    let whole = |outputs: Value| {
        json!({"id": "p", "nodes": [{"id": "s", "tool": "look"}, {"id": "t", "tool": "look"}],
               "outputs": outputs, "contract": whole})
    };
    let fault = |outputs: Value| match draft(&whole(outputs)).validate(&settings).unwrap_err().as_slice() {
        [fault] => (fault.to_string(), fault.pointer.clone()),
        faults => panic!("{faults:?}"),
    };
    let (detail, place) =
        ("contract[1] is a test, and the contract of a plan cannot run tests", "/contract/1/method");
    let told =
        format!("V25 *: {detail}; move the test to the contract of a node that depends on all outputs");
    assert_eq!(fault(json!(["s", "t"])), (told, place.to_owned()));
    for (method, detail) in [
        ("model", "contract[1] is a rule for a model, and the contract of a plan cannot ask models"),
        ("human", "contract[1] is a rule for a person, and the contract of a plan cannot ask people"),
    ] {
        let mut asking = whole(json!(["s", "t"]));
        asking["contract"][1] = json!({"method": method, "spec": "is it?"});
        let told = draft(&asking).validate(&settings).unwrap_err();
        assert_eq!(told.iter().map(|fault| fault.detail.as_str()).collect::<Vec<_>>(), [detail]);
    }
    let mut one = whole(json!(["t"]));
    one["nodes"][1]["deps"] = json!(["s"]);
    let help = draft(&one).validate(&settings).unwrap_err().remove(0).help;
    assert_eq!(help, "move the test to the contract of the last node, t");
    one["nodes"][1]["contract"] = one["contract"].take();
    one.as_object_mut().unwrap().remove("contract");
    draft(&one).validate(&settings).unwrap();
    let plan = json!({"id": "p", "nodes": [{"id": "a", "tool": "lok", "contract": [{"method": "schema"}]}]});
    assert_eq!(draft(&plan).validate(&settings).unwrap_err()[0].help, "did you mean \"look\"?");
}

#[test]
fn the_policy_is_overridden_key_by_key() {
    let plan = json!({"id": "p", "nodes": [], "policy": {"slots": 2, "max_depth": 5, "backoff_cap": "2m"}});
    let overrides = serde_json::from_value(json!({"max_depth": 7})).unwrap();
    let policy = normalise(draft(&plan), &Settings::simulation(overrides, None)).plan().policy.clone();
    assert_eq!((policy.slots, policy.max_depth, policy.backoff_cap, policy.max_nodes), (2, 7, 120, 64));
}

#[test]
fn a_domain_is_one_that_has_weights() {
    let mut domains = Domains::default();
    domains.set("chemistry", [0.5, 0.1, 0.1, 0.1, 0.1, 0.1]).unwrap();
    let told = |domain: &str, domains: Option<&Domains>| -> Vec<String> {
        let plan = json!({"id": "p", "policy": {"domain": domain}, "nodes": [{"id": "s", "tool": "look"}]});
        let settings = Settings { domains, ..Settings::real(4, &TwoTools) };
        let faults = draft(&plan).validate(&settings).err().unwrap_or_default();
        faults.iter().map(|fault| format!("{} {fault}", fault.pointer)).collect()
    };
    for known in ["default", "legal", "web-testing", "chemistry"] {
        assert_eq!(told(known, Some(&domains)), [""; 0], "{known}");
    }
    assert_eq!(
        told("leagl", Some(&domains)),
        ["/policy/domain V26 *: unknown domain \"leagl\"; did you mean \"legal\"?"]
    );
    assert_eq!(
        told("poetry", Some(&domains)),
        ["/policy/domain V26 *: unknown domain \"poetry\"; known domains: chemistry, dashboard, default, \
          legal, security, web-testing"]
    );
    assert_eq!(told("poetry", None), [""; 0], "nobody knows");
}
