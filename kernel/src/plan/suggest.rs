//! "Did you mean" suggestions for unknown names.

use std::cell::Cell;

/// Character pairs compared per validation; beyond the budget no more suggestions are made.
const PAIRS_MAX: usize = 4_000_000;

pub(super) struct Suggestions {
    pairs_left: Cell<usize>,
}

impl Suggestions {
    pub(super) fn new() -> Suggestions {
        Suggestions { pairs_left: Cell::new(PAIRS_MAX) }
    }

    /// `did you mean "x"?`, or `otherwise` without a close name.
    pub(super) fn help<'a>(
        &self,
        name: &str,
        known: impl IntoIterator<Item = &'a str>,
        otherwise: &str,
    ) -> String {
        match self.closest(name, known) {
            Some(closest) => format!("did you mean {closest:?}?"),
            None => otherwise.to_owned(),
        }
    }

    pub(super) fn closest<'a>(
        &self,
        name: &str,
        known: impl IntoIterator<Item = &'a str>,
    ) -> Option<&'a str> {
        let mut pairs_left = self.pairs_left.get();
        let closest = nearest(name, known, &mut pairs_left);
        self.pairs_left.set(pairs_left);
        closest
    }
}

/// Returns the known name closest to `name` with at most a third of the characters wrong. Each comparison
/// takes its character pairs from `pairs_left`; `None` once the budget is spent.
pub fn nearest<'a>(
    name: &str,
    known: impl IntoIterator<Item = &'a str>,
    pairs_left: &mut usize,
) -> Option<&'a str> {
    let letters: Vec<char> = name.chars().take(LETTERS_MAX).collect();
    let mut bound = letters.len().div_ceil(3).max(1);
    let mut found = None;
    for candidate in known {
        if candidate.len().abs_diff(name.len()) > bound * 4 {
            continue; // even if every letter had four bytes
        }
        *pairs_left = pairs_left.checked_sub((letters.len() + 1) * candidate.len().min(LETTERS_MAX))?;
        let distance = distance(&letters, candidate);
        if distance < bound || (distance == bound && found.is_none()) {
            (bound, found) = (distance, Some(candidate));
        }
    }
    found
}

const LETTERS_MAX: usize = 64;

/// Optimal string alignment distance: insertions, deletions, substitutions and transpositions of neighbours.
fn distance(letters: &[char], other: &str) -> usize {
    let columns = letters.len() + 1;
    let (mut two_up, mut up): (Vec<usize>, Vec<usize>) = (vec![0; columns], (0..columns).collect());
    let mut row = vec![0; columns];
    let mut last = None;
    for (at, there) in other.chars().take(LETTERS_MAX).enumerate() {
        row[0] = at + 1;
        for (column, &here) in letters.iter().enumerate() {
            let substituted = up[column] + usize::from(here != there);
            row[column + 1] = substituted.min(up[column + 1] + 1).min(row[column] + 1);
            if column > 0 && last == Some(here) && letters[column - 1] == there {
                row[column + 1] = row[column + 1].min(two_up[column - 1] + 1);
            }
        }
        last = Some(there);
        (two_up, up, row) = (up, row, two_up);
    }
    up[letters.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slip_finds_the_name_that_was_meant() {
        let known = ["fs.list", "fs.read", "text.search", "a", "run"];
        for (name, closest) in [
            ("fs.raed", Some("fs.read")),
            ("fs.lst", Some("fs.list")),
            ("textsearch", Some("text.search")),
            ("http.request", None),
            ("b", Some("a")),
            ("", Some("a")),
            ("rnu", Some("run")),
            ("urn", Some("run")),
            ("nur", None),
        ] {
            assert_eq!(nearest(name, known, &mut PAIRS_MAX.clone()), closest, "{name}");
        }
    }

    #[test]
    fn hints_come_to_an_end() {
        let suggestions = Suggestions::new();
        let long = "x".repeat(LETTERS_MAX);
        let known = [long.as_str(); 100];
        let told: Vec<bool> = (0..20).map(|_| suggestions.help(&long[1..], known, "no") != "no").collect();
        assert!(told[0] && !told[19], "{told:?}");
    }
}
