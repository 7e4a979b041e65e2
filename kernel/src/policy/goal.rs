//! What a goal run remembers besides its nodes. Every field follows from the records of the run.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::answer::Answer;
use super::earlier;
use super::role::{ANSWER, control};
use super::{Call, CallEnd, CallIntent, FaultyAnswer, GoalTerms, GoalTools, Role};
use crate::event::ChangeCause;
use crate::id::{NodeId, Ticks};
use crate::json::Json;
use crate::plan::{Approval, NodeDraft, PlanDraft};
use crate::run::FailureCategory;

/// Cause of a conclusion.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Conclusion {
    /// The answer of this node.
    Node(NodeId),
    /// The time was up.
    Wall,
}

/// Terms, tools and memory of a goal run.
#[derive(Debug, Clone)]
pub struct Goal {
    pub(super) terms: Arc<GoalTerms>,
    pub(super) tools: Arc<dyn GoalTools>,
    /// Control nodes. A node that an operator's delta added is work under any id.
    pub(super) roles: BTreeMap<NodeId, Role>,
    /// Cause of the version that added a node; nodes of version 1 have none.
    pub(super) added_by: BTreeMap<NodeId, ChangeCause>,
    /// Nodes with an accepted delta.
    pub(super) accepted: BTreeSet<NodeId>,
    /// Nodes with a refused delta: everything that their answers ask for is passed over.
    pub(super) refused: BTreeSet<NodeId>,
    /// Families of nodes that the mode itself tried to add in vain.
    pub(super) refused_families: BTreeSet<Role>,
    pub(super) calls: Vec<Call>,
    /// Faulty answers, by the number of their call.
    faulty: BTreeMap<usize, FaultyAnswer>,
    /// Failed work that a later planner was asked about.
    pub(super) asked_about: BTreeSet<NodeId>,
    pub(super) conclusion: Option<Conclusion>,
    /// The last attempt of the answer started at or after the wall.
    pub(super) answer_is_late: bool,
    /// A person refused to raise the budget: the run ends with what is there.
    out_of_budget: bool,
}

/// Heading of the note of a person who refused a plan.
const REFUSED_BY_PERSON: &str = "a person read these steps and wants others: ";

/// A version of the plan as [`Goal::apply_version`] needs it.
pub(crate) struct Accepted<'a> {
    pub(crate) cause: &'a ChangeCause,
    pub(crate) added: &'a [NodeId],
    /// Failed nodes, control nodes among them.
    pub(crate) failed: Vec<NodeId>,
}

impl Goal {
    /// The goal of a run whose version 1 is [`opening_plan`].
    pub fn new(terms: Arc<GoalTerms>, tools: Arc<dyn GoalTools>) -> Goal {
        let roles = BTreeMap::from([opening(&terms)]);
        Goal {
            terms,
            tools,
            roles,
            added_by: BTreeMap::new(),
            accepted: BTreeSet::new(),
            refused: BTreeSet::new(),
            refused_families: BTreeSet::new(),
            calls: Vec::new(),
            faulty: BTreeMap::new(),
            asked_about: BTreeSet::new(),
            conclusion: None,
            answer_is_late: false,
            out_of_budget: false,
        }
    }

    /// The terms.
    pub fn terms(&self) -> &GoalTerms {
        &self.terms
    }

    /// Every call so far, in the order made.
    pub fn calls(&self) -> &[Call] {
        &self.calls
    }

    /// Role of a control node; `None` for work.
    pub fn role(&self, node: &NodeId) -> Option<Role> {
        self.roles.get(node).copied()
    }

    pub(super) fn opening(&self) -> NodeId {
        opening(&self.terms).0
    }

    /// True if the result of a planner or turn is a text or a search, without steps or calls.
    pub(crate) fn only_says(&self, node: &NodeId, result: &Json) -> bool {
        match self.role(node).and_then(|role| Answer::read(role, result)) {
            Some(Answer::Planned(plan)) => plan.steps.is_empty(),
            Some(Answer::Thought(turn)) => !turn.works(),
            Some(Answer::Reflected(_) | Answer::Observed(_)) | None => false,
        }
    }

    pub(crate) fn begin_call(&mut self, intent: CallIntent, output_tokens: u64) -> usize {
        self.calls.push(Call { intent, output_tokens, end: None, became_patch: false });
        self.calls.len() - 1
    }

    pub(crate) fn end_call(&mut self, number: usize, end: CallEnd, faulty: Option<FaultyAnswer>) {
        if let Some(call) = self.calls.get_mut(number) {
            call.output_tokens = end.output_tokens;
            call.intent.input_tokens = end.input_tokens.unwrap_or(call.intent.input_tokens);
            call.end = Some(end);
            self.faulty.extend(faulty.map(|faulty| (number, faulty)));
        }
    }

    /// Records a person's reason for refusing the plan of the opening node's last attempt. The next attempt sees the plan
    /// and the reason.
    pub(crate) fn refuse_plan(&mut self, node: &NodeId, attempt: u32, plan: &Json, note: &str) {
        let is_it = |call: &Call| call.is_by(node) && call.intent.attempt == attempt;
        let Some(number) = self.calls.iter().rposition(is_it) else { return };
        if let Some(end) = &mut self.calls[number].end {
            end.faults = end.faults.saturating_add(1);
        }
        let (answer, faults) = (plan.as_str().to_owned(), format!("{REFUSED_BY_PERSON}{note}"));
        self.faulty.insert(number, FaultyAnswer { answer, faults }.bounded());
    }

    /// The faulty answer of an attempt of a control node; `None` if it had none.
    pub fn faulty_answer(&self, node: &NodeId, attempt: u32) -> Option<&FaultyAnswer> {
        let is_it = |call: &Call| call.is_by(node) && call.intent.attempt == attempt;
        self.faulty.get(&self.calls.iter().rposition(is_it)?)
    }

    /// Failed nodes already submitted to the micro-planner, with the faults of an answer that yielded no patch.
    pub(super) fn refused_repairs(&self) -> impl Iterator<Item = (&NodeId, &str)> {
        self.faulty.iter().filter_map(|(number, faulty)| {
            let call = self.calls.get(*number)?;
            let is_refused = call.intent.role == Role::Micro && !call.became_patch;
            is_refused.then_some((&call.intent.node, faulty.faults.as_str()))
        })
    }

    /// Number of the call that an attempt has begun and not ended; `None` without one. An attempt that is repeated after a
    /// crash makes this call again instead of a new one.
    pub fn call_of(&self, node: &NodeId, attempt: u32) -> Option<u32> {
        let is_it = |call: &Call| call.is_by(node) && call.intent.attempt == attempt && call.end.is_none();
        self.calls.iter().rposition(is_it).map(|at| at as u32)
    }

    /// Category of the failure about which the micro-planner was to be asked after this attempt, if the budget did not allow the
    /// call.
    pub(crate) fn unmade_advice(&self, node: &NodeId, attempt: u32) -> Option<FailureCategory> {
        let last = self.calls.iter().rfind(|call| call.is_about(node) && call.intent.attempt == attempt)?;
        last.intent.signature.as_ref().filter(|_| !last.is_made()).map(|signature| signature.category)
    }

    pub(crate) fn set_tools(&mut self, tools: Arc<dyn GoalTools>) {
        self.tools = tools;
    }

    pub(crate) fn apply_version(&mut self, version: &Accepted<'_>) {
        match version.cause {
            ChangeCause::Node(node) => drop(self.accepted.insert(node.clone())),
            ChangeCause::Patch(node) => {
                if let Some(call) = self.calls.iter_mut().rfind(|call| call.is_about(node)) {
                    call.became_patch = true;
                }
            }
            ChangeCause::Mode(_)
            | ChangeCause::Operator
            | ChangeCause::Interject
            | ChangeCause::Replan
            | ChangeCause::Expand(_)
            | ChangeCause::UndoPolicy
            | ChangeCause::UndoOperator => {}
        }
        for node in version.added {
            self.added_by.insert(node.clone(), version.cause.clone());
            let role = Role::of_id(node.as_str()).filter(|_| *version.cause != ChangeCause::Operator);
            if let Some(role) = role {
                self.roles.insert(node.clone(), role);
            }
            // Every later planner is shown the failures of this moment (one replan for all of them, SGH §6.2).
            if role == Some(Role::Planner) {
                let work = version.failed.iter().filter(|node| !self.roles.contains_key(*node));
                self.asked_about.extend(work.cloned());
            }
        }
    }

    pub(crate) fn apply_refusal(&mut self, cause: &ChangeCause) {
        match cause {
            ChangeCause::Node(node) => drop(self.refused.insert(node.clone())),
            ChangeCause::Mode(role) => drop(self.refused_families.insert(*role)),
            ChangeCause::Patch(_)
            | ChangeCause::Operator
            | ChangeCause::Interject
            | ChangeCause::Replan
            | ChangeCause::Expand(_)
            | ChangeCause::UndoPolicy
            | ChangeCause::UndoOperator => {}
        }
    }

    pub(crate) fn apply_conclusion(&mut self, conclusion: &Conclusion) {
        self.conclusion.get_or_insert_with(|| conclusion.clone());
    }

    pub(crate) fn apply_start(&mut self, node: &NodeId, at: Ticks) {
        if node.as_str() == ANSWER {
            self.answer_is_late = self.is_late(at);
        }
    }

    /// Time at which the time of the run is up; `None` without a limit.
    pub(super) fn wall_at(&self) -> Option<Ticks> {
        self.terms.budgets.wall.map(|wall| self.terms.opened_at.saturating_add(wall))
    }

    pub(crate) fn run_out_of_budget(&mut self) {
        self.out_of_budget = true;
    }

    pub(crate) fn is_out_of_budget(&self) -> bool {
        self.out_of_budget
    }

    /// True at and after the wall, and once a person refused to raise the budget.
    pub(super) fn is_late(&self, now: Ticks) -> bool {
        self.out_of_budget || self.wall_at().is_some_and(|at| now >= at)
    }
}

fn opening(terms: &GoalTerms) -> (NodeId, Role) {
    let role = if terms.mode.opens_with_turn() { Role::Think } else { Role::Planner };
    (NodeId::from(format!("{}.1", role.family()).as_str()), role)
}

/// Version 1 of a goal run: a node that plans or takes the first turn, and is the only output; before it a node for each result of
/// an earlier run.
pub fn opening_plan(terms: &GoalTerms) -> PlanDraft {
    let (id, role) = opening(terms);
    let mut nodes: Vec<NodeDraft> =
        earlier::nodes(terms).map(|(id, result)| earlier::node(id, result)).collect();
    let sources: Vec<NodeId> = nodes.iter().map(|node| node.id.clone()).collect();
    let confirmed = terms.confirm.then_some(Approval::After);
    let node = NodeDraft {
        approval: confirmed,
        human_timeout: confirmed.map(|_| terms.human_timeout),
        ..control(role, id.clone(), &sources, terms)
    };
    nodes.push(node);
    PlanDraft { id: "goal".to_owned(), nodes, outputs: Some(vec![id]), ..PlanDraft::default() }
}
