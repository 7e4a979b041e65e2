//! Data with byte offsets: the common output of the YAML, JSON and TOML readers.

use ostler_kernel::json::canonical;
#[cfg(test)]
use serde_json::Map;
use serde_json::{Number, Value};

/// Deepest nesting of lists and maps in a plan file.
pub const PLAN_FILE_DEPTH_MAX: usize = 64;

/// Values in a plan file.
pub const PLAN_FILE_VALUES_MAX: usize = 500_000;

/// A value and its byte offset.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Located {
    pub at: usize,
    /// True for a text written as a plain scalar: without quotes, tag or block style.
    pub plain: bool,
    pub data: Data,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) enum Data {
    Null,
    Bool(bool),
    Number(Number),
    Text(String),
    List(Vec<Located>),
    Map(Vec<Entry>),
}

/// A key of a map with its byte offset, and the value.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Entry {
    pub key: String,
    pub key_at: usize,
    pub located: Located,
}

/// A part of the text, identified by its byte offset. A map has the offset of its first key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Part {
    Key(usize),
    Value(usize),
}

impl Part {
    pub(super) fn at(self) -> usize {
        match self {
            Part::Key(at) | Part::Value(at) => at,
        }
    }
}

#[derive(Debug, Clone, PartialEq)]
pub(super) struct SyntaxError {
    pub at: Option<usize>,
    pub kind: SyntaxErrorKind,
}

#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub(super) enum SyntaxErrorKind {
    #[error("lists and maps are nested more than {PLAN_FILE_DEPTH_MAX} deep")]
    TooDeep,
    #[error("the file has more than {PLAN_FILE_VALUES_MAX} values")]
    TooMany,
    /// The number has no exact JSON form.
    #[error("an integer beyond 2^53, which JSON cannot carry exactly")]
    TooBig,
    /// A format-specific error. The help may be empty.
    #[error("{what}")]
    Other { what: String, help: &'static str },
}

impl SyntaxErrorKind {
    /// A format-specific error without help.
    pub(super) fn other(what: impl Into<String>) -> SyntaxErrorKind {
        SyntaxErrorKind::Other { what: what.into(), help: "" }
    }

    /// Suggested fix; may be empty.
    pub(super) fn help(&self) -> &'static str {
        match *self {
            SyntaxErrorKind::TooDeep | SyntaxErrorKind::TooMany => "",
            SyntaxErrorKind::TooBig => {
                "a number is at most 9007199254740992; where a text may stand, write it in quotes"
            }
            SyntaxErrorKind::Other { help, .. } => help,
        }
    }
}

impl Data {
    /// A number, if JSON can represent the number exactly.
    pub(super) fn number(number: Number) -> Result<Data, SyntaxErrorKind> {
        let number = Value::Number(number);
        match (canonical(&number), number) {
            (Ok(_), Value::Number(number)) => Ok(Data::Number(number)),
            _ => Err(SyntaxErrorKind::TooBig),
        }
    }
}

impl Located {
    /// The entry under a key, if the value is a map.
    pub(super) fn get(&self, key: &str) -> Option<&Entry> {
        match &self.data {
            Data::Map(entries) => entries.iter().find(|entry| entry.key == key),
            _ => None,
        }
    }

    pub(super) fn text(&self) -> Option<&str> {
        match &self.data {
            Data::Text(text) => Some(text),
            _ => None,
        }
    }

    /// Key of this map with `part` as its value.
    pub(super) fn own_key_of(&self, part: Part) -> Option<&str> {
        let Data::Map(entries) = &self.data else { return None };
        let entry = entries.iter().find(|entry| part == Part::Value(entry.located.at))?;
        Some(entry.key.as_str())
    }

    /// Key with `part` as its value, anywhere below.
    pub(super) fn key_of(&self, part: Part) -> Option<&str> {
        match &self.data {
            Data::List(items) => items.iter().find_map(|item| item.key_of(part)),
            Data::Map(entries) => entries.iter().find_map(|entry| {
                let is_it = part == Part::Value(entry.located.at);
                if is_it { Some(entry.key.as_str()) } else { entry.located.key_of(part) }
            }),
            _ => None,
        }
    }

    /// Describes the kind of the value in the words of plan files.
    pub(super) fn describe(&self) -> &'static str {
        match self.data {
            Data::Null => "nothing",
            Data::Bool(_) => "true or false",
            Data::Number(_) => "a number",
            Data::Text(_) => "a text",
            Data::List(_) => "a list",
            Data::Map(_) => "a map",
        }
    }

    pub(super) fn items(&self) -> &[Located] {
        match &self.data {
            Data::List(items) => items,
            _ => &[],
        }
    }

    /// Replaces the part by the suggested word, or removes the part. Returns false for the root and for
    /// unknown parts.
    pub(super) fn repair(&mut self, part: Part, suggestion: Option<&str>) -> bool {
        match &mut self.data {
            Data::List(items) => match items.iter().position(|item| part == Part::Value(item.at)) {
                Some(found) => {
                    match suggestion {
                        Some(suggestion) => items[found].data = Data::Text(suggestion.to_owned()),
                        None => drop(items.remove(found)),
                    }
                    true
                }
                None => items.iter_mut().any(|item| item.repair(part, suggestion)),
            },
            Data::Map(entries) => {
                let is_it =
                    |entry: &Entry| part == Part::Key(entry.key_at) || part == Part::Value(entry.located.at);
                let Some(found) = entries.iter().position(is_it) else {
                    return entries.iter_mut().any(|entry| entry.located.repair(part, suggestion));
                };
                match (suggestion, part) {
                    (Some(suggestion), Part::Value(_)) => {
                        entries[found].located.data = Data::Text(suggestion.to_owned())
                    }
                    (Some(suggestion), Part::Key(_))
                        if entries.iter().all(|entry| entry.key != suggestion) =>
                    {
                        suggestion.clone_into(&mut entries[found].key);
                    }
                    _ => drop(entries.remove(found)),
                }
                true
            }
            _ => false,
        }
    }

    /// Replaces a part by a different value. Returns false if there is no such part.
    pub(super) fn replace(&mut self, part: Part, data: &Data) -> bool {
        let mut inner: Vec<&mut Located> = match &mut self.data {
            Data::List(items) => items.iter_mut().collect(),
            Data::Map(entries) => entries.iter_mut().map(|entry| &mut entry.located).collect(),
            _ => return false,
        };
        match inner.iter().position(|located| part == Part::Value(located.at) && located.data != *data) {
            Some(found) => {
                inner[found].data = data.clone();
                true
            }
            None => inner.into_iter().any(|located| located.replace(part, data)),
        }
    }

    #[cfg(test)]
    pub(super) fn value(&self) -> Value {
        match &self.data {
            Data::Null => Value::Null,
            Data::Bool(flag) => Value::Bool(*flag),
            Data::Number(number) => Value::Number(number.clone()),
            Data::Text(text) => Value::String(text.clone()),
            Data::List(items) => Value::Array(items.iter().map(Located::value).collect()),
            Data::Map(entries) => Value::Object(
                entries.iter().map(|entry| (entry.key.clone(), entry.located.value())).collect::<Map<_, _>>(),
            ),
        }
    }

    /// Number of values, the lists and maps and what is in them.
    pub(super) fn count(&self) -> usize {
        1 + match &self.data {
            Data::List(items) => items.iter().map(Located::count).sum(),
            Data::Map(entries) => entries.iter().map(|entry| entry.located.count()).sum(),
            Data::Null | Data::Bool(_) | Data::Number(_) | Data::Text(_) => 0,
        }
    }

    /// Offset of the first value beyond the nesting limit.
    pub(super) fn first_too_deep(&self) -> Option<usize> {
        fn look(located: &Located, room: usize) -> Option<usize> {
            let mut inner: Box<dyn Iterator<Item = &Located>> = match &located.data {
                Data::List(items) => Box::new(items.iter()),
                Data::Map(entries) => Box::new(entries.iter().map(|entry| &entry.located)),
                _ => return None,
            };
            match room.checked_sub(1) {
                None => Some(located.at),
                Some(room) => inner.find_map(|located| look(located, room)),
            }
        }
        look(self, PLAN_FILE_DEPTH_MAX)
    }
}
