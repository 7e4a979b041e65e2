//! The gate of the system: tools, policy and compiled contracts.

use std::sync::Arc;

use ostler_kernel::contract::{Contract, ContractError};
use ostler_kernel::gate::{Denial, GatePolicy, Permit, Preview};
use ostler_kernel::id::Digest;
use ostler_kernel::json::Object;
use ostler_kernel::plan::{Rule, model_tool};
use ostler_kernel::port::Tool;

use crate::base::limits::Limits;
use crate::metrics::Measures;
use crate::state::caller::Caller;
use crate::state::contracts::Contracts;
use crate::state::toolbox::Toolbox;

pub(crate) struct Gatekeeper {
    pub(crate) toolbox: Arc<Toolbox>,
    pub(crate) policy: GatePolicy,
    contracts: Contracts,
    measures: Measures,
    limits: Limits,
}

impl Gatekeeper {
    pub(crate) fn new(
        toolbox: Arc<Toolbox>,
        policy: GatePolicy,
        measures: Measures,
        limits: Limits,
    ) -> Gatekeeper {
        Gatekeeper { toolbox, policy, contracts: Contracts::default(), measures, limits }
    }

    /// The tool and a permit for a call, or the denial.
    pub(crate) fn gate(
        &self,
        caller: &Caller,
        name: &str,
        params: Object,
        floor: u8,
        idempotency_key: Digest,
    ) -> Result<(Arc<dyn Tool>, Permit), Denial> {
        let since = self.measures.now();
        let verdict = self.toolbox.gate(&self.policy, caller, name, params, floor, idempotency_key);
        self.measures.gated(since, verdict.as_ref());
        verdict
    }

    /// True if a model of this name is configured.
    pub(crate) fn has_model(&self, model: &str) -> bool {
        self.toolbox.version(&model_tool(model)).is_some()
    }

    /// The class of a call without making one, or the denial.
    pub(crate) fn preview(
        &self,
        caller: &Caller,
        name: &str,
        params: Object,
        floor: u8,
    ) -> Result<Preview, Denial> {
        self.toolbox.preview(&self.policy, caller, name, params, floor)
    }

    pub(crate) fn contract(&self, rules: &[Rule]) -> Result<Arc<Contract>, ContractError> {
        self.contracts.compiled(rules, self.limits.contracts_kept, self.limits.contracts_kept_bytes)
    }
}
