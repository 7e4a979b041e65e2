//! Ostler is an agent operating system. It executes plans, graphs of nodes, for many tenants at once: every tool
//! call passes a gate, every step is journaled, and completed nodes are not repeated after a crash.
//!
//! ```
//! use ostler::{AgentProfile, Ostler, Submission};
//! use ostler::kernel::plan::PlanDraft;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # tokio::runtime::Builder::new_multi_thread().enable_all().build()?.block_on(async {
//! let os = Ostler::builder().memory().start().await?;
//! let draft: PlanDraft = serde_json::from_str(
//!     r#"{"id": "hello", "nodes": [
//!         {"id": "greet", "tool": "text.render",
//!          "params": {"template": "Hello, {{ name }}!", "values": {"name": "world"}}}]}"#,
//! )?;
//! let plan = os.plan(draft)?;
//!
//! let agent = os.spawn(AgentProfile::new("greeter").client("acme")).await?;
//! let run = agent.submit(Submission::plan(plan)).await?; // durable from here
//! let mut events = run.events()?;
//! while let Some(event) = events.next().await {
//!     println!("{:?}", event?.event);
//! }
//! assert!(run.outcome().await?.is_success());
//! assert_eq!(run.artifact("greet").await?.content, br#"{"text":"Hello, world!"}"#);
//! os.shutdown().await;
//! # Ok(())
//! # })
//! # }
//! ```
//!
//! Plans can also be read from files ([`plan_file`]), and the configuration from `ostler.toml` ([`config`]). The
//! `ostler` command uses the same modules.
#![forbid(unsafe_code)]

pub mod config;
pub mod finding;
pub mod job_file;
pub mod mcp;
mod metrics;
mod os;
pub mod pipeline_file;
pub mod plan_file;
pub mod plan_folder;
#[cfg_attr(not(feature = "otel"), path = "no_telemetry.rs")]
mod telemetry;

pub use os::{Agent, DATA_FOLDER, Faults, Ostler, OstlerBuilder, Run, StartError};
pub use ostler_actors::{
    AgentEvaluation, AgentProfile, AgentRow, Answer, Approval, ApprovalId, Chat, ClientChange, ClientError,
    ClientRow, EvaluationError, EventCursor, Gap, Goal, GoalError, Heard, InDoubt, JobRequest, JobRow,
    Mapping, MarketError, OfferRefused, Outbox, PipelineEnd, PipelineError, PipelineEvent, PipelineHandle,
    PipelineRow, Program, ProgramContext, ProgramModel, PublishError, Publisher, ReleaseError, ResolveHow,
    RunError, RunEvaluation, Settled, SpawnError, Stage, StageError, StageRow, Step, StepError, Submission,
    SubmitError, TreeRow, VerdictRequest, Weight,
};
pub use ostler_drivers::cage as sandbox;
pub use ostler_kernel as kernel;
pub use ostler_kernel::agent::{Oversight, Profile};
pub use ostler_kernel::pipeline::{Keep, OnFailure, PipelineSpec, StageSpec};
pub use ostler_kernel::port::{ChildRunResult, ChildRunSpec};
pub use ostler_kernel::run::{
    Diagnoser, Diagnosis, DiagnosisRequest, Patch, Planner, PlannerAnswer, PlannerRequest, RuleDiagnoser,
    RunStatus, StaticPlanner, WaitReason,
};
pub use ostler_server::{OperatorKeys, PublicKey};

#[cfg(doctest)]
mod pages {
    #[doc = include_str!("../README.md")]
    struct Readme;

    #[doc = include_str!("../docs/guide/embedding.md")]
    struct Embedding;

    #[doc = include_str!("../docs/guide/pipelines.md")]
    struct Pipelines;
    #[doc = include_str!("../docs/guide/agents-in-rust.md")]
    struct AgentsInRust;

    #[doc = include_str!("../docs/guide/evaluation.md")]
    struct Evaluation;
}
