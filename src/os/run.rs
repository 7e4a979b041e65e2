//! An agent, and a run: what is held of what goes on.

use std::time::Duration;

use ostler_actors::{
    AgentHandle, Approval, EvaluationError, EventCursor, ResolveHow, RunError, RunEvaluation, Settled,
    Submission, SubmitError, System, VerdictRequest,
};
use ostler_kernel::id::{NodeId, RunId};
use ostler_kernel::port::{Artifact, Seq};

/// An agent that was spawned.
#[derive(Clone)]
pub struct Agent {
    pub(super) agent: AgentHandle,
    pub(super) system: System,
}

impl Agent {
    /// Its name.
    pub fn name(&self) -> &str {
        self.agent.name().as_str()
    }

    /// Gives it a plan to run, after those it has already; its client pays. Durable when it returns; dropping the
    /// future may or may not have opened the run.
    ///
    /// # Errors
    ///
    /// See [`SubmitError`].
    pub async fn submit(&self, submission: Submission) -> Result<Run, SubmitError> {
        let id = self.agent.submit(submission).await?;
        Ok(Run { id, system: self.system.clone() })
    }
}

/// One execution of a plan.
#[derive(Clone)]
pub struct Run {
    pub(super) id: RunId,
    pub(super) system: System,
}

impl Run {
    /// How well it was done, by what, and what people said of it.
    ///
    /// # Errors
    ///
    /// See [`RunError`].
    pub async fn evaluation(&self) -> Result<RunEvaluation, RunError> {
        self.system.evaluation(self.id).await
    }

    /// Says how good it is, once it is over: one more score of its agent. Durable when it returns.
    ///
    /// # Errors
    ///
    /// See [`EvaluationError`]; nothing has changed then.
    pub async fn judge(&self, verdict: VerdictRequest) -> Result<(), EvaluationError> {
        self.system.judge(self.id, verdict).await
    }

    /// Its id.
    pub fn id(&self) -> RunId {
        self.id
    }

    /// Its records from the first on, each as soon as it is durable; they end with the one that closes the run.
    ///
    /// # Errors
    ///
    /// There is no such run.
    pub fn events(&self) -> Result<EventCursor, RunError> {
        self.events_after(Seq(0))
    }

    /// Its records after `after`, a sequence number that was seen before.
    ///
    /// # Errors
    ///
    /// There is no such run.
    pub fn events_after(&self, after: Seq) -> Result<EventCursor, RunError> {
        self.system.events(self.id, after)
    }

    /// Waits until it is over, or until nothing goes on in it. Dropping the future loses nothing.
    ///
    /// # Errors
    ///
    /// See [`RunError`].
    pub async fn outcome(&self) -> Result<Settled, RunError> {
        self.system.outcome(self.id).await
    }

    /// What a node published.
    ///
    /// # Errors
    ///
    /// It has no result, or see [`RunError`].
    pub async fn artifact(&self, node: &str) -> Result<Artifact, RunError> {
        self.system.artifact(self.id, &NodeId::from(node)).await
    }

    /// Stops it for good. Durable when it returns.
    ///
    /// # Errors
    ///
    /// It is over, or see [`RunError`].
    pub async fn cancel(&self) -> Result<(), RunError> {
        self.system.cancel(self.id).await
    }

    /// The questions of this run that wait for a person; [`Ostler::answer`](super::Ostler::answer) answers one.
    ///
    /// # Errors
    ///
    /// See [`RunError`].
    pub async fn approvals(&self) -> Result<Vec<Approval>, RunError> {
        self.system.approvals(self.id).await
    }

    /// Stops one node; what depends on it is lost with it. Durable when it returns.
    ///
    /// # Errors
    ///
    /// There is no such node, it is over, or see [`RunError`].
    pub async fn cancel_node(&self, node: &str) -> Result<(), RunError> {
        self.system.cancel_node(self.id, NodeId::from(node)).await
    }

    /// Does without one node. Durable when it returns.
    ///
    /// # Errors
    ///
    /// Those of [`Run::cancel_node`].
    pub async fn skip_node(&self, node: &str) -> Result<(), RunError> {
        self.system.skip_node(self.id, NodeId::from(node)).await
    }

    /// Holds the run and asks a person, who is shown `text`: nothing more of it starts until they have answered. A yes lets it go
    /// on; a no cancels it, and so does silence after `wait`. Gives the node that asks, which [`Run::approvals`] lists. Durable when
    /// it returns.
    ///
    /// # Errors
    ///
    /// It is over, the text is empty or too long, or see [`RunError`].
    pub async fn interject(&self, text: &str, wait: Duration) -> Result<NodeId, RunError> {
        self.system.interject(self.id, text, wait).await
    }

    /// Settles an attempt whose result was lost; the run goes on. Durable when it returns.
    ///
    /// # Errors
    ///
    /// The node is not in doubt, or see [`RunError`].
    pub async fn resolve(&self, node: &str, how: ResolveHow) -> Result<(), RunError> {
        self.system.resolve(self.id, NodeId::from(node), how).await
    }

    /// The same for one attempt, counted from 1, and no other: said once more, it changes nothing, even if another
    /// attempt is in doubt by then. Durable when it returns.
    ///
    /// # Errors
    ///
    /// This attempt is not in doubt, and was not settled like this last; or see [`RunError`].
    pub async fn resolve_attempt(&self, node: &str, attempt: u32, how: ResolveHow) -> Result<(), RunError> {
        self.system.resolve_attempt(self.id, NodeId::from(node), attempt, how).await
    }
}
