//! Modes beside their own calls, and the decoder of streams.

use std::process::Command;

use serde_json::Value;

use crate::sse::Stream;
use crate::table::{Row, median};

/// Events of a decoded stream: a few megabytes.
const EVENTS: usize = 20_000;

/// Repetitions of each stream.
const ROUNDS: usize = 40;

/// Bytes of the figure: 200 MB in a second.
const BYTES: f64 = 200e6;

pub(crate) fn rows() -> Vec<Row> {
    let mut rows = modes();
    rows.extend(Stream::all(EVENTS).iter().map(decoding));
    rows
}

fn decoding(stream: &Stream) -> Row {
    assert!(stream.decode() >= EVENTS);
    let begun = on_core();
    for _ in 0..ROUNDS {
        stream.decode();
    }
    let seconds = (on_core() - begun) / ROUNDS as f64;
    let (bytes, events) = (stream.bytes() as f64, EVENTS as f64);
    Row::ratio(format!("decoding 200 MB of SSE: {}", stream.name), 1.0, seconds * BYTES / bytes)
        .unit("s")
        .note(format!(
            "{:.0} MB/s, {:.0} bytes and {:.0} ns an event",
            bytes / seconds / 1e6,
            bytes / events,
            seconds * 1e9 / events
        ))
}

/// Seconds that this thread has had a core: whatever else runs takes none of them. The kernel counts it a few milliseconds late.
fn on_core() -> f64 {
    let line = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap();
    line.split(' ').next().unwrap().parse::<f64>().unwrap() / 1e9
}

/// The rows of `ostler experiment modes --real`, which runs in a process of its own.
fn modes() -> Vec<Row> {
    let folder = tempfile::tempdir().unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_ostler"));
    command.args(["experiment", "modes", "--real", "--json", "--latency", "500ms"]).current_dir(&folder);
    let ran = command.output().unwrap();
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
    let report: Value = serde_json::from_slice(&ran.stdout).unwrap();
    let trials = report["engine"].as_array().unwrap();
    let overhead = |trial: &Value| 1.0 + trial["overhead"].as_f64().unwrap();
    let worst = trials.iter().max_by(|one, other| overhead(one).total_cmp(&overhead(other))).unwrap();
    let middle = median(trials.iter().map(overhead));
    let mut rows = vec![
        Row::ratio("a goal run ÷ its calls alone, the middle of all modes and goals", 1.01, middle)
            .note(format!("{} goal runs", trials.len())),
        Row::ratio("the same, the worst", 1.01, overhead(worst)).note(format!(
            "{}, {} tools",
            worst["strategy"].as_str().unwrap(),
            worst["tools"]
        )),
    ];
    for (tools, levels, text) in [(3, 1, "three independent tools"), (3, 3, "three tools in a row")] {
        for aggregator in ["off", "executor"] {
            let [ours, react] = [format!("nreflect:{tools}"), "react".to_owned()]
                .map(|strategy| took(trials, &strategy, tools, levels, aggregator));
            let answer = if aggregator == "off" { "" } else { ", a model writes the answer" };
            rows.push(
                Row::ratio(format!("nreflect ÷ react, {text}{answer}"), 1.0, ours / react)
                    .note(format!("{ours:.0} ms ÷ {react:.0} ms")),
            );
        }
    }
    for (aggregator, must) in [("off", Some(1.01)), ("executor", None)] {
        let [auto, react] = ["auto", "react"].map(|strategy| took(trials, strategy, 1, 1, aggregator));
        let answer = if aggregator == "off" { "" } else { ", a model writes the answer" };
        rows.push(
            Row::ratio(format!("auto ÷ react, one tool{answer}"), must, auto / react)
                .note(format!("{auto:.0} ms ÷ {react:.0} ms")),
        );
    }
    rows
}

fn took(trials: &[Value], strategy: &str, tools: u64, levels: u64, aggregator: &str) -> f64 {
    let is_it = |trial: &&Value| {
        trial["strategy"] == strategy
            && trial["tools"] == tools
            && trial["levels"] == levels
            && trial["aggregator"] == aggregator
    };
    trials.iter().find(is_it).unwrap()["took_ms"].as_f64().unwrap()
}
