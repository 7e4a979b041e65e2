//! Approvals: content, approvers and deadlines.

use super::world::{Ended, World, until};
use serde_json::{Value, json};

/// A write that needs approval, after a node that does not and beside one that runs.
const WRITE: &str = r#"
id: write
nodes:
  - {id: text, tool: text.render, params: {template: "hello", values: {}}}
  - id: put
    tool: fs.write
    params: {path: out.txt, mode: create}
    param_refs: {text: {from: text, path: text}}
    approval: before
    human_timeout: 1h
  - {id: after, tool: text.render, params: {template: "done", values: {}}, deps: [put]}
  - {id: beside, tool: text.render, params: {template: "beside", values: {}}}
"#;

const QUESTION: &str = r#"
id: question
nodes:
  - {id: ok, kind: human_approval, params: {question: "Is it out?"}, human_timeout: 1h}
  - {id: after, tool: text.render, params: {template: "done", values: {}}, deps: [ok]}
"#;

const PUBLISH: &str = r#"
id: publish
nodes:
  - {id: draft, tool: text.render, params: {template: "a draft", values: {}}, approval: after, human_timeout: 1h}
"#;

const SOON: &str = r#"
id: soon
nodes:
  - {id: ok, kind: human_approval, params: {question: "Now?"}, human_timeout: 500ms}
  - {id: after, tool: text.render, params: {template: "done", values: {}}, deps: [ok]}
"#;

const LONG: &str = "id: long\nnodes:\n  - {id: nap, tool: time.sleep, params: {ms: 60000}, timeout: 90s}\n";

pub(super) fn world() -> World {
    let world = World::new();
    for (name, plan) in
        [("write", WRITE), ("question", QUESTION), ("publish", PUBLISH), ("soon", SOON), ("long", LONG)]
    {
        world.file(&format!("{name}.yaml"), plan);
    }
    world
}

/// Runs a plan up to its first approval request.
pub(super) fn waiting(world: &World, plan: &str) -> Ended {
    world.ostler(&format!("run {plan}.yaml --workspace work")).exits(3)
}

/// The only pending approval.
pub(super) fn question(world: &World) -> Value {
    let mut lines = world.ostler("approvals --json").exits(0).lines();
    assert_eq!(lines.len(), 1, "{lines:?}");
    lines.remove(0)
}

/// Approves the only pending request, as listed.
pub(super) fn approve(world: &World, more: &str) -> Ended {
    let asked = question(world);
    let (node, digest) = (asked["node"].as_str().unwrap(), asked["digest"].as_str().unwrap());
    world.ostler(&format!("approve @last {node} --digest {digest} {more}"))
}

fn summary(world: &World) -> Value {
    serde_json::from_str(&world.ostler("show @last --json").exits(0).out).unwrap()
}

#[test]
fn what_is_shown_is_what_runs_and_everything_else_goes_on_meanwhile() {
    let world = world();
    let run = waiting(&world, "write");
    let run = run.says("beside  executed").says("waits put: approval to start");
    run.says("after depends on it")
        .says("    ostler approve ")
        .says("--digest b3:")
        .says("    ostler reject ");
    assert_eq!(world.work("out.txt"), "", "nothing is done before the yes");
    let asked = question(&world);
    assert_eq!(asked["params"], json!({"path": "out.txt", "mode": "create", "text": "hello"}));
    assert_eq!(
        (&asked["ask"], &asked["tool"], &asked["impact"], &asked["effect"], &asked["holds_up"]),
        (&json!("before"), &json!("fs.write"), &json!(1), &json!("write"), &json!(["after"]))
    );
    let digest = &asked["digest"].as_str().unwrap()[..32];
    let listed = world.ostler("approvals").exits(0).says("fs.write, impact 1").says("ostler reject ");
    listed.says(&format!(" put --digest b3:{digest}"));
    world.ostler("ps").exits(0).says("waiting").says("put waits for a person; cancelled in ");
    world.ostler("show @last").exits(0).says("waits put");
    approve(&world, "--note fine").exits(0).says("succeeded  write");
    assert_eq!(world.work("out.txt"), "hello");
    let answers = world.ostler("events @last --json").exits(0).lines();
    let answer = answers.iter().find(|line| line["kind"] == "human_answer").unwrap();
    assert_eq!((&answer["body"]["approve"], &answer["body"]["note"]), (&json!(true), &json!("fine")));
    assert_ne!(answer["body"]["by"], "ann", "the environment proves nothing");
    world.ostler("approvals").exits(0).complains("no approval is pending");
    world.ostler("doctor").exits(0);
}

#[test]
fn tests_and_the_folder_they_run_in_are_shown_with_the_action() {
    let world = world();
    let contract = "contract: [{method: test, p: 1, spec: {argv: [touch, tested]}}]";
    world.file(
        "tested.yaml",
        &WRITE.replace("approval: before", &format!("approval: before\n    {contract}")),
    );
    world.ostler("run tested.yaml --workspace work --intent 2").exits(3);
    let asked = question(&world);
    let test = json!({"argv": ["touch", "tested"], "effect": "external", "impact": 2});
    assert_eq!(asked["tests"], json!([test]));
    let folder = world.path().join("work").canonicalize().unwrap();
    assert_eq!(asked["workspace"].as_str(), folder.to_str());
    let told =
        world.ostler("approvals").exits(0).says(r#"followed by the test ["touch","tested"], impact 2"#);
    told.says(&format!("in {}", folder.display()));
    world.ostler("run tested.yaml --workspace work --intent 1").exits(3);
    world.ostler("approvals").exits(0).says("would fail: its test contract[0]: IMPACT_OVER_INTENT");
}

#[test]
fn a_no_before_the_action_cancels_it_and_costs_what_depends_on_it() {
    let world = world();
    waiting(&world, "write");
    world.ostler("reject @last put --note no").exits(1).says("cancelled put: ");
    assert_eq!(world.work("out.txt"), "");
    assert_eq!(summary(&world)["nodes"]["after"], "cancelled");
}

#[test]
fn a_question_of_the_plan_is_answered_like_any_other() {
    let world = world();
    waiting(&world, "question").says("waits ok: approval");
    assert_eq!(question(&world)["params"]["question"], "Is it out?");
    approve(&world, "").exits(0).says("succeeded  question");
}

#[test]
fn a_result_is_published_with_leave_only() {
    let world = world();
    waiting(&world, "publish").says("approval of its result");
    world.ostler("artifact @last/draft").exits(2).complains("has no result");
    let asked = question(&world);
    assert_eq!((&asked["ask"], &asked["result"]), (&json!("after"), &json!({"text": "a draft"})));
    approve(&world, "").exits(0);
    assert_eq!(world.ostler("artifact @last/draft --path text").exits(0).out, "a draft");
    waiting(&world, "publish");
    world.ostler("reject @last draft").exits(1).says("failed draft: ");
}

#[test]
fn a_wrong_answer_is_refused_and_changes_nothing() {
    let world = world();
    waiting(&world, "write");
    let (asked, before) = (question(&world), summary(&world));
    for (line, told) in [
        ("approve @last put --digest 00000000000000000000000000000000", "review the new content"),
        ("approve @last put --digest b3:12", "expected at least 32 hex digits of a digest"),
        ("approve @last put", "an approval without a terminal needs --digest"),
        ("approve @last nothing", "no node nothing"),
        ("approve @last text", "node text: executed, no approval is pending"),
        ("approve @last after", "node after: pending, no approval is pending"),
        ("approve ffffffff put", "no run has an id"),
        ("reject @last beside --note x", "no approval is pending"),
        ("skip @last nothing", "no node nothing"),
        ("skip @last text", "node text is executed already"),
        ("cancel @last beside", "node beside is executed already"),
        ("resolve @last put --redo", "not in doubt"),
    ] {
        world.ostler(line).exits(2).complains(told);
    }
    let long = format!("reject @last put --note {}", "x".repeat(4_097));
    world.ostler(&long).exits(2).complains("at most 4096 are kept");
    assert_eq!(question(&world), asked);
    assert_eq!(summary(&world)["seq"], before["seq"], "what is refused is not written down");
    let digest = asked["digest"].as_str().unwrap();
    world.ostler(&format!("approve @last put --digest {}", &digest[..35])).exits(0);
    world.ostler("approve @last put").exits(2).complains("closed, and node put is executed");
}

#[test]
fn an_operator_does_without_a_node_that_asks() {
    let world = world();
    waiting(&world, "question");
    world.ostler("skip @last ok").exits(1).says("skipped ok: by an operator  (lost with it: after)");
    assert_eq!(summary(&world)["nodes"], json!({"ok": "skipped", "after": "cancelled"}));
    waiting(&world, "question");
    world.ostler("cancel @last ok").exits(1).says("cancelled ok: by an operator  (lost with it: after)");
    assert_eq!(summary(&world)["nodes"], json!({"ok": "cancelled", "after": "cancelled"}));
}

/// Deadlines tried in turn: on a busy machine the first may pass before the kill.
const SPANS: [&str; 3] = ["500ms", "10s", "60s"];

/// A run whose process was killed while it waited, and the request.
fn killed_while_it_asks() -> (World, Value) {
    for span in SPANS {
        let world = world();
        world.file("soon.yaml", &SOON.replace("500ms", span));
        let mut run = world.start("run soon.yaml --workspace work --json");
        run.until("human_request");
        run.signal("KILL");
        run.end();
        let mut asked = world.ostler("approvals --json").exits(0).lines();
        if asked.len() == 1 {
            return (world, asked.remove(0));
        }
    }
    panic!("its time was over before it was killed, whatever its span");
}

#[test]
fn silence_cancels_at_the_deadline_even_if_nobody_was_there() {
    let (world, asked) = killed_while_it_asks();
    let deadline = asked["deadline_ms"].as_i64().unwrap();
    let now = || {
        let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
        i64::try_from(since.as_millis()).unwrap()
    };
    while now() <= deadline {
        std::thread::yield_now(); // the deadline is wall-clock time, with no process to signal it
    }
    world.ostler("approve @last ok").exits(2).complains("node ok: the deadline has passed");
    let told = world.ostler("ps").exits(0).says("deadline passed").says("queued");
    assert!(!told.out.contains("approve"), "{}", told.out);
    let listed = world.ostler("approvals").exits(0).says("deadline passed");
    assert!(!listed.out.contains("ostler approve"), "{}", listed.out);
    world.ostler("show @last").exits(0).says("not executing: ostler resume");
    world.ostler("resume @last").exits(1).says("cancelled ok: no answer before the deadline");
    let nodes = summary(&world)["nodes"].clone();
    assert_eq!(nodes, json!({"ok": "cancelled", "after": "cancelled"}));
    world.ostler("approve @last ok").exits(2).complains("no approval is pending");
}

#[test]
fn a_deadline_survives_a_restart_unchanged() {
    let world = world();
    waiting(&world, "question");
    let asked = question(&world);
    world.ostler("resume @last").exits(3);
    assert_eq!(question(&world), asked);
}

#[test]
fn another_terminal_answers_through_the_process_that_holds_the_folder() {
    let world = world();
    let mut holder = world.start("run long.yaml --workspace work");
    holder.until("opened: long");
    let mut run = world.start("run write.yaml --workspace work");
    let opened = run.until("opened: write");
    let id = opened.split_whitespace().nth(2).unwrap();
    run.until("waits for a person");
    let digest = question(&world)["digest"].as_str().unwrap().to_owned();
    world
        .ostler(&format!("approve {id} put --digest {digest}"))
        .exits(0)
        .says("continues in the process that holds");
    let ended = run.end();
    assert!(matches!(ended.code, Some(0 | 3)), "{ended:?}"); // the run may have been suspended before the answer arrived
    let mut events = world.start(&format!("events {id} --follow"));
    events.until("run_closed");
    events.end().exits(0);
    assert_eq!(world.work("out.txt"), "hello");
    world.ostler("cancel @last").complains("over").exits(2);
    holder.signal("INT");
    holder.end().exits(130);
}

#[test]
fn changed_tools_void_an_approval_that_was_not_used() {
    let world = world();
    waiting(&world, "write");
    let asked = question(&world);
    // The write waits for approval; then the policy removes the tool.
    world.file("o.toml", "[scopes.default]\ntools = [\"text.render\"]\n");
    let shown = world.ostler("approvals --json --config o.toml").exits(0).lines().remove(0);
    assert_eq!(shown["outdated"], true, "{shown}");
    assert!(shown["refusal"].as_str().unwrap().contains("OUT_OF_SCOPE"), "{shown}");
    let old = asked["digest"].as_str().unwrap();
    world
        .ostler(&format!("approve @last put --config o.toml --digest {old}"))
        .exits(2)
        .complains("the work has changed; `ostler approvals --config o.toml` shows question 2");
    assert_eq!(world.work("out.txt"), "");
    // The first new request shows the denial, the second the write again.
    world.ostler("resume @last").exits(3);
    let again = question(&world);
    assert_eq!(again["digest"], asked["digest"]);
    assert_ne!(again["id"], asked["id"]);
    approve(&world, "").exits(0);
    assert_eq!(world.work("out.txt"), "hello");
}

#[test]
fn a_run_that_is_over_is_shown_as_it_stood_without_what_could_be_answered_then() {
    let world = world();
    waiting(&world, "question");
    let seq = summary(&world)["seq"].as_u64().unwrap();
    world.ostler("reject @last ok").exits(1);
    let told =
        world.ostler(&format!("show @last --at {seq}")).exits(0).says("waiting").says("waits ok: approval");
    assert!(!told.out.contains("ostler "), "{}", told.out);
    let told = world.ostler("show @last --at 1").exits(0).says("queued");
    assert!(!told.out.contains("ostler "), "{}", told.out);
}

#[test]
fn a_run_that_was_left_at_a_question_is_queued_while_other_nodes_of_it_could_go_on() {
    let world = world();
    world.file(
        "both.yaml",
        &(QUESTION.to_owned() + "  - {id: nap, tool: time.sleep, params: {ms: 60000}, timeout: 90s}\n"),
    );
    let mut run = world.start("run both.yaml --workspace work");
    run.until("waits for a person");
    run.signal("INT");
    run.end().exits(130);
    assert_eq!(summary(&world)["status"], "queued");
    world.ostler("show @last").exits(0).says("    ostler approve ").says("not executing: ostler resume");
}

#[test]
fn a_run_that_was_set_aside_takes_no_answer_before_it_is_resumed() {
    let world = world();
    world.file(
        "both.yaml",
        &(QUESTION.to_owned() + "  - {id: nap, tool: time.sleep, params: {ms: 60000}, timeout: 90s}\n"),
    );
    let mut run = world.start("run both.yaml --workspace work");
    run.until("waits for a person");
    world.ostler("checkpoint @last").exits(0).says("is suspended; `ostler resume");
    run.end().exits(3);
    world.ostler("approvals").exits(0).complains("no approval is pending");
    for command in ["show @last", "ps"] {
        let shown = world.ostler(command).exits(0).says("ostler resume");
        assert!(
            !shown.out.contains("ostler reject") && !shown.out.contains("ostler approve"),
            "{}",
            shown.out
        );
    }
    world.ostler("reject @last ok").exits(2).complains("suspended; `ostler resume ");
    let resumed = world.start("resume @last");
    until("the process drives it", || summary(&world)["active"] == true);
    world.ostler("reject @last ok").exits(0).says("rejected ok");
    resumed.signal("INT");
    resumed.end().exits(130);
}

#[test]
fn a_run_without_its_workspace_is_not_resumed_and_does_not_fail() {
    let world = World::new();
    world.file("p.yaml", "id: p\nnodes:\n  - {id: ok, kind: human_approval, human_timeout: 1h}\n  - {id: a, tool: fs.list, params: {path: .}, deps: [ok]}\n");
    world.ostler("run p.yaml --workspace work").exits(3);
    let (work, away) = (world.path().join("work"), world.path().join("away"));
    std::fs::rename(&work, &away).unwrap();
    world.ostler("resume @last").exits(2).complains("its workspace ").complains("is not there");
    approve(&world, "").exits(2).complains("is not there");
    std::fs::rename(&away, &work).unwrap();
    approve(&world, "").exits(0).says("succeeded");
}

#[test]
fn who_resumes_a_run_that_waits_in_another_process_is_shown_how_it_stands() {
    let world = world();
    let mut holder = world.start("run long.yaml --workspace work");
    holder.until("opened: long");
    let mut run = world.start("run question.yaml --workspace work");
    let opened = run.until("opened: question");
    let id = opened.split_whitespace().nth(2).unwrap().to_owned();
    run.end().exits(3);
    let resumed = world.ostler(&format!("resume {id}")).exits(3).says("waits ok: approval");
    assert!(!resumed.err.contains("is over"), "{}", resumed.err);
    holder.signal("INT");
    holder.end().exits(130);
}

#[test]
fn what_acts_on_the_world_is_not_said_to_be_cancelled() {
    let world = world();
    world.file(
        "act.yaml",
        "id: act\nnodes:\n  - {id: act, tool: shell.run, params: {argv: [sh, -c, 'touch begun; until test -e go; do sleep 0.01; done']}}\n",
    );
    let mut run = world.start("run act.yaml --workspace work --intent 2");
    let opened = run.until("opened: act");
    let id = opened.split_whitespace().nth(2).unwrap();
    until("it has begun", || world.path().join("work/begun").exists());
    world.ostler(&format!("cancel {id} act")).exits(0).says("act is changing the world: it runs to its end");
    std::fs::write(world.path().join("work/go"), "").unwrap();
    run.end().exits(0).says("succeeded");
    world.ostler(&format!("cancel {id} act")).exits(2);
}

#[test]
fn an_interjection_holds_a_run_until_somebody_has_answered() {
    let world = world();
    let nap = "  - {id: nap, tool: time.sleep, params: {ms: 60000}, timeout: 90s}\n  - {id: next, tool: text.render, params: {template: x, values: {}}, deps: [nap]}\n";
    world.file("two.yaml", &format!("id: two\nnodes:\n{nap}"));
    let mut run = world.start("run two.yaml --workspace work");
    run.until("opened: two");
    world.ostler("interject @last hold --within 0s").exits(2).complains("must be above 0; give a time");
    let held = world.ostler("interject @last hold --within 30m").exits(0).says(" --digest b3:");
    held.says("is held by node interjection-1; `ostler approve ").says("continues in the process that holds");
    let asked = question(&world);
    assert_eq!((&asked["node"], &asked["params"]), (&json!("interjection-1"), &json!({"text": "hold"})));
    assert_eq!(summary(&world)["nodes"]["next"], "blocked");
    world.ostler("show @last").exits(0).says("held by an operator");
    world.ostler("reject @last interjection-1 --note later").exits(0);
    run.end().exits(1).says("cancelled");
    assert_eq!(summary(&world)["nodes"]["next"], "cancelled");
    world.ostler("interject @last hold").exits(2).complains("cancelled");
    world.ostler("doctor").exits(0);
}

/// A leading dash in a note is not an option.
#[test]
fn what_is_said_may_begin_with_a_dash() {
    let world = World::new();
    for line in [
        "reject @last n --note -x",
        "reject @last n --note --why",
        "approve @last n --note - --digest b3:00",
        "interject @last -x",
        "interject @last --why --within 5m",
        "evaluate @last --quality 0 --note -bad",
    ] {
        world.ostler(line).exits(2).complains("yet: no data folder at");
    }
    world.ostler("interject @last --within 5m").exits(2).complains("<TEXT>");
}

#[test]
fn a_call_that_would_be_denied_anyway_is_denied_without_a_question() {
    let world = World::new();
    let plan = "id: p\nnodes:\n  - {id: act, tool: shell.run, params: {argv: [touch, made]}, approval: before, human_timeout: 1h}\n";
    world.file("p.yaml", plan);
    world.ostler("check p.yaml").exits(0).says("impact 2 is above --intent 1");
    let run = world.ostler("run p.yaml --workspace work").exits(1);
    run.says("IMPACT_OVER_INTENT").says("run it with --intent 2");
    assert_eq!(world.work("made"), "");
    world.ostler("run p.yaml --workspace work --intent 2").exits(3).says("approve ").says("--digest b3:");
    assert!(!world.path().join("work/made").exists());
}

#[test]
fn an_approval_succeeds_though_another_one_waits() {
    let world = World::new();
    let node = |id: &str| {
        format!("  - {{id: {id}, kind: human_approval, params: {{question: ok?}}, human_timeout: 1h}}\n")
    };
    world.file("two.yaml", &format!("id: two\nnodes:\n{}{}", node("a"), node("b")));
    let run = world.ostler("run two.yaml --workspace work").exits(3);
    let line = run.out.lines().find(|line| line.contains("ostler approve") && line.contains(" a ")).unwrap();
    world.ostler(line.trim().trim_start_matches("ostler ")).exits(0).says("waits b");
}

/// A run that waits for a question in a run below it.
pub(super) const OUTER: &str = r#"
id: outer
nodes:
  - id: child
    tool: agent.ask
    params: {plan: {id: inner, nodes: [{id: q, kind: human_approval, params: {question: "may I?"}, human_timeout: 1h}]}}
"#;

#[test]
fn a_question_in_a_run_below_is_told_by_the_command_that_waits_for_the_run_above() {
    let world = world();
    world.file("outer.yaml", OUTER);
    let run = world.ostler("run outer.yaml --workspace work --intent 2").exits(3);
    for told in ["q waits for a person in run ", "opened by step", "of child of run", "ostler approve "] {
        assert!(run.out.contains(told), "{told}: {}", run.out);
    }
    world.ostler("approvals").exits(0).says("opened by step").says("may I?");
    world.ostler("ps").exits(0).says("opened by step");
    let asked = question(&world);
    let (inner, digest) = (asked["run"].as_str().unwrap_or(""), asked["digest"].as_str().unwrap_or(""));
    let approved = world.ostler(&format!("approve {inner} q --digest {digest}"));
    approved.exits(0).says("child  executed").says("succeeded  outer");
}
