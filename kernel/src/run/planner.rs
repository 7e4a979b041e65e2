//! The planner: a program's part in recovery, with patches and new plan versions.
//!
//! Decisions stay pure because a planner's answer reaches the journal as a plan version or a refusal: recovery applies the
//! record and never asks the planner again.

use std::fmt;

use super::Run;
use crate::id::{NodeId, RunId};
use crate::plan::{Delta, NodeFields, Settings};
use crate::policy::{ANSWER_TOKENS_RESERVED, CallIntent};

/// Writes patches for failed nodes, and changes of the plan for missing outputs.
///
/// Both methods are called in the middle of a decision, with the run borrowed: they must return at once. A planner in need
/// of time (a call of a model, a person) answers [`PlannerAnswer::Later`] and sends the answer as
/// [`RunInput::Patched`](super::RunInput::Patched) or [`RunInput::Replanned`](super::RunInput::Replanned). A run that is
/// loaded again (in a new process, after a suspension, a full disk or a restarted agent) drops its open requests:
/// [`Run::recover_from_crash`] counts them as refused.
///
/// The default methods are those of [`StaticPlanner`](super::StaticPlanner). A program with its own `replan` keeps the
/// prepared patches of its plans.
///
/// # Examples
///
/// ```
/// use ostler_kernel::plan::Delta;
/// use ostler_kernel::run::{Planner, PlannerAnswer, PlannerRequest};
///
/// /// Adds one clean-up node whenever a run misses an output.
/// struct CleanUp(Delta);
///
/// impl Planner for CleanUp {
///     fn replan(&self, _: &PlannerRequest<'_>) -> PlannerAnswer<Delta> {
///         PlannerAnswer::Now(self.0.clone())
///     }
/// }
///
/// let planner: Box<dyn Planner> = Box::new(CleanUp(Delta::default()));
/// # drop(planner);
/// ```
pub trait Planner: Send + Sync {
    /// Answers a request for a patch of `node` after a failure without a retry left. Recovery level 2; at most `patches`
    /// requests per node.
    fn patch(&self, request: &PlannerRequest<'_>, node: &NodeId) -> PlannerAnswer<Patch> {
        super::static_planner::patch(request, node)
    }

    /// Tokens of output to reserve for a call of the micro-planner in a goal run. The usage is settled when the call ends.
    fn reserve(&self, run: &Run, call: &CallIntent) -> u64 {
        let _ = (run, call);
        ANSWER_TOKENS_RESERVED
    }

    /// Answers the request for a change of the plan that brings the missing outputs. Recovery level 3; asked at most
    /// `max_replans` times per run, once nothing else can happen. An invalid delta counts as one replan.
    fn replan(&self, request: &PlannerRequest<'_>) -> PlannerAnswer<Delta> {
        let _ = request;
        PlannerAnswer::Refused
    }
}

impl fmt::Debug for dyn Planner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Planner")
    }
}

/// A run's request to its planner.
#[derive(Clone, Copy)]
pub struct PlannerRequest<'a> {
    /// Id of the run.
    pub run_id: RunId,
    /// State of the run, the failure included.
    pub run: &'a Run,
    /// Rules that the answer is validated by.
    pub settings: &'a Settings<'a>,
    /// Number of the request, from 1: for patches per node, for replans per run. A later answer names the number, so that an
    /// answer sent twice cannot answer the next request.
    pub number: u32,
}

/// Answer of a planner to a request.
#[derive(Debug, Clone, PartialEq)]
pub enum PlannerAnswer<T> {
    /// The planner has no answer: the recovery level is exhausted.
    Refused,
    /// The answer.
    Now(T),
    /// The answer follows as an input of the run; the node or the run waits for it.
    Later,
}

/// A new configuration of a failed node.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Patch {
    /// Fields of the node to replace; `None` runs the node again as it is, with a fresh retry budget.
    pub set: Option<NodeFields>,
}
