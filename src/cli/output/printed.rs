//! Lines that programs printed, as shown beside other lines of a run.

use ostler_kernel::port::OutputLine;
use ostler_server::wire::OutputRow;

use crate::cli::output::cells::{fit_name, harmless_line};

const NAME_MAX: usize = 28;

/// Formats a line behind its node, and before it a note on output that was left out.
pub(crate) fn output_lines(row: &OutputRow) -> Vec<String> {
    let name = origin(&row.line);
    let left_out = left_out(&row.line).map(|note| format!("{name} | {note}"));
    left_out.into_iter().chain([format!("{name} | {}", harmless_line(&row.line.text))]).collect()
}

/// The node, and the attempt if it is not the first.
pub(crate) fn origin(line: &OutputLine) -> String {
    let node = fit_name(line.node.as_str(), NAME_MAX);
    if line.attempt > 1 { format!("{node}#{}", line.attempt) } else { node }
}

pub(crate) fn left_out(line: &OutputLine) -> Option<String> {
    (line.left_out > 0).then(|| format!("[{} bytes left out]", line.left_out))
}
