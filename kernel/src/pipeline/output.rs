//! Limit on the events that are published in one append.

use super::state::PublishRefusal;
use crate::event::Published;

/// Bytes that a stage may publish while handling one event, and any caller in one request: data, names and records.
pub const OUTPUT_BYTES_MAX: usize = 4 << 20;

/// Bytes counted per event beside data and names. Covers the event's record and a chunk record that the event may complete,
/// and bounds the number of records per append.
const RECORD_BYTES_FLAT: usize = 128;

/// Bytes that an event counts towards [`OUTPUT_BYTES_MAX`].
pub fn output_bytes(event: &Published) -> usize {
    let names = event.stage.as_str().len() + event.kind.as_str().len();
    event.data.as_str().len() + names + RECORD_BYTES_FLAT
}

/// Running size of one append.
#[derive(Debug, Default)]
pub struct Output {
    bytes: usize,
}

impl Output {
    /// Adds an event.
    ///  
    /// # Errors
    ///  
    /// [`PublishRefusal::TooMuch`] if the append would exceed [`OUTPUT_BYTES_MAX`]; the event is not added.
    pub fn add(&mut self, event: &Published) -> Result<(), PublishRefusal> {
        let bytes = self.bytes + output_bytes(event);
        if bytes > OUTPUT_BYTES_MAX {
            return Err(PublishRefusal::TooMuch { bytes });
        }
        self.bytes = bytes;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::canonical;

    #[test]
    fn the_limit_holds_exactly_and_what_is_refused_does_not_count() {
        let event = |bytes: usize| {
            let data = canonical(&"x".repeat(bytes - 2).into()).unwrap();
            Published { stage: "a".into(), kind: "x".into(), data }
        };
        let flat = output_bytes(&event(2)) - 2;
        let half = OUTPUT_BYTES_MAX / 2 - flat;
        for (sizes, over) in [
            (vec![half, half], None),
            (vec![half, half + 1], Some(1)),
            (vec![half, 2, half], Some(flat + 2)),
            (vec![2 * half + flat], None),
        ] {
            let mut output = Output::default();
            let refused = sizes.iter().find_map(|bytes| output.add(&event(*bytes)).err());
            let expected = over.map(|over| PublishRefusal::TooMuch { bytes: OUTPUT_BYTES_MAX + over });
            assert_eq!(refused, expected, "{sizes:?}");
        }
        let mut output = Output::default();
        output.add(&event(half)).unwrap();
        output.add(&event(half + 1)).unwrap_err();
        output.add(&event(half)).unwrap();
    }
}
