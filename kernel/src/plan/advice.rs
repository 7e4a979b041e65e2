//! Advice (`W..`) about valid plans. Advice never rejects a plan.

mod templates;

use std::collections::BTreeSet;
use std::fmt;

use serde::{Serialize, Serializer};
use serde_json::Map;

use super::diagnostic::Diagnostic;
use super::pointer::{Origin, Pointer};
use super::suggest::nearest;
use super::unreachable_path::ResultSchemas;
use super::{Graph, Join, Kind, Method, Node, On, Plan, Rule, Settings, TEST_TOOL, model_tool};
use crate::contract::model_questions;
use crate::gate::OnLostResult;
use crate::id::NodeId;

/// A piece of advice about a valid plan.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Advice {
    /// The rule behind the advice.
    pub code: AdviceCode,
    /// Node id, or `*` for the plan.
    pub node: String,
    /// JSON pointer (RFC 6901) into the plan as written; empty for the plan as a whole.
    pub pointer: String,
    /// Problem, a sentence without a full stop.
    pub detail: String,
    /// Suggested fix, a sentence without a full stop.
    #[serde(rename = "mend")]
    pub help: String,
}

/// Codes of advice. W06 depends on the bounds of a run and is found by the command, not by the kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum AdviceCode {
    /// An edge with unused data and an unused effect.
    W01,
    /// A join over more nodes than the node reads.
    W03,
    /// A longest path lengthened by unused edges.
    W04,
    /// A schema rule without a schema.
    W05,
    /// A template path that no value can have.
    W07,
    /// A rule for a model that is not configured.
    W08,
    /// Retries of a program that may not be repeated, or a fallback of such a call.
    W09,
    /// A code check at a path that no result has.
    W10,
}

impl AdviceCode {
    /// Every code, ascending.
    pub const ALL: [AdviceCode; 8] = [
        AdviceCode::W01,
        AdviceCode::W03,
        AdviceCode::W04,
        AdviceCode::W05,
        AdviceCode::W07,
        AdviceCode::W08,
        AdviceCode::W09,
        AdviceCode::W10,
    ];

    /// The code as text, such as `W01`.
    pub fn as_str(self) -> &'static str {
        match self {
            AdviceCode::W01 => "W01",
            AdviceCode::W03 => "W03",
            AdviceCode::W04 => "W04",
            AdviceCode::W05 => "W05",
            AdviceCode::W07 => "W07",
            AdviceCode::W08 => "W08",
            AdviceCode::W09 => "W09",
            AdviceCode::W10 => "W10",
        }
    }
}

impl fmt::Display for AdviceCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl Serialize for AdviceCode {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

/// Pairs of letters compared to find the meant field.
const PAIRS_MAX: usize = 100_000;

/// Returns the advice for a plan valid under `settings`, sorted by code and node. `origin` supplies the
/// pointers.
pub fn advise(plan: &Plan, origin: &Origin, settings: &Settings<'_>) -> Vec<Advice> {
    let mut advice = Vec::new();
    let graph = Graph::new(&plan.nodes);
    let idle = idle_edges(plan, &graph, settings);
    let mut templates = templates::TemplateChecker::new(settings);
    let results = ResultSchemas::new(settings);
    for (at, (node, idle)) in plan.nodes.iter().zip(&idle).enumerate() {
        edges(plan, at, idle, &graph.sources[at], origin, &mut advice);
        rules(node.id.as_str(), &node.contract, &origin.node(at).key("contract"), settings, &mut advice);
        advice.extend(templates.check(plan, at, origin));
        advice.extend(vain_retries(node, &origin.node(at)));
        advice.extend(vain_fallback(node, &origin.node(at)));
        advice.extend(vain_checks(node, &results, &origin.node(at).key("contract")));
    }
    rules(Diagnostic::PLAN, &plan.contract, &origin.whole().key("contract"), settings, &mut advice);
    shape(plan, &graph, &idle, &mut advice);
    advice.sort_by(|a, b| (a.code, &a.node).cmp(&(b.code, &b.node)));
    advice
}

/// Returns, per node, the sources with neither their result nor their effect used by the node.
///
/// These edges are never idle: those of candidates of an `any_of`, terminal edges, and those from control nodes, nodes with
/// effects, people and tools that only wait. The edges to a node with effects are not idle either: a release waits for tests to pass. A
/// `human_approval` node uses every source, because the question follows the work.
fn idle_edges(plan: &Plan, graph: &Graph, settings: &Settings<'_>) -> Vec<BTreeSet<usize>> {
    let idle = |(node, sources): (&Node, &[(usize, On)])| {
        let waits_on_purpose = node.is_control() || node.acts() || node.kind == Kind::HumanApproval;
        if node.join != Some(Join::AllOf) || waits_on_purpose {
            return BTreeSet::new();
        }
        let guards = node.when.iter().map(|guard| &guard.from);
        let lists = node.for_each.iter().map(|list| &list.from);
        let references = node.param_refs.values().map(|reference| &reference.from);
        let used: BTreeSet<&NodeId> = references.chain(&node.reads).chain(guards).chain(lists).collect();
        // The prompt of a model reads its dependencies by their ids.
        let prompt = (node.kind == Kind::Model).then(|| node.params.get("prompt")?.as_str()).flatten();
        let prompt = prompt.unwrap_or_default();
        let is_idle = |source: &Node| {
            let asks = matches!(source.kind, Kind::HumanApproval | Kind::Wait);
            let waited_for = source.acts() || source.is_control() || asks || only_waits(source, settings);
            !waited_for && !used.contains(&source.id) && !prompt.contains(source.id.as_str())
        };
        let success =
            sources.iter().filter(|(source, on)| *on == On::Success && is_idle(&plan.nodes[*source]));
        success.map(|&(source, _)| source).collect()
    };
    plan.nodes.iter().zip(graph.sources.iter()).map(idle).collect()
}

/// True if the call of a node does nothing but let time pass.
fn only_waits(node: &Node, settings: &Settings<'_>) -> bool {
    let known = node.tool.as_deref().zip(settings.tools);
    known.and_then(|(tool, tools)| tools.defaults(tool, &node.params)).is_some_and(|known| known.only_waits)
}

fn edges(
    plan: &Plan,
    at: usize,
    idle: &BTreeSet<usize>,
    sources: &[(usize, On)],
    origin: &Origin,
    advice: &mut Vec<Advice>,
) {
    let node = &plan.nodes[at];
    let names: Vec<&str> = idle.iter().map(|&at| plan.nodes[at].id.as_str()).collect();
    let (code, detail) = match names.as_slice() {
        [] => return,
        [one] => (AdviceCode::W01, format!("waits for {one}, but uses neither its result nor its effect")),
        [first, ..] => {
            let (all, idle) = (node.deps.len(), names.len());
            (
                AdviceCode::W03,
                format!("waits for {all} nodes, but uses nothing of {idle} of them, such as {first}"),
            )
        }
    };
    let help = "remove the dependency, or declare the use in param_refs or reads".to_owned();
    let first = idle.first().and_then(|first| sources.iter().position(|(source, _)| source == first));
    let place = first.map_or_else(|| origin.node(at), |edge| origin.edge(node, at, edge));
    let (node, pointer) = (node.id.to_string(), place.as_str().to_owned());
    advice.push(Advice { code, node, pointer, detail, help });
}

/// W04: compares the depth of the plan with the depth after removing idle edges.
fn shape(plan: &Plan, graph: &Graph, idle: &[BTreeSet<usize>], advice: &mut Vec<Advice>) {
    let deepest = |levels: &[u32]| levels.iter().max().map_or(0, |level| level + 1);
    let depth = deepest(&graph.level);
    let count = plan.nodes.len();
    let lean: Vec<Node> =
        (0..count).map(|at| without_edges(&plan.nodes[at], &graph.sources[at], &idle[at])).collect();
    let lean_depth = deepest(&Graph::new(&lean).level);
    if lean_depth < depth {
        advice.push(Advice {
            code: AdviceCode::W04,
            node: Diagnostic::PLAN.to_owned(),
            pointer: String::new(),
            detail: format!("the longest path has {depth} nodes, only {lean_depth} without unused edges"),
            help: "remove the edges that W01 and W03 report, so that their nodes can run in parallel"
                .to_owned(),
        });
    }
}

fn without_edges(node: &Node, sources: &[(usize, On)], idle: &BTreeSet<usize>) -> Node {
    let mut node = node.clone();
    let mut sources = sources.iter(); // in a valid plan one for each dependency
    node.deps.retain(|_| sources.next().is_none_or(|(source, _)| !idle.contains(source)));
    node
}

/// W10: code checks at paths that the result schemas rule out. Every result fails such a check.
fn vain_checks<'a>(
    node: &'a Node,
    results: &'a ResultSchemas<'_>,
    contract: &'a Pointer,
) -> impl Iterator<Item = Advice> + 'a {
    let rules = node.contract.iter().enumerate().filter(|(_, rule)| rule.method == Method::Code);
    rules.filter_map(move |(at, rule)| {
        let spec = rule.spec.as_deref()?;
        let (path, check) = (spec["path"].as_str().unwrap_or_default(), spec["check"].as_str()?);
        // A list that satisfies `min_items` has a first item.
        let item = (check == "min_items").then_some("0");
        let steps = path.split('.').filter(|step| !step.is_empty()).chain(item);
        let missing = results.unreachable_path(node, steps)?;
        let meant =
            nearest(&missing.segment, missing.known.iter().map(String::as_str), &mut PAIRS_MAX.clone());
        let help = match meant {
            Some(meant) => format!("did you mean {meant:?}?"),
            None if missing.known.is_empty() => "look at another path, or ask for another check".to_owned(),
            None => format!("the result has {}", missing.known.join(", ")),
        };
        let what = &missing.what;
        Some(Advice {
            code: AdviceCode::W10,
            node: node.id.to_string(),
            pointer: contract.item(at).as_str().to_owned(),
            detail: format!("contract[{at}] asks for {check} at {path:?}, but {what}, so every result fails"),
            help,
        })
    })
}

/// W09: retries of a program that may not be repeated. A failed program of this kind is final.
fn vain_retries(node: &Node, place: &Pointer) -> Option<Advice> {
    let is_vain = node.tool.as_deref() == Some(TEST_TOOL)
        && node.retries > 0
        && node.reach().on_lost_result() == OnLostResult::InDoubt;
    is_vain.then(|| Advice {
        code: AdviceCode::W09,
        node: node.id.to_string(),
        pointer: place.key("retries").as_str().to_owned(),
        detail: format!(
            "retries: {} has no effect when the program fails, because it may have acted by then",
            node.retries
        ),
        help: "add `idem: natural` if running it again does no harm, else remove `retries`".to_owned(),
    })
}

/// W09: a fallback of a call that may have acted. After a timeout nobody knows whether it did, so a person is asked first.
fn vain_fallback(node: &Node, place: &Pointer) -> Option<Advice> {
    let is_vain = node.fallback.is_some() && node.reach().on_lost_result() == OnLostResult::InDoubt;
    is_vain.then(|| Advice {
        code: AdviceCode::W09,
        node: node.id.to_string(),
        pointer: place.key("fallback").as_str().to_owned(),
        detail: "the fallback has no effect after a timeout, because the call may have acted: the node is in doubt then"
            .to_owned(),
        help: "add `idem: natural` if calling it again does no harm".to_owned(),
    })
}

fn rules(name: &str, contract: &[Rule], place: &Pointer, settings: &Settings<'_>, advice: &mut Vec<Advice>) {
    // Without tools nothing is known about models.
    let questions = settings.tools.map(|tools| (tools, model_questions(contract)));
    let missing = |at: usize| {
        let (tools, questions) = questions.as_ref()?;
        let model = questions.iter().find(|question| question.rule == at)?.model(Some(*tools));
        tools.defaults(&model_tool(model), &Map::new()).is_none().then_some(model)
    };
    for (at, rule) in contract.iter().enumerate() {
        let (code, detail, help) = if let Some(model) = missing(at) {
            let detail = format!(
                "contract[{at}] is judged by the model {model}, which is not configured, so every result fails"
            );
            (
                AdviceCode::W08,
                detail,
                "configure the model, name another one, or ask a person with a rule of method `human`",
            )
        } else if rule.method == Method::Schema && rule.spec.is_none() {
            let detail = format!("contract[{at}] is a schema rule without a schema, so every result passes");
            (AdviceCode::W05, detail, "add a `spec`, such as {type: object, required: [text]}")
        } else {
            continue;
        };
        let pointer = place.item(at).as_str().to_owned();
        advice.push(Advice { code, node: name.to_owned(), pointer, detail, help: help.to_owned() });
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::plan::{PlanDraft, PolicyDraft, Tools};

    #[track_caller]
    pub(super) fn check(expected: &[&str], nodes: Value) {
        check_with(None, expected, nodes);
    }

    #[track_caller]
    pub(super) fn check_with(tools: Option<&dyn Tools>, expected: &[&str], nodes: Value) {
        let mut nodes = nodes;
        for node in nodes.as_array_mut().unwrap() {
            node.as_object_mut().unwrap().entry("contract").or_insert_with(|| json!([{"method": "code"}]));
        }
        let draft: PlanDraft = serde_json::from_value(json!({"id": "p", "nodes": nodes})).unwrap();
        let settings = Settings::simulation(PolicyDraft::default(), tools);
        let plan = draft.validate(&settings).unwrap();
        let told: Vec<String> = advise(&plan, &Origin::default(), &settings)
            .iter()
            .map(|a| format!("{} {}: {}", a.code, a.node, a.detail))
            .collect();
        assert_eq!(told, expected);
    }

    fn reads(id: &str, from: &[&str]) -> Value {
        json!({"id": id, "deps": from, "reads": from})
    }

    #[test]
    fn a_plan_that_uses_what_it_waits_for_gets_no_advice() {
        check(&[], json!([{"id": "a"}, reads("b", &["a"]), reads("c", &["a"]), reads("d", &["b", "c"])]));
        check(&[], json!([{"id": "a"}, reads("b", &["a"]), reads("c", &["b"])]));
    }

    #[test]
    fn an_edge_nobody_uses_is_named_and_what_it_costs() {
        check(
            &[
                "W01 b: waits for a, but uses neither its result nor its effect",
                "W04 *: the longest path has 2 nodes, only 1 without unused edges",
            ],
            json!([{"id": "a"}, {"id": "b", "deps": ["a"]}]),
        );
    }

    #[test]
    fn what_is_waited_for_on_purpose_is_no_idle_edge() {
        check(
            &[],
            json!([
                {"id": "w", "effect": "write", "impact": 1}, {"id": "x", "deps": ["w"]},
                {"id": "h", "kind": "human_approval", "human_timeout": 9}, {"id": "y", "deps": ["h"]},
                {"id": "a"}, {"id": "b"}, {"id": "j", "deps": ["a", "b"], "join": "any_of"},
                {"id": "o", "deps": [{"n": "a", "on": "terminal"}]},
                {"id": "g", "kind": "aggregator", "deps": ["a", "b"]},
                {"id": "gate", "kind": "human_approval", "human_timeout": 9, "deps": ["a"]},
                {"id": "gates", "kind": "human_approval", "human_timeout": 9, "deps": ["a", "b"]},
            ]),
        );
    }

    #[test]
    fn a_join_wider_than_its_reads_is_named_once() {
        check(
            &["W03 j: waits for 3 nodes, but uses nothing of 2 of them, such as b"],
            json!([{"id": "a"}, {"id": "b"}, {"id": "c"}, {"id": "j", "deps": ["a", "b", "c"], "reads": ["a"]}]),
        );
    }

    #[test]
    fn a_schema_rule_without_a_schema_is_named() {
        check(
            &["W05 a: contract[1] is a schema rule without a schema, so every result passes"],
            json!([{"id": "a", "contract": [{"method": "code"}, {"method": "schema"}]}]),
        );
    }

    #[test]
    fn a_rule_for_a_model_that_is_not_configured_is_named() {
        let known: BTreeSet<String> = ["t".to_owned(), "model.big".to_owned()].into();
        let told = |model: &str| {
            format!(
                "W08 a: contract[1] is judged by the model {model}, which is not configured, so every result fails"
            )
        };
        let check = |expected: &[&str], rule: Value| {
            let contract = json!([{"method": "code"}, rule]);
            check_with(
                Some(&known),
                expected,
                json!([{"id": "a", "tool": "t", "human_timeout": 9, "contract": contract}]),
            );
        };
        check(&[&told("default")], json!({"method": "model", "spec": "is it?"}));
        check(&[&told("small")], json!({"method": "model", "spec": {"ask": "is it?", "model": "small"}}));
        check(&[], json!({"method": "model", "spec": {"ask": "is it?", "model": "big"}}));
        check(&[], json!({"method": "human", "spec": {"ask": "is it?"}}));
    }
}
