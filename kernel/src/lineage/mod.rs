//! Identity and provenance of results, and the rules of reuse.
//!
//! The `r` of a [`Manifest`] finds the [`Record`] of earlier equal work, and [`judge`] tests the record. [`Override`] is a
//! person's artifact in place of a result, [`Decision`] the explanation.

mod decision;
mod edit;
mod fields;
mod hash;
mod identity;
mod manifest;
mod outcome;
mod record;
mod reuse;
mod root_change;

pub use decision::{Decision, Frontier, frontier, held_by};
pub use edit::{EditRefusal, Edited, Override, OverrideState, Received, StalePolicy, check_edit};
pub use fields::FIELDS_MAX;
pub use hash::hash;
pub use identity::{
    Edge, ExecutableSpec, Inputs, artifact, executable_digest, idempotency_key, idempotency_key_of,
    inputs_digest, last_record_key, lineage, overridden, prompt, receipt, record_key, reuse, step_key, value,
};
pub use manifest::{Difference, Manifest, Material, short_digest};
pub use outcome::{Instance, Outcome};
pub use record::{Record, Retractions};
pub use reuse::{Evidence, Reason, Repetition, Reuse, judge, span};
pub use root_change::{ChangeKind, NodeChange, ROOT_CHANGES_MAX, RootChange, root_changes};
