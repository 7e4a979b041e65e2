//! Artifacts that people put in the place of results.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::id::Digest;

/// What becomes of an edit when the inputs of the edited node change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StalePolicy {
    /// A person is asked.
    #[default]
    Ask,
    /// The edit stays.
    Keep,
    /// The edit is dropped, and the node computed.
    Recompute,
}

/// Digests of the values that a node received, by parameter.
pub type Received = BTreeMap<String, Digest>;

/// An edited artifact, pinned to its node. It belongs to the plan, outlives runs and makes no record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Override {
    /// Digest of the artifact.
    pub artifact: Digest,
    /// The person.
    pub author: String,
    /// `r` of the node when the artifact was edited or last confirmed.
    pub base: Digest,
    /// What the node had received then.
    pub received: Received,
    /// What happens when `r` changes.
    pub stale: StalePolicy,
}

/// What an override means for a node with this `r`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OverrideState {
    /// The edit counts.
    Pinned {
        /// The inputs changed since the edit.
        stale: bool,
    },
    /// The inputs changed, and a person has to decide.
    Asked,
    /// The inputs changed: drop the edit and compute.
    Dropped,
}

impl Override {
    /// State for a node whose identity is `reuse` now.
    pub fn state(&self, reuse: Digest) -> OverrideState {
        let stale = self.base != reuse;
        match self.stale {
            StalePolicy::Ask if stale => OverrideState::Asked,
            StalePolicy::Recompute if stale => OverrideState::Dropped,
            StalePolicy::Ask | StalePolicy::Keep | StalePolicy::Recompute => OverrideState::Pinned { stale },
        }
    }
}

/// A refused edit of an artifact. `Display` gives the code.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum EditRefusal {
    /// The node has published nothing.
    #[error("no_artifact")]
    NoArtifact,
    /// The artifact is not the one that the author saw.
    #[error("old_mismatch")]
    OldMismatch,
    /// The node acted on the world: what happened cannot be edited.
    #[error("effectful")]
    Effectful,
    /// The new content breaks the node's contract.
    #[error("contract_failed")]
    ContractFailed,
}

/// Facts about a node that someone edits.
#[derive(Debug, Clone, Copy)]
pub struct Edited {
    /// Digest of the published artifact, if any.
    pub current: Option<Digest>,
    /// The node acts on the world.
    pub acts: bool,
    /// The new content satisfies the contract.
    pub satisfies: bool,
}

/// Checks an edit. `seen` is the digest that the author started from; `None`: whatever is current.
///
/// # Errors
///
/// The first reason to refuse it, in the order of [`EditRefusal`].
pub fn check_edit(node: Edited, seen: Option<Digest>) -> Result<(), EditRefusal> {
    let current = node.current.ok_or(EditRefusal::NoArtifact)?;
    if seen.is_some_and(|seen| seen != current) {
        return Err(EditRefusal::OldMismatch);
    }
    if node.acts {
        return Err(EditRefusal::Effectful);
    }
    if !node.satisfies {
        return Err(EditRefusal::ContractFailed);
    }
    Ok(())
}
