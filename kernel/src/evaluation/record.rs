//! Journal records of evaluations.

use serde::{Deserialize, Serialize};

use super::{Composite, Domains, Scores, Target, Weights};
use crate::event::Evaluated;
use crate::id::{AgentId, RunId};

/// Basis of a run's evaluation. Precedes its [`Evaluated`] in the stream if the basis is not the default.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Appraised {
    /// Domain of the work.
    pub domain: String,
    /// Weights of the dimensions.
    pub weights: Weights,
    /// Targets for time and cost.
    pub target: Target,
    /// The judge's result, if a judge was asked.
    pub judgement: Option<Judgement>,
}

/// Result of a judge.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Judgement {
    /// Name of the judge.
    pub by: String,
    /// Quality in thousandths; `None` if the judge could not decide.
    pub quality: Option<u16>,
    /// Reason of the judge.
    pub note: String,
}

/// A person's verdict on a finished run. Recorded in the client's stream, because the run's stream is closed. Counts as one
/// more score of the agent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Verdict {
    /// The judged run.
    pub run: RunId,
    /// The run's agent; `None` if the agent existed for this run only.
    pub agent: Option<AgentId>,
    /// The person's quality score in thousandths, if given.
    pub quality: Option<u16>,
    /// The person's adherence score in thousandths, if given.
    pub adherence: Option<u16>,
    /// The run's evaluation from now on.
    pub evaluated: Evaluated,
    /// Author of the verdict.
    pub by: String,
    /// The author's comment.
    pub note: String,
}

/// Standard by which an agent's runs are evaluated.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Standard {
    /// Domain of the agent's work; `None` for the default.
    pub domain: Option<String>,
    /// Targets of the agent's runs.
    pub target: Target,
}

impl Appraised {
    /// The basis for a run of an agent with this standard.
    pub fn by(standard: &Standard, domains: &Domains, judgement: Option<Judgement>) -> Appraised {
        let domain = standard.domain.as_deref().unwrap_or(super::DOMAIN_DEFAULT);
        let weights = domains.of(domain);
        Appraised { domain: domain.to_owned(), weights, target: standard.target, judgement }
    }

    /// True if the basis needs a record.
    pub fn differs_from_default(&self) -> bool {
        self.judgement.is_some()
            || self.weights != Weights::DEFAULT
            || self.target != Target::default()
            || self.domain != super::DOMAIN_DEFAULT
    }

    /// Evaluates a run with these scores, the judge's quality and the judge's adherence. An adherence of the judge can lower
    /// that of the records, and never raises it. `None` if no weighted dimension is known.
    pub fn evaluate(&self, scores: Scores, adherence: Option<u16>) -> Option<Evaluated> {
        let quality = self.judgement.as_ref().and_then(|judgement| judgement.quality);
        let adherence = scores.adherence.into_iter().chain(adherence).min();
        evaluate(scores.with_judgement(quality, adherence), &self.weights)
    }
}

/// Evaluates scores by these weights. `None` if no weighted dimension is known.
pub fn evaluate(scores: Scores, weights: &Weights) -> Option<Evaluated> {
    Some(Evaluated { scores, composite: weights.composite(&scores).map(Composite::pm)? })
}
