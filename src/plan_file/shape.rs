//! Deserialisation of located data: every error has the offset of the wrong part.
//!
//! Serde stops at the first error. To report all errors, [`read`] repairs the data after each error (replaces
//! a misspelt word, drops the part, or inserts a stand-in) and deserialises again, until the data fits or a
//! limit is reached.

use std::collections::BTreeSet;
use std::fmt::{self, Display};

use ostler_kernel::json::MAX_INTEGER;
use serde::de::value::{BorrowedStrDeserializer, StrDeserializer};
use serde::de::{
    self, DeserializeOwned, DeserializeSeed, Deserializer, EnumAccess, Expected, IntoDeserializer, MapAccess,
    SeqAccess, Unexpected, VariantAccess, Visitor,
};
use serde::forward_to_deserialize_any;

use super::data::{Data, Entry, Located, Part};
use super::{FOLLOWING_FAULTS_MAX, closest_name};

#[derive(Debug, Clone, PartialEq)]
pub(super) struct ShapeError {
    /// The wrong part; `None` until a surrounding deserialiser sets the part.
    pub part: Option<Part>,
    pub what: String,
    pub help: String,
    /// Suggested word for an unknown one.
    pub suggestion: Option<&'static str>,
    /// The missing key, for an error about a missing key.
    pub missing: Option<&'static str>,
    /// True if the error follows from an earlier repair and is not reported.
    pub is_consequence: bool,
}

impl ShapeError {
    fn new(what: impl Into<String>, help: impl Into<String>) -> ShapeError {
        ShapeError {
            part: None,
            what: what.into(),
            help: help.into(),
            suggestion: None,
            missing: None,
            is_consequence: false,
        }
    }

    fn unknown(what: String, found: &str, known: &'static [&'static str]) -> ShapeError {
        let other = OTHER_WORDS.iter().find(|(word, _)| *word == found).map(|(_, ours)| *ours);
        let suggestion =
            other.filter(|ours| known.contains(ours)).or_else(|| closest_name(found, known.iter().copied()));
        let help = match suggestion {
            Some(suggestion) => format!("did you mean {suggestion:?}?"),
            None if known.is_empty() => "remove it".to_owned(),
            None => format!("use one of {}", known.join(", ")),
        };
        ShapeError { suggestion, ..ShapeError::new(what, help) }
    }

    fn expected(found: Unexpected<'_>, expected: &dyn Expected) -> ShapeError {
        let expected = expected.to_string();
        let expected_text = expected_text(&expected);
        if let Some((what, help)) = out_of_range(&found, &expected) {
            return ShapeError::new(format!("expected {expected_text}, found one that is {what}"), help);
        }
        let help = match (&found, expected_text.as_str()) {
            (Unexpected::Str(text), "a list") if text.len() <= WORD_BYTES_MAX => {
                format!("write it as a list: [{text:?}]")
            }
            (Unexpected::Str(text), _) if text.parse::<f64>().is_ok() => "remove the quotes".to_owned(),
            (
                Unexpected::Signed(_) | Unexpected::Unsigned(_) | Unexpected::Float(_) | Unexpected::Bool(_),
                "a text",
            ) => "write it in quotes".to_owned(),
            _ => String::new(),
        };
        ShapeError::new(format!("expected {expected_text}, found {}", describe_found(found)), help)
    }

    fn within(mut self, part: Part) -> ShapeError {
        self.part.get_or_insert(part);
        self
    }
}

impl Display for ShapeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.what)
    }
}

impl std::error::Error for ShapeError {}

impl de::Error for ShapeError {
    fn custom<T: Display>(what: T) -> Self {
        ShapeError::new(what.to_string(), "")
    }

    fn invalid_type(found: Unexpected<'_>, expected: &dyn Expected) -> Self {
        ShapeError::expected(found, expected)
    }

    fn invalid_value(found: Unexpected<'_>, expected: &dyn Expected) -> Self {
        ShapeError::expected(found, expected)
    }

    fn unknown_variant(found: &str, known: &'static [&'static str]) -> Self {
        // Of two words, the closer one may be the opposite of the intended one, so name both.
        if let [one, other] = known {
            let wrong = ShapeError::new(format!("unknown value {found:?}"), format!("use {one} or {other}"));
            return ShapeError { suggestion: closest_name(found, known.iter().copied()), ..wrong };
        }
        ShapeError::unknown(format!("unknown value {found:?}"), found, known)
    }

    fn unknown_field(found: &str, known: &'static [&'static str]) -> Self {
        if CONDITION_WORDS.contains(&found) && known.contains(&"dispatch") {
            return ShapeError::new(format!("unknown key {found:?}"), INSTEAD_OF_A_CONDITION);
        }
        ShapeError::unknown(format!("unknown key {found:?}"), found, known)
    }

    fn missing_field(name: &'static str) -> Self {
        let error = ShapeError::new(format!("the key {name:?} is missing"), format!("add {name}: …"));
        ShapeError { missing: Some(name), ..error }
    }

    fn duplicate_field(name: &'static str) -> Self {
        ShapeError::new(format!("duplicate key {name:?}"), "give it once")
    }
}

/// Key names from other tools, too different for a spelling suggestion.
const OTHER_WORDS: [(&str, &str); 8] = [
    ("needs", "deps"),
    ("depends_on", "deps"),
    ("dependencies", "deps"),
    ("after", "deps"),
    ("requires", "deps"),
    ("retry", "retries"),
    ("max_retries", "retries"),
    ("attempts", "retries"),
];

/// Keys for conditions of nodes in other tools. A key of similar spelling would mislead.
const CONDITION_WORDS: [&str; 4] = ["if", "unless", "condition", "only_if"];

const INSTEAD_OF_A_CONDITION: &str =
    "a condition is a guard: `when: {from: NODE, path: PATH, op: eq, value: VALUE}`; see `ostler help V27`";

/// Longest word repeated in a help text, in bytes.
const WORD_BYTES_MAX: usize = 60;

/// Describes the expected type in the words of plan files.
fn expected_text(expected: &str) -> String {
    match expected {
        "i8" | "i16" | "i32" | "i64" => "a whole number".to_owned(),
        "u8" | "u16" | "u32" | "u64" | "usize" => "a whole number of 0 or more".to_owned(),
        "f32" | "f64" => "a number".to_owned(),
        "a boolean" => "true or false".to_owned(),
        "a string" | "string" | "a borrowed string" => "a text".to_owned(),
        "a sequence" => "a list".to_owned(),
        other if other.starts_with("struct ") => "a map".to_owned(),
        other if other.starts_with("enum ") => "a word".to_owned(),
        other => other.to_owned(),
    }
}

/// Problem and help for an integer out of range. A number that large has lost its written form.
fn out_of_range(found: &Unexpected<'_>, expected: &str) -> Option<(&'static str, String)> {
    let most = match expected {
        "u8" => u8::MAX.into(),
        "u16" => u16::MAX.into(),
        "u32" => u32::MAX.into(),
        "i64" | "u64" | "usize" => MAX_INTEGER,
        _ => return None,
    };
    let found = match *found {
        Unexpected::Unsigned(number) => number as f64,
        Unexpected::Float(number) if number.fract() == 0.0 => number,
        _ => return None,
    };
    if found > most as f64 {
        return Some(("too large", format!("use at most {most}")));
    }
    let too_small = expected == "i64" && found < -(most as f64);
    too_small.then(|| ("too small", format!("use at least -{most}")))
}

pub(super) enum NextStep {
    /// Stop reading.
    Stop,
    /// Apply the suggestion, or drop the part.
    Repair,
    /// Replace the value.
    Replace(Data),
}

/// Deserialises data, calling `found` for each wrong part and repairing the data as `found` decides, until
/// the data fits, `found` stops, or more than [`FOLLOWING_FAULTS_MAX`] errors follow from repairs. Each error
/// costs one more pass.
pub(super) fn read<T: DeserializeOwned>(
    root: &mut Located,
    found: &mut dyn FnMut(&Located, &ShapeError, Part) -> NextStep,
) -> Option<T> {
    let (mut left_out, mut left_out_here) = (BTreeSet::<String>::new(), BTreeSet::<String>::new());
    let mut follow = 0;
    loop {
        match T::deserialize(&*root) {
            Ok(value) => return Some(value),
            Err(mut wrong) => {
                let part = wrong.part.unwrap_or(Part::Value(root.at));
                if is_stand_in(part) {
                    if !try_another(root, part) {
                        return None;
                    }
                    continue;
                }
                if let Some(key) = wrong.missing.filter(|_| part == Part::Value(root.at)) {
                    wrong.is_consequence = left_out_here.contains(key);
                    if matches!(found(root, &wrong, part), NextStep::Stop) || !put_missing(root, key) {
                        return None;
                    }
                    continue;
                }
                wrong.is_consequence = wrong.missing.is_some_and(|key| left_out.contains(key));
                follow += usize::from(wrong.is_consequence);
                if follow > FOLLOWING_FAULTS_MAX {
                    return None;
                }
                match found(root, &wrong, part) {
                    NextStep::Stop => return None,
                    NextStep::Replace(data) if root.replace(part, &data) => continue,
                    NextStep::Replace(_) | NextStep::Repair => {}
                }
                if let (Part::Value(_), None) = (part, wrong.suggestion) {
                    left_out_here.extend(root.own_key_of(part).map(str::to_owned));
                    left_out.extend(root.key_of(part).map(str::to_owned));
                }
                if !root.repair(part, wrong.suggestion) {
                    return None;
                }
            }
        }
    }
}

/// Offsets from here on mark stand-ins for missing keys; no text is that long.
const BEYOND: usize = usize::MAX / 2;

fn is_stand_in(part: Part) -> bool {
    part.at() >= BEYOND
}

/// Candidate values for a missing key. The missing key is already reported, so the value has no further
/// meaning.
fn stand_ins() -> [Data; 4] {
    [Data::Text("missing".to_owned()), Data::Number(1.into()), Data::List(Vec::new()), Data::Map(Vec::new())]
}

/// Adds a missing top-level key with a stand-in, to find further errors.
fn put_missing(root: &mut Located, key: &str) -> bool {
    let Data::Map(entries) = &mut root.data else { return false };
    let at = BEYOND + entries.len();
    let [first, ..] = stand_ins();
    entries.push(Entry {
        key: key.to_owned(),
        key_at: at,
        located: Located { at, plain: false, data: first },
    });
    true
}

/// Replaces a stand-in of the wrong kind by the next candidate.
fn try_another(root: &mut Located, part: Part) -> bool {
    let Data::Map(entries) = &mut root.data else { return false };
    let Some(entry) = entries.iter_mut().find(|entry| entry.located.at == part.at()) else { return false };
    let tried = stand_ins().iter().position(|data| *data == entry.located.data);
    match tried.and_then(|tried| stand_ins().into_iter().nth(tried + 1)) {
        Some(next) => {
            entry.located.data = next;
            true
        }
        None => false,
    }
}

/// Describes the found value in the words of plan files.
fn describe_found(found: Unexpected<'_>) -> String {
    match found {
        Unexpected::Map => "a map".into(),
        Unexpected::Seq => "a list".into(),
        Unexpected::Unit | Unexpected::Option => "null".into(),
        Unexpected::Str(text) => format!("the text {:?}", text.chars().take(60).collect::<String>()),
        Unexpected::Bool(flag) => flag.to_string(),
        Unexpected::Signed(number) => number.to_string(),
        Unexpected::Unsigned(number) => number.to_string(),
        Unexpected::Float(number) => number.to_string(),
        other => other.to_string(),
    }
}

impl<'de> Deserializer<'de> for &'de Located {
    type Error = ShapeError;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ShapeError> {
        let visited = match &self.data {
            Data::Null => visitor.visit_unit(),
            Data::Bool(flag) => visitor.visit_bool(*flag),
            Data::Text(text) => visitor.visit_borrowed_str(text),
            Data::Number(number) => {
                if let Some(number) = number.as_u64() {
                    visitor.visit_u64(number)
                } else if let Some(number) = number.as_i64() {
                    visitor.visit_i64(number)
                } else {
                    visitor.visit_f64(number.as_f64().unwrap_or_default())
                }
            }
            Data::List(items) => visitor.visit_seq(Items(items.iter())),
            Data::Map(entries) => visitor.visit_map(Entries { rest: entries.iter(), value: None }),
        };
        visited.map_err(|error| error.within(Part::Value(self.at)))
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        _fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, ShapeError> {
        match self.data {
            Data::List(_) => {
                let wrong: ShapeError = de::Error::invalid_type(Unexpected::Seq, &visitor);
                Err(wrong.within(Part::Value(self.at)))
            }
            _ => self.deserialize_any(visitor),
        }
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ShapeError> {
        match self.data {
            Data::Null => visitor.visit_none(),
            _ => visitor.visit_some(self),
        }
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        visitor: V,
    ) -> Result<V::Value, ShapeError> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _name: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, ShapeError> {
        let visited = match &self.data {
            Data::Text(text) => {
                let text: StrDeserializer<'_, ShapeError> = text.as_str().into_deserializer();
                visitor.visit_enum(text)
            }
            Data::Map(entries) if entries.len() == 1 => visitor.visit_enum(Variant(&entries[0])),
            _ => {
                let words = variants.join(", ");
                let what = format!("expected one of {words}, found {}", self.describe());
                return Err(ShapeError::new(what, "use one of these words").within(Part::Value(self.at)));
            }
        };
        visited.map_err(|error| error.within(Part::Value(self.at)))
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf unit unit_struct seq
        tuple tuple_struct map identifier ignored_any
    }
}

struct Items<'de>(std::slice::Iter<'de, Located>);

impl<'de> SeqAccess<'de> for Items<'de> {
    type Error = ShapeError;

    fn next_element_seed<T: DeserializeSeed<'de>>(
        &mut self,
        seed: T,
    ) -> Result<Option<T::Value>, ShapeError> {
        let Some(located) = self.0.next() else { return Ok(None) };
        seed.deserialize(located).map(Some).map_err(|error| error.within(Part::Value(located.at)))
    }

    fn size_hint(&self) -> Option<usize> {
        Some(self.0.len())
    }
}

struct Entries<'de> {
    rest: std::slice::Iter<'de, Entry>,
    value: Option<&'de Located>,
}

impl<'de> MapAccess<'de> for Entries<'de> {
    type Error = ShapeError;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, ShapeError> {
        let Some(entry) = self.rest.next() else { return Ok(None) };
        self.value = Some(&entry.located);
        let key = BorrowedStrDeserializer::new(&entry.key);
        seed.deserialize(key).map(Some).map_err(|error: ShapeError| error.within(Part::Key(entry.key_at)))
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, ShapeError> {
        let located = self.value.take().expect("a value is asked for after its key");
        seed.deserialize(located).map_err(|error| error.within(Part::Value(located.at)))
    }
}

struct Variant<'de>(&'de Entry);

impl<'de> EnumAccess<'de> for Variant<'de> {
    type Error = ShapeError;
    type Variant = &'de Located;

    fn variant_seed<V: DeserializeSeed<'de>>(self, seed: V) -> Result<(V::Value, &'de Located), ShapeError> {
        let key = BorrowedStrDeserializer::new(&self.0.key);
        let variant =
            seed.deserialize(key).map_err(|error: ShapeError| error.within(Part::Key(self.0.key_at)))?;
        Ok((variant, &self.0.located))
    }
}

impl<'de> VariantAccess<'de> for &'de Located {
    type Error = ShapeError;

    fn unit_variant(self) -> Result<(), ShapeError> {
        Err(ShapeError::new("expected a word, found a map", "").within(Part::Value(self.at)))
    }

    fn newtype_variant_seed<T: DeserializeSeed<'de>>(self, seed: T) -> Result<T::Value, ShapeError> {
        seed.deserialize(self)
    }

    fn tuple_variant<V: Visitor<'de>>(self, _len: usize, visitor: V) -> Result<V::Value, ShapeError> {
        self.deserialize_any(visitor)
    }

    fn struct_variant<V: Visitor<'de>>(
        self,
        _fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, ShapeError> {
        self.deserialize_any(visitor)
    }
}
