//! Expansion: a node with `for_each` becomes one child per element of a list, and the collector of their results.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::delta::{Merge, MergedPlan};
use super::diagnostic::{Diagnostic, DiagnosticCode};
use super::pointer::Pointer;
use super::validate::too_large;
use super::{
    Approval, Dep, Effect, Freshness, Join, Kind, Made, Method, Node, NodeProgress, On, ParamRef, Plan, Rule,
    Settings,
};
use crate::id::NodeId;

/// Source list of a node that expands to one child per element.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ForEach {
    /// Node whose result holds the list.
    pub from: NodeId,
    /// Dot path of the list.
    pub path: Option<String>,
    /// Parameter of a child with its element.
    #[serde(rename = "as")]
    pub parameter: String,
    /// Most elements; a longer list fails the node.
    pub max: u64,
    /// Join rule of the collector.
    #[serde(default)]
    pub on_child: OnChild,
}

/// Join rule of a collector over its children.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OnChild {
    /// All are executed.
    #[default]
    All,
    /// All have ended.
    Collect,
}

impl ForEach {
    /// Id of the child for the element at index `at`.
    pub fn child(node: &NodeId, at: u64) -> NodeId {
        NodeId::new(format!("{node}.{at}"))
    }
}

/// Parses the `for_each` of a node. Malformed input is a V28; `None` without a source.
pub(crate) fn read(
    node: &NodeId,
    written: &Value,
    place: &dyn Fn() -> Pointer,
    faults: &mut Vec<Diagnostic>,
) -> Option<Box<ForEach>> {
    let mut fault = |detail: String, place: Pointer| {
        let help = "write {from: NODE, path: PATH, as: PARAMETER, max: NUMBER}, and on_child: collect to keep what did not fail";
        faults.push(Diagnostic::new(DiagnosticCode::V28, node, detail, help).at(&place));
    };
    let Some(members) = written.as_object() else {
        fault("for_each is no map".to_owned(), place());
        return None;
    };
    for key in members.keys().filter(|key| !["from", "path", "as", "max", "on_child"].contains(&key.as_str()))
    {
        fault(format!("for_each has an unknown field `{key}`"), place().key(key));
    }
    let text = |key: &str| members.get(key).and_then(Value::as_str);
    let from = text("from");
    if from.is_none() {
        fault("for_each has no `from`".to_owned(), place());
    }
    if !members.contains_key("path") {
        fault("for_each has no `path`".to_owned(), place());
    }
    let parameter = text("as").unwrap_or_default();
    if !is_parameter(parameter) {
        fault(
            "for_each has no `as`, or one that is not 1 to 64 of A-Z a-z 0-9 _ -".to_owned(),
            place().key("as"),
        );
    }
    let max = members.get("max").and_then(whole).filter(|max| *max >= 1);
    if max.is_none() {
        fault(
            "for_each has no `max`, or one that is no whole number from 1 on".to_owned(),
            place().key("max"),
        );
    }
    let on_child = match members.get("on_child").map(Value::as_str) {
        None | Some(Some("all")) => OnChild::All,
        Some(Some("collect")) => OnChild::Collect,
        Some(_) => {
            fault("on_child is all or collect".to_owned(), place().key("on_child"));
            OnChild::All
        }
    };
    Some(Box::new(ForEach {
        from: from?.into(),
        path: text("path").map(str::to_owned),
        parameter: parameter.to_owned(),
        max: max.unwrap_or(1),
        on_child,
    }))
}

fn is_parameter(text: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-';
    (1..=64).contains(&text.len()) && text.bytes().all(plain)
}

fn whole(number: &Value) -> Option<u64> {
    const EXACT_MAX: f64 = 9_007_199_254_740_992.0;
    let exact =
        |number: f64| (number.fract() == 0.0 && (0.0..=EXACT_MAX).contains(&number)).then_some(number as u64);
    number.as_u64().or_else(|| exact(number.as_f64()?))
}

/// Builds the next version of a plan: the node at `at` is expanded to `count` children.
///
/// # Errors
///
/// Every diagnostic: the children count in the limits of the plan.
pub fn expand(
    plan: &Plan,
    at: usize,
    count: usize,
    progress: &dyn Fn(&NodeId) -> NodeProgress,
    closed: bool,
    settings: &Settings<'_>,
) -> Result<MergedPlan, Vec<Diagnostic>> {
    let node = &plan.nodes[at];
    let Some(for_each) = &node.for_each else { return Err(Vec::new()) };
    let mut merge = Merge::new(plan, progress, settings);
    merge.check_run(closed);
    // Refused before any child is made: each has a copy of the node's parameters and dependencies.
    let edges: usize = plan.nodes.iter().map(|node| node.deps.len()).sum();
    let added = count.saturating_mul(1 + node.deps.len());
    let (nodes, edges) = (plan.nodes.len().saturating_add(count), edges.saturating_add(added));
    let faults = too_large(nodes, edges, &plan.policy, settings);
    if !faults.is_empty() {
        let fault = |(detail, help)| Diagnostic::new(DiagnosticCode::V13, Diagnostic::PLAN, detail, help);
        return Err(merge.refuse(faults.into_iter().map(fault).collect()));
    }
    let items: Vec<NodeId> = (0..count as u64).map(|k| ForEach::child(&node.id, k)).collect();
    merge.put(at, collector(node, for_each, items.clone()));
    for (k, id) in items.into_iter().enumerate() {
        merge.add(child(node, for_each, id, k));
    }
    merge.finish(Vec::new())
}

fn child(node: &Node, for_each: &ForEach, id: NodeId, k: usize) -> Node {
    let mut child = Node {
        id,
        for_each: None,
        when: Vec::new(),
        reads: Vec::new(),
        join: Some(Join::AllOf),
        made: Some(Box::new(Made::Child { of: node.id.clone(), element: for_each.parameter.clone() })),
        ..node.clone()
    };
    let path = for_each.path.as_deref().unwrap_or_default();
    let element = ParamRef { from: for_each.from.clone(), path: Some(format!("{path}.{k}")), template: None };
    child.param_refs.insert(for_each.parameter.clone(), element);
    child
}

fn collector(node: &Node, for_each: &ForEach, items: Vec<NodeId>) -> Node {
    let on = match for_each.on_child {
        OnChild::All => On::Success,
        OnChild::Collect => On::Terminal,
    };
    let mut deps = node.deps.clone();
    deps.extend(items.iter().map(|child| Dep { n: child.clone(), on }));
    Node {
        id: node.id.clone(),
        kind: Kind::Collector,
        tool: None,
        model: None,
        deps,
        join: Some(Join::AllOf),
        dispatch: Default::default(),
        params: Default::default(),
        param_refs: Default::default(),
        reads: Vec::new(),
        contract: vec![Rule { method: Method::Schema, p: None, spec: None }],
        effect: Effect::None,
        impact: 0,
        idem: Default::default(),
        tests: None,
        timeout: node.timeout,
        heartbeat_timeout: None,
        retries: 0,
        patches: 0,
        approval: Approval::None,
        human_timeout: None,
        fallback: None,
        when: Vec::new(),
        for_each: None,
        fresh: Freshness::Always,
        deadline: None,
        undo: None,
        made: Some(Box::new(Made::Collector { items, max: for_each.max })),
    }
}
