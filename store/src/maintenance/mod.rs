//! Maintenance of a data folder no other process holds: verifying, repairing, collecting expired runs, compacting pipelines.
//!
//! Both repairing and collecting follow one scheme. A survey reads the whole journal without the index and decides which records
//! go. [`rewrite`] packs the remaining records into new segment files beside the old ones, and [`atomic_replace`] puts
//! all new files in place at once. A crash at any point leaves the journal before or after the change, never a mixture.
//! The index is cleared just before the replacement becomes final, as its addresses belong to the old files.
//!
//! Maintenance never imports `online`.

mod affected_runs;
mod artifact_refs;
pub(crate) mod atomic_replace;
mod audit;
pub(crate) mod collect;
pub(crate) mod compact;
mod examine;
mod findings;
mod garbage;
mod indexed_state;
mod obligations;
mod packer;
mod pipeline_damage;
mod quarantine;
pub(crate) mod repair;
mod rewrite;
mod salvage;
pub(crate) mod scrub;
mod survey;
pub(crate) mod verify;

pub use examine::Examination;
pub(crate) use examine::examine;
#[cfg(test)]
pub(crate) use examine::examine_locked;
pub use findings::{ClientLoss, Findings, PipelineLoss};
pub use garbage::Garbage;
pub(crate) use garbage::{collect_folder, report_beside_holder, worthwhile};
