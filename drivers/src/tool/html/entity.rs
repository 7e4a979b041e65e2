//! Character references such as `&amp;`.

use memchr::memchr;

/// Maximum bytes of a reference, between `&` and `;`. Anything longer is text.
const NAME_BYTES_MAX: usize = 10;

/// The references that pages use; any other name stays as it is.
const NAMED: [(&str, char); 67] = [
    ("amp", '&'),
    ("lt", '<'),
    ("gt", '>'),
    ("quot", '"'),
    ("apos", '\''),
    ("nbsp", ' '),
    ("ensp", ' '),
    ("emsp", ' '),
    ("thinsp", ' '),
    ("shy", '\u{ad}'),
    ("mdash", '—'),
    ("ndash", '–'),
    ("minus", '−'),
    ("hellip", '…'),
    ("lsquo", '‘'),
    ("rsquo", '’'),
    ("sbquo", '‚'),
    ("ldquo", '“'),
    ("rdquo", '”'),
    ("bdquo", '„'),
    ("laquo", '«'),
    ("raquo", '»'),
    ("lsaquo", '‹'),
    ("rsaquo", '›'),
    ("bull", '•'),
    ("middot", '·'),
    ("times", '×'),
    ("divide", '÷'),
    ("plusmn", '±'),
    ("deg", '°'),
    ("micro", 'µ'),
    ("para", '¶'),
    ("sect", '§'),
    ("copy", '©'),
    ("reg", '®'),
    ("trade", '™'),
    ("euro", '€'),
    ("pound", '£'),
    ("yen", '¥'),
    ("cent", '¢'),
    ("larr", '←'),
    ("rarr", '→'),
    ("uarr", '↑'),
    ("darr", '↓'),
    ("le", '≤'),
    ("ge", '≥'),
    ("ne", '≠'),
    ("infin", '∞'),
    ("auml", 'ä'),
    ("ouml", 'ö'),
    ("uuml", 'ü'),
    ("Auml", 'Ä'),
    ("Ouml", 'Ö'),
    ("Uuml", 'Ü'),
    ("szlig", 'ß'),
    ("eacute", 'é'),
    ("egrave", 'è'),
    ("ecirc", 'ê'),
    ("agrave", 'à'),
    ("aacute", 'á'),
    ("iacute", 'í'),
    ("oacute", 'ó'),
    ("uacute", 'ú'),
    ("ntilde", 'ñ'),
    ("ccedil", 'ç'),
    ("oslash", 'ø'),
    ("aring", 'å'),
];

/// Replaces references by their characters.
pub(super) fn decoded(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = memchr(b'&', rest.as_bytes()) {
        out.push_str(&rest[..at]);
        let reference = &rest.as_bytes()[at + 1..];
        let end = memchr(b';', &reference[..reference.len().min(NAME_BYTES_MAX + 1)]);
        match end.and_then(|end| Some((end, character(&rest[at + 1..at + 1 + end])?))) {
            Some((end, character)) => {
                out.push(character);
                rest = &rest[at + end + 2..];
            }
            None => {
                out.push('&');
                rest = &rest[at + 1..];
            }
        }
    }
    out.push_str(rest);
    out
}

fn character(name: &str) -> Option<char> {
    let Some(number) = name.strip_prefix('#') else {
        return NAMED.iter().find(|(known, _)| *known == name).map(|(_, character)| *character);
    };
    let code = match number.strip_prefix(['x', 'X']) {
        Some(digits) => u32::from_str_radix(digits, 16),
        None => number.parse(),
    };
    // As browsers do: a number of no character is the replacement character.
    let character = code.ok().map(|code| char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER))?;
    Some(if character == '\0' { char::REPLACEMENT_CHARACTER } else { character })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn references_are_read_and_everything_else_stays() {
        for (text, expected) in [
            ("a &amp; b", "a & b"),
            ("&lt;p&gt;&#65;&#x42;&#X43;", "<p>ABC"),
            ("&uuml;&unknown;&;&", "ü&unknown;&;&"),
            ("&amp;amp;", "&amp;"),
            ("&#0;&#xD800;&#1114112;", "\u{fffd}\u{fffd}\u{fffd}"),
            ("&#;&#x;&#-1;&#99999999999;", "&#;&#x;&#-1;&#99999999999;"),
            (
                "&ü;&abcdefghijk;&\u{1f600}\u{1f600}\u{1f600};",
                "&ü;&abcdefghijk;&\u{1f600}\u{1f600}\u{1f600};",
            ),
        ] {
            assert_eq!(decoded(text), expected, "{text}");
        }
    }
}
