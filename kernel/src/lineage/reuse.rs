//! May a recorded result stand in for an execution?

use serde::{Deserialize, Serialize};

use super::manifest::{Difference, Manifest};
use super::record::Record;
use crate::json::Json;
use crate::plan::{Effect, Idempotency};

/// What a node declares about repeating its work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Repetition {
    /// Effect of the node.
    pub effect: Effect,
    /// Reaction to a lost result.
    pub idem: Idempotency,
    /// The plan says that the result of this natural write may stand in for another one.
    pub reusable: bool,
    /// A read knows the state of the world that it saw.
    pub has_world: bool,
}

impl Repetition {
    /// Whether any run may be served a result of this work.
    pub fn allows_reuse(self) -> bool {
        match self.effect {
            Effect::None => true,
            Effect::Read => self.has_world,
            Effect::Write => self.idem == Idempotency::Natural && self.reusable,
            Effect::External => false,
        }
    }
}

/// What has to be looked up about a record. Asked in the order of the methods, and only as far as needed.
pub trait Evidence {
    /// Whether the record is withdrawn.
    fn is_retracted(&self) -> bool;
    /// Whether the stored bytes give the digest of the artifact.
    fn verifies(&self) -> bool;
    /// Whether the stored artifact satisfies the current contract.
    fn satisfies(&self) -> bool;
}

/// A record that may be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reuse {
    /// The result passed this contract before.
    Known,
    /// The contract is new to the record, and holds.
    Revalidated,
}

/// Why work is executed. `Display` gives the code that explanations and cases use.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Reason {
    /// Results of this work stand in for nothing.
    NotReusable,
    /// The record is withdrawn.
    Retracted,
    /// The stored bytes are damaged.
    Corrupt,
    /// The stored result breaks the current contract.
    ContractFailed,
    /// No record, and nothing to compare with.
    NoRecord,
    /// No record: this differs from the last time.
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
/// The first reason against it.
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
