//! `json.query`: selects values by JSONPath.

mod shape;

use std::sync::Arc;

use ostler_kernel::event::Failure;
use ostler_kernel::json;
use ostler_kernel::port::{ParamProblem, Tool, WorkspaceUse};
use serde::Deserialize;
use serde_json::{Map, Value, json};
use serde_json_path::JsonPath;
use shape::{Extent, Shape};

use super::blocking_tool::BlockingTool;
use super::tool_spec::{PURE, check_text, exhausted, object, spec, structural};

/// Maximum bytes of a query.
pub const QUERY_BYTES_MAX: usize = 1_000;
/// Maximum nesting of brackets and parentheses.
pub const QUERY_NESTING_MAX: usize = 6;
/// Maximum values a query may visit, by an estimate before the query runs.
pub const QUERY_STEPS_MAX: u64 = 20_000_000;
/// Approximate maximum bytes of the result.
pub const QUERY_RESULT_BYTES_MAX: usize = 16 << 20;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Params {
    value: Value,
    query: String,
}

/// Evaluates a JSONPath query (RFC 9535); the result is the list of selected values in order. A running query cannot be interrupted,
/// so a query without a sufficient bound on its work is refused in advance.
pub(super) fn tool() -> Arc<dyn Tool> {
    Arc::new(BlockingTool::<Params> {
        spec: spec(
            "json.query",
            "Select values by a JSONPath query (RFC 9535). The result is the list of what it selects.",
            object(
                &["value", "query"],
                json!({
                    "value": {},
                    "query": {"type": "string", "minLength": 1, "maxLength": QUERY_BYTES_MAX},
                }),
            ),
            object(&["result"], json!({"result": {"type": "array"}})),
        ),
        class: |_| PURE,
        workspace_use: WorkspaceUse::NONE,
        check,
        work: Arc::new(|params: &Params, _: &_, _: &_| query(params)),
    })
}

fn check(params: &Map<String, Value>) -> Vec<ParamProblem> {
    let help = "write a JSONPath query (RFC 9535), such as $.items[*].name";
    check_text(params, "query", help, |text| match compile(text) {
        Ok(_) => Ok(()),
        Err(failure) => Err(failure.message),
    })
}

fn query(params: &Params) -> Result<Value, Failure> {
    let Params { value, query } = params;
    let (path, shape) = compile(query)?;
    if shape.steps(&Extent::of(value)) > QUERY_STEPS_MAX {
        return Err(exhausted(format!(
            "the query may look at more than {QUERY_STEPS_MAX} values: use fewer `..`, unions, filters \
             and comparisons between values, plainer patterns, or query a part of the value"
        )));
    }
    let selected = path.query(value).all();
    let (mut bytes, mut memory) = (0, 0);
    for value in &selected {
        bytes += size(value);
        if bytes > QUERY_RESULT_BYTES_MAX {
            return Err(exhausted(format!("the result has more than {QUERY_RESULT_BYTES_MAX} bytes")));
        }
        memory += json::memory(value);
        if memory > json::VALUE_MEMORY_MAX {
            let most = json::VALUE_MEMORY_MAX;
            return Err(exhausted(format!(
                "the result would take more than {most} bytes of memory: select fewer small lists and maps within others"
            )));
        }
    }
    Ok(json!({"result": selected}))
}

/// Parses the query and determines the factors of its work.
fn compile(query: &str) -> Result<(JsonPath, Shape), Failure> {
    if query.len() > QUERY_BYTES_MAX {
        return Err(exhausted(format!("the query has more than {QUERY_BYTES_MAX} bytes")));
    }
    let shape = Shape::of(query);
    if shape.nesting > QUERY_NESTING_MAX {
        return Err(structural(format!(
            "the query nests brackets {} deep, {QUERY_NESTING_MAX} at most",
            shape.nesting
        )));
    }
    match JsonPath::parse(query) {
        Ok(path) => Ok((path, shape)),
        Err(error) => Err(structural(format!("no JSONPath query: {error}"))),
    }
}

fn size(value: &Value) -> usize {
    match value {
        Value::String(text) => text.len() + 2,
        Value::Array(list) => list.iter().map(|value| size(value) + 1).sum::<usize>() + 2,
        Value::Object(map) => map.iter().map(|(key, value)| key.len() + 4 + size(value)).sum::<usize>() + 2,
        Value::Null | Value::Bool(_) | Value::Number(_) => 8,
    }
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};
    use serde_json::json;

    use super::*;

    fn check(value: Value, text: &str, expected: Expect) {
        let shown = match query(&Params { value, query: text.into() }) {
            Ok(result) => result["result"].to_string(),
            Err(failure) => format!("{}: {}", failure.category, failure.message),
        };
        expected.assert_eq(&shown);
    }

    #[test]
    fn a_query_gives_the_list_of_what_it_selects() {
        let shop = || json!({"book": [{"title": "a", "price": 5}, {"title": "b", "price": 15}], "limit": 10});
        check(shop(), "$.book[*].title", expect![[r#"["a","b"]"#]]);
        check(shop(), "$..price", expect!["[5,15]"]);
        check(shop(), "$.book[?@.price < $.limit].title", expect![[r#"["a"]"#]]);
        check(shop(), "$.book[?search(@.title, '[b-z]')].price", expect!["[15]"]);
        check(shop(), "$.missing", expect!["[]"]);
        check(json!("x"), "$", expect![[r#"["x"]"#]]);
    }

    #[test]
    fn what_is_no_query_is_named() {
        check(json!({}), "", expect!["structural: no JSONPath query: at position 0, parser error"]);
        check(json!({}), "book", expect!["structural: no JSONPath query: at position 0, parser error"]);
        check(json!({}), "$.book[", expect!["structural: no JSONPath query: at position 6, parser error"]);
    }

    #[test]
    fn a_query_that_might_run_away_is_refused_before_it_runs() {
        let list = json!(vec![0; 1_000]);
        check(
            list.clone(),
            &format!("${}", "[*,*]".repeat(30)),
            expect![
                "resource_exhaustion: the query may look at more than 20000000 values: use fewer `..`, unions, filters and comparisons between values, plainer patterns, or query a part of the value"
            ],
        );
        check(
            list.clone(),
            "$[?count($[*]) > count($[*])]",
            expect![
                "resource_exhaustion: the query may look at more than 20000000 values: use fewer `..`, unions, filters and comparisons between values, plainer patterns, or query a part of the value"
            ],
        );
        check(
            list.clone(),
            r"$[?search(@, '\\w{900}')]",
            expect![
                "resource_exhaustion: the query may look at more than 20000000 values: use fewer `..`, unions, filters and comparisons between values, plainer patterns, or query a part of the value"
            ],
        );
        check(
            list.clone(),
            r"$[?match(@, $[0])]",
            expect![
                "resource_exhaustion: the query may look at more than 20000000 values: use fewer `..`, unions, filters and comparisons between values, plainer patterns, or query a part of the value"
            ],
        );
        check(
            list,
            &format!("$[?{}@{}]", "(".repeat(300), ")".repeat(300)),
            expect!["structural: the query nests brackets 301 deep, 6 at most"],
        );
        let deep = (0..100).fold(json!(1), |inner, _| json!([inner]));
        check(
            deep,
            "$..*..*..*..*",
            expect![
                "resource_exhaustion: the query may look at more than 20000000 values: use fewer `..`, unions, filters and comparisons between values, plainer patterns, or query a part of the value"
            ],
        );
    }

    #[test]
    fn the_deepest_query_allowed_is_parsed_at_once() {
        let inner = "(".repeat(QUERY_NESTING_MAX - 1);
        let query = format!("$[?{inner}@.a{}]", ")".repeat(QUERY_NESTING_MAX - 1));
        check(json!([{"a": 1}, {"b": 1}]), &query, expect![[r#"[{"a":1}]"#]]);
    }

    #[test]
    fn a_result_that_multiplies_a_large_value_is_refused() {
        let value = json!(["x".repeat(1 << 20)]);
        check(
            value,
            &format!("$[{}0]", "0,".repeat(20)),
            expect!["resource_exhaustion: the result has more than 16777216 bytes"],
        );
    }

    #[test]
    fn a_result_that_takes_much_more_memory_than_its_text_is_refused() {
        let nested = (0..30).fold(json!([]), |inner, _| json!([inner]));
        let value = json!([vec![nested; 30_000]]);
        let text = |copies: usize| format!("$[{}0]", "0,".repeat(copies - 1));
        assert!(query(&Params { value: value.clone(), query: text(1) }).is_ok());
        check(
            value,
            &text(5),
            expect![
                "resource_exhaustion: the result would take more than 536870912 bytes of memory: select fewer small lists and maps within others"
            ],
        );
    }

    #[test]
    fn regular_expressions_count_by_their_number_and_by_what_they_go_through() {
        let refused = |value: Value, text: &str| query(&Params { value, query: text.into() }).is_err();
        let texts = || json!(vec!["a"; 2_000]);
        assert!(!refused(texts(), "$[?search(@, 'abc')]"));
        assert!(!refused(json!(vec!["a"; 500]), r"$[?search(@, '^\\w+$')]"));
        assert!(refused(texts(), &format!(r"$[?search(@, '{}')]", r"\\w".repeat(60))));
        assert!(refused(texts(), &format!("$[?{}]", vec!["search(@, 'abc')"; 40].join("||"))));
        assert!(refused(texts(), &format!(r"$[?search(@, '{}')]", r"\\pL".repeat(160))));
        assert!(refused(json!(vec!["a".repeat(1 << 20); 20]), "$[?search($[0], 'abc')]"));
    }

    /// A query cannot be interrupted: it would compute on after its call.
    #[test]
    fn comparisons_of_large_values_are_refused_before_they_are_made() {
        let refused = |value: Value, text: &str| query(&Params { value, query: text.into() }).is_err();
        let lists = |length: usize| json!({"c": vec![0; length], "x": vec![1; length], "y": vec![1; length]});
        // 3 levels times (2581 values, and 2581 comparisons of 2581 values) are the last ones below the limit.
        for (length, expected) in [(859, false), (860, true), (40_000, true)] {
            assert_eq!(refused(lists(length), "$.c[?$.x == $.y]"), expected, "{length}");
        }
        let texts = |length: usize| {
            let text = "x".repeat(1 << 20);
            json!({"c": vec![0; length], "x": text, "y": text})
        };
        for text in
            ["$.c[?$.x == $.y]", "$.c[?$.x < $.y]", "$.c[?length($.x) == 1]", "$.c[?value($.x) != $.y]"]
        {
            assert!(!refused(texts(10), text) && refused(texts(100), text), "{text}");
        }
        let nested = (0..150).fold(json!("x".repeat(1 << 20)), |inner, _| json!({"a": inner, "b": 1}));
        assert!(refused(nested, "$..[?@.a == $.a.a]"), "each level compares what is below it");
        let named = json!({"=": vec![0; 40_000], "c": vec![0; 40_000]});
        assert!(refused(named, "$.c[?count($['=']..*) > 3]"), "a name in quotes is no operator");
    }

    #[test]
    fn ordinary_comparisons_of_large_values_are_made() {
        let item = |at: usize| json!({"name": format!("n{at}"), "price": at, "a": at % 7, "b": at % 5});
        let value = || json!({"items": (0..50_000).map(item).collect::<Vec<_>>(), "limit": 10, "b": 3});
        for (text, expected) in [
            ("$.items[?@.price < 10].name", 10),
            ("$.items[?@.price < $.limit].name", 10),
            ("$..[?@.a == $.b]", 7_143),
            ("$.items[?@.a == @.b && @.name != 'n0']", 7_144),
            ("$.items[?length(@.name) == 2]", 10),
        ] {
            let found = query(&Params { value: value(), query: text.into() }).expect(text);
            assert_eq!(found["result"].as_array().map(Vec::len), Some(expected), "{text}");
        }
    }
}
