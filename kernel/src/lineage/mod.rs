//! Identity: what a result is, and what it was made of.

mod hash;
mod identity;

pub use hash::hash;
pub use identity::{
    Edge, Inputs, Sigma, artifact, idempotency_key, lineage, prompt, receipt, reuse, sigma, step_key, value,
    x,
};
