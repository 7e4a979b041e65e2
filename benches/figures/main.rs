//! Figures of `docs/performance.md`, measured on this machine.
//!
//! ```text
//! cargo bench --bench figures                     # all of them
//! cargo bench --bench figures -- makespan memory  # some: makespan, overhead, flood, validation, start, programs, cages, memory, agents, models, disk, text, lineage, gate
//! ```
//!
//! Compared quantities alternate in many short samples within one run, and the figure is the median of the ratios. Other load on the
//! machine then slows both sides.
#![allow(missing_docs, reason = "a program")]
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a program that measures, prints, and stops at the first error"
)]

mod agents;
mod bare;
mod cages;
mod disk;
mod flood;
mod gate;
mod lineage;
mod makespan;
mod memory;
mod models;
mod overhead;
mod plans;
mod programs;
mod provider;
mod sse;
mod start;
mod table;
mod text;
mod validation;

use table::Group;

const GROUPS: [Group; 14] = [
    ("makespan", makespan::rows),
    ("overhead", overhead::rows),
    ("flood", flood::rows),
    ("validation", validation::rows),
    ("start", start::rows),
    ("programs", programs::rows),
    ("cages", cages::rows),
    ("memory", memory::rows),
    ("agents", agents::rows),
    ("models", models::rows),
    ("disk", disk::rows),
    ("text", text::rows),
    ("lineage", lineage::rows),
    ("gate", gate::rows),
];

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).filter(|argument| argument != "--bench").collect();
    if let [child, data] = &arguments[..]
        && child == memory::CHILD
    {
        return memory::child(data.as_ref());
    }
    if let [child, data] = &arguments[..]
        && let Some((_, measure)) = agents::CHILDREN.into_iter().find(|(word, _)| word == child)
    {
        return agents::child(measure, data.as_ref());
    }
    if let [child, data, kind] = &arguments[..]
        && child == text::CHILD
    {
        return text::child(data.as_ref(), kind);
    }
    table::print(&GROUPS, &arguments);
}
