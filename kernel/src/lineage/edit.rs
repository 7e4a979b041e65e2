//! Overrides: a person's artifact in place of a node's result.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::id::{Digest, DigestStart};

/// Policy for an edit when the inputs of the edited node change.
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

/// An edited artifact, pinned to a node. An edit belongs to the plan, outlives runs and creates no record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Override {
    /// Digest of the artifact.
    pub artifact: Digest,
    /// The person.
    pub author: String,
    /// `r` of the node when the artifact was edited or last confirmed.
    pub base: Digest,
    /// Values that the node had received at the time of the edit.
    pub received: Received,
    /// Policy for a changed `r`.
    pub stale: StalePolicy,
}

/// Effect of an override on a node whose identity is this `r`.
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

impl StalePolicy {
    /// Effect of an edit on its node. `stale`: the inputs changed since the edit.
    pub fn state(self, stale: bool) -> OverrideState {
        match self {
            StalePolicy::Ask if stale => OverrideState::Asked,
            StalePolicy::Recompute if stale => OverrideState::Dropped,
            StalePolicy::Ask | StalePolicy::Keep | StalePolicy::Recompute => OverrideState::Pinned { stale },
        }
    }
}

impl Override {
    /// State of the override for a node whose current identity is `reuse`.
    pub fn state(&self, reuse: Digest) -> OverrideState {
        self.stale.state(self.base != reuse)
    }
}

/// A refused edit of an artifact. `Display` gives the code.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum EditRefusal {
    /// The node has published nothing.
    #[error("no_artifact")]
    NoArtifact,
    /// The current artifact is not the artifact that the author saw.
    #[error("old_mismatch")]
    OldMismatch,
    /// The node acted on the world, and an effect cannot be edited.
    #[error("effectful")]
    Effectful,
    /// The new content breaks the node's contract.
    #[error("contract_failed")]
    ContractFailed,
}

/// Facts about the node of an edit.
#[derive(Debug, Clone, Copy)]
pub struct Edited {
    /// Digest of the published artifact, if any.
    pub current: Option<Digest>,
    /// The node acts on the world.
    pub acts: bool,
    /// The new content satisfies the contract.
    pub satisfies: bool,
}

/// Checks an edit. `seen` begins the digest that the author started from; `None` accepts the current artifact.
///
/// # Errors
///
/// The first reason for refusal, in the order of [`EditRefusal`].
pub fn check_edit(node: Edited, seen: Option<&DigestStart>) -> Result<(), EditRefusal> {
    let current = node.current.ok_or(EditRefusal::NoArtifact)?;
    if seen.is_some_and(|seen| !seen.begins(current)) {
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
