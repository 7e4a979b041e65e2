//! A process killed repeatedly.

#![allow(clippy::unwrap_used)] // shared test functions

mod common;

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

use common::{batch, events, numbered, small, stream, wait};
use ostler_kernel::port::Journal;
use ostler_store::Store;

/// Environment variable with the child's folder; unset in the parent.
const FOLDER: &str = "OSTLER_TEST_KILL_FOLDER";

/// The killed child process: appends records and prints the durable ones.
#[test]
fn child_that_appends_until_it_is_killed() {
    let Ok(folder) = std::env::var(FOLDER) else { return };
    let (store, _) = Store::open_with(Path::new(&folder), small()).unwrap();
    let journal = &*store.journal;
    let mut count = events(journal, stream(1)).len() as u64;
    println!("\nbegun {count}");
    loop {
        let position = journal.append(vec![batch(stream(1), count, vec![numbered(count)])]).unwrap();
        count += 1;
        if count.is_multiple_of(3) {
            wait(journal, position).unwrap();
            println!("\ndurable {count}");
        }
    }
}

#[test]
fn what_a_killed_process_said_was_durable_is_there() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("data");
    let mut durable = 0;
    for round in 0..12 {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "child_that_appends_until_it_is_killed", "--nocapture"])
            .env(FOLDER, &path)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
        let mut said = 0;
        while said < 1 + round * 5 {
            let line = lines.next().expect("the child goes on until it is killed");
            if let Some(count) = line.strip_prefix("begun ") {
                assert!(
                    count.parse::<u64>().unwrap() >= durable,
                    "round {round}: {line}, {durable} were durable"
                );
            } else if let Some(count) = line.strip_prefix("durable ") {
                durable = count.parse().unwrap();
                said += 1;
            }
        }
        child.kill().unwrap();
        child.wait().unwrap();
    }
    let (store, report) = Store::open_with(&path, small()).unwrap();
    assert_eq!(report.epoch, 13);
    let found = events(&*store.journal, stream(1));
    assert!(found.len() as u64 >= durable);
    assert_eq!(found, (0..found.len() as u64).map(numbered).collect::<Vec<_>>());
    assert_eq!(store.journal.verify().unwrap(), []);
}
