//! What a repetition of a run does about each node: keep, reuse, execute, or ask first. The invoice of a dry run and the
//! submission take the same decision.

mod fate;
mod reach;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::Value;

use super::{Doubt, NodeInstance, NodeState, NodeStatus, Run, WorkIdentity};
use crate::event::{ArtifactEdited, Fresh, KeptIdentity, ResultKept};
use crate::id::{NodeId, RunId};
use crate::lineage::StalePolicy;
use crate::plan::{Approval, Effect, Kind, Node, Plan};
use crate::run::TransitionReason;

pub use fate::{EarlierApproval, Fate, Recomputation, RecomputationCause};
use reach::is_same_work;

/// The difference between a run and its repetition.
#[derive(Debug, Clone, Copy, Default)]
pub struct Change<'a> {
    /// The plan of the repetition; `None`: the last version of the run's.
    pub plan: Option<&'a Arc<Plan>>,
    /// The node whose result a person replaces.
    pub edited: Option<&'a NodeId>,
    /// Its result, and the content in the place of that; `None`: every part of it may change.
    pub contents: Option<(&'a Value, &'a Value)>,
    /// The node to execute in any case.
    pub from: Option<&'a NodeId>,
    /// The fate of earlier artifacts of people whose policy is to ask, where what they rest on may change; [`StalePolicy::Ask`]: not
    /// decided yet.
    pub stale: StalePolicy,
    /// What records, artifacts and tools say against results: such a node is executed.
    pub against: Option<&'a BTreeMap<NodeId, RecomputationCause>>,
}

/// The decision about a repetition.
#[derive(Debug, Clone, PartialEq)]
pub struct RepeatDecision {
    /// Plan of the new run.
    pub plan: Arc<Plan>,
    /// The plan with the lists that the run had expanded, as far as they are the same.
    pub whole: Arc<Plan>,
    /// Nodes to execute although results are recorded: the node that the caller asks for, and all below.
    fresh: Vec<NodeId>,
    /// Nodes that are executed for a cause of their own.
    pub(super) first: BTreeMap<NodeId, RecomputationCause>,
    /// Nodes with an earlier artifact of a person that stays, although what the node rests on may come out changed.
    pub stale_edits: Vec<NodeId>,
    /// Nodes with such an artifact about which a person has to decide first: it stays, or the node is executed.
    pub asked_edits: Vec<NodeId>,
    /// Nodes with such an artifact that is dropped, if what the node rests on comes out changed.
    dropped_edits: Vec<NodeId>,
    /// What becomes of each node, in the order of the plan. Nodes that only put results together, that a guard rules out or that a
    /// person's artifact replaces are not listed.
    pub fates: Vec<(NodeId, Fate)>,
}

impl RepeatDecision {
    /// The nodes that are executed at most, in the order of the plan.
    pub fn executed(&self) -> impl Iterator<Item = &Recomputation> {
        self.fates.iter().filter_map(|(_, fate)| match fate {
            Fate::Execute(line) => Some(line),
            Fate::Keep | Fate::Reuse | Fate::Ask(_) => None,
        })
    }

    /// Nodes to execute although results are recorded.
    pub fn fresh(&self) -> Fresh {
        if self.fresh.is_empty() { Fresh::Nothing } else { Fresh::Nodes(self.fresh.clone()) }
    }

    /// An artifact of a person as the repetition has it.
    pub(super) fn edit_to_repeat(&self, edit: &ArtifactEdited) -> ArtifactEdited {
        let is_dropped = self.dropped_edits.contains(&edit.node);
        let stale = if is_dropped { StalePolicy::Recompute } else { edit.stale };
        ArtifactEdited { stale, ..edit.clone() }
    }

    /// The first node that may have acted already.
    pub fn doubtful(&self) -> Option<(&NodeId, Doubt)> {
        self.fates.iter().find_map(|(node, fate)| match fate {
            Fate::Ask(doubt) => Some((node, *doubt)),
            Fate::Keep | Fate::Reuse | Fate::Execute(_) => None,
        })
    }
}

impl Run {
    /// Decides about each node of a repetition of this run.
    ///
    /// A changed node is executed, and so is what reads or follows an executed node. Everything else keeps its result. A result that
    /// comes out equal spares the nodes below it; an artifact of a person that stays whatever happens spares them too.
    pub fn repeat(&self, change: Change<'_>) -> RepeatDecision {
        let plan = change.plan.map_or_else(|| self.plan_to_repeat(), Arc::clone);
        let whole = self.with_lists_of(&plan);
        let (nodes, graph) = (&whole.nodes, whole.graph());
        let first = self.first_executed(&whole, change);
        let policy = |at: usize| match self.standing_edit(&nodes[at].id)?.stale {
            StalePolicy::Ask => Some(change.stale),
            decided => Some(decided),
        };
        let stays = |at: usize| policy(at) == Some(StalePolicy::Keep);
        let edited = change.edited.and_then(|edited| graph.position(edited));
        let is_free = |at: usize| edited != Some(at) && !stays(at);
        let of_edit = edited.iter().flat_map(|&at| graph.consumers[at].iter().map(|(consumer, _)| *consumer));
        let of_edit = of_edit.filter(|&at| change.reaches(&nodes[at]));
        let own = (0..nodes.len()).filter(|&at| first.contains_key(&nodes[at].id));
        // What stays an artifact of a person may be asked for: then everything below is executed.
        let is_asked_for = |at: usize| first.get(&nodes[at].id) == Some(&RecomputationCause::AskedFor);
        let is_start = |&at: &usize| is_free(at) || is_asked_for(at);
        let mut starts: Vec<usize> = of_edit.chain(own).filter(is_start).collect();
        let executed = loop {
            let mut executed = graph.spread(starts.clone(), is_free);
            starts.iter().for_each(|&at| executed[at] = is_free(at));
            let mut needed = self.needed_now(&whole, &executed);
            needed.retain(|at| !starts.contains(at));
            if needed.is_empty() {
                break executed;
            }
            starts.extend(needed);
        };
        let mut order: Vec<usize> = (0..nodes.len()).filter(|&at| edited != Some(at)).collect();
        order.sort_by_key(|&at| (graph.level[at], at));
        let fate = |at: usize| {
            let node = &nodes[at];
            if !executed[at] {
                return self.spared(&whole, node).map(|fate| (node.id.clone(), fate));
            }
            if let Some(doubt) = self.doubt(node) {
                return Some((node.id.clone(), Fate::Ask(doubt)));
            }
            let sources = graph.sources[at].iter().map(|(source, _)| *source);
            let changed = sources.filter(|&source| executed[source] || edited == Some(source));
            let inputs = changed.map(|at| nodes[at].id.clone()).collect();
            let guards = self.guards_kept(&whole, at, &executed);
            let line = self.recomputation(&whole, node, &first, (inputs, guards));
            Some((node.id.clone(), Fate::Execute(line)))
        };
        let fates = order.into_iter().filter_map(fate).collect();
        let mut fresh = change.from.map_or_else(Vec::new, |from| with_all_below(&whole, from));
        fresh.retain(|node| graph.position(node).is_some_and(|at| executed[at]));
        let rests_on_change = |at: usize| {
            let mut sources = graph.sources[at].iter().map(|(source, _)| *source);
            edited != Some(at) && sources.any(|source| executed[source] || edited == Some(source))
        };
        let edits = |of: StalePolicy| {
            let found = (0..nodes.len()).filter(|&at| policy(at) == Some(of) && rests_on_change(at));
            found.map(|at| nodes[at].id.clone()).collect::<Vec<_>>()
        };
        let stale_edits = edits(StalePolicy::Keep);
        let (asked_edits, dropped_edits) = (edits(StalePolicy::Ask), edits(StalePolicy::Recompute));
        RepeatDecision { plan, whole, fresh, first, stale_edits, asked_edits, dropped_edits, fates }
    }

    /// The results of this run, `from`, that the new run of a repetition is given.
    pub(super) fn results_kept(
        &self,
        from: RunId,
        decision: &RepeatDecision,
    ) -> Vec<(ResultKept, Option<KeptIdentity>)> {
        let result = |(node, fate): &(NodeId, Fate)| {
            let instance = self.instance(node)?;
            if matches!(fate, Fate::Execute(_) | Fate::Ask(_)) {
                return None;
            }
            let mut output = instance.result().cloned();
            // The plan has the changes that the result made.
            output
                .iter_mut()
                .filter_map(|output| output.directive.as_mut())
                .for_each(|directive| directive.delta = None);
            // A result that is kept again was made by the same run as before.
            let from = instance.made_in.unwrap_or(from);
            let identity = |WorkIdentity { reuse, idempotency_key }| KeptIdentity {
                node: node.clone(),
                reuse,
                idempotency_key,
            };
            Some((ResultKept { node: node.clone(), output, from }, instance.identity.map(identity)))
        };
        decision.fates.iter().filter_map(result).collect()
    }

    /// The plan of this run for a repetition: the last version with its lists as they were written, and without undos and nodes that
    /// others have replaced in vain.
    pub fn plan_to_repeat(&self) -> Arc<Plan> {
        if self.plan.version == 1 {
            return Arc::clone(&self.plan);
        }
        let is_kept = |(node, instance): &(&Node, &NodeInstance)| {
            let is_done = instance.status == NodeStatus::Executed;
            !node.is_undo() && node.parent().is_none() && (is_done || !self.superseded.contains(&node.id))
        };
        let written = |node: &Node| match node.items().and_then(|_| self.written.get(&node.id)) {
            Some(list) => Node::clone(list),
            None => node.clone(),
        };
        let nodes = self.instances().filter(is_kept).map(|(node, _)| written(node)).collect();
        Arc::new(self.plan.with_nodes(nodes))
    }

    /// The plan with the children that this run made of lists which are the same.
    fn with_lists_of(&self, plan: &Arc<Plan>) -> Arc<Plan> {
        let is_known = |node: &Node| {
            let expanded = self.node(&node.id).is_some_and(|now| now.items().is_some());
            expanded && self.written.get(&node.id).is_some_and(|written| is_same_work(written, node))
        };
        let lists: BTreeSet<&NodeId> = match self.written.is_empty() {
            true => BTreeSet::new(),
            false => plan.nodes.iter().filter(|node| is_known(node)).map(|node| &node.id).collect(),
        };
        if lists.is_empty() {
            return Arc::clone(plan);
        }
        let is_of_list = |node: &&Node| lists.contains(node.parent().unwrap_or(&node.id));
        let others = plan.nodes.iter().filter(|node| !lists.contains(&node.id));
        let mut nodes: Vec<Node> = others.chain(self.plan.nodes.iter().filter(is_of_list)).cloned().collect();
        nodes.sort_by(|a, b| a.id.cmp(&b.id));
        Arc::new(plan.with_nodes(nodes))
    }

    /// Nodes that were not needed in this run, and may be needed beside those that are executed.
    fn needed_now(&self, plan: &Plan, executed: &[bool]) -> Vec<usize> {
        let concludes = |at: usize| {
            let output = self.instance(&plan.nodes[at].id).and_then(|instance| instance.result());
            executed[at] && output.and_then(|output| output.directive.as_ref()).is_some_and(|it| it.conclude)
        };
        let may_go_on = (0..executed.len()).any(concludes);
        let graph = plan.graph();
        let is_needed = |&at: &usize| {
            let reason = self.instance(&plan.nodes[at].id).and_then(|instance| instance.reason.as_ref());
            let is_wanted = || graph.consumers[at].iter().any(|(consumer, _)| executed[*consumer]);
            !executed[at]
                && self.was_not_needed(&plan.nodes[at].id)
                && (is_wanted() || may_go_on && reason == Some(&TransitionReason::Concluded))
        };
        (0..executed.len()).filter(is_needed).collect()
    }

    /// Nodes that are executed for a cause of their own. The edited node is not among them.
    fn first_executed(&self, plan: &Plan, change: Change<'_>) -> BTreeMap<NodeId, RecomputationCause> {
        use RecomputationCause::{AskedFor, Changed, Expired, New, NoResult, Repeats, Undone};
        let against = |node: &Node| change.against.and_then(|against| against.get(&node.id)).copied();
        let undone = self.undone();
        let own = |node: &Node| {
            let Some(instance) = self.instance(&node.id) else { return Some(New) };
            let is_asked_for =
                change.from.is_some_and(|from| *from == node.id || Some(from) == node.parent());
            if is_asked_for {
                return Some(AskedFor);
            }
            // A change that does not reach a read leaves it as old as it is.
            if let Some(cause) = against(node).filter(|cause| *cause != Expired) {
                return Some(cause);
            }
            if undone.contains(&node.id) {
                return Some(Undone);
            }
            if change.plan.is_some() && !self.does_work_of(node) {
                return Some(Changed);
            }
            let has_ended = match instance.state() {
                NodeState::Executed => true,
                NodeState::Skipped => instance.is_guarded_out() || self.was_not_needed(&node.id),
                _ => false,
            };
            (!has_ended).then_some(NoResult)
        };
        let nodes = plan.nodes.iter().filter(|node| change.edited != Some(&node.id));
        let mut first: BTreeMap<NodeId, RecomputationCause> =
            nodes.clone().filter_map(|node| Some((node.id.clone(), own(node)?))).collect();
        let repeats = change.edited.is_none() && !first.values().any(|cause| cause.is_a_change());
        if repeats {
            let again = nodes.filter(|node| !is_put_together(node)).filter_map(|node| {
                let cause = if self.is_reusable_in(plan, node) { against(node)? } else { Repeats };
                Some((node, cause))
            });
            again.for_each(|(node, cause)| {
                first.entry(node.id.clone()).or_insert(cause);
            });
        }
        first
    }

    /// What becomes of a node that is not executed; `None`: it does nothing, or nothing that costs.
    fn spared(&self, plan: &Plan, node: &Node) -> Option<Fate> {
        let instance = self.instance(&node.id)?;
        let is_reusable = self.is_reusable_in(plan, node);
        let is_edited = is_reusable && self.standing_edit(&node.id).is_some();
        if instance.status != NodeStatus::Executed || is_put_together(node) || is_edited {
            return None;
        }
        Some(if is_reusable && !is_read(node) { Fate::Reuse } else { Fate::Keep })
    }

    fn recomputation(
        &self,
        plan: &Plan,
        node: &Node,
        first: &BTreeMap<NodeId, RecomputationCause>,
        (inputs, guards): (Vec<NodeId>, Vec<NodeId>),
    ) -> Recomputation {
        let is_guarded = !guards.is_empty();
        let approved = self.earlier_approval(plan, &node.id, first);
        Recomputation {
            node: node.id.clone(),
            cause: first.get(&node.id).copied(),
            inputs,
            impact: node.reach().impact,
            acts: node.acts(),
            asks: is_guarded
                || node.kind == Kind::HumanApproval
                || node.approval == Approval::Before
                || node.asks_after()
                || plan.policy.oversight.is_some() && node.reach().impact >= super::oversight::CONTROLS,
            approved: if is_guarded { Some(EarlierApproval::Void) } else { approved },
            guards,
        }
    }

    /// True if the plan ended the node because it was not needed: another candidate had won, the collector had ended, or the run
    /// was concluded.
    fn was_not_needed(&self, node: &NodeId) -> bool {
        use TransitionReason::{CollectorEnded, Concluded, SiblingWon};
        self.instance(node).is_some_and(|instance| {
            instance.status == NodeStatus::Skipped
                && matches!(instance.reason, Some(SiblingWon | CollectorEnded | Concluded))
        })
    }

    /// True if the node is given the result of the repeated run at once: no recorded result is looked up first.
    pub fn keeps_at_once(&self, node: &Node) -> bool {
        self.kept_result(&node.id).is_some() && (is_read(node) || !self.is_reusable(node))
    }

    /// True if the node is the same work as in this run: as it is in the last version, or as it was written before a list was
    /// expanded or a planner mended the node.
    fn does_work_of(&self, node: &Node) -> bool {
        let is_same = |known: &Node| is_same_work(known, node);
        self.node(&node.id).is_some_and(is_same)
            || self.written.get(&node.id).is_some_and(|written| is_same(written))
    }
}

/// The node and all nodes below, children of lists included; the node alone if the plan lacks it.
fn with_all_below(plan: &Plan, from: &NodeId) -> Vec<NodeId> {
    let is_start = |node: &Node| node.id == *from || node.parent() == Some(from);
    let starts: Vec<usize> = (0..plan.nodes.len()).filter(|&at| is_start(&plan.nodes[at])).collect();
    let mut reached = plan.graph().spread(starts.clone(), |_| true);
    starts.into_iter().for_each(|at| reached[at] = true);
    (0..reached.len()).filter(|&at| reached[at]).map(|at| plan.nodes[at].id.clone()).collect()
}

/// True if the node reads the world: its result may be kept at any age.
fn is_read(node: &Node) -> bool {
    node.reach().effect == Effect::Read
}

/// True if the node only puts results of others together, without a call.
fn is_put_together(node: &Node) -> bool {
    matches!(node.kind, Kind::Aggregator | Kind::Collector) && !node.calls_model()
}
