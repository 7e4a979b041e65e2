//! Help, usage, completion and manual pages.

use std::io::Write;
use std::process::{Command, Output, Stdio};

fn ostler(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ostler"));
    command.args(arguments).env_remove("OSTLER_DATA").env_remove("OSTLER_CONFIG").stdin(Stdio::null());
    command.output().unwrap()
}

fn printed(arguments: &[&str]) -> String {
    let output = ostler(arguments);
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn errors_of_usage_exit_with_2_and_say_so_on_stderr() {
    let cases: [(&[&str], &str); 46] = [
        (&[], "Usage:"),
        (&[], "Run plans:"),
        (&["runn"], "'run'"),
        (&["rnu"], "'run'"),
        (&["client", "ls"], "tip: `ostler ps --clients` lists clients"),
        (&["client", "--json", "list"], "`ostler ps --clients` lists clients"),
        (&["client", "--json", "dad"], "'add'"),
        (&["run"], "<PLAN>"),
        (&["run", "plan.yaml", "--intent", "3"], "give 0 (observe), 1 (operate) or 2 (control)"),
        (&["ps", "-n", "0"], "invalid value '0' for '--limit <N>': give a whole number, 1 or more"),
        (&["ps", "-n", "-1"], "give a whole number, 1 or more"),
        (&["ps", "-n", "many"], "give a whole number, 1 or more"),
        (&["show", "@last", "--at", "0"], "give a whole number, 1 or more"),
        (&["events", "@last", "--from", "99999999999999999999"], "give at most 18446744073709551615"),
        (&["show"], "<RUN>"),
        (&["help", "nothing"], "\"nothing\": no such command, code or topic"),
        (&["completions", "tcsh"], "bash"),
        (&["--json", "completions", "bash"], "--json: `ostler completions` prints text only"),
        (&["artifact", "@last"], "RUN/NODE"),
        (&["artifact", "/a"], "RUN/NODE"),
        (&["artifact", "@last/"], "RUN/NODE"),
        (
            &["show", ""],
            "for '<RUN>': not the name of a run; give its id, at least 4 characters of it, or @last",
        ),
        (&["events", ""], "not the name of a run"),
        (&["resume", ""], "not the name of a run"),
        (&["approve", "", "ok"], "not the name of a run"),
        (&["reject", "", "ok"], "not the name of a run"),
        (&["cancel", ""], "not the name of a run"),
        (&["checkpoint", ""], "not the name of a run"),
        (&["evaluate", ""], "not the name of a run"),
        (&["skip", "@last", ""], "for '<NODE>': not the name of a node"),
        (&["resolve", "@last", "", "--redo"], "not the name of a node"),
        (&["run", "p.yaml", "--intent", "-1"], "give 0 (observe), 1 (operate) or 2 (control)"),
        (&["run", "p.yaml", "--budget", "-5"], "give a whole number, 1 or more"),
        (&["run", "p.yaml", "--budget", "0"], "1 or more; without --budget the cost is unlimited"),
        (&["run", "p.yaml", "--budget", "99999999999999999999"], "give at most 18446744073709551615"),
        (&["spawn", "a", "--weight", "-1"], "give a whole number from 1 to 1000000"),
        (&["spawn", "a", "--weight", "1e3"], "give a whole number from 1 to 1000000"),
        (&["spawn", "a", "--price", "-1"], "give a whole number, 0 or more"),
        (&["client", "add", "a", "--weight", "-4"], "give a whole number from 1 to 1000000, or credits"),
        (&["market", "offer", "a", "--price", "99999999999999999999"], "give at most 18446744073709551615"),
        (&["market", "offer", "a", "--time", "-5m"], "give a time of 0 or more"),
        (
            &["gc", "--older-than", "abc"],
            ": give a number with a unit, such as 500ms, 30s, 10m, 12h or 30d\n",
        ),
        (&["gc", "--older-than", "-5m"], "give a duration above zero, up to 36500d"),
        (&["gc", "--older-than", "99999999999999999999d"], "give a duration above zero, up to 36500d"),
        (&["ps", "--state", "gone"], "queued, running, waiting"),
        (&["show", "@last", "--json", "--format", "dot"], "omit one of them"),
    ];
    for (arguments, says) in cases {
        let output = ostler(arguments);
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {said}");
        assert!(said.contains(says), "{arguments:?}: {said}");
        assert!(output.stdout.is_empty(), "{arguments:?}");
    }
}

#[test]
fn help_is_the_same_however_it_is_asked_for() {
    assert_eq!(printed(&["help"]), printed(&["--help"]));
    assert_eq!(printed(&["help", "run"]), printed(&["run", "--help"]));
    assert!(printed(&["help", "simulate", "graph"]).contains("Usage: ostler simulate graph"));
    let all = printed(&["help"]);
    for topic in ["exit-codes", "environment"] {
        let topic = printed(&["help", topic]);
        assert!(topic.lines().all(|line| all.contains(line)), "{topic}");
    }
    assert!(printed(&["help", "runs"]).contains("@last"));
    assert!(printed(&["help", "v19"]).starts_with("# V19: "));
}

#[test]
fn a_usage_line_does_not_depend_on_the_environment() {
    let folder = tempfile::tempdir().unwrap();
    let link = folder.path().join("os");
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_ostler"), &link).unwrap();
    for arguments in [
        &[][..],
        &["run"],
        &["client", "add"],
        &["credit", "--jsn"],
        &["run", "--help"],
        &["help", "pipeline"],
        &["frobnicate"],
    ] {
        let told = |program: &std::path::Path, variables: &[(&str, &str)]| {
            let mut command = Command::new(program);
            command
                .args(arguments)
                .env_remove("OSTLER_DATA")
                .env_remove("OSTLER_CONFIG")
                .stdin(Stdio::null());
            let output = command.envs(variables.iter().copied()).output().unwrap();
            (String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap())
        };
        let plain = told(env!("CARGO_BIN_EXE_ostler").as_ref(), &[]);
        assert!([&plain.0, &plain.1].iter().any(|text| text.contains("Usage: ostler")), "{plain:?}");
        let variables =
            [("OSTLER_DATA", "d"), ("OSTLER_CONFIG", "c"), ("OSTLER_LOG", "info"), ("COLUMNS", "30")];
        assert_eq!(told(&link, &variables), plain, "{arguments:?}");
    }
}

/// An unknown log level is reported, and the command continues.
#[test]
fn a_word_for_what_is_logged_that_is_none_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let told = |word: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_ostler"));
        command.args(["ps", "--json"]).current_dir(folder.path()).env("OSTLER_LOG", word);
        let output = command.env_remove("OSTLER_DATA").env_remove("OSTLER_CONFIG").output().unwrap();
        assert!(output.status.success(), "{word}");
        String::from_utf8(output.stderr).unwrap()
    };
    for word in ["", "error", "off", "DEBUG", "ostler_store=debug,warn"] {
        assert!(!told(word).contains("note:"), "{word}: {}", told(word));
    }
    for word in ["bogus", "ostler_store=bogus"] {
        let expected = format!(
            "note: OSTLER_LOG={word:?}: not one of off, error, warn, info, debug, trace; logging errors only\n"
        );
        assert_eq!(told(word), expected);
    }
}

/// Completions of these words by our script in bash; `None` without bash.
fn offered(words: &[&str]) -> Option<Vec<String>> {
    let script = r#"
        source /dev/stdin || exit 1
        COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1))
        complete -p ostler >/dev/null || exit 1
        _ostler ostler "${COMP_WORDS[COMP_CWORD]}" "${COMP_WORDS[COMP_CWORD - 1]}"
        printf '%s\n' "${COMPREPLY[@]}"
    "#;
    let mut bash = Command::new("bash");
    bash.args(["--norc", "-c", script, "bash"]).args(words);
    let mut child = match bash.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn() {
        Ok(child) => child,
        Err(error) => {
            println!("skipped: completion needs bash: {error}");
            return None;
        }
    };
    let completions = printed(&["completions", "bash"]);
    child.stdin.take().unwrap().write_all(completions.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success());
    Some(String::from_utf8(output.stdout).unwrap().lines().map(str::to_owned).collect())
}

#[test]
fn bash_completes_commands_and_options() {
    let Some(commands) = offered(&["ostler", "ru"]) else { return };
    assert_eq!(commands, ["run"]);
    assert_eq!(offered(&["ostler", "run", "--works"]).unwrap(), ["--workspace"]);
    assert_eq!(offered(&["ostler", "show", "@last", "--format", "mer"]).unwrap(), ["mermaid"]);
    assert!(offered(&["ostler", ""]).unwrap().contains(&"doctor".to_owned()));
    assert_eq!(offered(&["ostler", "comp"]).unwrap(), ["completions"], "and nothing that is hidden");
}

/// Completions at the end of a line by the registered function, in this folder.
fn offered_at_the_end_of(line: &str, folder: &std::path::Path) -> Vec<String> {
    let script = r#"
        source /dev/stdin || exit 1
        function=$(complete -p ostler | sed 's/.*-F \([^ ]*\) .*/\1/')
        COMP_LINE="$1"; COMP_POINT=${#1}; COMP_WORDS=($1)
        [[ "$1" == *" " ]] && COMP_WORDS+=("")
        COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
        word="${1##*[ @]}"
        "$function" ostler "$word" ""
        printf '%s\n' "${COMPREPLY[@]}"
    "#;
    let mut bash = Command::new("bash");
    bash.args(["--norc", "-c", script, "bash", line]).current_dir(folder);
    let here = std::path::Path::new(env!("CARGO_BIN_EXE_ostler")).parent().unwrap().display().to_string();
    bash.env("PATH", format!("{here}:{}", std::env::var("PATH").unwrap()));
    bash.env_remove("OSTLER_DATA").env_remove("OSTLER_CONFIG");
    let mut child = bash.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(printed(&["completions", "bash"]).as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    String::from_utf8(output.stdout).unwrap().lines().map(str::to_owned).collect()
}

#[test]
fn bash_completes_runs_and_nodes() {
    if offered(&["ostler", "ru"]).is_none() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let plan = "id: p\nnodes:\n  - {id: list, tool: fs.list, params: {path: .}}\n  - {id: nap, tool: time.sleep, params: {ms: 1}}\n";
    std::fs::write(folder.path().join("plan.yaml"), plan).unwrap();
    let mut run = Command::new(env!("CARGO_BIN_EXE_ostler"));
    run.args(["run", "plan.yaml", "--data", "d"]).current_dir(folder.path()).env_remove("OSTLER_DATA");
    assert!(run.output().unwrap().status.success());
    let at = |line: &str| offered_at_the_end_of(line, folder.path());
    let runs = at("ostler show --data d ");
    assert_eq!((runs.len(), runs[0].as_str()), (2, "@last"));
    assert_eq!(at(&format!("ostler show --data d {}", &runs[1][..6])), [runs[1].as_str()]);
    assert_eq!(at("ostler show --data d @la"), ["last"]);
    assert_eq!(at("ostler skip --data d @last "), ["list", "nap"]);
    assert_eq!(at("ostler artifact --data d @last/n"), ["last/nap"]);
    assert_eq!(at("ostler ru"), ["run"]);
    assert_eq!(at("ostler help exi"), ["exit-codes"]);
    assert_eq!(at("ostler help V0"), (1..=9).map(|code| format!("V0{code}")).collect::<Vec<_>>());
    assert_eq!(at("ostler resume --data d --js"), ["--json"]);
}

#[test]
fn bash_completes_agents_clients_pipelines_and_stages() {
    if offered(&["ostler", "ru"]).is_none() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let web =
        "id: web\nstages:\n  - {name: recon, publishes: [page]}\n  - {name: report, subscribes: [page]}\n";
    std::fs::write(folder.path().join("web.yaml"), web).unwrap();
    for line in
        ["spawn clerk --client acme", "spawn jurist", "client add umbrella", "pipeline create web.yaml"]
    {
        let mut ostler = Command::new(env!("CARGO_BIN_EXE_ostler"));
        ostler.args(line.split(' ')).args(["--data", "d"]).current_dir(folder.path());
        let output = ostler.env_remove("OSTLER_DATA").env_remove("OSTLER_CONFIG").output().unwrap();
        assert!(output.status.success(), "{line}: {}", String::from_utf8_lossy(&output.stderr));
    }
    for (line, expected) in [
        ("run web.yaml --data d --agent ", &["clerk", "jurist"][..]),
        ("run web.yaml --data d --agent=c", &["--agent=clerk"]),
        ("agents --data d --like j", &["jurist"]),
        ("market offer --data d cl", &["clerk"]),
        ("run web.yaml --data d --client um", &["umbrella"]),
        ("credit --data d um", &["umbrella"]),
        ("client --data d add u", &["umbrella"]),
        ("pipeline --data d ps ", &["web"]),
        ("pipeline catch-up --data d web re", &["recon", "report"]),
        // No completions, not even files.
        ("run web.yaml --data d --agent w", &[""]),
        ("release --data d ", &[""]),
        ("credit --data nothing w", &[""]),
    ] {
        assert_eq!(offered_at_the_end_of(&format!("ostler {line}"), folder.path()), expected, "{line:?}");
    }
}

#[test]
fn bash_offers_plans_and_no_options_until_one_is_begun() {
    if offered(&["ostler", "ru"]).is_none() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    for name in ["plan.yaml", "pl an.toml", "p.json", "picture.png"] {
        std::fs::write(folder.path().join(name), "").unwrap();
    }
    std::fs::create_dir(folder.path().join("plans")).unwrap();
    std::fs::write(folder.path().join("plans/deep.yml"), "").unwrap();
    for (line, expected) in [
        ("ostler run ", &["p.json", "pl an.toml", "plan.yaml", "plans"][..]),
        ("ostler check pl", &["pl an.toml", "plan.yaml", "plans"]),
        ("ostler run plans/", &["plans/deep.yml"]),
        ("ostler --json run --intent 2 plan", &["plan.yaml", "plans"]),
        ("ostler run pi", &[""]), // bash completes files
        ("ostler run --int", &["--intent"]),
        ("ostler simulate ", &["gate", "graph", "lineage", "model", "modes", "queue"]),
        ("ostler simulate graph ", &[""]),
    ] {
        let mut offered = offered_at_the_end_of(line, folder.path());
        offered.sort();
        assert_eq!(offered, expected, "{line:?}");
    }
    let commands = offered_at_the_end_of("ostler ", folder.path());
    assert!(commands.contains(&"doctor".to_owned()), "{commands:?}");
    assert!(!commands.iter().any(|offered| offered.starts_with('-')), "{commands:?}");
    assert!(offered_at_the_end_of("ostler run -", folder.path()).contains(&"--param".to_owned()));
}

#[test]
fn every_shell_has_its_script() {
    for shell in ["bash", "elvish", "fish", "powershell", "zsh"] {
        let script = printed(&["completions", shell]);
        assert!(script.contains("resume") && script.contains("workspace"), "{shell}");
    }
}

#[test]
fn every_command_has_a_manual_page_without_a_fault() {
    let folder = tempfile::tempdir().unwrap();
    printed(&["man", "--out", folder.path().join("man1").to_str().unwrap()]);
    let mut names = Vec::new();
    for entry in std::fs::read_dir(folder.path().join("man1")).unwrap() {
        let path = entry.unwrap().path();
        names.push(path.file_name().unwrap().to_str().unwrap().to_owned());
        let page = std::fs::read_to_string(&path).unwrap();
        assert!(page.contains("EXIT STATUS"), "{}", path.display());
        let formatter = Command::new("groff").args(["-man", "-Tutf8", "-ww", "-z"]).arg(&path).output();
        match formatter {
            Ok(output) => {
                let said = String::from_utf8_lossy(&output.stderr);
                assert!(output.status.success() && said.is_empty(), "{}: {said}", path.display());
            }
            Err(error) => println!("skipped: manual pages are looked at with groff: {error}"),
        }
    }
    for name in ["ostler.1", "ostler-run.1", "ostler-resolve.1", "ostler-simulate-graph.1", "ostler-man.1"] {
        assert!(names.iter().any(|found| found == name), "{names:?}");
    }
    assert!(!names.iter().any(|name| name == "ostler-complete.1"), "{names:?}");
    assert!(printed(&["--help"]).contains("manual page"));
    assert!(printed(&["man"]).contains(".TH ostler 1"));
}
