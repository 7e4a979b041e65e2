//! Words of a text as a shell takes it apart: quotes and escapes go, unquoted spaces and operators separate.

/// Stands for a part of a word that the shell computes: a variable, or the alternatives of braces.
pub(super) const COMPUTED: char = '\u{0}';

/// The words of a text. A variable, a group of braces, and alternatives in parentheses become [`COMPUTED`], except the folders that a
/// shell knows: `$HOME` becomes `~`, and `$PWD` becomes `.`. An unfinished quote ends with the text.
pub(super) fn shell_words(text: &str) -> Vec<String> {
    let (mut words, mut word, mut quote) = (Vec::new(), String::new(), None);
    let (mut rest, mut last) = (text.chars().peekable(), None);
    while let Some(c) = rest.next() {
        let before = last.replace(c);
        match (c, quote) {
            ('\'', Some('\'')) | ('"', Some('"')) => quote = None,
            ('\'' | '"', None) => quote = Some(c),
            (_, Some('\'')) => word.push(c),
            // Within double quotes a backslash escapes few characters, and stands for itself before others.
            ('\\', Some(_)) if !rest.peek().is_some_and(|next| "$`\"\\\n".contains(*next)) => word.push(c),
            ('\\', _) => word.extend(rest.next().filter(|next| *next != '\n')),
            // `$'\x2e'`: what the escapes stand for is not spelled out.
            ('$', None) if rest.next_if_eq(&'\'').is_some() => {
                skip_escaped(&mut rest);
                word.push(COMPUTED);
            }
            // `$"a"` is a text to be translated.
            ('$', None) if rest.peek() == Some(&'"') => {}
            ('$', _) => {
                let ahead: String = rest.clone().take(VARIABLE_CHARS_MAX).collect();
                let (length, value) = variable(&ahead);
                rest.by_ref().take(length).for_each(drop);
                word.push(value);
            }
            (_, Some(_)) => word.push(c),
            ('{', None) => {
                let ahead: String = rest.clone().take(GROUP_CHARS_MAX).collect();
                match group(&ahead) {
                    Some(length) => {
                        rest.by_ref().take(length).for_each(drop);
                        word.push(COMPUTED);
                    }
                    None => word.push(c),
                }
            }
            ('(', None) => {
                let ahead: String = rest.clone().take(GROUP_CHARS_MAX).collect();
                match alternatives(before, &ahead) {
                    Some(inside) => {
                        rest.by_ref().take(inside.chars().count() + 1).for_each(drop);
                        if before.is_some_and(|c| EXTENDED.contains(c)) {
                            word.pop();
                        }
                        word.push(COMPUTED);
                        last = Some(')');
                        // They may be commands as well.
                        words.extend(shell_words(inside));
                    }
                    None => words.push(std::mem::take(&mut word)),
                }
            }
            _ if c.is_whitespace() || ";|&<>()`".contains(c) => words.push(std::mem::take(&mut word)),
            _ => word.push(c),
        }
    }
    words.push(word);
    words.retain(|word| !word.is_empty());
    words.into_iter().map(|word| in_folder(&word).unwrap_or(word)).collect()
}

/// The text without what follows a `#` at the beginning of a word, to the end of its line; `None` if there is none. A quote in a comment
/// opens nothing, but whether a `#` begins one depends on what a shell is told: both readings count.
pub(super) fn without_comments(text: &str) -> Option<String> {
    let begins = |line: &str| {
        let at = line.match_indices('#').map(|(at, _)| at);
        at.into_iter().find(|&at| {
            line[..at].chars().next_back().is_none_or(|c| c.is_whitespace() || ";|&()".contains(c))
        })
    };
    if !text.lines().any(|line| begins(line).is_some()) {
        return None;
    }
    let lines: Vec<&str> = text.lines().map(|line| begins(line).map_or(line, |at| &line[..at])).collect();
    Some(lines.join("\n"))
}

/// Goes behind the end of a quoted text with escapes.
fn skip_escaped(rest: &mut impl Iterator<Item = char>) {
    while let Some(c) = rest.next() {
        match c {
            '\'' => return,
            '\\' => drop(rest.next()),
            _ => {}
        }
    }
}

/// A word that begins with the current folder (`~+/`) or the one before it (`~-/`); `None` for another one.
fn in_folder(word: &str) -> Option<String> {
    let current = word.strip_prefix("~+/").map(|rest| format!("./{rest}"));
    current.or_else(|| word.strip_prefix("~-/").map(|rest| format!("{COMPUTED}/{rest}")))
}

/// Characters of the longest name of a variable, with its braces and what is done to its value.
const VARIABLE_CHARS_MAX: usize = 128;

/// Characters of the longest group of alternatives.
const GROUP_CHARS_MAX: usize = 128;

/// The characters of a variable after its `$`, and what stands for its value. `$(` stands for nothing: the words of a command follow.
fn variable(ahead: &str) -> (usize, char) {
    let braced = ahead.strip_prefix('{').and_then(|rest| rest.split_once('}')).map(|(name, _)| name);
    let is_name = |c: &char| c.is_alphanumeric() || *c == '_';
    let name: String = match braced {
        Some(name) => name.to_owned(),
        None => ahead.chars().take_while(is_name).collect(),
    };
    let length = name.chars().count() + if braced.is_some() { 2 } else { 0 };
    match (name.as_str(), ahead.chars().next()) {
        ("HOME", _) => (length, '~'),
        ("PWD", _) => (length, '.'),
        ("", Some('(')) => (0, COMPUTED),
        ("", Some('@' | '*' | '#' | '?' | '$' | '!' | '-')) => (1, COMPUTED),
        ("", _) => (0, '$'),
        _ => (length, COMPUTED),
    }
}

/// The characters of a group of alternatives after its `{`: `a,b}` or `1..9}`.
fn group(ahead: &str) -> Option<usize> {
    let (inside, _) = ahead.split_once('}')?;
    let is_group = (inside.contains(',') || inside.contains("..")) && !inside.contains(char::is_whitespace);
    is_group.then(|| inside.chars().count() + 1)
}

/// Characters before alternatives in parentheses, as bash and ksh write them: `@(a|b)`.
const EXTENDED: &str = "@+!?*";

/// Alternatives after their `(`, up to the `)`: `@(a b)` and `(a|b)`. None for those of a command: `$(a|b)`.
fn alternatives(before: Option<char>, ahead: &str) -> Option<&str> {
    let mut depth = 1;
    let end = ahead.find(|c| {
        depth += i32::from(c == '(') - i32::from(c == ')');
        depth == 0
    })?;
    let inside = &ahead[..end];
    let is_extended = before.is_some_and(|c| EXTENDED.contains(c));
    let is_command = before.is_some_and(|c| "$<>".contains(c)) || inside.contains(char::is_whitespace);
    (is_extended || inside.contains('|') && !is_command).then_some(inside)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_end_with_their_line() {
        for (text, expected) in [
            ("# it's\nsh 'a b'.sh", Some("\nsh 'a b'.sh")),
            ("a # b\n\tc;#d", Some("a \n\tc;")),
            ("a#b '$#'", None),
            ("", None),
        ] {
            assert_eq!(without_comments(text).as_deref(), expected, "{text}");
        }
    }

    #[test]
    fn a_text_is_taken_apart_as_shells_do() {
        for (text, words) in [
            ("cat 'my file.txt' other\\ file", &["cat", "my file.txt", "other file"][..]),
            ("sh dep\"loy\".sh;x", &["sh", "deploy.sh", "x"]),
            ("a>\"b c\" $(cat d)", &["a", "b c", "\u{0}", "cat", "d"]),
            (
                "sh $HOME/a ${PWD}/b $X.sh \"${X:-y}z\" $1 '$X'",
                &["sh", "~/a", "./b", "\u{0}.sh", "\u{0}z", "\u{0}", "$X"],
            ),
            ("sh $@ x$?.sh \"$*\" $", &["sh", "\u{0}", "x\u{0}.sh", "\u{0}", "$"]),
            ("cat {a,b}.txt {} f{1..3} {a", &["cat", "\u{0}.txt", "{}", "f\u{0}", "{a"]),
            ("sh x$'\\x2e\\''sh \"$'a'\"", &["sh", "x\u{0}sh", "$'a'"]),
            ("sh a\\\nb $A_B.sh {a, b}", &["sh", "ab", "\u{0}.sh", "{a,", "b}"]),
            ("sh ~+/x.sh ~-/y.sh", &["sh", "./x.sh", "\u{0}/y.sh"]),
            (
                "sh d@(e)p+(l|o)y !(a b).sh *(x)",
                &["sh", "e", "l", "o", "d\u{0}p\u{0}y", "a", "b", "\u{0}.sh", "x", "\u{0}"],
            ),
            (
                "sh (a|b(c)).sh; (cd x|y) $(d|e)",
                &["sh", "a", "b", "c", "\u{0}.sh", "cd", "x", "y", "\u{0}", "d", "e"],
            ),
            ("f(x) '@(a)' \"(a|b)\" @(a", &["f", "x", "@(a)", "(a|b)", "@", "a"]),
            ("sh $\"deploy\".sh a$\"b $X\"", &["sh", "deploy.sh", "ab \u{0}"]),
            ("echo \"a\\\"b\" 'it", &["echo", "a\"b", "it"]),
            (
                "sh \"de\\ploy.sh\" \"\\$X\" \"a\\\nb\" 'c\\d' e\\f",
                &["sh", "de\\ploy.sh", "$X", "ab", "c\\d", "ef"],
            ),
            ("", &[]),
        ] {
            assert_eq!(shell_words(text), words, "{text}");
        }
    }
}
