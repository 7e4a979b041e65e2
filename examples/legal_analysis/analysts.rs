//! The analysts: extraction of clauses, scoring of risks, recommendation. Code in place of models.

use std::collections::BTreeMap;
use std::fmt::Write;

use ostler::kernel::event::Failure;
use ostler::kernel::run::FailureCategory;
use regex::{Regex, RegexBuilder};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::case_studies::analyst::{Analyst, read};
use super::duties::{DUTIES, Duty, Level};

/// A clause, verbatim.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Clause {
    pub(crate) number: u32,
    pub(crate) heading: String,
    pub(crate) text: String,
}

/// A risk in the contract.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Risk {
    /// `None` for a missing clause.
    pub(crate) clause: Option<u32>,
    pub(crate) topic: String,
    pub(crate) article: String,
    pub(crate) level: Level,
    pub(crate) why: String,
    /// Quoted words of the contract.
    pub(crate) quote: String,
}

/// Output of the extraction.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Extracted {
    pub(crate) clauses: Vec<Clause>,
}

/// Output of the scoring, worst risk first.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Scored {
    pub(crate) risks: Vec<Risk>,
}

/// The final result.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Recommended {
    pub(crate) risks: Vec<Risk>,
    pub(crate) memo: String,
}

fn failed(error: impl std::fmt::Display) -> Failure {
    Failure::new(FailureCategory::Structural, error.to_string())
}

fn pattern(words: &str) -> Result<Regex, Failure> {
    RegexBuilder::new(words).case_insensitive(true).build().map_err(failed)
}

fn told(value: &impl Serialize) -> Result<Value, Failure> {
    serde_json::to_value(value).map_err(failed)
}

/// Finds clauses: a line with number and heading, and the text up to the next one.
pub(crate) struct Extraction;

impl Analyst for Extraction {
    async fn complete(&self, _: &str, input: &Value) -> Result<Value, Failure> {
        let text = input["text"].as_str().ok_or_else(|| failed("there is no text of a contract"))?;
        let heading = Regex::new(r"^(\d{1,3})\.\s+(\S.*)$").map_err(failed)?;
        let mut clauses: Vec<Clause> = Vec::new();
        for line in text.lines().map(str::trim) {
            if let Some(found) = heading.captures(line) {
                let number = found[1].parse().map_err(failed)?;
                clauses.push(Clause { number, heading: found[2].to_owned(), text: String::new() });
            } else if let (Some(clause), false) = (clauses.last_mut(), line.is_empty()) {
                let gap = if clause.text.is_empty() { "" } else { " " };
                clause.text += gap;
                clause.text += line;
            }
        }
        told(&Extracted { clauses })
    }
}

/// Compares clauses with the requirements.
pub(crate) struct Scoring {
    /// Checks only for missing clauses and high risks. The fallback for a slow analyst.
    pub(crate) is_quick: bool,
}

impl Scoring {
    fn of_duty(&self, duty: &Duty, clauses: &[Clause]) -> Result<Vec<Risk>, Failure> {
        let risk = |clause, level, why: &str, quote: &str| Risk {
            clause,
            topic: duty.topic.to_owned(),
            article: duty.article.to_owned(),
            level,
            why: why.to_owned(),
            quote: quote.to_owned(),
        };
        let heading = pattern(duty.heading)?;
        let about: Vec<&Clause> = clauses.iter().filter(|clause| heading.is_match(&clause.heading)).collect();
        let mut risks = Vec::new();
        if let (true, Some(level)) = (about.is_empty(), duty.missing) {
            risks.push(risk(None, level, "no clause settles this", ""));
        }
        for flaw in duty.flaws.iter().filter(|flaw| !self.is_quick || flaw.level == Level::High) {
            let words = pattern(flaw.words)?;
            for clause in &about {
                let found = words.find(&clause.text);
                risks.extend(found.map(|it| risk(Some(clause.number), flaw.level, flaw.why, it.as_str())));
            }
        }
        Ok(risks)
    }
}

impl Analyst for Scoring {
    async fn complete(&self, _: &str, input: &Value) -> Result<Value, Failure> {
        let Extracted { clauses } = read(input)?;
        let mut risks = Vec::new();
        for duty in &DUTIES {
            risks.extend(self.of_duty(duty, &clauses)?);
        }
        if let Some(note) = input["feedback"].as_str() {
            apply_note(note, &clauses, &mut risks)?;
        }
        risks.sort_by(|one, other| other.level.cmp(&one.level).then(one.clause.cmp(&other.clause)));
        told(&Scored { risks })
    }
}

/// Applies a reviewer's note of the form `clause NUMBER … low, medium or high`.
fn apply_note(note: &str, clauses: &[Clause], risks: &mut Vec<Risk>) -> Result<(), Failure> {
    let said = pattern(r"clause (\d+)[^;\n]*?\b(low|medium|high)\b")?;
    for found in said.captures_iter(note) {
        let number: u32 = found[1].parse().map_err(failed)?;
        let level = match found[2].to_lowercase().as_str() {
            "low" => Level::Low,
            "medium" => Level::Medium,
            _ => Level::High,
        };
        let Some(clause) = clauses.iter().find(|clause| clause.number == number) else { continue };
        if !risks.iter().any(|risk| risk.clause == Some(number)) {
            risks.push(Risk {
                clause: Some(number),
                topic: clause.heading.to_lowercase(),
                article: String::new(),
                level,
                why: String::new(),
                quote: clause.text.clone(),
            });
        }
        for risk in risks.iter_mut().filter(|risk| risk.clause == Some(number)) {
            risk.level = level;
            risk.why = format!("the reviewer: {note}");
        }
    }
    Ok(())
}

/// Recommends a change for each risk.
pub(crate) struct Recommending;

impl Analyst for Recommending {
    async fn complete(&self, _: &str, input: &Value) -> Result<Value, Failure> {
        let Scored { risks } = read(input)?;
        let wordings: BTreeMap<&str, &str> = DUTIES.iter().map(|duty| (duty.topic, duty.wording)).collect();
        let high = risks.iter().filter(|risk| risk.level == Level::High).count();
        let mut memo = format!("# {} risks, {high} of them high\n\n", risks.len());
        memo += if high > 0 { "Do not sign as it stands.\n" } else { "It can be signed.\n" };
        for risk in &risks {
            let wherein =
                risk.clause.map_or_else(|| "missing".to_owned(), |number| format!("clause {number}"));
            let level = format!("{:?}", risk.level).to_lowercase();
            let wording = wordings.get(risk.topic.as_str()).copied().unwrap_or("Have it looked at.");
            write!(memo, "\n- {level}: {} ({wherein}", risk.topic).map_err(failed)?;
            let article =
                if risk.article.is_empty() { String::new() } else { format!(", GDPR {}", risk.article) };
            write!(memo, "{article})\n  {}\n  Instead: {wording}\n", risk.why).map_err(failed)?;
        }
        told(&Recommended { risks, memo })
    }
}
