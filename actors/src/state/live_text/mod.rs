//! What models write in running attempts, for people who watch: kept in memory, never in the records.
//!
//! A text is there from its first piece until its attempt has ended and every reader has read the end; afterwards the
//! result of the node is what remains. Readers ask for text and the writer never waits for them: one that falls behind
//! by more than [`LIVE_TEXT_BYTES_MAX`] finds the end only.

mod kept_text;
mod position;

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, Weak};

use ostler_kernel::id::{NodeId, RunId, Ticks};
use tokio::sync::watch;

use self::kept_text::{KeptText, Piece};
pub use self::kept_text::{LIVE_TEXT_BYTES_MAX, TextPart};
pub use self::position::{TextPosition, TextPositionError};
use crate::base::lock::lock;

/// Bytes kept of the texts of ended attempts of a run, for readers that are behind.
pub const ENDED_TEXTS_BYTES_MAX: usize = 4 << 20;

/// Bytes of text that a reader gets at once, if it is behind.
const READ_BYTES_MAX: usize = 64 << 10;

/// The texts of all runs.
#[derive(Default)]
pub(crate) struct LiveTexts {
    runs: Mutex<Runs>,
}

/// Runs with a text or a reader. Weak: the writers and readers of a run keep its texts.
#[derive(Default)]
struct Runs {
    texts: HashMap<RunId, Weak<RunTexts>>,
    /// Number of entries at which those without a writer or reader are dropped.
    swept_at: usize,
}

/// Smallest number of runs at which entries are swept.
const SWEPT_AT_MIN: usize = 64;

impl LiveTexts {
    /// Begins the text of an attempt.
    pub(crate) fn begin(&self, run: RunId, node: NodeId, attempt: u32, began_ms: Ticks) -> AttemptText {
        let texts = self.of(run);
        let mut state = lock(&texts.state);
        let id = state.begun;
        state.begun += 1;
        let text = Text { node, attempt, began_ms, kept: KeptText::default(), ended: None };
        state.texts.insert(id, text);
        drop(state);
        AttemptText { texts, id }
    }

    /// Reads the texts of a run that attempts write now and later, each from its beginning or from one of `after`.
    pub(crate) fn follow(&self, run: RunId, filter: TextFilter, after: &[TextPosition]) -> TextReader {
        let texts = self.of(run);
        let changes = texts.changes.subscribe();
        let mut state = lock(&texts.state);
        let id = state.readers_begun;
        state.readers_begun += 1;
        let (ended, mut read) = (state.ended, BTreeMap::new());
        for (&text, entry) in &state.texts {
            let is_of = |position: &&TextPosition| entry.is_at(position);
            if let Some(position) = after.iter().find(is_of) {
                read.insert(text, Place::Offset(position.offset.min(entry.kept.end())));
            }
        }
        state.readers.insert(id, ended);
        drop(state);
        TextReader { texts, id, filter, read, changes }
    }

    fn of(&self, run: RunId) -> Arc<RunTexts> {
        let mut runs = lock(&self.runs);
        if let Some(texts) = runs.texts.get(&run).and_then(Weak::upgrade) {
            return texts;
        }
        if runs.texts.len() >= runs.swept_at {
            runs.texts.retain(|_, texts| texts.strong_count() > 0);
            runs.swept_at = (2 * runs.texts.len()).max(SWEPT_AT_MIN);
        }
        let texts = Arc::new(RunTexts { state: Mutex::default(), changes: watch::Sender::new(()) });
        runs.texts.insert(run, Arc::downgrade(&texts));
        texts
    }
}

struct RunTexts {
    state: Mutex<State>,
    changes: watch::Sender<()>,
}

#[derive(Default)]
struct State {
    texts: BTreeMap<u64, Text>,
    begun: u64,
    /// Number of texts that ended.
    ended: u64,
    /// For each reader, `ended` when it had read all there was.
    readers: BTreeMap<u64, u64>,
    readers_begun: u64,
}

struct Text {
    node: NodeId,
    attempt: u32,
    began_ms: Ticks,
    kept: KeptText,
    /// Number of the text among the ended ones, from 1; `None`: the attempt goes on.
    ended: Option<u64>,
}

impl Text {
    fn is_at(&self, position: &TextPosition) -> bool {
        (&self.node, self.attempt, self.began_ms) == (&position.node, position.attempt, position.began_ms)
    }

    fn at(&self, offset: u64) -> TextPosition {
        TextPosition { node: self.node.clone(), attempt: self.attempt, began_ms: self.began_ms, offset }
    }
}

impl State {
    /// Drops ended texts that every reader has read, and the oldest ones beyond the limit.
    fn sweep(&mut self) {
        let read_by_all = self.readers.values().min().copied().unwrap_or(u64::MAX);
        self.texts.retain(|_, text| text.ended.is_none_or(|ended| ended > read_by_all));
        let mut ended: Vec<(u64, u64, usize)> =
            self.texts.iter().filter_map(|(&id, text)| Some((text.ended?, id, text.kept.bytes()))).collect();
        ended.sort_unstable();
        let mut bytes: usize = ended.iter().map(|(.., bytes)| bytes).sum();
        for (_, id, of_text) in ended {
            if bytes <= ENDED_TEXTS_BYTES_MAX {
                break;
            }
            bytes -= of_text;
            self.texts.remove(&id);
        }
    }
}

/// The text of a running attempt. Dropping it ends the text.
pub(crate) struct AttemptText {
    texts: Arc<RunTexts>,
    id: u64,
}

impl AttemptText {
    /// Adds text of a call. Never waits for a reader.
    pub(crate) fn push(&self, call: u32, part: TextPart, text: &str) {
        let mut state = lock(&self.texts.state);
        if let Some(entry) = state.texts.get_mut(&self.id) {
            entry.kept.push(call, part, text);
        }
        drop(state);
        self.texts.changes.send_replace(());
    }
}

impl Drop for AttemptText {
    fn drop(&mut self) {
        let mut state = lock(&self.texts.state);
        state.ended += 1;
        let ended = state.ended;
        if let Some(text) = state.texts.get_mut(&self.id) {
            text.ended = Some(ended);
        }
        state.sweep();
        drop(state);
        self.texts.changes.send_replace(());
    }
}

/// Which attempts of a run a reader wants.
#[derive(Debug, Clone, Default)]
pub struct TextFilter {
    /// Only of this node.
    pub node: Option<NodeId>,
    /// Only of attempts of this number.
    pub attempt: Option<u32>,
}

impl TextFilter {
    fn takes(&self, text: &Text) -> bool {
        self.node.as_ref().is_none_or(|node| *node == text.node)
            && self.attempt.is_none_or(|attempt| attempt == text.attempt)
    }
}

/// A part of a text that a reader did not have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LiveText {
    /// Place behind the text.
    pub position: TextPosition,
    /// The text; `None`: the attempt has ended, and nothing follows.
    pub text: Option<LiveTextPiece>,
}

/// A piece of text, of one call and one kind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LiveTextPiece {
    /// Number of the call within the attempt, from 1. Calls made at once alternate.
    pub call: u32,
    /// The kind.
    pub part: TextPart,
    /// Bytes of the attempt's text before the piece: more than the reader has if it was too far behind.
    pub offset: u64,
    /// The text.
    pub text: String,
}

#[derive(Debug, Clone, Copy)]
enum Place {
    Offset(u64),
    /// The reader knows that the text has ended.
    Ended,
}

/// A reader of the texts of a run. Each has its own places; a reader that reads nothing delays no attempt and no other reader.
pub struct TextReader {
    texts: Arc<RunTexts>,
    id: u64,
    filter: TextFilter,
    read: BTreeMap<u64, Place>,
    changes: watch::Receiver<()>,
}

impl TextReader {
    /// Text that the reader does not have, if there is any: a part of it, when it is much. Empty: there is none now.
    pub fn read(&mut self) -> Vec<LiveText> {
        // Marked as seen before the texts are read, so that no change is missed.
        self.changes.borrow_and_update();
        let mut state = lock(&self.texts.state);
        let seen = state.readers.get(&self.id).copied().unwrap_or(0);
        let (mut found, mut bytes) = (Vec::new(), 0);
        for (&id, text) in &state.texts {
            if !self.filter.takes(text) || text.ended.is_some_and(|ended| ended <= seen) {
                continue;
            }
            let Place::Offset(offset) = *self.read.entry(id).or_insert(Place::Offset(0)) else { continue };
            let mut offset = offset;
            while bytes < READ_BYTES_MAX
                && let Some(piece) = text.kept.after(offset)
            {
                offset = piece.end();
                bytes += piece.text.len();
                let Piece { call, part, offset: before, text: added } = piece;
                let added = LiveTextPiece { call, part, offset: before, text: added };
                found.push(LiveText { position: text.at(offset), text: Some(added) });
            }
            self.read.insert(id, Place::Offset(offset));
            if bytes >= READ_BYTES_MAX {
                return found;
            }
            if text.ended.is_some() {
                self.read.insert(id, Place::Ended);
                found.push(LiveText { position: text.at(offset), text: None });
            }
        }
        let ended = state.ended;
        if ended > seen {
            state.readers.insert(self.id, ended);
            state.sweep();
            self.read.retain(|id, _| state.texts.get(id).is_some_and(|text| text.ended.is_none()));
        }
        found
    }

    /// Waits for more text or the end of a text. Dropping the future loses nothing.
    pub async fn changed(&mut self) {
        // The texts have a sender as long as the reader has them.
        let _ = self.changes.changed().await;
    }
}

impl Drop for TextReader {
    fn drop(&mut self) {
        let mut state = lock(&self.texts.state);
        state.readers.remove(&self.id);
        state.sweep();
    }
}

#[cfg(test)]
mod tests;
