//! Artifacts named by records.

use ostler_kernel::event::{Event, Outcome};
use ostler_kernel::id::Digest;

pub(crate) fn artifacts(events: &[Event]) -> impl Iterator<Item = Digest> {
    events.iter().filter_map(|event| match event {
        Event::AttemptResult(result) | Event::LateResult(result) => match &result.outcome {
            Outcome::Ok(output) => Some(output.artifact),
            Outcome::Failed(_) => None,
        },
        Event::StepResult(result) => match &result.outcome {
            Outcome::Ok(output) => Some(output.artifact),
            Outcome::Failed(_) => None,
        },
        _ => None,
    })
}
