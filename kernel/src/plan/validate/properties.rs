//! Properties of any plan, and of the largest.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use serde_json::{Value, json};

use super::tests::{TwoTools, draft, told};
use super::*;
use crate::plan::{Change, Join, NodeProgress, PlanDraft, PolicyDraft, Settings, merge, normalise};

/// The definition of V12, literally: each candidate's cone on its own.
fn speculative_by_definition(plan: &Plan) -> BTreeSet<String> {
    let nodes: BTreeMap<&str, &crate::plan::Node> =
        plan.nodes.iter().map(|node| (node.id.as_str(), node)).collect();
    let is_output = |id: &str| plan.outputs.iter().any(|output| output.as_str() == id);
    let successes = |id: &str| -> Vec<&str> {
        let names =
            |node: &&crate::plan::Node| node.deps.iter().any(|d| d.n.as_str() == id && d.on == On::Success);
        plan.nodes.iter().filter(names).map(|node| node.id.as_str()).collect()
    };
    let is_any_of = |id: &str| nodes[id].join == Some(Join::AnyOf);
    let mut named = BTreeSet::new();
    for join in &plan.nodes {
        if join.join != Some(Join::AnyOf) || join.dispatch == crate::plan::Dispatch::Ordered {
            continue;
        }
        for candidate in join.deps.iter().map(|dep| dep.n.as_str()) {
            if is_output(candidate) || !successes(candidate).into_iter().all(is_any_of) {
                continue;
            }
            let mut cone = BTreeSet::from([candidate]);
            loop {
                let sources = cone.iter().flat_map(|id| nodes[id].deps.iter().map(|dep| dep.n.as_str()));
                let joins_cone = |id: &&str| {
                    let out = successes(id);
                    !is_output(id) && !out.is_empty() && out.iter().all(|to| cone.contains(to))
                };
                let grown: BTreeSet<&str> = cone.iter().copied().chain(sources.filter(joins_cone)).collect();
                if grown == cone {
                    break;
                }
                cone = grown;
            }
            named.extend(cone.into_iter().filter(|id| nodes[id].impact > 0).map(str::to_owned));
        }
    }
    named
}

/// A plan with dependencies on earlier nodes only.
fn acyclic() -> impl Strategy<Value = Value> {
    let node = (
        prop::collection::vec((any::<prop::sample::Index>(), prop::bool::weighted(0.15)), 0..4),
        prop::option::weighted(0.5, prop::bool::weighted(0.2)),
        prop::bool::weighted(0.4),
    );
    let outputs = prop::option::of(prop::collection::vec(any::<prop::sample::Index>(), 0..3));
    (prop::collection::vec(node, 1..14), outputs).prop_map(|(nodes, outputs)| {
        let count = nodes.len();
        let described = nodes.into_iter().enumerate().map(|(at, (deps, any_of, acts))| {
            let mut sources = BTreeMap::new();
            for (dep, terminal) in deps.iter().filter(|_| at > 0) {
                sources.insert(dep.index(at), *terminal);
            }
            let deps: Vec<Value> = sources
                .iter()
                .map(|(n, terminal)| json!({"n": format!("n{n:02}"), "on": if *terminal { "terminal" } else { "success" }}))
                .collect();
            let mut node = json!({"id": format!("n{at:02}"), "deps": deps, "contract": [{"method": "code"}]});
            if let (Some(ordered), true) = (any_of, deps.len() > 1) {
                node["join"] = json!("any_of");
                node["dispatch"] = json!(if ordered { "ordered" } else { "parallel" });
            }
            if acts {
                (node["effect"], node["impact"]) = (json!("write"), json!(1));
            }
            node
        });
        let mut plan = json!({"id": "p", "nodes": described.collect::<Vec<_>>()});
        if let Some(outputs) = outputs {
            plan["outputs"] = outputs.iter().map(|index| json!(format!("n{:02}", index.index(count)))).collect();
        }
        plan
    })
}

/// Arbitrary data with the shape of a plan, over few names to provoke collisions.
fn anything() -> impl Strategy<Value = Value> {
    let name = prop::sample::select(vec!["a", "b", "c", "d", "e", "$winner", "", "x y"]);
    let dep = (name.clone(), any::<bool>())
        .prop_map(|(n, on)| if on { json!(n) } else { json!({"n": n, "on": "terminal"}) });
    let number = prop::sample::select(vec![i64::MIN, -1, 0, 1, 2, 300, i64::MAX]);
    let path = prop::option::of(prop::sample::select(vec!["v", "v.0", "", ".", "é"]));
    let reference = (name.clone(), path).prop_map(|(from, path)| json!({"from": from, "path": path}));
    let rule =
        (prop::option::of(prop::sample::select(vec!["schema", "model"])), prop::option::of(-1.0..2.0f64))
            .prop_map(|(method, p)| json!({"method": method, "p": p}));
    let shape = (
        name.clone(),
        prop::collection::vec(dep, 0..4),
        prop::option::of(prop::sample::select(vec!["all_of", "any_of"])),
        prop::option::of(prop::sample::select(vec!["parallel", "ordered"])),
        prop::collection::btree_map("[xyz]", reference, 0..3),
        prop::collection::vec(name.clone(), 0..2),
    );
    let rest = (
        prop::option::of(prop::collection::vec(rule, 0..3)),
        prop::option::of(prop::sample::select(vec![
            "tool",
            "model",
            "aggregator",
            "observer",
            "human_approval",
        ])),
        prop::option::of(prop::sample::select(vec!["none", "read", "write", "external"])),
        0..3u8,
        prop::option::of(number.clone()),
        prop::option::of(number),
        prop::option::of(prop::sample::select(vec!["look", "act", "none such"])),
    );
    let node = (shape, rest).prop_map(|((id, deps, join, dispatch, refs, reads), rest)| {
        let (contract, kind, effect, impact, timeout, retries, tool) = rest;
        json!({"id": id, "deps": deps, "join": join, "dispatch": dispatch, "param_refs": refs, "reads": reads,
               "contract": contract, "kind": kind, "effect": effect, "impact": impact, "timeout": timeout,
               "retries": retries, "tool": tool, "params": {"x": 1}})
    });
    let outputs = prop::option::of(prop::collection::vec(name, 0..3));
    (prop::collection::vec(node, 0..7), outputs, any::<bool>()).prop_map(
        |(nodes, outputs, strict)| json!({"id": "p", "nodes": nodes, "outputs": outputs, "strict": strict}),
    )
}

/// A plan for two tools, with a fallback on most nodes.
fn with_fallbacks() -> impl Strategy<Value = Value> {
    let schema = |spec: Value| json!([{"method": "schema", "spec": spec}]);
    let nothing = json!({"type": "object", "additionalProperties": false});
    let fallbacks = vec![
        json!({}),
        json!({"params": {"x": 1}}),
        json!({"tool": "act"}),
        json!({"tool": "lok"}),
        json!({"tool": null}),
        json!({"tool": "act", "params": {"mode": "look"}}),
        json!({"kind": "aggregator", "tool": null, "params": {"template": "{{ n01 }}"}}),
        json!({"kind": "sub_agent"}),
        json!({"kind": "human_approval", "tool": null}),
        json!({"contract": schema(nothing)}),
        json!({"contract": [{"method": "model", "p": 2}, {}, {"method": "code"}]}),
        json!({"contract": null, "effect": "write", "impact": 1}),
        json!({"deps": ["n00"], "id": "x"}),
        json!({"timeout": 0, "retries": -1, "patches": 300, "heartbeat_timeout": 0}),
        json!({"approval": "before"}),
        json!({"param_refs": {"y": {"from": "n00", "path": "w"}, "mode": {"from": "n01", "path": "."}}}),
        json!({"reads": ["n02", "gone"]}),
    ];
    let fallbacks = prop::collection::vec(prop::option::weighted(0.7, prop::sample::select(fallbacks)), 14);
    let rest = (any::<bool>(), prop::bool::weighted(0.1));
    (acyclic(), fallbacks, rest).prop_map(move |(mut plan, fallbacks, (strict, is_last))| {
        let result = json!({"type": "object", "properties": {"v": {}}, "additionalProperties": false});
        for (node, fallback) in plan["nodes"].as_array_mut().unwrap().iter_mut().zip(fallbacks) {
            node["tool"] = json!(if node.get("effect").is_some() { "act" } else { "look" });
            if node["tool"] == "act" {
                (node["effect"], node["impact"]) = (json!("external"), json!(2));
            }
            node["contract"] = schema(result.clone());
            let from = node["deps"].as_array().unwrap().iter().find(|dep| dep["on"] == "success").cloned();
            if let (Some(from), None) = (from, node.get("join")) {
                node["param_refs"] = json!({"r": {"from": from["n"], "path": "v"}});
            }
            if let Some(fallback) = fallback {
                node["fallback"] = fallback;
            }
        }
        plan["strict"] = json!(strict);
        if is_last {
            plan["policy"] = json!({"max_versions": 1});
        }
        plan
    })
}

/// The definition: merge each fallback as a patch and validate the whole plan.
fn fallbacks_by_merging(unchecked: &UncheckedPlan, settings: &Settings<'_>) -> Vec<Diagnostic> {
    let mut faults = Vec::new();
    for (at, node) in unchecked.plan.nodes.iter().enumerate() {
        let Some(fields) = &node.fallback else { continue };
        let patch = Change::Patch { node: node.id.clone(), set: Some((**fields).clone()) };
        let merged = merge(&unchecked.plan, &patch, &|_| NodeProgress::NotStarted, false, settings);
        let place = unchecked.origin.node(at).key("fallback");
        faults.extend(merged.err().unwrap_or_default().into_iter().map(|fault| {
            let detail = format!("in its fallback: {}", fault.detail);
            Diagnostic::new(fault.code, &node.id, detail, fault.help).at(&place)
        }));
    }
    sort_and_limit(faults)
}

fn written(plan: &Plan, second: i64) -> PlanDraft {
    let mut value = serde_json::to_value(plan).unwrap();
    value.as_object_mut().unwrap().remove("outputs_declared");
    for node in value["nodes"].as_array_mut().unwrap() {
        for field in ["timeout", "human_timeout"] {
            if let (Some(ms), 1_000) = (node[field].as_i64(), second) {
                node[field] = json!(format!("{ms}ms"));
            }
        }
    }
    for field in ["backoff_base", "backoff_cap"] {
        if let (Some(ms), 1_000) = (value["policy"][field].as_i64(), second) {
            value["policy"][field] = json!(format!("{ms}ms"));
        }
    }
    if plan.contract.is_empty() {
        value.as_object_mut().unwrap().remove("contract");
    }
    draft(&value)
}

proptest! {
    #[test]
    fn no_plan_makes_the_judge_fall_over(plan in anything()) {
        for settings in [
            Settings::simulation(PolicyDraft::default(), None),
            Settings::simulation(PolicyDraft::default(), Some(&TwoTools)),
            Settings::real(1, &TwoTools),
        ] {
            match draft(&plan).validate(&settings) {
                Ok(plan) => prop_assert!(plan.nodes.is_sorted_by(|a, b| a.id < b.id)),
                Err(faults) => {
                    prop_assert!(!faults.is_empty());
                    prop_assert!(faults.is_sorted_by(|a, b| (a.code, &a.node) <= (b.code, &b.node)));
                }
            }
        }
    }

    #[test]
    fn normalising_twice_is_normalising_once(plan in anything()) {
        for settings in [Settings::simulation(PolicyDraft::default(), None), Settings::real(1, &TwoTools)] {
            let once = normalise(draft(&plan), &settings);
            let mut twice = normalise(written(once.plan(), settings.ticks_per_second), &settings);
            twice.plan.outputs_declared = once.plan.outputs_declared; // written outputs are declared ones
            prop_assert_eq!(once.plan(), twice.plan());
        }
    }

    #[test]
    fn fallbacks_have_the_faults_of_the_patches_that_they_are(plan in with_fallbacks()) {
        let mut bare = plan.clone();
        for node in bare["nodes"].as_array_mut().unwrap() {
            node.as_object_mut().unwrap().remove("fallback");
        }
        for settings in [
            Settings::simulation(PolicyDraft::default(), Some(&TwoTools)),
            Settings::real(1, &TwoTools),
        ] {
            if draft(&bare).validate(&settings).is_ok() {
                let unchecked = normalise(draft(&plan), &settings);
                let expected = fallbacks_by_merging(&unchecked, &settings);
                prop_assert_eq!(validate(unchecked, &settings).err().unwrap_or_default(), expected);
            }
        }
    }

    #[test]
    fn speculation_is_what_its_definition_says(plan in acyclic()) {
        let settings = Settings::simulation(PolicyDraft::default(), None);
        let unchecked = normalise(draft(&plan), &settings);
        let expected = speculative_by_definition(unchecked.plan());
        let faults = validate(unchecked, &settings).err().unwrap_or_default();
        let named = faults.iter().filter(|f| f.code == crate::plan::DiagnosticCode::V12).map(|f| f.node.clone());
        prop_assert_eq!(named.collect::<BTreeSet<_>>(), expected);
    }
}

/// 10,000 nodes with ten edges each; every other node reads one dependency.
fn large() -> PlanDraft {
    let mut nodes = Vec::new();
    for at in 0..10_000usize {
        let deps: Vec<String> =
            (1..=10).filter_map(|back| at.checked_sub(back * 97)).map(|n| format!("n{n}")).collect();
        let mut node = json!({"id": format!("n{at}"), "deps": deps, "contract": [{"method": "code"}]});
        if let (Some(source), true) = (deps.first(), at % 2 == 0) {
            node["param_refs"] = json!({"x": {"from": source, "path": "v.0"}});
        }
        nodes.push(node);
    }
    draft(&json!({"id": "large", "nodes": nodes}))
}

#[test]
fn the_largest_plan_is_judged() {
    let settings = Settings { tools: None, real_run: false, ..Settings::real(4, &TwoTools) };
    let plan = large().validate(&settings).unwrap();
    assert_eq!(plan.nodes.len(), 10_000);
    assert!(plan.nodes.iter().map(|node| node.deps.len()).sum::<usize>() > 90_000);
}

#[test]
fn a_plan_whose_nodes_all_have_a_fallback_is_judged() {
    let node = |at: usize| json!({"id": format!("n{at}"), "tool": "look", "fallback": {"params": {"x": at}}});
    let plan = json!({"id": "p", "nodes": (0..10_000).map(node).collect::<Vec<_>>()});
    assert_eq!(draft(&plan).validate(&Settings::real(4, &TwoTools)).unwrap().nodes.len(), 10_000);
}

#[test]
fn the_worst_plans_of_full_size_are_judged() {
    let settings = Settings::simulation(
        serde_json::from_value(json!({"max_nodes": 10_000, "max_depth": 10_000})).unwrap(),
        None,
    );
    let rule = json!([{"method": "code"}]);
    let plan = |node: &dyn Fn(usize) -> Value| {
        let nodes: Vec<Value> = (0..10_000)
            .map(|at| {
                let mut node = node(at);
                node["contract"] = rule.clone();
                node
            })
            .collect();
        told(draft(&json!({"id": "p", "nodes": nodes})).validate(&settings))
    };
    // One path through all nodes, a ring, one id for all, only unknown names, nested joins.
    assert_eq!(
        plan(
            &|at| json!({"id": format!("n{at}"), "deps": if at == 0 { vec![] } else { vec![format!("n{}", at - 1)] }})
        ),
        ""
    );
    let ring = plan(&|at| json!({"id": format!("n{at}"), "deps": [format!("n{}", (at + 9_999) % 10_000)]}));
    assert_eq!(ring.split(", ").count(), 10_000);
    assert_eq!(plan(&|_| json!({"id": "n"})), "V01 n");
    let unknown = plan(&|at| json!({"id": format!("n{at}"), "deps": [format!("m{at}")]}));
    assert_eq!(unknown.split(", ").count(), 10_000);
    let nested = plan(&|at| match at {
        0 | 1 => json!({"id": format!("n{at}")}),
        _ if at % 2 == 0 => json!({"id": format!("n{at}"), "join": "any_of",
            "deps": [format!("n{}", at - 1), format!("n{}", at - 2)]}),
        _ => json!({"id": format!("n{at}")}),
    });
    assert_eq!(nested, "");
}
