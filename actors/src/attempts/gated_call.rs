//! Calls amid an attempt that are no node's own: tests, judges, calls of programs. Each leaves its verdict among those of the run
//! before it is made, as the calls of nodes do.

use std::sync::Arc;

use ostler_kernel::event::{Failure, GateVerdict};
use ostler_kernel::gate::{Denial, DenialCode, Permit};
use ostler_kernel::id::{Digest, NodeId, RunId};
use ostler_kernel::json::Object;
use ostler_kernel::port::Tool;
use ostler_kernel::run::FailureCategory;
use ractor::ActorRef;
use tokio::sync::oneshot;

use crate::attempts::attempt_journal::AttemptJournal;
use crate::messages::agent::AgentMessage;
use crate::state::caller::Caller;
use crate::state::gatekeeper::Gatekeeper;

/// Whose verdict it is, and who records it.
pub(crate) struct Recorder<'a> {
    pub(crate) gatekeeper: &'a Gatekeeper,
    pub(crate) caller: &'a Caller,
    pub(crate) run: RunId,
    pub(crate) node: &'a NodeId,
    pub(crate) attempt: u32,
    /// The actor that drives the run; `None`: it has none now.
    pub(crate) agent: Option<ActorRef<AgentMessage>>,
}

impl<'a> Recorder<'a> {
    /// For calls amid an attempt.
    pub(crate) fn of(log: &'a AttemptJournal) -> Recorder<'a> {
        let (site, executor) = (&log.site, &log.executor);
        Recorder {
            gatekeeper: &executor.gatekeeper,
            caller: &site.caller,
            run: site.run,
            node: &site.of.node,
            attempt: site.of.attempt,
            agent: executor.attempts.agent_of(&log.key()),
        }
    }

    /// The tool and a permit whose verdict is durable.
    ///
    /// # Errors
    ///
    /// The gate denies the call, or nobody can record that it does not.
    pub(crate) async fn permit(
        &self,
        tool: &str,
        params: Object,
        key: Digest,
    ) -> Result<(Arc<dyn Tool>, Permit), Denial> {
        let gated = self.gatekeeper.gate(self.caller, tool, params, key).await;
        let verdict = self.gatekeeper.verdict(self.caller, (self.node, self.attempt), tool, &gated);
        let recorded = self.record(verdict).await;
        let (tool, permit) = gated?;
        if !recorded {
            self.gatekeeper.check_unrecorded(permit.class().impact)?;
        }
        Ok((tool, permit))
    }

    /// Records that an allowed call is not made after all; returns its failure. After another policy was put in force, another
    /// attempt is judged by that.
    pub(crate) async fn unsealed(&self, permit: &Permit, denial: Denial) -> Failure {
        let failure = match denial.code {
            DenialCode::PolicyEpochStale => {
                Failure::new(FailureCategory::Transient, "the rules changed before the call began")
            }
            _ => refused(&denial),
        };
        let verdict = self.gatekeeper.denied(self.caller, (self.node, self.attempt), permit.tool(), &denial);
        self.record(verdict).await;
        failure
    }

    /// True once the verdict is durable.
    async fn record(&self, verdict: GateVerdict) -> bool {
        let Some(agent) = &self.agent else { return false };
        let (reply, recorded) = oneshot::channel();
        let (run, verdict) = (self.run, Box::new(verdict));
        let told = agent.cast(AgentMessage::Verdict { run, verdict, reply: reply.into() });
        told.is_ok() && matches!(recorded.await, Ok(Ok(())))
    }
}

/// The failure of a call that the gate denies, as its plan sees it. Without room for the verdict, a later attempt may be recorded.
pub(crate) fn refused(denial: &Denial) -> Failure {
    match denial.code {
        DenialCode::AuditUnavailable => {
            Failure::new(FailureCategory::Transient, "the verdict on the call cannot be recorded")
        }
        _ => Failure::new(FailureCategory::GateDenied, denial.for_model()),
    }
}
