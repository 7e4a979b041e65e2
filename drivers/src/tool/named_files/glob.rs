//! Patterns of file names.

/// True if the name fits a pattern with `*`, `?` and `[…]`. A class counts as any character, and a name that begins with a dot fits a
/// pattern that does.
pub(super) fn fits(pattern: &str, name: &str) -> bool {
    if name.starts_with('.') && !pattern.starts_with('.') {
        return false;
    }
    let (pattern, name): (Vec<char>, Vec<char>) = (simple(pattern), name.chars().collect());
    let (mut at, mut seen, mut star) = (0, 0, None);
    while seen < name.len() {
        match pattern.get(at) {
            Some('*') => {
                star = Some((at, seen));
                at += 1;
            }
            Some(c) if *c == '?' || *c == name[seen] => {
                at += 1;
                seen += 1;
            }
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
    pattern[at..].iter().all(|c| *c == '*')
}

/// True if a part of a path is a pattern.
pub(super) fn is_pattern(part: &str) -> bool {
    part.contains(['*', '?', '['])
}

/// The pattern with `?` for each class.
fn simple(pattern: &str) -> Vec<char> {
    let (mut simple, mut rest) = (Vec::new(), pattern);
    while let Some(c) = rest.chars().next() {
        rest = &rest[c.len_utf8()..];
        // The first character of a class may be a `]`.
        let class = (c == '[').then(|| rest.char_indices().skip(1).find(|(_, c)| *c == ']')).flatten();
        match class {
            Some((end, _)) => {
                rest = &rest[end + 1..];
                simple.push('?');
            }
            None => simple.push(c),
        }
    }
    simple
}

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
            ("[a.sh", "[a.sh", true),
            ("*a*b*", "xaxxbab", true),
            ("*a*b", "xaxxba", false),
            ("ü*", "über", true),
        ] {
            assert_eq!(fits(pattern, name), expected, "{pattern} {name}");
        }
    }
}
