//! What the attempts at one piece of work noted for themselves: how far they came, and which of their steps are done. Recovery
//! applies the same records again.

use std::collections::BTreeMap;

use crate::event::{Event, Outcome, Output, StepIntent, StepKey, StepResult};
use crate::id::Digest;
use crate::json::Json;
use crate::plan::Idempotency;

/// Steps of one piece of work.
pub const STEPS_MAX: usize = 10_000;

/// Bytes of the id of a step.
pub const STEP_ID_BYTES_MAX: usize = 200;

/// Bytes of the result of a step, as canonical JSON.
pub const STEP_RESULT_BYTES_MAX: usize = 16 * 1_024 * 1_024;

/// The notes of a node's attempts, until a patch makes it other work.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct StepHistory {
    token: Option<Json>,
    steps: BTreeMap<String, StepRecord>,
    /// Steps that acted before a patch, and would do something else now: after which attempt a person was asked about that.
    otherwise: BTreeMap<String, u32>,
    children: BTreeMap<String, ChildRun>,
}

/// What is known of a step.
#[derive(Debug, Clone, PartialEq)]
struct StepRecord {
    key: StepKey,
    /// What it does to the world, if it does.
    act: Option<SideEffect>,
    state: StepState,
}

/// A step that does something to the world.
#[derive(Debug, Clone, Copy, PartialEq)]
struct SideEffect {
    idem: Idempotency,
    /// By what a receiver recognises a repetition of it.
    idempotency_key: Digest,
}

impl StepRecord {
    /// Whether doing it once more, under a key of another's making, would be one deed more.
    fn counts(&self) -> bool {
        self.act.is_some_and(|act| act.idem != Idempotency::Natural)
    }
}

#[derive(Debug, Clone, PartialEq)]
enum StepState {
    /// It is about to act, or has acted, and nobody knows what came of it. `asked`: the attempt after which a person was asked
    /// about that.
    Begun { asked: Option<u32> },
    /// Its result.
    Done(Output),
}

impl StepRecord {
    /// What this says to attempt number `attempt`, which is about to do the same.
    fn recalled(&self, attempt: u32) -> StepLookup {
        let again = || StepLookup::Call(self.act.map(|act| act.idempotency_key));
        match (&self.state, self.act.map(|act| act.idem)) {
            (StepState::Done(output), _) => StepLookup::Done(output.clone()),
            // A person was asked, and the attempt was begun anew: that is their word that it may be.
            (StepState::Begun { asked: Some(asked) }, Some(Idempotency::None)) if *asked < attempt => again(),
            (StepState::Begun { .. }, Some(Idempotency::None)) => StepLookup::InDoubt,
            (StepState::Begun { .. }, Some(Idempotency::Natural | Idempotency::Keyed) | None) => again(),
        }
    }
}

/// A run that a step opened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChildRun {
    /// Which.
    pub run: crate::id::RunId,
    /// Credits that it may cost.
    pub budget: Option<u64>,
}

/// What the notes say about a step that is about to be called.
#[derive(Debug, Clone, PartialEq)]
pub enum StepLookup {
    /// It may be called; under this key, if there was one before.
    Call(Option<Digest>),
    /// It was done, with this result.
    Done(Output),
    /// It may have been done, and may not be called twice: a person is to say.
    InDoubt,
    /// It acted before its node was patched, and would do something else now: a person is to say.
    ChangedByPatch(Box<StepMismatch>),
}

/// A step is not what was recorded under its id.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "step {step:?} was recorded with {then} and is called with {now}: a program that does something else under the same id \
     needs another id, and a changed one cannot go on with what was recorded",
    then = spelled(then, now),
    now = spelled(now, then)
)]
pub struct StepMismatch {
    /// Its id.
    pub step: String,
    /// What was recorded.
    pub then: StepKey,
    /// What it is now.
    pub now: StepKey,
}

impl StepMismatch {
    /// What it was and what it is.
    pub(crate) fn differs(&self) -> String {
        let StepMismatch { then, now, .. } = self;
        format!("then {}, now {}", spelled(then, now), spelled(now, then))
    }
}

/// What of a key differs from another.
fn spelled(one: &StepKey, other: &StepKey) -> String {
    let version = (one.version != other.version).then(|| format!("version {:?}", one.version));
    let input = (one.input != other.input).then(|| format!("input {}", one.input));
    version.into_iter().chain(input).collect::<Vec<_>>().join(" and ")
}

/// More than an attempt may note.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StepLimitError {
    /// As many steps as there may be.
    #[error("step {0:?} is one too many: an agent takes at most {STEPS_MAX} steps")]
    Steps(String),
    /// An id that is empty or too long.
    #[error("the id of a step has {0} bytes: 1 to {STEP_ID_BYTES_MAX} are right")]
    Id(usize),
}

impl StepHistory {
    /// Takes in a record about this work; others change nothing.
    pub fn apply(&mut self, event: &Event) {
        match event {
            Event::AttemptProgress(progress) => self.token = Some(progress.token.clone()),
            Event::StepIntent(intent) => {
                let StepIntent { step, key, idem, idempotency_key, .. } = &**intent;
                let act = Some(SideEffect { idem: *idem, idempotency_key: *idempotency_key });
                let noted = StepRecord { key: key.clone(), act, state: StepState::Begun { asked: None } };
                self.steps.insert(step.clone(), noted);
            }
            Event::StepResult(result) => {
                let StepResult { step, key, outcome, .. } = &**result;
                match outcome {
                    Outcome::Ok(output) => {
                        let state = StepState::Done(output.clone());
                        let act = self.steps.get(step).and_then(|noted| noted.act);
                        self.steps.insert(step.clone(), StepRecord { key: key.clone(), act, state });
                    }
                    // Nothing is remembered of it: it is called again.
                    Outcome::Failed(_) => drop(self.steps.remove(step)),
                }
            }
            Event::StepInDoubt { of, step } => match self.steps.get_mut(step) {
                Some(StepRecord { state: StepState::Begun { asked }, .. }) => *asked = Some(of.attempt),
                Some(StepRecord { state: StepState::Done(_), .. }) => {}
                None => drop(self.otherwise.insert(step.clone(), of.attempt)),
            },
            Event::ChildRun { step, run, budget, .. } => {
                self.children.insert(step.clone(), ChildRun { run: *run, budget: *budget });
            }
            _ => {}
        }
    }

    /// What was reported last.
    pub fn token(&self) -> Option<&Json> {
        self.token.as_ref()
    }

    /// The runs that steps opened, by their step.
    pub fn children(&self) -> impl Iterator<Item = (&str, &ChildRun)> {
        self.children.iter().map(|(step, child)| (step.as_str(), child))
    }

    /// The run that a step opened.
    pub fn child(&self, step: &str) -> Option<&ChildRun> {
        self.children.get(step)
    }

    /// Whether the result of a step is known.
    pub fn is_done(&self, step: &str) -> bool {
        matches!(self.steps.get(step), Some(StepRecord { state: StepState::Done(_), .. }))
    }

    /// What is known of a step that attempt number `attempt` is about to call. `earlier`: the notes of the same node before each
    /// patch, the latest first. What acted then is not done again because of a patch, unless that does no harm.
    ///
    /// # Errors
    ///
    /// Something else stands under its id.
    pub fn lookup<'a>(
        &self,
        step: &str,
        key: &StepKey,
        attempt: u32,
        earlier: impl Iterator<Item = &'a StepHistory>,
    ) -> Result<StepLookup, Box<StepMismatch>> {
        let changed = |noted: &StepRecord| {
            let (step, then, now) = (step.to_owned(), noted.key.clone(), key.clone());
            Box::new(StepMismatch { step, then, now })
        };
        if let Some(noted) = self.steps.get(step) {
            return if noted.key == *key { Ok(noted.recalled(attempt)) } else { Err(changed(noted)) };
        }
        let Some(noted) = StepHistory::acted(step, earlier) else { return Ok(StepLookup::Call(None)) };
        Ok(match self.otherwise.get(step) {
            // A person was asked, and the attempt was begun anew: that is their word that it may be done as well.
            Some(asked) if *asked < attempt => StepLookup::Call(None),
            _ if noted.key != *key => StepLookup::ChangedByPatch(changed(noted)),
            // Attempts are counted on across patches.
            _ => noted.recalled(attempt),
        })
    }

    /// The key under which a step acted, if it did: it goes on under that one.
    pub fn idempotency_key<'a>(
        &self,
        step: &str,
        earlier: impl Iterator<Item = &'a StepHistory>,
    ) -> Option<Digest> {
        let before = || StepHistory::acted(step, earlier).filter(|_| !self.otherwise.contains_key(step));
        let noted = self.steps.get(step).or_else(before)?;
        noted.act.map(|act| act.idempotency_key)
    }

    /// What is known of a step that acted before a patch, and of which a repetition would be one deed more.
    fn acted<'a>(step: &str, mut earlier: impl Iterator<Item = &'a StepHistory>) -> Option<&'a StepRecord> {
        earlier.find_map(|notes| notes.steps.get(step).filter(|noted| noted.counts()))
    }

    /// The steps of which only a person can tell because attempt number `attempt` ended without a result, and whether they were
    /// asked about each. Such an attempt cannot end as if nothing was, even if it is done anew and does not come to the step
    /// again.
    pub fn in_doubt(&self, attempt: u32) -> Vec<(&str, bool)> {
        let begun = self.steps.iter().filter_map(|(step, noted)| match (&noted.state, noted.act) {
            (StepState::Begun { asked }, Some(SideEffect { idem: Idempotency::None, .. })) => match asked {
                None => Some((step.as_str(), false)),
                Some(asked) => (*asked == attempt).then_some((step.as_str(), true)),
            },
            (StepState::Begun { .. } | StepState::Done(_), _) => None,
        });
        let otherwise = self.otherwise.iter().filter(|(_, asked)| **asked == attempt);
        begun.chain(otherwise.map(|(step, _)| (step.as_str(), true))).collect()
    }

    /// Forgets all but what counts for other work of the same node: what acted. Whether there is any.
    pub fn retain_side_effects(&mut self) -> bool {
        self.steps.retain(|_, noted| noted.counts());
        (self.token, self.children) = (None, BTreeMap::new());
        !self.steps.is_empty()
    }

    /// Whether one more step may be noted under this id.
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

    fn notes(events: &[Event]) -> StepHistory {
        let mut notes = StepHistory::default();
        events.iter().for_each(|event| notes.apply(event));
        notes
    }

    fn none() -> std::iter::Empty<&'static StepHistory> {
        std::iter::empty()
    }

    #[test]
    fn what_is_known_of_a_step_says_whether_it_is_called() {
        let check = |events: &[Event], attempt: u32, expected: StepLookup| {
            assert_eq!(notes(events).lookup("s", &key("1", 1), attempt, none()), Ok(expected), "{events:?}");
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
            assert_eq!(notes(&events).in_doubt(attempt), expected, "{attempt}: {events:?}");
        }
    }

    #[test]
    fn what_acted_before_a_patch_is_not_done_again() {
        let done = || ended(Outcome::Ok(output()));
        let again = StepLookup::Call(Some(Digest([9; 32])));
        let asked = Event::StepInDoubt { of: of(2), step: "s".into() };
        let check =
            |before: &[Event], now: &[Event], input: u8, attempt: u32, expected: Option<StepLookup>| {
                let (before, now) = (notes(before), notes(now));
                let recalled = now.lookup("s", &key("1", input), attempt, std::iter::once(&before)).unwrap();
                match expected {
                    Some(expected) => assert_eq!(recalled, expected),
                    None => assert!(matches!(recalled, StepLookup::ChangedByPatch(_)), "{recalled:?}"),
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
        let notes = notes(&[ended(Outcome::Ok(output()))]);
        let told = |now: StepKey| notes.lookup("s", &now, 1, none()).unwrap_err().to_string();
        assert!(told(key("2", 1)).contains("with version \"1\" and is called with version \"2\":"));
        let (then, now) = (Digest([1; 32]), Digest([2; 32]));
        assert!(
            told(key("1", 2)).contains(&format!("with input {then} and is called with input {now}:")),
            "{}",
            told(key("1", 2))
        );
    }

    #[test]
    fn there_is_room_up_to_the_limits_and_not_beyond() {
        let mut notes = StepHistory::default();
        for number in 0..STEPS_MAX {
            let step = number.to_string();
            assert_eq!(notes.check_room(&step), Ok(()));
            let (key, outcome) = (key("1", 1), Outcome::Ok(output()));
            notes.apply(&Event::StepResult(Box::new(StepResult { of: of(1), step, key, outcome })));
        }
        assert_eq!(notes.check_room("0"), Ok(()), "one that is there");
        assert_eq!(notes.check_room("more"), Err(StepLimitError::Steps("more".into())));
        let none = StepHistory::default();
        assert_eq!(none.check_room(&"x".repeat(STEP_ID_BYTES_MAX)), Ok(()));
        let long = "x".repeat(STEP_ID_BYTES_MAX + 1);
        assert_eq!(none.check_room(&long), Err(StepLimitError::Id(STEP_ID_BYTES_MAX + 1)));
        assert_eq!(none.check_room(""), Err(StepLimitError::Id(0)));
    }
}
