//! Decision about a node in a revision, with its reason.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use super::manifest::short_digest;
use super::reuse::Reason;
use crate::id::{Digest, NodeId, RunId};

/// The decision about a node. `Display` gives the explanation in full.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Decision<R = RunId> {
    /// The named predecessor failed, was denied or is blocked.
    Blocked(NodeId),
    /// The named predecessor waits for a person.
    Waiting(NodeId),
    /// The named reference does not resolve.
    ParamMissing(String),
    /// The output broke the contract.
    ContractFailed,
    /// A guard cannot be judged.
    GuardError,
    /// A list cannot be expanded.
    ExpandError,
    /// A guard does not hold, or a predecessor was skipped.
    Skipped,
    /// A person's artifact counts.
    Pinned {
        /// The person.
        author: String,
        /// The inputs changed since the edit.
        stale: bool,
    },
    /// A person's artifact is stale, and the person is asked.
    Asked,
    /// The gate denied the node.
    Denied,
    /// A recorded result was bound.
    Reused {
        /// `r` of the work.
        reuse: Digest,
        /// Run that executed the work.
        from: R,
    },
    /// A recorded result was bound after a change of its contract.
    Revalidated {
        /// `r` of the work.
        reuse: Digest,
        /// Run that executed the work.
        from: R,
    },
    /// Early cutoff: the last result stands, because the changes above came out equal on the way.
    CutOff(Frontier),
    /// The node was executed.
    Recomputed(Reason),
}

impl<R> Decision<R> {
    /// Name of the decision.
    pub fn name(&self) -> &'static str {
        match self {
            Decision::Blocked(_) => "blocked",
            Decision::Waiting(_) => "waiting",
            Decision::ParamMissing(_)
            | Decision::ContractFailed
            | Decision::GuardError
            | Decision::ExpandError => "failed",
            Decision::Skipped => "skipped",
            Decision::Pinned { .. } => "pinned",
            Decision::Asked => "asked",
            Decision::Denied => "denied",
            Decision::Reused { .. } => "reused",
            Decision::Revalidated { .. } => "revalidated",
            Decision::CutOff(_) => "cut_off",
            Decision::Recomputed(_) => "recomputed",
        }
    }

    /// Decision that this decision imposes on dependent nodes; `None` if they may be decided.
    pub fn below(&self, node: &NodeId) -> Option<Decision<R>> {
        match self {
            Decision::Blocked(_)
            | Decision::ParamMissing(_)
            | Decision::ContractFailed
            | Decision::GuardError
            | Decision::ExpandError
            | Decision::Denied => Some(Decision::Blocked(node.clone())),
            Decision::Skipped => Some(Decision::Skipped),
            Decision::Waiting(_) | Decision::Asked => Some(Decision::Waiting(node.clone())),
            Decision::Pinned { .. }
            | Decision::Reused { .. }
            | Decision::Revalidated { .. }
            | Decision::CutOff(_)
            | Decision::Recomputed(_) => None,
        }
    }
}

impl<R: fmt::Display> fmt::Display for Decision<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = self.name();
        match self {
            Decision::Blocked(node) | Decision::Waiting(node) => write!(f, "{name}{{{node}}}"),
            Decision::ParamMissing(param) => write!(f, "{name}{{param_missing.{param}}}"),
            Decision::ContractFailed => write!(f, "{name}{{contract}}"),
            Decision::GuardError => write!(f, "{name}{{guard_error}}"),
            Decision::ExpandError => write!(f, "{name}{{expand_error}}"),
            Decision::Skipped => write!(f, "{name}{{guard_false}}"),
            Decision::Pinned { author, .. } => write!(f, "{name}{{{author}}}"),
            Decision::Asked => write!(f, "{name}{{stale}}"),
            Decision::Denied => write!(f, "{name}{{}}"),
            Decision::Reused { reuse, from } | Decision::Revalidated { reuse, from } => {
                write!(f, "{name}{{r={},from={from}}}", short_digest(*reuse))
            }
            Decision::CutOff(executed) => {
                let ids: Vec<&str> = executed.iter().map(NodeId::as_str).collect();
                write!(f, "{name}{{{}}}", ids.join(","))
            }
            Decision::Recomputed(reason) => write!(f, "{name}{{{reason}}}"),
        }
    }
}

/// Decision that the direct predecessors, in ascending id, impose on a node; `None` if the node may be decided. A skip takes
/// precedence over failures, and failures over questions.
pub fn held_by<'a, R: 'a>(above: impl Iterator<Item = (&'a NodeId, &'a Decision<R>)>) -> Option<Decision<R>> {
    let (mut blocked, mut waiting) = (None, None);
    for (node, decision) in above {
        match decision.below(node) {
            Some(Decision::Skipped) => return Some(Decision::Skipped),
            Some(by @ Decision::Blocked(_)) => blocked = blocked.or(Some(by)),
            Some(other) => waiting = waiting.or(Some(other)),
            None => {}
        }
    }
    blocked.or(waiting)
}

/// Nearest executed ancestors of a node: the first executed node on every upward path.
pub type Frontier = Arc<BTreeSet<NodeId>>;

/// The frontier below these predecessors: an executed predecessor itself, the frontier of any other. Equal sets are shared,
/// so a chain of reused nodes costs nothing.
pub fn frontier<'a>(above: impl Iterator<Item = (&'a NodeId, bool, &'a Frontier)>) -> Frontier {
    let mut whole: Option<Frontier> = None;
    for (node, executed, beyond) in above {
        if executed {
            Arc::make_mut(whole.get_or_insert_default()).insert(node.clone());
        } else if !beyond.is_empty() {
            match &mut whole {
                None => whole = Some(Arc::clone(beyond)),
                Some(whole) if Arc::ptr_eq(whole, beyond) => {}
                Some(whole) => Arc::make_mut(whole).extend(beyond.iter().cloned()),
            }
        }
    }
    whole.unwrap_or_default()
}
