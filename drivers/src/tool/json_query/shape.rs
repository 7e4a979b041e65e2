//! Bounds the work of a query from its text and the size of the value.

use serde_json::Value;

/// Cost of compiling the smallest regular expression, in visited values.
const REGEX_STEPS: u64 = 200;
/// Cost per byte of a plain regular expression.
const REGEX_STEPS_PER_BYTE: u64 = 50;
/// Additional cost per class such as `\w`.
const REGEX_STEPS_PER_CLASS: u64 = 4_000;
const REGEX_STEPS_WORST: u64 = 1_000_000;
/// Maximum bytes of a plain regular expression.
const REGEX_PLAIN_BYTES_MAX: usize = 200;
/// Bytes of text that a regular expression or a comparison goes through per step.
const TEXT_BYTES_PER_STEP: u64 = 16;

/// Factors of a query's work, counted in its text outside of quoted names.
#[derive(Debug, PartialEq, Eq, Default)]
pub(super) struct Shape {
    pub(super) nesting: usize,
    /// Number of `..` and `?`; each may visit a value once per level above.
    descents: u32,
    /// Queries within filters that start at the root and may select many values; each visits all of them.
    roots: u32,
    /// Comparisons with what a filter looks at, and lengths of that. Together they go through the whole value once per level.
    comparisons: u64,
    /// Comparisons of what queries select from the root, and lengths of that. Each may go through the whole value for every visited value.
    root_comparisons: u64,
    /// Number of selectors per union, or of arguments; they multiply along the query.
    unions: Vec<u64>,
    regexes: u64,
    /// Cost of compiling all regular expressions, which happens anew for every value.
    regex: u64,
}

impl Shape {
    pub(super) fn of(query: &str) -> Shape {
        let mut shape = Shape { regex: 1, ..Shape::default() };
        let mut open = vec![Open::default()];
        let bytes = query.as_bytes();
        for (at, byte) in unquoted(bytes) {
            let depth = open.len();
            let Some(inner) = open.last_mut() else { break };
            match byte {
                b'[' | b'(' => {
                    let before = &query[..at];
                    if before.ends_with("match") || before.ends_with("search") {
                        shape.regexes += 1;
                        shape.regex += regex_cost(&query[at..]);
                    }
                    open.push(Open::after(before, byte));
                    shape.nesting = shape.nesting.max(depth);
                }
                b']' | b')' if depth > 1 => shape.close(&mut open),
                b',' => {
                    inner.selectors += 1;
                    shape.compare(inner);
                }
                b'?' => {
                    shape.descents += 1;
                    shape.compare(inner);
                }
                b'&' | b'|' => shape.compare(inner),
                b'<' | b'>' => inner.left = Some(std::mem::take(&mut inner.side)),
                b'=' if query[..at].ends_with(['=', '!']) => {
                    inner.left = Some(std::mem::take(&mut inner.side));
                }
                b'.' if bytes.get(at + 1) == Some(&b'.') => shape.descents += 1,
                b'@' => inner.reach(Side::Current),
                b'$' if at > 0 => {
                    shape.roots += u32::from(selects_many(&bytes[at + 1..]));
                    inner.reach(Side::Root);
                }
                _ => {}
            }
        }
        shape
    }

    /// Counts a comparison whose sides are known. One with a literal ends with that.
    fn compare(&mut self, open: &mut Open) {
        let side = std::mem::take(&mut open.side);
        match open.left.take().map(|left| left.min(side)) {
            Some(Side::Root) => self.root_comparisons += 1,
            Some(Side::Current) => self.comparisons += 1,
            Some(Side::Literal) | None => {}
        }
    }

    /// Ends the innermost brackets.
    fn close(&mut self, open: &mut Vec<Open>) {
        let Some(mut inner) = open.pop() else { return };
        self.compare(&mut inner);
        self.unions.extend(Some(inner.selectors).filter(|&selectors| selectors > 1));
        match (inner.kind, inner.reached) {
            // The number of characters of a text.
            (Kind::Length, Side::Root) => self.root_comparisons += 1,
            (Kind::Length, Side::Current) => self.comparisons += 1,
            (Kind::Value, reached) => {
                if let Some(outer) = open.last_mut() {
                    outer.reach(reached);
                }
            }
            (Kind::Length, Side::Literal) | (Kind::Selectors, _) => {}
        }
    }

    pub(super) fn steps(&self, extent: &Extent) -> u64 {
        let reading = self.regexes.saturating_mul(extent.text_bytes_max / TEXT_BYTES_PER_STEP);
        let mut steps = extent.values.saturating_mul(self.regex.saturating_add(reading));
        let whole = extent.values.saturating_add(extent.text_bytes / TEXT_BYTES_PER_STEP);
        let of_roots = extent.values.saturating_mul(self.root_comparisons);
        steps = steps.saturating_add(whole.saturating_mul(self.comparisons.saturating_add(of_roots)));
        for &selectors in &self.unions {
            steps = steps.saturating_mul(selectors);
        }
        steps = steps.saturating_mul(extent.depth.saturating_pow(self.descents));
        steps.saturating_mul(extent.values.saturating_pow(self.roots))
    }
}

/// Brackets or parentheses that are open, and the comparison in there.
#[derive(Debug)]
struct Open {
    kind: Kind,
    /// Number of selectors or arguments.
    selectors: u64,
    /// The left side of a comparison, behind its operator.
    left: Option<Side>,
    /// The side of the operator that is read now.
    side: Side,
    /// The furthest of all that is in there.
    reached: Side,
}

#[derive(Debug, Clone, Copy)]
enum Kind {
    /// Selectors of a query: what is compared in there is no side of a comparison outside.
    Selectors,
    /// Arguments of `length`, whose result is a number.
    Length,
    /// Arguments of another function, or a group: the result may be a value that is reached in there.
    Value,
}

/// The largest value that a side of a comparison may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
enum Side {
    /// The query's text.
    #[default]
    Literal,
    /// The value that a filter looks at. All of them together are the whole value, once for each level.
    Current,
    /// The whole value.
    Root,
}

impl Default for Open {
    fn default() -> Open {
        Open { kind: Kind::Selectors, selectors: 1, left: None, side: Side::Literal, reached: Side::Literal }
    }
}

impl Open {
    fn after(before: &str, bracket: u8) -> Open {
        let kind = match bracket {
            b'[' => Kind::Selectors,
            _ if before.ends_with("length") => Kind::Length,
            _ => Kind::Value,
        };
        Open { kind, ..Open::default() }
    }

    fn reach(&mut self, side: Side) {
        self.side = self.side.max(side);
        self.reached = self.reached.max(side);
    }
}

/// Cost of compiling one regular expression. `call` starts at the parenthesis. Only a plain literal is known to be cheap.
fn regex_cost(call: &str) -> u64 {
    let argument = second_argument(call);
    let quoted = |quote: char| argument.strip_prefix(quote)?.strip_suffix(quote);
    match quoted('\'').or_else(|| quoted('"')) {
        Some(pattern) if is_plain(pattern) => {
            let bytes = REGEX_STEPS_PER_BYTE * pattern.len() as u64;
            REGEX_STEPS + bytes + REGEX_STEPS_PER_CLASS * classes(pattern)
        }
        _ => REGEX_STEPS_WORST,
    }
}

/// The second argument of a call that starts at its parenthesis; empty if there is none.
fn second_argument(call: &str) -> &str {
    let (mut nesting, mut from) = (0, None);
    for (at, byte) in unquoted(call.as_bytes()) {
        match byte {
            b'(' | b'[' => nesting += 1,
            b')' | b']' => nesting -= 1,
            b',' if nesting == 1 && from.is_none() => from = Some(at + 1),
            _ => {}
        }
        if nesting == 0 {
            return from.map_or("", |from| call[from..at].trim());
        }
    }
    ""
}

const CLASSES: &[u8] = b"dDsSwWbB";

/// The escapes of a pattern within a query, where each backslash is doubled; `None` for a backslash at the end.
fn escaped(pattern: &str) -> impl Iterator<Item = Option<u8>> {
    let plain = pattern.replace(r"\\", "\u{0}").into_bytes();
    let at: Vec<usize> = (0..plain.len()).filter(|at| plain[*at] == 0).collect();
    at.into_iter().map(move |at| plain.get(at + 1).copied())
}

/// Number of classes such as `\w` in a pattern.
fn classes(pattern: &str) -> u64 {
    escaped(pattern).flatten().filter(|escaped| CLASSES.contains(escaped)).count() as u64
}

/// True if a pattern's size is obvious: no named classes (`\p{L}`), no flags, no repetition counts (`{9}`). Only class letters and
/// metacharacters may be escaped.
fn is_plain(pattern: &str) -> bool {
    let plain = pattern.replace(r"\\", "");
    let is_known = |escaped: u8| br".+*?()[]|^$-/".contains(&escaped) || CLASSES.contains(&escaped);
    pattern.len() <= REGEX_PLAIN_BYTES_MAX
        && !plain.contains(['{', '\\', '\'', '"', '\u{0}'])
        && !plain.contains("(?")
        && !plain.contains("[:") // [[:alpha:]]
        && escaped(pattern).all(|escaped| escaped.is_some_and(is_known))
}

/// True if a query within a filter may select several values. `rest` starts behind its `$`.
fn selects_many(rest: &[u8]) -> bool {
    let mut nesting = 0;
    for (at, byte) in unquoted(rest) {
        match byte {
            b'[' => nesting += 1,
            b']' if nesting > 0 => nesting -= 1,
            b'*' | b'?' | b':' | b',' => return true,
            b'.' if rest.get(at + 1) == Some(&b'.') => return true,
            b']' | b')' | b'=' | b'<' | b'>' | b'!' | b'&' | b'|' => return false,
            _ => {}
        }
    }
    false
}

/// The bytes of a query outside of quoted names and texts, with their places.
fn unquoted(query: &[u8]) -> impl Iterator<Item = (usize, u8)> + '_ {
    let (mut quote, mut escaped) = (None, false);
    query.iter().copied().enumerate().filter(move |&(_, byte)| match quote {
        Some(end) => {
            if !escaped && byte == end {
                quote = None;
            }
            escaped = !escaped && byte == b'\\';
            false
        }
        None if byte == b'\'' || byte == b'"' => {
            quote = Some(byte);
            false
        }
        None => true,
    })
}

/// The size of a value.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Extent {
    values: u64,
    depth: u64,
    /// Bytes of the longest text.
    text_bytes_max: u64,
    /// Bytes of all texts and keys.
    text_bytes: u64,
}

impl Extent {
    const LEAF: Extent = Extent { values: 1, depth: 1, text_bytes_max: 0, text_bytes: 0 };

    pub(super) fn of(value: &Value) -> Extent {
        let inner = |values: &mut dyn Iterator<Item = &Value>| {
            values.map(Extent::of).fold(Extent::LEAF, |sum, inner| Extent {
                values: sum.values + inner.values,
                depth: sum.depth.max(inner.depth + 1),
                text_bytes_max: sum.text_bytes_max.max(inner.text_bytes_max),
                text_bytes: sum.text_bytes + inner.text_bytes,
            })
        };
        match value {
            Value::Array(list) => inner(&mut list.iter()),
            Value::Object(map) => {
                let extent = inner(&mut map.values());
                let keys = map.keys().map(|key| key.len() as u64).sum::<u64>();
                Extent { text_bytes: extent.text_bytes + keys, ..extent }
            }
            Value::String(text) => {
                let bytes = text.len() as u64;
                Extent { text_bytes_max: bytes, text_bytes: bytes, ..Extent::LEAF }
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => Extent::LEAF,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quoted_names_do_not_count() {
        assert_eq!(
            Shape::of(r#"$["a,b..[(?\"", 'c\',d']"#),
            Shape { unions: vec![2], nesting: 1, regex: 1, ..Shape::default() }
        );
    }

    #[test]
    fn only_a_plain_pattern_is_cheap() {
        let longest = "x".repeat(REGEX_PLAIN_BYTES_MAX);
        for (call, pattern) in [
            ("(@, '[b-z]')", Some("[b-z]")),
            ("(@['a,\"'] , \"a.*b\" )", Some("a.*b")),
            (r#"(@["a,'"], 'v1\\.2')"#, Some(r"v1\\.2")),
            ("(@['\\',\"'], 'a,b')", Some("a,b")),
            (&format!("(@, '{longest}')"), Some(&longest)),
            (&format!("(@, '{longest}x')"), None),
            (r#"(@['a,"'], @.p)"#, None),
            (r#"(@["a,'"], @.p)"#, None),
            ("(@[1,'a'], @.p)", None),
            ("(@['a'] == 'b')", None),
            ("(@, $['p'])", None),
            (r"(@, '\pL\pL')", None),
            (r"(@, '\\pL\\pL')", None),
            (r"(@, '\u005cpL')", None),
            (r"(@, 'a\\\\pL')", None),
            ("(@, '[[:alpha:]]')", None),
            ("(@, 'a{9}')", None),
            ("(@, '(?i)a')", None),
            ("(@, 'a", None),
        ] {
            let cost = pattern.map(|pattern| REGEX_STEPS + REGEX_STEPS_PER_BYTE * pattern.len() as u64);
            assert_eq!(regex_cost(call), cost.unwrap_or(REGEX_STEPS_WORST), "{call}");
        }
    }

    #[test]
    fn comparisons_count_by_what_they_compare() {
        for (query, of_current, of_root) in [
            ("$[?@.price < 10]", 0, 0),
            ("$[?'a' != @.name && 1 >= @.b]", 0, 0),
            ("$[?@.a == @.b || @['a'] <= $.b]", 2, 0),
            ("$[?$['x'] == $.y]", 0, 1),
            ("$.c[?@.a && $.x != $.y, ?$.x>$.y]", 0, 2),
            ("$[?!(@.a == $.x) && ($.x == $.y)]", 1, 1),
            ("$[?value($..x) == $.y]", 0, 1),
            ("$[?value(@..x) == $.y]", 1, 0),
            ("$[?value($[?@.a == @.b].c) == value($.d[0])]", 1, 1),
            ("$[?@[?$.x == $.y]]", 0, 1),
            ("$[?length(@.a) > 3 && length($.x) == length($.y)]", 1, 2),
            ("$[?count(@.*) == count($.x)]", 1, 0),
            ("$[?match(@.a, 'b')]", 0, 0),
            ("$['$.x == $.y'][?@.a]", 0, 0),
            ("$)", 0, 0),
        ] {
            let shape = Shape::of(query);
            assert_eq!((shape.comparisons, shape.root_comparisons), (of_current, of_root), "{query}");
        }
    }

    #[test]
    fn queries_within_filters_count_if_they_may_select_many() {
        for (query, roots) in [
            ("$.c[?count($['=']..*) > 3]", 1),
            (r#"$.c[?count($["a|b)\"]"][*]) > 3]"#, 1),
            ("$.c[?count($['<']['>', '!']) > 3 && $['&']]", 1),
            ("$.c[?count($['a'][0:2]) == count($[?@.x])]", 2),
            ("$.c[?@.a == $['*,..?:'].b && @..c]", 0),
            (r"$.c[?$['\']*'] == 1, ?@.*]", 0),
            ("$.c[?match(@.a, $.b) || $.d][*]", 0),
            ("$.c[?$[0] < $.x]..*", 0),
        ] {
            assert_eq!(Shape::of(query).roots, roots, "{query}");
        }
    }

    #[test]
    fn texts_and_keys_count() {
        let value = serde_json::json!({"abc": ["de", "f", 1], "g": {}});
        assert_eq!(Extent::of(&value), Extent { values: 6, depth: 3, text_bytes_max: 2, text_bytes: 7 });
    }
}
