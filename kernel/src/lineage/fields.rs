//! Digests of the fields of an input, for explanations.

use serde_json::{Map, Value};

use super::identity;
use super::manifest::short_digest;
use crate::json::canonical;

/// Most fields of an input that are kept apart. An input with more of them is compared as a whole.
pub const FIELDS_MAX: usize = 64;

/// Longest path of a field that is kept, in bytes.
const PATH_BYTES_MAX: usize = 120;

/// Levels of objects within an object that are kept apart.
const DEPTH_MAX: usize = 3;

/// Path and short digest of each field of an object. `None`: no object, or one with too many fields.
pub(super) fn digests(value: &Value) -> Option<Value> {
    let Value::Object(members) = value else { return None };
    let mut found = Map::new();
    collect(members, "", DEPTH_MAX, &mut found).then_some(Value::Object(found))
}

fn collect(members: &Map<String, Value>, above: &str, depth: usize, found: &mut Map<String, Value>) -> bool {
    members.iter().all(|(name, value)| {
        let path = if above.is_empty() { name.clone() } else { format!("{above}.{name}") };
        match value {
            Value::Object(members) if depth > 1 && !members.is_empty() => {
                collect(members, &path, depth - 1, found)
            }
            _ if path.len() > PATH_BYTES_MAX || found.len() == FIELDS_MAX => false,
            value => match canonical(value) {
                Ok(text) => {
                    found.insert(path, short_digest(identity::value(&text)).into());
                    true
                }
                Err(_) => false,
            },
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn fields_of_objects_in_objects_have_paths() {
        let found = digests(&json!({"a": {"b": 1, "c": {}}, "d": [1]})).unwrap();
        let paths: Vec<&String> = found.as_object().unwrap().keys().collect();
        assert_eq!(paths, ["a.b", "a.c", "d"]);
    }

    #[test]
    fn what_has_too_many_fields_is_compared_as_a_whole() {
        let wide =
            |fields: usize| Value::Object((0..fields).map(|at| (format!("f{at}"), json!(at))).collect());
        assert_eq!(digests(&wide(FIELDS_MAX)).unwrap().as_object().unwrap().len(), FIELDS_MAX);
        assert_eq!(digests(&wide(FIELDS_MAX + 1)), None);
        assert_eq!(digests(&json!([1])), None);
        assert_eq!(digests(&json!({"x".repeat(121): 1})), None);
    }
}
