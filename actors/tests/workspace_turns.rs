//! A call that was approved for the files that it names runs while no other call writes in the workspace.
#![allow(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

mod common;

use std::any::Any;
use std::path::Path;
use std::sync::atomic::{AtomicU8, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use common::{Hold, config, states, submit, system, until, with_slots};
use ostler_actors::{Answer, Program, ProgramContext, System, SystemConfig};
use ostler_kernel::gate::{CallClass, DenialCode, GatePolicy, GateRules, Permit};
use ostler_kernel::id::{Digest, RunId};
use ostler_kernel::plan::{Effect, Idempotency, TEST_TOOL};
use ostler_kernel::port::{
    BoxFuture, CallContext, ChildRunSpec, ClearanceAuthority, NamedFile, Tool, ToolResult, ToolSpec,
    WorkspaceTurn, WorkspaceUse,
};
use ostler_kernel::run::WRITTEN;
use ostler_store::MemoryJournal;
use serde_json::{Map, Value, json};
use tokio::sync::Semaphore;

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
            by_word: true,
        };
        Box::pin(std::future::ready(if self.names { vec![file] } else { Vec::new() }))
    }

    fn call(&self, permit: Permit, context: CallContext) -> BoxFuture<'_, ToolResult> {
        self.held.call(permit, context)
    }
}

/// A program: its calls find files that they do not name.
struct Confined {
    spec: ToolSpec,
    call: Arc<Hold>,
    impact: u8,
}

impl Confined {
    fn tool(call: &Arc<Hold>, impact: u8) -> Arc<dyn Tool> {
        let argv = json!({"type": "array"});
        let folder = json!({"type": "string", "format": "path"});
        let params = json!({"type": "object", "properties": {"argv": argv, "cwd": folder}});
        let spec = ToolSpec { params, ..call.spec().clone() };
        Arc::new(Confined { spec, call: call.clone(), impact })
    }
}

impl Tool for Confined {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn class(&self, params: &Map<String, Value>) -> CallClass {
        let class = self.call.class(params);
        let effect = if self.impact == 2 { Effect::External } else { class.effect };
        CallClass { impact: self.impact, effect, ..class }
    }

    fn workspace_use(&self) -> WorkspaceUse {
        WorkspaceUse::BOTH
    }

    fn confinement(&self) -> Option<Digest> {
        Some(Digest([1; 32]))
    }

    fn sends_out(&self) -> bool {
        self.impact == 2
    }

    fn call(&self, permit: Permit, context: CallContext) -> BoxFuture<'_, ToolResult> {
        self.call.call(permit, context)
    }
}

/// Says yes to the question of a run, once there is one.
async fn approve(system: &System, run: RunId) {
    until(async || !system.approvals(run).await.unwrap().is_empty()).await;
    let question = system.approvals(run).await.unwrap().remove(0);
    system.answer(&question.id, question.digest.unwrap(), Answer::approve()).await.unwrap();
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
    approve(&system, run).await;
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

#[tokio::test(flavor = "multi_thread")]
async fn a_call_that_waits_for_its_turn_has_no_slot() {
    let hold = |name| Hold::new(name, Effect::Write, Idempotency::None);
    let read = |name| Hold::new(name, Effect::Read, Idempotency::Natural);
    let (first, deploy, second) = (hold("first"), hold("deploy"), hold("second"));
    let reads = [read("read1"), read("read2"), read("read3")];
    let writer =
        |held: &Arc<Hold>, names| -> Arc<dyn Tool> { Arc::new(Writer { held: held.clone(), names }) };
    let mut tools = vec![writer(&first, false), writer(&deploy, true), writer(&second, false)];
    let reading = reads.clone().map(|read| -> Arc<dyn Tool> { read });
    tools.extend(reading);
    let system = with_slots(Arc::new(MemoryJournal::default()), tools, 2).await;
    let one = async |tool: &str, approval: &str| {
        let node = json!({"id": tool, "tool": tool, "approval": approval, "human_timeout": "1h"});
        submit(&system, json!({"id": tool, "nodes": [node]})).await
    };
    one("first", "none").await;
    first.started().await;
    // An approved call waits for one that writes.
    let deployed = one("deploy", "before").await;
    approve(&system, deployed).await;
    until(async || states(&system, deployed).await == "deploy running").await;
    one("read1", "none").await;
    reads[0].started().await;
    reads[0].go(1);
    // A call that writes waits for the approved one, before its turn and during it.
    let last = one("second", "none").await;
    until(async || states(&system, last).await == "second running").await;
    one("read2", "none").await;
    reads[1].started().await;
    reads[1].go(1);
    first.go(1);
    deploy.started().await;
    assert!(!second.has_started());
    one("read3", "none").await;
    reads[2].started().await;
    reads[2].go(1);
    deploy.go(1);
    second.started().await;
    second.go(1);
    for run in [deployed, last] {
        assert!(system.outcome(run).await.unwrap().status.is_over());
        assert!(states(&system, run).await.ends_with(" executed"));
    }
}

/// An authority that says yes when the test lets it.
struct Authority {
    asked: Semaphore,
    go: Semaphore,
}

impl ClearanceAuthority for Authority {
    fn ask(&self, _: Value, _: u64) -> BoxFuture<'_, Result<(), DenialCode>> {
        self.asked.add_permits(1);
        Box::pin(async {
            self.go.acquire().await.unwrap().forget();
            Ok(())
        })
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_keeps_its_turn_while_the_clearance_authority_is_asked() {
    let hold = |name| Hold::new(name, Effect::Write, Idempotency::None);
    let (first, deploy, second) = (hold("first"), hold("deploy"), hold("second"));
    let writer =
        |held: &Arc<Hold>, names| -> Arc<dyn Tool> { Arc::new(Writer { held: held.clone(), names }) };
    let probe = Hold::new("probe", Effect::Read, Idempotency::Natural);
    let tools = vec![writer(&first, false), writer(&deploy, true), writer(&second, false), probe.clone()];
    let usual = config(Arc::new(MemoryJournal::default()), tools);
    let rules = json!({"clearance_routes": [{"tool": "deploy", "deadline_ms": 60_000, "cache_ttl_ms": 0}]});
    let rules: GateRules = serde_json::from_value(rules).unwrap();
    let gate = GatePolicy { epoch: 1, ..usual.gate.clone() }.with_rules(&rules);
    let system = System::start(SystemConfig { gate, slots: 2, ..usual }).await.unwrap();
    let authority = Arc::new(Authority { asked: Semaphore::new(0), go: Semaphore::new(0) });
    system.clear_with(authority.clone());
    let one = async |tool: &str, approval: &str| {
        let node = json!({"id": tool, "tool": tool, "approval": approval, "human_timeout": "1h"});
        submit(&system, json!({"id": tool, "nodes": [node]})).await
    };
    one("first", "none").await;
    first.started().await;
    let deployed = one("deploy", "before").await;
    approve(&system, deployed).await;
    authority.asked.acquire().await.unwrap().forget();
    authority.go.add_permits(1);
    // The call has no slot while it waits for its turn.
    one("probe", "none").await;
    probe.started().await;
    probe.go(1);
    first.go(1);
    authority.asked.acquire().await.unwrap().forget();
    let last = one("second", "none").await;
    until(async || states(&system, last).await == "second running").await;
    assert!(!second.has_started(), "the approved call has the turn");
    authority.go.add_permits(1);
    deploy.started().await;
    assert!(!second.has_started());
    deploy.go(1);
    second.started().await;
    second.go(1);
    for run in [deployed, last] {
        assert!(system.outcome(run).await.unwrap().status.is_over());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_that_waits_for_its_turn_can_be_cancelled() {
    let hold = |name| Hold::new(name, Effect::Write, Idempotency::None);
    let (first, deploy) = (hold("first"), hold("deploy"));
    let writer =
        |held: &Arc<Hold>, names| -> Arc<dyn Tool> { Arc::new(Writer { held: held.clone(), names }) };
    let tools = vec![writer(&first, false), writer(&deploy, true)];
    let system = system(Arc::new(MemoryJournal::default()), tools).await;
    let writes = submit(&system, json!({"id": "w", "nodes": [{"id": "first", "tool": "first"}]})).await;
    first.started().await;
    let node = json!({"id": "deploy", "tool": "deploy", "approval": "before", "human_timeout": "1h"});
    let run = submit(&system, json!({"id": "p", "nodes": [node]})).await;
    approve(&system, run).await;
    until(async || states(&system, run).await == "deploy running").await;
    system.cancel(run).await.unwrap();
    assert!(system.outcome(run).await.unwrap().status.is_over());
    first.go(1);
    assert!(system.outcome(writes).await.unwrap().status.is_over());
    assert!(!deploy.has_started());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_program_is_asked_about_again_once_another_step_has_written() {
    let hold = |name| Hold::new(name, Effect::Write, Idempotency::None);
    let [first, second, control, deploy] = ["first", "second", "control", "deploy"].map(hold);
    let tools = [(&first, 1), (&second, 1), (&control, 2), (&deploy, 1)];
    let tools = tools.map(|(call, impact)| Confined::tool(call, impact)).to_vec();
    let system = system(Arc::new(MemoryJournal::default()), tools).await;
    let write = async |held: &Hold, tool: &str| {
        let run = submit(&system, json!({"id": tool, "nodes": [{"id": tool, "tool": tool}]})).await;
        held.started().await;
        run
    };
    let node = json!({"id": "deploy", "tool": "deploy", "approval": "before", "human_timeout": "1h"});
    let run = submit(&system, json!({"id": "p", "nodes": [node]})).await;
    until(async || !system.approvals(run).await.unwrap().is_empty()).await;
    let asked = system.approvals(run).await.unwrap().remove(0);
    // A step writes before the answer.
    let writes = write(&first, "first").await;
    first.go(1);
    assert!(system.outcome(writes).await.unwrap().status.is_over());
    let told = async || {
        let question = system.approvals(run).await.unwrap().remove(0);
        question.changes.iter().any(|change| change.part == WRITTEN)
    };
    assert!(told().await);
    let refused = system.answer(&asked.id, asked.digest.unwrap(), Answer::approve()).await.unwrap_err();
    assert!(refused.to_string().contains("is closed: the work has changed"), "{refused}");
    assert!(told().await, "the question says why it is asked again");
    // Another one still writes after the answer.
    let writes = write(&second, "second").await;
    approve(&system, run).await;
    until(async || states(&system, run).await == "deploy running").await;
    second.go(1);
    assert!(system.outcome(writes).await.unwrap().status.is_over());
    until(async || states(&system, run).await == "deploy waiting_human").await;
    assert!(!deploy.has_started());
    // An approved call of impact 2 does not count, another one does, whatever its plan says.
    for (tool, held, counts) in [("control", &control, false), ("first", &first, true)] {
        let asked = system.approvals(run).await.unwrap().remove(0);
        let node = json!({"id": "o", "tool": tool, "impact": 2, "approval": "before", "human_timeout": "1h"});
        let other = submit(&system, json!({"id": "o", "nodes": [node]})).await;
        approve(&system, other).await;
        held.go(1);
        assert!(system.outcome(other).await.unwrap().status.is_over());
        let checked = system.check_answer(&asked.id, asked.digest.unwrap()).await;
        assert_eq!(checked.is_err(), counts, "{checked:?}");
    }
    approve(&system, run).await;
    deploy.go(1);
    assert!(system.outcome(run).await.unwrap().status.is_over());
    assert_eq!(states(&system, run).await, "deploy executed");
}

#[tokio::test(start_paused = true)]
async fn a_call_that_waited_too_long_for_its_turn_is_left_to_a_person_also_under_a_grant() {
    let hold = |name| Hold::new(name, Effect::Write, Idempotency::None);
    let (first, deploy) = (hold("first"), hold("deploy"));
    let tools = [&first, &deploy].map(|call| Confined::tool(call, 1)).to_vec();
    let system = system(Arc::new(MemoryJournal::default()), tools).await;
    let params = json!({"argv": ["deploy", "now"]});
    let node = json!({"id": "deploy", "tool": "deploy", "params": params, "approval": "before", "human_timeout": "9h"});
    let plan = json!({"id": "p", "nodes": [node]});
    let granted = submit(&system, plan.clone()).await;
    until(async || !system.approvals(granted).await.unwrap().is_empty()).await;
    let question = system.approvals(granted).await.unwrap().remove(0);
    let (digest, yes) = (question.digest.unwrap(), Answer::approve().by("ann"));
    system.grant(&question.id, digest, "deploy *", 60 * 60 * 1_000, &yes).await.unwrap();
    system.answer(&question.id, digest, yes).await.unwrap();
    deploy.go(1);
    assert!(system.outcome(granted).await.unwrap().status.is_over());
    deploy.started().await;

    let writes =
        submit(&system, json!({"id": "w", "nodes": [{"id": "first", "tool": "first", "timeout": "2h"}]}))
            .await;
    first.started().await;
    let run = submit(&system, plan).await;
    let waits_too_long = async || {
        until(async || states(&system, run).await == "deploy running").await;
        // The clock is paused: it goes on while nothing else does.
        tokio::time::sleep(Duration::from_secs(61)).await;
        until(async || states(&system, run).await == "deploy waiting_human").await;
    };
    waits_too_long().await;
    // The grant would let the call wait again and again.
    approve(&system, run).await;
    waits_too_long().await;
    assert!(!deploy.has_started());
    first.go(1);
    assert!(system.outcome(writes).await.unwrap().status.is_over());
    let asked = system.approvals(run).await.unwrap().remove(0);
    system.check_answer(&asked.id, asked.digest.unwrap()).await.unwrap_err();
    approve(&system, run).await;
    deploy.go(1);
    assert!(system.outcome(run).await.unwrap().status.is_over());
}

/// A tool whose calls go on after their future is dropped: their turn is held here.
struct GoesOn {
    call: Arc<Hold>,
    held: Arc<Mutex<Option<Arc<dyn Any + Send + Sync>>>>,
}

struct Dropped<'a>(&'a GoesOn, Option<Arc<dyn WorkspaceTurn>>);

impl Drop for Dropped<'_> {
    fn drop(&mut self) {
        *self.0.held.lock().unwrap() = self.1.as_ref().and_then(|turn| turn.hold());
    }
}

impl Tool for GoesOn {
    fn spec(&self) -> &ToolSpec {
        self.call.spec()
    }

    fn class(&self, params: &Map<String, Value>) -> CallClass {
        self.call.class(params)
    }

    fn workspace_use(&self) -> WorkspaceUse {
        WorkspaceUse::BOTH
    }

    fn call(&self, permit: Permit, context: CallContext) -> BoxFuture<'_, ToolResult> {
        Box::pin(async move {
            let _dropped = Dropped(self, context.turn.clone());
            self.call.call(permit, context).await
        })
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_that_was_given_up_has_its_turn_as_long_as_its_tool_says() {
    let hold = |name| Hold::new(name, Effect::Write, Idempotency::None);
    let (first, deploy, held) = (hold("first"), hold("deploy"), Arc::default());
    let goes_on = GoesOn { call: first.clone(), held: Arc::clone(&held) };
    let tools: Vec<Arc<dyn Tool>> =
        vec![Arc::new(goes_on), Arc::new(Writer { held: deploy.clone(), names: true })];
    let system = system(Arc::new(MemoryJournal::default()), tools).await;
    let node = json!({"id": "first", "tool": "first", "timeout": "1s"});
    submit(&system, json!({"id": "w", "nodes": [node]})).await;
    first.started().await;
    let node = json!({"id": "deploy", "tool": "deploy", "approval": "before", "human_timeout": "1h"});
    let run = submit(&system, json!({"id": "p", "nodes": [node]})).await;
    approve(&system, run).await;
    until(async || states(&system, run).await == "deploy running").await;
    first.stopped().await;
    until(async || held.lock().unwrap().is_some()).await;
    assert!(!deploy.has_started(), "the call goes on");
    held.lock().unwrap().take();
    deploy.started().await;
    deploy.go(1);
    assert!(system.outcome(run).await.unwrap().status.is_over());
    assert!(states(&system, run).await.ends_with(" executed"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_yes_with_a_grant_is_a_yes_of_its_own() {
    let hold = |name| Hold::new(name, Effect::Write, Idempotency::None);
    let (first, deploy) = (hold("first"), hold("deploy"));
    let tools = [&first, &deploy].map(|call| Confined::tool(call, 1)).to_vec();
    let system = system(Arc::new(MemoryJournal::default()), tools).await;
    let params = json!({"argv": ["deploy", "now"]});
    let node = json!({"id": "deploy", "tool": "deploy", "params": params, "approval": "before", "human_timeout": "9h"});
    let run = submit(&system, json!({"id": "p", "nodes": [node]})).await;
    until(async || !system.approvals(run).await.unwrap().is_empty()).await;
    let question = system.approvals(run).await.unwrap().remove(0);
    let writes = submit(&system, json!({"id": "w", "nodes": [{"id": "first", "tool": "first"}]})).await;
    first.started().await;
    let (digest, yes) = (question.digest.unwrap(), Answer::approve().by("ann"));
    system.grant(&question.id, digest, "deploy *", 60 * 60 * 1_000, &yes).await.unwrap();
    system.answer(&question.id, digest, yes).await.unwrap();
    until(async || states(&system, run).await == "deploy running").await;
    first.go(1);
    assert!(system.outcome(writes).await.unwrap().status.is_over());
    until(async || states(&system, run).await == "deploy waiting_human").await;
    assert!(!deploy.has_started(), "a step has written since the question");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_test_that_may_do_more_than_its_call_runs_only_as_it_was_approved() {
    for (impact, expected) in [(2, "n failed"), (1, "n executed")] {
        let (ran, content) =
            (Hold::new(TEST_TOOL, Effect::Write, Idempotency::Natural), Arc::new(AtomicU8::new(1)));
        let call = Hold::new("make", Effect::Write, Idempotency::Natural);
        let tests = Tests { ran: ran.clone(), content: content.clone(), impact };
        let tools: Vec<Arc<dyn Tool>> = vec![Confined::tool(&call, 1), Arc::new(tests)];
        let system = system(Arc::new(MemoryJournal::default()), tools).await;
        let contract = json!([{"method": "test", "spec": {"argv": ["check"]}}]);
        let node = json!({"id": "n", "tool": "make", "approval": "before", "human_timeout": "1h", "retries": 0, "contract": contract});
        let run = submit(&system, json!({"id": "p", "nodes": [node]})).await;
        approve(&system, run).await;
        call.started().await;
        // The program writes what the test runs.
        content.store(2, SeqCst);
        ran.go(1);
        call.go(1);
        assert!(system.outcome(run).await.unwrap().status.is_over());
        assert_eq!(states(&system, run).await, expected, "{impact}");
    }
}

/// A tool that writes, asks a person, and writes on.
struct Asker(Arc<Hold>);

impl Tool for Asker {
    fn spec(&self) -> &ToolSpec {
        self.0.spec()
    }

    fn class(&self, params: &Map<String, Value>) -> CallClass {
        self.0.class(params)
    }

    fn workspace_use(&self) -> WorkspaceUse {
        WorkspaceUse::BOTH
    }

    fn call(&self, permit: Permit, context: CallContext) -> BoxFuture<'_, ToolResult> {
        Box::pin(async move {
            let turn = context.turn.clone().expect("the call writes");
            assert!(turn.hold().is_some());
            let (log, mut held) = (context.attempt.clone(), true);
            let mut asked = log.ask_person("may", "May the tool go on?", 3_600_000);
            std::future::poll_fn(|task| {
                let answer = asked.as_mut().poll(task);
                held &= turn.hold().is_some();
                answer
            })
            .await
            .unwrap();
            assert!(!held && turn.hold().is_some(), "the turn is given back meanwhile");
            self.0.call(permit, context).await
        })
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_that_asks_a_person_lets_others_write_meanwhile() {
    let hold = |name| Hold::new(name, Effect::Write, Idempotency::None);
    let (asker, deploy) = (hold("asker"), hold("deploy"));
    let tools: Vec<Arc<dyn Tool>> =
        vec![Arc::new(Asker(asker.clone())), Arc::new(Writer { held: deploy.clone(), names: true })];
    let system = system(Arc::new(MemoryJournal::default()), tools).await;
    let one = async |tool: &str, approval: &str| {
        let node = json!({"id": tool, "tool": tool, "approval": approval, "human_timeout": "1h"});
        submit(&system, json!({"id": tool, "nodes": [node]})).await
    };
    let open = async || system.all_approvals().await.unwrap().approvals;
    let say_yes = async |node: &str| {
        let is_asked = async || open().await.iter().any(|question| question.id.node.as_str() == node);
        until(is_asked).await;
        let asked = open().await.into_iter().find(|question| question.id.node.as_str() == node).unwrap();
        system.answer(&asked.id, asked.digest.unwrap(), Answer::approve()).await.unwrap();
    };
    let asking = one("asker", "none").await;
    until(async || open().await.len() == 1).await;
    let deployed = one("deploy", "before").await;
    say_yes("deploy").await;
    deploy.started().await;
    say_yes("question").await;
    until(async || open().await.is_empty()).await;
    assert!(!asker.has_started(), "the approved call writes alone");
    deploy.go(1);
    asker.started().await;
    asker.go(1);
    for run in [asking, deployed] {
        assert!(system.outcome(run).await.unwrap().status.is_over());
        assert!(states(&system, run).await.ends_with(" executed"));
    }
}

/// The tool of tests. Its calls name a file, whose content is a number.
struct Tests {
    ran: Arc<Hold>,
    content: Arc<AtomicU8>,
    impact: u8,
}

impl Tool for Tests {
    fn spec(&self) -> &ToolSpec {
        self.ran.spec()
    }

    fn class(&self, params: &Map<String, Value>) -> CallClass {
        CallClass { impact: self.impact, ..self.ran.class(params) }
    }

    fn named_files(&self, _: &Map<String, Value>, _: Arc<Path>) -> BoxFuture<'_, Vec<NamedFile>> {
        let digest = Digest([self.content.load(SeqCst); 32]);
        let file = NamedFile {
            path: "Makefile".to_owned(),
            digest,
            bytes: 1,
            text: None,
            unbound: None,
            by_word: true,
        };
        Box::pin(std::future::ready(vec![file]))
    }

    fn call(&self, permit: Permit, context: CallContext) -> BoxFuture<'_, ToolResult> {
        self.ran.call(permit, context)
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_approved_call_lets_its_child_runs_write_and_looks_again_before_its_tests() {
    for changes in [false, true] {
        let hold = |name| Hold::new(name, Effect::Write, Idempotency::None);
        let (inner, other) = (hold("inner"), hold("other"));
        let (ran, content) = (Hold::new(TEST_TOOL, Effect::Read, Idempotency::Natural), Arc::default());
        let opens = Program::new("opens", "1", async |agent: ProgramContext, _: Value| {
            let nodes = json!([{"id": "inner", "tool": "inner"}]);
            let plan = serde_json::from_value(json!({"id": "c", "nodes": nodes})).unwrap();
            let end = agent.spawn("child", ChildRunSpec::plan(plan)).await?;
            Ok(json!(end.outcome))
        });
        let opens = opens.effect(Effect::Write);
        let writer =
            |held: &Arc<Hold>| -> Arc<dyn Tool> { Arc::new(Writer { held: held.clone(), names: false }) };
        let tests = Tests { ran: ran.clone(), content: Arc::clone(&content), impact: 0 };
        let tools: Vec<Arc<dyn Tool>> =
            vec![writer(&inner), writer(&other), Arc::new(opens), Arc::new(tests)];
        let system = system(Arc::new(MemoryJournal::default()), tools).await;
        let contract = json!([{"method": "test", "spec": {"argv": ["make"]}}]);
        let node = json!({"id": "n", "tool": "opens", "approval": "before", "human_timeout": "1h", "contract": contract});
        let run = submit(&system, json!({"id": "p", "nodes": [node]})).await;
        approve(&system, run).await;
        inner.started().await;
        let beside = submit(&system, json!({"id": "o", "nodes": [{"id": "other", "tool": "other"}]})).await;
        other.started().await;
        other.go(1);
        assert!(system.outcome(beside).await.unwrap().status.is_over());
        content.store(u8::from(changes), SeqCst);
        ran.go(1);
        inner.go(1);
        system.outcome(run).await.unwrap();
        let expected = if changes { "n failed" } else { "n executed" };
        assert_eq!(states(&system, run).await, expected);
        assert_eq!(ran.has_started(), !changes, "the test runs if its files are as approved");
    }
}

#[tokio::test(start_paused = true)]
async fn an_approved_call_whose_tests_get_no_turn_is_not_made_again() {
    let hold = |name| Hold::new(name, Effect::Write, Idempotency::None);
    let (inner, other) = (hold("inner"), hold("other"));
    let (ran, calls) = (Hold::new(TEST_TOOL, Effect::Read, Idempotency::Natural), Arc::new(AtomicU8::new(0)));
    let counted = calls.clone();
    let opens = Program::new("opens", "1", move |agent: ProgramContext, _: Value| {
        counted.fetch_add(1, SeqCst);
        async move {
            let nodes = json!([{"id": "inner", "tool": "inner"}]);
            let plan = serde_json::from_value(json!({"id": "c", "nodes": nodes})).unwrap();
            let end = agent.spawn("child", ChildRunSpec::plan(plan)).await?;
            Ok(json!(end.outcome))
        }
    });
    let opens = opens.effect(Effect::Write);
    let writer =
        |held: &Arc<Hold>| -> Arc<dyn Tool> { Arc::new(Writer { held: held.clone(), names: false }) };
    let tests = Tests { ran: ran.clone(), content: Arc::default(), impact: 0 };
    let tools: Vec<Arc<dyn Tool>> = vec![writer(&inner), writer(&other), Arc::new(opens), Arc::new(tests)];
    let system = system(Arc::new(MemoryJournal::default()), tools).await;
    let contract = json!([{"method": "test", "spec": {"argv": ["make"]}}]);
    let node = json!({"id": "n", "tool": "opens", "approval": "before", "human_timeout": "1h", "retries": 1, "contract": contract});
    let run = submit(&system, json!({"id": "p", "nodes": [node]})).await;
    approve(&system, run).await;
    inner.started().await;
    let beside =
        submit(&system, json!({"id": "o", "nodes": [{"id": "other", "tool": "other", "timeout": "1h"}]}))
            .await;
    other.started().await;
    inner.go(1);
    assert!(system.outcome(run).await.unwrap().status.is_over());
    assert_eq!(
        (states(&system, run).await.as_str(), calls.load(SeqCst), ran.has_started()),
        ("n failed", 1, false)
    );
    other.go(1);
    assert!(system.outcome(beside).await.unwrap().status.is_over());
}
