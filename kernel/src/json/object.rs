//! A shared JSON object with cached canonical text and digest.

use std::fmt;
use std::ops::Deref;
use std::sync::{Arc, OnceLock};

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Map, Value};

use super::{Json, JsonError, canonical};
use crate::id::Digest;
use crate::lineage;

/// A JSON object. Clones share the members, the canonical text and the digest: a node's parameters pass through gate, identity
/// and tool on every attempt without being serialized again.
///  
/// ```
/// use ostler_kernel::json::Object;
/// use serde_json::{Map, json};
/// let object = Object::from(Map::from_iter([("b".to_owned(), json!(1.0)), ("a".to_owned(), json!(null))]));
/// assert_eq!(object.canonical().unwrap().as_str(), r#"{"a":null,"b":1}"#);
/// assert_eq!(object["a"], json!(null));
/// ```
#[derive(Clone)]
pub struct Object(Arc<Inner>);

#[derive(Clone)]
struct Inner {
    value: Value,
    text: OnceLock<Result<Json, JsonError>>,
    digest: OnceLock<Digest>,
}

const ALWAYS_OBJECT: &str = "the value is always an object";

impl Object {
    /// The object as a [`Value`].
    pub fn as_value(&self) -> &Value {
        &self.0.value
    }

    /// The canonical text; computed once.
    ///  
    /// # Errors
    ///  
    /// Same as [`canonical`](super::canonical).
    pub fn canonical(&self) -> Result<&Json, JsonError> {
        self.0.text.get_or_init(|| canonical(&self.0.value)).as_ref().map_err(JsonError::clone)
    }

    /// The digest as a [`value`](lineage::value); computed once.
    ///  
    /// # Errors
    ///  
    /// Same as [`canonical`](super::canonical).
    pub fn digest(&self) -> Result<Digest, JsonError> {
        let text = self.canonical()?;
        Ok(*self.0.digest.get_or_init(|| lineage::value(text)))
    }

    /// Mutable members. Copies them if another clone exists, and drops the cached text and digest.
    pub fn make_mut(&mut self) -> &mut Map<String, Value> {
        let inner = Arc::make_mut(&mut self.0);
        (inner.text, inner.digest) = (OnceLock::new(), OnceLock::new());
        inner.value.as_object_mut().expect(ALWAYS_OBJECT)
    }

    /// The members; copied if another clone exists.
    pub fn into_map(self) -> Map<String, Value> {
        match Arc::unwrap_or_clone(self.0).value {
            Value::Object(members) => members,
            _ => unreachable!("{ALWAYS_OBJECT}"),
        }
    }
}

impl From<Map<String, Value>> for Object {
    fn from(members: Map<String, Value>) -> Object {
        let (text, digest) = (OnceLock::new(), OnceLock::new());
        Object(Arc::new(Inner { value: Value::Object(members), text, digest }))
    }
}

impl Default for Object {
    fn default() -> Object {
        Object::from(Map::new())
    }
}

impl Deref for Object {
    type Target = Map<String, Value>;

    fn deref(&self) -> &Map<String, Value> {
        self.0.value.as_object().expect(ALWAYS_OBJECT)
    }
}

impl PartialEq for Object {
    fn eq(&self, other: &Object) -> bool {
        Arc::ptr_eq(&self.0, &other.0) || self.0.value == other.0.value
    }
}

impl fmt::Debug for Object {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.value.fmt(f)
    }
}

impl Serialize for Object {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.value.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Object {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Object, D::Error> {
        Map::deserialize(deserializer).map(Object::from)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn object(value: Value) -> Object {
        serde_json::from_value(value).unwrap()
    }

    #[test]
    fn a_copy_that_is_changed_has_a_text_of_its_own() {
        let one = object(json!({"a": 1}));
        let mut other = one.clone();
        assert!(std::ptr::eq(one.canonical().unwrap(), other.canonical().unwrap()));
        assert_eq!(one.digest(), Ok(lineage::value(one.canonical().unwrap())));

        other.make_mut().insert("b".to_owned(), json!(2));
        assert_eq!(other.canonical().unwrap().as_str(), r#"{"a":1,"b":2}"#);
        assert_eq!(one.canonical().unwrap().as_str(), r#"{"a":1}"#);
        assert_ne!(one.digest(), other.digest());
        assert_eq!(other.into_map(), *object(json!({"b": 2, "a": 1})));
    }

    #[test]
    fn what_has_no_text_has_no_digest() {
        let big = object(json!({"a": u64::MAX}));
        assert_eq!(big.digest(), Err(JsonError::BigInteger { at: 0 }));
        assert!(serde_json::from_value::<Object>(json!([1])).is_err());
    }
}
