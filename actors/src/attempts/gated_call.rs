//! Calls within an attempt besides the node's own call: tests, judges, calls of programs. The verdict on each call is recorded in
//! the run before the call starts, as for the calls of nodes.

use std::borrow::Cow;
use std::sync::Arc;

use ostler_kernel::event::{Failure, GateVerdict};
use ostler_kernel::gate::{Denial, DenialCode, Permit, Provenance};
use ostler_kernel::id::{Digest, NodeId, RunId};
use ostler_kernel::json::Object;
use ostler_kernel::plan::TEST_TOOL;
use ostler_kernel::port::Tool;
use ostler_kernel::run::FailureCategory;
use ractor::ActorRef;
use tokio::sync::oneshot;

use crate::attempts::attempt_journal::AttemptJournal;
use crate::messages::agent::AgentMessage;
use crate::state::caller::Caller;
use crate::state::gatekeeper::Gatekeeper;

/// Asks the gate about calls of one attempt, and records the verdicts.
pub(crate) struct Recorder<'a> {
    pub(crate) gatekeeper: &'a Gatekeeper,
    pub(crate) caller: &'a Caller,
    pub(crate) run: RunId,
    pub(crate) node: &'a NodeId,
    pub(crate) attempt: u32,
    /// Actor that drives the run and records the verdicts; `None`: no verdict can be recorded.
    pub(crate) agent: Option<ActorRef<AgentMessage>>,
}

impl<'a> Recorder<'a> {
    /// Recorder for the calls within an attempt.
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

    /// The tool and a permit with a durable verdict.
    ///
    /// # Errors
    ///
    /// The gate denies the call, or the verdict cannot be recorded and the policy demands the record.
    pub(crate) async fn permit(
        &self,
        tool: &str,
        params: Object,
        key: Digest,
    ) -> Result<(Arc<dyn Tool>, Permit), Denial> {
        self.permit_with(tool, params, Ok(Cow::Borrowed(Provenance::PLAN)), key).await
    }

    /// The same for a test: its program may send out what the run has read by now.
    ///
    /// # Errors
    ///
    /// As for [`Recorder::permit`].
    pub(crate) async fn permit_test(
        &self,
        params: Object,
        key: Digest,
    ) -> Result<(Arc<dyn Tool>, Permit), Denial> {
        let provenance = match self.gatekeeper.asks_before_tests() {
            true => self.before_test().await.map(Cow::Owned),
            false => Ok(Cow::Borrowed(Provenance::PLAN)),
        };
        self.permit_with(TEST_TOOL, params, provenance, key).await
    }

    async fn permit_with(
        &self,
        tool: &str,
        params: Object,
        provenance: Result<Cow<'_, Provenance>, Denial>,
        key: Digest,
    ) -> Result<(Arc<dyn Tool>, Permit), Denial> {
        let gated = match provenance {
            Ok(of) => self.gatekeeper.gate(self.caller, self.run, (tool, params), &of, key).await,
            Err(denial) => Err(denial),
        };
        let verdict = self.gatekeeper.verdict(self.caller, (self.node, self.attempt), tool, &gated);
        let recorded = self.record(verdict).await;
        let (tool, permit) = gated?;
        if !recorded {
            self.gatekeeper.check_unrecorded(permit.class().impact)?;
        }
        Ok((tool, permit))
    }

    /// Records that an allowed call does not start after all; returns the failure of the call. After a change of the policy, the
    /// failure is transient: another attempt is judged by the new policy.
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

    async fn before_test(&self) -> Result<Provenance, Denial> {
        let unknown = || Denial::new(DenialCode::AuditUnavailable, "what the run has read is not known");
        let agent = self.agent.as_ref().ok_or_else(unknown)?;
        let (reply, told) = oneshot::channel();
        let of = (self.node.clone(), self.attempt);
        let asked = agent.cast(AgentMessage::BeforeTest { run: self.run, of, reply: reply.into() });
        asked.map_err(|_| unknown())?;
        told.await.map_err(|_| unknown())?
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

/// Failure of a denied call, as the plan sees the failure. Transient if the verdict could not be recorded: a later attempt may
/// succeed.
pub(crate) fn refused(denial: &Denial) -> Failure {
    match denial.code {
        DenialCode::AuditUnavailable => {
            Failure::new(FailureCategory::Transient, "the verdict on the call cannot be recorded")
        }
        _ => Failure::new(FailureCategory::GateDenied, denial.for_model()),
    }
}
