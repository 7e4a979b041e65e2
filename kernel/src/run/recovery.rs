//! Recovery levels 1 and 2 of a failed node: retry, patch. (Level 3, replan, concerns the whole run: see `completion`.)
//!
//! A level is tried once the levels below it are exhausted or cannot help. An exhausted level is recorded, so the journal
//! explains every failure. A failed node is terminal, hence levels 1 and 2 act while the node is `failed_retryable`, and `failed`
//! means that both are exhausted.

use super::Run;
use super::decision::Decision;
use super::diagnosis::{CAUSE_CHARS_MAX, Diagnosis, DiagnosisRequest};
use super::planner::PlannerAnswer;
use crate::event::{Event, Failure, Timer, TimerKind};
use crate::id::{NodeId, Ticks};
use crate::lineage;
use crate::plan::Policy;
use crate::run::{FailureCategory, NodeState, RecoveryStrategy, TransitionReason};

/// The level of a new version of the plan, and that of a person.
const REPLAN: u8 = 3;
const PERSON: u8 = 4;

/// Backoff before retry number `retry`, counted from 1 since the last patch: `min(base * 2^(retry-1), cap)`.
///
/// ```
/// # use ostler_kernel::{plan::Policy, run::backoff};
/// let policy = Policy::SIMULATION; // base 1, cap 60
/// assert_eq!([1, 2, 6, 7, 200].map(|retry| backoff(&policy, retry)), [1, 2, 32, 60, 60]);
/// ```
pub fn backoff(policy: &Policy, retry: u32) -> Ticks {
    let factor = 1i64.checked_shl(retry.saturating_sub(1)).filter(|factor| *factor > 0).unwrap_or(i64::MAX);
    policy.backoff_base.saturating_mul(factor).min(policy.backoff_cap)
}

impl Decision<'_, '_, '_> {
    /// Retries if the strategy allows and a retry is left, else asks for a patch, else fails the node. A strategy that escalates
    /// asks a person instead.
    pub(super) fn recover(&mut self, at: usize, category: FailureCategory) {
        let policy = &self.run.plan.policy;
        let strategy = RecoveryStrategy::decide(category, policy.domain.as_deref(), &policy.recovery).level();
        let level = self.diagnose(at, category, strategy);
        if level == RecoveryStrategy::HumanEscalation.level() {
            if category == FailureCategory::HumanRejection {
                // A person has decided already.
                self.fail(at, TransitionReason::Category(category));
            } else {
                self.in_doubt(at, false);
            }
            return;
        }
        let node = &self.run.plan.nodes[at];
        let instance = &self.run.instances[at];
        if level == 1 && i64::from(instance.retries) < node.retries {
            self.retry(at, category);
            return;
        }
        let patches_left = i64::from(instance.patch_count) < node.patches;
        self.exhausted(at, 1, if level == 1 { "no retry left" } else { "a retry cannot help" });
        if level == REPLAN {
            self.exhausted(at, 2, "the diagnosis asks for a new version of the plan");
            return self.fail(at, TransitionReason::Category(category));
        }
        if !patches_left {
            self.exhausted(at, 2, "no patch left");
            self.fail(at, TransitionReason::Category(category));
        } else if self.run.plan.version >= self.run.versions_max() {
            self.exhausted(at, 2, "no version of the plan left");
            self.fail(at, TransitionReason::Category(category));
        } else {
            self.ask_patch(at, category);
        }
    }

    /// Asks for a diagnosis and records it. Returns the level of recovery: the diagnosis may raise the level of the strategy, as
    /// far as the plan allows.
    fn diagnose(&mut self, at: usize, category: FailureCategory, strategy: u8) -> u8 {
        let node = self.id(at);
        let instance = &self.run.instances[at];
        let failure = match instance.failure.as_deref() {
            Some(failure) => failure.clone(),
            None => Failure::new(category, String::new()),
        };
        let request = DiagnosisRequest {
            run_id: self.cx.run_id,
            run: self.run,
            node: &node,
            failure: &failure,
            level: strategy,
        };
        let Diagnosis { cause, level, confidence } = self.cx.diagnoser.diagnose(&request);
        let (proposed, confidence) = (level.clamp(1, PERSON), confidence.min(100));
        let cause = cause.chars().take(CAUSE_CHARS_MAX).collect();
        let can_replan = self.run.goal.is_none() && self.run.recovery_open(self.cx.now);
        let patches_left = i64::from(instance.patch_count) < self.run.plan.nodes[at].patches;
        let allowed = match proposed {
            REPLAN if !can_replan => 2,
            allowed => allowed,
        };
        // A patch that the plan does not allow would only cost the retries that are left.
        let allowed = if allowed == 2 && !patches_left { strategy } else { allowed };
        let level = strategy.max(allowed);
        let diagnosis = Box::new(Diagnosis { cause, level: proposed, confidence });
        self.emit(Event::Diagnosis { node, category, level, diagnosis });
        level
    }

    fn retry(&mut self, at: usize, category: FailureCategory) {
        let retry = self.run.instances[at].retries + 1;
        let longest = backoff(&self.run.plan.policy, retry);
        let wait = if self.cx.settings.jitter { self.run.jitter(at, longest) } else { longest };
        self.transit(at, NodeState::FailedRetryable, TransitionReason::Category(category));
        let due = self.cx.now.saturating_add(wait);
        self.emit(Event::TimerSet(Timer { node: self.id(at), kind: TimerKind::Backoff, at: due }));
    }

    fn ask_patch(&mut self, at: usize, category: FailureCategory) {
        let node: NodeId = self.id(at);
        if self.run.goal.is_some() {
            return self.ask_micro_planner(at, category);
        }
        let number = self.run.instances[at].patch_count + 1;
        match self.cx.planner.patch(&self.planner_request(number), &node) {
            PlannerAnswer::Refused => self.patch(at, category, None),
            PlannerAnswer::Now(patch) => self.patch(at, category, Some(patch)),
            PlannerAnswer::Later => {
                self.transit(at, NodeState::FailedRetryable, TransitionReason::Category(category))
            }
        }
    }

    pub(super) fn exhausted(&mut self, at: usize, level: u8, reason: &str) {
        self.emit(Event::RecoveryExhausted { node: self.id(at), level, reason: reason.to_owned() });
    }
}

impl Run {
    /// The longest wait for the retry that a node waits for, by its backoff; jitter makes it shorter.
    pub fn backoff_max(&self, node: &NodeId) -> Ticks {
        let retries = self.instance(node).map_or(0, |instance| instance.retries);
        backoff(&self.plan.policy, retries.saturating_add(1))
    }

    /// A backoff between 0 and `longest`, drawn from the run's seed, the node and the attempt: deciding again draws the same.
    fn jitter(&self, at: usize, longest: Ticks) -> Ticks {
        let attempt = self.instances[at].attempts;
        let node = self.plan.nodes[at].id.as_str().as_bytes();
        let parts = [&self.seed.to_le_bytes()[..], node, &attempt.to_le_bytes()[..]];
        let digest = lineage::hash("aos/jitter/1", &parts);
        let mut draw = [0; 8];
        draw.copy_from_slice(&digest.0[..8]);
        ((u128::from(u64::from_le_bytes(draw)) * (longest.max(0) as u128 + 1)) >> 64) as Ticks
    }
}
