//! What `ostler simulate` says of files that it cannot go by.

use crate::world::World;

/// A case with nothing but a node `a`; `rest` is what else it says.
fn case(id: &str, rest: &str) -> String {
    let plan = r#"{"id": "p", "nodes": [{"id": "a", "contract": [{"method": "schema"}]}]}"#;
    format!("{{\"id\": \"{id}\", \"plan\": {plan}{rest}}}")
}

#[test]
fn cases_that_cannot_be_gone_by_are_told_with_their_line_and_their_name() {
    let world = World::new();
    for (lines, told) in [
        (
            vec![case("one", ""), case("two", r#", "replans": [{"ad": []}]"#)],
            "cases.jsonl:2: case \"two\": column ",
        ),
        (
            vec![case("one", r#", "script": {"a": [], "a": []}"#)],
            "the key \"a\" stands twice in one object: give it once",
        ),
        (
            vec![case("one", ""), String::new(), case("one", "")],
            "cases.jsonl:3: case \"one\" stands in line 1 already: give each case an id of its own",
        ),
        (vec![case("one", r#", "policy": {"backoff_cap": 1.5}"#)], "times are whole numbers of ticks"),
    ] {
        world.file("cases.jsonl", &lines.join("\n"));
        world.ostler("simulate graph cases.jsonl").exits(2).complains(told);
    }
}

#[test]
fn a_check_of_nothing_does_not_pass() {
    let world = World::new();
    world.file("none.jsonl", "\n\n").file("none.expected.jsonl", "");
    let graph = world.ostler("simulate graph none.jsonl --check").exits(2);
    graph.complains("none.jsonl: there is no case in it, so nothing was checked");
    let queue = world.ostler("simulate queue none.jsonl --check").exits(2);
    queue.complains("none.jsonl: there is no operation in it, so nothing was checked");
    world.ostler("simulate graph none.jsonl").exits(0);
}
