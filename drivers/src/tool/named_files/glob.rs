//! Patterns of file names.

/// A pattern with `*`, `?` and `[…]`, taken apart once for all names. The time is that of one walk over the text, and for a name at most
/// that of its length times the pattern's, of which no more counts than fits a name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Pattern {
    tokens: Vec<Token>,
    /// Characters of the shortest name that fits.
    least: usize,
    is_dotted: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Token {
    /// Any number of characters.
    Many,
    /// One character: a `?`, or a class.
    Any,
    Is(char),
}

impl Pattern {
    pub(super) fn of(text: &str) -> Pattern {
        let chars: Vec<char> = text.chars().collect();
        let behind = behind_classes(&chars);
        let (mut tokens, mut at) = (Vec::new(), 0);
        while at < chars.len() {
            let class_end = (chars[at] == '[').then(|| behind[class_start(&chars, at)]).flatten();
            let token = match (chars[at], class_end) {
                ('*', _) => Token::Many,
                ('?', _) | (_, Some(_)) => Token::Any,
                (c, None) => Token::Is(c),
            };
            // Several stars are one.
            if token != Token::Many || tokens.last() != Some(&Token::Many) {
                tokens.push(token);
            }
            at = class_end.unwrap_or(at + 1);
        }
        let least = tokens.iter().filter(|token| **token != Token::Many).count();
        Pattern { tokens, least, is_dotted: text.starts_with('.') }
    }

    /// True if the name fits. A class counts as any character, and a name that begins with a dot fits a pattern that does.
    pub(super) fn fits(&self, name: &str) -> bool {
        if name.starts_with('.') && !self.is_dotted || name.len() < self.least {
            return false;
        }
        let name: Vec<char> = name.chars().collect();
        let (mut at, mut seen, mut star) = (0, 0, None);
        while seen < name.len() {
            match self.tokens.get(at) {
                Some(Token::Many) => {
                    star = Some((at, seen));
                    at += 1;
                }
                Some(Token::Any) => (at, seen) = (at + 1, seen + 1),
                Some(Token::Is(c)) if *c == name[seen] => (at, seen) = (at + 1, seen + 1),
                // The last star takes one more character.
                _ => match &mut star {
                    Some((after, taken)) => {
                        *taken += 1;
                        (at, seen) = (*after + 1, *taken);
                    }
                    None => return false,
                },
            }
        }
        self.tokens[at..].iter().all(|token| *token == Token::Many)
    }
}

/// True if a part of a path is a pattern.
pub(super) fn is_pattern(part: &str) -> bool {
    part.contains(['*', '?', '['])
}

/// Where the characters of a class begin that may end it. The first one may be a `]`.
fn class_start(chars: &[char], open: usize) -> usize {
    let at = open + 1 + usize::from(matches!(chars.get(open + 1), Some('!' | '^')));
    at + usize::from(chars.get(at) == Some(&']'))
}

/// For each place, and the one behind the last, what is behind the class that goes on there; `None` if it has no end.
fn behind_classes(chars: &[char]) -> Vec<Option<usize>> {
    let mut behind = vec![None; chars.len() + 1];
    // What is behind the next end of a group of characters: `:]`.
    let mut groups = [None; GROUPS.len()];
    for at in (0..chars.len()).rev() {
        for (kind, group) in GROUPS.iter().zip(&mut groups) {
            if chars.get(at + 2) == Some(kind) && chars.get(at + 3) == Some(&']') {
                *group = Some(at + 4);
            }
        }
        let kind = chars.get(at + 1).and_then(|kind| GROUPS.iter().position(|it| it == kind));
        let group = kind.filter(|_| chars[at] == '[').and_then(|kind| groups[kind]);
        behind[at] = match (chars[at], group) {
            (_, Some(group)) => behind[group],
            (']', None) => Some(at + 1),
            _ => behind[at + 1],
        };
    }
    behind
}

/// Begin and end a group of characters within a class: `[:alpha:]`.
const GROUPS: [char; 3] = [':', '.', '='];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_fit_patterns() {
        for (pattern, name, expected) in [
            ("*.txt", "a.txt", true),
            ("*.txt", ".txt", false),
            (".*", ".txt", true),
            ("*", "", true),
            ("a?c*", "abc", true),
            ("a?c", "ac", false),
            ("[ab].sh", "a.sh", true),
            ("[]x].sh", "].sh", true),
            ("[!]x].sh", "a.sh", true),
            ("[[:alpha:]]x", "ax", true),
            ("[[:alpha:][.-.]0-9]x", "-x", true),
            ("[[:alpha:]x", "[ax", true),
            ("[[]x", "[x", true),
            ("[[:]x", ":x", true),
            ("[[:]:]]x", "ax", true),
            ("[[:]:]x", "[:]:]x", false),
            ("[a.sh", "[a.sh", true),
            ("[", "[", true),
            ("[]", "[]", true),
            ("[!", "[!", true),
            ("a**b", "ab", true),
            ("*a*b*", "xaxxbab", true),
            ("*a*b", "xaxxba", false),
            ("ü*", "über", true),
            ("????", "ü", false),
        ] {
            assert_eq!(Pattern::of(pattern).fits(name), expected, "{pattern} {name}");
        }
    }

    /// Looked for anew behind each `[`, the missing end takes hours.
    #[test]
    fn a_pattern_is_taken_apart_in_one_walk() {
        for open in ["[", "[[:", "[[.a", "[!"] {
            let text = format!("a*{}", open.repeat(1 << 20));
            let pattern = Pattern::of(&text);
            assert_eq!((pattern.tokens.len(), pattern.least), (text.len(), text.len() - 1), "{open}");
            assert!(!pattern.fits("a"));
        }
        assert_eq!(Pattern::of(&"*".repeat(1 << 20)).tokens, [Token::Many]);
        assert_eq!(Pattern::of(&format!("[{}]*", "a".repeat(1 << 20))).tokens, [Token::Any, Token::Many]);
    }
}
