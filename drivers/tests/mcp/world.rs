//! A server in a folder of its own, served as in a system, and calls through the gate.

use std::path::Path;
use std::sync::{Arc, Mutex};

use ostler_drivers::cage::{SandboxConfig, reached};
use ostler_drivers::mcp::{Acceptance, Confined, Listing, McpConfig, McpServer, Place, tools};
use ostler_kernel::event::Failure;
use ostler_kernel::gate::{
    Call, GatePolicy, GatedTool, Provenance, SCOPE_DEFAULT, Scope, Spent, Verdict, decide,
};
use ostler_kernel::id::Digest;
use ostler_kernel::port::{
    AttemptLog, AttemptLogError, BoxFuture, CageRung, CallContext, Device, OutputStream, Tool, ToolResult,
    WorkspaceTurn,
};
use serde_json::Value;
use tempfile::TempDir;
use tokio::task::JoinHandle;

use crate::misbehaving::command;

pub(crate) struct World {
    pub(crate) folder: TempDir,
    pub(crate) server: Arc<McpServer>,
    /// Questions with this text are answered no.
    pub(crate) refused: String,
    /// Questions to a person; other questions are answered yes.
    pub(crate) asked: Arc<Mutex<Vec<String>>>,
    /// Output of attempts for people, and `♥` for each heartbeat.
    pub(crate) told: Arc<Mutex<Vec<String>>>,
    keeper: Option<JoinHandle<()>>,
}

/// Configuration of the cages of these tests.
fn sandbox() -> SandboxConfig {
    let helper = Some(env!("CARGO_BIN_EXE_ostler-sandbox").into());
    SandboxConfig { helper, ..SandboxConfig::default() }
}

struct Person {
    refused: String,
    asked: Arc<Mutex<Vec<String>>>,
    told: Arc<Mutex<Vec<String>>>,
}

impl AttemptLog for Person {
    fn heartbeat(&self) {
        self.told.lock().unwrap().push("♥".to_owned());
    }

    fn output(&self, _: OutputStream, bytes: &[u8]) {
        self.told.lock().unwrap().insert(0, String::from_utf8(bytes.to_vec()).unwrap());
    }

    fn ask_person<'a>(
        &'a self,
        step: &'a str,
        text: &'a str,
        _: i64,
    ) -> BoxFuture<'a, Result<bool, AttemptLogError>> {
        assert!(step.starts_with("question-") || step.starts_with("accept-"));
        let yes = self.refused.is_empty() || !text.contains(&self.refused);
        self.asked.lock().unwrap().push(text.to_owned());
        Box::pin(async move { Ok(yes) })
    }
}

impl Drop for World {
    fn drop(&mut self) {
        if let Some(keeper) = &self.keeper {
            keeper.abort();
        }
    }
}

impl World {
    /// A server of [`crate::misbehaving`] without a cage, with more lines for its table.
    pub(crate) fn new(kind: &str, more: &str) -> World {
        let mut config: McpConfig = toml::from_str(more).unwrap();
        config.sandbox = Confined(false);
        World::of(kind, config)
    }

    /// A server at an address.
    pub(crate) fn of_address(table: &str) -> World {
        World::with(toml::from_str(table).unwrap())
    }

    /// A server at an address, served.
    pub(crate) async fn at(table: &str) -> World {
        World::of_address(table).start().await
    }

    fn of(kind: &str, config: McpConfig) -> World {
        World::with(McpConfig { command: command("misbehaving", kind), ..config })
    }

    pub(crate) fn with(config: McpConfig) -> World {
        let folder = tempfile::tempdir().unwrap();
        let place = Place {
            folder: folder.path().to_owned(),
            data: None,
            sandbox: sandbox(),
            user: Some(folder.path().join("user")),
        };
        let server = Arc::new(McpServer::new("x", config, place, None).unwrap());
        World {
            folder,
            server,
            refused: String::new(),
            asked: Arc::default(),
            told: Arc::default(),
            keeper: None,
        }
    }

    /// Starts a server without a cage, and accepts the listed tools.
    pub(crate) async fn started(kind: &str, more: &str) -> World {
        World::new(kind, more).start().await
    }

    /// Starts a server in a cage; prints a line and returns `None` where no cage works.
    pub(crate) async fn caged(kind: &str, more: &str) -> Option<World> {
        let found = reached(&sandbox());
        if found.rung == CageRung::None {
            eprintln!("skipped: no cage works here: {}", found.missing);
            return None;
        }
        let mut config: McpConfig = toml::from_str(more).unwrap();
        config.read.push(std::env::current_exe().unwrap());
        Some(World::of(kind, config).start().await)
    }

    pub(crate) async fn start(mut self) -> World {
        self.accept().await;
        let world = &mut self;
        let device = Arc::clone(&world.server);
        world.keeper = Some(tokio::spawn(async move {
            loop {
                device.wanted().await;
                device.serve().await;
            }
        }));
        self
    }

    pub(crate) async fn accept(&self) -> Listing {
        let listing = self.server.look().await.unwrap();
        let (tools, program) = (listing.tools.clone(), Some(listing.program.clone()));
        let all = Acceptance { tools, program, ..Acceptance::default() };
        self.server.accept_tools(all, None).unwrap();
        listing
    }

    pub(crate) fn path(&self) -> &Path {
        self.folder.path()
    }

    pub(crate) fn tool(&self, name: &str) -> Arc<dyn Tool> {
        let name = format!("mcp.x.{name}");
        tools(&self.server).into_iter().find(|tool| tool.spec().name == name).unwrap()
    }

    pub(crate) async fn call(&self, name: &str, params: Value) -> ToolResult {
        self.call_within(name, params, 60_000).await
    }

    pub(crate) async fn call_within(&self, name: &str, params: Value, timeout_ms: u64) -> ToolResult {
        self.call_in_turn(name, params, timeout_ms, None).await
    }

    /// A call with its turn among those that may write.
    pub(crate) async fn call_in_turn(
        &self,
        name: &str,
        params: Value,
        timeout_ms: u64,
        turn: Option<Arc<dyn WorkspaceTurn>>,
    ) -> ToolResult {
        let tool = self.tool(name);
        let gated = GatedTool::new(Arc::clone(&tool)).unwrap();
        let granted = [(tool.spec().name.clone(), None)].into();
        let policy = GatePolicy {
            scopes: [(SCOPE_DEFAULT.to_owned(), Scope { tools: granted })].into(),
            ceiling: 2,
            ..GatePolicy::default()
        };
        let call = Call {
            tool: Some(&gated),
            name: gated.name(),
            params: params.as_object().unwrap().clone().into(),
            floor: 0,
            intent: 2,
            scope: SCOPE_DEFAULT.into(),
            workspace: Some("/"),
            provenance: Provenance::PLAN,
            spent: Spent::NOTHING,
        };
        match decide(call, Digest([0; 32]), &policy) {
            Verdict::Allowed { permit, .. } => {
                let attempt = Arc::new(Person {
                    refused: self.refused.clone(),
                    asked: Arc::clone(&self.asked),
                    told: Arc::clone(&self.told),
                });
                let context = CallContext::without_log(Path::new("/").into(), timeout_ms);
                tool.call(permit, CallContext { attempt, turn, ..context }).await
            }
            Verdict::Denied(denial) => panic!("denied: {}", denial.operator),
        }
    }

    pub(crate) async fn failure(&self, name: &str, params: Value) -> Failure {
        self.call(name, params).await.unwrap_err()
    }
}
