//! Who decides is proven by an operator key.

use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::path::Path;

use serde_json::{Value, json};

use super::approvals::{approve, question, waiting, world};
use super::world::{Ended, World};

/// Runs a command as a user with another configuration folder.
fn as_other(world: &World, config: &Path, line: &str) -> Ended {
    let output = world.command(line).env("XDG_CONFIG_HOME", config).output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    Ended { code: output.status.code(), out: text(output.stdout), err: text(output.stderr) }
}

fn answers(world: &World) -> Vec<Value> {
    let lines = world.ostler("events @last --json").exits(0).lines();
    lines.into_iter().filter(|line| line["kind"] == "human_answer").collect()
}

fn account() -> String {
    let output = std::process::Command::new("id").arg("-un").output().unwrap();
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

/// Sends a request without a proof, and gives the problem.
fn refused(world: &World, path: &str, body: &Value) -> Value {
    let body = body.to_string();
    let mut stream = UnixStream::connect(world.data().join("control.sock")).unwrap();
    let head = format!(
        "POST {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );
    stream.write_all((head + &body).as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 403"), "{answer}");
    serde_json::from_str(answer.split_once("\r\n\r\n").unwrap().1).unwrap()
}

#[test]
fn a_key_is_made_by_the_first_command_and_is_the_users_alone() {
    let world = world();
    waiting(&world, "write");
    let file = world.config().join("ostler/ostler-operator.key");
    assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    let key = world.ostler("operator key").exits(0).out;
    world.ostler("operator ls").exits(0).says(key.trim()).says(&account());
    approve(&world, "").exits(0);
    assert_eq!(answers(&world)[0]["body"]["by"], json!(account()), "what was proven, not what $USER says");
}

#[test]
fn who_has_another_key_decides_nothing_and_is_told_what_to_type() {
    let world = world();
    waiting(&world, "write");
    let digest = question(&world)["digest"].as_str().unwrap().to_owned();
    let other = tempfile::tempdir().unwrap();
    for line in [
        &*format!("approve @last put --digest {digest}"),
        "reject @last put",
        "skip @last put",
        "interject @last wait",
        "retract --tool fs.write",
        "fork @last --at 1",
        "client add acme --credit 5",
        "credit local +5",
        "run write.yaml --workspace work --intent 2",
        "operator add ed25519:2152f8d19b791d24453242e15f2eab6cb7cffa7b6a5ed30097960e069881db12",
    ] {
        let ended = as_other(&world, other.path(), line).exits(6);
        ended.complains("does not accept the operator key").complains("ostler operator add ed25519:");
    }
    assert_eq!((answers(&world).len(), world.work("out.txt").as_str()), (0, ""));
    // To look and to stop needs no key.
    as_other(&world, other.path(), "approvals").exits(0);
    as_other(&world, other.path(), "cancel @last").exits(0);
}

#[test]
fn resuming_all_runs_is_refused_with_the_same_exit_code_as_resuming_one() {
    let world = world();
    let mut run = world.start("run long.yaml --workspace work");
    run.until("opened: long");
    run.signal("KILL");
    run.end();
    let other = tempfile::tempdir().unwrap();
    for line in ["resume @last", "resume"] {
        as_other(&world, other.path(), line).exits(6).complains("does not accept the operator key");
    }
}

#[test]
fn a_key_that_others_can_read_proves_nothing() {
    let world = world();
    waiting(&world, "write");
    let file = world.config().join("ostler/ostler-operator.key");
    std::fs::set_permissions(&file, PermissionsExt::from_mode(0o644)).unwrap();
    world.ostler("reject @last put").exits(6).complains("chmod 600 ");
    std::fs::set_permissions(&file, PermissionsExt::from_mode(0o600)).unwrap();
    world.ostler("reject @last put").exits(1);
}

#[test]
fn over_the_socket_too_a_decision_is_proven() {
    let world = world();
    let mut run = world.start("run long.yaml --workspace work");
    run.until("opened: long");
    for (path, body) in [
        ("/v1/approvals/01a20102-2c94-71bb-939a-5ded1fe8a3c2:a:1", json!({})),
        ("/v1/runs/@last/resolve", json!({})),
        ("/v1/runs/@last/interject", json!({})),
        ("/v1/runs/@last/resume", json!({})),
        ("/v1/runs/@last/nodes/nap/skip", json!({})),
        ("/v1/clients/acme", json!({"credits": 5})),
        ("/v1/clients/acme/remove", json!({})),
        ("/v1/agents/a/release", json!({})),
        ("/v1/operators", json!({})),
        ("/v1/retractions", json!({"tool": "t"})),
        ("/v1/runs/@last/fork", json!({"at": 1})),
        ("/v1/retractions/w1/lift", json!({})),
        ("/v1/runs", json!({"plan": {"id": "p", "nodes": []}, "workspace": "/", "intent": 2})),
    ] {
        let problem = refused(&world, path, &body);
        assert_eq!(problem["code"], "operator_unproven", "{path}: {problem}");
        assert!(problem["challenge"].is_string(), "{problem}");
    }
    // With the key, the holder obeys another process.
    world.ostler("client add acme --credit 5").exits(0).says("5 credits left");
    world.ostler("cancel @last").exits(0);
    run.end().exits(1);
}

#[test]
fn operators_are_added_and_removed_by_operators() {
    let world = world();
    waiting(&world, "write");
    let other = tempfile::tempdir().unwrap();
    let own = world.ostler("operator key").exits(0).out.trim().to_owned();
    let key = as_other(&world, other.path(), "operator key").exits(0).out.trim().to_owned();
    as_other(&world, other.path(), &format!("operator add {key}")).exits(6);
    // Whoever has the secret key of an operator proves it with --with: so a key is replaced.
    let old = world.config().join("ostler/ostler-operator.key");
    let with = format!("--with {}", old.display());
    as_other(&world, other.path(), &format!("operator add {key} --name eve {with}")).exits(0).says("eve");
    as_other(&world, other.path(), &format!("operator remove {own}")).exits(0);
    as_other(&world, other.path(), &format!("operator remove {key}"))
        .exits(2)
        .complains("is the last operator key");
    world.ostler("reject @last put").exits(6);
    as_other(&world, other.path(), "reject @last put").exits(1);
    assert_eq!(answers(&world)[0]["body"]["by"], "eve");
}

/// Of two steps of impact 1, one writes what the other runs: it forks away from the run, without any sign of it, and answers the run's
/// question. Gives what the command said to it.
fn attack(world: &World, config: &Path) -> String {
    let ostler = env!("CARGO_BIN_EXE_ostler");
    let (data, config) = (world.data(), config.display());
    let ask = format!("{ostler} --data {}", data.display());
    let script = format!(
        "export XDG_CONFIG_HOME={config}\n\
         digest=$({ask} approvals --json | tail -n 1 | sed 's/.*\"digest\":\"\\([^\"]*\\)\".*/\\1/')\n\
         {ask} approve @last ok --digest $digest > said 2>&1\necho exit $? >> said\nmv said told\n"
    );
    let makefile =
        "check:\n\t(setsid env -i PATH=\"$(PATH)\" sh attack.sh &)\n\twhile [ ! -e told ]; do :; done\n";
    let write = |path: &str, text: &str| json!({"path": path, "text": text, "mode": "create"});
    let plan = json!({"id": "escape", "nodes": [
        {"id": "ok", "kind": "human_approval", "params": {"question": "May I?"}, "human_timeout": "1h"},
        {"id": "makefile", "tool": "fs.write", "params": write("Makefile", makefile)},
        {"id": "script", "tool": "fs.write", "params": write("attack.sh", &script)},
        {"id": "check", "tool": "shell.run", "params": {"argv": ["make", "check"]}, "deps": ["makefile", "script"]},
    ]});
    world.file("escape.json", &plan.to_string());
    // The key stays hidden even if the configuration shows programs its folder.
    let shown = [Path::new(ostler).parent().unwrap(), world.config()];
    let allow = "[[tools.shell.allow]]\nargv = [\"make\", \"*\"]\nimpact = 1\neffect = \"write\"\n";
    world.file("own.toml", &format!("{allow}[sandbox]\nread = {shown:?}\n"));
    world.ostler("run escape.json --workspace work --config own.toml").exits(3).says("check     executed");
    world.work("told")
}

#[test]
fn a_step_that_slips_away_cannot_approve_its_own_run() {
    let world = World::new();
    let own = tempfile::tempdir().unwrap();
    // With a key of its own, and where the user's key is.
    for config in [own.path(), world.config()] {
        let told = attack(&world, config);
        assert!(!told.is_empty() && !told.contains("exit 0"), "{told}");
        assert_eq!(answers(&world), Vec::<Value>::new());
        std::fs::remove_dir_all(world.path().join("work")).unwrap();
        std::fs::create_dir(world.path().join("work")).unwrap();
    }
}

#[test]
fn no_program_and_no_tool_reads_the_key() {
    let world = world();
    waiting(&world, "write");
    let key = world.config().join("ostler/ostler-operator.key");
    world.file("own.toml", &format!("[sandbox]\nread = [{:?}]\n", world.config()));
    let plan = |node: Value| json!({"id": "peek", "nodes": [node]}).to_string();
    world.file(
        "cat.json",
        &plan(json!({"id": "a", "tool": "shell.run", "params": {"argv": ["cat", key]}, "retries": 0})),
    );
    let secret = std::fs::read_to_string(&key).unwrap();
    let ended = world.ostler("run cat.json --workspace work --config own.toml").exits(1);
    assert!(!ended.out.contains(secret.trim()), "{}", ended.out);
    let path = "ostler/ostler-operator.key";
    world.file(
        "read.json",
        &plan(json!({"id": "a", "tool": "fs.read", "params": {"path": path}, "retries": 0})),
    );
    let read = format!("run read.json --workspace {}", world.config().display());
    world.ostler(&read).exits(1).says("the folder of an operator key");
}

#[test]
fn a_damaged_list_of_keys_locks_nobody_out_of_looking() {
    let world = World::new();
    world.file(
        "plan.yaml",
        "id: p\nnodes:\n  - {id: a, kind: human_approval, params: {question: Sure?}, human_timeout: 1h}\n",
    );
    world.ostler("run plan.yaml --workspace work").exits(3);
    let list = world.data().join("operators");
    let mut bytes = std::fs::read(&list).unwrap();
    bytes[0] = 0;
    std::fs::write(&list, &bytes).unwrap();
    // The comment is damaged; the key below counts.
    world.ostler("ps").exits(0);
    world.ostler("doctor").exits(4).says("line 1").says("put its line right, or delete it");
    world.ostler("lockdown on").exits(0);
    world.ostler("lockdown off").exits(0);
    std::fs::write(&list, "ed25519:00 ann\n").unwrap();
    world.ostler("ps").exits(0);
    world.ostler("lockdown on").exits(6).complains("is damaged").complains("line 1");
}

#[test]
fn a_pipe_in_the_place_of_the_list_of_operators_is_refused() {
    let world = World::new();
    world.ostler("ps --all").exits(0);
    world.file("p.yaml", "id: p\nnodes:\n  - {id: a, tool: fs.list, params: {path: .}}\n");
    world.ostler("run p.yaml --workspace work").exits(0);
    let list = world.data().join("operators");
    let _ = std::fs::remove_file(&list);
    assert!(std::process::Command::new("mkfifo").arg(&list).status().unwrap().success());
    let told = world.ostler("run p.yaml --workspace work");
    assert!(told.code != Some(0) && told.err.contains("expected a file of at most"), "{told:?}");
}
