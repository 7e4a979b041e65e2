//! Faults of plans and other files, as text or JSON. Text output omits faults that follow from others, and shows only the first of many alike.

use std::collections::HashSet;

use ostler::finding::{Finding, RenderStyle, Source};
use ostler::plan_file::PlanFile;
use serde_json::json;

use crate::cli::exit::Failure;
use crate::cli::output::cells::fit_name;
use crate::cli::output::terminal::{Out, status_line, stderr_finding_look};
use crate::cli::output::units::plural;

const ADVICE_SHOWN_MAX: usize = 3;

const FAULTS_SHOWN_MAX: usize = 8;

/// Code of a cycle, reported once per node.
const CYCLE: &str = "V04";

/// Reports the faults of a plan, and whether more faults may be hidden behind them.
pub(crate) fn report_plan(file: &PlanFile, findings: &[Finding], json: bool, out: &mut Out) -> Failure {
    report_all(file.source(), findings, file.hides_more(), json, out)
}

/// Reports the faults of a file: all as JSON on stdout, or the causes as text on stderr.
pub(crate) fn report(source: &Source, findings: &[Finding], json: bool, out: &mut Out) -> Failure {
    report_all(source, findings, false, json, out)
}

fn report_all(source: &Source, findings: &[Finding], hides_more: bool, json: bool, out: &mut Out) -> Failure {
    let findings = &in_order(findings);
    let more = |many: usize| match (hides_more, many) {
        (false, _) => "",
        (true, 1) => "; it may hide further ones",
        (true, _) => "; they may hide further ones",
    };
    if json {
        findings.iter().for_each(|finding| out.json(&finding_json(source, finding)));
        let many = findings.len();
        return Failure::invalid(format!("{} has {}{}", source.name(), plural(many, "fault"), more(many)));
    }
    let (causes, follow) = causes(findings);
    format_findings(source, &causes, stderr_finding_look()).iter().for_each(status_line);
    let rest = match follow {
        0 => String::new(),
        1 => "; 1 more follows from it".to_owned(),
        many => format!("; {many} more follow from these"),
    };
    let many = causes.len();
    Failure::invalid(format!("{} has {}{rest}{}", source.name(), plural(many, "fault"), more(many)))
}

/// Sorts findings by place in the file; those without a place come last.
pub(crate) fn in_order(findings: &[Finding]) -> Vec<Finding> {
    let mut sorted = findings.to_vec();
    sorted.sort_by_key(|finding| finding.place.map_or(usize::MAX, |place| place.offset));
    sorted
}

/// Returns the faults that need a fix of their own, each cycle once, and the number of faults that follow
/// from them.
fn causes(findings: &[Finding]) -> (Vec<&Finding>, usize) {
    let (mut causes, mut follow): (Vec<&Finding>, usize) = (Vec::new(), 0);
    let leads_nowhere = findings.iter().any(|finding| finding.code == "V03");
    let without_tool: HashSet<_> =
        findings.iter().filter(|finding| finding.code == "V20").map(|finding| &finding.node).collect();
    let mut cycles = HashSet::new();
    for finding in findings {
        // An edge to a missing node leaves its source unused, and a missing tool has no contract.
        let follows = match finding.code.as_str() {
            "V05" => leads_nowhere,
            "V08" => without_tool.contains(&finding.node),
            _ => false,
        };
        if follows {
            follow += 1;
        } else if finding.code != CYCLE || cycles.insert(&finding.detail) {
            // Every node of a cycle reports the same detail.
            causes.push(finding);
        }
    }
    (causes, follow)
}

/// Formats findings as text, in order: the first of each code in full, then the number of others.
pub(crate) fn format_findings(source: &Source, findings: &[&Finding], look: RenderStyle) -> Vec<String> {
    let mut codes: Vec<&str> = Vec::new();
    for finding in findings {
        if !codes.contains(&finding.code.as_str()) {
            codes.push(&finding.code);
        }
    }
    let (mut full, mut rest) = (Vec::new(), Vec::new());
    for code in codes {
        let alike: Vec<&Finding> = findings.iter().copied().filter(|finding| finding.code == code).collect();
        let most = if alike[0].is_advice() { ADVICE_SHOWN_MAX } else { FAULTS_SHOWN_MAX };
        // Reporting one more takes as much room as showing it.
        let most = if alike.len() == most + 1 { alike.len() } else { most.min(alike.len()) };
        full.extend_from_slice(&alike[..most]);
        if most < alike.len() {
            rest.push(summarise(code, &alike[most..]));
        }
    }
    full.sort_by_key(|finding| finding.place.map_or(usize::MAX, |place| place.offset));
    full.into_iter().map(|finding| source.show(finding, look)).chain(rest).collect()
}

/// Summarises findings that are not shown: their number, and their nodes or lines.
fn summarise(code: &str, rest: &[&Finding]) -> String {
    let nodes = rest.iter().filter_map(|finding| finding.node.as_deref());
    let mut nodes: Vec<String> = nodes.map(|node| fit_name(node, usize::MAX)).collect();
    nodes.dedup();
    let lines = rest.iter().filter_map(|finding| finding.place).map(|place| place.line.to_string());
    let mut lines: Vec<String> = lines.collect();
    lines.dedup();
    let of = match (nodes.as_slice(), lines.as_slice()) {
        ([], []) => String::new(),
        ([], [line]) => format!(", in line {line}"),
        ([], lines) => format!(", in lines {}", first_names(lines)),
        ([node], _) => format!(", of node {node}"),
        (nodes, _) => format!(", of nodes {}", first_names(nodes)),
    };
    format!("{code}: {} more like these{of}; --json lists all\n", rest.len())
}

fn first_names(names: &[impl AsRef<str>]) -> String {
    let more = if names.len() > NAMES_SHOWN_MAX { ", …" } else { "" };
    let named: Vec<&str> = names.iter().take(NAMES_SHOWN_MAX).map(AsRef::as_ref).collect();
    format!("{}{more}", named.join(", "))
}

pub(crate) fn finding_json(source: &Source, finding: &Finding) -> serde_json::Value {
    json!({
        "type": if finding.is_advice() { "advice" } else { "fault" },
        "code": finding.code, "node": finding.node, "detail": finding.detail, "mend": finding.help,
        "file": source.name(), "line": finding.place.map(|place| place.line),
        "column": finding.place.map(|place| place.column),
        "source": finding.place.map(|place| source.line(place)), "url": finding.url(),
    })
}

/// Names listed before an ellipsis.
pub(crate) const NAMES_SHOWN_MAX: usize = 12;

#[cfg(test)]
mod tests {
    use super::*;

    fn finding(code: &str, node: Option<&str>, line: usize, detail: &str) -> Finding {
        let source = Source::new("p", &"x\n".repeat(100));
        let (code, node, help) = (code.to_owned(), node.map(str::to_owned), String::new());
        Finding { code, node, detail: detail.to_owned(), help, place: Some(source.place(2 * (line - 1))) }
    }

    #[test]
    fn of_many_that_are_alike_the_first_are_shown_and_the_rest_is_named() {
        let source = Source::new("p", &"x\n".repeat(100));
        for (code, many, has_nodes, full, rest) in [
            ("W01", 4, true, 4, None),
            ("W01", 5, true, 3, Some("W01: 2 more like these, of nodes n4, n5; --json lists all\n")),
            ("W01", 5, false, 3, Some("W01: 2 more like these, in lines 4, 5; --json lists all\n")),
            ("V03", 9, true, 9, None),
            ("V03", 10, true, 8, Some("V03: 2 more like these, of nodes n9, n10; --json lists all\n")),
            (
                "W01",
                50,
                true,
                3,
                Some(
                    "W01: 47 more like these, of nodes n4, n5, n6, n7, n8, n9, n10, n11, n12, n13, n14, n15, …; \
                     --json lists all\n",
                ),
            ),
        ] {
            let name = |at: usize| has_nodes.then(|| format!("n{at}"));
            let found: Vec<Finding> =
                (1..=many).map(|at| finding(code, name(at).as_deref(), at, "is so")).collect();
            let lines = format_findings(&source, &found.iter().collect::<Vec<_>>(), RenderStyle::default());
            let in_full = lines.iter().filter(|lines| lines.contains("is so")).count();
            let last = lines.last().map(String::as_str).filter(|lines| lines.contains("more like these"));
            assert_eq!((in_full, last), (full, rest), "{code} {many}");
        }
    }

    #[test]
    fn findings_are_told_in_the_order_of_the_file() {
        let found = [
            finding("V03", Some("b"), 7, "third"),
            finding("V03", Some("c"), 2, "first"),
            finding("V20", Some("a"), 5, "second"),
            Finding { place: None, ..finding("parameter", None, 1, "last") },
        ];
        let source = Source::new("p", &"x\n".repeat(100));
        let sorted = in_order(&found);
        let details: Vec<&str> = sorted.iter().map(|finding| finding.detail.as_str()).collect();
        assert_eq!(details, ["first", "second", "third", "last"]);
        let lines = format_findings(&source, &found.iter().collect::<Vec<_>>(), RenderStyle::default());
        let places = lines.iter().zip(details).map(|(lines, detail)| lines.contains(detail));
        assert_eq!(places.collect::<Vec<_>>(), [true; 4], "{lines:?}");
    }

    #[test]
    fn a_cycle_is_one_cause_and_what_follows_is_counted() {
        let found = [
            finding("V03", Some("x"), 1, "needs y"),
            finding("V04", Some("a"), 1, "is in a cycle: a -> b -> a"),
            finding("V04", Some("b"), 2, "is in a cycle: a -> b -> a"),
            finding("V04", Some("c"), 3, "is in a cycle: c -> d -> c"),
            finding("V05", Some("e"), 4, "leads nowhere"),
        ];
        let (causes, follow) = causes(&found);
        let causes: Vec<_> = causes.iter().filter_map(|finding| finding.node.as_deref()).collect();
        assert_eq!((causes, follow), (vec!["x", "a", "c"], 1));
    }
}
