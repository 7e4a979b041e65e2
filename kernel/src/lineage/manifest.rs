//! The identity manifest of work: the two documents that hash to `r`, and the receipt of each predecessor. The manifest is
//! stored beside the record of a result, so a later comparison needs no log.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::fields;
use super::identity::{self, ExecutableSpec, Inputs};
use crate::id::{Digest, NodeId};
use crate::json::{Json, JsonError, Object, canonical, canonical_map, utf16_order};

/// Longest canonical text of a parameter in an abridged manifest, in bytes.
const PARAM_BYTES_KEPT: usize = 80;

/// Longest text of the executable that a difference shows.
const SHOWN_BYTES_MAX: usize = 32;

/// Member of an abridged document of inputs with the digests of fields.
const FIELDS: &str = "fields";

/// Inputs of the work of a node.
#[derive(Debug, Clone, Copy)]
pub struct Material<'a> {
    /// The executable.
    pub sigma: &'a ExecutableSpec<'a>,
    /// Literal parameters.
    pub params: &'a Object,
    /// Parameters from results: name, and digest of the value as received.
    pub refs: &'a BTreeMap<String, Digest>,
    /// Receipt of each direct predecessor with effect write or external.
    pub receipts: &'a BTreeMap<NodeId, Digest>,
    /// Freshness token of a read.
    pub world: Option<&'a str>,
}

/// The documents `sigma` and `x`, and the holders of the receipts in `x`.
///
/// ```
/// use std::collections::BTreeMap;
/// use ostler_kernel::json::Object;
/// use ostler_kernel::lineage::{ExecutableSpec, Manifest, Material};
///
/// let work = |version| {
///     let sigma = ExecutableSpec { kind: "tool", tool: Some("fs.list"), tool_version: Some(version), ..ExecutableSpec::default() };
///     let (refs, receipts) = (BTreeMap::new(), BTreeMap::new());
///     let params = Object::default();
///     Manifest::new(Material { sigma: &sigma, params: &params, refs: &refs, receipts: &receipts, world: None }).unwrap()
/// };
/// let difference = work("3").difference(&work("2")).unwrap();
/// assert_eq!(difference.to_string(), "sigma.tool_version");
/// assert_eq!(difference.in_words(), "tool version 2 → 3");
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Manifest {
    sigma: Json,
    inputs: Json,
    receipts: BTreeMap<NodeId, Digest>,
}

impl Manifest {
    /// Makes the documents.
    ///
    /// # Errors
    ///
    /// A part without canonical form.
    pub fn new(material: Material<'_>) -> Result<Manifest, JsonError> {
        let effects = counts(material.receipts);
        let Material { params, refs, world, .. } = material;
        let inputs = Inputs { effects: &effects, params, refs, world }.document()?;
        Ok(Manifest { sigma: material.sigma.document()?, inputs, receipts: material.receipts.clone() })
    }

    /// Restores a manifest from its documents.
    pub fn stored(sigma: Json, inputs: Json, receipts: BTreeMap<NodeId, Digest>) -> Manifest {
        Manifest { sigma, inputs, receipts }
    }

    /// The manifest with long parameters replaced by their digests. Comparing abridged manifests finds the same
    /// differences; the `r` of an abridged manifest is meaningless.
    pub fn abridged(&self) -> Manifest {
        let mut inputs = object(&self.inputs);
        if let Some(Value::Object(params)) = inputs.get_mut("params") {
            for value in params.values_mut() {
                if let Ok(text) = canonical(value)
                    && text.as_str().len() > PARAM_BYTES_KEPT
                {
                    *value = Value::String(format!("b3:{}", identity::value(&text)));
                }
            }
        }
        let inputs = canonical_map(&inputs).expect("parts of canonical JSON are canonical");
        Manifest { inputs, ..self.clone() }
    }

    /// The abridged manifest with a digest of each field of the inputs that are objects. `values`: the inputs as received.
    pub fn with_fields<'a>(&self, values: impl IntoIterator<Item = (&'a str, &'a Value)>) -> Manifest {
        let abridged = self.abridged();
        let named: Map<String, Value> = values
            .into_iter()
            .filter_map(|(name, value)| Some((name.to_owned(), fields::digests(value)?)))
            .collect();
        if named.is_empty() {
            return abridged;
        }
        let mut inputs = object(&abridged.inputs);
        inputs.insert(FIELDS.to_owned(), Value::Object(named));
        let inputs = canonical_map(&inputs).expect("digests are canonical");
        Manifest { inputs, ..abridged }
    }

    /// The document of the executable.
    pub fn sigma(&self) -> &Json {
        &self.sigma
    }

    /// The document of the inputs.
    pub fn inputs(&self) -> &Json {
        &self.inputs
    }

    /// Receipt of each direct predecessor with an effect.
    pub fn receipts(&self) -> &BTreeMap<NodeId, Digest> {
        &self.receipts
    }

    /// Digest of the executable.
    pub fn sigma_digest(&self) -> Digest {
        identity::executable_digest(&self.sigma)
    }

    /// Digest of the inputs.
    pub fn inputs_digest(&self) -> Digest {
        identity::inputs_digest(&self.inputs)
    }

    /// Identity of the work, `r`.
    pub fn reuse(&self) -> Digest {
        identity::reuse(self.sigma_digest(), self.inputs_digest())
    }

    /// The first difference to an earlier manifest, in the order executable, parameters, references, effects, world, and of names
    /// by UTF-16 code units; `None` if both have the same `r`.
    pub fn difference(&self, before: &Manifest) -> Option<Difference> {
        if self.sigma != before.sigma {
            let (old, new) = (object(&before.sigma), object(&self.sigma));
            let field = first_unequal(&old, &new)?;
            let shown = |of: &Map<String, Value>| {
                let text = of.get(&field)?.as_str()?;
                (text.len() <= SHOWN_BYTES_MAX).then(|| text.to_owned())
            };
            let (old, new) = (shown(&old), shown(&new));
            return Some(Difference::Executable { field, old, new });
        }
        if self.inputs == before.inputs {
            return None;
        }
        let (old, new) = (object(&before.inputs), object(&self.inputs));
        let part = |of: &Map<String, Value>, name: &str| match of.get(name) {
            Some(Value::Object(part)) => part.clone(),
            _ => Map::new(),
        };
        if let Some(name) = first_unequal(&part(&old, "params"), &part(&new, "params")) {
            return Some(Difference::Param(name));
        }
        let (old_refs, new_refs) = (part(&old, "refs"), part(&new, "refs"));
        if let Some(name) = first_unequal(&old_refs, &new_refs) {
            let digest = |refs: &Map<String, Value>| refs.get(&name).and_then(Value::as_str)?.parse().ok();
            let (before, now) = (digest(&old_refs), digest(&new_refs));
            let fields = |of: &Map<String, Value>| match part(of, FIELDS).get(&name) {
                Some(Value::Object(fields)) => Some(fields.clone()),
                _ => None,
            };
            let field = fields(&old).zip(fields(&new)).and_then(|(old, new)| first_unequal(&old, &new));
            return Some(match field {
                Some(field) => Difference::Field { name, old: before, new: now, field },
                None => Difference::Ref { name, old: before, new: now },
            });
        }
        match self.changed_effect(before) {
            Some(node) => Some(Difference::Effect(node)),
            None => (old.get("world") != new.get("world")).then_some(Difference::World),
        }
    }

    /// The smallest node whose receipt was added or counted more often; otherwise the smallest whose receipt was removed or
    /// counted less often.
    fn changed_effect(&self, before: &Manifest) -> Option<NodeId> {
        let (old, new) = (counts(&before.receipts), counts(&self.receipts));
        let count = |of: &BTreeMap<Digest, u64>, receipt: &Digest| of.get(receipt).copied().unwrap_or(0);
        let grew = self.receipts.iter().find(|(_, receipt)| count(&new, receipt) > count(&old, receipt));
        let shrank =
            || before.receipts.iter().find(|(_, receipt)| count(&new, receipt) < count(&old, receipt));
        grew.or_else(shrank).map(|(node, _)| node.clone())
    }
}

fn counts(receipts: &BTreeMap<NodeId, Digest>) -> BTreeMap<Digest, u64> {
    let mut counts = BTreeMap::new();
    for &receipt in receipts.values() {
        *counts.entry(receipt).or_default() += 1;
    }
    counts
}

fn object(document: &Json) -> Map<String, Value> {
    match document.value() {
        Value::Object(members) => members,
        _ => Map::new(),
    }
}

/// The first key, by UTF-16 code units, with unequal values or in one object only.
fn first_unequal(old: &Map<String, Value>, new: &Map<String, Value>) -> Option<String> {
    let keys: BTreeSet<&String> = old.keys().chain(new.keys()).collect();
    let mut unequal: Vec<&String> = keys.into_iter().filter(|&key| old.get(key) != new.get(key)).collect();
    unequal.sort_unstable_by(|left, right| utf16_order(left, right));
    unequal.first().map(|&key| key.clone())
}

/// First difference between two manifests of a node. `Display` prints the code for explanations and cases,
/// [`Difference::in_words`] the words for people.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Difference {
    /// A field of the executable differs.
    Executable {
        /// The field.
        field: String,
        /// Previous text, if short.
        old: Option<String>,
        /// Current text, if short.
        new: Option<String>,
    },
    /// A literal parameter differs.
    Param(String),
    /// The value behind a reference differs; `None` where the reference is absent.
    Ref {
        /// The parameter.
        name: String,
        /// The value before.
        old: Option<Digest>,
        /// The value now.
        new: Option<Digest>,
    },
    /// A predecessor's effect on the world differs.
    Effect(NodeId),
    /// The world state seen by a read differs.
    World,
    /// One field of the value behind a reference differs, maybe among others. Its code is that of [`Difference::Ref`].
    Field {
        /// The parameter.
        name: String,
        /// The value before.
        old: Option<Digest>,
        /// The value now.
        new: Option<Digest>,
        /// Path of the first field that differs.
        field: String,
    },
}

impl Difference {
    /// The difference in words of a closed set.
    pub fn in_words(&self) -> String {
        match self {
            Difference::Executable { field, old: Some(old), new: Some(new) } => {
                format!("{} {old} → {new}", field.replace('_', " "))
            }
            Difference::Executable { field, .. } => format!("{} changed", field.replace('_', " ")),
            Difference::Param(name) if name == "prompt" => "prompt changed".to_owned(),
            Difference::Param(name) => format!("parameter `{name}` changed"),
            Difference::Ref { name, old: None, .. } => format!("input `{name}` is new"),
            Difference::Ref { name, new: None, .. } => format!("input `{name}` is gone"),
            Difference::Ref { name, .. } => format!("input `{name}` changed"),
            Difference::Effect(node) => format!("{node} acted again"),
            Difference::World => "what it reads changed".to_owned(),
            Difference::Field { name, field, .. } => format!("input `{name}` changed: field `{field}`"),
        }
    }

    /// The field of the input that differs, if it is known.
    pub fn field(&self) -> Option<&str> {
        match self {
            Difference::Field { field, .. } => Some(field),
            _ => None,
        }
    }
}

impl std::fmt::Display for Difference {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Difference::Executable { field, .. } => write!(f, "sigma.{field}"),
            Difference::Param(name) => write!(f, "param.{name}"),
            Difference::Ref { name, old, new } | Difference::Field { name, old, new, .. } => {
                let short = |digest: &Option<Digest>| digest.map_or_else(|| "-".to_owned(), short_digest);
                write!(f, "ref.{name}({},{})", short(old), short(new))
            }
            Difference::Effect(node) => write!(f, "effect.{node}"),
            Difference::World => f.write_str("world"),
        }
    }
}

/// The first 12 hex digits, as explanations show digests.
pub fn short_digest(digest: Digest) -> String {
    let mut text = digest.to_string();
    text.truncate(12);
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn recorded(input: &Value) -> Manifest {
        let sigma = ExecutableSpec { kind: "tool", ..ExecutableSpec::default() };
        let refs = BTreeMap::from([("criteria".to_owned(), identity::value(&canonical(input).unwrap()))]);
        let (params, receipts) = (Object::default(), BTreeMap::new());
        let material =
            Material { sigma: &sigma, params: &params, refs: &refs, receipts: &receipts, world: None };
        Manifest::new(material).unwrap().with_fields([("criteria", input)])
    }

    #[test]
    fn the_first_field_that_differs_is_named() {
        let before = recorded(&json!({"limits": {"budget": 50, "days": 3}, "title": "x"}));
        let check = |now: Value, words: &str| {
            let difference = recorded(&now).difference(&before).unwrap();
            assert_eq!(difference.in_words(), words);
            assert!(difference.to_string().starts_with("ref.criteria("), "{difference}");
        };
        check(
            json!({"limits": {"budget": 70, "days": 3}, "title": "y"}),
            "input `criteria` changed: field `limits.budget`",
        );
        check(json!({"limits": {"budget": 50, "days": 3}}), "input `criteria` changed: field `title`");
        check(json!([1]), "input `criteria` changed");
        assert_eq!(before.difference(&before), None);
    }
}
