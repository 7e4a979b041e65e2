//! The plans of `examples/plans`, run by the command.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test that meets an error has failed, and says where"
)]

use std::path::Path;
use std::process::{Command, Output, Stdio};

use serde_json::Value;
use tempfile::TempDir;

/// Result of an example.
struct CaseResult {
    summary: Value,
    /// Text of the node `report`, if any.
    report: String,
}

/// Runs an example on a folder, and returns its result.
fn live(plan: &str, workspace: &Path) -> CaseResult {
    let data = TempDir::new().unwrap();
    let plan = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/plans").join(plan);
    let checked = ostler(data.path()).arg("check").arg(&plan).output().unwrap();
    assert!(checked.status.success(), "{}", text(&checked));
    let run = ostler(data.path())
        .arg("run")
        .arg(&plan)
        .arg("--workspace")
        .arg(workspace)
        .arg("--json")
        .output()
        .unwrap();
    assert!(run.status.success(), "{}", text(&run));
    let stdout = String::from_utf8(run.stdout).unwrap();
    let summary: Value = serde_json::from_str(stdout.lines().last().unwrap()).unwrap();
    assert_eq!(summary["outcome"], "succeeded", "{summary}");
    let artifact = ostler(data.path()).args(["artifact", "@last/report", "--json"]).output().unwrap();
    assert!(artifact.status.success(), "{}", text(&artifact));
    let artifact: Value = serde_json::from_slice(&artifact.stdout).unwrap();
    CaseResult { summary, report: find_text(&artifact).unwrap_or_default().to_owned() }
}

/// Finds the result `{text}`.
fn find_text(value: &Value) -> Option<&str> {
    match value {
        Value::Object(members) => {
            members.get("text").and_then(Value::as_str).or_else(|| members.values().find_map(find_text))
        }
        _ => None,
    }
}

fn ostler(data: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ostler"));
    command.env("XDG_CONFIG_HOME", concat!(env!("CARGO_TARGET_TMPDIR"), "/config"));
    command.env("OSTLER_DATA", data).env_remove("OSTLER_CONFIG").stdin(Stdio::null());
    command
}

fn text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

/// A folder with these files; names may contain slashes.
fn folder(files: &[(&str, &str)]) -> TempDir {
    let folder = TempDir::new().unwrap();
    for (name, content) in files {
        let path = folder.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, content).unwrap();
    }
    folder
}

/// Creates a repository with one commit; returns false without git.
fn commit(folder: &Path, message: &str) -> bool {
    let git = |arguments: &[&str]| {
        let who = ["-c", "user.name=Somebody", "-c", "user.email=somebody@localhost"];
        Command::new("git").args(who).args(arguments).current_dir(folder).output()
    };
    if let Err(error) = git(&["--version"]) {
        println!("skipped: the audit of a repository needs git: {error}");
        return false;
    }
    for arguments in [&["init", "--quiet"][..], &["add", "."], &["commit", "--quiet", "--message", message]] {
        let done = git(arguments).unwrap();
        assert!(done.status.success(), "git {arguments:?}: {}", text(&done));
    }
    true
}

/// Audits a folder, and checks final node states and lines of the report.
fn check_audit(workspace: &Path, states: &[(&str, &str)], lines: &[&str]) -> String {
    let CaseResult { summary, report } = live("audit.yaml", workspace);
    for (node, state) in states {
        assert_eq!(summary["nodes"][*node], *state, "{node}\n{summary}");
    }
    for line in lines {
        assert!(report.lines().any(|found| found == *line), "no line {line:?} in\n{report}");
    }
    report
}

#[test]
fn an_audit_tells_what_a_repository_holds() {
    let key = ["-----BEGIN RSA ", "PRIVATE KEY-----"].concat(); // split, so that an audit of this repository does not find it
    let folder = folder(&[
        ("README.md", "# Shop\n\nSells things.\n"),
        ("LICENSE-MIT", "free\n"),
        ("src/main.rs", "fn main() {}\n// TODO: sell\n"),
        ("src/merge.rs", "<<<<<<< ours\n=======\n>>>>>>> theirs\n"),
        ("src/key.pem", &key),
        ("target/out.txt", "TODO: not ours to do\n"),
        (".gitignore", "target\n"),
    ]);
    if !commit(folder.path(), "Open the shop") {
        return;
    }
    let report = check_audit(
        folder.path(),
        &[
            ("readme_md", "executed"),
            ("readme_rst", "skipped"),
            ("readme_none", "skipped"),
            ("history", "executed"),
        ],
        &[
            "# Audit",
            "5 text files with 10 lines, 20 words and 121 bytes.",
            "| files | 5 |",
            "| licence | LICENSE-MIT |",
            "| open points | 1 |",
            "| marks of merge conflicts | 2 |",
            "| private keys | 1 |",
            "    # Shop",
            "    src/main.rs:2: // TODO: sell",
            "    src/key.pem:1",
        ],
    );
    assert!(report.contains(" Open the shop\n"), "{report}");
    assert!(!report.contains(&key), "a report names the place of a key, and does not repeat it:\n{report}");
}

#[test]
fn an_audit_takes_the_next_readme_when_one_is_missing_or_empty() {
    let folder = folder(&[("README.md", ""), ("README.rst", "Shop\n====\n")]);
    check_audit(
        folder.path(),
        &[("readme_md", "failed"), ("readme_rst", "executed"), ("readme_plain", "skipped")],
        &["    Shop", "    ===="],
    );
}

#[test]
fn an_audit_of_a_folder_without_history_says_so() {
    let folder = folder(&[("notes.txt", "FIXME later\n")]);
    check_audit(
        folder.path(),
        &[("history", "failed"), ("readme_none", "executed"), ("readme", "executed"), ("report", "executed")],
        &[
            "    no history (failed): git has none of this folder",
            "    (there is no README)",
            "| open points | 1 |",
        ],
    );
}

#[test]
fn an_audit_of_nothing_succeeds() {
    let folder = folder(&[]);
    check_audit(
        folder.path(),
        &[("stats", "executed"), ("todos", "executed"), ("report", "executed")],
        &["0 text files with 0 lines, 0 words and 0 bytes.", "| licence | none |", "| open points | 0 |"],
    );
}

#[test]
fn the_bug_is_fixed_by_the_fix_that_works() {
    let CaseResult { summary, .. } = live("bugfix.yaml", folder(&[]).path());
    let nodes = summary["nodes"].as_object().unwrap();
    assert_eq!(nodes.len(), 10, "{summary}");
    for (node, state) in nodes {
        // A failed fix is skipped if the other one was faster.
        let expected: &[&str] = if node == "fix_A" { &["failed", "skipped"] } else { &["executed"] };
        assert!(expected.iter().any(|expected| state == expected), "{node}\n{summary}");
    }
    assert_eq!(summary["dispatches"], 10, "{summary}");
    let [took, serial] = [summary["makespan_ms"].as_f64().unwrap(), 9.0 * 50.0];
    assert!(took >= 6.0 * 50.0, "six rounds of 50 ms took {took} ms");
    println!("six rounds took {took} ms, one after the other they would take {serial}");
}

#[test]
fn a_release_waits_for_two_people_and_writes_what_was_shown() {
    let (data, workspace) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    let plan = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/plans/release.yaml");
    let step = |arguments: &[&str], code: i32| {
        let ended = ostler(data.path()).args(arguments).output().unwrap();
        assert_eq!(ended.status.code(), Some(code), "{arguments:?}: {}", text(&ended));
        text(&ended)
    };
    let digest = || {
        let asked: Value = serde_json::from_str(&step(&["approvals", "--json"], 0)).unwrap();
        asked["digest"].as_str().unwrap().to_owned()
    };
    let announced = || std::fs::read_to_string(workspace.path().join("RELEASED.txt"));
    step(&["run", plan.to_str().unwrap(), "--workspace", workspace.path().to_str().unwrap()], 3);
    assert!(announced().is_err(), "nothing is written without leave");
    let shown = step(&["approvals"], 0);
    step(&["approve", "@last", "announce", "--digest", &digest()], 0);
    let text = announced().unwrap();
    assert!(shown.contains(text.trim()), "{shown}");
    step(&["approve", "@last", "sign_off", "--note", "all good", "--digest", &digest()], 0);
    assert!(step(&["artifact", "@last/report", "--path", "text"], 0).contains("Signed off: executed"));
}

#[test]
fn a_model_chooses_the_best_of_three_drafts_and_another_call_judges_it() {
    let (data, examples) =
        (TempDir::new().unwrap(), Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/plans"));
    let (plan, config) = (examples.join("best_of.yaml"), examples.join("best_of.toml"));
    let step = |arguments: &[&str]| {
        let ended = ostler(data.path()).arg("--config").arg(&config).args(arguments).output().unwrap();
        assert!(ended.status.success(), "{arguments:?}: {}", text(&ended));
        text(&ended)
    };
    let checked = step(&["check", plan.to_str().unwrap()]);
    assert!(!checked.contains("W0"), "{checked}");
    step(&["run", plan.to_str().unwrap()]);
    let winner = step(&["artifact", "@last/winner", "--path", "text"]);
    assert!(winner.contains("Plans can now ask language models, with results"), "{winner}");
    assert_eq!(step(&["artifact", "@last/choice", "--path", "best"]), "usual");
    let events = step(&["events", "@last", "--json"]);
    let called = |node: &str| {
        let events = events.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        events
            .filter(|event| event.to_string().contains("model_called") && event.to_string().contains(node))
            .count()
    };
    assert_eq!(["bold", "usual", "careful", "choice", "winner"].map(called), [1; 5], "{events}");
    let evaluated = step(&["evaluate", "@last"]);
    assert!(evaluated.contains("0.900") && evaluated.contains("model.default"), "{evaluated}");
    assert!(evaluated.contains("The winner says what is new."), "{evaluated}");
}

#[test]
fn two_agents_work_on_their_goals_in_runs_of_their_own() {
    let (data, examples) =
        (TempDir::new().unwrap(), Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/plans"));
    let (plan, config) = (examples.join("delegate.yaml"), examples.join("delegate.toml"));
    let step = |arguments: &[&str]| {
        let workspace = env!("CARGO_MANIFEST_DIR");
        let mut command = ostler(data.path());
        let ended =
            command.current_dir(workspace).arg("--config").arg(&config).args(arguments).output().unwrap();
        assert!(ended.status.success(), "{arguments:?}: {}", text(&ended));
        text(&ended)
    };
    step(&["check", plan.to_str().unwrap()]);
    step(&["run", plan.to_str().unwrap()]);
    let letter = step(&["artifact", "@last/letter", "--path", "text"]);
    assert!(letter.contains("on Monday at ten") && letter.contains("(rests on note, call.1.1)"), "{letter}");
    assert_eq!(step(&["ps", "--json"]).matches("\"outcome\":\"succeeded\"").count(), 3);
}

#[test]
fn the_recorded_answers_of_a_real_model_choose_one_of_its_drafts() {
    let (data, examples) =
        (TempDir::new().unwrap(), Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/plans"));
    let (plan, config) = (examples.join("best_of.yaml"), examples.join("best_of_recorded.toml"));
    let step = |arguments: &[&str]| {
        let ended = ostler(data.path()).arg("--config").arg(&config).args(arguments).output().unwrap();
        assert!(ended.status.success(), "{arguments:?}: {}", text(&ended));
        text(&ended)
    };
    step(&["run", plan.to_str().unwrap()]);
    let best = step(&["artifact", "@last/choice", "--path", "best"]);
    let draft = step(&["artifact", &format!("@last/{best}"), "--path", "text"]);
    assert_eq!(step(&["artifact", "@last/winner", "--path", "text"]), draft);
    assert!(draft.contains("language model"), "{draft}");
}

#[test]
#[cfg(target_os = "linux")]
fn a_host_is_audited_and_what_is_advised_about_its_kernel_is_found() {
    let CaseResult { summary, report } = live("host_audit.yaml", Path::new(env!("CARGO_MANIFEST_DIR")));
    assert!(report.starts_with("# Linux "), "{report}");
    assert!(report.contains(" listening ports, "), "{report}");
    assert_eq!(summary["nodes"]["advisories"], "executed");
}

#[test]
fn an_invitation_is_made_in_three_steps_by_reference() {
    let CaseResult { report, .. } = live("meeting.yaml", Path::new(env!("CARGO_MANIFEST_DIR")));
    assert_eq!(report.trim_end(), "You are invited: Ada and Ben meet on Monday at ten, in the small room.");
}

#[test]
fn what_is_open_decides_what_a_triage_does() {
    let text_of = |files: &[(&str, &str)]| {
        let CaseResult { summary, .. } = live("triage.yaml", folder(files).path());
        let state = |node: &str| summary["nodes"][node].as_str().unwrap().to_owned();
        assert_eq!(summary["absent"], serde_json::json!(["alarm"]), "{summary}");
        [state("clean"), state("open"), state("report"), state("alarm")]
    };
    let open = text_of(&[("a.md", "TODO: water the plants\n")]);
    assert_eq!(open, ["skipped", "executed", "executed", "skipped"]);
    let clean = text_of(&[("a.md", "done\n")]);
    assert_eq!(clean, ["executed", "skipped", "executed", "skipped"]);
}

#[test]
fn a_fleet_does_the_same_for_every_file_and_loses_none() {
    let folder = folder(&[("a.md", "one\n"), ("b.md", "three\n"), ("c.txt", "no\n")]);
    let CaseResult { summary, report } = live("fleet.yaml", folder.path());
    assert!(report.starts_with("2 files, 0 of them unreadable"), "{report}");
    assert_eq!(summary["lists"]["read"], serde_json::json!({"items": 2, "executed": 2, "lost": 0}));
    assert_eq!(summary["version"], 2);
}

#[test]
fn an_undo_that_fails_in_part_is_no_success() {
    let (data, site) = (TempDir::new().unwrap(), folder(&[("taken/note.txt", "a folder\n")]));
    let plan = site.path().join("plan.json");
    // The undo writes a file where a folder is.
    let undo =
        serde_json::json!({"tool": "fs.write", "params": {"path": "taken", "text": "x", "mode": "replace"}});
    let node = serde_json::json!({"id": "note", "tool": "fs.write", "undo": undo,
        "params": {"path": "note.txt", "text": "x", "mode": "replace"}});
    std::fs::write(&plan, serde_json::json!({"id": "p", "nodes": [node]}).to_string()).unwrap();
    let mut run = ostler(data.path());
    let run = run.arg("run").arg(&plan).arg("--workspace").arg(site.path()).output().unwrap();
    assert!(run.status.success(), "{}", text(&run));
    let undone = ostler(data.path()).args(["undo", "@last", "--json"]).output().unwrap();
    assert_eq!(undone.status.code(), Some(1), "{}", text(&undone));
    let shown = ostler(data.path()).args(["show", "@last", "--json"]).output().unwrap();
    let shown: Value = serde_json::from_slice(&shown.stdout).unwrap();
    assert_eq!((&shown["outcome"], &shown["undo"]["state"]), (&"succeeded".into(), &"partly".into()));
}
