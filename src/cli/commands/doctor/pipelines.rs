//! Checks of pipelines.

use crate::cli::commands::doctor::RESTORE;
use crate::cli::commands::doctor::report::Report;
use crate::cli::commands::pipeline;
use crate::cli::exit::Failure;
use crate::cli::output::hints;
use crate::cli::output::units::plural;
use crate::cli::session::Session;

/// Recomputes every pipeline from its records, and reports dead letters and gaps.
pub(crate) async fn check_pipelines(session: &mut Session, report: &mut Report) -> Result<(), Failure> {
    let lines = match pipeline::lines(session, None).await {
        Ok(lines) if lines.is_empty() => return Ok(()),
        Ok(lines) => lines,
        Err(failure) => {
            report.fail("pipelines", failure.what, RESTORE);
            return Ok(());
        }
    };
    let events: u64 = lines.iter().map(|line| line.head).sum();
    let events = plural(events as usize, "event");
    report.pass("pipelines", format!("{} with {events}, all consistent", lines.len()));
    for line in &lines {
        for stage in &line.stages {
            let name = format!("stage {} of pipeline {}", stage.stage, line.pipeline);
            if stage.missed > 0 {
                let missed = plural(stage.missed as usize, "event");
                let what = format!("{name} missed {missed}, removed before it processed them");
                report.warn(
                    "missed",
                    what,
                    "to keep more events, raise `keep` in the next declaration of this pipeline",
                );
            }
            if let Some(first) = pipeline::stage_problems(line.pipeline.as_str(), stage).first() {
                let what = format!("{name}: {first}; {} dead letters in all", stage.parked_total);
                let of = [line.pipeline.as_str(), stage.stage.as_str()];
                let advice = match stage.state.as_ref() {
                    "stopped" | "down" => {
                        format!("to release it: `{}`", hints::command("pipeline release", &of, ""))
                    }
                    _ => format!(
                        "after fixing the cause: `{}`",
                        hints::command("pipeline catch-up", &of, "--from SEQ")
                    ),
                };
                report.warn("parked", what, &advice);
            }
        }
    }
    Ok(())
}
