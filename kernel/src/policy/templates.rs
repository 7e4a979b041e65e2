//! Templates: learnt plans that a planner is shown, because they have worked for a goal like this one.

use serde::{Deserialize, Serialize};

use super::{shared_words, words};

/// Templates that a planner is shown.
pub const TEMPLATES_SHOWN_MAX: usize = 3;

/// Bytes of a template that a planner is shown; larger ones are not.
pub const TEMPLATE_BYTES_MAX: usize = 4 << 10;

/// A line of a template by which it is not shown to planners, until a person removes the line.
pub const UNREVIEWED_MARK: &str =
    "# unreviewed: texts of strangers may have steered these steps, so no planner is shown them";

/// A stored template.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Template {
    /// Name of the template.
    pub name: String,
    /// Title of the plan, or the goal that the template was learnt from.
    pub title: String,
    /// The plan file.
    pub text: String,
}

/// What became of runs of a template.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TemplateRecord {
    /// Closed runs.
    pub runs: u64,
    /// Closed runs that succeeded.
    pub succeeded: u64,
    /// Cost of the runs together, in credits.
    pub credits: u64,
    /// Tokens of the runs together.
    pub tokens: u64,
}

/// A template in the prompt of a planner.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OfferedTemplate {
    /// Name of the template.
    pub name: String,
    /// The plan file.
    pub text: String,
}

impl Template {
    /// Words that the template shares with a goal, which [`words`] has made. 0 for a template that no planner is shown.
    pub fn rank(&self, goal: &[String]) -> usize {
        let is_shown =
            self.text.len() <= TEMPLATE_BYTES_MAX && !self.text.lines().any(|line| line == UNREVIEWED_MARK);
        if is_shown { shared_words(goal, &format!("{} {}", self.name, self.title)) } else { 0 }
    }
}

impl TemplateRecord {
    /// Chance of success by the rule of succession, in millionths: one half without runs.
    fn success(&self) -> u64 {
        let (succeeded, runs) = (self.succeeded.min(self.runs), self.runs);
        succeeded.saturating_add(1).saturating_mul(1_000_000) / runs.saturating_add(2)
    }

    fn credits_per_run(&self) -> u64 {
        self.credits / self.runs.max(1)
    }
}

/// The best templates for a goal: by shared words, then by success, then by cost, then by name. One without a shared word is none.
pub fn best_templates(goal: &str, known: Vec<(Template, TemplateRecord)>) -> Vec<OfferedTemplate> {
    let goal = words(goal);
    let ranked = known.into_iter().map(|(template, record)| {
        let shared = template.rank(&goal);
        let order =
            (std::cmp::Reverse(shared), std::cmp::Reverse(record.success()), record.credits_per_run());
        (order, shared, template)
    });
    let mut ranked: Vec<_> = ranked.filter(|(_, shared, _)| *shared > 0).collect();
    ranked.sort_by(|(a, _, one), (b, _, other)| a.cmp(b).then_with(|| one.name.cmp(&other.name)));
    let best = ranked.into_iter().take(TEMPLATES_SHOWN_MAX);
    best.map(|(_, _, Template { name, text, .. })| OfferedTemplate { name, text }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn template(name: &str, title: &str) -> Template {
        Template { name: name.to_owned(), title: title.to_owned(), text: "nodes: []".to_owned() }
    }

    fn record(runs: u64, succeeded: u64, credits: u64) -> TemplateRecord {
        TemplateRecord { runs, succeeded, credits, tokens: 0 }
    }

    #[track_caller]
    fn check(known: Vec<(Template, TemplateRecord)>, expected: &[&str]) {
        let best = best_templates("Count the words in the notes", known);
        let names: Vec<&str> = best.iter().map(|template| template.name.as_str()).collect();
        assert_eq!(names, expected);
    }

    #[test]
    fn words_come_first_then_success_then_cost_then_the_name() {
        let none = TemplateRecord::default();
        check(
            vec![(template("a", "count words"), none), (template("b", "count words of notes"), none)],
            &["b", "a"],
        );
        check(
            vec![
                (template("fails", "notes"), record(4, 1, 0)),
                (template("new", "notes"), none),
                (template("works", "notes"), record(4, 4, 9_000)),
                (template("cheap", "notes"), record(4, 4, 90)),
            ],
            &["cheap", "works", "new"],
        );
        check(vec![(template("b", "notes"), none), (template("a", "notes"), none)], &["a", "b"]);
        check(vec![(template("other", "deploy the server"), record(9, 9, 0))], &[]);
    }

    #[test]
    fn what_is_too_large_or_unreviewed_is_not_shown() {
        let sized = |bytes| Template { text: "x".repeat(bytes), ..template("sized", "notes") };
        check(vec![(sized(TEMPLATE_BYTES_MAX), TemplateRecord::default())], &["sized"]);
        check(vec![(sized(TEMPLATE_BYTES_MAX + 1), TemplateRecord::default())], &[]);
        let unreviewed =
            Template { text: format!("# x\n{UNREVIEWED_MARK}\n"), ..template("unreviewed", "notes") };
        check(vec![(unreviewed, TemplateRecord::default())], &[]);
    }
}
