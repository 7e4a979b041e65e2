//! Limits of the gate over a run and the runs that it opens.

use serde_json::{Value, json};

use super::web::Web;
use super::world::World;

/// A node that opens a run with the nodes.
fn opens(name: &str, nodes: &[Value]) -> Value {
    json!({"id": name, "tool": "agent.ask", "impact": 1, "effect": "write", "retries": 0,
        "params": {"plan": {"id": format!("in-{name}"), "nodes": nodes}}})
}

fn node(id: &str, tool: &str, params: &Value) -> Value {
    json!({"id": id, "tool": tool, "params": params, "retries": 0, "patches": 0})
}

fn world(policy: &str, nodes: &[Value]) -> World {
    let world = World::new();
    world
        .file("p.yaml", &json!({"id": "p", "policy": {"slots": 1}, "nodes": nodes}).to_string())
        .file("ostler.toml", policy);
    world
}

const RUN: &str = "run p.yaml --workspace work --config ostler.toml --intent 2";

#[test]
fn runs_that_a_run_opens_share_its_budget_of_calls() {
    let write = |name: String| node(&name, "fs.write", &json!({"path": name, "text": "x", "mode": "create"}));
    let nodes: Vec<Value> = (0..4)
        .map(|at| opens(&format!("a{at}"), &[write(format!("w{at}0")), write(format!("w{at}1"))]))
        .collect();
    let world = world("[[policy.budgets]]\ntool = \"fs.write\"\nmax_calls = 2\n", &nodes);
    world.ostler(RUN);
    let files = std::fs::read_dir(world.path().join("work")).unwrap().count();
    assert_eq!(files, 2, "the limit holds for all runs together");
    // A later process knows the calls of the earlier one.
    world.ostler("audit").exits(0).says("deny");
}

#[test]
fn a_call_that_may_be_reused_counts_once() {
    let node = |at: u32| node(&format!("n{at}"), "shell.run", &json!({"argv": ["echo", format!("{at}")]}));
    for (limit, made) in [(1, 1), (3, 3)] {
        let policy = format!("[[policy.budgets]]\ntool = \"shell.run\"\nmax_calls = {limit}\n");
        let world = world(&policy, &(0..5).map(node).collect::<Vec<_>>());
        world.ostler(RUN).exits(1);
        let audit = world.ostler("audit --json").exits(0).lines();
        let allowed = audit.iter().filter(|line| line["verdict"]["answer"] == "allow").count();
        assert_eq!(allowed, made);
    }
}

#[test]
fn a_search_for_an_allowed_call_ends_though_each_run_makes_few() {
    let read = |at: u32| node(&format!("r{at}"), "fs.read", &json!({"path": format!("../r{at}")}));
    let nodes: Vec<Value> = (0..12).map(|at| opens(&format!("a{at}"), &[read(0), read(1)])).collect();
    let world = world("[policy]\ndeny_budget = 3\n", &nodes);
    world.ostler(RUN);
    let audit = world.ostler("audit --json").exits(0).lines();
    let denied = audit.iter().filter(|line| line["verdict"]["answer"] == "deny").count();
    assert!((3..=5).contains(&denied), "{denied} denials");
}

#[test]
fn tests_of_a_contract_count_as_calls() {
    let test =
        |at: u32| json!({"method": "test", "spec": {"argv": ["sh", "-c", format!("echo {at} >> log")]}});
    let mut plain = node("n", "shell.run", &json!({"argv": ["echo", "a"]}));
    plain["contract"] = (0..8).map(test).collect();
    let world = world("[[policy.budgets]]\ntool = \"shell.run\"\nmax_calls = 2\n", &[plain]);
    world.ostler(RUN).exits(1);
    let audit = world.ostler("audit --json").exits(0).lines();
    let allowed = audit.iter().filter(|line| line["verdict"]["answer"] == "allow").count();
    assert_eq!(allowed, 2, "the call and one test");
}

#[test]
fn a_run_below_launders_no_text_of_a_stranger_through_a_file() {
    let pages = Web::start(|_| (200, "<title>name</title>stranger".to_owned()));
    let address = pages.address;
    let page = node("page", "http.fetch", &json!({"url": format!("http://{address}/")}));
    let mut note = node("note", "fs.write", &json!({"path": "note", "mode": "create"}));
    note["param_refs"] = json!({"text": {"from": "page", "path": "text"}});
    note["deps"] = json!(["page"]);
    let mut named = node("named", "fs.write", &json!({"text": "x", "mode": "create"}));
    named["param_refs"] = json!({"path": {"from": "read", "path": "text"}});
    named["deps"] = json!(["read"]);
    let mut below = opens("below", &[node("read", "fs.read", &json!({"path": "note"})), named]);
    below["deps"] = json!(["note"]);
    let policy = format!("[tools.http]\negress_allow = [\"{address}\"]\n");
    let world = world(&policy, &[page, note, below]);
    world.ostler(RUN).exits(3);
    world.ostler("approvals").exits(0).says("named");
}
