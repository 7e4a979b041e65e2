//! Guards and lists of steps that models write. Waits and undos are for people: a step has no field for one.

use serde_json::Value;

use crate::id::NodeId;
use crate::plan::{ForEach, Guard, Pointer, read_guards, read_list};

/// The guards of a step; `None` if they are malformed. Null and an empty list are none. A model that has to fill every field
/// writes null as the `value` of `exists`.
pub(super) fn guards(written: &Value) -> Option<Vec<Guard>> {
    let mut written = match written {
        Value::Null => return Some(Vec::new()),
        Value::Array(guards) if guards.is_empty() => return Some(Vec::new()),
        Value::Array(guards) => guards.clone(),
        _ => return None,
    };
    for guard in written.iter_mut().filter_map(Value::as_object_mut) {
        if guard.get("op").is_some_and(|op| op == "exists") && guard.get("value") == Some(&Value::Null) {
            guard.remove("value");
        }
    }
    let mut faults = Vec::new();
    let guards = read_guards(&NodeId::from("step"), &Value::Array(written), &Pointer::root, &mut faults);
    let has_paths = guards.iter().all(|guard| guard.path.is_some());
    (faults.is_empty() && has_paths).then_some(guards)
}

/// The list over which a step is repeated: `None` if it is malformed, `Some(None)` for null.
pub(super) fn list(written: &Value) -> Option<Option<ForEach>> {
    if written.is_null() {
        return Some(None);
    }
    let mut written = written.clone();
    let members = written.as_object_mut()?;
    if members.get("on_child") == Some(&Value::Null) {
        members.remove("on_child");
    }
    let mut faults = Vec::new();
    let list = read_list(&NodeId::from("step"), &written, &Pointer::root, &mut faults);
    let list = list.filter(|list| faults.is_empty() && list.path.is_some())?;
    Some(Some(*list))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn guards_and_lists_are_read_as_in_plan_files_and_null_is_none() {
        assert_eq!(guards(&json!(null)), Some(vec![]));
        assert_eq!(guards(&json!([])), Some(vec![]));
        let exists = json!([{"from": "a", "path": "x", "op": "exists", "value": null}]);
        assert_eq!(guards(&exists).map(|guards| guards.len()), Some(1));
        for wrong in [
            json!({"from": "a", "path": "x", "op": "exists"}),
            json!([{"from": "a", "path": "x", "op": "like", "value": 1}]),
            json!([{"from": "a", "op": "eq", "value": 1}]),
            json!([{"from": "a", "path": "x", "op": "lt", "value": null}]),
            json!([{"from": "a", "path": "x", "op": "eq", "value": 1, "undo": {}}]),
            json!([1]),
        ] {
            assert_eq!(guards(&wrong), None, "{wrong}");
        }
        let each = json!({"from": "a", "path": "files", "as": "path", "max": 9, "on_child": null});
        assert_eq!(list(&each).flatten().map(|list| list.max), Some(9));
        assert_eq!(list(&json!(null)), Some(None));
        for wrong in [
            json!([]),
            json!({"from": "a", "path": "files", "as": "path"}),
            json!({"from": "a", "as": "path", "max": 9}),
            json!({"from": "a", "path": "x", "as": "p", "max": 9, "deadline": 1}),
            json!({"from": "a", "path": "x", "as": "p", "max": 0}),
        ] {
            assert_eq!(list(&wrong), None, "{wrong}");
        }
    }
}
