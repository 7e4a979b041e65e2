//! The running system: a supervised tree of actors that drives runs.
//!
//! [`System`] is the handle. It appends a run's first record and tells the registry; the registry brings up the
//! run's agent; the agent asks the kernel what to do, records it, asks the scheduler for slots, and starts what was
//! granted in the effects table, outside the actors. Messages are wake-ups: the work is in the journal, so an actor
//! that dies is started again and finds it there.
//!
//! | file | idea |
//! |---|---|
//! | `system` | the handle |
//! | `spawn`, `submission`, `steer`, `approval`, `resolve`, `clients` | what it takes: agents, runs, changes of runs, people's answers, settling of doubts, terms of clients |
//! | `view`, `outcome`, `cursor` | what it gives: a run now, in the end, and as it goes on |
//! | `tree`, `supervision` | who supervises whom, and how that stands |
//! | `registry` | agents: what they have to do, and whether an actor stands behind them |
//! | `evaluator`, `evaluations` | what runs were worth, and what that changes; how it is told, and judged by a person |
//! | `market` | what agents offer, jobs and how they get on, whether credits add up |
//! | `scheduler` | the run queue's owner |
//! | `pipelines`, `pipeline` | pipelines: who makes them, their logs, and the actors of their stages |
//! | `agent` | drives a run: `load` takes it up, `launch` starts attempts, `appraise` asks a judge |
//! | `driven` | the runs that this process drives |
//! | `stream`, `rest` | reads what is recorded; changes runs that nobody drives |
//! | `effects`, `attempt`, `results`, `attempt_log`, `notes` | what runs outside the actors, what it gives, and what it notes of itself |
//! | `program` | agents written as code: their steps, and how they are put together |
//! | `children`, `purses` | runs that attempts open, and what they have of the budget |
//! | `ledger`, `estimates` | on what terms clients are served, what they were charged, and what attempts are expected to cost |
//! | `profiles`, `contracts`, `alike` | what agents say of themselves, contracts that were compiled, what many say alike: each once |
//! | `measure` | what is counted and timed, if anybody wants to know |
//! | `room` | whether there is room on the disk, and what goes on when there is again |
//! | `services`, `links`, `limits`, `clock`, `toolbox`, `plans`, `error` | what they share |
#![forbid(unsafe_code)]

mod api;
mod attempts;
mod base;
mod evaluator;
mod messages;
mod metrics;
mod pipelines;
mod registry;
mod run;
mod scheduler;
mod services;
mod state;
mod storage;
#[cfg(test)]
mod tests;

pub use crate::metrics::{Measures, SharedRecorder, metric};
pub use api::approval::{
    Answer, Approval, ApprovalId, ApprovalIdError, ApprovalPage, BY_BYTES_MAX, NOTE_BYTES_MAX,
};
pub use api::clients::{ClientChange, ClientError, ClientRow, QueueRow, Weight};
pub use api::cursor::EventCursor;
pub use api::evaluations::{
    AgentEvaluation, Evaluating, EvaluationError, RunEvaluation, VerdictRequest, like,
};
pub use api::market::{ClientAudit, JobRequest, JobRow, MarketError, OfferRefused, Violation};
pub use api::outcome::Settled;
pub use api::resolve::ResolveHow;
pub use api::spawn::{AgentHandle, AgentProfile, SpawnError};
pub use api::submission::{Submission, SubmitError, Term, new_run_id};
pub use api::supervision::{TREE_CHILDREN_MAX, TreeRow};
pub use api::system::{InDoubt, StartError, System, SystemConfig};
pub use api::view::{Ahead, ReadResult, RunView};
pub use attempts::program::{Mapping, Program, ProgramContext, Step, StepError};
pub use base::error::RunError;
pub use base::limits::{
    AGENTS_MAX, CLIENTS_MAX, CONTRACTS_KEPT_BYTES_MAX, CONTRACTS_KEPT_MAX, HISTORIES_MAX, JOBS_KEPT_MAX,
    JOBS_OPEN_MAX, JUDGE_MS_MAX, LIVE_AGENTS_MAX, Limits, PIPELINE_BEHIND_MAX, PIPELINES_MAX,
    PLANS_JUDGED_AT_ONCE_MAX, QUEUED_JOBS_MAX, RESULT_BYTES_MAX, RESULT_DEPTH_MAX, TEST_MS_MAX, WAITING_MAX,
};
pub use ostler_scheduler::AGENT_WEIGHT;
pub use pipelines::{
    Gap, Heard, Outbox, PipelineEnd, PipelineError, PipelineEvent, PipelineHandle, PipelineRow, PublishError,
    Publisher, Stage, StageError, StageRow,
};
pub use registry::{AgentRow, RegisterError, ReleaseError};
pub use run::suspended_runs::CHECKPOINTED;
pub use scheduler::ClientConfig;
pub use state::estimates::ATTEMPT_CREDITS;
pub use state::toolbox::{Toolbox, ToolboxError};
pub use storage::results::INLINE_BYTES_MAX;
