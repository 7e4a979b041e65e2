//! The table of stages, and the problems of each.

use ostler_server::wire::{Gap, PipelineRow, StageRow};

use crate::cli::commands::pipeline::{DATA_MAX, NAME_MAX};
use crate::cli::output::cells::{fit, fit_name};
use crate::cli::output::hints;
use crate::cli::output::table::{Cell, Column, Table};
use crate::cli::output::terminal::{Out, Style};
use crate::cli::output::units::plural;

const PARKED_SHOWN_MAX: usize = 3;

/// CURSOR is hidden first, then MISSED and PARKED, which lines below the row repeat.
const COLUMNS: [Column; 6] = [
    Column::name("STAGE").at_most(NAME_MAX).narrow_rank(1, 12),
    Column::text("STATE").at_least(8).hide_rank(5),
    Column::number("CURSOR").at_least(10).hide_rank(1),
    Column::number("LAG").at_least(10).hide_rank(4),
    Column::number("MISSED").hide_rank(2),
    Column::number("PARKED").hide_rank(3),
];

fn row(stage: &StageRow) -> [Cell; 6] {
    let state = match stage.state.as_ref() {
        state @ ("stopped" | "down") => Cell::styled(Style::Error, state),
        state => state.into(),
    };
    let heard = |number: u64| Cell::optional((!stage.subscribes.is_empty()).then_some(number));
    [
        stage.stage.as_str().into(),
        state,
        heard(stage.cursor),
        heard(stage.lag),
        heard(stage.missed),
        heard(stage.parked_total),
    ]
}

/// Formats a pipeline and the table of its stages. Lines about a single stage are not cut.
pub(crate) fn format_pipeline(line: &PipelineRow, columns: usize, out: &Out) -> Vec<String> {
    let kept = if line.head == 0 { 0 } else { line.head + 1 - line.oldest };
    let rows: Vec<[Cell; 6]> = line.stages.iter().map(row).collect();
    let table = Table::new(COLUMNS, &rows, columns.saturating_sub(2));
    let events = plural(line.head as usize, "event");
    let mut lines = vec![format!("{}: {events}, {kept} kept", line.pipeline), format!("  {}", table.head())];
    for (row, stage) in rows.iter().zip(&line.stages) {
        lines.push(format!("  {}", table.row(row, out)));
        if let Some(Gap { first, last }) = stage.gap {
            lines.push(format!(
                "    events {first} to {last} are gone; the stage is told before its next event"
            ));
        }
        lines
            .extend(stage_problems(line.pipeline.as_str(), stage).iter().map(|lines| format!("    {lines}")));
    }
    lines
}

/// Formats the problems of a stage, and the commands that solve them.
pub(crate) fn stage_problems(pipeline: &str, stage: &StageRow) -> Vec<String> {
    let mut lines = Vec::new();
    let release = hints::command("pipeline release", &[pipeline, stage.stage.as_str()], "");
    let newest = stage.parked.iter().rev().take(PARKED_SHOWN_MAX);
    for parked in newest {
        let reason = fit(&parked.reason, 160);
        lines.push(match parked.seq {
            0 => format!("its end is a dead letter: {reason}"),
            seq => format!("event {seq} is a dead letter: {reason}"),
        });
        if let (Some(kind), Some(excerpt)) = (&parked.kind, &parked.excerpt) {
            lines.push(format!("  {}  {}", fit_name(kind, NAME_MAX), fit(excerpt, DATA_MAX)));
        } else if parked.gone {
            lines.push("  data removed: over the quota of the pipeline".to_owned());
        }
    }
    match stage.state.as_ref() {
        "stopped" => {
            lines.push(format!("to continue without it: {release}"));
        }
        "down" => {
            let reason = fit(stage.reason.as_deref().unwrap_or_default(), 160);
            lines.push(format!("actor is down: {reason}"));
            lines.push(release);
        }
        _ => {}
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    use crate::cli::output::cells::width;

    fn stage(name: &str, subscribes: &[&str], cursor: u64) -> serde_json::Value {
        json!({
            "stage": name, "publishes": [], "subscribes": subscribes,
            "state": if subscribes.is_empty() { "source" } else { "live" },
            "cursor": cursor, "lag": 3, "missed": 0, "parked_total": 1,
        })
    }

    #[test]
    fn stages_are_told_in_the_columns_that_there_are() {
        let line = json!({
            "pipeline": "web", "head": 15, "oldest": 1, "bytes": 0, "keep": {},
            "stages": [stage("recon-of-the-whole-site", &[], 0), stage("load", &["page"], 12)],
        });
        let line: PipelineRow = serde_json::from_value(line).unwrap();
        for (columns, expected) in [
            (
                80,
                [
                    "  STAGE                    STATE         CURSOR         LAG  MISSED  PARKED",
                    "  recon-of-the-whole-site  source             -           -       -       -",
                    "  load                     live              12           3       0       1",
                ],
            ),
            (
                60,
                [
                    "  STAGE                 STATE            LAG  MISSED  PARKED",
                    "  recon-of-t…hole-site  source             -       -       -",
                    "  load                  live               3       0       1",
                ],
            ),
            (
                40,
                [
                    "  STAGE             STATE            LAG",
                    "  recon-of…le-site  source             -",
                    "  load              live               3",
                ],
            ),
        ] {
            let lines = format_pipeline(&line, columns, &Out::new());
            assert_eq!(lines[0], "web: 15 events, 15 kept");
            assert_eq!(lines[1..], expected, "{columns}");
        }
        let one = PipelineRow { head: 1, ..line.clone() };
        assert_eq!(format_pipeline(&one, 80, &Out::new())[0], "web: 1 event, 1 kept");
        for columns in 2..100 {
            let lines = format_pipeline(&line, columns, &Out::new());
            lines[1..].iter().for_each(|lines| assert!(width(lines) <= columns, "{columns}: {lines:?}"));
        }
    }
}
