//! The judge of the report.

use ostler::kernel::port::{BoxFuture, Judge, JudgedRun, Opinion};

use super::analysts::{Anomaly, Report};
use super::case_studies::Error;
use super::fetch::Site;

/// Requests each reported page again; quality is the share of anomalies that reproduce.
pub(crate) struct RevisitJudge(pub(crate) Site);

impl RevisitJudge {
    async fn is_there(&self, Anomaly { path, .. }: &Anomaly) -> bool {
        let answer = self.0.get(path).await;
        answer.is_ok_and(|answer| answer.status != 200 || answer.title().is_empty())
    }

    async fn judge(&self, work: &JudgedRun) -> Result<Opinion, Error> {
        let result = work.outputs.get("report").ok_or("there is no report")?;
        let Report { anomalies, text } = serde_json::from_value(result.clone())?;
        let mut shown = 0;
        for anomaly in &anomalies {
            let is_told = text.contains(&format!("{} {}", anomaly.path, anomaly.what));
            shown += usize::from(is_told && self.is_there(anomaly).await);
        }
        let note = format!("{shown} of {} anomalies are there still", anomalies.len());
        let quality_pm = (shown * 1_000).checked_div(anomalies.len()).unwrap_or(1_000);
        Ok(Opinion { quality_pm: u16::try_from(quality_pm)?, note, ..Opinion::default() })
    }
}

impl Judge for RevisitJudge {
    fn name(&self) -> &str {
        "visitor"
    }

    fn judge(&self, work: JudgedRun) -> BoxFuture<'_, Result<Opinion, String>> {
        Box::pin(async move { RevisitJudge::judge(self, &work).await.map_err(|error| error.to_string()) })
    }
}
