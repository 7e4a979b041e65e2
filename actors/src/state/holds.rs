//! Attempts that a person must allow because of what their run has read: the call of the node, and the tests of its contract.

use ostler_kernel::contract;
use ostler_kernel::gate::{self, Denial, DenialCode, GatePolicy, Provenance};
use ostler_kernel::plan::{Method, Node, TEST_TOOL};
use ostler_kernel::policy::{
    RULE_OF_TWO, has_read_both_before_test, has_read_strangers_and_private, labels_of_tests,
};
use ostler_kernel::run::{HeldFor, Run};
use serde_json::Map;

use crate::state::caller::Caller;
use crate::state::gatekeeper::{Gatekeeper, Terms};
use crate::state::toolbox::AskedCall;

/// The reason why a person must allow a call.
pub(crate) struct NodeHold {
    /// The tool of the node, or of its tests.
    pub(crate) tool: String,
    pub(crate) reason: HeldFor,
}

impl NodeHold {
    fn new(tool: &str, code: &str, params: Vec<String>) -> NodeHold {
        NodeHold { tool: tool.to_owned(), reason: HeldFor { code: code.to_owned(), params } }
    }
}

impl Gatekeeper {
    /// The reasons why a person must allow the attempt of a node; none if no person is needed. Two reasons exist: a sensitive parameter
    /// is tainted and no clearance route covers the tool, or the call, or a test, sends data out after the run has read both texts of
    /// strangers and private data. No person is needed for a call that is denied whatever a person says.
    pub(crate) fn holds(&self, caller: &Caller, run: &Run, node: &Node) -> Vec<NodeHold> {
        let policy = self.policy();
        let of_call = self.holds_of_call(&policy, caller, run, node);
        match of_call.is_empty() {
            true => self.hold_of_tests(&policy, caller, run, node).into_iter().collect(),
            false => of_call,
        }
    }

    fn holds_of_call(&self, policy: &GatePolicy, caller: &Caller, run: &Run, node: &Node) -> Vec<NodeHold> {
        let Some(tool) = node.tool.as_deref().and_then(|tool| self.toolbox.gated(tool)) else {
            return Vec::new();
        };
        let provenance = self.provenance(policy, run, node);
        let names = node.params.keys().chain(node.param_refs.keys()).map(String::as_str);
        let tainted = gate::taint_of(tool, names, &|_| false, &provenance, policy);
        let terms = Terms { toolbox: &self.toolbox, policy };
        let held = |code: &str, params| NodeHold::new(tool.name(), code, params);
        let has_read_both =
            tool.tool().sends_out() && policy.has_labels() && has_read_strangers_and_private(run, &terms);
        let of_taint = tainted.filter(|_| !policy.has_route(tool.name()));
        let holds: Vec<NodeHold> = of_taint
            .map(|hold| held(hold.code.as_str(), hold.params))
            .into_iter()
            .chain(has_read_both.then(|| held(RULE_OF_TWO, Vec::new())))
            .collect();
        if holds.is_empty() {
            return holds;
        }
        let asked = AskedCall::plain(tool.name(), Map::clone(&node.params).into(), node.impact);
        if self.toolbox.preflight(policy, caller, asked).is_none() { holds } else { Vec::new() }
    }

    /// The tests of a node as calls of their own, made after the call of the node. The first test that is denied ends the attempt.
    fn hold_of_tests(
        &self,
        policy: &GatePolicy,
        caller: &Caller,
        run: &Run,
        node: &Node,
    ) -> Option<NodeHold> {
        let next = run.instance(&node.id).map_or(0, |instance| instance.attempts) + 1;
        let terms = Terms { toolbox: &self.toolbox, policy };
        if !self.tests_send_out(policy, node) || !has_read_both_before_test(run, node, next, &terms) {
            return None;
        }
        let first = contract::tests(&node.contract).into_iter().next()?;
        let asked = AskedCall::plain(TEST_TOOL, first.params().into(), 0);
        let hold = NodeHold::new(TEST_TOOL, RULE_OF_TWO, Vec::new());
        self.toolbox.preflight(policy, caller, asked).is_none().then_some(hold)
    }

    /// True if what a test may send out depends on what the run has read.
    pub(crate) fn asks_before_tests(&self) -> bool {
        self.policy().has_labels()
    }

    /// Provenance of a test of a running attempt.
    ///
    /// # Errors
    ///
    /// The run has read texts of strangers and private data since the attempt began, and no person has allowed the attempt.
    pub(crate) fn before_test(&self, run: &Run, node: &Node, attempt: u32) -> Result<Provenance, Denial> {
        let policy = self.policy();
        if !self.tests_send_out(&policy, node) {
            return Ok(Provenance::PLAN.clone());
        }
        let terms = Terms { toolbox: &self.toolbox, policy: &policy };
        // A yes to a question that did not show the hold was given without this reason.
        let is_approved = run.instance(&node.id).is_some_and(|instance| {
            instance.approved && instance.holds.iter().any(|held| held.code == RULE_OF_TWO)
        });
        if !is_approved && has_read_both_before_test(run, node, attempt, &terms) {
            let what = "since the attempt began, the run has read texts of strangers and private data, and the program of a test may send \
                        them out: give the program a node of its own, which asks a person";
            return Err(Denial::new(DenialCode::EgressLabel, what));
        }
        Ok(Provenance { labels: labels_of_tests(run, node, &terms), ..Provenance::default() })
    }

    /// True if a call, or a test, of a node may need a person because of what was read.
    pub(crate) fn heeds_labels(&self, node: &Node) -> bool {
        let policy = self.policy();
        let tool = node.tool.as_deref().and_then(|tool| self.toolbox.tool(tool));
        policy.has_labels() && tool.is_some_and(|tool| tool.sends_out()) || self.tests_send_out(&policy, node)
    }

    /// True if a node has tests, and what their programs may send out depends on what the run has read.
    pub(super) fn tests_send_out(&self, policy: &GatePolicy, node: &Node) -> bool {
        node.is_judged_by(Method::Test)
            && policy.has_labels()
            && self.toolbox.tool(TEST_TOOL).is_some_and(|tool| tool.sends_out())
    }
}
