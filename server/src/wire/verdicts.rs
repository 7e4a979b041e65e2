//! Verdicts of models on results.

use ostler_kernel::run::JudgedResult;
use serde::{Deserialize, Serialize};

use super::Usd;

/// The verdict of a model on a result, by a rule of the node's contract.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct JudgedResultView {
    /// The node.
    pub node: String,
    /// Number of the judged attempt.
    pub attempt: u32,
    /// Index of the rule in the contract.
    pub rule: u32,
    /// Method of the rule: `model`.
    pub method: String,
    /// Name of the judging model in the configuration.
    pub model: String,
    /// Probability that an accepted result is right, as the rule says; `null`: unknown.
    pub precision: Option<f64>,
    /// True if the result holds.
    pub holds: bool,
    /// The model's reason; may be empty.
    pub why: String,
    /// The judging call.
    pub call: JudgingCall,
}

/// The call by which a model judged.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct JudgingCall {
    /// Sequence number of the record of the call; 0 from a holder of another version.
    #[serde(default)]
    pub record: u64,
    /// Name of the model that answered in the configuration: the model itself, or a fallback.
    pub model: String,
    /// Name of the model, as the provider gives it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answered_by: Option<String>,
    /// Id of the response, as the provider gives it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub response_id: Option<String>,
    /// Tokens of prompt and answer.
    pub tokens: u64,
    /// Price in US dollars; `null`: unknown.
    pub usd: Option<Usd>,
    /// End of the call, in milliseconds since the Unix epoch.
    pub ended_ms: i64,
}

impl From<&JudgedResult> for JudgedResultView {
    fn from(JudgedResult { verdict, call, record }: &JudgedResult) -> JudgedResultView {
        JudgedResultView {
            node: verdict.node.to_string(),
            attempt: verdict.attempt,
            rule: verdict.rule,
            method: "model".to_owned(),
            model: verdict.model.clone(),
            precision: verdict.precision,
            holds: verdict.holds,
            why: verdict.why.clone(),
            call: JudgingCall {
                record: *record,
                model: call.model.clone(),
                answered_by: call.answered_by.clone(),
                response_id: call.response_id.clone(),
                tokens: call.input_tokens.saturating_add(call.output_tokens),
                usd: call.nano_usd.map(Usd),
                ended_ms: call.ended_at,
            },
        }
    }
}
