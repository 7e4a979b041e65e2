//! Invalid and oversized plans: a clear error, exit code 2, and no hang.

use std::os::unix::fs::symlink;
use std::process::Command;
use std::time::{Duration, Instant};

use super::world::{Ended, World};

/// Longer than any of these commands takes, and shorter than a hang.
const SOON: Duration = Duration::from_secs(60);

/// Asserts that a command rejects its input quickly, without a panic.
#[track_caller]
fn refused(world: &World, line: &str) -> Ended {
    let begun = Instant::now();
    let ended = world.ostler(line).exits(2);
    assert!(begun.elapsed() < SOON, "{line} took {:?}", begun.elapsed());
    assert!(!ended.err.contains("panicked"), "{}", ended.err);
    assert!(!world.data().exists(), "what is refused leaves nothing");
    ended
}

#[test]
fn what_a_terminal_obeys_in_a_name_or_title_is_not_printed() {
    let world = World::new();
    let plan = r#"{id: "evil\e[31mred\nline2", title: "a\e]0;pwn\a", nodes: [{id: a, tool: fs.list, params: {path: .}}]}"#;
    world.file("evil.yaml", plan);
    for (line, told) in [
        ("check evil.yaml --workspace work", "valid evil\u{fffd}[31mred: a\u{fffd}]0;pwn\u{fffd}\n"),
        ("run evil.yaml --workspace work", "opened: evil\u{fffd}[31mred, 1 node\n"),
    ] {
        let ended = world.ostler(line).exits(0).says(told);
        let obeyed = |c: char| c.is_control() && c != '\n';
        assert!(!ended.out.contains(obeyed) && !ended.out.contains("line2"), "{:?}", ended.out);
    }
}

#[test]
fn faults_are_told_in_a_pipe_in_colours_where_these_are_asked_for() {
    let world = World::new();
    world.file("bad.yaml", "id: bad\nnodes:\n  - {id: a, tol: fs.list, params: {path: .}}\n");
    for (variables, coloured) in [
        (&[][..], false),
        (&[("CLICOLOR_FORCE", "1")], true),
        (&[("CLICOLOR_FORCE", "0")], false),
        (&[("CLICOLOR_FORCE", "1"), ("NO_COLOR", "1")], false),
    ] {
        for line in ["check bad.yaml", "run bad.yaml --workspace work"] {
            let mut command = world.command(line);
            command.env_remove("CLICOLOR_FORCE").env_remove("NO_COLOR").envs(variables.iter().copied());
            let ended = command.output().unwrap();
            let said = String::from_utf8(ended.stderr).unwrap();
            assert_eq!(ended.status.code(), Some(2), "{said}");
            assert!(said.contains("unknown key \"tol\""), "{said}");
            assert_eq!(said.contains("\u{1b}["), coloured, "{line} {variables:?}: {said:?}");
        }
    }
}

#[test]
fn a_folder_in_the_place_of_a_file_is_told_so_with_a_file_to_name() {
    let world = World::new();
    let good = "id: p\nnodes: [{id: a, tool: time.sleep, params: {ms: 1}}]\n";
    std::fs::create_dir(world.path().join("plans")).unwrap();
    world.file("plans/b.yaml", good).file("plans/c.yaml", good).file("plans/a.md", "# Plans\n");
    world.file("plans/a.toml", "[tools.http]\nreal = true\n");
    std::fs::create_dir(world.path().join("empty")).unwrap();
    std::fs::create_dir(world.path().join("plans/a.yaml")).unwrap();
    for command in ["check", "run", "market post", "pipeline create"] {
        let named = "plans is a folder, expected a file; name a file in it, such as plans/b.yaml";
        refused(&world, &format!("{command} plans")).complains(named);
        let none = "empty is a folder, expected a file; no name in it ends in .yaml, .yml, .json or .toml";
        refused(&world, &format!("{command} empty")).complains(none);
    }
}

#[test]
fn what_is_no_regular_file_is_refused_at_once() {
    let world = World::new();
    let path = |name: &str| world.path().join(name);
    assert!(Command::new("mkfifo").arg(path("pipe.yaml")).status().unwrap().success());
    std::fs::create_dir(path("folder.yaml")).unwrap();
    symlink("/dev/zero", path("zero.json")).unwrap();
    symlink("nowhere", path("lost.toml")).unwrap();
    symlink("loop.yaml", path("loop.yaml")).unwrap();
    for command in ["check", "run"] {
        refused(&world, &format!("{command} pipe.yaml")).complains("pipe.yaml is a pipe, expected a file");
        refused(&world, &format!("{command} folder.yaml"))
            .complains("folder.yaml is a folder, expected a file");
        refused(&world, &format!("{command} zero.json")).complains("zero.json is a device, expected a file");
        refused(&world, &format!("{command} lost.toml")).complains("cannot read lost.toml");
        refused(&world, &format!("{command} loop.yaml")).complains("cannot read loop.yaml");
    }
    world.file("good.yaml", "id: p\nnodes: [{id: a, tool: time.sleep, params: {ms: 1}}]\n");
    refused(&world, "check good.yaml --config pipe.yaml").complains("is a pipe");
    refused(&world, "check good.yaml --config zero.json").complains("is a device");
    // An existing configuration is never ignored.
    let config = path("ostler.toml");
    for line in ["check good.yaml --workspace .", "run good.yaml --workspace .", "ps", "doctor"] {
        symlink("folder.yaml", &config).unwrap();
        refused(&world, line).complains("ostler.toml is a folder, expected a file");
        std::fs::remove_file(&config).unwrap();
        symlink("pipe.yaml", &config).unwrap();
        refused(&world, line).complains("ostler.toml is a pipe, expected a file");
        std::fs::remove_file(&config).unwrap();
        symlink("nowhere", &config).unwrap();
        refused(&world, line).complains("/ostler.toml: No such file");
        std::fs::remove_file(&config).unwrap();
    }
}

#[test]
fn what_needs_no_model_works_without_the_file_of_one() {
    let world = World::new();
    world.file("ask.yaml", "id: ask\nnodes: [{id: ok, kind: human_approval, human_timeout: 1h}]\n");
    world.ostler("run ask.yaml --workspace work").exits(3);
    world.file("ostler.toml", "[models.default]\nprovider = \"scripted\"\nfile = \"gone.yaml\"\n");
    let config = "--config ostler.toml";
    world
        .ostler(&format!("run ask.yaml --workspace work {config}"))
        .exits(2)
        .complains("gone.yaml: cannot read");
    world.ostler(&format!("ps {config}")).exits(0).says("waiting").complains("this command needs none");
    world.ostler(&format!("show @last {config}")).exits(0);
    world.ostler(&format!("approvals {config}")).exits(0).says("ok");
    world.ostler(&format!("cancel @last {config}")).exits(0).says("cancelled  ask");
}

#[test]
fn scripts_and_schemas_come_from_files_alone() {
    let world = World::new();
    assert!(Command::new("mkfifo").arg(world.path().join("pipe")).status().unwrap().success());
    world.file("good.yaml", "id: p\nnodes: [{id: a, tool: time.sleep, params: {ms: 1}}]\n");
    for (file, told) in [
        ("pipe", "a pipe, expected a file"),
        ("/dev/zero", "a device, expected a file"),
        ("gone", "cannot read"),
    ] {
        for provider in ["scripted", "cassette"] {
            refused(&world, &format!("ask goal --yes --model {provider}:{file}")).complains(told);
            world.file(
                "ostler.toml",
                &format!("[models.default]\nprovider = \"{provider}\"\nfile = \"{file}\"\n"),
            );
            refused(&world, "run good.yaml --workspace work --config ostler.toml").complains(told);
            refused(&world, "models --config ostler.toml").complains(told);
            std::fs::remove_file(world.path().join("ostler.toml")).unwrap();
        }
        refused(&world, &format!("spawn a --input {file}")).complains(told);
    }
    world.file("ostler.toml", "[models.default]\nprovider = \"openai\"\nmodel = \"m\"\n");
    refused(&world, "ask goal --yes --cassette pipe").complains("a pipe, expected a file");
}

#[test]
fn what_cannot_be_begun_with_says_what_is_wrong_with_it() {
    let world = World::new();
    world.file("good.yaml", "id: p\nnodes: [{id: a, tool: time.sleep, params: {ms: 1}}]\n");
    world
        .ostler("run good.yaml --workspace work --data /proc/x")
        .exits(4)
        .complains("data folder /proc/x: cannot be created: ");
    for command in ["check", "run", "market post"] {
        world.file("job.yaml", "title: t\nbudget: 5\nplan: good.yaml\n");
        let what = if command == "market post" { "job.yaml" } else { "good.yaml" };
        let line = |workspace: &str| format!("{command} {what} --workspace {workspace}");
        refused(&world, &line("good.yaml")).complains("workspace good.yaml: not a folder");
        refused(&world, &line("nope")).complains("workspace nope: No such file");
    }
    let output = world.command("run good.yaml --workspace work --client").arg("a b").output().unwrap();
    let told = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.code() == Some(2) && told.contains("client name \"a b\" is not 1 to 64"), "{told}");
}

#[test]
fn a_file_of_another_kind_is_told_what_it_is_and_nothing_else() {
    let world = World::new();
    world.file("plan.yaml", "id: p\ntitle: t\nnodes: [{id: a, tool: fs.list, params: {path: .}}]\n");
    world.file("job.yaml", "title: t\nbudget: 5\nplan: plan.yaml\n");
    world.file("part.yaml", "title: t\nbudget: many\n");
    world.file("web.yaml", "id: web\nstages: [{name: a, publishes: [x]}]\n");
    world.file("lost.yaml", "title: t\nbudget: 5\nplan: web.yaml\n");
    for (line, file, place, told) in [
        ("check job.yaml", "job", "3:1", "this is a job"),
        ("run job.yaml --workspace work", "job", "3:1", "this is a job"),
        ("run part.yaml --workspace work", "part", "2:1", "this is a job"),
        ("run web.yaml --workspace work", "web", "2:1", "this is a pipeline"),
        ("market post plan.yaml --workspace work", "plan", "3:1", "this is a plan"),
        ("market post lost.yaml --workspace work", "web", "2:1", "this is a pipeline"),
        ("pipeline create plan.yaml", "plan", "3:1", "this is a plan"),
        ("pipeline create job.yaml", "job", "3:1", "this is a job"),
    ] {
        let mend = match told {
            "this is a plan" => "`ostler run plan.yaml` runs it".to_owned(),
            "this is a job" => format!("`ostler market post {file}.yaml` posts it"),
            _ => "`ostler pipeline create web.yaml` makes it".to_owned(),
        };
        let ended = refused(&world, line).complains(told).complains(&mend);
        ended
            .complains(&format!("[{file}.yaml:{place}]"))
            .complains(&format!("error: {file}.yaml has 1 fault\n"));
    }
}

#[test]
fn what_is_no_text_or_too_much_of_it_is_refused() {
    let world = World::new();
    std::fs::write(world.path().join("latin.yaml"), b"id: p\ntitle: caf\xe9\n").unwrap();
    refused(&world, "check latin.yaml").complains("byte 16 is not UTF-8");
    world.file("big.yaml", &"#".repeat(ostler::plan_file::PLAN_FILE_BYTES_MAX + 1));
    refused(&world, "check big.yaml").complains("is larger than 5242880 bytes, the limit");
    world.file("nul.yaml", "id: \"\0\"\nnodes: []\n");
    refused(&world, "check nul.yaml");
    for name in ["empty.yaml", "empty.json", "empty.toml"] {
        refused(
            &world,
            &format!("check {}", {
                world.file(name, "");
                name
            }),
        );
    }
}

#[test]
fn bombs_and_towers_are_refused() {
    let world = World::new();
    let mut bomb = String::from("a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n");
    for level in 1..12 {
        let inner = vec![format!("*a{}", level - 1); 10].join(", ");
        bomb += &format!("a{level}: &a{level} [{inner}]\n");
    }
    world.file("bomb.yaml", &bomb);
    refused(&world, "check bomb.yaml").complains("× aliases (*NAME) repeat more than 50000 values\n");
    let tower = |open: &str, close: &str| format!("{}{}", open.repeat(1_000), close.repeat(1_000));
    world.file("tower.json", &tower("[", "]"));
    world.file("tower.yaml", &tower("[", "]"));
    world.file("tower.toml", &format!("id = {}", tower("[", "]")));
    world.file("deep.json", &format!("{{\"id\": \"p\", \"nodes\": {}}}", tower("{\"a\":[", "]}")));
    world.file("steps.yaml", &(0..1_000).map(|at| format!("{}a:\n", " ".repeat(at))).collect::<String>());
    let brackets = |many: usize| format!("id: {}{}\n", "[".repeat(many), "]".repeat(many));
    world.file("over.yaml", &brackets(65)).file("beyond.yaml", &brackets(200));
    for name in
        ["tower.json", "tower.yaml", "tower.toml", "deep.json", "steps.yaml", "over.yaml", "beyond.yaml"]
    {
        refused(&world, &format!("check {name}"))
            .complains("× lists and maps are nested more than 64 deep\n");
    }
    world.file("two.yaml", "id: p\n---\nid: q\n");
    refused(&world, "check two.yaml")
        .complains("× the file has a second document: remove everything from the next --- on");
    world.file("many.yaml", &format!("id: p\nnodes: [{}]\n", vec!["1"; 500_001].join(",")));
    refused(&world, "check many.yaml").complains("× the file has more than 500000 values\n");
}

#[test]
fn plans_beyond_their_limits_are_told_so() {
    let world = World::new();
    let node = |at: usize| format!("  - {{id: n{at}, tool: time.sleep, params: {{ms: 1}}}}\n");
    let nodes: String = (0..10_001).map(node).collect();
    world.file("many.yaml", &format!("id: p\nnodes:\n{nodes}"));
    refused(&world, "check many.yaml").complains("the plan has 10001 nodes, policy.max_nodes allows 10000");
    let sources: Vec<String> = (0..317).map(|at| format!("n{at}")).collect();
    let sources = sources.join(", ");
    let wide: String = (0..317)
        .map(|at| format!("  - {{id: m{at}, tool: time.sleep, params: {{ms: 1}}, deps: [{sources}]}}\n"))
        .collect();
    let nodes: String = (0..317).map(node).collect();
    world.file("dense.yaml", &format!("id: p\nnodes:\n{nodes}{wide}"));
    refused(&world, "check dense.yaml").complains("the plan has 100489 edges, at most 100000 are allowed");
}
