//! Names and times that both forms of provenance share.

use jiff::Timestamp;
use ostler_kernel::id::{NodeId, RunId};
use ostler_kernel::lineage::hash;

/// Home of the vocabulary and of the producer.
pub(super) const HOME: &str = env!("CARGO_PKG_REPOSITORY");

/// A time in milliseconds since the Unix epoch as RFC 3339, in UTC. Times that the form cannot hold become its last one.
pub(super) fn time(at_ms: i64) -> String {
    let at =
        Timestamp::from_millisecond(at_ms).unwrap_or(if at_ms < 0 { Timestamp::MIN } else { Timestamp::MAX });
    format!("{at:.3}")
}

/// A name as part of a URI: all but letters, digits, `-` and `_` is percent-encoded; dots are, at the end.
pub(super) fn part(name: &str) -> String {
    let mut text = String::with_capacity(name.len());
    for (at, byte) in name.bytes().enumerate() {
        let is_last = at + 1 == name.len();
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' => text.push(char::from(byte)),
            b'.' if !is_last => text.push('.'),
            _ => text += &format!("%{byte:02X}"),
        }
    }
    text
}

/// A UUID (version 8) for the work of a node in a run.
pub(super) fn node_uuid(run: RunId, node: &NodeId) -> String {
    let digest = hash("aos/node-run/1", &[run.to_string().as_bytes(), node.as_str().as_bytes()]);
    let mut bytes = [0_u8; 16];
    bytes.copy_from_slice(&digest.0[..16]);
    bytes[6] = (bytes[6] & 0x0f) | 0x80;
    bytes[8] = (bytes[8] & 0x3f) | 0x80;
    let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    format!("{}-{}-{}-{}-{}", &hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_become_parts_of_uris() {
        assert_eq!(part("a.b_c-1"), "a.b_c-1");
        assert_eq!(part("a/b \"ü."), "a%2Fb%20%22%C3%BC%2E");
    }

    #[test]
    fn times_beyond_the_form_are_its_ends() {
        assert_eq!(time(0), "1970-01-01T00:00:00.000Z");
        assert_eq!(time(1_795_881_507_024), "2026-11-28T15:58:27.024Z");
        assert!(time(i64::MAX).starts_with("9999-") && time(i64::MIN).starts_with('-'));
    }
}
