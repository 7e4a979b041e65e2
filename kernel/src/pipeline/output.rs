//! How much may be published at once: it is recorded in one append, and there is a largest one.

use super::state::PublishRefusal;
use crate::event::Published;

/// Bytes that a stage may publish while it deals with one event, and anybody at once: of data, names and records, about.
pub const OUTPUT_BYTES_MAX: usize = 4 << 20;

/// What an event counts for besides its data and its names: no fewer bytes than its record takes, with that of a stretch which it
/// may complete, and so many that no append has too many records.
const RECORD_BYTES_FLAT: usize = 128;

/// What an event counts for where it is published, in bytes.
pub fn output_bytes(event: &Published) -> usize {
    let names = event.stage.as_str().len() + event.kind.as_str().len();
    event.data.as_str().len() + names + RECORD_BYTES_FLAT
}

/// What is published at once, counted.
#[derive(Debug, Default)]
pub struct Output {
    bytes: usize,
}

impl Output {
    /// Counts one event more.
    ///
    /// # Errors
    ///
    /// It is too much with those before it; it is not counted then.
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
