//! The text of one attempt as pieces, the oldest dropped beyond a limit.

use std::collections::VecDeque;

use ostler_kernel::text::beginning;
use serde::{Deserialize, Serialize};

/// Bytes kept of the text that models write in one attempt; of a longer text the end is kept.
pub const LIVE_TEXT_BYTES_MAX: usize = 1 << 20;

/// Maximum bytes of a piece.
const PIECE_BYTES_MAX: usize = 16 << 10;

/// The kind of a piece of text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TextPart {
    /// Text of the answer.
    Text,
    /// Reasoning that the provider shows.
    Reasoning,
}

/// A piece of text, of one call and one kind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Piece {
    /// Number of the call within the attempt, from 1.
    pub(super) call: u32,
    pub(super) part: TextPart,
    /// Bytes of the attempt's text before the piece.
    pub(super) offset: u64,
    pub(super) text: String,
}

impl Piece {
    pub(super) fn end(&self) -> u64 {
        self.offset + self.text.len() as u64
    }
}

#[derive(Debug, Default)]
pub(super) struct KeptText {
    pieces: VecDeque<Piece>,
    bytes: usize,
    end: u64,
}

impl KeptText {
    /// Bytes of the whole text, dropped ones included.
    pub(super) fn end(&self) -> u64 {
        self.end
    }

    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(super) fn push(&mut self, call: u32, part: TextPart, mut text: &str) {
        while !text.is_empty() {
            let fits = |piece: &Piece| char_start(text, PIECE_BYTES_MAX - piece.text.len()) > 0;
            let goes_on = |piece: &&mut Piece| (piece.call, piece.part) == (call, part) && fits(piece);
            let piece = match self.pieces.back_mut().filter(goes_on) {
                Some(piece) => piece,
                None => {
                    let (offset, text) = (self.end, String::new());
                    self.pieces.push_back(Piece { call, part, offset, text });
                    self.pieces.back_mut().expect("a piece was just added")
                }
            };
            let (added, rest) = text.split_at(char_start(text, PIECE_BYTES_MAX - piece.text.len()));
            piece.text.push_str(added);
            self.bytes += added.len();
            self.end += added.len() as u64;
            text = rest;
        }
        while self.bytes > LIVE_TEXT_BYTES_MAX
            && let Some(dropped) = self.pieces.pop_front()
        {
            self.bytes -= dropped.text.len();
        }
    }

    /// The next piece after an offset, or from the first kept byte behind it.
    pub(super) fn after(&self, offset: u64) -> Option<Piece> {
        let at = self.pieces.partition_point(|piece| piece.end() <= offset);
        let piece = self.pieces.get(at)?;
        let from = usize::try_from(offset.saturating_sub(piece.offset)).unwrap_or(0);
        // An offset inside of a character is none that a reader was given.
        let from = char_start(&piece.text, from);
        let text = piece.text[from..].to_owned();
        Some(Piece { call: piece.call, part: piece.part, offset: piece.offset + from as u64, text })
    }
}

/// The last boundary of characters up to `at`.
fn char_start(text: &str, at: usize) -> usize {
    beginning(text, at).len()
}

#[cfg(test)]
mod tests {
    use TextPart::{Reasoning, Text};

    use super::*;

    fn pieces(kept: &KeptText, mut offset: u64) -> Vec<(u32, TextPart, u64, String)> {
        let mut pieces = Vec::new();
        while let Some(Piece { call, part, offset: at, text }) = kept.after(offset) {
            offset = at + text.len() as u64;
            pieces.push((call, part, at, text));
        }
        pieces
    }

    #[test]
    fn a_reader_goes_on_at_its_offset_whatever_the_pieces_are() {
        let mut kept = KeptText::default();
        for (call, part, text) in
            [(1, Reasoning, "hm"), (1, Text, "a"), (1, Text, "é"), (2, Text, "b"), (2, Text, "")]
        {
            kept.push(call, part, text);
        }
        let whole = [(1, Reasoning, 0, "hm"), (1, Text, 2, "aé"), (2, Text, 5, "b")];
        assert_eq!(pieces(&kept, 0), whole.map(|(call, part, at, text)| (call, part, at, text.to_owned())));
        assert_eq!(pieces(&kept, 3)[0], (1, Text, 3, "é".to_owned()));
        assert_eq!(pieces(&kept, 4)[0], (1, Text, 3, "é".to_owned()), "inside of a character");
        assert_eq!(pieces(&kept, 6), []);
        assert_eq!(pieces(&kept, u64::MAX), []);
    }

    #[test]
    fn of_a_text_beyond_the_limit_the_end_is_kept() {
        let mut kept = KeptText::default();
        let (long, count) = ("日".repeat(PIECE_BYTES_MAX), 100);
        for _ in 0..count {
            kept.push(1, Text, &long);
            assert!(kept.bytes() <= LIVE_TEXT_BYTES_MAX);
            assert!(kept.pieces.iter().all(|piece| piece.text.len() <= PIECE_BYTES_MAX));
        }
        assert_eq!(kept.end(), long.len() as u64 * count);
        let read = pieces(&kept, 0);
        assert!(read[0].2 > 0 && kept.bytes() > LIVE_TEXT_BYTES_MAX - 2 * PIECE_BYTES_MAX);
        assert!(
            read.windows(2).all(|two| two[0].2 + two[0].3.len() as u64 == two[1].2),
            "nothing is missing"
        );
        assert_eq!(read.iter().map(|piece| piece.3.len()).sum::<usize>(), kept.bytes());
    }
}
