//! Templates of reports and prompts (minijinja), with every bound named.

use std::collections::BTreeSet;
use std::io;
use std::ops::Range;

use minijinja::value::Serde;
use minijinja::{Environment, Error, ErrorKind, Template, Value as Engine};
use serde_json::{Map, Value};

use super::bounds;
use super::environment::ENVIRONMENT;
use super::names::{self, SUGGESTION, NameChecker};
use crate::json::measure;

/// Longest template, in bytes.
pub const TEMPLATE_BYTES_MAX: usize = 256 * 1024;

/// Largest values, in bytes of canonical JSON.
pub const RENDER_VALUES_BYTES_MAX: usize = 8 * 1024 * 1024;

/// Largest result, in bytes. The filters `join`, `replace` and `tojson` may build as much again, in all.
pub const RENDER_BYTES_MAX: usize = 4 * 1024 * 1024;

/// Most bytes that the other filters of one rendering may copy, in all: texts, and 32 bytes for each item of a list.
pub const RENDER_COPIES_BYTES_MAX: usize = 64 * 1024 * 1024;

/// Most instructions of one rendering.
pub const RENDER_FUEL: u64 = 1_000_000;

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
pub struct TemplateError {
    /// What is wrong, with its line.
    pub what: String,
    /// What would mend it.
    pub help: String,
    /// Where, from 1, if it is one line.
    pub line: Option<usize>,
}

impl From<RenderError> for TemplateError {
    fn from(error: RenderError) -> TemplateError {
        let told = error.to_string().replacen("template, ", "", 1);
        let (what, help) = match told.rsplit_once(SUGGESTION) {
            Some((what, meant)) => (what.to_owned(), format!("did you mean {meant}")),
            None => (told, "write {{ value }} and {% if … %}, as minijinja has them".to_owned()),
        };
        let line = match error {
            RenderError::Template { line, .. } | RenderError::Undefined { line, .. } => Some(line),
            RenderError::Limit { .. } => None,
        };
        TemplateError { what, help, line }
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
    let mut names = NameChecker::of(&environment);
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
    let mut text = BoundedOutput { bytes: Vec::new(), full: false };
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
mod tests;
