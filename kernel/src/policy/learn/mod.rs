//! Learning: a run that succeeded becomes a plan with parameters, which needs no model to plan again.
//!
//! Work stays, control nodes go. What a model wrote after it had read a result may be that result: a literal that occurs in exactly
//! one earlier result becomes a reference. What the goal says word for word becomes a parameter. Everything else stays as it is.

mod answer;
mod order;
mod origin;

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value, json};

use self::origin::Results;
use super::{ReadResult, View};
use crate::id::{NAME_BYTES_MAX, NodeId};
use crate::plan::{
    Approval, Dep, DepDraft, Guard, HumanDuration, Idempotency, Impact, Kind, MODEL_TIMEOUT_MS, Method, Node,
    NodeDraft, On, ParamRef, PlanDraft, Rule, RuleDraft, Tools,
};
use crate::run::{NodeState, Run, RunOutcome};

/// Prefix of the ids of learnt plans: runs of them are found by it.
pub const LEARNT_PREFIX: &str = "learnt.";

/// Timeout of an attempt that a plan file need not say, in milliseconds.
const TIMEOUT_MS: i64 = 60_000;

/// Retries of repeatable work that a plan file need not say.
const RETRIES: i64 = 2;

/// Name of the parameter that holds the goal.
pub(super) const GOAL: &str = "goal";

/// Facts that learning needs beside the run.
pub struct LearnContext<'a> {
    /// Name of the template.
    pub name: &'a str,
    /// Outcome of the run.
    pub outcome: Option<RunOutcome>,
    /// The tools, for fields that a plan need not say.
    pub tools: &'a dyn Tools,
    /// True for a configured model.
    pub has_model: &'a dyn Fn(&str) -> bool,
    /// Results of executed nodes.
    pub read: &'a ReadResult<'a>,
}

/// A plan learnt from a run.
#[derive(Debug, Clone, PartialEq)]
pub struct Learnt {
    /// The plan file, with `${NAME}` for parameters.
    pub plan: Value,
    /// Parameters of the plan file, with the values of the run.
    pub params: BTreeMap<String, String>,
    /// Texts of strangers may have steered the steps.
    pub is_tainted: bool,
}

/// The reason why nothing is learnt from a run.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LearnError {
    /// The run has not succeeded.
    #[error("the run has not succeeded; learn from one that has (`ostler ps`)")]
    NotSucceeded,
    /// The run executed no step.
    #[error(
        "the run executed no step of its own, so there is nothing to repeat; learn from a run that called tools"
    )]
    NoSteps,
    /// A step was repeated for each element of a list.
    #[error("step {0} was repeated for each element of a list; write the plan by hand, with `for_each`")]
    Expanded(NodeId),
    /// A step takes a parameter from an earlier run.
    #[error(
        "step {step} takes {param} from an earlier run, which a plan cannot; learn from a run without --on"
    )]
    OnEarlierRun {
        /// The step.
        step: NodeId,
        /// The parameter.
        param: String,
    },
}

/// Learns a plan from a run.
///
/// # Errors
///
/// See [`LearnError`]. The plan is not validated here: do so as for any plan file.
pub fn learn(run: &Run, cx: &LearnContext<'_>) -> Result<Learnt, LearnError> {
    match cx.outcome {
        Some(RunOutcome::Succeeded | RunOutcome::Concluded) => {}
        Some(RunOutcome::Failed | RunOutcome::Cancelled) | None => return Err(LearnError::NotSucceeded),
    }
    if let Some(list) = run.plan().nodes.iter().find(|node| node.kind == Kind::Collector) {
        return Err(LearnError::Expanded(list.id.clone()));
    }
    let kept = kept(run);
    if !kept.iter().any(|node| node.tool.is_some()) {
        return Err(LearnError::NoSteps);
    }
    let goal_view = View::of(run, 0);
    let is_tainted = goal_view.is_some_and(|view| kept.iter().any(|node| view.is_written_tainted(&node.id)));
    let names = names(run, &kept);
    let mut results = Results::new(cx.read);
    let mut nodes = Vec::new();
    for node in &kept {
        nodes.push(described(run, node, &kept, &names, &mut results, cx)?);
    }
    let goal = View::of(run, 0).map(|view| view.goal.terms.goal.clone());
    let title = goal.clone().or_else(|| run.plan().title.clone());
    let outputs = match View::of(run, 0) {
        Some(_) => None,
        None => {
            let known = run.plan().outputs.iter().filter_map(|output| names.get(output).cloned());
            Some(known.collect()).filter(|outputs: &Vec<NodeId>| !outputs.is_empty())
        }
    };
    let id = format!("{LEARNT_PREFIX}{}", cx.name);
    let title = title.map(|title| title.lines().next().unwrap_or_default().to_owned());
    let draft = PlanDraft { id, title, nodes, outputs, ..PlanDraft::default() };
    let mut plan = serde_json::to_value(&draft).unwrap_or_default();
    // A plan file says nothing where there is nothing to say.
    for node in plan["nodes"].as_array_mut().into_iter().flatten() {
        let refs = node.get_mut("param_refs").and_then(Value::as_object_mut).into_iter().flatten();
        let refs = refs.filter_map(|(_, reference)| reference.as_object_mut());
        refs.for_each(|fields| fields.retain(|_, value| !value.is_null()));
    }
    let mut params = goal.as_deref().map(|goal| origin::parameters(goal, &plan)).unwrap_or_default();
    origin::substitute(&mut plan, &params);
    if let (Some(view), Some(list)) = (View::of(run, 0), plan["nodes"].as_array_mut()) {
        let (node, says_goal) = answer::node(view, names.values(), cx.has_model);
        list.push(node);
        params.extend(goal.filter(|_| says_goal).map(|goal| (GOAL.to_owned(), goal)));
    }
    Ok(Learnt { plan, params, is_tainted })
}

/// The nodes that a plan repeats: executed work in the order of commits; of a plan file, executed nodes in its order.
fn kept(run: &Run) -> Vec<&Node> {
    let executed = run.instances().filter(|(_, instance)| instance.state() == NodeState::Executed);
    let Some(view) = View::of(run, 0) else {
        let is_work = |node: &&Node| !node.is_control() || node.kind == Kind::Aggregator;
        return executed.map(|(node, _)| node).filter(is_work).collect();
    };
    let is_work = |node: &Node| view.is_work(&node.id) && node.kind == Kind::Tool;
    let mut kept: Vec<(u64, &Node)> = executed
        .filter(|(node, _)| is_work(node))
        .map(|(node, instance)| (instance.commit_number, node))
        .collect();
    kept.sort_by_key(|(commit, _)| *commit);
    kept.into_iter().map(|(_, node)| node).collect()
}

/// New ids. Templates name the steps of a goal, so these become words; those of a plan file stay.
fn names(run: &Run, kept: &[&Node]) -> BTreeMap<NodeId, NodeId> {
    if run.goal().is_none() {
        return kept.iter().map(|node| (node.id.clone(), node.id.clone())).collect();
    }
    let (mut names, mut taken) = (BTreeMap::new(), BTreeSet::from([super::ANSWER.to_owned()]));
    for node in kept {
        let called = node.id.as_str();
        // The calls of turns have numbers only.
        let last = node.tool.as_deref().and_then(|tool| tool.rsplit('.').next());
        let word = word(if called.starts_with("call.") { last.unwrap_or(called) } else { called });
        let numbered = (2..).map(|number: u32| format!("{word}_{number}"));
        let mut free = std::iter::once(word.clone()).chain(numbered).filter(|name| !taken.contains(name));
        let name = free.next().expect("numbers do not end");
        taken.insert(name.clone());
        names.insert(node.id.clone(), NodeId::from(name.as_str()));
    }
    names
}

/// Words of the template language that no variable may be called.
const RESERVED: [&str; 10] = ["and", "else", "false", "for", "if", "in", "is", "none", "not", "or"];

/// A text as the name of a variable in templates.
fn word(text: &str) -> String {
    let is_fit = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let mut word: String = text.chars().map(|c| if is_fit(c) { c } else { '_' }).collect();
    word.truncate(NAME_BYTES_MAX - 8);
    if !word.starts_with(|c: char| c.is_ascii_alphabetic())
        || RESERVED.contains(&word.to_lowercase().as_str())
    {
        word.insert_str(0, "step_");
    }
    word
}

fn described(
    run: &Run,
    node: &Node,
    kept: &[&Node],
    names: &BTreeMap<NodeId, NodeId>,
    results: &mut Results<'_>,
    cx: &LearnContext<'_>,
) -> Result<NodeDraft, LearnError> {
    let mut params: Map<String, Value> = Map::clone(&node.params);
    let mut refs = BTreeMap::new();
    for (param, reference) in &node.param_refs {
        let from = match names.get(&reference.from) {
            Some(from) => from.clone(),
            None if reference.from.as_str() == ParamRef::WINNER => reference.from.clone(),
            None => {
                let (step, param) = (node.id.clone(), param.clone());
                return Err(LearnError::OnEarlierRun { step, param });
            }
        };
        refs.insert(param.clone(), ParamRef { from, ..reference.clone() });
    }
    if let Some(view) = View::of(run, 0) {
        let read = order::read_by_author(view, node, kept);
        let goal = &view.goal.terms.goal;
        let found = params.iter().filter_map(|(param, value)| {
            let (from, path) = results.origin_of(value, &read, goal)?;
            Some((
                param.clone(),
                ParamRef { from: names.get(&from)?.clone(), path: Some(path), template: None },
            ))
        });
        let found: Vec<(String, ParamRef)> = found.collect();
        found.iter().for_each(|(param, _)| drop(params.remove(param)));
        refs.extend(found);
    }
    let deps = order::deps(run, node, kept).into_iter().filter_map(|dep| {
        let source = names.get(&dep.n)?;
        // A reference is an edge already.
        let is_known = refs.values().any(|reference| reference.from == *source) && dep.on == On::Success;
        (!is_known).then(|| DepDraft(Dep { n: source.clone(), on: dep.on }))
    });
    let deps: Vec<DepDraft> = deps.collect();
    let guards = node
        .when
        .iter()
        .filter_map(|guard| Some(Guard { from: names.get(&guard.from)?.clone(), ..guard.clone() }));
    let when: Vec<Guard> = guards.collect();
    let plain = NodeDraft {
        tool: node.tool.clone().filter(|_| node.model.is_none()),
        deps: Some(deps).filter(|deps| !deps.is_empty()),
        params: Some(params).filter(|params| !params.is_empty()),
        param_refs: Some(refs).filter(|refs| !refs.is_empty()),
        when: (!when.is_empty()).then(|| json!(when)),
        ..NodeDraft::named(names.get(&node.id).cloned().unwrap_or_else(|| node.id.clone()))
    };
    Ok(if run.goal().is_some() { plain } else { as_in_file(node, plain, cx) })
}

/// Adds what a plan file said beyond the defaults of its tool.
fn as_in_file(node: &Node, plain: NodeDraft, cx: &LearnContext<'_>) -> NodeDraft {
    let defaults = node.tool.as_deref().and_then(|tool| cx.tools.defaults(tool, &node.params));
    let schema = defaults.as_ref().and_then(|defaults| defaults.result_schema.clone());
    let is_given = |rule: &Rule| rule.method == Method::Schema && rule.spec == schema;
    let rules = node.contract.iter();
    let rules = rules.map(|rule| RuleDraft { method: Some(rule.method), p: rule.p, spec: rule.spec.clone() });
    let floor = defaults.as_ref().map_or(0, |defaults| defaults.impact);
    let timeout = if node.calls_model() { MODEL_TIMEOUT_MS } else { TIMEOUT_MS };
    let retries = if node.idem == Idempotency::None { 0 } else { RETRIES };
    NodeDraft {
        kind: (!matches!(node.kind, Kind::Tool | Kind::Model)).then_some(node.kind),
        model: node.model.clone(),
        join: node.join.filter(|_| node.deps.len() > 1),
        contract: (!matches!(node.contract.as_slice(), [rule] if is_given(rule))).then(|| rules.collect()),
        impact: Impact::new(node.impact).filter(|_| node.impact > floor),
        timeout: (node.timeout != timeout).then_some(HumanDuration::Millis(node.timeout)),
        heartbeat_timeout: node.heartbeat_timeout.map(HumanDuration::Millis),
        retries: (node.retries != retries).then_some(node.retries),
        patches: (node.patches != 0).then_some(node.patches),
        approval: Some(node.approval).filter(|approval| *approval != Approval::None),
        human_timeout: node.human_timeout.map(HumanDuration::Millis),
        fresh: node.fresh.written(),
        fallback: node.fallback.clone(),
        ..plain
    }
}
