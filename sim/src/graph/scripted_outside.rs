//! The scripted outside of a simulated run: results of attempts, answers of people, and the planner.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use ostler_kernel::event::ChangeCause;
use ostler_kernel::id::NodeId;
use ostler_kernel::plan::{Delta, Node};
use ostler_kernel::run::{Patch, Planner, PlannerAnswer, PlannerRequest};

use super::script::{AddedScript, HumanScript, OutcomeScript, PatchScript, ReplanScript};
use super::simulated_run::Entry;

/// The scripted outside of the run: tools, models, people and planner.
pub(super) struct ScriptedOutside {
    pub(super) outcomes: BTreeMap<String, Vec<OutcomeScript>>,
    /// Outcomes used so far: node -> (patch count, number).
    taken: BTreeMap<NodeId, (u32, usize)>,
    patches: BTreeMap<String, Vec<Option<PatchScript>>>,
    pub(super) humans: BTreeMap<String, Vec<HumanScript>>,
    replans: Mutex<std::vec::IntoIter<Option<ReplanScript>>>,
    pub(super) contract_checks: usize,
    /// Outcomes of the nodes that a pending delta adds, by cause of the delta.
    added: Mutex<Vec<(ChangeCause, AddedScript)>>,
    /// Answers of the planner that take time: (node, or `*` for the plan; duration; the answer).
    delayed: Mutex<Vec<(NodeId, i64, Entry)>>,
}

impl Planner for ScriptedOutside {
    fn patch(&self, request: &PlannerRequest<'_>, node: &NodeId) -> PlannerAnswer<Patch> {
        let patch_count = request.run.instance(node).map_or(0, |instance| instance.patch_count as usize);
        let script = self
            .row(&self.patches, request.run.node(node))
            .and_then(|answers| answers.get(patch_count))
            .cloned()
            .flatten();
        let Some(PatchScript { refuse, set, dur, .. }) = script else { return PlannerAnswer::Refused };
        let patch = (!refuse).then_some(Patch { set });
        match (dur, patch) {
            (Some(dur), patch) => {
                lock(&self.delayed).push((
                    node.clone(),
                    dur,
                    Entry::Patched(node.clone(), patch.map(Box::new)),
                ));
                PlannerAnswer::Later
            }
            (None, Some(patch)) => PlannerAnswer::Now(patch),
            (None, None) => PlannerAnswer::Refused,
        }
    }

    fn replan(&self, _: &PlannerRequest<'_>) -> PlannerAnswer<Delta> {
        let Some(Some(ReplanScript { refuse, dur, delta })) = lock(&self.replans).next() else {
            return PlannerAnswer::Refused;
        };
        let delta = (!refuse).then(|| {
            self.stage_outcomes(ChangeCause::Replan, delta.script);
            delta.delta
        });
        match (dur, delta) {
            (Some(dur), delta) => {
                lock(&self.delayed).push((NodeId::from("*"), dur, Entry::Replanned(delta.map(Box::new))));
                PlannerAnswer::Later
            }
            (None, Some(delta)) => PlannerAnswer::Now(delta),
            (None, None) => PlannerAnswer::Refused,
        }
    }
}

impl ScriptedOutside {
    pub(super) fn new(
        outcomes: BTreeMap<String, Vec<OutcomeScript>>,
        patches: BTreeMap<String, Vec<Option<PatchScript>>>,
        humans: BTreeMap<String, Vec<HumanScript>>,
        replans: Vec<Option<ReplanScript>>,
    ) -> ScriptedOutside {
        ScriptedOutside {
            outcomes,
            taken: BTreeMap::new(),
            patches,
            humans,
            replans: Mutex::new(replans.into_iter()),
            contract_checks: 0,
            added: Mutex::default(),
            delayed: Mutex::default(),
        }
    }

    pub(super) fn adopt_outcomes(&mut self, cause: &ChangeCause) {
        let mut added = lock(&self.added);
        if let Some(at) = added.iter().position(|(sender, _)| sender == cause) {
            self.outcomes.extend(added.remove(at).1);
        }
    }

    pub(super) fn take_delayed(&self) -> Vec<(NodeId, i64, Entry)> {
        std::mem::take(&mut *lock(&self.delayed))
    }

    /// Keeps the outcomes of a delta's new nodes until the delta is accepted.
    pub(super) fn stage_outcomes(&self, cause: ChangeCause, script: AddedScript) {
        let mut added = lock(&self.added);
        added.retain(|(sender, _)| *sender != cause);
        added.push((cause, script));
    }

    /// The outcome of the next attempt of a node after `patch_count` patches.
    pub(super) fn next(&mut self, described: &Node, patch_count: u32) -> OutcomeScript {
        let node = &described.id;
        let list = match patch_count.checked_sub(1) {
            None => self.row(&self.outcomes, Some(described)),
            Some(answer) => {
                let answers = self.row(&self.patches, Some(described));
                answers
                    .and_then(|answers| answers.get(answer as usize)?.as_ref())
                    .map(|answer| &answer.outcomes)
            }
        };
        let list = list.cloned();
        let taken = self.taken.entry(node.clone()).or_default();
        if taken.0 != patch_count {
            *taken = (patch_count, 0);
        }
        let number = taken.1;
        taken.1 += 1;
        list.and_then(|list| list.get(number).or(list.last()).cloned()).unwrap_or_default()
    }

    /// The script row of a node; a child without a row uses the row of its collector.
    pub(super) fn row<'s, T>(&self, rows: &'s BTreeMap<String, T>, node: Option<&Node>) -> Option<&'s T> {
        let node = node?;
        rows.get(node.id.as_str()).or_else(|| rows.get(node.parent()?.as_str()))
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
