//! `ostler skip`.

use clap::Args;

use crate::cli::arguments::metrics::MetricsOption;
use crate::cli::arguments::values::{node_name, run_name};
use crate::cli::arguments::{Globals, ModelOption};
use crate::cli::commands::change_node::stop_node;
use crate::cli::exit::Failure;

#[derive(Debug, Args)]
pub(crate) struct SkipArgs {
    /// The run: its id, a part of it, or @last
    #[arg(value_parser = run_name)]
    run: String,
    /// The node to skip
    #[arg(value_parser = node_name)]
    node: String,
    #[command(flatten)]
    model: ModelOption,
    #[command(flatten)]
    metrics: MetricsOption,
}

pub(crate) async fn skip(globals: &Globals, args: SkipArgs) -> Result<u8, Failure> {
    stop_node(&args.model.add_to(globals)?, &args.run, &args.node, "skip", args.metrics).await
}
