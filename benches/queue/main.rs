//! The figures of the run queue in `docs/performance.md`: cost relative to bare ordered structures.
//!
//! ```text
//! cargo bench --bench queue                  # all of them
//! cargo bench --bench queue -- speed actor   # some: speed, growth, latency, memory, actor
//! ```
//!
//! Both sides of a comparison are filled first, then measured alternately in short samples within one process. The figure is the
//! median of the ratios, so other load on the machine slows both sides.
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
