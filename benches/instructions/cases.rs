//! The measured cases.

use std::collections::{BTreeMap, BTreeSet};
use std::hint::black_box;
use std::sync::Arc;

use ostler::kernel::event::{AttemptResult, Event, Outcome, Output};
use ostler::kernel::gate::{self, Call, GatePolicy, GatedTool, Provenance, Scope, Spent, Verdict};
use ostler::kernel::id::{Digest, NodeId, RunId};
use ostler::kernel::json::Object;
use ostler::kernel::plan::{Plan, PlanDraft, Settings};
use ostler::kernel::run::{
    Completion, DecisionContext, NodeState, RuleDiagnoser, Run, RunInput, StaticPlanner,
};
use ostler::kernel::{json, lineage};
use ostler_drivers::tool::{ToolConfig, builtin};
use ostler_scheduler::{Event as QueueEvent, NewJob};
use serde_json::{Map, Value, json};

use crate::sse::Stream;
use crate::workload::{COST_MAX, Draws, Numbers, Size, filled};

/// A repeatable operation. Setup is excluded by differencing.
pub(crate) struct Case {
    pub(crate) name: &'static str,
    /// Repetitions per measurement.
    pub(crate) times: usize,
    pub(crate) repeat: fn(usize),
}

/// Standard library only: trees, strings, number formatting.
pub(crate) const YARDSTICK: Case = Case { name: "yardstick", times: 20, repeat: yardstick };

pub(crate) const CASES: [Case; 13] = [
    YARDSTICK,
    Case { name: "validation of 1,000 nodes and 10,000 edges", times: 3, repeat: validation },
    Case { name: "deciding a chain of 100", times: 10, repeat: deciding },
    Case { name: "applying the records of a chain of 100", times: 20, repeat: applying },
    Case { name: THREE, times: 5, repeat: queue },
    Case { name: PAIR, times: 5, repeat: pair },
    Case { name: "encoding the records of a chain of 100", times: 10, repeat: encoding },
    Case { name: "decoding the records of a chain of 100", times: 10, repeat: decoding },
    Case { name: "decoding a streamed text of 1,000 events, OpenAI", times: 10, repeat: streamed_text },
    Case { name: "decoding a streamed call of 1,000 events, OpenAI", times: 10, repeat: streamed_call },
    Case {
        name: "decoding a streamed text of 1,000 events, Anthropic",
        times: 10,
        repeat: streamed_anthropic,
    },
    Case { name: GATE, times: 200, repeat: gate },
    Case { name: DIGEST, times: 200, repeat: digest },
];

const THREE: &str = "enqueue, dispatch, settle of 1,000 at n=100k, k=1k";
const PAIR: &str = "insert and pop_first of 1,000 at n=100k in a BTreeMap";
const GATE: &str = "the gate on a call with 1 KiB of parameters";
const DIGEST: &str = "canonical JSON and BLAKE3 of 1 KiB of parameters";

/// Maximum ratio between two cases, independent of the baseline.
pub(crate) const LIMITS: [(&str, &str, f64); 2] = [(THREE, PAIR, 2.0), (GATE, DIGEST, 3.0)];

/// Parameters of `fs.write`.
fn params() -> Map<String, Value> {
    let text = "a line of a file, \"quoted\"\n".repeat(1_024 / 27);
    json!({"path": "notes/today.txt", "text": text, "mode": "replace"}).as_object().unwrap().clone()
}

fn gate(times: usize) {
    let tools = builtin(&ToolConfig::default(), None);
    let tool =
        GatedTool::new(tools.into_iter().find(|tool| tool.spec().name == "fs.write").unwrap()).unwrap();
    let scope = Scope { tools: BTreeMap::from([("fs.write".to_owned(), None)]) };
    let scopes = BTreeMap::from([("default".to_owned(), scope)]);
    let policy = GatePolicy { scopes, ceiling: 2, ..GatePolicy::default() };
    let params = params();
    for _ in 0..times {
        let call = Call {
            tool: Some(&tool),
            name: "fs.write",
            // A new object: one that is shared keeps its digest.
            params: params.clone().into(),
            floor: 0,
            intent: 1,
            scope: "default".into(),
            workspace: Some("/srv"),
            provenance: Provenance::PLAN,
            spent: Spent::NOTHING,
        };
        let verdict = gate::decide(call, Digest([7; 32]), &policy);
        assert!(matches!(black_box(verdict), Verdict::Allowed { .. }));
    }
}

fn digest(times: usize) {
    let params = params();
    for _ in 0..times {
        black_box(Object::from(params.clone()).digest()).unwrap();
    }
}

fn yardstick(times: usize) {
    for _ in 0..times {
        let mut tree = BTreeMap::new();
        for number in 0..1_000_u64 {
            tree.insert(format!("{:016x}", number.wrapping_mul(0x9e37_79b9_7f4a_7c15)), number);
        }
        while let Some((key, number)) = tree.pop_first() {
            black_box((key.parse::<u128>().ok(), number));
        }
    }
}

/// Nodes that each depend on the `degree` nodes before them.
fn draft(nodes: usize, degree: usize) -> PlanDraft {
    let name = |at: usize| format!("n{at:05}");
    let node = |at: usize| {
        let deps: Vec<String> = (at.saturating_sub(degree)..at).map(name).collect();
        let contract = json!([{"method": "code", "spec": {"check": "non_empty"}}]);
        let params = json!({"template": "constant", "values": {}});
        json!({"id": name(at), "tool": "text.render", "params": params, "deps": deps, "contract": contract})
    };
    let nodes: Vec<Value> = (0..nodes).map(node).collect();
    serde_json::from_value(json!({"id": "plan", "nodes": nodes})).unwrap()
}

fn tools() -> BTreeSet<String> {
    BTreeSet::from(["text.render".to_owned()])
}

fn validation(times: usize) {
    let (tools, draft) = (tools(), draft(1_000, 10));
    for _ in 0..times {
        let plan = draft.clone().validate(&Settings::real(4, &tools)).unwrap();
        assert_eq!(plan.nodes.len(), 1_000);
    }
}

fn chain() -> Arc<Plan> {
    Arc::new(draft(100, 1).validate(&Settings::real(4, &tools())).unwrap())
}

/// Runs a plan to success and returns the records.
fn decide(plan: &Arc<Plan>) -> Vec<Event> {
    let tools = tools();
    let settings = Settings::real(4, &tools);
    let mut cx = DecisionContext {
        run_id: RunId::default(),
        now: 0,
        settings: &settings,
        planner: &StaticPlanner,
        diagnoser: &RuleDiagnoser,
    };
    let value = json::canonical(&json!({"text": "constant"})).unwrap();
    let artifact = lineage::artifact("application/json", value.as_str().as_bytes());
    let bytes = value.as_str().len() as u64;
    let output = Output { artifact, bytes, inline: Some(value), directive: None };
    let mut run = Run::new(Arc::clone(plan), 1, 0);
    let mut events = run.decide(&mut cx, RunInput::Propagate);
    loop {
        let (more, quiet) = run.check_completion(&mut cx);
        events.extend(more);
        if quiet == Completion::Done {
            break;
        }
        let started = run.dispatch(&mut cx);
        let running: Vec<NodeId> = started
            .iter()
            .filter_map(|event| match event {
                Event::NodeTransition(moved) if moved.to == NodeState::Running => Some(moved.node.clone()),
                _ => None,
            })
            .collect();
        events.extend(started);
        for node in running {
            let result = AttemptResult::without_cost(node, 1, Outcome::Ok(output.clone()));
            events.extend(run.decide(&mut cx, RunInput::Result(Box::new(result))));
        }
    }
    assert!(run.outputs_settled());
    events
}

fn deciding(times: usize) {
    let plan = chain();
    (0..times).for_each(|_| drop(black_box(decide(&plan))));
}

fn applying(times: usize) {
    let plan = chain();
    let events = decide(&plan);
    for _ in 0..times {
        let mut run = Run::new(Arc::clone(&plan), 1, 0);
        for event in &events {
            run.apply(event, 0).unwrap();
        }
        assert!(run.outputs_settled());
    }
}

const SIZE: Size = Size { jobs: 100_000, clients: 1_000 };

fn queue(times: usize) {
    let ((mut queue, agents), mut draws) =
        (filled(SIZE, 1, |_, estimate| NewJob::flat(estimate)), Draws::new(SIZE));
    let mut events = Vec::new();
    for job in 0..1_000 * times as u64 {
        let draw = draws.draw();
        let agent = agents[draw.client as usize];
        queue.enqueue(agent, NewJob::flat(draw.estimate), job, &mut events).unwrap();
        queue.dispatch(1, &mut events);
        let Some(QueueEvent::Granted(grant)) = events.first() else { unreachable!("the slot is free") };
        let granted = grant.job;
        black_box(queue.settle(granted, draw.actual.into(), &mut events).unwrap());
        events.clear();
    }
}

fn pair(times: usize) {
    let (mut tree, mut numbers, mut draws) = (BTreeMap::new(), Numbers::new(), Draws::new(SIZE));
    for job in 0..SIZE.jobs {
        tree.insert((1_u8, numbers.below(SIZE.jobs * COST_MAX) as i64, job), job);
    }
    let mut first = 0;
    for job in SIZE.jobs..SIZE.jobs + 1_000 * times as u64 {
        tree.insert((1, first + draws.draw().behind, job), job);
        first = black_box(tree.pop_first()).unwrap().0.1;
    }
}

fn records() -> Vec<Event> {
    let plan = chain();
    let mut events = decide(&plan);
    let text = json::canonical(&serde_json::to_value(&*plan).unwrap()).unwrap();
    events.insert(
        0,
        Event::RunOpened(Box::new(ostler::kernel::event::RunOpened {
            run: "01234567-89ab-7def-8123-456789abcdef".parse().unwrap(),
            client: "local".into(),
            agent: "agent".into(),
            plan: text,
            intent: 1,
            scope: "default".to_owned(),
            workspace: "/".to_owned(),
            policy_epoch: 1,
            seed: 1,
        })),
    );
    events
}

fn encoding(times: usize) {
    let events = records();
    let mut out = Vec::new();
    for _ in 0..times {
        out.clear();
        events.iter().for_each(|event| ostler_store::encode(event, &mut out).unwrap());
        black_box(&out);
    }
}

fn decoding(times: usize) {
    let encode = |event: &Event| {
        let mut out = Vec::new();
        ostler_store::encode(event, &mut out).unwrap();
        out
    };
    let records: Vec<Vec<u8>> = records().iter().map(encode).collect();
    for _ in 0..times {
        records.iter().for_each(|record| drop(black_box(ostler_store::decode(record).unwrap())));
    }
}

/// Events of a decoded stream.
const EVENTS: usize = 1_000;

fn streamed(stream: &Stream, times: usize) {
    for _ in 0..times {
        assert!(black_box(stream.decode()) >= EVENTS);
    }
}

fn streamed_text(times: usize) {
    streamed(&Stream::text(EVENTS), times);
}

fn streamed_call(times: usize) {
    streamed(&Stream::arguments(EVENTS), times);
}

fn streamed_anthropic(times: usize) {
    streamed(&Stream::anthropic(EVENTS), times);
}
