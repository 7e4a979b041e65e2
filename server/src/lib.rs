//! The /v1 API over a running system: the one way in for other processes, and for this one's own command line.
//!
//! [`router`] answers; [`ControlSocket`] lets other processes of the same user ask, over `DATA/control.sock`.
//!
//! | file | idea |
//! |---|---|
//! | `wire` | what is said, for both sides |
//! | `routes` | which path asks what of the system |
//! | `approvals` | questions to people, and their answers |
//! | `clients` | who pays, and the run queue |
//! | `pipelines` | pipelines, their events, and stages that are dealt with elsewhere |
//! | `evaluations`, `market` | how well runs were done; jobs that agents compete for |
//! | `names` | from `@last` or a part of an id to a run |
//! | `events` | records as they are told, once, or as they come |
//! | `lines` | a stream as JSON lines or as server-sent events |
//! | `summary`, `graph` | a run as people and machines want it |
//! | `problem` | errors, as RFC 9457 wants them |
//! | `keys` | a request that is sent twice is one |
//! | `socket` | the local socket |
#![forbid(unsafe_code)]

mod agents;
mod approvals;
mod clients;
mod evaluations;
mod events;
mod graph;
mod keys;
mod lines;
mod market;
mod names;
mod peer;
mod pipelines;
mod problem;
mod routes;
mod socket;
mod summary;
pub mod wire;

pub use approvals::{APPROVALS_LISTED_MAX, RESULT_LISTED_BYTES_MAX};
pub use keys::IDEMPOTENCY_KEYS_MAX;
pub use names::RUN_PART_CHARS_MIN;
pub use peer::Children;
pub use pipelines::HEARD_AT_ONCE_MAX;
pub use problem::Problem;
pub use routes::{BODY_BYTES_MAX, BODY_DEPTH_MAX, RUNS_LISTED_MAX, router};
pub use socket::{CONNECTIONS_MAX, ControlSocket, LEAVING, STEP_CONNECTIONS_MAX, socket_path};
