//! Effects of which nobody knows whether they were made: another run must not make them without a person's word.

use super::node_status::{NodeInstance, NodeStatus};
use super::{FailureCategory, Run};
use crate::event::HumanRequestKind;
use crate::gate::OnLostResult;
use crate::plan::{Idempotency, Node};
use crate::run::TransitionReason;

/// Reason why nobody knows whether a node has acted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Doubt {
    /// An attempt is under way, or the next one is due.
    UnderWay,
    /// A person is asked what became of an attempt.
    Asked,
    /// The node ended without an answer.
    Unknown,
}

impl Run {
    /// The reason why a node may have changed the world although it has no result; `None`: it has not, or a person has settled it.
    ///
    /// Under the key of this run, a receiver recognises another attempt of keyed work. Under the key of another run it does not, so work
    /// is in doubt there that this run just tries again.
    pub fn doubt(&self, node: &Node) -> Option<Doubt> {
        let instance = self.instance(&node.id).filter(|_| node.acts())?;
        match instance.status {
            NodeStatus::Running { .. } => {
                let is_harmless = node.on_lost_result() != OnLostResult::InDoubt
                    && node.reach().idem == Idempotency::Natural;
                (!is_harmless).then_some(Doubt::UnderWay)
            }
            NodeStatus::WaitingHuman { ask: HumanRequestKind::InDoubt, .. } => Some(Doubt::Asked),
            NodeStatus::Failed | NodeStatus::Cancelled | NodeStatus::Skipped => {
                let is_open =
                    is_unanswered(instance) || is_cut_off(node, instance) || was_tried_by_key(node, instance);
                (is_open && !instance.is_settled).then_some(Doubt::Unknown)
            }
            NodeStatus::Executed => None,
            NodeStatus::Pending
            | NodeStatus::Ready
            | NodeStatus::WaitingHuman { .. }
            | NodeStatus::FailedRetryable { .. }
            | NodeStatus::Held
            | NodeStatus::Upstream { .. } => was_tried_by_key(node, instance).then_some(Doubt::UnderWay),
        }
    }
}

/// True if the node failed in doubt, and no person said what became of the attempt.
fn is_unanswered(instance: &NodeInstance) -> bool {
    instance.reason == Some(TransitionReason::InDoubt) && !is_answered(instance)
}

/// True if a person said what became of the last attempt.
fn is_answered(instance: &NodeInstance) -> bool {
    instance.resolved.is_some_and(|(attempt, _)| attempt == instance.attempts)
}

/// True if the node was stopped while its last attempt was in doubt: the attempt was sent, and its end is unknown. A stop takes the
/// question away, not the effect.
fn is_cut_off(node: &Node, instance: &NodeInstance) -> bool {
    let is_stopped = matches!(instance.status, NodeStatus::Cancelled | NodeStatus::Skipped);
    let is_end_unknown = match instance.failure.as_deref() {
        None => instance.output.is_none(),
        Some(failure) => {
            let is_doubtful = node.on_lost_result() == OnLostResult::InDoubt;
            failure.category.is_loss() && (is_doubtful || failure.category == FailureCategory::InDoubt)
        }
    };
    is_stopped && instance.was_sent && is_end_unknown && !is_answered(instance)
}

/// True if the last attempt of keyed work failed in a way that leaves open what it did.
fn was_tried_by_key(node: &Node, instance: &NodeInstance) -> bool {
    let is_open = |category: FailureCategory| {
        use FailureCategory as Category;
        match category {
            Category::Crash
            | Category::Timeout
            | Category::Transient
            | Category::ResourceExhaustion
            | Category::InvalidOutput
            | Category::HumanRejection
            | Category::InDoubt => true,
            Category::RateLimit
            | Category::Structural
            | Category::ParamMissing
            | Category::GateDenied
            | Category::GuardError
            | Category::ExpandError
            | Category::Deadline => false,
        }
    };
    let failure = instance.failure.as_deref();
    node.reach().idem == Idempotency::Keyed
        && instance.was_sent
        && failure.is_some_and(|failure| is_open(failure.category))
}
