//! The outputs of a run.

use ostler_server::wire::Summary;

use crate::cli::output::cells::{fit, width};
use crate::cli::output::hints;
use crate::cli::output::labels::short_id;
use crate::cli::output::summary::Page;
use crate::cli::output::units::{bytes, plural};

pub(crate) const OUTPUTS_MAX: usize = 8;

/// Bytes of an output shown in the report.
pub(crate) const OUTPUT_BYTES_MAX: u64 = 4_000;

const OUTPUT_LINES_MAX: usize = 24;

pub(crate) struct Output {
    pub(crate) node: String,
    pub(crate) bytes: u64,
    pub(crate) is_text: bool,
    pub(crate) lines: Vec<String>,
}

/// Lists outputs in at most `most` rows; returns the lines, and the rows taken.
pub(crate) fn output_lines<'o>(
    page: &Page<'_>,
    summary: &Summary,
    outputs: &'o [Output],
    most: usize,
) -> (Vec<(String, Option<&'o Output>)>, usize) {
    let all = summary.outputs.len();
    let mut lines: Vec<(String, Option<&Output>)> = Vec::new();
    let mut rows = 0;
    for output in outputs {
        let line = output_line(page, &summary.run, output);
        let needed = page.rows_of(&line);
        let is_last = lines.len() + 1 == all;
        if !lines.is_empty() && rows + needed + usize::from(!is_last) > most {
            break;
        }
        rows += needed;
        lines.push((line, Some(output)));
    }
    if lines.len() < all {
        let more = plural(all - lines.len(), "more output");
        let artifact = hints::command("artifact", &[&format!("{}/NODE", short_id(&summary.run))], "");
        lines.push((format!("  … and {more}: {artifact}"), None));
        rows += 1;
    }
    (lines, rows)
}

fn output_line(page: &Page<'_>, run: &str, output: &Output) -> String {
    let (node, size) = (&output.node, bytes(output.bytes));
    let path = if output.is_text { "--path text" } else { "" };
    let line = |run: &str| {
        let artifact = hints::command("artifact", &[&format!("{run}/{node}")], path);
        format!("  output         {node}  {size}  {artifact}")
    };
    let whole = line(run);
    if width(&whole) <= page.columns { whole } else { line(short_id(run)) }
}

/// First lines of an output, at most `most`.
pub(crate) fn content(page: &Page<'_>, output: &Output, most: usize) -> Vec<String> {
    let many = output.lines.len();
    let most = most.min(OUTPUT_LINES_MAX);
    let shown = if many <= most { many } else { most.saturating_sub(1) };
    let mut lines: Vec<String> =
        output.lines[..shown].iter().map(|line| fit(&format!("  │ {line}"), page.columns)).collect();
    if shown < many && most > 0 {
        lines.push(format!("  │ … {}", plural(many - shown, "more line")));
    }
    lines
}
