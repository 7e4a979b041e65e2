//! Mistakes of a first-time user. Each answer names the command to type.

use std::io::Write;
use std::process::Stdio;

use super::world::World;

/// A plan file with one node that has these fields.
fn plan(world: &World, node: &str) {
    world.file("p.yaml", &format!("id: p\nparams: {{dir: .}}\nnodes:\n  - {{id: a, {node}}}\n"));
}

#[test]
fn a_plan_is_mended_by_the_help_of_its_fault() {
    let world = World::new();
    for (node, says) in [
        ("tool: fs.list, params: {path: ${dir}}", "put it in quotes, such as {path: \"${dir}\"}"),
        ("tool: fs.list, params: {path: \"${dir}\"}, retry: 3", "retries"),
        ("tool: shell.run, params: {argv: \"ls -l\"}", "a list with an item for each word, such as [ls, -l]"),
        (
            "tool: fs.list, params: {path: .}, contract: [{method: code, spec: {check: non_empty, path: fils}}]",
            "did you mean \"files\"?",
        ),
        ("model: gpt4, params: {prompt: x}", "add [models.gpt4] to ostler.toml"),
    ] {
        plan(&world, node);
        let ended = world.ostler("check p.yaml");
        assert!(ended.err.contains(says) || ended.out.contains(says), "{node}: {}{}", ended.out, ended.err);
    }
}

#[test]
fn a_run_that_the_gate_would_deny_says_so_first() {
    let world = World::new();
    plan(&world, "tool: fs.write, params: {path: o.txt, text: x, mode: replace}");
    let line = "run p.yaml --workspace work --intent 0";
    world.ostler(line).exits(1).complains("warning: a would be denied: ").complains("--intent 1");
    plan(&world, "tool: http.request, params: {url: \"http://example.com/\", method: GET}");
    world.ostler("run p.yaml --workspace work").exits(1).complains("egress");
    plan(&world, "tool: fs.list, params: {path: \"${dir}\"}");
    let ended = world.ostler("run p.yaml --workspace work").exits(0);
    assert!(!ended.err.contains("warning"), "{}", ended.err);
}

#[test]
fn unknown_names_are_answered_with_known_ones() {
    let world = World::new();
    // A client is known after its first charge.
    let work = "  - {id: look, tool: fs.list, params: {path: .}}\n";
    let asks =
        "  - {id: ask, kind: human_approval, params: {question: q}, human_timeout: 1h, deps: [look]}\n";
    world.file("p.yaml", &format!("id: p\nnodes:\n{work}{asks}"));
    world.ostler("run p.yaml --workspace work --client nobody").exits(3);
    world.ostler("approve @last aks").exits(2).complains("did you mean \"ask\"?");
    world.ostler("logs @last aks").exits(2).complains("`ostler show RUN` lists its nodes");
    world
        .ostler("run p.yaml --workspace work --client nobdoy")
        .exits(3)
        .complains("client nobdoy is new; client nobody exists");
    world.file("s.yaml", "roles: {think: [{text: hi}]}\n");
    world
        .ostler("ask x --tools fs.red --model scripted:s.yaml")
        .exits(2)
        .complains("did you mean \"fs.read\"?");
    world.file("s.yaml", "roles: {planer: [{text: hi}]}\n");
    world.ostler("ask x --model scripted:s.yaml").exits(2).complains("did you mean \"planner\"?");
    world.file("s.yaml", "roles:\n  planner: |\n");
    let refused = world.ostler("ask x --model scripted:s.yaml").exits(2).complains("; correct the file");
    assert!(!refused.err.contains("|;") && !refused.err.contains(" | "), "{}", refused.err);
}

#[test]
fn words_in_the_wrong_place_are_answered_with_the_command() {
    let world = World::new();
    world
        .ostler("ask What is here")
        .exits(2)
        .complains("put the goal in quotes: `ostler ask 'What is here'`");
    world.ostler("chat hello").exits(2).complains("`ostler ask 'hello'` asks once");
    world.ostler("approve @last n --yes").exits(2).complains("`ostler approve` is the yes");
    world.ostler("help F03").exits(0).says("`F03`: a field contradicts the decision");
    world.ostler("help models").exits(0).says("api_key_env").says("[models.default]");
    world.file("p.yaml", "id: p\nnodes:\n  - {id: a, tool: fs.list, params: {path: .}}\n");
    world.ostler("run p.yaml --workspace work").exits(0);
    world.ostler("export @last --cassette t.jsonl").exits(2).complains("it called no model");
    assert!(!world.path().join("t.jsonl").exists());
}

#[test]
fn a_slash_and_a_word_is_no_turn_of_a_chat() {
    let world = World::new();
    world.file("s.yaml", "roles: {think: [{text: hi, repeat: true}]}\n");
    let mut command = world.command("chat --model scripted:s.yaml --workspace work");
    let mut child =
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(b"/help\n/quit\n").unwrap();
    let output = child.wait_with_output().unwrap();
    let told = String::from_utf8(output.stderr).unwrap();
    assert!(told.contains("/help: no such command; /quit or ^D ends"), "{told}");
    assert!(!String::from_utf8(output.stdout).unwrap().contains("opened"));
}
