//! Guards: conditions over results of earlier nodes, judged before a node starts.

use std::cmp::Ordering;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Number, Value};

use super::diagnostic::{Diagnostic, DiagnosticCode};
use super::draft::given;
use super::pointer::Pointer;
use crate::id::NodeId;
use crate::template::project;

/// A condition on the result of an earlier node. The `when` of a node holds if all of its guards hold.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Guard {
    /// A node id, or `$winner` in an `any_of` node.
    pub from: NodeId,
    /// Dot path into the result.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// The comparison.
    pub op: Op,
    /// The value to compare with; `None` for `exists`.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "given")]
    pub value: Option<Value>,
}

/// Comparison of a guard.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[allow(missing_docs)] // the variants are the words of the plan format
pub enum Op {
    Eq,
    Ne,
    Lt,
    Le,
    Gt,
    Ge,
    In,
    Contains,
    Exists,
}

impl Op {
    const ALL: [(Op, &'static str); 9] = [
        (Op::Eq, "eq"),
        (Op::Ne, "ne"),
        (Op::Lt, "lt"),
        (Op::Le, "le"),
        (Op::Gt, "gt"),
        (Op::Ge, "ge"),
        (Op::In, "in"),
        (Op::Contains, "contains"),
        (Op::Exists, "exists"),
    ];

    fn named(word: &str) -> Option<Op> {
        Op::ALL.iter().find(|(_, name)| *name == word).map(|(op, _)| *op)
    }

    /// The word used in plan files.
    pub fn as_str(self) -> &'static str {
        Op::ALL.iter().find(|(op, _)| *op == self).map_or("", |(_, name)| name)
    }
}

impl Guard {
    /// Judges the guard over the result of its source.
    ///
    /// # Errors
    ///
    /// The guard cannot be judged: the path is absent, or the value has another type. Treating such a guard as false would
    /// silently skip work over a misspelt path.
    ///
    /// ```
    /// use ostler_kernel::plan::Guard;
    /// use serde_json::{from_value, json};
    ///
    /// let guard: Guard = from_value(json!({"from": "scan", "path": "level", "op": "in", "value": ["high", "critical"]})).unwrap();
    /// assert_eq!(guard.holds(&json!({"level": "high"})), Ok(true));
    /// assert!(guard.holds(&json!({"Level": "high"})).unwrap_err().contains("no field \"level\""));
    /// ```
    pub fn holds(&self, result: &Value) -> Result<bool, String> {
        let path = self.path.as_deref().unwrap_or_default();
        let found = project(result, path);
        let value = self.value.as_ref().unwrap_or(&Value::Null);
        if self.op == Op::Exists {
            return Ok(found.is_some() == (*value != Value::Bool(false)));
        }
        let Some(found) = found else {
            return Err(format!("the result of {} has no field {path:?}", self.from));
        };
        let other_type = || {
            let op = self.op.as_str();
            Err(format!(
                "{path} of {} is {}, which `{op}` cannot compare with {}",
                self.from,
                kind(found),
                kind(value)
            ))
        };
        let ordered = |holds: fn(Ordering) -> bool| {
            order(found, value).map_or_else(other_type, |order| Ok(holds(order)))
        };
        match self.op {
            Op::Eq => Ok(equal(found, value)),
            Op::Ne => Ok(!equal(found, value)),
            Op::Lt => ordered(Ordering::is_lt),
            Op::Le => ordered(Ordering::is_le),
            Op::Gt => ordered(Ordering::is_gt),
            Op::Ge => ordered(Ordering::is_ge),
            Op::In => Ok(value.as_array().is_some_and(|list| list.iter().any(|item| equal(item, found)))),
            Op::Contains => match (found, value) {
                (Value::Array(items), _) => Ok(items.iter().any(|item| equal(item, value))),
                (Value::String(text), Value::String(part)) => Ok(text.contains(part.as_str())),
                (Value::Object(members), Value::String(key)) => Ok(members.contains_key(key)),
                _ => other_type(),
            },
            Op::Exists => Ok(true),
        }
    }
}

impl Guard {
    /// What the guard needs in place of a value of the JSON type `found`, with which it can never be judged.
    pub(super) fn unfit(&self, found: &str) -> Option<&'static str> {
        let is_text = self.value.as_ref().is_some_and(Value::is_string);
        match self.op {
            Op::Lt | Op::Le | Op::Gt | Op::Ge if is_text => (found != "string").then_some("a text"),
            Op::Lt | Op::Le | Op::Gt | Op::Ge => {
                (!matches!(found, "number" | "integer")).then_some("a number")
            }
            Op::Contains => match found {
                "array" => None,
                "string" | "object" => (!is_text).then_some("a list, or a text as `value`"),
                _ => Some("a list, a text or an object"),
            },
            Op::Eq | Op::Ne | Op::In | Op::Exists => None,
        }
    }
}

fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a text",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}

/// Order of two numbers, or of two texts by code point.
fn order(a: &Value, b: &Value) -> Option<Ordering> {
    match (a, b) {
        (Value::Number(a), Value::Number(b)) => compare(a, b),
        (Value::String(a), Value::String(b)) => Some(a.cmp(b)),
        _ => None,
    }
}

fn compare(a: &Number, b: &Number) -> Option<Ordering> {
    if let (Some(a), Some(b)) = (a.as_i64(), b.as_i64()) {
        return Some(a.cmp(&b));
    }
    a.as_f64()?.partial_cmp(&b.as_f64()?)
}

/// Equality as JSON: numbers by value, members of objects in any order.
fn equal(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Number(a), Value::Number(b)) => compare(a, b) == Some(Ordering::Equal),
        (Value::Array(a), Value::Array(b)) => a.len() == b.len() && a.iter().zip(b).all(|(a, b)| equal(a, b)),
        (Value::Object(a), Value::Object(b)) => {
            a.len() == b.len() && a.iter().all(|(key, a)| b.get(key).is_some_and(|b| equal(a, b)))
        }
        _ => a == b,
    }
}

/// Guards in a `when`.
pub const GUARDS_MAX: usize = 64;

/// Parses the `when` of a node: a guard, or a list of guards. Malformed input is a V27; a guard with a source is kept, so
/// its source and path are checked too.
pub(crate) fn read(
    node: &NodeId,
    written: &Value,
    place: &dyn Fn() -> Pointer,
    faults: &mut Vec<Diagnostic>,
) -> Vec<Guard> {
    let mut fault = |detail: String, place: Pointer| {
        let help = "write guards as {from: NODE, path: PATH, op: OP, value: VALUE}, with an op of eq, ne, lt, le, gt, ge, in, \
                    contains or exists";
        faults.push(Diagnostic::new(DiagnosticCode::V27, node, detail, help).at(&place));
    };
    let (list, is_list) = match written {
        Value::Array(list) => (list.as_slice(), true),
        one => (std::slice::from_ref(one), false),
    };
    if list.is_empty() || list.len() > GUARDS_MAX {
        let detail = format!("`when` lists {} guards, expected 1 to {GUARDS_MAX}", list.len());
        fault(detail, place());
        return Vec::new();
    }
    let mut guards = Vec::with_capacity(list.len());
    for (at, guard) in list.iter().enumerate() {
        let place = if is_list { place().item(at) } else { place() };
        let Some((members, from)) =
            guard.as_object().and_then(|guard| Some((guard, guard.get("from")?.as_str()?)))
        else {
            fault(format!("guard {}: no map with a `from`", at + 1), place);
            continue;
        };
        let (op, wrong) = op_and_value(members);
        for what in wrong {
            fault(format!("guard {}: {what}", at + 1), place.clone());
        }
        let path = members.get("path").and_then(Value::as_str).map(str::to_owned);
        let value = members.get("value").cloned();
        guards.push(Guard { from: from.into(), path, op: op.unwrap_or(Op::Exists), value });
    }
    guards
}

fn op_and_value(members: &Map<String, Value>) -> (Option<Op>, Vec<String>) {
    let mut wrong: Vec<String> = members
        .keys()
        .filter(|key| !["from", "path", "op", "value"].contains(&key.as_str()))
        .map(|key| format!("unknown field `{key}`"))
        .collect();
    let op = members.get("op").and_then(Value::as_str).and_then(Op::named);
    let value = members.get("value");
    let needs = match (op, value) {
        (None, _) => Some("no `op`, or an unknown one"),
        (Some(Op::Eq | Op::Ne | Op::Contains), None) => Some("no `value`"),
        (Some(Op::Eq | Op::Ne | Op::Contains), Some(_)) => None,
        (Some(Op::In), value) => (!value.is_some_and(Value::is_array)).then_some("`value` of in is a list"),
        (Some(Op::Lt | Op::Le | Op::Gt | Op::Ge), value) => {
            let fits = value.is_some_and(|value| value.is_number() || value.is_string());
            (!fits).then_some("`value` of lt, le, gt and ge is a number or a text")
        }
        (Some(Op::Exists), value) => (!value.is_none_or(Value::is_boolean))
            .then_some("`value` of exists is true or false, or left out"),
    };
    wrong.extend(needs.map(str::to_owned));
    (op, wrong)
}
