//! Templates of reports and prompts (minijinja), with every bound named.

use std::collections::BTreeSet;
use std::fmt::{self, Write as _};
use std::io;
use std::ops::Range;
use std::sync::LazyLock;

use minijinja::syntax::SyntaxConfig;
use minijinja::value::{Kwargs, Rest, Serde, ValueKind, ValueOrKwargs, from_args};
use minijinja::{
    Environment, Error, ErrorKind, State, Template, UndefinedBehavior, Value as Engine, filters,
};
use serde_json::{Map, Value};

use super::bounds;
use super::names::{self, MEANT, Names};
use crate::json::{MAX_DEPTH, canonical, measure};

/// Longest template, in bytes.
pub const TEMPLATE_BYTES_MAX: usize = 256 * 1024;

/// Largest values, in bytes of canonical JSON.
pub const RENDER_VALUES_BYTES_MAX: usize = 8 * 1024 * 1024;

/// Largest result, in bytes. The filters `join`, `replace` and `tojson` may build as much again, in all.
pub const RENDER_BYTES_MAX: usize = 4 * 1024 * 1024;

/// Most bytes that the other filters of one rendering may copy, in all: texts, and 32 bytes for each item of a list.
pub const RENDER_COPIES_BYTES_MAX: usize = 64 * 1024 * 1024;

/// What an item of a list takes, however small it is.
const ITEM_BYTES: usize = 32;

/// Most instructions of one rendering.
pub const RENDER_FUEL: u64 = 1_000_000;

/// Filters of the engine whose result can be out of all proportion to their input.
const UNBOUNDED_FILTERS: [&str; 7] = ["batch", "chain", "format", "indent", "pprint", "slice", "zip"];

/// Functions that build a value out of values, or show what the engine knows.
const UNBOUNDED_FUNCTIONS: [&str; 3] = ["debug", "dict", "namespace"];

/// Longest excerpt of a template in an error, in characters.
const EXCERPT_CHARS: usize = 80;

/// Why a template gave no text.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RenderError {
    /// The template is no template, or asks for what templates may not do here.
    #[error("template, line {line}: {what}")]
    Template {
        /// Where, from 1.
        line: usize,
        /// What is wrong.
        what: String,
    },
    /// The template names a value that is not there.
    #[error("template, line {line}: {name} is not there")]
    Undefined {
        /// Where, from 1.
        line: usize,
        /// What the template calls it.
        name: String,
    },
    /// A limit was reached.
    #[error("template: {what} is limited to {limit}")]
    Limit {
        /// What is limited, with its unit.
        what: &'static str,
        /// The limit.
        limit: u64,
    },
}

/// What is wrong with a template, for its author.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BadTemplate {
    /// What is wrong, with its line.
    pub what: String,
    /// What would mend it.
    pub mend: String,
    /// Where, from 1, if it is one line.
    pub line: Option<usize>,
}

impl From<RenderError> for BadTemplate {
    fn from(error: RenderError) -> BadTemplate {
        let told = error.to_string().replacen("template, ", "", 1);
        let (what, mend) = match told.rsplit_once(MEANT) {
            Some((what, meant)) => (what.to_owned(), format!("did you mean {meant}")),
            None => (told, "write {{ value }} and {% if … %}, as minijinja has them".to_owned()),
        };
        let line = match error {
            RenderError::Template { line, .. } | RenderError::Undefined { line, .. } => Some(line),
            RenderError::Limit { .. } => None,
        };
        BadTemplate { what, mend, line }
    }
}

/// Checks that a template takes no value but those that `is_there`. Of one that is no template nothing is said.
///
/// ```
/// use ostler_kernel::template::check_values;
/// assert!(check_values("{% for n in a.result.list %}{{ n }}{% endfor %}", &|name| name == "a").is_ok());
/// let error = check_values("{{ a.state }}\n{{ b.state }}", &|name| name == "a").unwrap_err();
/// assert_eq!(error.to_string(), "template, line 2: b is not there");
/// ```
///
/// # Errors
///
/// [`RenderError::Undefined`]: the first one in the text.
pub fn check_values(template: &str, is_there: &dyn Fn(&str) -> bool) -> Result<(), RenderError> {
    let environment: Environment<'_> = ENVIRONMENT.clone();
    let Ok(compiled) = compiled(&environment, template) else { return Ok(()) };
    let mut taken: BTreeSet<String> = compiled.undeclared_variables(false).into_iter().collect();
    taken.retain(|name| !is_there(name) && environment.globals().all(|(global, _)| global != name));
    if taken.is_empty() {
        return Ok(());
    }
    let first = |code: &str| names::first_of(code, &taken).map_or(Ok(()), |name| Err(name.to_owned()));
    let (line, name) = match bounds::check(template, &mut { first }) {
        Err((line, name)) if taken.contains(&name) => (line, name),
        _ => (1, taken.first().cloned().unwrap_or_default()),
    };
    Err(RenderError::Undefined { line, name: excerpt(&name) })
}

/// Checks that a template takes no value, and no part of one, but those that `is_there`, as far as names lead: it is asked for
/// paths such as `a.result.count`. Nothing is said of what the template itself gives a name to, nor of a template that is none
/// or that asks whether something is there (`default`, `is defined`).
///
/// ```
/// use ostler_kernel::template::check_paths;
/// let is_there = |path: &str| path != "a.result.cuont";
/// let error = check_paths("{{ a.state }}\n{{ a.result.cuont }}", &is_there).unwrap_err();
/// assert_eq!(error.to_string(), "template, line 2: a.result.cuont is not there");
/// assert!(check_paths("{{ a.result.cuont | default(0) }}", &is_there).is_ok());
/// ```
///
/// # Errors
///
/// [`RenderError::Undefined`]: the first one in the text.
pub fn check_paths(template: &str, is_there: &dyn Fn(&str) -> bool) -> Result<(), RenderError> {
    if !template.contains('{') {
        return Ok(()); // no tag
    }
    let environment: Environment<'_> = ENVIRONMENT.clone();
    let Ok(compiled) = compiled(&environment, template) else { return Ok(()) };
    let mut taken: BTreeSet<String> = compiled.undeclared_variables(true).into_iter().collect();
    taken.retain(|path| !is_there(path) && environment.globals().all(|(global, _)| global != path));
    if taken.is_empty() {
        return Ok(());
    }
    let (mut asks, mut named) = (false, BTreeSet::new());
    let mut look = |code: &str| -> Result<(), String> {
        asks |= names::asks(code);
        named.extend(names::given_by(code));
        Ok(())
    };
    if bounds::check(template, &mut look).is_err() || asks {
        return Ok(());
    }
    taken.retain(|path| path.split('.').next().is_some_and(|name| !named.contains(name)));
    let first = |code: &str| names::first_path_of(code, &taken).map_or(Ok(()), Err);
    match bounds::check(template, &mut { first }) {
        Ok(()) => Ok(()),
        Err((line, path)) => Err(RenderError::Undefined { line, name: excerpt(&path) }),
    }
}

/// Checks a template without values: that it is one, and that there is every filter, test and function it names.
///
/// # Errors
///
/// [`RenderError::Template`] or [`RenderError::Limit`].
pub fn check_template(template: &str) -> Result<(), RenderError> {
    if template.len() > TEMPLATE_BYTES_MAX {
        return Err(limit("the template (bytes)", TEMPLATE_BYTES_MAX as u64));
    }
    if !template.contains('{') {
        return Ok(()); // no tag
    }
    let environment: Environment<'_> = ENVIRONMENT.clone();
    compiled(&environment, template)?;
    let mut names = Names::of(&environment);
    bounds::check(template, &mut |code| names.check(code))
        .map_err(|(line, what)| RenderError::Template { line, what })
}

/// Renders a template over values. A value that is not there is an error, never an empty text.
///
/// ```
/// use ostler_kernel::template::render;
/// let values = serde_json::json!({"files": ["a", "b"]});
/// let text = render("{% for file in files %}- {{ file }}\n{% endfor %}", values.as_object().unwrap());
/// assert_eq!(text.unwrap(), "- a\n- b\n");
/// ```
///
/// # Errors
///
/// See [`RenderError`].
pub fn render(template: &str, values: &Map<String, Value>) -> Result<String, RenderError> {
    if template.len() > TEMPLATE_BYTES_MAX {
        return Err(limit("the template (bytes)", TEMPLATE_BYTES_MAX as u64));
    }
    if measure(values).is_ok_and(|bytes| bytes > RENDER_VALUES_BYTES_MAX) {
        return Err(limit("the values (bytes)", RENDER_VALUES_BYTES_MAX as u64));
    }
    if !template.contains('{') {
        return Ok(template.to_owned()); // no tag, so nothing to do
    }
    let environment: Environment<'_> = ENVIRONMENT.clone();
    let compiled = compiled(&environment, template)?;
    let mut text = Bounded { bytes: Vec::new(), full: false };
    match compiled.render_captured_to(Engine::from(Serde(values)), &mut text) {
        Ok(_) => Ok(String::from_utf8(text.bytes).expect("a template writes whole strings")),
        Err(_) if text.full => Err(limit("the result (bytes)", RENDER_BYTES_MAX as u64)),
        Err(error) => Err(explain(template, &error)),
    }
}

/// A template for the engine, which goes as deep as some of it is long: within bounds first.
fn compiled<'e>(
    environment: &'e Environment<'_>,
    template: &'e str,
) -> Result<Template<'e, 'e>, RenderError> {
    bounds::check(template, &mut |_| Ok(())).map_err(|(line, what)| RenderError::Template { line, what })?;
    environment.template_from_str(template).map_err(|error| explain(template, &error))
}

/// Collects the result up to its limit.
struct Bounded {
    bytes: Vec<u8>,
    full: bool,
}

impl io::Write for Bounded {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.bytes.len() + bytes.len() > RENDER_BYTES_MAX {
            self.full = true;
            return Err(io::ErrorKind::StorageFull.into());
        }
        self.bytes.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// What every rendering shares: made once, and cloning it copies references.
static ENVIRONMENT: LazyLock<Environment<'static>> = LazyLock::new(|| {
    let mut environment = Environment::new();
    environment.set_undefined_behavior(UndefinedBehavior::Strict);
    environment.set_fuel(Some(RENDER_FUEL));
    environment.set_syntax(syntax());
    environment.set_debug(true);
    for filter in UNBOUNDED_FILTERS {
        environment.remove_filter(filter);
    }
    for function in UNBOUNDED_FUNCTIONS {
        environment.remove_global(function);
    }
    environment.set_formatter(|out, _, value| write_text(value, out));
    environment.add_filter("join", |state: &mut State<'_, '_>, items: Engine, joiner: Option<String>| {
        join(&items, &joiner.unwrap_or_default(), built(state))
    });
    environment.add_filter("replace", |state: &mut State<'_, '_>, text: String, from: String, to: String| {
        replace(&text, &from, &to, built(state))
    });
    environment.add_filter("tojson", |state: &mut State<'_, '_>, value: Engine| {
        let mut text = Budgeted { text: String::new(), built: built(state) };
        write_json(&value, MAX_DEPTH, &mut text).map(|()| text.text)
    });
    for (names, copies, filter) in copying_filters() {
        for &name in names {
            let filter = filter.clone();
            environment.add_filter(name, move |state: &mut State<'_, '_>, args: Rest<ValueOrKwargs>| {
                copy(&filter, copies, state, &args.into_values())
            });
        }
    }
    environment.add_filter("sum", |state: &mut State<'_, '_>, args: Rest<ValueOrKwargs>| {
        sum(state, &args.into_values())
    });
    environment
});

/// What a filter copies.
#[derive(Debug, Clone, Copy)]
enum Copies {
    /// Into a text.
    Text,
    /// The items of what it is given, each character of a text, into a list.
    Items,
    /// Parts of a text, into a list.
    Parts,
}

/// The filters of the engine whose results are as large as what they are given.
fn copying_filters() -> [(&'static [&'static str], Copies, Engine); 21] {
    use Copies::{Items, Parts, Text};
    [
        (&["capitalize"], Text, Engine::from_function(filters::capitalize)),
        (&["dictsort"], Items, Engine::from_function(filters::dictsort)),
        (&["escape", "e"], Text, Engine::from_function(filters::escape)),
        (&["groupby"], Items, Engine::from_function(filters::groupby)),
        (&["lines"], Parts, Engine::from_function(filters::lines)),
        (&["list"], Items, Engine::from_function(filters::list)),
        (&["lower"], Text, Engine::from_function(filters::lower)),
        (&["map"], Items, Engine::from_function(filters::map)),
        (&["reject"], Items, Engine::from_function(filters::reject)),
        (&["rejectattr"], Items, Engine::from_function(filters::rejectattr)),
        (&["reverse"], Items, Engine::from_function(filters::reverse)),
        (&["safe"], Text, Engine::from_function(filters::safe)),
        (&["select"], Items, Engine::from_function(filters::select)),
        (&["selectattr"], Items, Engine::from_function(filters::selectattr)),
        (&["sort"], Items, Engine::from_function(filters::sort)),
        (&["split"], Parts, Engine::from_function(filters::split)),
        (&["string"], Text, Engine::from_function(filters::string)),
        (&["title"], Text, Engine::from_function(filters::title)),
        (&["trim"], Text, Engine::from_function(filters::trim)),
        (&["unique"], Items, Engine::from_function(filters::unique)),
        (&["upper"], Text, Engine::from_function(filters::upper)),
    ]
}

/// Calls a filter, and books what it copies.
fn copy(
    filter: &Engine,
    copies: Copies,
    state: &mut State<'_, '_>,
    args: &[Engine],
) -> Result<Engine, Error> {
    let text = |value: &Engine| value.as_str().map_or(0, str::len);
    let items = |value: &Engine| value.len().unwrap_or(0).saturating_mul(ITEM_BYTES);
    match (copies, args.first()) {
        (Copies::Items, Some(given)) => book_copy(items(given), built(state))?,
        (Copies::Parts, Some(given)) => book_copy(text(given), built(state))?,
        (Copies::Text, _) | (_, None) => {}
    }
    let result = filter.call(state, args)?;
    match copies {
        Copies::Text => book_copy(text(&result), built(state))?,
        Copies::Parts => book_copy(items(&result), built(state))?,
        Copies::Items => {}
    }
    Ok(result)
}

/// Adds numbers up. The engine would add texts and lists up as well, in a time that grows with the square of their number.
fn sum(state: &mut State<'_, '_>, args: &[Engine]) -> Result<Engine, Error> {
    let (given, named): (&[Engine], Kwargs) = from_args(args)?;
    let start = given.get(2).cloned().or(named.get("start")?);
    if start.is_some_and(|start| !start.is_number()) {
        return Err(refused("sum starts from a number"));
    }
    Engine::from_function(filters::sum).call(state, args)
}

/// What the filters of one rendering have built.
#[derive(Default)]
struct Built {
    bytes: usize,
    copies_bytes: usize,
}

fn built<'a>(state: &'a mut State<'_, '_>) -> &'a mut Built {
    state.get_or_insert_extension_with(Built::default)
}

fn syntax() -> SyntaxConfig {
    SyntaxConfig::builder().keep_trailing_newline(true).build().expect("the usual delimiters are fine")
}

fn refused(error: impl std::fmt::Display) -> Error {
    Error::new(ErrorKind::InvalidOperation, error.to_string())
}

/// Text that a filter builds, out of the budget of the rendering.
struct Budgeted<'a> {
    text: String,
    built: &'a mut Built,
}

impl fmt::Write for Budgeted<'_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        book(text.len(), self.built).map_err(|_| fmt::Error)?;
        self.text.push_str(text);
        Ok(())
    }
}

/// Books bytes that a filter is about to build.
fn book(bytes: usize, built: &mut Built) -> Result<(), Error> {
    built.bytes = built.bytes.saturating_add(bytes);
    if built.bytes <= RENDER_BYTES_MAX { Ok(()) } else { Err(over_budget(fmt::Error)) }
}

/// Books bytes that a filter copies.
fn book_copy(bytes: usize, built: &mut Built) -> Result<(), Error> {
    built.copies_bytes = built.copies_bytes.saturating_add(bytes);
    if built.copies_bytes <= RENDER_COPIES_BYTES_MAX {
        return Ok(());
    }
    Err(refused(format_args!("what filters copy is limited to {RENDER_COPIES_BYTES_MAX} bytes")))
}

fn over_budget(_: fmt::Error) -> Error {
    refused(format_args!("a result is limited to {RENDER_BYTES_MAX} bytes"))
}

fn join(items: &Engine, joiner: &str, built: &mut Built) -> Result<String, Error> {
    let mut joined = Budgeted { text: String::new(), built };
    for (index, item) in items.try_iter()?.enumerate() {
        if index > 0 {
            joined.write_str(joiner).map_err(over_budget)?;
        }
        write_text(&item, &mut joined)?;
    }
    Ok(joined.text)
}

fn replace(text: &str, from: &str, to: &str, built: &mut Built) -> Result<String, Error> {
    let grown = text.matches(from).count().saturating_mul(to.len());
    book(text.len().saturating_add(grown), built)?;
    Ok(text.replace(from, to))
}

/// Writes a value as text: a string as it is, what is undefined as nothing, all else as JSON.
fn write_text(value: &Engine, out: &mut impl fmt::Write) -> Result<(), Error> {
    match value.as_str() {
        Some(text) => out.write_str(text).map_err(over_budget),
        None if value.is_undefined() => Ok(()),
        None => write_json(value, MAX_DEPTH, out),
    }
}

/// Writes a value as JSON, piece by piece, so that a bound of `out` ends it.
fn write_json(value: &Engine, room: usize, out: &mut impl fmt::Write) -> Result<(), Error> {
    let deeper = || room.checked_sub(1).ok_or_else(|| refused("a value is nested too deep"));
    match value.kind() {
        ValueKind::Seq | ValueKind::Iterable => {
            let room = deeper()?;
            out.write_char('[').map_err(over_budget)?;
            for (index, item) in value.try_iter()?.enumerate() {
                if index > 0 {
                    out.write_char(',').map_err(over_budget)?;
                }
                write_json(&item, room, out)?;
            }
            out.write_char(']').map_err(over_budget)
        }
        ValueKind::Map => {
            let room = deeper()?;
            out.write_char('{').map_err(over_budget)?;
            for (index, key) in value.try_iter()?.enumerate() {
                if index > 0 {
                    out.write_char(',').map_err(over_budget)?;
                }
                write_scalar(&Value::from(key.to_string()), out)?;
                out.write_char(':').map_err(over_budget)?;
                write_json(&value.get_item(&key)?, room, out)?;
            }
            out.write_char('}').map_err(over_budget)
        }
        _ => write_scalar(&serde_json::to_value(value).map_err(refused)?, out),
    }
}

fn write_scalar(value: &Value, out: &mut impl fmt::Write) -> Result<(), Error> {
    match canonical(value) {
        Ok(json) => out.write_str(json.as_str()),
        Err(_) => write!(out, "{value}"), // an integer beyond 2^53, which is only shown here
    }
    .map_err(over_budget)
}

fn limit(what: &'static str, limit: u64) -> RenderError {
    RenderError::Limit { what, limit }
}

fn explain(template: &str, error: &Error) -> RenderError {
    let line = error.line().unwrap_or(1);
    let place = error.range().and_then(|range| template.get(range)).unwrap_or_default();
    match error.kind() {
        ErrorKind::OutOfFuel => limit("the work (instructions)", RENDER_FUEL),
        ErrorKind::UndefinedError => {
            let name = error.range().map_or(place, |range| whole_path(template, range));
            RenderError::Undefined { line, name: excerpt(name) }
        }
        kind => {
            let detail = error.detail().map(|detail| format!(": {}", excerpt(detail))).unwrap_or_default();
            let place = if place.is_empty() { String::new() } else { format!(" at `{}`", excerpt(place)) };
            RenderError::Template { line, what: format!("{kind}{detail}{place}") }
        }
    }
}

/// The engine names the last step of a path; the reader wants all of it.
fn whole_path(template: &str, range: Range<usize>) -> &str {
    let Some(before) = template.get(..range.start) else { return "" };
    let in_path = |character: char| character.is_alphanumeric() || "_.[]".contains(character);
    template.get(before.trim_end_matches(in_path).len()..range.end).unwrap_or_default()
}

fn excerpt(text: &str) -> String {
    match text.char_indices().nth(EXCERPT_CHARS) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};
    use serde_json::json;

    use super::*;

    fn values() -> Map<String, Value> {
        let values = json!({
            "todos": {"state": "executed", "result": {"count": 3, "matches": ["a", "b", {"k": [1.0]}]}},
            "name": "Ann", "nothing": null, "markup": "<b>&",
        });
        values.as_object().unwrap().clone()
    }

    fn check(template: &str, expected: Expect) {
        let found = match render(template, &values()) {
            Ok(text) => text,
            Err(error) => format!("error: {error}"),
        };
        expected.assert_eq(&found);
    }

    #[test]
    fn values_become_text() {
        check("# Report\n{{ todos.result.count }} open\n", expect!["# Report\n3 open\n"]);
        check("{{ markup }} {{ todos.result.matches | join(',') }}", expect![[r#"<b>& a,b,{"k":[1]}"#]]);
        check("{{ todos.result.matches[2] | tojson }}", expect![[r#"{"k":[1]}"#]]);
        check("{% if name == 'Ann' %}{{ name ~ '!' }}{% else %}?{% endif %}", expect!["Ann!"]);
        check("{% set n = todos.result.count %}{{ n * 2 + 1 }}", expect!["7"]);
        check(
            "{% for m in todos.result.matches if m is string %}{{ loop.index }}{{ m }} {% endfor %}",
            expect!["1a 2b "],
        );
        check("{{ missing is defined }} {{ missing | default('-') }}", expect!["false -"]);
        check("{{ name | replace('n', 'nn') | upper }}", expect!["ANNNN"]);
        check("{% raw %}{{ x }}{% macro %}{% endraw %}{{ '{%' }}", expect!["{{ x }}{% macro %}{%"]);
        check("{# {% macro #}{{ '}}' }}{ }", expect!["}}{ }"]);
        check("{% for i in range(3) %}{{ i }}{% endfor %}", expect!["012"]);
        check(
            "{{ todos }} {{ nothing }} {{ 1.0 }} {{ 2 ** 60 }} {{ 'x' if false }}",
            expect![[
                r#"{"result":{"count":3,"matches":["a","b",{"k":[1]}]},"state":"executed"} null 1 1152921504606846976 "#
            ]],
        );
        check("{{ todos.result | tojson }}", expect![[r#"{"count":3,"matches":["a","b",{"k":[1]}]}"#]]);
    }

    #[test]
    fn a_missing_value_is_named_with_its_place() {
        check(
            "line\n{{ todos.results.count }}",
            expect!["error: template, line 2: todos.results.count is not there"],
        );
        check("{{ missing }}", expect!["error: template, line 1: missing is not there"]);
        check("{% if missing %}x{% endif %}", expect!["error: template, line 1: missing is not there"]);
    }

    #[test]
    fn what_is_no_template_says_where() {
        check(
            "a\n\n{{ name",
            expect![
                "error: template, line 3: syntax error: unexpected end of input, expected end of variable block at `name`"
            ],
        );
        check(
            "{{ name | nonsense }}",
            expect!["error: template, line 1: unknown filter: filter nonsense is unknown at `nonsense`"],
        );
        check(
            "{% nonsense %}",
            expect![[
                r#"error: template, line 1: expected a statement of if, elif, else, endif, for, endfor, set, raw, endraw, found "nonsense""#
            ]],
        );
    }

    #[test]
    fn a_template_cannot_grow_without_bound() {
        check(
            "{% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}{% endfor %}",
            expect!["error: template: the work (instructions) is limited to 1000000"],
        );
        check(
            &"{{ 'x' * 3000000 }}".repeat(2),
            expect!["error: template: the result (bytes) is limited to 4194304"],
        );
        check(
            "{{ 'x' * 3000000000 }}",
            expect![
                "error: template, line 1: invalid operation: repeated string is too large at `'x' * 3000000000`"
            ],
        );
        check(
            "{{ ('x' * 3000000) | replace('x', 'xxxxxxxx') }}",
            expect![
                "error: template, line 1: invalid operation: a result is limited to 4194304 bytes at `replace('x', 'xxxxxxxx')`"
            ],
        );
        check(
            "{{ ['', 'x' * 3000000, ''] | join('x' * 3000000) }}",
            expect![
                "error: template, line 1: invalid operation: a result is limited to 4194304 bytes at `join('x' * 3000000)`"
            ],
        );
        check(
            "{% set a = name ~ name %}",
            expect![
                "error: template, line 1: set names a value that is there already, with filters: no operators, no lists"
            ],
        );
        check(
            "{% set a = [name, name] %}",
            expect![
                "error: template, line 1: set names a value that is there already, with filters: no operators, no lists"
            ],
        );
        check(
            "{% set a = name, name %}",
            expect![
                "error: template, line 1: set names a value that is there already, with filters: no operators, no lists"
            ],
        );
        check(
            "{% set a %}{{ name }}{% endset %}",
            expect!["error: template, line 1: set needs a value: `set name = value`"],
        );
        check(
            "{% for a in [[name, name]] %}{% endfor %}",
            expect![
                "error: template, line 1: for names a value that is there already, with filters: no operators, no lists"
            ],
        );
        check(
            "{% for a in todos recursive %}{{ loop(a) }}{% endfor %}",
            expect!["error: template, line 1: for loops are not recursive here"],
        );
        check(
            "{%- filter upper %}x{% endfilter %}",
            expect![[
                r#"error: template, line 1: expected a statement of if, elif, else, endif, for, endfor, set, raw, endraw, found "filter""#
            ]],
        );
        check(
            "{% with a = name %}{% endwith %}",
            expect![[
                r#"error: template, line 1: expected a statement of if, elif, else, endif, for, endfor, set, raw, endraw, found "with""#
            ]],
        );
        check(
            &format!("{{{{ name{} }}}}", " ~ name".repeat(9)),
            expect!["error: template, line 1: at most 8 of the operators ~ + * in one tag, found 9"],
        );
        check(
            "{{ namespace(a=1) }}",
            expect!["error: template, line 1: unknown function: namespace is unknown at `namespace(a=1)`"],
        );
        check(
            "{% set a = dict(x=name, y=name) %}",
            expect!["error: template, line 1: unknown function: dict is unknown at `dict(x=name, y=name)`"],
        );
        check(
            &format!("{{{{ [{}] }}}}", "todos,".repeat(33)),
            expect!["error: template, line 1: at most 32 commas in one tag, found 33"],
        );
        check("{{ [todos, todos] | map('tojson') | join | length }}", expect!["142"]);
        check(
            &"x".repeat(TEMPLATE_BYTES_MAX + 1),
            expect!["error: template: the template (bytes) is limited to 262144"],
        );
        check(
            &format!("{}{}", "{% if true %}".repeat(5000), "{% endif %}".repeat(5000)),
            expect![
                "error: template, line 1: syntax error: template exceeds maximum recursion limits at `if`"
            ],
        );
        check(
            &format!("{{{{ {}1{} }}}}", "(".repeat(240), ")".repeat(240)),
            expect![
                "error: template, line 1: syntax error: template exceeds maximum recursion limits at `(`"
            ],
        );
    }

    #[test]
    fn a_tag_ends_where_the_engine_ends_it() {
        let many = " ~ name".repeat(9);
        let tilde = "error: template, line 1: at most 8 of the operators ~ + * in one tag, found 9";
        for template in [
            format!("{{{{ {{\"a\": {{\"b\": 1}}}} and (name{many}) }}}}"),
            format!("{{{{ {{'a': {{'b': 1}}}}['a'] and (name{many}) }}}}"),
            format!("{{% if {{'a': {{}}}} and [1 %}} 2] or (name{many}) %}}{{% endif %}}")
                .replace("%} 2", "% 2"),
            format!("{{% raw %}}{{% endraw x %}}{{# {{% endraw %}}{{{{ name{many} }}}}{{# #}}"),
            format!("{{% raw %}}{{%-+endraw%}}{{# {{%- endraw -%}}{{{{ name{many} }}}}{{# #}}"),
        ] {
            assert_eq!(render(&template, &values()).unwrap_err().to_string(), tilde[7..], "{template}");
        }
        check("{{ {'a': {'b': 1}} }}", expect![[r#"{"a":{"b":1}}"#]]);
        check("{{ {'a': {'b': 1}}.a.b }}}}", expect!["1}}"]);
        check("{% raw %}{% endraw x %}{{%- endraw -%}", expect!["{% endraw x %}{"]);
    }

    #[test]
    fn what_filters_copy_is_bounded() {
        let text = "a ".repeat(RENDER_COPIES_BYTES_MAX / ITEM_BYTES / 2);
        let copied = |template: &str, text: &str| {
            render(template, json!({"x": text, "m": {"k": text}}).as_object().unwrap()).map(|text| text.len())
        };
        // Each character is an item; together they take all that there is.
        assert_eq!(copied("{{ x|list|length }}", &text), Ok(7));
        for (template, filter) in [
            ("{% set a = x|list %}{% set b = 'x'|list %}", "list"),
            ("{% for a in x|reverse %}{% for b in x|sort %}{% endfor %}{% endfor %}", "sort"),
            ("{{ x|split|length }}{{ x|split|length }}", "split"),
            ("{{ x|split(' ')|map('upper')|map('lower')|list|length }}", "map('upper')"),
            ("{{ [x, x, x, x]|map('upper')|length }}{{ x|unique }}", "unique"),
        ] {
            let error = copied(template, &text).unwrap_err().to_string();
            let expected =
                format!("what filters copy is limited to {RENDER_COPIES_BYTES_MAX} bytes at `{filter}");
            assert!(error.contains(&expected), "{template}: {error}");
        }
        let upper = "{% set a = m.k|upper|lower|trim|title|capitalize|string|e %}".repeat(6);
        assert!(copied(&upper, &text).unwrap_err().to_string().contains("what filters copy is limited"));
        check("{{ [1, 2]|sum }} {{ [1]|sum(start=4) }}", expect!["3 5"]);
        check(
            "{{ ['a']|sum(start='') }}",
            expect![
                "error: template, line 1: invalid operation: sum starts from a number at `sum(start='')`"
            ],
        );
    }

    #[test]
    fn what_a_template_holds_at_once_is_bounded() {
        let loops =
            |depth: usize| format!("{}{}", "{% for c in name %}".repeat(depth), "{% endfor %}".repeat(depth));
        check(&loops(bounds::FOR_NESTING_MAX), expect![""]);
        check(&loops(1).repeat(20), expect![""]);
        check(
            &loops(bounds::FOR_NESTING_MAX + 1),
            expect!["error: template, line 1: at most 8 for loops within one another, found 9"],
        );
        let elifs = |count: usize| {
            format!("{{% if name == 1 %}}{}{{% endif %}}", "{% elif name == 1 %}".repeat(count))
        };
        check(&elifs(bounds::ELIFS_MAX), expect![""]);
        check(
            &elifs(bounds::ELIFS_MAX + 1),
            expect!["error: template, line 1: at most 250 elif tags in a template, found 251"],
        );
        check(&"{% set a = name %}".repeat(bounds::SETS_MAX), expect![""]);
        check(
            &"{% set a = name %}".repeat(bounds::SETS_MAX + 1),
            expect!["error: template, line 1: at most 64 set tags in a template, found 65"],
        );
    }

    /// The engine would go as deep as these are long, and end its process.
    #[test]
    fn what_goes_deep_without_brackets_is_bounded() {
        let values = json!({"a": 1, "no": false});
        let chain = |words: usize| format!("{{{{ a{} }}}}", ".b".repeat((words - 1) / 2));
        for (template, refused) in [
            (format!("{{% if no %}}{}{{% endif %}}", chain(bounds::WORDS_MAX - 1)), false),
            (chain(bounds::WORDS_MAX + 1), true),
            (chain(100_000), true),
            (format!("{{{{ {}a }}}}", "-".repeat(40_000)), true),
            (format!("{{{{ a{} }}}}", "|e".repeat(40_000)), true),
            (format!("{{{{ a{} }}}}", " and a".repeat(12_000)), true),
            (format!("{{% if no %}}{}{{% endif %}}", "{% elif no %}".repeat(6_000)), true),
        ] {
            let values = values.as_object().unwrap();
            let tail = &template[template.len() - 20..];
            assert_eq!(check_template(&template).is_err(), refused, "{tail}");
            assert_eq!(render(&template, values).is_err(), refused, "{tail}");
            assert!(check_paths(&template, &|_| true).is_ok() && check_values(&template, &|_| true).is_ok());
        }
    }

    #[test]
    fn values_are_bounded_too() {
        let values = json!({"text": "x".repeat(RENDER_VALUES_BYTES_MAX)});
        let error = render("{{ 1 }}", values.as_object().unwrap()).unwrap_err();
        assert_eq!(error, limit("the values (bytes)", RENDER_VALUES_BYTES_MAX as u64));
    }

    #[test]
    fn a_check_finds_faults_without_values() {
        assert_eq!(check_template("{{ unknown.name }}"), Ok(()));
        assert!(check_template("{{ unknown.name").is_err());
        assert!(check_template("{% include 'x' %}").is_err());
    }

    #[test]
    fn a_check_knows_every_filter_test_and_function() {
        for (template, unknown) in [
            ("{{ a | upper }} {{ a|join(', ')|length }} {{ a.b[0] | default('|nope') }}", None),
            ("{% for i in range(3) %}{{ loop.cycle('a', 'b') }}{% endfor %}", None),
            ("{% if (a) and not (b) or (c is defined) %}{% elif (d) %}{% endif %}", None),
            ("{% set f = range %}{{ f(3) }} {{ a if (b) else (c) }} {{ a in (b) }}", None),
            ("{{ a is not divisibleby(3) }}{% raw %}{{ a | nope }}{% endraw %}{# | nope #}", None),
            ("{{ a | map('tojson') | list }} {{ a == '| nope' }} {{ a is odd or b is even }}", None),
            ("a\n{{ a | uper }}", Some("line 2: there is no filter uper: did you mean upper?")),
            ("{% if false %}{{ a|nope|upper }}{% endif %}", Some("line 1: there is no filter nope")),
            (
                "{% for i in a | sorted %}{% endfor %}",
                Some("line 1: there is no filter sorted: did you mean sort?"),
            ),
            ("{{ a is not nope }}", Some("line 1: there is no test nope")),
            ("{{ 1 + rnge (3) }}", Some("line 1: there is no function rnge")),
            ("{{ dict(a=1) }}", Some("line 1: there is no function dict")),
            ("{{ a | indent(2) }}", Some("line 1: there is no filter indent")),
        ] {
            let found = check_template(template).map_err(|error| error.to_string()).err();
            assert_eq!(
                found.as_deref(),
                unknown.map(|what| format!("template, {what}")).as_deref(),
                "{template}"
            );
        }
    }
}
