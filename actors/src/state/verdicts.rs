//! Builds the records of verdicts, and checks a permit before its call.

use std::sync::Arc;

use ostler_kernel::event::{GateAnswer, GateVerdict};
use ostler_kernel::gate::{Denial, DenialCode, Permit, Standing, amounts};
use ostler_kernel::id::{Digest, NodeId};
use ostler_kernel::port::Tool;
use ostler_kernel::run::HeldFor;

use crate::state::caller::Caller;
use crate::state::gatekeeper::Gatekeeper;
use crate::state::holds::NodeHold;

/// Node and attempt of a call.
type Place<'a> = (&'a NodeId, u32);

impl Gatekeeper {
    pub(crate) fn verdict(
        &self,
        caller: &Caller,
        place: Place<'_>,
        tool: &str,
        gated: &Result<(Arc<dyn Tool>, Permit), Denial>,
    ) -> GateVerdict {
        match gated {
            Ok((_, permit)) => self.allowed(caller, place, permit),
            Err(denial) => self.denied(caller, place, tool, denial),
        }
    }

    pub(crate) fn allowed(&self, caller: &Caller, place: Place<'_>, permit: &Permit) -> GateVerdict {
        let measured = permit.measured();
        GateVerdict {
            measured: Some((measured.impact, measured.ceiling)),
            params: Some(permit.digest()),
            tainted: permit.tainted().to_vec(),
            amounts: amounts(permit.params()),
            ..self.plain(caller, place, permit.tool(), (GateAnswer::Allow, "OK"))
        }
    }

    pub(crate) fn denied(
        &self,
        caller: &Caller,
        place: Place<'_>,
        tool: &str,
        denial: &Denial,
    ) -> GateVerdict {
        let measured = denial.measured.map(|measured| (measured.impact, measured.ceiling));
        let verdict = self.plain(caller, place, tool, (GateAnswer::Deny, denial.code.as_str()));
        GateVerdict { measured, ..verdict }
    }

    pub(crate) fn held(&self, caller: &Caller, place: Place<'_>, hold: NodeHold) -> GateVerdict {
        let NodeHold { tool, reason: HeldFor { code, params } } = hold;
        let verdict = self.plain(caller, place, &tool, (GateAnswer::Hold, &code));
        GateVerdict { tainted: params, ..verdict }
    }

    /// Checks that the policy lets a call start although the verdict cannot be recorded.
    ///
    /// # Errors
    ///
    /// `AUDIT_UNAVAILABLE`.
    pub(crate) fn check_unrecorded(&self, impact: u8) -> Result<(), Denial> {
        let standing = Standing { audit_down: true, ..Standing::default() };
        standing.check_audit(Some(impact), &self.policy())
    }

    /// Checks that the policy of a permit is still in force and that no lockdown stops the call.
    ///
    /// # Errors
    ///
    /// `LOCKDOWN` or `POLICY_EPOCH_STALE`.
    pub(crate) fn check_seal(&self, permit: &Permit) -> Result<(), Denial> {
        let policy = self.policy();
        self.standing().check_lockdown(Some(permit.class().impact), &policy)?;
        if permit.epoch() != policy.epoch {
            let what = "the policy was replaced after the verdict";
            return Err(Denial::new(DenialCode::PolicyEpochStale, what));
        }
        Ok(())
    }

    fn plain(
        &self,
        caller: &Caller,
        (node, attempt): Place<'_>,
        tool: &str,
        (answer, code): (GateAnswer, &str),
    ) -> GateVerdict {
        GateVerdict {
            node: node.clone(),
            attempt,
            tool: tool.to_owned(),
            version: self.toolbox.version(tool).unwrap_or_default().to_owned(),
            answer,
            code: code.to_owned(),
            scope: caller.scope.clone(),
            intent: caller.intent,
            measured: None,
            policy_epoch: self.policy().epoch,
            params: None,
            tainted: Vec::new(),
            amounts: Vec::new(),
            previous: Digest([0; 32]),
            hash: Digest([0; 32]),
        }
    }
}
