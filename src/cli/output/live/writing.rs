//! What models write at the moment, as the last lines under a display.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use ostler_server::wire::{TextPart, TextRow};

use crate::cli::output::cells::{fit, fit_name, width, wrapped};
use crate::cli::output::printed::OUTPUT_NAME_MAX;
use crate::cli::output::terminal::{Style, styled_if};
use crate::cli::output::units::plural;

/// Shortest time between two drawings of text; the first piece after a pause is drawn at once.
const TEXT_REDRAW: Duration = Duration::from_millis(16);

/// Bytes kept of the end of a text: more than the rows of a display show.
const TAIL_BYTES_MAX: usize = 8 << 10;

/// Texts kept; further ones are not shown.
const TEXTS_MAX: usize = 256;

/// Texts shown at once, the newest; the others are counted.
const TEXTS_SHOWN_MAX: usize = 3;

/// Columns of a text, at least.
const COLUMNS_MIN: usize = 8;

/// The texts of running attempts.
#[derive(Debug, Default)]
pub(crate) struct Writing {
    texts: VecDeque<Text>,
}

#[derive(Debug)]
struct Text {
    node: String,
    attempt: u32,
    began_ms: i64,
    call: u32,
    /// The end of the text by kind, oldest first.
    tail: VecDeque<(TextPart, String)>,
}

impl Writing {
    pub(crate) fn is_empty(&self) -> bool {
        self.texts.is_empty()
    }

    pub(crate) fn take(&mut self, row: &TextRow) {
        let node = row.node.as_str();
        let Some(piece) = &row.piece else { return self.end(node) };
        let (attempt, began_ms) = (row.attempt, row.began_ms);
        if !self.texts.iter().any(|text| text.node == node) {
            if self.texts.len() == TEXTS_MAX {
                return;
            }
            let node = node.to_owned();
            self.texts.push_back(Text { node, attempt, began_ms, call: piece.call, tail: VecDeque::new() });
        }
        let Some(text) = self.texts.iter_mut().find(|text| text.node == node) else { return };
        if (text.attempt, text.began_ms, text.call) != (attempt, began_ms, piece.call) {
            (text.attempt, text.began_ms, text.call) = (attempt, began_ms, piece.call);
            text.tail.clear();
        }
        text.add(piece.part, &piece.text);
    }

    /// Forgets the text of a node that writes no more.
    pub(crate) fn end(&mut self, node: &str) {
        self.texts.retain(|text| text.node != node);
    }

    /// The last lines of the newest texts, `rows` at most, each at most `columns` wide.
    pub(crate) fn lines(&self, columns: usize, rows: usize, colour: bool) -> Vec<String> {
        let shown = self.texts.len().min(TEXTS_SHOWN_MAX).min(rows);
        let rest = self.texts.len() - shown;
        let rows_of_rest = usize::from(rest > 0 && rows > shown);
        let mut lines = Vec::new();
        let mut rows = rows - rows_of_rest;
        for (at, text) in self.texts.iter().skip(rest).enumerate() {
            let of_text = text.lines(columns, rows / (shown - at), colour);
            rows -= of_text.len();
            lines.extend(of_text);
        }
        if rows_of_rest > 0 {
            let more = format!("│ {} more", plural(rest, "text"));
            lines.push(styled_if(colour, Style::Dim, &fit(&more, columns)));
        }
        lines
    }
}

impl Text {
    fn add(&mut self, part: TextPart, added: &str) {
        match self.tail.back_mut() {
            Some((last, text)) if *last == part => text.push_str(added),
            _ => self.tail.push_back((part, added.to_owned())),
        }
        let mut over =
            self.tail.iter().map(|(_, text)| text.len()).sum::<usize>().saturating_sub(TAIL_BYTES_MAX);
        while over > 0
            && let Some((_, first)) = self.tail.front_mut()
        {
            if first.len() <= over {
                over -= first.len();
                self.tail.pop_front();
            } else {
                let cut = (over..=first.len()).find(|&at| first.is_char_boundary(at));
                first.drain(..cut.unwrap_or(first.len()));
                over = 0;
            }
        }
    }

    fn lines(&self, columns: usize, rows: usize, colour: bool) -> Vec<String> {
        let name = fit_name(&self.node, OUTPUT_NAME_MAX.min(columns / 3));
        let name = if self.attempt > 1 { format!("{name}#{}", self.attempt) } else { name };
        let mut lines: VecDeque<String> = VecDeque::new();
        for (part, text) in self.tail.iter().rev() {
            let (prefix, style) = match part {
                TextPart::Text => (format!("│ {name} | "), Style::Plain),
                TextPart::Reasoning => (format!("│ {name} (thinks) | "), Style::Dim),
            };
            let room = columns.saturating_sub(width(&prefix)).max(COLUMNS_MIN);
            for line in text.trim_end_matches('\n').rsplit('\n') {
                for line in wrapped(line.trim_end(), room, room, usize::MAX).into_iter().rev() {
                    if lines.len() == rows {
                        return lines.into();
                    }
                    let line = fit(&format!("{prefix}{line}"), columns);
                    lines.push_front(styled_if(colour, style, &line));
                }
            }
        }
        lines.into()
    }
}

/// Spaces drawings, so that a fast model costs no more than a slow one.
#[derive(Debug, Default)]
pub(crate) struct Pace {
    drawn: Option<Instant>,
    due: Option<Instant>,
}

impl Pace {
    /// Notes a change. Returns whether it is drawn now; otherwise a drawing becomes due.
    pub(crate) fn changed(&mut self) -> bool {
        let now = Instant::now();
        let next = self.drawn.map_or(now, |drawn| drawn + TEXT_REDRAW);
        if next > now {
            self.due = Some(next);
        }
        next <= now
    }

    pub(crate) fn due(&self) -> Option<Instant> {
        self.due
    }

    pub(crate) fn drawn(&mut self) {
        (self.drawn, self.due) = (Some(Instant::now()), None);
    }
}

#[cfg(test)]
mod tests {
    use ostler_kernel::id::NodeId;
    use ostler_server::wire::TextPiece;

    use super::*;

    fn row(node: &str, attempt: u32, call: u32, part: TextPart, text: &str) -> TextRow {
        let piece = Some(TextPiece { call, part, offset: 0, text: text.to_owned() });
        let (row_type, run) = ("model_text".to_owned(), "r".to_owned());
        TextRow { row_type, run, node: NodeId::from(node), attempt, began_ms: 1, end: 0, piece }
    }

    #[test]
    fn the_last_lines_are_shown_wrapped_and_harmless() {
        let mut writing = Writing::default();
        writing.take(&row("a", 1, 1, TextPart::Reasoning, "hm"));
        writing.take(&row("a", 1, 1, TextPart::Text, "one\r\ntwo \u{1b}[2J three"));
        writing.take(&row("a", 1, 1, TextPart::Text, " four\n"));
        let all = ["│ a (thinks) | hm", "│ a | one", "│ a | two \u{fffd}[2J", "│ a | three four"];
        assert_eq!(writing.lines(18, 8, false), all);
        assert_eq!(writing.lines(18, 2, false), all[2..]);
        assert_eq!(writing.lines(18, 0, false), [""; 0]);
        writing.take(&row("a", 2, 1, TextPart::Text, "again"));
        assert_eq!(writing.lines(18, 8, false), ["│ a#2 | again"], "another attempt begins anew");
        writing.take(&row("a", 2, 2, TextPart::Text, "other"));
        assert_eq!(writing.lines(18, 8, false), ["│ a#2 | other"], "another call too");
        writing.take(&TextRow { piece: None, ..row("a", 2, 1, TextPart::Text, "") });
        assert!(writing.is_empty());
    }

    #[test]
    fn of_many_texts_the_newest_are_shown_and_the_others_counted() {
        let mut writing = Writing::default();
        for at in 0..TEXTS_MAX + 10 {
            writing.take(&row(&format!("n{at}"), 1, 1, TextPart::Text, &"x\n".repeat(20)));
        }
        let lines = writing.lines(40, 8, false);
        assert_eq!((lines.len(), lines[0].as_str(), lines[6].as_str()), (8, "│ n253 | x", "│ n255 | x"));
        assert_eq!(lines[7], "│ 253 texts more");
        assert_eq!(writing.lines(40, 2, false).len(), 2);
    }

    #[test]
    fn a_long_text_costs_a_bounded_memory() {
        let mut writing = Writing::default();
        for _ in 0..100 {
            writing.take(&row("a", 1, 1, TextPart::Text, &"日".repeat(1_000)));
            writing.take(&row("a", 1, 1, TextPart::Reasoning, "x"));
        }
        let kept: usize = writing.texts[0].tail.iter().map(|(_, text)| text.len()).sum();
        assert!(kept <= TAIL_BYTES_MAX && kept > TAIL_BYTES_MAX - 8, "{kept}");
    }

    #[test]
    fn a_piece_after_a_pause_is_drawn_at_once_and_others_wait() {
        let mut pace = Pace::default();
        assert!(pace.changed() && pace.due().is_none());
        pace.drawn();
        pace.drawn = pace.drawn.map(|drawn| drawn + Duration::from_secs(3_600));
        assert!(!pace.changed() && pace.due().is_some());
        pace.drawn();
        assert_eq!(pace.due(), None);
    }
}
