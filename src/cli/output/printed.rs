//! Output of programs as lines, each behind the name of its node.

use ostler_kernel::port::OutputChunk;
use ostler_server::wire::OutputRow;

use crate::cli::output::cells::{fit_name, harmless_line};

/// Cells of a node's name before its output on a terminal.
pub(crate) const OUTPUT_NAME_MAX: usize = 28;

/// Formats lines behind their node, whose name has at most `name_max` cells, and before them a note on output that was left out.
pub(crate) fn output_lines(row: &OutputRow, name_max: usize) -> Vec<String> {
    let (name, chunk) = (origin(&row.chunk, name_max), &row.chunk);
    let lines = chunk.lost.is_none().then(|| chunk.text.split('\n').map(harmless_line));
    note(chunk)
        .into_iter()
        .chain(lines.into_iter().flatten())
        .map(|line| format!("{name} | {line}"))
        .collect()
}

/// The node, and the attempt if it is not the first.
fn origin(chunk: &OutputChunk, name_max: usize) -> String {
    let node = fit_name(chunk.node.as_str(), name_max);
    if chunk.attempt > 1 { format!("{node}#{}", chunk.attempt) } else { node }
}

/// A note on output that is not there: before these lines, or from here on.
pub(crate) fn note(chunk: &OutputChunk) -> Option<String> {
    match &chunk.lost {
        Some(why) => Some(format!("[output is lost from here on: {}]", harmless_line(why))),
        None => (chunk.left_out > 0).then(|| format!("[{} bytes left out]", chunk.left_out)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lost_output_is_a_line_with_the_reason() {
        let row = |text: &str, left_out, lost| OutputRow {
            row_type: "output".to_owned(),
            seq: 1,
            run: "r".to_owned(),
            chunk: serde_json::from_value(serde_json::json!({
                "at_ms": 1, "node": "n", "attempt": 1, "stream": "stdout", "text": text,
                "left_out": left_out, "lost": lost,
            }))
            .unwrap(),
        };
        let check =
            |row: OutputRow, expected: &[&str]| assert_eq!(output_lines(&row, OUTPUT_NAME_MAX), expected);
        check(row("a\nb", 0, None), &["n | a", "n | b"]);
        check(row("a", 7, None), &["n | [7 bytes left out]", "n | a"]);
        check(
            row("", 0, Some("the disk is nearly full")),
            &["n | [output is lost from here on: the disk is nearly full]"],
        );
    }
}
