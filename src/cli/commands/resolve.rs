//! `ostler resolve`.

use std::io::Read;
use std::path::{Path, PathBuf};

use clap::Args;
use ostler_kernel::json::parse_value;
use ostler_server::wire::{Resolution, ResolveRequest, RunRef};
use serde_json::Value;

use crate::cli::arguments::metrics::MetricsOption;
use crate::cli::arguments::values::{node_name, run_name};
use crate::cli::arguments::watch::WatchOptions;
use crate::cli::arguments::{Globals, ModelOption};
use crate::cli::exit::{Failure, code};
use crate::cli::output::cells::harmless_line;
use crate::cli::output::terminal::Out;
use crate::cli::session::signals::Signals;
use crate::cli::session::watch_run::{Done, Watch, answered, go_on, watch};
use crate::cli::session::{AccessMode, Session};

/// Maximum bytes of a result given by a person.
const RESULT_BYTES_MAX: u64 = 4 << 20;

#[derive(Debug, Args)]
pub(crate) struct ResolveArgs {
    /// The run: its id, a part of it, or @last
    #[arg(value_parser = run_name)]
    run: String,
    /// The node with the attempt in doubt
    #[arg(value_parser = node_name)]
    node: String,
    #[command(flatten)]
    how: HowArgs,
    #[command(flatten)]
    model: ModelOption,
    #[command(flatten)]
    metrics: MetricsOption,
}

#[derive(Debug, Args)]
#[group(required = true, multiple = false)]
struct HowArgs {
    /// The attempt took effect: its result, as a JSON file, or - for stdin
    #[arg(long, value_name = "FILE")]
    done: Option<PathBuf>,
    /// Repeat the attempt
    #[arg(long)]
    redo: bool,
    /// Count the attempt as failed
    #[arg(long)]
    fail: bool,
    /// The run has ended, and nothing is left of the node's unknown effect
    #[arg(long)]
    gone: bool,
}

pub(crate) async fn resolve(globals: &Globals, args: ResolveArgs) -> Result<u8, Failure> {
    let mut out = Out::new();
    let globals = &args.model.add_to(globals)?;
    let (how, value) = match &args.how {
        HowArgs { done: Some(path), .. } => (Resolution::Done, Some(result(path)?)),
        HowArgs { redo: true, .. } => (Resolution::Redo, None),
        HowArgs { gone: true, .. } => (Resolution::Gone, None),
        // The last of the four, one of which is required.
        HowArgs { fail: _, .. } => (Resolution::Fail, None),
    };
    let mut signals = Signals::listen()?;
    let mut session =
        Session::open_with_metrics(globals, Path::new("."), AccessMode::Execute, args.metrics).await?;
    let before = match session.summary(&args.run).await {
        Ok(summary) => summary,
        Err(failure) => return session.stop_with(failure).await,
    };
    // Names the attempt seen now, not a later one that is in doubt by the time the request arrives.
    let attempt = before.waiting.iter().find(|waiting| waiting.node == args.node).and_then(|it| it.attempt);
    let request = ResolveRequest { node: args.node.clone(), attempt, how, value };
    let path = format!("/v1/runs/{}/resolve", before.run);
    if let Err(refused) = session.post::<RunRef>(&path, &request).await {
        return session.stop_with(refused).await;
    }
    if how == Resolution::Gone {
        if !globals.json {
            out.line(harmless_line(&format!("settled {}: nothing is left of its effect", args.node)));
        }
        let what = Watch::from(&before, globals.json, WatchOptions::default());
        watch(session, &mut signals, what, &mut out).await?;
        // The outcome of a run that has ended says nothing about the settled effect.
        return Ok(code::SUCCEEDED);
    }
    let (node, text) = (args.node.as_str(), format!("settled {}", args.node));
    let done = Done { node, word: "settled".to_owned(), text, answers: true };
    go_on(session, &mut signals, globals, before, done, &mut out).await.map(answered)
}

fn result(path: &Path) -> Result<Value, Failure> {
    let name = path.display();
    let refuse = |error: &dyn std::fmt::Display| Failure::invalid(format!("result {name}: {error}"));
    let source: Box<dyn Read> = if path == Path::new("-") {
        Box::new(std::io::stdin())
    } else {
        Box::new(std::fs::File::open(path).map_err(|error| refuse(&error))?)
    };
    let mut text = String::new();
    source.take(RESULT_BYTES_MAX + 1).read_to_string(&mut text).map_err(|error| refuse(&error))?;
    if text.len() as u64 > RESULT_BYTES_MAX {
        return Err(refuse(&format!("larger than {RESULT_BYTES_MAX} bytes")));
    }
    parse_value(&text).map_err(|error| refuse(&error))
}
