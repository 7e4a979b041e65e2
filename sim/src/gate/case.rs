//! The form of a gate case: a policy, tools, results of earlier nodes, and steps.

use std::collections::BTreeMap;

use serde::de::{DeserializeOwned, Deserializer, Error};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::graph::CaseError;
use crate::graph::script::UniqueKeys;

use super::tool::ToolScript;

/// A line of a file of gate cases.
#[derive(Debug)]
pub(super) struct Case {
    pub(super) id: String,
    pub(super) policy: Map<String, Value>,
    pub(super) tools: BTreeMap<String, ToolScript>,
    pub(super) nodes: BTreeMap<String, NodeScript>,
    /// Answers by name; the last one repeats.
    pub(super) dns: BTreeMap<String, Vec<Vec<String>>>,
    pub(super) steps: Vec<StepScript>,
    /// The steps have a list of their own.
    pub(super) is_list: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct CaseFields {
    id: String,
    #[serde(default, rename = "title")]
    _title: Value,
    #[serde(default, rename = "md")]
    _md: Value,
    #[serde(default)]
    policy: Map<String, Value>,
    #[serde(default)]
    tools: BTreeMap<String, ToolScript>,
    #[serde(default)]
    nodes: BTreeMap<String, NodeScript>,
    #[serde(default)]
    dns: BTreeMap<String, Vec<Vec<String>>>,
    steps: Option<Vec<StepScript>>,
}

/// Fields of a case that may stand beside those of its only step.
const FIELDS: [&str; 8] = ["id", "title", "md", "policy", "tools", "nodes", "dns", "steps"];

impl Case {
    pub(super) fn read(line: &str) -> Result<Case, CaseError> {
        let UniqueKeys = serde_json::from_str(line).map_err(CaseError::shape)?;
        let fields: Map<String, Value> = serde_json::from_str(line).map_err(CaseError::shape)?;
        let (whole, step): (Map<_, _>, Map<_, _>) =
            fields.into_iter().partition(|(name, _)| FIELDS.contains(&name.as_str()));
        let whole: CaseFields = serde_json::from_value(whole.into()).map_err(CaseError::shape)?;
        let is_list = whole.steps.is_some();
        let steps = match whole.steps {
            Some(steps) if step.is_empty() => steps,
            Some(_) => return Err(CaseError::Shape("give `steps`, or the fields of one step".to_owned())),
            None => vec![serde_json::from_value(step.into()).map_err(CaseError::shape)?],
        };
        let CaseFields { id, policy, tools, nodes, dns, .. } = whole;
        Ok(Case { id, policy, tools, nodes, dns, steps, is_list })
    }

    /// The expected outcomes, if every step has one.
    pub(super) fn expected(&self) -> Option<Value> {
        let expected: Option<Vec<Value>> = self.steps.iter().map(|step| step.expect.clone()).collect();
        Some(self.as_written(expected?))
    }

    /// Outcomes in the form in which the case has its steps.
    pub(super) fn as_written(&self, mut outcomes: Vec<Value>) -> Value {
        if self.is_list { Value::Array(outcomes) } else { outcomes.pop().unwrap_or_default() }
    }
}

/// The result of an earlier node.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct NodeScript {
    pub(super) tool: String,
    #[serde(default)]
    pub(super) params: Map<String, Value>,
    #[serde(default)]
    pub(super) from: Labels,
    #[serde(default)]
    pub(super) param_refs: BTreeMap<String, RefScript>,
    #[serde(default)]
    pub(super) author: Author,
    #[serde(default)]
    pub(super) labels: Vec<String>,
    #[serde(default = "run")]
    pub(super) run: String,
    #[serde(default = "tenant")]
    pub(super) tenant: String,
    /// `None`: the node has no output.
    #[serde(default, deserialize_with = "given")]
    pub(super) output: Option<Value>,
}

/// Labels by JSON pointer.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(from = "BTreeMap<String, OneOrMany>")]
pub(super) struct Labels(pub(super) BTreeMap<String, Vec<String>>);

#[derive(Deserialize)]
#[serde(untagged)]
enum OneOrMany {
    One(String),
    Many(Vec<String>),
}

impl From<BTreeMap<String, OneOrMany>> for Labels {
    fn from(labels: BTreeMap<String, OneOrMany>) -> Labels {
        let many = |labels| match labels {
            OneOrMany::One(label) => vec![label],
            OneOrMany::Many(labels) => labels,
        };
        Labels(labels.into_iter().map(|(at, labels)| (at, many(labels))).collect())
    }
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Author {
    #[default]
    Trusted,
    Untrusted,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RefScript {
    pub(super) from: String,
    #[serde(default)]
    pub(super) path: Option<String>,
    #[serde(default)]
    pub(super) template: Option<String>,
}

/// One step of a case.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct StepScript {
    pub(super) call: Option<CallScript>,
    pub(super) resume: Option<usize>,
    pub(super) replay: Option<usize>,
    pub(super) recover: Option<usize>,
    pub(super) clearance: Option<ClearanceScript>,
    #[serde(default)]
    pub(super) events: Vec<EventScript>,
    pub(super) at_ms: Option<i64>,
    expect: Option<Value>,
}

/// A call as its planner wrote it.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct CallScript {
    pub(super) tool: String,
    #[serde(default)]
    pub(super) params: Map<String, Value>,
    pub(super) raw_params: Option<TextScript>,
    #[serde(default)]
    pub(super) param_refs: BTreeMap<String, RefScript>,
    #[serde(default)]
    pub(super) deps: Vec<String>,
    #[serde(default)]
    pub(super) extra: Map<String, Value>,
    #[serde(default)]
    pub(super) author: Author,
    #[serde(default)]
    pub(super) from: Labels,
    #[serde(default = "user")]
    pub(super) user: String,
    #[serde(default = "tenant")]
    pub(super) tenant: String,
    #[serde(default = "run")]
    pub(super) run: String,
}

fn user() -> String {
    "u1".to_owned()
}

fn tenant() -> String {
    "t1".to_owned()
}

fn run() -> String {
    "r1".to_owned()
}

/// A text, or pieces to be joined.
#[derive(Debug, Clone, Deserialize)]
#[serde(untagged)]
pub(super) enum TextScript {
    Whole(String),
    Pieces(Vec<(String, usize)>),
}

/// Longest text of a case in bytes, pieces joined.
const TEXT_BYTES_MAX: usize = 16 << 20;

impl TextScript {
    /// The text, cut off at a length that no check lets pass.
    pub(super) fn text(&self) -> String {
        match self {
            TextScript::Whole(text) => text.clone(),
            TextScript::Pieces(pieces) => {
                let mut text = String::new();
                for (piece, count) in pieces {
                    let room = TEXT_BYTES_MAX.saturating_sub(text.len()) / piece.len().max(1);
                    text.push_str(&piece.repeat((*count).min(room + 1)));
                }
                text
            }
        }
    }
}

/// The answer of the clearance authority.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ClearanceScript {
    status: Option<u16>,
    body: Option<TextScript>,
    body_hex: Option<String>,
    #[serde(default)]
    pub(super) delay_ms: u64,
    redirect: Option<String>,
    #[serde(default)]
    pub(super) unreachable: bool,
    #[serde(default)]
    pub(super) pending: bool,
}

impl ClearanceScript {
    pub(super) fn status(&self) -> u16 {
        self.status.unwrap_or(if self.redirect.is_some() { 302 } else { 200 })
    }

    pub(super) fn body(&self) -> Vec<u8> {
        match (&self.body, &self.body_hex) {
            (Some(text), _) => text.text().into_bytes(),
            (None, Some(hex)) => bytes_of_hex(hex),
            (None, None) => Vec::new(),
        }
    }
}

/// Bytes of a text of hex digits; an odd digit at the end counts as a byte that is no UTF-8.
fn bytes_of_hex(hex: &str) -> Vec<u8> {
    let digit = |byte: u8| (byte as char).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
    let byte = |pair: &[u8]| match pair {
        [high, low] => digit(*high).zip(digit(*low)).map_or(0xff, |(high, low)| high * 16 + low),
        _ => 0xff,
    };
    hex.as_bytes().chunks(2).map(byte).collect()
}

/// Something that happens during a step.
#[derive(Debug, Clone, Deserialize)]
pub(super) struct EventScript {
    pub(super) at: At,
    #[serde(flatten)]
    pub(super) event: WorldEvent,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum At {
    Before,
    Clearance,
    Seal,
    Recorded,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(tag = "do", rename_all = "snake_case")]
pub(super) enum WorldEvent {
    ToolHash { tool: String, hash: String },
    Approve { tool: String },
    Unregister { tool: String },
    Lockdown { on: bool },
    Audit { state: AuditState },
    NodeOutput { node: String, value: Value },
    Interject {},
    Crash,
    Reload { policy: Map<String, Value> },
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum AuditState {
    #[default]
    Ok,
    Down,
    WriteFails,
}

/// Reads a value that may be null, to tell it from one that is left out.
pub(super) fn given<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Value>, D::Error> {
    Value::deserialize(deserializer).map(Some)
}

/// Reads a value that may be left out but not be null.
pub(super) fn present<'de, D: Deserializer<'de>, T: DeserializeOwned>(
    deserializer: D,
) -> Result<Option<T>, D::Error> {
    let value = Value::deserialize(deserializer)?;
    serde_json::from_value(value).map(Some).map_err(D::Error::custom)
}
