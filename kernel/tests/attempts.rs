//! Intents before an attempt starts, and the treatment of attempts whose process died.
#![allow(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

use std::collections::BTreeMap;
use std::sync::Arc;

use expect_test::expect;
use ostler_kernel::event::{
    AttemptIntent, AttemptResult, Event, Failure, OperatorAct, Outcome, Output, RunOpened,
};
use ostler_kernel::gate::{CallClass, OnLostResult};
use ostler_kernel::id::{NodeId, RunId};
use ostler_kernel::plan::{Effect, Idempotency, Node, Plan, PlanDraft, Settings, ToolDefaults, Tools};
use ostler_kernel::port::{JSON, Position, Recorded, Seq};
use ostler_kernel::run::{
    AttemptInput, Canceller, CrashRecovery, DecisionContext, FailureCategory, InputError, IntentContext,
    NodeState, Operation, RECOVERIES_MAX, RecoveryContext, Resolution, RuleDiagnoser, Run, RunFold,
    RunFoldError, RunInput, RunOutcome, StaticPlanner, TransitionReason, executable_digest,
};
use ostler_kernel::template::RENDER_BYTES_MAX;
use ostler_kernel::{json, lineage};
use serde_json::{Map, Value, json};

struct Known;

impl Tools for Known {
    fn defaults(&self, tool: &str, params: &Map<String, Value>) -> Option<ToolDefaults> {
        let (effect, impact, idem) = match tool {
            "look" => (Effect::Read, 0, Idempotency::Natural),
            "write" => (Effect::Write, 1, Idempotency::Natural),
            "post" => (Effect::External, 1, Idempotency::Keyed),
            "fire" => (Effect::External, 1, Idempotency::None),
            "shell.run" if params["argv"] == json!(["look"]) => (Effect::Read, 0, Idempotency::Natural),
            "shell.run" => (Effect::External, 2, Idempotency::None),
            _ => return None,
        };
        let result_schema = Some(json!({"type": "object"}).into());
        Some(ToolDefaults { effect, impact, idem, only_waits: false, result_schema })
    }

    fn names(&self) -> Vec<String> {
        ["fire", "look", "post", "shell.run", "write"].map(str::to_owned).to_vec()
    }
}

fn with<T>(run: &mut Run, act: impl FnOnce(&mut Run, &mut DecisionContext<'_>) -> T) -> T {
    let settings = Settings::real(4, &Known);
    act(
        run,
        &mut DecisionContext {
            run_id: RunId::default(),
            now: 7,
            settings: &settings,
            planner: &StaticPlanner,
            diagnoser: &RuleDiagnoser,
        },
    )
}

fn plan(nodes: Value) -> Plan {
    let draft: PlanDraft = serde_json::from_value(json!({"id": "p", "nodes": nodes})).unwrap();
    draft.validate(&Settings::real(4, &Known)).unwrap_or_else(|faults| panic!("{faults:#?}"))
}

fn open(nodes: Value) -> Run {
    let mut run = Run::new(Arc::new(plan(nodes)), 1, 0);
    with(&mut run, |run, cx| run.decide(cx, RunInput::Propagate));
    run
}

fn opened(run: u128) -> RunOpened {
    RunOpened {
        run: RunId(uuid::Uuid::from_u128(run)),
        client: "c".into(),
        agent: "a".into(),
        plan: json::canonical(&serde_json::to_value(plan(json!([{"id": "n", "tool": "look"}]))).unwrap())
            .unwrap(),
        intent: 2,
        scope: "default".into(),
        workspace: "/".into(),
        policy_epoch: 3,
        seed: 1,
    }
}

fn output(value: &Value) -> Output {
    let inline = json::canonical(value).unwrap();
    let content = inline.as_str().as_bytes();
    let (artifact, bytes) = (lineage::artifact(JSON, content), content.len() as u64);
    Output { artifact, bytes, inline: Some(inline), directive: None }
}

fn ends(run: &mut Run, node: &str, outcome: Outcome) {
    let attempt = run.instance(&node.into()).unwrap().attempts;
    let result = AttemptResult::without_cost(node.into(), attempt, outcome);
    with(run, |run, cx| run.decide(cx, RunInput::Result(Box::new(result))));
}

fn start(run: &mut Run, node: &str) {
    let events = with(run, |run, cx| run.start(cx, &node.into(), None));
    assert!(!events.is_empty(), "{node} is not ready");
}

/// Starts a node of run `of` with the given results as inputs.
fn record_intent(run: &mut Run, of: u128, node: &str, results: &[(&str, Value)]) -> AttemptIntent {
    start(run, node);
    let results = results.iter().map(|(id, value)| (NodeId::from(*id), Arc::new(value.clone()))).collect();
    let (_, refs) = run.attempt_input(run.node(&node.into()).unwrap(), &results, &|_| None).unwrap();
    let opened = opened(of);
    let idempotency_key = run.idempotency_key(opened.run, &node.into());
    let sigma = executable_digest(run.node(&node.into()).unwrap(), Some("1"));
    let intended = IntentContext { opened: &opened, refs: &refs, sigma, idempotency_key, accounts: None };
    match run.record_intent(7, &node.into(), intended) {
        Some(Event::AttemptIntent(intent)) => *intent,
        other => panic!("{other:?}"),
    }
}

/// Runs a node to success with `value`.
fn execute(run: &mut Run, of: u128, node: &str, value: &Value) -> AttemptIntent {
    let intent = record_intent(run, of, node, &[]);
    ends(run, node, Outcome::Ok(output(value)));
    intent
}

fn state(run: &Run, node: &str) -> String {
    let instance = run.instance(&node.into()).unwrap();
    format!("{} {}", instance.state(), instance.reason.as_ref().map(ToString::to_string).unwrap_or_default())
}

#[test]
fn work_is_known_by_what_runs_on_what_and_by_nothing_else() {
    let nodes = json!([
        {"id": "a", "tool": "look", "params": {"of": 1}},
        {"id": "b", "tool": "look", "params": {"of": 1}, "timeout": 5},
        {"id": "c", "tool": "look", "params": {"of": 2}},
        {"id": "d", "tool": "write", "params": {"of": 1}},
    ]);
    let mut run = open(nodes);
    let known: BTreeMap<&str, _> = ["a", "b", "c", "d"]
        .into_iter()
        .map(|node| (node, record_intent(&mut run, 1, node, &[]).reuse))
        .collect();
    assert_eq!(known["a"], known["b"], "neither its name nor its limits count");
    assert_ne!(known["a"], known["c"]);
    assert_ne!(known["a"], known["d"]);
}

/// The identities of `look` behind an effect of `tool`, in runs 1 and 2.
fn after(tool: &str) -> [ostler_kernel::id::Digest; 2] {
    [1, 2].map(|of| {
        let nodes = json!([{"id": "e", "tool": tool}, {"id": "look", "tool": "look", "deps": ["e"]}]);
        let mut run = open(nodes);
        execute(&mut run, of, "e", &json!({}));
        record_intent(&mut run, of, "look", &[]).reuse
    })
}

#[test]
fn work_that_comes_after_an_effect_is_other_work() {
    let [look, look_again] = after("look");
    let [write, write_again] = after("write");
    let [fire, fire_again] = after("fire");
    assert_eq!(look, look_again);
    assert_eq!(write, write_again, "a natural effect is the same whenever it is done");
    assert_ne!(fire, fire_again, "each of the others is a new one");
    assert!(look != write && write != fire);
}

#[test]
fn an_intent_says_where_values_came_from_and_knows_its_attempt() {
    let mut run = open(json!([
        {"id": "src", "tool": "look"},
        {"id": "use", "tool": "post", "params": {"to": "x"}, "retries": 1,
         "param_refs": {"body": {"from": "src", "path": "text"}}},
    ]));
    assert_eq!(execute(&mut run, 1, "src", &json!({"text": "t"})).provenance, ["plan"]);
    let results = [("src", json!({"text": "t"}))];
    let first = record_intent(&mut run, 1, "use", &results);
    assert_eq!(first.provenance, ["plan", "tool:look"]);
    assert_eq!((first.attempt, first.patch_count, first.intent, first.policy_epoch), (1, 0, 2, 3));

    let failure = Failure { category: FailureCategory::Transient, message: String::new() };
    ends(&mut run, "use", Outcome::Failed(failure));
    with(&mut run, |run, cx| run.decide(cx, RunInput::RetryDue("use".into())));
    let second = record_intent(&mut run, 1, "use", &results);
    assert_eq!(second.attempt, 2);
    assert_eq!((second.idempotency_key, second.reuse), (first.idempotency_key, first.reuse));
    let mut again = run.clone();
    let other = [("src", json!({"text": "u"}))];
    let (_, refs) = again
        .attempt_input(
            again.node(&"use".into()).unwrap(),
            &BTreeMap::from(other.map(|(id, value)| (NodeId::from(id), Arc::new(value)))),
            &|_| None,
        )
        .unwrap();
    let opened = opened(1);
    let sigma = executable_digest(again.node(&"use".into()).unwrap(), Some("1"));
    let idempotency_key = first.idempotency_key;
    let intended = IntentContext { opened: &opened, refs: &refs, sigma, idempotency_key, accounts: None };
    let Some(Event::AttemptIntent(changed)) = again.record_intent(7, &"use".into(), intended) else {
        panic!()
    };
    assert_ne!(changed.reuse, first.reuse, "what it is given counts");
}

#[test]
fn an_intent_names_the_tools_behind_a_winner_and_before_an_aggregator() {
    let mut run = open(json!([
        {"id": "one", "tool": "look"},
        {"id": "other", "tool": "shell.run", "params": {"argv": ["look"]}, "retries": 0},
        {"id": "best", "tool": "write", "join": "any_of", "deps": ["one", "other"],
         "param_refs": {"text": {"from": "$winner", "path": "text"}}},
        {"id": "report", "kind": "aggregator", "params": {"template": "t"}, "deps": [
            {"n": "one", "on": "terminal"}, {"n": "other", "on": "terminal"}]},
    ]));
    let looked = json!({"text": "t"});
    start(&mut run, "other");
    let failure = Failure { category: FailureCategory::Structural, message: String::new() };
    ends(&mut run, "other", Outcome::Failed(failure));
    execute(&mut run, 1, "one", &looked);
    let results = [("one", looked)];
    assert_eq!(record_intent(&mut run, 1, "best", &results).provenance, ["plan", "tool:look"]);
    assert_eq!(record_intent(&mut run, 1, "report", &results).provenance, ["plan", "tool:look"]);
}

#[test]
fn what_a_node_is_given_is_bounded_before_it_is_copied() {
    let refs: Map<String, Value> =
        (0..100).map(|at| (format!("p{at}"), json!({"from": "a", "path": "text"}))).collect();
    let mut run = open(json!([
        {"id": "a", "tool": "look"}, {"id": "b", "tool": "look"},
        {"id": "copies", "tool": "post", "param_refs": refs},
        {"id": "once", "tool": "post", "param_refs": {"p0": {"from": "a", "path": "text"}}},
        {"id": "both", "kind": "aggregator", "params": {"template": "t"}, "deps": ["a", "b"]},
    ]));
    let large = Arc::new(json!({"text": "x".repeat(8 << 20)}));
    execute(&mut run, 1, "a", &json!({"text": "x"}));
    let given = |node: &str, results: [(&str, &Arc<Value>); 2]| {
        let results = results.map(|(id, result)| (id.into(), result.clone())).into();
        run.attempt_input(run.node(&node.into()).unwrap(), &results, &|_| None).map(|_| ())
    };
    let small = Arc::new(json!({"text": "x"}));
    let too_large = |node: &str| Err(InputError::TooLarge(node.into()));
    assert_eq!(given("copies", [("a", &large), ("b", &small)]), too_large("copies"));
    assert_eq!(given("once", [("a", &large), ("b", &small)]), Ok(()));
    let lists = Arc::new(json!(vec![json!([]); 9 << 20]));
    assert_eq!(given("both", [("a", &lists), ("b", &lists)]), too_large("both"));
    assert_eq!(given("both", [("a", &large), ("b", &small)]), Ok(()));
}

#[test]
fn an_aggregator_is_given_what_became_of_every_dependency() {
    let mut run = open(json!([
        {"id": "good", "tool": "look"}, {"id": "bad", "tool": "look", "retries": 0}, {"id": "rest", "tool": "look"},
        {"id": "report", "kind": "aggregator", "params": {"template": "t"}, "deps": [
            {"n": "good", "on": "terminal"}, {"n": "bad", "on": "terminal"}, {"n": "rest", "on": "terminal"}]},
        {"id": "told", "kind": "aggregator", "param_refs": {"template": {"from": "good", "path": "x", "template": "{}!"}}},
        {"id": "mute", "kind": "aggregator", "param_refs": {"template": {"from": "good", "path": "x"}}},
    ]));
    execute(&mut run, 1, "good", &json!({"x": 1}));
    start(&mut run, "bad");
    ends(
        &mut run,
        "bad",
        Outcome::Failed(Failure { category: FailureCategory::Structural, message: "no".into() }),
    );
    let report = run.node(&"report".into()).unwrap();
    assert_eq!(run.sources(report).into_iter().collect::<Vec<_>>(), ["good".into()]);
    let results = BTreeMap::from([("good".into(), Arc::new(json!({"x": 1})))]);
    let (given, refs) = run.attempt_input(report, &results, &|_| None).unwrap();
    let AttemptInput::Aggregate { template, values } = given else { panic!("{given:?}") };
    assert_eq!(template, "t");
    assert_eq!(
        Value::Object(values),
        json!({"good": {"state": "executed", "result": {"x": 1}, "error": ""},
               "bad": {"state": "failed", "error": "no"}, "rest": {"state": "ready", "error": ""}})
    );
    assert_eq!(refs.len(), 3);
    let (given, refs) = run.attempt_input(run.node(&"told".into()).unwrap(), &results, &|_| None).unwrap();
    assert!(matches!(given, AttemptInput::Aggregate { template, .. } if template == "1!"));
    assert_eq!(refs.keys().collect::<Vec<_>>(), ["good", "template"]);
    let error = run.attempt_input(run.node(&"mute".into()).unwrap(), &results, &|_| None).unwrap_err();
    assert_eq!(
        (error.category(), error),
        (FailureCategory::Structural, InputError::NoTemplate("mute".into()))
    );
}

#[test]
fn the_templates_of_a_node_make_no_more_text_together_than_one_template_may() {
    let half = |text: &str| json!({"from": "a", "path": "x", "template": text});
    let mut run = open(json!([
        {"id": "a", "tool": "look"},
        {"id": "fits", "tool": "look", "param_refs": {"p": half("{}"), "q": half("{}")}},
        {"id": "over", "tool": "look", "param_refs": {"p": half("{}"), "q": half("{}.")}},
        {"id": "wide", "tool": "look", "param_refs": {"p": half(&"{}".repeat(100_000))}},
    ]));
    let result = json!({"x": "x".repeat(RENDER_BYTES_MAX / 2)});
    execute(&mut run, 1, "a", &result);
    let results = BTreeMap::from([("a".into(), Arc::new(result))]);
    let given = |id: &str| run.attempt_input(run.node(&id.into()).unwrap(), &results, &|_| None).map(drop);
    let told = |id: &str| given(id).map_err(|error| (error.category(), error.to_string()));
    let refused = |name: &str, bytes: usize, room: usize| {
        let told = format!(
            "parameter {name}: the result of a does not fit the template: the text would have {bytes} bytes, \
             at most {room} are allowed here: use a smaller part, or fewer {{}}"
        );
        Err((FailureCategory::ParamMissing, told))
    };
    assert_eq!(told("fits"), Ok(()));
    assert_eq!(told("over"), refused("q", RENDER_BYTES_MAX / 2 + 1, RENDER_BYTES_MAX / 2));
    assert_eq!(told("wide"), refused("p", RENDER_BYTES_MAX / 2 * 100_000, RENDER_BYTES_MAX));
}

/// Checks the state of a running node of `tool` after its process died, with or without a stop request before.
fn check_lost(tool: &str, stopped: bool, expected: &str, is_again: bool) {
    check_lost_node(json!({"id": "n", "tool": tool}), stopped, expected, is_again);
}

fn check_lost_node(node: Value, stopped: bool, expected: &str, is_again: bool) {
    let tool = node.to_string();
    let mut run = open(json!([node, {"id": "m", "tool": "look"}]));
    record_intent(&mut run, 1, "n", &[]);
    if stopped {
        with(&mut run, |run, cx| {
            run.decide(cx, RunInput::Operator(Operation::CancelPlan(Canceller::Operator)))
        });
    }
    let taken =
        with(&mut run, |run, cx| run.recover_from_crash(cx, &["n".into()], RecoveryContext::default()));
    let CrashRecovery::Resumed { events, rerun: again } = taken else { panic!("{taken:?}") };
    assert_eq!(events[0], Event::RunRecovered { count: 1 });
    assert_eq!(state(&run, "n"), expected, "{tool}, stopped: {stopped}");
    assert_eq!(
        again,
        if is_again { vec![NodeId::from("n")] } else { Vec::new() },
        "{tool}, stopped: {stopped}"
    );
}

#[test]
fn a_run_is_cancelled_once_however_often_that_is_said() {
    for (by, act, why) in [
        (Canceller::Operator, OperatorAct::CancelPlan, "cancelled plan_cancelled"),
        (Canceller::Deadline, OperatorAct::StopLate, "cancelled deadline"),
        (Canceller::Parent, OperatorAct::StopUnwanted, "cancelled unwanted"),
    ] {
        let mut run = open(json!([{"id": "n", "tool": "fire"}, {"id": "m", "tool": "look"}]));
        record_intent(&mut run, 1, "n", &[]);
        let cancel = |run: &mut Run, by: Canceller| {
            with(run, |run, cx| run.decide(cx, RunInput::Operator(Operation::CancelPlan(by))))
        };
        let first = cancel(&mut run, by);
        assert_eq!(first[0], Event::Operator(act));
        assert!(first.contains(&Event::Draining { node: "n".into() }), "{first:?}");
        assert_eq!(state(&run, "m"), why);
        for again in [Canceller::Operator, Canceller::Deadline, Canceller::Parent] {
            assert_eq!(cancel(&mut run, again), []);
        }
    }
}

#[test]
fn a_lost_attempt_is_done_again_if_that_is_harmless_or_was_not_stopped_meanwhile() {
    check_lost("look", false, "running attempt:1", true);
    check_lost("write", false, "running attempt:1", true);
    check_lost("post", false, "running attempt:1", true);
    check_lost("fire", false, "waiting_human in_doubt", false);
    check_lost("write", true, "failed crash", false);
    check_lost("post", true, "failed crash", false);
    check_lost("fire", true, "failed in_doubt", false);
}

#[test]
fn an_effect_that_was_stopped_in_doubt_is_in_doubt_for_another_run_until_a_person_settles_it() {
    let died = |run: &mut Run| drop(with(run, |run, cx| run.decide(cx, RunInput::AttemptLost("n".into()))));
    let failed = |category| {
        move |run: &mut Run| ends(run, "n", Outcome::Failed(Failure { category, message: String::new() }))
    };
    let late = failed(FailureCategory::Timeout);
    let redone = |run: &mut Run| {
        died(run);
        let (node, by) = (NodeId::from("n"), "ann".to_owned());
        with(run, |run, cx| run.decide(cx, RunInput::Resolved { node, how: Resolution::Redo, by }));
    };
    let broken = failed(FailureCategory::Structural);
    let stops = [
        Operation::Cancel("n".into()),
        Operation::Skip("n".into()),
        Operation::CancelPlan(Canceller::Operator),
    ];
    type Loss<'a> = &'a dyn Fn(&mut Run);
    let table: [(&str, Loss<'_>, bool); 6] = [
        ("fire", &died, true),
        ("fire", &late, true),
        ("fire", &redone, false),
        ("fire", &broken, false),
        ("look", &died, false),
        ("write", &died, false),
    ];
    for (tool, lost, expected) in table {
        for stop in &stops {
            let mut run = open(json!([{"id": "n", "tool": tool, "retries": 0}]));
            record_intent(&mut run, 1, "n", &[]);
            lost(&mut run);
            with(&mut run, |run, cx| run.decide(cx, RunInput::Operator(stop.clone())));
            died(&mut run);
            let doubt = |run: &Run| run.doubt(run.node(&"n".into()).unwrap());
            assert_eq!(doubt(&run).is_some(), expected, "{tool}, {stop:?}: {}", state(&run, "n"));
            if expected {
                let settled = run.settle_by_hand(&"n".into(), "ann".to_owned()).unwrap().unwrap();
                run.apply(&settled, 7).unwrap();
                assert_eq!(doubt(&run), None, "{tool}, {stop:?}");
            }
        }
    }
}

#[test]
fn the_tests_of_a_contract_count_as_what_their_node_does() {
    let contract = |argv: &[&str]| json!([{"method": "test", "p": 1, "spec": {"argv": argv}}]);
    let tested = |tool: &str, argv: &[&str]| json!({"id": "n", "tool": tool, "contract": contract(argv)});
    check_lost_node(tested("look", &["make", "check"]), false, "waiting_human in_doubt", false);
    check_lost_node(tested("look", &["make", "check"]), true, "failed in_doubt", false);
    check_lost_node(tested("look", &["look"]), false, "running attempt:1", true);
    check_lost_node(tested("post", &["look"]), false, "running attempt:1", true);
    let mut vouched_for = tested("look", &["make", "check"]);
    vouched_for["idem"] = json!("natural");
    check_lost_node(vouched_for, false, "running attempt:1", true);

    let mut run = open(json!([
        {"id": "a", "tool": "look", "contract": contract(&["make", "check"])},
        {"id": "b", "tool": "fire", "contract": contract(&["look"])},
    ]));
    let class = |run: &Run, node: &str| run.node(&node.into()).unwrap().reach();
    let of = |impact, effect, idem| CallClass { impact, effect, idem };
    assert_eq!(class(&run, "a"), of(2, Effect::External, Idempotency::None));
    assert_eq!(class(&run, "b"), of(1, Effect::External, Idempotency::None));
    start(&mut run, "a");
    ends(
        &mut run,
        "a",
        Outcome::Failed(Failure { category: FailureCategory::Timeout, message: String::new() }),
    );
    assert_eq!(state(&run, "a"), "waiting_human in_doubt", "its test may have been under way");
}

/// State of a node after each kind of loss: process death, crash, timeout.
fn lost_in_each_way(node: &Node) -> [String; 3] {
    let run = || {
        let mut plan = plan(json!([{"id": "n", "tool": "look"}]));
        plan.nodes = vec![Node { retries: 1, ..node.clone() }];
        let mut run = Run::new(Arc::new(plan), 1, 0);
        with(&mut run, |run, cx| run.decide(cx, RunInput::Propagate));
        run
    };
    let key = |run: &Run| run.idempotency_key(opened(1).run, &"n".into());
    let told = |run: &mut Run, before| match run.instance(&"n".into()).unwrap().state() {
        NodeState::WaitingHuman => "in doubt".to_owned(),
        NodeState::Running | NodeState::FailedRetryable if key(run) == before => "again".to_owned(),
        other => panic!("{other}"),
    };
    let mut died = run();
    record_intent(&mut died, 1, "n", &[]);
    let before = key(&died);
    with(&mut died, |run, cx| run.decide(cx, RunInput::AttemptLost("n".into())));
    let ended = [FailureCategory::Crash, FailureCategory::Timeout].map(|category| {
        let mut run = run();
        record_intent(&mut run, 1, "n", &[]);
        ends(&mut run, "n", Outcome::Failed(Failure { category, message: String::new() }));
        told(&mut run, before)
    });
    let [crashed, late] = ended;
    [told(&mut died, before), crashed, late]
}

#[test]
fn what_a_loss_permits_is_one_table_and_whatever_way_an_attempt_is_lost_the_run_goes_by_it() {
    let classes = [
        ("none", 0, Effect::None),
        ("read", 0, Effect::Read),
        ("write", 1, Effect::Write),
        ("external", 1, Effect::External),
        ("external", 2, Effect::External),
    ];
    let idems =
        [("natural", Idempotency::Natural), ("keyed", Idempotency::Keyed), ("none", Idempotency::None)];
    let class = |impact, effect, idem| Some(CallClass { impact, effect, idem });
    let tests = [
        None,
        class(0, Effect::Read, Idempotency::None),
        class(1, Effect::External, Idempotency::Keyed),
        class(2, Effect::External, Idempotency::None),
    ];
    let mut table = String::from("effect, impact, idem | no tests | that look | keyed | that act\n");
    for (word, impact, effect) in classes {
        for (how, idem) in idems {
            let cells = tests.map(|tests| {
                let node = plan(json!([{"id": "n", "tool": "look"}])).nodes.remove(0);
                let node = Node { effect, impact, idem, tests, ..node };
                let (after, told) = match node.on_lost_result() {
                    OnLostResult::Retry => ("again", "again"),
                    OnLostResult::RetryWithKey => ("under its key", "again"),
                    OnLostResult::InDoubt => ("in doubt", "in doubt"),
                };
                assert_eq!(lost_in_each_way(&node), [told; 3], "{word} {impact} {how} {tests:?}");
                assert_eq!(node.acts(), after != "again", "what may simply be done again changes nothing");
                after
            });
            table.push_str(&format!("{word} {impact} {how} | {}\n", cells.join(" | ")));
        }
    }
    expect![[r#"
        effect, impact, idem | no tests | that look | keyed | that act
        none 0 natural | again | again | under its key | in doubt
        none 0 keyed | again | again | under its key | in doubt
        none 0 none | again | again | under its key | in doubt
        read 0 natural | again | again | under its key | in doubt
        read 0 keyed | again | again | under its key | in doubt
        read 0 none | again | again | under its key | in doubt
        write 1 natural | under its key | under its key | under its key | in doubt
        write 1 keyed | under its key | under its key | under its key | in doubt
        write 1 none | in doubt | in doubt | in doubt | in doubt
        external 1 natural | under its key | under its key | under its key | in doubt
        external 1 keyed | under its key | under its key | under its key | in doubt
        external 1 none | in doubt | in doubt | in doubt | in doubt
        external 2 natural | under its key | under its key | under its key | in doubt
        external 2 keyed | under its key | under its key | under its key | in doubt
        external 2 none | in doubt | in doubt | in doubt | in doubt
    "#]]
    .assert_eq(&table);
}

#[test]
fn a_run_that_ends_process_after_process_is_set_aside() {
    let lost = ["n".into()];
    let recovered = |count| {
        let mut run = open(json!([{"id": "n", "tool": "look"}]));
        start(&mut run, "n");
        run.apply(&Event::RunRecovered { count }, 7).unwrap();
        run
    };
    let goes_on = |taken: &CrashRecovery| matches!(taken, CrashRecovery::Resumed { .. });
    let mut run = recovered(RECOVERIES_MAX - 1);
    assert!(
        goes_on(&with(&mut run, |run, cx| run.recover_from_crash(cx, &lost, RecoveryContext::default()))),
        "the last try"
    );
    let reason = format!("the process died {RECOVERIES_MAX} times in a row without progress");
    let taken = with(&mut run, |run, cx| run.recover_from_crash(cx, &lost, RecoveryContext::default()));
    assert_eq!(taken, CrashRecovery::Parked(reason));
    assert!(
        goes_on(&with(&mut run, |run, cx| run.recover_from_crash(cx, &[], RecoveryContext::default()))),
        "nothing was lost"
    );

    let taken = with(&mut run, |run, cx| {
        run.recover_from_crash(
            cx,
            &lost,
            RecoveryContext { was_parked: true, forced: true, made_progress: false },
        )
    });
    let CrashRecovery::Resumed { events, .. } = taken else { panic!("somebody asked for it") };
    let counts: Vec<u32> = events
        .iter()
        .filter_map(|event| match event {
            Event::RunRecovered { count } => Some(*count),
            _ => None,
        })
        .collect();
    assert_eq!(counts, [0, RECOVERIES_MAX + 1]);

    let mut run = recovered(RECOVERIES_MAX);
    let since = RecoveryContext { made_progress: true, ..RecoveryContext::default() };
    let CrashRecovery::Resumed { events, .. } =
        with(&mut run, |run, cx| run.recover_from_crash(cx, &lost, since))
    else {
        panic!("an attempt noted that it got further")
    };
    assert_eq!(events[0], Event::RunRecovered { count: 1 });

    let mut run = recovered(RECOVERIES_MAX);
    ends(
        &mut run,
        "n",
        Outcome::Failed(Failure { category: FailureCategory::Transient, message: String::new() }),
    );
    with(&mut run, |run, cx| run.decide(cx, RunInput::RetryDue("n".into())));
    start(&mut run, "n");
    let taken = with(&mut run, |run, cx| run.recover_from_crash(cx, &lost, RecoveryContext::default()));
    assert!(goes_on(&taken), "an attempt that ended is progress");

    let mut run = recovered(RECOVERIES_MAX);
    assert_eq!(with(&mut run, Run::record_clean_shutdown), [Event::RunRecovered { count: 0 }]);
    let taken = with(&mut run, |run, cx| run.recover_from_crash(cx, &lost, RecoveryContext::default()));
    assert!(goes_on(&taken), "a process that ends in good order is not ended by it");
    let mut run = recovered(0);
    assert_eq!(with(&mut run, Run::record_clean_shutdown), [], "nothing to take back");
}

#[test]
fn a_run_at_rest_is_cancelled_to_its_end_whatever_its_nodes_did() {
    let mut run = open(json!([
        {"id": "ready", "tool": "look"}, {"id": "look", "tool": "look"}, {"id": "write", "tool": "write"},
        {"id": "fire", "tool": "fire"}, {"id": "done", "tool": "look"},
        {"id": "later", "tool": "look", "deps": ["ready"]},
    ]));
    ["look", "write", "fire"].iter().for_each(|node| drop(record_intent(&mut run, 1, node, &[])));
    execute(&mut run, 1, "done", &json!({}));
    assert!(!run.waits_for_person());
    let events = with(&mut run, |run, cx| run.cancel_and_close(cx, Canceller::Operator)).unwrap();
    assert_eq!(events.last(), Some(&Event::RunClosed { outcome: RunOutcome::Cancelled }));
    let states = ["ready", "look", "write", "fire", "done", "later"].map(|node| state(&run, node));
    assert_eq!(
        states,
        [
            "cancelled plan_cancelled",
            "cancelled plan_cancelled",
            "failed crash",
            "failed in_doubt",
            "executed ok",
            "cancelled plan_cancelled"
        ]
    );
}

#[test]
fn a_run_at_rest_that_only_waits_for_its_contract_is_left_to_be_judged() {
    let contract = json!([{"method": "schema", "p": 1, "spec": {"type": "object"}}]);
    let source = json!({"id": "p", "contract": contract, "nodes": [{"id": "n", "tool": "look"}]});
    let draft: PlanDraft = serde_json::from_value(source).unwrap();
    let plan = draft.validate(&Settings::real(4, &Known)).unwrap();
    let mut run = Run::new(Arc::new(plan), 1, 0);
    with(&mut run, |run, cx| run.decide(cx, RunInput::Propagate));
    execute(&mut run, 1, "n", &json!({}));
    assert_eq!(with(&mut run, |run, cx| run.cancel_and_close(cx, Canceller::Operator)), None);
}

#[test]
fn a_legal_step_that_died_with_its_process_is_for_a_person_to_settle() {
    for (domain, expected) in [("legal", NodeState::WaitingHuman), ("testing", NodeState::Running)] {
        let policy = json!({"in_doubt": "ask", "domain": domain});
        let source = json!({"id": "p", "policy": policy, "nodes": [{"id": "n", "tool": "look"}]});
        let draft: PlanDraft = serde_json::from_value(source).unwrap();
        let plan = draft.validate(&Settings::real(4, &Known)).unwrap();
        let mut run = Run::new(Arc::new(plan), 1, 0);
        with(&mut run, |run, cx| run.decide(cx, RunInput::Propagate));
        record_intent(&mut run, 1, "n", &[]);
        with(&mut run, |run, cx| run.decide(cx, RunInput::AttemptLost("n".into())));
        assert_eq!(run.instance(&"n".into()).unwrap().state(), expected, "{domain}");
    }
}

#[test]
fn an_attempt_without_an_intent_is_not_in_doubt() {
    let mut run = open(json!([{"id": "n", "tool": "fire"}]));
    start(&mut run, "n");
    with(&mut run, |run, cx| run.decide(cx, RunInput::AttemptLost("n".into())));
    assert_eq!(run.instance(&"n".into()).unwrap().state(), NodeState::Running, "the attempt runs again");
    with(&mut run, |run, cx| run.decide(cx, RunInput::Operator(Operation::Cancel("n".into()))));
    with(&mut run, |run, cx| run.decide(cx, RunInput::AttemptLost("n".into())));
    let instance = run.instance(&"n".into()).unwrap();
    assert_ne!(instance.reason, Some(TransitionReason::InDoubt), "{:?}", instance.state());
    assert!(instance.state().is_terminal());
}

#[test]
fn a_run_waits_for_a_person_when_nothing_else_goes_on() {
    let mut run = open(json!([{"id": "n", "tool": "fire"}, {"id": "m", "tool": "look"}]));
    record_intent(&mut run, 1, "n", &[]);
    start(&mut run, "m");
    with(&mut run, |run, cx| run.decide(cx, RunInput::AttemptLost("n".into())));
    assert_eq!(run.instance(&"n".into()).unwrap().state(), NodeState::WaitingHuman);
    assert!(!run.waits_for_person(), "m goes on");
    ends(&mut run, "m", Outcome::Ok(output(&json!({}))));
    assert!(run.waits_for_person());
}

fn recorded(seq: u64, event: Event) -> Recorded {
    Recorded { seq: Seq(seq), position: Position(10 * seq), at_ms: seq as i64, event }
}

#[test]
fn a_run_is_folded_from_its_records() {
    let opened = opened(1);
    let of = opened.run;
    let read = |plan: &json::Json| serde_json::from_str(plan.as_str()).map(Arc::new);
    let mut fold = RunFold::of(of);
    assert!(fold.so_far().is_none());
    assert_eq!(RunFold::of(of).end().unwrap_err(), RunFoldError::Unopened(of));
    let parked = || Event::Parked { reason: "why".into() };
    assert_eq!(RunFold::of(of).record(&recorded(1, parked()), &read), Err(RunFoldError::Unopened(of)));

    fold.record(&recorded(1, Event::RunOpened(opened.into())), &read).unwrap();
    fold.record(&recorded(2, parked()), &read).unwrap();
    assert_eq!(fold.so_far().unwrap().parked.as_deref(), Some("why"));
    fold.record(&recorded(3, Event::RunRecovered { count: 0 }), &read).unwrap();
    assert_eq!(fold.so_far().unwrap().parked, None);
    let mut broken = fold.clone();
    let unknown = Event::Draining { node: "nobody".into() };
    assert_eq!(
        broken.record(&recorded(4, unknown), &read).unwrap_err().to_string(),
        format!("run {of}, record 4: record names node nobody, which version 1 of the plan does not have")
    );
    fold.record(&recorded(4, Event::RunClosed { outcome: RunOutcome::Failed }), &read).unwrap();
    let folded = fold.end().unwrap();
    assert_eq!((folded.closed, folded.opened_at), (Some(RunOutcome::Failed), 1));
    assert_eq!((folded.last, folded.position), (Seq(4), Position(40)));
}

#[test]
fn a_result_that_comes_twice_or_too_late_changes_nothing_and_is_written_down() {
    let mut run = open(json!([{"id": "n", "tool": "look", "retries": 1}]));
    let result = |attempt, value: Value| {
        let result = AttemptResult::without_cost("n".into(), attempt, Outcome::Ok(output(&value)));
        RunInput::Result(Box::new(result))
    };
    let is_late = |events: &[Event]| matches!(events, [Event::LateResult(_)]);
    start(&mut run, "n");
    ends(
        &mut run,
        "n",
        Outcome::Failed(Failure { category: FailureCategory::Timeout, message: String::new() }),
    );
    assert_eq!(state(&run, "n"), "failed_retryable timeout");
    // The abandoned first attempt delivers its result late: before the second attempt starts, and during it.
    assert!(is_late(&with(&mut run, |run, cx| run.decide(cx, result(1, json!({"of": 1}))))));
    assert_eq!(state(&run, "n"), "failed_retryable timeout");
    with(&mut run, |run, cx| run.decide(cx, RunInput::RetryDue("n".into())));
    assert!(
        with(&mut run, |run, cx| run.decide(cx, RunInput::RetryDue("n".into()))).is_empty(),
        "fired once"
    );
    start(&mut run, "n");
    assert!(is_late(&with(&mut run, |run, cx| run.decide(cx, result(1, json!({"of": 1}))))));
    assert_eq!(state(&run, "n"), "running attempt:2");
    with(&mut run, |run, cx| run.decide(cx, result(2, json!({"of": 2}))));
    assert_eq!(state(&run, "n"), "executed ok");
    for attempt in [1, 2] {
        assert!(is_late(&with(&mut run, |run, cx| run.decide(cx, result(attempt, json!({"of": 3}))))));
        let kept = run.instance(&"n".into()).unwrap().output.clone().unwrap();
        assert_eq!(kept, output(&json!({"of": 2})), "attempt {attempt}");
    }
}
