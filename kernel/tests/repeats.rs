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
    AttemptInput, Change, DecisionContext, EarlierApproval, IntentContext, NodeStatus, OpeningTerms,
    RecomputationCause, RefDigests, RepeatDecision, RuleDiagnoser, Run, RunInput, StaticPlanner,
    executable_digest,
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
    /// Number of the gate's policy.
    policy: u8,
    /// Name of the person who answers.
    answers_as: String,
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
                let when = if tape.one_in(2) { "before" } else { "after" };
                json!({"id": id, "tool": "pure", "params": {"p": 0}, "approval": when, "human_timeout": 9})
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
    /// Nodes about which a person was asked.
    asked: BTreeSet<NodeId>,
    /// Nodes with an approval of the repeated run.
    carried: BTreeSet<NodeId>,
}

impl Drive<'_> {
    fn within(&mut self, act: impl FnOnce(&mut Run, &mut DecisionContext<'_>) -> Vec<Event>) {
        let gate_policy = Some(Digest([self.world.policy; 32]));
        let settings = Settings { gate_policy, ..Settings::simulation(PolicyDraft::default(), None) };
        let mut cx = DecisionContext {
            run_id: self.id,
            now: 0,
            settings: &settings,
            planner: &StaticPlanner,
            diagnoser: &RuleDiagnoser,
        };
        let events = act(&mut self.run, &mut cx);
        let carried = events.into_iter().filter_map(|event| match event {
            Event::ApprovalCarried(carried) => Some(carried.node),
            _ => None,
        });
        self.carried.extend(carried);
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
                let (by, note, raise) = (self.world.answers_as.clone(), String::new(), Default::default());
                self.asked.insert(node.clone());
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
            let (params, _) = input(&self.run, node);
            let shown = lineage::hash("shown", &[params.as_bytes()]);
            return self.within(|run, cx| run.ask(cx, &node.id, Some(shown)));
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
    fn run(&mut self, plan: &Arc<Plan>, terms: OpeningTerms) -> Drive<'_> {
        self.runs += 1;
        let id = RunId(uuid::Uuid::from_u128(self.runs));
        let mut run = Run::new(Arc::clone(plan), 1, 0);
        terms.into_records(None).iter().for_each(|event| run.apply(event, 0).unwrap());
        let (executed, asked, carried) = Default::default();
        let mut drive = Drive { world: self, id, run, executed, asked, carried };
        drive.run_out();
        drive
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
        3 => world.policy += 1,
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
        ..Change::default()
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
    let Drive { id, run: again, executed, asked, carried, .. } = world.run(&decision.plan, terms);
    let acted = executed.iter().filter(|node| again.node(node).is_some_and(Node::acts));
    for node in acted {
        let graph = again.plan().graph();
        let at = graph.position(node).unwrap();
        let above = graph.above(at).into_iter().chain([at]);
        let approved: Vec<&NodeId> = above.map(|at| &again.plan().nodes[at].id).collect();
        assert!(
            approved.iter().all(|node| !carried.contains(*node)),
            "{node} acted below a carried approval"
        );
        let is_guard = |guard: &&&NodeId| {
            let is_executed = again.instance(guard).is_some_and(|it| it.status == NodeStatus::Executed);
            is_executed && again.node(guard).is_some_and(|node| node.kind == Kind::HumanApproval)
        };
        let unasked = approved.iter().filter(is_guard).find(|guard| !asked.contains(**guard));
        assert!(
            asked.contains(node) || unasked.is_none(),
            "{node} acted below {unasked:?}, whose answer is of another run"
        );
    }
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
            let mut world = World { answers_as: "ann".to_owned(), ..World::default() };
            let terms = OpeningTerms { reuse: Some(Default::default()), ..OpeningTerms::default() };
            let Drive { mut id, mut run, .. } = world.run(&plan, terms);
            for _ in 0..4 {
                let Some(next) = repeat(&mut world, (id, &run), &mut nodes, &mut tape) else { break };
                (id, run) = next;
            }
        }
    }
}

/// A run of nodes that a person approves, and its repetitions.
struct Approved {
    world: World,
    nodes: Vec<Value>,
    last: Option<(RunId, Run)>,
}

/// Changes of a repetition.
#[derive(Default)]
struct Again<'a> {
    from: Option<&'a str>,
    withdrawn: Option<&'a str>,
    is_other_plan: bool,
}

impl Approved {
    fn new(nodes: Value) -> Approved {
        let mut nodes = nodes.as_array().unwrap().clone();
        nodes.iter_mut().for_each(|node| {
            node["contract"] = json!([{"method": "schema"}]);
            if node["approval"].is_string() || node["kind"] == "human_approval" {
                node["human_timeout"] = json!(9);
            }
        });
        let world = World { answers_as: "ann".to_owned(), ..World::default() };
        Approved { world, nodes, last: None }
    }

    fn run(mut self) -> Approved {
        let terms = OpeningTerms { reuse: Some(Default::default()), ..OpeningTerms::default() };
        let Drive { id, run, .. } = self.world.run(&plan(&self.nodes, false).unwrap(), terms);
        self.last = Some((id, run));
        self
    }

    /// Repeats the last run. `expected`: whom the engine asked about, and what it took over of which run.
    fn again(mut self, again: Again<'_>, expected: &str) -> Approved {
        let (from, run) = self.last.take().unwrap();
        let (plan, asked) = (plan(&self.nodes, false).unwrap(), again.from.map(NodeId::from));
        let against = again.withdrawn.map(|node| (NodeId::from(node), RecomputationCause::Withdrawn));
        let against: BTreeMap<_, _> = against.into_iter().collect();
        let change = Change {
            plan: again.is_other_plan.then_some(&plan),
            from: asked.as_ref(),
            against: Some(&against),
            ..Change::default()
        };
        let decision = run.repeat(change);
        let terms = run.terms_to_repeat(from, &decision);
        let Drive { id, run, asked, carried, .. } = self.world.run(&decision.plan, terms);
        let named = |nodes: &BTreeSet<NodeId>| {
            let named: Vec<&str> = nodes.iter().map(NodeId::as_str).collect();
            named.join("+")
        };
        let from: BTreeSet<String> = run
            .instances()
            .flat_map(|(_, instance)| &instance.approvals)
            .filter_map(|approval| Some(format!(" of {} in {}", approval.by, approval.from?.0.as_u128())))
            .collect();
        let from: String = from.into_iter().collect();
        assert_eq!(format!("asked {}; carried {}{from}", named(&asked), named(&carried)), expected);
        // An approval that was said to be void holds nowhere.
        for line in decision.executed().filter(|line| line.approved == Some(EarlierApproval::Void)) {
            assert!(!carried.contains(&line.node), "{} was said to be asked about", line.node);
        }
        self.last = Some((id, run));
        self
    }
}

/// A review whose text another node gives, and a node below.
fn review() -> Value {
    json!([
        {"id": "a", "tool": "pure", "params": {"p": 0}},
        {"id": "review", "kind": "human_approval", "param_refs": {"text": {"from": "a", "path": "text"}}},
        {"id": "below", "tool": "pure", "params": {"p": 0}, "deps": ["review"]}
    ])
}

#[test]
fn an_approval_holds_for_the_same_material_and_nothing_else() {
    let usual = Again::default;
    // A chain of repetitions names the run in which the person answered.
    let approved = Approved::new(review()).run().again(usual(), "asked ; carried review of ann in 1");
    let mut approved = approved.again(usual(), "asked ; carried review of ann in 1");
    approved.world.policy += 1;
    let mut approved = approved.again(usual(), "asked review; carried ");
    approved.nodes[0]["params"]["p"] = json!(1);
    let approved = approved.again(Again { is_other_plan: true, ..usual() }, "asked review; carried ");
    // The person is asked for, so the person is asked.
    let approved = approved.again(Again { from: Some("review"), ..usual() }, "asked review; carried ");
    let approved = approved.again(Again { withdrawn: Some("a"), ..usual() }, "asked review; carried ");
    approved.again(Again { from: Some("a"), ..usual() }, "asked ; carried review of ann in 7");

    // A grant answers for itself as long as it is in force.
    let mut approved = Approved::new(review());
    approved.world.answers_as = "grant g1 of ann".to_owned();
    approved.run().again(usual(), "asked review; carried ");
}

#[test]
fn an_approval_of_a_result_covers_result_work_contract_and_policy() {
    for (when, given) in [("before", "p"), ("after", "p")] {
        let nodes = json!([{"id": given, "tool": "pure", "params": {"p": 0}, "approval": when}]);
        let approved = || Approved::new(nodes.clone()).run();
        let changed = |change: &dyn Fn(&mut Approved), expected: &str| {
            let mut approved = approved();
            change(&mut approved);
            approved.again(Again { is_other_plan: true, ..Again::default() }, expected);
        };
        let (kept, asked) = ("asked ; carried p of ann in 1", "asked p; carried ");
        changed(&|_| {}, kept);
        changed(&|approved| approved.world.policy += 1, asked);
        changed(&|approved| approved.nodes[0]["params"]["p"] = json!(3), asked);
        changed(&|approved| approved.nodes[0]["timeout"] = json!(7), kept);
        let other = json!([{"method": "schema", "spec": {"type": "object"}}]);
        changed(
            &|approved| approved.nodes[0]["contract"] = other.clone(),
            if when == "after" { asked } else { kept },
        );
    }
}

#[test]
fn no_approval_that_leads_to_an_effect_holds_in_another_run() {
    let send = json!({"id": "send", "tool": "send", "effect": "external", "impact": 2, "idem": "none", "params": {"p": 0}});
    let mut own = send.clone();
    own["approval"] = json!("before");
    Approved::new(json!([own])).run().again(Again::default(), "asked send; carried ");
    let mut below = review();
    below.as_array_mut().unwrap().push(send);
    below[3]["deps"] = json!(["below"]);
    Approved::new(below).run().again(Again::default(), "asked review; carried ");
}

/// A payment whose amount another node gives, behind a person who has seen neither.
fn guarded() -> Value {
    json!([
        {"id": "amount", "tool": "pure", "params": {"p": 0}},
        {"id": "beside", "tool": "pure", "params": {"p": 0}},
        {"id": "guard", "kind": "human_approval"},
        {"id": "send", "tool": "send", "effect": "external", "impact": 2, "idem": "none", "params": {"p": 0},
            "deps": ["guard"], "param_refs": {"in": {"from": "amount", "path": "text"}}},
        {"id": "note", "tool": "pure", "params": {"p": 0}, "deps": ["guard", "beside"]}
    ])
}

#[test]
fn a_guard_whose_answer_stays_allows_no_effect_that_is_made_again() {
    let from = |from| Again { from: Some(from), ..Again::default() };
    let approved = Approved::new(guarded()).run();
    // Nothing that acts is executed again, so the answer stands for it.
    let approved = approved.again(from("beside"), "asked ; carried ");
    let approved = approved.again(from("amount"), "asked send; carried ");
    // One yes for each effect, also for equal parameters.
    let mut approved = approved.again(from("send"), "asked send; carried ");
    approved.nodes[3]["params"]["p"] = json!(5);
    let approved = approved.again(Again { is_other_plan: true, ..Again::default() }, "asked send; carried ");
    // A guard that is reached itself asks itself.
    approved.again(from("guard"), "asked guard; carried ");
}

#[test]
fn the_invoice_names_an_effect_behind_an_answered_guard_as_asked_about() {
    let approved = Approved::new(guarded()).run();
    let (_, run) = approved.last.unwrap();
    let from = NodeId::from("amount");
    let decision = run.repeat(Change { from: Some(&from), ..Change::default() });
    let lines =
        decision.executed().map(|line| (line.node.as_str(), line.asks, line.approved, line.guards.len()));
    assert_eq!(
        lines.collect::<Vec<_>>(),
        [("amount", false, None, 0), ("send", true, Some(EarlierApproval::Void), 1)]
    );
}
