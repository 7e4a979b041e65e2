//! Comparison of printed output with a page, ignoring values that vary.

use std::sync::LazyLock;

use regex::Regex;

/// Patterns of varying values, and their placeholders.
static VARIES: LazyLock<Vec<(Regex, &'static str)>> = LazyLock::new(|| {
    let table = [
        (r"\b[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}\b", "ID"),
        (r"\b[0-9a-f]{12}\b", "ID"),
        (r"\b[0-9a-f]{64}\b", "DIGEST"),
        // A question shows the folder of its call.
        (r"\bb3:[0-9a-f]{32}\b", "b3:DIGEST"),
        (r"\b\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\b", "DATE"),
        (r"\b\d\d:\d\d:\d\d\b", "TIME"),
        (r"\b\d+ h \d\d m\b|\b\d+ m \d\d s\b|<1 ms\b|\b\d+(\.\d+)? m?s\b", "SPAN"),
        (r"\bparallelism (\d+\.\d+|-)", "parallelism N"),
        (r"\bprocess \d+", "process PID"),
        (r"\babout \d+", "about N"),
        (r"\b127\.0\.0\.1:\d+", "ADDR"),
        (r"/\S*/git\b", "/usr/bin/git"),
        (r"/\S*/here$", "/here"),
        // Shells report killed processes differently.
        (r"^.*\bKilled\b.*$", "Killed"),
        // A credit is a millisecond.
        (r"\b\d+ credits?\b", "CREDITS"),
        // Column widths depend on their content.
        (r" {2,}", "  "),
    ];
    table.map(|(varies, stands)| (Regex::new(varies).unwrap(), stands)).into()
});

/// A sign is part of a number; a hyphen between words is not.
static FIGURES: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"(\B-)?\d[\d.]*").unwrap());

/// On a line of its own, matches any lines.
const ANY: &str = "…";

/// A line, or lines in any order.
#[derive(Debug, PartialEq, Eq)]
enum Item {
    Line(String),
    /// Any lines.
    Any,
    /// Lines with a time of day, in any order because nodes run concurrently. `open`: other lines may be
    /// among them.
    Timed {
        lines: Vec<String>,
        open: bool,
    },
}

fn plain(line: &str, figures_vary: bool) -> String {
    let mut line = line.trim_end().to_owned();
    for (varies, stands) in VARIES.iter() {
        line = varies.replace_all(&line, *stands).into_owned();
    }
    if figures_vary { FIGURES.replace_all(&line, "N").into_owned() } else { line }
}

fn items(lines: &[String], figures_vary: bool, is_said: bool) -> Vec<Item> {
    let mut items: Vec<Item> = Vec::new();
    for line in lines {
        if is_said && line.trim() == ANY {
            match items.last_mut() {
                Some(Item::Timed { open, .. }) => *open = true,
                _ => items.push(Item::Any),
            }
            continue;
        }
        let line = plain(line, figures_vary);
        match items.last_mut() {
            Some(Item::Timed { lines, .. }) if line.starts_with("TIME ") => lines.push(line),
            _ if line.starts_with("TIME ") => items.push(Item::Timed { lines: vec![line], open: false }),
            _ => items.push(Item::Line(line)),
        }
    }
    for item in &mut items {
        if let Item::Timed { lines, .. } = item {
            lines.sort();
        }
    }
    items
}

fn fits(said: &[Item], printed: &[Item]) -> bool {
    let (Some((first, said)), rest) = (said.split_first(), printed) else { return printed.is_empty() };
    match (first, rest.split_first()) {
        (Item::Any, None) => fits(said, &[]),
        (Item::Any, Some((_, below))) => fits(said, rest) || fits_any(said, below),
        (_, None) => false,
        (Item::Line(line), Some((Item::Line(found), below))) => line == found && fits(said, below),
        (Item::Timed { lines, open }, Some((Item::Timed { lines: found, .. }, below))) => {
            among(lines, found, *open) && fits(said, below)
        }
        _ => false,
    }
}

/// Returns whether `said` matches after any number of further lines.
fn fits_any(said: &[Item], printed: &[Item]) -> bool {
    (0..=printed.len()).any(|at| fits(said, &printed[at..]))
}

/// Returns whether sorted lines are the found ones, or a subset of them.
fn among(lines: &[String], found: &[String], open: bool) -> bool {
    if !open {
        return lines == found;
    }
    let mut found = found.iter();
    lines.iter().all(|line| found.any(|other| other == line))
}

/// Returns whether the lines match the page. `…` matches any lines; with `figures_vary`, any number matches
/// any other.
pub(crate) fn same(said: &[String], printed: &[String], figures_vary: bool) -> bool {
    fits(&items(said, figures_vary, true), &items(printed, figures_vary, false))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(text: &str) -> Vec<String> {
        text.lines().map(str::to_owned).collect()
    }

    #[test]
    fn what_differs_each_time_does_not_matter_and_all_else_does() {
        for (said, printed, expected) in [
            ("a\nb", "a\nb", true),
            ("a\nb", "a", false),
            ("a", "a\nb", false),
            ("a  1 ms", "a    23.04 s", true),
            ("a  1 ms", "a  1 B", false),
            ("a  <1 ms", "a  12 ms", true),
            ("parallelism -", "parallelism 0.33", true),
            ("run 01a200f6-5d7b-76e7-b46e-438b0e0c7aee", "run 01a200f7-0000-7000-8000-000000000000", true),
            ("00:00:01 a\n00:00:02 b", "10:00:00 b\n10:00:00 a", true),
            ("00:00:01 a\n00:00:02 b", "10:00:00 b", false),
            ("00:00:01 a\n…\nend", "10:00:00 b\n10:00:00 a\nend", true),
            ("00:00:01 a\n…\nend", "10:00:00 b\nend", false),
            ("a\n…\nd", "a\nb\nc\nd", true),
            ("a\n…\nd", "a\nb\nc", false),
            ("…", "", true),
            ("3 nodes", "4 nodes", false),
        ] {
            assert_eq!(same(&lines(said), &lines(printed), false), expected, "{said:?} {printed:?}");
        }
        assert!(same(&lines("3 nodes 2.3 kB"), &lines("4 nodes 12.1 kB"), true));
    }
}
