//! Decodes arbitrary bytes as the response of a model provider, without panic or hang.

use ostler_drivers::model::decode::{Decoder, Protocol};

/// Decodes `bytes` in both dialects, whole and in pieces; true if either dialect finds an answer. Splitting changes no
/// result.
pub(crate) fn stream(bytes: &[u8]) -> bool {
    let mut is_answer = false;
    for protocol in [Protocol::OpenAi, Protocol::Anthropic] {
        let decode = |piece: usize| {
            let mut decoder = Decoder::new(protocol, 200, std::iter::empty());
            bytes.chunks(piece.max(1)).for_each(|piece| drop(decoder.push(piece)));
            format!("{:?}", decoder.end())
        };
        let (whole, pieces) = (decode(bytes.len()), decode(7));
        assert_eq!(whole, pieces, "{:?}", String::from_utf8_lossy(bytes));
        is_answer |= whole.starts_with("Ok");
    }
    is_answer
}
