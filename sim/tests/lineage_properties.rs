//! Random plans under random edits: only affected nodes are executed, and no stale result is served.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use serde_json::{Map, Value, json};

/// A node: two parameters, and references to earlier nodes with the referenced field.
#[derive(Debug, Clone)]
struct Node {
    params: [u8; 2],
    refs: Vec<(usize, Field)>,
}

/// Fields of a result: `all` depends on every read value and on the first parameter, `own` on the second parameter alone.
#[derive(Debug, Clone, Copy)]
enum Field {
    All,
    Own,
}

impl Field {
    fn name(self) -> &'static str {
        match self {
            Field::All => "all",
            Field::Own => "own",
        }
    }
}

/// An edit: of a parameter of one node. Each begins a new run, or continues the last one.
#[derive(Debug, Clone)]
struct Edit {
    node: usize,
    param: usize,
    value: u8,
    new_run: bool,
}

fn plans() -> impl Strategy<Value = Vec<Node>> {
    let node = (any::<[u8; 2]>(), prop::collection::vec((any::<prop::sample::Index>(), any::<bool>()), 0..4));
    prop::collection::vec(node, 1..14).prop_map(|drawn| {
        let nodes = drawn.into_iter().enumerate().map(|(at, (params, refs))| Node {
            params: params.map(|param| param % 3),
            refs: refs
                .into_iter()
                .filter(|_| at > 0)
                .map(|(to, all)| (to.index(at), if all { Field::All } else { Field::Own }))
                .collect(),
        });
        nodes.collect()
    })
}

fn edits() -> impl Strategy<Value = Vec<Edit>> {
    let edit = (any::<prop::sample::Index>(), 0..2usize, 0..3u8, any::<bool>());
    let edit = edit.prop_map(|(node, param, value, new_run)| Edit {
        node: node.index(1 << 20),
        param,
        value,
        new_run,
    });
    prop::collection::vec(edit, 0..8)
}

fn id(at: usize) -> String {
    format!("n{at}")
}

fn case(nodes: &[Node], edits: &[Edit]) -> Value {
    let described = nodes.iter().enumerate().map(|(at, node)| {
        let refs: Map<String, Value> = (0..)
            .zip(&node.refs)
            .map(|(name, (from, field))| (format!("r{name}"), json!({"from": id(*from), "path": field.name()})))
            .collect();
        json!({"id": id(at), "tool": id(at), "params": {"p0": node.params[0], "p1": node.params[1]}, "param_refs": refs})
    });
    let functions = nodes.iter().enumerate().map(|(at, node)| {
        let read = (0..node.refs.len()).map(|name| json!({"ref": format!("r{name}")}));
        let all: Vec<Value> =
            [json!({"const": "("}), json!({"param": "p0"})].into_iter().chain(read).collect();
        (id(at), json!({"obj": {"all": {"concat": all}, "own": {"concat": [{"param": "p1"}]}}}))
    });
    let mut run = 0;
    let revisions = std::iter::once(json!({"run": "run0"})).chain(edits.iter().map(|edit| {
        run += u32::from(edit.new_run);
        let node = id(edit.node % nodes.len());
        let op =
            json!({"op": "param", "node": node, "name": format!("p{}", edit.param), "value": edit.value});
        json!({"run": format!("run{run}"), "ops": [op], "measure": {"final": node, "changed": [node]}})
    }));
    json!({
        "id": "random",
        "plan": {"nodes": described.collect::<Vec<_>>()},
        "fns": functions.collect::<Map<String, Value>>(),
        "revisions": revisions.collect::<Vec<_>>(),
    })
}

/// Work of a node: index, parameters and read values. The digest is unused.
type Work = (usize, [u8; 2], Vec<String>);

/// Computes the work of each node, and the two fields of its result, without reuse.
fn compute(nodes: &[Node]) -> Vec<(Work, [String; 2])> {
    let mut computed: Vec<(Work, [String; 2])> = Vec::new();
    for (at, node) in nodes.iter().enumerate() {
        let read = |(from, field): &(usize, Field)| computed[*from].1[*field as usize].clone();
        let values: Vec<String> = node.refs.iter().map(read).collect();
        let fields = [format!("({}{}", node.params[0], values.concat()), node.params[1].to_string()];
        computed.push(((at, node.params, values), fields));
    }
    computed
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn exactly_the_work_never_done_before_is_executed(mut nodes in plans(), edits in edits()) {
        let result = ostler_sim::lineage::run_case(&case(&nodes, &edits).to_string()).unwrap();
        let revisions = result.actual.as_array().unwrap();
        let mut done: BTreeSet<Work> = BTreeSet::new();
        let mut artifacts: BTreeMap<[String; 2], Value> = BTreeMap::new();
        for (at, revision) in revisions.iter().enumerate() {
            if let Some(edit) = at.checked_sub(1).map(|at| &edits[at]) {
                let node = edit.node % nodes.len();
                nodes[node].params[edit.param] = edit.value;
            }
            let mut new = BTreeSet::new();
            for (at, (work, fields)) in compute(&nodes).into_iter().enumerate() {
                if done.insert(work) {
                    new.insert(id(at));
                }
                // Equal results have equal artifacts, whether served or computed.
                let artifact = &revision["nodes"][&id(at)]["a"];
                prop_assert!(artifact.is_string());
                prop_assert_eq!(artifacts.entry(fields).or_insert(artifact.clone()), artifact);
            }
            prop_assert_eq!(&revision["executed"], &json!(new));
            if at > 0 {
                let measure = &revision["measure"];
                prop_assert_eq!(&measure["cross_artifact_consistency_score"], &json!(1));
                for (name, expected) in [
                    ("stable_artifact_hash_preservation", 1),
                    ("unaffected_artifact_preservation", 1),
                    ("unnecessary_churn_rate", 0),
                    ("upstream_churn_rate", 0),
                ] {
                    prop_assert_eq!(&measure[name], &json!(expected), "{}", name);
                }
            }
        }
    }

    #[test]
    fn no_text_makes_the_reader_panic(text in "[\\[\\]{}:,\"a-z0-9]{0,60}") {
        let _ = ostler_sim::lineage::run_case(&text);
    }
}

#[test]
fn a_case_that_is_none_is_an_error_with_its_reason() {
    let plan =
        |nodes: Value| json!({"id": "c", "plan": {"nodes": nodes}, "fns": {}, "revisions": [{"run": "r"}]});
    for (case, reason) in [
        (plan(json!([{"id": "a", "deps": ["b"]}, {"id": "b", "deps": ["a"]}])), "a: on a cycle"),
        (plan(json!([{"id": "a", "deps": ["b"]}])), "a: on a cycle, or needs a node that does not exist"),
        (plan(json!([{"id": "a"}, {"id": "a"}])), "two nodes a"),
        (plan(json!([{"id": "a"}])), "no function \"a\""),
        (plan(json!([{"id": "a", "params": {"n": u64::MAX}}])), "2^53"),
        (plan(json!([{"id": "a", "effect": "often"}])), "`effect`"),
        (plan(json!([{}])), "a node without `id`"),
    ] {
        let error = ostler_sim::lineage::run_case(&case.to_string()).unwrap_err().to_string();
        assert!(error.contains(reason), "{error}");
    }
}
