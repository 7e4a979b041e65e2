//! Findings of the scanners.

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Severity of a finding.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Severity {
    Low,
    Medium,
    High,
    Critical,
}

/// A finding. Never contains the secret itself.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Finding {
    /// Relative to the audited folder.
    pub(crate) path: String,
    /// Line number; 0 for the whole file.
    pub(crate) line: usize,
    pub(crate) severity: Severity,
    /// Confidence of the scanner, 0 to 1.
    pub(crate) confidence: f64,
    pub(crate) what: String,
}

impl Finding {
    /// The name by which people refer to the finding.
    pub(crate) fn place(&self) -> String {
        if self.line == 0 { self.path.clone() } else { format!("{}:{}", self.path, self.line) }
    }
}

/// Output of a scanner, with the lowest confidence of its findings. Below 0.7 the run asks for approval.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Scanned {
    pub(crate) files: usize,
    pub(crate) findings: Vec<Finding>,
    pub(crate) confidence: f64,
}

impl Scanned {
    /// All findings except those dismissed in the note: `dismiss PLACE`.
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

/// Output of the audit.
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
