//! Stand-ins for people: the reviewer at the approvals and the judge of the final memo.

use ostler::kernel::port::{BoxFuture, Judge, JudgedRun, Opinion};
use regex::Regex;
use serde_json::Value;

use super::analysts::Risk;
use super::case_studies::Error;
use super::case_studies::gates::{Review, Reviewer};
use super::duties::{DUTIES, Level};

/// A scripted reviewer; rejects the scores once with one correction.
pub(crate) struct ScriptedReviewer;

fn risks(result: &Value) -> Result<Vec<Risk>, Error> {
    Ok(serde_json::from_value(result["risks"].clone())?)
}

impl Reviewer for ScriptedReviewer {
    fn review(&mut self, node: &str, result: &Value) -> Result<Review, Error> {
        Ok(match node {
            "extract" => match result["clauses"].as_array().map_or(0, Vec::len) {
                0 => Review::reject("there is no clause in it"),
                count => Review::approve(format!("{count} clauses, as in the contract")),
            },
            "score" => {
                let risks = risks(result)?;
                let capped = risks.iter().find(|risk| risk.topic == "liability" && risk.level < Level::High);
                match capped.and_then(|risk| risk.clause) {
                    Some(number) => Review::reject(format!(
                        "clause {number} is a high risk: the cap is far below what a breach costs"
                    )),
                    None => Review::approve(format!("{} risks, and their levels are right", risks.len())),
                }
            }
            _ => Review::approve("the client can work with that"),
        })
    }
}

/// Scores the memo by the paper's criteria: accuracy (every quotation occurs in the contract), completeness (each required topic is in
/// the contract or reported missing) and actionability (each risk has a recommended wording).
pub(crate) struct MemoJudge {
    /// The contract as one line.
    contract: String,
    /// The contract's lines.
    lines: Vec<String>,
}

impl MemoJudge {
    pub(crate) fn of(contract: &str) -> MemoJudge {
        let line = contract.split_whitespace().collect::<Vec<_>>().join(" ");
        MemoJudge { contract: line, lines: contract.lines().map(str::to_owned).collect() }
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
        Ok(Opinion { quality_pm, note, ..Opinion::default() })
    }
}

impl Judge for MemoJudge {
    fn name(&self) -> &str {
        "partner"
    }

    fn judge(&self, work: JudgedRun) -> BoxFuture<'_, Result<Opinion, String>> {
        Box::pin(async move { MemoJudge::judge(self, &work).map_err(|error| error.to_string()) })
    }
}
