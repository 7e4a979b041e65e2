//! Taint: whether texts of strangers may have steered an author, and which steps a person therefore has to see.
//!
//! Nothing here refuses a step or tells a model about it: a refusal would show an injected text where the border is.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::View;
use super::provenance::{OfferedTools, is_result_untrusted};
use crate::id::NodeId;
use crate::plan::ParamRef;

/// Author of a node's present description.
enum Author<'a> {
    /// The answer of this node.
    Node(&'a NodeId),
    /// The micro-planner, by this call.
    Micro(usize),
    /// An operator, or the mode itself.
    Trusted,
}

/// A step as far as taint decides about it.
pub(super) struct Proposal<'a> {
    pub(super) tool: &'a str,
    pub(super) impact: u8,
    pub(super) literal: &'a Map<String, Value>,
    pub(super) refs: &'a BTreeMap<String, ParamRef>,
    /// Literals that a retry leaves as they were; empty for any other step.
    pub(super) kept: &'a Map<String, Value>,
}

impl<'a> View<'a> {
    /// True if the result of this work, or the message of its failure, is tainted: what the gate calls untrusted.
    pub(super) fn is_tainted(self, node: &NodeId) -> bool {
        is_result_untrusted(self.run, node, &OfferedTools(&*self.goal.tools))
    }

    /// True if the last call of this node showed something tainted.
    pub(super) fn is_author_tainted(self, author: &NodeId) -> bool {
        let last = self.goal.calls.iter().rfind(|call| call.is_by(author));
        last.is_some_and(|call| call.intent.is_tainted)
    }

    pub(super) fn is_written_tainted(self, node: &NodeId) -> bool {
        match self.author(node) {
            Author::Node(author) => self.is_author_tainted(author),
            Author::Micro(call) => self.goal.calls[call].intent.is_tainted,
            Author::Trusted => false,
        }
    }

    /// True if an author of the node, or of any patch of it, was tainted.
    pub(super) fn was_ever_written_tainted(self, node: &NodeId) -> bool {
        let mut patches = self.goal.calls.iter().filter(|call| call.became_patch && call.is_about(node));
        patches.any(|call| call.intent.is_tainted)
            || self.written_by(node).is_some_and(|author| self.is_author_tainted(author))
    }

    /// The nodes whose results a model was shown when it wrote the node, a patch of it or, for a node that asks a model, its own
    /// answer; and the node that wrote it, for what that one was shown and asked for.
    pub(super) fn seen_by_author(self, node: &NodeId) -> Vec<&'a NodeId> {
        let calls = self.goal.calls.iter();
        let calls = calls.filter(|call| call.is_by(node) || call.became_patch && call.is_about(node));
        let shown = calls.flat_map(|call| call.intent.context.shown.iter().map(|shown| &shown.node));
        shown.chain(self.written_by(node)).collect()
    }

    fn author(&self, node: &NodeId) -> Author<'_> {
        let patch = self.goal.calls.iter().rposition(|call| call.became_patch && call.is_about(node));
        match (patch, self.written_by(node)) {
            (Some(call), _) => Author::Micro(call),
            (None, Some(author)) => Author::Node(author),
            (None, None) => Author::Trusted,
        }
    }

    /// True if the step of a tainted author is wider than what others granted: its impact exceeds every impact that an
    /// untainted author wrote, or a sensitive parameter is a literal or comes from a tainted result. `own` tells the steps of
    /// the same answer, which are tainted as their author is.
    pub(super) fn is_wider(self, step: &Proposal<'_>, own: &dyn Fn(&NodeId) -> bool) -> bool {
        let granted = self.work().filter(|(node, _)| !self.is_written_tainted(&node.id));
        let granted = granted.map(|(node, _)| node.impact).max().unwrap_or(0);
        let terms = self.goal.tools.terms(step.tool);
        let sensitive = terms.map_or(&[][..], |terms| &terms.sensitive);
        step.impact > granted
            || sensitive.iter().any(|name| {
                let literal = step.literal.get(name).filter(|value| !value.is_null());
                literal.is_some_and(|value| step.kept.get(name) != Some(value))
                    || step
                        .refs
                        .get(name)
                        .is_some_and(|source| own(&source.from) || self.is_tainted(&source.from))
            })
    }
}
