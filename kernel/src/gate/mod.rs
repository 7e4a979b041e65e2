//! The gate: the check every tool call passes before it runs.
//!
//! Scope (may the caller use the tool), intent and impact (may the call do as much), paths and URLs (may the call reach there).
//! A tool runs only with a [`Permit`], and only this module constructs one.

mod argv;
mod argv_programs;
mod call;
mod close_schema;
mod decide;
mod egress;
mod named_files;
mod params;
mod path;
mod path_params;
mod permit;
mod policy;
mod tool;

pub use argv::{ArgvClass, ArgvError, ArgvPattern, ArgvTable, UNLISTED};
pub use argv_programs::OBSERVING_ENVIRONMENT;
pub use call::{Call, CallClass, OnLostResult, Preview};
pub use decide::{Denial, DenialCode, REFUSAL, REMEDY, Verdict, decide, preflight, preview};
pub use egress::{Destination, Egress, EgressEntryError, EgressFault, is_public};
pub use named_files::{NamedPaths, named_paths};
pub use permit::Permit;
pub use policy::{CallLimits, GatePolicy, SCOPE_DEFAULT, Scope, intersect_scopes};
pub use tool::GatedTool;

/// Denied calls after which the gate cancels a run, so a model cannot probe the policy by trial.
pub const DENIALS_MAX: u32 = 20;
