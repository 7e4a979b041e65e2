//! What is written down of an evaluation besides its scores.

use serde::{Deserialize, Serialize};

use super::{Composite, Domains, Scores, Target, Weights};
use crate::event::Evaluated;
use crate::id::{AgentId, RunId};

/// By what a run was judged, where it was not the default: the record before its [`Evaluated`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Appraised {
    /// What the work is about.
    pub domain: String,
    /// How much each dimension counted.
    pub weights: Weights,
    /// What the run was expected to take.
    pub target: Target,
    /// What a judge said of it, if one was asked.
    pub judgement: Option<Judgement>,
}

/// What a judge said.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Judgement {
    /// Which judge.
    pub by: String,
    /// How good it finds what came of the run, in thousandths; `None`: it could not tell, and the note says why.
    pub quality: Option<u16>,
    /// Why.
    pub note: String,
}

/// A person's verdict on a run that is over. It stands in the stream of the run's client, since nothing follows in that of
/// the run, and counts as one more score of its agent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Verdict {
    /// On what.
    pub run: RunId,
    /// Whose run it was; `None`: of an agent that was there for it alone.
    pub agent: Option<AgentId>,
    /// Quality as the person sees it, in thousandths, if they said so.
    pub quality: Option<u16>,
    /// Adherence as the person sees it, in thousandths, if they said so.
    pub adherence: Option<u16>,
    /// How the run is scored from here on.
    pub evaluated: Evaluated,
    /// Who said so.
    pub by: String,
    /// In their words.
    pub note: String,
}

/// By what the runs of an agent are judged.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Standard {
    /// What its work is about; `None`: the default.
    pub domain: Option<String>,
    /// What its runs should take.
    pub target: Target,
}

impl Appraised {
    /// What a run is judged by whose agent has this standard.
    pub fn by(standard: &Standard, domains: &Domains, judgement: Option<Judgement>) -> Appraised {
        let domain = standard.domain.as_deref().unwrap_or(super::DOMAIN_DEFAULT);
        let weights = domains.of(domain);
        Appraised { domain: domain.to_owned(), weights, target: standard.target, judgement }
    }

    /// Whether there is anything to say that is not the default.
    pub fn differs_from_default(&self) -> bool {
        self.judgement.is_some()
            || self.weights != Weights::DEFAULT
            || self.target != Target::default()
            || self.domain != super::DOMAIN_DEFAULT
    }

    /// The evaluation of a run with these scores, the judge's among them; `None`: nothing that counts is known.
    pub fn evaluate(&self, scores: Scores) -> Option<Evaluated> {
        let quality = self.judgement.as_ref().and_then(|judgement| judgement.quality);
        evaluate(scores.with_judgement(quality, None), &self.weights)
    }
}

/// An evaluation by these weights; `None`: nothing that counts is known.
pub fn evaluate(scores: Scores, weights: &Weights) -> Option<Evaluated> {
    Some(Evaluated { scores, composite: weights.composite(&scores).map(Composite::pm)? })
}
