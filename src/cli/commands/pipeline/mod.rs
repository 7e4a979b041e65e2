//! `ostler pipeline`.

mod events;
mod stages;
pub(crate) use stages::stage_problems;

use std::num::NonZeroU64;
use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use ostler::pipeline_file::PipelineFile;
use ostler_kernel::json::parse_value;
use ostler_kernel::pipeline::EVENT_BYTES_MAX;
use ostler_server::wire::{CatchUpRequest, EventRef, PipelineList, PipelineRow, PublishRequest};
use serde_json::json;

use crate::cli::arguments::Globals;
use crate::cli::arguments::plan::from_stdin;
use crate::cli::arguments::values::positive_integer;
use crate::cli::commands::pipeline::events::{EventsArgs, events};
use crate::cli::commands::pipeline::stages::format_pipeline;
use crate::cli::exit::{Failure, code};
use crate::cli::output::findings;
use crate::cli::output::hints::with_location;
use crate::cli::output::terminal::{Out, status_line, tagged};
use crate::cli::output::units::plural;
use crate::cli::session::api_client::path_segment;
use crate::cli::session::settings::has_no_data_folder;
use crate::cli::session::{AccessMode, Session, open_existing};

pub(crate) const NAME_MAX: usize = 32;

pub(crate) const DATA_MAX: usize = 200;

/// Maximum bytes of JSON input: whitespace does not count for the limit of an event.
const EVENT_TEXT_BYTES_MAX: usize = 4 * EVENT_BYTES_MAX;

#[derive(Debug, Args)]
pub(crate) struct PipelineArgs {
    #[command(subcommand)]
    command: PipelineCommand,
}

impl PipelineArgs {
    /// True if nothing but the output is written.
    pub(crate) fn only_reads(&self) -> bool {
        matches!(self.command, PipelineCommand::Ps(_) | PipelineCommand::Events(_))
    }
}

#[derive(Debug, Subcommand)]
enum PipelineCommand {
    /// Declare a pipeline, from a file that lists its stages
    ///
    /// Each stage publishes events of some types and subscribes to types that earlier stages publish. All
    /// faults are reported at once. An existing pipeline with the same declaration stays unchanged.
    #[command(after_help = "Example:\n  ostler pipeline create examples/pipelines/web_testing.yaml")]
    Create(CreateArgs),
    /// List pipelines: progress of each stage, and dead letters
    ///
    /// LAG is the number of events that a stage has not processed yet. A stage is live if code in the
    /// process that holds the data folder processes it, and external if it is read over the API, or not
    /// processed yet. A dead letter is shown with its type and data as long as the event is kept.
    #[command(after_help = "Examples:\n  ostler pipeline ps\n  ostler pipeline ps web_testing --json")]
    Ps(PsArgs),
    /// Print the events of a pipeline
    #[command(
        after_help = "Examples:\n  ostler pipeline events web_testing\n  ostler pipeline events web_testing --from 100 --follow"
    )]
    Events(EventsArgs),
    /// Publish an event as a stage
    #[command(
        after_help = "Example:\n  ostler pipeline publish web_testing recon page_discovered '{\"path\": \"/\"}'"
    )]
    Publish(PublishArgs),
    /// Move the cursor of a stage: replay or skip events
    ///
    /// The stage receives the events from the given one on, in order. It starts without its saved state,
    /// unless --keep-state is given. Events that it published before are published again.
    #[command(
        after_help = "Examples:\n  ostler pipeline catch-up web_testing synthesis --from 1\n  ostler pipeline catch-up web_testing load --from 250 --keep-state"
    )]
    CatchUp(CatchUpArgs),
    /// Release a stopped stage, without the event that stopped it
    ///
    /// A stage stops after three failures on an event, if its policy is to stop. A stage is down if its
    /// actor failed too often. `ostler pipeline ps` shows the reason; `ostler pipeline catch-up` retries
    /// the event.
    #[command(after_help = "Example:\n  ostler pipeline release web_testing behavior")]
    Release(StageArgs),
    /// End a stage: it publishes nothing more
    ///
    /// For a stage without subscriptions, or one that is read over the API and has processed all events.
    /// Later stages end when they have processed all events.
    #[command(after_help = "Example:\n  ostler pipeline end web_testing recon")]
    End(StageArgs),
    /// Remove a pipeline, with its events and the state of its stages
    ///
    /// Refused while the process that holds the data folder runs one of its stages, or while a stage has
    /// events left; `ostler pipeline catch-up` skips them. Another declaration may then take the name; its
    /// events are numbered on from the last one.
    #[command(after_help = "Example:\n  ostler pipeline remove web_testing")]
    Remove(RemoveArgs),
}

#[derive(Debug, Args)]
struct RemoveArgs {
    /// Pipeline
    pipeline: String,
}

#[derive(Debug, Args)]
struct CreateArgs {
    /// The declaration: .yaml, .yml, .json or .toml
    file: PathBuf,
}

#[derive(Debug, Args)]
struct PsArgs {
    /// List only this pipeline
    pipeline: Option<String>,
}

#[derive(Debug, Args)]
struct PublishArgs {
    /// Pipeline
    pipeline: String,
    /// Stage that publishes
    stage: String,
    /// Type of the event, as the stage declares it
    #[arg(value_name = "TYPE")]
    kind: String,
    /// Data, as JSON; or - for stdin, which takes more than a command line
    #[arg(value_name = "JSON", allow_hyphen_values = true)]
    event: String,
}

#[derive(Debug, Args)]
struct CatchUpArgs {
    /// Pipeline
    pipeline: String,
    /// Stage
    stage: String,
    /// First event to process
    #[arg(long, value_name = "SEQ", allow_negative_numbers = true, value_parser = positive_integer)]
    from: NonZeroU64,
    /// Keep the saved state
    #[arg(long)]
    keep_state: bool,
}

#[derive(Debug, Args)]
struct StageArgs {
    /// Pipeline
    pipeline: String,
    /// Stage
    stage: String,
}

pub(crate) async fn pipeline(globals: &Globals, args: PipelineArgs) -> Result<u8, Failure> {
    match args.command {
        PipelineCommand::Create(args) => create(globals, &args).await,
        PipelineCommand::Ps(args) => ps(globals, &args).await,
        PipelineCommand::Events(args) => events(globals, &args).await,
        PipelineCommand::Publish(args) => publish(globals, &args).await,
        PipelineCommand::CatchUp(CatchUpArgs { pipeline, stage, from, keep_state }) => {
            let request = CatchUpRequest { from: from.get(), keep_state };
            let done = format!("stage {stage} continues at event {from}");
            steer(globals, &pipeline, &stage, "catch-up", &request, &done).await
        }
        PipelineCommand::Release(StageArgs { pipeline, stage }) => {
            let done = format!("stage {stage} is released");
            steer(globals, &pipeline, &stage, "release", &json!({}), &done).await
        }
        PipelineCommand::End(StageArgs { pipeline, stage }) => {
            let done = format!("stage {stage} is ended");
            steer(globals, &pipeline, &stage, "end", &json!({}), &done).await
        }
        PipelineCommand::Remove(args) => remove(globals, &args).await,
    }
}

/// Opens a session with a data folder that may have pipelines.
pub(crate) async fn open(globals: &Globals, mode: AccessMode) -> Result<Session, Failure> {
    open_existing("pipeline", globals, mode).await
}

pub(crate) fn path(pipeline: &str) -> String {
    format!("/v1/pipelines/{}", path_segment(pipeline))
}

async fn create(globals: &Globals, args: &CreateArgs) -> Result<u8, Failure> {
    let file = PipelineFile::read(&args.file).map_err(|error| Failure::invalid(error.to_string()))?;
    let mut out = Out::new();
    let spec = file
        .validate()
        .map_err(|findings| findings::report(file.source(), &findings, globals.json, &mut out))?;
    let mut session = Session::open(globals, Path::new("."), AccessMode::Create).await?;
    let was_there = session.get::<PipelineRow>(&path(&spec.id)).await.is_ok();
    let line: Result<PipelineRow, _> = session.post_idempotent("/v1/pipelines", spec).await;
    session.stop().await;
    let line = line?;
    if globals.json {
        out.json(&tagged("pipeline", &line));
    } else {
        let data_folder_exists = if was_there { " exists," } else { "" };
        out.line(format!(
            "pipeline {}{data_folder_exists} with {}",
            line.pipeline,
            plural(line.stages.len(), "stage")
        ));
    }
    Ok(code::SUCCEEDED)
}

async fn ps(globals: &Globals, args: &PsArgs) -> Result<u8, Failure> {
    if args.pipeline.is_none() && has_no_data_folder("pipeline", globals)? {
        return Ok(code::SUCCEEDED);
    }
    let mut session = open(globals, AccessMode::Read).await?;
    let asked = lines(&mut session, args.pipeline.as_deref()).await;
    session.stop().await;
    let lines = asked?;
    let mut out = Out::new();
    if globals.json {
        lines.iter().for_each(|line| out.json(&tagged("pipeline", line)));
        return Ok(code::SUCCEEDED);
    }
    if lines.is_empty() {
        status_line(with_location("no pipeline yet; `ostler pipeline create FILE` declares one"));
    }
    let columns = out.columns();
    for line in lines.iter().flat_map(|line| format_pipeline(line, columns, &out)).collect::<Vec<_>>() {
        out.line(line);
    }
    Ok(code::SUCCEEDED)
}

pub(crate) async fn lines(session: &mut Session, one: Option<&str>) -> Result<Vec<PipelineRow>, Failure> {
    Ok(match one {
        Some(one) => vec![session.get(&path(one)).await?],
        None => session.get::<PipelineList>("/v1/pipelines").await?.pipelines,
    })
}

async fn publish(globals: &Globals, args: &PublishArgs) -> Result<u8, Failure> {
    let event = match args.event.as_str() {
        "-" => from_stdin("the event", EVENT_TEXT_BYTES_MAX)?,
        event => event.to_owned(),
    };
    let data = parse_value(&event)
        .map_err(|error| Failure::invalid(format!("event: {error}; put a text in quotes: '\"text\"'")))?;
    let request = PublishRequest { stage: args.stage.clone(), kind: args.kind.clone(), data };
    let mut session = open(globals, AccessMode::Execute).await?;
    let path = format!("{}/events", path(&args.pipeline));
    let numbered: Result<EventRef, _> = session.post(&path, &request).await;
    session.stop().await;
    let numbered = numbered?;
    let mut out = Out::new();
    if globals.json {
        out.json(&tagged("published", &numbered));
    } else {
        out.line(format!("event {} of {}", numbered.seq, numbered.pipeline));
    }
    Ok(code::SUCCEEDED)
}

async fn remove(globals: &Globals, args: &RemoveArgs) -> Result<u8, Failure> {
    let mut session = open(globals, AccessMode::Execute).await?;
    let path = format!("{}/remove", path(&args.pipeline));
    let removed: Result<PipelineRow, _> = session.post(&path, &json!({})).await;
    session.stop().await;
    let removed = removed?;
    let mut out = Out::new();
    if globals.json {
        out.json(&tagged("pipeline_removed", &removed));
    } else {
        let events = (removed.head + 1).saturating_sub(removed.oldest) as usize;
        out.line(format!("pipeline {} is removed, with {}", removed.pipeline, plural(events, "event")));
    }
    Ok(code::SUCCEEDED)
}

async fn steer(
    globals: &Globals,
    pipeline: &str,
    stage: &str,
    how: &str,
    request: &impl serde::Serialize,
    done: &str,
) -> Result<u8, Failure> {
    let mut session = open(globals, AccessMode::Execute).await?;
    let path = format!("{}/stages/{}/{how}", path(pipeline), path_segment(stage));
    let line: Result<PipelineRow, _> = session.post(&path, request).await;
    session.stop().await;
    let line = line?;
    let mut out = Out::new();
    if globals.json {
        out.json(&tagged("pipeline", &line));
    } else {
        out.line(done);
    }
    Ok(code::SUCCEEDED)
}
