//! Identity and provenance of results.

mod hash;
mod identity;

pub use hash::hash;
pub use identity::{
    Edge, ExecutableSpec, Inputs, artifact, executable_digest, idempotency_key, inputs_digest, lineage,
    prompt, receipt, reuse, step_key, value,
};
