//! The intent gate: scope, intent, impact. Nothing reaches a tool but through a [`Permit`], and only this
//! module can make one.

mod call;
mod permit;

pub use call::{Call, CallClass};
pub use permit::Permit;
