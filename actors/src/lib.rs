//! The running system: a supervised tree of actors that drives runs.
//!
//! [`System`] is the handle. It appends the first record of a run and tells the registry; the registry starts the actor of the
//! run's agent; that actor asks the kernel for decisions, appends them, asks the scheduler for slots, and starts the granted
//! attempts, which execute outside the actors. A message only wakes an actor: the work is in the journal, where a restarted actor
//! finds it.
//!
//! The folders are layers: a module uses its own layer and those below. `tests/layers.rs` checks that, and that no chain of
//! imports is a cycle.
//!
//! | folder, highest layer first | idea |
//! |---|---|
//! | `api` | the handle [`System`] and its operations; assembles the components and the supervision tree |
//! | `registry` | knows all agents, starts their actors, appends to the streams of clients |
//! | `run` | the actor that drives the runs of an agent; appends to suspended runs |
//! | `pipelines` | logs of pipelines, and the actors of their stages |
//! | `evaluator` | adds up scores, and watches for regressions |
//! | `attempts` | executes attempts and keeps their journals; agents written as code |
//! | `scheduler` | the run queue: grants slots, charges attempts |
//! | `state` | caches of the journal, and the tables of what runs in this process |
//! | `storage` | the journal client, the readers of streams, results, disk space |
//! | `metrics` | what is counted and timed |
//! | `messages` | the messages of the actors, the types that they carry, and mailboxes |
//! | `base` | keys, errors, limits, the clock, the status of the process |
#![forbid(unsafe_code)]

mod api;
mod attempts;
mod base;
mod devices;
mod evaluator;
mod messages;
mod metrics;
mod pipelines;
mod registry;
mod run;
mod scheduler;
mod state;
mod storage;
#[cfg(test)]
mod tests;

pub use crate::metrics::{Measures, SharedRecorder, metric};
pub use api::again::{Again, AgainError, Charge, Invoice, NodeEdit};
pub use api::approval::{Approval, ApprovalId, ApprovalIdError, ApprovalPage};
pub use api::call_audit::{CallAudit, CallViolation};
pub use api::clients::{BalanceRow, ClientRow, ClientTier};
pub use api::devices::DeviceError;
pub use api::earlier::Earlier;
pub use api::evaluations::{AgentEvaluation, RunEvaluation, like};
pub use api::exchanges::{ModelExchange, ModelExchanges};
pub use api::forecast::{FORECAST_RUNS_MAX, Forecast, ForecastCalls, ToolTimes};
pub use api::fork::{Fork, ForkError};
pub use api::goal::{Goal, GoalError};
pub use api::market::{ClientAudit, JobRequest, JobRow, ProposalRow, Violation};
pub use api::operator::OperatorError;
pub use api::outcome::Settled;
pub use api::pipeline_handle::{Heard, PipelineEnd, PipelineHandle};
pub use api::publisher::Publisher;
pub use api::recall::{REACHED_MAX, ReachedNode, RecallTarget, Recalled};
pub use api::resolve::ResolveHow;
pub use api::spawn::{AgentHandle, AgentProfile, SpawnError};
pub use api::status::RunStatusView;
pub use api::submission::new_run_id;
pub use api::supervision::{TREE_CHILDREN_MAX, TreeRow};
pub use api::system::{StartError, System, SystemConfig};
pub use api::templates::{TEMPLATE_RUNS_MAX, TemplateError};
pub use api::view::{ReadResult, RecoveryPreview, RunView};
pub use api::wait_answers::WaitAnswer;
pub use attempts::program::{Chat, Mapping, Program, ProgramContext, ProgramModel, Step, StepError};
pub use base::error::RunError;
pub use base::limits::{
    AGENTS_MAX, CHILD_RUN_DEPTH_MAX, CHILD_RUNS_OPEN_MAX, CLIENTS_MAX, CONTRACTS_KEPT_BYTES_MAX,
    CONTRACTS_KEPT_MAX, HISTORIES_MAX, JOBS_KEPT_MAX, JOBS_OPEN_MAX, JUDGE_MS_MAX, LIVE_AGENTS_MAX, Limits,
    PAGE_LOOKS_MS_MAX, PIPELINE_BEHIND_MAX, PIPELINES_MAX, PLANS_JUDGED_AT_ONCE_MAX, QUEUED_JOBS_MAX,
    RESULT_BYTES_MAX, RESULT_DEPTH_MAX, RESULT_MEMORY_MAX, TEST_MS_MAX, WAIT_ANSWERS_MAX, WAITING_MAX,
};
pub use messages::answer::{Answer, BY_BYTES_MAX, NOTE_BYTES_MAX};
pub use messages::client_change::{ClientChange, ClientError, Weight};
pub use messages::grant::GrantError;
pub use messages::market::{MarketError, OfferRefused};
pub use messages::registry::{AgentRow, RegisterError, ReleaseError};
pub use messages::retraction::RetractError;
pub use messages::submission::{Submission, SubmitError, Term};
pub use messages::verdict::{EvaluationError, VerdictRequest};
pub use messages::wait_answer::WaitVerdict;
pub use ostler_scheduler::AGENT_WEIGHT;
pub use pipelines::{
    DeadLetterRow, Gap, Outbox, PipelineError, PipelineEvent, PipelineRow, PublishError, Stage, StageError,
    StageRow,
};
pub use run::suspended_runs::CHECKPOINTED;
pub use scheduler::{QueueRow, RateWait};
pub use state::attempt_table::InDoubt;
pub use state::call_accounts::CallAccountView;
pub use state::estimates::ATTEMPT_CREDITS;
pub use state::evaluation::Evaluating;
pub use state::ledger::ClientConfig;
pub use state::live_text::{
    ENDED_TEXTS_BYTES_MAX, LIVE_TEXT_BYTES_MAX, LiveText, LiveTextPiece, TextFilter, TextPart, TextPosition,
    TextPositionError, TextReader,
};
pub use state::rates::ModelRates;
pub use state::toolbox::{Toolbox, ToolboxError};
pub use storage::event_cursor::EventCursor;
pub use storage::program_output::OutputPage;
pub use storage::results::INLINE_BYTES_MAX;
