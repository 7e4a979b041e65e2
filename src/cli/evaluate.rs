//! `ostler evaluate` and `ostler agents`: how well runs were done, and how well agents do.

use std::path::Path;

use clap::Args;
use ostler_kernel::evaluation::{Dimension, score_pm};
use ostler_server::wire::{
    AgentEvaluationLine, EvaluationList, EvaluationView, ScoresView, VerdictRequest, VerdictView,
};

use super::Globals;
use super::approve::approver;
use super::cells::{fit, fit_name, harmless_line};
use super::client::part;
use super::exit::{Failure, code};
use super::number::run_name;
use super::ps::tagged;
use super::session::{Session, Want, is_empty};
use super::table::{Cell, Column, Table};
use super::term::{Out, Paint, clock, count, say};

/// Who judges where nobody knows their name.
const SOMEBODY: &str = "operator";

/// Columns of the names of agents and clients.
const NAME_MAX: usize = 36;

/// Columns that they keep, however narrow the terminal.
const NAME_MIN: usize = 8;

#[derive(Debug, Args)]
pub(crate) struct EvaluateArgs {
    /// The run: its id, a part of it, or @last
    #[arg(value_parser = run_name)]
    run: String,
    /// How good what came of it is, 0 to 1
    #[arg(long, value_name = "SCORE", allow_negative_numbers = true, value_parser = quality)]
    quality: Option<u16>,
    /// Whether it is what was asked for, 0 to 1
    #[arg(long, value_name = "SCORE", allow_negative_numbers = true, value_parser = adherence)]
    adherence: Option<u16>,
    /// Why, in your words
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    note: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct AgentsArgs {
    /// Only those whose scores are nearest to those of this agent, the nearest first
    #[arg(long, value_name = "AGENT")]
    like: Option<String>,
}

fn quality(text: &str) -> Result<u16, String> {
    score(Dimension::Quality, text)
}

fn adherence(text: &str) -> Result<u16, String> {
    score(Dimension::Adherence, text)
}

fn score(dimension: Dimension, text: &str) -> Result<u16, String> {
    let value: f64 = text.parse().map_err(|_| "give a number from 0 to 1, such as 0.9".to_owned())?;
    score_pm(dimension, value).map_err(|error| error.to_string())
}

pub(crate) async fn evaluate(globals: &Globals, args: EvaluateArgs) -> Result<u8, Failure> {
    let EvaluateArgs { run, quality, adherence, note } = args;
    let path = format!("/v1/runs/{}/evaluation", part(&run));
    let judges = quality.is_some() || adherence.is_some();
    if note.is_some() && !judges {
        return Err(Failure::invalid("a note says why: give --quality or --adherence too".to_owned()));
    }
    let want = if judges { Want::Drive } else { Want::Look };
    let mut session = Session::open(globals, Path::new("."), want).await?;
    let answer = if judges {
        let by = approver().unwrap_or_else(|| SOMEBODY.to_owned());
        let (quality_pm, adherence_pm, note) = (quality, adherence, note.unwrap_or_default());
        let request = VerdictRequest { quality_pm, adherence_pm, by, note };
        session.post::<EvaluationView>(&path, &request).await
    } else {
        session.get::<EvaluationView>(&path).await
    };
    session.stop().await;
    let view = answer?;
    let mut out = Out::new();
    if globals.json {
        out.json(&tagged("evaluation", &view));
    } else {
        told(&view, &mut out);
    }
    Ok(code::SUCCEEDED)
}

/// A score in thousandths, from 0 to 1.
pub(crate) fn share(pm: u16) -> String {
    format!("{:.3}", f64::from(pm) / 1_000.0)
}

/// A score in millionths, from 0 to 1.
fn fine(micro: u32) -> String {
    format!("{:.4}", f64::from(micro) / 1_000_000.0)
}

fn known(scores: &ScoresView) -> [(&'static str, Option<u16>); 6] {
    let ScoresView { quality, adherence, speed, cost, errors, revisions } = *scores;
    [
        ("quality", quality),
        ("adherence", adherence),
        ("speed", Some(speed)),
        ("cost", Some(cost)),
        ("errors", Some(errors)),
        ("revisions", Some(revisions)),
    ]
}

fn told(view: &EvaluationView, out: &mut Out) {
    let EvaluationView { run, agent, outcome, domain, .. } = view;
    let Some(scores) = &view.scores else {
        let why = match outcome {
            None => "it is not over",
            Some(_) => "it did nothing, or was cancelled",
        };
        out.line(format!("{run} has no evaluation: {why}"));
        return;
    };
    let composite = view.composite_micro.map_or_else(|| "-".to_owned(), fine);
    let whose = if agent == run { String::new() } else { format!(", by {agent}") };
    out.line(format!("{} {composite}  {run}{whose}, weights of {domain}", out.paint(Paint::Bold, "score")));
    for (dimension, score) in known(scores) {
        let weight = view.weights.get(dimension).copied().unwrap_or(0);
        let score = score.map_or_else(|| "unknown".to_owned(), share);
        out.line(format!("  {dimension:<10}  {score:<7}  weight {}", share(weight)));
    }
    let target = [
        view.target_ms.map(|ms| format!("{ms} ms")),
        view.target_credits.map(|credits| count(usize::try_from(credits).unwrap_or(usize::MAX), "credit")),
    ];
    let target: Vec<String> = target.into_iter().flatten().collect();
    if !target.is_empty() {
        out.line(format!("  target      {}", target.join(", ")));
    }
    match view.acts {
        0 => out.line("  on its own  yes"),
        acts => out.line(format!("  on its own  no, {} of a person", count(acts as usize, "act"))),
    }
    if let Some(judge) = &view.judge {
        let said =
            judge.quality.map_or_else(|| "could not tell".to_owned(), |pm| format!("quality {}", share(pm)));
        let by = fit_name(&judge.by, usize::MAX);
        out.line(format!("  judge       {by}: {said}{}", noted(&judge.note)));
    }
    for VerdictView { by, at_ms, quality, adherence, note } in &view.verdicts {
        let said = [("quality", quality), ("adherence", adherence)];
        let said = said.iter().filter_map(|(what, pm)| Some(format!("{what} {}", share((**pm)?))));
        let said = said.collect::<Vec<_>>().join(", ");
        let by = fit_name(by, usize::MAX);
        out.line(format!("  verdict     {by}, {}: {said}{}", clock(*at_ms), noted(note)));
    }
}

fn noted(note: &str) -> String {
    if note.is_empty() { String::new() } else { format!(" ({})", harmless_line(note)) }
}

pub(crate) async fn agents(globals: &Globals, args: AgentsArgs) -> Result<u8, Failure> {
    if args.like.is_none() && is_empty("agent", globals)? {
        return Ok(code::SUCCEEDED);
    }
    let mut session = Session::open(globals, Path::new("."), Want::Look).await?;
    let like = args.like.as_deref().map(|agent| format!("?like={}", part(agent))).unwrap_or_default();
    let list = session.get::<EvaluationList>(&format!("/v1/evaluations{like}")).await;
    session.stop().await;
    let list = list?;
    let mut out = Out::new();
    if globals.json {
        list.agents.iter().for_each(|line| out.json(&tagged("agent_evaluation", line)));
    } else if list.agents.is_empty() && args.like.is_some() {
        say("no other agent was evaluated");
    } else if list.agents.is_empty() {
        say("nothing was evaluated yet: a run is, as it is closed");
    } else {
        let columns = out.columns();
        listed(&list.agents, columns, &out).iter().for_each(|line| out.line(line));
    }
    Ok(code::SUCCEEDED)
}

/// What is told of an agent. What its work is about and how many runs it had go first; by whose name it stands and its reputation, last.
const COLUMNS: [Column; 8] = [
    Column::name("AGENT").at_least(9).at_most(NAME_MAX).narrows(1, NAME_MIN),
    Column::name("CLIENT").at_most(NAME_MAX).narrows(2, NAME_MIN).goes(5),
    Column::text("DOMAIN").at_least(12).goes(1),
    Column::number("REPUTATION").goes(7),
    Column::number("SCORE").at_least(6).goes(4),
    Column::number("RUNS").at_least(6).goes(2),
    Column::number("ON ITS OWN").goes(3),
    Column::number("DISTANCE").may_lack().goes(6),
];

fn row(line: &AgentEvaluationLine) -> [Cell; 8] {
    [
        line.agent.as_deref().unwrap_or("(unnamed)").into(),
        line.client.as_str().into(),
        line.domain.as_str().into(),
        Cell::known(line.reputation_pm.map(share)),
        Cell::known(line.composite_micro.map(fine)),
        line.runs.to_string().into(),
        Cell::known(line.zero_intervention_pm.map(|pm| format!("{:.1}%", f64::from(pm) / 10.0))),
        line.distance_micro.map(fine).unwrap_or_default().into(),
    ]
}

/// What begins the line about an agent whose last run was far worse.
const ALARM: &str = "far worse than usual";

/// The agents as a table in so many columns.
fn listed(agents: &[AgentEvaluationLine], columns: usize, out: &Out) -> Vec<String> {
    let rows: Vec<[Cell; 8]> = agents.iter().map(row).collect();
    let table = Table::new(COLUMNS, &rows, columns);
    let mut lines = vec![table.head()];
    for (row, line) in rows.iter().zip(agents) {
        lines.push(table.row(row, out));
        if let Some(fell) = &line.degradation {
            let (from, to) = (share(fell.from_pm), share(fell.to_pm));
            let told = fit(&format!("  {ALARM}: {} fell from {from} to {to}", fell.dimension), columns);
            lines.push(told.replacen(ALARM, &out.paint(Paint::Care, ALARM), 1));
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::super::table::tests::no_line_is_longer;
    use super::*;

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
            let told = listed(&[agent("auditor-of-the-city", distance)], columns, &Out::new());
            assert_eq!(told[..2], [head, row], "{columns}");
        }
    }

    #[test]
    fn no_line_about_how_well_agents_do_is_longer_than_the_terminal() {
        let agents = [agent("auditor", Some(12_300)), agent(&"a-very-long-name".repeat(4), None)];
        no_line_is_longer(|columns| listed(&agents, columns, &Out::new()));
        let told = listed(&agents, usize::MAX, &Out::new());
        assert_eq!(told[2], "  far worse than usual: quality fell from 0.900 to 0.500");
    }
}
