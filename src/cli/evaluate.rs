//! `ostler evaluate` and `ostler agents`: how well runs were done, and how well agents do.

use std::path::Path;

use clap::Args;
use ostler_kernel::evaluation::{Dimension, score_pm};
use ostler_server::wire::{
    AgentEvaluationLine, EvaluationList, EvaluationView, ScoresView, VerdictRequest, VerdictView,
};

use super::Globals;
use super::approve::approver;
use super::cells::{fit_name, harmless_line, padded, width};
use super::client::part;
use super::exit::{Failure, code};
use super::number::run_name;
use super::ps::tagged;
use super::session::{Session, Want, is_empty};
use super::term::{Out, Paint, clock, count, say};

/// Who judges where nobody knows their name.
const SOMEBODY: &str = "operator";

/// Columns of the names of agents and clients.
const NAME_MAX: usize = 36;

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
        table(&list.agents, &mut out);
    }
    Ok(code::SUCCEEDED)
}

fn table(lines: &[AgentEvaluationLine], out: &mut Out) {
    let name = |line: &AgentEvaluationLine| line.agent.clone().unwrap_or_else(|| "(unnamed)".to_owned());
    let names = lines.iter().map(|line| width(&name(line))).max().unwrap_or(0).clamp(9, NAME_MAX);
    let clients = lines.iter().map(|line| width(&line.client)).max().unwrap_or(0).clamp(6, NAME_MAX);
    let is_near = lines.iter().any(|line| line.distance_micro.is_some());
    let distance = if is_near { "  DISTANCE" } else { "" };
    out.line(format!(
        "{}  {}  {:<12}  REPUTATION   SCORE  {:>6}  ON ITS OWN{distance}",
        padded("AGENT", names),
        padded("CLIENT", clients),
        "DOMAIN",
        "RUNS"
    ));
    for line in lines {
        let or_none = |told: Option<String>| told.unwrap_or_else(|| "-".to_owned());
        let distance = line.distance_micro.map(|micro| format!("  {:>8}", fine(micro))).unwrap_or_default();
        out.line(format!(
            "{}  {}  {:<12}  {:>10}  {:>6}  {:>6}  {:>10}{distance}",
            padded(&fit_name(&name(line), names), names),
            padded(&fit_name(&line.client, clients), clients),
            line.domain,
            or_none(line.reputation_pm.map(share)),
            or_none(line.composite_micro.map(fine)),
            line.runs,
            or_none(line.zero_intervention_pm.map(|pm| format!("{:.1}%", f64::from(pm) / 10.0))),
        ));
        if let Some(fell) = &line.degradation {
            let (from, to) = (share(fell.from_pm), share(fell.to_pm));
            let alarm = out.paint(Paint::Care, "far worse than usual");
            out.line(format!("  {alarm}: {} fell from {from} to {to}", fell.dimension));
        }
    }
}
