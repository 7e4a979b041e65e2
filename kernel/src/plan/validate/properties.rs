//! What must hold of any plan, and of the largest.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use serde_json::{Value, json};

use super::tests::{TwoTools, draft, told};
use super::*;
use crate::plan::{Join, PlanDraft, PolicyDraft, Settings, normalise};

/// The definition, word by word: each candidate's cone on its own.
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

/// A plan whose nodes depend on nodes before them only.
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

/// Anything that has the shape of a plan, with few names so that they meet.
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

/// A normalised plan, written out again.
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
            let mut twice = normalise(written(once.plan(), settings.bare), &settings);
            twice.plan.outputs_declared = once.plan.outputs_declared; // written outputs are declared ones
            prop_assert_eq!(once.plan(), twice.plan());
        }
    }

    #[test]
    fn speculation_is_what_its_definition_says(plan in acyclic()) {
        let settings = Settings::simulation(PolicyDraft::default(), None);
        let unchecked = normalise(draft(&plan), &settings);
        let expected = speculative_by_definition(unchecked.plan());
        let faults = validate(unchecked, &settings).err().unwrap_or_default();
        let named = faults.iter().filter(|f| f.code == crate::plan::FaultCode::V12).map(|f| f.node.clone());
        prop_assert_eq!(named.collect::<BTreeSet<_>>(), expected);
    }
}

/// 10,000 nodes with ten edges each, every other reading what it depends on.
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
    let settings = Settings { tools: None, complete: false, ..Settings::real(4, &TwoTools) };
    let plan = large().validate(&settings).unwrap();
    assert_eq!(plan.nodes.len(), 10_000);
    assert!(plan.nodes.iter().map(|node| node.deps.len()).sum::<usize>() > 90_000);
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
    // A path through all nodes, and back; one id for all; everything unknown; joins nested in joins.
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
