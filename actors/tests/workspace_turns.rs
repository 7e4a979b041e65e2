//! A call that was approved for the files that it names runs while no other call writes in the workspace.
#![allow(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

mod common;

use std::path::Path;
use std::sync::Arc;

use common::{Hold, states, submit, system, until};
use ostler_actors::Answer;
use ostler_kernel::gate::{CallClass, Permit};
use ostler_kernel::id::Digest;
use ostler_kernel::plan::{Effect, Idempotency};
use ostler_kernel::port::{BoxFuture, CallContext, NamedFile, Tool, ToolResult, ToolSpec, WorkspaceUse};
use ostler_store::MemoryJournal;
use serde_json::{Map, Value, json};

/// A tool that writes in the workspace; with `names`, its calls name a file.
struct Writer {
    held: Arc<Hold>,
    names: bool,
}

impl Tool for Writer {
    fn spec(&self) -> &ToolSpec {
        self.held.spec()
    }

    fn class(&self, params: &Map<String, Value>) -> CallClass {
        self.held.class(params)
    }

    fn workspace_use(&self) -> WorkspaceUse {
        WorkspaceUse::BOTH
    }

    fn named_files(&self, _: &Map<String, Value>, _: Arc<Path>) -> BoxFuture<'_, Vec<NamedFile>> {
        let file = NamedFile {
            path: "deploy.sh".to_owned(),
            digest: Digest([7; 32]),
            bytes: 1,
            text: None,
            unbound: None,
        };
        Box::pin(std::future::ready(if self.names { vec![file] } else { Vec::new() }))
    }

    fn call(&self, permit: Permit, context: CallContext) -> BoxFuture<'_, ToolResult> {
        self.held.call(permit, context)
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_approved_for_its_files_writes_alone() {
    let hold = |name| Hold::new(name, Effect::Write, Idempotency::None);
    let gate = Hold::new("gate", Effect::Read, Idempotency::Natural);
    let (first, deploy, second) = (hold("first"), hold("deploy"), hold("second"));
    let writer =
        |held: &Arc<Hold>, names| -> Arc<dyn Tool> { Arc::new(Writer { held: held.clone(), names }) };
    let tools: Vec<Arc<dyn Tool>> =
        vec![gate.clone(), writer(&first, false), writer(&deploy, true), writer(&second, false)];
    let system = system(Arc::new(MemoryJournal::default()), tools).await;
    let nodes = json!([
        {"id": "deploy", "tool": "deploy", "approval": "before", "human_timeout": "1h"},
        {"id": "first", "tool": "first"},
        {"id": "gate", "tool": "gate"},
        {"id": "second", "tool": "second", "deps": ["gate"]},
    ]);
    let run = submit(&system, json!({"id": "p", "nodes": nodes})).await;
    first.started().await;
    let question = system.approvals(run).await.unwrap().remove(0);
    system.answer(&question.id, question.digest.unwrap(), Answer::approve()).await.unwrap();
    let runs = async |node: &str| states(&system, run).await.contains(&format!("{node} running"));
    until(async || runs("deploy").await).await;
    assert!(!deploy.has_started(), "another call writes");
    first.go(1);
    deploy.started().await;
    gate.go(1);
    until(async || runs("second").await).await;
    assert!(!second.has_started(), "one writes alone");
    deploy.go(1);
    second.started().await;
    second.go(1);
    assert!(system.outcome(run).await.unwrap().status.is_over());
    assert!(states(&system, run).await.split(", ").all(|state| state.ends_with(" executed")));
}
