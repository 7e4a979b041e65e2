//! JSON reader. The kernel's strict parser accepts or rejects the text, then a second pass finds the offsets.

use ostler_kernel::json::{JsonError, count_values, parse_value};

use super::data::{Data, Entry, Located, PLAN_FILE_VALUES_MAX, SyntaxError, SyntaxErrorKind};

pub(super) fn read(text: &str) -> Result<Located, SyntaxError> {
    // Before anything is read: small lists take many times their text.
    if count_values(text) > PLAN_FILE_VALUES_MAX {
        return Err(SyntaxError { at: None, kind: SyntaxErrorKind::TooMany });
    }
    parse_value(text)
        .map_err(|error| SyntaxError { at: Some(place(&error)), kind: error_kind(text, &error) })?;
    let mut cursor = Cursor { text, at: 0 };
    Ok(cursor.located())
}

fn place(error: &JsonError) -> usize {
    match *error {
        JsonError::Syntax { at, .. }
        | JsonError::DuplicateKey { at, .. }
        | JsonError::NotFinite { at }
        | JsonError::LoneSurrogate { at }
        | JsonError::BigInteger { at }
        | JsonError::TooDeep { at } => at,
    }
}

fn error_kind(text: &str, error: &JsonError) -> SyntaxErrorKind {
    match error {
        JsonError::TooDeep { .. } => SyntaxErrorKind::TooDeep,
        JsonError::BigInteger { .. } => SyntaxErrorKind::TooBig,
        _ => {
            let at = format!(" at byte {}", place(error));
            let what = error.to_string().replace(&at, "").replace(", again", "");
            SyntaxErrorKind::Other { what, help: help(text, error).unwrap_or_default() }
        }
    }
}

fn help(text: &str, error: &JsonError) -> Option<&'static str> {
    let &JsonError::Syntax { at, .. } = error else { return None };
    let (before, after) = text.split_at_checked(at)?;
    if after.starts_with(['}', ']']) && before.trim_end().ends_with(',') {
        return Some("remove the comma before it");
    }
    after.starts_with('\'').then_some("use double quotes")
}

/// Cursor over a text known to be valid JSON.
struct Cursor<'a> {
    text: &'a str,
    at: usize,
}

impl Cursor<'_> {
    fn peek(&self) -> u8 {
        self.text.as_bytes().get(self.at).copied().unwrap_or(b']')
    }

    fn skip(&mut self) {
        while matches!(self.peek(), b' ' | b'\t' | b'\n' | b'\r' | b',' | b':') {
            self.at += 1;
        }
    }

    fn located(&mut self) -> Located {
        self.skip();
        let at = self.at;
        let data = match self.peek() {
            b'[' => {
                self.at += 1;
                let mut items = Vec::new();
                while self.more(b']') {
                    items.push(self.located());
                }
                Data::List(items)
            }
            b'{' => {
                self.at += 1;
                let mut entries = Vec::new();
                while self.more(b'}') {
                    let key_at = self.at;
                    let Data::Text(key) = self.scalar() else { break };
                    entries.push(Entry { key, key_at, located: self.located() });
                }
                Data::Map(entries)
            }
            _ => self.scalar(),
        };
        Located { at, plain: false, data }
    }

    /// Returns whether another item precedes the closing bracket; otherwise steps over the bracket.
    fn more(&mut self, close: u8) -> bool {
        self.skip();
        if self.peek() == close || self.at >= self.text.len() {
            self.at += 1;
            return false;
        }
        true
    }

    fn scalar(&mut self) -> Data {
        let from = self.at;
        if self.peek() == b'"' {
            self.at += 1;
            while self.peek() != b'"' {
                self.at += if self.peek() == b'\\' { 2 } else { 1 };
            }
            self.at += 1;
        } else {
            while self.at < self.text.len()
                && !matches!(self.peek(), b',' | b']' | b'}' | b' ' | b'\t' | b'\n' | b'\r')
            {
                self.at += 1;
            }
        }
        match parse_value(&self.text[from..self.at]).expect("a part of accepted JSON is accepted again") {
            serde_json::Value::Bool(flag) => Data::Bool(flag),
            serde_json::Value::Number(number) => Data::Number(number),
            serde_json::Value::String(text) => Data::Text(text),
            _ => Data::Null,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tree_is_the_value_that_was_parsed() {
        for text in [
            r#"{"a": [1, -2.5e3, "x\"y\\", true, null, {}, [], [[ ]]], "ä\u00e9": {"b": false}}"#,
            "7",
            " [ ] ",
            r#""text""#,
            r#"{"a":{"b":{"c":[{"d":1},{"e":2}]}}}"#,
        ] {
            assert_eq!(read(text).unwrap().value(), parse_value(text).unwrap(), "{text}");
        }
    }

    #[test]
    fn parts_know_where_they_begin() {
        let text = "{\n  \"nodes\": [ {\"id\" : \"a\"} ]\n}";
        let located = read(text).unwrap();
        let nodes = located.get("nodes").unwrap();
        assert!(text[nodes.key_at..].starts_with("\"nodes\""));
        assert!(text[nodes.located.items()[0].get("id").unwrap().located.at..].starts_with("\"a\""));
    }

    #[test]
    fn what_is_no_json_is_refused_with_its_place() {
        for (text, at) in [("{\"a\": 1, \"a\": 2}", 9), ("[1,]", 3), ("", 0)] {
            assert_eq!(read(text).expect_err(text).at, Some(at), "{text}");
        }
    }

    #[test]
    fn habits_of_other_formats_are_told_their_mend() {
        for (text, help) in [
            ("[1,]", "remove the comma before it"),
            ("{\"a\": 1, \n}", "remove the comma before it"),
            ("{'a': 1}", "use double quotes"),
            ("[]]", ""),
            ("[é", ""),
        ] {
            assert_eq!(read(text).expect_err(text).kind.help(), help, "{text}");
        }
    }
}
