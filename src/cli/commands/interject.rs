//! `ostler interject`.

use std::num::NonZeroU64;
use std::path::Path;

use clap::{Args, ValueEnum};
use ostler_kernel::id::NodeId;
use ostler_kernel::policy::{Decision, OperatorAnswer};
use ostler_server::wire::{InterjectRequest, Interjected};

use crate::cli::arguments::metrics::MetricsOption;
use crate::cli::arguments::values::{node_name, positive_time, run_name};
use crate::cli::arguments::{Globals, ModelOption};
use crate::cli::exit::Failure;
use crate::cli::output::approval::short_digest;
use crate::cli::output::hints;
use crate::cli::output::hints::DigestSource;
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
    /// Decide about a goal in place of the model: with conclude, TEXT is the verdict; with replan, what is missing
    #[arg(long, value_name = "DECISION", conflicts_with = "hold")]
    answer: Option<Answer>,
    /// Steps that have not started, to give up, separated by commas
    #[arg(long, value_name = "NODES", value_delimiter = ',', value_parser = node_name, requires = "answer")]
    cancel: Vec<String>,
    /// Ask a person, also in a goal run: approve goes on, reject cancels the run
    #[arg(long)]
    hold: bool,
    /// Time for a person's answer; afterwards the run is cancelled
    #[arg(long, value_name = "TIME", default_value = "1h", value_parser = positive_time)]
    within: NonZeroU64,
    #[command(flatten)]
    model: ModelOption,
    #[command(flatten)]
    metrics: MetricsOption,
}

/// An operator's decision.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Answer {
    /// Go on
    Continue,
    /// End with an answer from what is there
    Conclude,
    /// Have a planner write more steps
    Replan,
}

impl From<Answer> for Decision {
    fn from(answer: Answer) -> Decision {
        match answer {
            Answer::Continue => Decision::Continue,
            Answer::Conclude => Decision::Conclude,
            Answer::Replan => Decision::Replan,
        }
    }
}

pub(crate) async fn interject(globals: &Globals, args: InterjectArgs) -> Result<u8, Failure> {
    let mut out = Out::new();
    let globals = &args.model.add_to(globals)?;
    let mut signals = Signals::listen()?;
    let mut session =
        Session::open_with_metrics(globals, Path::new("."), AccessMode::Execute, args.metrics).await?;
    let before = match session.summary(&args.run).await {
        Ok(before) => before,
        Err(failure) => return session.stop_with(failure).await,
    };
    let cancel: Vec<NodeId> = args.cancel.iter().map(|node| NodeId::from(node.as_str())).collect();
    let answer = args.answer.map(|decision| OperatorAnswer { decision: decision.into(), cancel });
    let (hold, decides) = (args.hold, answer.is_some());
    let request = InterjectRequest { text: args.text, wait_ms: args.within, answer, hold };
    let path = format!("/v1/runs/{}/interject", path_segment(&before.run));
    let node = match session.post::<Interjected>(&path, &request).await {
        Ok(Interjected { node, .. }) => node,
        Err(refused) => return session.stop_with(refused).await,
    };
    let (run, of) = (&before.run, [before.run.as_str(), &node]);
    let now = session.summary(run).await.ok();
    let digest = now
        .as_ref()
        .and_then(|now| now.waiting.iter().find(|waiting| waiting.node == node)?.digest.as_deref());
    let approve = match DigestSource::on(&out, digest) {
        DigestSource::Shown(digest) => {
            hints::command("approve", &of, &format!("--digest {}", short_digest(digest)))
        }
        DigestSource::AtTerminal | DigestSource::Unseen => hints::command("approve", &of, ""),
    };
    let considered = format!(
        "run {run} considers it in node {node}: nothing more starts until then; if no model can, you are asked"
    );
    let held = format!(
        "run {run} is held by node {node}; `{approve}` continues it, `{}` cancels it",
        hints::command("reject", &of, "")
    );
    let decided = format!("run {run} goes on as decided in node {node}");
    let (word, text) = match before.goal.is_some() {
        _ if decides => ("decided", decided),
        true if !hold => ("held", considered),
        _ => ("held", held),
    };
    let done = Done { node: &node, word: word.to_owned(), text, answers: false };
    go_on(session, &mut signals, globals, before.clone(), done, &mut out).await
}
