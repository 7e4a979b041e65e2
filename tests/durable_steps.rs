//! An agent written as code, in a real process that is killed between and within its steps: completed steps
//! are not repeated, and none is lost.
#![allow(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

#[path = "../examples/durable_steps.rs"]
#[allow(dead_code, reason = "its own main")]
mod example;

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use ostler::RunStatus;

/// Pages copied, one per step.
const PAGES: u32 = 12;

const PAUSE_MS: u64 = 15;

/// Environment variable that makes this binary the worker: its folder.
const WORKER: &str = "OSTLER_TEST_WORKER";

/// The worker process.
#[test]
fn worker() {
    let Some(folder) = std::env::var_os(WORKER).map(PathBuf::from) else { return };
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let settled = runtime.block_on(example::work(&folder.join("data"), &folder, PAGES, PAUSE_MS)).unwrap();
    assert_eq!(settled, RunStatus::Succeeded);
}

/// Kills the worker after `steps` more pages and a delay. Returns the pages, and whether the worker ended
/// by itself.
fn live(folder: &Path, steps: usize, more_ms: u64) -> (Vec<u32>, bool) {
    let mut worker = Command::new(std::env::current_exe().unwrap());
    worker.args(["worker", "--exact", "--nocapture", "--test-threads=1"]).env(WORKER, folder);
    let mut worker = worker.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut copied = Vec::new();
    let mut lines = BufReader::new(worker.stdout.take().unwrap()).lines();
    for line in lines.by_ref().map_while(Result::ok) {
        // The test harness prints before on the same line.
        let page = line.split("page ").nth(1).and_then(|rest| rest.strip_suffix(" is copied"));
        copied.extend(page.map(|page| page.parse::<u32>().unwrap()));
        if copied.len() == steps {
            break;
        }
    }
    // Some point within the next step.
    std::thread::sleep(std::time::Duration::from_millis(more_ms));
    worker.kill().unwrap();
    let status = worker.wait().unwrap();
    (copied, status.success())
}

/// Copies of each page.
fn ledger(folder: &Path) -> BTreeMap<String, usize> {
    let text = std::fs::read_to_string(folder.join("copied.log")).unwrap_or_default();
    let mut times = BTreeMap::new();
    text.lines().for_each(|line| *times.entry(line.to_owned()).or_default() += 1);
    times
}

#[test]
fn steps_that_were_done_are_not_done_again_after_kills_and_none_is_left_out() {
    let folder = tempfile::tempdir().unwrap();
    let mut done: BTreeMap<String, usize> = BTreeMap::new();
    let mut ended = false;
    let mut kills = 0;
    for (life, steps) in [1, 2, 1, 3, 1, 1, 2, usize::MAX, usize::MAX].into_iter().enumerate() {
        let (copied, is_over) = live(folder.path(), steps, (life as u64 * 7) % (2 * PAUSE_MS));
        let now = ledger(folder.path());
        // Pages reported before this life have the same number of copies as then.
        for (line, times) in &done {
            assert_eq!(now[line], *times, "{line} was done, and was done again");
        }
        let said = |line: &&String| copied.iter().any(|page| line.starts_with(&format!("page {page} ")));
        done.extend(now.iter().filter(|(line, _)| said(line)).map(|(line, times)| (line.clone(), *times)));
        if is_over {
            ended = true;
            break;
        }
        kills += 1;
    }
    assert!(ended && kills >= 5, "{kills} kills");
    let pages: Vec<u32> =
        ledger(folder.path()).keys().map(|line| line.split(' ').nth(1).unwrap().parse().unwrap()).collect();
    assert_eq!(pages.len() as u32, PAGES, "each page under one key: {pages:?}");
}
