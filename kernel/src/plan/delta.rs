//! Changes of a running plan. Every graft, patch, replan, cancel and interjection makes the next version or
//! is rejected whole.
//!
//! [`merge`] judges a [`Change`] and returns a [`Revision`]: the difference to the next version as absolute
//! values. The journal keeps the revision, and recovery passes it to [`apply_change`], the last step of live
//! merging too. Recovery evaluates no rule, tool or default again, so a plan recovers unchanged even if the
//! tools changed.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::contract_rules::PatternBudget;
use super::diagnostic::{Diagnostic, DiagnosticCode, sort_and_limit};
use super::draft::{DepDraft, NodeDraft, NodeFields};
use super::normalise::connect;
use super::pointer::Pointer;
use super::set_fields::{check_forbidden, set};
use super::{Join, Made, Node, Plan, Settings, validate};
use crate::id::NodeId;

/// A requested change of a running plan.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
#[allow(clippy::large_enum_variant)] // one at a time is judged and dropped
pub enum Change {
    /// A change of the graph.
    Delta(Delta),
    /// New fields for a failed node; its edges stay.
    Patch {
        /// The failed node.
        node: NodeId,
        /// The new fields; `None` retries with the present ones.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        set: Option<NodeFields>,
    },
}

/// A change of the graph, as written. Only dependencies, replacements and outputs may name nodes of `add`;
/// the rest of the delta cannot.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Delta {
    /// The version the delta was written for; `None` means the current version on arrival.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub base: Option<u32>,
    /// New nodes.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub add: Vec<NodeDraft>,
    /// New dependencies of nodes that have not started.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub rewire: BTreeMap<NodeId, Vec<DepDraft>>,
    /// Old id to new id, applied to dependencies, references and reads of nodes that have not started, and to
    /// the outputs.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub replace: BTreeMap<NodeId, NodeId>,
    /// New fields of nodes that have not started.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub set: BTreeMap<NodeId, NodeFields>,
    /// Nodes to cancel.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub cancel: Vec<NodeId>,
    /// New outputs, possibly none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub outputs: Option<Vec<NodeId>>,
}

/// Progress of a node, as far as a change depends on the progress.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NodeProgress {
    /// Pending or blocked: may be rewired and set.
    NotStarted,
    /// Started but not terminal: may be cancelled.
    Started,
    /// Terminal: may not change.
    Terminal,
}

/// Difference to the next version of a plan, in absolute values; the journaled form of a change.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Revision {
    /// New and changed nodes, normalised, ascending by id.
    pub nodes: Vec<Node>,
    /// The outputs, if changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outputs: Option<Vec<NodeId>>,
    /// True if the outputs count as declared from this version on.
    pub outputs_declared: bool,
    /// Nodes to cancel, ascending.
    pub cancel: Vec<NodeId>,
}

/// The next version of a plan.
#[derive(Debug, Clone, PartialEq)]
pub struct MergedPlan {
    /// The plan with `version` incremented.
    pub plan: Plan,
    /// Existing nodes with a changed normalised description, ascending. They lose their approval.
    pub changed: Vec<NodeId>,
    /// New nodes, ascending.
    pub added: Vec<NodeId>,
    /// Nodes to cancel, ascending.
    pub cancel: Vec<NodeId>,
    /// The journaled form.
    pub revision: Revision,
}

/// Validates a change and merges it into `plan`.
///
/// `progress` returns the progress of each node of `plan`; `closed` says that the run is cancelled or
/// concluded. The node of a patch counts as waiting for the patch. The result depends on the arguments alone.
///
/// # Errors
///
/// Every diagnostic of the change, sorted by code and node.
pub fn merge(
    plan: &Plan,
    change: &Change,
    progress: &dyn Fn(&NodeId) -> NodeProgress,
    closed: bool,
    settings: &Settings<'_>,
) -> Result<MergedPlan, Vec<Diagnostic>> {
    let mut draft = Merge::new(plan, progress, settings);
    draft.check_run(closed);
    let cancel = match change {
        Change::Delta(delta) => draft.delta(delta),
        Change::Patch { node, set } => draft.patch(node, set.as_ref()),
    };
    draft.finish(cancel)
}

/// Builds the next version from an accepted revision, without any validation.
pub fn apply_change(plan: &Plan, revision: &Revision) -> MergedPlan {
    let mut nodes: BTreeMap<&NodeId, &Node> = plan.nodes.iter().map(|node| (&node.id, node)).collect();
    let (mut changed, mut added) = (Vec::new(), Vec::new());
    for node in &revision.nodes {
        match nodes.insert(&node.id, node) {
            Some(_) => changed.push(node.id.clone()),
            None => added.push(node.id.clone()),
        }
    }
    let next = Plan {
        id: plan.id.clone(),
        title: plan.title.clone(),
        version: plan.version.saturating_add(1),
        nodes: nodes.into_values().cloned().collect(),
        outputs: revision.outputs.as_ref().unwrap_or(&plan.outputs).clone(),
        outputs_declared: revision.outputs_declared,
        policy: plan.policy.clone(),
        contract: plan.contract.clone(),
        strict: plan.strict,
        derived: Default::default(),
    };
    MergedPlan { plan: next, changed, added, cancel: revision.cancel.clone(), revision: revision.clone() }
}

fn revision(old: &Plan, new: Plan, cancel: Vec<NodeId>) -> Revision {
    let before: BTreeMap<&NodeId, &Node> = old.nodes.iter().map(|node| (&node.id, node)).collect();
    Revision {
        outputs: (new.outputs != old.outputs).then_some(new.outputs),
        outputs_declared: new.outputs_declared,
        nodes: new.nodes.into_iter().filter(|node| before.get(&node.id) != Some(&node)).collect(),
        cancel,
    }
}

pub(super) struct Merge<'a> {
    old: &'a Plan,
    /// The next version so far. Nodes of `old` keep their index until nodes are added.
    new: Plan,
    progress: &'a dyn Fn(&NodeId) -> NodeProgress,
    settings: &'a Settings<'a>,
    room: PatternBudget,
    faults: Vec<Diagnostic>,
}

impl<'a> Merge<'a> {
    pub(super) fn new(
        plan: &'a Plan,
        progress: &'a dyn Fn(&NodeId) -> NodeProgress,
        settings: &'a Settings<'a>,
    ) -> Merge<'a> {
        Merge {
            old: plan,
            new: plan.clone(),
            progress,
            settings,
            room: PatternBudget::default(),
            faults: Vec::new(),
        }
    }

    /// Puts another node in the place of the one at `at`.
    pub(super) fn put(&mut self, at: usize, node: Node) {
        self.new.nodes[at] = node;
    }

    /// Adds a normalised node.
    pub(super) fn add(&mut self, node: Node) {
        self.new.nodes.push(node);
    }

    /// Validates the merged plan and builds its next version.
    pub(super) fn finish(mut self, cancel: Vec<NodeId>) -> Result<MergedPlan, Vec<Diagnostic>> {
        self.new.nodes.sort_by(|a, b| a.id.cmp(&b.id)); // stable: what is added comes after what it repeats
        self.judge();
        if self.faults.is_empty() {
            let revision = revision(self.old, self.new, cancel);
            Ok(apply_change(self.old, &revision))
        } else {
            Err(sort_and_limit(self.faults))
        }
    }

    /// Refuses the change without looking at the merged plan.
    pub(super) fn refuse(mut self, faults: Vec<Diagnostic>) -> Vec<Diagnostic> {
        self.faults.extend(faults);
        sort_and_limit(self.faults)
    }

    fn fault(&mut self, code: DiagnosticCode, node: impl std::fmt::Display, detail: &str, help: &str) {
        self.faults.push(Diagnostic::new(code, node, detail, help));
    }

    /// Rules for every change: D02 and D05.
    pub(super) fn check_run(&mut self, closed: bool) {
        self.faults.extend(is_last_version(self.old));
        if closed {
            self.fault(
                DiagnosticCode::D05,
                Diagnostic::PLAN,
                "the run is cancelled or concluded",
                "start a new run: this one accepts no more changes",
            );
        }
    }

    /// Index of a node of the old version, or a D03.
    fn existing(&mut self, id: &NodeId, verb: &str) -> Option<usize> {
        let found = self.old.position(id);
        if found.is_none() {
            let detail = format!("{verb} a node that does not exist");
            let help = "name a node of the current version: a change cannot modify nodes that it adds";
            self.fault(DiagnosticCode::D03, id, &detail, help);
        }
        found
    }

    fn require_not_started(&mut self, id: &NodeId, verb: &str) {
        if (self.progress)(id) != NodeProgress::NotStarted {
            let detail = format!("{verb} a node that is neither pending nor blocked");
            self.fault(DiagnosticCode::D01, id, &detail, "add a new node and replace this one with it");
        }
        if self.old.node(id).is_some_and(|node| node.items().is_some() || node.is_undo()) {
            let detail = format!("{verb} a node that the engine made");
            self.fault(
                DiagnosticCode::D07,
                id,
                &detail,
                "replace or cancel it, or change the nodes around it",
            );
        }
    }

    fn patch(&mut self, node: &NodeId, set: Option<&NodeFields>) -> Vec<NodeId> {
        if let (Some(at), Some(set)) = (self.existing(node, "patches"), set) {
            self.set(at, set);
        }
        Vec::new()
    }

    fn delta(&mut self, delta: &Delta) -> Vec<NodeId> {
        if let Some(base) = delta.base.filter(|base| *base != self.old.version) {
            let detail = format!("written for version {base}, the current version is {}", self.old.version);
            self.fault(
                DiagnosticCode::D08,
                Diagnostic::PLAN,
                &detail,
                "write the change for the current version",
            );
        }
        for (id, fields) in &delta.set {
            match self.existing(id, "sets") {
                Some(at) => {
                    self.require_not_started(id, "sets");
                    self.set(at, fields);
                }
                None => check_forbidden(id, fields, &mut self.faults),
            }
        }
        for (id, deps) in &delta.rewire {
            if let Some(at) = self.existing(id, "rewires") {
                self.require_not_started(id, "rewires");
                self.rewire(at, deps);
            }
        }
        self.replace(&delta.replace);
        let cancel = self.cancel(delta);
        for node in &delta.add {
            let nowhere = Pointer::default;
            let node = node.clone().normalise(
                self.old.strict,
                self.settings,
                &nowhere,
                &mut self.room,
                &mut self.faults,
            );
            self.new.nodes.push(node);
        }
        cancel
    }

    fn set(&mut self, at: usize, fields: &NodeFields) {
        set(&mut self.new.nodes[at], fields, self.settings, &mut self.room, &mut self.faults);
    }

    fn rewire(&mut self, at: usize, deps: &[DepDraft]) {
        let node = &mut self.new.nodes[at];
        node.deps = deps.iter().map(|dep| dep.0.clone()).collect();
        if node.join == Some(Join::AllOf) || node.deps.is_empty() {
            node.join = None;
        }
        connect(node, self.old.strict);
    }

    fn replace(&mut self, replace: &BTreeMap<NodeId, NodeId>) {
        for old in replace.keys() {
            self.existing(old, "replaces");
        }
        if replace.is_empty() {
            return;
        }
        let rename = |id: &mut NodeId| {
            if let Some(new) = replace.get(id) {
                id.clone_from(new);
            }
        };
        for node in &mut self.new.nodes {
            if (self.progress)(&node.id) == NodeProgress::NotStarted {
                node.deps.iter_mut().for_each(|dep| rename(&mut dep.n));
                node.param_refs.values_mut().for_each(|reference| rename(&mut reference.from));
                node.reads.iter_mut().for_each(rename);
                node.when.iter_mut().for_each(|guard| rename(&mut guard.from));
                node.for_each.iter_mut().for_each(|list| rename(&mut list.from));
                let undo = node.undo.iter_mut().flat_map(|undo| undo.param_refs.values_mut());
                undo.for_each(|reference| rename(&mut reference.from));
                if let Some(Made::Collector { items, .. }) = node.made.as_deref_mut() {
                    items.iter_mut().for_each(rename);
                }
            }
        }
        self.new.outputs.iter_mut().for_each(rename);
    }

    /// Checks the nodes to cancel, sets the new outputs, and returns the nodes to cancel, ascending.
    fn cancel(&mut self, delta: &Delta) -> Vec<NodeId> {
        if let Some(outputs) = &delta.outputs {
            self.new.outputs.clone_from(outputs);
            self.new.outputs_declared = true;
        }
        let wanted: BTreeSet<&NodeId> = delta.cancel.iter().collect();
        let mut cancelled = BTreeSet::new();
        for &id in &wanted {
            if self.existing(id, "cancels").is_none() {
                continue;
            }
            if (self.progress)(id) == NodeProgress::Terminal {
                let detail = "cancels a node that is already terminal";
                self.fault(DiagnosticCode::D01, id, detail, "remove it from `cancel`");
            } else {
                cancelled.insert(id);
            }
        }
        let outputs = &self.new.outputs;
        if self.new.outputs_declared {
            let lost: BTreeSet<NodeId> = outputs.iter().filter(|id| wanted.contains(id)).cloned().collect();
            for id in lost {
                let help = "set `outputs` in the change to the remaining outputs";
                self.fault(DiagnosticCode::D04, id, "cancels a declared output", help);
            }
        } else if !outputs.is_empty() && outputs.iter().all(|id| wanted.contains(id)) {
            let help = "cancel the run instead, or name new `outputs`";
            self.fault(DiagnosticCode::D04, Diagnostic::PLAN, "cancels every output", help);
        } else {
            self.new.outputs.retain(|id| !cancelled.contains(id));
        }
        cancelled.into_iter().cloned().collect()
    }

    /// Validates the merged plan. Terminal nodes are exempt, except from V01 (duplicate id) and V19
    /// (aggregator with consumers).
    fn judge(&mut self) {
        let mut found = std::mem::take(&mut self.faults);
        validate::changed(&self.new, self.settings, &mut found);
        let exists = |name: &str| self.old.nodes.binary_search_by(|node| node.id.as_str().cmp(name)).is_ok();
        found.retain(|fault| match fault.code {
            code if code <= DiagnosticCode::D08 => true,
            DiagnosticCode::V01 | DiagnosticCode::V19 => true,
            _ => {
                let id = NodeId::from(fault.node.as_str());
                !exists(&fault.node) || (self.progress)(&id) != NodeProgress::Terminal
            }
        });
        self.faults = found;
    }
}

/// D02, if the plan has reached the last version allowed.
pub(super) fn is_last_version(plan: &Plan) -> Option<Diagnostic> {
    let most = plan.policy.max_versions;
    let detail = format!("version {} is the last of {most}", plan.version);
    let help = "start a new run, with a higher policy.max_versions if needed";
    (plan.version >= most).then(|| Diagnostic::new(DiagnosticCode::D02, Diagnostic::PLAN, detail, help))
}
