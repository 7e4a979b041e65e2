//! Approvals at a terminal.

use super::approvals::{OUTER, question, waiting, world};
use super::bound_files::DEPLOY;
use super::world::World;
use serde_json::json;
use std::io::Write;
use std::process::{Command, Stdio};

/// Runs a command at a pseudo-terminal, and types each text after its prompt: earlier input is discarded.
pub(crate) fn at_terminal(world: &World, line: &str, typed: &[(&str, &str)]) -> Option<(i32, String)> {
    at_terminal_after(world, line, typed, |_| ())
}

/// Like [`at_terminal`], and does `before` between a prompt and the text, given the place of the text among those typed.
fn at_terminal_after(
    world: &World,
    line: &str,
    typed: &[(&str, &str)],
    before: impl Fn(usize),
) -> Option<(i32, String)> {
    if Command::new("script").arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status().is_err() {
        return None;
    }
    let inner = world.command(line);
    let words = std::iter::once(inner.get_program()).chain(inner.get_args());
    let words: Vec<String> = words.map(|word| word.to_str().unwrap().to_owned()).collect();
    // An unanswered request waits an hour.
    let mut script = Command::new("timeout");
    script.args([
        "--foreground",
        "120",
        "script",
        "--quiet",
        "--return",
        "--flush",
        "--command",
        // A shell that stayed in between would be interrupted by the ^C as well.
        &format!("exec {}", words.join(" ")),
        "/dev/null",
    ]);
    script
        .current_dir(world.path())
        .env("OSTLER_DATA", world.data())
        .env("XDG_CONFIG_HOME", world.config())
        .env("TERM", "xterm")
        .env("USER", "ann");
    let mut child =
        script.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let (mut keys, mut screen) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
    let (mut said, mut from) = (String::new(), 0);
    let mut read = |said: &mut String| {
        let mut bytes = [0; 4_096];
        let count = std::io::Read::read(&mut screen, &mut bytes).unwrap_or(0);
        said.push_str(&String::from_utf8_lossy(&bytes[..count]));
        count > 0
    };
    for (at, (after, text)) in typed.iter().enumerate() {
        while !said[from..].contains(after) {
            assert!(read(&mut said), "it never said {after:?}:\n{said}");
        }
        from = said.len();
        before(at);
        keys.write_all(text.as_bytes()).unwrap();
        keys.flush().unwrap();
    }
    while read(&mut said) {}
    let code = child.wait().unwrap().code().unwrap();
    Some((code, said))
}

#[test]
fn a_person_at_the_terminal_is_asked_in_place() {
    let world = world();
    let run = "run write.yaml --workspace work";
    let Some((code, said)) = at_terminal(&world, run, &[("put > ", "maybe\n"), ("put > ", "y fine\n")])
    else {
        eprintln!("skipped: no `script` of util-linux, which makes a terminal");
        return;
    };
    assert_eq!(code, 0, "{said}");
    assert!(said.contains("approve this action?") && said.contains("text: \"hello\""), "{said}");
    assert_eq!(world.work("out.txt"), "hello");
    let answers = world.ostler("events @last --json").exits(0).lines();
    let answer = answers.iter().find(|line| line["kind"] == "human_answer").unwrap();
    assert_eq!(answer["body"]["note"], json!("fine"));
    // ^C leaves the request pending.
    let (code, said) =
        at_terminal(&world, "run question.yaml --workspace work", &[("ok > ", "\u{3}")]).unwrap();
    assert_eq!(code, 130, "{said}");
    assert_eq!(question(&world)["node"], "ok");
    let (code, said) = at_terminal(&world, "resume @last", &[("ok > ", "n\n")]).unwrap();
    assert_eq!(code, 1, "{said}");
}

#[test]
fn who_approves_at_a_terminal_is_shown_what_and_asked() {
    let world = world();
    waiting(&world, "write");
    for (typed, code) in [("\n", 3), ("n\n", 3), ("\u{3}", 130)] {
        let Some((ended, said)) = at_terminal(&world, "approve @last put", &[("or N > ", typed)]) else {
            eprintln!("skipped: no `script` of util-linux, which makes a terminal");
            return;
        };
        assert!(said.contains("text: \"hello\"") && said.contains("not answered"), "{said}");
        assert_eq!((ended, question(&world)["node"].as_str()), (code, Some("put")), "{said}");
    }
    let keys = [("or N > ", "what\n"), ("or N > ", "y as seen\n")];
    let (code, said) = at_terminal(&world, "approve @last put", &keys).unwrap();
    assert_eq!((code, world.work("out.txt").as_str()), (0, "hello"), "{said}");
    let answers = world.ostler("events @last --json").exits(0).lines();
    let answer = answers.iter().find(|line| line["kind"] == "human_answer").unwrap();
    assert_eq!(answer["body"]["note"], "as seen");
}

#[test]
fn a_question_in_a_run_below_is_asked_at_the_terminal() {
    let world = world();
    world.file("outer.yaml", OUTER);
    let run = "run outer.yaml --workspace work --intent 2";
    let Some((code, said)) = at_terminal(&world, run, &[("q > ", "y\n")]) else {
        eprintln!("skipped: no `script` of util-linux, which makes a terminal");
        return;
    };
    assert_eq!(code, 0, "{said}");
    assert!(said.contains("may I?"), "{said}");
}

#[test]
fn a_yes_at_the_terminal_to_a_script_that_changed_meanwhile_shows_the_question_again() {
    let world = world();
    world.file("deploy.yaml", DEPLOY).file("work/deploy.sh", "echo evil > out\n");
    let run = "run deploy.yaml --workspace work --intent 2";
    let change = |at| {
        if at == 0 {
            world.file("work/deploy.sh", "echo kind > out\n");
        }
    };
    let answered = at_terminal_after(&world, run, &[("go > ", "y\n"), ("go > ", "y\n")], change);
    let Some((code, said)) = answered else {
        eprintln!("skipped: no `script` of util-linux, which makes a terminal");
        return;
    };
    assert_eq!(code, 0, "{said}");
    assert!(said.contains("not accepted: question 1 of node go is closed: the work has changed"), "{said}");
    assert!(said.contains("changed since the question was asked: deploy.sh (b3:"), "{said}");
    assert!(said.contains("│ -echo evil > out"), "{said}");
    assert_eq!(world.work("out"), "kind\n");
}
