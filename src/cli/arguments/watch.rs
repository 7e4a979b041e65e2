//! Options of commands that execute a run: the report, and when it counts as a failure.

use clap::Args;

#[derive(Debug, Clone, Copy, Default, Args)]
pub(crate) struct WatchOptions {
    /// Show what programs print, while they run
    #[arg(long)]
    pub(crate) logs: bool,
    /// Exit with 1 if any node failed, even if the run succeeded
    #[arg(long)]
    pub(crate) strict: bool,
    /// Add rounds, parallelism, critical path and reliability to the summary
    #[arg(long, short)]
    pub(crate) verbose: bool,
}
