//! Format of a lineage case: a plan, the functions of its steps, the outside world, and revisions.
//!
//! A step may have `when` and `for_each` as in a plan file. A guard decides before identities are compared: a skipped step loses its
//! bound result, an effect keeps it. A list makes the steps `ID.k` and, as `ID`, their collector, whose references are named by index.
//! The operation `undo{node}` says that an undo of the step's effect has executed: its record is retracted until it is made anew; a step
//! without a standing effect refuses it (`nothing`).

use std::collections::BTreeMap;

use ostler_kernel::id::NodeId;
use ostler_kernel::lineage::StalePolicy;
use serde::{Deserialize, Deserializer};
use serde_json::{Map, Value};

use super::function::Function;
use crate::graph::CaseError;
use crate::graph::script::UniqueKeys;

/// A line of a file of lineage cases.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Case {
    pub(super) id: String,
    #[serde(default, rename = "title")]
    _title: Option<String>,
    pub(super) plan: PlanScript,
    pub(super) fns: BTreeMap<String, Function>,
    #[serde(default, deserialize_with = "default_on_null")]
    pub(super) sources: BTreeMap<String, Source>,
    pub(super) revisions: Vec<Revision>,
    #[serde(default)]
    pub(super) brief: bool,
    pub(super) expect: Option<Value>,
}

impl Case {
    pub(super) fn read(line: &str) -> Result<Case, CaseError> {
        let UniqueKeys = serde_json::from_str(line).map_err(CaseError::shape)?;
        serde_json::from_str(line).map_err(CaseError::shape)
    }
}

fn default_on_null<'de, D: Deserializer<'de>, T: Default + Deserialize<'de>>(
    deserializer: D,
) -> Result<T, D::Error> {
    Option::<T>::deserialize(deserializer).map(Option::unwrap_or_default)
}

/// The plan; names, titles and limits mean nothing here.
#[derive(Debug, Deserialize)]
pub(super) struct PlanScript {
    pub(super) nodes: Vec<Map<String, Value>>,
}

/// A part of the outside world.
#[derive(Debug, Clone, Default, Deserialize)]
pub(super) struct Source {
    #[serde(default)]
    pub(super) token: Option<String>,
    #[serde(default)]
    pub(super) value: Value,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Revision {
    pub(super) run: String,
    #[serde(default)]
    pub(super) ops: Vec<Op>,
    pub(super) measure: Option<Measure>,
}

/// Measures of a revision against the preceding one.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Measure {
    #[serde(rename = "final")]
    pub(super) last: Option<NodeId>,
    #[serde(default)]
    pub(super) changed: Vec<NodeId>,
    #[serde(default)]
    pub(super) foreign: Vec<String>,
    #[serde(default)]
    pub(super) constraint: Vec<String>,
}

#[derive(Debug, Deserialize)]
#[serde(tag = "op", rename_all = "snake_case")]
pub(super) enum Op {
    Set {
        node: NodeId,
        field: String,
        #[serde(default)]
        value: Value,
    },
    Param {
        node: NodeId,
        name: String,
        #[serde(default)]
        value: Value,
    },
    Ref {
        node: NodeId,
        name: String,
        #[serde(default)]
        value: Value,
    },
    /// Changes a field of the plan outside of every identity.
    Plan {},
    /// Changes the order of the nodes, which is outside of every identity.
    Reorder {},
    Rename {
        from: NodeId,
        to: NodeId,
    },
    Add {
        node: Map<String, Value>,
    },
    Remove {
        node: NodeId,
    },
    Source {
        name: String,
        #[serde(flatten)]
        source: Source,
    },
    ArtifactEdit {
        node: NodeId,
        value: Value,
        author: String,
        #[serde(default)]
        old: Option<String>,
        #[serde(default)]
        stale: StalePolicy,
    },
    Unpin {
        node: NodeId,
    },
    Answer {
        node: NodeId,
        keep: bool,
    },
    Retract {
        #[serde(rename = "match")]
        fields: Map<String, Value>,
    },
    Corrupt {
        node: NodeId,
        bytes: String,
    },
    Gate {
        node: NodeId,
        allow: bool,
    },
    Domain {
        to: String,
    },
    /// An undo of the step's effect has executed.
    Undo {
        node: NodeId,
    },
}
