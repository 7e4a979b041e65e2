//! Repetitions of runs: what the invoice names is what is executed, and no effect is made twice.

use super::world::World;

const APPEND: &str = "{id: act, tool: fs.write, params: {path: log, mode: append, text: x}";

/// An effect, a node that reads its result, and one beside them.
fn plan(world: &World, act: &str, side: &str) {
    world.file(
        "p.yaml",
        &format!(
            "id: p\nnodes:\n  - {act}}}\n\
             \x20 - {{id: below, tool: text.render, params: {{template: 'wrote it'}}, deps: [act]}}\n\
             \x20 - {{id: side, tool: text.render, params: {{template: {side}}}}}\n"
        ),
    );
}

#[test]
fn a_node_below_a_kept_effect_is_not_executed_again() {
    let world = World::new();
    plan(&world, APPEND, "one");
    world.file("s.json", "{\"text\": \"two\"}");
    world.ostler("run p.yaml --workspace work").exits(0);
    // A second repetition keeps what the first one kept.
    for _ in 0..2 {
        world.ostler("edit @last side --file s.json --dry-run").exits(0).says("executes at most 0 nodes");
        world.ostler("edit @last side --file s.json").exits(0);
        world.ostler("explain @last below").exits(0).says("reused");
        assert_eq!(world.work("log"), "x");
    }
}

#[test]
fn another_contract_or_limit_of_an_effect_does_not_repeat_it() {
    let world = World::new();
    plan(&world, APPEND, "one");
    world.ostler("run p.yaml --workspace work").exits(0);
    let contract = format!("{APPEND}, timeout: 9s, contract: [{{method: schema, spec: {{type: object}}}}]");
    plan(&world, &contract, "two");
    let dry = world.ostler("rerun @last --plan p.yaml --dry-run").exits(0);
    dry.says("executes at most 1 node").says("side  changed in the plan").says("effects     none");
    world.ostler("rerun @last --plan p.yaml").exits(0);
    assert_eq!(world.work("log"), "x");
    // A result that breaks the contract is no result: it is named.
    let contract = format!("{APPEND}, contract: [{{method: schema, spec: {{type: string}}}}]");
    plan(&world, &contract, "two");
    let dry = world.ostler("rerun @last --plan p.yaml --dry-run").exits(0);
    dry.says("act    its result does not satisfy the contract").says("effects     act");
}

#[test]
fn a_plan_file_with_a_list_that_is_the_same_repeats_no_effect_of_the_list() {
    let world = World::new();
    world.file("work/a.in", "").file("work/b.in", "");
    let plan = |side: &str| {
        world.file(
            "p.yaml",
            &format!(
                "id: p\nnodes:\n\
                 \x20 - {{id: list, tool: fs.list, params: {{path: ., glob: '*.in'}}}}\n\
                 \x20 - id: put\n    tool: fs.write\n    for_each: {{from: list, path: files, as: text, max: 5}}\n    params: {{path: out, mode: append}}\n\
                 \x20 - {{id: side, tool: text.render, params: {{template: {side}}}}}\n"
            ),
        );
    };
    plan("one");
    world.ostler("run p.yaml --workspace work").exits(0);
    let before = world.work("out");
    plan("two");
    let dry = world.ostler("rerun @last --plan p.yaml --dry-run").exits(0);
    dry.says("executes at most 1 node").says("effects     none");
    world.ostler("rerun @last --plan p.yaml").exits(0);
    assert_eq!(world.work("out"), before);
    // The elements are executed if they are asked for.
    let dry = world.ostler("rerun @last --from put --dry-run").exits(0);
    dry.says("effects     put.0, put.1");
}

#[test]
fn what_an_operator_set_in_a_fork_is_in_its_repetitions_too() {
    let world = World::new();
    plan(&world, APPEND, "one");
    world.file("s.json", "{\"text\": \"two\"}");
    world.ostler("run p.yaml --workspace work").exits(0);
    world.ostler("fork @last --at 1 --set below.template=three").exits(0);
    assert_eq!(world.work("log"), "xx", "at the first record nothing was done");
    world.ostler("artifact @last/below --path text").exits(0).says("three");
    world.ostler("edit @last side --file s.json").exits(0);
    world.ostler("artifact @last/below --path text").exits(0).says("three");
    world.ostler("rerun @last --from below").exits(0);
    world.ostler("artifact @last/below --path text").exits(0).says("three");
    assert_eq!(world.work("log"), "xx");
}

#[test]
fn an_effect_in_doubt_is_not_repeated_before_a_person_has_settled_it() {
    let world = World::new();
    let act =
        "{id: act, tool: shell.run, params: {argv: [sh, -c, 'echo x >> log; exec sleep 30']}, timeout: 60s";
    plan(&world, act, "one");
    world.file("s.json", "{\"text\": \"two\"}");
    let run = world.start("run p.yaml --workspace work --intent 2");
    super::world::until("the program acts", || world.work("log") == "x\n");
    run.signal("KILL");
    assert_eq!(run.end().code, None);
    let refused = world.ostler("edit @last side --file s.json").exits(2);
    refused.complains("act");
    for repetition in ["edit @last side --file s.json --dry-run", "rerun @last", "rerun @last --from side"] {
        world.ostler(repetition).exits(2).complains("act a second time");
    }
    assert_eq!(world.work("log"), "x\n");
}

#[test]
fn an_effect_that_was_skipped_in_doubt_is_not_repeated_before_nothing_is_left_of_it() {
    let world = World::new();
    let act =
        "{id: act, tool: shell.run, params: {argv: [sh, -c, 'echo x >> log; exec sleep 30']}, timeout: 60s";
    plan(&world, act, "one");
    let run = world.start("run p.yaml --workspace work --intent 2");
    super::world::until("the program acts", || world.work("log") == "x\n");
    run.signal("KILL");
    run.end();
    world.ostler("resume").exits(3);
    let again = "rerun @last --from act --dry-run";
    world.ostler(again).exits(2).complains("act --fail");
    world.ostler("skip @last act");
    let refused = world.ostler(again).exits(2);
    let settle = refused.err.split('`').find(|part| part.starts_with("ostler resolve ")).unwrap();
    assert!(settle.ends_with(" act --gone"), "{}", refused.err);
    world.ostler(settle.trim_start_matches("ostler ")).exits(0);
    world.ostler(again).exits(0).says("effects     act");
}

#[test]
fn the_invoice_names_a_model_that_is_configured_otherwise_now() {
    let world = World::new();
    world.file("answers.yaml", "rules:\n  - {when: {node: m}, text: hello, repeat: true}\n");
    let config = |file: &str| {
        world.file("ostler.toml", &format!("[models.default]\nprovider = \"scripted\"\nfile = \"{file}\"\n"));
    };
    config("answers.yaml");
    world.file(
        "p.yaml",
        "id: p\nnodes:\n  - {id: m, model: default, params: {prompt: say}}\n\
         \x20 - {id: side, tool: text.render, params: {template: one}}\n",
    );
    world.file("s.json", "{\"text\": \"two\"}");
    world.ostler("run p.yaml --workspace work --config ostler.toml").exits(0);
    world.file("others.yaml", "rules:\n  - {when: {node: m}, text: goodbye, repeat: true}\n");
    config("others.yaml");
    let dry = world.ostler("edit @last side --file s.json --dry-run --config ostler.toml").exits(0);
    dry.says("m  its tool or model is another one now");
    world.ostler("edit @last side --file s.json --config ostler.toml").exits(0);
    world.ostler("artifact @last/m --path text").exits(0).says("goodbye");
}
