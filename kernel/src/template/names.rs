//! Static check that filters, tests and functions of a template exist. The engine would only report an
//! unknown name on evaluation.

use std::collections::BTreeSet;

use minijinja::{Environment, ErrorKind};

use crate::plan::nearest;

/// Keywords before a parenthesis that opens a group, not a call.
const WORDS: [&str; 10] = ["and", "elif", "else", "for", "if", "in", "is", "not", "or", "set"];

const FILTERS: [&str; 36] = [
    "abs",
    "attr",
    "bool",
    "capitalize",
    "default",
    "dictsort",
    "escape",
    "first",
    "float",
    "groupby",
    "int",
    "items",
    "join",
    "last",
    "length",
    "lines",
    "list",
    "lower",
    "map",
    "max",
    "min",
    "reject",
    "replace",
    "reverse",
    "round",
    "select",
    "selectattr",
    "sort",
    "split",
    "string",
    "sum",
    "title",
    "tojson",
    "trim",
    "unique",
    "upper",
];

const LETTERS_COMPARED_MAX: usize = 10_000;

pub(super) const SUGGESTION: &str = ": did you mean ";

/// First value in a tag among `names`.
pub(super) fn first_value<'a>(code: &'a str, names: &BTreeSet<String>) -> Option<&'a str> {
    let words = words(code);
    let is_value = |at: usize| at == 0 || !matches!(words[at - 1], "." | "|");
    (0..words.len()).find(|&at| is_value(at) && names.contains(words[at])).map(|at| words[at])
}

/// First full path in a tag among `paths`; a path ends at the first step that is no name.
pub(super) fn first_path(code: &str, paths: &BTreeSet<String>) -> Option<String> {
    let words = words(code);
    let is_name = |at: usize| {
        let in_front = |first: char| first.is_alphabetic() || first == '_';
        words.get(at).is_some_and(|word| word.starts_with(in_front))
    };
    let is_value = |at: usize| is_name(at) && (at == 0 || !matches!(words[at - 1], "." | "|"));
    let whole = |mut at: usize| {
        let mut path = words[at].to_owned();
        while words.get(at + 1) == Some(&".") && is_name(at + 2) {
            at += 2;
            path.push('.');
            path.push_str(words[at]);
        }
        path
    };
    (0..words.len()).filter(|&at| is_value(at)).map(whole).find(|path| paths.contains(path))
}

/// Returns whether a tag tests a value (`is …`) or has a `default` for a missing one.
pub(super) fn tests_existence(code: &str) -> bool {
    words(code).windows(2).any(|pair| matches!(pair, ["|", "default" | "d"] | ["is", _]))
}

pub(super) fn bound_names(code: &str) -> Vec<String> {
    given(&words(code)).map(str::to_owned).collect()
}

fn given<'a>(words: &[&'a str]) -> impl Iterator<Item = &'a str> {
    let gives = matches!(words.first(), Some(&("set" | "for")));
    words.iter().copied().take_while(move |word| gives && !matches!(*word, "=" | "in")).skip(1)
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum CalledKind {
    Filter,
    Test,
    Function,
}

pub(super) struct NameChecker<'a> {
    environment: &'a Environment<'a>,
    known: BTreeSet<(CalledKind, String)>,
    bound: BTreeSet<String>,
}

impl<'a> NameChecker<'a> {
    pub(super) fn of(environment: &'a Environment<'a>) -> NameChecker<'a> {
        NameChecker { environment, known: BTreeSet::new(), bound: BTreeSet::new() }
    }

    /// Checks the code of a tag, string literals emptied.
    pub(super) fn check(&mut self, code: &str) -> Result<(), String> {
        let words = words(code);
        let at = |at: usize| words.get(at).copied().unwrap_or_default();
        self.bound.extend(given(&words).map(str::to_owned));
        for (place, &word) in words.iter().enumerate() {
            let before = |back: usize| place.checked_sub(back).map_or("", at);
            let called = match before(1) {
                _ if !word.starts_with(|first: char| first.is_alphabetic() || first == '_') => continue,
                "|" => CalledKind::Filter,
                "is" if word == "not" => continue,
                "is" => CalledKind::Test,
                "not" if before(2) == "is" => CalledKind::Test,
                "." => continue,
                _ if at(place + 1) == "(" && !WORDS.contains(&word) && !self.bound.contains(word) => {
                    CalledKind::Function
                }
                _ => continue,
            };
            if self.known.contains(&(called, word.to_owned())) {
                continue;
            }
            if !self.is_known(called, word) {
                let what = match called {
                    CalledKind::Filter => "filter",
                    CalledKind::Test => "test",
                    CalledKind::Function => "function",
                };
                let meant = match called {
                    CalledKind::Filter => nearest(word, FILTERS, &mut LETTERS_COMPARED_MAX.clone()),
                    CalledKind::Test | CalledKind::Function => None,
                };
                let meant = meant.map(|meant| format!("{SUGGESTION}{meant}?")).unwrap_or_default();
                return Err(format!("unknown {what} {word}{meant}"));
            }
            self.known.insert((called, word.to_owned()));
        }
        Ok(())
    }

    /// Probes the engine with a one-tag template; name lookup precedes evaluation.
    fn is_known(&self, called: CalledKind, name: &str) -> bool {
        let (template, unknown) = match called {
            CalledKind::Filter => (format!("{{{{ 0|{name} }}}}"), ErrorKind::UnknownFilter),
            CalledKind::Test => (format!("{{{{ 0 is {name} }}}}"), ErrorKind::UnknownTest),
            CalledKind::Function => (format!("{{{{ {name}() }}}}"), ErrorKind::UnknownFunction),
        };
        self.environment.render_str(&template, ()).map_or_else(|error| error.kind() != unknown, |_| true)
    }
}

/// Tokens: names and numbers, and every other character by itself.
pub(super) fn words(code: &str) -> Vec<&str> {
    let mut words = Vec::new();
    let mut rest = code.trim_start();
    while let Some(first) = rest.chars().next() {
        let in_word = |character: char| character.is_alphanumeric() || character == '_';
        let end = if in_word(first) {
            rest.find(|character| !in_word(character)).unwrap_or(rest.len())
        } else {
            first.len_utf8()
        };
        words.push(&rest[..end]);
        rest = rest[end..].trim_start();
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::template::check_template;

    #[test]
    fn every_filter_that_may_have_been_meant_is_there() {
        for filter in FILTERS {
            assert_eq!(check_template(&format!("{{{{ a | {filter} }}}}")), Ok(()), "{filter}");
        }
    }
}
