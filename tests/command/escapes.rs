//! Texts with escape sequences: no command prints them as such.

use super::terminal::Terminal;
use super::world::{Ended, World};

/// A text with escape sequences.
const GIVEN: &str = "a\u{1b}[31mred\u{7}";

/// The text in quotes, as in files and JSON.
const WRITTEN: &str = r"a\u001b[31mred\u0007";

/// The text in quotes, as in messages.
const QUOTED: &str = r"a\u{1b}[31mred\u{7}";

/// Start of the text as shown; a column may cut the rest.
const SHOWN: &str = "a\u{fffd}[3";

/// Asserts that the output has no control characters.
#[track_caller]
fn check_harmless(line: &str, Ended { out, err, .. }: &Ended) {
    let obeyed = |c: char| c.is_control() && c != '\n';
    assert!(!out.contains(obeyed) && !err.contains(obeyed), "{line:?}: {out:?}, {err:?}");
}

/// Asserts that the output of a command shows such a text without control characters.
#[track_caller]
fn check(world: &World, line: &str, code: i32, shown: &str) {
    let ended = world.ostler(line).exits(code);
    check_harmless(line, &ended);
    let Ended { out, err, .. } = ended;
    assert!(out.contains(shown) || err.contains(shown), "{line:?}: no {shown:?} in {out:?}, {err:?}");
}

fn plan(nodes: &str) -> String {
    format!("id: \"{WRITTEN}\"\ntitle: \"{WRITTEN}\"\nnodes:\n{nodes}")
}

fn asks() -> String {
    format!("  - {{id: ok, kind: human_approval, params: {{question: \"{WRITTEN}\"}}, human_timeout: 1h}}\n")
}

/// A node that outlasts the test.
const NAP: &str = "  - {id: nap, tool: time.sleep, params: {ms: 60000}, timeout: 90s}\n";

#[test]
fn nothing_that_a_terminal_obeys_is_printed_of_a_job_and_its_questions() {
    let world = World::new();
    world.file("asks.yaml", &plan(&asks()));
    world.file("job.yaml", "title: x\nclient: acme\nbudget: 500\nplan: asks.yaml\n");
    let titled = format!("title: \"{WRITTEN}\"\nclient: acme\nbudget: 5\nplan: asks.yaml\n");
    world.file("titled.yaml", &titled);
    let wrong =
        format!("title: x\nclient: acme\nbudget: 5\nplan: asks.yaml\ncapabilities: [\"{WRITTEN}\"]\n");
    world.file("wrong.yaml", &wrong);
    world.ostler("client add acme --credit 1000").exits(0);
    world.ostler("spawn clerk --client acme").exits(0);
    world.ostler("market offer clerk --client acme --can contracts --price 100").exits(0);
    let answer = format!("approve @last {GIVEN} --digest 00000000000000000000000000000000");
    let reject = format!("reject @last ok --note {GIVEN}");
    for (line, code, shown) in [
        ("check asks.yaml --workspace work", 0, SHOWN),
        ("market post wrong.yaml --workspace work", 2, WRITTEN),
        ("market post titled.yaml --workspace work", 2, WRITTEN),
        (&format!("market offer clerk --can {GIVEN}"), 2, QUOTED),
        ("market post job.yaml --workspace work", 3, SHOWN),
        ("ps", 0, SHOWN),
        ("ps --json", 0, WRITTEN),
        ("show @last", 0, SHOWN),
        ("show @last --format dot", 0, "a [31mred "),
        ("events @last", 0, WRITTEN),
        ("approvals", 0, SHOWN),
        ("approvals", 0, WRITTEN),
        (&answer, 2, SHOWN),
        (&reject, 1, QUOTED),
        ("show @last", 0, QUOTED),
    ] {
        check(&world, line, code, shown);
    }
}

#[test]
fn nothing_that_a_terminal_obeys_is_printed_of_a_result_and_what_is_said_of_it() {
    let world = World::new();
    let says =
        format!("  - {{id: says, tool: text.render, params: {{template: \"{WRITTEN}\", values: {{}}}}}}\n");
    world.file("says.yaml", &plan(&says));
    let noted = format!("({SHOWN}");
    for (line, shown) in [
        ("run says.yaml --workspace work", &*format!("│ {SHOWN}")),
        (&format!("evaluate @last --quality 0.5 --note {GIVEN}"), &noted),
        ("evaluate @last", &noted),
        ("evaluate @last --json", WRITTEN),
    ] {
        check(&world, line, 0, shown);
    }
}

#[test]
fn a_result_is_harmless_at_a_terminal_and_unchanged_in_a_pipe() {
    let Some(terminal) = Terminal::open(80, 24) else { return };
    let says =
        format!("  - {{id: says, tool: text.render, params: {{template: \"{WRITTEN}\", values: {{}}}}}}\n");
    terminal.world.file("says.yaml", &plan(&says));
    terminal.keys("$OSTLER run says.yaml --workspace work --json > all; echo code $?");
    terminal.until_says("code 0");
    terminal.keys("$OSTLER artifact @last/says --path text > piped; $OSTLER artifact @last/says --path text");
    let screen = terminal.until_says("a\u{fffd}[31mred\u{fffd}");
    assert!(screen.lines().any(|line| line == "a\u{fffd}[31mred\u{fffd}"), "{screen}");
    assert_eq!(std::fs::read_to_string(terminal.world.path().join("piped")).unwrap(), GIVEN);
}

#[test]
fn nothing_that_a_terminal_obeys_is_printed_of_an_interjection() {
    let world = World::new();
    world.file("naps.yaml", &plan(NAP));
    let mut run = world.start("run naps.yaml --workspace work");
    run.until(&format!("opened: {SHOWN}"));
    for (line, shown) in [
        (&*format!("interject @last {GIVEN} --within 30m"), "held by node interjection-1"),
        ("approvals", WRITTEN),
        ("show @last", SHOWN),
        (&format!("reject @last interjection-1 --note {GIVEN}"), "rejected interjection-1"),
    ] {
        check(&world, line, 0, shown);
    }
    check_harmless("run", &run.end().exits(1).says("cancelled"));
}

#[test]
fn nothing_that_a_terminal_obeys_is_printed_of_a_run_that_was_set_aside() {
    let world = World::new();
    world.file("both.yaml", &plan(&(asks() + NAP)));
    let mut run = world.start("run both.yaml --workspace work");
    run.until("waits for a person");
    world.ostler("checkpoint @last").exits(0);
    check_harmless("run", &run.end().exits(3));
    check(&world, "resume", 0, &format!("({SHOWN}"));
    check(&world, "ps", 0, SHOWN);
}

#[test]
fn nothing_that_a_terminal_obeys_is_printed_of_what_is_refused() {
    let world = World::new();
    let node = |at: usize| format!("  - {{id: \"{WRITTEN}{at}\", tool: time.sleep, params: {{ms: 1}}}}\n");
    world.file("names.yaml", &plan(&(0..12).map(node).collect::<String>()));
    world.file("asks.yaml", &plan(&asks()));
    world.file(&format!("{GIVEN}.yaml"), "id: p\nnodes: 5\n");
    for (line, shown) in [
        ("check names.yaml", &*format!("more like these, of nodes {SHOWN}")),
        (&format!("check {GIVEN}.yaml"), &format!("[{SHOWN}")),
        (&format!("check {GIVEN}{GIVEN}.yaml"), &format!("cannot read {SHOWN}")),
        (&format!("check asks.yaml --param {GIVEN}=1"), &format!("write ${{{SHOWN}")),
        (&format!("check asks.yaml --param {GIVEN}=1 --param {GIVEN}=2"), &format!("--param {SHOWN}")),
        (&format!("run asks.yaml --workspace work --client {GIVEN}"), QUOTED),
    ] {
        check(&world, line, 2, shown);
    }
    check(&world, &format!("ps --data {GIVEN}"), 0, SHOWN);
}

#[test]
fn nothing_that_a_terminal_obeys_is_printed_of_cases_of_the_simulator() {
    let world = World::new();
    let case = |rest: &str| {
        let plan = r#"{"id": "p", "nodes": [{"id": "a", "contract": [{"method": "schema"}]}]}"#;
        format!("{{\"id\": \"{WRITTEN}\", \"plan\": {plan}{rest}}}\n")
    };
    world.file("differs.jsonl", &case(&format!(", \"expect\": {{\"{WRITTEN}\": 1}}")));
    world.file("twice.jsonl", &case("").repeat(2));
    world.file("wrong.jsonl", &case(r#", "replans": [{"ad": []}]"#));
    let trace = "{\"op\":\"client\",\"id\":\"ada\"}\n{\"op\":\"enqueue\",\"id\":\"job\",\"client\":\"ada\",\"est\":5}\n{\"op\":\"dispatch\"}\n";
    world.file("trace.jsonl", trace).file("trace.expected.jsonl", &format!("{GIVEN}\n"));
    for (line, code, shown) in [
        ("simulate graph differs.jsonl", 0, WRITTEN),
        ("simulate graph differs.jsonl --check", 1, &*format!("expect.{SHOWN}")),
        ("simulate graph differs.jsonl --check --json", 1, WRITTEN),
        ("simulate graph twice.jsonl", 2, QUOTED),
        ("simulate graph wrong.jsonl", 2, QUOTED),
        ("simulate queue trace.jsonl --check", 1, &format!("expected {SHOWN}")),
        ("simulate queue trace.jsonl --check --json", 1, WRITTEN),
    ] {
        check(&world, line, code, shown);
    }
}
