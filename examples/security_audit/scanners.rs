//! Scanners for secrets and file permissions, one file at a time. Code in place of models.

use std::collections::BTreeMap;

use ostler::kernel::event::Failure;
use ostler::kernel::run::FailureCategory;
use regex::Regex;
use serde::Deserialize;
use serde_json::Value;

use super::case_studies::analyst::{Analyst, read};
use super::finding::{Finding, Severity};

/// A file as given to scanners.
#[derive(Debug, Deserialize)]
pub(crate) struct File {
    pub(crate) path: String,
    pub(crate) mode: u32,
    pub(crate) text: String,
}

impl File {
    pub(crate) fn finding(&self, line: usize, severity: Severity, confidence: f64, what: String) -> Finding {
        Finding { path: self.path.clone(), line, severity, confidence, what }
    }
}

pub(crate) fn failed(error: impl std::fmt::Display) -> Failure {
    Failure::new(FailureCategory::Structural, error.to_string())
}

pub(crate) fn told(findings: &[Finding]) -> Result<Value, Failure> {
    serde_json::to_value(findings).map_err(failed)
}

/// Formats of well-known secrets.
const SHAPES: [(&str, &str); 4] = [
    ("an access key of AWS", r"\bAKIA[0-9A-Z]{16}\b"),
    ("a token of GitHub", r"\bgh[pousr]_[A-Za-z0-9]{36}\b"),
    ("a token of Slack", r"\bxox[abpr]-[A-Za-z0-9-]{10,}"),
    ("a private key", r"-----BEGIN [A-Z ]*PRIVATE KEY-----"),
];

/// A name that suggests a secret, with an assigned string.
const NAMED: &str = r#"(?i)(password|passwd|secret|token|api_?key)["']?\s*[:=]\s*["']([^"'\s]{6,})["']"#;

/// Shannon entropy in bits per character.
fn entropy(text: &str) -> f64 {
    let mut times = BTreeMap::new();
    text.chars().for_each(|char| *times.entry(char).or_insert(0.0) += 1.0);
    let count: f64 = times.values().sum();
    times.values().map(|times| times / count).map(|share| -share * share.log2()).sum()
}

/// Entropy from which a string counts as random.
const DRAWN: f64 = 3.5;

/// Finds secrets by format and by name.
pub(crate) struct Secrets;

impl Analyst for Secrets {
    async fn complete(&self, _: &str, input: &Value) -> Result<Value, Failure> {
        let file: File = read(input)?;
        let shapes: Vec<(&str, Regex)> = SHAPES
            .iter()
            .map(|(what, shape)| Ok((*what, Regex::new(shape).map_err(failed)?)))
            .collect::<Result<_, Failure>>()?;
        let named = Regex::new(NAMED).map_err(failed)?;
        let mut findings = Vec::new();
        for (line, text) in (1..).zip(file.text.lines()) {
            if let Some((what, _)) = shapes.iter().find(|(_, shape)| shape.is_match(text)) {
                findings.push(file.finding(line, Severity::High, 0.95, format!("{what} in plain text")));
            } else if let Some(found) = named.captures(text) {
                let bits = entropy(&found[2]);
                // A memorable string may be an example; a random one is a secret.
                let confidence = if bits >= DRAWN { 0.9 } else { 0.5 };
                let what = format!("a {} in plain text, {bits:.1} bits a character", found[1].to_lowercase());
                findings.push(file.finding(line, Severity::High, confidence, what));
            }
        }
        told(&findings)
    }
}

/// Finds files with excessive permissions.
pub(crate) struct Permissions;

impl Analyst for Permissions {
    async fn complete(&self, _: &str, input: &Value) -> Result<Value, Failure> {
        let file: File = read(input)?;
        let mode = file.mode;
        let name = file.path.rsplit('/').next().unwrap_or_default();
        let is_private = name.starts_with("id_") && !name.ends_with(".pub")
            || [".pem", ".key", ".p12"].iter().any(|end| name.ends_with(end));
        let mut findings = Vec::new();
        if mode & 0o6000 != 0 {
            let what = format!("runs with the rights of its owner ({mode:04o})");
            findings.push(file.finding(0, Severity::High, 0.9, what));
        }
        if mode & 0o002 != 0 {
            let severity = if mode & 0o111 == 0 { Severity::Medium } else { Severity::High };
            findings.push(file.finding(0, severity, 0.95, format!("everybody may change it ({mode:04o})")));
        }
        if is_private && mode & 0o044 != 0 {
            let what = format!("a private key that others may read ({mode:04o})");
            findings.push(file.finding(0, Severity::High, 0.9, what));
        }
        told(&findings)
    }
}
