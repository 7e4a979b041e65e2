//! Tests a web site while it is still being crawled: a pipeline of five stages over a site that this program serves itself.
//!
//! ```console
//! $ cargo run --example web_testing
//! ```
//!
//! The crawler publishes each page as it finds it; checks are made, flows are loaded and results are looked at while it is still
//! under way. The same is then done once more stage by stage, each after the one before it has ended, to see what that costs.
//! Everything stands in a journal on disk. The report is written to `report.md` in the folder that is named, or in a
//! temporary one.
#![allow(clippy::print_stdout, reason = "a program that shows what happens")]

mod fetch;
mod site;
mod stages;

use std::error::Error;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use ostler::pipeline_file::PipelineFile;
use ostler::plan_file::Format;
use ostler::{Ostler, PipelineEnd, PipelineHandle, PipelineSpec};

use fetch::Site;

/// Who publishes what, and who hears it.
const SPEC: &str = include_str!("../pipelines/web_testing.yaml");

/// The stages that hear something, in their order.
const STAGES: [&str; 4] = ["behavior", "load", "observer", "synthesis"];

/// How the stages run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum How {
    /// All at once: each event is dealt with as soon as it is there.
    Streaming,
    /// One after the other: a stage begins when the one before it has ended.
    Batch,
}

/// What testing the site came to.
pub(crate) struct Tested {
    pub(crate) took: Duration,
    pub(crate) report: String,
    /// Events of the pipeline.
    pub(crate) events: u64,
    /// Whether something was loaded before the crawl had ended.
    pub(crate) overlapped: bool,
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let folder = std::env::args().nth(1).map(PathBuf::from);
    let folder = folder.unwrap_or_else(|| std::env::temp_dir().join("ostler-web-testing"));
    let streaming = test(How::Streaming, &folder).await?;
    let batch = test(How::Batch, &folder).await?;
    print!("{}", streaming.report);
    println!();
    println!("report:    {}", folder.join("report.md").display());
    println!("events:    {}", streaming.events);
    println!(
        "load:      began {} the crawl had ended",
        if streaming.overlapped { "before" } else { "after" }
    );
    println!("streaming: {:.2} s", streaming.took.as_secs_f64());
    println!("batch:     {:.2} s", batch.took.as_secs_f64());
    let less = 100.0 * (1.0 - streaming.took.as_secs_f64() / batch.took.as_secs_f64());
    println!("           {less:.0} % less time when nobody waits for the stage before it to end");
    Ok(())
}

/// Serves the site, tests it, and writes the report to `report.md` in `folder`.
pub(crate) async fn test(how: How, folder: &Path) -> Result<Tested, Box<dyn Error>> {
    let data = folder.join("data");
    let _ = std::fs::remove_dir_all(&data);
    std::fs::create_dir_all(folder)?;
    let site = Site::at(site::serve().await?);
    let os = Ostler::builder().data_dir(&data).alone().start().await?;
    let report = folder.join("report.md");

    let begun = Instant::now();
    let pipeline = os.create_pipeline(&spec()?).await?;
    if how == How::Streaming {
        STAGES.iter().try_for_each(|stage| attach(stage, &pipeline, &site, &report))?;
    }
    stages::recon(&pipeline.publisher("recon")?, &site).await?;
    let overlapped = pipeline.row().stages.iter().any(|row| row.stage.as_str() == "load" && row.cursor > 0);
    pipeline.publisher("recon")?.end().await?;
    if how == How::Batch {
        for stage in STAGES {
            attach(stage, &pipeline, &site, &report)?;
            ended(&pipeline, stage).await;
        }
    }
    match pipeline.ended().await? {
        PipelineEnd::Ended => {}
        PipelineEnd::Stuck { stage, reason } => return Err(format!("{stage} is stuck: {reason}").into()),
    }
    let took = begun.elapsed();
    let events = pipeline.row().head;
    os.shutdown().await;
    Ok(Tested { took, report: std::fs::read_to_string(&report)?, events, overlapped })
}

fn spec() -> Result<PipelineSpec, Box<dyn Error>> {
    let file = PipelineFile::parse("web_testing.yaml", Format::Yaml, SPEC);
    Ok(file.validate().map_err(|findings| format!("{findings:#?}"))?.clone())
}

fn attach(
    stage: &str,
    pipeline: &PipelineHandle,
    site: &Site,
    report: &Path,
) -> Result<(), ostler::PipelineError> {
    let (site, report) = (site.clone(), report.to_owned());
    match stage {
        "behavior" => pipeline.attach(stage, move |kept| stages::Behavior::with(&site, kept)),
        "load" => pipeline.attach(stage, move |_| stages::Load::of(&site)),
        "observer" => pipeline.attach(stage, move |kept| stages::Observer::with(&site, kept)),
        _ => pipeline.attach(stage, move |kept| stages::Synthesis::with(&report, kept)),
    }
}

/// Waits until a stage has ended.
async fn ended(pipeline: &PipelineHandle, stage: &str) {
    let is_over = || {
        let row = pipeline.row();
        row.stages.iter().any(|row| row.stage.as_str() == stage && row.state != "live")
    };
    while !is_over() {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}
