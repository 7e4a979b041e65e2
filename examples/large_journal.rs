//! Measures opening, verifying and collecting a large journal, and its size on disk afterwards.
//!
//! ```sh
//! cargo run --release --example large_journal            # a million records
//! cargo run --release --example large_journal -- 100000
//! ```
#![allow(clippy::print_stdout)] // prints measurements

use std::error::Error;
use std::path::Path;
use std::time::Instant;

use ostler::kernel::event::{Event, RunOpened, Timer, TimerKind};
use ostler::kernel::id::{ClientId, RunId};
use ostler::kernel::json::canonical;
use ostler::kernel::port::{Journal, Position, Seq, StreamBatch, StreamId};
use ostler::kernel::run::RunOutcome;
use ostler_store::{Options, RetentionPolicy, Store};
use serde_json::json;

/// Records per run.
const RECORDS: u64 = 100;

/// Runs written concurrently, so that their records are interleaved.
const AT_ONCE: u64 = 16;

fn main() -> Result<(), Box<dyn Error>> {
    let records: u64 = std::env::args().nth(1).map_or(Ok(1_000_000), |text| text.parse())?;
    let runs = (records / RECORDS).max(10);
    let folder = tempfile::tempdir()?;
    let data = folder.path().join("data");
    timed("write", || write(&data, runs))?;
    println!("{} records of {runs} runs, {} MB", runs * RECORDS, megabytes(&data));
    timed("open, with the index and a sweep of all checksums", || Ok(Store::open(&data).map(drop)?))?;
    let inspect = Options { inspect: true, ..Options::default() };
    timed("open to look", || Ok(Store::open_with(&data, inspect).map(drop)?))?;
    std::fs::remove_file(data.join("index.redb"))?;
    timed("open, without the index", || Ok(Store::open(&data).map(drop)?))?;
    let found = timed("examine everything", || Ok(Store::examine(&data)?))?;
    assert!(found.is_sound(), "{found:?}");
    for percent in [50, 90, 99] {
        let before = i64::try_from(runs * percent / 100)?;
        let retention = RetentionPolicy {
            closed_before_ms: Some(before),
            quarantined: false,
            ..RetentionPolicy::default()
        };
        let gone = timed("remove old runs", || Ok(Store::collect(&data, retention, true)?))?;
        println!("  {percent} % are gone ({} now): {} MB are left", gone.runs.len(), megabytes(&data));
    }
    timed("open after that", || Ok(Store::open(&data).map(drop)?))
}

fn timed<T>(what: &str, act: impl FnOnce() -> Result<T, Box<dyn Error>>) -> Result<T, Box<dyn Error>> {
    let begun = Instant::now();
    let done = act()?;
    println!("{:>8.1} ms  {what}", begun.elapsed().as_secs_f64() * 1e3);
    Ok(done)
}

/// Megabytes allocated for the files of a folder, without holes.
fn megabytes(folder: &Path) -> u64 {
    use std::os::unix::fs::MetadataExt;
    let files = std::fs::read_dir(folder.join("journal")).into_iter().flatten().flatten();
    files.filter_map(|file| file.metadata().ok()).map(|about| about.blocks() * 512).sum::<u64>() / 1_000_000
}

/// Writes finished runs; the time of each is its number.
fn write(data: &Path, runs: u64) -> Result<(), Box<dyn Error>> {
    let (store, _) = Store::open(data)?;
    let client = ClientId::from("acme");
    let mut last = Position(0);
    for first in (0..runs).step_by(AT_ONCE as usize) {
        for record in 0..RECORDS {
            for number in first..runs.min(first + AT_ONCE) {
                let run: RunId = format!("00000000-0000-7000-8000-{number:012x}").parse()?;
                let event = event(run, &client, record, number)?;
                let stream = StreamId::run(&client, run);
                let at_ms = i64::try_from(number)?;
                last = store.journal.append(vec![StreamBatch {
                    stream,
                    expected: Seq(record),
                    at_ms,
                    events: vec![event],
                }])?;
            }
        }
    }
    let runtime = tokio::runtime::Builder::new_current_thread().build()?;
    Ok(runtime.block_on(store.journal.durable(last))?)
}

fn event(run: RunId, client: &ClientId, record: u64, number: u64) -> Result<Event, Box<dyn Error>> {
    Ok(match record {
        0 => Event::RunOpened(Box::new(RunOpened {
            run,
            client: client.clone(),
            agent: "worker".into(),
            plan: canonical(&json!({"id": format!("plan-{number}"), "nodes": []}))?,
            intent: 1,
            scope: "default".into(),
            workspace: "/tmp".into(),
            policy_epoch: 1,
            seed: 7,
        })),
        _ if record + 1 == RECORDS => Event::RunClosed { outcome: RunOutcome::Succeeded },
        _ => Event::TimerSet(Timer {
            node: format!("node-{record}").as_str().into(),
            kind: TimerKind::Sleep,
            at: 7,
        }),
    })
}
