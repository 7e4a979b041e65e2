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
use ostler_server::wire::{CatchUpRequest, EventRef, PipelineLine, PipelineList, PublishRequest};
use serde_json::json;

use crate::cli::arguments::Globals;
use crate::cli::arguments::plan::from_stdin;
use crate::cli::arguments::values::positive_integer;
use crate::cli::commands::pipeline::events::{EventsArgs, events};
use crate::cli::commands::pipeline::stages::listed;
use crate::cli::exit::{Failure, code};
use crate::cli::output::findings;
use crate::cli::output::hints::with_location;
use crate::cli::output::terminal::{Out, status_line, tagged};
use crate::cli::output::units::plural;
use crate::cli::session::api_client::path_segment;
use crate::cli::session::settings::{has_no_data_folder, load_settings, missing_folder_text};
use crate::cli::session::{AccessMode, Session};

/// Columns of a name.
pub(crate) const NAME_MAX: usize = 32;

/// Columns of what an event says.
pub(crate) const DATA_MAX: usize = 200;

/// Bytes of the text of an event: blanks between its parts do not count for its limit.
const EVENT_TEXT_BYTES_MAX: usize = 4 * EVENT_BYTES_MAX;

#[derive(Debug, Args)]
pub(crate) struct PipelineArgs {
    #[command(subcommand)]
    command: PipelineCommand,
}

#[derive(Debug, Subcommand)]
enum PipelineCommand {
    /// Declare a pipeline, from a file that names its stages
    ///
    /// Each stage publishes events of some types and subscribes to others; only what stages before it publish can be subscribed to.
    /// All faults are told at once. A pipeline that is there already, and is declared alike, stays as it is.
    #[command(after_help = "Example:\n  ostler pipeline create examples/pipelines/web_testing.yaml")]
    Create(CreateArgs),
    /// List pipelines, how far each stage has come, and what was parked
    ///
    /// LAG is the number of events that a stage is still to hear. A stage is live if code of the process that holds the data folder
    /// deals with it, external if it is read over the API, or nobody deals with it yet. Of a parked event it shows the type and what
    /// it says, as long as it is kept.
    #[command(after_help = "Examples:\n  ostler pipeline ps\n  ostler pipeline ps web_testing --json")]
    Ps(PsArgs),
    /// Print the events of a pipeline
    #[command(
        after_help = "Examples:\n  ostler pipeline events web_testing\n  ostler pipeline events web_testing --from 100 --follow"
    )]
    Events(EventsArgs),
    /// Publish an event for a stage
    #[command(
        after_help = "Example:\n  ostler pipeline publish web_testing recon page_discovered '{\"path\": \"/\"}'"
    )]
    Publish(PublishArgs),
    /// Let a stage hear events again, or pass over some
    ///
    /// The stage hears the events from the given one on, in order, and goes on with those that come. It begins without the state that
    /// it kept, unless told otherwise. What it publishes, it publishes again.
    #[command(
        after_help = "Examples:\n  ostler pipeline catch-up web_testing synthesis --from 1\n  ostler pipeline catch-up web_testing load --from 250 --keep-state"
    )]
    CatchUp(CatchUpArgs),
    /// Let a stage go on that stopped at an event, without that event
    ///
    /// A stage that fails at an event three times stops there, if its policy is to stop. Or its actor failed too often, and it is
    /// down. `ostler pipeline ps` says which, and why; `ostler pipeline catch-up` lets it try the event again.
    #[command(after_help = "Example:\n  ostler pipeline release web_testing behavior")]
    Release(StageArgs),
    /// Say that a stage publishes nothing more
    ///
    /// For one that subscribes to nothing, or that is read over the API and has heard everything. The stages behind it end when they
    /// have heard everything.
    #[command(after_help = "Example:\n  ostler pipeline end web_testing recon")]
    End(StageArgs),
}

#[derive(Debug, Args)]
struct CreateArgs {
    /// The file: .yaml, .yml, .json or .toml
    file: PathBuf,
}

#[derive(Debug, Args)]
struct PsArgs {
    /// One pipeline only
    pipeline: Option<String>,
}

#[derive(Debug, Args)]
struct PublishArgs {
    /// The pipeline
    pipeline: String,
    /// The stage that publishes
    stage: String,
    /// The type of the event, which the stage declares
    #[arg(value_name = "TYPE")]
    kind: String,
    /// What it says, as JSON; or - for stdin, where it may be longer than a command line
    #[arg(value_name = "JSON", allow_hyphen_values = true)]
    event: String,
}

#[derive(Debug, Args)]
struct CatchUpArgs {
    /// The pipeline
    pipeline: String,
    /// The stage
    stage: String,
    /// The first event that it is to hear
    #[arg(long, value_name = "SEQ", allow_negative_numbers = true, value_parser = positive_integer)]
    from: NonZeroU64,
    /// Let it keep its state
    #[arg(long)]
    keep_state: bool,
}

#[derive(Debug, Args)]
struct StageArgs {
    /// The pipeline
    pipeline: String,
    /// The stage
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
            let done = format!("stage {stage} hears the events from {from} on");
            steer(globals, &pipeline, &stage, "catch-up", &request, &done).await
        }
        PipelineCommand::Release(StageArgs { pipeline, stage }) => {
            let done = format!("stage {stage} goes on");
            steer(globals, &pipeline, &stage, "release", &json!({}), &done).await
        }
        PipelineCommand::End(StageArgs { pipeline, stage }) => {
            let done = format!("stage {stage} publishes nothing more");
            steer(globals, &pipeline, &stage, "end", &json!({}), &done).await
        }
    }
}

/// The way to a data folder that may have pipelines.
pub(crate) async fn open(globals: &Globals, want: AccessMode) -> Result<Session, Failure> {
    let (_, data) = load_settings(globals, Path::new("."))?;
    if let Some(data) = data
        && let Some(nothing) = missing_folder_text("pipeline", Some(&data))?
    {
        return Err(Failure::invalid(nothing));
    }
    Session::open(globals, Path::new("."), want).await
}

pub(crate) fn path(pipeline: &str) -> String {
    format!("/v1/pipelines/{}", path_segment(pipeline))
}

async fn create(globals: &Globals, args: &CreateArgs) -> Result<u8, Failure> {
    let file = PipelineFile::read(&args.file).map_err(|error| Failure::invalid(error.to_string()))?;
    let mut out = Out::new();
    let spec = file
        .validate()
        .map_err(|findings| findings::tell(file.source(), &findings, globals.json, &mut out))?;
    let mut session = Session::open(globals, Path::new("."), AccessMode::Create).await?;
    let was_there = session.get::<PipelineLine>(&path(&spec.id)).await.is_ok();
    let line: Result<PipelineLine, _> = session.post_idempotent("/v1/pipelines", spec).await;
    session.stop().await;
    let line = line?;
    if globals.json {
        out.json(&tagged("pipeline", &line));
    } else {
        let data_folder_exists = if was_there { " is there," } else { "" };
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
        status_line(with_location("there is no pipeline yet: `ostler pipeline create FILE` declares one"));
    }
    let columns = out.columns();
    for line in lines.iter().flat_map(|line| listed(line, columns, &out)).collect::<Vec<_>>() {
        out.line(line);
    }
    Ok(code::SUCCEEDED)
}

/// All pipelines, or one.
pub(crate) async fn lines(session: &mut Session, one: Option<&str>) -> Result<Vec<PipelineLine>, Failure> {
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
    let data = parse_value(&event).map_err(|error| {
        Failure::invalid(format!("the event: {error}; a text stands in quotes: '\"text\"'"))
    })?;
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
    let line: Result<PipelineLine, _> = session.post(&path, request).await;
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
