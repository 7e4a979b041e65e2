//! An object that many may have, and whose canonical text is written once for all of them.

use std::fmt;
use std::ops::Deref;
use std::sync::{Arc, OnceLock};

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Map, Value};

use super::{Json, JsonError, canonical};
use crate::id::Digest;
use crate::lineage;

/// A JSON object. Clones share it, and what is inner of its text: the parameters of a node are judged, identified and handed
/// on with every attempt, and never change.
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
    /// Always an object.
    value: Value,
    text: OnceLock<Result<Json, JsonError>>,
    digest: OnceLock<Digest>,
}

/// Why its value is an object.
const MADE: &str = "an object is made of members";

impl Object {
    /// The same as a value.
    pub fn as_value(&self) -> &Value {
        &self.0.value
    }

    /// Its canonical text.
    ///
    /// # Errors
    ///
    /// Those of [`canonical`](super::canonical).
    pub fn canonical(&self) -> Result<&Json, JsonError> {
        self.0.text.get_or_init(|| canonical(&self.0.value)).as_ref().map_err(JsonError::clone)
    }

    /// Its digest as a [`value`](lineage::value).
    ///
    /// # Errors
    ///
    /// Those of [`canonical`](super::canonical).
    pub fn digest(&self) -> Result<Digest, JsonError> {
        let text = self.canonical()?;
        Ok(*self.0.digest.get_or_init(|| lineage::value(text)))
    }

    /// Its members, to be changed: those of this one alone.
    pub fn make_mut(&mut self) -> &mut Map<String, Value> {
        let inner = Arc::make_mut(&mut self.0);
        (inner.text, inner.digest) = (OnceLock::new(), OnceLock::new());
        inner.value.as_object_mut().expect(MADE)
    }

    /// Its members, which are copied if others have it too.
    pub fn into_map(self) -> Map<String, Value> {
        match Arc::unwrap_or_clone(self.0).value {
            Value::Object(members) => members,
            _ => unreachable!("{MADE}"),
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
        self.0.value.as_object().expect(MADE)
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
