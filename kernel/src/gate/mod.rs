//! The gate: the check every tool call passes before it runs.
//!
//! Scope (may the caller use the tool), intent and impact (may the call do as much), paths and URLs (may the call reach there).
//! A tool runs only with a [`Permit`], and only this module constructs one.

mod argv;
mod argv_programs;
mod call;
mod clearance;
mod close_schema;
mod code;
mod decide;
mod egress;
mod impact;
mod named_files;
mod param_rule;
mod params;
mod path;
mod path_params;
mod permit;
mod policy;
mod provenance;
mod resources;
mod rules;
mod seal;
mod spent;
mod strict_numbers;
mod strict_values;
mod tool;

pub use argv::{ArgvClass, ArgvError, ArgvPattern, ArgvTable, UNLISTED};
pub use argv_programs::OBSERVING_ENVIRONMENT;
pub use call::{Call, CallClass, OnLostResult, Preview};
pub use clearance::{
    Asker, CLEARANCE_BYTES_MAX, CLEARANCE_CACHE_MAX, CLEARANCE_CACHE_MS_MAX, CLEARANCE_DEPTH_MAX,
    ClearanceCache, ClearanceRequest, Reply,
};
pub use code::{Denial, DenialCode, Measured, REFUSAL, REMEDY};
pub use decide::{
    Cleared, Hold, Judged, Standing, Verdict, decide, judge, preflight, preview, screen, taint_of,
};
pub use egress::{
    Addresses, AtConnection, Destination, Egress, EgressEntryError, EgressFault, Lookup, Pinned, is_public,
};
pub use impact::{Hints, IMPACT_STEPS_MAX, ImpactTable, Level};
pub use named_files::{NamedPaths, named_paths};
pub use params::is_reserved;
pub use permit::Permit;
pub use policy::{CallLimits, GatePolicy, SCOPE_DEFAULT, Scope, Scopes, ToolRules, intersect_scopes};
pub use provenance::{
    Literals, NO_LABELS, Provenance, Results, Source, Trust, is_source_untrusted, is_untrusted, labels, trace,
};
pub use rules::{
    Budget, BudgetLimit, ClearanceRoute, EgressRule, GateRules, Limits, OnObserve, ParamPolicy, PathRule,
    Place, RuleFault, SECRET,
};
pub use seal::Seal;
pub use spent::{Spent, amounts};
pub use tool::{GatedTool, PARAMS_STEPS_MAX};

/// Denied calls after which the gate cancels a run, so a model cannot probe the policy by trial.
pub const DENIALS_MAX: u32 = 20;
