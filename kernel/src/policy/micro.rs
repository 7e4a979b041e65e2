//! The micro-planner: patches of failed nodes, written by a model (KAIJU §4.6; level 2 of SGH §6.2).

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::answer::{Advice, Remedy, literals};
use super::context::Form;
use super::fault::{FaultCode, Faults};
use super::graft::{contract, references};
use super::judge::{check_form, typed};
use super::step_faults::wrong_names;
use super::taint::Proposal;
use super::{CallIntent, Context, Fault, Reach, Role, Signature, View};
use crate::id::NodeId;
use crate::plan::{Approval, Impact, Node, NodeFields, On, ParamRef, is_path};
use crate::run::{FailureCategory, Patch};

/// Calls of the micro-planner about one cause. Many nodes may fail for one cause.
pub const CALLS_PER_SIGNATURE_MAX: usize = 3;

/// Characters of a message in a signature.
const MESSAGE_CHARS_MAX: usize = 200;

/// A message without what differs between failures for the same cause: capitals are lowered, runs of digits become 0, runs of
/// blanks one blank.
///
/// ```
/// use ostler_kernel::policy::normalised;
/// assert_eq!(normalised("  Port 8080\t refused "), "port 0 refused");
/// ```
pub fn normalised(message: &str) -> String {
    let mut text = String::with_capacity(message.len());
    for char in message.trim().chars() {
        let char = match char {
            char if char.is_ascii_digit() => '0',
            char if char.is_whitespace() => ' ',
            char => char.to_ascii_lowercase(),
        };
        if !(matches!(char, '0' | ' ') && text.ends_with(char)) {
            text.push(char);
        }
    }
    text.chars().take(MESSAGE_CHARS_MAX).collect()
}

/// The call of the micro-planner about a node that fails with `category`; `None` if it is not asked: the node has no tool, the
/// cause was asked about often enough or given up, or the budgets do not allow a call.
pub fn ask(view: View<'_>, node: &NodeId, category: FailureCategory) -> Option<CallIntent> {
    let (known, instance) = (view.run.node(node)?, view.run.instance(node)?);
    let message = instance.failure.as_ref().map_or("", |failure| failure.message.as_str());
    let signature = Signature { tool: known.tool.clone()?, category, message: normalised(message) };
    let made = || view.goal.calls.iter().filter(|call| call.is_made());
    let alike = || made().filter(|call| call.intent.signature.as_ref() == Some(&signature));
    let is_given_up = alike().any(|call| call.end.is_some_and(|end| end.is_skip));
    if alike().count() >= CALLS_PER_SIGNATURE_MAX || is_given_up {
        return None;
    }
    let same_author = |other: &&NodeId| view.goal.added_by.get(*other) == view.goal.added_by.get(node);
    let mut shown = view.all(std::iter::once(node), Form::Full);
    shown.extend(view.all(view.evidence().filter(same_author), Form::Digest));
    let is_tainted = view.is_told_tainted() || shown.iter().any(|shown| view.is_tainted(&shown.node));
    let context = Context { shown, ..Context::default() };
    let input_tokens = view.tokens(Role::Micro, &context);
    let (node, attempt, signature) = (node.clone(), instance.attempts, Some(signature));
    let intent =
        CallIntent { role: Role::Micro, node, attempt, context, input_tokens, is_tainted, signature };
    view.affords_call(input_tokens).then_some(intent)
}

/// Verdict on an answer of the micro-planner.
#[derive(Debug, Clone, PartialEq)]
pub enum JudgedPatch {
    /// The new configuration of the node.
    Patch(Box<Patch>),
    /// No patch can help: the run asks no more about this cause.
    Skip,
    /// The answer is faulty. There is no second try: no patch.
    Faulty(Vec<Fault>),
}

/// Judges the answer of the micro-planner to `call`, the number of the call in the run. `is_cut`: the model stopped at its limit
/// of output.
pub fn judge_patch(view: View<'_>, call: usize, answer: &Value, is_cut: bool) -> JudgedPatch {
    let Some(intent) = view.goal.calls.get(call).map(|call| &call.intent) else { return JudgedPatch::Skip };
    let Some(node) = view.run.node(&intent.node) else { return JudgedPatch::Skip };
    if let Err(faults) = check_form(Role::Micro, answer, is_cut) {
        return JudgedPatch::Faulty(faults);
    }
    let advice: Advice = typed(answer);
    let faults = check(view, node, &advice);
    if !faults.is_empty() {
        JudgedPatch::Faulty(faults.into_vec())
    } else if advice.decision == Remedy::Skip {
        JudgedPatch::Skip
    } else {
        JudgedPatch::Patch(Box::new(Patch { set: Some(fields(view, node, &advice, intent.is_tainted)) }))
    }
}

fn check(view: View<'_>, node: &Node, advice: &Advice) -> Faults {
    let Advice { decision, tool, params, refs } = advice;
    let mut faults = Faults::default();
    if tool.is_some() != (*decision == Remedy::Substitute) {
        faults.add(FaultCode::F03, "tool");
    }
    match decision {
        Remedy::Substitute if params.is_none() => faults.add(FaultCode::F03, "params"),
        Remedy::Skip if params.is_some() => faults.add(FaultCode::F03, "params"),
        Remedy::Retry | Remedy::Substitute | Remedy::Skip => {}
    }
    if *decision == Remedy::Skip && refs.as_ref().is_some_and(|refs| !refs.is_empty()) {
        faults.add(FaultCode::F03, "refs");
    }
    if let Some(tool) = tool.as_ref().filter(|tool| view.goal.tools.terms(tool).is_none()) {
        faults.add_with(FaultCode::F05, node.id.as_str(), format!("{tool:?}"));
    }
    if faults.is_empty() && *decision != Remedy::Skip {
        check_values(view, node, advice, &mut faults);
    }
    faults
}

fn check_values(view: View<'_>, node: &Node, advice: &Advice, faults: &mut Faults) {
    let named = advice.refs.as_deref().unwrap_or_default();
    for reference in named {
        let source = &reference.from;
        if !node.deps.iter().any(|dep| dep.n == *source && dep.on == On::Success) {
            faults.add(FaultCode::F07, format!("{}:{source}", node.id));
        }
        if !is_path(&reference.path) {
            faults.add(FaultCode::F11, node.id.as_str());
        }
    }
    let (literal, refs) = values(node, advice);
    let names: Vec<&str> = literal.keys().map(String::as_str).collect();
    let is_double = named.len() > refs.len() || names.iter().any(|name| refs.contains_key(*name));
    let terms = tool(node, advice).and_then(|tool| view.goal.tools.terms(tool));
    let kept = refs.keys().map(String::as_str).filter(|name| !names.contains(name));
    let given: Vec<&str> = names.iter().copied().chain(kept).collect();
    let known = terms.and_then(|terms| terms.params.as_ref());
    if is_double || !wrong_names(&given, &[], known).is_empty() {
        faults.add(FaultCode::F06, node.id.as_str());
    }
}

fn tool<'n>(node: &'n Node, advice: &'n Advice) -> Option<&'n str> {
    advice.tool.as_deref().or(node.tool.as_deref())
}

/// Literals and references after the patch: null keeps what the node has.
fn values(node: &Node, advice: &Advice) -> (Map<String, Value>, BTreeMap<String, ParamRef>) {
    let literal = advice.params.as_ref().map_or_else(|| node.params.clone().into_map(), literals);
    let refs = advice.refs.as_ref().map_or_else(|| node.param_refs.clone(), |refs| references(refs));
    (literal, refs)
}

/// The fields that a patch sets. Impact and effect never fall below the node's, and an approval is never removed: the author of
/// the node knew more than the tool's terms say.
fn fields(view: View<'_>, node: &Node, advice: &Advice, is_tainted: bool) -> NodeFields {
    let (literal, refs) = values(node, advice);
    let named = tool(node, advice).unwrap_or_default();
    let Reach { effect, impact } = view.goal.tools.reach(named, &literal, &refs);
    let (effect, impact) = (effect.max(node.effect), impact.max(node.impact));
    let kept = match advice.decision {
        Remedy::Retry => node.params.clone().into_map(),
        Remedy::Substitute | Remedy::Skip => Map::new(),
    };
    let proposal = Proposal { tool: named, impact, literal: &literal, refs: &refs, kept: &kept };
    let asks = is_tainted && view.is_wider(&proposal, &|_| false);
    let given = view.goal.tools.terms(named).and_then(|terms| terms.step.as_ref());
    let is_new = advice.tool.is_some();
    let approves = asks && node.approval != Approval::Before;
    NodeFields {
        tool: Some(Some(named.to_owned())),
        params: Some(literal),
        param_refs: Some(refs),
        effect: Some(effect),
        impact: Impact::new(impact),
        idem: given.map(|given| given.idem),
        retries: given.map(|given| given.retries),
        timeout: given.map(|given| given.timeout),
        contract: given.filter(|_| is_new).map(|given| Some(contract(given.result_schema.clone()))),
        approval: approves.then_some(Approval::Before),
        human_timeout: approves.then_some(Some(view.goal.terms.human_timeout)),
        ..NodeFields::default()
    }
}

/// Numbers of the calls of the micro-planner whose answers the run waits for. After a crash, make these calls again.
pub fn awaited_advice(view: View<'_>) -> Vec<usize> {
    let waits = |node: &NodeId| view.run.open_patch_request(node).is_some();
    let calls = view.goal.calls.iter().enumerate();
    calls
        .filter(|(_, call)| call.intent.role == Role::Micro && call.end.is_none() && waits(&call.intent.node))
        .map(|(number, _)| number)
        .collect()
}
