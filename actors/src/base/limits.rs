//! How much a system holds at once.

/// Agents with a name of their own, at most.
pub const AGENTS_MAX: usize = 1_000_000;

/// Clients that anything is known of, at most: a run or a change of one more is refused.
pub const CLIENTS_MAX: usize = 100_000;

/// Agents that are live at once, at most, with the stages of pipelines that have an actor; the others are idle.
pub const LIVE_AGENTS_MAX: u32 = 20_000;

/// Requests that wait for an agent to take their run up, at most; more are refused.
pub const WAITING_MAX: usize = 10_000;

/// Ready nodes in the run queue at once, those that run among them; what is ready beyond that waits with its agent.
pub const QUEUED_JOBS_MAX: u32 = 1 << 20;

/// Plans that are judged at once, at most; others wait.
pub const PLANS_JUDGED_AT_ONCE_MAX: usize = 4;

/// Compiled contracts kept at once; beyond that they are compiled for each attempt.
pub const CONTRACTS_KEPT_MAX: usize = 1_024;

/// What the texts and patterns of the compiled contracts take that are kept, in bytes.
pub const CONTRACTS_KEPT_BYTES_MAX: usize = 64 * 1_024 * 1_024;

/// The largest result of an attempt, in bytes of its canonical JSON.
pub const RESULT_BYTES_MAX: usize = 64 * 1_024 * 1_024;

/// Values within values of a result: less than JSON is read with anywhere, as results are told and shown within others.
pub const RESULT_DEPTH_MAX: usize = 100;

/// How long the test of a contract may take, in milliseconds; a node's own timeout may end it before.
pub const TEST_MS_MAX: u64 = 60_000;

/// Pipelines, at most.
pub const PIPELINES_MAX: usize = 256;

/// Events that a stage with code in this process may be behind: who publishes for it waits from there on.
pub const PIPELINE_BEHIND_MAX: u64 = 10_000;

/// How long a judge may take to say how good a run is, in milliseconds.
pub const JUDGE_MS_MAX: u64 = 60_000;

/// Agents whose last scores are kept to see whether they fall; of others that is told only where somebody asks.
pub const HISTORIES_MAX: usize = 10_000;

/// Jobs of the market that are not over, at most; more are refused.
pub const JOBS_OPEN_MAX: usize = 10_000;

/// Jobs of the market that are over and still listed, at most: the newest. The others stand in the records.
pub const JOBS_KEPT_MAX: usize = 10_000;

/// How much a system holds at once, at most: each field is the constant of the same name, unless somebody chose
/// less.
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
    /// See [`RESULT_BYTES_MAX`].
    pub result_bytes: usize,
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
            result_bytes: RESULT_BYTES_MAX,
            pipelines: PIPELINES_MAX,
            pipeline_behind: PIPELINE_BEHIND_MAX,
            judge_ms: JUDGE_MS_MAX,
            histories: HISTORIES_MAX,
            jobs_open: JOBS_OPEN_MAX,
            jobs_kept: JOBS_KEPT_MAX,
        }
    }
}
