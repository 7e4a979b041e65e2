//! Reuse of recorded results in plans with guards, lists and undos.

use super::world::World;

/// The words that the run printed about nodes, such as `reused`, in the order of `nodes`.
fn words<'a>(out: &'a str, nodes: &[&str]) -> Vec<&'a str> {
    let word = |node: &&str| {
        let mut lines = out.lines().map(|line| line.split_whitespace().skip(1).collect::<Vec<_>>());
        let line = lines.find(|words| words.first() == Some(node));
        line.and_then(|words| words.get(1).copied()).unwrap_or_else(|| panic!("no line of {node} in\n{out}"))
    };
    nodes.iter().map(word).collect()
}

fn files(world: &World, names: &[&str]) {
    for name in names {
        std::fs::write(world.path().join("work").join(name), "x\n").unwrap();
    }
}

#[test]
fn a_changed_list_recomputes_the_changed_elements_alone() {
    let world = World::new();
    let plan = r#"
id: names
nodes:
  - {id: list, tool: fs.list, params: {path: ., glob: "*.md"}}
  - id: name
    tool: text.render
    params: {values: {}}
    for_each: {from: list, path: files, as: template, max: 9}
"#;
    world.file("names.yaml", plan);
    files(&world, &["a.md", "b.md", "d.md"]);
    let run = || world.ostler("run names.yaml --workspace work").exits(0).out;
    assert_eq!(words(&run(), &["name.0", "name.1", "name.2"]), ["executed"; 3]);
    files(&world, &["c.md"]);
    // The third is new; the fourth has moved.
    let nodes = ["name.0", "name.1", "name.2", "name.3"];
    assert_eq!(words(&run(), &nodes), ["reused", "reused", "executed", "reused"]);
    std::fs::remove_file(world.path().join("work/a.md")).unwrap();
    assert_eq!(words(&run(), &nodes[..3]), ["reused"; 3]);
    world.ostler("artifact @last/name --json").exits(0).says("d.md");
}

#[test]
fn a_guard_is_judged_before_a_recorded_result_is_looked_up() {
    let world = World::new();
    let plan = r#"
id: few
nodes:
  - {id: list, tool: fs.list, params: {path: ., glob: "*.md"}}
  - id: praise
    when: {from: list, path: count, op: lt, value: 3}
    tool: text.render
    params: {template: Few files., values: {}}
"#;
    world.file("few.yaml", plan);
    files(&world, &["a.md", "b.md"]);
    let run = || world.ostler("run few.yaml --workspace work").exits(0).out;
    assert_eq!(words(&run(), &["praise"]), ["executed"]);
    files(&world, &["c.md"]);
    assert_eq!(words(&run(), &["praise"]), ["skipped"], "although its result is recorded");
    std::fs::remove_file(world.path().join("work/c.md")).unwrap();
    assert_eq!(words(&run(), &["praise"]), ["reused"]);
}

#[test]
fn an_effect_that_was_undone_is_made_again() {
    let world = World::new();
    let plan = r#"
id: page
nodes:
  - id: page
    tool: fs.write
    params: {path: page, text: new, mode: replace}
    undo: {tool: fs.write, params: {path: page, text: old, mode: replace}}
  - {id: note, deps: [page], tool: text.render, params: {template: It is written., values: {}}}
"#;
    world.file("page.yaml", plan);
    let run = || world.ostler("run page.yaml --workspace work").exits(0).out;
    run();
    world.ostler("undo @last").exits(0).says("undone");
    assert_eq!(world.work("page"), "old");
    assert_eq!(words(&run(), &["page"]), ["executed"]);
    assert_eq!(world.work("page"), "new");
}

#[test]
fn an_aggregator_says_what_it_rests_on_and_a_reused_node_is_shown_as_such() {
    let world = World::new();
    let plan = r#"
id: agg
nodes:
  - {id: a, tool: text.render, params: {template: A}}
  - {id: b, tool: text.render, params: {template: B}}
  - id: sum
    kind: aggregator
    deps: [a, b]
    params: {template: "{{ a.result.text }} and {{ b.result.text }}"}
"#;
    world.file("agg.yaml", plan);
    let run = |plan: &str| {
        world.file("agg.yaml", plan);
        world.ostler("run agg.yaml --workspace work --json").exits(0).lines().pop().unwrap()
    };
    let first = run(plan);
    assert_eq!(first["reused"], 0);
    assert_eq!(run(plan)["reused"], 2);
    let shown = world.ostler("show @last").exits(0).out;
    assert!(shown.lines().any(|line| line.split_whitespace().take(2).eq(["a", "reused"])), "{shown}");
    world.ostler("explain @last sum").exits(0).says("put together in every run, from a (reused), b (reused)");
    let first = first["run"].as_str().unwrap();
    world.ostler(&format!("explain @last sum --against {first}")).exits(0).says("the same work");
    run(&plan.replace("template: B", "template: C"));
    world.ostler("explain @last sum").exits(0).says("from a (reused), b (recomputed)");
    world.ostler(&format!("explain @last sum --against {first}")).exits(0).says("the result of b changed");
}

#[test]
fn a_read_below_a_write_of_its_own_run_is_served_from_no_record_before_the_write() {
    let world = World::new();
    let plan = |text: &str, write: &str| {
        let look = "{id: look, tool: fs.read, params: {path: page}, fresh: never";
        let put = format!("{{id: put, tool: fs.write, params: {{path: page, mode: replace, text: {text}}}}}");
        world.file("p.yaml", &format!("id: p\nnodes:\n  - {put}\n  - {look}{write}}}\n"));
    };
    files(&world, &["page"]);
    let run = || world.ostler("run p.yaml --workspace work").exits(0).out;
    // Beside the write, any record does; below it, none.
    plan("one", "");
    run();
    assert_eq!(words(&run(), &["look"]), ["reused"]);
    plan("two", ", deps: [put]");
    assert_eq!(words(&run(), &["look"]), ["executed"]);
    world.ostler("artifact @last/look --path text").exits(0).says("two");
    // The record of a read below the same write in an earlier run is older than the write of this one.
    assert_eq!(words(&run(), &["put", "look"]), ["executed"; 2]);
    plan("three", ", deps: [put]");
    run();
    world.ostler("artifact @last/look --path text").exits(0).says("three");
}
