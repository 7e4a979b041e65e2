//! Canonical JSON (RFC 8785, JSON Canonicalization Scheme) with a strict parser.
//!  
//! Every value has exactly one text: no whitespace, keys in the order of their UTF-16 code units, strings with the fewest
//! escapes, numbers as ECMAScript prints a double. Equal values therefore have equal bytes and equal digests.
//!  
//! Values that some reader may read differently have no canonical text and are errors: integers beyond 2^53, duplicate keys,
//! lone surrogates, infinities. RFC 8785 leaves these to I-JSON (RFC 7493); this module enforces them.

mod growing_member;
mod memory;
mod number;
mod object;
mod parse;
mod serialize;
mod write;

use std::fmt;
use std::sync::Arc;

use serde::de::{self, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Map, Value};

pub use growing_member::GrowingMember;
pub(crate) use memory::VALUE_MEMORY_BOUND;
pub use memory::{VALUE_MEMORY_MAX, count_values, memory};
pub use object::Object;
pub use parse::parse_value;
pub use serialize::to_canonical;
pub(crate) use write::{Sink, utf16_order, write_map, write_string, write_value};

/// Maximum nesting of arrays and objects; `[]` has depth 1.
pub const MAX_DEPTH: usize = 128;

/// Maximum magnitude of an integer: 2^53. Doubles represent every integer up to here.
pub const MAX_INTEGER: u64 = 1 << 53;

/// True for 0: fields with this number are left out of JSON (`skip_serializing_if`).
pub fn is_zero<N: Default + PartialEq>(number: &N) -> bool {
    *number == N::default()
}

/// Canonical JSON text. Only [`canonical`], [`canonical_map`], [`to_canonical`] and [`parse`] construct one, so equal values
/// have equal bytes.
///  
/// A binary codec restores the text unchecked, since the surrounding record has a checksum. A text format parses the text
/// again and rejects any other spelling.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(transparent)]
pub struct Json(Arc<str>);

impl Json {
    /// The canonical text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The text `null`.
    pub fn null() -> Json {
        Json("null".into())
    }

    /// Parses the text. Cannot fail.
    pub fn value(&self) -> Value {
        parse_value(&self.0).expect("canonical text is accepted again")
    }

    /// Wraps text that the caller wrote in canonical form.
    pub(crate) fn from_canonical_text(text: String) -> Json {
        debug_assert_eq!(parse(&text).as_ref().map(Json::as_str), Ok(text.as_str()));
        Json(text.into())
    }
}

impl fmt::Debug for Json {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for Json {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Json, D::Error> {
        struct Text {
            check: bool,
        }
        impl Text {
            fn accept<E: de::Error>(&self, text: &str) -> Result<Json, E> {
                if !self.check {
                    return Ok(Json(text.into()));
                }
                let json = parse(text).map_err(E::custom)?;
                if json.as_str() == text { Ok(json) } else { Err(E::custom("JSON that is not canonical")) }
            }
        }
        impl Visitor<'_> for Text {
            type Value = Json;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("canonical JSON as text")
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Json, E> {
                self.accept(text)
            }
        }
        let check = deserializer.is_human_readable();
        deserializer.deserialize_str(Text { check })
    }
}

/// Reasons for a text or value without canonical form. Positions are byte offsets.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum JsonError {
    /// Violates RFC 8259.
    #[error("not JSON at byte {at}: expected {expected}")]
    Syntax {
        /// Position of the fault.
        at: usize,
        /// Expected token.
        expected: &'static str,
    },
    /// A key occurs twice in one object.
    #[error("key {key:?} stands twice in one object, again at byte {at}")]
    DuplicateKey {
        /// Position of the second occurrence.
        at: usize,
        /// The key, at most 80 characters.
        key: String,
    },
    /// NaN, an infinity, or a number beyond the range of a double.
    #[error("number at byte {at} is not finite")]
    NotFinite {
        /// Position of the number; 0 if the input was a value.
        at: usize,
    },
    /// A string contains half of a surrogate pair.
    #[error("string at byte {at} holds half of a surrogate pair")]
    LoneSurrogate {
        /// Position of the string.
        at: usize,
    },
    /// An integer beyond 2^53.
    #[error("integer at byte {at} is beyond 2^53")]
    BigInteger {
        /// Position of the integer; 0 if the input was a value.
        at: usize,
    },
    /// Nested deeper than [`MAX_DEPTH`] or the caller's limit.
    #[error("nested too deep at byte {at}")]
    TooDeep {
        /// Position of the first array or object too deep; 0 if the input was a value.
        at: usize,
    },
}

impl JsonError {
    /// Stable code, as spelled in conformance cases.
    pub fn code(&self) -> &'static str {
        match self {
            JsonError::Syntax { .. } => "syntax",
            JsonError::DuplicateKey { .. } => "duplicate_key",
            JsonError::NotFinite { .. } => "not_finite",
            JsonError::LoneSurrogate { .. } => "lone_surrogate",
            JsonError::BigInteger { .. } => "big_integer",
            JsonError::TooDeep { .. } => "too_deep",
        }
    }
}

/// Canonical text of a value.
///  
/// ```
/// use serde_json::json;
/// let text = ostler_kernel::json::canonical(&json!({"b": 1.0, "a": [1e21]})).unwrap();
/// assert_eq!(text.as_str(), r#"{"a":[1e+21],"b":1}"#);
/// ```
///  
/// # Errors
///  
/// [`JsonError::BigInteger`] or [`JsonError::TooDeep`]; a [`Value`] has no other fault.
pub fn canonical(value: &Value) -> Result<Json, JsonError> {
    let mut text = String::with_capacity(128);
    write_value(value, &mut text)?;
    Ok(Json(text.into()))
}

/// True if [`canonicalize_numbers`] surely changes nothing, because the value holds no double.
pub fn has_canonical_numbers(value: &Value) -> bool {
    match value {
        Value::Number(number) => !number.is_f64(),
        Value::Array(items) => items.iter().all(has_canonical_numbers),
        Value::Object(members) => members.values().all(has_canonical_numbers),
        Value::Null | Value::Bool(_) | Value::String(_) => true,
    }
}

/// Replaces every number by the one that its canonical text denotes: `1.0` by `1`, `-0.0` by `0`. Numbers without canonical
/// text stay.
pub fn canonicalize_numbers(value: &mut Value) {
    match value {
        Value::Number(number) if number.is_f64() => {
            let mut text = String::new();
            if number::write(number, &mut text).is_ok()
                && let Ok(settled) = serde_json::from_str(&text)
            {
                *number = settled;
            }
        }
        Value::Array(items) => items.iter_mut().for_each(canonicalize_numbers),
        Value::Object(members) => members.values_mut().for_each(canonicalize_numbers),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// Canonical text of an object.
///  
/// # Errors
///  
/// Same as [`canonical`].
pub fn canonical_map(map: &Map<String, Value>) -> Result<Json, JsonError> {
    let mut text = String::with_capacity(128);
    write_map(map, &mut text)?;
    Ok(Json(text.into()))
}

/// Length of an object's canonical text in bytes, without allocating the text.
///  
/// # Errors
///  
/// Same as [`canonical`].
pub fn measure(map: &Map<String, Value>) -> Result<usize, JsonError> {
    measure_within(map, MAX_DEPTH)
}

/// Same as [`measure`] with a limit on the depth, the object included.
pub(crate) fn measure_within(map: &Map<String, Value>, depth: usize) -> Result<usize, JsonError> {
    let mut length = write::ByteCount(0);
    write::write_map_within(map, depth.min(MAX_DEPTH), &mut length)?;
    Ok(length.0)
}

/// Nesting of a value: `[]` has depth 1, a number 0. Recursive; the output of [`parse_value`] is at most [`MAX_DEPTH`] deep.
pub fn depth(value: &Value) -> usize {
    match value {
        Value::Array(items) => 1 + items.iter().map(depth).max().unwrap_or(0),
        Value::Object(members) => 1 + members.values().map(depth).max().unwrap_or(0),
        _ => 0,
    }
}

/// Parses a text strictly and returns the canonical form.
///  
/// # Errors
///  
/// The leftmost fault. A token is checked once it is complete. Any text that [`parse_value`] accepts has a canonical form.
pub fn parse(text: &str) -> Result<Json, JsonError> {
    canonical(&parse_value(text)?)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn nested(depth: usize) -> String {
        format!("{}{}", "[".repeat(depth), "]".repeat(depth))
    }

    #[test]
    fn nesting_is_bounded_in_text_and_in_values() {
        let deepest = parse(&nested(MAX_DEPTH)).unwrap();
        assert_eq!((depth(&deepest.value()), depth(&json!({"a": [1], "b": 2}))), (MAX_DEPTH, 2));
        assert_eq!(canonical(&deepest.value()).unwrap(), deepest);
        assert_eq!(parse(&nested(MAX_DEPTH + 1)), Err(JsonError::TooDeep { at: MAX_DEPTH }));
        assert_eq!(parse(&"[".repeat(10_000_000)), Err(JsonError::TooDeep { at: MAX_DEPTH }));
        assert_eq!(parse(&"{\"a\":".repeat(1_000_000)).unwrap_err().code(), "too_deep");
        let too_deep = json!([deepest.value()]);
        assert_eq!(canonical(&too_deep), Err(JsonError::TooDeep { at: 0 }));
    }

    #[test]
    fn a_value_with_an_integer_beyond_a_double_is_refused() {
        for value in [json!(u64::MAX), json!(i64::MIN), json!(9_007_199_254_740_993_u64), json!(1e20)] {
            assert_eq!(canonical(&json!({ "a": [value] })), Err(JsonError::BigInteger { at: 0 }), "{value}");
        }
        assert_eq!(canonical(&json!(-9_007_199_254_740_992_i64)).unwrap().as_str(), "-9007199254740992");
    }

    #[test]
    fn a_text_format_gives_back_only_canonical_text() {
        let json = parse(r#"{"b":[1,"é"],"a":null}"#).unwrap();
        let text = serde_json::to_string(&json).unwrap();
        assert_eq!(serde_json::from_str::<Json>(&text).unwrap(), json);
        for bad in [r#""{\"b\":1, \"a\":2}""#, r#""nonsense""#, r#"{"a":1}"#] {
            assert!(serde_json::from_str::<Json>(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn the_measure_is_the_length_of_the_text() {
        let value = json!({"é": "\u{1}\n\"", "a": [1.5, -0.0, {"x": []}], "\u{1F600}": 1e-7});
        let map = value.as_object().unwrap();
        assert_eq!(measure(map).unwrap(), canonical_map(map).unwrap().as_str().len());
        assert_eq!(canonical_map(map), canonical(&value));
    }

    pub(super) fn any_value() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i32>().prop_map(Value::from),
            any::<f64>().prop_map(|number| json!(number)),
            any::<String>().prop_map(Value::from),
        ];
        leaf.prop_recursive(4, 32, 6, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
                prop::collection::btree_map(any::<String>(), inner, 0..6)
                    .prop_map(|map| Value::Object(map.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn canonical_text_is_its_own_canonical_text(value in any_value()) {
            if let Ok(json) = canonical(&value) {
                prop_assert_eq!(&parse(json.as_str()).unwrap(), &json);
                prop_assert_eq!(&canonical(&json.value()).unwrap(), &json);
                // serde_json, as an independent reader, must read the same value.
                let read: Value = serde_json::from_str(json.as_str()).unwrap();
                let mut settled = value;
                canonicalize_numbers(&mut settled);
                prop_assert_eq!(&settled, &read);
                prop_assert_eq!(&canonical(&read).unwrap(), &json);
            }
        }

        #[test]
        fn no_text_makes_the_parser_panic(text in "[\\[\\]{}:,\"\\\\0-9eE.+ua-f NaN\u{e9}\u{1F600}-]{0,40}") {
            let strict = parse(&text);
            if strict.is_ok() {
                prop_assert!(serde_json::from_str::<Value>(&text).is_ok());
            }
        }
    }
}
