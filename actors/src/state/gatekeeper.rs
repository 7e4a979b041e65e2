//! The gate of the system: tools, policy and compiled contracts.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, RwLock};

use ostler_kernel::contract::{Contract, ContractError, Judgement};
use ostler_kernel::gate::{Denial, DenialCode, GatePolicy, Permit, Preview, Provenance, Spent, Standing};
use ostler_kernel::id::{Digest, RunId};
use ostler_kernel::json::Object;
use ostler_kernel::lineage;
use ostler_kernel::plan::{Effect, Node, Rule, TEST_TOOL, model_tool};
use ostler_kernel::policy::{EarlierRun, ResultTerms, earlier_run, provenance};
use ostler_kernel::port::{NamedFile, Tool, WorkspaceUse, WorkspaceWrites};
use ostler_kernel::run::Run;
use serde_json::{Map, Value};

use crate::base::limits::Limits;
use crate::base::long_work::in_place;
use crate::base::workspace_turns::{Beside, WorkspaceTurns};
use crate::messages::clearance::Answer;
use crate::metrics::Measures;
use crate::state::call_totals::{self, CallTotals};
use crate::state::callbacks::Callbacks;
use crate::state::caller::Caller;
use crate::state::clearance::{Clearance, Question, Stopped};
use crate::state::contracts::Contracts;
use crate::state::toolbox::{AskedCall, Toolbox};
use crate::storage::run_reader::RunReader;
use crate::storage::runs_around::RunsAround;

/// Most steps of a judgement that other tasks wait for: a few milliseconds.
const QUICK_STEPS_MAX: u64 = 50_000;

pub(crate) struct Gatekeeper {
    pub(crate) toolbox: Arc<Toolbox>,
    policy: RwLock<InForce>,
    /// True while an operator has stopped all calls.
    lockdown: AtomicBool,
    pub(crate) clearance: Clearance,
    pub(crate) callbacks: Callbacks,
    pub(crate) totals: CallTotals,
    pub(crate) runs_around: RunsAround,
    pub(crate) turns: Arc<WorkspaceTurns>,
    contracts: Contracts,
    measures: Measures,
    pub(crate) limits: Limits,
}

/// A policy, and its digest together with what confines programs, which is not computed at each decision.
struct InForce {
    policy: Arc<GatePolicy>,
    digest: Digest,
}

impl InForce {
    fn new(policy: GatePolicy, toolbox: &Toolbox) -> InForce {
        let digest = lineage::hash("ostler.terms.1", &[&policy.digest().0, &toolbox.confinement().0]);
        InForce { digest, policy: Arc::new(policy) }
    }
}

impl Gatekeeper {
    pub(crate) fn new(
        toolbox: Arc<Toolbox>,
        runs: Arc<RunReader>,
        writes: Arc<dyn WorkspaceWrites>,
        policy: GatePolicy,
        measures: Measures,
        limits: Limits,
    ) -> Gatekeeper {
        let writes_outside = toolbox.iter().any(|tool| tool.writes_outside());
        let tools = Arc::clone(&toolbox);
        let beside: Beside =
            Box::new(move |workspace| tools.iter().flat_map(|tool| tool.reads_outside(workspace)).collect());
        Gatekeeper {
            turns: Arc::new(WorkspaceTurns::new(writes_outside, beside, writes)),
            policy: RwLock::new(InForce::new(policy, &toolbox)),
            toolbox,
            lockdown: AtomicBool::new(false),
            clearance: Clearance::default(),
            callbacks: Callbacks::default(),
            totals: CallTotals::new(Arc::clone(&runs)),
            runs_around: RunsAround::new(runs),
            contracts: Contracts::default(),
            measures,
            limits,
        }
    }

    /// The policy in force.
    pub(crate) fn policy(&self) -> Arc<GatePolicy> {
        Arc::clone(&self.policy.read().unwrap_or_else(std::sync::PoisonError::into_inner).policy)
    }

    /// Digest of the policy in force, without its number (see [`GatePolicy::digest`]), and of what confines programs. Approvals are bound
    /// to it.
    pub(crate) fn policy_digest(&self) -> Digest {
        self.policy.read().unwrap_or_else(std::sync::PoisonError::into_inner).digest
    }

    /// Replaces the policy for all later verdicts; returns its epoch.
    pub(crate) fn replace_policy(&self, policy: GatePolicy) -> u64 {
        let mut current = self.policy.write().unwrap_or_else(std::sync::PoisonError::into_inner);
        let epoch = current.policy.epoch + 1;
        *current = InForce::new(GatePolicy { epoch, ..policy }, &self.toolbox);
        epoch
    }

    pub(crate) fn is_locked_down(&self) -> bool {
        self.lockdown.load(Ordering::SeqCst)
    }

    /// Stops or releases all later calls.
    pub(crate) fn set_lockdown(&self, on: bool) {
        self.lockdown.store(on, Ordering::SeqCst);
    }

    pub(super) fn standing(&self) -> Standing<'_> {
        Standing { lockdown: self.is_locked_down(), ..Standing::default() }
    }

    pub(crate) async fn ask(&self, question: Question) -> Answer {
        self.clearance.ask(question).await
    }

    /// The tool and a permit for a call within an attempt of a run, or the denial. Waits for the clearance authority. `provenance`: of
    /// the parameters.
    pub(crate) async fn gate(
        &self,
        caller: &Caller,
        run: RunId,
        (name, params): (&str, Object),
        provenance: &Provenance,
        idempotency_key: Digest,
    ) -> Result<(Arc<dyn Tool>, Permit), Denial> {
        let mut answer = None;
        loop {
            let policy = self.policy();
            let judge = |spent: &Spent| {
                let plain = AskedCall::plain(name, params.clone(), 0);
                let asked = AskedCall { answer: answer.as_ref(), spent, provenance, ..plain };
                self.gate_call(&policy, caller, asked, idempotency_key)
            };
            match self.within_totals(&policy, name, (run, None), Some(self.totals.next_number()), judge) {
                Ok(permitted) => return Ok(permitted),
                Err(Stopped::Denied(denial)) => return Err(denial),
                // Repeats only if the policy was replaced meanwhile.
                Err(Stopped::Asks(question)) => answer = Some(self.ask(*question).await),
            }
        }
    }

    /// The tool and a permit for the call of a node, the denial, or the question to the clearance authority. `answer`: the
    /// authority's answer about the call, if asked before. `charged`: the attempt that counts for the budgets; `None`: none begins.
    pub(crate) fn gate_node(
        &self,
        caller: &Caller,
        (id, run): (RunId, &Run),
        (node, charged): (&Node, Option<u32>),
        params: Object,
        idempotency_key: Digest,
        answer: Option<&Answer>,
    ) -> Result<(Arc<dyn Tool>, Permit), Stopped> {
        let name = node.tool.as_deref().unwrap_or_default();
        // One policy for the whole verdict: a reload may replace the policy at any moment.
        let policy = self.policy();
        let provenance = self.provenance(&policy, run, node);
        let instance = run.instance(&node.id);
        let number = charged.map(|attempt| call_totals::number(id, &node.id, attempt));
        let judge = |spent: &Spent| {
            let asked = AskedCall {
                name,
                params,
                floor: node.impact,
                provenance: &provenance,
                spent,
                cleared: instance.is_some_and(|instance| instance.approved),
                answer,
            };
            self.gate_call(&policy, caller, asked, idempotency_key)
        };
        self.within_totals(&policy, name, (id, Some(run)), number, judge)
    }

    /// Takes the charge of an attempt back that does not begin after all.
    pub(crate) fn uncharge(&self, id: RunId, node: &Node, attempt: u32) {
        let Some(tool) = node.tool.as_deref().filter(|tool| self.policy().has_budgets(tool)) else { return };
        if let Ok(totals) = self.totals.of(id, None) {
            totals.with(|totals| totals.spent.refund(call_totals::number(id, &node.id, attempt), tool));
        }
    }

    /// Judges a call with what the run, and all runs around it, have spent on the tool, and charges the call to `number` if it is
    /// allowed. Calls of several runs are judged one after the other.
    fn within_totals(
        &self,
        policy: &GatePolicy,
        tool: &str,
        (id, run): (RunId, Option<&Run>),
        number: Option<u64>,
        judge: impl FnOnce(&Spent) -> Result<(Arc<dyn Tool>, Permit), Stopped>,
    ) -> Result<(Arc<dyn Tool>, Permit), Stopped> {
        if !policy.has_budgets(tool) {
            return judge(Spent::NOTHING);
        }
        let totals = self.totals.of(id, run).map_err(|error| {
            let what = format!("the calls of the runs around this one cannot be read: {error}");
            Stopped::Denied(Denial::new(DenialCode::AuditUnavailable, what))
        })?;
        totals.with(|totals| {
            if let Some(number) = number {
                totals.spent.refund(number, tool);
            }
            let judged = judge(&totals.spent);
            if let (Some(number), Ok((_, permit))) = (number, &judged) {
                totals.spent.charge(number, tool, permit.params());
            }
            judged
        })
    }

    fn gate_call(
        &self,
        policy: &GatePolicy,
        caller: &Caller,
        asked: AskedCall<'_>,
        idempotency_key: Digest,
    ) -> Result<(Arc<dyn Tool>, Permit), Stopped> {
        let since = self.measures.now();
        let by = (policy, self.standing());
        let verdict = self.toolbox.gate(by, &self.clearance, caller, asked, idempotency_key);
        match &verdict {
            Ok(permitted) => self.measures.gated(since, Ok(permitted)),
            Err(Stopped::Denied(denial)) => self.measures.gated(since, Err::<&(), _>(denial)),
            Err(Stopped::Asks(_)) => {}
        }
        verdict
    }

    /// Provenance of the parameters of a node; [`Provenance::PLAN`] if no rule depends on the provenance.
    pub(super) fn provenance(&self, policy: &GatePolicy, run: &Run, node: &Node) -> Cow<'static, Provenance> {
        if !self.asks_for_provenance(policy, node) {
            return Cow::Borrowed(Provenance::PLAN);
        }
        Cow::Owned(provenance(run, node, &Terms { toolbox: &self.toolbox, policy }))
    }

    pub(super) fn asks_for_provenance(&self, policy: &GatePolicy, node: &Node) -> bool {
        let name = node.tool.as_deref().unwrap_or_default();
        self.toolbox.gated(name).is_some_and(|tool| {
            let reaches_out = tool.tool().sends_out() && policy.has_labels();
            !tool.sensitive().is_empty() || policy.has_sensitive(name) || reaches_out
        }) || self.tests_send_out(policy, node)
    }

    /// What a goal is told of a run that has ended, under the present policy.
    pub(crate) fn earlier_run(&self, id: RunId, run: &Run) -> EarlierRun {
        earlier_run(id, run, &Terms { toolbox: &self.toolbox, policy: &self.policy() })
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
        let policy = self.policy();
        self.toolbox.preview((&policy, self.standing()), caller, AskedCall::plain(name, params, floor))
    }

    /// The files that tests name, as they are now, by path.
    pub(crate) async fn files_of_tests<'a>(
        &self,
        caller: &Caller,
        tests: impl Iterator<Item = &'a [String]>,
    ) -> Vec<NamedFile> {
        let mut files = BTreeMap::new();
        let Some(tool) = self.toolbox.tool(TEST_TOOL) else { return Vec::new() };
        for argv in tests {
            let params = Map::from_iter([("argv".to_owned(), argv.into())]);
            let named = tool.named_files(&params, Arc::clone(&caller.workspace)).await;
            files.extend(named.into_iter().map(|file| (file.path.clone(), file)));
        }
        files.into_values().collect()
    }

    /// The rules of a wait that a value breaks, in words. Such rules need no call.
    pub(crate) fn broken(&self, rules: &[Rule], value: &Value) -> Vec<String> {
        match self.judge(rules, value) {
            Ok(judgement) => judgement.broken.iter().map(ToString::to_string).collect(),
            Err(error) => vec![error.to_string()],
        }
    }

    /// Judges a value by the rules that need no call. Other tasks go on while a judgement takes long.
    pub(crate) fn judge(&self, rules: &[Rule], value: &Value) -> Result<Judgement, ContractError> {
        let contract = self.contract(rules)?;
        if contract.steps(value) <= QUICK_STEPS_MAX {
            return Ok(contract.judge(value));
        }
        Ok(in_place(|| contract.judge(value)))
    }

    fn contract(&self, rules: &[Rule]) -> Result<Arc<Contract>, ContractError> {
        self.contracts.compiled(rules, self.limits.contracts_kept, self.limits.contracts_kept_bytes)
    }

    /// True if a stored value satisfies a contract that needs no call and no person.
    pub(crate) fn satisfies(&self, rules: &[Rule], value: &Value) -> bool {
        let Ok(judgement) = self.judge(rules, value) else { return false };
        judgement.holds()
            && judgement.tests.is_empty()
            && judgement.models.is_empty()
            && judgement.people.is_empty()
    }
}

pub(super) struct Terms<'a> {
    pub(super) toolbox: &'a Toolbox,
    pub(super) policy: &'a GatePolicy,
}

impl ResultTerms for Terms<'_> {
    fn trusts(&self, tool: &str, effect: Effect) -> bool {
        self.policy.trusts(tool, self.toolbox.is_trusted(tool, effect))
    }

    fn effect(&self, tool: &str, literal: &Map<String, Value>) -> Effect {
        self.toolbox.class(tool, literal).effect
    }

    fn workspace_use(&self, tool: &str) -> WorkspaceUse {
        self.toolbox.workspace_use(tool)
    }

    fn labels(&self, tool: &str) -> Vec<&str> {
        self.policy.labels_of(tool).collect()
    }

    fn all_labels(&self) -> Vec<&str> {
        self.policy.all_labels().collect()
    }
}
