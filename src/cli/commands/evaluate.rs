//! `ostler evaluate`.

use std::path::Path;

use clap::Args;
use ostler_kernel::evaluation::{Dimension, score_pm};
use ostler_server::wire::{EvaluationView, ScoresView, VerdictRequest, VerdictView};

use crate::cli::arguments::Globals;
use crate::cli::arguments::values::run_name;
use crate::cli::exit::{Failure, code};
use crate::cli::output::cells::{fit_name, harmless_line};
use crate::cli::output::summary::figures::diagnosis_text;
use crate::cli::output::terminal::{Out, Style, tagged};
use crate::cli::output::units::{clock_time, plural, score_text, score_text_fine};
use crate::cli::session::api_client::path_segment;
use crate::cli::session::approval_prompt::user_name;
use crate::cli::session::{AccessMode, Session};

const UNNAMED: &str = "operator";

#[derive(Debug, Args)]
pub(crate) struct EvaluateArgs {
    /// The run: its id, a part of it, or @last
    #[arg(value_parser = run_name)]
    run: String,
    /// Quality of the result, 0 to 1
    #[arg(long, value_name = "SCORE", allow_negative_numbers = true, value_parser = quality)]
    quality: Option<u16>,
    /// Adherence of the result to the goal, 0 to 1
    #[arg(long, value_name = "SCORE", allow_negative_numbers = true, value_parser = adherence)]
    adherence: Option<u16>,
    /// Reason for the verdict
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    note: Option<String>,
}

impl EvaluateArgs {
    /// True if nothing but the output is written.
    pub(crate) fn only_reads(&self) -> bool {
        self.quality.is_none() && self.adherence.is_none()
    }
}

fn quality(text: &str) -> Result<u16, String> {
    parse_score(Dimension::Quality, text)
}

fn adherence(text: &str) -> Result<u16, String> {
    parse_score(Dimension::Adherence, text)
}

fn parse_score(dimension: Dimension, text: &str) -> Result<u16, String> {
    let value: f64 = text.parse().map_err(|_| "give a number from 0 to 1, such as 0.9".to_owned())?;
    score_pm(dimension, value).map_err(|error| error.to_string())
}

pub(crate) async fn evaluate(globals: &Globals, args: EvaluateArgs) -> Result<u8, Failure> {
    let EvaluateArgs { run, quality, adherence, note } = args;
    let path = format!("/v1/runs/{}/evaluation", path_segment(&run));
    let judges = quality.is_some() || adherence.is_some();
    if note.is_some() && !judges {
        return Err(Failure::invalid("--note: needs a score; give --quality or --adherence too".to_owned()));
    }
    let mode = if judges { AccessMode::Execute } else { AccessMode::Read };
    let mut session = Session::open(globals, Path::new("."), mode).await?;
    let answer = if judges {
        let by = user_name().unwrap_or_else(|| UNNAMED.to_owned());
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
        print_evaluation(&view, &mut out);
    }
    Ok(code::SUCCEEDED)
}

fn scores_by_name(scores: &ScoresView) -> [(&'static str, Option<u16>); 6] {
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

pub(crate) fn print_evaluation(view: &EvaluationView, out: &mut Out) {
    let EvaluationView { run, agent, outcome, domain, .. } = view;
    let Some(scores) = &view.scores else {
        let why = match outcome {
            None => "it is not closed",
            Some(_) => {
                "it was cancelled, or no node of it did work of its own (waits and reused results do none)"
            }
        };
        out.line(format!("{run} has no evaluation: {why}"));
        return;
    };
    let composite = view.composite_micro.map_or_else(|| "-".to_owned(), score_text_fine);
    let whose = if agent == run { String::new() } else { format!(", by {agent}") };
    out.line(format!("{} {composite}  {run}{whose}, weights of {domain}", out.styled(Style::Bold, "score")));
    for (dimension, score) in scores_by_name(scores) {
        let weight = view.weights.get(dimension).copied().unwrap_or(0);
        let score = score.map_or_else(|| "unknown".to_owned(), score_text);
        out.line(format!("  {dimension:<10}  {score:<7}  weight {}", score_text(weight)));
    }
    let target = [
        view.target_ms.map(|ms| format!("{ms} ms")),
        view.target_credits.map(|credits| plural(usize::try_from(credits).unwrap_or(usize::MAX), "credit")),
    ];
    let target: Vec<String> = target.into_iter().flatten().collect();
    if !target.is_empty() {
        out.line(format!("  target      {}", target.join(", ")));
    }
    match view.acts {
        0 => out.line("  on its own  yes"),
        acts => out.line(format!("  on its own  no, {} by a person", plural(acts as usize, "act"))),
    }
    for (category, came) in &view.diagnoses {
        out.line(format!("  diagnoses   {}", diagnosis_text(*category, came)));
    }
    if let Some(judge) = &view.judge {
        let said =
            judge.quality.map_or_else(|| "no rating".to_owned(), |pm| format!("quality {}", score_text(pm)));
        let by = fit_name(&judge.by, usize::MAX);
        out.line(format!("  judge       {by}: {said}{}", note_text(&judge.note)));
    }
    for VerdictView { by, at_ms, quality, adherence, note } in &view.verdicts {
        let said = [("quality", quality), ("adherence", adherence)];
        let said = said.iter().filter_map(|(what, pm)| Some(format!("{what} {}", score_text((**pm)?))));
        let said = said.collect::<Vec<_>>().join(", ");
        let by = fit_name(by, usize::MAX);
        out.line(format!("  verdict     {by}, {}: {said}{}", clock_time(*at_ms), note_text(note)));
    }
}

fn note_text(note: &str) -> String {
    if note.is_empty() { String::new() } else { format!(" ({})", harmless_line(note)) }
}
