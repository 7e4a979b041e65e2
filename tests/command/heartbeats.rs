//! Programs with and without heartbeats.

use std::io::Read;

use super::world::{World, until};

/// Three steps with a line in `log` each; hangs after the second while `hang` exists.
const COPY: &str = r#"
i=${OSTLER_RESUME_TOKEN:-done-0}
i=${i#done-}
echo "from $i" >> log
while [ "$i" -lt 3 ]; do
  i=$((i + 1))
  echo "step $i" >> log
  echo "done-$i" > "$OSTLER_PROGRESS"
  if [ "$i" = 2 ] && [ -e hang ]; then sleep 60; fi
done
"#;

fn world(heartbeat: &str, retries: u32) -> World {
    let world = World::new();
    let plan = format!(
        "id: copy\nnodes:\n  - id: copy\n    tool: shell.run\n    params: {{argv: [sh, copy.sh]}}\n    \
         idem: natural\n    timeout: 50s\n    heartbeat_timeout: {heartbeat}\n    retries: {retries}\n"
    );
    world.file("copy.yaml", &plan).file("work/copy.sh", COPY);
    world
}

const RUN: &str = "run copy.yaml --workspace work --intent 2";

#[test]
fn a_silent_program_is_ended_and_the_next_attempt_goes_on_from_its_token() {
    let world = world("4s", 1);
    std::fs::write(world.path().join("work/hang"), "").unwrap();
    let mut run = world.start(RUN);
    run.until("no sign of life for 4000 ms, which is its heartbeat_timeout");
    std::fs::remove_file(world.path().join("work/hang")).unwrap();
    run.end().exits(0).says("succeeded");
    assert_eq!(world.work("log"), "from 0\nstep 1\nstep 2\nfrom 2\nstep 3\n");
}

#[test]
fn after_a_kill_the_next_attempt_goes_on_from_the_token() {
    let world = world("40s", 0);
    std::fs::write(world.path().join("work/hang"), "").unwrap();
    let mut run = world.start("run copy.yaml --workspace work --intent 2 --json");
    run.until("attempt_intent");
    until("two steps are done", || world.work("log").ends_with("step 2\n"));
    until("the second token is written down", || journal_holds(&world, b"done-2"));
    run.signal("KILL");
    let ended = run.end();
    assert_eq!(ended.code, None, "{ended:?}");
    std::fs::remove_file(world.path().join("work/hang")).unwrap();
    world.ostler("resume").exits(0).says("succeeded");
    assert_eq!(world.work("log"), "from 0\nstep 1\nstep 2\nfrom 2\nstep 3\n");
    world.ostler("doctor").exits(0).says("nothing is broken");
}

/// Searches the journal, which is short.
fn journal_holds(world: &World, text: &[u8]) -> bool {
    let segments = std::fs::read_dir(world.data().join("journal")).unwrap();
    segments.map(|entry| entry.unwrap().path()).any(|path| {
        let mut bytes = Vec::new();
        let Ok(file) = std::fs::File::open(path) else { return false };
        file.take(64 << 10).read_to_end(&mut bytes).unwrap_or_default();
        bytes.windows(text.len()).any(|window| window == text)
    })
}

#[test]
fn without_a_heartbeat_timeout_a_program_is_told_of_no_pipe() {
    let world = World::new();
    let argv = "argv: [sh, -c, 'echo \"$${OSTLER_PROGRESS-none}\" > log']";
    world.file("plain.yaml", &format!("id: p\nnodes:\n  - {{id: a, tool: shell.run, params: {{{argv}}}}}\n"));
    world.ostler("run plain.yaml --workspace work --intent 2").exits(0);
    assert_eq!(world.work("log"), "none\n");
}

#[test]
fn a_heartbeat_timeout_is_less_than_the_timeout() {
    let world = world("50s", 0);
    world.ostler("check copy.yaml").exits(2).complains(
        "heartbeat_timeout is 50000 ms, expected more than 0 and less than the timeout of 50000 ms",
    );
    let world = self::world("49s", 0);
    world.ostler("check copy.yaml").exits(0);
    let node = r#"{"id": "a", "timeout": 9, "heartbeat_timeout": 8, "contract": [{"method": "schema"}]}"#;
    let case =
        format!(r#"{{"id": "c", "title": "t", "plan": {{"id": "p", "nodes": [{node}]}}, "expect": {{}}}}"#);
    world.file("cases.jsonl", &format!("{case}\n"));
    world.ostler("simulate graph cases.jsonl").exits(0).says("\"succeeded\"");
}
