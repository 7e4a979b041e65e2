//! Contract analysis, the second case study of the Agent Scheduler paper (section 9.2). A job on the market, won by a supervised agent
//! of domain `legal`, with three steps and an approval after each.
//!
//! ```console
//! $ cargo run --example legal_analysis
//! ```
//!
//! At a terminal the example asks for approvals; with `--yes`, or without a terminal, a scripted reviewer answers and rejects the
//! scores once. Kill the process at any approval and start it again: the same contract resumes there, and open jobs for other
//! contracts stay untouched. `--crash NODE`, `--silence NODE` and `--nonsense NODE` inject a fault into an analyst to show its
//! recovery.
//!
//! `--model NAME` lets a model extract the clauses and score the risks, where plain code uses regular expressions: a model of
//! `ostler.toml`, `scripted:FILE` or `cassette:FILE`. What it quotes has to stand in the contract, or it is asked again; a model that fails
//! three times is replaced by the code.
//!
//! ```console
//! $ cargo run --example legal_analysis -- --yes --model scripted:examples/models/legal_analysis.yaml
//! ```

mod analysts;
#[path = "../case_studies/mod.rs"]
pub(crate) mod case_studies;
mod duties;
mod people;
mod questions;

use std::collections::BTreeSet;
use std::io;
use std::path::Path;

use ostler::kernel::lineage::hash;
use ostler::kernel::market::Stage;
use ostler::kernel::plan::PlanDraft;
use ostler::{AgentProfile, JobRequest, JobRow, Ostler, Oversight, Program, RunEvaluation};
use serde_json::{Value, json};

use analysts::{Extracted, Extraction, Recommended, Recommending, Scored, Scoring};
use case_studies::analyst::{FaultyAnalyst, agent};
use case_studies::arguments::Arguments;
use case_studies::gates::{Reviewer, RunStats, Terminal, run_to_success};
use case_studies::model::{self, ChosenModel};
use case_studies::scores::{Printed, compare, print};
use case_studies::{Error, Out};
use people::{MemoJudge, ScriptedReviewer};
use questions::{EXTRACT, SCORE};

const USAGE: &str = "legal_analysis [CONTRACT] [--data FOLDER] [--yes] [--model MODEL] \
     [--crash NODE | --silence NODE | --nonsense NODE]";

/// The bundled contract.
const CONTRACT: &str = include_str!("contract.txt");

/// Maximum size of a contract.
const CONTRACT_BYTES_MAX: u64 = 256 * 1_024;

/// Budget in credits, one per millisecond of work: of code, and of models.
const BUDGET: u64 = 20_000;
const MODEL_BUDGET: u64 = 1_800_000;

/// The winning agent and the client.
const JURIST: &str = "jurist";
const CLIENT: &str = "meridian";

/// The paper's vector with its printed composites.
const PAPER: Printed = Printed {
    vector: [910, 950, 650, 720, 880, 800],
    composites: &[("legal", Some("0.882")), ("default", Some("0.837"))],
};

/// Result of an analysis.
pub(crate) struct Analysed {
    pub(crate) seen: RunStats,
    pub(crate) job: JobRow,
    pub(crate) memo: String,
    evaluation: RunEvaluation,
}

impl Analysed {
    /// Prints the result and its scores.
    pub(crate) fn print(&self, out: Out<'_>) -> io::Result<()> {
        let Analysed { seen, job, memo, evaluation } = self;
        let stage = job.stage.as_str();
        writeln!(
            out,
            "job   {} has come to its {stage}: {} of {} credits",
            job.title, job.spent, job.budget
        )?;
        seen.print(out)?;
        writeln!(out, "\n{memo}")?;
        print(evaluation, out)?;
        compare(&PAPER, out)
    }
}

#[tokio::main]
async fn main() -> Result<(), Error> {
    let arguments = Arguments::from_command_line(USAGE)?;
    let own = std::env::temp_dir().join("ostler-legal-analysis");
    let data = arguments.data.clone().unwrap_or(own);
    let out = &mut io::stdout();
    Ok(analyse(&arguments, &data, out).await?.print(out)?)
}

/// Analyses the contract, or resumes its open analysis in the data folder.
pub(crate) async fn analyse(arguments: &Arguments, data: &Path, out: Out<'_>) -> Result<Analysed, Error> {
    let contract = contract(arguments)?;
    let model = arguments.model.as_deref().map(ChosenModel::of).transpose()?;
    // Other open runs in the folder concern other contracts and must not resume here.
    let mut builder = Ostler::builder().data_dir(data).without_resume().judge(MemoJudge::of(&contract));
    for program in programs(arguments, model.as_ref()) {
        builder = builder.program(program);
    }
    if let Some(model) = model {
        builder = builder.config(model.config);
    }
    let os = builder.start().await?;
    let analysed = work(&os, arguments, contract, out).await;
    os.shutdown().await;
    analysed
}

async fn work(os: &Ostler, arguments: &Arguments, contract: String, out: Out<'_>) -> Result<Analysed, Error> {
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
        None => os.post(job(contract, arguments.model.is_some())?).await?,
    };
    let row = os.system().job_at(id, Stage::Execution).await?;
    let winner = row.winner.as_ref().map(ToString::to_string).unwrap_or_default();
    writeln!(out, "job   {}: {winner} has the contract, {}", row.title, row.oversight)?;

    let run = os.run(id);
    let reviewer: &mut dyn Reviewer =
        if arguments.unattended { &mut ScriptedReviewer } else { &mut Terminal };
    let seen = run_to_success(os, &run, reviewer, out).await?;
    let job = os.job(id).await?;
    let recommended = run.artifact("recommend").await?;
    let Recommended { memo, .. } = serde_json::from_slice(&recommended.content)?;
    Ok(Analysed { seen, job, memo, evaluation: run.evaluation().await? })
}

fn contract(arguments: &Arguments) -> Result<String, Error> {
    let Some(path) = &arguments.subject else { return Ok(CONTRACT.to_owned()) };
    let bytes = std::fs::metadata(path).map_err(|error| format!("{}: {error}", path.display()))?.len();
    if bytes > CONTRACT_BYTES_MAX {
        return Err(format!("{}: {bytes} bytes, at most {CONTRACT_BYTES_MAX}", path.display()).into());
    }
    Ok(std::fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?)
}

/// The job's title, unique per contract.
fn title(contract: &str) -> String {
    let digest = hash("legal-analysis/contract/1", &[contract.as_bytes()]).to_string();
    format!("Analyse vendor contract for GDPR compliance risks (b3:{})", &digest[..16])
}

fn job(contract: String, by_model: bool) -> Result<JobRequest, Error> {
    Ok(JobRequest {
        id: None,
        client: CLIENT.into(),
        title: title(&contract),
        capabilities: BTreeSet::from(["contracts".to_owned(), "gdpr".to_owned()]),
        domain: Some("legal".to_owned()),
        budget: if by_model { MODEL_BUDGET } else { BUDGET },
        deadline: None,
        oversight: Oversight::Supervised,
        plan: plan(contract, by_model)?,
        intent: 1,
        scope: "default".to_owned(),
        workspace: ".".into(),
    })
}

/// A chain of three nodes. A rejected result is produced again with the reviewer's note (`patches`); an extraction that fails and a
/// scoring that fails or times out run again with code (`fallback`).
fn plan(contract: String, by_model: bool) -> Result<PlanDraft, Error> {
    let timeout = if by_model { "4m" } else { "2s" };
    Ok(serde_json::from_value(json!({
        "id": "gdpr-review",
        "nodes": [
            {"id": "extract", "tool": "legal.extract", "timeout": timeout, "patches": 2, "params": {"text": contract},
             "fallback": {"tool": "legal.split"}},
            {"id": "score", "tool": "legal.score", "timeout": timeout, "patches": 2,
             "param_refs": {"clauses": {"from": "extract", "path": "clauses"}},
             "fallback": {"tool": "legal.triage"}},
            {"id": "recommend", "tool": "legal.recommend", "timeout": "2s", "patches": 2,
             "param_refs": {"risks": {"from": "score", "path": "risks"}}},
        ],
    }))?)
}

/// The programs of the nodes, with the injected fault or the model.
fn programs(arguments: &Arguments, model: Option<&ChosenModel>) -> [Program; 5] {
    let fault = |node| arguments.fault_at(node);
    let extraction = FaultyAnalyst::at(0, fault("extract"), Extraction);
    let scoring = FaultyAnalyst::at(0, fault("score"), Scoring { is_quick: false });
    let recommending = FaultyAnalyst::at(0, fault("recommend"), Recommending);
    let extract = match model {
        None => agent::<Extracted>("legal.extract", EXTRACT, extraction),
        Some(model) => model::agent("legal.extract", &model.name, questions::extraction()),
    };
    let score = match model {
        None => agent::<Scored>("legal.score", SCORE, scoring),
        Some(model) => model::agent("legal.score", &model.name, questions::scoring()),
    };
    let split =
        agent::<Extracted>("legal.split", "Split this contract at its numbered headings.", Extraction);
    let quick = Scoring { is_quick: true };
    let triage = agent::<Scored>("legal.triage", "Name the high risks of these clauses.", quick);
    let recommend =
        agent::<Recommended>("legal.recommend", "Say what to do about these risks.", recommending);
    let (clauses, risks) = (list_of(clause_schema()), list_of(risk_schema()));
    [
        extract.input(takes("text", json!({"type": "string"}))).output(gives("clauses", &clauses)),
        split.input(takes("text", json!({"type": "string"}))).output(gives("clauses", &clauses)),
        score.input(takes("clauses", clauses.clone())).output(gives("risks", &risks)),
        triage.input(takes("clauses", clauses)).output(gives("risks", &risks)),
        recommend.input(takes("risks", risks)).output(memo_schema()),
    ]
}

/// One parameter, and the reviewer's note on the last result.
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
