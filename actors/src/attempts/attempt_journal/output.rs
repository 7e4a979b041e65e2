//! The output of an attempt as lines: the beginning as it comes, the end once the attempt has ended.

use std::collections::VecDeque;

use ostler_kernel::id::{NodeId, Ticks};
use ostler_kernel::port::{OUTPUT_LINE_BYTES_MAX, OutputLine, OutputStream};

/// Bytes kept from the beginning of an attempt's output.
pub(crate) const OUTPUT_HEAD_BYTES: usize = 1 << 20;

/// Bytes kept from the end of an attempt's output.
pub(crate) const OUTPUT_TAIL_BYTES: usize = 256 << 10;

pub(super) struct OutputLines {
    node: NodeId,
    attempt: u32,
    /// Lines without an end, of standard output and standard error.
    partial: [Vec<u8>; 2],
    head_left: usize,
    tail: VecDeque<OutputLine>,
    tail_bytes: usize,
    left_out: u64,
}

impl OutputLines {
    pub(super) fn new(node: NodeId, attempt: u32) -> OutputLines {
        OutputLines {
            node,
            attempt,
            partial: Default::default(),
            head_left: OUTPUT_HEAD_BYTES,
            tail: VecDeque::new(),
            tail_bytes: 0,
            left_out: 0,
        }
    }

    /// Takes output and returns the lines to be written now.
    pub(super) fn push(&mut self, stream: OutputStream, mut bytes: &[u8], now: Ticks) -> Vec<OutputLine> {
        let mut lines = Vec::new();
        while !bytes.is_empty() {
            let partial = &mut self.partial[stream as usize];
            let room = OUTPUT_LINE_BYTES_MAX - partial.len();
            let feed = bytes.iter().take(room).position(|&byte| byte == b'\n');
            let piece = feed.unwrap_or(room.min(bytes.len()));
            partial.extend_from_slice(&bytes[..piece]);
            bytes = &bytes[piece + usize::from(feed.is_some())..];
            if feed.is_some() || partial.len() == OUTPUT_LINE_BYTES_MAX {
                lines.extend(self.end_line(stream, now));
            }
        }
        lines
    }

    /// Returns the rest: the end of a long output, and lines without an end.
    pub(super) fn finish(mut self, now: Ticks) -> Vec<OutputLine> {
        let mut lines = Vec::new();
        for stream in [OutputStream::Stdout, OutputStream::Stderr] {
            if !self.partial[stream as usize].is_empty() {
                lines.extend(self.end_line(stream, now));
            }
        }
        if let Some(first) = self.tail.front_mut() {
            first.left_out = self.left_out;
        }
        lines.into_iter().chain(self.tail).collect()
    }

    /// Ends a line. Once the head is full, the line becomes part of the tail.
    fn end_line(&mut self, stream: OutputStream, now: Ticks) -> Option<OutputLine> {
        let bytes = std::mem::take(&mut self.partial[stream as usize]);
        let text = String::from_utf8_lossy(&bytes).into_owned();
        let (node, attempt) = (self.node.clone(), self.attempt);
        let line = OutputLine { at_ms: now, node, attempt, stream, text, left_out: 0 };
        let size = size(&line);
        if size <= self.head_left {
            self.head_left -= size;
            return Some(line);
        }
        self.head_left = 0;
        self.tail.push_back(line);
        self.tail_bytes += size;
        while self.tail_bytes > OUTPUT_TAIL_BYTES {
            let Some(dropped) = self.tail.pop_front() else { break };
            self.tail_bytes -= self::size(&dropped);
            self.left_out += self::size(&dropped) as u64;
        }
        None
    }
}

fn size(line: &OutputLine) -> usize {
    line.text.len() + 1
}

#[cfg(test)]
mod tests {
    use super::*;

    use OutputStream::{Stderr, Stdout};

    fn texts(lines: &[OutputLine]) -> Vec<&str> {
        lines.iter().map(|line| line.text.as_str()).collect()
    }

    #[test]
    fn lines_of_two_streams_do_not_mix_and_the_last_may_have_no_end() {
        let mut lines = OutputLines::new("n".into(), 2);
        assert_eq!(texts(&lines.push(Stdout, b"one\ntw", 5)), ["one"]);
        assert_eq!(texts(&lines.push(Stderr, b"err\n\nor", 6)), ["err", ""]);
        let two = lines.push(Stdout, b"o\xff\n", 7);
        assert_eq!(texts(&two), ["two\u{fffd}"]);
        assert_eq!((two[0].at_ms, two[0].attempt, two[0].stream), (7, 2, Stdout));
        let rest = lines.finish(8);
        assert_eq!(texts(&rest), ["or"]);
        assert_eq!(rest[0].stream, Stderr);
    }

    #[test]
    fn a_line_without_end_is_split() {
        let mut lines = OutputLines::new("n".into(), 1);
        let split = lines.push(Stdout, &vec![b'x'; 2 * OUTPUT_LINE_BYTES_MAX + 3], 1);
        assert_eq!(split.iter().map(|line| line.text.len()).collect::<Vec<_>>(), [OUTPUT_LINE_BYTES_MAX; 2]);
        assert_eq!(texts(&lines.finish(1)), ["xxx"]);
    }

    #[test]
    fn of_a_flood_the_beginning_and_the_end_are_kept_and_the_rest_is_counted() {
        let mut lines = OutputLines::new("n".into(), 1);
        let line = [vec![b'x'; 1_023], vec![b'\n']].concat();
        let written: usize = (0..3_000).map(|_| lines.push(Stdout, &line, 1).len()).sum();
        assert_eq!(written, OUTPUT_HEAD_BYTES / 1_024);
        lines.push(Stdout, b"the end", 1);
        let tail = lines.finish(1);
        assert!(tail.iter().map(size).sum::<usize>() <= OUTPUT_TAIL_BYTES);
        assert_eq!(tail.last().unwrap().text, "the end");
        let kept = written * 1_024 + tail.iter().map(size).sum::<usize>();
        assert_eq!(tail[0].left_out as usize, 3_000 * 1_024 + "the end\n".len() - kept);
    }
}
