//! Findings: errors and advice about a file, rendered with the source line, a mark and help.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::OnceLock;

use miette::{
    Diagnostic, GraphicalReportHandler, GraphicalTheme, LabeledSpan, MietteError, MietteSpanContents,
    Severity, SourceCode, SourceSpan, SpanContents, ThemeCharacters, ThemeStyles,
};
use serde::Serialize;

/// URL of the error pages: `V04.md`, `W01.md`, `syntax.md`.
pub const ERROR_PAGES: &str = "https://github.com/ostler-os/ostler/blob/main/docs/errors/";

/// Longest part of a line shown, in characters; longer lines are cut around the place.
pub const LINE_CHARS_MAX: usize = 100;

/// Columns to wrap at without a known screen width.
const WIDTH: usize = 100;

/// An error in a file, or advice.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// `V..` for a broken rule, `W..` for advice, `syntax`, `shape` or `parameter` for errors before
    /// validation, `config` for an invalid configuration.
    pub code: String,
    /// The node, if the finding is about one.
    pub node: Option<String>,
    /// Problem, a sentence without a full stop.
    pub detail: String,
    /// Suggested fix; may be empty.
    #[serde(rename = "mend")]
    pub help: String,
    /// Place in the file, if known.
    pub place: Option<Place>,
}

/// A place in a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Place {
    /// Line, from 1.
    pub line: usize,
    /// Column in characters, from 1.
    pub column: usize,
    /// Byte offset.
    pub offset: usize,
}

impl Finding {
    /// Returns whether the finding is advice; advice never rejects a file.
    pub fn is_advice(&self) -> bool {
        self.code.starts_with('W')
    }

    /// URL of the error page.
    pub fn url(&self) -> String {
        format!("{ERROR_PAGES}{}.md", self.code)
    }
}

/// Style of rendered findings.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RenderStyle {
    /// True for colours.
    pub colour: bool,
    /// Columns to wrap at; `None` for no wrapping.
    pub width: Option<usize>,
}

/// Bytes per block of the character index.
const BLOCK_BYTES: usize = 1024;

/// UTF-8 characters that start in these bytes.
fn characters(bytes: &[u8]) -> usize {
    bytes.iter().filter(|&&byte| byte & 0b1100_0000 != 0b1000_0000).count()
}

/// Start and end of plain scalars, in bytes.
type Unquoted = BTreeMap<usize, usize>;

/// A source text with an index of places.
#[derive(Debug, Clone)]
pub struct Source {
    name: String,
    text: String,
    lines: Vec<usize>,
    /// Characters before each block, so that computing a column in a line of megabytes stays cheap.
    blocks: Vec<usize>,
    find_unquoted: Option<fn(&str) -> Unquoted>,
    /// Cached result of `find_unquoted`.
    unquoted: OnceLock<Unquoted>,
}

impl Source {
    /// Creates a source named `name`.
    pub fn new(name: &str, text: &str) -> Source {
        let lines = std::iter::once(0).chain(text.match_indices('\n').map(|(at, _)| at + 1)).collect();
        let mut blocks = vec![0];
        for block in text.as_bytes().chunks(BLOCK_BYTES) {
            blocks.push(blocks[blocks.len() - 1] + characters(block));
        }
        let (name, text) = (name.to_owned(), text.to_owned());
        Source { name, text, lines, blocks, find_unquoted: None, unquoted: OnceLock::new() }
    }

    pub(crate) fn with_unquoted(self, find: fn(&str) -> Unquoted) -> Source {
        Source { find_unquoted: Some(find), ..self }
    }

    /// Length in characters of the plain scalar at a place, up to the end of the line.
    fn unquoted_at(&self, place: Place) -> Option<usize> {
        let find = || self.find_unquoted.map(|find| find(&self.text)).unwrap_or_default();
        let end = *self.unquoted.get_or_init(find).get(&place.offset)?;
        let line = self.text.get(place.offset..end)?.lines().next()?.trim_end();
        (!line.is_empty()).then(|| line.chars().count())
    }

    /// The name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The text.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Converts a byte offset to a place.
    pub fn place(&self, offset: usize) -> Place {
        let mut offset = offset.min(self.text.len());
        while !self.text.is_char_boundary(offset) {
            offset -= 1;
        }
        let line = self.lines.partition_point(|&start| start <= offset);
        let column = self.characters_before(offset) - self.characters_before(self.lines[line - 1]) + 1;
        Place { line, column, offset }
    }

    fn characters_before(&self, offset: usize) -> usize {
        let block = offset / BLOCK_BYTES;
        self.blocks[block] + characters(&self.text.as_bytes()[block * BLOCK_BYTES..offset])
    }

    /// Creates a finding about no particular node, at a byte offset.
    pub(crate) fn finding(
        &self,
        code: &str,
        at: Option<usize>,
        detail: impl Into<String>,
        help: impl Into<String>,
    ) -> Finding {
        let place = at.map(|at| self.place(at));
        Finding { code: code.to_owned(), node: None, detail: detail.into(), help: help.into(), place }
    }

    /// Place of a line, from 1, within the literal YAML block (`|`) that starts at `place`.
    pub(crate) fn block_line(&self, place: Place, line: usize) -> Option<Place> {
        let text = |at: usize| self.text[self.lines[at]..].lines().next().unwrap_or_default();
        let at = place.line - 1;
        let opens = |line: &str| {
            let line = line.split_once(" #").map_or(line, |(code, _)| code);
            let sign = line.split_whitespace().last().and_then(|word| word.strip_prefix('|'));
            sign.is_some_and(|rest| rest.bytes().all(|byte| b"+-".contains(&byte) || byte.is_ascii_digit()))
        };
        let head = if self.text[place.offset..].starts_with('|') {
            Some(at)
        } else {
            (0..at).rev().find(|&at| !text(at).trim().is_empty())
        };
        let at = head.filter(|&at| opens(text(at)))?.checked_add(line)?;
        let start = *self.lines.get(at)?;
        Some(self.place(start + text(at).len() - text(at).trim_start().len()))
    }

    /// The line around a place, cut and free of control characters.
    pub fn line(&self, place: Place) -> String {
        Excerpt::of(self, place, 0).text
    }

    /// Renders a finding: problem, place, marked source line and help.
    pub fn show(&self, finding: &Finding, look: RenderStyle) -> String {
        let excerpt = finding.place.map(|place| Excerpt::of(self, place, 1));
        let styles = if look.colour { ThemeStyles::ansi() } else { ThemeStyles::none() };
        let theme = GraphicalTheme { characters: ThemeCharacters::unicode(), styles };
        let handler = GraphicalReportHandler::new_themed(theme)
            .with_links(false)
            .with_context_lines(1)
            .with_wrap_lines(look.width.is_some())
            .with_width(look.width.unwrap_or(WIDTH))
            .with_break_words(false)
            .without_syntax_highlighting();
        let mut told = String::new();
        let report = Report { finding, excerpt };
        handler.render_report(&mut told, &report).expect("writing to a string succeeds");
        // Trim trailing blanks, so snapshots stay stable.
        told.lines().flat_map(|line| [line.trim_end(), "\n"]).collect()
    }
}

/// Replaces a character that a person does not see as it is: control characters, changes of text direction, and characters without a
/// glyph, which make two names look alike or hide a text.
pub fn harmless(c: char) -> char {
    match c {
        '\t' => ' ',
        c if c.is_control() || is_invisible(c) => '\u{fffd}',
        c => c,
    }
}

/// The characters of a text, each [`harmless`]. What makes one emoji of several symbols stays: the selector of the emoji form behind a
/// symbol, and the joiner between two.
pub fn harmless_chars(text: &str) -> impl Iterator<Item = char> {
    let is_symbol = |c: char| !c.is_ascii() && !c.is_alphanumeric() && harmless(c) == c;
    let (mut chars, mut behind_symbol) = (text.chars().peekable(), false);
    std::iter::from_fn(move || {
        let c = chars.next()?;
        let is_part = match c {
            EMOJI_FORM => behind_symbol,
            JOINER => behind_symbol && chars.peek().is_some_and(|next| is_symbol(*next)),
            _ => false,
        };
        behind_symbol = is_symbol(c) || c == EMOJI_FORM && is_part;
        Some(if is_part { c } else { harmless(c) })
    })
}

const EMOJI_FORM: char = '\u{fe0f}';

const JOINER: char = '\u{200d}';

/// True for the code points that Unicode 16 displays as nothing (`Default_Ignorable_Code_Point`), line and paragraph separators, other
/// format characters, and the blank Braille pattern.
fn is_invisible(c: char) -> bool {
    matches!(c,
        '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}'..='\u{1160}' | '\u{17b4}'..='\u{17b5}'
        | '\u{180b}'..='\u{180f}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
        | '\u{2060}'..='\u{206f}' | '\u{2800}' | '\u{3164}' | '\u{fe00}'..='\u{fe0f}' | '\u{feff}'
        | '\u{ffa0}' | '\u{fff0}'..='\u{fffb}' | '\u{13430}'..='\u{1343f}'
        | '\u{1bca0}'..='\u{1bca3}' | '\u{1d173}'..='\u{1d17a}' | '\u{e0000}'..='\u{e0fff}')
}

fn harmless_text(text: &str) -> String {
    harmless_chars(text).collect()
}

struct Report<'a> {
    finding: &'a Finding,
    excerpt: Option<Excerpt>,
}

impl fmt::Debug for Report<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.finding.fmt(f)
    }
}

impl fmt::Display for Report<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let detail = harmless_text(&self.finding.detail);
        match &self.finding.node {
            // A node with an empty name has no other.
            Some(node) if node.is_empty() => write!(f, "\"\": {detail}"),
            Some(node) => write!(f, "{}: {detail}", harmless_text(node)),
            None => f.write_str(&detail),
        }
    }
}

impl std::error::Error for Report<'_> {}

impl Diagnostic for Report<'_> {
    fn code<'a>(&'a self) -> Option<Box<dyn fmt::Display + 'a>> {
        Some(Box::new(&self.finding.code))
    }

    fn severity(&self) -> Option<Severity> {
        Some(if self.finding.is_advice() { Severity::Warning } else { Severity::Error })
    }

    fn help<'a>(&'a self) -> Option<Box<dyn fmt::Display + 'a>> {
        let help = &self.finding.help;
        (!help.is_empty()).then(|| Box::new(harmless_text(help)) as Box<dyn fmt::Display + 'a>)
    }

    fn url<'a>(&'a self) -> Option<Box<dyn fmt::Display + 'a>> {
        Some(Box::new(self.finding.url()))
    }

    fn source_code(&self) -> Option<&dyn SourceCode> {
        self.excerpt.as_ref().map(|excerpt| excerpt as &dyn SourceCode)
    }

    fn labels(&self) -> Option<Box<dyn Iterator<Item = LabeledSpan> + '_>> {
        let excerpt = self.excerpt.as_ref()?;
        Some(Box::new(std::iter::once(LabeledSpan::new_primary_with_span(None, excerpt.mark))))
    }
}

/// Lines around a place, each cut to the display limit; a file may be a single line of megabytes.
struct Excerpt {
    name: String,
    text: String,
    first: usize,
    lines: usize,
    /// Marked range within `text`.
    mark: SourceSpan,
    /// Line and column of the mark in the whole text, from 0.
    at: (usize, usize),
}

impl Excerpt {
    fn of(source: &Source, place: Place, around: usize) -> Excerpt {
        let at = place.line - 1;
        let (first, last) = (at.saturating_sub(around), (at + around).min(source.lines.len() - 1));
        let mut text = String::new();
        let mut mark = SourceSpan::from(0..0);
        for line in first..=last {
            let whole = source.text[source.lines[line]..].lines().next().unwrap_or_default();
            if line == last && last > at && whole.trim().is_empty() {
                break; // an empty line after the place says nothing
            }
            if line > first {
                text.push('\n');
            }
            if line == at {
                let start = text.len();
                let (shown, lead) = cut(whole, place.column - 1);
                let rest = shown[lead..].trim_end_matches('…');
                let length = match source.unquoted_at(place) {
                    Some(many) => rest.char_indices().nth(many).map_or(rest.len(), |(end, _)| end),
                    None => length(rest),
                };
                text.push_str(&shown);
                mark = SourceSpan::from((start + lead, length));
            } else {
                text.push_str(&cut(whole, 0).0);
            }
        }
        let lines = text.matches('\n').count() + 1;
        Excerpt { name: harmless_text(&source.name), text, first, lines, mark, at: (at, place.column - 1) }
    }
}

/// Cuts a line around `column`. Returns the text and the byte of the column in the text.
fn cut(line: &str, column: usize) -> (String, usize) {
    let count = line.chars().take(LINE_CHARS_MAX + 1).count();
    let from = if count <= LINE_CHARS_MAX { 0 } else { column.saturating_sub(LINE_CHARS_MAX / 2) };
    let mut shown = String::new();
    if from > 0 {
        shown.push('…');
    }
    let mut lead = None;
    let visible = |c: char| if c == '\t' { c } else { harmless(c) };
    for (at, c) in line.chars().enumerate().skip(from).take(LINE_CHARS_MAX) {
        if at == column {
            lead = Some(shown.len());
        }
        shown.push(visible(c));
    }
    if line.chars().nth(from + LINE_CHARS_MAX).is_some() {
        shown.push('…');
    }
    let lead = lead.unwrap_or(shown.len());
    (shown, lead)
}

/// Length in bytes of the word or quoted text at the start of `rest`.
fn length(rest: &str) -> usize {
    let end = match rest.chars().next() {
        Some(quote @ ('"' | '\'')) => rest[1..].find(quote).map_or(rest.len(), |at| at + 2),
        Some('{' | '[') => 1,
        Some(_) => rest.find(|c: char| c.is_whitespace() || ",:]}#=".contains(c)).unwrap_or(rest.len()),
        None => 0,
    };
    end.max(rest.chars().next().map_or(0, char::len_utf8))
}

impl SourceCode for Excerpt {
    fn read_span<'a>(
        &'a self,
        span: &SourceSpan,
        context_lines_before: usize,
        context_lines_after: usize,
    ) -> Result<Box<dyn SpanContents<'a> + 'a>, MietteError> {
        let name = self.name.clone();
        let contents = if context_lines_before + context_lines_after == 0 {
            let (line, column) = self.at;
            let data = self.text.as_bytes().get(span.offset()..).unwrap_or_default();
            MietteSpanContents::new_named(name, data, *span, line, column, 1)
        } else {
            let whole = SourceSpan::from((0, self.text.len()));
            MietteSpanContents::new_named(name, self.text.as_bytes(), whole, self.first, 0, self.lines)
        };
        Ok(Box::new(contents))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_a_line_and_a_column_in_characters() {
        let source = Source::new("x", "ä: b\nc\n\nd");
        for (offset, line, column) in
            [(0, 1, 1), (1, 1, 1), (4, 1, 4), (6, 2, 1), (8, 3, 1), (9, 4, 1), (99, 4, 2)]
        {
            let place = source.place(offset);
            assert_eq!((place.line, place.column), (line, column), "{offset}");
        }
    }

    #[test]
    fn of_a_long_line_the_part_that_matters_is_shown() {
        let long = format!("{}é[x{}", "a".repeat(1_000), "b".repeat(1_000));
        let (shown, lead) = cut(&long, 1_000);
        assert!(shown.starts_with('…') && shown.ends_with('…'));
        assert!(shown[lead..].starts_with('é') && shown.chars().count() == LINE_CHARS_MAX + 2);
        assert_eq!(cut("short", 2), ("short".to_owned(), 2));
        assert_eq!(cut("", 0), (String::new(), 0));
        assert_eq!(cut("a\u{1b}[31m", 0).0, "a\u{fffd}[31m");
        assert_eq!(cut("a\t\u{202e}b", 0).0, "a\t\u{fffd}b");
    }

    #[test]
    fn a_line_of_a_block_is_found_from_where_the_block_begins() {
        let text = "a: |\n  one\n  two\nb: >\n  one\nc: '|'\nd:\n  - |-\n\n    two\n";
        let source = Source::new("x", text);
        let line = |from: &str, line| {
            let place = source.block_line(source.place(text.find(from).unwrap()), line);
            place.map(|place| (place.line, place.column))
        };
        assert_eq!((line("|\n", 1), line("one", 2)), (Some((2, 3)), Some((3, 3))));
        assert_eq!((line("|-", 2), line("    two\n", 2)), (Some((10, 5)), Some((10, 5))));
        assert_eq!((line(">", 1), line("'|'", 1), line("|\n", 99)), (None, None, None));
    }

    #[test]
    fn every_place_of_every_text_can_be_shown() {
        for text in ["", "\n", "\n\n\n", "a", "é\u{200d}\t\u{7}x: [", "\"open", "{\r\n}\r\n"] {
            let source = Source::new("x", text);
            for offset in 0..=text.len() {
                for look in [RenderStyle::default(), RenderStyle { colour: true, width: Some(20) }] {
                    let place = Some(source.place(offset));
                    let (code, detail, help) = ("V01".to_owned(), "is\nno id".to_owned(), String::new());
                    let finding = Finding { code, node: None, detail, help, place };
                    let shown = source.show(&finding, look);
                    assert!(shown.contains("V01"), "{text:?} {offset}: {shown}");
                }
            }
        }
    }
}
