//! Evaluations of runs and agents. Scores are thousandths unless the name says otherwise.

use std::collections::BTreeMap;

use ostler_kernel::run::FailureCategory;
use serde::{Deserialize, Serialize};

use super::DiagnosisView;

/// The body of `POST /v1/runs/{id}/evaluation`: at least one of the scores.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct VerdictRequest {
    /// Quality, 0 to 1,000.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quality_pm: Option<u16>,
    /// Adherence, 0 to 1,000.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub adherence_pm: Option<u16>,
    /// Name of the person.
    pub by: String,
    /// A note.
    #[serde(default)]
    pub note: String,
}

/// The six dimensions of an evaluation; absent: unknown.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ScoresView {
    /// Quality of the results.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quality: Option<u16>,
    /// Adherence to the contract.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub adherence: Option<u16>,
    /// Speed.
    pub speed: u16,
    /// Cost.
    pub cost: u16,
    /// Freedom from errors.
    pub errors: u16,
    /// Freedom from revisions.
    pub revisions: u16,
}

/// The answer to `GET /v1/runs/{id}/evaluation`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct EvaluationView {
    /// The run as a UUID.
    pub run: String,
    /// The client that pays.
    pub client: String,
    /// The agent.
    pub agent: String,
    /// The outcome; absent: the run is open.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outcome: Option<String>,
    /// The domain, which selects the weights.
    pub domain: String,
    /// Weight of each dimension, by name.
    pub weights: BTreeMap<String, u16>,
    /// The scores; absent: not evaluated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scores: Option<ScoresView>,
    /// Composite of all dimensions, in millionths.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub composite_micro: Option<u32>,
    /// Target time in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target_ms: Option<u64>,
    /// Target cost in credits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target_credits: Option<u64>,
    /// The judge's opinion.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub judge: Option<JudgementView>,
    /// Verdicts of people, oldest first.
    pub verdicts: Vec<VerdictView>,
    /// Acts of people during the run.
    pub acts: u32,
    /// Results of the diagnoses of failures, by category.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub diagnoses: BTreeMap<FailureCategory, DiagnosisView>,
}

/// A judge's opinion of a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct JudgementView {
    /// The judge.
    pub by: String,
    /// Quality; absent: no opinion.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quality: Option<u16>,
    /// The reason.
    pub note: String,
}

/// A person's verdict on a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct VerdictView {
    /// Name of the person.
    pub by: String,
    /// Time in milliseconds since the Unix epoch.
    pub at_ms: i64,
    /// Quality.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quality: Option<u16>,
    /// Adherence.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub adherence: Option<u16>,
    /// A note.
    pub note: String,
}

/// The answer to `GET /v1/evaluations`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EvaluationList {
    /// Agents with kept runs or a reputation, by client and name.
    pub agents: Vec<AgentEvaluationLine>,
}

/// Evaluation of an agent over its kept runs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AgentEvaluationLine {
    /// The client that pays.
    pub client: String,
    /// The agent; absent: all unnamed agents of the client.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// The domain.
    pub domain: String,
    /// Reputation; absent: no evaluated run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reputation_pm: Option<u16>,
    /// Number of scores, verdicts included.
    pub evaluations: u64,
    /// Mean of the last scores.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scores: Option<ScoresView>,
    /// One score for that mean, in millionths.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub composite_micro: Option<u32>,
    /// Closed runs.
    pub runs: u64,
    /// Share of closed runs that needed no person.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub zero_intervention_pm: Option<u16>,
    /// The last run was much worse than usual.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub degradation: Option<DegradationView>,
    /// Distance to the requested agent, in millionths.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub distance_micro: Option<u32>,
}

/// A last run that was much worse than usual.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DegradationView {
    /// Distance from the mean, in millionths.
    pub distance_micro: u32,
    /// Dimension with the largest drop.
    pub dimension: String,
    /// The usual score.
    pub from_pm: u16,
    /// The last score.
    pub to_pm: u16,
}
