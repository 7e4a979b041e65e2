//! What an agent is, and what may become of one: its profile, where it stands with a run, and how far people watch it.
//!
//! | file | idea |
//! |---|---|
//! | `profile` | what an agent says of itself once, and what goes in and comes out |
//! | `lifecycle` | the seven states of an agent and a run, and what it takes in each |
//! | `oversight` | which of its steps a person is asked about |

mod lifecycle;
mod oversight;
mod profile;

pub use lifecycle::{InvalidState, LifecycleMessage, RunLifecycle, Telemetry};
pub use oversight::{
    CONFIDENCE_MIN, OVERSIGHT_WAIT, Oversight, RequestKind, SPOT_CHECKS_PERCENT, is_unsure, spot_draw,
};
pub use profile::{CAPABILITIES_MAX, Profile, ProfileError, SchemaSide};
