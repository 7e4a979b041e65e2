//! The output of an attempt as chunks of whole lines: the beginning as it comes, the end once the attempt has ended.

use std::collections::VecDeque;

use ostler_kernel::id::{NodeId, Ticks};
use ostler_kernel::port::{OUTPUT_CHUNK_BYTES_MAX, OutputChunk, OutputStream};

/// Bytes kept from the beginning of an attempt's output.
pub(crate) const OUTPUT_HEAD_BYTES: usize = 1 << 20;

/// Bytes kept from the end of an attempt's output.
pub(crate) const OUTPUT_TAIL_BYTES: usize = 256 << 10;

pub(super) struct AttemptOutput {
    node: NodeId,
    attempt: u32,
    /// Lines without an end, of each stream.
    partial: [Vec<u8>; 3],
    head_left: usize,
    tail: VecDeque<OutputChunk>,
    tail_bytes: usize,
    left_out: u64,
}

impl AttemptOutput {
    pub(super) fn new(node: NodeId, attempt: u32) -> AttemptOutput {
        AttemptOutput {
            node,
            attempt,
            partial: Default::default(),
            head_left: OUTPUT_HEAD_BYTES,
            tail: VecDeque::new(),
            tail_bytes: 0,
            left_out: 0,
        }
    }

    /// Takes output and returns what is to be written now.
    pub(super) fn push(&mut self, stream: OutputStream, mut bytes: &[u8], now: Ticks) -> Vec<OutputChunk> {
        let mut chunks = Vec::new();
        while !bytes.is_empty() {
            let partial = &mut self.partial[stream as usize];
            let (piece, rest) = bytes.split_at(bytes.len().min(OUTPUT_CHUNK_BYTES_MAX - partial.len()));
            partial.extend_from_slice(piece);
            bytes = rest;
            let whole = match partial.iter().rposition(|&byte| byte == b'\n') {
                Some(end) => end + 1,
                None if partial.len() == OUTPUT_CHUNK_BYTES_MAX => partial.len(),
                None => continue,
            };
            let rest = partial.split_off(whole);
            let lines = std::mem::replace(partial, rest);
            chunks.extend(self.keep(stream, &lines, now));
        }
        chunks
    }

    /// Returns the rest: the end of a long output, and lines without an end.
    pub(super) fn finish(mut self, now: Ticks) -> Vec<OutputChunk> {
        let mut chunks = Vec::new();
        for stream in [OutputStream::Stdout, OutputStream::Stderr, OutputStream::Model] {
            let partial = std::mem::take(&mut self.partial[stream as usize]);
            if !partial.is_empty() {
                chunks.extend(self.keep(stream, &partial, now));
            }
        }
        if let Some(first) = self.tail.front_mut() {
            first.left_out = self.left_out;
        }
        chunks.into_iter().chain(self.tail).collect()
    }

    /// Makes a chunk of lines. Once the head is full, the chunk becomes part of the tail.
    fn keep(&mut self, stream: OutputStream, lines: &[u8], now: Ticks) -> Option<OutputChunk> {
        let text = String::from_utf8_lossy(lines.strip_suffix(b"\n").unwrap_or(lines)).into_owned();
        let (node, attempt) = (self.node.clone(), self.attempt);
        let chunk = OutputChunk { at_ms: now, node, attempt, stream, text, left_out: 0 };
        let size = size(&chunk);
        if size <= self.head_left {
            self.head_left -= size;
            return Some(chunk);
        }
        self.head_left = 0;
        self.tail.push_back(chunk);
        self.tail_bytes += size;
        while self.tail_bytes > OUTPUT_TAIL_BYTES {
            let Some(dropped) = self.tail.pop_front() else { break };
            self.tail_bytes -= self::size(&dropped);
            self.left_out += self::size(&dropped) as u64;
        }
        None
    }
}

fn size(chunk: &OutputChunk) -> usize {
    chunk.text.len() + 1
}

#[cfg(test)]
mod tests {
    use super::*;

    use OutputStream::{Stderr, Stdout};

    fn texts(chunks: &[OutputChunk]) -> Vec<&str> {
        chunks.iter().map(|chunk| chunk.text.as_str()).collect()
    }

    #[test]
    fn lines_of_two_streams_do_not_mix_and_the_last_may_have_no_end() {
        let mut output = AttemptOutput::new("n".into(), 2);
        assert_eq!(texts(&output.push(Stdout, b"one\ntw", 5)), ["one"]);
        assert_eq!(texts(&output.push(Stderr, b"err\n\nor", 6)), ["err\n"]);
        let two = output.push(Stdout, b"o\xff\n", 7);
        assert_eq!(texts(&two), ["two\u{fffd}"]);
        assert_eq!((two[0].at_ms, two[0].attempt, two[0].stream), (7, 2, Stdout));
        let rest = output.finish(8);
        assert_eq!(texts(&rest), ["or"]);
        assert_eq!(rest[0].stream, Stderr);
    }

    #[test]
    fn a_line_without_end_is_split() {
        let mut output = AttemptOutput::new("n".into(), 1);
        let split = output.push(Stdout, &vec![b'x'; 2 * OUTPUT_CHUNK_BYTES_MAX + 3], 1);
        let lengths = split.iter().map(|chunk| chunk.text.len());
        assert_eq!(lengths.collect::<Vec<_>>(), [OUTPUT_CHUNK_BYTES_MAX; 2]);
        assert_eq!(texts(&output.finish(1)), ["xxx"]);
    }

    #[test]
    fn of_a_flood_the_beginning_and_the_end_are_kept_and_the_rest_is_counted() {
        let mut output = AttemptOutput::new("n".into(), 1);
        let line = [vec![b'x'; 1_023], vec![b'\n']].concat();
        let written: usize = (0..3_000).map(|_| output.push(Stdout, &line, 1).len()).sum();
        assert_eq!(written, OUTPUT_HEAD_BYTES / 1_024);
        output.push(Stdout, b"the end", 1);
        let tail = output.finish(1);
        assert!(tail.iter().map(size).sum::<usize>() <= OUTPUT_TAIL_BYTES);
        assert_eq!(tail.last().unwrap().text, "the end");
        let kept = written * 1_024 + tail.iter().map(size).sum::<usize>();
        assert_eq!(tail[0].left_out as usize, 3_000 * 1_024 + "the end\n".len() - kept);
    }
}
