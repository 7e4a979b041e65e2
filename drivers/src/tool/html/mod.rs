//! Reduces HTML to readable text: title, headings, paragraphs, lists, tables and links.

mod entity;
mod token;
mod writer;

use std::collections::BTreeSet;

use ostler_kernel::text::beginning;
use reqwest::Url;

use self::entity::decoded;
use self::token::{Tag, Token, Tokens};
use self::writer::{Gap, Writer};

/// Maximum links in a list; the text has all of them.
pub const PAGE_LINKS_MAX: usize = 200;
/// Maximum bytes of a title, and of a link's text in the list.
pub const PAGE_TITLE_BYTES_MAX: usize = 300;
/// Maximum bytes of a link's address; a longer one is dropped.
const URL_BYTES_MAX: usize = 2_048;
/// Lists within lists that are indented; deeper ones stand below the last.
const LIST_DEPTH_MAX: usize = 8;

/// A page as text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Page {
    pub title: String,
    pub text: String,
    pub links: Vec<Link>,
    /// The text is cut at the limit.
    pub truncated: bool,
}

/// A link to another page over http or https.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Link {
    pub text: String,
    pub url: String,
}

/// Reduces a page at `url` to at most `bytes_max` bytes of text. Never fails: HTML has no errors. The work is linear in the page
/// and in `bytes_max`.
///
/// Drops scripts, hidden parts and what surrounds the content: navigation, asides, footers, controls. A page of nothing else
/// is shown whole.
pub(super) fn reduce(html: &str, url: &Url, bytes_max: usize) -> Page {
    let page = Reducer::new(url, bytes_max, true).read(html);
    if page.text.is_empty() { Reducer::new(url, bytes_max, false).read(html) } else { page }
}

/// Elements that surround the content of a page.
const CHROME: [&str; 6] = ["nav", "aside", "footer", "button", "select", "dialog"];
/// Roles of elements that surround the content of a page.
const CHROME_ROLES: [&str; 6] = ["navigation", "banner", "contentinfo", "complementary", "search", "menu"];
/// Elements without text for readers.
const SILENT: [&str; 7] = ["template", "svg", "object", "canvas", "audio", "video", "datalist"];
/// Elements that are dropped if they are hidden or have a role of [`CHROME_ROLES`]. Their end tags cannot be left out, so the
/// end of a dropped part is known.
const CONTAINERS: [&str; 10] =
    ["div", "section", "header", "form", "ul", "ol", "span", "table", "details", "a"];

struct Reducer {
    writer: Writer,
    base: Url,
    drops_chrome: bool,
    title: Option<String>,
    in_title: bool,
    /// The dropped element, and how many of its name are open.
    dropped: Option<(String, usize)>,
    /// Address of the open link.
    address: Option<String>,
    links: Vec<Link>,
    known: BTreeSet<String>,
    /// Open lists; the number of the next item, if they are numbered.
    lists: Vec<Option<u32>>,
    preformatted: bool,
    cells: usize,
}

impl Reducer {
    fn new(url: &Url, bytes_max: usize, drops_chrome: bool) -> Reducer {
        Reducer {
            writer: Writer::new(bytes_max),
            base: url.clone(),
            drops_chrome,
            title: None,
            in_title: false,
            dropped: None,
            address: None,
            links: Vec::new(),
            known: BTreeSet::new(),
            lists: Vec::new(),
            preformatted: false,
            cells: 0,
        }
    }

    fn read(mut self, html: &str) -> Page {
        for token in Tokens::new(html) {
            match token {
                Token::Text(text) if self.in_title => self.title = Some(title(text)),
                Token::Text(text) if self.dropped.is_none() => self.text(text),
                Token::Text(_) => {}
                Token::Open(tag) => self.open(&tag),
                Token::Close(name) => self.close(&lower(name)),
            }
            if self.writer.is_full() {
                break;
            }
        }
        self.end_link();
        let (text, truncated) = self.writer.finish();
        Page { title: self.title.unwrap_or_default(), text, links: self.links, truncated }
    }

    fn text(&mut self, text: &str) {
        let text = visible(&decoded(text));
        if self.preformatted {
            self.writer.verbatim(&text.replace('\r', ""));
        } else {
            self.writer.flow(&text);
        }
    }

    fn open(&mut self, tag: &Tag<'_>) {
        let name = lower(tag.name);
        if let Some((dropped, depth)) = &mut self.dropped {
            if *dropped == name {
                *depth += 1;
            }
            // The content begins, so an end tag was forgotten.
            if name == "main" {
                self.dropped = None;
            }
            return;
        }
        if self.drops(&name, tag) {
            self.writer.gap(if name == "span" || name == "a" { Gap::Space } else { Gap::Line });
            self.dropped = Some((name, 1));
            return;
        }
        match name.as_str() {
            "title" => self.in_title = self.title.is_none(),
            "base" => self.rebase(tag),
            "a" => self.begin_link(tag),
            "br" => self.writer.gap(Gap::Line),
            "h1" | "h2" | "h3" | "h4" | "h5" | "h6" => {
                let level = usize::from(name.as_bytes()[1] - b'0');
                self.writer.mark(Gap::Paragraph, "#".repeat(level) + " ");
            }
            "ul" | "menu" => self.begin_list(None),
            "ol" => self.begin_list(Some(1)),
            "li" => self.begin_item(),
            "tr" => {
                self.cells = 0;
                self.writer.gap(Gap::Line);
            }
            "td" | "th" => {
                if self.cells > 0 {
                    self.writer.verbatim(" | ");
                }
                self.cells += 1;
            }
            "pre" => {
                self.preformatted = true;
                self.writer.gap(Gap::Paragraph);
            }
            name => self.writer.gap(block(name)),
        }
    }

    fn close(&mut self, name: &str) {
        if let Some((dropped, depth)) = &mut self.dropped {
            if dropped == name {
                *depth -= 1;
            }
            if *depth == 0 || name == "body" {
                self.dropped = None;
            }
            return;
        }
        match name {
            "title" => self.in_title = false,
            "a" => self.end_link(),
            "h1" | "h2" | "h3" | "h4" | "h5" | "h6" => {
                self.writer.unmark();
                self.writer.gap(Gap::Paragraph);
            }
            "ul" | "ol" | "menu" => {
                self.writer.unmark();
                self.lists.pop();
                self.writer.gap(if self.lists.is_empty() { Gap::Paragraph } else { Gap::Line });
            }
            "li" => {
                self.writer.unmark();
                self.writer.gap(Gap::Line);
            }
            "pre" => {
                self.preformatted = false;
                self.writer.gap(Gap::Paragraph);
            }
            "td" | "th" => {}
            name => self.writer.gap(block(name)),
        }
    }

    fn drops(&self, name: &str, tag: &Tag<'_>) -> bool {
        let is = |attribute: &str, words: &[&str]| {
            tag.attribute(attribute).is_some_and(|value| words.contains(&value.trim()))
        };
        let hidden = || tag.attribute("hidden").is_some() || is("aria-hidden", &["true"]);
        let is_container = CONTAINERS.contains(&name);
        let is_chrome = || CHROME.contains(&name) || (is_container && is("role", &CHROME_ROLES));
        SILENT.contains(&name) || (is_container && hidden()) || (self.drops_chrome && is_chrome())
    }

    /// Follows the first `<base href>` of a page.
    fn rebase(&mut self, tag: &Tag<'_>) {
        let href = tag.attribute("href").filter(|href| href.len() <= URL_BYTES_MAX);
        if let Some(base) = href.and_then(|href| self.base.join(&decoded(href)).ok()) {
            self.base = base;
        }
    }

    fn begin_link(&mut self, tag: &Tag<'_>) {
        self.end_link();
        let href = tag.attribute("href").map(str::trim).unwrap_or_default();
        if !href.is_empty() && !href.starts_with('#') && href.len() <= URL_BYTES_MAX {
            self.address = Some(decoded(href));
            self.writer.begin_link();
        }
    }

    fn end_link(&mut self) {
        let Some(address) = self.address.take() else { return };
        // A link without text is not resolved: it writes nothing that would bound the work.
        let Some(text) = self.writer.end_link() else { return };
        let Some(url) = self.base.join(&address).ok().filter(|url| matches!(url.scheme(), "http" | "https"))
        else {
            return;
        };
        let url = String::from(url);
        if text == url || url.len() > URL_BYTES_MAX {
            return;
        }
        if self.links.len() < PAGE_LINKS_MAX && !self.known.contains(&url) {
            self.links.push(Link { text: one_line(text, PAGE_TITLE_BYTES_MAX), url: url.clone() });
            self.known.insert(url.clone());
        }
        self.writer.address(&url);
    }

    fn begin_list(&mut self, number: Option<u32>) {
        self.writer.gap(if self.lists.is_empty() { Gap::Paragraph } else { Gap::Line });
        // Unclosed lists must not grow without bound.
        if self.lists.len() == LIST_DEPTH_MAX {
            self.lists.pop();
        }
        self.lists.push(number);
    }

    fn begin_item(&mut self) {
        let indent = "  ".repeat(self.lists.len().saturating_sub(1));
        let marker = match self.lists.last_mut() {
            Some(Some(number)) => {
                let marker = format!("{indent}{number}. ");
                *number = number.saturating_add(1);
                marker
            }
            _ => indent + "- ",
        };
        self.writer.mark(Gap::Line, marker);
    }
}

/// Space around an element that begins and ends a block; none for the others.
fn block(name: &str) -> Gap {
    match name {
        "p" | "article" | "section" | "main" | "header" | "blockquote" | "table" | "figure" | "dl" | "hr"
        | "form" | "fieldset" | "details" | "body" => Gap::Paragraph,
        "div" | "dt" | "dd" | "figcaption" | "summary" | "caption" | "address" | "option" | "legend"
        | "thead" | "tbody" | "tr" => Gap::Line,
        _ => Gap::None,
    }
}

/// The name of an element in lower case; empty for a name longer than any known one.
fn lower(name: &str) -> String {
    const NAME_BYTES_MAX: usize = 16;
    if name.len() > NAME_BYTES_MAX { String::new() } else { name.to_ascii_lowercase() }
}

/// One line of text, cut at a limit.
fn title(text: &str) -> String {
    one_line(&decoded(text), PAGE_TITLE_BYTES_MAX)
}

/// Text on one line, with single spaces, without what is invisible, of at most `bytes_max` bytes.
pub(super) fn one_line(text: &str, bytes_max: usize) -> String {
    let mut line = String::new();
    for word in visible(text).split_whitespace() {
        if !line.is_empty() {
            line.push(' ');
        }
        line.push_str(word);
        if line.len() > bytes_max {
            line.truncate(boundary(&line, bytes_max));
            break;
        }
    }
    line
}

/// Text without control characters, and without invisible ones, which can carry words that a model reads and a person does not
/// see. Joiners stay: scripts and emoji need them.
pub(super) fn visible(text: &str) -> String {
    let is_invisible = |c: char| {
        let is_control = c.is_control() && !c.is_whitespace();
        is_control
            || matches!(c, '\u{ad}' | '\u{200b}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{2069}' | '\u{feff}')
            || ('\u{e0000}'..='\u{e007f}').contains(&c)
    };
    text.chars().filter(|c| !is_invisible(*c)).collect()
}

/// The last boundary of characters at or before `at`.
pub(super) fn boundary(text: &str, at: usize) -> usize {
    beginning(text, at).len()
}

#[cfg(test)]
mod tests;
