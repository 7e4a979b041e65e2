//! Writes a value as canonical JSON in one pass.

use std::cmp::Ordering;

use serde_json::{Map, Value};

use super::{JsonError, MAX_DEPTH, number};

/// Destination of canonical text: a string, or a byte count.
pub(crate) trait Sink {
    /// Appends a piece.
    fn push(&mut self, text: &str);
}

impl Sink for String {
    fn push(&mut self, text: &str) {
        self.push_str(text);
    }
}

pub(super) struct ByteCount(pub(super) usize);

impl Sink for ByteCount {
    fn push(&mut self, text: &str) {
        self.0 += text.len();
    }
}

pub(crate) fn write_value(value: &Value, out: &mut impl Sink) -> Result<(), JsonError> {
    write_nested(value, MAX_DEPTH, out)
}

pub(crate) fn write_map(map: &Map<String, Value>, out: &mut impl Sink) -> Result<(), JsonError> {
    write_map_within(map, MAX_DEPTH, out)
}

/// Writes an object with a limit on the depth, the object included.
pub(super) fn write_map_within(
    map: &Map<String, Value>,
    depth: usize,
    out: &mut impl Sink,
) -> Result<(), JsonError> {
    write_members(map, depth, out)
}

fn write_nested(value: &Value, depth_left: usize, out: &mut impl Sink) -> Result<(), JsonError> {
    match value {
        Value::Null => out.push("null"),
        Value::Bool(true) => out.push("true"),
        Value::Bool(false) => out.push("false"),
        Value::Number(number) => number::write(number, out)?,
        Value::String(text) => write_string(text, out),
        Value::Array(items) => {
            let depth_left = depth_left.checked_sub(1).ok_or(JsonError::TooDeep { at: 0 })?;
            out.push("[");
            for (index, item) in items.iter().enumerate() {
                if index > 0 {
                    out.push(",");
                }
                write_nested(item, depth_left, out)?;
            }
            out.push("]");
        }
        Value::Object(map) => write_members(map, depth_left, out)?,
    }
    Ok(())
}

fn write_members(map: &Map<String, Value>, depth_left: usize, out: &mut impl Sink) -> Result<(), JsonError> {
    let depth_left = depth_left.checked_sub(1).ok_or(JsonError::TooDeep { at: 0 })?;
    out.push("{");
    // Byte order, in which maps iterate, nearly always equals UTF-16 order; only otherwise the members must be sorted.
    if map.keys().is_sorted_by(|left, right| utf16_order(left, right).is_lt()) {
        for (index, (key, value)) in map.iter().enumerate() {
            write_member(index, key, value, depth_left, out)?;
        }
    } else {
        let mut members: Vec<(&String, &Value)> = map.iter().collect();
        members.sort_unstable_by(|left, right| utf16_order(left.0, right.0));
        for (index, (key, value)) in members.into_iter().enumerate() {
            write_member(index, key, value, depth_left, out)?;
        }
    }
    out.push("}");
    Ok(())
}

fn write_member(
    index: usize,
    key: &str,
    value: &Value,
    depth_left: usize,
    out: &mut impl Sink,
) -> Result<(), JsonError> {
    if index > 0 {
        out.push(",");
    }
    write_string(key, out);
    out.push(":");
    write_nested(value, depth_left, out)
}

/// Writes a quoted string with the escapes of RFC 8785, section 3.2.2.2.
pub(crate) fn write_string(text: &str, out: &mut impl Sink) {
    out.push("\"");
    let mut clean_from = 0;
    for (at, byte) in text.bytes().enumerate() {
        if byte >= 0x20 && byte != b'"' && byte != b'\\' {
            continue;
        }
        out.push(&text[clean_from..at]);
        clean_from = at + 1;
        match byte {
            b'"' => out.push("\\\""),
            b'\\' => out.push("\\\\"),
            0x08 => out.push("\\b"),
            b'\t' => out.push("\\t"),
            b'\n' => out.push("\\n"),
            0x0c => out.push("\\f"),
            b'\r' => out.push("\\r"),
            control => {
                const DIGITS: &str = "0123456789abcdef";
                let low = (control & 0x0f) as usize;
                out.push(if control < 0x10 { "\\u000" } else { "\\u001" });
                out.push(&DIGITS[low..=low]);
            }
        }
    }
    out.push(&text[clean_from..]);
    out.push("\"");
}

/// Compares strings by UTF-16 code units without converting them.
///  
/// UTF-8 order is code point order. UTF-16 order differs in one respect: characters beyond U+FFFF are encoded with surrogates
/// (0xD800 to 0xDFFF) and sort before U+E000 to U+FFFF. The latter are exactly the characters with lead byte 0xEE or 0xEF, so
/// raising these two bytes above 0xF4, the greatest lead byte, gives UTF-16 order.
pub(crate) fn utf16_order(left: &str, right: &str) -> Ordering {
    fn rank(byte: u8) -> u8 {
        match byte {
            0xee | 0xef => byte + 0x10,
            _ => byte,
        }
    }
    let differing = left.bytes().zip(right.bytes()).find(|(left, right)| left != right);
    match differing {
        Some((left, right)) => rank(left).cmp(&rank(right)),
        None => left.len().cmp(&right.len()),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn the_order_is_that_of_utf16(left in "[a\u{d7ff}\u{e000}\u{ffff}\u{10000}\u{10ffff}]{0,3}",
                                      right in "[a\u{d7ff}\u{e000}\u{ffff}\u{10000}\u{10ffff}]{0,3}") {
            let by_units = left.encode_utf16().cmp(right.encode_utf16());
            prop_assert_eq!(utf16_order(&left, &right), by_units);
        }
    }
}
