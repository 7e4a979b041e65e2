//! Durability figures of `docs/performance.md`, measured on this machine.
//!
//! ```text
//! cargo bench --bench durability                 # all of them
//! cargo bench --bench durability -- disk memory  # some: disk, syncs, memory, open, recovery
//! ```
//!
//! Disk speed varies fifty-fold over time. Each comparison with the disk therefore alternates with an fsync probe in many short
//! samples within one run, and reports the median of the ratios.
#![allow(missing_docs, reason = "a program")]
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a program that measures, prints, and stops at the first error"
)]

mod bare_log;
mod disk;
mod memory;
mod open;
mod peer;
mod probe;
mod recovery;
mod steps;
mod syncs;
mod table;

use table::Group;

const GROUPS: [Group; 5] = [
    ("disk", disk::rows),
    ("syncs", syncs::rows),
    ("memory", memory::rows),
    ("open", open::rows),
    ("recovery", recovery::rows),
];

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).filter(|argument| argument != "--bench").collect();
    match &arguments[..] {
        [child, data, marks] if child == recovery::CHILD => recovery::child(data.as_ref(), marks.as_ref()),
        [peer, data] if peer == peer::WORD => peer::serve(data.as_ref()),
        _ => table::print(&GROUPS, &arguments),
    }
}
