//! How well a run was done: six dimensions in thousandths, one score, and the reputation that scores add up to (section 8 of
//! the Agent Scheduler paper).
//!
//! Everything is integers, so that every replay comes to the same.

mod alarm;
mod distance;
mod record;
mod reputation;
mod scores;
mod tally;
mod weights;

pub use alarm::{DEGRADATION_AFTER, DEGRADATION_MICRO, Degradation, HISTORY_MAX, degradation, mean};
pub use distance::{Near, distance, nearest};
pub use record::{Appraised, Judgement, Standard, Verdict, evaluate};
pub use reputation::Reputation;
pub use scores::{Dimension, ScoreError, Scores, check_pm, score_pm};
pub use tally::{Tally, Target};
pub use weights::{
    Composite, DOMAIN_DEFAULT, DOMAINS_MAX, DomainError, Domains, UnknownDomain, WeightFault, Weights,
};

/// The best of anything here: thousandths of one.
pub const BEST_PM: u16 = 1_000;
