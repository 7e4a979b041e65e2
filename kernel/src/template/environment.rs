//! The template engine without unbounded functions, and with filters that charge results to a budget.

use std::fmt::{self, Write as _};
use std::sync::LazyLock;

use minijinja::syntax::SyntaxConfig;
use minijinja::value::{Kwargs, Rest, ValueKind, ValueOrKwargs, from_args};
use minijinja::{Environment, Error, ErrorKind, State, UndefinedBehavior, Value as Engine, filters};
use serde_json::Value;

use super::render::{RENDER_BYTES_MAX, RENDER_COPIES_BYTES_MAX, RENDER_FUEL};
use crate::json::{MAX_DEPTH, canonical};

/// Accounted bytes per list item.
pub(super) const ITEM_BYTES: usize = 32;

/// Engine filters with results out of proportion to their input.
const UNBOUNDED_FILTERS: [&str; 7] = ["batch", "chain", "format", "indent", "pprint", "slice", "zip"];

/// Functions that build values from values or expose engine internals.
const UNBOUNDED_FUNCTIONS: [&str; 3] = ["debug", "dict", "namespace"];

/// Shared environment of all renderings; cloning copies references only.
pub(super) static ENVIRONMENT: LazyLock<Environment<'static>> = LazyLock::new(|| {
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
        join(&items, &joiner.unwrap_or_default(), budget(state))
    });
    environment.add_filter("replace", |state: &mut State<'_, '_>, text: String, from: String, to: String| {
        replace(&text, &from, &to, budget(state))
    });
    environment.add_filter("tojson", |state: &mut State<'_, '_>, value: Engine| {
        let mut text = BudgetedText { text: String::new(), budget: budget(state) };
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

#[derive(Debug, Clone, Copy)]
enum Copies {
    /// A text.
    Text,
    /// A list of the input's items, or of a text's characters.
    Items,
    /// A list of parts of a text.
    Parts,
}

/// Engine filters with results as large as their input.
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

/// Calls a filter and charges the copied bytes.
fn copy(
    filter: &Engine,
    copies: Copies,
    state: &mut State<'_, '_>,
    args: &[Engine],
) -> Result<Engine, Error> {
    let text = |value: &Engine| value.as_str().map_or(0, str::len);
    let items = |value: &Engine| value.len().unwrap_or(0).saturating_mul(ITEM_BYTES);
    match (copies, args.first()) {
        (Copies::Items, Some(given)) => charge_copy(items(given), budget(state))?,
        (Copies::Parts, Some(given)) => charge_copy(text(given), budget(state))?,
        (Copies::Text, _) | (_, None) => {}
    }
    let result = filter.call(state, args)?;
    match copies {
        Copies::Text => charge_copy(text(&result), budget(state))?,
        Copies::Parts => charge_copy(items(&result), budget(state))?,
        Copies::Items => {}
    }
    Ok(result)
}

/// Sums numbers only. The engine would concatenate texts and lists, in quadratic time.
fn sum(state: &mut State<'_, '_>, args: &[Engine]) -> Result<Engine, Error> {
    let (given, named): (&[Engine], Kwargs) = from_args(args)?;
    let start = given.get(2).cloned().or(named.get("start")?);
    if start.is_some_and(|start| !start.is_number()) {
        return Err(refused("sum needs a number as start"));
    }
    Engine::from_function(filters::sum).call(state, args)
}

/// Bytes built and copied by the filters of one rendering.
#[derive(Default)]
struct FilterBudget {
    bytes: usize,
    copies_bytes: usize,
}

fn budget<'a>(state: &'a mut State<'_, '_>) -> &'a mut FilterBudget {
    state.get_or_insert_extension_with(FilterBudget::default)
}

fn syntax() -> SyntaxConfig {
    SyntaxConfig::builder().keep_trailing_newline(true).build().expect("the usual delimiters are fine")
}

fn refused(error: impl std::fmt::Display) -> Error {
    Error::new(ErrorKind::InvalidOperation, error.to_string())
}

struct BudgetedText<'a> {
    text: String,
    budget: &'a mut FilterBudget,
}

impl fmt::Write for BudgetedText<'_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        charge(text.len(), self.budget).map_err(|_| fmt::Error)?;
        self.text.push_str(text);
        Ok(())
    }
}

/// Charges bytes before a filter builds them.
fn charge(bytes: usize, budget: &mut FilterBudget) -> Result<(), Error> {
    budget.bytes = budget.bytes.saturating_add(bytes);
    if budget.bytes <= RENDER_BYTES_MAX { Ok(()) } else { Err(over_budget(fmt::Error)) }
}

/// Charges bytes copied by a filter.
fn charge_copy(bytes: usize, budget: &mut FilterBudget) -> Result<(), Error> {
    budget.copies_bytes = budget.copies_bytes.saturating_add(bytes);
    if budget.copies_bytes <= RENDER_COPIES_BYTES_MAX {
        return Ok(());
    }
    Err(refused(format_args!("filters may copy at most {RENDER_COPIES_BYTES_MAX} bytes")))
}

fn over_budget(_: fmt::Error) -> Error {
    refused(format_args!("a result is limited to {RENDER_BYTES_MAX} bytes"))
}

fn join(items: &Engine, joiner: &str, budget: &mut FilterBudget) -> Result<String, Error> {
    let mut joined = BudgetedText { text: String::new(), budget };
    for (index, item) in items.try_iter()?.enumerate() {
        if index > 0 {
            joined.write_str(joiner).map_err(over_budget)?;
        }
        write_text(&item, &mut joined)?;
    }
    Ok(joined.text)
}

fn replace(text: &str, from: &str, to: &str, budget: &mut FilterBudget) -> Result<String, Error> {
    let grown = text.matches(from).count().saturating_mul(to.len());
    charge(text.len().saturating_add(grown), budget)?;
    Ok(text.replace(from, to))
}

/// Writes a string as is, an undefined value as nothing, any other value as JSON.
fn write_text(value: &Engine, out: &mut impl fmt::Write) -> Result<(), Error> {
    match value.as_str() {
        Some(text) => out.write_str(text).map_err(over_budget),
        None if value.is_undefined() => Ok(()),
        None => write_json(value, MAX_DEPTH, out),
    }
}

/// Writes a value as JSON piecewise, so that the bound of `out` stops the writing.
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
