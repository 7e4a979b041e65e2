//! The part of the values that a template reads.

use std::collections::BTreeSet;

use minijinja::Environment;
use serde_json::{Map, Value};

use super::environment::ENVIRONMENT;
use super::render::compiled;
use super::{bounds, names};

/// The part of `values` that the template reads. Rendering over the part gives the same text as over the whole.
///
/// A path of names such as `a.result.count` keeps that member alone. A value that the template uses in any other way, and a value
/// whose name the template binds anew, is kept as a whole; so is everything if the template does not compile.
///
/// ```
/// use ostler_kernel::template::read_part;
/// let values = serde_json::json!({"a": {"result": {"count": 3, "text": "long"}}, "b": {}});
/// let part = read_part("{{ a.result.count }} files", values.as_object().unwrap());
/// assert_eq!(serde_json::json!(part), serde_json::json!({"a": {"result": {"count": 3}}}));
/// ```
pub fn read_part(template: &str, values: &Map<String, Value>) -> Map<String, Value> {
    let Some(paths) = read_paths(template) else { return values.clone() };
    let mut paths: Vec<Vec<&str>> = paths.iter().filter_map(|path| existing(values, path)).collect();
    paths.sort_unstable(); // a path comes directly before its continuations
    paths.dedup_by(|longer, kept| longer.starts_with(kept));
    let mut part = Map::new();
    paths.iter().for_each(|path| copy(values, path, &mut part));
    part
}

/// Paths that the template reads; `None` if it does not compile.
fn read_paths(template: &str) -> Option<BTreeSet<String>> {
    if !template.contains('{') {
        return Some(BTreeSet::new()); // no tag
    }
    let environment: Environment<'_> = ENVIRONMENT.clone();
    let compiled = compiled(&environment, template).ok()?;
    let mut paths: BTreeSet<String> = compiled.undeclared_variables(true).into_iter().collect();
    // The engine does not report `{% set a = a.result %}`, where the name is bound before it is read.
    let bind = |code: &str| -> Result<(), String> {
        paths.extend(names::bound_names(code));
        Ok(())
    };
    bounds::check(template, &mut { bind }).ok()?;
    Some(paths)
}

/// The longest beginning of the path that exists in `values`; `None` without its first step.
fn existing<'p>(values: &Map<String, Value>, path: &'p str) -> Option<Vec<&'p str>> {
    let mut steps = path.split('.');
    let first = steps.next()?;
    let mut value = values.get(first)?;
    let mut found = vec![first];
    for step in steps {
        let Some(member) = value.as_object().and_then(|members| members.get(step)) else { break };
        (value, found) = (member, [found, vec![step]].concat());
    }
    Some(found)
}

/// Copies the value at an existing path, which none of the copied paths begins.
fn copy(values: &Map<String, Value>, path: &[&str], part: &mut Map<String, Value>) {
    let [first, rest @ ..] = path else { return };
    let Some(value) = values.get(*first) else { return };
    match (rest, value) {
        ([_, ..], Value::Object(members)) => {
            let inner = part.entry(*first).or_insert_with(|| Value::Object(Map::new()));
            if let Value::Object(inner) = inner {
                copy(members, rest, inner);
            }
        }
        _ => drop(part.insert((*first).to_owned(), value.clone())),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::template::render;

    #[test]
    fn a_part_has_what_is_read_and_renders_like_the_whole() {
        let values = json!({
            "a": {"state": "executed", "result": {"n": 1, "list": ["x", "y"], "deep": {"k": "v", "l": "w"}}},
            "b": {"state": "executed", "result": {"n": 2}},
        });
        let whole = |name: &str| json!({name: values[name]});
        for (template, part) in [
            ("no tag", json!({})),
            ("{{ a.result.n }}", json!({"a": {"result": {"n": 1}}})),
            (
                "{{ a.result.deep }}{{ a.result.deep.k }}",
                json!({"a": {"result": {"deep": {"k": "v", "l": "w"}}}}),
            ),
            (
                "{{ a.result.deep.k }}{{ b.state }}",
                json!({"a": {"result": {"deep": {"k": "v"}}}, "b": {"state": "executed"}}),
            ),
            (
                "{% for x in a.result.list %}{{ x }}{% endfor %}",
                json!({"a": {"result": {"list": ["x", "y"]}}}),
            ),
            ("{{ a.result.list[0] }}", json!({"a": {"result": {"list": ["x", "y"]}}})),
            ("{% if b.result.m is defined %}!{% endif %}", json!({"b": {"result": {"n": 2}}})),
            ("{{ b.result.m | default(7) }}", json!({"b": {"result": {"n": 2}}})),
            ("{% set b = b.result %}{{ b.n }}", whole("b")),
            ("{% set c = b.result %}{{ c.n }}", json!({"b": {"result": {"n": 2}}})),
            ("{{ a | tojson }}", whole("a")),
            (
                "{% for b in a.result.list %}{{ b }}{% endfor %}{{ b.result.n }}",
                json!({
                "a": {"result": {"list": ["x", "y"]}}, "b": values["b"]}),
            ),
            ("{{ \"a.result\" }}", json!({})),
            ("{% broken", values.clone()),
        ] {
            let values = values.as_object().unwrap();
            let found = read_part(template, values);
            assert_eq!(Value::Object(found.clone()), part, "{template}");
            assert_eq!(render(template, &found), render(template, values), "{template}");
        }
    }
}
