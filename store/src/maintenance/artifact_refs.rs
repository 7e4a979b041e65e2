//! Artifacts named by records.

use ostler_kernel::event::{Event, Outcome, ReuseDecision};
use ostler_kernel::id::Digest;
use ostler_kernel::policy::GoalTerms;

pub(crate) fn artifacts(events: &[Event]) -> impl Iterator<Item = Digest> {
    events.iter().filter_map(of_result).chain(events.iter().flat_map(of_goal))
}

/// Results of earlier runs that a goal may use, until its own nodes hold them.
fn of_goal(event: &Event) -> Vec<Digest> {
    let Event::GoalOpened { terms } = event else { return Vec::new() };
    // Terms that cannot be read hold the run up, and name nothing.
    let terms = serde_json::from_str::<GoalTerms>(terms.as_str()).ok();
    let results = terms.iter().flat_map(|terms| &terms.on).flat_map(|earlier| &earlier.results);
    results.map(|result| result.artifact).collect()
}

fn of_result(event: &Event) -> Option<Digest> {
    match event {
        Event::AttemptResult(result) | Event::LateResult(result) => match &result.outcome {
            Outcome::Ok(output) => Some(output.artifact),
            Outcome::Failed(_) => None,
        },
        Event::StepResult(result) => match &result.outcome {
            Outcome::Ok(output) => Some(output.artifact),
            Outcome::Failed(_) => None,
        },
        Event::ReuseDecided(decided) => match &decided.decision {
            ReuseDecision::Reused(result) => Some(result.output.artifact),
            ReuseDecision::Edited { output, .. } => Some(output.artifact),
            ReuseDecision::Kept { output, .. } => output.as_ref().map(|output| output.artifact),
            ReuseDecision::Recomputed(_) => None,
        },
        Event::ArtifactEdited(edited) => Some(edited.output.artifact),
        Event::ResultKept(kept) => kept.output.as_ref().map(|output| output.artifact),
        Event::ApprovalKept(kept) => kept.output.as_ref().map(|output| output.artifact),
        Event::CandidateKept(refused) => Some(refused.output.artifact),
        _ => None,
    }
}
