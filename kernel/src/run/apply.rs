//! The effect of each record. Live execution and recovery change a run through [`Run::apply`] alone, so a recovered run
//! equals the run behind the records.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::Run;
use super::diagnosis::{Diagnosed, Diagnosis};
use super::node_status::{NodeInstance, NodeStatus, RecordedAnswer, ResolutionKind, WorkIdentity};
use crate::event::{
    ArtifactEdited, AttemptIntent, AttemptResult, ChangeCause, Event, Exposure, Failure, HumanAnswer,
    HumanRequest, HumanRequestKind, KeptIdentity, OperatorAct, Outcome, PlanRefusal, PlanVersion, ResultKept,
    Timer, TimerKind,
};
use crate::id::{NodeId, Ticks};
use crate::plan::{self, Plan, Revision};
use crate::policy::{Accepted, normalised};
use crate::run::{FailureCategory, NodeState};

/// A record that does not fit the run.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum IllegalStep {
    /// The current plan version has no such node.
    #[error("record names node {0}, which version {1} of the plan does not have")]
    UnknownNode(NodeId, u32),
    /// The record moves a node out of a state that the node is not in.
    #[error("node {node} is {actual}, not {recorded}")]
    WrongState {
        /// The node.
        node: NodeId,
        /// State of the node.
        actual: NodeState,
        /// Former state by the record.
        recorded: NodeState,
    },
    /// The node machine has no such transition.
    #[error("node {node} cannot go from {from} to {to} for {reason}")]
    NoArrow {
        /// The node.
        node: NodeId,
        /// Former state.
        from: NodeState,
        /// Next state.
        to: NodeState,
        /// Reason by the record.
        reason: String,
    },
    /// A plan version that cannot be applied.
    #[error("version {version} of the plan cannot be applied: {what}")]
    Change {
        /// Version by the record.
        version: u32,
        /// Description of the problem.
        what: String,
    },
    /// A part of the record that has a form of its own cannot be read.
    #[error("{what} cannot be read: {why}")]
    Unreadable {
        /// Name of the part.
        what: &'static str,
        /// Description of the problem.
        why: String,
    },
}

impl Run {
    /// Applies a record of time `at`. Purely informative records (gate decisions) change nothing.
    ///
    /// # Errors
    ///
    /// The record does not fit; the run may be half changed and must be dropped.
    pub fn apply(&mut self, event: &Event, at: Ticks) -> Result<(), IllegalStep> {
        match event {
            Event::NodeTransition(transition) => return self.apply_transition(transition, at),
            Event::PlanVersion(version) => return self.apply_version(version, at),
            Event::AttemptIntent(intent) => return self.apply_intent(intent),
            Event::AttemptResult(result) => return self.apply_result(result),
            Event::HumanRequest(request) => return self.apply_request(request),
            Event::HumanAnswer(answer) => return self.apply_answer(answer, at),
            Event::TimerSet(timer) => return self.apply_timer(timer),
            Event::Draining { node } => return self.apply_draining(node),
            Event::PlanRefused { step, .. } => self.apply_refusal(step),
            Event::ReplanAsked { for_contract } => self.apply_replan_request(*for_contract),
            Event::RecoveryExhausted { node, level: 3, .. } if node.as_str() == super::completion::PLAN => {
                self.close_recovery();
            }
            Event::Diagnosis { node, category, diagnosis, .. } => {
                return self.apply_diagnosis(node, *category, diagnosis);
            }
            Event::LateResult(result) => self.tally.count_late(result),
            Event::ModelCalled { call, .. } => self.model_usage.add(call),
            Event::GoalOpened { terms } => return self.apply_goal(terms),
            Event::CallBegun { intent, reserved } => return self.apply_call_begun(intent, *reserved),
            Event::CallEnded { call, end, faulty } => {
                if let Some(goal) = &mut self.goal {
                    goal.end_call(*call as usize, *end, faulty.clone());
                }
            }
            Event::TimerFired { node, kind: TimerKind::Human } => self.apply_silence(node),
            Event::RunTerms(terms) => self.terms = (**terms).clone(),
            Event::ReuseTerms(terms) => self.reuse = Some(terms.clone()),
            Event::ArtifactEdited(edited) => {
                self.edits.insert(edited.node.clone(), ArtifactEdited::clone(edited));
            }
            Event::ResultKept(kept) => {
                self.kept.insert(kept.node.clone(), ResultKept::clone(kept));
            }
            Event::KeptIdentity(kept) => {
                let KeptIdentity { node, reuse, idempotency_key } = KeptIdentity::clone(kept);
                self.kept_works.insert(node, WorkIdentity { reuse, idempotency_key });
            }
            Event::ApprovalKept(kept) => self.apply_kept_approval(kept),
            Event::Forked(forked) => self.apply_fork(forked),
            Event::ApprovalMaterial { node, material } => {
                self.instance_mut(node)?.material = Some(Box::new(*material));
            }
            Event::ApprovalCarried(carried) => return self.apply_carried(carried, at),
            Event::Exposed(exposure) => self.exposure = Exposure::clone(exposure),
            Event::ReuseDecided(decided) => return self.apply_reuse(decided),
            Event::CallTerms(terms) => self.call_budget.terms = Some(*terms),
            Event::BudgetShort { node, shortfall } => return self.apply_shortfall(node, shortfall),
            Event::BudgetRaised { by, .. } => self.call_budget.raise(*by),
            Event::GateVerdict(verdict) => return self.apply_verdict(verdict),
            Event::ContractChecked { version, holds } => {
                self.contract = Some((*version, *holds));
                self.tally.count_contract(*holds);
            }
            Event::RunRecovered { count } => {
                self.counters.recoveries = *count;
                // Lost attempts are judged again.
                self.instances.iter_mut().for_each(|instance| instance.judged = 0);
            }
            Event::Operator(
                OperatorAct::CancelPlan
                | OperatorAct::StopDenied
                | OperatorAct::StopLate
                | OperatorAct::StopUnwanted,
            ) => self.cancel_plan(),
            Event::Operator(OperatorAct::Conclude(conclusion)) => {
                if let Some(goal) = &mut self.goal {
                    goal.apply_conclusion(conclusion);
                }
                self.conclude();
            }
            Event::NodeFault { node, failure } => {
                self.instance_mut(node)?.failure = Some(Box::new(failure.clone()));
            }
            Event::WaitAnswered(answer) => {
                let at = self.find(&answer.node)?;
                self.apply_wait_answer(at, answer);
            }
            Event::Operator(OperatorAct::Cancel(_) | OperatorAct::Skip(_))
            | Event::RunOpened(_)
            | Event::TimerFired { kind: TimerKind::Backoff | TimerKind::Sleep, .. }
            | Event::RecoveryExhausted { .. }
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
            | Event::ClientRemoved { .. }
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
            | Event::CallReserved(_)
            | Event::CallSettled(_)
            | Event::BalanceDeposited { .. }
            | Event::ModelExchanged(_)
            | Event::Caged { .. }
            | Event::ResultRecorded(_)
            | Event::Granted(_)
            | Event::GrantedIn(_)
            | Event::GrantRevoked { .. }
            | Event::Retracted(_)
            | Event::RetractionCarriedOut { .. }
            | Event::RetractionLifted { .. }
            | Event::CandidateKept(_)
            | Event::ResultJudged(_)
            | Event::RunClosed { .. } => {}
        }
        Ok(())
    }

    pub(super) fn find(&self, node: &NodeId) -> Result<usize, IllegalStep> {
        self.position(node).ok_or_else(|| IllegalStep::UnknownNode(node.clone(), self.plan.version))
    }

    pub(super) fn instance_mut(&mut self, node: &NodeId) -> Result<&mut NodeInstance, IllegalStep> {
        let index = self.find(node)?;
        Ok(&mut self.instances[index])
    }

    fn apply_diagnosis(
        &mut self,
        node: &NodeId,
        category: FailureCategory,
        diagnosis: &Diagnosis,
    ) -> Result<(), IllegalStep> {
        let instance = &self.instances[self.find(node)?];
        let failure = instance.failure.as_ref();
        let made = Diagnosed {
            node: node.clone(),
            attempt: instance.attempts,
            category,
            message: failure.map(|failure| normalised(&failure.message)).unwrap_or_default(),
            cause: diagnosis.cause.clone(),
            level: diagnosis.level,
            confidence: diagnosis.confidence,
            mended: None,
        };
        self.diagnoses.add(made);
        Ok(())
    }

    fn apply_intent(&mut self, intent: &AttemptIntent) -> Result<(), IllegalStep> {
        let (reuse, idempotency_key) = (intent.reuse, intent.idempotency_key);
        let instance = self.instance_mut(&intent.node)?;
        instance.begun = intent.attempt;
        instance.identity = Some(WorkIdentity { reuse, idempotency_key });
        Ok(())
    }

    fn apply_result(&mut self, result: &AttemptResult) -> Result<(), IllegalStep> {
        self.counters.recoveries = 0;
        let index = self.find(&result.node)?;
        let node = &self.plan.nodes[index];
        self.tally.count(result, node.timeout, !node.contract.is_empty());
        let instance = &mut self.instances[index];
        instance.was_sent |= match &result.outcome {
            Outcome::Ok(_) => true,
            Outcome::Failed(failure) => {
                !matches!(failure.category, FailureCategory::ParamMissing | FailureCategory::GateDenied)
            }
        };
        match &result.outcome {
            Outcome::Ok(output) => instance.output = Some(output.clone()),
            Outcome::Failed(failure) => {
                self.diagnoses.settle(&result.node, false);
                self.counters.denials += u32::from(failure.category == FailureCategory::GateDenied);
                instance.failure = Some(Box::new(failure.clone()));
            }
        }
        Ok(())
    }

    fn apply_request(&mut self, request: &HumanRequest) -> Result<(), IllegalStep> {
        let instance = self.instance_mut(&request.node)?;
        instance.requests += 1;
        instance.material = None;
        match request.kind {
            HumanRequestKind::Before | HumanRequestKind::After | HumanRequestKind::Node => {
                let shown = request.shown.map(Box::new);
                if instance.shown != shown {
                    instance.shown_before = std::mem::replace(&mut instance.shown, shown);
                }
            }
            // What was approved before the attempt stays approved.
            HumanRequestKind::InDoubt | HumanRequestKind::Budget | HumanRequestKind::Wait => {}
        }
        if let NodeStatus::WaitingHuman { deadline, .. } = &mut instance.status {
            *deadline = request.deadline;
        }
        Ok(())
    }

    fn apply_answer(&mut self, answer: &HumanAnswer, at: Ticks) -> Result<(), IllegalStep> {
        let instance = self.instance_mut(&answer.node)?;
        if !instance.is_live() {
            instance.is_settled = true;
            return Ok(());
        }
        let (request, approve, by) = (instance.requests, answer.approve, answer.by.clone());
        instance.answered = Some(Box::new(RecordedAnswer { request, approve, by, at }));
        let ask = match instance.status {
            NodeStatus::WaitingHuman { ask, .. } => Some(ask),
            _ => None,
        };
        if ask == Some(HumanRequestKind::Budget) {
            self.answer_budget(approve);
            return Ok(());
        }
        if ask == Some(HumanRequestKind::InDoubt) {
            let how = match (approve, answer.redo) {
                (true, _) => ResolutionKind::Done,
                (false, true) => ResolutionKind::Redo,
                (false, false) => ResolutionKind::Fail,
            };
            instance.resolved = Some((instance.attempts, how));
        }
        if approve {
            let by = answer.by.clone();
            instance.approve(by, at, None);
        } else {
            instance.approvals.clear();
            let (category, message) = (FailureCategory::HumanRejection, answer.note.clone());
            instance.failure = Some(Box::new(Failure { category, message }));
            let plan = instance.output.as_ref().and_then(|output| output.inline.clone());
            let attempt = instance.attempts;
            if ask == Some(HumanRequestKind::After) {
                self.tally.count_rejected();
                let goal = self.goal.as_mut();
                if let (Some(goal), Some(plan), false) = (goal, plan, answer.note.is_empty()) {
                    goal.refuse_plan(&answer.node, attempt, &plan, &answer.note);
                }
            }
            // An earlier yes does not outlive a no, whatever is asked about later.
            self.kept_approvals.remove(&answer.node);
        }
        Ok(())
    }

    fn apply_timer(&mut self, timer: &Timer) -> Result<(), IllegalStep> {
        let (index, due) = (self.find(&timer.node)?, timer.at);
        match (timer.kind, &mut self.instances[index].status) {
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

    fn apply_draining(&mut self, node: &NodeId) -> Result<(), IllegalStep> {
        if let NodeStatus::Running { draining, .. } = &mut self.instance_mut(node)?.status {
            *draining = true;
        }
        Ok(())
    }

    fn apply_version(&mut self, version: &PlanVersion, at: Ticks) -> Result<(), IllegalStep> {
        let wrong = |what: String| IllegalStep::Change { version: version.version, what };
        let revision: Revision =
            serde_json::from_str(version.revision.as_str()).map_err(|error| wrong(error.to_string()))?;
        self.apply_change(&revision, &version.cause, at);
        if self.plan.version != version.version {
            return Err(wrong(format!("the plan is at {}", self.plan.version)));
        }
        Ok(())
    }

    /// Makes the next plan version. Nodes of both versions keep their instance, but an approval of a node that has changed is
    /// void: the person approved something else.
    fn apply_change(&mut self, revision: &Revision, cause: &ChangeCause, at: Ticks) {
        if matches!(cause, ChangeCause::UndoPolicy | ChangeCause::UndoOperator) {
            self.undo.outcome = Some(self.outcome());
            self.undo.rounds += 1;
            self.undo.is_asked = true;
            self.undo.is_by_operator |= *cause == ChangeCause::UndoOperator;
        }
        self.note_written(revision, cause);
        let merged = plan::apply_change(&self.plan, revision);
        let old = std::mem::replace(&mut self.plan, Arc::new(merged.plan));
        if self.goal.is_none() {
            self.note_superseded(&old, revision);
        }
        // Both versions list their nodes in ascending order of ids.
        let mut kept = std::mem::take(&mut self.instances).into_iter().zip(&old.nodes).peekable();
        let mut added = Vec::new();
        self.added.clear();
        for node in &self.plan.nodes {
            let instance = match kept.next_if(|(_, before)| before.id == node.id) {
                Some((mut instance, before)) => {
                    instance.approved &= before == node;
                    // A patch without new fields is other work too.
                    let is_patched = matches!(cause, ChangeCause::Patch(patched) if *patched == node.id);
                    if instance.attempts > 0 && (before != node || is_patched) {
                        self.replaced.push(before.clone());
                    }
                    instance
                }
                None => {
                    self.counts.live += 1;
                    added.push(node.id.clone());
                    self.added.push(self.instances.len());
                    if *cause == ChangeCause::Interject {
                        self.holds.push(node.id.clone());
                    }
                    NodeInstance::new(at)
                }
            };
            self.instances.push(instance);
        }
        if *cause == ChangeCause::Replan {
            self.diagnoses.replanned();
            self.replan.accepted += 1;
            self.replan.is_pending = false;
        }
        self.graph = Arc::clone(self.plan.graph());
        self.derive();
        let failed = self.instances().filter(|(_, instance)| instance.status == NodeStatus::Failed);
        let failed: Vec<NodeId> = match self.goal {
            Some(_) => failed.map(|(node, _)| node.id.clone()).collect(),
            None => return,
        };
        if let Some(goal) = &mut self.goal {
            goal.apply_version(&Accepted { cause, added: &added, failed });
        }
    }

    /// Keeps nodes as they were written, for a repetition, before a change of the engine takes their place.
    fn note_written(&mut self, revision: &Revision, cause: &ChangeCause) {
        match cause {
            ChangeCause::Expand(node) | ChangeCause::Patch(node) => {
                let before = self.node(node).cloned();
                if let (Some(before), false) = (before, self.written.contains_key(node)) {
                    self.written.insert(node.clone(), Box::new(before));
                }
            }
            ChangeCause::UndoPolicy | ChangeCause::UndoOperator | ChangeCause::Mode(_) => {}
            ChangeCause::Node(_) | ChangeCause::Operator | ChangeCause::Interject | ChangeCause::Replan => {
                revision.nodes.iter().for_each(|node| drop(self.written.remove(&node.id)));
            }
        }
    }

    /// Notes the nodes that the present version has replaced or cancelled: nothing needs them any more.
    fn note_superseded(&mut self, old: &Plan, revision: &Revision) {
        let (before, now) = (needed(old), needed(&self.plan));
        let superseded = before.into_iter().chain(&revision.cancel).filter(|node| !now.contains(node));
        self.superseded.extend(superseded.cloned());
    }

    fn apply_refusal(&mut self, step: &PlanRefusal) {
        if let (Some(goal), PlanRefusal::Delta { cause, .. }) = (&mut self.goal, step) {
            goal.apply_refusal(cause);
        }
        match step {
            PlanRefusal::Delta { cause: ChangeCause::Replan, .. } => self.end_replan(),
            PlanRefusal::Delta { .. } | PlanRefusal::Contract | PlanRefusal::UndoLive => {}
            PlanRefusal::UndoNothing => self.undo.is_asked = true,
            PlanRefusal::Replan => {
                self.end_replan();
                self.close_recovery();
            }
        }
    }

    fn apply_replan_request(&mut self, for_contract: bool) {
        self.replan.asked += 1;
        self.replan.is_pending = true;
        if for_contract {
            return;
        }
        for instance in &mut self.instances {
            instance.replan_requested |= instance.status == NodeStatus::Failed;
        }
    }

    // Each of these four may cancel blocked nodes, so every node needs a look.

    fn end_replan(&mut self) {
        self.replan.is_pending = false;
        self.dirty.mark_all(self.instances.len());
    }

    fn close_recovery(&mut self) {
        self.replan.is_closed = true;
        self.dirty.mark_all(self.instances.len());
    }

    pub(super) fn cancel_plan(&mut self) {
        self.cancelled = true;
        self.end_replan();
    }

    pub(super) fn conclude(&mut self) {
        self.concluded = true;
        self.end_replan();
    }
}

/// The nodes that others depend on, and the outputs.
fn needed(plan: &Plan) -> BTreeSet<&NodeId> {
    let sources = plan.nodes.iter().flat_map(|node| node.deps.iter().map(|dep| &dep.n));
    sources.chain(&plan.outputs).collect()
}
