//! State that outlives a revision: the plan, the sources, records, overrides, the run, and the last decisions.

use std::collections::{BTreeMap, BTreeSet};

use ostler_kernel::id::{Digest, NodeId};
use ostler_kernel::lineage::{
    Decision, Frontier, Instance, Manifest, Override, Received, Record, Retractions,
};
use serde_json::{Map, Value};

use super::case::{Case, Source};
use super::function::{Content, Function};
use super::step::{Step, shape};
use crate::graph::CaseError;

/// Id of a run, as written.
pub(super) type RunName = String;

/// A result that the engine bound to a step, with a separate copy of the content.
#[derive(Debug, Clone)]
pub(super) struct Bound {
    pub(super) content: Content,
    pub(super) artifact: Digest,
    pub(super) run: RunName,
    pub(super) receipt: Digest,
}

/// Last decision about a step.
#[derive(Debug, Clone)]
pub(super) struct Decided {
    pub(super) decision: Decision<RunName>,
    pub(super) sigma: Digest,
    pub(super) identity: Option<Identity>,
    pub(super) published: Option<Published>,
    pub(super) generation: u64,
    pub(super) executed: bool,
    pub(super) frontier: Frontier,
    /// The step changes the world.
    pub(super) acts: bool,
}

/// Identity of a step with resolved inputs.
#[derive(Debug, Clone)]
pub(super) struct Identity {
    pub(super) inputs: Digest,
    pub(super) reuse: Digest,
    pub(super) received: Received,
}

/// Value passed to dependent steps.
#[derive(Debug, Clone)]
pub(super) struct Published {
    pub(super) artifact: Digest,
    pub(super) content: Content,
    pub(super) lineage: Digest,
    pub(super) receipt: Digest,
    /// Inputs of the artifact; for an override, the inputs at its base.
    pub(super) received: Received,
}

/// An edited artifact with its content.
#[derive(Debug, Clone)]
pub(super) struct Edit {
    pub(super) pin: Override,
    pub(super) content: Content,
}

#[derive(Debug, Default)]
pub(super) struct World {
    pub(super) nodes: BTreeMap<NodeId, Map<String, Value>>,
    pub(super) functions: BTreeMap<String, Function>,
    /// Executions of each function so far.
    pub(super) executions: BTreeMap<String, u64>,
    pub(super) sources: BTreeMap<String, Source>,
    pub(super) domain: String,
    pub(super) records: BTreeMap<(String, Digest), Record<RunName>>,
    /// The artifact store: bytes by digest.
    pub(super) stored: BTreeMap<Digest, String>,
    pub(super) retractions: Retractions,
    /// Records of effects that were undone.
    pub(super) undone: BTreeSet<(String, Digest)>,
    pub(super) edits: BTreeMap<NodeId, Edit>,
    /// Steps that the gate denies.
    pub(super) denied: BTreeSet<NodeId>,
    /// Manifest that the engine last bound, by domain and step.
    pub(super) manifests: BTreeMap<(String, NodeId), Manifest>,
    pub(super) run: RunName,
    pub(super) instances: BTreeMap<NodeId, Instance<Bound>>,
    pub(super) decided: BTreeMap<NodeId, Decided>,
}

impl World {
    pub(super) fn new(case: &mut Case) -> Result<World, CaseError> {
        let mut world = World {
            functions: std::mem::take(&mut case.fns),
            sources: std::mem::take(&mut case.sources),
            domain: "default".to_owned(),
            ..World::default()
        };
        for node in std::mem::take(&mut case.plan.nodes) {
            world.add(node)?;
        }
        Ok(world)
    }

    /// Adds a step. The first given function of a step stays.
    pub(super) fn add(&mut self, mut fields: Map<String, Value>) -> Result<(), CaseError> {
        let id = Step::read(&fields)?.id;
        fields.entry("fn").or_insert_with(|| Value::from(id.as_str()));
        if self.nodes.insert(id.clone(), fields).is_some() {
            return Err(shape(format!("two nodes {id}")));
        }
        Ok(())
    }

    pub(super) fn open(&mut self, run: &str) {
        if self.run != run {
            run.clone_into(&mut self.run);
            self.instances.clear();
        }
    }

    /// The steps of the plan by level, then id, level being the longest path from an entry.
    pub(super) fn steps_in_order(&self) -> Result<Vec<Step>, CaseError> {
        let mut steps: BTreeMap<NodeId, Step> = BTreeMap::new();
        for fields in self.nodes.values() {
            let step = Step::read(fields)?;
            steps.insert(step.id.clone(), step);
        }
        let mut levels: BTreeMap<&NodeId, usize> = BTreeMap::new();
        let mut waiting: Vec<&Step> = steps.values().collect();
        while !waiting.is_empty() {
            let before = waiting.len();
            let mut left = Vec::new();
            for step in waiting {
                let above: Option<Vec<usize>> =
                    step.above().into_iter().map(|id| levels.get(id).copied()).collect();
                match above {
                    Some(above) => {
                        levels.insert(&step.id, above.into_iter().max().map_or(0, |level| level + 1));
                    }
                    None => left.push(step),
                }
            }
            if left.len() == before {
                return Err(shape(format!(
                    "{}: on a cycle, or needs a node that does not exist",
                    left[0].id
                )));
            }
            waiting = left;
        }
        let mut ordered: Vec<(usize, NodeId)> =
            levels.iter().map(|(&id, &level)| (level, id.clone())).collect();
        ordered.sort_unstable();
        Ok(ordered.into_iter().filter_map(|(_, id)| steps.remove(&id)).collect())
    }
}
