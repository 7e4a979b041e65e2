//! Rules V28 to V31 and V34 for guards, expansion, waits, undo and freshness, and the parts of V03, V11, V17 (references), V20 (tools), V08,
//! V09 and V16 (contracts) that concern these features. Normalisation reports malformed fields.

use super::super::diagnostic::{Diagnostic, DiagnosticCode};
use super::super::pointer::Pointer;
use super::super::undo::is_undo_name;
use super::super::{Approval, Effect, ForEach, Join, Kind, Made, Method, Node, On, ParamRef, Undo};
use super::contracts::probabilities;
use super::references::{self, check_path};
use super::{Context, IndexedPlan};
use crate::id::{NAME_BYTES_MAX, NodeId};

pub(super) fn check(
    indexed: &IndexedPlan<'_>,
    at: usize,
    context: &Context<'_>,
    faults: &mut Vec<Diagnostic>,
) {
    let node = &indexed.plan.nodes[at];
    sources(indexed, at, context, faults);
    expansion(indexed, at, faults);
    wait(node, &|| indexed.place(at), faults);
    freshness(indexed, at, faults);
    if context.settings.real_run && node.kind == Kind::Wait {
        faults.extend(wait_rules(node, &|| indexed.place(at)));
    }
    if let Some(undo) = &node.undo {
        undoes(indexed, at, undo, context, faults);
    }
}

/// The sources and paths of guards and of `for_each`.
fn sources(indexed: &IndexedPlan<'_>, at: usize, context: &Context<'_>, faults: &mut Vec<Diagnostic>) {
    let node = &indexed.plan.nodes[at];
    let guards = node.when.iter().enumerate();
    let guards = guards.map(|(number, guard)| {
        let place = move |place: Pointer| place.key("when").item(number);
        (
            format!("guard {}", number + 1),
            &guard.from,
            &guard.path,
            Box::new(place) as Box<dyn Fn(Pointer) -> Pointer>,
        )
    });
    let list = node.for_each.iter().map(|list| {
        let place = |place: Pointer| place.key("for_each");
        ("for_each".to_owned(), &list.from, &list.path, Box::new(place) as Box<dyn Fn(Pointer) -> Pointer>)
    });
    for (what, from, path, place) in guards.chain(list) {
        let place = || place(indexed.place(at));
        let success = node.deps.iter().any(|dep| dep.n == *from && dep.on == On::Success);
        let fault = references::source(indexed, node, &what, from, success, &context.suggestions);
        faults.extend(fault.map(|fault| fault.at(&place().key("from"))));
        faults.extend(check_path(node, &what, path.as_deref()).map(|fault| fault.at(&place().key("path"))));
    }
}

/// V28.
fn expansion(indexed: &IndexedPlan<'_>, at: usize, faults: &mut Vec<Diagnostic>) {
    let node = &indexed.plan.nodes[at];
    let mut fault = |detail: String, help: &str, key: &str| {
        let place = indexed.place(at).key(key);
        faults.push(Diagnostic::new(DiagnosticCode::V28, &node.id, detail, help).at(&place));
    };
    let made = node.made.as_deref();
    if node.kind == Kind::Collector && !matches!(made, Some(Made::Collector { .. })) {
        let help = "write the node of which there shall be many, with `for_each`";
        fault("only the engine makes nodes of kind collector".to_owned(), help, "kind");
    }
    let Some(list) = &node.for_each else { return };
    if matches!(made, Some(Made::Child { .. })) {
        fault(
            "a child cannot expand".to_owned(),
            "expand over `items` of the first in a second node",
            "for_each",
        );
    }
    if node.join == Some(Join::AnyOf) {
        let help = "expand a node behind the any_of";
        fault("an any_of cannot expand: its candidates are its edges".to_owned(), help, "for_each");
    }
    if node.is_control() {
        let detail = format!("nodes of kind {} cannot expand", node.kind.as_str());
        fault(detail, "expand a node that works", "for_each");
    }
    let name = &list.parameter;
    if node.params.contains_key(name) || node.param_refs.contains_key(name) {
        let help = "name another parameter in `as`, or remove the other";
        fault(format!("parameter {name} of `as` is given already"), help, "for_each");
    }
    let longest = ForEach::child(&node.id, list.max.saturating_sub(1));
    if longest.as_str().len() > NAME_BYTES_MAX {
        let detail = format!("the id of a child, such as {longest}, has more than {NAME_BYTES_MAX} bytes");
        fault(detail, "shorten the id of the node", "id");
    }
}

/// V34.
fn freshness(indexed: &IndexedPlan<'_>, at: usize, faults: &mut Vec<Diagnostic>) {
    let node = &indexed.plan.nodes[at];
    if !node.fresh.is_recorded() {
        return;
    }
    let is_asked =
        node.approval != Approval::None || node.asks_after() || indexed.plan.policy.oversight.is_some();
    let (detail, help) = if node.kind != Kind::Tool || node.effect == Effect::None {
        let detail = "fresh is about reads, and this node reads nothing outside of the run";
        (detail, "remove `fresh`: results of such nodes are reused anyway")
    } else if node.reach().effect != Effect::Read {
        let detail = "fresh is about reads, and this node changes the world";
        (detail, "remove `fresh`: what changes the world is done in each run")
    } else if is_asked {
        let detail = "fresh changes nothing: a person decides about each execution";
        (detail, "remove `fresh`, or the approval and the rules for people")
    } else {
        return;
    };
    let place = indexed.place(at).key("fresh");
    faults.push(Diagnostic::new(DiagnosticCode::V34, &node.id, detail.to_owned(), help).at(&place));
}

/// V29.
fn wait(node: &Node, place: &dyn Fn() -> Pointer, faults: &mut Vec<Diagnostic>) {
    let mut fault = |detail: &str, help: &str, key: &str| {
        faults.push(Diagnostic::new(DiagnosticCode::V29, &node.id, detail, help).at(&place().key(key)));
    };
    if node.kind != Kind::Wait {
        if node.deadline.is_some() {
            fault(
                "only nodes of kind wait have a deadline",
                "set `kind: wait`, or use `timeout`",
                "deadline",
            );
        }
        return;
    }
    if node.deadline.is_none_or(|deadline| deadline <= 0) {
        fault(
            "a wait needs a deadline above 0",
            "set how long the answer may take, such as deadline: 2h",
            "deadline",
        );
    }
    if node.effect != Effect::None || node.impact > 0 {
        fault("a wait has no effect", "remove `effect` and `impact`", "effect");
    }
    if node.approval != Approval::None {
        fault("a wait has no approval: its answer comes from outside", "remove `approval`", "approval");
    }
    if node.tool.is_some() {
        fault("a wait calls no tool", "remove `tool`, or call it in a separate node", "tool");
    }
}

/// V29: the sender waits while its answer is judged, so no rule may call a program, a model or a person.
fn wait_rules(node: &Node, place: &dyn Fn() -> Pointer) -> Option<Diagnostic> {
    let at = node.contract.iter().position(|rule| !matches!(rule.method, Method::Schema | Method::Code))?;
    let detail = format!("contract[{at}] calls something, and the contract of a wait cannot");
    let help = "use rules of the methods schema and code, and judge the answer in a node behind it";
    let fault = Diagnostic::new(DiagnosticCode::V29, &node.id, detail, help);
    Some(fault.at(&place().key("contract").item(at)))
}

/// V30, and the rules of references, tools and contracts for an undo.
fn undoes(
    indexed: &IndexedPlan<'_>,
    at: usize,
    undo: &Undo,
    context: &Context<'_>,
    faults: &mut Vec<Diagnostic>,
) {
    let node = &indexed.plan.nodes[at];
    let place = |key: &str| indexed.place(at).key("undo").key(key);
    bounds(node, undo, indexed.plan.policy.max_attempts, &place, faults);
    for (name, reference) in &undo.param_refs {
        let (what, from) = (format!("undo: parameter {name}"), &reference.from);
        let path = check_path(node, &what, reference.path.as_deref());
        faults.extend(path.map(|fault| fault.at(&place("param_refs").key(name).key("path"))));
        if from.as_str() == Undo::SELF {
            continue;
        }
        let success = node.deps.iter().any(|dep| dep.n == *from && dep.on == On::Success);
        let fault = if from.as_str() == ParamRef::WINNER {
            let detail = format!("{what} refers to {from}, which an undo does not know");
            Some(Diagnostic::new(DiagnosticCode::V11, &node.id, detail, "refer to $self, or to a dependency"))
        } else {
            references::source(indexed, node, &what, from, success, &context.suggestions)
        };
        faults.extend(fault.map(|fault| fault.at(&place("param_refs").key(name).key("from"))));
    }
    if context.settings.tools.is_some() && !context.tools.contains(&undo.tool) {
        let names = context.tools.iter().map(String::as_str);
        let help =
            context.suggestions.help(&undo.tool, names, "name a tool that exists; see `ostler help tools`");
        let detail = format!("undo: unknown tool {}", undo.tool);
        faults.push(Diagnostic::new(DiagnosticCode::V20, &node.id, detail, help).at(&place("tool")));
    }
    if undo.contract.is_empty() {
        let help = "add a rule, or remove `contract`";
        faults.push(
            Diagnostic::new(DiagnosticCode::V08, &node.id, "undo: no contract", help).at(&place("contract")),
        );
    }
    probabilities(&node.id, &undo.contract, &|| place("contract"), faults);
    let by_model = !undo.contract.is_empty() && undo.contract.iter().all(|rule| rule.method == Method::Model);
    if node.impact == 2 && by_model && undo.approval != Approval::Before {
        let detail = "undo: has impact 2, and only a model judges its result";
        let help = "set approval: before in the undo, or add a rule of another method";
        faults.push(Diagnostic::new(DiagnosticCode::V16, &node.id, detail, help).at(&place("contract")));
    }
}

fn bounds(
    node: &Node,
    undo: &Undo,
    most: i64,
    place: &dyn Fn(&str) -> Pointer,
    faults: &mut Vec<Diagnostic>,
) {
    let mut fault = |detail: String, help: &str, key: &str| {
        faults.push(Diagnostic::new(DiagnosticCode::V30, &node.id, detail, help).at(&place(key)));
    };
    if node.impact == 0 || node.is_control() {
        let detail = "a node without an effect has nothing to undo".to_owned();
        fault(detail, "remove `undo`, or say the `effect` and `impact` of the node", "tool");
    }
    if node.id.as_str().len() > Undo::ID_BYTES_MAX {
        let detail = format!("a node with an undo has an id of at most {} bytes", Undo::ID_BYTES_MAX);
        fault(detail, "shorten the id", "tool");
    }
    if undo.timeout.is_some_and(|timeout| timeout <= 0) {
        fault("undo: timeout is not above 0".to_owned(), "set a timeout, such as 30s", "timeout");
    }
    if undo.retries.is_some_and(|retries| retries < 0 || i128::from(retries) + 1 > i128::from(most)) {
        let detail =
            format!("undo: retries are negative, or more than policy.max_attempts allows, {most} attempts");
        fault(detail, "set fewer retries", "retries");
    }
    match undo.approval {
        Approval::None => {}
        Approval::After => {
            fault("undo: approval is none or before".to_owned(), "use approval: before", "approval")
        }
        Approval::Before if undo.human_timeout.is_none_or(|span| span <= 0) => {
            let help = "set the time after which silence cancels the undo, such as human_timeout: 1h";
            fault("undo: asks a person without a human_timeout above 0".to_owned(), help, "human_timeout");
        }
        Approval::Before => {}
    }
}

/// V31 for all nodes: names reserved for the engine.
pub(super) fn names(indexed: &IndexedPlan<'_>, faults: &mut Vec<Diagnostic>) {
    let expands = indexed.plan.nodes.iter().any(|node| lists(node).is_some());
    for (at, node) in indexed.plan.nodes.iter().enumerate() {
        let fault = match node.made.as_deref() {
            Some(Made::Undo { .. } | Made::Child { .. }) => None,
            Some(Made::Collector { .. }) | None if is_undo_name(node.id.as_str()) => {
                Some("ids that begin with `undo.` are those of undo nodes".to_owned())
            }
            Some(Made::Collector { .. }) | None if expands => parent(indexed, node.id.as_str())
                .map(|parent| format!("it is the id of a child of {parent}, which expands")),
            Some(Made::Collector { .. }) | None => None,
        };
        faults.extend(fault.map(|detail| {
            let help = "give the node another id";
            Diagnostic::new(DiagnosticCode::V31, &node.id, detail, help).at(&indexed.place(at).key("id"))
        }));
    }
}

/// Maximum number of children of an expanding or expanded node.
fn lists(node: &Node) -> Option<u64> {
    node.list_max()
}

fn parent<'p>(indexed: &'p IndexedPlan<'_>, id: &str) -> Option<&'p NodeId> {
    let (name, number) = id.rsplit_once('.')?;
    let plain = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
    if !plain || number.len() > 1 && number.starts_with('0') {
        return None;
    }
    let number: u64 = number.parse().ok()?;
    let node = &indexed.plan.nodes[indexed.index.find(&name.into())?];
    lists(node).is_some_and(|max| number < max).then_some(&node.id)
}
