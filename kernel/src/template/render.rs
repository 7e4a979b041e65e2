//! Bounded rendering of templates (minijinja).

use std::collections::BTreeSet;
use std::io;
use std::ops::Range;

use minijinja::value::Serde;
use minijinja::{Environment, Error, ErrorKind, Template, Value as Engine};
use serde_json::{Map, Value};

use super::bounds;
use super::environment::ENVIRONMENT;
use super::names::{self, NameChecker, SUGGESTION};
use crate::json::measure;

/// Longest template, in bytes.
pub const TEMPLATE_BYTES_MAX: usize = 256 * 1024;

/// Largest values, in bytes of canonical JSON.
pub const RENDER_VALUES_BYTES_MAX: usize = 8 * 1024 * 1024;

/// Largest result, in bytes. The filters `join`, `replace` and `tojson` may build as many bytes again, in
/// all.
pub const RENDER_BYTES_MAX: usize = 4 * 1024 * 1024;

/// Most bytes copied by the other filters of one rendering: texts, and 32 bytes per list item.
pub const RENDER_COPIES_BYTES_MAX: usize = 64 * 1024 * 1024;

/// Most instructions of one rendering.
pub const RENDER_FUEL: u64 = 1_000_000;

/// Longest excerpt of a template in a message, in characters.
const EXCERPT_CHARS: usize = 80;

/// Reason for a failed rendering or check.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RenderError {
    /// Invalid or forbidden template code.
    #[error("template, line {line}: {what}")]
    Template {
        /// Line, from 1.
        line: usize,
        /// The problem.
        what: String,
    },
    /// The template reads a missing value.
    #[error("template, line {line}: {name} does not exist")]
    Undefined {
        /// Line, from 1.
        line: usize,
        /// Path in the template.
        name: String,
    },
    /// A limit was reached.
    #[error("template: {what} is limited to {limit}")]
    Limit {
        /// The limited quantity with its unit.
        what: &'static str,
        /// The limit.
        limit: u64,
    },
}

/// A template error for the author.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TemplateError {
    /// The problem, with its line.
    pub what: String,
    /// Suggested fix.
    pub help: String,
    /// Line, from 1; `None` for the whole template.
    pub line: Option<usize>,
}

impl From<RenderError> for TemplateError {
    fn from(error: RenderError) -> TemplateError {
        let told = error.to_string().replacen("template, ", "", 1);
        let (what, help) = match told.rsplit_once(SUGGESTION) {
            Some((what, meant)) => (what.to_owned(), format!("did you mean {meant}")),
            None => (told, "use minijinja syntax: {{ value }}, {% if … %}".to_owned()),
        };
        let line = match error {
            RenderError::Template { line, .. } | RenderError::Undefined { line, .. } => Some(line),
            RenderError::Limit { .. } => None,
        };
        TemplateError { what, help, line }
    }
}

/// Checks that a template reads no value outside `is_there`. Accepts invalid templates.
///
/// ```
/// use ostler_kernel::template::check_values;
/// assert!(check_values("{% for n in a.result.list %}{{ n }}{% endfor %}", &|name| name == "a").is_ok());
/// let error = check_values("{{ a.state }}\n{{ b.state }}", &|name| name == "a").unwrap_err();
/// assert_eq!(error.to_string(), "template, line 2: b does not exist");
/// ```
///
/// # Errors
///
/// [`RenderError::Undefined`] with the first such value.
pub fn check_values(template: &str, is_there: &dyn Fn(&str) -> bool) -> Result<(), RenderError> {
    let environment: Environment<'_> = ENVIRONMENT.clone();
    let Ok(compiled) = compiled(&environment, template) else { return Ok(()) };
    let mut taken: BTreeSet<String> = compiled.undeclared_variables(false).into_iter().collect();
    taken.retain(|name| !is_there(name) && environment.globals().all(|(global, _)| global != name));
    if taken.is_empty() {
        return Ok(());
    }
    let first = |code: &str| names::first_value(code, &taken).map_or(Ok(()), |name| Err(name.to_owned()));
    let (line, name) = match bounds::check(template, &mut { first }) {
        Err((line, name)) if taken.contains(&name) => (line, name),
        _ => (1, taken.first().cloned().unwrap_or_default()),
    };
    Err(RenderError::Undefined { line, name: excerpt(&name) })
}

/// Checks that a template reads no path outside `is_there`, called with paths such as `a.result.count`.
/// Accepts invalid templates, names bound by the template, and templates that test for existence (`default`,
/// `is defined`).
///
/// ```
/// use ostler_kernel::template::check_paths;
/// let is_there = |path: &str| path != "a.result.cuont";
/// let error = check_paths("{{ a.state }}\n{{ a.result.cuont }}", &is_there).unwrap_err();
/// assert_eq!(error.to_string(), "template, line 2: a.result.cuont does not exist");
/// assert!(check_paths("{{ a.result.cuont | default(0) }}", &is_there).is_ok());
/// ```
///
/// # Errors
///
/// [`RenderError::Undefined`] with the first such path.
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
        asks |= names::tests_existence(code);
        named.extend(names::bound_names(code));
        Ok(())
    };
    if bounds::check(template, &mut look).is_err() || asks {
        return Ok(());
    }
    taken.retain(|path| path.split('.').next().is_some_and(|name| !named.contains(name)));
    let first = |code: &str| names::first_path(code, &taken).map_or(Ok(()), Err);
    match bounds::check(template, &mut { first }) {
        Ok(()) => Ok(()),
        Err((line, path)) => Err(RenderError::Undefined { line, name: excerpt(&path) }),
    }
}

/// Checks a template without values: syntax, bounds, and the names of filters, tests and functions.
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
    let mut names = NameChecker::of(&environment);
    bounds::check(template, &mut |code| names.check(code))
        .map_err(|(line, what)| RenderError::Template { line, what })
}

/// Renders a template over values. A missing value is an error, never an empty text.
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
    let mut text = BoundedOutput { bytes: Vec::new(), full: false };
    match compiled.render_captured_to(Engine::from(Serde(values)), &mut text) {
        Ok(_) => Ok(String::from_utf8(text.bytes).expect("a template writes whole strings")),
        Err(_) if text.full => Err(limit("the result (bytes)", RENDER_BYTES_MAX as u64)),
        Err(error) => Err(explain(template, &error)),
    }
}

/// Compiles a template after checking the bounds; the engine would recurse without limit on some inputs.
pub(super) fn compiled<'e>(
    environment: &'e Environment<'_>,
    template: &'e str,
) -> Result<Template<'e, 'e>, RenderError> {
    bounds::check(template, &mut |_| Ok(())).map_err(|(line, what)| RenderError::Template { line, what })?;
    environment.template_from_str(template).map_err(|error| explain(template, &error))
}

/// Collects the result up to the limit.
struct BoundedOutput {
    bytes: Vec<u8>,
    full: bool,
}

impl io::Write for BoundedOutput {
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

/// Extends the engine's range, the last step of a path, to the whole path.
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
mod tests;
