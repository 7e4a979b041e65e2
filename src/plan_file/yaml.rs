//! YAML 1.2 reader: `on`, `yes` and `no` are texts, and aliases have a budget.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::panic::resume_unwind;
use std::thread::Builder;

use serde::de::{Deserialize, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::Number;
use serde_saphyr::budget::BudgetBreach;
use serde_saphyr::granit_parser::{Event, Parser, ScalarStyle, Span};
use serde_saphyr::{Location, Options, Spanned};

use super::data::{
    Data, Entry, Located, PLAN_FILE_DEPTH_MAX, PLAN_FILE_VALUES_MAX, SyntaxError, SyntaxErrorKind,
};

/// Most values repeated by aliases.
pub const YAML_REPEATED_MAX: usize = 50_000;

/// Stack for the deepest file: an unoptimised build takes 30 KB for each of the levels, and a thread may have 2 MB in all.
const STACK_BYTES: usize = 8 << 20;

pub(super) fn read(text: &str) -> Result<Located, SyntaxError> {
    let lines = Lines::of(text);
    let plain = plain_texts(text);
    let parse = || -> Result<Spanned<Parsed>, SyntaxError> {
        serde_saphyr::from_str_with_options(text, options()).map_err(|error| {
            let at = error.location().map(|location| lines.place(location));
            lines.explained(SyntaxError { at, kind: error_kind(error.without_snippet()) })
        })
    };
    let root = std::thread::scope(|scope| {
        let parser = Builder::new().stack_size(STACK_BYTES).spawn_scoped(scope, parse);
        let parser = parser.map_err(|error| SyntaxError {
            at: None,
            kind: SyntaxErrorKind::other(format!("the system gives no thread to read the file: {error}")),
        })?;
        parser.join().unwrap_or_else(|panicked| resume_unwind(panicked))
    })?;
    Ok(located(root, &lines, &plain))
}

fn options() -> Options {
    let budget = serde_saphyr::budget! {
        max_depth: PLAN_FILE_DEPTH_MAX + 1,
        max_events: 2 * PLAN_FILE_VALUES_MAX,
        max_nodes: PLAN_FILE_VALUES_MAX,
        max_documents: 1,
    };
    let alias_limits = serde_saphyr::alias_limits! { max_total_replayed_events: YAML_REPEATED_MAX };
    serde_saphyr::options! {
        budget: budget,
        alias_limits: alias_limits,
        strict_booleans: true,
        with_snippet: false,
    }
}

fn plain_texts(text: &str) -> BTreeSet<usize> {
    if !text.contains("${") {
        return BTreeSet::new();
    }
    plain_scalars(text, |value, is_tagged| !is_tagged && value.contains("${"))
        .map(|(start, _)| start)
        .collect()
}

/// Start and end of every plain scalar, keys included.
pub(super) fn unquoted(text: &str) -> BTreeMap<usize, usize> {
    plain_scalars(text, |_, _| true).collect()
}

/// Start and end of plain scalars accepted by `is_wanted`, called with the value and whether a tag is
/// present.
fn plain_scalars(text: &str, is_wanted: impl Fn(&str, bool) -> bool) -> impl Iterator<Item = (usize, usize)> {
    let plain = move |(event, span): (Event<'_>, Span)| match event {
        Event::Scalar(value, ScalarStyle::Plain, _, tag) if is_wanted(&value, tag.is_some()) => {
            span.byte_range().map(|range| (range.start, range.end))
        }
        _ => None,
    };
    Parser::new_from_str(text).map_while(Result::ok).filter_map(plain)
}

/// Translates a parser error into the words of plan files.
fn error_kind(error: &serde_saphyr::Error) -> SyntaxErrorKind {
    match error {
        serde_saphyr::Error::Budget { breach, .. } => match breach {
            BudgetBreach::Depth { .. } => SyntaxErrorKind::TooDeep,
            BudgetBreach::Documents { .. } => SyntaxErrorKind::other(
                "the file has a second document: remove everything from the next --- on",
            ),
            BudgetBreach::Events { .. } | BudgetBreach::Nodes { .. } => SyntaxErrorKind::TooMany,
            BudgetBreach::Anchors { .. } => {
                SyntaxErrorKind::other("the file has too many anchors: use fewer &NAME")
            }
            BudgetBreach::Aliases { .. } | BudgetBreach::AliasAnchorRatio { .. } => {
                SyntaxErrorKind::other("the file has too many aliases: use fewer *NAME")
            }
            _ => SyntaxErrorKind::other("the file is too large"),
        },
        serde_saphyr::Error::NonFiniteFloat { .. } => {
            SyntaxErrorKind::other("expected a finite number: JSON has no infinity and no NaN")
        }
        error => match first_line(&error.to_string()) {
            message if message == TOO_DEEP => SyntaxErrorKind::TooDeep,
            // Own errors pass through the parser as text.
            message if message == SyntaxErrorKind::TooBig.to_string() => SyntaxErrorKind::TooBig,
            message if message.starts_with(TOO_OFTEN) => {
                SyntaxErrorKind::other(format!("aliases (*NAME) repeat more than {YAML_REPEATED_MAX} values"))
            }
            message => SyntaxErrorKind::other(message),
        },
    }
}

const TOO_DEEP: &str = "recursion limit exceeded";

const TOO_OFTEN: &str = "alias replay limit exceeded";

fn first_line(text: &str) -> String {
    let line = text.lines().next().unwrap_or("not YAML");
    let line = line.split(" at line ").next().unwrap_or(line).trim_end_matches('.');
    let twice = line.strip_prefix("duplicate mapping key: ").and_then(|rest| rest.split(", set ").next());
    twice.map_or_else(|| line.to_owned(), |key| format!("duplicate key {key:?}"))
}

const TABS: [&str; 5] = [
    "while scanning a plain scalar, found a tab",
    "tabs disallowed within this context",
    "tabs disallowed in this context",
    "tab cannot be used as indentation",
    "a block scalar content cannot start with a tab",
];

/// Parser message for a block that ends early; a tab in a multi-line text causes the same message.
const BLOCK_ENDS: &str = "while parsing a block ";

/// Parser message for content behind the end of the document.
const OVER: &str = "did not find expected <document start>";

const TAB: &str = "a tab in the indentation";

/// Parser message for a list or map as a key.
const NO_KEY: &str = "expected string scalar";

const COLON: &str = "mapping values are not allowed in this context";

const NO_BEGINNING: &str = "unexpected character: ";

/// Start offsets of lines, to convert line and column to bytes.
struct Lines<'a> {
    text: &'a str,
    starts: Vec<usize>,
}

impl Lines<'_> {
    fn of(text: &str) -> Lines<'_> {
        let starts = std::iter::once(0).chain(text.match_indices('\n').map(|(at, _)| at + 1)).collect();
        Lines { text, starts }
    }

    /// Adds the cause and help to parser errors that only describe the parser's state.
    fn explained(&self, refused: SyntaxError) -> SyntaxError {
        let (Some(at), SyntaxErrorKind::Other { what, .. }) = (refused.at, &refused.kind) else {
            return refused;
        };
        if !self.text.is_char_boundary(at) {
            return refused;
        }
        let explained_as = |what: &str, help: &'static str| SyntaxError {
            at: Some(at),
            kind: SyntaxErrorKind::Other { what: what.to_owned(), help },
        };
        let (before, after) = self.text.split_at(at);
        let line = &before[before.rfind('\n').map_or(0, |end| end + 1)..];
        let from = at - line.len();
        let tab = match what.as_str() {
            what if TABS.iter().any(|tab| what.starts_with(tab)) => self.indenting_tab(from).or(refused.at),
            what if what.starts_with(BLOCK_ENDS) => self.tab_of(from),
            // The parser counts a tab as one column, whatever its width.
            COLON if !line.contains(": ") => self.line_before(from).and_then(|start| self.tab_of(start)),
            _ => None,
        };
        if tab.is_some() {
            return SyntaxError { at: tab, ..explained_as(TAB, "indent with spaces") };
        }
        match what.as_str() {
            OVER => match self.first_further_in(from) {
                Some(first) => {
                    let tab = self.tab_of(first);
                    let what = tab.map_or("the first line is indented further than those after it", |_| TAB);
                    let at = tab.unwrap_or(first + self.blanks(first).len());
                    SyntaxError { at: Some(at), ..explained_as(what, "align it with the lines after it") }
                }
                None => refused,
            },
            NO_KEY if after.starts_with('{') && before.ends_with('{') => {
                explained_as("a map in place of a key", "put a text with {{ … }} in quotes")
            }
            _ if after.starts_with('{') && before.ends_with('$') => explained_as(
                "a parameter in a map in braces ends the map",
                "put it in quotes, such as {path: \"${dir}\"}; for a number or true or false, write the map without \
                 braces, a key on each line, such as count: ${n}",
            ),
            COLON if line.contains(": ") => {
                explained_as("a second colon in one line", "put a text with a colon in quotes")
            }
            COLON => explained_as(
                "a key inside the text before it",
                "indent it like the other keys of its map, or put a text with a colon in quotes",
            ),
            what if what.starts_with(NO_BEGINNING) => {
                explained_as(what, "put a text that starts like this in quotes")
            }
            _ => refused,
        }
    }

    /// Leading blanks of the line starting at `start`.
    fn blanks(&self, start: usize) -> &str {
        let rest = &self.text[start..];
        &rest[..rest.len() - rest.trim_start_matches([' ', '\t']).len()]
    }

    /// First tab in the indentation of the line starting at `start`.
    fn tab_of(&self, start: usize) -> Option<usize> {
        self.blanks(start).find('\t').map(|tab| start + tab)
    }

    /// First tab in any indentation, from the line at `from` on.
    fn indenting_tab(&self, from: usize) -> Option<usize> {
        self.starts.iter().filter(|&&start| start >= from).find_map(|&start| self.tab_of(start))
    }

    /// Start of the last `key: value` line before the line at `from`, with only blank lines between.
    fn line_before(&self, from: usize) -> Option<usize> {
        let lines = self.starts.iter().rev().map(|&start| (start, self.line(start)));
        let mut filled = lines.filter(|(start, line)| *start < from && !line.trim().is_empty());
        filled.next().filter(|(_, line)| line.contains(": ")).map(|(start, _)| start)
    }

    /// Start of the first content line, if that line precedes `from` and is indented further.
    fn first_further_in(&self, from: usize) -> Option<usize> {
        let is_filled = |&start: &usize| {
            let line = self.line(start).trim();
            !line.is_empty() && !line.starts_with(['#', '%']) && line != "---"
        };
        let first = self.starts.iter().copied().find(is_filled)?;
        (first < from && self.blanks(first).len() > self.blanks(from).len()).then_some(first)
    }

    fn line(&self, start: usize) -> &str {
        self.text[start..].lines().next().unwrap_or_default()
    }

    fn place(&self, location: Location) -> usize {
        if let Some(at) = location.span().byte_offset() {
            return (at as usize).min(self.text.len());
        }
        let line = (location.line() as usize).saturating_sub(1).min(self.starts.len() - 1);
        let column = (location.column() as usize).saturating_sub(1);
        let start = self.starts[line];
        let line = &self.text[start..];
        start + line.char_indices().nth(column).map_or(line.len(), |(at, _)| at)
    }
}

enum Parsed {
    Plain(Data),
    List(Vec<Spanned<Parsed>>),
    Map(Vec<(Spanned<String>, Spanned<Parsed>)>),
}

/// Converts parser output to located data. An aliased value has the offset of the alias, and the style of the
/// anchored value.
fn located(read: Spanned<Parsed>, lines: &Lines<'_>, plain: &BTreeSet<usize>) -> Located {
    let data = match read.value {
        Parsed::Plain(data) => data,
        Parsed::List(items) => {
            Data::List(items.into_iter().map(|item| located(item, lines, plain)).collect())
        }
        Parsed::Map(entries) => Data::Map(
            entries
                .into_iter()
                .map(|(key, value)| Entry {
                    key: key.value,
                    key_at: lines.place(key.referenced),
                    located: located(value, lines, plain),
                })
                .collect(),
        ),
    };
    Located { at: lines.place(read.referenced), plain: plain.contains(&lines.place(read.defined)), data }
}

fn number_of<E: Error>(number: Number) -> Result<Parsed, E> {
    Data::number(number).map(Parsed::Plain).map_err(E::custom)
}

impl<'de> Deserialize<'de> for Parsed {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Parsed, D::Error> {
        struct Any;
        impl<'de> Visitor<'de> for Any {
            type Value = Parsed;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("data")
            }

            fn visit_unit<E: Error>(self) -> Result<Parsed, E> {
                Ok(Parsed::Plain(Data::Null))
            }

            fn visit_none<E: Error>(self) -> Result<Parsed, E> {
                Ok(Parsed::Plain(Data::Null))
            }

            fn visit_some<D: Deserializer<'de>>(self, inner: D) -> Result<Parsed, D::Error> {
                Parsed::deserialize(inner)
            }

            fn visit_bool<E: Error>(self, flag: bool) -> Result<Parsed, E> {
                Ok(Parsed::Plain(Data::Bool(flag)))
            }

            fn visit_i64<E: Error>(self, number: i64) -> Result<Parsed, E> {
                number_of(number.into())
            }

            fn visit_u64<E: Error>(self, number: u64) -> Result<Parsed, E> {
                number_of(number.into())
            }

            fn visit_f64<E: Error>(self, number: f64) -> Result<Parsed, E> {
                let finite =
                    Number::from_f64(number).ok_or_else(|| E::custom("a number that is not finite"))?;
                number_of(finite)
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<Parsed, E> {
                Ok(Parsed::Plain(Data::Text(text.to_owned())))
            }

            fn visit_string<E: Error>(self, text: String) -> Result<Parsed, E> {
                Ok(Parsed::Plain(Data::Text(text)))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Parsed, A::Error> {
                let mut list = Vec::new();
                while let Some(item) = items.next_element()? {
                    list.push(item);
                }
                Ok(Parsed::List(list))
            }

            fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Parsed, A::Error> {
                let mut map = Vec::new();
                while let Some(entry) = entries.next_entry()? {
                    map.push(entry);
                }
                Ok(Parsed::Map(map))
            }
        }
        deserializer.deserialize_any(Any)
    }
}

#[cfg(test)]
mod tests;
