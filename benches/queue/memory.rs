//! Memory per queued job and per client: growth of the resident set of a child process.

use std::hint::black_box;
use std::process::Command;

use ostler_scheduler::NewJob;

use crate::table::{Row, median};
use crate::workload::{Size, filled};

/// Argument that starts this program as the child process.
pub(crate) const CHILD: &str = "--resident";

const ROUNDS: usize = 3;
const PAYLOAD_BYTES: f64 = size_of::<u64>() as f64;

pub(crate) fn rows() -> Vec<Row> {
    let many = 100_000;
    let jobs = [100_000, 1_000_000, 10_000_000].map(|jobs| {
        let size = Size { jobs, clients: 1_000 };
        let all = resident(size) - resident(Size { jobs: 1_000, ..size });
        Row::ratio(
            format!("{size}: beyond the payload, per queued job"),
            24.0,
            all / (jobs - 1_000) as f64 - PAYLOAD_BYTES,
        )
        .unit("bytes")
    });
    let all = resident(Size { jobs: many, clients: many }) - resident(Size { jobs: 1, clients: 1 });
    let client = Row::ratio("a client with an agent and its first job, k=100k", 512.0, all / many as f64);
    jobs.into_iter().chain([client.unit("bytes").note("payload included")]).collect()
}

/// Median resident bytes of a process with a queue of this size.
fn resident(size: Size) -> f64 {
    median((0..ROUNDS).map(|_| {
        let child = Command::new(std::env::current_exe().unwrap())
            .args([CHILD, &size.jobs.to_string(), &size.clients.to_string()])
            .output()
            .unwrap();
        assert!(child.status.success(), "{}", String::from_utf8_lossy(&child.stderr));
        String::from_utf8(child.stdout).unwrap().trim().parse().unwrap()
    }))
}

/// Prints the growth of this process in bytes.
pub(crate) fn child(jobs: u64, clients: u64) {
    let queue = filled(Size { jobs, clients }, 1, |_, estimate| NewJob::flat(estimate));
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    let kib: u64 = line.split_whitespace().next().unwrap().parse().unwrap();
    println!("{}", kib * 1_024);
    black_box(queue);
}
