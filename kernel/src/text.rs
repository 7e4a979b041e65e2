//! Measures of texts.

/// Bytes of a token, on average: the estimate wherever no provider has counted.
pub const TOKEN_BYTES: u64 = 4;

/// The beginning of a text, of at most so many bytes, ending with a whole character.
///
/// ```
/// use ostler_kernel::text::beginning;
/// assert_eq!(beginning("müde", 2), "m");
/// assert_eq!(beginning("müde", 9), "müde");
/// ```
pub fn beginning(text: &str, bytes_max: usize) -> &str {
    let end = (0..=bytes_max.min(text.len())).rev().find(|end| text.is_char_boundary(*end));
    &text[..end.unwrap_or(0)]
}
