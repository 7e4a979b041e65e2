//! Cache of the retractions in force. The records are in the streams of the clients.

use std::collections::BTreeMap;
use std::sync::Mutex;

use ostler_kernel::event::{Event, RETRACTIONS_MAX, RecordPlace, Retraction, Withdrawn};
use ostler_kernel::json::Json;
use ostler_kernel::lineage;
use serde_json::Value;

use crate::base::lock::lock;

/// Prefix of a retraction's id; a number follows.
const PREFIX: &str = "w";

#[derive(Default)]
pub(crate) struct Retractions(Mutex<Known>);

#[derive(Default)]
struct Known {
    /// By number; with whether every consequence has taken effect.
    in_force: BTreeMap<u64, (Retraction, bool)>,
    works: lineage::Retractions,
    /// Greatest number of a recorded retraction.
    last: u64,
}

impl Known {
    fn add(&mut self, retraction: &Retraction) {
        if let Withdrawn::Executable(fields) = &retraction.what
            && let Value::Object(fields) = fields.value()
        {
            self.works.add(&fields).expect("the fields are canonical");
        }
    }

    fn lift(&mut self, id: &str) {
        self.in_force.retain(|_, (known, _)| known.id != id);
        self.works = lineage::Retractions::default();
        let left: Vec<Retraction> = self.in_force.values().map(|(known, _)| known.clone()).collect();
        left.iter().for_each(|known| self.add(known));
    }
}

impl Retractions {
    /// Empties the cache before the records are read again. The greatest number stays.
    pub(crate) fn forget(&self) {
        let mut known = lock(&self.0);
        *known = Known { last: known.last, ..Known::default() };
    }

    /// Applies a record of a client's stream.
    pub(crate) fn record(&self, event: &Event) {
        let mut known = lock(&self.0);
        match event {
            Event::Retracted(retraction) => {
                let number = retraction.id.strip_prefix(PREFIX).and_then(|number| number.parse().ok());
                let number = number.unwrap_or(0);
                known.last = known.last.max(number);
                known.add(retraction);
                known.in_force.insert(number, ((**retraction).clone(), false));
            }
            Event::RetractionCarriedOut { retraction, .. } => {
                if let Some((_, done)) =
                    known.in_force.values_mut().find(|(known, _)| known.id == *retraction)
                {
                    *done = true;
                }
            }
            Event::RetractionLifted { retraction, .. } => known.lift(retraction),
            _ => {}
        }
    }

    /// The id of the next retraction; `None`: [`RETRACTIONS_MAX`] are in force. Unique because only the registry calls this
    /// function.
    pub(crate) fn next_id(&self) -> Option<String> {
        let known = lock(&self.0);
        (known.in_force.len() < RETRACTIONS_MAX).then(|| format!("{PREFIX}{}", known.last + 1))
    }

    /// The retractions in force, the oldest first.
    pub(crate) fn in_force(&self) -> Vec<Retraction> {
        lock(&self.0).in_force.values().map(|(known, _)| known.clone()).collect()
    }

    /// The retractions with consequences that may not have taken effect yet.
    pub(crate) fn unfinished(&self) -> Vec<Retraction> {
        let known = lock(&self.0);
        known.in_force.values().filter(|(_, done)| !done).map(|(known, _)| known.clone()).collect()
    }

    /// True if the recorded result of this executable is withdrawn.
    pub(crate) fn covers(&self, place: RecordPlace, sigma: &Json) -> bool {
        let known = lock(&self.0);
        let is_named = |(known, _): &(Retraction, bool)| matches!(known.what, Withdrawn::Result { place: Some(of), .. } if of == place);
        known.works.covers(sigma) || known.in_force.values().any(is_named)
    }
}

#[cfg(test)]
mod tests {
    use ostler_kernel::id::RunId;
    use ostler_kernel::json::canonical;
    use serde_json::json;

    use super::*;

    fn place(seq: u64) -> RecordPlace {
        RecordPlace { run: RunId::default(), seq }
    }

    fn retracted(id: &str, what: Withdrawn) -> Event {
        Event::Retracted(Box::new(Retraction {
            id: id.into(),
            client: "acme".into(),
            what,
            by: "ann".into(),
        }))
    }

    fn result(seq: u64) -> Withdrawn {
        Withdrawn::Result { run: RunId::default(), node: "n".into(), place: Some(place(seq)) }
    }

    #[test]
    fn a_lifted_retraction_covers_nothing_and_its_number_is_not_given_again() {
        let retractions = Retractions::default();
        let fields = |version: &str| canonical(&json!({"tool": "t", "tool_version": version})).unwrap();
        retractions.record(&retracted("w1", Withdrawn::Executable(fields("1"))));
        retractions.record(&retracted("w2", result(4)));
        assert!(retractions.covers(place(9), &fields("1")) && !retractions.covers(place(9), &fields("2")));
        assert!(retractions.covers(place(4), &fields("2")));
        for id in ["w1", "w2"] {
            let (client, retraction, by) = ("acme".into(), id.to_owned(), "ann".to_owned());
            retractions.record(&Event::RetractionLifted { client, retraction, by });
        }
        assert!(!retractions.covers(place(9), &fields("1")) && !retractions.covers(place(4), &fields("1")));
        retractions.forget();
        assert_eq!(retractions.next_id().as_deref(), Some("w3"));
    }

    #[test]
    fn a_retraction_is_unfinished_until_it_is_carried_out() {
        let retractions = Retractions::default();
        retractions.record(&retracted("w1", result(4)));
        assert_eq!(retractions.unfinished().len(), 1);
        let (client, retraction) = ("acme".into(), "w1".to_owned());
        retractions.record(&Event::RetractionCarriedOut { client, retraction });
        assert_eq!((retractions.unfinished().len(), retractions.in_force().len()), (0, 1));
    }

    #[test]
    fn as_many_are_in_force_as_the_limit_says() {
        let retractions = Retractions::default();
        for number in 1..=RETRACTIONS_MAX as u64 {
            let id = retractions.next_id().expect("below the limit");
            retractions.record(&retracted(&id, result(number)));
        }
        assert_eq!(retractions.next_id(), None);
        retractions.record(&Event::RetractionLifted {
            client: "acme".into(),
            retraction: "w1".into(),
            by: "ann".into(),
        });
        assert!(retractions.next_id().is_some());
    }
}
