//! Variable-length integers, length-prefixed blocks, and a checked cursor.

/// Appends `value` as LEB128: seven bits per byte, lowest first.
pub(crate) fn put_u64(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Appends `value` in zigzag encoding, so small magnitudes of either sign are short.
pub(crate) fn put_i64(out: &mut Vec<u8>, value: i64) {
    put_u64(out, ((value << 1) ^ (value >> 63)) as u64);
}

/// The unread rest of a byte slice. Every method returns `None` for missing or invalid bytes.
pub(crate) struct Cursor<'a>(pub(crate) &'a [u8]);

impl<'a> Cursor<'a> {
    pub(crate) fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(taken)
    }

    pub(crate) fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        self.take(N)?.try_into().ok()
    }

    pub(crate) fn u64(&mut self) -> Option<u64> {
        let mut value = 0u64;
        for shift in (0..64).step_by(7) {
            let byte = self.array::<1>()?[0];
            let bits = u64::from(byte & 0x7f);
            if shift == 63 && bits > 1 {
                return None;
            }
            value |= bits << shift;
            if byte < 0x80 {
                return Some(value);
            }
        }
        None
    }

    pub(crate) fn i64(&mut self) -> Option<i64> {
        let value = self.u64()?;
        Some((value >> 1) as i64 ^ -((value & 1) as i64))
    }

    pub(crate) fn block(&mut self) -> Option<&'a [u8]> {
        let len = usize::try_from(self.u64()?).ok()?;
        self.take(len)
    }
}

/// Appends the length of `bytes` as a varint, then `bytes`.
pub(crate) fn put_block(out: &mut Vec<u8>, bytes: &[u8]) {
    put_u64(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_read_back_as_written() {
        for value in [0, 1, 127, 128, 300, u64::from(u32::MAX), u64::MAX - 1, u64::MAX] {
            let mut out = Vec::new();
            put_u64(&mut out, value);
            put_i64(&mut out, value as i64);
            let mut cursor = Cursor(&out);
            assert_eq!((cursor.u64(), cursor.i64()), (Some(value), Some(value as i64)));
            assert!(cursor.0.is_empty());
        }
    }

    #[test]
    fn truncated_and_oversized_integers_are_rejected() {
        assert_eq!(Cursor(&[0x80]).u64(), None);
        assert_eq!(Cursor(&[0xff; 11]).u64(), None);
        assert_eq!(Cursor(&[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x02]).u64(), None);
        assert_eq!(Cursor(&[5, 1, 2]).block(), None);
    }
}
