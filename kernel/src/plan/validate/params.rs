//! Parameters of tools, aggregators and models before any call: V23 (names) and V24 (values). Parameters from
//! references are checked by name only.

use std::collections::BTreeSet;

use serde_json::Value;

use super::super::diagnostic::{Diagnostic, DiagnosticCode};
use super::super::pointer::Pointer;
use super::super::settings::{BadParam, Tools};
use super::super::suggest::Suggestions;
use super::super::{Kind, Node, ParamRef};
use super::{Context, IndexedPlan, sub_agent};
use crate::contract::describe_kind;
use crate::id::NodeId;
use crate::template::{RenderError, TEMPLATE_BYTES_MAX, TemplateError, check_template, check_values};

const NAMES_TOLD_MAX: usize = 12;

const OF_AGGREGATORS: [&str; 2] = ["template", "schema"];

pub(super) fn check(
    indexed: &IndexedPlan<'_>,
    at: usize,
    context: &Context<'_>,
    faults: &mut Vec<Diagnostic>,
) {
    let (node, suggestions) = (&indexed.plan.nodes[at], &context.suggestions);
    faults.extend(long_templates(indexed, at));
    faults.extend(undo(indexed, at, context));
    let bad = match (node.kind, &node.tool, context.settings.tools) {
        (Kind::Tool, Some(tool), Some(tools)) => {
            tools.check_params(tool, &node.params, &node.referred().collect())
        }
        (Kind::SubAgent, Some(tool), Some(tools)) => {
            let referred: BTreeSet<&str> = node.referred().collect();
            let mut bad = tools.check_params(tool, &node.params, &referred);
            bad.extend(sub_agent::check(node, context));
            bad
        }
        (Kind::Aggregator, ..) => aggregator(indexed, node, suggestions),
        (Kind::Model, Some(tool), Some(tools)) => model(indexed, node, tool, tools, suggestions),
        _ => return,
    };
    let mut bad = without_slips(bad, suggestions);
    // Without `as` (V28) the parameter that the list fills is unknown.
    if node.for_each.as_ref().is_some_and(|list| list.parameter.is_empty()) {
        bad.retain(|bad| matches!(bad, BadParam::Wrong { .. }));
    }
    faults.extend(
        bad.into_iter().map(|bad| diagnostic(node, bad, &indexed.place(at).key("params"), suggestions)),
    );
}

/// Parameters of an undo. They must resolve whenever the undo is needed.
fn undo(indexed: &IndexedPlan<'_>, at: usize, context: &Context<'_>) -> Vec<Diagnostic> {
    let node = &indexed.plan.nodes[at];
    let (Some(undo), Some(tools)) = (&node.undo, context.settings.tools) else { return Vec::new() };
    let referred: BTreeSet<&str> = undo.param_refs.keys().map(String::as_str).collect();
    let bad = without_slips(tools.check_params(&undo.tool, &undo.params, &referred), &context.suggestions);
    let place = indexed.place(at).key("undo").key("params");
    let called = Node { tool: Some(undo.tool.clone()), kind: Kind::Tool, ..node.clone() };
    bad.into_iter().map(|bad| diagnostic(&called, bad, &place, &context.suggestions)).collect()
}

/// V24: templates of references beyond the size limit.
fn long_templates(indexed: &IndexedPlan<'_>, at: usize) -> Vec<Diagnostic> {
    let node = &indexed.plan.nodes[at];
    let bytes = |reference: &ParamRef| reference.template.as_ref().map_or(0, String::len);
    let long = node.param_refs.iter().filter(|(_, reference)| bytes(reference) > TEMPLATE_BYTES_MAX);
    let diagnostic = long.map(|(name, reference)| {
        let detail = format!(
            "parameter {name} has a template of {} bytes, at most {TEMPLATE_BYTES_MAX} are allowed",
            bytes(reference)
        );
        let help = "shorten the template, or build the text in a text.render node";
        let place = indexed.place(at).key("param_refs").key(name).key("template");
        Diagnostic::new(DiagnosticCode::V24, &node.id, detail, help).at(&place)
    });
    diagnostic.collect()
}

/// Drops a missing parameter if an unknown parameter has a close name: one typing error, one diagnostic.
fn without_slips(mut bad: Vec<BadParam>, suggestions: &Suggestions) -> Vec<BadParam> {
    let mut meant: BTreeSet<(String, String)> = BTreeSet::new();
    for unknown in &bad {
        if let BadParam::Unknown { pointer, name, known } = unknown
            && let Some(near) = suggestions.closest(name, known.iter().map(String::as_str))
        {
            let outer = pointer.rsplit_once('/').map_or("", |(outer, _)| outer);
            meant.insert((outer.to_owned(), near.to_owned()));
        }
    }
    bad.retain(|bad| match bad {
        BadParam::Missing { pointer, name, .. } => !meant.contains(&(pointer.clone(), name.clone())),
        BadParam::Unknown { .. } | BadParam::Wrong { .. } => true,
    });
    bad
}

/// A model reads its dependencies like an aggregator; `values` is theirs, so a plan does not give it.
fn model(
    indexed: &IndexedPlan<'_>,
    node: &Node,
    tool: &str,
    tools: &dyn Tools,
    suggestions: &Suggestions,
) -> Vec<BadParam> {
    let referred: BTreeSet<&str> = node.referred().collect();
    let mut bad = tools.check_params(tool, &node.params, &referred);
    let is_given = |name: &str| node.params.contains_key(name) || referred.contains(name);
    if !is_given("prompt") && !is_given("messages") {
        let says = "a text over the dependencies, such as \"Sum up: {{ NODE.result.text }}\"";
        bad.push(BadParam::Missing { pointer: String::new(), name: "prompt".into(), says: says.into() });
    }
    if bad.is_empty() {
        bad.extend(check_dependency_template(indexed, node, "prompt", suggestions));
    }
    bad
}

fn aggregator(indexed: &IndexedPlan<'_>, node: &Node, suggestions: &Suggestions) -> Vec<BadParam> {
    let known = || OF_AGGREGATORS.map(str::to_owned).to_vec();
    let names = node.params.keys().chain(node.param_refs.keys());
    let unknown = names.filter(|name| !OF_AGGREGATORS.contains(&name.as_str()));
    let mut bad: Vec<BadParam> = unknown
        .map(|name| BadParam::Unknown {
            pointer: Pointer::root().key(name).as_str().to_owned(),
            name: name.clone(),
            known: known(),
        })
        .collect();
    if !node.params.contains_key("template") && !node.param_refs.contains_key("template") {
        let says = "a template over the dependencies, such as \"{{ NODE.result.count }}\"";
        bad.push(BadParam::Missing { pointer: String::new(), name: "template".into(), says: says.into() });
    }
    let unread = template(node, "template");
    if unread.is_empty() {
        bad.extend(check_dependency_template(indexed, node, "template", suggestions));
    }
    bad.extend(unread);
    bad
}

/// Checks that a template over the dependencies reads nothing else.
fn check_dependency_template(
    indexed: &IndexedPlan<'_>,
    node: &Node,
    param: &str,
    suggestions: &Suggestions,
) -> Option<BadParam> {
    let text = node.params.get(param)?.as_str()?;
    let error = check_values(text, &|name| {
        node.deps.iter().any(|dep| dep.n.as_str() == name) || node.element_in_prompt() == Some(name)
    })
    .err()?;
    let RenderError::Undefined { line, name } = error else { return None };
    let known = || node.deps.iter().map(|dep| dep.n.as_str());
    let there: Vec<&str> = known().take(NAMES_TOLD_MAX).collect();
    let help = match there.as_slice() {
        _ if indexed.index.find(&NodeId::from(name.as_str())).is_some() => format!("add {name} to its deps"),
        [] => "remove it: the template reads dependencies, and this node has none".to_owned(),
        there => {
            suggestions.help(&name, known(), &format!("remove it; the dependencies are {}", there.join(", ")))
        }
    };
    let what = format!("line {line}: {name} is not a dependency");
    Some(BadParam::Wrong { pointer: format!("/{param}"), what, help, line: Some(line) })
}

/// Checks a parameter that must be a template, if present.
fn template(node: &Node, name: &str) -> Vec<BadParam> {
    let wrong = |what: String, help: String, line: Option<usize>| {
        vec![BadParam::Wrong { pointer: format!("/{name}"), what, help, line }]
    };
    match node.params.get(name) {
        None => Vec::new(),
        Some(Value::String(text)) => match check_template(text) {
            Ok(()) => Vec::new(),
            Err(error) => {
                let TemplateError { what, help, line } = error.into();
                wrong(what, help, line)
            }
        },
        Some(other) => {
            let what = format!("must be a text, found {}", describe_kind(other));
            wrong(what, "write the template as text".to_owned(), None)
        }
    }
}

fn diagnostic(node: &Node, bad: BadParam, params: &Pointer, suggestions: &Suggestions) -> Diagnostic {
    let whose = match (&node.tool, node.kind) {
        (Some(tool), Kind::Tool) => tool.as_str(),
        (_, Kind::SubAgent) => Kind::SubAgent.as_str(),
        (_, Kind::Aggregator) => "aggregator",
        _ => "model",
    };
    let within = |pointer: &str| {
        let inner = pointer.trim_start_matches('/').replace('/', ".").replace("~1", "/").replace("~0", "~");
        if inner.is_empty() { "params".to_owned() } else { format!("params.{inner}") }
    };
    match bad {
        BadParam::Unknown { pointer, name, known } => {
            let outer = pointer.rsplit_once('/').map_or("", |(outer, _)| outer);
            let taken = if known.is_empty() { "nothing".to_owned() } else { known.join(", ") };
            let (detail, otherwise) = if outer.is_empty() {
                (format!("{whose}: unknown parameter `{name}`"), format!("remove it; {whose} takes {taken}"))
            } else {
                let place = within(outer);
                (
                    format!("{whose}: unknown parameter `{place}.{name}`"),
                    format!("remove it; known names: {taken}"),
                )
            };
            let help = suggestions.help(&name, known.iter().map(String::as_str), &otherwise);
            // A parameter from a reference has its place under `param_refs`.
            let top = Pointer::root().key(&name);
            let place = match (node.params.contains_key(&name), top.as_str() == pointer) {
                (false, true) if node.param_refs.contains_key(&name) => param_ref_pointer(params, &name),
                _ => params.join(&pointer),
            };
            Diagnostic::new(DiagnosticCode::V23, &node.id, detail, help).at(&place)
        }
        BadParam::Missing { pointer, name, says } => {
            let path = if pointer.is_empty() { name.clone() } else { format!("{}.{name}", within(&pointer)) };
            let detail = format!("{whose}: missing parameter `{path}`");
            let says = if says.is_empty() { String::new() } else { format!(": {says}") };
            let help = if pointer.is_empty() && matches!(node.kind, Kind::Tool | Kind::SubAgent) {
                format!("add `{name}` to params, or to param_refs{says}")
            } else {
                format!("add `{name}`{says}")
            };
            Diagnostic::new(DiagnosticCode::V23, &node.id, detail, help).at(&params.join(&pointer))
        }
        BadParam::Wrong { pointer, what, help, line } => {
            let detail = format!("{whose}: {}: {what}", within(&pointer));
            let fault =
                Diagnostic::new(DiagnosticCode::V24, &node.id, detail, help).at(&params.join(&pointer));
            Diagnostic { line, ..fault }
        }
    }
}

/// Place of a reference, from the place of the literal parameters.
fn param_ref_pointer(params: &Pointer, name: &str) -> Pointer {
    params.sibling("param_refs").key(name)
}
