//! `ostler agents`.

use std::path::Path;

use clap::Args;
use ostler_server::wire::{AgentEvaluationLine, EvaluationList};

use crate::cli::arguments::Globals;
use crate::cli::exit::{Failure, code};
use crate::cli::output::cells::fit;
use crate::cli::output::table::{Cell, Column, Table};
use crate::cli::output::terminal::{Out, Style, status_line, tagged};
use crate::cli::output::units::{score_text, score_text_fine};
use crate::cli::session::api_client::path_segment;
use crate::cli::session::settings::has_no_data_folder;
use crate::cli::session::{AccessMode, Session};

const NAME_MAX: usize = 36;

const NAME_MIN: usize = 8;

#[derive(Debug, Args)]
pub(crate) struct AgentsArgs {
    /// List only agents with scores similar to this one, most similar first
    #[arg(long, value_name = "AGENT")]
    like: Option<String>,
}

pub(crate) async fn agents(globals: &Globals, args: AgentsArgs) -> Result<u8, Failure> {
    if args.like.is_none() && has_no_data_folder("agent", globals)? {
        return Ok(code::SUCCEEDED);
    }
    let mut session = Session::open(globals, Path::new("."), AccessMode::Read).await?;
    let like = args.like.as_deref().map(|agent| format!("?like={}", path_segment(agent))).unwrap_or_default();
    let list = session.get::<EvaluationList>(&format!("/v1/evaluations{like}")).await;
    session.stop().await;
    let list = list?;
    let mut out = Out::new();
    if globals.json {
        list.agents.iter().for_each(|line| out.json(&tagged("agent_evaluation", line)));
    } else if list.agents.is_empty() && args.like.is_some() {
        status_line("no other agent has an evaluation");
    } else if list.agents.is_empty() {
        status_line("no evaluation yet: runs are evaluated when they are closed");
    } else {
        let columns = out.columns();
        format_agents(&list.agents, columns, &out).iter().for_each(|line| out.line(line));
    }
    Ok(code::SUCCEEDED)
}

/// DOMAIN and RUNS are hidden first; CLIENT and REPUTATION last.
const COLUMNS: [Column; 8] = [
    Column::name("AGENT").at_least(9).at_most(NAME_MAX).narrow_rank(1, NAME_MIN),
    Column::name("CLIENT").at_most(NAME_MAX).narrow_rank(2, NAME_MIN).hide_rank(5),
    Column::text("DOMAIN").at_least(12).hide_rank(1),
    Column::number("REPUTATION").hide_rank(7),
    Column::number("SCORE").at_least(6).hide_rank(4),
    Column::number("RUNS").at_least(6).hide_rank(2),
    Column::number("ON ITS OWN").hide_rank(3),
    Column::number("DISTANCE").hidden_if_empty().hide_rank(6),
];

fn row(line: &AgentEvaluationLine) -> [Cell; 8] {
    [
        line.agent.as_deref().unwrap_or("(unnamed)").into(),
        line.client.as_str().into(),
        line.domain.as_str().into(),
        Cell::optional(line.reputation_pm.map(score_text)),
        Cell::optional(line.composite_micro.map(score_text_fine)),
        line.runs.to_string().into(),
        Cell::optional(line.zero_intervention_pm.map(|pm| format!("{:.1}%", f64::from(pm) / 10.0))),
        line.distance_micro.map(score_text_fine).unwrap_or_default().into(),
    ]
}

/// Label of an agent with a last run far below its average.
const ALARM: &str = "far below average";

fn format_agents(agents: &[AgentEvaluationLine], columns: usize, out: &Out) -> Vec<String> {
    let rows: Vec<[Cell; 8]> = agents.iter().map(row).collect();
    let table = Table::new(COLUMNS, &rows, columns);
    let mut lines = vec![table.head()];
    for (row, line) in rows.iter().zip(agents) {
        lines.push(table.row(row, out));
        if let Some(fell) = &line.degradation {
            let (from, to) = (score_text(fell.from_pm), score_text(fell.to_pm));
            let text = fit(&format!("  {ALARM}: {} fell from {from} to {to}", fell.dimension), columns);
            lines.push(text.replacen(ALARM, &out.styled(Style::Warning, ALARM), 1));
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::output::table::tests::no_line_is_longer;

    fn agent(name: &str, distance: Option<u32>) -> AgentEvaluationLine {
        let line = serde_json::json!({
            "client": "acme", "agent": name, "domain": "legal", "reputation_pm": 963, "evaluations": 4,
            "composite_micro": 875_000, "runs": 4, "zero_intervention_pm": 750, "distance_micro": distance,
            "degradation": {"distance_micro": 250_000, "dimension": "quality", "from_pm": 900, "to_pm": 500},
        });
        serde_json::from_value(line).unwrap()
    }

    #[test]
    fn how_well_agents_do_is_told_in_the_columns_that_there_are() {
        for (distance, columns, head, row) in [
            (
                None,
                80,
                "AGENT               CLIENT  DOMAIN        REPUTATION   SCORE    RUNS  ON ITS OWN",
                "auditor-o…the-city  acme    legal              0.963  0.8750       4       75.0%",
            ),
            (
                None,
                60,
                "AGENT         CLIENT  REPUTATION   SCORE    RUNS  ON ITS OWN",
                "audito…-city  acme         0.963  0.8750       4       75.0%",
            ),
            (
                None,
                40,
                "AGENT         CLIENT  REPUTATION   SCORE",
                "audito…-city  acme         0.963  0.8750",
            ),
            (
                Some(12_300),
                80,
                "AGENT     CLIENT  DOMAIN        REPUTATION   SCORE    RUNS  ON ITS OWN  DISTANCE",
                "audi…ity  acme    legal              0.963  0.8750       4       75.0%    0.0123",
            ),
            (
                Some(12_300),
                60,
                "AGENT       CLIENT  REPUTATION   SCORE  ON ITS OWN  DISTANCE",
                "audit…city  acme         0.963  0.8750       75.0%    0.0123",
            ),
        ] {
            let lines = format_agents(&[agent("auditor-of-the-city", distance)], columns, &Out::new());
            assert_eq!(lines[..2], [head, row], "{columns}");
        }
    }

    #[test]
    fn no_line_about_how_well_agents_do_is_longer_than_the_terminal() {
        let agents = [agent("auditor", Some(12_300)), agent(&"a-very-long-name".repeat(4), None)];
        no_line_is_longer(|columns| format_agents(&agents, columns, &Out::new()));
        let lines = format_agents(&agents, usize::MAX, &Out::new());
        assert_eq!(lines[2], "  far below average: quality fell from 0.900 to 0.500");
    }
}
