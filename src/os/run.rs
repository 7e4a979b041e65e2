//! Handles of agents and runs.

use std::time::Duration;

use ostler_actors::{
    AgentHandle, Approval, EvaluationError, EventCursor, ResolveHow, RunError, RunEvaluation, Settled,
    Submission, SubmitError, System, VerdictRequest,
};
use ostler_kernel::id::{NodeId, RunId};
use ostler_kernel::plan::Delta;
use ostler_kernel::policy::Decider;
use ostler_kernel::port::{Artifact, Seq};
use ostler_kernel::run::Patch;
use serde::de::DeserializeOwned;

/// A handle of an agent.
#[derive(Clone)]
pub struct Agent {
    pub(super) agent: AgentHandle,
    pub(super) system: System,
}

impl Agent {
    /// Name of the agent.
    pub fn name(&self) -> &str {
        self.agent.name().as_str()
    }

    /// Submits a plan, to run after earlier submissions; the agent's client pays. Durable on return.
    /// Dropping the future may or may not leave an open run.
    ///
    /// # Errors
    ///
    /// See [`SubmitError`].
    pub async fn submit(&self, submission: Submission) -> Result<Run, SubmitError> {
        let id = self.agent.submit(submission).await?;
        Ok(Run { id, system: self.system.clone() })
    }
}

/// A handle of a run.
#[derive(Clone)]
pub struct Run {
    pub(super) id: RunId,
    pub(super) system: System,
}

impl Run {
    /// Returns the evaluation of the run, its judge, and the verdicts of people.
    ///
    /// # Errors
    ///
    /// See [`RunError`].
    pub async fn evaluation(&self) -> Result<RunEvaluation, RunError> {
        self.system.evaluation(self.id).await
    }

    /// Adds a verdict on a closed run, which counts as one more score of its agent. Durable on return.
    ///
    /// # Errors
    ///
    /// See [`EvaluationError`]; nothing is changed.
    pub async fn judge(&self, verdict: VerdictRequest) -> Result<(), EvaluationError> {
        self.system.judge(self.id, verdict).await
    }

    /// Id of the run.
    pub fn id(&self) -> RunId {
        self.id
    }

    /// Returns all records of the run, each once it is durable; the cursor ends with the record that closes
    /// the run.
    ///
    /// # Errors
    ///
    /// The run is unknown.
    pub fn events(&self) -> Result<EventCursor, RunError> {
        self.events_after(Seq(0))
    }

    /// Returns the records after `after`, a sequence number seen before.
    ///
    /// # Errors
    ///
    /// The run is unknown.
    pub fn events_after(&self, after: Seq) -> Result<EventCursor, RunError> {
        self.system.events(self.id, after)
    }

    /// Waits until the run is closed or settled. Cancel-safe.
    ///
    /// # Errors
    ///
    /// See [`RunError`].
    pub async fn outcome(&self) -> Result<Settled, RunError> {
        self.system.outcome(self.id).await
    }

    /// Returns the artifact of a node.
    ///
    /// # Errors
    ///
    /// The node has no result, or see [`RunError`].
    pub async fn artifact(&self, node: &str) -> Result<Artifact, RunError> {
        self.system.artifact(self.id, &NodeId::from(node)).await
    }

    /// Returns the result of a node as a value of type `T`.
    ///
    /// # Errors
    ///
    /// The node has no result, the result is no `T` ([`RunError::Said`]), or see [`RunError`].
    pub async fn output<T: DeserializeOwned>(&self, node: &str) -> Result<T, RunError> {
        let artifact = self.artifact(node).await?;
        serde_json::from_slice(&artifact.content)
            .map_err(|error| RunError::Said(format!("the result of {node} has another type: {error}")))
    }

    /// Cancels the run. Durable on return.
    ///
    /// # Errors
    ///
    /// The run is closed, or see [`RunError`].
    pub async fn cancel(&self) -> Result<(), RunError> {
        self.system.cancel(self.id).await
    }

    /// Returns the pending approvals of the run; [`Ostler::answer`](super::Ostler::answer) answers one.
    ///
    /// # Errors
    ///
    /// See [`RunError`].
    pub async fn approvals(&self) -> Result<Vec<Approval>, RunError> {
        self.system.approvals(self.id).await
    }

    /// Answers request `number` for a patch, to which the planner said
    /// [`Later`](crate::kernel::run::PlannerAnswer::Later); `None` refuses. Durable on return.
    ///
    /// # Errors
    ///
    /// [`RunError::NotAsked`], or see [`RunError`].
    pub async fn answer_patch(&self, node: &str, number: u32, patch: Option<Patch>) -> Result<(), RunError> {
        self.system.answer_patch(self.id, NodeId::from(node), number, patch).await
    }

    /// Answers replan request `number`, to which the planner said
    /// [`Later`](crate::kernel::run::PlannerAnswer::Later); `None` refuses. Durable on return.
    ///
    /// # Errors
    ///
    /// [`RunError::NotAsked`], or see [`RunError`].
    pub async fn answer_replan(&self, number: u32, delta: Option<Delta>) -> Result<(), RunError> {
        self.system.answer_replan(self.id, number, delta).await
    }

    /// Cancels a node, and the nodes that depend on it. Durable on return.
    ///
    /// # Errors
    ///
    /// The node is unknown or ended, or see [`RunError`].
    pub async fn cancel_node(&self, node: &str) -> Result<(), RunError> {
        self.system.cancel_node(self.id, NodeId::from(node)).await
    }

    /// Skips a node. Durable on return.
    ///
    /// # Errors
    ///
    /// As for [`Run::cancel_node`].
    pub async fn skip_node(&self, node: &str) -> Result<(), RunError> {
        self.system.skip_node(self.id, NodeId::from(node)).await
    }

    /// Holds the run for an approval with the question `text`: no further node starts until it is answered.
    /// Approval continues the run; rejection and the end of `wait` cancel it. Returns the asking node,
    /// which [`Run::approvals`] lists. Durable on return.
    ///
    /// # Errors
    ///
    /// The run is closed, the text is empty or too long, or see [`RunError`].
    pub async fn interject(&self, text: &str, wait: Duration) -> Result<NodeId, RunError> {
        self.system.interject(self.id, text, wait).await
    }

    /// Interjects into a goal run, whose interjections a model decides about otherwise: a person is asked, or the operator decides
    /// at once. As [`Run::interject`] otherwise.
    ///
    /// # Errors
    ///
    /// As for [`Run::interject`]; also if the operator's answer has faults, or the run has no goal.
    pub async fn interject_by(
        &self,
        text: &str,
        wait: Duration,
        decider: Decider,
    ) -> Result<NodeId, RunError> {
        self.system.interject_by(self.id, text, wait, decider).await
    }

    /// Resolves an attempt that is in doubt; the run continues. Durable on return.
    ///
    /// # Errors
    ///
    /// The node is not in doubt, or see [`RunError`].
    pub async fn resolve(&self, node: &str, how: ResolveHow) -> Result<(), RunError> {
        self.system.resolve(self.id, NodeId::from(node), how).await
    }

    /// Resolves one attempt, counted from 1. A repeated call changes nothing, even if a later attempt is in
    /// doubt. Durable on return.
    ///
    /// # Errors
    ///
    /// This attempt is not in doubt and was not resolved the same way last, or see [`RunError`].
    pub async fn resolve_attempt(&self, node: &str, attempt: u32, how: ResolveHow) -> Result<(), RunError> {
        self.system.resolve_attempt(self.id, NodeId::from(node), attempt, how).await
    }
}
