//! Setting fields of a node: the `set` of a delta, a patch, or a fallback.

use super::contract_rules::{PatternBudget, normalise_rules};
use super::diagnostic::{Diagnostic, DiagnosticCode};
use super::draft::NodeFields;
use super::normalise::tests_class;
use super::pointer::Pointer;
use super::{Method, Node, Rule, Settings, for_each, guard, model_tool, undo};
use crate::id::NodeId;
use crate::json::Object;

pub(super) fn check_forbidden(id: &NodeId, fields: &NodeFields, faults: &mut Vec<Diagnostic>) {
    for name in fields.forbidden() {
        let help = "use rewire or replace: set cannot change the structure";
        faults.push(Diagnostic::new(DiagnosticCode::D06, id, format!("sets `{name}`"), help));
    }
}

/// Sets fields of a node without normalising. In a real run the impact, effect and idempotency stay at least
/// those of the tool with the new parameters.
pub(super) fn set(
    node: &mut Node,
    fields: &NodeFields,
    settings: &Settings<'_>,
    room: &mut PatternBudget,
    faults: &mut Vec<Diagnostic>,
) {
    check_forbidden(&node.id, fields, faults);
    let bare = settings.ticks_per_second;
    fn put<T: Clone>(field: &mut T, said: &Option<T>) {
        if let Some(said) = said {
            field.clone_from(said);
        }
    }
    put(&mut node.kind, &fields.kind);
    put(&mut node.tool, &fields.tool);
    put(&mut node.model, &fields.model);
    if let (true, Some(Some(model))) = (settings.real_run && node.calls_model(), &fields.model) {
        node.tool = Some(model_tool(model));
    }
    put(&mut node.params, &fields.params.clone().map(Object::from));
    put(&mut node.param_refs, &fields.param_refs);
    put(&mut node.reads, &fields.reads);
    put(&mut node.effect, &fields.effect);
    put(&mut node.impact, &fields.impact.map(|impact| impact.get()));
    put(&mut node.idem, &fields.idem);
    put(&mut node.timeout, &fields.timeout.map(|span| span.ticks(bare)));
    let heartbeat = fields.heartbeat_timeout.map(|span| span.map(|span| span.ticks(bare)));
    put(&mut node.heartbeat_timeout, &heartbeat);
    put(&mut node.retries, &fields.retries);
    put(&mut node.patches, &fields.patches);
    put(&mut node.approval, &fields.approval);
    put(&mut node.human_timeout, &fields.human_timeout.map(|span| span.map(|span| span.ticks(bare))));
    set_extensions(node, fields, settings, room, faults);
    if let Some(contract) = &fields.contract {
        let (drafts, nowhere) = (contract.clone().unwrap_or_default(), Pointer::default);
        node.contract =
            normalise_rules(&node.id, drafts, settings.real_run.then_some(room), &nowhere, faults);
    }
    if settings.real_run {
        if matches!(fields.tool, Some(Some(_))) {
            reset_to_tool(node, fields, settings);
        }
        raise_to_tool_floor(node, fields, settings);
        if fields.contract.is_some() {
            node.tests = tests_class(&node.contract, fields.idem, settings);
        }
    }
}

/// Guards, list, deadline and undo. `null` removes one.
fn set_extensions(
    node: &mut Node,
    fields: &NodeFields,
    settings: &Settings<'_>,
    room: &mut PatternBudget,
    faults: &mut Vec<Diagnostic>,
) {
    let nowhere = Pointer::default;
    if let Some(when) = &fields.when {
        node.when = if when.is_null() { Vec::new() } else { guard::read(&node.id, when, &nowhere, faults) };
    }
    if let Some(list) = &fields.for_each {
        node.for_each = if list.is_null() { None } else { for_each::read(&node.id, list, &nowhere, faults) };
    }
    if let Some(span) = fields.deadline {
        node.deadline = span.map(|span| span.ticks(settings.ticks_per_second));
    }
    if let Some(undo) = &fields.undo {
        node.undo =
            if undo.is_null() { None } else { undo::read(&node.id, undo, settings, room, &nowhere, faults) };
    }
}

/// Resets a node to the defaults of a new tool, except for fields set by the same change.
fn reset_to_tool(node: &mut Node, fields: &NodeFields, settings: &Settings<'_>) {
    let Some(known) = node.tool.as_ref().and_then(|tool| settings.tools?.defaults(tool, &node.params)) else {
        return;
    };
    if fields.impact.is_none() {
        node.impact = known.impact;
    }
    if fields.effect.is_none() {
        node.effect = known.effect;
    }
    if fields.idem.is_none() {
        node.idem = known.idem;
    }
    if fields.retries.is_none() {
        node.retries = node.retries.min(settings.default_retries(node.tool.as_deref(), node.idem));
    }
    if fields.contract.is_none() {
        let rule = |spec| Rule { method: Method::Schema, p: None, spec: Some(spec) };
        node.contract = known.result_schema.into_iter().map(rule).collect();
        node.tests = None;
    }
}

fn raise_to_tool_floor(node: &mut Node, fields: &NodeFields, settings: &Settings<'_>) {
    let Some(known) = node.tool.as_ref().and_then(|tool| settings.tools?.defaults(tool, &node.params)) else {
        return;
    };
    node.impact = node.impact.max(known.impact);
    if fields.effect.is_none() {
        node.effect = node.effect.max(known.effect);
    }
    if fields.idem.is_none() && (fields.tool.is_some() || fields.params.is_some()) {
        node.idem = node.idem.max(known.idem);
    }
}
