//! Dot paths into values, `{}` templates of references, and templates of reports and prompts.

mod bounds;
mod environment;
mod names;
mod reading;
mod render;

use std::borrow::Cow;

use serde_json::Value;

use crate::json::{JsonError, write_value};

pub use reading::read_part;
pub use render::{
    RENDER_BYTES_MAX, RENDER_COPIES_BYTES_MAX, RENDER_FUEL, RENDER_VALUES_BYTES_MAX, RenderError,
    TEMPLATE_BYTES_MAX, TemplateError, check_paths, check_template, check_values, render,
};

/// Follows a dot path: keys of objects, and indices without leading zeros into lists. An empty path is the
/// whole value. `None` if a step is missing; an existing null is `Some`.
///
/// ```
/// use ostler_kernel::template::project;
/// let value = serde_json::json!({"users": [{"name": "ann"}]});
/// assert_eq!(project(&value, "users.0.name").unwrap(), "ann");
/// assert_eq!(project(&value, "users.00.name"), None);
/// ```
pub fn project<'a>(value: &'a Value, path: &str) -> Option<&'a Value> {
    if path.is_empty() {
        return Some(value);
    }
    path.split('.').try_fold(value, |value, segment| match value {
        Value::Object(members) => members.get(segment),
        Value::Array(items) => items.get(index(segment)?),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => None,
    })
}

fn index(segment: &str) -> Option<usize> {
    let plain = segment == "0" || !segment.starts_with('0');
    let digits = !segment.is_empty() && segment.bytes().all(|byte| byte.is_ascii_digit());
    if plain && digits { segment.parse().ok() } else { None }
}

/// Reason for not filling the template of a reference.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FillError {
    /// The value has no canonical form.
    #[error(transparent)]
    NotCanonical(#[from] JsonError),
    /// The text would exceed the limit.
    #[error(
        "the text would have {bytes} bytes, at most {room} are allowed here: use a smaller part, or fewer {{}}"
    )]
    TooLong {
        /// Length of the text.
        bytes: usize,
        /// The limit.
        room: usize,
    },
}

/// Replaces every `{}` of a reference's template by the value: a string as is, any other value as canonical
/// JSON. A `{}` inside the value is kept. Checks the length against `room` before building the text.
///
/// # Errors
///
/// See [`FillError`].
pub fn fill(template: &str, value: &Value, room: usize) -> Result<String, FillError> {
    let text = match value {
        Value::String(text) => Cow::Borrowed(text.as_str()),
        other => {
            let mut text = String::new();
            write_value(other, &mut text)?;
            Cow::Owned(text)
        }
    };
    let places = template.matches(PLACE).count();
    let bytes = template.len() - PLACE.len() * places;
    let bytes = bytes.saturating_add(text.len().saturating_mul(places));
    if bytes > room {
        return Err(FillError::TooLong { bytes, room });
    }
    Ok(template.replace(PLACE, &text))
}

const PLACE: &str = "{}";

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_path_walks_keys_and_indices() {
        let value = json!({"a": {"b": [10, {"c": null}], "0": "key", "": {"x": 1}}, "a.b": "dotted"});
        for (path, found) in [
            ("", Some(value.clone())),
            ("a.b.0", Some(json!(10))),
            ("a.b.1.c", Some(json!(null))),
            ("a.0", Some(json!("key"))),
            ("a..x", Some(json!(1))),
            ("a.b.2", None),
            ("a.b.00", None),
            ("a.b.01", None),
            ("a.b.-1", None),
            ("a.b.+1", None),
            ("a.b.", None),
            ("a.b.99999999999999999999999", None),
            ("a.b.0.x", None),
            ("nowhere", None),
        ] {
            assert_eq!(project(&value, path), found.as_ref(), "{path}");
        }
    }

    #[test]
    fn a_reference_template_is_filled_once() {
        for (template, value, filled) in [
            ("Hi {}, {}!", json!("Ann"), "Hi Ann, Ann!"),
            ("{}", json!("{}{}"), "{}{}"),
            ("<{}>", json!({"b": 1.0, "a": [null]}), r#"<{"a":[null],"b":1}>"#),
            ("{ } {0} {{}}", json!(7), "{ } {0} {7}"),
            ("none", json!(7), "none"),
        ] {
            assert_eq!(fill(template, &value, 100).unwrap(), filled);
        }
        let big = fill("{}", &json!(u64::MAX), 100).unwrap_err();
        assert_eq!(big, FillError::NotCanonical(JsonError::BigInteger { at: 0 }));
    }

    #[test]
    fn a_reference_template_is_not_filled_beyond_its_room() {
        for (template, bytes) in [("{}{}", 8), ("{}-{}", 9), ("123456789", 9), ("{}", 4)] {
            let told = fill(template, &json!("four"), 8).map(|text| text.len());
            let expected = if bytes <= 8 { Ok(bytes) } else { Err(FillError::TooLong { bytes, room: 8 }) };
            assert_eq!(told, expected, "{template}");
        }
        let (wide, long) = ("{}".repeat(200_000), json!("x".repeat(200_000)));
        let told = fill(&wide, &long, RENDER_BYTES_MAX).unwrap_err();
        assert_eq!(told, FillError::TooLong { bytes: 40_000_000_000, room: RENDER_BYTES_MAX });
    }
}
