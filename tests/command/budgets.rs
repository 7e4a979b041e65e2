//! Budgets of runs and balances of clients: what they promise.

use std::fmt::Write as _;
use std::time::Duration;

use serde_json::Value;

use super::world::{Ended, World, until};

/// Credits held by a running attempt of a metered client.
const HELD: i64 = 100;

fn plan(id: &str, programs: usize, seconds: &str) -> String {
    let mut text = format!("id: {id}\npolicy: {{slots: 64}}\nnodes:\n");
    for node in 0..programs {
        writeln!(text, "  - {{id: p{node}, tool: shell.run, params: {{argv: [sleep, \"{seconds}\"]}}}}")
            .unwrap();
    }
    text
}

fn summary(ended: &Ended) -> Value {
    ended.lines().pop().unwrap()
}

#[test]
fn a_run_of_many_programs_costs_at_most_its_budget() {
    let world = World::new();
    world.file("many.yaml", &plan("many", 40, "5"));
    for budget in [400, 1_001] {
        let ended =
            world.ostler(&format!("run many.yaml --workspace work --intent 2 --budget {budget} --json"));
        let cost = summary(&ended.exits(1))["cost"].as_u64().unwrap();
        assert!(cost <= budget, "{cost} of {budget}");
        assert!(cost > budget / 2, "the budget was used: {cost} of {budget}");
    }
}

#[test]
fn time_in_which_the_process_did_not_run_is_not_charged() {
    let world = World::new();
    world.file(
        "stopped.yaml",
        "id: stopped
nodes:
  - {id: p, tool: shell.run, params: {argv: [sh, -c, 'touch began; while [ ! -e end ]; do sleep 0.01; done']}}
",
    );
    let run = world.start("run stopped.yaml --workspace work --intent 2 --budget 60000 --json");
    until("the program runs", || world.path().join("work/began").exists());
    run.signal("STOP");
    // The stop itself is what is tested.
    std::thread::sleep(Duration::from_secs(3));
    run.signal("CONT");
    std::fs::write(world.path().join("work/end"), "").unwrap();
    let cost = summary(&run.end().exits(0))["cost"].as_u64().unwrap();
    assert!(cost < 2_500, "3 seconds of stop are not charged: {cost}");
}

#[test]
fn the_debt_of_a_client_is_at_most_what_its_last_attempts_cost_beyond_their_holds() {
    let world = World::new();
    world.file("cheap.yaml", &plan("cheap", 5, "0")).file("dear.yaml", &plan("dear", 40, "0.4"));
    world.ostler("client add acme --credit 1000").exits(0);
    // One process, so that the second run starts with the means that the first one taught.
    world.file("hold.yaml", "id: hold\nnodes:\n  - {id: wait, tool: time.sleep, params: {ms: 600000}}\n");
    let mut holder = world.start("run hold.yaml --workspace work");
    holder.until("opened");
    world.ostler("run cheap.yaml --workspace work --intent 2 --client acme").exits(0);
    let left = |line: &str| world.ostler(line).exits(0).lines()[0]["left"].as_i64().unwrap();
    let before = left("credit acme --json");
    let spare = 300 - before;
    world.ostler(&format!("credit acme {spare:+}")).exits(0);
    let mut run = world.start("run dear.yaml --workspace work --intent 2 --client acme");
    run.until("no further attempt starts");
    let running = || world.ostler("ps --clients --json").exits(0).lines()[0]["running"].as_u64().unwrap();
    until("the last attempts have ended", || running() == 0);
    let debt = -left("credit acme --json");
    let run = summary(&world.ostler("show @last --format json").exits(0));
    let (cost, attempts) = (run["cost"].as_i64().unwrap(), run["attempts"].as_i64().unwrap());
    assert!((1..=3).contains(&attempts), "300 credits hold three attempts, not {attempts}");
    let beyond_holds = cost - HELD * attempts;
    assert!(debt <= beyond_holds, "{debt} of {beyond_holds}");
}

/// A planner that answers after so long, without a plan.
fn thinker(latency: &str) -> String {
    format!(
        "latency: {latency}\nrepeat: true\nroles:\n  planner:\n    - answer: {{answer: all is well, missing: null, steps: []}}\n"
    )
}

#[test]
fn a_call_that_a_kill_cut_off_is_named_with_what_it_counts() {
    let world = World::new();
    world.file("model.yaml", &thinker("600s"));
    let asked =
        "ask look --model scripted:model.yaml --mode reflect --workspace work --yes --budget 100000tokens";
    let mut run = world.start(asked);
    run.until("opened");
    let shown = || world.ostler("show @last --json").lines()[0].clone();
    until("the call is being made", || shown()["call_budget"]["tokens"]["reserved"].as_u64() > Some(0));
    assert_eq!(shown()["lost_calls"], Value::Null, "a call that is being made is not lost");
    run.signal("KILL");
    run.end();
    world.file("model.yaml", &thinker("1ms"));
    world.ostler("show @last").exits(0).says("lost call      plan.1 of model scripted");
    // Another script is another model, so a person decides.
    world
        .ostler("resume @last --model scripted:model.yaml")
        .exits(3)
        .says("lost call      plan.1 of model scripted");
    let redone = world.ostler("resolve @last plan.1 --redo --model scripted:model.yaml").exits(0);
    redone
        .says("all is well")
        .says("lost call      plan.1 of model scripted: ended with its process, counted in full (");
    let (summary, lost) = (shown(), shown()["lost_calls"][0].clone());
    assert_eq!((&lost["node"], &lost["model"]), (&"plan.1".into(), &"scripted".into()));
    let counted = |of: &Value| of.as_u64().unwrap();
    assert!(counted(&summary["call_budget"]["tokens"]["spent"]) > counted(&lost["tokens"]), "{summary}");
}

#[test]
fn a_call_without_a_budget_that_a_kill_cut_off_is_named() {
    let world = World::new();
    world.file("model.yaml", &thinker("2s"));
    let ask = "ask look --model scripted:model.yaml --mode reflect --workspace work --yes";
    let mut run = world.start(ask);
    run.until("opened");
    let begun =
        || world.ostler("events @last --json").lines().iter().any(|line| line["kind"] == "call_begun");
    until("the call is being made", begun);
    let lost = || world.ostler("show @last --json").lines()[0]["lost_calls"].clone();
    assert_eq!(lost(), Value::Null, "a call that is being made is not lost");
    run.signal("KILL");
    run.end();
    let told = "lost call      plan.1 of model scripted: ended with its process; the provider may bill it";
    world.ostler("show @last").exits(0).says(told);
    let resumed =
        world.ostler("resume @last --model scripted:model.yaml").exits(0).says("all is well").says(told);
    assert_eq!(resumed.out.matches("lost call").count(), 1, "{}", resumed.out);
    assert_eq!(lost(), serde_json::json!([{"node": "plan.1", "model": "scripted"}]));
    world.ostler("doctor").exits(0).says("1 call of models ended with its process");
}
