//! Records of results, and withdrawals of records.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use crate::id::{Digest, RunId};
use crate::json::{Json, JsonError, canonical};

/// The result of executed work, under its `r`. Only the engine writes records, after gate and contract.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record<R = RunId> {
    /// Digest of the artifact.
    pub artifact: Digest,
    /// Run that executed the work.
    pub run: R,
    /// Proof of the effect; fixed when the record is written.
    pub receipt: Digest,
    /// Document of the executable, for retractions.
    pub sigma: Json,
    /// Canonical text of every contract that the result satisfied.
    pub contracts: BTreeSet<Json>,
}

/// Withdrawn work, by fields of the executable. A retraction counts for every record, of the past and the future, in all domains.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Retractions(Vec<Map<String, Value>>);

impl Retractions {
    /// Withdraws every record whose executable has all the listed fields with the listed values, as the document spells
    /// them. An empty list matches every record.
    ///
    /// # Errors
    ///
    /// A value without canonical form.
    pub fn add(&mut self, fields: &Map<String, Value>) -> Result<(), JsonError> {
        let Value::Object(fields) = canonical(&Value::Object(fields.clone()))?.value() else {
            unreachable!("an object stays an object");
        };
        self.0.push(fields);
        Ok(())
    }

    /// True if the work of this executable is withdrawn.
    pub fn covers(&self, sigma: &Json) -> bool {
        if self.0.is_empty() {
            return false;
        }
        let document = sigma.value();
        let matches =
            |fields: &Map<String, Value>| fields.iter().all(|(key, value)| document.get(key) == Some(value));
        self.0.iter().any(matches)
    }
}
