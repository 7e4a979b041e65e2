//! Instruction counts of a run's decisions, compared with `baseline.txt`: a regression gate unaffected by machine load. Needs valgrind.
//!
//! ```text
//! cargo bench --bench instructions              # the table; fails if anything is a tenth over the baseline, or over a limit
//! cargo bench --bench instructions -- --renew   # writes the baseline anew
//! ```
//!
//! Instruction counts depend on the compiler and the standard library. The figures are therefore multiples of a yardstick, a case made of
//! standard library code only, compiled and counted in the same run. A pinned toolchain would serve the same purpose but prevent builds
//! with any other.
#![allow(missing_docs, reason = "a program")]
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a program that measures, prints, and stops at the first error"
)]

mod cases;
#[path = "../figures/sse.rs"]
#[allow(dead_code, reason = "figures need the length, too")]
mod sse;
#[path = "../queue/workload.rs"]
mod workload;

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use cases::{CASES, Case, LIMITS, YARDSTICK};

/// Permitted ratio to the baseline.
const TOLERANCE: f64 = 1.10;

/// Argument that runs one case a number of times.
const CHILD: &str = "--case";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).filter(|argument| argument != "--bench").collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [CHILD, name, times] => {
            let case = CASES.iter().find(|case| case.name == name).unwrap();
            (case.repeat)(times.parse().unwrap());
            ExitCode::SUCCESS
        }
        [] => judge(&measure()),
        ["--renew"] => renew(&measure()),
        _ => {
            eprintln!("expected nothing, or --renew");
            ExitCode::from(2)
        }
    }
}

/// Cases by name, as multiples of the yardstick.
fn measure() -> BTreeMap<&'static str, f64> {
    let yardstick = instructions(&YARDSTICK);
    println!("a yardstick: {yardstick:.0} instructions");
    let compared = CASES.iter().filter(|case| case.name != YARDSTICK.name);
    compared.map(|case| (case.name, instructions(case) / yardstick)).collect()
}

/// Instructions per repetition, from the difference of two counts.
fn instructions(case: &Case) -> f64 {
    let [once, often] = [1, 1 + case.times].map(|times| counted(case.name, times));
    (often - once) / case.times as f64
}

/// Instructions of a process that runs a case `times` times.
fn counted(case: &str, times: usize) -> f64 {
    let ran = Command::new("valgrind")
        .args(["--tool=cachegrind", "--cache-sim=no", "--cachegrind-out-file=/dev/null"])
        .arg(std::env::current_exe().unwrap())
        .args([CHILD, case, &times.to_string()])
        .output();
    let ran = ran.unwrap_or_else(|error| panic!("valgrind: {error}; it is in the package `valgrind`"));
    let said = String::from_utf8_lossy(&ran.stderr);
    assert!(ran.status.success(), "{said}");
    let line = said.lines().find(|line| line.contains("I refs:") || line.contains("I   refs:"));
    let count = line.and_then(|line| line.rsplit(' ').next()).unwrap_or_else(|| panic!("no count in {said}"));
    count.replace(',', "").parse().unwrap()
}

fn baseline_path() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("benches/instructions/baseline.txt")
}

fn judge(measured: &BTreeMap<&str, f64>) -> ExitCode {
    let text = std::fs::read_to_string(baseline_path()).unwrap();
    let baseline: BTreeMap<&str, f64> = text
        .lines()
        .filter(|line| !line.starts_with('#'))
        .filter_map(|line| line.split_once('\t'))
        .map(|(name, number)| (name, number.parse().unwrap()))
        .collect();
    let mut passed = true;
    println!("{:<56} {:>10} {:>10} {:>7}", "", "yardsticks", "baseline", "÷");
    for (name, now) in measured {
        let Some(before) = baseline.get(name) else {
            println!("{name:<56} {now:>10.3} {:>10}", "none");
            passed = false;
            continue;
        };
        let ratio = now / before;
        let verdict = match ratio {
            ratio if ratio > TOLERANCE => "too many",
            ratio if ratio < 1.0 / TOLERANCE => "fewer: renew the baseline, so that it stays so",
            _ => "",
        };
        println!("{name:<56} {now:>10.3} {before:>10.3} {ratio:>7.3} {verdict}");
        passed &= ratio <= TOLERANCE;
    }
    for (ours, other, must) in LIMITS {
        let ratio = measured[ours] / measured[other];
        let verdict = if ratio > must { "too many" } else { "" };
        println!("{ours} ÷ {other}: {ratio:.3}, at most {must} {verdict}");
        passed &= ratio <= must;
    }
    if passed { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn renew(measured: &BTreeMap<&str, f64>) -> ExitCode {
    let mut text = String::from(
        "# Instructions of each case, in yardsticks; `cargo bench --bench instructions -- --renew` writes this file.\n",
    );
    for (name, number) in measured {
        writeln!(text, "{name}\t{number:.4}").unwrap();
        println!("{name:<56} {number:>10.3}");
    }
    std::fs::write(baseline_path(), text).unwrap();
    ExitCode::SUCCESS
}
