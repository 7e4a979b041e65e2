//! What the cage of a program costs: a plan of `true` after `true` without one, with Landlock, and with bubblewrap beside a bare
//! `bwrap`.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use serde_json::json;

use crate::plans;
use crate::table::{Row, median};

const PROGRAMS: usize = 200;

const ROUNDS: usize = 7;

/// The namespaces of a cage, with the simplest view of the files.
const BARE: &str = "bwrap --unshare-user --unshare-pid --unshare-ipc --unshare-uts --unshare-net --die-with-parent --new-session \
                    --ro-bind / / --proc /proc --dev /dev true";

const UNCAGED: &str = "[tools.shell]\nsandbox = false\n";

const LANDLOCK: &str = "[sandbox]\nbubblewrap = \"/nonexistent\"\n";

const BUBBLEWRAP: &str = "[sandbox]\nminimum = \"bubblewrap\"\n";

pub(crate) fn rows() -> Vec<Row> {
    let folder = plans::folder();
    let plan = folder.path().join("programs.json");
    let node =
        |number| json!({"id": format!("p{number}"), "tool": "shell.run", "params": {"argv": ["true"]}});
    let nodes: Vec<_> = (0..PROGRAMS).map(node).collect();
    let text = json!({"id": "programs", "policy": {"slots": 1}, "nodes": nodes}).to_string();
    std::fs::write(&plan, text).unwrap();
    let memory = tempfile::tempdir_in("/dev/shm").unwrap();
    let config = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        path
    };
    let configs = [
        config("uncaged.toml", UNCAGED),
        config("landlock.toml", LANDLOCK),
        config("bubblewrap.toml", BUBBLEWRAP),
    ];
    let has_bubblewrap =
        Command::new("bwrap").arg("--version").output().is_ok_and(|output| output.status.success());
    let (mut landlock, mut ratios, mut notes) = (Vec::new(), Vec::new(), Vec::new());
    for round in 0..ROUNDS {
        let run = |at: usize| {
            let data = memory.path().join(format!("{round}-{at}"));
            each(ostler(&plan, &data, &configs[at]))
        };
        let (uncaged, confined) = (run(0), run(1));
        landlock.push(confined - uncaged);
        if has_bubblewrap {
            let mut bare = Command::new("sh");
            bare.args(["-c", &format!("for i in $(seq {PROGRAMS}); do {BARE}; done")]);
            let (caged, bare) = (run(2), each(bare));
            ratios.push(caged / bare);
            notes.push((caged, bare));
        }
    }
    let mut rows = vec![
        Row::ratio("a `true` with Landlock and seccomp, over one without a cage", 0.5, median(landlock))
            .unit("ms")
            .note(format!("{PROGRAMS} in a row")),
    ];
    if has_bubblewrap {
        let (caged, bare): (Vec<_>, Vec<_>) = notes.into_iter().unzip();
        let note = format!("{:.2} ms ÷ {:.2} ms", median(caged), median(bare));
        rows.push(
            Row::ratio("a `true` with bubblewrap ÷ a bare `bwrap … true`", 1.2, median(ratios)).note(note),
        );
    }
    rows
}

/// The programs are equal, and each is to run: no result stands in for another.
fn ostler(plan: &Path, data: &Path, config: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ostler"));
    command
        .args(["run", "--fresh", "--intent", "2"])
        .arg(plan)
        .arg("--config")
        .arg(config)
        .env("OSTLER_DATA", data);
    command
}

/// Duration of a command that starts all programs, for each of them, in milliseconds.
fn each(mut command: Command) -> f64 {
    let begun = Instant::now();
    let status = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status().unwrap();
    assert!(status.success(), "{command:?}");
    begun.elapsed().as_secs_f64() * 1e3 / PROGRAMS as f64
}
