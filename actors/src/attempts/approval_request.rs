//! Builds approval requests: the work of a node as the gate would allow it now.

use std::collections::BTreeMap;
use std::sync::Arc;

use ostler_kernel::event::{HumanRequestKind, RunOpened};
use ostler_kernel::gate::{CallClass, Denial, Preview};
use ostler_kernel::id::NodeId;
use ostler_kernel::plan::{Node, TEST_TOOL, Tools};
use ostler_kernel::port::{JSON, NamedFile};
use ostler_kernel::run::{ApprovalRequest, ApprovalTest, AttemptInput, Run};
use ostler_kernel::{callback, contract, json, lineage};
use serde_json::{Map, Value};
use tokio::time::Instant;

use crate::attempts::attempt::Work;
use crate::base::long_work::with_bytes;
use crate::state::caller::Caller;
use crate::state::gatekeeper::Gatekeeper;
use crate::storage::results::ResultStore;

/// A request, and the gate's answer to the call.
pub(crate) struct Shown {
    pub(crate) request: ApprovalRequest,
    /// The denial, if the gate denies the call whatever a person answers.
    pub(crate) denial: Option<Denial>,
    /// False if the look at the files had no time left: the request lists none then.
    pub(crate) is_looked_at: bool,
}

/// The request of a node, with resolved inputs and the gate's classification. If inputs are lost, the request says why
/// the node would fail. A look at files that lasts until `by` is given up.
pub(crate) async fn shown(
    gatekeeper: &Gatekeeper,
    results: &ResultStore,
    opened: &RunOpened,
    run: &Run,
    node: &Node,
    ask: HumanRequestKind,
    by: Option<Instant>,
) -> Shown {
    let caller = Caller::of(opened, run);
    let request = as_planned(gatekeeper, &caller, (run, node), ask);
    let because = |request: ApprovalRequest, why: String| ApprovalRequest { refusal: Some(why), ..request };
    let undenied = |request: ApprovalRequest| Shown { request, denial: None, is_looked_at: true };
    let results = match results.needed(run, node).await {
        Ok(results) => results,
        Err(error) => return undenied(because(request, error.to_string())),
    };
    let address = |wait: &NodeId| gatekeeper.callbacks.shown(opened.run, wait);
    let given = with_bytes(run.input_bytes(node), || run.attempt_input(node, &results, &address));
    let params = match given {
        Ok((AttemptInput::Params(params), _)) => params,
        Ok((AttemptInput::Aggregate { template, values }, _)) => {
            return undenied(as_rendered(request, &template, &values));
        }
        Err(error) => return undenied(because(request, error.to_string())),
    };
    let request = ApprovalRequest { params: Map::clone(&params), ..request };
    let Some(tool) = &node.tool else { return undenied(request) };
    match gatekeeper.preview(&caller, tool, params, node.impact) {
        Ok(Preview { params, class, .. }) => {
            let request = after_writes(as_judged(request, params.into_map(), class), gatekeeper, &caller);
            let look = files(gatekeeper, &caller, &request);
            let found = match by {
                Some(by) => tokio::time::timeout_at(by, look).await.ok(),
                None => Some(look.await),
            };
            let is_looked_at = found.is_some();
            Shown { is_looked_at, ..undenied(bound_to(request, found.unwrap_or_default())) }
        }
        Err(denial) => {
            let why = format!("{}: {}", denial.code, denial.operator);
            Shown { denial: Some(denial), ..undenied(because(request, why)) }
        }
    }
}

/// The request of a node that is about to do the work.
pub(crate) async fn of_work(
    gatekeeper: &Gatekeeper,
    caller: &Caller,
    (run, node): (&Run, &Node),
    work: &Work,
) -> ApprovalRequest {
    let shown = as_planned(gatekeeper, caller, (run, node), HumanRequestKind::Before);
    match work {
        Work::Tool { permit, tokens, .. } => {
            let mut params = permit.params().clone();
            callback::hide_members(&mut params, tokens);
            let judged = after_writes(as_judged(shown, params, permit.class()), gatekeeper, caller);
            let files = files(gatekeeper, caller, &judged).await;
            bound_to(judged, files)
        }
        Work::Known(_) => shown,
        Work::Render { template, values } => as_rendered(shown, template, values),
    }
}

/// The request from the plan alone: its words and tests.
fn as_planned(
    gatekeeper: &Gatekeeper,
    caller: &Caller,
    (run, node): (&Run, &Node),
    ask: HumanRequestKind,
) -> ApprovalRequest {
    let mut shown = ApprovalRequest {
        ask,
        kind: node.kind,
        tool: node.tool.clone(),
        tool_version: node
            .tool
            .as_deref()
            .and_then(|tool| gatekeeper.toolbox.version(tool))
            .map(str::to_owned),
        effect: node.effect,
        impact: node.impact,
        params: Map::clone(&node.params),
        workspace: None,
        tests: Vec::new(),
        questions: match ask {
            HumanRequestKind::After => contract::human_questions(&node.contract),
            HumanRequestKind::Before
            | HumanRequestKind::Node
            | HumanRequestKind::InDoubt
            | HumanRequestKind::Budget
            | HumanRequestKind::Wait => Vec::new(),
        },
        policy: gatekeeper.policy_digest(),
        files: Vec::new(),
        written: None,
        holds: run.holds(&node.id).iter().filter(|_| ask == HumanRequestKind::Before).cloned().collect(),
        refusal: None,
    };
    for test in contract::tests(&node.contract) {
        let previewed = gatekeeper.preview(caller, TEST_TOOL, test.params().into(), 0);
        if let Err(denial) = previewed {
            let why = format!("its test contract[{}]: {}: {}", test.rule, denial.code, denial.operator);
            shown.refusal.get_or_insert(why);
        }
        let class = gatekeeper.toolbox.defaults(TEST_TOOL, &test.params()).unwrap_or_default();
        shown.tests.push(ApprovalTest { argv: test.argv, effect: class.effect, impact: class.impact });
    }
    let takes_paths = shown.tool.as_deref().is_some_and(|tool| gatekeeper.toolbox.takes_paths(tool));
    let is_somewhere = takes_paths || !shown.tests.is_empty();
    shown.workspace = is_somewhere.then(|| caller.workspace.to_string_lossy().into_owned());
    shown
}

/// The files that the call and its tests name, as they are now.
async fn files(gatekeeper: &Gatekeeper, caller: &Caller, shown: &ApprovalRequest) -> Vec<NamedFile> {
    if shown.ask == HumanRequestKind::After {
        return Vec::new();
    }
    let mut files = BTreeMap::new();
    let mut add =
        |named: Vec<NamedFile>| files.extend(named.into_iter().map(|file| (file.path.clone(), file)));
    if let Some(tool) = shown.tool.as_deref().and_then(|name| gatekeeper.toolbox.tool(name)) {
        add(tool.named_files(&shown.params, Arc::clone(&caller.workspace)).await);
    }
    add(gatekeeper.files_of_tests(caller, shown.tests.iter().map(|test| test.argv.as_slice())).await);
    files.into_values().collect()
}

/// Adds files to what a person approves: what is approved is what runs.
pub(crate) fn bound_to(shown: ApprovalRequest, files: Vec<NamedFile>) -> ApprovalRequest {
    let unbound = files.iter().find_map(|file| {
        Some(format!("{} {}, so no approval of the call holds", file.path, file.unbound.as_ref()?))
    });
    ApprovalRequest { files, refusal: shown.refusal.or(unbound), ..shown }
}

/// Adds what calls have written so far to the request of a program that acts. Before the look at the files: what is written during the
/// look counts as later. A call that changes nothing is harmless with any files.
fn after_writes(shown: ApprovalRequest, gatekeeper: &Gatekeeper, caller: &Caller) -> ApprovalRequest {
    let tool = shown.tool.as_deref().and_then(|name| gatekeeper.toolbox.tool(name));
    let runs_program = tool.is_some_and(|tool| tool.confinement().is_some()) || !shown.tests.is_empty();
    let acts = shown.effect.acts() || shown.tests.iter().any(|test| test.effect.acts());
    let is_bound = shown.ask != HumanRequestKind::After && runs_program && acts;
    ApprovalRequest { written: is_bound.then(|| gatekeeper.turns.written(&caller.workspace)), ..shown }
}

/// Adds what the gate allows. The gate judges the tests separately.
fn as_judged(shown: ApprovalRequest, params: Map<String, Value>, class: CallClass) -> ApprovalRequest {
    let CallClass { effect, impact, .. } = class;
    ApprovalRequest { effect, impact, params, ..shown }
}

/// Adds an aggregator's template and the state of each dependency, with results as digests.
fn as_rendered(mut shown: ApprovalRequest, template: &str, values: &Map<String, Value>) -> ApprovalRequest {
    let by_digest = |(node, fate): (&String, &Value)| {
        let mut fate = fate.clone();
        if let Some(result) = fate.get_mut("result") {
            let canonical = json::canonical(result).expect("what a node is given has been canonical");
            *result = lineage::artifact(JSON, canonical.as_str().as_bytes()).to_string().into();
        }
        (node.clone(), fate)
    };
    shown.params.insert("template".to_owned(), template.into());
    shown.params.insert("values".to_owned(), values.iter().map(by_digest).collect());
    shown
}
