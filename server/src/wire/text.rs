//! Text of models while they write.

use ostler_actors::{LiveText, LiveTextPiece, TextPart, TextPosition};
use ostler_kernel::id::{NodeId, RunId, Ticks};
use serde::{Deserialize, Serialize};

/// A piece of what a model writes, or the end of an attempt's text.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TextRow {
    /// `model_text`.
    #[serde(rename = "type")]
    pub row_type: String,
    /// The run as a UUID.
    pub run: String,
    /// The node.
    pub node: NodeId,
    /// Number of the attempt, from 1.
    pub attempt: u32,
    /// Time of the attempt's first text in milliseconds since the Unix epoch. An attempt that is repeated after a crash keeps its
    /// number and has another time.
    pub began_ms: Ticks,
    /// Bytes of the attempt's text up to and with this piece, reasoning included.
    pub end: u64,
    /// The piece; `None`: the attempt has ended, and its result follows in the records.
    #[serde(flatten)]
    pub piece: Option<TextPiece>,
}

/// Text of one call and one kind.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TextPiece {
    /// Number of the call within the attempt, from 1. Pieces of calls made at once alternate.
    pub call: u32,
    /// The kind.
    pub part: TextPart,
    /// Bytes of the attempt's text before this piece: more than the last `end` if the reader was too far behind.
    pub offset: u64,
    /// The text.
    pub text: String,
}

impl TextRow {
    pub(crate) fn new(run: RunId, read: LiveText) -> TextRow {
        let LiveText { position: TextPosition { node, attempt, began_ms, offset: end }, text } = read;
        let piece =
            text.map(|LiveTextPiece { call, part, offset, text }| TextPiece { call, part, offset, text });
        let (row_type, run) = ("model_text".to_owned(), run.to_string());
        TextRow { row_type, run, node, attempt, began_ms, end, piece }
    }

    /// The place behind the piece, to go on from with `after` or `Last-Event-ID`.
    pub fn position(&self) -> TextPosition {
        let (node, attempt, began_ms) = (self.node.clone(), self.attempt, self.began_ms);
        TextPosition { node, attempt, began_ms, offset: self.end }
    }
}
