//! Stand-ins for people: the reviewer of uncertain findings and the judge of the report.

use std::path::PathBuf;

use ostler::kernel::agent::CONFIDENCE_MIN;
use ostler::kernel::port::{BoxFuture, Judge, JudgedRun, Opinion};
use serde_json::Value;

use super::case_studies::Error;
use super::case_studies::gates::{Review, Reviewer};
use super::finding::{Finding, Report, Scanned};

/// A scripted reviewer; dismisses secrets in test fixtures.
pub(crate) struct ScriptedReviewer;

impl Reviewer for ScriptedReviewer {
    fn review(&mut self, _: &str, result: &Value) -> Result<Review, Error> {
        let Scanned { findings, .. } = serde_json::from_value(result.clone())?;
        let unsure = findings.iter().filter(|finding| finding.confidence < CONFIDENCE_MIN);
        let (dismissed, held): (Vec<&Finding>, Vec<&Finding>) =
            unsure.partition(|finding| finding.path.split('/').any(|part| part.starts_with("test")));
        let places = |word: &str, findings: &[&Finding]| {
            let places = findings.iter().map(|finding| format!("{word} {}", finding.place()));
            places.collect::<Vec<_>>().join(" ")
        };
        if dismissed.is_empty() {
            return Ok(Review::approve(places("keep", &held)));
        }
        Ok(Review::reject(format!("{} made up for tests", places("dismiss", &dismissed))))
    }
}

/// Scores the report by the share of findings with an existing place.
pub(crate) struct EvidenceJudge(pub(crate) PathBuf);

impl EvidenceJudge {
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
        Ok(Opinion { quality_pm, note, ..Opinion::default() })
    }
}

impl Judge for EvidenceJudge {
    fn name(&self) -> &str {
        "evidence"
    }

    fn judge(&self, work: JudgedRun) -> BoxFuture<'_, Result<Opinion, String>> {
        Box::pin(async move { EvidenceJudge::judge(self, &work).map_err(|error| error.to_string()) })
    }
}
