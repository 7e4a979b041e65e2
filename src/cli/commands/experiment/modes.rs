//! `ostler experiment modes`.

use std::path::PathBuf;

use clap::Args;
use ostler_kernel::plan::HumanDuration;
use ostler_kernel::policy::Aggregator;
use ostler_sim::modes::experiment::Costs;

use super::engine::{self, EngineTrial, Extent};
use super::report::Report;
use super::{document, page};
use crate::cli::arguments::Globals;
use crate::cli::arguments::values::duration;
use crate::cli::exit::Failure;
use crate::cli::output::table::{Cell, Column, Table};
use crate::cli::output::terminal::Out;

#[derive(Debug, Args)]
pub(crate) struct ModesArgs {
    /// The page to write; an existing file is replaced
    #[arg(long, value_name = "FILE", default_value = "experiment-modes.html")]
    html: PathBuf,
    /// Run more goals in the engine, three times each: two to three minutes
    #[arg(long)]
    real: bool,
    /// Duration of a call of a model, 1ms to 60s
    #[arg(long, value_name = "TIME", default_value = "500ms", value_parser = latency)]
    latency: i64,
    /// Duration of a call of a tool, 1ms to 60s
    #[arg(long, value_name = "TIME", default_value = "100ms", value_parser = latency)]
    tool_latency: i64,
}

/// Longest duration of a call.
const LATENCY_MS_MAX: i64 = 60_000;

fn latency(text: &str) -> Result<i64, String> {
    let ms = duration(text).map(milliseconds)?;
    match (1..=LATENCY_MS_MAX).contains(&ms) {
        true => Ok(ms),
        false => Err("give 1ms to 60s".to_owned()),
    }
}

fn milliseconds(duration: HumanDuration) -> i64 {
    duration.ticks(1_000)
}

pub(crate) async fn modes(globals: &Globals, args: ModesArgs) -> Result<u8, Failure> {
    if args.latency == args.tool_latency {
        let what = "--latency and --tool-latency: equal, so that which call ends first is left to chance; give different ones";
        return Err(Failure::invalid(what));
    }
    document::check_writable(&args.html)?;
    let costs = Costs { model_ms: args.latency, tool_ms: args.tool_latency, ..Costs::default() };
    let extent = if args.real { Extent::Full } else { Extent::Short };
    let engine = engine::trials(extent, &costs).await?;
    let report = Report::of(costs, engine).map_err(|error| Failure::internal(error.to_string()))?;
    let mut out = Out::new();
    if globals.json {
        out.json(&report);
    } else {
        print(&report, &mut out);
    }
    document::write(&args.html, &page::html(&report), &report.checks)
}

fn print(report: &Report, out: &mut Out) {
    document::print_checks(&report.checks, out);
    out.line("");
    out.line("Tools from which on a mode takes less than react, one call a turn; a model writes the answer:");
    let answered = report.crossovers.iter().filter(|row| row.aggregator == Aggregator::Executor);
    let rows: Vec<[Cell; 4]> = answered
        .map(|row| {
            [
                row.family.to_string().into(),
                row.strategy.to_string().into(),
                Cell::optional(row.tokens_from),
                Cell::optional(row.time_from),
            ]
        })
        .collect();
    table(CROSSOVER_COLUMNS, &rows, out);
    out.line("");
    out.line("In the engine, with a scripted model:");
    let rows: Vec<[Cell; 7]> = report.engine.iter().map(engine_row).collect();
    table(ENGINE_COLUMNS, &rows, out);
}

fn table<const N: usize>(columns: [Column; N], rows: &[[Cell; N]], out: &mut Out) {
    let table = Table::new(columns, rows, out.columns());
    out.line(table.head());
    rows.iter().for_each(|row| out.line(table.row(row, &Out::new())));
}

fn engine_row(trial: &EngineTrial) -> [Cell; 7] {
    [
        trial.strategy.to_string().into(),
        format!("{} in {}", trial.goal.tools, trial.goal.levels).into(),
        page::answerer(trial.aggregator).into(),
        trial.calls.to_string().into(),
        trial.input_tokens.to_string().into(),
        format!("{:.0} ms", trial.took_ms).into(),
        format!("{:+.2} %", trial.overhead * 100.0).into(),
    ]
}

const CROSSOVER_COLUMNS: [Column; 4] =
    [Column::text("GOALS"), Column::text("MODE"), Column::number("TOKENS"), Column::number("TIME")];

const ENGINE_COLUMNS: [Column; 7] = [
    Column::text("MODE"),
    Column::text("TOOLS"),
    Column::text("ANSWER"),
    Column::number("CALLS"),
    Column::number("TOKENS"),
    Column::number("TOOK"),
    Column::number("OVERHEAD"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_latency_is_a_duration_within_its_bounds() {
        assert_eq!(latency("1ms"), Ok(1));
        assert_eq!(latency("60s"), Ok(60_000));
        for wrong in ["0ms", "61s", "5", "fast"] {
            assert!(latency(wrong).is_err(), "{wrong}");
        }
    }
}
