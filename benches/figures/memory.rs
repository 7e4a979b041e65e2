//! Memory of a system in a process of its own: idle, and with a thousand runs waiting for approval.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use ostler::Submission;
use ostler::kernel::run::RunStatus;

use crate::plans;
use crate::table::{Row, median};

/// Argument that selects the child process.
pub(crate) const CHILD: &str = "--resident";

const ROUNDS: usize = 3;
const RUNS: usize = 1_000;

pub(crate) fn rows() -> Vec<Row> {
    let (mut rest, mut runs) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        let data = plans::folder();
        let child =
            Command::new(std::env::current_exe().unwrap()).arg(CHILD).arg(data.path()).output().unwrap();
        assert!(child.status.success(), "{}", String::from_utf8_lossy(&child.stderr));
        let text = String::from_utf8(child.stdout).unwrap();
        let numbers: Vec<f64> = text.split_whitespace().map(|number| number.parse().unwrap()).collect();
        rest.push(numbers[0]);
        runs.push(numbers[1] - numbers[0]);
    }
    vec![
        Row::ratio("resident memory at rest", 20.0, median(rest)).unit("MB"),
        Row::ratio("1,000 runs of ten nodes that wait for a person: more", 8.0, median(runs)).unit("MB"),
    ]
}

/// Prints megabytes when idle and with the runs.
pub(crate) fn child(data: &Path) {
    tokio::runtime::Runtime::new().unwrap().block_on(async {
        let os = plans::in_folder(data).await;
        tokio::time::sleep(Duration::from_millis(300)).await;
        print!("{} ", resident_mb());
        let plan = plans::plan(&os, plans::waiting());
        for _ in 0..RUNS {
            let run = os.submit(Submission::plan(plan.clone())).await.unwrap();
            assert_eq!(run.outcome().await.unwrap(), RunStatus::Waiting);
        }
        drop(plan);
        tokio::time::sleep(Duration::from_millis(500)).await;
        println!("{}", resident_mb());
        os.shutdown().await;
    });
}

/// Resident set size according to Linux, in megabytes of 10^6 bytes.
pub(crate) fn resident_mb() -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    let kib: f64 = line.split_whitespace().next().unwrap().parse().unwrap();
    kib * 1_024.0 / 1e6
}
