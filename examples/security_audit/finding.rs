//! What scanners find.

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// How bad a finding is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Severity {
    Low,
    Medium,
    High,
    Critical,
}

/// Something that should not be so. Never says a secret itself.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Finding {
    /// From the audited folder on.
    pub(crate) path: String,
    /// Where in the file; 0: it is about the whole.
    pub(crate) line: usize,
    pub(crate) severity: Severity,
    /// How sure the scanner is, 0 to 1.
    pub(crate) confidence: f64,
    pub(crate) what: String,
}

impl Finding {
    /// By which people name it.
    pub(crate) fn place(&self) -> String {
        if self.line == 0 { self.path.clone() } else { format!("{}:{}", self.path, self.line) }
    }
}

/// What a scanner gives. It is as sure as the least sure of its findings: below 0.7 a person is asked.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Scanned {
    pub(crate) files: usize,
    pub(crate) findings: Vec<Finding>,
    pub(crate) confidence: f64,
}

impl Scanned {
    /// All findings, without those that a person has dismissed: `dismiss PLACE`.
    pub(crate) fn of(files: usize, findings: Vec<Finding>, note: Option<&str>) -> Scanned {
        let words: Vec<&str> = note.unwrap_or_default().split_whitespace().collect();
        let dismissed: Vec<&str> =
            words.windows(2).filter(|pair| pair[0] == "dismiss").map(|pair| pair[1]).collect();
        let mut findings = findings;
        findings.retain(|finding| !dismissed.contains(&finding.place().as_str()));
        let confidence = findings.iter().map(|finding| finding.confidence).fold(1.0, f64::min);
        Scanned { files, findings, confidence }
    }
}

/// What the audit gives.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Report {
    pub(crate) findings: Vec<Finding>,
    pub(crate) text: String,
}

/// JSON Schema of findings.
pub(crate) fn schema() -> Value {
    serde_json::json!({"type": "array", "items": {
        "type": "object", "required": ["path", "line", "severity", "confidence", "what"], "additionalProperties": false,
        "properties": {
            "path": {"type": "string"}, "line": {"type": "integer", "minimum": 0},
            "severity": {"enum": ["low", "medium", "high", "critical"]},
            "confidence": {"type": "number", "minimum": 0, "maximum": 1}, "what": {"type": "string"},
        },
    }})
}
