//! The step history of a node's attempts: the last resume token, the result of each step, and the child runs.
//!
//! A program repeats its steps after a failure or crash. The history decides per step: reuse the recorded result, run the
//! step (again), or ask a person first. Three cases make the history more than a cache:
//!
//! * After a crash, a step with an effect may have an intent without a result. Natural and keyed steps run again under the
//!   same idempotency key; a step without idempotency is in doubt.
//! * A patch of the node makes other work, so results are not reused. But effects before the patch have happened: the same
//!   step is reused or repeated under its old key, and a changed step needs a person's decision.
//! * A person's answer "run again" starts a new attempt. So a question after an earlier attempt counts as answered: the step
//!   may run.
//!
//! The records of the journal build the history, live and in recovery.

use std::collections::BTreeMap;

use crate::event::{Event, Outcome, Output, StepIntent, StepKey, StepResult};
use crate::id::Digest;
use crate::json::Json;
use crate::plan::Idempotency;

/// Most steps of one piece of work.
pub const STEPS_MAX: usize = 10_000;

/// Longest id of a step, in bytes.
pub const STEP_ID_BYTES_MAX: usize = 200;

/// Largest result of a step, in bytes of canonical JSON.
pub const STEP_RESULT_BYTES_MAX: usize = 16 * 1_024 * 1_024;

/// The step history of a node between two patches.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct StepHistory {
    token: Option<Json>,
    steps: BTreeMap<String, StepRecord>,
    /// Changed steps with an effect before a patch: the attempt after which a person was asked.
    changed_acts: BTreeMap<String, u32>,
    children: BTreeMap<String, ChildRun>,
}

#[derive(Debug, Clone, PartialEq)]
struct StepRecord {
    key: StepKey,
    /// `None` for a step that does not act on the world.
    act: Option<SideEffect>,
    state: StepState,
}

#[derive(Debug, Clone, Copy, PartialEq)]
struct SideEffect {
    idem: Idempotency,
    idempotency_key: Digest,
}

impl StepRecord {
    /// True if another execution under a new key would be another effect.
    fn repetition_acts(&self) -> bool {
        self.act.is_some_and(|act| act.idem != Idempotency::Natural)
    }
}

#[derive(Debug, Clone, PartialEq)]
enum StepState {
    /// The step may have acted; the result is unknown. `asked`: the attempt after which a person was asked.
    Begun {
        asked: Option<u32>,
    },
    Done(Output),
}

impl StepRecord {
    /// The answer for attempt number `attempt`, which is about to call the same step.
    fn lookup_for(&self, attempt: u32) -> StepLookup {
        let again = || StepLookup::Call(self.act.map(|act| act.idempotency_key));
        match (&self.state, self.act.map(|act| act.idem)) {
            (StepState::Done(output), _) => StepLookup::Done(output.clone()),
            // A new attempt after the question means that the person decided to run the step again.
            (StepState::Begun { asked: Some(asked) }, Some(Idempotency::None)) if *asked < attempt => again(),
            (StepState::Begun { .. }, Some(Idempotency::None)) => StepLookup::InDoubt,
            (StepState::Begun { .. }, Some(Idempotency::Natural | Idempotency::Keyed) | None) => again(),
        }
    }
}

/// A child run that a step opened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChildRun {
    /// Id of the run.
    pub run: crate::id::RunId,
    /// Budget in credits; `None`: no budget of its own.
    pub budget: Option<u64>,
}

/// The history's answer for a step that is about to be called.
#[derive(Debug, Clone, PartialEq)]
pub enum StepLookup {
    /// Call the step, under this idempotency key if the step acted before.
    Call(Option<Digest>),
    /// The step is done, with this result.
    Done(Output),
    /// The step may have acted and must not run twice: a person decides.
    InDoubt,
    /// The step acted before a patch and has changed since: a person decides.
    ChangedByPatch(Box<StepMismatch>),
}

/// A step that differs from the recorded step with the same id.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "step {step:?}: recorded with {then}, called with {now}; give changed work another step id",
    then = difference(then, now),
    now = difference(now, then)
)]
pub struct StepMismatch {
    /// Id of the step.
    pub step: String,
    /// The recorded key.
    pub then: StepKey,
    /// The key of the call.
    pub now: StepKey,
}

impl StepMismatch {
    pub(crate) fn differs(&self) -> String {
        let StepMismatch { then, now, .. } = self;
        format!("then {}, now {}", difference(then, now), difference(now, then))
    }
}

/// The parts of `one` that differ from `other`.
fn difference(one: &StepKey, other: &StepKey) -> String {
    let version = (one.version != other.version).then(|| format!("version {:?}", one.version));
    let input = (one.input != other.input).then(|| format!("input {}", one.input));
    version.into_iter().chain(input).collect::<Vec<_>>().join(" and ")
}

/// A step beyond the limits of an attempt.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StepLimitError {
    /// The attempt has [`STEPS_MAX`] steps already.
    #[error("step {0:?}: an attempt has at most {STEPS_MAX} steps")]
    Steps(String),
    /// The id is empty or longer than [`STEP_ID_BYTES_MAX`].
    #[error("step id of {0} bytes: use 1 to {STEP_ID_BYTES_MAX} bytes")]
    Id(usize),
}

impl StepHistory {
    /// Applies a record of this work; other records change nothing.
    pub fn apply(&mut self, event: &Event) {
        match event {
            Event::AttemptProgress(progress) => self.token = Some(progress.token.clone()),
            Event::StepIntent(intent) => {
                let StepIntent { step, key, idem, idempotency_key, .. } = &**intent;
                let act = Some(SideEffect { idem: *idem, idempotency_key: *idempotency_key });
                let recorded = StepRecord { key: key.clone(), act, state: StepState::Begun { asked: None } };
                self.steps.insert(step.clone(), recorded);
            }
            Event::StepResult(result) => {
                let StepResult { step, key, outcome, .. } = &**result;
                match outcome {
                    Outcome::Ok(output) => {
                        let state = StepState::Done(output.clone());
                        let act = self.steps.get(step).and_then(|recorded| recorded.act);
                        self.steps.insert(step.clone(), StepRecord { key: key.clone(), act, state });
                    }
                    // A failed step leaves no trace: the next attempt calls it.
                    Outcome::Failed(_) => drop(self.steps.remove(step)),
                }
            }
            Event::StepInDoubt { of, step } => match self.steps.get_mut(step) {
                Some(StepRecord { state: StepState::Begun { asked }, .. }) => *asked = Some(of.attempt),
                Some(StepRecord { state: StepState::Done(_), .. }) => {}
                None => drop(self.changed_acts.insert(step.clone(), of.attempt)),
            },
            Event::ChildRun { step, run, budget, .. } => {
                self.children.insert(step.clone(), ChildRun { run: *run, budget: *budget });
            }
            _ => {}
        }
    }

    /// The last reported resume token.
    pub fn token(&self) -> Option<&Json> {
        self.token.as_ref()
    }

    /// The child runs, by the step that opened each.
    pub fn children(&self) -> impl Iterator<Item = (&str, &ChildRun)> {
        self.children.iter().map(|(step, child)| (step.as_str(), child))
    }

    /// The child run of a step.
    pub fn child(&self, step: &str) -> Option<&ChildRun> {
        self.children.get(step)
    }

    /// True if the step has a recorded result.
    pub fn is_done(&self, step: &str) -> bool {
        matches!(self.steps.get(step), Some(StepRecord { state: StepState::Done(_), .. }))
    }

    /// Looks up a step that attempt number `attempt` is about to call. `earlier` are the histories of the same node before
    /// each patch, the latest first.
    ///
    /// # Errors
    ///
    /// Another version or input is recorded under the id.
    pub fn lookup<'a>(
        &self,
        step: &str,
        key: &StepKey,
        attempt: u32,
        earlier: impl Iterator<Item = &'a StepHistory>,
    ) -> Result<StepLookup, Box<StepMismatch>> {
        let changed = |recorded: &StepRecord| {
            let (step, then, now) = (step.to_owned(), recorded.key.clone(), key.clone());
            Box::new(StepMismatch { step, then, now })
        };
        if let Some(recorded) = self.steps.get(step) {
            return if recorded.key == *key {
                Ok(recorded.lookup_for(attempt))
            } else {
                Err(changed(recorded))
            };
        }
        let Some(recorded) = StepHistory::acted(step, earlier) else { return Ok(StepLookup::Call(None)) };
        Ok(match self.changed_acts.get(step) {
            // A new attempt after the question means that the person allowed the changed step.
            Some(asked) if *asked < attempt => StepLookup::Call(None),
            _ if recorded.key != *key => StepLookup::ChangedByPatch(changed(recorded)),
            // Attempt numbers continue across patches, so the comparison holds.
            _ => recorded.lookup_for(attempt),
        })
    }

    /// The idempotency key under which a step acted, if any.
    pub fn idempotency_key<'a>(
        &self,
        step: &str,
        earlier: impl Iterator<Item = &'a StepHistory>,
    ) -> Option<Digest> {
        let before = || StepHistory::acted(step, earlier).filter(|_| !self.changed_acts.contains_key(step));
        let recorded = self.steps.get(step).or_else(before)?;
        recorded.act.map(|act| act.idempotency_key)
    }

    /// A step of an earlier history with an effect not to be repeated.
    fn acted<'a>(step: &str, mut earlier: impl Iterator<Item = &'a StepHistory>) -> Option<&'a StepRecord> {
        earlier.find_map(|history| history.steps.get(step).filter(|recorded| recorded.repetition_acts()))
    }

    /// The steps in doubt after attempt number `attempt`: id, and `true` if a person was asked. Such an attempt must not end
    /// as an ordinary failure, because its repetition may never reach the step.
    pub fn in_doubt(&self, attempt: u32) -> Vec<(&str, bool)> {
        let begun = self.steps.iter().filter_map(|(step, recorded)| match (&recorded.state, recorded.act) {
            (StepState::Begun { asked }, Some(SideEffect { idem: Idempotency::None, .. })) => match asked {
                None => Some((step.as_str(), false)),
                Some(asked) => (*asked == attempt).then_some((step.as_str(), true)),
            },
            (StepState::Begun { .. } | StepState::Done(_), _) => None,
        });
        let changed = self.changed_acts.iter().filter(|(_, asked)| **asked == attempt);
        begun.chain(changed.map(|(step, _)| (step.as_str(), true))).collect()
    }

    /// Removes everything except steps with side effects, which matter to later work of the same node. True if any are left.
    pub fn retain_side_effects(&mut self) -> bool {
        self.steps.retain(|_, recorded| recorded.repetition_acts());
        (self.token, self.children) = (None, BTreeMap::new());
        !self.steps.is_empty()
    }

    /// Checks that one more step with this id fits.
    ///
    /// # Errors
    ///
    /// See [`StepLimitError`].
    pub fn check_room(&self, step: &str) -> Result<(), StepLimitError> {
        if step.is_empty() || step.len() > STEP_ID_BYTES_MAX {
            return Err(StepLimitError::Id(step.len()));
        }
        if self.steps.len() >= STEPS_MAX && !self.steps.contains_key(step) {
            return Err(StepLimitError::Steps(step.to_owned()));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::{AttemptRef, Failure};
    use crate::id::Digest;
    use crate::json::canonical;
    use crate::run::FailureCategory;

    fn of(attempt: u32) -> AttemptRef {
        AttemptRef { node: "n".into(), generation: 1, patch_count: 0, attempt }
    }

    fn key(version: &str, input: u8) -> StepKey {
        StepKey { version: version.to_owned(), input: Digest([input; 32]) }
    }

    fn output() -> Output {
        let null = canonical(&serde_json::Value::Null).unwrap();
        Output { artifact: Digest([7; 32]), bytes: 4, inline: Some(null), directive: None }
    }

    fn intent(idem: Idempotency) -> Event {
        let (key, idempotency_key) = (key("1", 1), Digest([9; 32]));
        Event::StepIntent(Box::new(StepIntent { of: of(1), step: "s".into(), key, idem, idempotency_key }))
    }

    fn ended(outcome: Outcome) -> Event {
        Event::StepResult(Box::new(StepResult { of: of(1), step: "s".into(), key: key("1", 1), outcome }))
    }

    fn history(events: &[Event]) -> StepHistory {
        let mut history = StepHistory::default();
        events.iter().for_each(|event| history.apply(event));
        history
    }

    fn none() -> std::iter::Empty<&'static StepHistory> {
        std::iter::empty()
    }

    #[test]
    fn what_is_known_of_a_step_says_whether_it_is_called() {
        let check = |events: &[Event], attempt: u32, expected: StepLookup| {
            assert_eq!(
                history(events).lookup("s", &key("1", 1), attempt, none()),
                Ok(expected),
                "{events:?}"
            );
        };
        let failed =
            Outcome::Failed(Failure { category: FailureCategory::Transient, message: String::new() });
        let asked = Event::StepInDoubt { of: of(1), step: "s".into() };
        let again = || StepLookup::Call(Some(Digest([9; 32])));
        check(&[], 1, StepLookup::Call(None));
        check(&[ended(Outcome::Ok(output()))], 1, StepLookup::Done(output()));
        check(&[intent(Idempotency::Natural)], 1, again());
        check(&[intent(Idempotency::Keyed)], 2, again());
        check(&[intent(Idempotency::None)], 1, StepLookup::InDoubt);
        check(&[intent(Idempotency::None)], 2, StepLookup::InDoubt);
        check(&[intent(Idempotency::None), ended(failed)], 1, StepLookup::Call(None));
        check(&[intent(Idempotency::None), ended(Outcome::Ok(output()))], 2, StepLookup::Done(output()));
        check(&[intent(Idempotency::None), asked.clone()], 1, StepLookup::InDoubt);
        check(&[intent(Idempotency::None), asked.clone()], 2, again());
        check(&[intent(Idempotency::None), asked, intent(Idempotency::None)], 2, StepLookup::InDoubt);
    }

    #[test]
    fn an_attempt_is_in_doubt_that_leaves_a_step_without_a_result_or_because_of_which_a_person_is_asked() {
        let asked = Event::StepInDoubt { of: of(2), step: "s".into() };
        let begun = intent(Idempotency::None);
        for (events, attempt, expected) in [
            (vec![], 2, None),
            (vec![intent(Idempotency::Keyed)], 2, None),
            (vec![begun.clone()], 2, Some(false)),
            (vec![begun.clone(), asked.clone()], 2, Some(true)),
            (vec![begun.clone(), asked.clone()], 3, None),
            (vec![begun.clone(), asked.clone(), begun.clone()], 2, Some(false)),
            (vec![begun, asked.clone(), ended(Outcome::Ok(output()))], 2, None),
            (vec![asked.clone()], 2, Some(true)),
            (vec![asked], 3, None),
        ] {
            let expected: Vec<(&str, bool)> = expected.map(|asked| ("s", asked)).into_iter().collect();
            assert_eq!(history(&events).in_doubt(attempt), expected, "{attempt}: {events:?}");
        }
    }

    #[test]
    fn what_acted_before_a_patch_is_not_done_again() {
        let done = || ended(Outcome::Ok(output()));
        let again = StepLookup::Call(Some(Digest([9; 32])));
        let asked = Event::StepInDoubt { of: of(2), step: "s".into() };
        let check =
            |before: &[Event], now: &[Event], input: u8, attempt: u32, expected: Option<StepLookup>| {
                let (before, now) = (history(before), history(now));
                let found = now.lookup("s", &key("1", input), attempt, std::iter::once(&before)).unwrap();
                match expected {
                    Some(expected) => assert_eq!(found, expected),
                    None => assert!(matches!(found, StepLookup::ChangedByPatch(_)), "{found:?}"),
                }
            };
        check(&[done()], &[], 1, 2, Some(StepLookup::Call(None))); // it does not act
        check(&[intent(Idempotency::Natural), done()], &[], 1, 2, Some(StepLookup::Call(None)));
        for idem in [Idempotency::None, Idempotency::Keyed] {
            check(&[intent(idem), done()], &[], 1, 2, Some(StepLookup::Done(output())));
            check(&[intent(idem), done()], &[], 2, 2, None);
            let now = std::slice::from_ref(&asked);
            check(&[intent(idem), done()], now, 2, 2, None);
            check(&[intent(idem), done()], now, 2, 3, Some(StepLookup::Call(None)));
        }
        check(&[intent(Idempotency::Keyed)], &[], 1, 2, Some(again));
        check(&[intent(Idempotency::None)], &[], 1, 2, Some(StepLookup::InDoubt));
    }

    #[test]
    fn another_version_or_input_under_the_same_id_is_named() {
        let history = history(&[ended(Outcome::Ok(output()))]);
        let told = |now: StepKey| history.lookup("s", &now, 1, none()).unwrap_err().to_string();
        assert!(told(key("2", 1)).contains("with version \"1\", called with version \"2\";"));
        let (then, now) = (Digest([1; 32]), Digest([2; 32]));
        assert!(
            told(key("1", 2)).contains(&format!("with input {then}, called with input {now};")),
            "{}",
            told(key("1", 2))
        );
    }

    #[test]
    fn there_is_room_up_to_the_limits_and_not_beyond() {
        let mut history = StepHistory::default();
        for number in 0..STEPS_MAX {
            let step = number.to_string();
            assert_eq!(history.check_room(&step), Ok(()));
            let (key, outcome) = (key("1", 1), Outcome::Ok(output()));
            history.apply(&Event::StepResult(Box::new(StepResult { of: of(1), step, key, outcome })));
        }
        assert_eq!(history.check_room("0"), Ok(()), "one that is there");
        assert_eq!(history.check_room("more"), Err(StepLimitError::Steps("more".into())));
        let none = StepHistory::default();
        assert_eq!(none.check_room(&"x".repeat(STEP_ID_BYTES_MAX)), Ok(()));
        let long = "x".repeat(STEP_ID_BYTES_MAX + 1);
        assert_eq!(none.check_room(&long), Err(StepLimitError::Id(STEP_ID_BYTES_MAX + 1)));
        assert_eq!(none.check_room(""), Err(StepLimitError::Id(0)));
    }
}
