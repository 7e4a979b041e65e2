//! The closed schemas of answers: every field is required, none is unknown (fault F02).

use std::collections::BTreeSet;

use serde_json::Value;

use super::Role;

/// Form of a field.
enum Shape {
    Text,
    TextOrNull,
    Object,
    ObjectOrNull,
    OneOf(&'static [&'static str]),
    Texts,
    Items(Fields),
    ItemsOrNull(Fields),
}

type Fields = &'static [(&'static str, Shape)];

const PLANNER: Fields =
    &[("answer", Shape::TextOrNull), ("missing", Shape::TextOrNull), ("steps", Shape::Items(STEP))];

const STEP: Fields = &[
    ("id", Shape::Text),
    ("tool", Shape::Text),
    ("params", Shape::Object),
    ("refs", Shape::Items(REFERENCE)),
    ("after", Shape::Texts),
    ("why", Shape::TextOrNull),
];

const REFERENCE: Fields =
    &[("param", Shape::Text), ("from", Shape::Text), ("path", Shape::Text), ("template", Shape::TextOrNull)];

const REFLECT: Fields = &[
    ("decision", Shape::OneOf(&["continue", "conclude", "replan"])),
    ("verdict", Shape::TextOrNull),
    ("next", Shape::TextOrNull),
    ("cancel", Shape::Texts),
];

const OBSERVE: Fields = &[
    ("decision", Shape::OneOf(&["continue", "inject", "cancel", "reflect"])),
    ("next", Shape::TextOrNull),
    ("cancel", Shape::Texts),
];

const MICRO: Fields = &[
    ("decision", Shape::OneOf(&["retry", "substitute", "skip"])),
    ("tool", Shape::TextOrNull),
    ("params", Shape::ObjectOrNull),
    ("refs", Shape::ItemsOrNull(REFERENCE)),
];

const THINK: Fields = &[("text", Shape::TextOrNull), ("calls", Shape::Items(CALL))];

const CALL: Fields = &[("tool", Shape::Text), ("params", Shape::Object)];

const ANSWER: Fields = &[("answer", Shape::Text), ("citations", Shape::Texts)];

/// Name of an answer as a whole in faults.
pub(super) const WHOLE: &str = "*";

/// Paths of all fields that violate the schema of a role's answer, such as `steps.0.tool`.
pub(super) fn violations(role: Role, answer: &Value) -> BTreeSet<String> {
    let fields = match role {
        Role::Planner => PLANNER,
        Role::Reflect | Role::Interject => REFLECT,
        Role::Observe => OBSERVE,
        Role::Micro => MICRO,
        Role::Think => THINK,
        Role::Answer => ANSWER,
    };
    let mut found = BTreeSet::new();
    check_object(fields, answer, "", &mut found);
    found
}

fn check_object(fields: Fields, value: &Value, path: &str, found: &mut BTreeSet<String>) {
    let Value::Object(members) = value else {
        found.insert(if path.is_empty() { WHOLE.to_owned() } else { path.to_owned() });
        return;
    };
    let place = |name: &str| if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") };
    for (name, shape) in fields {
        match members.get(*name) {
            Some(value) => check(shape, value, &place(name), found),
            None => drop(found.insert(place(name))),
        }
    }
    let is_known = |name: &str| fields.iter().any(|(known, _)| *known == name);
    found.extend(members.keys().filter(|name| !is_known(name)).map(|name| place(name)));
}

fn check(shape: &Shape, value: &Value, path: &str, found: &mut BTreeSet<String>) {
    let fits = match (shape, value) {
        (Shape::TextOrNull | Shape::ObjectOrNull | Shape::ItemsOrNull(_), Value::Null) => true,
        (Shape::Text | Shape::TextOrNull, value) => value.is_string(),
        (Shape::Object | Shape::ObjectOrNull, value) => value.is_object(),
        (Shape::OneOf(words), value) => value.as_str().is_some_and(|word| words.contains(&word)),
        (Shape::Texts, Value::Array(items)) => {
            let wrong = items.iter().enumerate().filter(|(_, item)| !item.is_string());
            found.extend(wrong.map(|(at, _)| format!("{path}.{at}")));
            true
        }
        (Shape::Items(fields) | Shape::ItemsOrNull(fields), Value::Array(items)) => {
            for (at, item) in items.iter().enumerate() {
                check_object(fields, item, &format!("{path}.{at}"), found);
            }
            true
        }
        (Shape::Texts | Shape::Items(_) | Shape::ItemsOrNull(_), _) => false,
    };
    if !fits {
        found.insert(path.to_owned());
    }
}
