//! The tagged hash behind every digest.

use crate::id::Digest;

/// `H(tag, parts..)`: BLAKE3-256 over the tag, a zero byte, and each part preceded by its length (u64, little-endian).
///  
/// The tag separates domains: digests of different kinds never coincide. The lengths make the encoding injective: moving a
/// byte from one part to the next changes the input.
pub fn hash(tag: &str, parts: &[&[u8]]) -> Digest {
    let bytes = tag.len() + 1 + parts.iter().map(|part| 8 + part.len()).sum::<usize>();
    if bytes <= SHORT_BYTES_MAX {
        return short(tag, parts);
    }
    let mut hasher = blake3::Hasher::new();
    hasher.update(tag.as_bytes());
    hasher.update(&[0]);
    for part in parts {
        hasher.update(&(part.len() as u64).to_le_bytes());
        hasher.update(part);
    }
    Digest(*hasher.finalize().as_bytes())
}

/// Inputs up to this size are assembled on the stack first; one call of BLAKE3 takes half the time of several updates.
const SHORT_BYTES_MAX: usize = 1_024;

fn short(tag: &str, parts: &[&[u8]]) -> Digest {
    let mut whole = [0; SHORT_BYTES_MAX];
    let mut end = 0;
    let mut push = |bytes: &[u8]| {
        whole[end..end + bytes.len()].copy_from_slice(bytes);
        end += bytes.len();
    };
    push(tag.as_bytes());
    push(&[0]);
    for part in parts {
        push(&(part.len() as u64).to_le_bytes());
        push(part);
    }
    Digest(*blake3::hash(&whole[..end]).as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn how_long_it_is_does_not_matter_to_the_digest() {
        for bytes in [0, 1, 900, SHORT_BYTES_MAX - 11, SHORT_BYTES_MAX - 10, SHORT_BYTES_MAX, 5_000] {
            let part = vec![7; bytes];
            let spelled = [&b"t\0"[..], &(bytes as u64).to_le_bytes(), &part].concat();
            assert_eq!(hash("t", &[&part]).0, *blake3::hash(&spelled).as_bytes(), "{bytes}");
        }
    }
}
