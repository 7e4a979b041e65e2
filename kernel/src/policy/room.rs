//! What the budgets leave for control nodes.
//!
//! A node that does not fit is not added: a run that could not afford the call of a reflection would only carry a failed node.
//! Each control node that has still to call counts as one call with its base, so nodes that were added before keep their room.

use super::interjection::is_answered_by_person;
use super::{Call, Role, View};
use crate::plan::Node;
use crate::run::{NodeState, Run};

/// One node, version and path step are kept back for the node that holds the answer.
const RESERVE: u32 = 1;

/// Number of calls of the refused size that the suggested budget covers: the call, its answer, and the answer of the run.
const TRIES_SUGGESTED: u64 = 4;

/// Room for control nodes in one change of the plan.
pub(super) struct Room<'a> {
    view: View<'a>,
    is_open: bool,
    nodes: i64,
    calls: i64,
    /// `None`: no limit.
    tokens: Option<i64>,
    replans: i64,
}

impl<'a> Room<'a> {
    /// The room of a change that adds `steps` steps besides control nodes.
    pub(super) fn new(view: View<'a>, steps: usize) -> Room<'a> {
        let (terms, policy) = (&view.goal.terms, &view.run.plan().policy);
        let calls = &view.goal.calls;
        let used = used_tokens(calls);
        let (promised, promised_tokens) = view.promised();
        let is_replan = |node: &Node| node.id != view.goal.opening() && !view.goes_on_from_search(node);
        let planners = view.of_role(Role::Planner).filter(|(node, _)| is_replan(node)).count();
        let signed = |count: u64| i64::try_from(count).unwrap_or(i64::MAX);
        let nodes = i64::from(policy.max_nodes.saturating_sub(RESERVE));
        Room {
            is_open: view.run.plan().version < policy.max_versions.saturating_sub(RESERVE) && !view.is_late(),
            nodes: nodes - view.run.plan().nodes.len() as i64 - steps as i64,
            calls: signed(terms.budgets.model_calls) - signed(made(calls)) - promised,
            tokens: view
                .token_budget()
                .map(|most| signed(most).saturating_sub(signed(used)).saturating_sub(promised_tokens)),
            replans: i64::from(terms.budgets.replans) - planners as i64,
            view,
        }
    }

    /// True if a node of this role fits.
    pub(super) fn fits(&self, role: Role) -> bool {
        self.fits_after_search(role) && (role != Role::Planner || self.replans > 0)
    }

    /// True if a node of this role fits that goes on from a search: a search is no replan.
    fn fits_after_search(&self, role: Role) -> bool {
        self.is_open
            && self.nodes > 0
            && self.calls > 0
            && self.tokens.is_none_or(|left| left >= self.view.base_tokens(role))
    }

    /// Takes the room of a node of this role; `false` if none fits.
    pub(super) fn take(&mut self, role: Role) -> bool {
        let fits = self.fits(role);
        if fits {
            self.nodes -= 1;
            self.calls -= 1;
            self.tokens = self.tokens.map(|left| left.saturating_sub(self.view.base_tokens(role)));
            self.replans -= i64::from(role == Role::Planner);
        }
        fits
    }
}

/// Number of calls without those that the budget did not allow.
fn made(calls: &[Call]) -> u64 {
    calls.iter().filter(|call| call.is_made()).count() as u64
}

/// Tokens of all calls. A provider may tell any number.
fn used_tokens(calls: &[Call]) -> u64 {
    let of = |call: &Call| call.intent.input_tokens.saturating_add(call.output_tokens);
    calls.iter().map(of).fold(0, u64::saturating_add)
}

impl View<'_> {
    /// True if a control node of this role fits by itself.
    pub(super) fn fits(self, role: Role) -> bool {
        Room::new(self, 0).fits(role)
    }

    /// True if a node of this role fits that goes on from a search.
    pub(super) fn fits_after_search(self, role: Role) -> bool {
        Room::new(self, 0).fits_after_search(role)
    }

    /// The token budget as far as the mode has to keep it: none while the ledger would ask a person first.
    fn token_budget(self) -> Option<u64> {
        let budget = self.goal.terms.budgets.tokens.filter(|_| !self.run.leaves_tokens_to_ledger());
        budget.map(|tokens| tokens.saturating_add(self.run.budget_raised().tokens))
    }

    pub(super) fn base_tokens(self, role: Role) -> i64 {
        let index = if role.sees_tools() { self.goal.tools.index_tokens() } else { 0 };
        i64::try_from(self.goal.terms.base.of(role).saturating_add(index)).unwrap_or(i64::MAX)
    }

    /// Calls that existing control nodes have still to make, and the base tokens of these calls. A running node has been
    /// counted, and a person makes no call.
    fn promised(self) -> (i64, i64) {
        let (mut calls, mut tokens) = (0, 0i64);
        for (node, instance) in self.nodes() {
            let Some(role) = self.role(&node.id) else { continue };
            let is_due = match instance.state() {
                NodeState::Pending | NodeState::Ready | NodeState::Blocked | NodeState::FailedRetryable => {
                    true
                }
                NodeState::Running
                | NodeState::WaitingHuman
                | NodeState::Executed
                | NodeState::Failed
                | NodeState::Cancelled
                | NodeState::Skipped => false,
            };
            if is_due && !is_answered_by_person(node) {
                calls += 1;
                tokens = tokens.saturating_add(self.base_tokens(role));
            }
        }
        (calls, tokens)
    }

    /// True if a call with so many tokens of input is within the budgets.
    pub(super) fn affords_call(self, input_tokens: u64) -> bool {
        let calls = &self.goal.calls;
        let used = used_tokens(calls);
        self.has_calls() && self.token_budget().is_none_or(|most| used.saturating_add(input_tokens) <= most)
    }

    /// True if the budget of calls allows another one.
    pub(super) fn has_calls(self) -> bool {
        made(&self.goal.calls) < self.goal.terms.budgets.model_calls
    }

    /// Reason, for people, why a call with this many input tokens exceeds the budgets; `None` within the budgets.
    pub(super) fn shortage(self, input_tokens: u64) -> Option<String> {
        if self.affords_call(input_tokens) {
            return None;
        }
        if !self.has_calls() {
            return Some(self.calls_used_up());
        }
        let most = self.token_budget().unwrap_or(u64::MAX);
        let left = most.saturating_sub(used_tokens(&self.goal.calls));
        let enough = most.saturating_add(input_tokens.saturating_mul(TRIES_SUGGESTED)).div_ceil(1000);
        Some(format!(
            "the prompt of its call alone needs {input_tokens} tokens; {left} of {most} are left; ask again with more, such as \
             --budget {}tokens",
            enough.saturating_mul(1000)
        ))
    }

    /// Message for people: no call is left.
    pub(super) fn calls_used_up(self) -> String {
        let most = self.goal.terms.budgets.model_calls;
        format!("the model calls of the run are used up (--calls {most})")
    }
}

impl Run {
    /// Limits of versions, nodes and path lengths for any change but the one that adds the answer of a goal run.
    pub(crate) fn reserve(&self) -> u32 {
        if self.goal().is_some() { RESERVE } else { 0 }
    }
}
