//! What models write, on its way to people: the delay to a terminal, the work of many streams, the memory of a flood.

use std::fs::File;
use std::io::Read;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::StreamExt;
use ostler::config::Config;
use ostler::{Ostler, Submission};
use ostler_server::router;
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};
use serde_json::json;
use tower::ServiceExt;

use crate::plans;
use crate::provider::{Call, Provider};
use crate::table::{Row, median};

/// Argument that selects the child process with many streams.
pub(crate) const CHILD: &str = "--streams";

/// Runs at a terminal, and further pieces of each.
const RUNS: usize = 20;
const PIECES: usize = 20;

/// Time before a piece: longer than that between two drawings.
const PAUSE: Duration = Duration::from_millis(50);

/// Streams at once, the time between two pieces of each, and the time of the measurement.
const STREAMS: usize = 256;
const PIECE_EVERY: Duration = Duration::from_millis(50);
const MEASURED: Duration = Duration::from_secs(10);

const FLOOD_BYTES: usize = 100 << 20;

pub(crate) fn rows() -> Vec<Row> {
    let mut rows = to_terminal();
    rows.extend(["one run", "256 runs"].map(streams));
    rows.push(flood());
    rows
}

/// The command with a provider in a folder, where it has a data folder and a workspace.
fn command(provider: &Provider, folder: &Path) -> Command {
    let (data, work) = (folder.join("data"), folder.join("work"));
    for folder in [&data, &work] {
        std::fs::create_dir_all(folder).unwrap();
    }
    std::fs::write(data.join("ostler.toml"), provider.config()).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_ostler"));
    command.env("OSTLER_DATA", data).env_remove("OSTLER_CONFIG").current_dir(work);
    command.stdin(Stdio::null()).stderr(Stdio::null());
    command
}

/// A terminal of 80 by 24 as standard output of a command.
fn at_terminal(mut command: Command) -> (Child, File) {
    let terminal = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
    grantpt(&terminal).unwrap();
    unlockpt(&terminal).unwrap();
    let name = ptsname(&terminal, Vec::new()).unwrap();
    let other = File::options().read(true).write(true).open(name.to_str().unwrap()).unwrap();
    tcsetwinsize(&other, Winsize { ws_row: 24, ws_col: 80, ws_xpixel: 0, ws_ypixel: 0 }).unwrap();
    let child = command.env("TERM", "xterm-256color").stdout(OwnedFd::from(other)).spawn().unwrap();
    (child, File::from(terminal))
}

/// Milliseconds from the write of a piece to its last byte at the terminal.
fn delay(call: &mut Call, terminal: &mut File, mark: &str) -> f64 {
    let begun = Instant::now();
    assert!(call.text(&format!("\n{mark}")));
    let (mut seen, mut some) = (Vec::new(), [0; 16 << 10]);
    while !seen.windows(mark.len()).any(|window| window == mark.as_bytes()) {
        let count = terminal.read(&mut some).unwrap();
        seen.extend_from_slice(&some[..count]);
    }
    begun.elapsed().as_secs_f64() * 1e3
}

fn to_terminal() -> Vec<Row> {
    let (folder, provider) = (plans::folder(), Provider::start());
    let (mut first, mut later) = (Vec::new(), Vec::new());
    for run in 0..RUNS {
        let mut ask = command(&provider, folder.path());
        ask.args(["ask", "--yes", "what is up?"]);
        let (mut child, mut terminal) = at_terminal(ask);
        let mut call = provider.call();
        std::thread::sleep(10 * PAUSE);
        first.push(delay(&mut call, &mut terminal, &format!("<{run}:first>")));
        for piece in 0..PIECES {
            std::thread::sleep(PAUSE);
            later.push(delay(&mut call, &mut terminal, &format!("<{run}:{piece}>")));
        }
        call.end();
        // The command waits for a reader of what it prints.
        let reader =
            std::thread::spawn(move || while terminal.read(&mut [0; 4_096]).is_ok_and(|read| read > 0) {});
        assert!(child.wait().unwrap().success());
        reader.join().unwrap();
    }
    let row = |figure: &str, must, samples: &mut Vec<f64>| {
        samples.sort_unstable_by(f64::total_cmp);
        let p99 = samples[samples.len() * 99 / 100];
        Row::ratio(figure, must, median(samples.iter().copied()))
            .unit("ms")
            .note(format!("99 of 100 within {p99:.2} ms; {} samples", samples.len()))
    };
    vec![
        row("the first piece of an answer, from its chunk to the terminal", 2.0, &mut first),
        row("further pieces", 2.0, &mut later),
    ]
}

/// Share of a core that a process with many streams takes, each followed as JSON lines of the API.
fn streams(kind: &'static str) -> Row {
    let (data, provider) = (plans::folder(), Provider::start());
    std::fs::write(data.path().join("ostler.toml"), provider.config()).unwrap();
    let mut command = Command::new(std::env::current_exe().unwrap());
    let mut child = command.arg(CHILD).arg(data.path()).arg(kind).stdout(Stdio::null()).spawn().unwrap();
    let mut calls: Vec<Call> = (0..STREAMS).map(|_| provider.call()).collect();
    let mut write = |time: Duration| {
        let begun = Instant::now();
        let mut pieces = 0;
        while begun.elapsed() < time {
            let next = Instant::now() + PIECE_EVERY;
            for call in &mut calls {
                assert!(call.text(" word"));
                pieces += 1;
            }
            std::thread::sleep(next.saturating_duration_since(Instant::now()));
        }
        f64::from(pieces) / begun.elapsed().as_secs_f64()
    };
    write(Duration::from_secs(1));
    let (before, begun) = (busy(&child), Instant::now());
    let each_second = write(MEASURED);
    let share = (busy(&child) - before).as_secs_f64() / begun.elapsed().as_secs_f64();
    calls.into_iter().for_each(Call::end);
    assert!(child.wait().unwrap().success());
    Row::ratio(format!("256 streams at once in {kind}: share of a core"), 0.2, share)
        .note(format!("{each_second:.0} pieces a second"))
}

/// The process with the streams: runs the plans, reads all texts, and ends with the runs.
pub(crate) fn child(data: &Path, kind: &str) {
    tokio::runtime::Runtime::new().unwrap().block_on(async {
        let config = Config::read(&data.join("ostler.toml")).unwrap();
        let slots = u32::try_from(STREAMS).unwrap();
        let os = Ostler::builder().data_dir(data.join("data")).config(config).slots(slots).start().await.unwrap();
        let (runs, nodes) = if kind == "one run" { (1, STREAMS) } else { (STREAMS, 1) };
        let node = |at| {
            let contract = json!([{"method": "schema", "spec": {}}]);
            json!({"id": format!("n{at}"), "tool": "model.default", "params": {"prompt": "x"}, "contract": contract})
        };
        let nodes: Vec<_> = (0..nodes).map(node).collect();
        let plan = plans::plan(&os, json!({"id": "texts", "policy": {"slots": 0}, "nodes": nodes}));
        let mut readers = Vec::new();
        for _ in 0..runs {
            let run = os.submit(Submission::plan(Arc::clone(&plan))).await.unwrap();
            let request = axum::http::Request::get(format!("/v1/runs/{}/text", run.id()))
                .header("accept", "application/x-ndjson")
                .body(axum::body::Body::empty())
                .unwrap();
            let response = router(os.system().clone(), os.operators().clone()).oneshot(request).await.unwrap();
            let mut body = response.into_body().into_data_stream();
            readers.push(tokio::spawn(async move { while body.next().await.is_some() {} }));
        }
        for reader in readers {
            reader.await.unwrap();
        }
        os.shutdown().await;
    });
}

/// Peak of the memory of a process that gets an endless answer, beyond that before it.
fn flood() -> Row {
    let (folder, provider) = (plans::folder(), Provider::start());
    let plan = folder.path().join("plan.json");
    let node = json!({"id": "n", "tool": "model.default", "params": {"prompt": "x"}, "retries": 0,
                      "contract": [{"method": "schema", "spec": {}}]});
    std::fs::write(&plan, json!({"id": "flood", "nodes": [node]}).to_string()).unwrap();
    let mut run = command(&provider, folder.path());
    run.arg("run").arg(plan);
    let (mut child, mut terminal) = at_terminal(run);
    let reader =
        std::thread::spawn(move || while terminal.read(&mut [0; 4_096]).is_ok_and(|read| read > 0) {});
    let mut call = provider.call();
    let before = peak_mb(&child);
    let (piece, mut sent, mut most) = ("word ".repeat(800), 0, before);
    while sent < FLOOD_BYTES && call.text(&piece) {
        sent += piece.len();
        most = peak_mb(&child).max(most);
    }
    assert!(!child.wait().unwrap().success(), "the answer is beyond the limit");
    reader.join().unwrap();
    Row::ratio("an answer of 100 MB: memory beyond that before it", 64.0, most - before)
        .unit("MB")
        .note(format!("ended after {:.0} MB, shown at a terminal", sent as f64 / 1e6))
}

/// Processor time of a process.
fn busy(child: &Child) -> Duration {
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", child.id())).unwrap();
    // Field 3 is the state; fields 14 and 15 are hundredths of a second.
    let (_, fields) = stat.rsplit_once(") ").unwrap();
    let ticks: u64 = fields.split(' ').skip(11).take(2).map(|ticks| ticks.parse::<u64>().unwrap()).sum();
    Duration::from_millis(10 * ticks)
}

/// Peak of the resident memory of a process in megabytes of 10^6 bytes; 0 if it has ended.
fn peak_mb(child: &Child) -> f64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kib = line.and_then(|line| line.split_whitespace().next()?.parse::<f64>().ok());
    kib.unwrap_or(0.0) * 1_024.0 / 1e6
}
