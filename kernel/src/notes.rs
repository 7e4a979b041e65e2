//! What the attempts at one piece of work noted for themselves: how far they came, and which of their steps are done. Recovery
//! applies the same records again.

use std::collections::BTreeMap;

use crate::event::{Event, Outcome, Output, StepIntent, StepKey, StepResult};
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
pub struct Notes {
    token: Option<Json>,
    steps: BTreeMap<String, Noted>,
    children: BTreeMap<String, Spawned>,
}

/// What is known of a step.
#[derive(Debug, Clone, PartialEq)]
struct Noted {
    key: StepKey,
    state: State,
}

#[derive(Debug, Clone, PartialEq)]
enum State {
    /// It is about to act, or has acted, and nobody knows what came of it. `asked`: the attempt after which a person was asked
    /// about that.
    Begun { idem: Idempotency, asked: Option<u32> },
    /// Its result.
    Done(Output),
}

/// A run that a step opened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Spawned {
    /// Which.
    pub run: crate::id::RunId,
    /// Credits that it may cost.
    pub budget: Option<u64>,
}

/// What the notes say about a step that is about to be called.
#[derive(Debug, Clone, PartialEq)]
pub enum Recalled {
    /// It may be called.
    Call,
    /// It was done, with this result.
    Done(Output),
    /// It may have been done, and may not be called twice: a person is to say.
    InDoubt,
}

/// A step is not what was recorded under its id.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "step {step:?} was recorded with {then} and is called with {now}: a program that does something else under the same id \
     needs another id, and a changed one cannot go on with what was recorded",
    then = spelled(then, now),
    now = spelled(now, then)
)]
pub struct Changed {
    /// Its id.
    pub step: String,
    /// What was recorded.
    pub then: StepKey,
    /// What it is now.
    pub now: StepKey,
}

/// What of a key differs from another.
fn spelled(one: &StepKey, other: &StepKey) -> String {
    let version = (one.version != other.version).then(|| format!("version {:?}", one.version));
    let input = (one.input != other.input).then(|| format!("input {}", one.input));
    version.into_iter().chain(input).collect::<Vec<_>>().join(" and ")
}

/// More than an attempt may note.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TooMuch {
    /// As many steps as there may be.
    #[error("step {0:?} is one too many: an agent takes at most {STEPS_MAX} steps")]
    Steps(String),
    /// An id that is empty or too long.
    #[error("the id of a step has {0} bytes: 1 to {STEP_ID_BYTES_MAX} are right")]
    Id(usize),
}

impl Notes {
    /// Takes in a record about this work; others change nothing.
    pub fn apply(&mut self, event: &Event) {
        match event {
            Event::AttemptProgress(progress) => self.token = Some(progress.token.clone()),
            Event::StepIntent(intent) => {
                let StepIntent { step, key, idem, .. } = &**intent;
                let state = State::Begun { idem: *idem, asked: None };
                self.steps.insert(step.clone(), Noted { key: key.clone(), state });
            }
            Event::StepResult(result) => {
                let StepResult { step, key, outcome, .. } = &**result;
                match outcome {
                    Outcome::Ok(output) => {
                        let state = State::Done(output.clone());
                        self.steps.insert(step.clone(), Noted { key: key.clone(), state });
                    }
                    // Nothing is remembered of it: it is called again.
                    Outcome::Failed(_) => drop(self.steps.remove(step)),
                }
            }
            Event::StepInDoubt { of, step } => {
                if let Some(Noted { state: State::Begun { asked, .. }, .. }) = self.steps.get_mut(step) {
                    *asked = Some(of.attempt);
                }
            }
            Event::ChildRun { step, run, budget, .. } => {
                self.children.insert(step.clone(), Spawned { run: *run, budget: *budget });
            }
            _ => {}
        }
    }

    /// What was reported last.
    pub fn token(&self) -> Option<&Json> {
        self.token.as_ref()
    }

    /// The runs that steps opened, by their step.
    pub fn children(&self) -> impl Iterator<Item = (&str, &Spawned)> {
        self.children.iter().map(|(step, child)| (step.as_str(), child))
    }

    /// The run that a step opened.
    pub fn child(&self, step: &str) -> Option<&Spawned> {
        self.children.get(step)
    }

    /// Whether the result of a step is known.
    pub fn is_done(&self, step: &str) -> bool {
        matches!(self.steps.get(step), Some(Noted { state: State::Done(_), .. }))
    }

    /// What is known of a step that attempt number `attempt` is about to call.
    ///
    /// # Errors
    ///
    /// Something else stands under its id.
    pub fn recall(&self, step: &str, key: &StepKey, attempt: u32) -> Result<Recalled, Box<Changed>> {
        let Some(noted) = self.steps.get(step) else { return Ok(Recalled::Call) };
        if noted.key != *key {
            let (step, then, now) = (step.to_owned(), noted.key.clone(), key.clone());
            return Err(Box::new(Changed { step, then, now }));
        }
        Ok(match &noted.state {
            State::Done(output) => Recalled::Done(output.clone()),
            State::Begun { idem: Idempotency::Natural | Idempotency::Keyed, .. } => Recalled::Call,
            // A person was asked, and the attempt was begun anew: that is their word that it may be.
            State::Begun { idem: Idempotency::None, asked: Some(asked) } if *asked < attempt => {
                Recalled::Call
            }
            State::Begun { idem: Idempotency::None, .. } => Recalled::InDoubt,
        })
    }

    /// Whether a person is asked about a step because of attempt number `attempt`: that one cannot end as if nothing was, even if it
    /// is done anew and does not come to the step again.
    pub fn is_in_doubt(&self, attempt: u32) -> bool {
        let asked = |noted: &Noted| match &noted.state {
            State::Begun { idem: Idempotency::None, asked } => *asked == Some(attempt),
            _ => false,
        };
        self.steps.values().any(asked)
    }

    /// Whether one more step may be noted under this id.
    ///
    /// # Errors
    ///
    /// See [`TooMuch`].
    pub fn has_room(&self, step: &str) -> Result<(), TooMuch> {
        if step.is_empty() || step.len() > STEP_ID_BYTES_MAX {
            return Err(TooMuch::Id(step.len()));
        }
        if self.steps.len() >= STEPS_MAX && !self.steps.contains_key(step) {
            return Err(TooMuch::Steps(step.to_owned()));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::{AttemptOf, Failure};
    use crate::id::Digest;
    use crate::json::canonical;
    use crate::run::Category;

    fn of(attempt: u32) -> AttemptOf {
        AttemptOf { node: "n".into(), generation: 1, phase: 0, attempt }
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

    fn notes(events: &[Event]) -> Notes {
        let mut notes = Notes::default();
        events.iter().for_each(|event| notes.apply(event));
        notes
    }

    #[test]
    fn what_is_known_of_a_step_says_whether_it_is_called() {
        let check = |events: &[Event], attempt: u32, expected: Recalled| {
            assert_eq!(notes(events).recall("s", &key("1", 1), attempt), Ok(expected), "{events:?}");
        };
        let failed = Outcome::Failed(Failure { category: Category::Transient, message: String::new() });
        let asked = Event::StepInDoubt { of: of(1), step: "s".into() };
        check(&[], 1, Recalled::Call);
        check(&[ended(Outcome::Ok(output()))], 1, Recalled::Done(output()));
        check(&[intent(Idempotency::Natural)], 1, Recalled::Call);
        check(&[intent(Idempotency::Keyed)], 2, Recalled::Call);
        check(&[intent(Idempotency::None)], 1, Recalled::InDoubt);
        check(&[intent(Idempotency::None)], 2, Recalled::InDoubt);
        check(&[intent(Idempotency::None), ended(failed)], 1, Recalled::Call);
        check(&[intent(Idempotency::None), ended(Outcome::Ok(output()))], 2, Recalled::Done(output()));
        check(&[intent(Idempotency::None), asked.clone()], 1, Recalled::InDoubt);
        check(&[intent(Idempotency::None), asked.clone()], 2, Recalled::Call);
        check(&[intent(Idempotency::None), asked, intent(Idempotency::None)], 2, Recalled::InDoubt);
    }

    #[test]
    fn an_attempt_is_in_doubt_because_of_which_a_person_is_asked() {
        let asked = Event::StepInDoubt { of: of(2), step: "s".into() };
        let begun = intent(Idempotency::None);
        for (events, attempt, expected) in [
            (vec![], 2, false),
            (vec![begun.clone()], 2, false),
            (vec![begun.clone(), asked.clone()], 2, true),
            (vec![begun.clone(), asked.clone()], 3, false),
            (vec![begun.clone(), asked.clone(), begun.clone()], 2, false),
            (vec![begun, asked, ended(Outcome::Ok(output()))], 2, false),
        ] {
            assert_eq!(notes(&events).is_in_doubt(attempt), expected, "{attempt}: {events:?}");
        }
    }

    #[test]
    fn another_version_or_input_under_the_same_id_is_named() {
        let notes = notes(&[ended(Outcome::Ok(output()))]);
        let told = |now: StepKey| notes.recall("s", &now, 1).unwrap_err().to_string();
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
        let mut notes = Notes::default();
        for number in 0..STEPS_MAX {
            let step = number.to_string();
            assert_eq!(notes.has_room(&step), Ok(()));
            let (key, outcome) = (key("1", 1), Outcome::Ok(output()));
            notes.apply(&Event::StepResult(Box::new(StepResult { of: of(1), step, key, outcome })));
        }
        assert_eq!(notes.has_room("0"), Ok(()), "one that is there");
        assert_eq!(notes.has_room("more"), Err(TooMuch::Steps("more".into())));
        let none = Notes::default();
        assert_eq!(none.has_room(&"x".repeat(STEP_ID_BYTES_MAX)), Ok(()));
        let long = "x".repeat(STEP_ID_BYTES_MAX + 1);
        assert_eq!(none.has_room(&long), Err(TooMuch::Id(STEP_ID_BYTES_MAX + 1)));
        assert_eq!(none.has_room(""), Err(TooMuch::Id(0)));
    }
}
