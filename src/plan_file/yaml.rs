//! YAML as data with places. YAML 1.2: `on`, `yes` and `no` are texts; aliases count against a budget.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use serde::de::{Deserialize, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::Number;
use serde_saphyr::budget::BudgetBreach;
use serde_saphyr::granit_parser::{Event, Parser, ScalarStyle, Span};
use serde_saphyr::{Location, Spanned};

use super::data::{Entry, Located, SyntaxError, PLAN_FILE_DEPTH_MAX, Data, SyntaxErrorKind};

/// Values that a file may have.
pub const YAML_VALUES_MAX: usize = 500_000;

/// Values of those that aliases may repeat.
pub const YAML_REPEATED_MAX: usize = 50_000;

/// Reads a YAML text of one document.
pub(super) fn read(text: &str) -> Result<Located, SyntaxError> {
    let budget = serde_saphyr::budget! {
        max_depth: PLAN_FILE_DEPTH_MAX + 1,
        max_events: 2 * YAML_VALUES_MAX,
        max_nodes: YAML_VALUES_MAX,
        max_documents: 1,
    };
    let alias_limits = serde_saphyr::alias_limits! { max_total_replayed_events: YAML_REPEATED_MAX };
    let options = serde_saphyr::options! {
        budget: budget,
        alias_limits: alias_limits,
        strict_booleans: true,
        with_snippet: false,
    };
    let lines = Lines::of(text);
    let plain = plain_texts(text);
    let root: Spanned<Parsed> = serde_saphyr::from_str_with_options(text, options).map_err(|error| {
        let at = error.location().map(|location| lines.place(location));
        lines.explained(SyntaxError { at, why: why(error.without_snippet()) })
    })?;
    Ok(leaf(root, &lines, &plain))
}

/// Where texts with a parameter begin that have neither quotes nor a tag and are no block.
fn plain_texts(text: &str) -> BTreeSet<usize> {
    if !text.contains("${") {
        return BTreeSet::new();
    }
    plain_scalars(text, |value, is_tagged| !is_tagged && value.contains("${"))
        .map(|(start, _)| start)
        .collect()
}

/// Where texts begin and end that have no quotes and are no block, keys among them.
pub(super) fn unquoted(text: &str) -> BTreeMap<usize, usize> {
    plain_scalars(text, |_, _| true).collect()
}

/// Where texts begin and end that have neither quotes nor are a block, of those that are wanted, by what they say and whether they
/// have a tag.
fn plain_scalars(text: &str, is_wanted: impl Fn(&str, bool) -> bool) -> impl Iterator<Item = (usize, usize)> {
    let plain = move |(event, span): (Event<'_>, Span)| match event {
        Event::Scalar(value, ScalarStyle::Plain, _, tag) if is_wanted(&value, tag.is_some()) => {
            span.byte_range().map(|range| (range.start, range.end))
        }
        _ => None,
    };
    Parser::new_from_str(text).map_while(Result::ok).filter_map(plain)
}

/// What is wrong, in words of this file and not of its reader.
fn why(error: &serde_saphyr::Error) -> SyntaxErrorKind {
    match error {
        serde_saphyr::Error::Budget { breach, .. } => match breach {
            BudgetBreach::Depth { .. } => SyntaxErrorKind::TooDeep,
            BudgetBreach::Documents { .. } => {
                SyntaxErrorKind::told("it has a second document: a file is one, so leave out what begins at the next ---")
            }
            BudgetBreach::Events { .. } | BudgetBreach::Nodes { .. } => {
                SyntaxErrorKind::told(format!("it has more than {YAML_VALUES_MAX} values"))
            }
            BudgetBreach::Anchors { .. } => SyntaxErrorKind::told("it names too many values to repeat: fewer &NAME"),
            BudgetBreach::Aliases { .. } | BudgetBreach::AliasAnchorRatio { .. } => {
                SyntaxErrorKind::told("it repeats values too often: fewer *NAME")
            }
            _ => SyntaxErrorKind::told("it is too large"),
        },
        error => match first_line(&error.to_string()) {
            told if told == TOO_DEEP => SyntaxErrorKind::TooDeep,
            // What was found here comes back from the reader as a text.
            told if told == SyntaxErrorKind::TooBig.to_string() => SyntaxErrorKind::TooBig,
            told if told.starts_with(TOO_OFTEN) => {
                SyntaxErrorKind::told(format!("what *NAME repeats is more than {YAML_REPEATED_MAX} values"))
            }
            told => SyntaxErrorKind::told(told),
        },
    }
}

/// What the reader says of a text that is nested deeper than it goes, which is deeper than a file may be.
const TOO_DEEP: &str = "recursion limit exceeded";

/// How it says that aliases repeat more than they may, in one error within another.
const TOO_OFTEN: &str = "alias replay limit exceeded";

fn first_line(text: &str) -> String {
    let line = text.lines().next().unwrap_or("not YAML");
    // The place is told apart from it.
    let line = line.split(" at line ").next().unwrap_or(line).trim_end_matches('.');
    let twice = line.strip_prefix("duplicate mapping key: ").and_then(|rest| rest.split(", set ").next());
    twice.map_or_else(|| line.to_owned(), |key| format!("the key {key:?} stands twice"))
}

/// How the reader says that a tab stands where a line is indented.
const TABS: [&str; 5] = [
    "while scanning a plain scalar, found a tab",
    "tabs disallowed within this context",
    "tabs disallowed in this context",
    "tab cannot be used as indentation",
    "a block scalar content cannot start with a tab",
];

/// How it says that a list or a map ends where none may: a tab in a text of several lines ends that too.
const BLOCK_ENDS: &str = "while parsing a block ";

/// How it says that a file goes on where nothing is left of what it began with.
const OVER: &str = "did not find expected <document start>";

/// What is told of a tab.
const TAB: &str = "a tab stands where the line is indented";

/// How it says that a key is a list or a map.
const NO_KEY: &str = "expected string scalar";

/// How it says that a text goes on with a colon.
const COLON: &str = "mapping values are not allowed in this context";

/// How it says that nothing begins with this sign.
const NO_BEGINNING: &str = "unexpected character: ";

/// Where lines begin, to turn places given as line and column into bytes.
struct Lines<'a> {
    text: &'a str,
    starts: Vec<usize>,
}

impl Lines<'_> {
    fn of(text: &str) -> Lines<'_> {
        let starts = std::iter::once(0).chain(text.match_indices('\n').map(|(at, _)| at + 1)).collect();
        Lines { text, starts }
    }

    /// What is wrong and what would mend it, where the reader tells only how it came upon it.
    fn explained(&self, refused: SyntaxError) -> SyntaxError {
        let (Some(at), SyntaxErrorKind::Told { what, .. }) = (refused.at, &refused.why) else { return refused };
        if !self.text.is_char_boundary(at) {
            return refused;
        }
        let told = |what: &str, help: &'static str| SyntaxError {
            at: Some(at),
            why: SyntaxErrorKind::Told { what: what.to_owned(), help },
        };
        let (before, after) = self.text.split_at(at);
        let line = &before[before.rfind('\n').map_or(0, |end| end + 1)..];
        let from = at - line.len();
        let tab = match what.as_str() {
            what if TABS.iter().any(|tab| what.starts_with(tab)) => self.indenting_tab(from).or(refused.at),
            what if what.starts_with(BLOCK_ENDS) => self.tab_of(from),
            // A tab is one blank to the reader, however far in it looks.
            COLON if !line.contains(": ") => self.line_before(from).and_then(|start| self.tab_of(start)),
            _ => None,
        };
        if tab.is_some() {
            return SyntaxError { at: tab, ..told(TAB, "indent with spaces") };
        }
        match what.as_str() {
            OVER => match self.first_further_in(from) {
                Some(first) => {
                    let tab = self.tab_of(first);
                    let what = tab.map_or("the first line is indented further than those after it", |_| TAB);
                    let at = tab.unwrap_or(first + self.blanks(first).len());
                    SyntaxError { at: Some(at), ..told(what, "begin it where the lines after it begin") }
                }
                None => refused,
            },
            NO_KEY if after.starts_with('{') && before.ends_with('{') => {
                told("a map where the name of a key should stand", "write a text with {{ … }} in quotes")
            }
            COLON if line.contains(": ") => told(
                "a second colon in one line: neither a key nor a text",
                "write a text with a colon in quotes",
            ),
            COLON => told(
                "a key where the text before it goes on",
                "indent it as the other keys of its map are, or write a text with a colon in quotes",
            ),
            what if what.starts_with(NO_BEGINNING) => told(what, "write a text that begins so in quotes"),
            _ => refused,
        }
    }

    /// The blanks that the line begins with that begins at `start`.
    fn blanks(&self, start: usize) -> &str {
        let rest = &self.text[start..];
        &rest[..rest.len() - rest.trim_start_matches([' ', '\t']).len()]
    }

    /// The first tab among the blanks of the line that begins at `start`.
    fn tab_of(&self, start: usize) -> Option<usize> {
        self.blanks(start).find('\t').map(|tab| start + tab)
    }

    /// The first tab among the blanks that a line begins with, from the line on that begins at `from`.
    fn indenting_tab(&self, from: usize) -> Option<usize> {
        self.starts.iter().filter(|&&start| start >= from).find_map(|&start| self.tab_of(start))
    }

    /// Where the last line with a key and its value begins before the line that begins at `from`, if nothing but blank lines is between.
    fn line_before(&self, from: usize) -> Option<usize> {
        let lines = self.starts.iter().rev().map(|&start| (start, self.line(start)));
        let mut filled = lines.filter(|(start, line)| *start < from && !line.trim().is_empty());
        filled.next().filter(|(_, line)| line.contains(": ")).map(|(start, _)| start)
    }

    /// Where the first line that is more than a comment or the head of a document begins, if it is further in than the line that
    /// begins at `from`, and before that.
    fn first_further_in(&self, from: usize) -> Option<usize> {
        let is_filled = |&start: &usize| {
            let line = self.line(start).trim();
            !line.is_empty() && !line.starts_with(['#', '%']) && line != "---"
        };
        let first = self.starts.iter().copied().find(is_filled)?;
        (first < from && self.blanks(first).len() > self.blanks(from).len()).then_some(first)
    }

    fn line(&self, start: usize) -> &str {
        self.text[start..].lines().next().unwrap_or_default()
    }

    fn place(&self, location: Location) -> usize {
        if let Some(at) = location.span().byte_offset() {
            return (at as usize).min(self.text.len());
        }
        let line = (location.line() as usize).saturating_sub(1).min(self.starts.len() - 1);
        let column = (location.column() as usize).saturating_sub(1);
        let start = self.starts[line];
        let line = &self.text[start..];
        start + line.char_indices().nth(column).map_or(line.len(), |(at, _)| at)
    }
}

enum Parsed {
    Plain(Data),
    List(Vec<Spanned<Parsed>>),
    Map(Vec<(Spanned<String>, Spanned<Parsed>)>),
}

/// What was read, with its place. What an alias repeats stands where the alias does, and is written as what it repeats.
fn leaf(read: Spanned<Parsed>, lines: &Lines<'_>, plain: &BTreeSet<usize>) -> Located {
    let tree = match read.value {
        Parsed::Plain(tree) => tree,
        Parsed::List(items) => Data::List(items.into_iter().map(|item| leaf(item, lines, plain)).collect()),
        Parsed::Map(entries) => Data::Map(
            entries
                .into_iter()
                .map(|(key, value)| Entry {
                    key: key.value,
                    key_at: lines.place(key.referenced),
                    leaf: leaf(value, lines, plain),
                })
                .collect(),
        ),
    };
    Located { at: lines.place(read.referenced), plain: plain.contains(&lines.place(read.defined)), tree }
}

fn number_of<E: Error>(number: Number) -> Result<Parsed, E> {
    Data::number(number).map(Parsed::Plain).map_err(E::custom)
}

impl<'de> Deserialize<'de> for Parsed {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Parsed, D::Error> {
        struct Any;
        impl<'de> Visitor<'de> for Any {
            type Value = Parsed;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("data")
            }

            fn visit_unit<E: Error>(self) -> Result<Parsed, E> {
                Ok(Parsed::Plain(Data::Null))
            }

            fn visit_none<E: Error>(self) -> Result<Parsed, E> {
                Ok(Parsed::Plain(Data::Null))
            }

            fn visit_some<D: Deserializer<'de>>(self, inner: D) -> Result<Parsed, D::Error> {
                Parsed::deserialize(inner)
            }

            fn visit_bool<E: Error>(self, flag: bool) -> Result<Parsed, E> {
                Ok(Parsed::Plain(Data::Bool(flag)))
            }

            fn visit_i64<E: Error>(self, number: i64) -> Result<Parsed, E> {
                number_of(number.into())
            }

            fn visit_u64<E: Error>(self, number: u64) -> Result<Parsed, E> {
                number_of(number.into())
            }

            fn visit_f64<E: Error>(self, number: f64) -> Result<Parsed, E> {
                let finite =
                    Number::from_f64(number).ok_or_else(|| E::custom("a number that is not finite"))?;
                number_of(finite)
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<Parsed, E> {
                Ok(Parsed::Plain(Data::Text(text.to_owned())))
            }

            fn visit_string<E: Error>(self, text: String) -> Result<Parsed, E> {
                Ok(Parsed::Plain(Data::Text(text)))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Parsed, A::Error> {
                let mut list = Vec::new();
                while let Some(item) = items.next_element()? {
                    list.push(item);
                }
                Ok(Parsed::List(list))
            }

            fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Parsed, A::Error> {
                let mut map = Vec::new();
                while let Some(entry) = entries.next_entry()? {
                    map.push(entry);
                }
                Ok(Parsed::Map(map))
            }
        }
        deserializer.deserialize_any(Any)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn values_are_what_yaml_1_2_says() {
        let leaf = read(
            "a: 1\non: yes\nb: [x, 'y', \"z\", 1.5, null, ~, true]\nc:\n  - {k: v}\nd: |\n  two\n  lines\ne: 0x10\n",
        )
        .unwrap();
        assert_eq!(
            leaf.value(),
            json!({"a": 1, "on": "yes", "b": ["x", "y", "z", 1.5, null, null, true],
                   "c": [{"k": "v"}], "d": "two\nlines\n", "e": 16})
        );
    }

    #[test]
    fn parts_know_where_they_begin() {
        let text = "id: ä\nnodes:\n  - id: a\n    tool: fs.list\n";
        let leaf = read(text).unwrap();
        let nodes = leaf.get("nodes").unwrap();
        assert_eq!(&text[nodes.key_at..][..5], "nodes");
        let tool = nodes.leaf.items()[0].get("tool").unwrap();
        assert_eq!((&text[tool.key_at..][..4], &text[tool.leaf.at..][..7]), ("tool", "fs.list"));
    }

    #[test]
    fn aliases_repeat_and_merge() {
        let leaf = read("a: &x {k: 1}\nb: *x\nc:\n  <<: *x\n  l: 2\n").unwrap();
        assert_eq!(leaf.value(), json!({"a": {"k": 1}, "b": {"k": 1}, "c": {"l": 2, "k": 1}}));
    }

    #[test]
    fn what_is_no_yaml_is_refused_with_its_place() {
        for (text, at) in [
            ("a: [1", None),
            ("a: 1\na: 2\n", Some(5)),
            ("a: .inf\n", Some(3)),
            ("a: *x\n", Some(3)),
            ("a: 9007199254740993\n", Some(3)),
        ] {
            let refused = read(text).expect_err(text);
            assert!(!refused.why.to_string().is_empty(), "{text}");
            if at.is_some() {
                assert_eq!(refused.at, at, "{text}: {}", refused.why);
            }
        }
    }

    #[test]
    fn what_is_often_written_and_no_yaml_is_told_its_mend() {
        let quotes = "write a text with a colon in quotes";
        for (text, at, what, help) in [
            ("a:\n  - id: x\n\ttool: y\n", 13, "a tab stands", "indent with spaces"),
            ("a:\n\t- id: x\n", 3, "a tab stands", "indent with spaces"),
            ("a: |\n\ttext\n", 5, "a tab stands", "indent with spaces"),
            ("a: |\n  one\n \ttwo\n", 12, "a tab stands", "indent with spaces"),
            ("a:\n  - >-\n      one\n   \ttwo\n", 23, "a tab stands", "indent with spaces"),
            ("a: \"one\n\ttwo\"\n", 8, "a tab stands", "indent with spaces"),
            ("?\n\tx\n: 1\n", 2, "a tab stands", "indent with spaces"),
            ("\tid: a\n\n  b: 1\n", 0, "a tab stands", "indent with spaces"),
            ("\tid: a\nb: 1\n", 0, "a tab stands", "begin it where the lines after it begin"),
            ("# ü\n---\n  \t- a\n- b\n", 11, "a tab stands", "begin it where the lines after it begin"),
            ("  id: a\nb: 1\n", 2, "the first line is indented", "begin it where the lines after it begin"),
            ("a: {{ x }}\n", 4, "a map where", "write a text with {{ … }} in quotes"),
            ("a: {{ x }} and ü\n", 4, "a map where", "write a text with {{ … }} in quotes"),
            ("a: foo: bar\n", 6, "a second colon", quotes),
            (
                "a: ü\n  b: 2\n",
                9,
                "a key where",
                &format!("indent it as the other keys of its map are, or {quotes}"),
            ),
            ("a: @x\n", 3, "unexpected character", "write a text that begins so in quotes"),
            (
                "a: 99999999999999999999\n",
                3,
                "an integer beyond 2^53",
                "a number is at most 9007199254740992; where a text may stand, write it in quotes",
            ),
        ] {
            let refused = read(text).expect_err(text);
            assert!(refused.why.to_string().starts_with(what), "{text}: {}", refused.why);
            assert_eq!((refused.at, refused.why.help()), (Some(at), help), "{text}");
        }
    }

    #[test]
    fn a_bomb_of_aliases_is_refused() {
        let mut bomb = String::from("a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n");
        for level in 1..10 {
            let inner = vec![format!("*a{}", level - 1); 10].join(", ");
            bomb += &format!("a{level}: &a{level} [{inner}]\n");
        }
        assert!(read(&bomb).is_err());
    }

    #[test]
    fn deep_nesting_is_refused_and_not_a_crash() {
        for deep in ["[".repeat(100_000), "- ".repeat(100_000), "{a: ".repeat(100_000)] {
            assert!(read(&deep).is_err(), "{}", &deep[..10]);
        }
        let fits = format!("{}{}", "[".repeat(PLAN_FILE_DEPTH_MAX), "]".repeat(PLAN_FILE_DEPTH_MAX));
        assert_eq!(read(&fits).unwrap().too_deep(), None);
        let over = format!("[{fits}]");
        assert!(read(&over).map_or(true, |leaf| leaf.too_deep().is_some()));
    }

    #[test]
    fn two_documents_are_refused() {
        assert!(read("a: 1\n---\nb: 2\n").is_err());
    }
}
