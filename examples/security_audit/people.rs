//! The people beside the agents: the one who is asked about doubtful findings, and the one who judges the report.

use std::path::PathBuf;

use ostler::kernel::agent::CONFIDENCE_MIN;
use ostler::kernel::port::{BoxFuture, Judge, Opinion, JudgedRun};
use serde_json::Value;

use super::case_studies::Error;
use super::case_studies::gates::{Reviewer, Said};
use super::finding::{Finding, Report, Scanned};

/// A person of habit, who is there when nobody else is: what looks like a secret in a fixture of a test is none.
pub(crate) struct Habit;

impl Reviewer for Habit {
    fn look(&mut self, _: &str, result: &Value) -> Result<Said, Error> {
        let Scanned { findings, .. } = serde_json::from_value(result.clone())?;
        let unsure = findings.iter().filter(|finding| finding.confidence < CONFIDENCE_MIN);
        let (dismissed, held): (Vec<&Finding>, Vec<&Finding>) =
            unsure.partition(|finding| finding.path.split('/').any(|part| part.starts_with("test")));
        let places = |word: &str, findings: &[&Finding]| {
            let places = findings.iter().map(|finding| format!("{word} {}", finding.place()));
            places.collect::<Vec<_>>().join(" ")
        };
        if dismissed.is_empty() {
            return Ok(Said::yes(places("keep", &held)));
        }
        Ok(Said::no(format!("{} made up for tests", places("dismiss", &dismissed))))
    }
}

/// Looks every finding up once more: quality is the share of those whose place is there.
pub(crate) struct Evidence(pub(crate) PathBuf);

impl Evidence {
    fn is_there(&self, finding: &Finding) -> bool {
        let text = std::fs::read(self.0.join(&finding.path));
        text.is_ok_and(|text| String::from_utf8_lossy(&text).lines().count() >= finding.line)
    }

    fn judge(&self, work: &JudgedRun) -> Result<Opinion, Error> {
        let result = work.outputs.get("synthesis").ok_or("there is no report")?;
        let Report { findings, text } = serde_json::from_value(result.clone())?;
        let is_told = |finding: &Finding| text.contains(&finding.place());
        let shown = findings.iter().filter(|finding| self.is_there(finding) && is_told(finding)).count();
        let note = format!("{shown} of {} findings have their evidence", findings.len());
        let quality_pm =
            if findings.is_empty() { 1_000 } else { u16::try_from(shown * 1_000 / findings.len())? };
        Ok(Opinion { quality_pm, note })
    }
}

impl Judge for Evidence {
    fn name(&self) -> &str {
        "evidence"
    }

    fn judge(&self, work: JudgedRun) -> BoxFuture<'_, Result<Opinion, String>> {
        Box::pin(async move { Evidence::judge(self, &work).map_err(|error| error.to_string()) })
    }
}
