//! The output of an attempt as chunks of whole lines: the beginning as it comes, the end once the attempt has ended.

use std::collections::VecDeque;
use std::io::{self, ErrorKind};

use ostler_kernel::id::{NodeId, RunId, Ticks};
use ostler_kernel::port::{OUTPUT_CHUNK_BYTES_MAX, OUTPUT_RUN_BYTES_MAX, OutputChunk, OutputStream};

use crate::storage::program_output::ProgramOutput;

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
    /// Bytes that the store refused since the last chunk that it took.
    lost: u64,
    /// The output has a note on the present loss.
    is_loss_noted: bool,
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
            lost: 0,
            is_loss_noted: false,
        }
    }

    /// Writes chunks to the store, or a note that output is lost if the store refuses them.
    pub(super) fn write(&mut self, to: &ProgramOutput, run: RunId, mut chunks: Vec<OutputChunk>) {
        let Some(first) = chunks.first_mut() else { return };
        first.left_out += self.lost;
        let Err(error) = to.append(run, &chunks) else {
            (self.lost, self.is_loss_noted) = (0, false);
            return;
        };
        self.lost = chunks.iter().map(|chunk| chunk.left_out + size(chunk) as u64).sum();
        if !self.is_loss_noted {
            let OutputChunk { at_ms, node, attempt, stream, .. } = chunks.swap_remove(0);
            let (text, lost) = (String::new(), Some(reason(&error)));
            let note = OutputChunk { at_ms, node, attempt, stream, text, left_out: 0, lost };
            self.is_loss_noted = to.note_loss(run, &note);
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
    pub(super) fn finish(&mut self, now: Ticks) -> Vec<OutputChunk> {
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
        chunks.into_iter().chain(std::mem::take(&mut self.tail)).collect()
    }

    /// Makes a chunk of lines. Once the head is full, the chunk becomes part of the tail.
    fn keep(&mut self, stream: OutputStream, lines: &[u8], now: Ticks) -> Option<OutputChunk> {
        let text = String::from_utf8_lossy(lines.strip_suffix(b"\n").unwrap_or(lines)).into_owned();
        let (node, attempt) = (self.node.clone(), self.attempt);
        let chunk = OutputChunk { at_ms: now, node, attempt, stream, text, left_out: 0, lost: None };
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

fn reason(error: &io::Error) -> String {
    match error.kind() {
        ErrorKind::FileTooLarge => {
            format!("the run has {} MiB of output, the most that is kept", OUTPUT_RUN_BYTES_MAX >> 20)
        }
        ErrorKind::StorageFull => "the disk is nearly full".to_owned(),
        _ => error.to_string(),
    }
}

fn size(chunk: &OutputChunk) -> usize {
    chunk.text.len() + 1
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::sync::{Arc, Mutex};

    use OutputStream::{Stderr, Stdout};
    use ostler_kernel::port::OutputStore;
    use ostler_store::MemoryOutput;

    use super::*;

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

    /// Refuses output while it is full, and notes while the disk has no byte left.
    #[derive(Default)]
    struct Refusing {
        kept: MemoryOutput,
        refuses: Mutex<Option<ErrorKind>>,
        has_no_byte: AtomicBool,
    }

    impl OutputStore for Refusing {
        fn append(&self, run: RunId, chunks: &[u8]) -> io::Result<()> {
            match *self.refuses.lock().unwrap() {
                Some(kind) => Err(kind.into()),
                None => self.kept.append(run, chunks),
            }
        }

        fn append_note(&self, run: RunId, note: &[u8]) -> io::Result<()> {
            match self.has_no_byte.load(Ordering::SeqCst) {
                true => Err(ErrorKind::StorageFull.into()),
                false => self.kept.append_note(run, note),
            }
        }

        fn read(&self, run: RunId, after: u64, bytes_max: usize) -> io::Result<Vec<u8>> {
            self.kept.read(run, after, bytes_max)
        }
    }

    #[test]
    fn what_the_store_refuses_is_told_once_with_the_reason_and_counted_when_it_takes_more() {
        let (store, run) = (Arc::new(Refusing::default()), RunId(uuid::Uuid::from_u128(1)));
        let kept = ProgramOutput::new(store.clone());
        let mut output = AttemptOutput::new("n".into(), 1);
        let mut print = |text: &[u8]| {
            let chunks = output.push(Stdout, text, 1);
            output.write(&kept, run, chunks);
        };
        print(b"one\n");
        *store.refuses.lock().unwrap() = Some(ErrorKind::StorageFull);
        store.has_no_byte.store(true, Ordering::SeqCst);
        print(b"lost\n");
        store.has_no_byte.store(false, Ordering::SeqCst);
        print(b"two\n");
        print(b"three\n");
        *store.refuses.lock().unwrap() = None;
        print(b"four\n");
        *store.refuses.lock().unwrap() = Some(ErrorKind::FileTooLarge);
        print(b"five\n");
        let page = kept.read(run, 0).unwrap();
        let told = page.iter().map(|(_, chunk)| (&*chunk.text, chunk.left_out, chunk.lost.as_deref()));
        let expected = [
            ("one", 0, None),
            ("", 0, Some("the disk is nearly full")),
            ("four", "lost two three ".len() as u64, None),
            ("", 0, Some("the run has 64 MiB of output, the most that is kept")),
        ];
        assert_eq!(told.collect::<Vec<_>>(), expected);
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
