//! The closed schemas of answers: every field is required, none is unknown (fault F02).

use std::collections::BTreeSet;

use serde_json::Value;

use super::{Role, conditions};

/// Form of a field.
enum Shape {
    Text,
    TextOrNull,
    /// Text, null or absent: not every request asks for it.
    MaybeText,
    Object,
    ObjectOrNull,
    OneOf(&'static [&'static str]),
    Texts,
    Items(Fields),
    ItemsOrNull(Fields),
    /// Guards, null or absent.
    Guards,
    /// A list to repeat a step over, null or absent.
    List,
}

type Fields = &'static [(&'static str, Shape)];

const PLANNER: Fields = &[
    ("answer", Shape::TextOrNull),
    ("missing", Shape::TextOrNull),
    ("search", Shape::MaybeText),
    ("steps", Shape::Items(STEP)),
];

const STEP: Fields = &[
    ("id", Shape::Text),
    ("tool", Shape::Text),
    ("params", Shape::Object),
    ("refs", Shape::Items(REFERENCE)),
    ("after", Shape::Texts),
    ("why", Shape::TextOrNull),
    ("when", Shape::Guards),
    ("for_each", Shape::List),
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
            None if matches!(shape, Shape::Guards | Shape::List | Shape::MaybeText) => {}
            None => drop(found.insert(place(name))),
        }
    }
    let is_known = |name: &str| fields.iter().any(|(known, _)| *known == name);
    found.extend(members.keys().filter(|name| !is_known(name)).map(|name| place(name)));
}

fn check(shape: &Shape, value: &Value, path: &str, found: &mut BTreeSet<String>) {
    let fits = match (shape, value) {
        (Shape::TextOrNull | Shape::MaybeText | Shape::ObjectOrNull | Shape::ItemsOrNull(_), Value::Null) => {
            true
        }
        (Shape::Text | Shape::TextOrNull | Shape::MaybeText, value) => value.is_string(),
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
        (Shape::Guards, value) => conditions::guards(value).is_some(),
        (Shape::List, value) => conditions::list(value).is_some(),
        (Shape::Texts | Shape::Items(_) | Shape::ItemsOrNull(_), _) => false,
    };
    if !fits {
        found.insert(path.to_owned());
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn check(role: Role, answer: Value, expected: &[&str]) {
        let found: Vec<String> = violations(role, &answer).into_iter().collect();
        assert_eq!(found, expected, "{role:?} {answer}");
    }

    #[test]
    fn every_field_is_required_and_none_is_unknown() {
        let step = json!({"id": "a", "tool": "t", "params": {}, "refs": [], "after": [], "why": null});
        check(Role::Planner, json!({"answer": null, "missing": null, "steps": [step]}), &[]);
        check(
            Role::Planner,
            json!({"answer": 1, "steps": [{"id": "a"}], "intent": 2}),
            &[
                "answer",
                "intent",
                "missing",
                "steps.0.after",
                "steps.0.params",
                "steps.0.refs",
                "steps.0.tool",
                "steps.0.why",
            ],
        );
        let refs = json!([{"param": "x", "from": "a", "path": null, "template": null}]);
        check(
            Role::Micro,
            json!({"decision": "retry", "tool": null, "params": null, "refs": refs}),
            &["refs.0.path"],
        );
        check(Role::Think, json!({"text": "", "calls": [{"tool": "t", "params": []}]}), &["calls.0.params"]);
        check(Role::Answer, json!({"answer": "A", "citations": ["a", 1]}), &["citations.1"]);
        check(
            Role::Reflect,
            json!({"decision": "stop", "verdict": null, "next": null, "cancel": []}),
            &["decision"],
        );
        check(Role::Observe, json!("text"), &[WHOLE]);
        check(Role::Observe, json!({"decision": "cancel", "next": null, "cancel": "b"}), &["cancel"]);
    }
}
