//! A workspace with the built-in tools, called only through the gate.

use std::any::Any;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use ostler_drivers::cage::SandboxConfig;
use ostler_drivers::tool::{ToolConfig, builtin};
use ostler_kernel::event::Failure;
use ostler_kernel::gate::{
    Call, CallLimits, Egress, GatePolicy, GatedTool, Permit, Provenance, Scope, Spent, Verdict, decide,
};
use ostler_kernel::id::Digest;
use ostler_kernel::port::{CallContext, Tool, ToolResult, WorkspaceTurn};
use ostler_kernel::run::FailureCategory;
use serde_json::Value;
use tempfile::TempDir;

/// The helper of cages.
pub(crate) const HELPER: &str = env!("CARGO_BIN_EXE_ostler-sandbox");

/// A workspace in a temporary folder, and tools with a configuration.
pub(crate) struct World {
    folder: TempDir,
    tools: Vec<Arc<dyn Tool>>,
    egress: Egress,
}

/// A turn that is held with a value.
struct Turn(Arc<dyn Any + Send + Sync>);

impl WorkspaceTurn for Turn {
    fn hold(&self) -> Option<Arc<dyn Any + Send + Sync>> {
        Some(Arc::clone(&self.0))
    }
}

impl World {
    pub(crate) fn new() -> World {
        World::with("")
    }

    /// A world with this `[tools]` table.
    pub(crate) fn with(config: &str) -> World {
        World::caged(config, "")
    }

    /// A world with these tables `[tools]` and `[sandbox]`.
    pub(crate) fn caged(config: &str, sandbox: &str) -> World {
        let mut config: ToolConfig = toml::from_str(config).expect("the test's configuration is right");
        let sandbox: SandboxConfig = toml::from_str(sandbox).expect("the test's configuration is right");
        config.sandbox = SandboxConfig { helper: Some(HELPER.into()), ..sandbox };
        // There programs see ids of processes that mean nothing here.
        config.sandbox.bubblewrap = Some("/nonexistent".into());
        World {
            folder: tempfile::tempdir().unwrap(),
            tools: builtin(&config, None),
            egress: config.http.egress_allow,
        }
    }

    /// The workspace; its parent is outside.
    pub(crate) fn root(&self) -> PathBuf {
        let root = self.folder.path().join("ws");
        std::fs::create_dir_all(&root).unwrap();
        root
    }

    /// Writes a file of the workspace and creates missing folders.
    pub(crate) fn put(&self, path: &str, bytes: impl AsRef<[u8]>) {
        let path = self.root().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, bytes).unwrap();
    }

    pub(crate) fn text(&self, path: &str) -> String {
        std::fs::read_to_string(self.root().join(path)).unwrap()
    }

    pub(crate) fn tool(&self, name: &str) -> Arc<dyn Tool> {
        self.tools.iter().find(|tool| tool.spec().name == name).expect("a built-in tool").clone()
    }

    /// Calls a tool as the engine does: class, gate, permit, call.
    pub(crate) async fn call(&self, name: &str, params: Value) -> ToolResult {
        self.call_in(name, params, None).await
    }

    /// Calls a tool that has the recorded result of an equal call.
    pub(crate) async fn call_with(&self, name: &str, params: Value, recorded: &Value) -> ToolResult {
        self.call_in(name, params, Some(Arc::new(recorded.clone()))).await
    }

    /// Calls a tool that keeps something until all that it started has ended.
    pub(crate) async fn call_holding(
        &self,
        name: &str,
        params: Value,
        held: Arc<dyn Any + Send + Sync>,
    ) -> ToolResult {
        let turn: Arc<dyn WorkspaceTurn> = Arc::new(Turn(held));
        self.call_with_context(name, params, |context| CallContext { turn: Some(turn), ..context }).await
    }

    async fn call_in(&self, name: &str, params: Value, recorded: Option<Arc<Value>>) -> ToolResult {
        self.call_with_context(name, params, |context| CallContext { recorded, ..context }).await
    }

    async fn call_with_context(
        &self,
        name: &str,
        params: Value,
        given: impl FnOnce(CallContext) -> CallContext,
    ) -> ToolResult {
        let tool = self.tool(name);
        let root = self.root();
        let permit = permit(tool.clone(), params, root.to_str().unwrap(), self.egress.clone())?;
        tool.call(permit, given(CallContext::without_log(Arc::from(root), 60_000))).await
    }

    /// The result or failure of a call on one line, with the workspace as ROOT.
    pub(crate) async fn shown(&self, name: &str, params: Value) -> String {
        let shown = match self.call(name, params).await {
            Ok(value) => value.to_string(),
            Err(failure) => format!("{}: {}", failure.category, failure.message),
        };
        shown.replace(self.root().to_str().unwrap(), "ROOT")
    }
}

/// The gate's verdict for the highest intent in a scope of all built-in tools.
fn permit(tool: Arc<dyn Tool>, params: Value, workspace: &str, egress: Egress) -> Result<Permit, Failure> {
    let name = tool.spec().name.clone();
    let scope = Scope { tools: BTreeMap::from([(name.clone(), None)]) };
    let policy = GatePolicy {
        scopes: BTreeMap::from([("all".to_owned(), scope)]),
        ceiling: 2,
        epoch: 1,
        limits: CallLimits { max_depth: 64, max_bytes: 64 << 20 },
        egress,
        ..GatePolicy::default()
    };
    let gated = GatedTool::new(tool).unwrap();
    let call = Call {
        tool: Some(&gated),
        name: &name,
        params: params.as_object().unwrap().clone().into(),
        floor: 0,
        intent: 2,
        scope: "all".into(),
        workspace: Some(workspace),
        provenance: Provenance::PLAN,
        spent: Spent::NOTHING,
    };
    match decide(call, Digest([1; 32]), &policy) {
        Verdict::Allowed { permit, .. } => Ok(permit),
        Verdict::Denied(denial) => {
            let message = format!("{}: {}", denial.code, denial.operator);
            Err(Failure { category: FailureCategory::GateDenied, message })
        }
    }
}
