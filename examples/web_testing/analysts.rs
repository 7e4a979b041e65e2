//! The analysts: reading pages, deriving checks, writing the report. Code in place of models.

use std::collections::{BTreeMap, BTreeSet};

use ostler::kernel::event::Failure;
use ostler::kernel::run::FailureCategory;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::case_studies::analyst::{Analyst, read};
use super::fetch::{links, title};

/// A page as published by the crawler.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Page {
    pub(crate) path: String,
    pub(crate) status: u16,
    pub(crate) title: String,
    pub(crate) links: Vec<String>,
}

/// A condition to check.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Check {
    pub(crate) path: String,
    pub(crate) status: u16,
    pub(crate) title: Option<String>,
}

/// A path that visitors take.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Flow {
    pub(crate) path: String,
    pub(crate) from: String,
}

/// Checks and flows of a page.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Tests {
    pub(crate) checks: Vec<Check>,
    pub(crate) flows: Vec<Flow>,
}

/// Aggregated events, from which the report is written.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct ReportInput {
    pub(crate) checks: BTreeSet<String>,
    /// Requests by path.
    pub(crate) loads: BTreeMap<String, u64>,
    /// Path and problem.
    pub(crate) anomalies: BTreeSet<(String, String)>,
    pub(crate) complete: Option<Observed>,
}

/// Counters of the observer.
#[derive(Debug, Default, Clone, Copy, Serialize, Deserialize)]
pub(crate) struct Observed {
    pub(crate) checks: u64,
    pub(crate) loads: u64,
    pub(crate) anomalies: u64,
}

/// A problem of the site.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Anomaly {
    pub(crate) path: String,
    pub(crate) what: String,
}

/// The final report.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Report {
    pub(crate) anomalies: Vec<Anomaly>,
    pub(crate) text: String,
}

/// JSON Schema of the report.
pub(crate) fn report_schema() -> Value {
    let text = json!({"type": "string", "minLength": 1});
    let anomaly =
        json!({"type": "object", "required": ["path", "what"], "properties": {"path": text, "what": text}});
    json!({"type": "object", "required": ["anomalies", "text"],
           "properties": {"anomalies": {"type": "array", "items": anomaly}, "text": text}})
}

fn told(value: &impl Serialize) -> Result<Value, Failure> {
    serde_json::to_value(value).map_err(|error| Failure::new(FailureCategory::Structural, error.to_string()))
}

/// Extracts title and links of a page.
pub(crate) struct Extraction;

impl Analyst for Extraction {
    async fn complete(&self, _: &str, input: &Value) -> Result<Value, Failure> {
        #[derive(Deserialize)]
        struct Answered {
            path: String,
            status: u16,
            text: String,
        }
        let Answered { path, status, text } = read(input)?;
        told(&Page { path, status, title: title(&text), links: links(&text) })
    }
}

/// Derives the checks and flows of a page.
pub(crate) struct Checking;

impl Analyst for Checking {
    async fn complete(&self, _: &str, input: &Value) -> Result<Value, Failure> {
        let Page { path, title, links, .. } = read(input)?;
        let next = links.into_iter().find(|link| !link.starts_with("/api/"));
        let flows = next.into_iter().map(|next| Flow { path: next, from: path.clone() }).collect();
        told(&Tests { checks: vec![Check { path: path.clone(), status: 200, title: Some(title) }], flows })
    }
}

/// Writes the report.
pub(crate) struct Reporting;

impl Analyst for Reporting {
    async fn complete(&self, _: &str, input: &Value) -> Result<Value, Failure> {
        let ReportInput { checks, loads, anomalies, complete } = read(input)?;
        let silent = || Failure::new(FailureCategory::Structural, "the observer said nothing at its end");
        let observed = complete.ok_or_else(silent)?;
        let requests: u64 = loads.values().sum();
        let mut text = format!("# {} pages, {} places under load\n\n", checks.len(), loads.len());
        text += &format!("{} checks, {} loads of ", observed.checks, observed.loads);
        text += &format!("{} requests each.\n\n", requests.checked_div(observed.loads).unwrap_or(0));
        for (path, what) in &anomalies {
            text += &format!("- {path} {what}\n");
        }
        let anomalies = anomalies.into_iter().map(|(path, what)| Anomaly { path, what });
        told(&Report { anomalies: anomalies.collect(), text })
    }
}
