//! The width of text in terminal cells, and cutting text to a width.
//!
//! Widths are upper bounds: a terminal that draws a sequence narrower leaves a gap, but no line becomes longer than computed.

use ostler::finding::harmless_chars;

use std::cmp::Ordering;

use unicode_width::UnicodeWidthChar;

/// Zero-width marks kept in a row; `\u{fffd}` stands for further ones.
const MARKS_MAX: usize = 4;

const CUT: &str = "…";

/// Replaces control characters, except line breaks.
pub(crate) fn harmless_lines(text: &str) -> String {
    text.split('\n').map(|line| harmless_chars(line).collect::<String>()).collect::<Vec<_>>().join("\n")
}

fn cells(c: char) -> usize {
    match c {
        // The selector requests an emoji glyph for a character that is otherwise one cell wide.
        '\u{fe0f}' => 1,
        c => c.width().unwrap_or(0),
    }
}

/// Width in cells of a text without control characters.
pub(crate) fn width(text: &str) -> usize {
    text.chars().map(cells).sum()
}

/// Width in cells of a line with colour codes.
pub(crate) fn visible(line: &str) -> usize {
    let mut parts = line.split("\u{1b}[");
    let first = parts.next().map_or(0, width);
    first + parts.map(|part| part.split_once('m').map_or(0, |(_, rest)| width(rest))).sum::<usize>()
}

/// Returns the first line without control characters, and whether more lines follow.
fn first_line(text: &str) -> (String, bool) {
    let mut lines = text.lines();
    let line = lines.next().unwrap_or_default();
    let mut marks = 0;
    let kept = harmless_chars(line).filter_map(|c| {
        marks = if cells(c) == 0 { marks + 1 } else { 0 };
        match marks.cmp(&(MARKS_MAX + 1)) {
            Ordering::Less => Some(c),
            Ordering::Equal => Some('\u{fffd}'),
            Ordering::Greater => None,
        }
    });
    (kept.collect(), lines.next().is_some())
}

/// Returns the longest prefix of at most `columns` cells.
fn beginning(text: &str, columns: usize) -> &str {
    let mut taken = 0;
    let over = text.char_indices().find(|&(_, c)| {
        taken += cells(c);
        taken > columns
    });
    over.map_or(text, |(at, _)| &text[..at])
}

/// Returns the first line without control characters, cut to `columns` cells; `…` marks omitted text.
pub(crate) fn fit(text: &str, columns: usize) -> String {
    let (line, more) = first_line(text);
    if width(&line) + usize::from(more) <= columns {
        return if more { line + CUT } else { line };
    }
    match columns.checked_sub(1) {
        None => String::new(),
        Some(columns) => format!("{}{CUT}", beginning(&line, columns)),
    }
}

/// Returns the first line without control characters, uncut; `…` marks further lines.
pub(crate) fn harmless_line(text: &str) -> String {
    fit(text, usize::MAX)
}

/// Like [`fit`], but keeps both ends of a name: numbered names differ at their ends.
pub(crate) fn fit_name(name: &str, columns: usize) -> String {
    let (line, _) = first_line(name);
    if width(&line) <= columns {
        return line;
    }
    if columns < 8 {
        return fit(&line, columns);
    }
    let tail = (columns - 1) / 2;
    let mut taken = 0;
    let from = line.char_indices().rev().take_while(|&(_, c)| {
        taken += cells(c);
        taken <= tail
    });
    let from = from.last().map_or(line.len(), |(at, _)| at);
    format!("{}{CUT}{}", beginning(&line, columns - 1 - tail), &line[from..])
}

/// Wraps a text at spaces. The first line has `first` cells, the others `columns`; `most` is the maximum
/// number of lines, and `…` marks omitted text. Returns at least one line.
pub(crate) fn wrapped(text: &str, first: usize, columns: usize, most: usize) -> Vec<String> {
    let (line, more) = first_line(text);
    let whole = if more { line + CUT } else { line };
    let (mut rest, mut lines) = (whole.as_str(), Vec::new());
    loop {
        let room = if lines.is_empty() { first } else { columns };
        let begins = beginning(rest, room);
        if begins.len() == rest.len() || lines.len() + 1 >= most || begins.is_empty() {
            lines.push(fit(rest, room));
            return lines;
        }
        // A cut at a space drops the space.
        let is_at_blank = rest[begins.len()..].starts_with(' ');
        let at = if is_at_blank { begins.len() } else { begins.rfind(' ').unwrap_or(begins.len()) };
        let at = if at == 0 { begins.len() } else { at };
        lines.push(rest[..at].trim_end().to_owned());
        rest = rest[at..].trim_start();
    }
}

/// Pads a text with spaces to `columns` cells.
pub(crate) fn padded(text: &str, columns: usize) -> String {
    format!("{text}{}", " ".repeat(columns.saturating_sub(width(text))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_that_fits_is_one_harmless_line() {
        for (text, columns, expected) in [
            ("abc", 5, "abc"),
            ("abcdef", 5, "abcd…"),
            ("abcdef", 1, "…"),
            ("abcdef", 0, ""),
            ("a\nb", 5, "a…"),
            ("a\u{1b}[31m", 10, "a\u{fffd}[31m"),
            ("a\tb", 5, "a b"),
            ("a\u{202e}b", 5, "a\u{fffd}b"),
            ("", 5, ""),
            ("日本語", 6, "日本語"),
            ("日本語", 5, "日本…"),
            ("日本語", 4, "日…"),
            ("🦀🦀", 3, "🦀…"),
            ("❤\u{fe0f}x", 2, "❤…"),
            ("❤\u{fe0f}x", 3, "❤\u{fe0f}x"),
            ("a\u{fe0f}x", 3, "a\u{fffd}x"),
            ("a\u{200b}\u{e0041}x", 4, "a\u{fffd}\u{fffd}x"),
            ("e\u{301}e\u{301}", 2, "e\u{301}e\u{301}"),
        ] {
            assert_eq!(fit(text, columns), expected, "{text:?} in {columns}");
        }
        let heap = format!("z{}y", "\u{336}".repeat(1_000));
        assert_eq!(fit(&heap, 3).chars().count(), 3 + MARKS_MAX);
    }

    #[test]
    fn lines_stay_lines_and_are_harmless() {
        for (text, expected) in [
            ("", ""),
            ("a\nb\n", "a\nb\n"),
            ("a\u{1b}[31m\nb\u{7}\tc\r", "a\u{fffd}[31m\nb\u{fffd} c\u{fffd}"),
        ] {
            assert_eq!(harmless_lines(text), expected, "{text:?}");
        }
    }

    #[test]
    fn colours_take_no_cells() {
        for (line, expected) in
            [("", 0), ("ab", 2), ("\u{1b}[32m✔\u{1b}[0m 日", 4), ("a\u{1b}[1mb\u{1b}[0m", 2)]
        {
            assert_eq!(visible(line), expected, "{line:?}");
        }
    }

    #[test]
    fn a_long_name_keeps_both_ends() {
        for (name, columns, expected) in [
            ("short", 8, "short"),
            ("render-chapter-0017", 12, "render…-0017"),
            ("render-chapter-0017", 9, "rend…0017"),
            ("render-chapter-0017", 5, "rend…"),
            ("日本語日本語日本語", 9, "日本…本語"),
        ] {
            assert_eq!(fit_name(name, columns), expected, "{name:?} in {columns}");
            assert!(width(expected) <= columns);
        }
    }

    #[test]
    fn a_long_text_is_broken_at_blanks_and_cut_only_where_there_is_no_room() {
        for (text, first, columns, most, expected) in [
            ("one two three", 20, 10, 3, &["one two three"][..]),
            ("one two three", 8, 10, 3, &["one two", "three"]),
            ("one two three", 7, 10, 3, &["one two", "three"]),
            ("one two three", 6, 4, 9, &["one", "two", "thre", "e"]),
            ("one two three", 6, 4, 2, &["one", "two…"]),
            ("one two three", 6, 4, 1, &["one t…"]),
            ("one\ntwo", 10, 10, 3, &["one…"]),
            ("日本語 日本", 6, 4, 3, &["日本語", "日本"]),
            ("日本語", 1, 1, 3, &["…"]),
            ("", 5, 5, 2, &[""]),
        ] {
            assert_eq!(wrapped(text, first, columns, most), expected, "{text:?} in {first} and {columns}");
        }
    }

    proptest::proptest! {
        #[test]
        fn no_line_is_wider_than_what_it_is_wrapped_in(text: String, first in 0usize..50, columns in 0usize..50) {
            let lines = wrapped(&text, first, columns, 5);
            assert!((1..=5).contains(&lines.len()));
            for (at, line) in lines.iter().enumerate() {
                assert!(width(line) <= if at == 0 { first } else { columns }, "{line:?}");
            }
        }

        #[test]
        fn nothing_is_wider_than_what_it_has_to_fit(text: String, columns in 0usize..50) {
            for cut in [fit(&text, columns), fit_name(&text, columns)] {
                assert!(width(&cut) <= columns, "{cut:?}");
                assert!(!cut.chars().any(char::is_control), "{cut:?}");
            }
        }
    }
}
