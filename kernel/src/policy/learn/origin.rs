//! Where the literals of steps come from: results that were read before, or the words of the goal.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::{GOAL, word};
use crate::id::NodeId;
use crate::policy::ReadResult;

/// Values of results that are compared for one plan. Beyond it, literals stay literals.
const VALUES_COMPARED_MAX: usize = 1_000_000;

/// Shortest text that can come from a result or a goal: shorter ones occur by chance.
const TEXT_CHARS_MIN: usize = 3;

/// The results of a run, as places that literals may come from.
pub(super) struct Results<'a> {
    read: &'a ReadResult<'a>,
    values: BTreeMap<NodeId, Value>,
    compared: usize,
}

impl<'a> Results<'a> {
    pub(super) fn new(read: &'a ReadResult<'a>) -> Results<'a> {
        Results { read, values: BTreeMap::new(), compared: 0 }
    }

    /// The only place among the results of `nodes` with this value; `None` if there is no place or several, if the value says too
    /// little, or if the goal says it too.
    pub(super) fn origin_of(
        &mut self,
        value: &Value,
        nodes: &BTreeSet<NodeId>,
        goal: &str,
    ) -> Option<(NodeId, String)> {
        let is_telling = match value {
            Value::String(text) => text.chars().count() >= TEXT_CHARS_MIN && !says(goal, text),
            Value::Array(items) => !items.is_empty(),
            Value::Object(fields) => !fields.is_empty(),
            Value::Null | Value::Bool(_) | Value::Number(_) => false,
        };
        let mut found = None;
        for node in nodes.iter().filter(|_| is_telling) {
            let read = self.read;
            let result = self.values.entry(node.clone()).or_insert_with(|| read(node).value());
            let mut places = Vec::new();
            look(result, value, &mut String::new(), &mut places, &mut self.compared);
            if self.compared > VALUES_COMPARED_MAX || places.len() > 1 {
                return None;
            }
            for path in places {
                if found.replace((node.clone(), path)).is_some() {
                    return None;
                }
            }
        }
        found
    }
}

/// Adds the paths to all equal values below `within`.
fn look(within: &Value, wanted: &Value, path: &mut String, places: &mut Vec<String>, compared: &mut usize) {
    *compared += 1;
    if *compared > VALUES_COMPARED_MAX {
        return;
    }
    if !path.is_empty() && within == wanted {
        places.push(path.clone());
        return;
    }
    let mut below = |key: &str, value: &Value| {
        let before = path.len();
        path.push_str(if before == 0 { "" } else { "." });
        path.push_str(key);
        look(value, wanted, path, places, compared);
        path.truncate(before);
    };
    match within {
        Value::Array(items) => items.iter().enumerate().for_each(|(at, item)| below(&at.to_string(), item)),
        Value::Object(fields) => {
            // A path cannot name any other key.
            let is_step =
                |key: &str| !key.is_empty() && !key.contains('.') && !key.bytes().all(|c| c.is_ascii_digit());
            fields.iter().filter(|(key, _)| is_step(key)).for_each(|(key, value)| below(key, value));
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// True if the goal has the text as words of its own.
fn says(goal: &str, text: &str) -> bool {
    let is_edge =
        |c: Option<char>| c.is_none_or(|c| c.is_whitespace() || "\"'`()[]{}<>,;:!?«»“”‘’".contains(c));
    goal.match_indices(text).any(|(at, _)| {
        let after = &goal[at + text.len()..];
        // A full stop ends a sentence, or stands within a name.
        let is_end = is_edge(after.chars().next())
            || after
                .strip_prefix('.')
                .is_some_and(|rest| rest.chars().next().is_none_or(char::is_whitespace));
        is_end && is_edge(goal[..at].chars().next_back())
    })
}

/// The parameters of a plan: texts of steps that the goal says, named after the key at which they stand.
pub(super) fn parameters(goal: &str, plan: &Value) -> BTreeMap<String, String> {
    let mut params: BTreeMap<String, String> = BTreeMap::new();
    let nodes = plan["nodes"].as_array().into_iter().flatten();
    for params_of_node in nodes.map(|node| &node["params"]) {
        each_text(params_of_node, "value", &mut |key, text| {
            let is_new = !params.values().any(|known| known == text);
            if text.chars().count() >= TEXT_CHARS_MIN && is_new && says(goal, text) {
                let base = word(key).to_lowercase();
                let numbered = (2..).map(|number: u32| format!("{base}_{number}"));
                let mut names = std::iter::once(base.clone()).chain(numbered);
                let name = names.find(|name| name != GOAL && !params.contains_key(name));
                params.extend(name.map(|name| (name, text.to_owned())));
            }
        });
    }
    params
}

fn each_text(value: &Value, key: &str, see: &mut impl FnMut(&str, &str)) {
    match value {
        Value::String(text) => see(key, text),
        Value::Array(items) => items.iter().for_each(|item| each_text(item, key, see)),
        Value::Object(fields) => fields.iter().for_each(|(key, value)| each_text(value, key, see)),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// Puts `${NAME}` in place of the parameters' values in the steps, and escapes all other texts.
pub(super) fn substitute(plan: &mut Value, params: &BTreeMap<String, String>) {
    for node in plan["nodes"].as_array_mut().into_iter().flatten() {
        if let Some(params_of_node) = node.get_mut("params") {
            each_text_mut(
                params_of_node,
                &mut |text| match params.iter().find(|(_, value)| *value == text) {
                    Some((name, _)) => *text = format!("${{{name}}}"),
                    None => *text = escaped(text),
                },
            );
        }
        for (_, field) in node.as_object_mut().into_iter().flatten().filter(|(key, _)| *key != "params") {
            each_text_mut(field, &mut |text| *text = escaped(text));
        }
    }
    if let Some(Value::String(title)) = plan.get_mut("title") {
        *title = escaped(title);
    }
}

fn each_text_mut(value: &mut Value, change: &mut impl FnMut(&mut String)) {
    match value {
        Value::String(text) => change(text),
        Value::Array(items) => items.iter_mut().for_each(|item| each_text_mut(item, change)),
        Value::Object(fields) => fields.values_mut().for_each(|value| each_text_mut(value, change)),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

fn escaped(text: &str) -> String {
    text.replace("${", "$${")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json;
    use serde_json::json;

    #[test]
    fn a_goal_says_whole_words() {
        let goal = "Sum up notes/today.md and 'my file', in docs.";
        for (text, expected) in [
            ("notes/today.md", true),
            ("my file", true),
            ("docs", true),
            ("Sum up", true),
            ("notes", false),
            ("today.md", false),
            ("file", true),
            ("doc", false),
        ] {
            assert_eq!(says(goal, text), expected, "{text}");
        }
    }

    #[track_caller]
    fn check_origin(value: Value, expected: Option<(&str, &str)>) {
        let of = |node: &NodeId| match node.as_str() {
            "list" => json!({"files": ["a.md", "b.md"], "count": 2, "odd.key": "hidden", "7": "hidden too"}),
            _ => json!({"path": "b.md", "text": "said by the goal", "same": ["twice", "twice"]}),
        };
        let read = |node: &NodeId| json::canonical(&of(node)).unwrap();
        let nodes = BTreeSet::from(["list".into(), "read".into()]);
        let found = Results::new(&read).origin_of(&value, &nodes, "do what is 'said by the goal'");
        let found = found.as_ref().map(|(node, path)| (node.as_str(), path.as_str()));
        assert_eq!(found, expected, "{value}");
    }

    #[test]
    fn a_literal_has_an_origin_if_exactly_one_result_has_it() {
        check_origin(json!("a.md"), Some(("list", "files.0")));
        check_origin(json!(["a.md", "b.md"]), Some(("list", "files")));
        // In two results, twice in one, in none, in the goal too, of no weight, behind a key without a path.
        for value in [
            json!("b.md"),
            json!("twice"),
            json!("c.md"),
            json!("said by the goal"),
            json!(2),
            json!("hidden"),
            json!("hidden too"),
        ] {
            check_origin(value, None);
        }
    }

    #[test]
    fn equal_texts_are_one_parameter_and_others_are_escaped() {
        let mut plan = json!({"title": "costs ${x}", "nodes": [
            {"id": "a", "params": {"path": "notes", "argv": ["cat", "notes"]}},
            {"id": "b", "params": {"path": "docs", "text": "not ${set}"}}]});
        let params = parameters("move notes to docs", &plan);
        let named: Vec<(&str, &str)> =
            params.iter().map(|(name, text)| (name.as_str(), text.as_str())).collect();
        // Keys are read in their order.
        assert_eq!(named, [("argv", "notes"), ("path", "docs")]);
        substitute(&mut plan, &params);
        let expected = json!({"title": "costs $${x}", "nodes": [
            {"id": "a", "params": {"path": "${argv}", "argv": ["cat", "${argv}"]}},
            {"id": "b", "params": {"path": "${path}", "text": "not $${set}"}}]});
        assert_eq!(plan, expected);
    }
}
