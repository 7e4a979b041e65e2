//! Output of programs as lines, each behind the name of its node.

use ostler_kernel::port::OutputChunk;
use ostler_server::wire::OutputRow;

use crate::cli::output::cells::{fit_name, harmless_line};

/// Cells of a node's name before its output on a terminal.
pub(crate) const OUTPUT_NAME_MAX: usize = 28;

/// Formats lines behind their node, whose name has at most `name_max` cells, and before them a note on output that was left out.
pub(crate) fn output_lines(row: &OutputRow, name_max: usize) -> Vec<String> {
    let (name, chunk) = (origin(&row.chunk, name_max), &row.chunk);
    let lines = chunk.text.split('\n').map(harmless_line);
    left_out(chunk).into_iter().chain(lines).map(|line| format!("{name} | {line}")).collect()
}

/// The node, and the attempt if it is not the first.
fn origin(chunk: &OutputChunk, name_max: usize) -> String {
    let node = fit_name(chunk.node.as_str(), name_max);
    if chunk.attempt > 1 { format!("{node}#{}", chunk.attempt) } else { node }
}

pub(crate) fn left_out(chunk: &OutputChunk) -> Option<String> {
    (chunk.left_out > 0).then(|| format!("[{} bytes left out]", chunk.left_out))
}
