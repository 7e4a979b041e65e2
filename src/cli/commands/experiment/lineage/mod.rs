//! `ostler experiment lineage`.

mod drift;
mod memo;
mod metrics;
mod page;
mod report;
mod spots;
mod tasks;

use std::path::PathBuf;

use clap::Args;
use ostler_drivers::model::ModelConfig;

use self::memo::Memo;
use self::report::{Report, Terms};
use super::document;
use crate::cli::arguments::Globals;
use crate::cli::arguments::values::{duration, integer_in};
use crate::cli::exit::Failure;
use crate::cli::output::table::{Cell, Column, Table};
use crate::cli::output::terminal::{Out, status_line};
use crate::cli::session::settings;

#[derive(Debug, Args)]
pub(crate) struct LineageArgs {
    /// The page to write; an existing file is replaced
    #[arg(long, value_name = "FILE", default_value = "experiment-lineage.html")]
    html: PathBuf,
    /// Duration of a call of the scripted model, 1ms to 60s
    #[arg(long, value_name = "TIME", default_value = "100ms", value_parser = latency)]
    latency: i64,
    /// Repeats of each task, 1 to 20
    #[arg(long, value_name = "NUMBER", default_value = "3", value_parser = repeats)]
    repeats: usize,
    /// Edits in a row, 1 to 200
    #[arg(long, value_name = "NUMBER", default_value = "20", value_parser = edits)]
    edits: usize,
    /// Seed of the edits in a row
    #[arg(long, value_name = "NUMBER", default_value = "1")]
    seed: u64,
    /// Configured model that writes in the place of the scripts; measures the two tasks alone
    #[arg(long, value_name = "NAME")]
    model: Option<String>,
}

/// Duration of a call where only results count, in milliseconds.
const QUICK_MS: i64 = 0;

fn latency(text: &str) -> Result<i64, String> {
    let ms = duration(text).map(|duration| duration.ticks(1_000))?;
    if (1..=60_000).contains(&ms) { Ok(ms) } else { Err("give 1ms to 60s".to_owned()) }
}

fn repeats(text: &str) -> Result<usize, String> {
    integer_in(text, 1..=20).map(|number| number as usize)
}

fn edits(text: &str) -> Result<usize, String> {
    integer_in(text, 1..=200).map(|number| number as usize)
}

pub(crate) async fn lineage(globals: &Globals, args: LineageArgs) -> Result<u8, Failure> {
    let model = args.model.as_deref().map(|name| model(globals, name)).transpose()?;
    document::check_writable(&args.html)?;
    let LineageArgs { latency: latency_ms, repeats, edits, seed, .. } = args;
    let is_scripted = model.is_none();
    let memo = Memo::start(latency_ms, model).await?;
    status_line(format!("two tasks in three conditions, {repeats} times"));
    let trials = tasks::trials(&memo, repeats).await?;
    let (mut spots, mut drift) = (None, Vec::new());
    if is_scripted {
        status_line("edits at every place of the plan");
        spots = Some(spots::spots(&memo).await?);
        status_line(format!("{edits} edits in a row"));
        let quick = Memo::start(QUICK_MS, None).await?;
        drift = drift::drift(&quick, edits, seed).await?;
        quick.stop().await;
    }
    let descendants = memo.below("criteria");
    memo.stop().await;
    let terms = Terms { latency_ms, repeats, edits, seed, model: args.model };
    let report = Report::of(terms, trials, spots, drift, &descendants);
    let mut out = Out::new();
    if globals.json {
        out.json(&report);
    } else {
        print(&report, &mut out);
    }
    document::write(&args.html, &page::html(&report), &report.checks)
}

fn model(globals: &Globals, name: &str) -> Result<ModelConfig, Failure> {
    let (config, _) = settings::load_settings(globals, std::path::Path::new("."))?;
    globals.chosen_model(&config, Some(name))?;
    let found = config.models.get(name).cloned();
    found.ok_or_else(|| Failure::invalid(format!("--model {name}: not a configured model")))
}

fn print(report: &Report, out: &mut Out) {
    document::print_checks(&report.checks, out);
    out.line("");
    let rows: Vec<[Cell; 8]> = report
        .means
        .iter()
        .map(|mean| {
            [
                mean.task_name().into(),
                mean.condition.name().into(),
                report::figure(Some(mean.exact)).into(),
                report::figure(mean.churn.or(mean.upstream_churn)).into(),
                report::figure(mean.consistency).into(),
                format!("{:.0}", mean.calls).into(),
                format!("{:.0}", mean.input_tokens).into(),
                format!("{:.0} ms", mean.took_ms).into(),
            ]
        })
        .collect();
    let table = Table::new(COLUMNS, &rows, out.columns());
    out.line(table.head());
    rows.iter().for_each(|row| out.line(table.row(row, &Out::new())));
}

const COLUMNS: [Column; 8] = [
    Column::text("TASK"),
    Column::text("CONDITION"),
    Column::number("SAME MEMO"),
    Column::number("CHURN"),
    Column::number("CONSISTENT"),
    Column::number("CALLS"),
    Column::number("INPUT"),
    Column::number("TOOK"),
];
