//! The figures of the run queue in `docs/performance.md`: what it costs beside the structures that one would use instead.
//!
//! ```text
//! cargo bench --bench queue                  # all of them
//! cargo bench --bench queue -- speed actor   # some: speed, growth, latency, memory, actor
//! ```
//!
//! Everything that is compared is filled first, then measured in turns within one run, in short samples; what counts is
//! the median of the ratios, so that a machine that is busy with something else slows both sides.
#![allow(missing_docs, reason = "a program")]
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a program that measures, prints, and stops at the first error"
)]

mod actor;
mod contenders;
mod growth;
mod latency;
mod memory;
mod paper;
mod speed;
#[path = "../figures/table.rs"]
mod table;
mod workload;

use table::Group;

const GROUPS: [Group; 5] = [
    ("speed", speed::rows),
    ("growth", growth::rows),
    ("latency", latency::rows),
    ("memory", memory::rows),
    ("actor", actor::rows),
];

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).filter(|argument| argument != "--bench").collect();
    if let [child, jobs, clients] = &arguments[..]
        && child == memory::CHILD
    {
        return memory::child(jobs.parse().unwrap(), clients.parse().unwrap());
    }
    table::print(&GROUPS, &arguments);
}
