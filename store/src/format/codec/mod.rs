//! Events to bytes and back. The only place that knows the serialisation library.
//!
//! A record is a format version, the kind of the event, and the event as `bincode`'s legacy format writes it
//! (fixed-width little-endian integers) with its four-byte variant number left out, since that is the kind.
//! Fixed-width integers are mostly zeros, so runs of zeros are written as a zero and their count: an attempt's
//! records shrink by more than half, and the text in them stays as it is. Large records, the plans of runs above all,
//! are packed instead (LZ4, format 2).

#[cfg(test)]
pub(crate) mod golden;

use bincode::config::{self, Configuration, Fixint, Limit, LittleEndian};
use memchr::memchr;
use ostler_kernel::event::Event;
use serde::Serialize;
use serde::de::DeserializeOwned;

/// Largest record, in bytes, as encoded and as unpacked.
pub const RECORD_BYTES_MAX: usize = 7 * 1024 * 1024 - 4096;

/// The format of records whose zeros are counted.
const SQUEEZED: u8 = 1;

/// The format of packed records: the length as unpacked (four bytes, little-endian), and an LZ4 block.
const PACKED: u8 = 2;

/// The newest format that this code knows.
const FORMAT: u8 = PACKED;

/// Bytes from which a record is packed. A result that stands in its record is smaller, and often much like noise.
const PACKED_FROM_BYTES: usize = 5 * 1024;

/// The most bytes that one byte of an LZ4 block can stand for.
const PACKED_RATIO_MAX: usize = 255;

/// Bytes of the variant number that the library writes before an event.
const VARIANT_BYTES: usize = 4;

/// Why bytes are no event, or an event cannot become bytes.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CodecError {
    /// The event is larger than [`RECORD_BYTES_MAX`].
    #[error("a record of {bytes} bytes is over the limit RECORD_BYTES_MAX of {RECORD_BYTES_MAX}")]
    TooLarge {
        /// What it would take.
        bytes: usize,
    },
    /// The record was written by a later version of this program.
    #[error("the record has format {found}, this program knows up to {FORMAT}")]
    NewerFormat {
        /// What it says.
        found: u8,
    },
    /// The bytes do not spell an event.
    #[error("not an event: {0}")]
    Malformed(String),
}

fn format() -> Configuration<LittleEndian, Fixint, Limit<RECORD_BYTES_MAX>> {
    config::legacy().with_limit::<RECORD_BYTES_MAX>()
}

/// Appends the record of `event` to `out`.
///
/// # Errors
///
/// [`CodecError::TooLarge`], with `out` as it was.
pub fn encode(event: &Event, out: &mut Vec<u8>) -> Result<(), CodecError> {
    let bytes = to_bytes(event)?;
    let kind = bytes[0];
    debug_assert_eq!(bytes[1..VARIANT_BYTES], [0; VARIANT_BYTES - 1], "fewer than 256 kinds");
    let body = &bytes[VARIANT_BYTES..];
    if body.len() >= PACKED_FROM_BYTES {
        let packed = lz4_flex::block::compress(body);
        if packed.len() < body.len() {
            out.extend_from_slice(&[PACKED, kind]);
            out.extend_from_slice(&u32::try_from(body.len()).unwrap_or(u32::MAX).to_le_bytes());
            out.extend_from_slice(&packed);
            return Ok(());
        }
    }
    out.extend_from_slice(&[SQUEEZED, kind]);
    squeeze(body, out);
    Ok(())
}

/// The event that `record` holds.
///
/// # Errors
///
/// The record is of a newer format, or not what [`encode`] writes.
pub fn decode(record: &[u8]) -> Result<Event, CodecError> {
    let (format, kind, body) = split(record)?;
    let mut bytes = Vec::with_capacity(VARIANT_BYTES + 2 * body.len());
    bytes.extend_from_slice(&[kind, 0, 0, 0]);
    match format {
        PACKED => unpack(body, &mut bytes)?,
        _ => unsqueeze(body, &mut bytes)?,
    }
    from_bytes(&bytes)
}

/// Bytes of the event in `record` when it is unpacked, about.
pub(crate) fn unpacked_len(record: &[u8]) -> usize {
    match record {
        [PACKED, _, a, b, c, d, ..] => u32::from_le_bytes([*a, *b, *c, *d]) as usize,
        _ => record.len(),
    }
}

/// Whether the event in `record` may change a line of the tables of runs and accounts. Does not unpack it.
pub(crate) fn touches_tables(record: &[u8]) -> Result<bool, CodecError> {
    /// Places of `RunOpened`, `RunRecovered`, `AttemptResult`, `LateResult`, `HumanAnswer`, `Parked`, `Operator`, `RunClosed`,
    /// `Evaluated` and `Verdict` among the variants.
    const KINDS: [u8; 10] = [0, 1, 6, 7, 9, 16, 17, 20, 26, 38];
    Ok(KINDS.contains(&split(record)?.1))
}

fn split(record: &[u8]) -> Result<(u8, u8, &[u8]), CodecError> {
    match record {
        [format @ (SQUEEZED | PACKED), kind, body @ ..] => Ok((*format, *kind, body)),
        [format, _, ..] if *format > FORMAT => Err(CodecError::NewerFormat { found: *format }),
        _ => Err(CodecError::Malformed("no format and kind".into())),
    }
}

/// A line of a table, for the index; one of the accounts, for a checkpoint too.
pub(crate) fn encode_row<R: Serialize>(row: &R) -> Result<Vec<u8>, CodecError> {
    to_bytes(row)
}

/// What [`encode_row`] wrote.
pub(crate) fn decode_row<R: DeserializeOwned>(bytes: &[u8]) -> Result<R, CodecError> {
    from_bytes(bytes)
}

fn to_bytes<T: Serialize>(value: &T) -> Result<Vec<u8>, CodecError> {
    let mut bytes = Vec::with_capacity(256);
    bincode::serde::encode_into_std_write(value, &mut bytes, format())
        .map_err(|error| CodecError::Malformed(error.to_string()))?;
    if bytes.len() > RECORD_BYTES_MAX {
        return Err(CodecError::TooLarge { bytes: bytes.len() });
    }
    Ok(bytes)
}

fn from_bytes<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, CodecError> {
    let malformed = |what: String| CodecError::Malformed(what);
    let (value, read) =
        bincode::serde::decode_from_slice(bytes, format()).map_err(|error| malformed(error.to_string()))?;
    if read != bytes.len() {
        return Err(malformed(format!("{} bytes too many", bytes.len() - read)));
    }
    Ok(value)
}

/// Bytes that are looked at one by one before a search begins that is quicker, once it has begun: what stands between two runs of zeros
/// is mostly short, and the plan of a run long.
const NEAR_BYTES: usize = 24;

/// Where the first zero is.
fn next_zero(bytes: &[u8]) -> Option<usize> {
    let (near, far) = bytes.split_at(bytes.len().min(NEAR_BYTES));
    let found = near.iter().position(|byte| *byte == 0);
    found.or_else(|| memchr(0, far).map(|at| near.len() + at))
}

/// Appends `bytes`, each run of up to 255 zeros as a zero and its length.
fn squeeze(mut bytes: &[u8], out: &mut Vec<u8>) {
    while let Some(at) = next_zero(bytes) {
        let zeros = bytes[at..].iter().take(255).take_while(|byte| **byte == 0).count();
        out.extend_from_slice(&bytes[..at]);
        out.extend_from_slice(&[0, zeros as u8]);
        bytes = &bytes[at + zeros..];
    }
    out.extend_from_slice(bytes);
}

/// Appends what [`squeeze`] was given, up to the limit.
fn unsqueeze(mut bytes: &[u8], out: &mut Vec<u8>) -> Result<(), CodecError> {
    while let Some(at) = next_zero(bytes) {
        let zeros = match bytes.get(at + 1) {
            Some(0) | None => return Err(CodecError::Malformed("a run of zeros without a length".into())),
            Some(zeros) => usize::from(*zeros),
        };
        out.extend_from_slice(&bytes[..at]);
        out.resize(out.len() + zeros, 0);
        if out.len() > RECORD_BYTES_MAX {
            return Err(CodecError::TooLarge { bytes: out.len() });
        }
        bytes = &bytes[at + 2..];
    }
    out.extend_from_slice(bytes);
    Ok(())
}

/// Appends what was packed, up to the limit. A length that the block cannot come to is believed by nobody.
fn unpack(body: &[u8], out: &mut Vec<u8>) -> Result<(), CodecError> {
    let (len, block) =
        body.split_at_checked(4).ok_or_else(|| malformed("a packed record without a length"))?;
    let len = u32::from_le_bytes([len[0], len[1], len[2], len[3]]) as usize;
    if len > RECORD_BYTES_MAX {
        return Err(CodecError::TooLarge { bytes: len });
    }
    if len > block.len().saturating_mul(PACKED_RATIO_MAX) {
        return Err(malformed("a packed record that says it is longer than it can be"));
    }
    let start = out.len();
    out.resize(start + len, 0);
    match lz4_flex::block::decompress_into(block, &mut out[start..]) {
        Ok(unpacked) if unpacked == len => Ok(()),
        Ok(_) => Err(malformed("a packed record that is shorter than it says")),
        Err(error) => Err(CodecError::Malformed(format!("a packed record: {error}"))),
    }
}

fn malformed(what: &str) -> CodecError {
    CodecError::Malformed(what.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use ostler_kernel::evaluation::Scores;
    use ostler_kernel::event::{AttemptResult, Evaluated, Failure, Outcome};
    use ostler_kernel::run::{FailureCategory, RunOutcome};
    use proptest::prelude::*;

    #[test]
    fn the_kinds_that_touch_a_table_are_those_ten() {
        let check = |event: Event, expected: bool| {
            let mut record = Vec::new();
            encode(&event, &mut record).unwrap();
            assert_eq!(touches_tables(&record), Ok(expected), "{event:?}");
        };
        let failed = Outcome::Failed(Failure { category: FailureCategory::Crash, message: String::new() });
        let result = Box::new(AttemptResult::without_cost("n".into(), 1, failed));
        check(Event::AttemptResult(result.clone()), true);
        check(Event::LateResult(result), true);
        let scores = Scores { quality: None, adherence: None, speed: 1, cost: 1, errors: 1, revisions: 1 };
        check(Event::Evaluated(Evaluated { scores, composite: 1 }), true);
        check(Event::RunRecovered { count: 1 }, true);
        check(Event::Parked { reason: "r".into() }, true);
        check(Event::RunClosed { outcome: RunOutcome::Failed }, true);
        check(Event::ContractChecked { version: 1, holds: true }, false);
        check(Event::Operator(ostler_kernel::event::OperatorAct::CancelPlan), true);
        check(Event::OutOfCredit { out: true }, false);
    }

    #[test]
    fn a_record_over_the_limit_is_refused_and_one_at_it_is_not() {
        let parked = |len: usize| Event::Parked { reason: "x".repeat(len) };
        let mut out = Vec::new();
        let room = RECORD_BYTES_MAX - VARIANT_BYTES - 8;
        assert_eq!(
            encode(&parked(room + 1), &mut out),
            Err(CodecError::TooLarge { bytes: RECORD_BYTES_MAX + 1 })
        );
        assert!(out.is_empty());
        encode(&parked(room), &mut out).unwrap();
        assert_eq!(decode(&out), Ok(parked(room)));
    }

    #[test]
    fn a_length_that_lies_allocates_nothing() {
        let mut record = vec![SQUEEZED, 16];
        record.extend_from_slice(&u64::MAX.to_le_bytes());
        assert!(matches!(decode(&record), Err(CodecError::Malformed(_))));
        let mut zeros = vec![SQUEEZED, 16];
        (0..RECORD_BYTES_MAX / 255 + 1).for_each(|_| zeros.extend_from_slice(&[0, 255]));
        assert!(matches!(decode(&zeros), Err(CodecError::TooLarge { .. })));
    }

    #[test]
    fn a_later_format_is_named_not_guessed_at() {
        assert_eq!(decode(&[FORMAT + 1, 0]), Err(CodecError::NewerFormat { found: FORMAT + 1 }));
    }

    #[test]
    fn a_large_record_is_packed_and_comes_back() {
        let event = Event::Parked { reason: "a plan is much like itself; ".repeat(1_000) };
        let mut record = Vec::new();
        encode(&event, &mut record).unwrap();
        assert_eq!(record[0], PACKED);
        assert!(record.len() < 1_000, "{} bytes", record.len());
        assert_eq!(decode(&record), Ok(event));
        for len in [0, u32::MAX, RECORD_BYTES_MAX as u32, 28_007, 28_009] {
            let mut lying = record.clone();
            lying[2..6].copy_from_slice(&len.to_le_bytes());
            assert!(decode(&lying).is_err(), "{len}");
        }
        for end in 0..record.len() {
            assert!(decode(&record[..end]).is_err(), "cut at {end}");
        }
    }

    proptest! {
        #[test]
        fn squeezed_bytes_come_back(bytes in proptest::collection::vec(prop_oneof![Just(0u8), any::<u8>()], 0..1500)) {
            let (mut squeezed, mut back) = (Vec::new(), Vec::new());
            squeeze(&bytes, &mut squeezed);
            unsqueeze(&squeezed, &mut back).unwrap();
            prop_assert_eq!(back, bytes);
        }

        #[test]
        fn arbitrary_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            let _ = decode(&bytes);
        }
    }
}
