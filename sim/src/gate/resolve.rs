//! Resolves the parameters of a call of a case.

use ostler_kernel::gate::{Denial, DenialCode, GatePolicy, screen};
use ostler_kernel::json::{Object, parse_value};
use ostler_kernel::template::{RENDER_BYTES_MAX, fill, project};
use serde_json::{Map, Value};

use super::case::CallScript;
use super::world::World;

/// The resolved parameters, and the literal ones among them.
pub(super) fn resolve(
    world: &World,
    call: &CallScript,
    policy: &GatePolicy,
) -> Result<(Object, Map<String, Value>), Denial> {
    let schema = |what: String| Denial::new(DenialCode::ParamSchema, what);
    let literal = match &call.raw_params {
        None => call.params.clone(),
        Some(raw) => {
            let text = raw.text();
            if text.len() > policy.limits.max_bytes {
                return Err(schema(format!("the text has {} bytes", text.len())));
            }
            match parse_value(&text).map_err(|error| schema(error.to_string()))? {
                Value::Object(members) => members,
                _ => return Err(schema("expected an object".to_owned())),
            }
        }
    };
    screen(&literal, call.param_refs.keys().map(String::as_str), policy)?;
    if let Some(field) = call.extra.keys().next() {
        return Err(Denial::new(DenialCode::PlanFieldForbidden, format!("a step has no field {field:?}")));
    }
    for from in call.param_refs.values().map(|reference| &reference.from) {
        let node = world.nodes.get(from).filter(|_| call.deps.contains(from));
        if node.is_none_or(|node| (&node.run, &node.tenant) != (&call.run, &call.tenant)) {
            return Err(Denial::new(DenialCode::RefForeign, format!("{from:?} is no dependency")));
        }
    }
    let mut params = literal.clone();
    for (name, reference) in &call.param_refs {
        let output = world.nodes.get(&reference.from).and_then(|node| node.output.as_ref());
        let path = reference.path.as_deref().unwrap_or_default();
        let found = output.and_then(|output| project(output, path));
        let found = found.ok_or_else(|| schema(format!("{name}: {:?} has no such field", reference.from)))?;
        let value = match &reference.template {
            Some(text) => {
                let filled = fill(text, found, RENDER_BYTES_MAX);
                Value::String(filled.map_err(|error| schema(error.to_string()))?)
            }
            None => found.clone(),
        };
        if params.insert(name.clone(), value).is_some() {
            return Err(schema(format!("{name} is given twice")));
        }
    }
    Ok((params.into(), literal))
}
