//! Limits of a system.

/// Named agents.
pub const AGENTS_MAX: usize = 1_000_000;

/// Known clients: a run or a change of a further one is refused.
pub const CLIENTS_MAX: usize = 100_000;

/// Live agents, plus stages with an actor; other agents are idle.
pub const LIVE_AGENTS_MAX: u32 = 20_000;

/// Answers to waits that are decided at the same time; further senders are refused and may try again.
pub const WAIT_ANSWERS_MAX: usize = 64;

/// Requests that wait for a run to be loaded; more are refused.
pub const WAITING_MAX: usize = 10_000;

/// Jobs in the run queue, running ones included; further ready nodes wait with their run.
pub const QUEUED_JOBS_MAX: u32 = 1 << 20;

/// Plans validated at once; others wait.
pub const PLANS_JUDGED_AT_ONCE_MAX: usize = 4;

/// Cached compiled contracts; further ones are compiled for each attempt.
pub const CONTRACTS_KEPT_MAX: usize = 1_024;

/// Bytes of the texts and patterns of cached contracts.
pub const CONTRACTS_KEPT_BYTES_MAX: usize = 64 * 1_024 * 1_024;

/// Milliseconds for looks at the files of all questions on one page. A question beyond is listed with the files that it was asked about. The
/// look at a single question, and that of a yes, has a limit of its own.
pub const PAGE_LOOKS_MS_MAX: u64 = 10_000;

/// Bytes of a result as canonical JSON.
pub const RESULT_BYTES_MAX: usize = 64 * 1_024 * 1_024;

/// Most approximate bytes of memory that a result takes once it is read.
pub const RESULT_MEMORY_MAX: usize = ostler_kernel::json::VALUE_MEMORY_MAX;

/// Runs above a run that an attempt opens: a program or a sub-agent that opens itself ends here.
pub const CHILD_RUN_DEPTH_MAX: u32 = 8;

/// Open runs below a run that no attempt opened; an attempt that would open another one fails.
pub const CHILD_RUNS_OPEN_MAX: usize = 1_000;

/// Nesting depth of a result, below the depth of any JSON reader, because results are shown inside other values.
pub const RESULT_DEPTH_MAX: usize = 100;

/// Milliseconds for the test of a contract; the node's own timeout may end it earlier.
pub const TEST_MS_MAX: u64 = 60_000;

/// Milliseconds for a model to judge a result by a contract; the node's own timeout may end it earlier.
pub(crate) const MODEL_JUDGE_MS_MAX: u64 = 120_000;

/// Pipelines.
pub const PIPELINES_MAX: usize = 256;

/// Events that a stage of the process may lag behind; publishers wait beyond that.
pub const PIPELINE_BEHIND_MAX: u64 = 10_000;

/// Milliseconds for the judge of a run.
pub const JUDGE_MS_MAX: u64 = 60_000;

/// Agents with cached last scores for regression detection.
pub const HISTORIES_MAX: usize = 10_000;

/// Open market jobs; more are refused.
pub const JOBS_OPEN_MAX: usize = 10_000;

/// Closed market jobs in the list, the newest; older ones stay in the records.
pub const JOBS_KEPT_MAX: usize = 10_000;

/// Limits of a system; each field defaults to the constant of the same name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// See [`AGENTS_MAX`].
    pub agents: usize,
    /// See [`CLIENTS_MAX`].
    pub clients: usize,
    /// See [`LIVE_AGENTS_MAX`].
    pub live_agents: u32,
    /// See [`WAITING_MAX`].
    pub waiting: usize,
    /// See [`QUEUED_JOBS_MAX`].
    pub queued_jobs: u32,
    /// See [`CONTRACTS_KEPT_MAX`].
    pub contracts_kept: usize,
    /// See [`CONTRACTS_KEPT_BYTES_MAX`].
    pub contracts_kept_bytes: usize,
    /// See [`PAGE_LOOKS_MS_MAX`].
    pub page_looks_ms: u64,
    /// See [`RESULT_BYTES_MAX`].
    pub result_bytes: usize,
    /// See [`RESULT_MEMORY_MAX`].
    pub result_memory: usize,
    /// See [`CHILD_RUNS_OPEN_MAX`].
    pub child_runs_open: usize,
    /// See [`PIPELINES_MAX`].
    pub pipelines: usize,
    /// See [`PIPELINE_BEHIND_MAX`].
    pub pipeline_behind: u64,
    /// See [`JUDGE_MS_MAX`].
    pub judge_ms: u64,
    /// See [`HISTORIES_MAX`].
    pub histories: usize,
    /// See [`JOBS_OPEN_MAX`].
    pub jobs_open: usize,
    /// See [`JOBS_KEPT_MAX`].
    pub jobs_kept: usize,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            agents: AGENTS_MAX,
            clients: CLIENTS_MAX,
            live_agents: LIVE_AGENTS_MAX,
            waiting: WAITING_MAX,
            queued_jobs: QUEUED_JOBS_MAX,
            contracts_kept: CONTRACTS_KEPT_MAX,
            contracts_kept_bytes: CONTRACTS_KEPT_BYTES_MAX,
            page_looks_ms: PAGE_LOOKS_MS_MAX,
            result_bytes: RESULT_BYTES_MAX,
            result_memory: RESULT_MEMORY_MAX,
            child_runs_open: CHILD_RUNS_OPEN_MAX,
            pipelines: PIPELINES_MAX,
            pipeline_behind: PIPELINE_BEHIND_MAX,
            judge_ms: JUDGE_MS_MAX,
            histories: HISTORIES_MAX,
            jobs_open: JOBS_OPEN_MAX,
            jobs_kept: JOBS_KEPT_MAX,
        }
    }
}
