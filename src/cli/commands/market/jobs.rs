//! The table of jobs.

use ostler_kernel::id::AgentId;
use ostler_server::wire::JobRow;

use crate::cli::output::cells::fit;
use crate::cli::output::table::{Cell, Column, Table};
use crate::cli::output::terminal::Out;
use crate::cli::output::units::score_text;

/// PRICE is hidden first, then BUDGET and SPENT; STAGE and TITLE last.
const COLUMNS: [Column; 8] = [
    Column::run("JOB"),
    Column::text("TITLE").at_most(32).narrow_rank(1, 10).hide_rank(7),
    Column::text("STAGE").at_least(13).hide_rank(6),
    Column::name("WINNER").at_most(24).narrow_rank(2, 8).hide_rank(4),
    Column::number("PRICE").at_least(8).hide_rank(1),
    Column::number("BUDGET").at_least(8).hide_rank(2),
    Column::number("SPENT").at_least(8).hide_rank(3),
    Column::text("SCORE").hide_rank(5),
];

fn row(line: &JobRow) -> [Cell; 8] {
    [
        line.job.to_string().into(),
        line.title.as_str().into(),
        line.stage.as_str().into(),
        Cell::optional(line.winner.as_ref().map(AgentId::as_str)),
        Cell::optional(line.price),
        line.budget.to_string().into(),
        line.spent.to_string().into(),
        Cell::optional(line.composite_pm.map(score_text)),
    ]
}

pub(crate) fn format_jobs(jobs: &[JobRow], columns: usize, out: &Out) -> Vec<String> {
    let rows: Vec<[Cell; 8]> = jobs.iter().map(row).collect();
    let table = Table::new(COLUMNS, &rows, columns);
    let mut lines = vec![table.head()];
    for (row, line) in rows.iter().zip(jobs) {
        lines.push(table.row(row, out));
        lines.extend(line.reason.as_ref().map(|reason| fit(&format!("  {reason}"), columns)));
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::output::table::tests::no_line_is_longer;

    fn job(title: &str, reason: Option<&str>) -> JobRow {
        let line = serde_json::json!({
            "job": "01a20110-76b1-71da-8f72-8ae5e4ba5c62", "client": "acme", "title": title, "stage": "evaluation",
            "proposals": [], "winner": "jurist-of-the-city", "price": 400, "budget": 500, "oversight": "supervised",
            "spent": 120, "composite_pm": 912, "reason": reason, "posted_ms": 0, "since_ms": 0,
        });
        serde_json::from_value(line).unwrap()
    }

    #[test]
    fn jobs_are_told_in_the_columns_that_there_are() {
        let jobs = [job("read the contract of the harbour", None)];
        for (columns, expected) in [
            (
                usize::MAX,
                [
                    "JOB                                   TITLE                             STAGE          WINNER                 PRICE    BUDGET     SPENT  SCORE",
                    "01a20110-76b1-71da-8f72-8ae5e4ba5c62  read the contract of the harbour  evaluation     jurist-of-the-city       400       500       120  0.912",
                ],
            ),
            (
                80,
                [
                    "JOB           TITLE       STAGE          WINNER          BUDGET     SPENT  SCORE",
                    "8ae5e4ba5c62  read the …  evaluation     jurist…-city       500       120  0.912",
                ],
            ),
            (
                60,
                [
                    "JOB           TITLE       STAGE          WINNER        SCORE",
                    "8ae5e4ba5c62  read the …  evaluation     jurist…-city  0.912",
                ],
            ),
            (40, ["JOB           TITLE        STAGE", "8ae5e4ba5c62  read the c…  evaluation"]),
        ] {
            assert_eq!(format_jobs(&jobs, columns, &Out::new()), expected, "{columns}");
        }
    }

    #[test]
    fn no_line_about_a_job_is_longer_than_the_terminal() {
        let jobs = [job("a", None), job(&"日本語".repeat(20), Some("no agent can do what it asks for"))];
        no_line_is_longer(|columns| format_jobs(&jobs, columns, &Out::new()));
    }
}
