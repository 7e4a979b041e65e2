//! `ostler answer`.

use std::path::Path;

use clap::Args;
use ostler_kernel::event::AnswerVerdict;
use ostler_kernel::json::parse_value;
use ostler_server::wire::{Summary, WaitAnswerRequest, WaitAnswered};

use crate::cli::arguments::metrics::MetricsOption;
use crate::cli::arguments::values::{node_name, run_name};
use crate::cli::arguments::{Globals, ModelOption};
use crate::cli::exit::{Failure, code};
use crate::cli::output::hints;
use crate::cli::output::terminal::Out;
use crate::cli::output::units::date;
use crate::cli::session::api_client::path_segment;
use crate::cli::session::signals::Signals;
use crate::cli::session::watch_run::{Done, answered, go_on};
use crate::cli::session::{AccessMode, Session};

#[derive(Debug, Args)]
pub(crate) struct AnswerArgs {
    /// The run: its id, a part of it, or @last
    #[arg(value_parser = run_name)]
    run: String,
    /// The node of kind wait
    #[arg(value_parser = node_name)]
    node: String,
    /// The value, as JSON
    #[arg(long, value_name = "JSON")]
    value: String,
    /// A name for the answer: sending it again changes nothing
    #[arg(long)]
    id: Option<String>,
    #[command(flatten)]
    model: ModelOption,
    #[command(flatten)]
    metrics: MetricsOption,
}

pub(crate) async fn answer(globals: &Globals, args: AnswerArgs) -> Result<u8, Failure> {
    let mut out = Out::new();
    let globals = &args.model.add_to(globals)?;
    let value = parse_value(&args.value).map_err(|error| Failure::invalid(format!("--value: {error}")))?;
    let mut signals = Signals::listen()?;
    let mut session =
        Session::open_with_metrics(globals, Path::new("."), AccessMode::Execute, args.metrics).await?;
    let before = match session.summary(&args.run).await {
        Ok(before) => before,
        Err(failure) => return session.stop_with(failure).await,
    };
    let path = format!("/v1/runs/{}/nodes/{}/answer", before.run, path_segment(&args.node));
    let request = WaitAnswerRequest { value, id: args.id };
    let answer = match session.post::<WaitAnswered>(&path, &request).await {
        Ok(answer) => answer,
        Err(refused) => return session.stop_with(refused).await,
    };
    let verdict = answer.verdict;
    let (word, text) = (verdict.as_str().to_owned(), told(&before, &answer));
    if !is_taken(verdict) {
        return session.stop_with(Failure { code: code::FAILED, what: format!("{word}: {text}") }).await;
    }
    if !session.client.is_remote() && !globals.json {
        out.line(format!("{word}: {text}"));
    }
    let done = Done { node: &args.node, word, text, answers: true };
    go_on(session, &mut signals, globals, before, done, &mut out).await.map(answered)
}

/// True if the sender need not send the answer again.
fn is_taken(verdict: AnswerVerdict) -> bool {
    matches!(verdict, AnswerVerdict::Accepted | AnswerVerdict::Kept | AnswerVerdict::Duplicate)
}

/// What became of the answer, in words.
fn told(before: &Summary, answer: &WaitAnswered) -> String {
    let (run, node) = (before.run.as_str(), answer.node.as_str());
    match answer.verdict {
        AnswerVerdict::Accepted => format!("{node} has its answer"),
        AnswerVerdict::Kept => format!("{node} does not wait yet: the answer is judged once it does"),
        AnswerVerdict::Duplicate => format!("{node} had this answer already"),
        AnswerVerdict::Invalid => {
            let broken = answer.broken.iter().map(|broken| format!("\n  {broken}")).collect::<String>();
            format!("the value breaks the contract of {node}, which goes on waiting{broken}")
        }
        AnswerVerdict::Full => {
            format!("{node} does not wait yet, and keeps as many answers as policy.max_kept allows")
        }
        AnswerVerdict::Late => match answer.deadline_ms {
            Some(at) => format!(
                "the deadline of {node} passed at {}; it fails when the run goes on: `{}`",
                date(at),
                hints::resume(run)
            ),
            None => format!("{node} has ended"),
        },
        AnswerVerdict::Unknown => {
            let asks =
                before.waiting.iter().find(|waiting| waiting.node == node).map(|asks| asks.ask.as_str());
            let help = match asks {
                Some("in_doubt") => hints::command("resolve", &[run, node], "--done FILE, --redo or --fail"),
                Some(_) => hints::command("approve", &[run, node], ""),
                None => hints::show(run),
            };
            format!("{node} is no node of kind wait in this run; try `{help}`")
        }
    }
}
