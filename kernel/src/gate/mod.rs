//! The intent gate: scope, intent, impact. Nothing reaches a tool but through a [`Permit`], and only this
//! module can make one.

mod argv;
mod argv_programs;
mod call;
mod close_schema;
mod decide;
mod egress;
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
pub use permit::Permit;
pub use policy::{CallLimits, GatePolicy, SCOPE_DEFAULT, Scope, intersect_scopes};
pub use tool::GatedTool;

/// Calls of one run that the gate refuses; then the run is cancelled, so that nobody finds out by trying what is allowed.
pub const DENIALS_MAX: u32 = 20;
