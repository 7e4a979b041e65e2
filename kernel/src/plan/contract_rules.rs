//! Normalisation of contract rules, and the budget for their compiled patterns.

use super::diagnostic::{Diagnostic, DiagnosticCode};
use super::draft::RuleDraft;
use super::pointer::Pointer;
use super::{Method, Rule};
use crate::contract::{self, CONTRACT_PATTERNS_BYTES_MAX, CONTRACT_RULES_MAX, PATTERNS_HELP, check_spec};

/// Bytes of compiled patterns in all contracts of a plan, repeated patterns counted each time. Bounds the
/// time of validation.
pub const PLAN_PATTERNS_BYTES_MAX: usize = 256 * 1024 * 1024;

/// Bytes of compiled patterns left for a plan; `None` after the budget was exceeded.
pub(super) struct PatternBudget(Option<usize>);

impl Default for PatternBudget {
    fn default() -> PatternBudget {
        PatternBudget(Some(PLAN_PATTERNS_BYTES_MAX))
    }
}

impl PatternBudget {
    /// Returns whether the budget was exceeded. The first excess is reported, later patterns are not compiled.
    fn is_over(&self) -> bool {
        self.0.is_none()
    }

    fn take(&mut self, bytes: usize) {
        self.0 = self.0.and_then(|left| left.checked_sub(bytes));
    }
}

/// Normalises the rules of `node`. A rule without a method becomes a V09 and a `code` rule, so that V14 and V16
/// do not count the rule as `human` or `model`. With a budget in `specs`, each spec is compiled once to check the spec; no
/// later stage checks specs again.
pub(super) fn normalise_rules(
    node: impl std::fmt::Display + Copy,
    drafts: Vec<RuleDraft>,
    specs: Option<&mut PatternBudget>,
    place: &dyn Fn() -> Pointer,
    faults: &mut Vec<Diagnostic>,
) -> Vec<Rule> {
    let mut specs = specs.map(|room| SpecChecker { room, bytes: 0 });
    if specs.is_some() && drafts.len() > CONTRACT_RULES_MAX {
        let help = "use fewer rules: one schema can check many things";
        let detail = contract::too_many_rules(drafts.len());
        faults.push(Diagnostic::new(DiagnosticCode::V09, node, detail, help).at(&place()));
        specs = None;
    }
    let judged = drafts.into_iter().enumerate().map(|(at, draft)| {
        let place = || place().item(at);
        let named = draft.method.is_some();
        let rule = Rule { method: draft.method.unwrap_or(Method::Code), p: draft.p, spec: draft.spec };
        if !named {
            let detail = format!("contract[{at}] has no method");
            let help = "set `method` to schema, code, test, model or human";
            faults.push(Diagnostic::new(DiagnosticCode::V09, node, detail, help).at(&place()));
        } else if let Some(specs) = &mut specs {
            faults.extend(specs.judge(&rule, at, node, &place));
        }
        rule
    });
    judged.collect()
}

struct SpecChecker<'a> {
    room: &'a mut PatternBudget,
    /// Compiled size of the contract's patterns so far.
    bytes: usize,
}

impl SpecChecker<'_> {
    fn judge(
        &mut self,
        rule: &Rule,
        at: usize,
        node: impl std::fmt::Display,
        place: &dyn Fn() -> Pointer,
    ) -> Option<Diagnostic> {
        if self.room.is_over() || self.bytes > CONTRACT_PATTERNS_BYTES_MAX {
            return None;
        }
        let spec = || place().key("spec");
        let fault = |what: &str, help: &str, place: &Pointer| {
            let detail = format!("contract[{at}] is invalid: {what}");
            Some(Diagnostic::new(DiagnosticCode::V09, &node, detail, help).at(place))
        };
        let bytes = match check_spec(rule) {
            Ok(bytes) => bytes,
            Err(wrong) => {
                self.room.take(contract::pattern_bytes_at_most(rule));
                let place = if rule.spec.is_some() { spec().join(&wrong.pointer) } else { place() };
                return fault(&wrong.what, &wrong.help, &place);
            }
        };
        self.bytes += bytes;
        if self.bytes > CONTRACT_PATTERNS_BYTES_MAX {
            return fault(&contract::patterns_too_large(), PATTERNS_HELP, &spec());
        }
        self.room.take(bytes);
        self.room.is_over().then(|| {
            let detail = format!(
                "with contract[{at}] of {node}, the compiled patterns of the plan exceed {PLAN_PATTERNS_BYTES_MAX} bytes \
                 once they are compiled"
            );
            Diagnostic::new(DiagnosticCode::V13, Diagnostic::PLAN, detail, PATTERNS_HELP).at(&spec())
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn matches(pattern: &str) -> RuleDraft {
        let spec = json!({"check": "matches", "value": pattern});
        RuleDraft { method: Some(Method::Code), p: None, spec: Some(spec.into()) }
    }

    #[test]
    fn rules_are_judged_as_long_as_their_patterns_have_room_in_the_plan() {
        let mut room = PatternBudget(Some(8 * 1024)); // for two small ones
        let mut told = |node: &str, patterns: &[&str]| -> Vec<String> {
            let mut faults = Vec::new();
            let drafts = patterns.iter().map(|pattern| matches(pattern)).collect();
            normalise_rules(node, drafts, Some(&mut room), &|| Pointer::root().key(node), &mut faults);
            faults.iter().map(|fault| format!("{} {} {}", fault.code, fault.node, fault.pointer)).collect()
        };
        assert_eq!(told("a", &["x"]), [""; 0]);
        assert_eq!(told("b", &["x", "x", "("]), ["V13 * /b/1/spec"]);
        assert_eq!(told("c", &["x", "("]), [""; 0], "told once, and then looked at no more");
    }

    #[test]
    fn rules_that_cannot_be_judged_by_are_told_as_long_as_finding_out_has_room() {
        let large = r"\w{1000}"; // larger than any may be
        let mut room = PatternBudget(Some(0));
        let no_patterns =
            RuleDraft { method: Some(Method::Code), p: None, spec: Some(json!({"check": "?"}).into()) };
        let (mut faults, drafts) = (Vec::new(), vec![no_patterns, matches(large), matches(large)]);
        normalise_rules("a", drafts, Some(&mut room), &Pointer::root, &mut faults);
        assert_eq!(faults.len(), 2, "{faults:#?}");
    }
}
