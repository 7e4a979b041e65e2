//! Taint: whether texts of strangers may have steered an author, and which steps a person therefore has to see.
//!
//! Nothing here refuses a step or tells a model about it: a refusal would show an injected text where the border is.

use std::cell::OnceCell;
use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value};

use super::provenance::writers;
use super::{ToolTerms, View};
use crate::id::NodeId;
use crate::plan::ParamRef;
use crate::port::WorkspaceUse;

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
    /// True if the result of this work, or the message of its failure, is tainted: its tool is not trusted, its author is
    /// tainted, a source of its references is, or it was read from the workspace after a tainted write.
    pub(super) fn is_tainted(self, node: &NodeId) -> bool {
        let is_workspace_tainted = OnceCell::new();
        let is_workspace_tainted = || *is_workspace_tainted.get_or_init(|| self.is_workspace_tainted());
        self.is_any_tainted(vec![node], &is_workspace_tainted)
    }

    /// True if the run may have written something tainted to the workspace.
    fn is_workspace_tainted(self) -> bool {
        let workspace_use =
            |tool: &str| self.goal.tools.terms(tool).map_or(WorkspaceUse::NONE, |terms| terms.workspace_use);
        // The first tainted write has its taint from elsewhere than the workspace.
        self.is_any_tainted(writers(self.run, workspace_use).collect(), &|| false)
    }

    fn is_any_tainted<'n>(self, mut open: Vec<&'n NodeId>, is_workspace_tainted: &dyn Fn() -> bool) -> bool
    where
        Self: 'n,
    {
        let mut seen = BTreeSet::new();
        while let Some(id) = open.pop() {
            let Some(known) = self.run.node(id).filter(|known| seen.insert(&known.id)) else { continue };
            if self.goal.earlier(id).is_some_and(|result| result.is_tainted) {
                return true;
            }
            let terms = known.tool.as_deref().and_then(|tool| self.goal.tools.terms(tool));
            let is_tainted =
                |terms: &ToolTerms| !terms.trusted || terms.workspace_use.reads && is_workspace_tainted();
            if terms.is_some_and(is_tainted) || self.is_written_tainted(id) {
                return true;
            }
            open.extend(known.param_refs.values().map(|reference| &reference.from));
        }
        false
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
