//! The tools that a configuration may name, with their parameters.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use ostler_kernel::port::Tool;
use serde_json::Value;

/// Tools by name, with the names of their parameters; `None`: any.
///
/// ```
/// let tools = ostler::config::KnownTools::from(["fs.read"]);
/// assert!(tools.contains("fs.read"));
/// assert_eq!(tools.params("fs.read"), None, "names alone say nothing of parameters");
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct KnownTools(BTreeMap<String, Option<BTreeSet<String>>>);

impl KnownTools {
    /// The tools, with the parameters of their schemas.
    pub fn of(tools: &[Arc<dyn Tool>]) -> KnownTools {
        let tools = tools.iter().map(|tool| (tool.spec().name.clone(), params_of(&tool.spec().params)));
        KnownTools(tools.collect())
    }

    /// Names of the tools, in order.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }

    /// True for a tool of this name.
    pub fn contains(&self, tool: &str) -> bool {
        self.0.contains_key(tool)
    }

    /// Parameters of a tool; `None` if they are not known.
    pub fn params(&self, tool: &str) -> Option<&BTreeSet<String>> {
        self.0.get(tool)?.as_ref()
    }
}

impl<S: Into<String>, const N: usize> From<[S; N]> for KnownTools {
    fn from(names: [S; N]) -> KnownTools {
        KnownTools(names.into_iter().map(|name| (name.into(), None)).collect())
    }
}

/// Parameters of a schema that lists them. The gate closes parameters, so no others pass.
fn params_of(schema: &Value) -> Option<BTreeSet<String>> {
    const MORE: [&str; 6] = ["$ref", "allOf", "anyOf", "oneOf", "if", "patternProperties"];
    let is_closed = schema.get("additionalProperties").is_none_or(|more| *more == Value::Bool(false));
    let lists_all = is_closed && MORE.iter().all(|word| schema.get(word).is_none());
    let properties = schema.get("properties").and_then(Value::as_object);
    properties.filter(|_| lists_all).map(|properties| properties.keys().cloned().collect())
}
