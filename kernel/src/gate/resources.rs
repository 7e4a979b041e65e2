//! Rules about the values of a call: paths, URLs, labels, operators' rules and budgets, in this order.

use serde_json::Value;

use super::call::Call;
use super::code::{Denial, DenialCode};
use super::egress::{Egress, Lookup, Pinned};
use super::path::{self, PathFault};
use super::policy::{GatePolicy, ToolRules};
use super::rules::BudgetLimit;
use super::tool::GatedTool;
use crate::contract::excerpt;
use crate::json::Object;

/// Checks the parameters of a call; returns the addresses that its URLs were judged by.
pub(super) fn check(
    call: &Call<'_>,
    params: &Object,
    tool: &GatedTool,
    policy: &GatePolicy,
    lookup: &mut dyn Lookup,
) -> Result<Vec<Pinned>, Denial> {
    let rules = policy.tools.get(call.name);
    check_paths(call, params, tool, rules)?;
    let pinned = check_urls(params, tool, rules, &policy.egress, lookup)?;
    check_labels(call, tool, policy)?;
    if let Some(rules) = rules {
        check_values(params, rules)?;
        check_budgets(call, params, rules)?;
    }
    Ok(pinned)
}

fn check_paths(
    call: &Call<'_>,
    params: &Object,
    tool: &GatedTool,
    rules: Option<&ToolRules>,
) -> Result<(), Denial> {
    let escape = |name: &str, text: &str, fault: PathFault| {
        Denial::new(DenialCode::PathEscape, format_args!("{name} {:?}: {fault}", excerpt(text)))
    };
    for (name, value) in params.iter() {
        let roots = rules.and_then(|rules| rules.paths.get(name));
        if roots.is_none() && !tool.takes_path(name) {
            continue;
        }
        if roots.is_none() && call.workspace.is_none() {
            return Err(Denial::new(DenialCode::PathEscape, format_args!("{name}: no rule gives it a root")));
        }
        for_each_string(value, &mut |text| {
            let Some(text) = text else {
                let what = format_args!("{name}: expected a path, found no text");
                return Err(Denial::new(DenialCode::PathEscape, what));
            };
            let judged = match roots {
                Some(roots) => within_one(text, roots),
                None => path::judge(text, call.workspace.unwrap_or_default()),
            };
            judged.map_err(|fault| escape(name, text, fault))
        })?;
    }
    Ok(())
}

/// One root must fit in every reading of the path.
fn within_one(text: &str, roots: &[String]) -> Result<(), PathFault> {
    let mut first = None;
    for root in roots {
        match path::judge(text, root) {
            Ok(()) => return Ok(()),
            Err(fault) => {
                first.get_or_insert(fault);
            }
        }
    }
    Err(first.unwrap_or(PathFault::Escapes))
}

fn check_urls(
    params: &Object,
    tool: &GatedTool,
    rules: Option<&ToolRules>,
    listed: &Egress,
    lookup: &mut dyn Lookup,
) -> Result<Vec<Pinned>, Denial> {
    let mut pinned = Vec::new();
    for (name, value) in params.iter() {
        let egress = match rules.and_then(|rules| rules.egress.get(name)) {
            Some(egress) => egress,
            None if tool.takes_url(name) => listed,
            None => continue,
        };
        let forbidden = |what: std::fmt::Arguments<'_>| Denial::new(DenialCode::EgressForbidden, what);
        if egress.is_empty() && value.is_array() {
            return Err(forbidden(format_args!("{name}: no rule lets a URL of it leave")));
        }
        for_each_string(value, &mut |text| {
            let Some(text) = text else {
                return Err(forbidden(format_args!("{name}: expected a URL, found no text")));
            };
            let judged = egress.pin(text, lookup);
            pinned.extend(
                judged.map_err(|fault| forbidden(format_args!("{name}: {:?}: {fault}", excerpt(text))))?,
            );
            Ok(())
        })?;
    }
    Ok(pinned)
}

fn check_labels(call: &Call<'_>, tool: &GatedTool, policy: &GatePolicy) -> Result<(), Denial> {
    let forbidden = call.provenance.labels.iter().find(|label| policy.forbidden_labels.contains(*label));
    match forbidden {
        Some(label) if tool.tool().sends_out() => {
            let what = format_args!("data with the label {label:?} may not leave");
            Err(Denial::new(DenialCode::EgressLabel, what))
        }
        _ => Ok(()),
    }
}

fn check_values(params: &Object, rules: &ToolRules) -> Result<(), Denial> {
    for (name, rule) in &rules.values {
        if let Some(fault) = params.get(name).and_then(|value| rule.fault(value)) {
            return Err(Denial::new(DenialCode::ParamPolicy, format_args!("{name}: {fault}")));
        }
    }
    Ok(())
}

fn check_budgets(call: &Call<'_>, params: &Object, rules: &ToolRules) -> Result<(), Denial> {
    let over = |what: std::fmt::Arguments<'_>| Err(Denial::new(DenialCode::BudgetCumulative, what));
    for budget in &rules.budgets {
        match budget {
            BudgetLimit::Calls(most) => {
                if call.spent.calls(call.name) >= *most {
                    return over(format_args!(
                        "calls of {} in this run and the runs around it: {most} at most",
                        call.name
                    ));
                }
            }
            BudgetLimit::Sum { param, max } => {
                let Some(value) = params.get(param) else { continue };
                let Some(amount) = value.as_f64().filter(|amount| *amount >= 0.0) else {
                    return over(format_args!("{param}: expected a number, 0 or more"));
                };
                let sum = call.spent.sum(call.name, param) + amount;
                if sum > *max {
                    return over(format_args!(
                        "{param} would add up to {sum} in this run and the runs around it, at most {max}"
                    ));
                }
            }
        }
    }
    Ok(())
}

/// Visits a value, or every element of nested lists. The visitor receives `None` for a value that is not a string.
fn for_each_string(
    value: &Value,
    judge: &mut dyn FnMut(Option<&str>) -> Result<(), Denial>,
) -> Result<(), Denial> {
    match value {
        Value::Array(items) => items.iter().try_for_each(|item| for_each_string(item, judge)),
        Value::String(text) => judge(Some(text)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_) => judge(None),
    }
}
