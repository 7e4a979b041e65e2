//! Faults of answers.

use std::collections::BTreeSet;
use std::fmt;

use serde::{Deserialize, Serialize};

/// Kind of a fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum FaultCode {
    /// The answer was cut. Nothing else is judged: mended brackets would run half a plan.
    F01,
    /// The answer violates the schema. Nothing else is judged.
    F02,
    /// A field contradicts the decision.
    F03,
    /// An id of a step is malformed, reserved, or used before.
    F04,
    /// A tool is unknown.
    F05,
    /// A parameter is unknown, required and absent, or given twice.
    F06,
    /// A reference names nothing that it may name.
    F07,
    /// A source has ended without a result.
    F08,
    /// Steps wait for each other.
    F09,
    /// The plan is too large, or too deep.
    F10,
    /// The path of a reference is malformed.
    F11,
}

impl FaultCode {
    /// Every code, ascending.
    pub const ALL: [FaultCode; 11] = [
        FaultCode::F01,
        FaultCode::F02,
        FaultCode::F03,
        FaultCode::F04,
        FaultCode::F05,
        FaultCode::F06,
        FaultCode::F07,
        FaultCode::F08,
        FaultCode::F09,
        FaultCode::F10,
        FaultCode::F11,
    ];

    /// The fault in words, as a sentence about what is named.
    pub fn says(self) -> &'static str {
        match self {
            FaultCode::F01 => "the answer was cut at the limit of its length",
            FaultCode::F02 => "not in the form that was asked for",
            FaultCode::F03 => "contradicts the decision, or is missing for it",
            FaultCode::F04 => "the id is malformed, reserved or used before",
            FaultCode::F05 => "there is no such tool",
            FaultCode::F06 => "the parameter is unknown to the tool, required and absent, or given twice",
            FaultCode::F07 => "names nothing that it may name: only earlier or own steps",
            FaultCode::F08 => "has ended without a result",
            FaultCode::F09 => "waits for itself through other steps",
            FaultCode::F10 => "too many steps, or too long a chain of them",
            FaultCode::F11 => "the path is malformed: keys and numbers, separated by dots",
        }
    }
}

impl fmt::Display for FaultCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

/// A fault of an answer. The next try is shown the faults of the tries before.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Fault {
    /// The kind.
    pub code: FaultCode,
    /// The field, step, parameter or node; `*` for the answer as a whole.
    pub named: String,
    /// Further detail, such as the name of an unknown tool; empty if absent.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub detail: String,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.code, self.named)
    }
}

/// Faults found so far: sorted, each once.
#[derive(Debug, Default)]
pub(super) struct Faults(BTreeSet<Fault>);

impl Faults {
    pub(super) fn add(&mut self, code: FaultCode, named: impl Into<String>) {
        self.add_with(code, named, String::new());
    }

    pub(super) fn add_with(&mut self, code: FaultCode, named: impl Into<String>, detail: String) {
        self.0.insert(Fault { code, named: named.into(), detail });
    }

    pub(super) fn one(code: FaultCode, named: &str) -> Vec<Fault> {
        vec![Fault { code, named: named.to_owned(), detail: String::new() }]
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn into_vec(self) -> Vec<Fault> {
        self.0.into_iter().collect()
    }
}
