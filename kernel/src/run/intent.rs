//! The intent: the record before an attempt's start, with the identity of the work and the origin of its values.

use std::collections::{BTreeMap, BTreeSet};

use super::{RefDigests, Run};
use crate::event::{Accounts, AttemptIntent, Event, RunOpened};
use crate::id::{Digest, NodeId, RunId, Ticks};
use crate::lineage::{self, ExecutableSpec, Inputs};
use crate::plan::{Idempotency, Kind, Node};

/// Instances of a node within a run. Always 1: nothing starts a second instance yet.
pub const GENERATION: u32 = 1;

/// Facts about an attempt's start that the run itself does not know.
#[derive(Debug, Clone, Copy)]
pub struct IntentContext<'a> {
    /// The first record of the run.
    pub opened: &'a RunOpened,
    /// Digests of the values from other nodes.
    pub refs: &'a RefDigests,
    /// See [`executable_digest`].
    pub sigma: Digest,
    /// See [`Run::idempotency_key`].
    pub idempotency_key: Digest,
    /// Accounts after the charge for the slot; `None` without a slot.
    pub accounts: Option<Accounts>,
}

/// Digest of a node's executable: its tool in this version (`None`: unknown version), or the aggregator.
pub fn executable_digest(node: &Node, tool_version: Option<&str>) -> Digest {
    lineage::executable_digest(&executable(node, tool_version).document().expect("texts are canonical"))
}

pub(super) fn executable<'a>(node: &'a Node, tool_version: Option<&'a str>) -> ExecutableSpec<'a> {
    let kind = if node.kind == Kind::Aggregator { "aggregator" } else { "tool" };
    ExecutableSpec { kind, tool: node.tool.as_deref(), tool_version, ..ExecutableSpec::default() }
}

impl Run {
    /// Makes the intent of an attempt of `node`; `None` if the plan has no such node. The record has taken effect: append it
    /// before the attempt starts, durably if the attempt acts on the world.
    pub fn record_intent(&mut self, now: Ticks, node: &NodeId, intended: IntentContext<'_>) -> Option<Event> {
        let description = self.node(node)?;
        let instance = self.instance(node)?;
        let IntentContext { opened, refs, sigma, idempotency_key, accounts } = intended;
        let intent = Event::AttemptIntent(Box::new(AttemptIntent {
            node: node.clone(),
            generation: GENERATION,
            patch_count: instance.patch_count,
            attempt: instance.attempts,
            reuse: self.reuse(description, refs, sigma),
            idempotency_key,
            intent: opened.intent,
            policy_epoch: opened.policy_epoch,
            provenance: self.provenance(description),
            accounts,
        }));
        self.apply(&intent, now).expect("an intent applies to every node of the plan");
        Some(intent)
    }

    /// True if the node's work is still the work of its last intent: same tool, version and inputs. True without an intent.
    pub fn is_same_work(&self, node: &NodeId, refs: &RefDigests, sigma: Digest) -> bool {
        let written = self.instance(node).and_then(|instance| instance.identity);
        let now = self.node(node).map(|node| self.reuse(node, refs, sigma));
        written.is_none_or(|written| Some(written.reuse) == now)
    }

    /// The key by which a receiver recognises a repetition of the node's work: equal for every attempt until a patch changes
    /// the work, also in a fork of the run that began it.
    pub fn idempotency_key(&self, run: RunId, node: &NodeId) -> Digest {
        let instance = self.instance(node);
        if let Some(begun) = instance.and_then(|instance| instance.identity) {
            return begun.idempotency_key;
        }
        let patch_count = instance.map_or(0, |instance| instance.patch_count);
        lineage::idempotency_key(run, node, u64::from(GENERATION), u64::from(patch_count))
    }

    /// Identity of the work: the executable and its inputs.
    fn reuse(&self, node: &Node, refs: &RefDigests, sigma: Digest) -> Digest {
        let mut effects = BTreeMap::new();
        for receipt in self.receipts(node).into_values() {
            *effects.entry(receipt).or_default() += 1;
        }
        let identify = || {
            let inputs = Inputs { effects: &effects, params: &node.params, refs, world: None };
            let inputs = inputs.document().expect("plans and results were canonical when they came in");
            lineage::reuse(sigma, lineage::inputs_digest(&inputs))
        };
        match self.position(&node.id) {
            Some(at) if refs.is_empty() && effects.is_empty() => {
                self.plan.constant_identity(at, sigma, identify)
            }
            _ => identify(),
        }
    }

    /// Receipt of each dependency that acted on the world.
    pub(super) fn receipts(&self, node: &Node) -> BTreeMap<NodeId, Digest> {
        let mut receipts = BTreeMap::new();
        let sources = node.deps.iter().filter_map(|dep| self.node(&dep.n));
        for source in sources.filter(|source| source.reach().effect.acts()) {
            let Some(instance) = self.instance(&source.id) else { continue };
            if let (Some(done), Some(output)) = (instance.identity, &instance.output) {
                let key = (source.reach().idem != Idempotency::Natural).then_some(done.idempotency_key);
                receipts.insert(source.id.clone(), lineage::receipt(done.reuse, output.artifact, key));
            }
        }
        receipts
    }

    /// Origin of the node's values, sorted: the plan, and the tools behind the results it reads.
    fn provenance(&self, node: &Node) -> Vec<String> {
        let sources = self.sources(node);
        if sources.is_empty() {
            return vec!["plan".to_owned()];
        }
        let read = sources.iter().filter_map(|source| {
            let source = self.node(source)?;
            Some(format!("tool:{}", source.tool.as_deref().unwrap_or(source.id.as_str())))
        });
        let from: BTreeSet<String> = std::iter::once("plan".to_owned()).chain(read).collect();
        from.into_iter().collect()
    }
}
