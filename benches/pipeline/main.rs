//! Pipeline figures of `docs/performance.md`, measured on this machine.
//!
//! ```text
//! cargo bench --bench pipeline                # all of them
//! cargo bench --bench pipeline -- hop catch   # some: web, hop, flow, catch
//! ```
//!
//! Compared quantities alternate in many samples within one run, and the figure is the median of the ratios.
#![allow(missing_docs, reason = "a program")]
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a program that measures, prints, and stops at the first error"
)]

mod catch;
mod chain;
mod flow;
mod web;

/// A figure with its requirement.
pub(crate) struct Row {
    pub(crate) figure: &'static str,
    pub(crate) must: Must,
    pub(crate) measured: f64,
    pub(crate) note: String,
}

/// Requirement on a figure.
#[derive(Clone, Copy)]
pub(crate) enum Must {
    Least(f64),
    Most(f64),
}

type Group = (&'static str, fn() -> Row);

const GROUPS: [Group; 4] =
    [("web", web::row), ("hop", chain::row), ("flow", flow::row), ("catch", catch::row)];

fn main() {
    let wanted: Vec<String> = std::env::args().skip(1).filter(|argument| argument != "--bench").collect();
    if let Some(unknown) = wanted.iter().find(|wanted| GROUPS.iter().all(|(name, _)| name != wanted)) {
        eprintln!("no group {unknown:?}: there is web, hop, flow, catch");
        std::process::exit(2);
    }
    println!("| figure | must | measured | made of |");
    println!("|:-------|-----:|---------:|:--------|");
    for (name, row) in GROUPS {
        if wanted.is_empty() || wanted.iter().any(|wanted| wanted == name) {
            let Row { figure, must, measured, note } = row();
            let (must, met) = match must {
                Must::Least(least) => (format!("≥ {least}"), measured >= least),
                Must::Most(most) => (format!("≤ {most}"), measured <= most),
            };
            let mark = if met { "" } else { " (missed)" };
            println!("| {figure} | {must} | {measured:.2}{mark} | {note} |");
        }
    }
}

/// The median.
pub(crate) fn median(numbers: impl IntoIterator<Item = f64>) -> f64 {
    let mut numbers: Vec<f64> = numbers.into_iter().collect();
    numbers.sort_unstable_by(f64::total_cmp);
    numbers[numbers.len() / 2]
}

/// Median of the ratios of pairs, and of each side.
pub(crate) fn ratios(pairs: &[(f64, f64)]) -> [f64; 3] {
    [
        median(pairs.iter().map(|(ours, theirs)| ours / theirs)),
        median(pairs.iter().map(|pair| pair.0)),
        median(pairs.iter().map(|pair| pair.1)),
    ]
}

/// A runtime configured like the command's.
pub(crate) fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Runtime::new().unwrap()
}

/// A folder on tmpfs if available.
pub(crate) fn tmpfs() -> tempfile::TempDir {
    let shared = std::path::Path::new("/dev/shm");
    if shared.is_dir() { tempfile::tempdir_in(shared).unwrap() } else { tempfile::tempdir().unwrap() }
}
