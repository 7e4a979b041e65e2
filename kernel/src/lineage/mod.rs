//! Identity: what a result is, and what it was made of (execution-model, section 5).

mod hash;

pub use hash::hash;
