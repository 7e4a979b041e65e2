//! Steps of one evaluation, counted along the value.
//!
//! The upper bound of [`SchemaCost`](super::schema_cost::SchemaCost) takes every text of a value for one that the slowest pattern of
//! the schema reads. Where that is too much, the steps are counted: each subschema is visited with each value that it may be applied
//! to, without matching anything.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::keyword_cost::{BYTES_PER_STEP, Extent, ITEM_COMPARISONS, own_reading, own_steps};
use super::patterns::PatternSizes;
use super::schema_graph::Subschema;

/// The subschemas of a schema, the root first.
#[derive(Debug)]
pub(super) struct Visits(Vec<Visited>);

/// The visits of an evaluation from one subschema.
#[derive(Debug, Default)]
pub(super) struct Visited {
    steps: u64,
    /// Steps for [`BYTES_PER_STEP`] bytes of the value if it is a text, and of the names if it is a map.
    reading: u64,
    reads_names: bool,
    /// Compares the items of a list, with all that is in them.
    is_unique: bool,
    same: Vec<usize>,
    named: BTreeMap<String, usize>,
    /// For members that no other keyword names.
    others: Vec<usize>,
    every_member: Vec<usize>,
    names: Vec<usize>,
    prefix: Vec<usize>,
    rest: Vec<usize>,
    every_item: Vec<usize>,
}

/// A value, or the name of a member.
#[derive(Clone, Copy)]
enum Part<'a> {
    Value(&'a Value),
    Name(&'a str),
}

/// Visits to come.
enum Open<'a> {
    /// These subschemas with one part.
    Each(std::slice::Iter<'a, usize>, Part<'a>),
    Members(&'a Visited, serde_json::map::Iter<'a>),
    /// The members of a map that a subschema names.
    Named(std::collections::btree_map::Iter<'a, String, usize>, &'a Map<String, Value>),
    Items(&'a Visited, std::iter::Enumerate<std::slice::Iter<'a, Value>>),
}

/// Most places where visits are open. Only chains of thousands of references within each other have more.
const OPEN_MAX: usize = 10_000;

/// Most visits that are counted. A value with more visits is large by its number of values, and not by its texts.
const VISITS_MAX: u64 = 5_000_000;

impl Visits {
    /// `None`: a subschema is evaluated again, which is not counted.
    pub(super) fn of(visited: Vec<Option<Visited>>) -> Option<Visits> {
        visited.into_iter().collect::<Option<Vec<Visited>>>().map(Visits)
    }

    /// Steps to evaluate a value; `None` beyond `most`, and beyond [`VISITS_MAX`].
    pub(super) fn steps(&self, value: &Value, most: u64) -> Option<u64> {
        let (mut steps, mut visits, root) = (0_u64, 0, [0]);
        let mut open = vec![Open::Each(root.iter(), Part::Value(value))];
        while let Some(next) = open.last_mut() {
            let visit = match next {
                Open::Each(targets, part) => targets.next().map(|&at| (at, *part)),
                Open::Members(visited, members) => {
                    let (visited, member) = (*visited, members.next());
                    match member {
                        Some((name, member)) => visited.open_member(name, member, &mut open),
                        None => drop(open.pop()),
                    }
                    continue;
                }
                Open::Named(named, map) => {
                    let map = *map;
                    // The steps of `properties` count names that the map does not have.
                    match named.next() {
                        Some((name, to)) => map.get(name).map(|member| (*to, Part::Value(member))),
                        None => {
                            open.pop();
                            continue;
                        }
                    }
                }
                Open::Items(visited, items) => {
                    let (visited, item) = (*visited, items.next());
                    match item {
                        Some((at, item)) => visited.open_item(at, item, &mut open),
                        None => drop(open.pop()),
                    }
                    continue;
                }
            };
            let Some((at, part)) = visit else {
                if matches!(next, Open::Each(..)) {
                    open.pop();
                }
                continue;
            };
            let visited = &self.0[at];
            steps = steps.saturating_add(visited.own(part));
            visits += 1;
            if steps > most || visits > VISITS_MAX || open.len() > OPEN_MAX {
                return None;
            }
            visited.open(part, &mut open);
        }
        Some(steps)
    }
}

impl Visited {
    /// `None`: the subschema evaluates others again.
    pub(super) fn of(subschema: &Subschema<'_>, patterns: &PatternSizes) -> Option<Visited> {
        let schema = subschema.schema;
        let mut visited = Visited { steps: 1, ..Visited::default() };
        for (keyword, value) in schema.as_object().into_iter().flatten() {
            visited.steps = visited.steps.saturating_add(own_steps(keyword, value));
            visited.reading = visited.reading.saturating_add(own_reading(keyword, value, patterns));
            visited.reads_names |= keyword == "patternProperties";
            visited.is_unique |= keyword == "uniqueItems";
        }
        for edge in &subschema.edges {
            let to = edge.to;
            match (edge.keyword, edge.name) {
                (_, _) if edge.is_of_same_value() => visited.same.push(to),
                ("properties", Some(name)) => drop(visited.named.insert(name.to_owned(), to)),
                ("additionalProperties", _) => visited.others.push(to),
                ("patternProperties", _) => visited.every_member.push(to),
                ("propertyNames", _) => visited.names.push(to),
                ("prefixItems", _) => visited.prefix.push(to),
                ("items", _) if schema["items"].is_array() => visited.prefix.push(to),
                ("items" | "additionalItems", _) => visited.rest.push(to),
                ("contains", _) => visited.every_item.push(to),
                ("contentSchema", _) => {}
                _ => return None,
            }
        }
        Some(visited)
    }

    fn own(&self, part: Part<'_>) -> u64 {
        let bytes = match part {
            Part::Value(Value::String(text)) => text.len() as u64,
            Part::Value(Value::Object(map)) if self.reads_names => {
                map.keys().map(|name| name.len() as u64).sum()
            }
            Part::Value(list @ Value::Array(_)) if self.is_unique => {
                let extent = Extent::of(list);
                return self.steps.saturating_add(extent.writing_steps().saturating_mul(ITEM_COMPARISONS));
            }
            Part::Name(name) => name.len() as u64,
            Part::Value(_) => 0,
        };
        self.steps.saturating_add(bytes.saturating_mul(self.reading) / BYTES_PER_STEP)
    }

    /// Opens the visits of the subschemas that apply to the part and to what is in it.
    fn open<'a>(&'a self, part: Part<'a>, open: &mut Vec<Open<'a>>) {
        open.push(Open::Each(self.same.iter(), part));
        match part {
            Part::Value(Value::Object(map)) => {
                // Each member that is walked takes a step at least.
                if [&self.others, &self.every_member, &self.names].iter().any(|leads| !leads.is_empty()) {
                    open.push(Open::Members(self, map.iter()));
                } else if !self.named.is_empty() {
                    open.push(Open::Named(self.named.iter(), map));
                }
            }
            Part::Value(Value::Array(list)) => {
                let is_whole = [&self.rest, &self.every_item].iter().any(|leads| !leads.is_empty());
                let reached = if is_whole { list.len() } else { self.prefix.len().min(list.len()) };
                open.push(Open::Items(self, list[..reached].iter().enumerate()));
            }
            Part::Value(_) | Part::Name(_) => {}
        }
    }

    fn open_member<'a>(&'a self, name: &'a str, member: &'a Value, open: &mut Vec<Open<'a>>) {
        let by_name = self.named.get(name).map_or(self.others.as_slice(), std::slice::from_ref);
        for (targets, part) in [
            (by_name, Part::Value(member)),
            (&self.every_member, Part::Value(member)),
            (&self.names, Part::Name(name)),
        ] {
            if !targets.is_empty() {
                open.push(Open::Each(targets.iter(), part));
            }
        }
    }

    fn open_item<'a>(&'a self, at: usize, item: &'a Value, open: &mut Vec<Open<'a>>) {
        let by_place = self.prefix.get(at).map_or(self.rest.as_slice(), std::slice::from_ref);
        for targets in [by_place, &self.every_item] {
            open.push(Open::Each(targets.iter(), Part::Value(item)));
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::schema_graph::schema_graph;
    use super::*;

    fn steps(schema: &Value, value: &Value, most: u64) -> Option<u64> {
        let patterns = PatternSizes::of_schema(schema);
        let visited = schema_graph(schema, |subschema| Visited::of(subschema, &patterns)).unwrap();
        Visits::of(visited).and_then(|visits| visits.steps(value, most))
    }

    #[test]
    fn each_text_takes_the_steps_of_its_own_pattern() {
        let name = json!({"pattern": "^[a-z]+$"});
        let text = "x".repeat(1_000);
        for (schema, value, expected) in [
            (json!({"properties": {"id": name}}), json!({"id": "abc", "body": text}), 1 + 1 + 4 * 3),
            (json!({"properties": {"id": name}}), json!({"id": text, "body": "abc"}), 1 + 1 + 4 * 1_000),
            (json!({"properties": {"id": name, "no": {}}}), json!({"body": text}), 1),
            (json!({"properties": {"a": {}, "c": {}}}), json!({"a": 1, "b": 2, "c": 3}), 1 + 2),
            (json!({"prefixItems": [{}, {}]}), json!([1, 2, 3, 4]), 1 + 2),
            (json!({"prefixItems": [{}, {}]}), json!([1]), 1 + 1),
            (json!({"additionalProperties": name}), json!({"id": text}), 1 + 1 + 4 * 1_000),
            (json!({"properties": {"id": {}}, "additionalProperties": name}), json!({"id": text}), 2),
            (json!({"allOf": [name, name], "not": name}), json!("abcd"), 1 + 3 * (1 + 4 * 4)),
            (json!({"items": {"maxLength": 9}}), json!([text, 1]), 1 + 2 + 1_000 / 64),
            (json!({"prefixItems": [{}, name], "items": {}}), json!([text, "ab", text]), 1 + 3 + 4 * 2),
            (json!({"contains": name}), json!(["ab", "cd"]), 1 + 2 * (1 + 4 * 2)),
            (json!({"patternProperties": {"^[a-z]+$": {}}}), json!({"abcd": text}), 1 + 4 * 4 + 1),
            (json!({"propertyNames": name}), json!({"abcd": text}), 1 + 1 + 4 * 4),
            (json!({"uniqueItems": true}), json!([1, 2]), 1 + 8 + 8 * 3),
            (
                json!({"$defs": {"t": {"properties": {"in": {"$ref": "#/$defs/t"}}}}, "$ref": "#/$defs/t"}),
                json!({"in": {"in": {}}}),
                1 + 1 + 2 * 2,
            ),
        ] {
            assert_eq!(steps(&schema, &value, u64::MAX), Some(expected), "{schema}");
            assert_eq!(steps(&schema, &value, expected), Some(expected), "{schema}");
            assert_eq!(steps(&schema, &value, expected - 1), None, "{schema}");
        }
        assert_eq!(steps(&json!({"unevaluatedProperties": name}), &json!({}), u64::MAX), None);
    }
}
