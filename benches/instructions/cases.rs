//! What is counted.

use std::collections::{BTreeMap, BTreeSet};
use std::hint::black_box;
use std::sync::Arc;

use ostler::kernel::event::{AttemptResult, Event, Outcome, Output};
use ostler::kernel::id::NodeId;
use ostler::kernel::plan::{Plan, PlanDraft, Settings};
use ostler::kernel::run::{Context, Input, NoPlanner, NodeState, Quiet, Run};
use ostler::kernel::{json, lineage};
use ostler_scheduler::{Config, Event as QueueEvent, NewClient, NewJob, RunQueue};
use serde_json::{Value, json};

/// Something that is repeated: what makes it ready is counted once, however often it runs.
pub(crate) struct Case {
    pub(crate) name: &'static str,
    /// How many repetitions are counted.
    pub(crate) times: usize,
    pub(crate) repeat: fn(usize),
}

/// Nothing but the standard library: trees, strings, numbers as text.
pub(crate) const YARDSTICK: Case = Case { name: "yardstick", times: 20, repeat: yardstick };

pub(crate) const CASES: [Case; 7] = [
    YARDSTICK,
    Case { name: "validation of 1,000 nodes and 10,000 edges", times: 3, repeat: validation },
    Case { name: "deciding a chain of 100", times: 10, repeat: deciding },
    Case { name: "applying the records of a chain of 100", times: 20, repeat: applying },
    Case { name: "enqueue, dispatch and settle of 1,000 in a queue of 10,000", times: 5, repeat: queue },
    Case { name: "encoding the records of a chain of 100", times: 10, repeat: encoding },
    Case { name: "decoding the records of a chain of 100", times: 10, repeat: decoding },
];

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

/// Nodes of which each needs the `degree` before it.
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

/// Runs a plan to its end, every node succeeding, and gives the records.
fn decide(plan: &Arc<Plan>) -> Vec<Event> {
    let (tools, mut planner) = (tools(), NoPlanner);
    let settings = Settings::real(4, &tools);
    let mut cx = Context { now: 0, settings: &settings, planner: &mut planner };
    let value = json::canonical(&json!({"text": "constant"})).unwrap();
    let artifact = lineage::artifact("application/json", value.as_str().as_bytes());
    let bytes = value.as_str().len() as u64;
    let output = Output { artifact, bytes, inline: Some(value), directive: None };
    let mut run = Run::new(Arc::clone(plan), 1, 0);
    let mut events = run.decide(&mut cx, Input::Settle);
    loop {
        let (more, quiet) = run.quiesce(&mut cx);
        events.extend(more);
        if quiet == Quiet::Over {
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
            let result = AttemptResult::unpaid(node, 1, Outcome::Ok(output.clone()));
            events.extend(run.decide(&mut cx, Input::Result(Box::new(result))));
        }
    }
    assert!(run.outputs_executed());
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
        assert!(run.outputs_executed());
    }
}

fn queue(times: usize) {
    let mut queue = RunQueue::new(Config::default()).unwrap();
    let mut agents = Vec::new();
    for client in 0..100 {
        let weight = 50 + client % 7 * 50;
        let client = queue.add_client(NewClient { weight, ..NewClient::default() }).unwrap();
        agents.push(queue.add_agent(client, 100).unwrap());
    }
    let (mut events, mut number) = (Vec::new(), 42_u64);
    let mut cost = move || {
        number ^= number << 13;
        number ^= number >> 7;
        number ^= number << 17;
        1 + number % 2_000
    };
    for job in 0..10_000 {
        queue.enqueue(agents[job % 100], NewJob::flat(cost()), job, &mut events).unwrap();
    }
    events.clear();
    for job in 0..1_000 * times {
        queue.dispatch(1, &mut events);
        let Some(QueueEvent::Granted(grant)) = events.first().copied() else {
            unreachable!("a slot is free")
        };
        queue.settle(grant.job, cost().into(), &mut events).unwrap();
        queue.enqueue(grant.agent, NewJob::flat(cost()), job, &mut events).unwrap();
        events.clear();
    }
}

fn records() -> Vec<Event> {
    let plan = chain();
    let mut events = decide(&plan);
    let text = json::canonical(&serde_json::to_value(&*plan).unwrap()).unwrap();
    events.insert(
        0,
        Event::RunOpened(ostler::kernel::event::RunOpened {
            run: "01234567-89ab-7def-8123-456789abcdef".parse().unwrap(),
            client: "local".into(),
            agent: "agent".into(),
            plan: text,
            intent: 1,
            scope: "default".to_owned(),
            workspace: "/".to_owned(),
            policy_epoch: 1,
            seed: 1,
        }),
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
