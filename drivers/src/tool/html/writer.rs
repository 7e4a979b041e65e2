//! The readable text of a page: collapsed spaces, blank lines between paragraphs, and a limit.

use super::boundary;

/// Space before the next text; a larger one includes the smaller.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Gap {
    None,
    Space,
    Line,
    Paragraph,
}

#[derive(Debug)]
pub(super) struct Writer {
    text: String,
    bytes_max: usize,
    is_full: bool,
    gap: Gap,
    /// Written before the next text, such as `- ` or `## `.
    marker: String,
    /// The open link's text begins with the next text, or at this offset.
    link: Option<Option<usize>>,
}

impl Writer {
    pub(super) fn new(bytes_max: usize) -> Writer {
        let (text, marker) = (String::new(), String::new());
        Writer { text, bytes_max, is_full: false, gap: Gap::None, marker, link: None }
    }

    /// True once a text did not fit; nothing is written any more.
    pub(super) fn is_full(&self) -> bool {
        self.is_full
    }

    /// Leaves space before the next text. A marker stays on the line of its text.
    pub(super) fn gap(&mut self, gap: Gap) {
        if self.marker.is_empty() {
            self.gap = self.gap.max(gap);
        }
    }

    /// Begins a line with a marker, if any text follows.
    pub(super) fn mark(&mut self, gap: Gap, marker: String) {
        self.marker.clear();
        self.gap(gap);
        self.marker = marker;
    }

    /// Drops a marker without text, at the end of its element.
    pub(super) fn unmark(&mut self) {
        self.marker.clear();
    }

    /// Writes text with each run of white space as one space.
    pub(super) fn flow(&mut self, text: &str) {
        for (at, word) in text.split(char::is_whitespace).enumerate() {
            if at > 0 {
                self.gap(Gap::Space);
            }
            if !word.is_empty() {
                self.flush();
                self.push(word);
            }
        }
    }

    /// Writes text with its spaces and line breaks.
    pub(super) fn verbatim(&mut self, text: &str) {
        // The line break behind a start tag is none of the text.
        let text = if self.gap >= Gap::Line { text.strip_prefix('\n').unwrap_or(text) } else { text };
        if !text.is_empty() {
            self.flush();
            self.push(text);
        }
    }

    /// Begins a link; an open one is forgotten.
    pub(super) fn begin_link(&mut self) {
        self.link = Some(None);
    }

    /// Ends the link. Returns its text, or `None` if there is none.
    pub(super) fn end_link(&mut self) -> Option<&str> {
        let from = self.link.take()??;
        Some(self.text[from..].trim()).filter(|text| !text.is_empty())
    }

    /// Writes a link's address behind its text.
    pub(super) fn address(&mut self, url: &str) {
        let gap = std::mem::replace(&mut self.gap, Gap::None);
        for part in [" (", url, ")"] {
            self.push(part);
        }
        self.gap = gap;
    }

    pub(super) fn finish(mut self) -> (String, bool) {
        self.text.truncate(self.text.trim_end().len());
        (self.text, self.is_full)
    }

    fn flush(&mut self) {
        let gap = std::mem::replace(&mut self.gap, Gap::None);
        // Verbatim text may have ended with line breaks of its own.
        let broken = self.text.len() - self.text.trim_end_matches('\n').len();
        match gap {
            _ if self.text.is_empty() => {}
            Gap::Space if broken == 0 => self.push(" "),
            Gap::None | Gap::Space => {}
            Gap::Line => self.push(&"\n"[broken.min(1)..]),
            Gap::Paragraph => self.push(&"\n\n"[broken.min(2)..]),
        }
        let marker = std::mem::take(&mut self.marker);
        self.push(&marker);
        if self.link == Some(None) {
            self.link = Some(Some(self.text.len()));
        }
    }

    fn push(&mut self, text: &str) {
        let room = if self.is_full { 0 } else { self.bytes_max - self.text.len() };
        if text.len() <= room {
            self.text.push_str(text);
        } else {
            self.text.push_str(&text[..boundary(text, room)]);
            self.is_full = true;
        }
    }
}
