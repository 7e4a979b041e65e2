//! The record codec: events as bytes. No other module uses the serialisation library.
//!
//! A record is a format byte, a kind byte, and the event in `bincode`'s legacy encoding (fixed-width little-endian integers)
//! without the four-byte variant number, which the kind replaces. Format 1 encodes runs of zeros, frequent in fixed-width
//! integers, as a zero and a count, and leaves text as is; records of attempts shrink by more than half. Format 2 is an LZ4
//! block, for large records, mostly plans.

#[cfg(test)]
pub(crate) mod golden;

use bincode::config::{self, Configuration, Fixint, Limit, LittleEndian};
use memchr::memchr;
use ostler_kernel::event::Event;
use serde::Serialize;
use serde::de::DeserializeOwned;

/// Largest record in bytes, encoded and decompressed.
pub const RECORD_BYTES_MAX: usize = 7 * 1024 * 1024 - 4096;

const ZERO_RUNS: u8 = 1;

/// Format of compressed records: the decompressed length (four bytes, little-endian), and an LZ4 block.
const COMPRESSED: u8 = 2;

const FORMAT: u8 = COMPRESSED;

/// Least size of a compressed record. Inline results are smaller, and often incompressible.
const COMPRESSED_FROM_BYTES: usize = 5 * 1024;

const COMPRESSION_RATIO_MAX: usize = 255;

const VARIANT_BYTES: usize = 4;

/// Why an event could not be encoded or decoded.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CodecError {
    /// The event is larger than [`RECORD_BYTES_MAX`].
    #[error("a record of {bytes} bytes is over the limit RECORD_BYTES_MAX of {RECORD_BYTES_MAX}")]
    TooLarge {
        /// The record's size in bytes.
        bytes: usize,
    },
    /// A later version of this program wrote the record.
    #[error("the record has format {found}, this program knows up to {FORMAT}")]
    NewerFormat {
        /// The record's format.
        found: u8,
    },
    /// The bytes encode no event.
    #[error("not an event: {0}")]
    Malformed(String),
}

fn format() -> Configuration<LittleEndian, Fixint, Limit<RECORD_BYTES_MAX>> {
    config::legacy().with_limit::<RECORD_BYTES_MAX>()
}

/// Encodes `event` and appends the record to `out`.
///
/// # Errors
///
/// [`CodecError::TooLarge`]; `out` is unchanged.
pub fn encode(event: &Event, out: &mut Vec<u8>) -> Result<(), CodecError> {
    let bytes = to_bytes(event)?;
    let kind = bytes[0];
    debug_assert_eq!(bytes[1..VARIANT_BYTES], [0; VARIANT_BYTES - 1], "fewer than 256 kinds");
    let body = &bytes[VARIANT_BYTES..];
    if body.len() >= COMPRESSED_FROM_BYTES {
        let compressed = lz4_flex::block::compress(body);
        if compressed.len() < body.len() {
            out.extend_from_slice(&[COMPRESSED, kind]);
            out.extend_from_slice(&u32::try_from(body.len()).unwrap_or(u32::MAX).to_le_bytes());
            out.extend_from_slice(&compressed);
            return Ok(());
        }
    }
    out.extend_from_slice(&[ZERO_RUNS, kind]);
    encode_zero_runs(body, out);
    Ok(())
}

/// Decodes a record of [`encode`].
///
/// # Errors
///
/// [`CodecError::NewerFormat`], or [`CodecError::Malformed`] or [`CodecError::TooLarge`] for bytes of any other origin.
pub fn decode(record: &[u8]) -> Result<Event, CodecError> {
    let (format, kind, body) = split(record)?;
    let mut bytes = Vec::with_capacity(VARIANT_BYTES + 2 * body.len());
    bytes.extend_from_slice(&[kind, 0, 0, 0]);
    match format {
        COMPRESSED => decompress(body, &mut bytes)?,
        _ => decode_zero_runs(body, &mut bytes)?,
    }
    from_bytes(&bytes)
}

pub(crate) fn decompressed_len(record: &[u8]) -> usize {
    match record {
        [COMPRESSED, _, a, b, c, d, ..] => u32::from_le_bytes([*a, *b, *c, *d]) as usize,
        _ => record.len(),
    }
}

/// Returns whether a record may change the tables of runs and accounts, by the kind alone.
pub(crate) fn touches_tables(record: &[u8]) -> Result<bool, CodecError> {
    // `RunOpened`, `RunRecovered`, `NodeTransition`, `AttemptResult`, `LateResult`, `HumanAnswer`, `Parked`, `Operator`,
    // `RunClosed`, `Evaluated`, `Verdict`, `CallReserved`, `CallSettled`, `ReuseDecided`, `ResultRecorded`.
    const KINDS: [u8; 15] = [0, 1, 4, 6, 7, 9, 16, 17, 20, 26, 38, 48, 49, 56, 57];
    Ok(KINDS.contains(&split(record)?.1))
}

fn split(record: &[u8]) -> Result<(u8, u8, &[u8]), CodecError> {
    match record {
        [format @ (ZERO_RUNS | COMPRESSED), kind, body @ ..] => Ok((*format, *kind, body)),
        [format, _, ..] if *format > FORMAT => Err(CodecError::NewerFormat { found: *format }),
        _ => Err(CodecError::Malformed("no format and kind".into())),
    }
}

pub(crate) fn encode_row<R: Serialize>(row: &R) -> Result<Vec<u8>, CodecError> {
    to_bytes(row)
}

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
        return Err(malformed(format!("{} extra bytes", bytes.len() - read)));
    }
    Ok(value)
}

/// Bytes compared one by one before calling `memchr`: the gaps between runs of zeros are mostly too short for the start-up cost
/// of `memchr` to pay off.
const NEAR_BYTES: usize = 24;

fn next_zero(bytes: &[u8]) -> Option<usize> {
    let (near, far) = bytes.split_at(bytes.len().min(NEAR_BYTES));
    let found = near.iter().position(|byte| *byte == 0);
    found.or_else(|| memchr(0, far).map(|at| near.len() + at))
}

/// Appends `bytes`, with each run of up to 255 zeros as a zero and the run's length.
fn encode_zero_runs(mut bytes: &[u8], out: &mut Vec<u8>) {
    while let Some(at) = next_zero(bytes) {
        let zeros = bytes[at..].iter().take(255).take_while(|byte| **byte == 0).count();
        out.extend_from_slice(&bytes[..at]);
        out.extend_from_slice(&[0, zeros as u8]);
        bytes = &bytes[at + zeros..];
    }
    out.extend_from_slice(bytes);
}

fn decode_zero_runs(mut bytes: &[u8], out: &mut Vec<u8>) -> Result<(), CodecError> {
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

/// Decompresses a record, up to [`RECORD_BYTES_MAX`]. Checks the stored length against the block's size before allocating.
fn decompress(body: &[u8], out: &mut Vec<u8>) -> Result<(), CodecError> {
    let (len, block) =
        body.split_at_checked(4).ok_or_else(|| malformed("a compressed record without a length"))?;
    let len = u32::from_le_bytes([len[0], len[1], len[2], len[3]]) as usize;
    if len > RECORD_BYTES_MAX {
        return Err(CodecError::TooLarge { bytes: len });
    }
    if len > block.len().saturating_mul(COMPRESSION_RATIO_MAX) {
        return Err(malformed("a compressed record with an impossible length"));
    }
    let start = out.len();
    out.resize(start + len, 0);
    match lz4_flex::block::decompress_into(block, &mut out[start..]) {
        Ok(written) if written == len => Ok(()),
        Ok(_) => Err(malformed("a compressed record shorter than stored")),
        Err(error) => Err(CodecError::Malformed(format!("a compressed record: {error}"))),
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
    fn ten_kinds_touch_the_tables() {
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
    fn a_false_length_allocates_nothing() {
        let mut record = vec![ZERO_RUNS, 16];
        record.extend_from_slice(&u64::MAX.to_le_bytes());
        assert!(matches!(decode(&record), Err(CodecError::Malformed(_))));
        let mut zeros = vec![ZERO_RUNS, 16];
        (0..RECORD_BYTES_MAX / 255 + 1).for_each(|_| zeros.extend_from_slice(&[0, 255]));
        assert!(matches!(decode(&zeros), Err(CodecError::TooLarge { .. })));
    }

    #[test]
    fn a_later_format_is_named_not_guessed_at() {
        assert_eq!(decode(&[FORMAT + 1, 0]), Err(CodecError::NewerFormat { found: FORMAT + 1 }));
    }

    #[test]
    fn a_large_record_is_compressed_and_reads_back() {
        let event = Event::Parked { reason: "a plan is much like itself; ".repeat(1_000) };
        let mut record = Vec::new();
        encode(&event, &mut record).unwrap();
        assert_eq!(record[0], COMPRESSED);
        assert!(record.len() < 1_000, "{} bytes", record.len());
        assert_eq!(decode(&record), Ok(event));
        for len in [0, u32::MAX, RECORD_BYTES_MAX as u32, 28_007, 28_009] {
            let mut altered = record.clone();
            altered[2..6].copy_from_slice(&len.to_le_bytes());
            assert!(decode(&altered).is_err(), "{len}");
        }
        for end in 0..record.len() {
            assert!(decode(&record[..end]).is_err(), "cut at {end}");
        }
    }

    proptest! {
        #[test]
        fn zero_runs_read_back(bytes in proptest::collection::vec(prop_oneof![Just(0u8), any::<u8>()], 0..1500)) {
            let (mut encoded, mut back) = (Vec::new(), Vec::new());
            encode_zero_runs(&bytes, &mut encoded);
            decode_zero_runs(&encoded, &mut back).unwrap();
            prop_assert_eq!(back, bytes);
        }

        #[test]
        fn arbitrary_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            let _ = decode(&bytes);
        }
    }
}
