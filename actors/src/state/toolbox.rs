//! The tools of a system, callable only through the gate.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use ostler_kernel::contract::SchemaError;
use ostler_kernel::gate::{
    self, AtConnection, Call, CallClass, Cleared, Denial, GatePolicy, GatedTool, Permit, Preview, Provenance,
    Spent, Standing,
};
use ostler_kernel::id::Digest;
use ostler_kernel::json::Object;
use ostler_kernel::lineage;
use ostler_kernel::plan::{BadParam, Effect, Idempotency, Kind, MODEL_DEFAULT, Node, ToolDefaults, Tools};
use ostler_kernel::policy::SEARCH_TOOL;
use ostler_kernel::port::{Tool, WorkspaceUse};
use ostler_kernel::run::executable_digest;
use serde_json::{Map, Value};

use crate::messages::clearance::Answer;
use crate::state::caller::Caller;
use crate::state::clearance::{Clearance, Stopped};

/// A call for which a permit is requested.
pub(crate) struct AskedCall<'a> {
    pub(crate) name: &'a str,
    pub(crate) params: Object,
    /// Lower bound on the impact.
    pub(crate) floor: u8,
    pub(crate) provenance: &'a Provenance,
    /// Sums over the earlier calls of the run, for the budgets of the policy.
    pub(crate) spent: &'a Spent,
    /// True if a person has allowed the call.
    pub(crate) cleared: bool,
    /// Answer of the clearance authority; `None`: not asked yet.
    pub(crate) answer: Option<&'a Answer>,
}

impl<'a> AskedCall<'a> {
    /// A call by the system or by a program: without tainted parameters, sums of earlier calls, and approval.
    pub(crate) fn plain(name: &'a str, params: Object, floor: u8) -> AskedCall<'a> {
        let (provenance, spent) = (Provenance::PLAN, Spent::NOTHING);
        AskedCall { name, params, floor, provenance, spent, cleared: false, answer: None }
    }
}

/// Tools by name.
#[derive(Debug)]
pub struct Toolbox {
    tools: BTreeMap<String, GatedTool>,
    /// Name of the model of the role `judge`.
    judge: String,
}

/// Longest name of a tool in bytes.
const NAME_BYTES_MAX: usize = 200;

const WORST: CallClass = CallClass { impact: 2, effect: Effect::External, idem: Idempotency::None };

/// The reason why a set of tools is refused.
#[derive(Debug, thiserror::Error)]
pub enum ToolboxError {
    /// Two tools have the same name.
    #[error("two tools are called {0}: rename one")]
    Twice(String),
    /// A tool's name is malformed.
    #[error("{0:?} is no name of a tool: 1 to {NAME_BYTES_MAX} bytes, without control characters")]
    Name(String),
    /// A tool has the name by which models search for tools.
    #[error("a tool cannot be called {SEARCH_TOOL}: models search for tools by this name; rename the tool")]
    Reserved,
    /// A tool's parameter schema is invalid.
    #[error("the parameters of tool {tool} are not described by a JSON Schema: {error}")]
    Schema {
        /// The tool.
        tool: String,
        /// The fault of the schema.
        error: SchemaError,
    },
}

impl Toolbox {
    /// Checks the tools and compiles their schemas.
    pub fn new(tools: Vec<Arc<dyn Tool>>) -> Result<Toolbox, ToolboxError> {
        let mut named = BTreeMap::new();
        for tool in tools {
            let name = tool.spec().name.clone();
            if name.is_empty() || name.len() > NAME_BYTES_MAX || name.contains(char::is_control) {
                return Err(ToolboxError::Name(name.chars().take(NAME_BYTES_MAX).collect()));
            }
            if name == SEARCH_TOOL {
                return Err(ToolboxError::Reserved);
            }
            let gated =
                GatedTool::new(tool).map_err(|error| ToolboxError::Schema { tool: name.clone(), error })?;
            let gated = gated.with_reach();
            if named.insert(name.clone(), gated).is_some() {
                return Err(ToolboxError::Twice(name));
            }
        }
        Ok(Toolbox { tools: named, judge: MODEL_DEFAULT.to_owned() })
    }

    /// Names the model that judges results for rules which name none, instead of `default`.
    #[must_use]
    pub fn with_judge(self, model: Option<String>) -> Toolbox {
        Toolbox { judge: model.unwrap_or(self.judge), ..self }
    }

    /// All tools by name.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<dyn Tool>> {
        self.tools.values().map(GatedTool::tool)
    }

    /// The tool of a name, with its compiled schema.
    pub fn gated(&self, name: &str) -> Option<&GatedTool> {
        self.tools.get(name)
    }

    /// Returns the tool and a permit for a call, the denial, or the question to the clearance authority.
    pub(crate) fn gate(
        &self,
        (policy, standing): (&GatePolicy, Standing<'_>),
        clearance: &Clearance,
        caller: &Caller,
        asked: AskedCall<'_>,
        idempotency_key: Digest,
    ) -> Result<(Arc<dyn Tool>, Permit), Stopped> {
        let (cleared, answer) = (asked.cleared, asked.answer);
        let call = self.call(caller, asked);
        let tool = call.tool;
        let judged = gate::judge(call, policy, standing, &mut AtConnection)?;
        let cleared = match judged.route() {
            Some(route) => Some(clearance.of(&judged, route, caller.asker(), answer)?),
            // The approved request is compared with the permit before the call starts.
            None if cleared => Some(Cleared::new(judged.seal()?)),
            None => None,
        };
        let permit = judged.permit(idempotency_key, cleared)?;
        let tool = tool.expect("the gate allows no tool that does not exist");
        Ok((Arc::clone(tool.tool()), permit))
    }

    /// Returns the class of a call, or the denial, without permitting it.
    pub(crate) fn preview(
        &self,
        (policy, standing): (&GatePolicy, Standing<'_>),
        caller: &Caller,
        asked: AskedCall<'_>,
    ) -> Result<Preview, Denial> {
        let call = self.call(caller, asked);
        // A person may be asked during a lockdown; a call that is denied anyway is denied for its first reason.
        gate::preview(call.clone(), policy)
            .map_err(|denial| gate::judge(call, policy, standing, &mut AtConnection).err().unwrap_or(denial))
    }

    /// The denial that is certain for a call with some of its parameters.
    pub(crate) fn preflight(
        &self,
        policy: &GatePolicy,
        caller: &Caller,
        asked: AskedCall<'_>,
    ) -> Option<Denial> {
        gate::preflight(&self.call(caller, asked), policy)
    }

    fn call<'a>(&'a self, caller: &'a Caller, asked: AskedCall<'a>) -> Call<'a> {
        let AskedCall { name, params, floor, provenance, spent, .. } = asked;
        Call {
            tool: self.tools.get(name),
            name,
            params,
            floor,
            intent: caller.intent,
            scope: caller.scope.as_str().into(),
            workspace: Some(caller.workspace.to_str().unwrap_or_default()),
            provenance,
            spent,
        }
    }

    /// True if the results of a tool's calls with this effect are free of texts of strangers; false for an unknown tool.
    pub(crate) fn is_trusted(&self, name: &str, effect: Effect) -> bool {
        let reads_strangers = |tool: &dyn Tool| match effect {
            Effect::External => tool.reads_strangers_outside(),
            _ => tool.reads_strangers(),
        };
        self.tools.get(name).is_some_and(|gated| !reads_strangers(&**gated.tool()))
    }

    /// What calls of a tool do with the files of the workspace; an unknown tool touches none.
    pub(crate) fn workspace_use(&self, name: &str) -> WorkspaceUse {
        self.tools.get(name).map_or(WorkspaceUse::NONE, |gated| gated.tool().workspace_use())
    }

    pub(crate) fn tool(&self, name: &str) -> Option<&Arc<dyn Tool>> {
        self.tools.get(name).map(GatedTool::tool)
    }

    /// Digest of everything that confines programs; see [`Tool::confinement`].
    pub(crate) fn confinement(&self) -> Digest {
        let confined = self.tools.iter().filter_map(|(name, tool)| Some((name, tool.tool().confinement()?)));
        let parts: Vec<Vec<u8>> =
            confined.map(|(name, digest)| [name.as_bytes(), &[0], &digest.0].concat()).collect();
        let parts: Vec<&[u8]> = parts.iter().map(Vec::as_slice).collect();
        lineage::hash("ostler.confinement.1", &parts)
    }

    pub(crate) fn version(&self, name: &str) -> Option<&str> {
        self.tools.get(name).map(|tool| tool.tool().spec().version.as_str())
    }

    /// See [`executable_digest`].
    pub(crate) fn executable_digest(&self, node: &Node) -> Digest {
        match node.tool.as_deref().and_then(|tool| self.tools.get(tool)) {
            Some(tool) if node.kind == Kind::Tool => tool.executable_digest(),
            tool => executable_digest(node, tool.map(|tool| tool.tool().spec().version.as_str())),
        }
    }

    /// Class of a call with these parameters; the worst for an unknown tool.
    pub(crate) fn class(&self, name: &str, params: &Map<String, Value>) -> CallClass {
        self.tools.get(name).map_or(WORST, |tool| tool.class(params))
    }

    /// True if a tool has path parameters.
    pub(crate) fn takes_paths(&self, name: &str) -> bool {
        self.tools.get(name).is_some_and(GatedTool::takes_paths)
    }

    /// True if a node only waits.
    pub(crate) fn is_timer(&self, node: &Node) -> bool {
        let tool = node.tool.as_deref().and_then(|tool| self.tools.get(tool));
        tool.is_some_and(|tool| tool.tool().is_timer())
    }
}

impl Tools for Toolbox {
    fn defaults(&self, tool: &str, literal: &Map<String, Value>) -> Option<ToolDefaults> {
        let tool = self.tools.get(tool)?;
        let CallClass { effect, impact, idem } = tool.tool().class(literal);
        let only_waits = tool.tool().timer_ms(literal).is_some();
        Some(ToolDefaults { effect, impact, idem, only_waits, result_schema: tool.result_schema() })
    }

    fn params_schema(&self, tool: &str) -> Option<&Value> {
        Some(&self.tools.get(tool)?.tool().spec().params)
    }

    fn check_params(
        &self,
        tool: &str,
        literal: &Map<String, Value>,
        referred: &BTreeSet<&str>,
    ) -> Vec<BadParam> {
        self.tools.get(tool).map(|tool| tool.judge(literal, referred)).unwrap_or_default()
    }

    fn names(&self) -> Vec<String> {
        self.tools.keys().cloned().collect()
    }

    fn judge_model(&self) -> &str {
        &self.judge
    }
}

#[cfg(test)]
mod tests {
    use ostler_kernel::gate::CallClass;
    use ostler_kernel::plan::{Effect, Idempotency, PlanDraft, Settings};
    use ostler_kernel::port::{BoxFuture, CallContext, ToolResult, ToolSpec};
    use serde_json::json;

    use super::*;

    struct Look(ToolSpec);

    impl Tool for Look {
        fn spec(&self) -> &ToolSpec {
            &self.0
        }

        fn class(&self, _: &Map<String, Value>) -> CallClass {
            CallClass { impact: 0, effect: Effect::None, idem: Idempotency::Natural }
        }

        fn call(&self, _: Permit, _: CallContext) -> BoxFuture<'_, ToolResult> {
            Box::pin(async { Ok(json!({})) })
        }
    }

    #[test]
    fn what_runs_is_known_beforehand_by_the_same_digest() {
        let (name, version, description) = ("look".to_owned(), "3".to_owned(), String::new());
        let spec =
            ToolSpec { name, version, description, params: Value::Null, result: json!({"type": "object"}) };
        let toolbox = Toolbox::new(vec![Arc::new(Look(spec))]).unwrap();
        let draft = json!({"id": "p", "nodes": [
            {"id": "a", "tool": "look"},
            {"id": "b", "kind": "aggregator", "deps": ["a"], "params": {"template": "t"}},
        ]});
        let draft: PlanDraft = serde_json::from_value(draft).unwrap();
        let plan = draft.validate(&Settings::real(1, &toolbox)).unwrap();
        let [a, b] = &plan.nodes[..] else { panic!("two nodes") };
        assert_eq!(toolbox.executable_digest(a), executable_digest(a, Some("3")));
        assert_eq!(toolbox.executable_digest(b), executable_digest(b, None));
        assert_ne!(toolbox.executable_digest(a), executable_digest(a, Some("4")));
    }
}
