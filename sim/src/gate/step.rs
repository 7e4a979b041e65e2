//! A step of a case: a call, the answer to a held one, a replay, or the recovery of one that crashed.

use std::sync::Arc;

use ostler_kernel::gate::Seal;
use ostler_kernel::id::Ticks;

use super::case::{At, CallScript, StepScript};
use super::outcome::Outcome;
use super::passage::Passage;
use super::world::World;
use crate::graph::CaseError;

/// A step that was taken.
pub(super) struct Taken {
    pub(super) call: Arc<CallScript>,
    pub(super) outcome: Outcome,
    /// The call waits for an answer.
    pub(super) held: Option<Pending>,
    /// Number of the charge of an allowed call.
    pub(super) charge: Option<u64>,
}

/// A held call.
#[derive(Clone)]
pub(super) struct Pending {
    pub(super) seal: Seal,
    pub(super) asked_at: Ticks,
}

/// Takes the step after those of `taken`.
pub(super) fn take(world: &mut World, taken: &[Taken], step: &StepScript) -> Result<Taken, CaseError> {
    world.now = world.now.max(step.at_ms.unwrap_or(world.now));
    let number = taken.len();
    let earlier = |at: usize| {
        taken
            .get(at)
            .ok_or_else(|| CaseError::Shape(format!("step {number} names step {at}, which is later")))
    };
    let gate = |world: &mut World, call: &Arc<CallScript>, waiting: Option<Pending>| {
        Passage::new(world, Arc::clone(call), step, number as u64, waiting).run()
    };
    match (&step.call, step.resume, step.replay, step.recover) {
        (Some(call), None, None, None) => gate(world, &Arc::new(call.clone()), None),
        (None, Some(at), None, None) => {
            let before = earlier(at)?;
            let waiting = before.held.clone();
            let waiting = waiting.ok_or_else(|| CaseError::Shape(format!("step {at} was not held")))?;
            gate(world, &before.call, Some(waiting))
        }
        (None, None, Some(at), None) => {
            for event in step.events.iter().filter(|event| event.at == At::Before) {
                world.happen(&event.event)?;
            }
            let before = earlier(at)?;
            let (call, outcome) = (Arc::clone(&before.call), before.outcome.replayed());
            Ok(Taken { call, outcome, held: None, charge: None })
        }
        (None, None, None, Some(at)) => {
            let crashed = earlier(at)?;
            if let Some(charge) = crashed.charge {
                world.run(&crashed.call).spent.refund(charge, &crashed.call.tool);
            }
            world.cache.clear();
            gate(world, &crashed.call, None)
        }
        _ => Err(CaseError::Shape("a step has one of `call`, `resume`, `replay` and `recover`".to_owned())),
    }
}
