//! Who judges the report: somebody who goes there once more.

use ostler::kernel::port::{BoxFuture, Judge, Opinion, JudgedRun};

use super::analysts::{Anomaly, Report};
use super::case_studies::Error;
use super::fetch::Site;

/// Looks every anomaly up once more: quality is the share of those that are there still.
pub(crate) struct Visitor(pub(crate) Site);

impl Visitor {
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
        Ok(Opinion { quality_pm: u16::try_from(quality_pm)?, note })
    }
}

impl Judge for Visitor {
    fn name(&self) -> &str {
        "visitor"
    }

    fn judge(&self, work: JudgedRun) -> BoxFuture<'_, Result<Opinion, String>> {
        Box::pin(async move { Visitor::judge(self, &work).await.map_err(|error| error.to_string()) })
    }
}
