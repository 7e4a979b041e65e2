//! Security audit of a folder, the third case study of the Agent Scheduler paper (section 9.3): three independent scanners in parallel
//! and a synthesis. Only uncertain findings need approval.
//!
//! ```console
//! $ cargo run --example security_audit [FOLDER]
//! ```
//!
//! Without a folder the example creates a sample. At a terminal it asks for approvals; with `--yes`, or without a terminal, a scripted
//! reviewer answers. Kill the process and start it again: the same folder resumes, and open audits of other folders stay untouched.
//! `--crash secrets` lets a scanner crash once; the other scanners continue, and the crashed one resumes behind its last finished
//! file. `--silence NODE` and `--nonsense NODE` inject other faults.

mod agents;
#[path = "../case_studies/mod.rs"]
#[allow(dead_code, reason = "this example asks no model")]
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
use case_studies::analyst::FaultyAnalyst;
use case_studies::arguments::Arguments;
use case_studies::gates::{Reviewer, RunStats, Terminal, run_to_success};
use case_studies::scores::{Printed, compare, print};
use case_studies::{Error, Out};
use dependencies::{Dependencies, is_about_dependencies};
use finding::Report;
use people::{EvidenceJudge, ScriptedReviewer};
use scanners::{Permissions, Secrets};

const USAGE: &str =
    "security_audit [FOLDER] [--data FOLDER] [--yes] [--crash NODE | --silence NODE | --nonsense NODE]";

/// Id of the plan.
const PLAN: &str = "security-audit";

/// The paper's vector. The paper prints no composite for the domain's weights.
const PAPER: Printed = Printed {
    vector: [830, 890, 820, 790, 910, 850],
    composites: &[("default", Some("0.851")), ("security", None)],
};

/// Result of an audit.
pub(crate) struct Audited {
    pub(crate) seen: RunStats,
    pub(crate) report: String,
    evaluation: RunEvaluation,
}

impl Audited {
    /// Prints the result and its scores.
    pub(crate) fn print(&self, out: Out<'_>) -> io::Result<()> {
        let Audited { seen, report, evaluation } = self;
        seen.print(out)?;
        writeln!(out, "\n{report}")?;
        print(evaluation, out)?;
        compare(&PAPER, out)
    }
}

#[tokio::main]
async fn main() -> Result<(), Error> {
    let arguments = Arguments::from_command_line(USAGE)?;
    let own = std::env::temp_dir().join("ostler-security-audit");
    let data = arguments.data.clone().unwrap_or_else(|| own.join("data"));
    let folder = match &arguments.subject {
        Some(folder) => folder.clone(),
        None => {
            let planted = own.join("folder");
            folder::plant(&planted)?;
            planted
        }
    };
    let out = &mut io::stdout();
    Ok(audit(&arguments, &data, &folder, out).await?.print(out)?)
}

/// Audits a folder, or resumes its open audit in the data folder.
pub(crate) async fn audit(
    arguments: &Arguments,
    data: &Path,
    folder: &Path,
    out: Out<'_>,
) -> Result<Audited, Error> {
    let folder = folder.canonicalize().map_err(|error| format!("{}: {error}", folder.display()))?;
    // Other open runs in the folder concern other folders and must not resume here.
    let mut builder = Ostler::builder().data_dir(data).without_resume().judge(EvidenceJudge(folder.clone()));
    for program in programs(arguments)? {
        builder = builder.program(program);
    }
    let os = builder.start().await?;
    let audited = work(&os, arguments, folder, out).await;
    os.shutdown().await;
    audited
}

async fn work(os: &Ostler, arguments: &Arguments, folder: PathBuf, out: Out<'_>) -> Result<Audited, Error> {
    let run = match open(os, &folder).await? {
        Some(open) => {
            writeln!(out, "run   {PLAN}: goes on where it was")?;
            os.system().resume(open).await?;
            os.run(open)
        }
        None => submit(os, folder).await?,
    };
    let reviewer: &mut dyn Reviewer =
        if arguments.unattended { &mut ScriptedReviewer } else { &mut Terminal };
    let seen = run_to_success(os, &run, reviewer, out).await?;
    let synthesis = run.artifact("synthesis").await?;
    let Report { text: report, .. } = serde_json::from_slice(&synthesis.content)?;
    Ok(Audited { seen, report, evaluation: run.evaluation().await? })
}

/// The open audit of this folder, if any.
async fn open(os: &Ostler, folder: &Path) -> Result<Option<RunId>, Error> {
    for row in os.system().runs(true)?.into_iter().filter(|row| row.plan == PLAN) {
        // An unreadable run cannot be resumed.
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

/// Three independent nodes and one behind all of them. A rejected result is produced again with the reviewer's note (`patches`).
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

/// The programs of the nodes. A fault in a scanner occurs at its second file.
fn programs(arguments: &Arguments) -> Result<[Program; 4], Error> {
    let fault = |node| arguments.fault_at(node);
    let secrets = FaultyAnalyst::at(1, fault("secrets"), Secrets);
    let permissions = FaultyAnalyst::at(1, fault("permissions"), Permissions);
    let dependencies = FaultyAnalyst::at(1, fault("dependencies"), Dependencies::new()?);
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
        synthesis(FaultyAnalyst::at(0, fault("synthesis"), Synthesis)),
    ])
}
