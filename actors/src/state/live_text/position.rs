//! A reader's place in the text of an attempt.

use std::fmt;
use std::str::FromStr;

use ostler_kernel::id::{NodeId, Ticks, is_name};

/// A place in the text that models write in one attempt, written `NODE:ATTEMPT:BEGAN_MS:OFFSET`.
///
/// An attempt that is repeated after a crash keeps its number, and its text begins again: `began_ms` tells the two apart.
///
/// ```
/// use ostler_actors::TextPosition;
/// let position: TextPosition = "answer:1:1795930000000:42".parse().unwrap();
/// assert_eq!((position.node.as_str(), position.offset), ("answer", 42));
/// assert_eq!(position.to_string(), "answer:1:1795930000000:42");
/// assert!("answer:1".parse::<TextPosition>().is_err());
/// ```
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct TextPosition {
    /// The node.
    pub node: NodeId,
    /// Number of the attempt, from 1.
    pub attempt: u32,
    /// Time of the attempt's first text in milliseconds since the Unix epoch.
    pub began_ms: Ticks,
    /// Bytes of the attempt's text that the reader has.
    pub offset: u64,
}

/// A text that is no [`TextPosition`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?}: no place in a text; use NODE:ATTEMPT:BEGAN_MS:OFFSET, as the id of an event has it")]
pub struct TextPositionError(String);

impl fmt::Display for TextPosition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let TextPosition { node, attempt, began_ms, offset } = self;
        write!(f, "{node}:{attempt}:{began_ms}:{offset}")
    }
}

impl FromStr for TextPosition {
    type Err = TextPositionError;

    fn from_str(text: &str) -> Result<TextPosition, TextPositionError> {
        let read = || {
            let mut parts = text.split(':');
            let node = parts.next().filter(|node| is_name(node))?;
            let position = TextPosition {
                node: node.into(),
                attempt: parts.next()?.parse().ok()?,
                began_ms: parts.next()?.parse().ok()?,
                offset: parts.next()?.parse().ok()?,
            };
            parts.next().is_none().then_some(position)
        };
        read().ok_or_else(|| TextPositionError(text.chars().take(200).collect()))
    }
}
