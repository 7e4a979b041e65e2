//! May a recorded result stand in for an execution?

use serde::{Deserialize, Serialize};

use super::manifest::{Difference, Manifest};
use super::record::Record;
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
        }
    }

    /// The field of the input that changed, if it is known.
    pub fn field(&self) -> Option<&str> {
        match self {
            Reason::Changed(difference) => difference.field(),
            _ => None,
        }
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
        }
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
    if !evidence.verifies() {
        return Err(Reason::Corrupt);
    }
    if record.contracts.contains(contract) {
        return Ok(Reuse::Known);
    }
    if evidence.satisfies() { Ok(Reuse::Revalidated) } else { Err(Reason::ContractFailed) }
}
