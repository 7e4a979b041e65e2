//! The strict parser: RFC 8259 without extensions, duplicate keys, or numbers that readers disagree on.

use serde_json::map::Entry;
use serde_json::{Map, Number, Value};

use super::{JsonError, MAX_DEPTH, MAX_INTEGER, number};

/// Maximum characters of a key in an error.
const KEY_EXCERPT_CHARS: usize = 80;

/// Parses a text strictly. `1` becomes an integer, `1.0` a double.
///  
/// # Errors
///  
/// The leftmost fault, as for [`super::parse`].
pub fn parse_value(text: &str) -> Result<Value, JsonError> {
    let mut parser = Parser { text, bytes: text.as_bytes(), at: 0 };
    let value = parser.value(MAX_DEPTH)?;
    parser.skip_blank();
    if parser.at == text.len() { Ok(value) } else { Err(parser.syntax("the end of the text")) }
}

struct Parser<'a> {
    text: &'a str,
    bytes: &'a [u8],
    at: usize,
}

impl Parser<'_> {
    fn syntax(&self, expected: &'static str) -> JsonError {
        JsonError::Syntax { at: self.at, expected }
    }

    fn skip_blank(&mut self) {
        while matches!(self.bytes.get(self.at), Some(b' ' | b'\t' | b'\n' | b'\r')) {
            self.at += 1;
        }
    }

    fn next_is(&self, text: &str) -> bool {
        self.bytes[self.at..].starts_with(text.as_bytes())
    }

    /// Reads a value and the whitespace before it; `depth_left` more levels may follow.
    fn value(&mut self, depth_left: usize) -> Result<Value, JsonError> {
        self.skip_blank();
        match self.bytes.get(self.at) {
            Some(b'"') => self.string().map(Value::String),
            Some(b'{') => self.object(depth_left),
            Some(b'[') => self.array(depth_left),
            Some(b'N' | b'I' | b'-')
                if self.next_is("NaN") || self.next_is("Infinity") || self.next_is("-Infinity") =>
            {
                Err(JsonError::NotFinite { at: self.at })
            }
            Some(b'-' | b'0'..=b'9') => self.number(),
            Some(b't') => self.literal("true", Value::Bool(true)),
            Some(b'f') => self.literal("false", Value::Bool(false)),
            Some(b'n') => self.literal("null", Value::Null),
            _ => Err(self.syntax("a value")),
        }
    }

    fn literal(&mut self, word: &str, value: Value) -> Result<Value, JsonError> {
        if !self.next_is(word) {
            return Err(self.syntax("true, false or null"));
        }
        self.at += word.len();
        Ok(value)
    }

    fn array(&mut self, depth_left: usize) -> Result<Value, JsonError> {
        let depth_left = depth_left.checked_sub(1).ok_or(JsonError::TooDeep { at: self.at })?;
        self.at += 1;
        let mut items = Vec::new();
        self.skip_blank();
        if self.next_is("]") {
            self.at += 1;
            return Ok(Value::Array(items));
        }
        loop {
            items.push(self.value(depth_left)?);
            self.skip_blank();
            match self.bytes.get(self.at) {
                Some(b',') => self.at += 1,
                Some(b']') => break,
                _ => return Err(self.syntax("a comma or a closing bracket")),
            }
        }
        self.at += 1;
        Ok(Value::Array(items))
    }

    fn object(&mut self, depth_left: usize) -> Result<Value, JsonError> {
        let depth_left = depth_left.checked_sub(1).ok_or(JsonError::TooDeep { at: self.at })?;
        self.at += 1;
        let mut members = Map::new();
        self.skip_blank();
        if self.next_is("}") {
            self.at += 1;
            return Ok(Value::Object(members));
        }
        loop {
            self.skip_blank();
            if !self.next_is("\"") {
                return Err(self.syntax("a key in double quotes"));
            }
            let key_at = self.at;
            let key = self.string()?;
            let place = match members.entry(key) {
                Entry::Vacant(place) => place,
                Entry::Occupied(taken) => {
                    let key = taken.key().chars().take(KEY_EXCERPT_CHARS).collect();
                    return Err(JsonError::DuplicateKey { at: key_at, key });
                }
            };
            self.skip_blank();
            if !self.next_is(":") {
                return Err(self.syntax("a colon"));
            }
            self.at += 1;
            place.insert(self.value(depth_left)?);
            self.skip_blank();
            match self.bytes.get(self.at) {
                Some(b',') => self.at += 1,
                Some(b'}') => break,
                _ => return Err(self.syntax("a comma or a closing brace")),
            }
        }
        self.at += 1;
        Ok(Value::Object(members))
    }

    /// Reads a string with its quotes. Reports a lone surrogate only at the end of the string, after any syntax error within.
    fn string(&mut self) -> Result<String, JsonError> {
        let begin = self.at;
        self.at += 1;
        let mut decoded = String::new();
        let mut lone = false;
        loop {
            let clean_from = self.at;
            while matches!(self.bytes.get(self.at), Some(&byte) if byte >= 0x20 && byte != b'"' && byte != b'\\')
            {
                self.at += 1;
            }
            decoded.push_str(&self.text[clean_from..self.at]);
            match self.bytes.get(self.at) {
                Some(b'"') => break,
                Some(b'\\') => lone |= !self.escape(&mut decoded)?,
                Some(_) => return Err(self.syntax("an escape instead of a control character")),
                None => return Err(self.syntax("a closing quote")),
            }
        }
        self.at += 1;
        if lone { Err(JsonError::LoneSurrogate { at: begin }) } else { Ok(decoded) }
    }

    /// Reads one escape, or both of a surrogate pair, and appends the character; false for half a pair.
    fn escape(&mut self, decoded: &mut String) -> Result<bool, JsonError> {
        let plain = match self.bytes.get(self.at + 1) {
            Some(b'u') => {
                let unit = self.unit(self.at)?;
                self.at += 6;
                return self.surrogates(unit, decoded);
            }
            Some(b'"') => '"',
            Some(b'\\') => '\\',
            Some(b'/') => '/',
            Some(b'b') => '\u{8}',
            Some(b'f') => '\u{c}',
            Some(b'n') => '\n',
            Some(b'r') => '\r',
            Some(b't') => '\t',
            _ => return Err(self.syntax("an escape")),
        };
        decoded.push(plain);
        self.at += 2;
        Ok(true)
    }

    fn surrogates(&mut self, unit: u16, decoded: &mut String) -> Result<bool, JsonError> {
        if let Some(plain) = char::from_u32(u32::from(unit)) {
            decoded.push(plain);
            return Ok(true);
        }
        let high = unit;
        if high >= 0xdc00 || !self.next_is("\\u") {
            return Ok(false);
        }
        let low = self.unit(self.at)?;
        if !(0xdc00..0xe000).contains(&low) {
            return Ok(false); // the main loop reads the second escape
        }
        self.at += 6;
        let code = 0x1_0000 + ((u32::from(high) - 0xd800) << 10) + (u32::from(low) - 0xdc00);
        decoded.push(char::from_u32(code).expect("a pair of surrogates is a character"));
        Ok(true)
    }

    /// The code unit of the `\uXXXX` at `at`.
    fn unit(&self, at: usize) -> Result<u16, JsonError> {
        let expected = "four hex digits";
        let digits = self.bytes.get(at + 2..at + 6).ok_or(JsonError::Syntax { at, expected })?;
        digits.iter().try_fold(0u16, |unit, &byte| {
            let digit = (byte as char).to_digit(16).ok_or(JsonError::Syntax { at, expected })?;
            Ok(unit << 4 | digit as u16)
        })
    }

    /// Reads a number. The longest run of number characters is one token.
    fn number(&mut self) -> Result<Value, JsonError> {
        let begin = self.at;
        let run = self.bytes[begin..]
            .iter()
            .take_while(|byte| matches!(byte, b'0'..=b'9' | b'+' | b'-' | b'.' | b'e' | b'E'));
        let end = begin + run.count();
        let token = &self.text[begin..end];
        let is_integer = number_kind(token.as_bytes()).ok_or_else(|| self.syntax("a number"))?;
        self.at = end;
        if is_integer {
            return integer(token).ok_or(JsonError::BigInteger { at: begin });
        }
        let double: f64 = token.parse().expect("what JSON calls a number is one");
        if number::prints_as_big_integer(double) {
            return Err(JsonError::BigInteger { at: begin });
        }
        Number::from_f64(double).map(Value::Number).ok_or(JsonError::NotFinite { at: begin })
    }
}

/// True if a token is an integer, without fraction and exponent; `None` if RFC 8259 does not accept the token.
fn number_kind(token: &[u8]) -> Option<bool> {
    let digits = |rest: &[u8]| rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let mut rest = token.strip_prefix(b"-").unwrap_or(token);
    let whole = digits(rest);
    if whole == 0 || (whole > 1 && rest[0] == b'0') {
        return None;
    }
    rest = &rest[whole..];
    let is_integer = rest.is_empty();
    if let Some(fraction) = rest.strip_prefix(b".") {
        let count = digits(fraction);
        if count == 0 {
            return None;
        }
        rest = &fraction[count..];
    }
    if let Some(b'e' | b'E') = rest.first() {
        rest = &rest[1..];
        rest = rest.strip_prefix(b"+").or(rest.strip_prefix(b"-")).unwrap_or(rest);
        let count = digits(rest);
        if count == 0 {
            return None;
        }
        rest = &rest[count..];
    }
    rest.is_empty().then_some(is_integer)
}

/// Value of an integer token; `None` beyond 2^53.
fn integer(token: &str) -> Option<Value> {
    let (negative, digits) = match token.strip_prefix('-') {
        Some(digits) => (true, digits),
        None => (false, token),
    };
    let magnitude: u64 = digits.parse().ok().filter(|&magnitude| magnitude <= MAX_INTEGER)?;
    Some(if negative { Value::from(-(magnitude as i64)) } else { Value::from(magnitude) })
}
