//! Output of programs as lines, each behind the name of its node.

use ostler_kernel::port::OutputChunk;
use ostler_server::wire::OutputRow;

use crate::cli::output::cells::{fit_name, harmless_line};

const NAME_MAX: usize = 28;

/// Formats lines behind their node, and before them a note on output that was left out.
pub(crate) fn output_lines(row: &OutputRow) -> Vec<String> {
    let (name, chunk) = (origin(&row.chunk), &row.chunk);
    let lines = chunk.text.split('\n').map(harmless_line);
    left_out(chunk).into_iter().chain(lines).map(|line| format!("{name} | {line}")).collect()
}

/// The node, and the attempt if it is not the first.
fn origin(chunk: &OutputChunk) -> String {
    let node = fit_name(chunk.node.as_str(), NAME_MAX);
    if chunk.attempt > 1 { format!("{node}#{}", chunk.attempt) } else { node }
}

pub(crate) fn left_out(chunk: &OutputChunk) -> Option<String> {
    (chunk.left_out > 0).then(|| format!("[{} bytes left out]", chunk.left_out))
}
