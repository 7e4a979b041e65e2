//! Which known name somebody meant by an unknown one.

use std::cell::Cell;

/// How often a judgement says what was meant; each time costs a look at every known name.
const HINTS_MAX: usize = 20;

/// Finds names that were meant, as often as is worth its time.
pub(super) struct Hints {
    left: Cell<usize>,
}

impl Hints {
    pub(super) fn new() -> Hints {
        Hints { left: Cell::new(HINTS_MAX) }
    }

    /// `did you mean "x"?`, or `otherwise`.
    pub(super) fn mend<'a>(
        &self,
        name: &str,
        known: impl IntoIterator<Item = &'a str>,
        otherwise: &str,
    ) -> String {
        let Some(left) = self.left.get().checked_sub(1) else { return otherwise.to_owned() };
        self.left.set(left);
        match nearest(name, known) {
            Some(meant) => format!("did you mean {meant:?}?"),
            None => otherwise.to_owned(),
        }
    }
}

/// The known name nearest to `name`, if it is near: at most a third of its letters are wrong.
pub fn nearest<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let letters: Vec<char> = name.chars().take(LETTERS_MAX).collect();
    let mut bound = letters.len().div_ceil(3).max(1);
    let mut found = None;
    for candidate in known {
        if candidate.len().abs_diff(name.len()) > bound * 4 {
            continue; // even if every letter had four bytes
        }
        let distance = distance(&letters, candidate);
        if distance < bound || (distance == bound && found.is_none()) {
            (bound, found) = (distance, Some(candidate));
        }
    }
    found
}

/// Letters of a name that are compared.
const LETTERS_MAX: usize = 64;

/// Insertions, deletions and substitutions between two names.
fn distance(letters: &[char], other: &str) -> usize {
    let mut row: Vec<usize> = (0..=letters.len()).collect();
    for (at, there) in other.chars().take(LETTERS_MAX).enumerate() {
        let mut before = row[0];
        row[0] = at + 1;
        for (column, here) in letters.iter().enumerate() {
            let substituted = before + usize::from(*here != there);
            before = row[column + 1];
            row[column + 1] = substituted.min(before + 1).min(row[column] + 1);
        }
    }
    row[letters.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slip_finds_the_name_that_was_meant() {
        let known = ["fs.list", "fs.read", "text.search", "a"];
        for (name, meant) in [
            ("fs.raed", Some("fs.read")),
            ("fs.lst", Some("fs.list")),
            ("textsearch", Some("text.search")),
            ("http.request", None),
            ("b", Some("a")),
            ("", Some("a")),
        ] {
            assert_eq!(nearest(name, known), meant, "{name}");
        }
    }

    #[test]
    fn hints_come_to_an_end() {
        let hints = Hints::new();
        let told = (0..HINTS_MAX + 5).filter(|_| hints.mend("ab", ["abc"], "no") != "no").count();
        assert_eq!(told, HINTS_MAX);
    }
}
