//! A text as data, each part with its place: what the readers of YAML, JSON and TOML give.

use ostler_kernel::json::canonical;
#[cfg(test)]
use serde_json::Map;
use serde_json::{Number, Value};

/// Arrays and maps within each other that a plan file may have.
pub const PLAN_FILE_DEPTH_MAX: usize = 64;

/// A value and the byte of the text it begins at.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Located {
    pub at: usize,
    /// Whether it is a text that was written as such things are that are none: without quotes, and with nothing that says
    /// that it is one.
    pub plain: bool,
    pub tree: Data,
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

/// A key of a map, with its place, and what stands under it.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Entry {
    pub key: String,
    pub key_at: usize,
    pub leaf: Located,
}

/// A part of a text, by the byte it begins at. (A map begins where its first key does.)
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

/// Why a text is no data at all.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct SyntaxError {
    pub at: Option<usize>,
    pub why: SyntaxErrorKind,
}

#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub(super) enum SyntaxErrorKind {
    #[error("lists and maps are nested more than {PLAN_FILE_DEPTH_MAX} deep")]
    TooDeep,
    /// JSON has no exact text for a number.
    #[error("an integer beyond 2^53, which JSON cannot carry exactly")]
    TooBig,
    /// What only its format knows. The mend may be empty.
    #[error("{what}")]
    Told { what: String, help: &'static str },
}

impl SyntaxErrorKind {
    /// What is told, and nothing that would mend it.
    pub(super) fn told(what: impl Into<String>) -> SyntaxErrorKind {
        SyntaxErrorKind::Told { what: what.into(), help: "" }
    }

    /// What would mend it; may be empty.
    pub(super) fn help(&self) -> &'static str {
        match *self {
            SyntaxErrorKind::TooDeep => "",
            SyntaxErrorKind::TooBig => "a number is at most 9007199254740992; where a text may stand, write it in quotes",
            SyntaxErrorKind::Told { help, .. } => help,
        }
    }
}

impl Data {
    /// A number, if JSON can carry it.
    pub(super) fn number(number: Number) -> Result<Data, SyntaxErrorKind> {
        let number = Value::Number(number);
        match (canonical(&number), number) {
            (Ok(_), Value::Number(number)) => Ok(Data::Number(number)),
            _ => Err(SyntaxErrorKind::TooBig),
        }
    }
}

impl Located {
    /// What stands under a key, if this is a map.
    pub(super) fn get(&self, key: &str) -> Option<&Entry> {
        match &self.tree {
            Data::Map(entries) => entries.iter().find(|entry| entry.key == key),
            _ => None,
        }
    }

    /// The text, if this is one.
    pub(super) fn text(&self) -> Option<&str> {
        match &self.tree {
            Data::Text(text) => Some(text),
            _ => None,
        }
    }

    /// The key of this map that a part stands under.
    pub(super) fn key_here(&self, part: Part) -> Option<&str> {
        let Data::Map(entries) = &self.tree else { return None };
        let entry = entries.iter().find(|entry| part == Part::Value(entry.leaf.at))?;
        Some(entry.key.as_str())
    }

    /// The key that a part stands under, wherever that is.
    pub(super) fn key_of(&self, part: Part) -> Option<&str> {
        match &self.tree {
            Data::List(items) => items.iter().find_map(|item| item.key_of(part)),
            Data::Map(entries) => entries.iter().find_map(|entry| {
                let is_it = part == Part::Value(entry.leaf.at);
                if is_it { Some(entry.key.as_str()) } else { entry.leaf.key_of(part) }
            }),
            _ => None,
        }
    }

    /// What it is, in the words of plan files.
    pub(super) fn told(&self) -> &'static str {
        match self.tree {
            Data::Null => "nothing",
            Data::Bool(_) => "true or false",
            Data::Number(_) => "a number",
            Data::Text(_) => "a text",
            Data::List(_) => "a list",
            Data::Map(_) => "a map",
        }
    }

    /// The items, if this is a list.
    pub(super) fn items(&self) -> &[Located] {
        match &self.tree {
            Data::List(items) => items,
            _ => &[],
        }
    }

    /// Mends the part that a fault is about: puts the word there that was meant, or takes the part out. False if
    /// the part is the whole, or nothing.
    pub(super) fn repair(&mut self, part: Part, meant: Option<&str>) -> bool {
        match &mut self.tree {
            Data::List(items) => match items.iter().position(|item| part == Part::Value(item.at)) {
                Some(found) => {
                    match meant {
                        Some(meant) => items[found].tree = Data::Text(meant.to_owned()),
                        None => drop(items.remove(found)),
                    }
                    true
                }
                None => items.iter_mut().any(|item| item.repair(part, meant)),
            },
            Data::Map(entries) => {
                let is_it =
                    |entry: &Entry| part == Part::Key(entry.key_at) || part == Part::Value(entry.leaf.at);
                let Some(found) = entries.iter().position(is_it) else {
                    return entries.iter_mut().any(|entry| entry.leaf.repair(part, meant));
                };
                match (meant, part) {
                    (Some(meant), Part::Value(_)) => entries[found].leaf.tree = Data::Text(meant.to_owned()),
                    (Some(meant), Part::Key(_)) if entries.iter().all(|entry| entry.key != meant) => {
                        meant.clone_into(&mut entries[found].key);
                    }
                    _ => drop(entries.remove(found)),
                }
                true
            }
            _ => false,
        }
    }

    /// Puts something in the place of a part that is something else. False if there is no such part.
    pub(super) fn put(&mut self, part: Part, tree: &Data) -> bool {
        let mut inner: Vec<&mut Located> = match &mut self.tree {
            Data::List(items) => items.iter_mut().collect(),
            Data::Map(entries) => entries.iter_mut().map(|entry| &mut entry.leaf).collect(),
            _ => return false,
        };
        match inner.iter().position(|leaf| part == Part::Value(leaf.at) && leaf.tree != *tree) {
            Some(found) => {
                inner[found].tree = tree.clone();
                true
            }
            None => inner.into_iter().any(|leaf| leaf.put(part, tree)),
        }
    }

    /// The value without places.
    #[cfg(test)]
    pub(super) fn value(&self) -> Value {
        match &self.tree {
            Data::Null => Value::Null,
            Data::Bool(flag) => Value::Bool(*flag),
            Data::Number(number) => Value::Number(number.clone()),
            Data::Text(text) => Value::String(text.clone()),
            Data::List(items) => Value::Array(items.iter().map(Located::value).collect()),
            Data::Map(entries) => Value::Object(
                entries.iter().map(|entry| (entry.key.clone(), entry.leaf.value())).collect::<Map<_, _>>(),
            ),
        }
    }

    /// Where the nesting first goes beyond the limit, if it does.
    pub(super) fn too_deep(&self) -> Option<usize> {
        fn look(leaf: &Located, room: usize) -> Option<usize> {
            let mut inner: Box<dyn Iterator<Item = &Located>> = match &leaf.tree {
                Data::List(items) => Box::new(items.iter()),
                Data::Map(entries) => Box::new(entries.iter().map(|entry| &entry.leaf)),
                _ => return None,
            };
            match room.checked_sub(1) {
                None => Some(leaf.at),
                Some(room) => inner.find_map(|leaf| look(leaf, room)),
            }
        }
        look(self, PLAN_FILE_DEPTH_MAX)
    }
}
