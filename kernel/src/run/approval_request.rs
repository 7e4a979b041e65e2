//! What a person is shown before they answer: their yes is for this, and for nothing else.

use serde::Serialize;
use serde_json::{Map, Value};

use crate::event::HumanRequestKind;
use crate::id::Digest;
use crate::json;
use crate::lineage;
use crate::plan::{Effect, Kind};

/// What is about to be done, or what a human_approval node asks. (A result that is to be published is shown as
/// itself: its digest is that of its artifact.)
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ApprovalRequest {
    /// What is asked.
    pub ask: HumanRequestKind,
    /// What executes the node.
    pub kind: Kind,
    /// The tool that would be called.
    pub tool: Option<String>,
    /// Its version.
    pub tool_version: Option<String>,
    /// What the call does to the world.
    pub effect: Effect,
    /// 0 observe, 1 operate, 2 control; by the gate's word, the plan's floor included.
    pub impact: u8,
    /// The parameters, resolved, with the tool's defaults filled in.
    pub params: Map<String, Value>,
    /// The programs that are run on the result, in their order.
    pub tests: Vec<ApprovalTest>,
    /// Why it would come to nothing if it were approved, as things stand.
    pub refusal: Option<String>,
}

/// A test of the contract, as it is shown.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ApprovalTest {
    /// The program and its arguments.
    pub argv: Vec<String>,
    /// What it does to the world.
    pub effect: Effect,
    /// 0 observe, 1 operate, 2 control.
    pub impact: u8,
}

impl ApprovalRequest {
    /// What an answer is bound to: a digest over all of it.
    ///
    /// ```
    /// # use ostler_kernel::{event::HumanRequestKind, plan::{Effect, Kind}, run::ApprovalRequest};
    /// # let (tool_version, refusal, tests) = (None, None, Vec::new());
    /// let shown = ApprovalRequest {
    ///     ask: HumanRequestKind::Before, kind: Kind::Tool, tool: Some("fs.write".into()), tool_version,
    ///     effect: Effect::Write, impact: 1, params: Default::default(), tests, refusal,
    /// };
    /// let other = ApprovalRequest { impact: 2, ..shown.clone() };
    /// assert_ne!(shown.digest(), other.digest());
    /// ```
    pub fn digest(&self) -> Digest {
        let document = serde_json::to_value(self).expect("names, numbers and JSON are JSON");
        let document =
            json::canonical(&document).expect("parameters are canonical before anybody is shown them");
        lineage::hash("aos/shown/1", &[document.as_str().as_bytes()])
    }
}
