//! Child runs of attempts, opened through the system's handle.

use ostler_kernel::event::Parent;
use ostler_kernel::id::RunId;
use ostler_kernel::plan::{Diagnostic, Kind, Plan, PlanDraft, SUB_AGENT_TOOL};
use ostler_kernel::policy::View;
use ostler_kernel::port::BoxFuture;
use ostler_kernel::run::{Canceller, RunStatus};

use crate::api::outcome::{Awaited, Settled};
use crate::api::system::System;
use crate::attempts::child_runs::{ChildEnd, ChildOutputs, ChildRun, ChildRuns};
use crate::base::error::RunError;
use crate::messages::submission::Submission;
use crate::run::suspended_runs::CHECKPOINTED;

impl ChildRuns for System {
    fn validate(&self, plan: PlanDraft) -> BoxFuture<'_, Result<Plan, Vec<Diagnostic>>> {
        Box::pin(self.judge_plan(plan))
    }

    fn open(&self, submission: Submission, parent: Parent) -> BoxFuture<'_, Result<(), String>> {
        // A task of its own: if the attempt is dropped, the run still becomes active and learns that it is not wanted.
        let system = self.clone();
        let opened = tokio::spawn(async move {
            if submission.goal.is_none()
                && is_for_people(&submission.plan)
                && system.is_of_a_model(&parent).await
            {
                return Err(NOT_FOR_MODELS.to_owned());
            }
            system.open(submission, Some(parent)).await.map(drop).map_err(|error| error.to_string())
        });
        Box::pin(async move { opened.await.unwrap_or_else(|error| Err(error.to_string())) })
    }

    fn follow(&self, run: RunId) -> Result<Box<dyn ChildRun>, RunError> {
        Ok(Box::new(Followed { system: self.clone(), awaited: self.awaited(run)? }))
    }

    fn outputs(&self, run: RunId) -> BoxFuture<'_, Result<ChildOutputs, RunError>> {
        Box::pin(async move {
            let view = self.view(run, None).await?;
            let outputs = view.run.outputs().map(|(id, output)| (id.clone(), output.clone())).collect();
            // Of the time no label depends.
            let labels = View::of(&view.run, 0).map(|goal| goal.labels()).unwrap_or_default();
            Ok(ChildOutputs { outputs, labels })
        })
    }

    fn cancel(&self, run: RunId) -> BoxFuture<'_, Result<(), RunError>> {
        Box::pin(self.cancel_by(run, Canceller::Parent))
    }
}

const NOT_FOR_MODELS: &str = "a plan that a model has written may have neither `undo` nor nodes of kind wait: people and templates \
                              write these";

/// True if the plan has fields that only people and templates write.
fn is_for_people(plan: &Plan) -> bool {
    plan.nodes.iter().any(|node| node.undo.is_some() || node.kind == Kind::Wait)
}

impl System {
    /// True if a model has written the plan that the attempt opens: a step of a goal run is a model's, and so is its plan.
    async fn is_of_a_model(&self, parent: &Parent) -> bool {
        let Ok(view) = self.view(parent.run, None).await else { return false };
        let node = view.run.node(&parent.of.node);
        view.run.goal().is_some() && node.is_some_and(|node| node.tool.as_deref() == Some(SUB_AGENT_TOOL))
    }
}

struct Followed {
    system: System,
    awaited: Awaited,
}

impl ChildRun for Followed {
    fn ended(&mut self) -> BoxFuture<'_, Result<ChildEnd, String>> {
        Box::pin(async move {
            match self.awaited.settled(&self.system).await {
                Ok(Settled { status, reason }) => {
                    let why = reason.unwrap_or_default();
                    match (status, status.outcome()) {
                        (_, Some(outcome)) => Ok(ChildEnd::Closed(outcome)),
                        (RunStatus::Suspended, _) if why == CHECKPOINTED => Ok(ChildEnd::Suspended),
                        (RunStatus::Suspended, _) => Err(format!("it was set aside: {why}")),
                        (RunStatus::Quarantined, _) => Err(format!("it is quarantined: {why}")),
                        _ => Ok(ChildEnd::Waits),
                    }
                }
                Err(error) => Err(error.to_string()),
            }
        })
    }
}
