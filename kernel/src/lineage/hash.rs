//! The one hash function everything is named by.

use crate::id::Digest;

/// `H(tag, parts..)`: BLAKE3-256 over the tag, a zero byte, and each part behind its length (u64, little-endian).
pub fn hash(tag: &str, parts: &[&[u8]]) -> Digest {
    let mut hasher = blake3::Hasher::new();
    hasher.update(tag.as_bytes());
    hasher.update(&[0]);
    for part in parts {
        hasher.update(&(part.len() as u64).to_le_bytes());
        hasher.update(part);
    }
    Digest(*hasher.finalize().as_bytes())
}
