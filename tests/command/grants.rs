//! Grants: further calls that an approval allows, for a while.

use serde_json::{Value, json};

use super::approvals::{question, world};
use super::world::World;

fn touching(world: &World, plan: &str, file: &str) {
    let nodes = format!(
        "id: {plan}\nnodes:\n  - {{id: go, tool: shell.run, params: {{argv: [touch, {file}]}}, approval: before, human_timeout: 1h}}\n"
    );
    world.file(&format!("{plan}.yaml"), &nodes);
}

/// Runs a plan with the program `sh deploy.sh`; the approval waits.
fn deploying(world: &World, plan: &str, workspace: &str) {
    let nodes = format!(
        "id: {plan}\nnodes:\n  - {{id: go, tool: shell.run, params: {{argv: [sh, deploy.sh]}}, approval: before, human_timeout: 1h}}\n"
    );
    world.file(&format!("{plan}.yaml"), &nodes);
    world.file(&format!("{workspace}/deploy.sh"), "touch deployed\n");
}

/// Runs a plan with a `touch` up to its approval, and approves with a grant.
fn granting(world: &World, also: &[&str]) -> (Option<i32>, String) {
    touching(world, "first", "one");
    world.ostler("run first.yaml --workspace work --intent 2").exits(3);
    let digest = question(world)["digest"].as_str().unwrap().to_owned();
    let output = world.command("approve @last go --digest").arg(digest).args(also).output().unwrap();
    (output.status.code(), String::from_utf8(output.stderr).unwrap())
}

fn answer(world: &World) -> Value {
    let lines = world.ostler("events @last --json").exits(0).lines();
    lines.into_iter().find(|line| line["kind"] == "human_answer").unwrap()["body"].clone()
}

#[test]
fn a_grant_answers_further_calls_until_it_is_revoked() {
    let world = world();
    assert_eq!(granting(&world, &["--also", "touch *", "--for", "1h"]).0, Some(0));
    let listed = world.ostler("approvals --grants --json").exits(0).lines();
    assert_eq!((&listed[0]["id"], &listed[0]["pattern"]), (&json!("g1"), &json!("touch *")));
    touching(&world, "second", "two");
    world.ostler("run second.yaml --workspace work --intent 2").exits(0).says("succeeded");
    let by = answer(&world);
    assert!(by["by"].as_str().unwrap().starts_with("grant g1 of "), "{by}");
    assert_eq!(by["note"], "touch *");
    // The same call of another client is asked about.
    world.ostler("run second.yaml --workspace work --intent 2 --client acme").exits(3);
    world.ostler("approvals revoke g1").exits(0).says("revoked");
    world.ostler("approvals --grants").exits(0).complains("no grant is in force");
    world.ostler("approvals revoke g1").exits(2).complains("no grant g1 is in force");
    world.ostler("run second.yaml --workspace work --intent 2").exits(3);
    world.ostler("doctor").exits(0);
}

#[test]
fn a_grant_covers_the_script_it_was_given_for_in_its_workspace() {
    let world = world();
    deploying(&world, "deploy", "work");
    std::fs::create_dir(world.path().join("elsewhere")).unwrap();
    deploying(&world, "other", "elsewhere");
    world.ostler("run deploy.yaml --workspace work --intent 2").exits(3);
    let digest = question(&world)["digest"].as_str().unwrap().to_owned();
    let mut approve = world.command("approve @last go --also");
    let approved = approve.arg("sh deploy.sh").args(["--for", "1h", "--digest", &digest]).status().unwrap();
    assert_eq!(approved.code(), Some(0));
    world.ostler("approvals --grants").exits(0).says("sh deploy.sh with deploy.sh  in ");
    world.ostler("run deploy.yaml --workspace work --intent 2").exits(0).says("succeeded");
    world.ostler("run other.yaml --workspace elsewhere --intent 2").exits(3);
    world.ostler("cancel @last").exits(0);
    world.file("work/deploy.sh", "touch worse\n");
    world.ostler("run deploy.yaml --workspace work --intent 2").exits(3);
    assert!(!world.path().join("work/worse").exists());
}

#[test]
fn a_grant_needs_a_time_and_fits_the_call_that_is_approved() {
    let world = world();
    for (also, says) in [
        (&["--also", "touch *"][..], "--for"),
        (&["--also", "* x", "--for", "1h"], "begins with the name of a program"),
        (&["--also", "touch *", "--for", "25h"], "at most 24h"),
        (&["--also", "git push *", "--for", "1h"], "does not fit the call that is approved"),
    ] {
        let (code, said) = granting(&world, also);
        assert_eq!((code, said.contains(says)), (Some(2), true), "{also:?}: {said}");
        assert_eq!(world.work("one"), "");
        world.ostler("reject @last go").exits(1);
    }
    assert_eq!(world.ostler("approvals --grants --json").exits(0).lines(), Vec::<Value>::new());
}

#[test]
fn a_step_with_another_key_grants_and_revokes_nothing() {
    let world = world();
    assert_eq!(granting(&world, &["--also", "touch *", "--for", "1h"]).0, Some(0));
    let other = tempfile::tempdir().unwrap();
    let output = world.command("approvals revoke g1").env("XDG_CONFIG_HOME", other.path()).output().unwrap();
    assert_eq!(output.status.code(), Some(6));
    assert_eq!(world.ostler("approvals --grants --json").exits(0).lines().len(), 1);
}

#[test]
fn a_grant_answers_no_call_whose_words_strangers_chose() {
    let world = world();
    world.file(
        "first.yaml",
        "id: first\nnodes:\n  - {id: go, tool: shell.run, params: {argv: [echo, one]}, approval: before, human_timeout: 1h}\n",
    );
    world.ostler("run first.yaml --workspace work --intent 2").exits(3);
    let digest = question(&world)["digest"].as_str().unwrap().to_owned();
    let mut approve = world.command("approve @last go --also");
    let approved = approve.args(["echo *", "--for", "1h", "--digest", &digest]).status().unwrap();
    assert_eq!(approved.code(), Some(0));
    // A program with the network wrote the words.
    world.file("work/net.sh", "printf 'echo\\nfrom strangers'\n");
    world.file(
        "second.yaml",
        r#"
id: second
nodes:
  - {id: net, tool: shell.run, params: {argv: [sh, -c, "sh net.sh > words.txt"]}, approval: before, human_timeout: 1h}
  - {id: lines, tool: text.search, deps: [net], params: {pattern: ".", files: [words.txt]}}
  - {id: words, tool: json.query, params: {query: "$[*].text"}, param_refs: {value: {from: lines, path: matches}}}
  - {id: says, tool: shell.run, approval: before, human_timeout: 1h, param_refs: {argv: {from: words, path: result}}}
"#,
    );
    world.ostler("run second.yaml --workspace work --intent 2").exits(3);
    let digest = question(&world)["digest"].as_str().unwrap().to_owned();
    world.command("approve @last net --digest").arg(digest).status().unwrap();
    world.ostler("resume @last").exits(3);
    let asked = question(&world);
    assert_eq!(asked["node"], "says", "{asked}");
    assert_eq!(asked["params"]["argv"], json!(["echo", "from strangers"]), "{asked}");
}
