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
        match (c == '[').then(|| behind_class(rest)).flatten() {
            Some(behind) => {
                rest = behind;
                simple.push('?');
            }
            None => simple.push(c),
        }
    }
    simple
}

/// The text behind a class, after its `[`.
fn behind_class(text: &str) -> Option<&str> {
    let mut rest = text.strip_prefix(['!', '^']).unwrap_or(text);
    // The first character of a class may be a `]`.
    rest = rest.strip_prefix(']').unwrap_or(rest);
    loop {
        let c = rest.chars().next()?;
        rest = &rest[c.len_utf8()..];
        // A group of characters within: `[:alpha:]`.
        let kind = rest.chars().next().filter(|kind| c == '[' && ":.=".contains(*kind));
        let behind =
            kind.and_then(|kind| rest[1..].split_once(&format!("{kind}]"))).map(|(_, behind)| behind);
        match (c, behind) {
            (_, Some(behind)) => rest = behind,
            (']', None) => return Some(rest),
            _ => {}
        }
    }
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
            ("[!]x].sh", "a.sh", true),
            ("[[:alpha:]]x", "ax", true),
            ("[[:alpha:][.-.]0-9]x", "-x", true),
            ("[[:alpha:]x", "[ax", true),
            ("[[]x", "[x", true),
            ("[a.sh", "[a.sh", true),
            ("*a*b*", "xaxxbab", true),
            ("*a*b", "xaxxba", false),
            ("ü*", "über", true),
        ] {
            assert_eq!(fits(pattern, name), expected, "{pattern} {name}");
        }
    }
}
