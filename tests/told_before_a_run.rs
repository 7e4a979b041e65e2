//! What the built-in tools would refuse at run time is told before: unknown, missing and wrong parameters, and texts
//! that cannot be read as what they should be. Each fault at its place.
#![allow(clippy::unwrap_used, reason = "a test that meets an error has failed, and says where")]

use std::collections::BTreeMap;

use expect_test::{Expect, expect};
use ostler::plan_file::{Finding, Format, PlanFile};
use ostler_actors::Toolbox;
use ostler_drivers::tool::{ToolConfig, builtin};
use ostler_kernel::plan::Settings;

/// What is told of a text, a line each: code, place, what is there, what is wrong, what would mend it.
fn told(format: Format, text: &str) -> String {
    let toolbox = Toolbox::new(builtin(&ToolConfig::default())).unwrap();
    let file = PlanFile::parse("p", format, text, &BTreeMap::new());
    let findings = match file.validate(&Settings::real(4, &toolbox)) {
        Ok((_, advice)) => advice,
        Err(findings) => findings,
    };
    let line = |finding: &Finding| {
        let (node, place) = (finding.node.as_deref().unwrap_or("*"), finding.place.unwrap());
        let there: String = text[place.offset..].chars().take(8).collect();
        format!(
            "{} {node} {}:{} {there:?}: {}; {}\n",
            finding.code, place.line, place.column, finding.detail, finding.mend
        )
    };
    findings.iter().map(line).collect()
}

/// Nodes as YAML, after a node `list` of `fs.list`.
#[track_caller]
fn check(nodes: &str, expected: Expect) {
    let list = "  - {id: list, tool: fs.list, params: {path: .}}";
    expected.assert_eq(&told(Format::Yaml, &format!("id: p\nnodes:\n{list}\n{nodes}\n")));
}

#[test]
fn names_are_those_of_the_tool() {
    check("  - {id: a, tool: fs.read, params: {pth: x, max_byte: 3}}", expect![""]);
    check("  - {id: a, tool: fs.read}", expect![""]);
    check("  - {id: a, tool: text.stats, param_refs: {fles: {from: list, path: files}}}", expect![""]);
    check(
        "  - {id: a, tool: text.stats, params: {}, param_refs: {files: {from: list, path: files}}}",
        expect![""],
    );
    check("  - {id: a, kind: aggregator, deps: [list], params: {templat: x}}", expect![""]);
}

#[test]
fn values_fit_the_schema_and_are_not_repeated() {
    check("  - {id: a, tool: time.sleep, params: {ms: soon}}", expect![""]);
    check("  - {id: a, tool: time.sleep, params: {ms: -1}}", expect![""]);
    check("  - {id: a, tool: fs.write, params: {path: x, text: [1], mode: creat}}", expect![""]);
    check("  - {id: a, tool: shell.run, params: {argv: [git, 7]}}", expect![""]);
    check("  - {id: a, tool: shell.run, params: {argv: []}}", expect![""]);
    check("  - {id: a, tool: http.request, params: {method: FETCH, url: 'http://x'}}", expect![""]);
}

#[test]
fn texts_can_be_read_as_what_they_should_be() {
    check("  - {id: a, tool: text.search, params: {pattern: 'a(', path: .}}", expect![""]);
    check("  - {id: a, tool: text.search, params: {pattern: '(?=a)b'}}", expect![""]);
    check("  - {id: a, tool: text.search, params: {pattern: 'a{9}{9}{9}{9}{9}{9}{9}'}}", expect![""]);
    check("  - {id: a, tool: fs.list, params: {path: ., glob: '[z'}}", expect![""]);
    check("  - {id: a, tool: json.query, params: {value: {}, query: '$.a['}}", expect![""]);
    check("  - {id: a, tool: text.render, params: {template: '{{ a', values: {}}}", expect![""]);
    check("  - {id: a, kind: aggregator, deps: [list], params: {template: '{% if x %}'}}", expect![""]);
    check(
        "  - {id: a, tool: fs.read, params: {path: x}, contract: [{method: schema}, {method: code, spec: {check: matches, path: text, value: '('}}]}",
        expect![""],
    );
    check(
        "  - {id: a, tool: fs.read, params: {path: x}, contract: [{method: code, spec: {check: non_emty}}]}",
        expect![""],
    );
    check(
        "  - {id: a, tool: fs.read, params: {path: x}, contract: [{method: test, spec: {argv: make}}]}",
        expect![""],
    );
    check(
        "  - {id: a, tool: fs.read, params: {path: x}, contract: [{method: schema, spec: {type: objekt}}]}",
        expect![""],
    );
}

#[test]
fn references_are_judged_by_what_the_source_can_have() {
    check("  - {id: a, tool: fs.read, param_refs: {path: {from: list, path: files.x}}}", expect![""]);
    check("  - {id: a, tool: fs.read, param_refs: {path: {from: list, path: fles}}}", expect![""]);
    check("  - {id: a, tool: fs.read, param_refs: {path: {from: list, path: files.0}}}", expect![""]);
}

#[test]
fn each_fault_of_a_node_stands_at_its_own_place() {
    check("  - {id: a, tool: time.sleep, params: {ms: 1}, deps: [lst, nowhere, list, lits]}", expect![""]);
    check("  - {id: list, tool: time.sleep, params: {ms: 1}, timeout: 0, retries: -1}", expect![""]);
    check(
        "  - {id: a, tool: time.sleep, params: {ms: 1}, deps: [b]}\n  - {id: b, tool: time.sleep, params: {ms: 1}, deps: [list, c]}\n  - {id: c, tool: time.sleep, params: {ms: 1}, deps: [a]}",
        expect![""],
    );
}

#[test]
fn json_and_toml_have_the_same_places() {
    let json = r#"{"id": "p", "nodes": [
  {"id": "a", "tool": "time.sleep", "params": {"ms": "x", "mss": 1}, "deps": ["b", "c"]},
  {"id": "a", "tool": "time.slep", "params": {"ms": 1}, "contract": [{"method": "code"}]}
]}"#;
    expect![""].assert_eq(&told(Format::Json, json));
    let toml = "id = \"p\"\n[[nodes]]\nid = \"a\"\ntool = \"time.sleep\"\ndeps = [\"b\", \"c\"]\n[nodes.params]\nms = \"x\"\nmss = 1\n[[nodes]]\nid = \"a\"\ntool = \"time.slep\"\nparams.ms = 1\ncontract = [{method = \"code\"}]\n";
    expect![""].assert_eq(&told(Format::Toml, toml));
}
