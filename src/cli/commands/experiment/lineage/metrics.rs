//! Metrics of the paper, computed from bytes and from marked statements such as `- [A1] …`.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

/// A result of a node.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Artifact {
    pub(super) bytes: Vec<u8>,
    pub(super) value: Value,
}

/// Results by node.
pub(super) type Artifacts = BTreeMap<String, Artifact>;

impl Artifact {
    pub(super) fn of(value: Value) -> Artifact {
        Artifact { bytes: value.to_string().into_bytes(), value }
    }

    /// All texts of the value, one after another.
    pub(super) fn text(&self) -> String {
        let mut text = String::new();
        add_texts(&self.value, &mut text);
        text
    }

    /// Lines that begin with the mark of a statement, such as `- [C`.
    pub(super) fn marked(&self, mark: &str) -> BTreeSet<String> {
        self.text().lines().map(str::trim).filter(|line| line.starts_with(mark)).map(str::to_owned).collect()
    }

    /// Statements and open questions.
    fn statements(&self) -> BTreeSet<String> {
        self.marked("- [").into_iter().chain(self.marked("? [")).collect()
    }
}

fn add_texts(value: &Value, text: &mut String) {
    match value {
        Value::String(part) => *text += &format!("{part}\n"),
        Value::Array(items) => items.iter().for_each(|item| add_texts(item, text)),
        Value::Object(members) => members.values().for_each(|member| add_texts(member, text)),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// Share of the named artifacts whose bytes are the same; 1 if none is named.
pub(super) fn preserved(before: &Artifacts, after: &Artifacts, names: &BTreeSet<String>) -> f64 {
    share(names.iter().filter(|name| before[*name].bytes == after[*name].bytes).count(), names.len())
}

/// Share of the lines of the longer text that the other one lacks.
pub(super) fn churn(before: &Artifact, after: &Artifact) -> f64 {
    let (before, after) = (before.text(), after.text());
    let mut left: BTreeMap<&str, usize> = BTreeMap::new();
    before.lines().for_each(|line| *left.entry(line).or_default() += 1);
    let kept = after.lines().filter(|line| match left.get_mut(line) {
        Some(count) if *count > 0 => {
            *count -= 1;
            true
        }
        _ => false,
    });
    1.0 - share(kept.count(), before.lines().count().max(after.lines().count()))
}

/// Share of the named artifacts with the conditions of the memo, which an edit of the criteria changed.
pub(super) fn agreement(artifacts: &Artifacts, names: &[&str], memo: &Artifact) -> f64 {
    let conditions = memo.marked(CONDITION);
    share(names.iter().filter(|name| artifacts[**name].marked(CONDITION) == conditions).count(), names.len())
}

/// Mark of a condition of the criteria.
pub(super) const CONDITION: &str = "- [C";

/// Share of the statements of the memo that stand in one of `current`.
pub(super) fn precision<'a>(memo: &Artifact, current: impl Iterator<Item = &'a Artifact>) -> f64 {
    let known: BTreeSet<String> = current.flat_map(Artifact::statements).collect();
    let statements = memo.statements();
    share(statements.intersection(&known).count(), statements.len())
}

/// Share of the artifacts that have every statement of the same artifact written from scratch, in the same words.
pub(super) fn consistency(artifacts: &Artifacts, scratch: &Artifacts) -> f64 {
    let agrees = |(name, scratch): &(&String, &Artifact)| {
        artifacts.get(*name).is_some_and(|artifact| scratch.statements().is_subset(&artifact.statements()))
    };
    share(scratch.iter().filter(agrees).count(), scratch.len())
}

fn share(part: usize, whole: usize) -> f64 {
    if whole == 0 { 1.0 } else { part as f64 / whole as f64 }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn artifacts(texts: &[(&str, &str)]) -> Artifacts {
        texts.iter().map(|(name, text)| ((*name).to_owned(), Artifact::of(json!({"text": text})))).collect()
    }

    fn close(found: f64, expected: f64) {
        assert!((found - expected).abs() < 1e-9, "{found}, not {expected}");
    }

    #[test]
    fn bytes_decide_what_is_preserved_and_lines_what_is_churned() {
        let before = artifacts(&[("a", "x\ny"), ("b", "z")]);
        let after = artifacts(&[("a", "x\nw\nv"), ("b", "z")]);
        let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        close(preserved(&before, &after, &names(&["a", "b"])), 0.5);
        close(preserved(&before, &after, &names(&[])), 1.0);
        close(churn(&before["a"], &after["a"]), 2.0 / 3.0);
        close(churn(&before["b"], &after["b"]), 0.0);
    }

    #[test]
    fn statements_decide_what_agrees() {
        let state = artifacts(&[("criteria", "- [C1] a\n- [C4] b"), ("plan", "- [C1] a\n- [O1] c")]);
        let memo = Artifact::of(json!({"conditions": ["- [C1] a", "- [C4] b"], "more": "- [S1] d"}));
        close(agreement(&state, &["criteria", "plan"], &memo), 0.5);
        close(precision(&memo, state.values()), 2.0 / 3.0);
        let scratch =
            artifacts(&[("criteria", "- [C1] a"), ("plan", "- [C4] b\nremark"), ("memo", "remark")]);
        close(consistency(&state, &scratch), 1.0 / 3.0);
    }
}
