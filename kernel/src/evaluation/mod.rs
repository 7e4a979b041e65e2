//! How well a run was done: six dimensions in thousandths, one score, and the reputation that scores add up to (section 8 of
//! the Agent Scheduler paper).
//!
//! Everything is integers, so that every replay comes to the same.

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

/// The best of anything here: thousandths of one.
pub const BEST_PM: u16 = 1_000;
