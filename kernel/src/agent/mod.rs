//! Agents: the profile of an agent, the requests that its runs accept, and human oversight.
//!
//! | file | content |
//! |---|---|
//! | `profile` | capabilities, domain, schemas and price of an agent |
//! | `lifecycle` | requests that a run accepts in each status |
//! | `oversight` | steps that a person has to approve |

mod lifecycle;
mod oversight;
mod profile;

pub use lifecycle::{InvalidState, LifecycleMessage, RunLifecycle, Telemetry};
pub use oversight::{
    CONFIDENCE_MIN, OVERSIGHT_WAIT, Oversight, RequestKind, SPOT_CHECKS_PERCENT, is_unsure, spot_draw,
};
pub use profile::{CAPABILITIES_MAX, Profile, ProfileError, SchemaSide};
