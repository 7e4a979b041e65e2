//! How well runs were done and agents do, as it is told. Scores are thousandths, where the name does not say otherwise.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// The body of `POST /v1/runs/{id}/evaluation`: one of the scores at least.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct VerdictRequest {
    /// How good what came of the run is, 0 to 1,000.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quality_pm: Option<u16>,
    /// Whether it is what was asked for, 0 to 1,000.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub adherence_pm: Option<u16>,
    /// Who says so.
    pub by: String,
    /// In their words.
    #[serde(default)]
    pub note: String,
}

/// The six dimensions of an evaluation; absent: not known.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ScoresView {
    /// How good what came of it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quality: Option<u16>,
    /// Whether it is what was asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub adherence: Option<u16>,
    /// How soon it was there.
    pub speed: u16,
    /// What it cost.
    pub cost: u16,
    /// How seldom it failed.
    pub errors: u16,
    /// How seldom it had to be changed.
    pub revisions: u16,
}

/// The answer to `GET /v1/runs/{id}/evaluation`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EvaluationView {
    /// The run, as a UUID.
    pub run: String,
    /// Who pays.
    pub client: String,
    /// Who ran it.
    pub agent: String,
    /// How it ended; absent: it goes on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outcome: Option<String>,
    /// What the work is about: whose weights count.
    pub domain: String,
    /// How much each dimension counts, by its name.
    pub weights: BTreeMap<String, u16>,
    /// How well it was done; absent: it was not evaluated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scores: Option<ScoresView>,
    /// One score for all dimensions, in millionths.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub composite_micro: Option<u32>,
    /// What its attempts should have taken, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target_ms: Option<u64>,
    /// What it should have cost, in credits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target_credits: Option<u64>,
    /// What a judge said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub judge: Option<JudgementView>,
    /// What people said since, the oldest first.
    pub verdicts: Vec<VerdictView>,
    /// Times that a person had to do something about the run while it went on.
    pub acts: u32,
}

/// What a judge said of a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct JudgementView {
    /// Which.
    pub by: String,
    /// How good it finds what came of it; absent: it could not tell.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quality: Option<u16>,
    /// Why.
    pub note: String,
}

/// What a person said of a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct VerdictView {
    /// Who.
    pub by: String,
    /// When, in milliseconds since the Unix epoch.
    pub at_ms: i64,
    /// What they said of its quality.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quality: Option<u16>,
    /// What they said of its adherence.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub adherence: Option<u16>,
    /// In their words.
    pub note: String,
}

/// The answer to `GET /v1/evaluations`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EvaluationList {
    /// Those whose runs are kept or were ever evaluated, by client and name.
    pub agents: Vec<AgentEvaluationLine>,
}

/// How well an agent does, as far as its runs are kept.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AgentEvaluationLine {
    /// Who pays.
    pub client: String,
    /// Which; absent: all agents of the client without a name of their own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// What its work is about.
    pub domain: String,
    /// What its scores add up to; absent: it was never evaluated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reputation_pm: Option<u16>,
    /// Scores so far, verdicts among them.
    pub evaluations: u64,
    /// The average of its last scores.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scores: Option<ScoresView>,
    /// One score for that average, in millionths.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub composite_micro: Option<u32>,
    /// Runs of it that are over.
    pub runs: u64,
    /// Share of these that no person had to do anything about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub zero_intervention_pm: Option<u16>,
    /// Its last run was far worse than usual.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub degradation: Option<DegradationView>,
    /// How far it is from the agent that was asked about, in millionths.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub distance_micro: Option<u32>,
}

/// The last run of an agent was far worse than usual.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DegradationView {
    /// How far from the average, in millionths.
    pub distance_micro: u32,
    /// The dimension that fell most.
    pub dimension: String,
    /// What it used to be.
    pub from_pm: u16,
    /// What it is.
    pub to_pm: u16,
}
