//! May a recorded result stand in for an execution?

use serde::{Deserialize, Serialize};

use super::manifest::{Difference, Manifest};
use super::record::Record;
use crate::id::Ticks;
use crate::json::Json;
use crate::plan::{Effect, Idempotency};

/// A node's declarations about repeating its work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Repetition {
    /// Effect of the node.
    pub effect: Effect,
    /// Reaction to a lost result.
    pub idem: Idempotency,
    /// The plan allows the result of this natural write to stand in for another write.
    pub reusable: bool,
    /// The read names the world state that it saw.
    pub has_world: bool,
    /// Highest age of a record, in ticks; `None`: any age.
    pub age_max: Option<Ticks>,
}

impl Repetition {
    /// True if a run may be served a result of this work.
    pub fn allows_reuse(self) -> bool {
        match self.effect {
            Effect::None => true,
            Effect::Read => self.has_world,
            Effect::Write => self.idem == Idempotency::Natural && self.reusable,
            Effect::External => false,
        }
    }
}

/// Look-ups about a record. Reuse calls the methods in their order, and stops at the first failure.
pub trait Evidence {
    /// True if the record is withdrawn.
    fn is_retracted(&self) -> bool;
    /// Age of the record in ticks. The default is 0.
    fn age(&self) -> Ticks {
        0
    }
    /// True if the stored bytes match the digest of the artifact.
    fn verifies(&self) -> bool;
    /// True if the stored artifact satisfies the current contract.
    fn satisfies(&self) -> bool;
}

/// Verdict on a usable record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reuse {
    /// The result satisfied this contract before.
    Known,
    /// The contract is new to the record, and holds.
    Revalidated,
}

/// Reason for an execution. `Display` prints the code for explanations and cases.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Reason {
    /// Results of this work never stand in for others.
    NotReusable,
    /// The record is withdrawn.
    Retracted,
    /// The stored bytes are damaged.
    Corrupt,
    /// The stored result breaks the current contract.
    ContractFailed,
    /// No record, and nothing to compare with.
    NoRecord,
    /// No record exists; first difference to the last execution.
    Changed(Difference),
    /// The record of a read is too old by this long.
    Expired {
        /// Time since the record expired, in ticks.
        ago: Ticks,
    },
    /// The source was asked, and had not changed since the record.
    NotModified,
}

impl Reason {
    /// The reason in words of a closed set.
    pub fn in_words(&self) -> String {
        match self {
            Reason::NotReusable => "acts on the world, or reads it anew".to_owned(),
            Reason::Retracted => "record retracted".to_owned(),
            Reason::Corrupt => "stored artifact is damaged".to_owned(),
            Reason::ContractFailed => "contract failed".to_owned(),
            Reason::NoRecord => "no record".to_owned(),
            Reason::Changed(difference) => difference.in_words(),
            Reason::Expired { ago } => format!("expired {} ago", span(*ago)),
            Reason::NotModified => "not modified".to_owned(),
        }
    }

    /// The field of the input that changed, if it is known.
    pub fn field(&self) -> Option<&str> {
        match self {
            Reason::Changed(difference) => difference.field(),
            _ => None,
        }
    }

    /// True if the work differs from what was done before. Otherwise the work is new, or done in each run.
    pub fn is_change(&self) -> bool {
        !matches!(self, Reason::NoRecord | Reason::NotReusable | Reason::NotModified)
    }

    /// The reason to execute work without a record; `last` is the manifest last bound to the node.
    pub fn without_record(now: &Manifest, last: Option<&Manifest>) -> Reason {
        last.and_then(|last| now.difference(last)).map_or(Reason::NoRecord, Reason::Changed)
    }
}

impl std::fmt::Display for Reason {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Reason::NotReusable => f.write_str("not_reusable"),
            Reason::Retracted => f.write_str("retracted"),
            Reason::Corrupt => f.write_str("corrupt"),
            Reason::ContractFailed => f.write_str("contract_failed"),
            Reason::NoRecord => f.write_str("no_record"),
            Reason::Changed(difference) => difference.fmt(f),
            Reason::Expired { .. } => f.write_str("expired"),
            Reason::NotModified => f.write_str("not_modified"),
        }
    }
}

/// A duration in milliseconds for people, in one unit: `40 s`, `2 min`, `3 h`, `5 d`.
pub fn span(ms: Ticks) -> String {
    let seconds = ms.max(0) / 1_000;
    match seconds {
        0..120 => format!("{seconds} s"),
        120..7_200 => format!("{} min", seconds / 60),
        7_200..172_800 => format!("{} h", seconds / 3_600),
        _ => format!("{} d", seconds / 86_400),
    }
}

/// Judges the newest record of a work; the gate has allowed the node already.
///
/// # Errors
///
/// The first reason against reuse.
pub fn judge<R>(
    record: &Record<R>,
    repetition: Repetition,
    contract: &Json,
    evidence: &dyn Evidence,
) -> Result<Reuse, Reason> {
    if !repetition.allows_reuse() {
        return Err(Reason::NotReusable);
    }
    if evidence.is_retracted() {
        return Err(Reason::Retracted);
    }
    if let Some(ago) = repetition.age_max.map(|most| evidence.age() - most).filter(|ago| *ago >= 0) {
        return Err(Reason::Expired { ago });
    }
    if !evidence.verifies() {
        return Err(Reason::Corrupt);
    }
    if record.contracts.contains(contract) {
        return Ok(Reuse::Known);
    }
    if evidence.satisfies() { Ok(Reuse::Revalidated) } else { Err(Reason::ContractFailed) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    struct Aged(Ticks);

    impl Evidence for Aged {
        fn is_retracted(&self) -> bool {
            false
        }

        fn age(&self) -> Ticks {
            self.0
        }

        fn verifies(&self) -> bool {
            true
        }

        fn satisfies(&self) -> bool {
            true
        }
    }

    #[test]
    fn a_record_expires_at_its_highest_age() {
        let judged = |age, age_max| {
            let (effect, idem) = (Effect::Read, Idempotency::Natural);
            let repetition = Repetition { effect, idem, reusable: false, has_world: true, age_max };
            let contract = crate::json::parse("[]").unwrap();
            let record = Record {
                artifact: crate::id::Digest([0; 32]),
                run: (),
                receipt: crate::id::Digest([0; 32]),
                sigma: contract.clone(),
                contracts: BTreeSet::from([contract.clone()]),
            };
            judge(&record, repetition, &contract, &Aged(age))
        };
        assert_eq!(judged(599_999, Some(600_000)), Ok(Reuse::Known));
        assert_eq!(judged(600_000, Some(600_000)), Err(Reason::Expired { ago: 0 }));
        assert_eq!(judged(725_000, Some(600_000)).unwrap_err().in_words(), "expired 2 min ago");
        assert_eq!(judged(Ticks::MAX, None), Ok(Reuse::Known));
    }
}
