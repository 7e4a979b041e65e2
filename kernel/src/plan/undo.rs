//! Compensation: the undo action of a node, and the nodes that perform it.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::contract_rules::{PatternBudget, normalise_rules};
use super::delta::Revision;
use super::diagnostic::{Diagnostic, DiagnosticCode};
use super::normalise::tests_class;
use super::pointer::Pointer;
use super::{
    Approval, Dep, Freshness, HumanDuration, Idempotency, Join, Kind, Made, Method, Node, On, ParamRef, Plan,
    Rule, RuleDraft, Settings,
};
use crate::gate::CallClass;
use crate::id::{NodeId, Ticks};
use crate::json::Object;

/// Action that undoes the effect of a node.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Undo {
    /// The tool.
    pub tool: String,
    /// Literal parameters.
    #[serde(default, skip_serializing_if = "is_empty")]
    pub params: Object,
    /// Parameters from the node's own result (`$self`) or from the result of a dependency.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub param_refs: BTreeMap<String, ParamRef>,
    /// Permitted reaction to a lost result; `None` inherits the node's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idem: Option<Idempotency>,
    /// Timeout of an attempt, in ticks; `None` inherits the node's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout: Option<Ticks>,
    /// Retries; `None` inherits the node's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retries: Option<i64>,
    /// Rules for the result.
    pub contract: Vec<Rule>,
    /// Combined class of the contract's tests; `None` without tests and in a simulation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tests: Option<CallClass>,
    /// Moment to ask a person: never, or before.
    #[serde(default)]
    pub approval: Approval,
    /// Longest wait for a person, in ticks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub human_timeout: Option<Ticks>,
}

fn is_empty(params: &Object) -> bool {
    params.is_empty()
}

impl Undo {
    /// The source "the result of the node itself" in the references of an undo.
    pub const SELF: &'static str = "$self";

    /// Longest id of a node with an undo, in bytes. The id of the undo node adds a prefix.
    pub const ID_BYTES_MAX: usize = 59;
}

/// An undo as written.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct UndoDraft {
    #[serde(default)]
    tool: Option<String>,
    #[serde(default)]
    params: Option<Map<String, Value>>,
    #[serde(default)]
    param_refs: Option<BTreeMap<String, ParamRef>>,
    #[serde(default)]
    idem: Option<Idempotency>,
    #[serde(default)]
    timeout: Option<HumanDuration>,
    #[serde(default)]
    retries: Option<i64>,
    #[serde(default)]
    contract: Option<Vec<RuleDraft>>,
    #[serde(default)]
    approval: Option<Approval>,
    #[serde(default)]
    human_timeout: Option<HumanDuration>,
}

/// Parses the `undo` of a node. Malformed input is a V30.
pub(super) fn read(
    node: &NodeId,
    written: &Value,
    settings: &Settings<'_>,
    room: &mut PatternBudget,
    place: &dyn Fn() -> Pointer,
    faults: &mut Vec<Diagnostic>,
) -> Option<Box<Undo>> {
    let help = "write {tool: TOOL, params: .., param_refs: ..}, and idem, timeout, retries, contract, approval or human_timeout \
                where they differ from the node's";
    let mut fault = |detail: String| {
        faults.push(Diagnostic::new(DiagnosticCode::V30, node, detail, help).at(&place()));
    };
    let draft: UndoDraft = match serde_json::from_value(written.clone()) {
        Ok(draft) => draft,
        Err(error) => {
            fault(format!("undo: {error}"));
            return None;
        }
    };
    let Some(tool) = draft.tool else {
        fault("undo has no `tool`".to_owned());
        return None;
    };
    let second = settings.ticks_per_second;
    let params: Object = draft.params.unwrap_or_default().into();
    let known = if settings.real_run {
        settings.tools.and_then(|tools| tools.defaults(&tool, &params))
    } else {
        None
    };
    let result = known.as_ref().and_then(|known| known.result_schema.clone());
    let contract = match draft.contract {
        None => vec![Rule { method: Method::Schema, p: None, spec: result }],
        Some(rules) => {
            let contract = || place().key("contract");
            normalise_rules(node, rules, settings.real_run.then_some(room), &contract, faults)
        }
    };
    let tests = if settings.real_run { tests_class(&contract, draft.idem, settings) } else { None };
    Some(Box::new(Undo {
        tests,
        idem: draft.idem.or(known.map(|known| known.idem)),
        tool,
        params,
        param_refs: draft.param_refs.unwrap_or_default(),
        timeout: draft.timeout.map(|span| span.ticks(second)),
        retries: draft.retries,
        contract,
        approval: draft.approval.unwrap_or_default(),
        human_timeout: draft.human_timeout.map(|span| span.ticks(second)),
    }))
}

/// Id of the undo node of `node` in a round.
fn undo_id(node: &NodeId, round: u32) -> NodeId {
    match round {
        1 => NodeId::new(format!("undo.{node}")),
        round => NodeId::new(format!("undo{round}.{node}")),
    }
}

/// True for a name reserved for the engine's undo nodes.
pub(super) fn is_undo_name(id: &str) -> bool {
    let rest = id.strip_prefix("undo").map(|rest| rest.trim_start_matches(|c: char| c.is_ascii_digit()));
    rest.and_then(|rest| rest.strip_prefix('.')).is_some_and(|node| !node.is_empty())
}

/// Builds the version that undoes `nodes`, given by index, in order. `descendants` maps an index to its nearest descendants
/// among `nodes`. `intent`: the most impact that the person who asked for it allows; `None` for that of the run. No rule and no
/// limit refuses this version.
pub(crate) fn undo_round(
    plan: &Plan,
    (round, intent): (u32, Option<u8>),
    nodes: &[usize],
    descendants: &dyn Fn(usize) -> Vec<usize>,
) -> Revision {
    let turns = nodes.iter().enumerate();
    let mut added: Vec<Node> = turns
        .filter_map(|(turn, &at)| {
            let node = &plan.nodes[at];
            let below = descendants(at).into_iter().map(|at| undo_id(&plan.nodes[at].id, round));
            let place = Place { round, turn: turn as u32, intent };
            Some(undo_node(node, node.undo.as_deref()?, place, below.collect()))
        })
        .collect();
    added.sort_by(|a, b| a.id.cmp(&b.id));
    Revision { nodes: added, outputs: None, outputs_declared: plan.outputs_declared, cancel: Vec::new() }
}

/// Round and turn of an undo node, and the intent of its round.
pub(super) struct Place {
    pub(super) round: u32,
    pub(super) turn: u32,
    pub(super) intent: Option<u8>,
}

pub(super) fn undo_node(node: &Node, undo: &Undo, place: Place, below: BTreeSet<NodeId>) -> Node {
    let Place { round, turn, intent } = place;
    let mut param_refs = undo.param_refs.clone();
    for reference in param_refs.values_mut().filter(|reference| reference.from.as_str() == Undo::SELF) {
        reference.from = node.id.clone();
    }
    let sources: BTreeSet<&NodeId> = param_refs.values().map(|reference| &reference.from).collect();
    let sources = sources.into_iter().filter(|&source| *source != node.id);
    let before = std::iter::once(&node.id).chain(sources).cloned().chain(below);
    let deps = before.map(|n| Dep { n, on: On::Success }).collect();
    Node {
        id: undo_id(&node.id, round),
        kind: Kind::Tool,
        tool: Some(undo.tool.clone()),
        model: None,
        deps,
        join: Some(Join::AllOf),
        dispatch: Default::default(),
        params: undo.params.clone(),
        param_refs,
        reads: Vec::new(),
        contract: undo.contract.clone(),
        effect: node.effect,
        impact: node.impact,
        idem: undo.idem.unwrap_or(node.idem),
        tests: undo.tests,
        timeout: undo.timeout.unwrap_or(node.timeout),
        heartbeat_timeout: None,
        retries: undo.retries.unwrap_or(node.retries),
        patches: 0,
        approval: undo.approval,
        human_timeout: undo.human_timeout,
        fallback: None,
        when: Vec::new(),
        for_each: None,
        fresh: Freshness::Always,
        deadline: None,
        undo: None,
        made: Some(Box::new(Made::Undo { of: node.id.clone(), round, turn, intent })),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::gate::OnLostResult;
    use crate::plan::{Effect, PlanDraft, TEST_TOOL, ToolDefaults, Tools};

    /// `put` writes and may be repeated; a program may not.
    struct Known;

    impl Tools for Known {
        fn defaults(&self, tool: &str, _: &Map<String, Value>) -> Option<ToolDefaults> {
            let idem = if tool == TEST_TOOL { Idempotency::None } else { Idempotency::Natural };
            Some(ToolDefaults { effect: Effect::Write, impact: 1, idem, ..ToolDefaults::default() })
        }

        fn names(&self) -> Vec<String> {
            vec!["put".to_owned(), TEST_TOOL.to_owned()]
        }
    }

    #[test]
    fn an_undo_that_is_lost_during_a_test_that_acts_is_in_doubt() {
        let test = json!([{"method": "test", "spec": {"argv": ["make", "check"]}}]);
        let schema = json!([{"method": "schema"}]);
        for (contract, on_lost) in [(&test, OnLostResult::InDoubt), (&schema, OnLostResult::RetryWithKey)] {
            let undo = json!({"tool": "put", "contract": contract});
            let draft =
                json!({"id": "p", "nodes": [{"id": "n", "tool": "put", "contract": schema, "undo": undo}]});
            let draft: PlanDraft = serde_json::from_value(draft).unwrap();
            let plan = draft.validate(&Settings::real(1, &Known)).unwrap();
            let round = undo_round(&plan, (1, None), &[0], &|_| Vec::new());
            assert_eq!(round.nodes[0].on_lost_result(), on_lost, "{contract}");
        }
    }
}
