//! The `/v1` HTTP API over a running [`System`](ostler_actors::System).
//!
//! [`router`] serves the API; [`ControlSocket`] offers the same API to other processes of the user at `DATA/control.sock`.
//!
//! | file | content |
//! |---|---|
//! | `wire` | request and response types, shared with the command line |
//! | `routes`, `extract` | route table; query, path and body extractors |
//! | `submit`, `idempotency` | opening a run, once per idempotency key |
//! | `runs`, `run_lookup` | reading and controlling runs; from `@last` or part of an id to a run |
//! | `again`, `waits` | runs that repeat a run, and the invoice of an edit; answers from outside |
//! | `summary`, `graph` | a run as a summary, a table row and a graph |
//! | `event_json`, `events`, `streaming` | journal records as JSON; following a run; JSON lines and server-sent events |
//! | `output`, `text` | following what the programs of a run print, and what its models write |
//! | `operator`, `operators` | proofs that an operator decides; the accepted keys |
//! | `callback` | the listener for callbacks: answers from outside by an address that proves itself |
//! | `gate_controls` | lockdown of the gate; reloading of the policy |
//! | `grants` | calls that operators allow without further questions |
//! | `approvals`, `file_changes` | approval requests and their answers; what changed in the files of a question |
//! | `devices` | acceptance of the tools of MCP servers |
//! | `agents`, `clients` | agents and the supervision tree; clients, credits and the run queue |
//! | `market`, `evaluations` | jobs, offers and credit audits; scores and verdicts |
//! | `pipelines` | pipelines, their events, and stages that another process consumes |
//! | `problem` | errors as RFC 9457 problem details |
//! | `socket`, `peer` | the control socket, and which processes may use it |
#![forbid(unsafe_code)]

mod again;
mod agents;
mod approvals;
mod callback;
mod candidates;
mod clients;
mod devices;
mod evaluations;
mod event_json;
mod events;
mod extract;
mod file_changes;
mod gate_controls;
mod goals;
mod grants;
mod graph;
mod idempotency;
mod market;
mod operator;
mod operators;
mod output;
mod peer;
mod pipelines;
mod places;
mod problem;
mod recall;
mod routes;
mod run_lookup;
mod runs;
mod socket;
mod streaming;
mod submit;
mod summary;
mod tcp;
mod templates;
mod text;
mod unread;
mod waits;
pub mod wire;

pub use again::STALE_EDITS;
pub use approvals::{APPROVALS_LISTED_MAX, RESULT_LISTED_BYTES_MAX};
pub use callback::{
    CALLBACK_CONNECTIONS_MAX, CALLBACKS_AT_ONCE_MAX, CallbackKeyError, CallbackListener, CallbackServer,
    callback_key,
};
pub use extract::{BODY_BYTES_MAX, BODY_DEPTH_MAX};
pub use idempotency::IDEMPOTENCY_KEYS_MAX;
pub use operator::{
    CURE as OPERATORS_CURE, KeyRefused, OPERATORS_MAX, Operator, OperatorKeys, OperatorSecret, PROOF_HEADER,
    PublicKey, SecretError, account, user_folder,
};
pub use peer::ChildPrograms;
pub use pipelines::STAGE_EVENTS_MAX;
pub use problem::Problem;
pub use routes::router;
pub use run_lookup::RUN_PART_CHARS_MIN;
pub use runs::RUNS_LISTED_MAX;
pub use socket::{
    CONNECTIONS_MAX, ControlSocket, SHUTTING_DOWN, STEP_CONNECTIONS_MAX, STREAMS_MAX, socket_path,
};
pub use summary::CUT_OUTPUTS_MAX;
pub use tcp::serve_tcp;
pub use text::TEXT_POSITIONS_MAX;
pub use unread::UNREAD_MAX;
