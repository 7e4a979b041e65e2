//! Last outcome of a node within one run, and its generation.

use crate::id::Digest;

/// Last outcome of a node in a run: the engine bound a result to the node, or the output broke the contract. Denials, edits
/// and questions are no outcomes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outcome<B> {
    /// `r` of the work.
    pub reuse: Digest,
    /// Freshness token of the work.
    pub world: Option<String>,
    /// The bound result; `None`: failed.
    pub bound: Option<B>,
}

/// Outcome and generation of a node in a run.
#[derive(Debug, Clone)]
pub struct Instance<B> {
    /// The last outcome, if any.
    pub last: Option<Outcome<B>>,
    /// Number of outcomes so far.
    pub generation: u64,
}

impl<B> Default for Instance<B> {
    fn default() -> Instance<B> {
        Instance { last: None, generation: 0 }
    }
}

impl<B> Instance<B> {
    /// Freshness token of the bound result. The token stands until another input changes `r`, regardless of later changes
    /// of the world.
    pub fn sampled(&self) -> Option<&Outcome<B>> {
        self.last.as_ref().filter(|last| last.bound.is_some())
    }

    /// The last outcome, if it belongs to this work.
    pub fn outcome_of(&self, reuse: Digest) -> Option<&Outcome<B>> {
        self.last.as_ref().filter(|last| last.reuse == reuse)
    }

    /// Sets a new outcome; returns the outcome's generation.
    pub fn set(&mut self, outcome: Outcome<B>) -> u64 {
        self.last = Some(outcome);
        self.generation += 1;
        self.generation
    }
}
