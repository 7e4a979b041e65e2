//! Properties of goal runs under random models, tools, people and budgets; and the tokens of failure-free runs.

use proptest::prelude::*;
use serde_json::{Value, json};

/// Choices from a seed: a failure prints the seed, and the seed gives the case again.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, below: u64) -> u64 {
        // splitmix64
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % below
    }

    fn one_in(&mut self, chances: u64) -> bool {
        self.roll(chances) == 0
    }

    fn pick<T: Clone>(&mut self, among: &[T]) -> T {
        among[self.roll(among.len() as u64) as usize].clone()
    }

    fn list<T>(&mut self, most: u64, mut item: impl FnMut(&mut Dice) -> T) -> Vec<T> {
        (0..self.roll(most + 1)).map(|_| item(self)).collect()
    }
}

const MODES: [&str; 7] = ["reflect", "nreflect:1", "nreflect:3", "orchestrator", "react", "auto", "sgh"];

const NODES: [&str; 9] = ["a0", "a1", "a2", "b0", "b1", "x", "call.1.1", "call.1.2", "call.2.1"];

fn step(dice: &mut Dice, id: String, earlier: &[String]) -> Value {
    let tool = dice.pick(&["read", "web", "send", "flaky", "flaky"]);
    let params = if tool == "send" && dice.one_in(2) { json!({"to": "x"}) } else { json!({}) };
    let source = earlier.get(dice.roll(4) as usize);
    let after: Vec<&String> = source.into_iter().filter(|_| dice.one_in(2)).collect();
    let refs: Vec<Value> = source
        .filter(|_| dice.one_in(4))
        .map(|from| json!({"param": "to", "from": from, "path": "v", "template": null}))
        .into_iter()
        .collect();
    json!({"id": id, "tool": tool, "params": params, "refs": refs, "after": after, "why": null})
}

fn plan(dice: &mut Dice, prefix: &str) -> Value {
    let mut ids: Vec<String> =
        if prefix == "a" { Vec::new() } else { vec!["a0".to_owned(), "call.1.1".to_owned()] };
    let mut steps = Vec::new();
    for number in 0..dice.roll(4) {
        let id = format!("{prefix}{number}");
        steps.push(step(dice, id.clone(), &ids));
        ids.push(id);
    }
    let answer = if dice.one_in(8) { json!("direct") } else { json!(null) };
    let missing = if dice.one_in(8) { json!("a tool") } else { json!(null) };
    json!({"answer": answer, "missing": missing, "steps": steps})
}

fn reflection(dice: &mut Dice) -> Value {
    let decision = dice.pick(&["continue", "continue", "conclude", "replan"]);
    let next = if decision == "replan" { json!("more") } else { json!(null) };
    let cancel = dice.list(1, |dice| dice.pick(&NODES));
    json!({"decision": decision, "verdict": dice.pick(&[json!("v"), json!(null)]), "next": next, "cancel": cancel})
}

fn observation(dice: &mut Dice) -> Value {
    let decision = dice.pick(&["continue", "inject", "cancel", "reflect"]);
    let next = if decision == "inject" { json!("more") } else { json!(null) };
    let cancel = if decision == "cancel" { vec![dice.pick(&NODES)] } else { Vec::new() };
    json!({"decision": decision, "next": next, "cancel": cancel})
}

fn turn(dice: &mut Dice) -> Value {
    let calls = dice.list(2, |dice| json!({"tool": dice.pick(&["read", "web", "flaky"]), "params": {}}));
    json!({"text": dice.pick(&[json!("t"), json!(""), json!(null)]), "calls": calls})
}

fn advice(dice: &mut Dice) -> Value {
    match dice.roll(3) {
        0 => json!({"decision": "retry", "tool": null, "params": {"q": 1}, "refs": null}),
        1 => json!({"decision": "substitute", "tool": "send", "params": {"to": "x"}, "refs": null}),
        _ => json!({"decision": "skip", "tool": null, "params": null, "refs": null}),
    }
}

/// Wraps an answer: mostly right, sometimes cut, late, lost or of a wrong form.
fn answer(dice: &mut Dice, right: Value) -> Value {
    let mut answer = json!({"ok": right, "dur": dice.pick(&[0, 1, 1, 3, 130]), "tokens": dice.roll(9)});
    match dice.roll(12) {
        0 => answer = json!({"fail": dice.pick(&["transient", "structural"])}),
        1 => answer["finish"] = json!("length"),
        2 => answer["ok"] = dice.pick(&[json!(null), json!([]), json!({"decision": 1})]),
        _ => {}
    }
    answer
}

fn outcome(dice: &mut Dice) -> Value {
    let dur = dice.pick(&[0, 1, 1, 4, 130]);
    match dice.roll(4) {
        0 => {
            json!({"fail": dice.pick(&["transient", "structural", "timeout"]), "message": "E 1", "dur": dur})
        }
        1 => json!({"invalid": true, "dur": dur}),
        _ => json!({"ok": {"v": "me"}, "dur": dur}),
    }
}

fn control(dice: &mut Dice) -> Value {
    let at = dice.roll(12);
    let contract = json!([{"method": "schema"}]);
    match dice.roll(6) {
        0 => json!({"at": at, "op": "skip", "node": dice.pick(&["a0", "reflect.1", "plan.2", "think.2"])}),
        1 => json!({"at": at, "op": "cancel", "node": dice.pick(&["a1", "observe.a0", "plan.1"])}),
        2 => {
            json!({"at": at, "op": "delta", "delta": {"add": [{"id": "x", "tool": "flaky", "patches": 1, "contract": contract}]}})
        }
        3 => json!({"at": at, "op": "delta", "delta": {"cancel": [dice.pick(&["a1", "reflect.1"])]}}),
        4 => {
            let right = reflection(dice);
            json!({"at": at, "op": "interject", "message": "look", "person": answer(dice, right)})
        }
        _ => json!({"at": at, "op": "interject", "message": "look"}),
    }
}

fn case(seed: u64) -> Value {
    let dice = &mut Dice(seed);
    let by_node = |dice: &mut Dice, item: fn(&mut Dice) -> Value| -> Value {
        NODES
            .iter()
            .map(|node| ((*node).to_owned(), dice.list(2, item).into()))
            .collect::<serde_json::Map<_, _>>()
            .into()
    };
    let mut budgets = serde_json::Map::new();
    for (budget, least, most) in [
        ("nodes", 2, 14),
        ("versions", 1, 8),
        ("depth", 2, 8),
        ("model_calls", 0, 12),
        ("tokens", 20, 900),
        ("replans", 0, 4),
        ("wall", 0, 20),
    ] {
        if dice.one_in(6) {
            budgets.insert(budget.to_owned(), (least + dice.roll(most - least + 1)).into());
        }
    }
    let mut plans = Vec::new();
    for prefix in ["a", "b", "c", "d"] {
        let right = plan(dice, prefix);
        plans.push(answer(dice, right));
    }
    json!({
        "id": "c", "goal": "g", "mode": dice.pick(&MODES), "base_tokens": 10, "budgets": budgets,
        "aggregator": dice.pick(&["off", "executor"]), "context": dice.pick(&["bounded", "cumulative"]),
        "policy": {"slots": dice.roll(3)},
        "tools": {
            "read": {"size": 50}, "web": {"size": 20, "trusted": false}, "send": {"impact": 1, "sensitive": ["to"]},
            "flaky": {"size": 5, "patches": 2, "index": 3},
        },
        "plans": plans,
        "reflections": dice.list(5, |dice| { let right = reflection(dice); answer(dice, right) }),
        "interjections": dice.list(2, |dice| { let right = reflection(dice); answer(dice, right) }),
        "thoughts": dice.list(4, |dice| { let right = turn(dice); answer(dice, right) }),
        "answers": dice.list(2, |dice| answer(dice, json!({"answer": "A", "citations": ["a0"]}))),
        "observations": by_node(dice, |dice| { let right = observation(dice); answer(dice, right) }),
        "micro": by_node(dice, |dice| { let right = advice(dice); answer(dice, right) }),
        "script": by_node(dice, outcome),
        "human": by_node(dice, |dice| dice.pick(&[json!({"approve": 1}), json!({"reject": 1}), json!({"approve": 200})])),
        "controls": dice.list(3, control),
    })
}

fn run(case: &Value) -> ostler_sim::graph::CaseResult {
    ostler_sim::modes::run_case(&case.to_string()).unwrap_or_else(|error| panic!("{error}: {case}"))
}

fn count(list: &Value) -> u64 {
    list.as_array().map_or(0, Vec::len) as u64
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn goal_runs_end_within_their_budgets_and_a_recovered_run_asks_for_the_same(seed: u64) {
        let case = case(seed);
        let lived = run(&case);
        // The replay asks the policy anew before each version that the policy asked for.
        prop_assert_eq!(lived.difference(), None);
        prop_assert_eq!(&run(&case).actual, &lived.actual);
        let (course, budgets) = (&lived.actual, &case["budgets"]);
        let within = |name: &str, used: u64| budgets[name].as_u64().unwrap_or(64) >= used;
        let states = course["final"].as_object().map_or(0, serde_json::Map::len) as u64;
        prop_assert!(within("versions", course["version"].as_u64().unwrap_or(u64::MAX)), "{}", course);
        prop_assert!(within("nodes", states), "{}", course);
        prop_assert!(within("model_calls", count(&course["calls"])), "{}", course);
        let terminal = ["executed", "failed", "cancelled", "skipped"];
        for (node, state) in course["final"].as_object().into_iter().flatten() {
            prop_assert!(terminal.iter().any(|name| state == name), "{} is {} in {}", node, state, course);
        }
        prop_assert_ne!(&course["final"]["answer"], "failed");
        let says = course["answer"]["source"].as_str().is_some_and(|source| source != "none");
        if course["outcome"] != "cancelled" {
            prop_assert_eq!(course["outcome"] == "succeeded", says, "{}", course);
        }
    }
}

const BASE: u64 = 100;
const SIZE: u64 = 40;
const DIGEST: u64 = 32;

/// Tokens of input of a failure-free run of `depth` equal levels of `width` steps.
fn input_tokens(mode: &str, context: &str, depth: u64, width: u64) -> u64 {
    let step = |level: u64, number: u64| {
        let after: Vec<String> =
            (0..width).filter(|_| level > 0).map(|other| format!("s{}-{other}", level - 1)).collect();
        json!({"id": format!("s{level}-{number}"), "tool": "t", "params": {}, "refs": [], "after": after, "why": null})
    };
    let steps: Vec<Value> = (0..depth)
        .flat_map(|level| (0..width).map(move |number| (level, number)))
        .map(|(level, number)| step(level, number))
        .collect();
    let mut thoughts: Vec<Value> = (0..depth * width)
        .map(|_| json!({"ok": {"text": null, "calls": [{"tool": "t", "params": {}}]}}))
        .collect();
    thoughts.push(json!({"ok": {"text": "t", "calls": []}}));
    let case = json!({
        "id": "c", "goal": "g", "mode": mode, "context": context, "base_tokens": BASE, "tools": {"t": {"size": SIZE}},
        "plans": [{"ok": {"answer": null, "missing": null, "steps": steps}}], "thoughts": thoughts,
    });
    run(&case).actual["tokens"]["input"].as_u64().unwrap_or_else(|| panic!("no tokens"))
}

/// KAIJU §7.1, with the planner's call, the final reflection, and digests of bounded length.
#[test]
fn failure_free_runs_take_the_tokens_of_the_closed_forms() {
    let (c, k, delta) = (BASE, SIZE, DIGEST);
    for (depth, width) in [(1, 1), (1, 4), (2, 1), (3, 1), (3, 3), (5, 2)] {
        let (n, d) = (depth * width, depth);
        let tokens = |mode, context| input_tokens(mode, context, depth, width);
        let turns = n + 1;
        let react = turns * c + k * turns * (turns - 1) / 2;
        assert_eq!(tokens("react", "bounded"), react, "react {d} x {width}");
        assert_eq!(tokens("react", "cumulative"), react, "react {d} x {width}");
        assert_eq!(tokens("reflect", "cumulative"), c + d * c + k * n * (d + 1) / 2, "reflect {d} x {width}");
        let bounded = c + d * c + k * n + delta * n * (d - 1) / 2;
        assert_eq!(tokens("reflect", "bounded"), bounded, "reflect {d} x {width}");
        assert_eq!(
            tokens("orchestrator", "cumulative"),
            c + n * (c + k) + c + k * n,
            "orchestrator {d} x {width}"
        );
        assert_eq!(
            tokens("orchestrator", "bounded"),
            c + n * (c + k) + c + delta * n,
            "orchestrator {d} x {width}"
        );
        let nreflect = format!("nreflect:{width}");
        assert_eq!(
            tokens(&nreflect, "cumulative"),
            c + d * c + k * n * (d + 1) / 2,
            "{nreflect}, {d} levels"
        );
        assert_eq!(tokens(&nreflect, "bounded"), bounded, "{nreflect}, {d} levels");
    }
}
