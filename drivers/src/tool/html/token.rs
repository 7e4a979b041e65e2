//! Splits HTML into texts and tags. Accepts any text, never fails, and reads each byte a fixed number of times.

use memchr::{memchr, memmem};

/// A part of a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Token<'a> {
    /// Text with its character references.
    Text(&'a str),
    Open(Tag<'a>),
    /// Name of an end tag.
    Close(&'a str),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Tag<'a> {
    pub name: &'a str,
    attributes: &'a str,
}

impl<'a> Tag<'a> {
    /// The value of the first attribute of this name, with its character references; empty if the attribute has none.
    pub(super) fn attribute(&self, wanted: &str) -> Option<&'a str> {
        let mut rest = self.attributes;
        loop {
            rest = rest.trim_start_matches(|c: char| c.is_ascii_whitespace() || c == '/');
            if rest.is_empty() {
                return None;
            }
            let is_end = |c: char| c.is_ascii_whitespace() || matches!(c, '=' | '/');
            // A name may begin with `=`; a name of no characters would not end.
            let end = rest.char_indices().skip(1).find(|(_, c)| is_end(*c)).map_or(rest.len(), |(at, _)| at);
            let (name, after) = rest.split_at(end);
            let after = after.trim_ascii_start();
            let (value, after) = match after.strip_prefix('=') {
                Some(after) => value(after.trim_ascii_start()),
                None => ("", after),
            };
            if name.eq_ignore_ascii_case(wanted) {
                return Some(value);
            }
            rest = after;
        }
    }
}

/// Splits an attribute's value from what follows.
fn value(text: &str) -> (&str, &str) {
    for quote in ['"', '\''] {
        if let Some(inner) = text.strip_prefix(quote) {
            return inner.split_once(quote).unwrap_or((inner, ""));
        }
    }
    text.split_at(text.find(|c: char| c.is_ascii_whitespace()).unwrap_or(text.len()))
}

/// Elements whose content is no text of the page, and is not parsed.
const DROPPED: [&str; 5] = ["script", "style", "iframe", "noembed", "noframes"];
/// Elements whose content is text up to their end tag.
const RAW: [&str; 2] = ["title", "textarea"];

/// The tokens of a page, without comments, declarations, scripts and styles. A construct without an end reaches to the end of the
/// page, as in a browser; reading it again as text would make the work quadratic.
#[derive(Debug)]
pub(super) struct Tokens<'a> {
    rest: &'a str,
    /// The open element of [`RAW`], whose content comes next.
    raw: Option<&'static str>,
}

impl<'a> Tokens<'a> {
    pub(super) fn new(html: &'a str) -> Tokens<'a> {
        Tokens { rest: html, raw: None }
    }

    fn take(&mut self, bytes: usize) -> &'a str {
        let (taken, rest) = self.rest.split_at(bytes);
        self.rest = rest;
        taken
    }

    /// Skips to behind the next `end`, or to the end of the page.
    fn skip_past(&mut self, end: &str) {
        let found = memmem::find(self.rest.as_bytes(), end.as_bytes());
        self.take(found.map_or(self.rest.len(), |at| at + end.len()));
    }

    /// Reads markup at `<`; `None` for markup without content.
    fn markup(&mut self) -> Option<Token<'a>> {
        let next = |at: usize| self.rest.as_bytes().get(at).copied().unwrap_or_default();
        match next(1) {
            b'!' if self.rest.starts_with("<!--") => {
                self.take(2); // `<!-->` is a whole comment
                self.skip_past("-->");
                None
            }
            b'!' | b'?' => {
                self.skip_past(">");
                None
            }
            b'/' if next(2).is_ascii_alphabetic() => {
                self.take(2);
                let name = self.name();
                self.skip_past(">");
                Some(Token::Close(name))
            }
            b'/' => {
                self.skip_past(">");
                None
            }
            byte if byte.is_ascii_alphabetic() => self.open(),
            _ => Some(Token::Text(self.take(1))),
        }
    }

    fn name(&mut self) -> &'a str {
        let is_end = |byte: &u8| byte.is_ascii_whitespace() || matches!(byte, b'/' | b'>');
        let end = self.rest.as_bytes().iter().position(is_end);
        self.take(end.unwrap_or(self.rest.len()))
    }

    fn open(&mut self) -> Option<Token<'a>> {
        self.take(1);
        let name = self.name();
        let Some(end) = tag_end(self.rest.as_bytes()) else {
            self.take(self.rest.len());
            return None;
        };
        let attributes = self.take(end);
        self.take(1);
        if let Some(dropped) = DROPPED.iter().find(|known| name.eq_ignore_ascii_case(known)) {
            self.take(element_end(self.rest, dropped));
            self.skip_past(">");
            return None;
        }
        self.raw = RAW.into_iter().find(|known| name.eq_ignore_ascii_case(known));
        Some(Token::Open(Tag { name, attributes }))
    }
}

impl<'a> Iterator for Tokens<'a> {
    type Item = Token<'a>;

    fn next(&mut self) -> Option<Token<'a>> {
        while !self.rest.is_empty() {
            if let Some(raw) = self.raw.take() {
                let text = self.take(element_end(self.rest, raw));
                return Some(Token::Text(text));
            }
            let text = memchr(b'<', self.rest.as_bytes()).unwrap_or(self.rest.len());
            if text > 0 {
                return Some(Token::Text(self.take(text)));
            }
            if let Some(token) = self.markup() {
                return Some(token);
            }
        }
        None
    }
}

/// Offset of the `>` that ends a tag. A quote counts only as the begin of a value.
fn tag_end(bytes: &[u8]) -> Option<usize> {
    let (mut at, mut begins_value) = (0, false);
    while at < bytes.len() {
        match bytes[at] {
            b'>' => return Some(at),
            quote @ (b'"' | b'\'') if begins_value => {
                at += 1 + memchr(quote, &bytes[at + 1..])?;
                begins_value = false;
            }
            b'=' => begins_value = true,
            byte if byte.is_ascii_whitespace() => {}
            _ => begins_value = false,
        }
        at += 1;
    }
    None
}

/// Offset of an element's end tag, or the end of the page.
fn element_end(text: &str, name: &str) -> usize {
    let bytes = text.as_bytes();
    let ends = |&at: &usize| {
        let tag = &bytes[at + 2..];
        let fits = tag.get(..name.len()).is_some_and(|tag| tag.eq_ignore_ascii_case(name.as_bytes()));
        fits && !tag.get(name.len()).is_some_and(u8::is_ascii_alphanumeric)
    };
    memmem::find_iter(bytes, b"</").find(ends).unwrap_or(text.len())
}

#[cfg(test)]
mod tests {
    use std::fmt::Write;

    use expect_test::{Expect, expect};

    use super::*;

    fn check(html: &str, expected: Expect) {
        let shown = Tokens::new(html).fold(String::new(), |mut shown, token| {
            let _ = match token {
                Token::Text(text) => write!(shown, "{text:?} "),
                Token::Open(tag) => write!(shown, "<{} {:?}> ", tag.name, tag.attribute("href")),
                Token::Close(name) => write!(shown, "</{name}> "),
            };
            shown
        });
        expected.assert_eq(shown.trim_end());
    }

    #[test]
    fn tags_and_texts_are_told_apart() {
        check("a<b>c</b >d<br/>", expect![[r#""a" <b None> "c" </b> "d" <br None>"#]]);
        check("1 < 2 <3 <", expect![[r#""1 " "<" " 2 " "<" "3 " "<""#]]);
        check("<!doctype html><!-- <p> --><!--><p><?x?></ x><p>", expect!["<p None> <p None>"]);
        check("<p", expect![[r#""#]]);
        check("a<a href=\"x>b", expect![[r#""a""#]]);
        check("a<!--b", expect![[r#""a""#]]);
    }

    #[test]
    fn an_attribute_has_a_value_in_any_form() {
        check(
            "<a href=x><a HREF = 'x y'><a href><a title=\"href=1\" href=\"a>b\">",
            expect![[r#"<a Some("x")> <a Some("x y")> <a Some("")> <a Some("a>b")>"#]],
        );
        check(
            "<a title=it's href=/a/b/><a/href=x><a =href=y><a href=''>",
            expect![[r#"<a Some("/a/b/")> <a Some("x")> <a None> <a Some("")>"#]],
        );
    }

    #[test]
    fn scripts_are_dropped_and_titles_are_text() {
        check("<script>if (a</b/.x) '<p>'</SCRIPT\n>c", expect![[r#""c""#]]);
        check("<script></scripts></script>c<style>d", expect![[r#""c""#]]);
        check(
            "<title><b>&amp;</title>c<textarea><p>",
            expect![[r#"<title None> "<b>&amp;" </title> "c" <textarea None> "<p>""#]],
        );
    }
}
