//! A plan: a valid graph of nodes, with every default filled in.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::draft::NodeFields;
use super::graph::Derived;
use super::{Graph, Node, Policy, Rule};
use crate::id::{Digest, NodeId};
use crate::json::{canonicalize_numbers, has_canonical_numbers};

/// An immutable version of a graph of nodes. Validation is the only constructor.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Plan {
    /// The author's name for the plan.
    pub id: String,
    /// A line for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// 1 at first; every accepted change adds one.
    pub version: u32,
    /// All nodes of this and earlier versions, ascending by the bytes of their ids.
    pub nodes: Vec<Node>,
    /// Nodes the run is for.
    pub outputs: Vec<NodeId>,
    /// True if the author or a delta named the outputs; otherwise the outputs are the exits of version 1.
    pub outputs_declared: bool,
    /// Limits and choices.
    pub policy: Policy,
    /// Rules over the map of the outputs, checked once per version at quiescence; empty means none.
    #[serde(default)]
    pub contract: Vec<Rule>,
    /// True if normalisation adds no edges for references.
    #[serde(default)]
    pub strict: bool,
    #[serde(skip)]
    pub(super) derived: Derived,
}

impl Plan {
    /// Returns the adjacency, computed on first use. Call only after the plan has all its nodes.
    pub fn graph(&self) -> &Arc<Graph> {
        self.derived.graph(&self.nodes)
    }

    /// Returns the work identity of the node at `at`, a node with literal parameters only, run by the
    /// executable `sigma`. All runs of the plan share one call of `identify`.
    pub(crate) fn constant_identity(
        &self,
        at: usize,
        sigma: Digest,
        identify: impl Fn() -> Digest,
    ) -> Digest {
        self.derived.identity(&self.nodes, at, sigma, identify)
    }

    /// The plan with these nodes, ascending by id, as the first version of a run.
    pub(crate) fn with_nodes(&self, nodes: Vec<Node>) -> Plan {
        Plan { version: 1, nodes, derived: Derived::default(), ..self.clone() }
    }

    /// Finds a node by id.
    pub fn node(&self, id: &NodeId) -> Option<&Node> {
        self.position(id).map(|at| &self.nodes[at])
    }

    /// Index of a node.
    pub fn position(&self, id: &NodeId) -> Option<usize> {
        self.nodes.binary_search_by(|probe| probe.id.cmp(id)).ok()
    }

    /// Returns whether [`Plan::canonicalize_numbers`] would change nothing. May return `false` for a plan without
    /// changes.
    pub fn has_canonical_numbers(&self) -> bool {
        let fallbacks = self.nodes.iter().filter_map(|node| node.fallback.as_deref());
        let extensions = fallbacks.clone().flat_map(NodeFields::values);
        let fallbacks = fallbacks.filter_map(|fields| fields.params.as_ref());
        let undos = self.nodes.iter().filter_map(|node| node.undo.as_deref());
        let params = self.nodes.iter().map(|node| &*node.params).chain(fallbacks);
        let params = params.chain(undos.clone().map(|undo| &*undo.params));
        let rules = self.nodes.iter().flat_map(|node| &node.contract).chain(&self.contract);
        let rules = rules.chain(undos.flat_map(|undo| &undo.contract));
        let specs = rules.filter_map(|rule| rule.spec.as_deref());
        let guards = self.nodes.iter().flat_map(|node| &node.when).filter_map(|guard| guard.value.as_ref());
        let values = params.flat_map(|params| params.values()).chain(specs).chain(guards);
        values.chain(extensions).all(has_canonical_numbers)
    }

    /// Replaces every number by the number that its canonical text parses to, so the plan equals a plan read
    /// back from the journal.
    pub fn canonicalize_numbers(&mut self) {
        for node in &mut self.nodes {
            let fallback = node.fallback.iter_mut().filter_map(|fields| fields.params.as_mut());
            fallback.flat_map(|params| params.values_mut()).for_each(canonicalize_numbers);
            let fallback = node.fallback.iter_mut();
            fallback.flat_map(|fields| fields.values_mut()).for_each(canonicalize_numbers);
            let guards = node.when.iter_mut().filter_map(|guard| guard.value.as_mut());
            guards.for_each(canonicalize_numbers);
            if let Some(undo) = &mut node.undo
                && !has_canonical_numbers(undo.params.as_value())
            {
                undo.params.make_mut().values_mut().for_each(canonicalize_numbers);
            }
            if !has_canonical_numbers(node.params.as_value()) {
                node.params.make_mut().values_mut().for_each(canonicalize_numbers);
            }
        }
        let of_nodes = self.nodes.iter_mut().flat_map(|node| {
            let undo = node.undo.iter_mut().flat_map(|undo| &mut undo.contract);
            node.contract.iter_mut().chain(undo)
        });
        for spec in of_nodes.chain(&mut self.contract).filter_map(|rule| rule.spec.as_mut()) {
            if !has_canonical_numbers(spec) {
                canonicalize_numbers(Arc::make_mut(spec));
            }
        }
    }
}
