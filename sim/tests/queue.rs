//! The run queue against recorded traces, and against the reference model if it is available.

use std::path::{Path, PathBuf};
use std::process::Command;

use ostler_sim::queue::run_trace;

/// Seeds per test run and draws per seed. Overrides: `OSTLER_QUEUE_SEEDS`, `OSTLER_QUEUE_DRAWS`; `OSTLER_QUEUE_SEED`
/// sets the first seed.
const SEEDS: u32 = 40;
const DRAWS: u32 = 150;

fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn shared() -> PathBuf {
    std::env::var_os("OSTLER_SHARED")
        .map_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("../../shared"), PathBuf::from)
}

fn traces(folder: &Path) -> Vec<PathBuf> {
    let mut traces: Vec<PathBuf> = std::fs::read_dir(folder)
        .expect("the folder of traces is readable")
        .map(|entry| entry.expect("the folder of traces is readable").path())
        .filter(|path| {
            let name = path.to_string_lossy();
            name.ends_with(".jsonl") && !name.ends_with(".expected.jsonl")
        })
        .collect();
    traces.sort();
    traces
}

fn check(name: &str, printed: &str, expected: &str) {
    let lines =
        printed.lines().zip(expected.lines()).zip(1..).find(|((printed, expected), _)| printed != expected);
    if let Some(((printed, expected), line)) = lines {
        panic!("{name}, line {line}\n  expected {expected}\n  printed  {printed}");
    }
    assert_eq!(printed.len(), expected.len(), "{name}: one output goes on after the other ends");
}

#[test]
fn recorded_traces_print_the_same_bytes() {
    let traces = traces(&Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/queue"));
    assert_eq!(traces.len(), 8);
    for trace in traces {
        check(
            &trace.display().to_string(),
            &run_trace(&read(&trace)),
            &read(&trace.with_extension("expected.jsonl")),
        );
    }
}

#[test]
fn our_copies_of_the_traces_are_the_published_ones() {
    let published = shared().join("oracle/traces");
    if !published.is_dir() {
        println!("skipped: {} is not there", published.display());
        return;
    }
    for trace in traces(&published) {
        for path in [trace.clone(), trace.with_extension("expected.jsonl")] {
            let copy = Path::new(env!("CARGO_MANIFEST_DIR"))
                .join("tests/data/queue")
                .join(path.file_name().unwrap());
            assert_eq!(read(&copy), read(&path), "{}", copy.display());
        }
    }
}

/// Prints a random trace per seed and the model's output, each followed by a separator line.
const MODEL: &str = r#"
import sys
sys.path.insert(0, sys.argv[1])
import fair_queue as model
for seed in range(int(sys.argv[2]), int(sys.argv[3])):
    trace = [model.text(o) for o in model.concrete(model.gen(seed, int(sys.argv[4])))]
    print(*trace, "=trace", *map(model.show, model.replay(trace)), "=printed", sep="\n")
"#;

#[test]
fn random_traces_print_what_the_model_prints() {
    let folder = shared().join("oracle");
    if !folder.join("fair_queue.py").is_file() {
        println!("skipped: there is no fair_queue.py in {}", folder.display());
        return;
    }
    let number =
        |name, default: u32| std::env::var(name).map_or(default, |text| text.parse().expect("a number"));
    let (seeds, first) = (number("OSTLER_QUEUE_SEEDS", SEEDS), number("OSTLER_QUEUE_SEED", 0));
    let arguments =
        [first, first + seeds, number("OSTLER_QUEUE_DRAWS", DRAWS)].map(|number| number.to_string());
    let output = Command::new("python3").args(["-B", "-c", MODEL]).arg(&folder).args(arguments).output();
    let Ok(output) = output else {
        println!("skipped: python3 does not start");
        return;
    };
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).expect("the model prints UTF-8");
    let mut compared = 0;
    for (case, seed) in text.split_terminator("=printed\n").zip(first..) {
        let (trace, expected) = case.split_once("=trace\n").expect("a trace is followed by its outcome");
        check(&format!("seed {seed}"), &run_trace(trace), expected);
        compared += 1;
    }
    assert_eq!(compared, seeds);
}
