//! The people beside the agents: the reviewer at the gates, and the partner who judges the whole.

use ostler::kernel::port::{BoxFuture, Judge, Opinion, JudgedRun};
use regex::Regex;
use serde_json::Value;

use super::case_studies::Error;
use super::case_studies::gates::{Reviewer, Said};
use super::duties::{DUTIES, Level};
use super::jurists::Risk;

/// A reviewer of habit, who is there when nobody else is: looks at each result, and knows one thing that the scores do not.
pub(crate) struct Habit;

fn risks(result: &Value) -> Result<Vec<Risk>, Error> {
    Ok(serde_json::from_value(result["risks"].clone())?)
}

impl Reviewer for Habit {
    fn look(&mut self, node: &str, result: &Value) -> Result<Said, Error> {
        Ok(match node {
            "extract" => match result["clauses"].as_array().map_or(0, Vec::len) {
                0 => Said::no("there is no clause in it"),
                count => Said::yes(format!("{count} clauses, as in the contract")),
            },
            "score" => {
                let risks = risks(result)?;
                let capped = risks.iter().find(|risk| risk.topic == "liability" && risk.level < Level::High);
                match capped.and_then(|risk| risk.clause) {
                    Some(number) => Said::no(format!(
                        "clause {number} is a high risk: the cap is far below what a breach costs"
                    )),
                    None => Said::yes(format!("{} risks, and their levels are right", risks.len())),
                }
            }
            _ => Said::yes("the client can work with that"),
        })
    }
}

/// Judges the memo by what the paper's case study asks for: accuracy (every quotation stands in the contract), completeness (what the
/// law wants is in the contract, or the memo says that it is not), and actionability (every risk comes with what to write instead).
pub(crate) struct Partner {
    /// The contract, in one line.
    contract: String,
    /// Its lines as they are.
    lines: Vec<String>,
}

impl Partner {
    pub(crate) fn of(contract: &str) -> Partner {
        let line = contract.split_whitespace().collect::<Vec<_>>().join(" ");
        Partner { contract: line, lines: contract.lines().map(str::to_owned).collect() }
    }

    fn judge(&self, work: &JudgedRun) -> Result<Opinion, Error> {
        let result = work.outputs.get("recommend").ok_or("there is no recommendation")?;
        let (risks, memo) = (risks(result)?, result["memo"].as_str().ok_or("there is no memo")?);
        let part = |part: usize, whole: usize| (part * 1_000).checked_div(whole).unwrap_or(1_000);
        let quoted = risks.iter().filter(|risk| self.contract.contains(&risk.quote)).count();
        let advised = memo.matches("\n  Instead: ").count().min(risks.len());
        let musts: Vec<_> = DUTIES.iter().filter(|duty| duty.missing.is_some()).collect();
        let mut settled = 0;
        for duty in &musts {
            let heading = Regex::new(&format!(r"(?i)^\d+\..*({})", duty.heading))?;
            let is_told = risks.iter().any(|risk| risk.topic == duty.topic);
            settled += usize::from(is_told || self.lines.iter().any(|line| heading.is_match(line)));
        }
        let marks = [part(quoted, risks.len()), part(settled, musts.len()), part(advised, risks.len())];
        let [accurate, complete, actionable] = marks;
        let quality_pm = u16::try_from(marks.iter().sum::<usize>() / 3)?;
        let note =
            format!("accuracy {accurate}, completeness {complete}, actionability {actionable} of 1000");
        Ok(Opinion { quality_pm, note })
    }
}

impl Judge for Partner {
    fn name(&self) -> &str {
        "partner"
    }

    fn judge(&self, work: JudgedRun) -> BoxFuture<'_, Result<Opinion, String>> {
        Box::pin(async move { Partner::judge(self, &work).map_err(|error| error.to_string()) })
    }
}
