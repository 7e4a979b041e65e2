//! What a model is asked in place of code, and what is checked of its answers.

use serde_json::{Value, json};

use super::analysts::{Extracted, Scored};
use super::case_studies::model::Question;
use super::duties::DUTIES;

pub(crate) const EXTRACT: &str = "Extract the clauses of this contract.";

pub(crate) const SCORE: &str = "Score the risks of these clauses under the GDPR.";

const EXTRACT_IN_WORDS: &str =
    "Extract the clauses of this contract: of each its number, its heading and its text, word for word.";

const SCORE_IN_WORDS: &str = "Score the risks of these clauses under the GDPR, for the controller. A risk names its clause (null if a \
     required clause is missing), its topic, the article, the level low, medium or high, why it is a risk, and the words of the \
     clause that show it. Topics: instructions, confidentiality, security, sub-processors, transfers, data subjects, breaches, \
     deletion, audits, liability. Leave out clauses without a risk.";

/// Asks for the clauses; their texts have to stand in the contract.
pub(crate) fn extraction() -> Question<Extracted> {
    let clause = object(json!({
        "number": {"type": "integer", "minimum": 0, "maximum": 999},
        "heading": text(200),
        "text": text(4_000),
    }));
    Question {
        instruction: EXTRACT_IN_WORDS,
        schema: object(json!({"clauses": {"type": "array", "items": clause, "maxItems": 60}})),
        check: clauses_are_in_the_contract,
    }
}

fn clauses_are_in_the_contract(input: &Value, answer: &Extracted) -> Result<(), String> {
    let contract = one_line(input["text"].as_str().unwrap_or_default());
    if answer.clauses.is_empty() {
        return Err("there is no clause in it".to_owned());
    }
    for clause in &answer.clauses {
        let (heading, text) = (one_line(&clause.heading), one_line(&clause.text));
        if !contract.contains(&format!("{}. {heading} {text}", clause.number)) {
            return Err(format!("clause {} does not stand in the contract as you give it", clause.number));
        }
    }
    Ok(())
}

/// Asks for the risks; their quotations have to stand in the clauses they name.
pub(crate) fn scoring() -> Question<Scored> {
    let topics: Vec<&str> = DUTIES.iter().map(|duty| duty.topic).collect();
    let risk = object(json!({
        "clause": {"type": ["integer", "null"]},
        "topic": {"enum": topics},
        "article": text(40),
        "level": {"enum": ["low", "medium", "high"]},
        "why": text(300),
        "quote": text(400),
    }));
    Question {
        instruction: SCORE_IN_WORDS,
        schema: object(json!({"risks": {"type": "array", "items": risk, "maxItems": 40}})),
        check: quotations_are_in_their_clauses,
    }
}

fn quotations_are_in_their_clauses(input: &Value, answer: &Scored) -> Result<(), String> {
    let clauses = input["clauses"].as_array().map(Vec::as_slice).unwrap_or_default();
    for risk in &answer.risks {
        let Some(number) = risk.clause else { continue };
        let clause = clauses.iter().find(|clause| clause["number"] == number);
        let clause = clause.ok_or_else(|| format!("there is no clause {number}"))?;
        let text = one_line(clause["text"].as_str().unwrap_or_default());
        if !text.contains(&one_line(&risk.quote)) {
            return Err(format!("clause {number} does not say {:?}", risk.quote));
        }
    }
    Ok(())
}

/// A text without its line breaks.
fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn text(max: u32) -> Value {
    json!({"type": "string", "maxLength": max})
}

fn object(properties: Value) -> Value {
    let required: Vec<String> =
        properties.as_object().into_iter().flatten().map(|(name, _)| name.clone()).collect();
    json!({"type": "object", "properties": properties, "required": required, "additionalProperties": false})
}
