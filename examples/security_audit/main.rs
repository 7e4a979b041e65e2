//! Audits a folder: three scanners at once, independent of each other, and one who puts together what they found. Nobody is asked
//! but about findings that are doubtful. The third case study of the Agent Scheduler paper (section 9.3), for a folder.
//!
//! ```console
//! $ cargo run --example security_audit [FOLDER]
//! ```
//!
//! Without a folder it makes one with something to find. At a terminal it asks you; with `--yes`, or where nobody sits, it plays
//! the person itself. Kill it and start it again: it goes on where it was, if it is about the same folder; the open audit of another
//! is left alone until that is named again. `--crash secrets` lets a scanner crash once, amid
//! its work: the others do not notice, and it goes on behind the last file that it was done with. `--silence NODE` and `--nonsense
//! NODE` are other things that go wrong once.

mod agents;
#[path = "../case_studies/mod.rs"]
pub(crate) mod case_studies;
mod dependencies;
mod finding;
pub(crate) mod folder;
mod people;
mod scanners;

use std::io;
use std::path::{Path, PathBuf};

use ostler::kernel::id::RunId;
use ostler::kernel::plan::PlanDraft;
use ostler::{AgentProfile, Ostler, Oversight, Program, Run, RunEvaluation, Submission};
use serde_json::json;

use agents::{Synthesis, report_schema, scanner, synthesis};
use case_studies::analyst::Troubled;
use case_studies::asked::Asked;
use case_studies::gates::{Reviewer, Seen, Terminal, see_through};
use case_studies::scores::{Printed, compare, tell};
use case_studies::{Error, Out};
use dependencies::{Dependencies, is_about_dependencies};
use finding::Report;
use people::{Evidence, Habit};
use scanners::{Permissions, Secrets};

const USAGE: &str =
    "security_audit [FOLDER] [--data FOLDER] [--yes] [--crash NODE | --silence NODE | --nonsense NODE]";

/// The id of the plan.
const PLAN: &str = "security-audit";

/// The vector of the paper, and the composites that it prints: none under the weights of its domain.
const PAPER: Printed = Printed {
    vector: [830, 890, 820, 790, 910, 850],
    composites: &[("default", Some("0.851")), ("security", None)],
};

/// What an audit has come to.
pub(crate) struct Audited {
    pub(crate) seen: Seen,
    pub(crate) report: String,
    evaluation: RunEvaluation,
}

impl Audited {
    /// Tells what came of it, and how well it was done.
    pub(crate) fn tell(&self, out: Out<'_>) -> io::Result<()> {
        let Audited { seen, report, evaluation } = self;
        seen.tell(out)?;
        writeln!(out, "\n{report}")?;
        tell(evaluation, out)?;
        compare(&PAPER, out)
    }
}

#[tokio::main]
async fn main() -> Result<(), Error> {
    let asked = Asked::of_command_line(USAGE)?;
    let own = std::env::temp_dir().join("ostler-security-audit");
    let data = asked.data.clone().unwrap_or_else(|| own.join("data"));
    let folder = match &asked.subject {
        Some(folder) => folder.clone(),
        None => {
            let planted = own.join("folder");
            folder::plant(&planted)?;
            planted
        }
    };
    let out = &mut io::stdout();
    Ok(audit(&asked, &data, &folder, out).await?.tell(out)?)
}

/// Audits a folder, or goes on with the audit of it that stands open in the data folder.
pub(crate) async fn audit(asked: &Asked, data: &Path, folder: &Path, out: Out<'_>) -> Result<Audited, Error> {
    let folder = folder.canonicalize().map_err(|error| format!("{}: {error}", folder.display()))?;
    // What else stands open there is about something else: nobody here is to be asked about that, or to judge it.
    let mut builder = Ostler::builder().data_dir(data).without_resume().judge(Evidence(folder.clone()));
    for program in programs(asked)? {
        builder = builder.program(program);
    }
    let os = builder.start().await?;
    let audited = work(&os, asked, folder, out).await;
    os.shutdown().await;
    audited
}

async fn work(os: &Ostler, asked: &Asked, folder: PathBuf, out: Out<'_>) -> Result<Audited, Error> {
    let run = match open(os, &folder).await? {
        Some(open) => {
            writeln!(out, "run   {PLAN}: goes on where it was")?;
            os.system().resume(open).await?;
            os.run(open)
        }
        None => submit(os, folder).await?,
    };
    let reviewer: &mut dyn Reviewer = if asked.unattended { &mut Habit } else { &mut Terminal };
    let seen = see_through(os, &run, reviewer, out).await?;
    let synthesis = run.artifact("synthesis").await?;
    let Report { text: report, .. } = serde_json::from_slice(&synthesis.content)?;
    Ok(Audited { seen, report, evaluation: run.evaluation().await? })
}

/// The audit of this folder that stands open, if one does.
async fn open(os: &Ostler, folder: &Path) -> Result<Option<RunId>, Error> {
    for row in os.system().runs(true)?.into_iter().filter(|row| row.plan == PLAN) {
        // One that cannot be read is none to go on with.
        let Ok(view) = os.system().view(row.run, None).await else { continue };
        if Path::new(&view.opened.workspace) == folder {
            return Ok(Some(row.run));
        }
    }
    Ok(None)
}

async fn submit(os: &Ostler, folder: PathBuf) -> Result<Run, Error> {
    let auditor = AgentProfile::new("auditor").domain("security").oversight(Oversight::AutonomousEscalation);
    let auditor = auditor.capabilities(["security-audit"]).output(report_schema());
    let plan = os.plan(plan()?)?;
    let submission = Submission { workspace: folder, ..Submission::plan(plan) };
    Ok(os.spawn(auditor).await?.submit(submission).await?)
}

/// Three that need nothing of each other, and one that needs all of them. What a person sends back is made again with what
/// they said (`patches`).
fn plan() -> Result<PlanDraft, Error> {
    let scan = |id: &str| json!({"id": id, "tool": format!("security.{id}"), "timeout": "20s", "patches": 2});
    let found = |id: &str| json!({"from": id, "path": "findings"});
    Ok(serde_json::from_value(json!({
        "id": PLAN,
        "nodes": [
            scan("secrets"), scan("permissions"), scan("dependencies"),
            {"id": "synthesis", "tool": "security.synthesis", "timeout": "20s",
             "param_refs": {"secrets": found("secrets"), "permissions": found("permissions"),
                            "dependencies": found("dependencies")}},
        ],
    }))?)
}

/// The agents who do the steps. What goes wrong with a scanner goes wrong at its second file, once.
fn programs(asked: &Asked) -> Result<[Program; 4], Error> {
    let trouble = |node| asked.trouble_of(node);
    let secrets = Troubled::at(1, trouble("secrets"), Secrets);
    let permissions = Troubled::at(1, trouble("permissions"), Permissions);
    let dependencies = Troubled::at(1, trouble("dependencies"), Dependencies::new()?);
    let any: fn(&str) -> bool = |_| true;
    Ok([
        scanner("security.secrets", "Find secrets in this file.", any, secrets),
        scanner("security.permissions", "Say who may do too much with this file.", any, permissions),
        scanner(
            "security.dependencies",
            "Find dependencies with known holes, and those without a version.",
            is_about_dependencies,
            dependencies,
        ),
        synthesis(Troubled::at(0, trouble("synthesis"), Synthesis)),
    ])
}
