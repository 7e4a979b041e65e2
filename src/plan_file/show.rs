//! A finding for people.

use super::{Finding, Place};

/// Characters of a line that are shown; of a longer one, those around the place.
const LINE_CHARS_MAX: usize = 100;

/// The place of a byte.
pub(super) fn place(text: &str, offset: usize) -> Place {
    let mut offset = offset.min(text.len());
    while !text.is_char_boundary(offset) {
        offset -= 1;
    }
    let before = &text[..offset];
    let start = before.rfind('\n').map_or(0, |at| at + 1);
    Place { line: before.matches('\n').count() + 1, column: before[start..].chars().count() + 1, offset }
}

/// Text for a terminal or a pipe, ending in a line break.
pub(super) fn finding(name: &str, text: &str, finding: &Finding, colour: bool) -> String {
    let (paint, bold, off) = match (colour, finding.is_advice()) {
        (false, _) => ("", "", ""),
        (true, true) => ("\u{1b}[33m", "\u{1b}[1m", "\u{1b}[0m"),
        (true, false) => ("\u{1b}[31m", "\u{1b}[1m", "\u{1b}[0m"),
    };
    let node = finding.node.as_deref().map(|node| format!(" {node}")).unwrap_or_default();
    let word = if finding.is_advice() { "advice" } else { "error" };
    let head = format!("{paint}{word} {}{node}{off}{bold}: {}{off}\n", finding.code, finding.detail);
    let Some(place) = finding.place else {
        let mend = if finding.mend.is_empty() { String::new() } else { format!("  = {}\n", finding.mend) };
        return format!("{head}  --> {name}\n{mend}");
    };
    let start = text[..place.offset].rfind('\n').map_or(0, |at| at + 1);
    let line = text[start..].lines().next().unwrap_or_default();
    let from = place.column.saturating_sub(LINE_CHARS_MAX / 2 + 1);
    let from = if line.chars().count() <= LINE_CHARS_MAX { 0 } else { from };
    let visible = |c: char| if c.is_control() && c != '\t' { '\u{fffd}' } else { c };
    let shown: String = line.chars().skip(from).take(LINE_CHARS_MAX).map(visible).collect();
    let lead: String =
        shown.chars().take(place.column - 1 - from).map(|c| if c == '\t' { '\t' } else { ' ' }).collect();
    let number = place.line.to_string();
    let pad = " ".repeat(number.len());
    let carets = "^".repeat(length(&text[place.offset..]).min(LINE_CHARS_MAX / 2));
    let mend = if finding.mend.is_empty() { String::new() } else { format!(" {}", finding.mend) };
    format!(
        "{head}{pad} --> {name}:{}:{}\n{pad} |\n{number} | {shown}\n{pad} | {lead}{paint}{carets}{mend}{off}\n",
        place.line, place.column
    )
}

/// Characters of the word at the start of `rest`: a text in quotes, or up to what ends a word.
fn length(rest: &str) -> usize {
    let line = rest.lines().next().unwrap_or_default();
    let first = line.chars().next();
    let count = match first {
        Some(quote @ ('"' | '\'')) => line.chars().skip(1).take_while(|&c| c != quote).count() + 2,
        Some('{' | '[') => 1,
        _ => line.chars().take_while(|&c| !c.is_whitespace() && !",:]}#".contains(c)).count(),
    };
    count.max(1)
}
