//! Starting programs: a plan of a thousand against `xargs`.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use serde_json::json;

use crate::plans;
use crate::table::{Row, median};

const PROGRAMS: usize = 1_000;

const ROUNDS: usize = 5;

pub(crate) fn rows() -> Vec<Row> {
    let folder = plans::folder();
    let plan = folder.path().join("programs.json");
    let node =
        |number| json!({"id": format!("p{number}"), "tool": "shell.run", "params": {"argv": ["true"]}});
    let nodes: Vec<_> = (0..PROGRAMS).map(node).collect();
    let text = json!({"id": "programs", "policy": {"slots": 4}, "nodes": nodes}).to_string();
    std::fs::write(&plan, text).unwrap();
    let memory = tempfile::tempdir_in("/dev/shm").unwrap();
    let measured = |data: &Path| {
        let mut samples = Vec::new();
        for round in 0..ROUNDS {
            let run = millis(ostler(&plan, &data.join(round.to_string())));
            samples.push((run, millis(xargs())));
        }
        let (run, xargs) = samples.iter().copied().unzip::<_, _, Vec<_>, Vec<_>>();
        let ratio = median(samples.into_iter().map(|(run, xargs)| run / xargs));
        (ratio, format!("{:.0} ms ÷ {:.0} ms", median(run), median(xargs)))
    };
    let (on_disk, disk_note) = measured(folder.path());
    let (in_memory, memory_note) = measured(memory.path());
    vec![
        Row::ratio("1,000 × true in four slots ÷ xargs -P4, in a folder", 2.0, on_disk).note(disk_note),
        Row::ratio("1,000 × true in four slots ÷ xargs -P4, on tmpfs", 2.0, in_memory).note(memory_note),
    ]
}

/// The programs are equal, and each is to run: no result stands in for another.
fn ostler(plan: &Path, data: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ostler"));
    command
        .args(["run", "--fresh", "--intent", "2"])
        .arg(plan)
        .env("OSTLER_DATA", data)
        .env_remove("OSTLER_CONFIG");
    command
}

fn xargs() -> Command {
    let mut command = Command::new("sh");
    command.args(["-c", &format!("seq {PROGRAMS} | xargs -P4 -n1 true")]);
    command
}

/// Duration of a command that must succeed.
fn millis(mut command: Command) -> f64 {
    let begun = Instant::now();
    let status = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status().unwrap();
    assert!(status.success());
    begun.elapsed().as_secs_f64() * 1e3
}
