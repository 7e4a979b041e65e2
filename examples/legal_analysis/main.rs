//! Analyses a contract: a job of the market that a supervised agent of the domain `legal` wins, in three steps, each of which a
//! person looks at before the next one begins. The second case study of the Agent Scheduler paper (section 9.2).
//!
//! ```console
//! $ cargo run --example legal_analysis
//! ```
//!
//! At a terminal it asks you; with `--yes`, or where nobody sits, it plays the reviewer itself, who sends the scores back
//! once. Kill it at any gate and start it again: it goes on there, if it is about the same contract; the open job of another is left
//! alone until that is named again. `--crash NODE`, `--silence NODE` and `--nonsense NODE` let an
//! analyst fail once, to show what is done about it where the work is legal.

#[path = "../case_studies/mod.rs"]
pub(crate) mod case_studies;
mod duties;
mod jurists;
mod people;

use std::collections::BTreeSet;
use std::io;
use std::path::Path;

use ostler::kernel::lineage::hash;
use ostler::kernel::market::Stage;
use ostler::kernel::plan::PlanDraft;
use ostler::{AgentProfile, JobRequest, JobRow, Ostler, Oversight, Program, RunEvaluation};
use serde_json::{Value, json};

use case_studies::analyst::{Troubled, agent};
use case_studies::asked::Asked;
use case_studies::gates::{Reviewer, Seen, Terminal, see_through};
use case_studies::scores::{Printed, compare, tell};
use case_studies::{Error, Out};
use jurists::{Extracted, Extraction, Recommended, Recommending, Scored, Scoring};
use people::{Habit, Partner};

const USAGE: &str =
    "legal_analysis [CONTRACT] [--data FOLDER] [--yes] [--crash NODE | --silence NODE | --nonsense NODE]";

/// The contract that ships with the example.
const CONTRACT: &str = include_str!("contract.txt");

/// Bytes of a contract.
const CONTRACT_BYTES_MAX: u64 = 256 * 1_024;

/// Credits that the job may cost: a millisecond of work each.
const BUDGET: u64 = 20_000;

/// The agent who takes such jobs, and the client who has them.
const JURIST: &str = "jurist";
const CLIENT: &str = "meridian";

/// The vector of the paper, and the composites that it prints.
const PAPER: Printed = Printed {
    vector: [910, 950, 650, 720, 880, 800],
    composites: &[("legal", Some("0.882")), ("default", Some("0.837"))],
};

/// What an analysis has come to.
pub(crate) struct Analysed {
    pub(crate) seen: Seen,
    pub(crate) job: JobRow,
    pub(crate) memo: String,
    evaluation: RunEvaluation,
}

impl Analysed {
    /// Tells what came of it, and how well it was done.
    pub(crate) fn tell(&self, out: Out<'_>) -> io::Result<()> {
        let Analysed { seen, job, memo, evaluation } = self;
        let stage = job.stage.as_str();
        writeln!(
            out,
            "job   {} has come to its {stage}: {} of {} credits",
            job.title, job.spent, job.budget
        )?;
        seen.tell(out)?;
        writeln!(out, "\n{memo}")?;
        tell(evaluation, out)?;
        compare(&PAPER, out)
    }
}

#[tokio::main]
async fn main() -> Result<(), Error> {
    let asked = Asked::of_command_line(USAGE)?;
    let own = std::env::temp_dir().join("ostler-legal-analysis");
    let data = asked.data.clone().unwrap_or(own);
    let out = &mut io::stdout();
    Ok(analyse(&asked, &data, out).await?.tell(out)?)
}

/// Analyses the contract, or goes on with the analysis of it that stands open in the data folder.
pub(crate) async fn analyse(asked: &Asked, data: &Path, out: Out<'_>) -> Result<Analysed, Error> {
    let contract = contract(asked)?;
    // What else stands open there is about something else: nobody here is to be asked about that, or to judge it.
    let mut builder = Ostler::builder().data_dir(data).without_resume().judge(Partner::of(&contract));
    for program in programs(asked) {
        builder = builder.program(program);
    }
    let os = builder.start().await?;
    let analysed = work(&os, asked, contract, out).await;
    os.shutdown().await;
    analysed
}

async fn work(os: &Ostler, asked: &Asked, contract: String, out: Out<'_>) -> Result<Analysed, Error> {
    let jurist = AgentProfile::new(JURIST).client(CLIENT).domain("legal").oversight(Oversight::Supervised);
    let jurist = jurist.capabilities(["contracts", "gdpr"]).output(memo_schema());
    os.spawn(jurist).await?;
    let title = title(&contract);
    let id = match os.jobs()?.into_iter().find(|job| job.title == title && !job.stage.is_over()) {
        Some(open) => {
            writeln!(out, "job   {title}: goes on where it was")?;
            os.system().resume_job(open.job).await?;
            os.system().has_opened(open.job).await?;
            open.job
        }
        None => os.post(job(contract)?).await?,
    };
    let row = os.system().job_at(id, Stage::Execution).await?;
    let winner = row.winner.as_ref().map(ToString::to_string).unwrap_or_default();
    writeln!(out, "job   {}: {winner} has the contract, {}", row.title, row.oversight)?;

    let run = os.run(id);
    let reviewer: &mut dyn Reviewer = if asked.unattended { &mut Habit } else { &mut Terminal };
    let seen = see_through(os, &run, reviewer, out).await?;
    let job = os.job(id).await?;
    let recommended = run.artifact("recommend").await?;
    let Recommended { memo, .. } = serde_json::from_slice(&recommended.content)?;
    Ok(Analysed { seen, job, memo, evaluation: run.evaluation().await? })
}

fn contract(asked: &Asked) -> Result<String, Error> {
    let Some(path) = &asked.subject else { return Ok(CONTRACT.to_owned()) };
    let bytes = std::fs::metadata(path).map_err(|error| format!("{}: {error}", path.display()))?.len();
    if bytes > CONTRACT_BYTES_MAX {
        return Err(format!("{}: {bytes} bytes, at most {CONTRACT_BYTES_MAX}", path.display()).into());
    }
    Ok(std::fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?)
}

/// What the job is called: that of another contract has another name.
fn title(contract: &str) -> String {
    let digest = hash("legal-analysis/contract/1", &[contract.as_bytes()]).to_string();
    format!("Analyse vendor contract for GDPR compliance risks (b3:{})", &digest[..16])
}

fn job(contract: String) -> Result<JobRequest, Error> {
    Ok(JobRequest {
        id: None,
        client: CLIENT.into(),
        title: title(&contract),
        capabilities: BTreeSet::from(["contracts".to_owned(), "gdpr".to_owned()]),
        domain: Some("legal".to_owned()),
        budget: BUDGET,
        deadline: None,
        oversight: Oversight::Supervised,
        plan: plan(contract)?,
        intent: 1,
        scope: "default".to_owned(),
        workspace: ".".into(),
    })
}

/// A linear chain. A result that a person sends back is made again, with what they said (`patches`); a jurist who does not
/// answer in time is stood in for by a quicker one (`fallback`).
fn plan(contract: String) -> Result<PlanDraft, Error> {
    Ok(serde_json::from_value(json!({
        "id": "gdpr-review",
        "nodes": [
            {"id": "extract", "tool": "legal.extract", "timeout": "2s", "patches": 2, "params": {"text": contract}},
            {"id": "score", "tool": "legal.score", "timeout": "2s", "patches": 2,
             "param_refs": {"clauses": {"from": "extract", "path": "clauses"}},
             "fallback": {"tool": "legal.triage"}},
            {"id": "recommend", "tool": "legal.recommend", "timeout": "2s", "patches": 2,
             "param_refs": {"risks": {"from": "score", "path": "risks"}}},
        ],
    }))?)
}

/// The agents who do the steps; what goes wrong with one goes wrong once.
fn programs(asked: &Asked) -> [Program; 4] {
    let trouble = |node| asked.trouble_of(node);
    let extraction = Troubled::at(0, trouble("extract"), Extraction);
    let scoring = Troubled::at(0, trouble("score"), Scoring { is_quick: false });
    let recommending = Troubled::at(0, trouble("recommend"), Recommending);
    let extract = agent::<Extracted>("legal.extract", "Extract the clauses of this contract.", extraction);
    let score = agent::<Scored>("legal.score", "Score the risks of these clauses under the GDPR.", scoring);
    let quick = Scoring { is_quick: true };
    let triage = agent::<Scored>("legal.triage", "Name the high risks of these clauses.", quick);
    let recommend =
        agent::<Recommended>("legal.recommend", "Say what to do about these risks.", recommending);
    let (clauses, risks) = (list_of(clause_schema()), list_of(risk_schema()));
    [
        extract.input(takes("text", json!({"type": "string"}))).output(gives("clauses", &clauses)),
        score.input(takes("clauses", clauses.clone())).output(gives("risks", &risks)),
        triage.input(takes("clauses", clauses)).output(gives("risks", &risks)),
        recommend.input(takes("risks", risks)).output(memo_schema()),
    ]
}

/// One parameter, and what a person said of the last result.
fn takes(name: &str, schema: Value) -> Value {
    json!({"type": "object", "properties": {name: schema, "feedback": {"type": "string"}},
           "required": [name], "additionalProperties": false})
}

fn gives(name: &str, schema: &Value) -> Value {
    json!({"type": "object", "properties": {name: schema}, "required": [name]})
}

fn list_of(items: Value) -> Value {
    json!({"type": "array", "items": items})
}

fn clause_schema() -> Value {
    json!({"type": "object", "required": ["number", "heading", "text"], "additionalProperties": false,
           "properties": {"number": {"type": "integer"}, "heading": {"type": "string"}, "text": {"type": "string"}}})
}

fn risk_schema() -> Value {
    let text = json!({"type": "string"});
    json!({"type": "object", "required": ["clause", "topic", "article", "level", "why", "quote"],
           "additionalProperties": false,
           "properties": {"clause": {"type": ["integer", "null"]}, "topic": text, "article": text,
                          "level": {"enum": ["low", "medium", "high"]}, "why": text, "quote": text}})
}

fn memo_schema() -> Value {
    json!({"type": "object", "required": ["risks", "memo"],
           "properties": {"risks": list_of(risk_schema()), "memo": {"type": "string", "minLength": 1}}})
}
