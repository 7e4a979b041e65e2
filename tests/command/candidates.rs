//! Outputs that did not become results.

use serde_json::{Value, json};

use super::approvals::world as approvals_world;
use super::world::World;

const STRICT: &str = r#"
id: strict
nodes:
  - id: memo
    tool: text.render
    params: {template: "a draft", values: {}}
    contract: [{method: code, spec: {check: matches, path: text, value: "a memo"}}]
    retries: 1
"#;

fn world() -> World {
    let world = approvals_world();
    world.file("strict.yaml", STRICT);
    world
}

fn candidates(world: &World, node: &str) -> Vec<Value> {
    world.ostler(&format!("artifact @last/{node} --candidates --json")).exits(0).lines()
}

#[test]
fn an_output_that_the_contract_refused_is_kept_and_never_used() {
    let world = world();
    for _ in 0..2 {
        world.ostler("run strict.yaml --workspace work").exits(1);
        let found = candidates(&world, "memo");
        assert_eq!((&found[0]["attempt"], &found[0]["reason"]), (&json!(1), &json!("contract_refused")));
        assert_eq!(found.len(), 2, "one for each attempt: {found:?}");
        world.ostler("artifact @last/memo").exits(2).complains("has no result");
        world.ostler("artifact @last/memo --candidate 2 --path text").exits(0).says("a draft");
    }
    world.ostler("artifact @last/memo --candidates").exits(0).says("refused by the contract: contract[0]");
    world.ostler("artifact @last/memo --candidate 3").exits(2).complains("left no candidate");
    world.ostler("artifact @last/none --candidates").exits(2).complains("no node none");
    world.ostler("doctor").exits(0);
}

#[test]
fn an_output_that_a_person_rejected_is_a_candidate() {
    let world = world();
    world.ostler("run publish.yaml --workspace work").exits(3);
    assert_eq!(candidates(&world, "draft"), Vec::<Value>::new());
    world.ostler("reject @last draft --note no").exits(1);
    let found = candidates(&world, "draft");
    assert_eq!((found.len(), &found[0]["reason"]), (1, &json!("rejected")), "{found:?}");
    world.ostler("artifact @last/draft --candidate 1 --path text").exits(0).says("a draft");
}
