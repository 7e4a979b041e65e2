//! The list of checks that `ostler doctor` prints.

use serde_json::json;

use crate::cli::exit::code;
use crate::cli::output::cells::wrapped;
use crate::cli::output::hints::with_location;
use crate::cli::output::terminal::{Out, Style};

const BEFORE_DETAIL: usize = 17;

const DETAIL_MIN: usize = 20;

/// Problems of a kind listed before the rest is counted.
pub(crate) const PROBLEMS_SHOWN_MAX: usize = 10;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    Pass,
    /// Nothing is broken, but action may be needed.
    Warning,
    Failure,
}

type Advice<'a> = Option<&'a str>;

pub(crate) struct Report {
    pub(crate) out: Out,
    pub(crate) json: bool,
    pub(crate) warnings: usize,
    pub(crate) failures: usize,
}

impl Report {
    pub(crate) fn pass(&mut self, name: &str, detail: impl AsRef<str>) {
        self.add(Verdict::Pass, name, detail.as_ref(), None);
    }

    pub(crate) fn warn(&mut self, name: &str, detail: impl AsRef<str>, advice: &str) {
        self.add(Verdict::Warning, name, detail.as_ref(), Some(advice));
    }

    pub(crate) fn fail(&mut self, name: &str, detail: impl AsRef<str>, advice: &str) {
        self.add(Verdict::Failure, name, detail.as_ref(), Some(advice));
    }

    pub(crate) fn add(&mut self, verdict: Verdict, name: &str, detail: &str, advice: Advice<'_>) {
        let (detail, advice) = (with_location(detail), advice.map(with_location));
        let (word, sign) = match verdict {
            Verdict::Pass => ("good", self.out.styled(Style::Success, "✔")),
            Verdict::Warning => ("note", self.out.styled(Style::Warning, "!")),
            Verdict::Failure => ("bad", self.out.styled(Style::Error, "✘")),
        };
        self.warnings += usize::from(verdict == Verdict::Warning);
        self.failures += usize::from(verdict == Verdict::Failure);
        if self.json {
            let line =
                json!({"type": "check", "name": name, "health": word, "detail": detail, "mend": advice});
            self.out.json(&line);
            return;
        }
        let room = self.room();
        let mut lines = detail.lines().flat_map(|line| wrapped(line, room, room, usize::MAX));
        self.out.line(format!("{sign} {name:<14} {}", lines.next().unwrap_or_default()));
        lines.for_each(|line| self.out.line(format!("{:BEFORE_DETAIL$}{line}", "")));
        if let Some(advice) = advice {
            self.out.line(format!("  {:<14} → {advice}", ""));
        }
    }

    fn room(&self) -> usize {
        if self.out.is_terminal() {
            self.out.size().0.saturating_sub(BEFORE_DETAIL).max(DETAIL_MIN)
        } else {
            usize::MAX
        }
    }

    /// Prints the last line, and returns the exit code.
    pub(crate) fn end(mut self) -> u8 {
        if !self.json {
            let line = match (self.failures, self.warnings) {
                (0, 0) => "nothing is broken".to_owned(),
                (0, _) => "nothing is broken; lines marked with ! may need action".to_owned(),
                (1, _) => "1 check failed".to_owned(),
                (failures, _) => format!("{failures} checks failed"),
            };
            self.out.line(line);
        }
        if self.failures > 0 { code::STORE } else { code::SUCCEEDED }
    }
}
