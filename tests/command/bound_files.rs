//! An approval holds for the files that a program names, as they were when the person was asked.

use serde_json::{Value, json};

use super::approvals::{approve, question, world};
use super::world::World;

pub(super) const DEPLOY: &str = r#"
id: deploy
nodes:
  - id: go
    tool: shell.run
    params: {argv: [sh, ./deploy.sh, now]}
    approval: before
    human_timeout: 1h
"#;

fn deploying(script: &str) -> World {
    let world = world();
    world.file("deploy.yaml", DEPLOY).file("work/deploy.sh", script);
    world.ostler("run deploy.yaml --workspace work --intent 2").exits(3);
    world
}

fn file(world: &World) -> Value {
    question(world)["files"][0].clone()
}

#[test]
fn a_script_that_runs_is_the_one_that_was_approved() {
    let world = deploying("echo kind > out\n");
    assert_eq!(file(&world)["path"], "deploy.sh");
    world.ostler("approvals").exits(0).says("goes by deploy.sh (b3:");
    approve(&world, "").exits(0);
    assert_eq!(world.work("out"), "kind\n");
}

#[test]
fn a_question_shows_what_b3sum_prints_of_a_file() {
    let world = world();
    world.file("deploy.yaml", &DEPLOY.replace("./deploy.sh, now", "abc.sh")).file("work/abc.sh", "abc");
    world.ostler("run deploy.yaml --workspace work --intent 2").exits(3);
    world.ostler("approvals").exits(0).says("    goes by abc.sh (b3:6437b3ac38465133ffb63b75273a8db5)\n");
}

#[test]
fn a_script_that_was_changed_meanwhile_is_asked_about_again_with_the_difference() {
    let world = deploying("set -e\necho kind > out\n");
    let asked = question(&world);
    world.file("work/deploy.sh", "set -e\necho evil > out\n");
    let listed =
        world.ostler("approvals").exits(0).says("changed since the question was asked: deploy.sh (b3:");
    listed.says("│ -echo kind > out\n    │ +echo evil > out").says("files or the workspace have changed");
    let yes = format!("approve @last go --digest {}", asked["digest"].as_str().unwrap());
    world.ostler(&yes);
    assert_eq!(world.work("out"), "", "an approval of something else");
    let again = question(&world);
    assert_ne!(again["digest"], asked["digest"]);
    assert_eq!(again["files"][0]["was"], asked["files"][0]["digest"]);
    assert_eq!(again["files"][0]["difference"], json!(["-echo kind > out", "+echo evil > out"]));
    // What is approved now is what runs.
    approve(&world, "").exits(0);
    assert_eq!(world.work("out"), "evil\n");
}

/// The plan's only slot is taken by a step that can write the script, so that step decides when the approved call starts.
#[test]
fn a_script_that_is_another_one_while_the_person_looks_is_asked_about_again() {
    let world = world();
    let build = "policy: {slots: 1}\nnodes:\n  - id: build\n    tool: shell.run\n    timeout: 90s\n    \
                 params: {argv: [sh, -c, \"until [ -e built ]; do sleep 0.1; done\"]}";
    world.file("deploy.yaml", &DEPLOY.replace("nodes:", build));
    world.file("work/deploy.sh", "echo evil > out\n");
    let mut run = world.start("run deploy.yaml --workspace work --intent 2 --json");
    run.until("human_request");
    let asked = question(&world);
    world.file("work/deploy.sh", "echo kind > out\n");
    let yes = |asked: &Value| format!("approve @last go --digest {}", asked["digest"].as_str().unwrap());
    let told = world.ostler(&yes(&asked)).exits(2);
    told.complains(
        "question 1 of node go is closed: the work has changed; `ostler approvals` shows question 2",
    );
    let again = question(&world);
    assert_eq!(again["files"][0]["difference"], json!(["-echo evil > out", "+echo kind > out"]));
    let also = format!("{} --for 1h --also", yes(&again));
    world.file("work/deploy.sh", "echo evil > out\n");
    let mut granting = world.command(&also);
    let told = granting.arg("sh ./deploy.sh *").output().unwrap();
    assert!(String::from_utf8_lossy(&told.stderr).contains("shows question 3"), "{told:?}");
    world.ostler("approvals --grants").exits(0).complains("no grant");
    world.file("work/deploy.sh", "echo kind > out\n").file("work/built", "");
    run.end().exits(3);
    assert_eq!(world.work("out"), "", "an approval of something else");
    // The question shows the other script now: a yes asks once more, and the next one counts.
    world.ostler(&yes(&question(&world))).exits(2).complains("shows question 4");
    approve(&world, "").exits(0);
    assert_eq!(world.work("out"), "kind\n");
}

#[test]
fn files_that_a_program_reads_without_being_told_are_bound_too() {
    let world = world();
    let plan = DEPLOY.replace("[sh, ./deploy.sh, now]", "[env, make, check]");
    world.file("make.yaml", &plan).file("work/Makefile", "check:\n\techo kind > out\n");
    world.ostler("run make.yaml --workspace work --intent 2").exits(3);
    let asked = question(&world);
    assert_eq!(asked["files"][0]["path"], "Makefile");
    // GNU make prefers this one.
    world.file("work/GNUmakefile", "check:\n\techo evil > out\n");
    world.ostler(&format!("approve @last go --digest {}", asked["digest"].as_str().unwrap()));
    assert_eq!(world.work("out"), "");
    world.ostler("approvals").exits(0).says("new since the question was asked: GNUmakefile");
}

#[test]
fn what_a_step_writes_where_no_word_of_a_call_leads_is_asked_about_again() {
    let world = world();
    let plan = DEPLOY.replace("[sh, ./deploy.sh, now]", r#"[sh, -c, "D=.; sh $D/$(cat name)"]"#);
    let write = |text: &str| {
        let params = json!({"path": "x.sh", "text": text, "mode": "replace"});
        json!({"id": "w", "nodes": [{"id": "w", "tool": "fs.write", "params": params}]}).to_string()
    };
    world.file("deploy.yaml", &plan).file("work/name", "x.sh").file("work/x.sh", "echo kind > out\n");
    world.file("evil.json", &write("echo evil > out\n")).file("kind.json", &write("echo kind > out\n"));
    world.ostler("run deploy.yaml --workspace work --intent 2").exits(3);
    let run = question(&world)["run"].as_str().unwrap().to_owned();
    let yes = |also: &str| {
        let digest = question(&world)["digest"].as_str().unwrap().to_owned();
        let mut command = world.command(&format!("approve {run} go --digest {digest}"));
        if !also.is_empty() {
            command.args(["--for", "1h", "--also", also]);
        }
        command.output().unwrap()
    };
    world.ostler("run evil.json --workspace work --intent 1").exits(0);
    let told = "other steps have written in the workspace since the question was asked";
    world.ostler("approvals").exits(0).says(told);
    assert_eq!(yes("").status.code(), Some(2));
    assert_eq!(world.work("out"), "", "an approval of something else");
    world.ostler("approvals").exits(0).says(told);
    world.ostler("run kind.json --workspace work --intent 1").exits(0);
    assert_eq!(yes("").status.code(), Some(2));
    assert_eq!(yes("sh -c *").status.code(), Some(0));
    assert_eq!(world.work("out"), "kind\n");
    // A grant is for the time to come, in which steps write.
    world.ostler("run evil.json --workspace work --intent 1").exits(0);
    // A call that it covers is not one that a person has seen.
    world.file("other.yaml", &DEPLOY.replace("./deploy.sh, now", "x.sh"));
    world.ostler("run other.yaml --workspace work --intent 2").exits(3);
    let other = question(&world);
    world.ostler("run deploy.yaml --workspace work --intent 2").exits(0);
    assert_eq!(world.work("out"), "evil\n");
    let (other, digest) = (other["run"].as_str().unwrap(), other["digest"].as_str().unwrap());
    world.ostler(&format!("approve {other} go --digest {digest}")).exits(2).complains("shows question 2");
}

#[test]
fn a_file_that_a_grant_leaves_free_may_change_until_the_start() {
    let world = world();
    world.file("work/deploy.sh", "cat $1 > out\n").file("work/f.txt", "first\n");
    world.file("grant.yaml", &DEPLOY.replace("./deploy.sh, now", "deploy.sh, x"));
    world.ostler("run grant.yaml --workspace work --intent 2").exits(3);
    let digest = question(&world)["digest"].as_str().unwrap().to_owned();
    let mut granting = world.command(&format!("approve @last go --digest {digest} --for 1h --also"));
    granting.arg("sh deploy.sh *").output().unwrap();
    let build = "policy: {slots: 1}\nnodes:\n  - id: build\n    tool: shell.run\n    timeout: 90s\n    \
                 params: {argv: [sh, -c, \"until [ -e built ]; do sleep 0.1; done\"]}";
    world.file("run.yaml", &DEPLOY.replace("nodes:", build).replace("./deploy.sh, now", "deploy.sh, f.txt"));
    let mut run = world.start("run run.yaml --workspace work --intent 2 --json");
    run.until("human_answer");
    world.file("work/f.txt", "second\n").file("work/built", "");
    run.end().exits(0);
    assert_eq!(world.work("out"), "second\n");
    let events = world.ostler("events @last --json").exits(0).out;
    assert_eq!(events.matches("\"human_request\"").count(), 1, "asked once: {events}");
}

/// Byte code of Python runs in the place of its source.
#[test]
fn byte_code_that_is_planted_beside_an_approved_module_is_asked_about() {
    let world = world();
    world.file("tool.yaml", &DEPLOY.replace("[sh, ./deploy.sh, now]", "[env, A=1, python3, -m, tool]"));
    world.file("work/tool.py", "open('out', 'w').write('kind')\n");
    world.ostler("run tool.yaml --workspace work --intent 2").exits(3);
    let asked = question(&world);
    assert_eq!(asked["files"][0]["path"], "tool.py");
    let plant = "import importlib._bootstrap_external as b, importlib.util as u, pathlib\n\
                 evil = compile(\"open('out', 'w').write('evil')\", 'tool.py', 'exec')\n\
                 place = pathlib.Path(u.cache_from_source('tool.py'))\n\
                 place.parent.mkdir()\n\
                 place.write_bytes(b._code_to_hash_pyc(evil, b'12345678', False))\n";
    let mut python = std::process::Command::new("python3");
    python.args(["-c", plant]).current_dir(world.path().join("work"));
    assert!(python.status().unwrap().success());
    world.ostler(&format!("approve @last go --digest {}", asked["digest"].as_str().unwrap()));
    assert_eq!(world.work("out"), "", "an approval without the byte code");
    world.ostler("approvals").exits(0).says("new since the question was asked: __pycache__/tool.");
}

#[test]
fn a_program_behind_a_launcher_that_the_search_path_finds_in_the_workspace_is_bound() {
    let world = world();
    world.file("tool.yaml", &DEPLOY.replace("[sh, ./deploy.sh, now]", "[sh, -c, exec tool x]"));
    std::fs::create_dir(world.path().join("work/bin")).unwrap();
    world.file("work/bin/tool", "#!/bin/sh\n");
    let mut run = world.command("run tool.yaml --workspace work --intent 2");
    let path = format!("{}:{}", world.path().join("work/bin").display(), std::env::var("PATH").unwrap());
    assert_eq!(run.env("PATH", &path).output().unwrap().status.code(), Some(3));
    let listed = world.command("approvals --json").env("PATH", &path).output().unwrap();
    let listed = String::from_utf8(listed.stdout).unwrap();
    assert!(listed.contains("\"path\":\"bin/tool\""), "{listed}");
}

/// A file tool writes through links within the workspace, so an approval holds for the file that it showed.
#[test]
fn a_link_that_comes_in_the_place_of_an_approved_file_is_another_question() {
    let world = world();
    let plan = "id: p\nnodes:\n  - {id: go, tool: fs.write, approval: before, human_timeout: 1h, params: {path: docs/x.sh, mode: replace, text: new}}\n";
    std::fs::create_dir(world.path().join("work/docs")).unwrap();
    world.file("p.yaml", plan).file("work/deploy.sh", "old");
    world.ostler("run p.yaml --workspace work").exits(3);
    let digest = question(&world)["digest"].clone();
    std::os::unix::fs::symlink("../deploy.sh", world.path().join("work/docs/x.sh")).unwrap();
    world.ostler(&format!("approve @last go --digest {}", digest.as_str().unwrap()));
    assert_eq!(world.work("deploy.sh"), "old");
    let asked = question(&world);
    assert_eq!(asked["files"][0]["path"], "docs/x.sh", "{asked:#}");
    world.ostler("approvals").exits(0).says("docs/x.sh");
    approve(&world, "").exits(0);
    assert_eq!(world.work("deploy.sh"), "new");
}

/// A call whose approval must not hold: the question says why, and a yes asks again.
#[track_caller]
fn check_holds_no_approval(world: &World, why: &str) {
    let asked = question(world);
    world.ostler("approvals").exits(0).says(&format!("would fail: {why}"));
    world.ostler(&format!("approve @last go --digest {}", asked["digest"].as_str().unwrap()));
    assert_eq!(world.work("out"), "", "an approval that holds for nothing");
    assert_ne!(question(world)["digest"], asked["digest"]);
}

/// The program resolves such a link by its own folder, and would run another file than the one that a person looks at.
#[test]
fn a_link_through_the_folder_of_a_process_holds_no_approval() {
    let world = world();
    std::fs::create_dir(world.path().join("work/sub")).unwrap();
    let plan = DEPLOY.replace("./deploy.sh, now]", "deploy.sh], cwd: sub");
    world.file("deploy.yaml", &plan).file("x.sh", "echo kind > out\n");
    world.file("work/sub/x.sh", "echo evil > ../out\n");
    let link = world.path().join("work/sub/deploy.sh");
    std::os::unix::fs::symlink("/proc/self/cwd/x.sh", &link).unwrap();
    world.ostler("run deploy.yaml --workspace work --intent 2").exits(3);
    check_holds_no_approval(
        &world,
        "sub/deploy.sh leads through the folder of a process (/proc/self, /dev/fd)",
    );
    // A file in its place is bound like any other.
    std::fs::remove_file(&link).unwrap();
    world.file("work/sub/deploy.sh", "echo kind > ../out\n");
    approve(&world, "");
    assert_eq!(world.work("out"), "", "the file came after the question");
    approve(&world, "").exits(0);
    assert_eq!(world.work("out"), "kind\n");
}

#[test]
fn a_pipe_in_the_place_of_a_script_holds_no_approval() {
    let world = world();
    world.file("deploy.yaml", DEPLOY);
    let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
    rustix::fs::mkfifoat(rustix::fs::CWD, world.path().join("work/deploy.sh"), mode).unwrap();
    world.ostler("run deploy.yaml --workspace work --intent 2").exits(3);
    check_holds_no_approval(
        &world,
        "deploy.sh is a pipe: its content is not bound, so no approval of the call holds",
    );
}

#[test]
fn a_script_in_a_further_folder_that_steps_may_write_is_bound() {
    let world = world();
    let cache = world.path().join("cache");
    std::fs::create_dir(&cache).unwrap();
    let write = format!("[tools.shell]\nwrite = [{cache:?}]\n");
    let script = cache.join("deploy.sh").display().to_string();
    world.file("ostler.toml", &write).file("cache/deploy.sh", "echo kind > out\n");
    world.file("deploy.yaml", &DEPLOY.replace("./deploy.sh", &script));
    world.ostler("run deploy.yaml --workspace work --intent 2 --config ostler.toml").exits(3);
    let listed = world.ostler("approvals --json --config ostler.toml").exits(0).lines().remove(0);
    assert_eq!(listed["files"][0]["path"], *script);
    world.file("cache/deploy.sh", "echo evil > out\n");
    let digest = listed["digest"].as_str().unwrap();
    world.ostler(&format!("approve @last go --config ostler.toml --digest {digest}"));
    assert_eq!(world.work("out"), "");
}

#[test]
fn a_script_in_the_workspace_of_another_run_is_bound_by_its_content() {
    let world = world();
    let other = world.path().join("other");
    std::fs::create_dir(&other).unwrap();
    world.file("ostler.toml", &format!("[sandbox]\nread = [{other:?}]\n"));
    std::os::unix::fs::symlink("../other/deploy.sh", world.path().join("work/deploy.sh")).unwrap();
    let write = |text: &str| {
        let plan = format!(
            "id: write\nnodes:\n  - id: w\n    tool: fs.write\n    params: {{path: deploy.sh, mode: replace, text: {text:?}}}\n"
        );
        world.file("write.yaml", &plan);
        world.ostler("run write.yaml --workspace other --config ostler.toml").exits(0);
    };
    let absolute = other.join("deploy.sh").display().to_string();
    for (script, path) in [("./deploy.sh", "deploy.sh"), (&absolute, &*absolute)] {
        write("echo kind > out\n");
        world.file("deploy.yaml", &DEPLOY.replace("./deploy.sh", script));
        world.ostler("run deploy.yaml --workspace work --intent 2 --config ostler.toml").exits(3);
        let listed = world.ostler("approvals --json --config ostler.toml").exits(0).lines();
        let asked = listed.last().unwrap();
        assert_eq!(asked["files"][0]["path"], *path);
        let digest = asked["digest"].as_str().unwrap();
        write("echo evil > out\n");
        let (run, yes) = (asked["run"].as_str().unwrap(), format!("--config ostler.toml --digest {digest}"));
        world.ostler(&format!("approve {run} go {yes}"));
        assert_eq!(world.work("out"), "", "{script}");
    }
}
