//! Quarantined agents, and the supervision tree.

use ostler_kernel::event::Event;
use ostler_kernel::port::{Journal, Seq, StreamBatch, StreamId};
use ostler_store::Store;

use super::world::{World, until};

const LONG: &str =
    "id: long\nnodes:\n  - {id: nap, tool: shell.run, params: {argv: [sleep, \"60\"]}, timeout: 90s}\n";
/// A sleep only reads the world, so it is stopped at once.
const SLEEPS: &str = "[tools.shell]\nallow = [{argv = [\"sleep\", \"*\"], impact = 0, effect = \"read\"}]\n";

/// Records agents of client `acme`, the first of them quarantined.
fn with_agents(world: &World, agents: &[&str]) {
    let (store, _) = Store::open(&world.data()).unwrap();
    let client = || "acme".into();
    let registered = agents.iter().map(|&agent| Event::AgentRegistered {
        agent: agent.into(),
        client: client(),
        weight: 100,
    });
    let mut events: Vec<Event> = registered.collect();
    let reason = "it failed too often: panicked: index out of bounds".to_owned();
    events.push(Event::AgentQuarantined { agent: agents[0].into(), reason });
    let batch = StreamBatch { stream: StreamId::client(&client()), expected: Seq(0), at_ms: 1, events };
    let position = store.journal.append(vec![batch]).unwrap();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(store.journal.durable(position)).unwrap();
}

#[test]
fn a_quarantined_agent_is_listed_with_its_reason_and_released() {
    let world = World::new();
    with_agents(&world, &["ill", "well"]);
    world
        .ostler("ps --agents")
        .exits(0)
        .says("quarantined")
        .says("  quarantined: it failed too often: panicked: index out of bounds\n    ostler release ill\n");
    let listed = world.ostler("ps --agents --json").exits(0).lines();
    assert_eq!(listed[0]["reason"], "it failed too often: panicked: index out of bounds");
    assert!(listed[1].get("reason").is_none(), "{}", listed[1]);

    world.ostler("release nobody").exits(2).complains("there is no agent nobody");
    world.ostler("release well").exits(2).complains("agent well is in service");
    world.ostler("release ill").exits(0).says("ill is released");
    // The quarantine survives the process.
    let listed = world.ostler("ps --agents --json").exits(0).lines();
    assert!(
        listed.iter().all(|agent| agent["state"] == "idle" && agent.get("reason").is_none()),
        "{listed:?}"
    );
    world.ostler("release ill").exits(2).complains("agent ill is in service");
}

#[test]
fn the_tree_of_the_process_that_holds_the_folder_is_shown() {
    let world = World::new();
    world.file("long.yaml", LONG).file("sleeps.toml", SLEEPS);
    world.ostler("ps --tree").exits(0).complains("no run yet");
    let mut holder = world.start("run long.yaml --workspace work --config sleeps.toml");
    let run = holder.until("opened: long").split_whitespace().nth(2).unwrap().to_owned();
    let shown = world.ostler("ps --tree").exits(0);
    let mut expected = format!("{:<39}  STATE       GENERATION  RESTARTS  LAST END\n", "CHILD");
    for name in ["registry", "evaluator", "scheduler", "pipelines", "pool", &format!("└─ {run}")] {
        expected += &format!("{name:<39}  running              1         0  -\n");
    }
    assert_eq!(shown.out, expected);
    let lines = world.ostler("ps --tree --json").exits(0).lines();
    let paths: Vec<&str> = lines.iter().map(|line| line["path"].as_str().unwrap()).collect();
    assert_eq!(
        paths,
        ["/registry", "/evaluator", "/scheduler", "/pipelines", "/pool", &format!("/pool/{run}")]
    );
    assert!(lines.iter().all(|line| line["type"] == "child" && line["restarts"] == 0), "{lines:?}");
    assert_eq!((&lines[4]["kind"], &lines[4]["width"]), (&"pool".into(), &1.into()));
    world.ostler(&format!("cancel {run}")).exits(0);
    holder.end().exits(1);
    world.ostler("ps --tree").exits(0).complains("no supervision tree: no process holds the data folder");
}

#[test]
fn a_spawned_agent_runs_plans_and_is_watched_as_it_says() {
    let world = World::new();
    world.file(
        "say.yaml",
        "id: say\nnodes:\n  - {id: say, tool: text.render, params: {template: x, values: {}}}\n",
    );
    world.file("text.json", r#"{"type": "object", "required": ["text"]}"#);
    world
        .ostler("spawn lawyer --client acme --can review --can draft --domain legal --oversight supervised --price 40 --output text.json")
        .exits(0)
        .says("agent lawyer exists");
    let says = "  legal; can draft, review; supervised; asks 40 credits\n";
    let listed = world.ostler("ps --agents").exits(0);
    assert!(!listed.says(says).out.contains("offers"), "what it says is its offer");
    world.ostler("spawn lawyer --client acme --can review").exits(2).complains("a profile never changes");
    world.ostler("spawn lawyer --client other").exits(2).complains("belongs to client acme");
    world.ostler("spawn lawyer").exits(0).says("agent lawyer exists");
    for (line, code) in
        [("clerk --weight 5", 0), ("clerk", 0), ("clerk --weight 5", 0), ("clerk --weight 100", 2)]
    {
        world.ostler(&format!("spawn {line}")).exits(code);
    }
    let refused = world.ostler("spawn lawyer --client acme --weight 5").exits(2);
    refused.complains("agent lawyer has the weight 100, and a weight never changes: choose another name");
    let listed = world.ostler("ps --agents --json").exits(0).lines();
    let weights: Vec<_> = listed.iter().map(|line| line["weight"].as_u64()).collect();
    assert_eq!(weights, [Some(5), Some(100)]);
    world.file("half.json", "{\n");
    world.ostler("spawn x --input half.json").exits(2).complains("half.json: not JSON at byte 2: expected");
    world
        .ostler("spawn x --oversight none")
        .exits(2)
        .complains("[possible values: autonomous_escalation, spot_check, supervised]");
    world.ostler("run say.yaml --agent nobody").exits(2).complains("there is no agent nobody");
    world.ostler("run say.yaml --agent lawyer").exits(3).says("approval of its result");
    let listed = world.ostler("ps --json").exits(0).lines();
    assert_eq!((&listed[0]["agent"], &listed[0]["client"]), (&"lawyer".into(), &"acme".into()));
    world.ostler("checkpoint @last").exits(2).complains("needs a run that is running");
    world.ostler("cancel @last").exits(0);
    world.ostler("cancel @last").exits(2).complains("over (cancelled)");
}

#[test]
fn a_checkpointed_run_rests_until_it_is_resumed() {
    let world = World::new();
    let plan = "id: two\nnodes:\n  - {id: nap, tool: shell.run, params: {argv: [sleep, \"1\"]}, timeout: 90s}\n  - {id: after, tool: text.render, deps: [nap], params: {template: x, values: {}}}\n";
    world.file("two.yaml", plan).file("sleeps.toml", SLEEPS);
    let mut holder = world.start("run two.yaml --workspace work --config sleeps.toml");
    holder.until("opened: two");
    let shown = || world.ostler("show @last --format json").exits(0).lines().remove(0);
    until("the first step runs", || shown()["nodes"]["nap"] == "running");
    world.ostler("checkpoint @last").exits(0).says("is suspended; `ostler resume");
    holder.end().exits(3);
    let rests = world.ostler("ps").exits(0).says("it was checkpointed");
    assert!(!rests.out.contains("took"), "it is not closed: {}", rests.out);
    assert_eq!(world.ostler("ps --json").exits(0).lines()[0].get("closed_ms"), None);
    world.ostler("resume @last --config sleeps.toml").exits(0).says("after  executed");
}
