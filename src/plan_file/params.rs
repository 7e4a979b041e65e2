//! Substitution of `${name}` in the texts of a plan file.
//!
//! A plain YAML scalar with nothing but `${name}` becomes the number, boolean or text that the value reads
//! as. Quoted texts, blocks, tagged scalars and longer texts stay texts. `$${` escapes `${`.

use std::collections::{BTreeMap, BTreeSet};

use super::closest_name;
use super::data::{Data, Located};
use crate::finding::{Finding, Source};

pub(super) struct BadParameter {
    pub at: usize,
    pub what: String,
    pub help: String,
    /// The closest given name, if close enough.
    pub suggestion: Option<String>,
}

/// Key of a plan file under which its parameters have defaults.
const DEFAULTS: &str = "params";

/// The default of a parameter: the offset of its key, and its text.
pub(super) struct Default {
    pub at: usize,
    pub text: String,
}

/// Takes the defaults of parameters out of a plan: texts, numbers and booleans by name.
pub(super) fn take_defaults(root: &mut Located, bad: &mut Vec<BadParameter>) -> BTreeMap<String, Default> {
    let mut defaults = BTreeMap::new();
    let Data::Map(entries) = &mut root.data else { return defaults };
    let Some(at) = entries.iter().position(|entry| entry.key == DEFAULTS) else { return defaults };
    let Located { at, data, .. } = entries.remove(at).located;
    let mut refuse = |at: usize, what: String, help: &str| {
        bad.push(BadParameter { at, what, help: help.to_owned(), suggestion: None });
    };
    let Data::Map(given) = data else {
        refuse(at, format!("`{DEFAULTS}` is no map"), "write `params: {name: default}`");
        return defaults;
    };
    for entry in given {
        let text = match entry.located.data {
            _ if !is_name(&entry.key) => {
                let what = format!("{:?} is no name of a parameter", entry.key);
                refuse(entry.key_at, what, "use letters, digits, _, - and .");
                continue;
            }
            Data::Text(text) => text,
            Data::Number(number) => number.to_string(),
            Data::Bool(flag) => flag.to_string(),
            Data::Null | Data::List(_) | Data::Map(_) => {
                let what =
                    format!("the default of the parameter {:?} is no text, number or boolean", entry.key);
                refuse(
                    entry.located.at,
                    what,
                    "give one of these; a parameter without a default is not listed",
                );
                continue;
            }
        };
        defaults.insert(entry.key, Default { at: entry.key_at, text });
    }
    defaults
}

pub(super) fn fill(
    located: &mut Located,
    given: &BTreeMap<String, String>,
    bad: &mut Vec<BadParameter>,
    used: &mut BTreeSet<String>,
) {
    match &mut located.data {
        Data::Text(text) if text.contains("${") => {
            let alone = name_of_all(text).filter(|_| located.plain);
            let filled = replaced(text, given, used).and_then(|filled| match alone {
                Some(name) => read_plain(name, filled),
                None => Ok(Data::Text(filled)),
            });
            match filled {
                Ok(filled) => located.data = filled,
                Err(ParameterError { what, help, suggestion }) => {
                    bad.push(BadParameter { at: located.at, what, help, suggestion });
                }
            }
        }
        Data::List(items) => items.iter_mut().for_each(|item| fill(item, given, bad, used)),
        Data::Map(entries) => {
            entries.iter_mut().for_each(|entry| fill(&mut entry.located, given, bad, used));
        }
        Data::Null | Data::Bool(_) | Data::Number(_) | Data::Text(_) => {}
    }
}

/// Most parameters of a plan that a help names.
const NAMES_SHOWN_MAX: usize = 8;

/// Help for a given parameter that the plan does not use; `known`: the parameters of the plan.
pub(super) fn unused_help(name: &str, known: &BTreeSet<String>) -> String {
    let write = format!("write ${{{name}}} in the plan, or remove the parameter");
    let names: Vec<&str> = known.iter().map(String::as_str).collect();
    match (closest_name(name, names.iter().copied()), names.as_slice()) {
        (Some(meant), _) => format!("did you mean {meant:?}?"),
        (None, []) => write,
        (None, names) => {
            let more = if names.len() > NAMES_SHOWN_MAX { ", …" } else { "" };
            let shown = names[..names.len().min(NAMES_SHOWN_MAX)].join(", ");
            format!("its parameters are {shown}{more}; {write}")
        }
    }
}

/// Adds to a finding about a text how a parameter in quotes becomes a number, or true or false.
pub(super) fn without_quotes(source: &Source, found: Finding) -> Finding {
    let at = found.place.map(|place| source.text()[place.offset..].trim_start_matches(['"', '\'']));
    let name = at.and_then(|text| text.strip_prefix("${")?.split_once('}')).map(|(name, _)| name);
    match name.filter(|name| is_name(name) && found.detail.contains("found a text")) {
        None => found,
        Some(name) => {
            let help = format!(
                "{}; a parameter in quotes is a text: write ${{{name}}} without quotes, and the map around it without braces, a key on \
                 each line",
                found.help
            );
            Finding { help, ..found }
        }
    }
}

fn name_of_all(text: &str) -> Option<&str> {
    text.strip_prefix("${")?.strip_suffix('}').filter(|name| is_name(name))
}

fn is_name(text: &str) -> bool {
    !text.is_empty()
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.'))
}

fn read_plain(name: &str, text: String) -> Result<Data, ParameterError> {
    match serde_json::from_str::<serde_json::Value>(&text) {
        Ok(serde_json::Value::Bool(flag)) => Ok(Data::Bool(flag)),
        Ok(serde_json::Value::Number(number)) => Data::number(number).map_err(|_| ParameterError {
            what: format!(
                "the parameter {name:?} is an integer beyond 2^53, which JSON cannot carry exactly"
            ),
            help: format!("write \"${{{name}}}\" in quotes to make it a text"),
            suggestion: None,
        }),
        _ => Ok(Data::Text(text)),
    }
}

struct ParameterError {
    what: String,
    help: String,
    suggestion: Option<String>,
}

fn replaced(
    text: &str,
    given: &BTreeMap<String, String>,
    used: &mut BTreeSet<String>,
) -> Result<String, ParameterError> {
    let mut filled = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find("${") {
        if rest[..at].ends_with('$') {
            filled.push_str(&rest[..at]);
            filled.push('{');
            rest = &rest[at + 2..];
            continue;
        }
        filled.push_str(&rest[..at]);
        let inner = &rest[at + 2..];
        let name = inner.split('}').next().unwrap_or_default();
        if !is_name(name) || inner.len() == name.len() {
            let shown: String = inner.chars().take(20).collect();
            return Err(ParameterError {
                what: format!("\"${{{shown}\" is not a parameter"),
                help: "write ${name}, or $${ for a literal ${".to_owned(),
                suggestion: None,
            });
        }
        let Some(value) = given.get(name) else {
            let suggestion = closest_name(name, given.keys().map(String::as_str));
            let help = match suggestion {
                Some(suggestion) => format!("did you mean {suggestion:?}?"),
                None => format!(
                    "give it with --param {name}=VALUE (in a job file under params), or write $${{{name}}} for a literal ${{{name}}}"
                ),
            };
            let what = format!("the parameter {name:?} is not given");
            return Err(ParameterError { what, help, suggestion: suggestion.map(str::to_owned) });
        };
        used.insert(name.to_owned());
        filled.push_str(value);
        rest = &inner[name.len() + 1..];
    }
    filled.push_str(rest);
    Ok(filled)
}
