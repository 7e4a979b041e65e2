//! What a template takes and never gets (W07): what no result of a dependency has, and what values that stand in the
//! plan do not have.

use serde_json::Value;

use super::super::dead_end::{contract_schemas, dead_end};
use super::super::nearest::Hints;
use super::super::pointer::Origin;
use super::super::{Kind, Node, Plan, RENDER_TOOL};
use super::{Advice, AdviceCode};
use crate::id::NodeId;
use crate::template::{RenderError, check_paths, render};

/// Names that are told of those that there are.
const NAMES_TOLD_MAX: usize = 12;

/// Templates of a plan that are filled in to see whether they come to what is not there.
const RENDERS_MAX: usize = 100;

pub(super) fn judge(
    plan: &Plan,
    at: usize,
    hints: &Hints,
    renders: &mut usize,
    origin: &Origin,
) -> Option<Advice> {
    let node = &plan.nodes[at];
    let template = literal(node, "template")?.as_str()?;
    let (line, path, mend) = match (node.kind, node.tool.as_deref()) {
        (Kind::Aggregator, _) => {
            let otherwise = "leave the last step out: what stands there has no parts with names";
            judge_by(template, hints, otherwise, &|path| of_fates(plan, path))?
        }
        (Kind::Tool, Some(RENDER_TOOL)) => {
            let values = literal(node, "values").filter(|values| values.is_object())?;
            let lack = judge_by(template, hints, "add it to params.values", &|path| of_values(values, path))?;
            *renders += 1;
            // What no tag comes to is not missed.
            let is_filled = || values.as_object().is_some_and(|values| render(template, values).is_ok());
            if *renders <= RENDERS_MAX && is_filled() {
                return None;
            }
            lack
        }
        _ => return None,
    };
    Some(Advice {
        code: AdviceCode::W07,
        node: node.id.to_string(),
        pointer: origin.node(at).key("params").key("template").as_str().to_owned(),
        detail: format!("params.template, line {line}: {path} is never there"),
        mend,
    })
}

/// A parameter that is known before the run.
fn literal<'n>(node: &'n Node, name: &str) -> Option<&'n Value> {
    node.params.get(name).filter(|_| !node.param_refs.contains_key(name))
}

/// A step of a path that leads to nothing, and the names that there are instead, if they are known.
struct Lack<'a> {
    step: String,
    known: Vec<&'a str>,
}

/// The first path of a template that leads to nothing: its line, how it is written, and what would mend it. `otherwise`
/// mends it where there are no names.
fn judge_by<'a>(
    template: &str,
    hints: &Hints,
    otherwise: &str,
    lack: &dyn Fn(&str) -> Option<Lack<'a>>,
) -> Option<(usize, String, String)> {
    let Err(RenderError::Undefined { line, name: path }) =
        check_paths(template, &|path| lack(path).is_none())
    else {
        return None;
    };
    let there = |lack: &Lack<'_>| {
        let told: Vec<&str> = lack.known.iter().take(NAMES_TOLD_MAX).copied().collect();
        let otherwise = match told.as_slice() {
            [] => otherwise.to_owned(),
            told => format!("there are {}", told.join(", ")),
        };
        hints.mend(&lack.step, lack.known.iter().copied(), &otherwise)
    };
    let mend = lack(&path).as_ref().map_or_else(|| otherwise.to_owned(), there);
    Some((line, path, mend))
}

/// An aggregator sees of each of its dependencies the `state` and, once it is executed, the `result`.
fn of_fates<'p>(plan: &'p Plan, path: &str) -> Option<Lack<'p>> {
    let mut steps = path.split('.');
    let source = plan.node(&NodeId::from(steps.next()?))?;
    let step = steps.next()?;
    let rest: Vec<&str> = steps.collect();
    match step {
        "state" => rest.first().map(|step| Lack { step: (*step).to_owned(), known: Vec::new() }),
        // What a fallback gives, its own contract says.
        "result" if source.fallback.is_some() => None,
        "result" => {
            let end = contract_schemas(source).find_map(|schema| dead_end(schema, rest.iter().copied()))?;
            Some(Lack { step: end.segment, known: end.known })
        }
        _ => Some(Lack { step: step.to_owned(), known: vec!["state", "result"] }),
    }
}

/// The first step that leads to nothing in these values.
fn of_values<'v>(values: &'v Value, path: &str) -> Option<Lack<'v>> {
    let mut value = values;
    for step in path.split('.') {
        let Some(inner) = value.get(step) else {
            let named = value.as_object();
            let known = named.into_iter().flat_map(|named| named.keys()).map(String::as_str).collect();
            return Some(Lack { step: step.to_owned(), known });
        };
        value = inner;
    }
    None
}
