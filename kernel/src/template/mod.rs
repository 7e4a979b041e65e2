//! Taking a value apart and putting it into text: dot paths, the `{}` of references, and the templates of
//! reports and prompts.

mod bounds;
mod names;
mod render;

use serde_json::Value;

use crate::json::{JsonError, write_value};

pub use render::{
    BadTemplate, RENDER_BYTES_MAX, RENDER_COPIES_BYTES_MAX, RENDER_FUEL, RENDER_VALUES_BYTES_MAX,
    RenderError, TEMPLATE_BYTES_MAX, check_template, check_values, render,
};

/// The part of a value that a dot path leads to: keys of objects, and digits without leading zeros into
/// lists. An empty path is the whole value; `None` if the path leads nowhere (null is somewhere).
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

/// The template of a reference with every `{}` replaced by the value: a string as it is, anything else as
/// canonical JSON. Replaced once: a `{}` inside the value stays.
///
/// # Errors
///
/// Those of [`crate::json::canonical`].
pub fn fill(template: &str, value: &Value) -> Result<String, JsonError> {
    let text = match value {
        Value::String(text) => text.clone(),
        other => {
            let mut text = String::new();
            write_value(other, &mut text)?;
            text
        }
    };
    Ok(template.replace("{}", &text))
}

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
            assert_eq!(fill(template, &value).unwrap(), filled);
        }
        assert_eq!(fill("{}", &json!(u64::MAX)).unwrap_err().code(), "big_integer");
    }
}
