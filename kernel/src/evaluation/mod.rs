//! Evaluation of runs: six dimensions in thousandths, a composite score, and an agent's reputation (Agent Scheduler paper,
//! section 8).
//!  
//! All arithmetic is on integers, so every replay computes the same values.

mod distance;
mod record;
mod regression;
mod reputation;
mod scores;
mod tally;
mod weights;

pub use distance::{Neighbor, distance, nearest};
pub use record::{Appraised, Judgement, Standard, Verdict, evaluate};
pub use regression::{HISTORY_MAX, REGRESSION_AFTER, REGRESSION_MICRO, Regression, detect_regression, mean};
pub use reputation::Reputation;
pub use scores::{Dimension, ScoreError, Scores, check_pm, score_pm};
pub use tally::{Tally, Target};
pub use weights::{
    Composite, DOMAIN_DEFAULT, DOMAINS_MAX, DomainError, Domains, UnknownDomain, WeightFault, Weights,
};

/// The best score: one, in thousandths.
pub const BEST_PM: u16 = 1_000;
