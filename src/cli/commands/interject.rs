//! `ostler interject`.

use std::num::NonZeroU64;
use std::path::Path;

use clap::Args;
use ostler_server::wire::{InterjectRequest, Interjected};

use crate::cli::arguments::Globals;
use crate::cli::arguments::metrics::MetricsOption;
use crate::cli::arguments::values::{positive_time, run_name};
use crate::cli::exit::Failure;
use crate::cli::output::hints;
use crate::cli::output::terminal::Out;
use crate::cli::session::api_client::path_segment;
use crate::cli::session::signals::Signals;
use crate::cli::session::watch_run::{Done, go_on};
use crate::cli::session::{AccessMode, Session};

#[derive(Debug, Args)]
pub(crate) struct InterjectArgs {
    /// The run: its id, a part of it, or @last
    #[arg(value_parser = run_name)]
    run: String,
    /// Question to the person; in a goal run, what the model is to consider
    #[arg(allow_hyphen_values = true)]
    text: String,
    /// Time for the answer; afterwards the run is cancelled
    #[arg(long, value_name = "TIME", default_value = "1h", value_parser = positive_time)]
    within: NonZeroU64,
    #[command(flatten)]
    metrics: MetricsOption,
}

pub(crate) async fn interject(globals: &Globals, args: InterjectArgs) -> Result<u8, Failure> {
    let mut out = Out::new();
    let mut signals = Signals::listen()?;
    let mut session =
        Session::open_with_metrics(globals, Path::new("."), AccessMode::Execute, args.metrics).await?;
    let before = match session.summary(&args.run).await {
        Ok(before) => before,
        Err(failure) => return session.stop_with(failure).await,
    };
    let request = InterjectRequest { text: args.text, wait_ms: args.within };
    let path = format!("/v1/runs/{}/interject", path_segment(&before.run));
    let node = match session.post::<Interjected>(&path, &request).await {
        Ok(Interjected { node, .. }) => node,
        Err(refused) => return session.stop_with(refused).await,
    };
    let (run, of) = (&before.run, [before.run.as_str(), &node]);
    let considered = format!("run {run} considers it in node {node}: nothing more starts until then");
    let held = format!(
        "run {run} is held by node {node}; `{}` continues it, `{}` cancels it",
        hints::command("approve", &of, ""),
        hints::command("reject", &of, "")
    );
    let text = if before.goal.is_some() { considered } else { held };
    let done = Done { node: &node, word: "held".to_owned(), text };
    go_on(session, &mut signals, globals, before.clone(), done, &mut out).await
}
