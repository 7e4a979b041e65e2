//! The intent gate: scope, intent, impact. Nothing reaches a tool but through a [`Permit`], and only this
//! module can make one.

mod argv;
mod call;
mod decide;
mod egress;
mod permit;
mod policy;

pub use argv::{AllowEntry, AllowTable};
pub use call::{Call, CallClass};
pub use decide::{Denial, DenialCode, Verdict, decide};
pub use egress::{Egress, HostPort};
pub use permit::Permit;
pub use policy::{GatePolicy, Scope};
