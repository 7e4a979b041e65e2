//! Start-up time of the command: from the start of the process to its report of the first node, which follows the durable record.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::makespan::sync;
use crate::plans;
use crate::table::{Row, median};

const ROUNDS: usize = 15;

pub(crate) fn rows() -> Vec<Row> {
    let folder = plans::folder();
    let plan = folder.path().join("plan.json");
    std::fs::write(&plan, plans::chain(3).to_string()).unwrap();
    let kept = folder.path().join("kept");
    first_dispatch(&plan, &kept);
    let (mut existing, mut new, mut help, mut syncs) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for round in 0..ROUNDS {
        existing.push(millis(first_dispatch(&plan, &kept)));
        new.push(millis(first_dispatch(&plan, &folder.path().join(round.to_string()))));
        help.push(millis(bare_process()));
        syncs.push(millis(sync(folder.path())));
    }
    let (help, sync) = (median(help), median(syncs));
    let note = format!("of it {help:.1} ms for a process that does nothing; an fsync is {sync:.2} ms");
    vec![
        Row::ratio("start to first dispatch, existing data folder", 30.0, median(existing))
            .unit("ms")
            .note(note),
        Row::ratio("start to first dispatch, new data folder", 60.0, median(new)).unit("ms"),
    ]
}

fn command() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ostler"));
    command.env_remove("OSTLER_CONFIG").stdin(Stdio::null());
    command
}

fn first_dispatch(plan: &Path, data: &Path) -> Duration {
    let begun = Instant::now();
    let mut run = command()
        .args(["run", "--json"])
        .arg(plan)
        .env("OSTLER_DATA", data)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(run.stdout.take().unwrap()).lines();
    let mut first = None;
    for line in lines {
        if line.unwrap().contains(r#""to":"running""#) && first.is_none() {
            first = Some(begun.elapsed());
        }
    }
    assert!(run.wait().unwrap().success());
    first.unwrap()
}

fn bare_process() -> Duration {
    let begun = Instant::now();
    assert!(command().arg("--version").stdout(Stdio::null()).status().unwrap().success());
    begun.elapsed()
}

fn millis(span: Duration) -> f64 {
    span.as_secs_f64() * 1e3
}
