//! `json.query`: selects values by JSONPath.

use std::sync::Arc;

use ostler_kernel::event::Failure;
use ostler_kernel::port::{ParamProblem, Tool, WorkspaceUse};
use serde::Deserialize;
use serde_json::{Map, Value, json};
use serde_json_path::JsonPath;

use super::blocking_tool::BlockingTool;
use super::tool_spec::{PURE, check_text, exhausted, object, spec, structural};

/// Maximum bytes of a query.
pub const QUERY_BYTES_MAX: usize = 1_000;
/// Maximum nesting of brackets and parentheses.
pub const QUERY_NESTING_MAX: usize = 6;
/// Maximum values a query may visit, by an estimate before the query runs.
pub const QUERY_STEPS_MAX: u64 = 20_000_000;
/// Cost of compiling the smallest regular expression, in visited values.
const REGEX_STEPS: u64 = 200;
/// Cost per byte of a plain regular expression.
const REGEX_STEPS_PER_BYTE: u64 = 50;
/// Additional cost per class such as `\w`.
const REGEX_STEPS_PER_CLASS: u64 = 4_000;
const REGEX_STEPS_WORST: u64 = 1_000_000;
/// Maximum bytes of a plain regular expression.
const REGEX_PLAIN_BYTES_MAX: usize = 200;
/// Bytes of text that a regular expression matches per step.
const REGEX_BYTES_PER_STEP: u64 = 16;
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
            "the query may look at more than {QUERY_STEPS_MAX} values: use fewer `..`, unions and filters, \
             plainer patterns, or query a part of the value"
        )));
    }
    let selected = path.query(value).all();
    let mut bytes = 0;
    for value in &selected {
        bytes += size(value);
        if bytes > QUERY_RESULT_BYTES_MAX {
            return Err(exhausted(format!("the result has more than {QUERY_RESULT_BYTES_MAX} bytes")));
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

/// Factors of a query's work, counted in its text outside of quoted names.
#[derive(Debug, PartialEq, Eq)]
struct Shape {
    nesting: usize,
    /// Number of `..` and `?`; each may visit a value once per level above.
    descents: u32,
    /// Queries within filters that start at the root and may select many values; each visits all of them.
    roots: u32,
    /// Number of selectors per union, or of arguments; they multiply along the query.
    unions: Vec<u64>,
    regexes: u64,
    /// Cost of compiling all regular expressions, which happens anew for every value.
    regex: u64,
}

impl Shape {
    fn of(query: &str) -> Shape {
        let mut shape = Shape { nesting: 0, descents: 0, roots: 0, unions: Vec::new(), regexes: 0, regex: 1 };
        let mut open: Vec<u64> = Vec::new();
        let mut quote = None;
        let mut escaped = false;
        let bytes = query.as_bytes();
        for (at, &byte) in bytes.iter().enumerate() {
            if let Some(end) = quote {
                if !escaped && byte == end {
                    quote = None;
                }
                escaped = !escaped && byte == b'\\';
                continue;
            }
            match byte {
                b'\'' | b'"' => quote = Some(byte),
                b'[' | b'(' => {
                    if query[..at].ends_with("match") || query[..at].ends_with("search") {
                        shape.regexes += 1;
                        shape.regex += regex_cost(&query[at..]);
                    }
                    open.push(1);
                    shape.nesting = shape.nesting.max(open.len());
                }
                b']' | b')' => shape.unions.extend(open.pop().filter(|&selectors| selectors > 1)),
                b',' => {
                    if let Some(selectors) = open.last_mut() {
                        *selectors += 1;
                    }
                }
                b'?' => shape.descents += 1,
                b'.' if bytes.get(at + 1) == Some(&b'.') => shape.descents += 1,
                b'$' if at > 0 && selects_many(&bytes[at + 1..]) => shape.roots += 1,
                _ => {}
            }
        }
        shape
    }

    fn steps(&self, extent: &Extent) -> u64 {
        let reading = self.regexes.saturating_mul(extent.text_bytes_max / REGEX_BYTES_PER_STEP);
        let mut steps = extent.values.saturating_mul(self.regex.saturating_add(reading));
        for &selectors in &self.unions {
            steps = steps.saturating_mul(selectors);
        }
        steps = steps.saturating_mul(extent.depth.saturating_pow(self.descents));
        steps.saturating_mul(extent.values.saturating_pow(self.roots))
    }
}

/// Cost of compiling one regular expression. `call` starts at the parenthesis. Only a plain literal is known to be cheap.
fn regex_cost(call: &str) -> u64 {
    let argument = second_argument(call);
    let quoted = |quote: char| argument.strip_prefix(quote)?.strip_suffix(quote);
    match quoted('\'').or_else(|| quoted('"')) {
        Some(pattern) if is_plain(pattern) => {
            let bytes = REGEX_STEPS_PER_BYTE * pattern.len() as u64;
            REGEX_STEPS + bytes + REGEX_STEPS_PER_CLASS * classes(pattern)
        }
        _ => REGEX_STEPS_WORST,
    }
}

/// The second argument of a call that starts at its parenthesis; empty if there is none.
fn second_argument(call: &str) -> &str {
    let (mut nesting, mut quote, mut escaped, mut from) = (0, None, false, None);
    for (at, byte) in call.bytes().enumerate() {
        match (quote, byte) {
            (Some(_), _) if escaped => escaped = false,
            (Some(_), b'\\') => escaped = true,
            (Some(open), _) if byte == open => quote = None,
            (Some(_), _) => {}
            (None, b'\'' | b'"') => quote = Some(byte),
            (None, b'(' | b'[') => nesting += 1,
            (None, b')' | b']') => nesting -= 1,
            (None, b',') if nesting == 1 && from.is_none() => from = Some(at + 1),
            (None, _) => {}
        }
        if nesting == 0 {
            return from.map_or("", |from| call[from..at].trim());
        }
    }
    ""
}

const CLASSES: &[u8] = b"dDsSwWbB";

/// The escapes of a pattern within a query, where each backslash is doubled; `None` for a backslash at the end.
fn escaped(pattern: &str) -> impl Iterator<Item = Option<u8>> {
    let plain = pattern.replace(r"\\", "\u{0}").into_bytes();
    let at: Vec<usize> = (0..plain.len()).filter(|at| plain[*at] == 0).collect();
    at.into_iter().map(move |at| plain.get(at + 1).copied())
}

/// Number of classes such as `\w` in a pattern.
fn classes(pattern: &str) -> u64 {
    escaped(pattern).flatten().filter(|escaped| CLASSES.contains(escaped)).count() as u64
}

/// True if a pattern's size is obvious: no named classes (`\p{L}`), no flags, no repetition counts (`{9}`). Only class letters and
/// metacharacters may be escaped.
fn is_plain(pattern: &str) -> bool {
    let plain = pattern.replace(r"\\", "");
    let is_known = |escaped: u8| br".+*?()[]|^$-/".contains(&escaped) || CLASSES.contains(&escaped);
    pattern.len() <= REGEX_PLAIN_BYTES_MAX
        && !plain.contains(['{', '\\', '\'', '"', '\u{0}'])
        && !plain.contains("(?")
        && !plain.contains("[:") // [[:alpha:]]
        && escaped(pattern).all(|escaped| escaped.is_some_and(is_known))
}

/// True if a query within a filter may select several values. `rest` starts behind its `$`.
fn selects_many(rest: &[u8]) -> bool {
    let end = rest.iter().position(|byte| b"=<>!&|)".contains(byte)).unwrap_or(rest.len());
    let query = &rest[..end];
    query.iter().any(|byte| b"*?:,".contains(byte)) || query.windows(2).any(|pair| pair == b"..")
}

#[derive(Debug, PartialEq, Eq)]
struct Extent {
    values: u64,
    depth: u64,
    text_bytes_max: u64,
}

impl Extent {
    const LEAF: Extent = Extent { values: 1, depth: 1, text_bytes_max: 0 };

    fn of(value: &Value) -> Extent {
        let inner = |values: &mut dyn Iterator<Item = &Value>| {
            values.map(Extent::of).fold(Extent::LEAF, |sum, inner| Extent {
                values: sum.values + inner.values,
                depth: sum.depth.max(inner.depth + 1),
                text_bytes_max: sum.text_bytes_max.max(inner.text_bytes_max),
            })
        };
        match value {
            Value::Array(list) => inner(&mut list.iter()),
            Value::Object(map) => inner(&mut map.values()),
            Value::String(text) => Extent { text_bytes_max: text.len() as u64, ..Extent::LEAF },
            Value::Null | Value::Bool(_) | Value::Number(_) => Extent::LEAF,
        }
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
                "resource_exhaustion: the query may look at more than 20000000 values: use fewer `..`, unions and filters, plainer patterns, or query a part of the value"
            ],
        );
        check(
            list.clone(),
            "$[?count($[*]) > count($[*])]",
            expect![
                "resource_exhaustion: the query may look at more than 20000000 values: use fewer `..`, unions and filters, plainer patterns, or query a part of the value"
            ],
        );
        check(
            list.clone(),
            r"$[?search(@, '\\w{900}')]",
            expect![
                "resource_exhaustion: the query may look at more than 20000000 values: use fewer `..`, unions and filters, plainer patterns, or query a part of the value"
            ],
        );
        check(
            list.clone(),
            r"$[?match(@, $[0])]",
            expect![
                "resource_exhaustion: the query may look at more than 20000000 values: use fewer `..`, unions and filters, plainer patterns, or query a part of the value"
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
                "resource_exhaustion: the query may look at more than 20000000 values: use fewer `..`, unions and filters, plainer patterns, or query a part of the value"
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
    fn quoted_names_do_not_count() {
        assert_eq!(
            Shape::of(r#"$["a,b..[(?\"", 'c\',d']"#),
            Shape { unions: vec![2], nesting: 1, descents: 0, roots: 0, regexes: 0, regex: 1 }
        );
    }

    #[test]
    fn only_a_plain_pattern_is_cheap() {
        let longest = "x".repeat(REGEX_PLAIN_BYTES_MAX);
        for (call, pattern) in [
            ("(@, '[b-z]')", Some("[b-z]")),
            ("(@['a,\"'] , \"a.*b\" )", Some("a.*b")),
            (r#"(@["a,'"], 'v1\\.2')"#, Some(r"v1\\.2")),
            ("(@['\\',\"'], 'a,b')", Some("a,b")),
            (&format!("(@, '{longest}')"), Some(&longest)),
            (&format!("(@, '{longest}x')"), None),
            (r#"(@['a,"'], @.p)"#, None),
            (r#"(@["a,'"], @.p)"#, None),
            ("(@[1,'a'], @.p)", None),
            ("(@['a'] == 'b')", None),
            ("(@, $['p'])", None),
            (r"(@, '\pL\pL')", None),
            (r"(@, '\\pL\\pL')", None),
            (r"(@, '\u005cpL')", None),
            (r"(@, 'a\\\\pL')", None),
            ("(@, '[[:alpha:]]')", None),
            ("(@, 'a{9}')", None),
            ("(@, '(?i)a')", None),
            ("(@, 'a", None),
        ] {
            let cost = pattern.map(|pattern| REGEX_STEPS + REGEX_STEPS_PER_BYTE * pattern.len() as u64);
            assert_eq!(regex_cost(call), cost.unwrap_or(REGEX_STEPS_WORST), "{call}");
        }
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
}
