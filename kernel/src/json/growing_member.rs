//! The text of one member of a JSON object, read while the object is still being written.

/// Reads a string member of the outermost object from the beginning of a JSON text that grows: of `{"answer": "He` the text
/// `He`. Anything before the object is skipped.
///
/// Made for display. A text that is no JSON gives some text or none, and never an error; the complete text is what counts.
///
/// ```
/// use ostler_kernel::json::GrowingMember;
/// let mut answer = GrowingMember::new("answer");
/// assert_eq!(answer.push(r#"{"why": "answer", "ans"#), "");
/// assert_eq!(answer.push(r#"wer": "line 1\"#), "line 1");
/// assert_eq!(answer.push(r#"nline 2", "next": "x"}"#), "\nline 2");
/// ```
#[derive(Debug, Clone)]
pub struct GrowingMember {
    member: &'static str,
    place: Place,
    /// Open objects and arrays.
    depth: u32,
    /// The next string of the outermost object is a key.
    is_key_next: bool,
    /// The last key of the outermost object, up to one byte more than the wanted one has.
    key: String,
    escape: Escape,
    /// The first half of a surrogate pair, whose second half is the next escape.
    high: Option<u32>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    BeforeObject,
    BetweenStrings,
    Key,
    Wanted,
    OtherString,
    Done,
}

/// The escape sequence at the end of the text so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Escape {
    None,
    Backslash,
    /// `\u` with some of its four digits.
    Unicode {
        digits: u32,
        value: u32,
    },
}

impl GrowingMember {
    /// A reader of the member of this name.
    pub fn new(member: &'static str) -> GrowingMember {
        GrowingMember {
            member,
            place: Place::BeforeObject,
            depth: 0,
            is_key_next: true,
            key: String::new(),
            escape: Escape::None,
            high: None,
        }
    }

    /// Takes more of the JSON text, and returns the text that it adds to the member.
    pub fn push(&mut self, json: &str) -> String {
        let mut added = String::new();
        for c in json.chars() {
            match self.place {
                Place::Done => break,
                Place::BeforeObject if c == '{' => (self.place, self.depth) = (Place::BetweenStrings, 1),
                Place::BeforeObject => {}
                Place::BetweenStrings => self.structure(c),
                Place::Key | Place::Wanted | Place::OtherString => {
                    let Some(decoded) = self.decode(c) else { continue };
                    match self.place {
                        Place::Wanted => added.push(decoded),
                        Place::Key if self.key.len() <= self.member.len() => self.key.push(decoded),
                        _ => {}
                    }
                }
            }
        }
        added
    }

    fn structure(&mut self, c: char) {
        let is_outermost = self.depth == 1;
        match c {
            '"' if is_outermost && self.is_key_next => {
                self.key.clear();
                self.place = Place::Key;
            }
            '"' if is_outermost && self.key == self.member => self.place = Place::Wanted,
            '"' => self.place = Place::OtherString,
            ':' if is_outermost => self.is_key_next = false,
            ',' if is_outermost => self.is_key_next = true,
            '{' | '[' => self.depth += 1,
            '}' | ']' => {
                self.depth -= 1;
                if self.depth == 0 {
                    self.place = Place::Done;
                }
            }
            _ => {}
        }
    }

    /// The character of a string that `c` completes.
    fn decode(&mut self, c: char) -> Option<char> {
        let (escape, decoded) = match (self.escape, c) {
            (Escape::None, '"') => {
                self.place = if self.place == Place::Wanted { Place::Done } else { Place::BetweenStrings };
                (Escape::None, None)
            }
            (Escape::None, '\\') => (Escape::Backslash, None),
            (Escape::None, c) => {
                self.high = None;
                (Escape::None, Some(c))
            }
            (Escape::Backslash, 'u') => (Escape::Unicode { digits: 0, value: 0 }, None),
            (Escape::Backslash, 'n') => (Escape::None, Some('\n')),
            (Escape::Backslash, 't') => (Escape::None, Some('\t')),
            (Escape::Backslash, 'r') => (Escape::None, Some('\r')),
            (Escape::Backslash, 'b') => (Escape::None, Some('\u{8}')),
            (Escape::Backslash, 'f') => (Escape::None, Some('\u{c}')),
            (Escape::Backslash, c) => (Escape::None, Some(c)),
            (Escape::Unicode { digits, value }, c) => {
                let value = value * 16 + c.to_digit(16).unwrap_or(0);
                match digits {
                    3 => (Escape::None, self.unit(value)),
                    _ => (Escape::Unicode { digits: digits + 1, value }, None),
                }
            }
        };
        self.escape = escape;
        decoded
    }

    /// The character of a UTF-16 unit, or of the pair that it completes. Half a pair is left out or U+FFFD.
    fn unit(&mut self, unit: u32) -> Option<char> {
        let code = match (self.high.take(), unit) {
            (Some(high), 0xdc00..=0xdfff) => 0x1_0000 + ((high - 0xd800) << 10) + (unit - 0xdc00),
            (_, 0xd800..=0xdbff) => {
                self.high = Some(unit);
                return None;
            }
            (_, unit) => unit,
        };
        Some(char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The text at every way to cut the JSON in two, and character by character.
    fn read(json: &str) -> String {
        let whole = GrowingMember::new("answer").push(json);
        for (cut, _) in json.char_indices() {
            let mut answer = GrowingMember::new("answer");
            assert_eq!(answer.push(&json[..cut]) + &answer.push(&json[cut..]), whole, "cut at {cut}");
        }
        let mut answer = GrowingMember::new("answer");
        assert_eq!(json.chars().map(|c| answer.push(&c.to_string())).collect::<String>(), whole);
        whole
    }

    #[test]
    fn only_the_wanted_member_of_the_outermost_object_is_read() {
        for (json, expected) in [
            (r#"{"answer": "Yes.", "citations": ["a"]}"#, "Yes."),
            (r#"{"citations": ["answer", {"answer": "no"}], "answer": "Yes."}"#, "Yes."),
            (r#"{"steps": [{"answer": "no"}], "answer": null}"#, ""),
            (r#"{"why": "{\"answer\": \"no\"", "answer":"x"}"#, "x"),
            (r#"{"answers": "no", "answe": "no"}"#, ""),
            ("Here it is:\n```json\n{\"answer\": \"x\"}\n```", "x"),
            (r#"{"answer": "x"} {"answer": "y"}"#, "x"),
            (r#"{"answer": ["no"]}"#, ""),
            ("", ""),
            ("no JSON, \"answer\": \"no\"", ""),
            ("}]{}", ""),
        ] {
            assert_eq!(read(json), expected, "{json}");
        }
    }

    #[test]
    fn escapes_are_decoded_wherever_they_are_cut() {
        assert_eq!(read(r#"{"answer": "a\n\t\"\\\/\u00e4\u65E5b"}"#), "a\n\t\"\\/ä日b");
        assert_eq!(read(r#"{"answer": "\ud83e\udd80 \ud83e. \udd80"}"#), "🦀 . \u{fffd}");
        assert_eq!(read(r#"{"\u0061nswer": "x"}"#), "x");
    }

    proptest::proptest! {
        #[test]
        fn a_written_text_is_read_again(text: String) {
            let json = serde_json::json!({"before": [text.clone()], "answer": text}).to_string();
            assert_eq!(GrowingMember::new("answer").push(&json), text);
        }

        #[test]
        fn any_text_is_read_without_a_panic(text: String) {
            GrowingMember::new("answer").push(&text);
            GrowingMember::new("answer").push(&format!("{{\"answer\": \"{text}"));
        }
    }
}
