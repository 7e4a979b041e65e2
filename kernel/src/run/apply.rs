//! The effect of each record: the only thing that changes a run.

use std::sync::Arc;

use super::Run;
use super::node_status::{NodeInstance, NodeStatus, RecordedAnswer, ResolutionKind, WorkIdentity};
use super::ordered_joins::may_win;
use crate::event::{
    ChangeCause, Event, Failure, HumanRequestKind, NodeTransition, OperatorAct, Outcome, PlanRefusal,
    TimerKind,
};
use crate::id::{NodeId, Ticks};
use crate::plan::{self, Kind, Revision};
use crate::run::{FailureCategory, NodeState, TransitionReason};

/// A record that does not fit the run it is applied to.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum IllegalStep {
    /// No such node in this version.
    #[error("record names node {0}, which version {1} of the plan does not have")]
    UnknownNode(NodeId, u32),
    /// The node is somewhere else.
    #[error("node {node} is {actual}, not {recorded}")]
    WrongState {
        /// Which node.
        node: NodeId,
        /// Where it is.
        actual: NodeState,
        /// Where the record says it is.
        recorded: NodeState,
    },
    /// The node machine has no such arrow.
    #[error("node {node} cannot go from {from} to {to} for {reason}")]
    NoArrow {
        /// Which node.
        node: NodeId,
        /// From where.
        from: NodeState,
        /// To where.
        to: NodeState,
        /// Why.
        reason: String,
    },
    /// A change of the plan that cannot be applied again.
    #[error("version {version} of the plan cannot be applied: {what}")]
    Change {
        /// The version it should make.
        version: u32,
        /// What is wrong.
        what: String,
    },
}

impl Run {
    /// Lets a record take effect. `at` is the time it was recorded. Records that only tell of something (gate
    /// decisions) change nothing here.
    pub fn apply(&mut self, event: &Event, at: Ticks) -> Result<(), IllegalStep> {
        match event {
            Event::NodeTransition(transition) => self.apply_transition(transition, at)?,
            Event::PlanVersion(version) => {
                let wrong = |what: String| IllegalStep::Change { version: version.version, what };
                let revision: Revision = serde_json::from_str(version.revision.as_str())
                    .map_err(|error| wrong(error.to_string()))?;
                self.apply_change(&revision, &version.cause, at);
                if self.plan.version != version.version {
                    return Err(wrong(format!("the plan is at {}", self.plan.version)));
                }
            }
            Event::PlanRefused { step, .. } => match step {
                PlanRefusal::Delta { cause: ChangeCause::Replan, .. } => self.end_replan(),
                PlanRefusal::Delta { .. } | PlanRefusal::Contract => {}
                PlanRefusal::Replan => {
                    self.end_replan();
                    self.close_recovery();
                }
            },
            Event::AttemptIntent(intent) => {
                let index = self.find(&intent.node)?;
                let (reuse, idempotency_key) = (intent.reuse, intent.idempotency_key);
                self.instances[index].identity = Some(WorkIdentity { reuse, idempotency_key });
            }
            Event::AttemptResult(result) => {
                self.recoveries = 0;
                let index = self.find(&result.node)?;
                let node = &self.plan.nodes[index];
                self.tally.count(result, node.timeout, !node.contract.is_empty());
                let instance = &mut self.instances[index];
                match &result.outcome {
                    Outcome::Ok(output) => instance.output = Some(output.clone()),
                    Outcome::Failed(failure) => {
                        self.denials += u32::from(failure.category == FailureCategory::GateDenied);
                        instance.failure = Some(Box::new(failure.clone()));
                    }
                }
            }
            Event::HumanRequest(request) => {
                let index = self.find(&request.node)?;
                let instance = &mut self.instances[index];
                instance.requests += 1;
                if request.kind != HumanRequestKind::InDoubt {
                    instance.shown = request.shown.map(Box::new);
                }
                if let NodeStatus::WaitingHuman { deadline, .. } = &mut instance.status {
                    *deadline = request.deadline;
                }
            }
            Event::HumanAnswer(answer) => {
                let index = self.find(&answer.node)?;
                let instance = &mut self.instances[index];
                let (request, approve, by) = (instance.requests, answer.approve, answer.by.clone());
                instance.answered = Some(Box::new(RecordedAnswer { request, approve, by, at }));
                let ask = match instance.status {
                    NodeStatus::WaitingHuman { ask, .. } => Some(ask),
                    _ => None,
                };
                if ask == Some(HumanRequestKind::InDoubt) {
                    let how = match (approve, answer.redo) {
                        (true, _) => ResolutionKind::Done,
                        (false, true) => ResolutionKind::Redo,
                        (false, false) => ResolutionKind::Fail,
                    };
                    instance.resolved = Some((instance.attempts, how));
                }
                let of_result = ask == Some(HumanRequestKind::After);
                if !approve {
                    if of_result {
                        self.tally.count_rejected();
                    }
                    let message = answer.note.clone();
                    instance.failure =
                        Some(Box::new(Failure { category: FailureCategory::HumanRejection, message }));
                }
            }
            Event::TimerSet(timer) => self.apply_timer(&timer.node, timer.kind, timer.at)?,
            Event::Draining { node } => {
                let index = self.find(node)?;
                if let NodeStatus::Running { draining, .. } = &mut self.instances[index].status {
                    *draining = true;
                }
            }
            Event::ReplanAsked { for_contract } => {
                self.replans += 1;
                self.replan_pending = true;
                for instance in &mut self.instances {
                    if !for_contract && instance.status == NodeStatus::Failed {
                        instance.replan_requested = true;
                    }
                }
            }
            Event::RecoveryExhausted { node, level: 3, .. } if node.as_str() == super::completion::PLAN => {
                self.close_recovery();
            }
            Event::LateResult(result) => self.tally.count_late(result),
            Event::RunTerms(terms) => self.terms = (**terms).clone(),
            Event::ContractChecked { version, holds } => {
                self.contract = Some((*version, *holds));
                self.tally.count_contract(*holds);
            }
            Event::RunRecovered { count } => self.recoveries = *count,
            Event::Operator(
                OperatorAct::CancelPlan
                | OperatorAct::StopDenied
                | OperatorAct::StopLate
                | OperatorAct::StopUnwanted,
            ) => self.cancel_plan(),
            Event::Operator(OperatorAct::Cancel(_) | OperatorAct::Skip(_))
            | Event::RunOpened(_)
            | Event::TimerFired { .. }
            | Event::RecoveryExhausted { .. }
            | Event::Diagnosis { .. }
            | Event::GateDecision(_)
            | Event::AgentRegistered { .. }
            | Event::AgentQuarantined { .. }
            | Event::AgentReleased { .. }
            | Event::AgentProfiled { .. }
            | Event::Pipeline(_)
            | Event::Published(_)
            | Event::Parked { .. }
            | Event::ClientSet { .. }
            | Event::CreditDeposited { .. }
            | Event::OutOfCredit { .. }
            | Event::Evaluated(_)
            | Event::AttemptProgress(_)
            | Event::StepIntent(_)
            | Event::StepResult(_)
            | Event::StepInDoubt { .. }
            | Event::ChildRun { .. }
            | Event::Appraised(_)
            | Event::Verdict(_)
            | Event::AgentOffered { .. }
            | Event::Market { .. }
            | Event::ContractBroken { .. }
            | Event::RunClosed { .. } => {}
        }
        Ok(())
    }

    fn find(&self, node: &NodeId) -> Result<usize, IllegalStep> {
        self.position(node).ok_or_else(|| IllegalStep::UnknownNode(node.clone(), self.plan.version))
    }

    fn apply_transition(&mut self, transition: &NodeTransition, at: Ticks) -> Result<(), IllegalStep> {
        let NodeTransition { node, from, to, reason, .. } = transition;
        let index = self.find(node)?;
        let actual = self.instances[index].state();
        if actual != *from {
            return Err(IllegalStep::WrongState { node: node.clone(), actual, recorded: *from });
        }
        if !from.has_arrow(*to, reason) {
            let (node, reason) = (node.clone(), reason.to_string());
            return Err(IllegalStep::NoArrow { node, from: *from, to: *to, reason });
        }
        let drained = self.instances[index].is_draining();
        self.move_to(index, NodeStatus::after(*to, reason), reason, at);
        let instance = &mut self.instances[index];
        match (to, reason) {
            (NodeState::Running, _) => {
                instance.attempts += 1;
                instance.output = None;
                instance.failure = None;
            }
            (NodeState::WaitingHuman, TransitionReason::ApproveBefore) => instance.approved = false,
            (NodeState::Ready, TransitionReason::Approved) => instance.approved = true,
            (NodeState::Pending, TransitionReason::Retry) => instance.retries += 1,
            (NodeState::Pending, TransitionReason::Patched) => {
                instance.retries = 0;
                instance.patch_count += 1;
                instance.approved = false;
            }
            (NodeState::Executed, _) if !drained => {
                let concludes = instance.output.as_ref().and_then(|output| output.directive.as_ref());
                if concludes.is_some_and(|directive| directive.conclude) {
                    self.conclude();
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// Puts a node where it now stands and keeps up every count that depends on it.
    fn move_to(&mut self, index: usize, status: NodeStatus, reason: &TransitionReason, at: Ticks) {
        let before = std::mem::replace(&mut self.instances[index].status, status);
        self.count(index, &before, false);
        let after = self.instances[index].status.clone();
        self.count(index, &after, true);
        let instance = &mut self.instances[index];
        instance.reason = Some(reason.clone());
        instance.since = at;
        self.dirty.mark(index);
        let state = after.state();
        if state.is_terminal() {
            self.commit(index, state);
        }
        if may_win(&before) != may_win(&after) {
            self.pass_turn(index, may_win(&after));
        }
    }

    fn count(&mut self, index: usize, status: &NodeStatus, enters: bool) {
        let counts = &mut self.counts;
        let count = match status {
            NodeStatus::Running { sleep_until: Some(_), .. } => &mut counts.sleeping,
            NodeStatus::Running { sleep_until: None, .. } => &mut counts.running,
            NodeStatus::WaitingHuman { .. } => &mut counts.waiting,
            NodeStatus::FailedRetryable { .. } => &mut counts.retryable,
            NodeStatus::Ready => {
                let key = (self.graph.level[index], index);
                let _ = if enters { self.ready.insert(key) } else { self.ready.remove(&key) };
                return;
            }
            NodeStatus::Executed | NodeStatus::Failed | NodeStatus::Cancelled | NodeStatus::Skipped => {
                counts.live -= usize::from(enters);
                return;
            }
            NodeStatus::Pending | NodeStatus::Held | NodeStatus::Upstream { .. } => return,
        };
        if enters {
            *count += 1;
        } else {
            *count -= 1;
        }
    }

    /// A node became terminal: its consumers, the demand on its sources and its siblings have changed.
    fn commit(&mut self, index: usize, state: NodeState) {
        self.commits += 1;
        self.instances[index].commit_number = self.commits;
        let graph = Arc::clone(&self.graph);
        for &(consumer, on) in &graph.consumers[index] {
            let join = self.plan.nodes[consumer].join;
            let before = self.joins[consumer].winner();
            self.joins[consumer].commit(join, on, index, state);
            self.dirty.mark(consumer);
            if before.is_none() && self.joins[consumer].winner().is_some() {
                graph.sources[consumer].iter().for_each(|&(sibling, _)| self.dirty.mark(sibling));
            }
        }
        graph.sources[index].iter().for_each(|&(source, _)| self.dirty.mark(source));
        self.end_interjection(index, state);
    }

    /// What held the run lets it go. If it came to nothing the run is cancelled, as somebody tried to intervene: it failed, or
    /// whom the operator asked said no or nothing. Who cancels or skips it only releases what it holds.
    fn end_interjection(&mut self, index: usize, state: NodeState) {
        let node = &self.plan.nodes[index];
        let hold = self.holds.iter().position(|held_by| *held_by == node.id);
        let (failed, is_interjection) = (state == NodeState::Failed, node.kind == Kind::Interjection);
        let reason = &self.instances[index].reason;
        let refused =
            matches!(reason, Some(TransitionReason::HumanRejected | TransitionReason::HumanTimeout));
        if let Some(hold) = hold {
            self.holds.remove(hold);
            self.dirty.mark_all(self.instances.len());
        }
        if failed && is_interjection || hold.is_some() && (failed || refused) {
            self.cancel_plan();
        }
    }

    /// A candidate of ordered joins may win no more, so that the turn of the next one may have come; or may win again.
    fn pass_turn(&mut self, index: usize, may_win: bool) {
        for &(consumer, _) in &self.graph.consumers[index] {
            if let Some(next) = self.ordered_joins.set(consumer, index, may_win) {
                self.dirty.mark(next);
            }
        }
    }

    fn apply_timer(&mut self, node: &NodeId, kind: TimerKind, due: Ticks) -> Result<(), IllegalStep> {
        let index = self.find(node)?;
        let status = &mut self.instances[index].status;
        match (kind, status) {
            (TimerKind::Backoff, NodeStatus::FailedRetryable { retry_at, .. }) => *retry_at = Some(due),
            (TimerKind::Sleep, NodeStatus::Running { sleep_until, .. }) if sleep_until.is_none() => {
                *sleep_until = Some(due);
                self.counts.running -= 1;
                self.counts.sleeping += 1;
            }
            (TimerKind::Human, NodeStatus::WaitingHuman { deadline, .. }) => *deadline = Some(due),
            _ => {}
        }
        Ok(())
    }

    fn apply_change(&mut self, revision: &Revision, cause: &ChangeCause, at: Ticks) {
        let merged = plan::apply_change(&self.plan, revision);
        let old = std::mem::replace(&mut self.plan, Arc::new(merged.plan));
        let mut kept = std::mem::take(&mut self.instances).into_iter().zip(&old.nodes).peekable();
        for node in &self.plan.nodes {
            let instance = match kept.next_if(|(_, before)| before.id == node.id) {
                Some((mut instance, before)) => {
                    instance.approved &= before == node;
                    instance
                }
                None => {
                    self.counts.live += 1;
                    if *cause == ChangeCause::Interject {
                        self.holds.push(node.id.clone());
                    }
                    NodeInstance::new(at)
                }
            };
            self.instances.push(instance);
        }
        if *cause == ChangeCause::Replan {
            self.replanned += 1;
            self.replan_pending = false;
        }
        self.graph = Arc::clone(self.plan.graph());
        self.derive();
    }

    fn end_replan(&mut self) {
        self.replan_pending = false;
        self.dirty.mark_all(self.instances.len());
    }

    fn close_recovery(&mut self) {
        self.recovery_closed = true;
        self.dirty.mark_all(self.instances.len());
    }

    fn cancel_plan(&mut self) {
        self.cancelled = true;
        self.end_replan();
    }

    fn conclude(&mut self) {
        self.concluded = true;
        self.end_replan();
    }
}
