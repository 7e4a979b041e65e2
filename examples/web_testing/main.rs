//! Tests a web site while it is still being crawled: a pipeline of five stages over a site that this program serves itself. The first
//! case study of the Agent Scheduler paper (section 9.1).
//!
//! ```console
//! $ cargo run --example web_testing [FOLDER]
//! ```
//!
//! The crawler publishes each page as it finds it; checks are made, flows are loaded and results are looked at while it is still
//! under way. The same is then done once more stage by stage, each after the one before it has ended, to see what that costs.
//! Everything stands in journals on disk, one for each time: in `streaming` and `batch` in the folder that is named, beside the
//! report, `report.md`. Nothing that is there already is touched: a folder that has one of these is refused. Without a folder it
//! makes a new one in that for temporary files.
//!
//! `--crash STAGE` and `--nonsense STAGE` let the analyst behind `recon`, `behavior` or `synthesis` fail once: the crawler goes on
//! behind its last step, any other stage hears its event again, and the report is the same.
#![allow(clippy::print_stdout, reason = "a program that shows what happens")]

mod analysts;
#[path = "../case_studies/mod.rs"]
#[allow(dead_code, reason = "nobody looks at results here before they count")]
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
use case_studies::analyst::{Trouble, Troubled};
use case_studies::asked::Asked;
use case_studies::gates::{Seen, Terminal, see_through};
use case_studies::scores::{Printed, compare, tell};
use case_studies::{Error, Out};
use fetch::Site;
use people::Visitor;
use stages::{Behavior, Line, Load, Observer, Synthesis};

const USAGE: &str = "web_testing [FOLDER] [--crash STAGE | --nonsense STAGE]";

/// Who publishes what, and who hears it.
const SPEC: &str = include_str!("../pipelines/web_testing.yaml");

/// The stages that hear something, in their order.
const STAGES: [&str; 4] = ["behavior", "load", "observer", "synthesis"];

/// The file that the report is written to.
const REPORT: &str = "report.md";

/// The vector of the paper, and the composite that it prints: rounded.
const PAPER: Printed =
    Printed { vector: [870, 920, 780, 850, 950, 880], composites: &[("web-testing", Some("0.877"))] };

/// How the stages run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum How {
    /// All at once: each event is dealt with as soon as it is there.
    Streaming,
    /// One after the other: a stage begins when the one before it has ended.
    Batch,
}

impl How {
    /// The folder of its journal.
    fn name(self) -> &'static str {
        match self {
            How::Streaming => "streaming",
            How::Batch => "batch",
        }
    }
}

/// What testing the site came to.
pub(crate) struct Tested {
    pub(crate) took: Duration,
    pub(crate) report: String,
    /// Events of the pipeline.
    pub(crate) events: u64,
    /// Whether something was loaded before the crawl had ended.
    pub(crate) overlapped: bool,
    seen: Seen,
    evaluation: RunEvaluation,
}

/// What it came to both ways.
pub(crate) struct Compared {
    pub(crate) streaming: Tested,
    pub(crate) batch: Tested,
    /// The file with the report.
    written: PathBuf,
}

impl Compared {
    /// Tells what came of it, what streaming saves, and how well it was done.
    pub(crate) fn tell(&self, out: Out<'_>) -> io::Result<()> {
        let Compared { streaming, batch, written } = self;
        writeln!(out, "{}", streaming.report)?;
        writeln!(out, "report:    {}", written.display())?;
        writeln!(out, "events:    {}", streaming.events)?;
        let when = if streaming.overlapped { "before" } else { "after" };
        writeln!(out, "load:      began {when} the crawl had ended")?;
        let (took, whole) = (streaming.took.as_secs_f64(), batch.took.as_secs_f64());
        writeln!(out, "streaming: {took:.2} s\nbatch:     {whole:.2} s")?;
        let less = 100.0 * (1.0 - took / whole);
        writeln!(out, "           {less:.0} % less time when nobody waits for the stage before it to end\n")?;
        streaming.seen.tell(out)?;
        tell(&streaming.evaluation, out)?;
        compare(&PAPER, out)
    }
}

#[tokio::main]
async fn main() -> Result<(), Error> {
    let asked = Asked::of_command_line(USAGE)?;
    // Nothing here waits for an analyst any shorter than for ever, and the data are where the report is.
    if asked.data.is_some() || asked.trouble.as_ref().is_some_and(|(_, it)| *it == Trouble::Silence) {
        return Err(USAGE.into());
    }
    let folder = match &asked.subject {
        Some(folder) => folder.clone(),
        None => tempfile::Builder::new().prefix("ostler-web-testing-").tempdir()?.keep(),
    };
    let out = &mut io::stdout();
    Ok(both_ways(&asked, &folder, out).await?.tell(out)?)
}

/// Tests the site both ways, and writes the report. What is in the folder already stays as it is.
pub(crate) async fn both_ways(asked: &Asked, folder: &Path, out: Out<'_>) -> Result<Compared, Error> {
    for name in [REPORT, How::Streaming.name(), How::Batch.name()] {
        let path = folder.join(name);
        if path.symlink_metadata().is_ok() {
            let path = path.display();
            return Err(format!("{path} is there already, and stays as it is: name another folder").into());
        }
    }
    std::fs::create_dir_all(folder)?;
    let streaming = test(How::Streaming, asked, folder, out).await?;
    let batch = test(How::Batch, asked, folder, out).await?;
    let written = folder.join(REPORT);
    OpenOptions::new().write(true).create_new(true).open(&written)?.write_all(streaming.report.as_bytes())?;
    Ok(Compared { streaming, batch, written })
}

/// Serves the site and tests it, with a journal of its own in `folder`.
async fn test(how: How, asked: &Asked, folder: &Path, out: Out<'_>) -> Result<Tested, Error> {
    let data = folder.join(how.name());
    std::fs::create_dir(&data)?;
    let (site, line) = (Site::at(site::serve().await?), Line::default());
    let extraction = Troubled::at(1, asked.trouble_of("recon"), Extraction);
    let builder = Ostler::builder().data_dir(&data).without_socket().judge(Visitor(site.clone()));
    let builder = builder.program(stages::recon(&site, &line, extraction)).program(stages::report(&line));
    let os = builder.start().await?;
    let tested = work(&os, how, asked, &site, &line, out).await;
    os.shutdown().await;
    tested
}

/// A run whose first agent crawls, and whose second hands in what the pipeline made of that.
async fn work(
    os: &Ostler,
    how: How,
    asked: &Asked,
    site: &Site,
    line: &Line,
    out: Out<'_>,
) -> Result<Tested, Error> {
    let begun = Instant::now();
    let pipeline = os.create_pipeline(&spec()?).await?;
    line.is(pipeline.clone());
    let attached = Attaching::of(asked, site, &pipeline);
    if how == How::Streaming {
        STAGES.iter().try_for_each(|stage| attached.attach(stage))?;
    }
    let run = submit(os).await?;
    if how == How::Batch {
        // Whatever keeps the run from its end is told below.
        tokio::select! {
            ended = attached.one_by_one() => ended?,
            _ = run.outcome() => {}
        }
    }
    let seen = see_through(os, &run, &mut Terminal, out).await?;
    let took = begun.elapsed();
    let Report { text: report, .. } = serde_json::from_slice(&run.artifact("report").await?.content)?;
    let (events, overlapped) = (pipeline.row().head, overlapped(&pipeline)?);
    Ok(Tested { took, report, events, overlapped, seen, evaluation: run.evaluation().await? })
}

fn spec() -> Result<PipelineSpec, Error> {
    let file = PipelineFile::parse("web_testing.yaml", Format::Yaml, SPEC);
    Ok(file.validate().map_err(|findings| format!("{findings:#?}"))?.clone())
}

async fn submit(os: &Ostler) -> Result<Run, Error> {
    let tester = AgentProfile::new("web-tester").domain("web-testing");
    let tester = tester.oversight(Oversight::AutonomousEscalation).capabilities(["web-testing"]);
    let plan = serde_json::from_value(json!({
        "id": "web-testing",
        "nodes": [
            {"id": "recon", "tool": "web.recon", "timeout": "60s"},
            {"id": "report", "tool": "web.report", "timeout": "60s", "deps": ["recon"]},
        ],
    }))?;
    let tester = os.spawn(tester.output(report_schema())).await?;
    Ok(tester.submit(Submission::plan(os.plan(plan)?)).await?)
}

/// Whether something was loaded before the crawl had ended.
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

/// Gives the stages their code.
struct Attaching<'a> {
    pipeline: &'a PipelineHandle,
    site: &'a Site,
    checking: Arc<Troubled<Checking>>,
    reporting: Arc<Troubled<Reporting>>,
}

impl<'a> Attaching<'a> {
    fn of(asked: &Asked, site: &'a Site, pipeline: &'a PipelineHandle) -> Attaching<'a> {
        let checking = Arc::new(Troubled::at(1, asked.trouble_of("behavior"), Checking));
        let reporting = Arc::new(Troubled::at(0, asked.trouble_of("synthesis"), Reporting));
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

    /// Each when the one before it has ended.
    async fn one_by_one(&self) -> Result<(), PipelineError> {
        ended(self.pipeline, "recon").await;
        for stage in STAGES {
            self.attach(stage)?;
            ended(self.pipeline, stage).await;
        }
        Ok(())
    }
}

/// Waits until a stage has ended.
async fn ended(pipeline: &PipelineHandle, stage: &str) {
    let is_over = || {
        let row = pipeline.row();
        row.stages.iter().any(|row| row.stage.as_str() == stage && row.state == "ended")
    };
    while !is_over() {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}
