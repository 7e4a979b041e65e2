//! Prints a run's scores, and compares computed composites with those in the paper.

use std::io;

use ostler::RunEvaluation;
use ostler::kernel::evaluation::{Composite, Dimension, Domains, Scores, Weights};

use super::Out;

/// A vector from section 9 of the Agent Scheduler paper with its printed composites.
pub(crate) struct Printed {
    pub(crate) vector: [u16; 6],
    /// Domain, and the composite that the paper prints for its weights, if any.
    pub(crate) composites: &'static [(&'static str, Option<&'static str>)],
}

fn fine(composite: Option<Composite>) -> String {
    composite.map_or_else(|| "unknown".to_owned(), |it| format!("{:.4}", f64::from(it.micro()) / 1_000_000.0))
}

fn share(pm: u16) -> String {
    format!("{:.3}", f64::from(pm) / 1_000.0)
}

/// Prints a recorded evaluation.
pub(crate) fn print(evaluation: &RunEvaluation, out: Out<'_>) -> io::Result<()> {
    let RunEvaluation { row, appraised, composite, .. } = evaluation;
    writeln!(out, "score {}  this run, weights of {}", fine(*composite), appraised.domain)?;
    let known = row.evaluated.map_or([None; 6], |evaluated| evaluated.scores.known());
    table(known, &appraised.weights, out)?;
    if let Some(judgement) = &appraised.judgement {
        writeln!(out, "  judge       {}: {}", judgement.by, judgement.note)?;
    }
    Ok(())
}

fn table(scores: [Option<u16>; 6], weights: &Weights, out: Out<'_>) -> io::Result<()> {
    for ((dimension, score), weight) in Dimension::ALL.into_iter().zip(scores).zip(weights.pm()) {
        let score = score.map_or_else(|| "unknown".to_owned(), share);
        writeln!(out, "  {:<10}  {score:<7}  weight {}", dimension.as_str(), share(weight))?;
    }
    Ok(())
}

/// Prints the composites of the paper's vector, computed and as printed in the paper.
pub(crate) fn compare(Printed { vector, composites }: &Printed, out: Out<'_>) -> io::Result<()> {
    let [quality, adherence, speed, cost, errors, revisions] = *vector;
    let scores =
        Scores { quality: Some(quality), adherence: Some(adherence), speed, cost, errors, revisions };
    let told: Vec<String> = vector.iter().map(|pm| format!("{:.2}", f64::from(*pm) / 1_000.0)).collect();
    writeln!(out, "the paper's vector ({})", told.join(", "))?;
    for (domain, printed) in *composites {
        let composite = fine(Domains::default().of(domain).composite(&scores));
        let beside = printed.map_or_else(String::new, |printed| format!("  (the paper prints {printed})"));
        writeln!(out, "  {composite}  weights of {domain}{beside}")?;
    }
    Ok(())
}
