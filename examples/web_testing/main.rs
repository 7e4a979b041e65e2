//! Web testing, the first case study of the Agent Scheduler paper (section 9.1): a pipeline of five stages tests a site, served by this
//! program, while the site is still being crawled.
//!
//! ```console
//! $ cargo run --example web_testing [FOLDER]
//! ```
//!
//! The crawler publishes each page as it finds it, and the other stages check, load and observe pages during the crawl. A second,
//! batch pass starts each stage after the end of the one before, for comparison. Both journals (`streaming`, `batch`) and the report
//! (`report.md`) go to the given folder, which must contain none of them; the default is a new temporary folder.
//!
//! `--crash STAGE` and `--nonsense STAGE` inject a fault into the analyst of `recon`, `behavior` or `synthesis`: the crawler resumes
//! behind its last step, any other stage reads its event again, and the report is the same.
//!
//! `--model NAME` lets a model read the pages, where plain code looks for patterns: a model of `ostler.toml`, `scripted:FILE` or
//! `cassette:FILE`. A title or link that does not stand in the page is refused, and the model asked again.
//!
//! ```console
//! $ cargo run --example web_testing -- --model scripted:examples/models/web_testing.yaml
//! ```
#![allow(clippy::print_stdout, reason = "a program that shows what happens")]

mod analysts;
#[path = "../case_studies/mod.rs"]
#[allow(dead_code, reason = "this example has no approvals")]
pub(crate) mod case_studies;
mod fetch;
mod people;
mod site;
mod stages;

use std::fs::OpenOptions;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use ostler::pipeline_file::PipelineFile;
use ostler::plan_file::Format;
use ostler::{
    AgentProfile, Ostler, Oversight, PipelineError, PipelineHandle, PipelineSpec, Run, RunEvaluation,
    Submission,
};
use serde_json::json;

use analysts::{Checking, Extraction, Report, Reporting, report_schema};
use case_studies::analyst::{FaultyAnalyst, InjectedFault};
use case_studies::arguments::Arguments;
use case_studies::gates::{RunStats, Terminal, run_to_success};
use case_studies::model::ChosenModel;
use case_studies::scores::{Printed, compare, print};
use case_studies::{Error, Out};
use fetch::Site;
use people::RevisitJudge;
use stages::{Behavior, Load, Observer, PipelineSlot, Reading, Synthesis};

const USAGE: &str = "web_testing [FOLDER] [--model MODEL] [--crash STAGE | --nonsense STAGE]";

/// The pipeline's declaration.
const SPEC: &str = include_str!("../pipelines/web_testing.yaml");

/// The subscribing stages in order.
const STAGES: [&str; 4] = ["behavior", "load", "observer", "synthesis"];

/// Name of the report file.
const REPORT: &str = "report.md";

/// The paper's vector with its printed composite, which is rounded.
const PAPER: Printed =
    Printed { vector: [870, 920, 780, 850, 950, 880], composites: &[("web-testing", Some("0.877"))] };

/// Order in which the stages run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mode {
    /// Concurrently: each event is handled as soon as it is published.
    Streaming,
    /// One after the other: a stage starts when the one before has ended.
    Batch,
}

impl Mode {
    /// Name of the journal folder.
    fn name(self) -> &'static str {
        match self {
            Mode::Streaming => "streaming",
            Mode::Batch => "batch",
        }
    }
}

/// Result of one pass.
pub(crate) struct Tested {
    pub(crate) took: Duration,
    pub(crate) report: String,
    /// Published events.
    pub(crate) events: u64,
    /// True if a load test ran before the end of the crawl.
    pub(crate) overlapped: bool,
    seen: RunStats,
    evaluation: RunEvaluation,
}

/// Results of both passes.
pub(crate) struct Compared {
    pub(crate) streaming: Tested,
    pub(crate) batch: Tested,
    /// Path of the report.
    written: PathBuf,
}

impl Compared {
    /// Prints the results, the time saved by streaming and the scores.
    pub(crate) fn print(&self, out: Out<'_>) -> io::Result<()> {
        let Compared { streaming, batch, written } = self;
        writeln!(out, "{}", streaming.report)?;
        writeln!(out, "report:    {}", written.display())?;
        writeln!(out, "events:    {}", streaming.events)?;
        let when = if streaming.overlapped { "before" } else { "after" };
        writeln!(out, "load:      began {when} the crawl had ended")?;
        let (took, whole) = (streaming.took.as_secs_f64(), batch.took.as_secs_f64());
        writeln!(out, "streaming: {took:.2} s\nbatch:     {whole:.2} s")?;
        let less = 100.0 * (1.0 - took / whole);
        writeln!(
            out,
            "           {less:.0} % less time when no stage waits for the end of the one before\n"
        )?;
        streaming.seen.print(out)?;
        print(&streaming.evaluation, out)?;
        compare(&PAPER, out)
    }
}

#[tokio::main]
async fn main() -> Result<(), Error> {
    let arguments = Arguments::from_command_line(USAGE)?;
    // Analysts have no timeout here, and the data folder is fixed.
    if arguments.data.is_some()
        || arguments.fault.as_ref().is_some_and(|(_, it)| *it == InjectedFault::Silence)
    {
        return Err(USAGE.into());
    }
    let folder = match &arguments.subject {
        Some(folder) => folder.clone(),
        None => tempfile::Builder::new().prefix("ostler-web-testing-").tempdir()?.keep(),
    };
    let out = &mut io::stdout();
    Ok(both_ways(&arguments, &folder, out).await?.print(out)?)
}

/// Tests the site in both modes and writes the report. Leaves existing files untouched.
pub(crate) async fn both_ways(arguments: &Arguments, folder: &Path, out: Out<'_>) -> Result<Compared, Error> {
    for name in [REPORT, Mode::Streaming.name(), Mode::Batch.name()] {
        let path = folder.join(name);
        if path.symlink_metadata().is_ok() {
            let path = path.display();
            return Err(format!("{path} is there already, and stays as it is: name another folder").into());
        }
    }
    std::fs::create_dir_all(folder)?;
    let streaming = test(Mode::Streaming, arguments, folder, out).await?;
    let batch = test(Mode::Batch, arguments, folder, out).await?;
    let written = folder.join(REPORT);
    OpenOptions::new().write(true).create_new(true).open(&written)?.write_all(streaming.report.as_bytes())?;
    Ok(Compared { streaming, batch, written })
}

/// Serves and tests the site with a journal in `folder`.
async fn test(mode: Mode, arguments: &Arguments, folder: &Path, out: Out<'_>) -> Result<Tested, Error> {
    let data = folder.join(mode.name());
    std::fs::create_dir(&data)?;
    let (site, line) = (Site::at(site::serve().await?), PipelineSlot::default());
    let mut builder = Ostler::builder().data_dir(&data).without_socket().judge(RevisitJudge(site.clone()));
    let reading = match arguments.model.as_deref().map(ChosenModel::of).transpose()? {
        None => Reading::Code(FaultyAnalyst::at(1, arguments.fault_at("recon"), Extraction)),
        Some(ChosenModel { name, config }) => {
            builder = builder.config(config);
            Reading::Model(name)
        }
    };
    let builder = builder.program(stages::recon(&site, &line, reading)).program(stages::report(&line));
    let os = builder.start().await?;
    let tested = work(&os, mode, arguments, &site, &line, out).await;
    os.shutdown().await;
    tested
}

/// Runs two agents: one crawls, the other submits the pipeline's report.
async fn work(
    os: &Ostler,
    mode: Mode,
    arguments: &Arguments,
    site: &Site,
    line: &PipelineSlot,
    out: Out<'_>,
) -> Result<Tested, Error> {
    let begun = Instant::now();
    let pipeline = os.create_pipeline(&spec()?).await?;
    line.set(pipeline.clone());
    let attached = Attaching::of(arguments, site, &pipeline);
    if mode == Mode::Streaming {
        STAGES.iter().try_for_each(|stage| attached.attach(stage))?;
    }
    let run = submit(os, arguments.model.is_some()).await?;
    if mode == Mode::Batch {
        // An error here shows in the outcome of the run below.
        tokio::select! {
            ended = attached.one_by_one() => ended?,
            _ = run.outcome() => {}
        }
    }
    let seen = run_to_success(os, &run, &mut Terminal, out).await?;
    let took = begun.elapsed();
    let Report { text: report, .. } = serde_json::from_slice(&run.artifact("report").await?.content)?;
    let (events, overlapped) = (pipeline.row().head, overlapped(&pipeline)?);
    Ok(Tested { took, report, events, overlapped, seen, evaluation: run.evaluation().await? })
}

fn spec() -> Result<PipelineSpec, Error> {
    let file = PipelineFile::parse("web_testing.yaml", Format::Yaml, SPEC);
    Ok(file.validate().map_err(|findings| format!("{findings:#?}"))?.clone())
}

async fn submit(os: &Ostler, by_model: bool) -> Result<Run, Error> {
    let tester = AgentProfile::new("web-tester").domain("web-testing");
    let tester = tester.oversight(Oversight::AutonomousEscalation).capabilities(["web-testing"]);
    let timeout = if by_model { "10m" } else { "60s" };
    let plan = serde_json::from_value(json!({
        "id": "web-testing",
        "nodes": [
            {"id": "recon", "tool": "web.recon", "timeout": timeout},
            {"id": "report", "tool": "web.report", "timeout": timeout, "deps": ["recon"]},
        ],
    }))?;
    let tester = os.spawn(tester.output(report_schema())).await?;
    Ok(tester.submit(Submission::plan(os.plan(plan)?)).await?)
}

/// True if a load test ran before the end of the crawl.
fn overlapped(pipeline: &PipelineHandle) -> Result<bool, Error> {
    for seq in 1..=pipeline.row().head {
        match pipeline.event(seq)?.map(|event| event.kind.to_string()).as_deref() {
            Some("load_result") => return Ok(true),
            Some("sitemap_built") => return Ok(false),
            _ => {}
        }
    }
    Ok(false)
}

/// Attaches code to the stages.
struct Attaching<'a> {
    pipeline: &'a PipelineHandle,
    site: &'a Site,
    checking: Arc<FaultyAnalyst<Checking>>,
    reporting: Arc<FaultyAnalyst<Reporting>>,
}

impl<'a> Attaching<'a> {
    fn of(arguments: &Arguments, site: &'a Site, pipeline: &'a PipelineHandle) -> Attaching<'a> {
        let checking = Arc::new(FaultyAnalyst::at(1, arguments.fault_at("behavior"), Checking));
        let reporting = Arc::new(FaultyAnalyst::at(0, arguments.fault_at("synthesis"), Reporting));
        Attaching { pipeline, site, checking, reporting }
    }

    fn attach(&self, stage: &str) -> Result<(), PipelineError> {
        let (site, pipeline) = (self.site.clone(), self.pipeline);
        let (checking, reporting) = (Arc::clone(&self.checking), Arc::clone(&self.reporting));
        match stage {
            "behavior" => pipeline.attach(stage, move |kept| Behavior::with(&site, &checking, kept)),
            "load" => pipeline.attach(stage, move |_| Load::of(&site)),
            "observer" => pipeline.attach(stage, move |kept| Observer::with(&site, kept)),
            _ => pipeline.attach(stage, move |kept| Synthesis::with(&reporting, kept)),
        }
    }

    /// Attaches each stage after the end of the one before.
    async fn one_by_one(&self) -> Result<(), PipelineError> {
        ended(self.pipeline, "recon").await;
        for stage in STAGES {
            self.attach(stage)?;
            ended(self.pipeline, stage).await;
        }
        Ok(())
    }
}

/// Waits for the end of a stage.
async fn ended(pipeline: &PipelineHandle, stage: &str) {
    let is_over = || {
        let row = pipeline.row();
        row.stages.iter().any(|row| row.stage.as_str() == stage && row.state == "ended")
    };
    while !is_over() {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}
