//! Whatever plan is run and however it is repeated: the repetition executes only what its invoice names.
#![allow(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use ostler_kernel::event::{
    ArtifactEdited, AttemptResult, Event, Outcome, Output, ReuseBasis, ReuseDecided, ReuseDecision,
    ReusedResult, RunOpened,
};
use ostler_kernel::id::{Digest, NodeId, RunId};
use ostler_kernel::json::{canonical, to_canonical};
use ostler_kernel::lineage::{self, StalePolicy};
use ostler_kernel::plan::{Effect, Kind, Node, Plan, PlanDraft, PolicyDraft, Settings};
use ostler_kernel::run::{
    AttemptInput, Change, DecisionContext, IntentContext, NodeStatus, OpeningTerms, RecomputationCause,
    RefDigests, RepeatDecision, RuleDiagnoser, Run, RunInput, StaticPlanner, executable_digest,
};
use proptest::prelude::*;
use serde_json::{Value, json};

/// Random numbers of a case.
struct Tape {
    numbers: std::vec::IntoIter<u32>,
}

impl Tape {
    fn below(&mut self, most: usize) -> usize {
        self.numbers.next().map_or(0, |number| number as usize % most.max(1))
    }

    fn one_in(&mut self, most: usize) -> bool {
        self.below(most) == most - 1
    }
}

/// Everything outside of runs: recorded results, the world that reads see, and versions of tools.
#[derive(Default)]
struct World {
    records: BTreeMap<Digest, Output>,
    state: u32,
    version: u32,
    runs: u128,
}

/// Source of the next run: the draft of a plan, as its author changes it.
fn nodes(tape: &mut Tape) -> Vec<Value> {
    let mut nodes: Vec<Value> = Vec::new();
    for at in 0..3 + tape.below(6) {
        let deps: Vec<String> = (0..at).filter(|_| tape.one_in(2)).map(|dep| format!("n{dep}")).collect();
        let id = format!("n{at}");
        let mut node = match tape.below(9) {
            0 | 1 => json!({"id": id, "tool": "pure", "params": {"p": 0}}),
            2 => json!({"id": id, "tool": "read", "effect": "read", "params": {"p": 0}}),
            3 => json!({"id": id, "tool": "read", "effect": "read", "fresh": "never", "params": {"p": 0}}),
            4 => json!({"id": id, "tool": "write", "effect": "write", "impact": 1, "params": {"p": 0}}),
            5 => {
                json!({"id": id, "tool": "send", "effect": "external", "impact": 2, "idem": "none", "params": {"p": 0}})
            }
            6 => json!({"id": id, "kind": "human_approval", "human_timeout": 9}),
            7 => {
                json!({"id": id, "tool": "pure", "params": {"p": 0}, "approval": "before", "human_timeout": 9})
            }
            _ => json!({"id": id, "tool": "list", "params": {"p": 0}}),
        };
        node["contract"] = json!([{"method": "schema"}]);
        let listed = deps.iter().find(|dep| nodes.iter().any(|of| of["id"] == **dep && of["tool"] == "list"));
        if let Some(list) = listed.filter(|_| node["kind"].is_null() && node["tool"] != "list") {
            node["for_each"] = json!({"from": list, "path": "items", "as": "item", "max": 5});
        }
        let read = deps.iter().find(|dep| {
            nodes.iter().any(|of| of["id"] == **dep && of["kind"].is_null() && of["for_each"].is_null())
        });
        if let Some(read) = read.filter(|_| node["kind"].is_null() && tape.one_in(2)) {
            node["param_refs"] = json!({"in": {"from": read, "path": "text"}});
        }
        if deps.len() > 1 && tape.one_in(4) && node["for_each"].is_null() && node["param_refs"].is_null() {
            node["join"] = json!("any_of");
        }
        node["deps"] = json!(deps);
        nodes.push(node);
    }
    nodes
}

fn plan(nodes: &[Value], oversight: bool) -> Option<Arc<Plan>> {
    let policy = if oversight { json!({"oversight": "supervised"}) } else { json!({}) };
    let draft = json!({"id": "p", "nodes": nodes, "policy": policy});
    let draft: PlanDraft = serde_json::from_value(draft).unwrap();
    draft.validate(&Settings::simulation(PolicyDraft::default(), None)).ok().map(Arc::new)
}

/// A run under way.
struct Drive<'a> {
    world: &'a mut World,
    id: RunId,
    run: Run,
    executed: BTreeSet<NodeId>,
}

impl Drive<'_> {
    fn within(&mut self, act: impl FnOnce(&mut Run, &mut DecisionContext<'_>) -> Vec<Event>) {
        let settings = Settings::simulation(PolicyDraft::default(), None);
        let mut cx = DecisionContext {
            run_id: self.id,
            now: 0,
            settings: &settings,
            planner: &StaticPlanner,
            diagnoser: &RuleDiagnoser,
        };
        act(&mut self.run, &mut cx);
    }

    fn decide(&mut self, input: RunInput) {
        self.within(|run, cx| run.decide(cx, input));
    }

    fn run_out(&mut self) {
        self.decide(RunInput::Propagate);
        for _ in 0..1_000 {
            let is_waiting = |status: &NodeStatus| matches!(status, NodeStatus::WaitingHuman { .. });
            let asks = self.run.instances().find(|(_, instance)| is_waiting(&instance.status));
            if let Some((node, instance)) = asks {
                let (node, request) = (node.id.clone(), instance.requests);
                let (by, note, raise) = ("ann".to_owned(), String::new(), Default::default());
                self.decide(RunInput::HumanAnswer { node, request, approve: true, by, note, raise });
                continue;
            }
            let ready = self.run.instances().find(|(_, instance)| instance.status == NodeStatus::Ready);
            let Some(node) = ready.map(|(node, _)| node.clone()) else { return };
            self.step(&node);
        }
        panic!("the run has no end");
    }

    /// What the driver of a run does about a ready node.
    fn step(&mut self, node: &Node) {
        if self.run.keeps_at_once(node) {
            return self.keep(&node.id);
        }
        if self.run.question(&node.id).is_some() {
            return self.within(|run, cx| run.ask(cx, &node.id, Some(Digest([1; 32]))));
        }
        if self.is_reused(node) {
            return;
        }
        self.execute(node);
    }

    fn reused(&mut self, node: &NodeId, reuse: Option<Digest>, decision: ReuseDecision) {
        let decided = ReuseDecided { node: node.clone(), reuse, decision };
        self.decide(RunInput::Reused(Box::new(decided)));
    }

    fn keep(&mut self, node: &NodeId) {
        let kept = self.run.kept_result(node).unwrap().clone();
        let reuse = self.run.kept_work(node).map(|work| work.reuse);
        self.reused(node, reuse, ReuseDecision::Kept { output: kept.output, from: kept.from });
    }

    fn is_reused(&mut self, node: &Node) -> bool {
        if let Some(edited) = self.run.edit_of(&node.id).cloned() {
            let (output, author) = (edited.output, edited.author);
            self.reused(&node.id, None, ReuseDecision::Edited { output, author, stale: false });
            return true;
        }
        let looks_up = self.run.reuse_terms().is_some_and(|terms| terms.looks_up(&node.id));
        let is_outdated = node.reach().effect == Effect::Read && self.run.follows_an_effect(node);
        if !looks_up || is_outdated || !self.run.is_reusable(node) {
            return false;
        }
        let (_, refs) = input(&self.run, node);
        let work = self.work(node, &refs);
        let found = self.world.records.get(&work).filter(|it| self.run.is_kept_as(&node.id, it.artifact));
        if let Some(output) = found.cloned() {
            let place = ostler_kernel::event::RecordPlace { run: self.id, seq: 1 };
            let result = ReusedResult { basis: ReuseBasis::Same, from: place, output, sampled: false };
            self.reused(&node.id, Some(work), ReuseDecision::Reused(result));
            return true;
        }
        let is_kept = self.run.kept_result(&node.id).is_some();
        if is_kept {
            self.keep(&node.id);
        }
        is_kept
    }

    fn work(&self, node: &Node, refs: &RefDigests) -> Digest {
        let version = self.world.version.to_string();
        self.run.manifest(node, refs, Some(&version), "/").unwrap().reuse()
    }

    fn execute(&mut self, node: &Node) {
        let (params, refs) = input(&self.run, node);
        self.within(|run, cx| run.start(cx, &node.id, None));
        let sigma = executable_digest(node, Some(&self.world.version.to_string()));
        let key = self.run.idempotency_key(self.id, &node.id);
        let opened = opened(self.id);
        let intended =
            IntentContext { opened: &opened, refs: &refs, sigma, idempotency_key: key, accounts: None };
        self.run.record_intent(0, &node.id, intended).unwrap();
        if node.kind != Kind::Collector {
            self.executed.insert(node.id.clone());
        }
        let seen = if node.reach().effect == Effect::Read { self.world.state } else { 0 };
        self.world.state += u32::from(node.acts());
        let text = format!("{} {params} {seen}", node.tool.as_deref().unwrap_or_default());
        // Different params may give the same result.
        let short = lineage::hash("t", &[text.as_bytes()]).0[0] % 8;
        let value = match node.tool.as_deref() {
            Some("list") => json!({"items": (0..usize::from(short) % 4).collect::<Vec<_>>(), "text": short}),
            _ => json!({"text": short}),
        };
        let output = output(&value);
        if self.run.is_recorded(node) {
            let work = self.work(node, &refs);
            self.world.records.insert(work, output.clone());
        }
        let attempt = self.run.instance(&node.id).unwrap().attempts;
        let result = AttemptResult::without_cost(node.id.clone(), attempt, Outcome::Ok(output));
        self.decide(RunInput::Result(Box::new(result)));
    }
}

fn opened(run: RunId) -> RunOpened {
    RunOpened {
        run,
        client: "acme".into(),
        agent: "a".into(),
        plan: canonical(&json!({})).unwrap(),
        intent: 2,
        scope: "s".to_owned(),
        workspace: "/".to_owned(),
        policy_epoch: 0,
        seed: 0,
    }
}

fn output(value: &Value) -> Output {
    let inline = to_canonical(value).unwrap();
    let artifact = lineage::artifact("application/json", inline.as_str().as_bytes());
    Output { artifact, bytes: inline.as_str().len() as u64, inline: Some(inline), directive: None }
}

/// The parameters of a call, and the digests of its references.
fn input(run: &Run, node: &Node) -> (String, RefDigests) {
    let value = |from: NodeId| {
        let output = run.instance(&from).and_then(|instance| instance.result());
        let value = output.and_then(|output| output.inline.as_ref()).map_or(Value::Null, |it| it.value());
        (from, Arc::new(value))
    };
    let results = run.sources(node).into_iter().map(value).collect();
    let (input, refs) = run.attempt_input(node, &results, &|_| None).unwrap();
    let AttemptInput::Params(params) = input else { panic!("there is no aggregator") };
    (json!(params).to_string(), refs)
}

impl World {
    fn run(&mut self, plan: &Arc<Plan>, terms: OpeningTerms) -> (RunId, Run, BTreeSet<NodeId>) {
        self.runs += 1;
        let id = RunId(uuid::Uuid::from_u128(self.runs));
        let mut run = Run::new(Arc::clone(plan), 1, 0);
        terms.into_records(None).iter().for_each(|event| run.apply(event, 0).unwrap());
        let mut drive = Drive { world: self, id, run, executed: BTreeSet::new() };
        drive.run_out();
        (id, drive.run, drive.executed)
    }

    /// What tools of another version say about the results of a run.
    fn against(&self, run: &Run) -> BTreeMap<NodeId, RecomputationCause> {
        let version = self.version.to_string();
        let judge = |node: &Node| {
            let (_, refs) = input(run, node);
            if node.reach().effect == Effect::Read {
                let work = run.manifest(node, &refs, Some(&version), "/").unwrap().reuse();
                let own = run.instance(&node.id).and_then(|instance| instance.result());
                return (self.records.get(&work) != own).then_some(RecomputationCause::Expired);
            }
            let sigma = executable_digest(node, Some(&version));
            (!run.is_same_work(&node.id, &refs, sigma)).then_some(RecomputationCause::OtherTool)
        };
        let executed = run.instances().filter(|(_, instance)| instance.status == NodeStatus::Executed);
        let reusable = executed.filter(|(node, _)| run.is_reusable(node));
        reusable.filter_map(|(node, _)| Some((node.id.clone(), judge(node)?))).collect()
    }
}

/// A change of the sources by their author. Returns whether the plan is another one.
fn change(nodes: &mut Vec<Value>, oversight: &mut bool, tape: &mut Tape) {
    let at = tape.below(nodes.len());
    match tape.below(8) {
        0..=2 if nodes[at]["params"].is_object() => nodes[at]["params"]["p"] = json!(1 + tape.below(3)),
        3 => nodes[at]["contract"] = json!([{"method": "schema", "spec": {"type": "object"}}]),
        4 => nodes[at]["timeout"] = json!(7),
        5 => *oversight = !*oversight,
        6 if nodes[at]["kind"].is_null() => {
            (nodes[at]["approval"], nodes[at]["human_timeout"]) = (json!("before"), json!(9));
        }
        _ => nodes.push(json!({
            "id": format!("n{}", nodes.len()), "tool": "pure", "params": {"p": 1}, "deps": [format!("n{at}")],
            "contract": [{"method": "schema"}],
        })),
    }
}

/// Repeats a run in a random way, and checks what the repetition executes. Returns the new run.
fn repeat(
    world: &mut World,
    (from, run): (RunId, &Run),
    nodes: &mut Vec<Value>,
    tape: &mut Tape,
) -> Option<(RunId, Run)> {
    let ids: Vec<NodeId> = run.instances().map(|(node, _)| node.id.clone()).collect();
    let some = |tape: &mut Tape| ids[tape.below(ids.len())].clone();
    let mut against = BTreeMap::new();
    let (mut edited, mut asked, mut other) = (None, None, None);
    match tape.below(6) {
        0 | 1 => {
            let node = some(tape);
            let is_editable = |(of, instance): &(&Node, &ostler_kernel::run::NodeInstance)| {
                of.id == node && instance.result().is_some() && !of.acts() && of.kind == Kind::Tool
            };
            edited = run.instances().find(is_editable).map(|_| node);
        }
        2 => asked = Some(some(tape)),
        3 => drop(against.insert(some(tape), RecomputationCause::Withdrawn)),
        4 => {
            let mut oversight = false;
            change(nodes, &mut oversight, tape);
            other = plan(nodes, oversight);
        }
        _ => {}
    }
    match tape.below(6) {
        0 => world.version += 1,
        1 => world.records.clear(),
        2 => world.state += 1,
        _ => {}
    }
    against
        .retain(|node, _| run.instance(node).is_some_and(|instance| instance.status == NodeStatus::Executed));
    world.against(run).into_iter().for_each(|(node, cause)| {
        against.entry(node).or_insert(cause);
    });
    let change = Change {
        plan: other.as_ref(),
        edited: edited.as_ref(),
        contents: None,
        from: asked.as_ref(),
        against: Some(&against),
    };
    let decision: RepeatDecision = run.repeat(change);
    assert_eq!(decision.doubtful(), None, "everything has ended");
    let mut terms = run.terms_to_repeat(from, &decision);
    if let Some(node) = edited.clone() {
        let output = output(&json!({"text": 9, "items": [7]}));
        terms.edits.retain(|edit| edit.node != node);
        let (author, base, stale) = ("ann".to_owned(), None, StalePolicy::Keep);
        terms.edits.push(ArtifactEdited { node, output, author, base, stale });
    }
    let named: BTreeSet<&NodeId> = decision.executed().map(|line| &line.node).collect();
    let (id, again, executed) = world.run(&decision.plan, terms);
    let is_named =
        |node: &Node| named.contains(&node.id) || node.parent().is_some_and(|list| named.contains(list));
    for node in &executed {
        assert!(
            again.node(node).is_some_and(is_named),
            "executed {node} of {executed:?}, named {named:?}, change {change:?}"
        );
    }
    for (node, instance) in again.instances().filter(|(node, _)| !is_named(node)) {
        let before = run.instance(&node.id).and_then(|instance| instance.result());
        let (Some(before), Some(now)) = (before, instance.result()) else { continue };
        let is_free = edited.as_ref() == Some(&node.id) || node.kind == Kind::Collector;
        assert!(is_free || before.artifact == now.artifact, "{} has another result", node.id);
    }
    Some((id, again))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn a_repetition_executes_only_what_its_invoice_names(numbers in prop::collection::vec(any::<u32>(), 150)) {
        let mut tape = Tape { numbers: numbers.into_iter() };
        let mut nodes = nodes(&mut tape);
        if let Some(plan) = plan(&nodes, false) {
            let mut world = World::default();
            let terms = OpeningTerms { reuse: Some(Default::default()), ..OpeningTerms::default() };
            let (mut id, mut run, _) = world.run(&plan, terms);
            for _ in 0..4 {
                let Some(next) = repeat(&mut world, (id, &run), &mut nodes, &mut tape) else { break };
                (id, run) = next;
            }
        }
    }
}
