//! Server-sent events: bytes in, events out.

use std::borrow::Cow;
use std::mem;
use std::ops::ControlFlow;

/// An event with data.
pub(super) struct SseEvent<'a> {
    /// Value of the last `event` field; empty if there is none.
    pub(super) name: &'a str,
    pub(super) data: &'a str,
}

/// Splits bytes into lines, and lines into events. Lines end with LF, CR or CRLF, also across chunks; each line is decoded as
/// UTF-8 by itself, so a chunk may end within a character.
pub(super) struct SseSplitter {
    /// Maximum bytes of a line, and of the joined data of an event.
    line_max: usize,
    is_too_long: bool,
    /// Bytes of a line that has not ended.
    line: Vec<u8>,
    /// The last byte was a CR: an LF right after it belongs to the same line end.
    ends_in_cr: bool,
    name: String,
    /// Joined data of the event so far. Kept from event to event, as its room is.
    data: String,
    has_data: bool,
}

impl SseSplitter {
    pub(super) fn new(line_max: usize) -> SseSplitter {
        SseSplitter {
            line_max,
            is_too_long: false,
            line: Vec::new(),
            ends_in_cr: false,
            name: String::new(),
            data: String::new(),
            has_data: false,
        }
    }

    /// True after a line or event beyond the limit; nothing behind it is read.
    pub(super) fn is_too_long(&self) -> bool {
        self.is_too_long
    }

    /// Takes more bytes; calls `take` for each event that is complete, until `take` breaks.
    pub(super) fn push(
        &mut self,
        mut bytes: &[u8],
        mut take: impl FnMut(SseEvent<'_>) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        if bytes.is_empty() {
            return ControlFlow::Continue(());
        }
        if mem::take(&mut self.ends_in_cr) {
            bytes = bytes.strip_prefix(b"\n").unwrap_or(bytes);
        }
        while let Some(at) = memchr::memchr2(b'\n', b'\r', bytes) {
            let (line, is_cr) = (&bytes[..at], bytes[at] == b'\r');
            let rest = &bytes[at + 1..];
            if self.line.len() + line.len() > self.line_max {
                self.is_too_long = true;
                return ControlFlow::Break(());
            }
            let ends_event = if self.line.is_empty() {
                self.line(line)
            } else {
                self.line.extend_from_slice(line);
                let line = mem::take(&mut self.line);
                self.line(&line)
            };
            self.ends_in_cr = is_cr && rest.is_empty();
            bytes = rest.strip_prefix(b"\n").filter(|_| is_cr).unwrap_or(rest);
            if ends_event {
                self.event().map_or(ControlFlow::Continue(()), &mut take)?;
                self.name.clear();
                self.data.clear();
                self.has_data = false;
            }
            if self.is_too_long {
                return ControlFlow::Break(());
            }
        }
        if self.line.len() + bytes.len() > self.line_max {
            self.is_too_long = true;
            return ControlFlow::Break(());
        }
        self.line.extend_from_slice(bytes);
        ControlFlow::Continue(())
    }

    /// The event so far, if it has data.
    fn event(&self) -> Option<SseEvent<'_>> {
        let has_data = self.has_data && !self.data.trim().is_empty();
        has_data.then_some(SseEvent { name: &self.name, data: &self.data })
    }

    /// The event that the end of the bytes left unfinished.
    pub(super) fn end(&mut self) -> Option<SseEvent<'_>> {
        if !self.line.is_empty() {
            let line = mem::take(&mut self.line);
            // A line with bytes never ends an event.
            self.line(&line);
        }
        self.has_data.then_some(SseEvent { name: &self.name, data: &self.data })
    }

    /// Takes one line without its end; true if the line is empty, which ends an event.
    fn line(&mut self, line: &[u8]) -> bool {
        if line.is_empty() {
            return true;
        }
        let line: Cow<'_, str> = String::from_utf8_lossy(line);
        let (field, value) = line.split_once(':').unwrap_or((&line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match field {
            "data" if self.has_data && self.data.len() + value.len() >= self.line_max => {
                self.is_too_long = true;
            }
            "data" => {
                if mem::replace(&mut self.has_data, true) {
                    self.data.push('\n');
                }
                self.data.push_str(value);
            }
            "event" => value.clone_into(&mut self.name),
            _ => {}
        }
        false
    }
}
