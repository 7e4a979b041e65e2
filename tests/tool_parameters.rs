//! Plan validation reports what built-in tools would reject at run time: unknown, missing and invalid
//! parameters, and unparsable texts, each at its place.
#![allow(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

use std::collections::BTreeMap;

use expect_test::{Expect, expect};
use ostler::plan_file::{Finding, Format, PlanFile};
use ostler_actors::Toolbox;
use ostler_drivers::tool::{ToolConfig, builtin};
use ostler_kernel::plan::Settings;

/// Faults of a text, one per line: code, place, value, problem and fix.
fn told(format: Format, text: &str) -> String {
    let toolbox = Toolbox::new(builtin(&ToolConfig::default(), None)).unwrap();
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
            finding.code, place.line, place.column, finding.detail, finding.help
        )
    };
    findings.iter().map(line).collect()
}

/// Checks nodes in YAML, after a node `list` of `fs.list`.
#[track_caller]
fn check(nodes: &str, expected: Expect) {
    let list = "  - {id: list, tool: fs.list, params: {path: .}}";
    expected.assert_eq(&told(Format::Yaml, &format!("id: p\nnodes:\n{list}\n{nodes}\n")));
}

#[test]
fn names_are_those_of_the_tool() {
    check(
        "  - {id: a, tool: fs.read, params: {pth: x, max_byte: 3}}",
        expect![[r#"
            V23 a 4:45 "max_byte": fs.read: unknown parameter `max_byte`; did you mean "max_bytes"?
            V23 a 4:37 "pth: x, ": fs.read: unknown parameter `pth`; did you mean "path"?
        "#]],
    );
    check(
        "  - {id: a, tool: fs.read}",
        expect![[r#"
        V23 a 4:19 "fs.read}": fs.read: missing parameter `path`; add `path` to params, or to param_refs
    "#]],
    );
    check(
        "  - {id: a, tool: text.stats, param_refs: {fles: {from: list, path: files}}}",
        expect![[r#"
            V23 a 4:44 "fles: {f": text.stats: unknown parameter `fles`; did you mean "files"?
        "#]],
    );
    check(
        "  - {id: a, tool: text.stats, params: {}, param_refs: {files: {from: list, path: files}}}",
        expect![""],
    );
    check(
        "  - {id: a, kind: aggregator, deps: [list], params: {templat: x}}",
        expect![[r#"
            V23 a 4:54 "templat:": aggregator: unknown parameter `templat`; did you mean "template"?
        "#]],
    );
}

#[test]
fn values_fit_the_schema_and_are_not_repeated() {
    check(
        "  - {id: a, tool: time.sleep, params: {ms: soon}}",
        expect![[r#"
        V24 a 4:44 "soon}}\n": time.sleep: params.ms: must be a whole number, found a text; give it a whole number
    "#]],
    );
    check(
        "  - {id: a, tool: time.sleep, params: {ms: \"10\"}}",
        expect![[r#"
        V24 a 4:44 "\"10\"}}\n": time.sleep: params.ms: must be a whole number, found a text; remove the quotes
    "#]],
    );
    check(
        "  - {id: a, tool: shell.run, params: {argv: [head, -1, notes.md]}}",
        expect![[r#"
        V24 a 4:52 "-1, note": shell.run: params.argv.1: must be a text, found a negative number; write it in quotes
    "#]],
    );
    check(
        "  - {id: a, tool: time.sleep, params: {ms: -1}}",
        expect![[r#"
        V24 a 4:44 "-1}}\n": time.sleep: params.ms: must be 0 or more; give it 0 or more
    "#]],
    );
    check(
        "  - {id: a, tool: fs.write, params: {path: x, text: [1], mode: creat}}",
        expect![[r#"
        V24 a 4:64 "creat}}\n": fs.write: params.mode: must be one of create, replace, append; did you mean "create"?
        V24 a 4:47 "text: [1": fs.write: params.text: must be a text, found a list; give it a text
    "#]],
    );
    check(
        "  - {id: a, tool: shell.run, params: {argv: [git, 7]}}",
        expect![[r#"
        V24 a 4:51 "7]}}\n": shell.run: params.argv.1: must be a text, found a whole number; write it in quotes
    "#]],
    );
    check(
        "  - {id: a, tool: shell.run, params: {argv: []}}",
        expect![[r#"
        V24 a 4:39 "argv: []": shell.run: params.argv: must not be empty; give it an item
    "#]],
    );
    check(
        "  - {id: a, tool: http.request, params: {method: FETCH, url: 'http://x'}}",
        expect![[r#"
        V24 a 4:50 "FETCH, u": http.request: params.method: must be one of GET, HEAD, PUT, DELETE, POST, PATCH; did you mean "PATCH"?
    "#]],
    );
}

#[test]
fn texts_can_be_read_as_what_they_should_be() {
    check(
        "  - {id: a, tool: text.search, params: {pattern: 'a(', path: .}}",
        expect![[r#"
        V24 a 4:50 "'a(', pa": text.search: params.pattern: no regular expression: unclosed group; write a regular expression of the `regex` crate: no look-around, no back-references
    "#]],
    );
    check(
        "  - {id: a, tool: text.search, params: {pattern: '(?=a)b'}}",
        expect![[r#"
        V24 a 4:50 "'(?=a)b'": text.search: params.pattern: no regular expression: look-around, including look-ahead and look-behind, is not supported; write a regular expression of the `regex` crate: no look-around, no back-references
    "#]],
    );
    check(
        "  - {id: a, tool: text.search, params: {pattern: 'a{9}{9}{9}{9}{9}{9}{9}'}}",
        expect![[r#"
        V24 a 4:50 "'a{9}{9}": text.search: params.pattern: no regular expression: it compiles to more than 1048576 bytes; write a regular expression of the `regex` crate: no look-around, no back-references
    "#]],
    );
    check(
        "  - {id: a, tool: fs.list, params: {path: ., glob: '[z'}}",
        expect![[r#"
        V24 a 4:52 "'[z'}}\n": fs.list: params.glob: no glob: unclosed character class; missing ']'; write a glob, such as **/*.rs: * stays within a folder, ** crosses them
    "#]],
    );
    check(
        "  - {id: a, tool: json.query, params: {value: {}, query: '$.a['}}",
        expect![[r#"
        V24 a 4:58 "'$.a['}}": json.query: params.query: no JSONPath query: at position 3, parser error; write a JSONPath query (RFC 9535), such as $.items[*].name
    "#]],
    );
    check(
        "  - {id: a, tool: text.render, params: {template: '{{ a', values: {}}}",
        expect![[r#"
            V24 a 4:51 "'{{ a', ": text.render: params.template: line 1: syntax error: unexpected end of input, expected end of variable block at `a`; use minijinja syntax: {{ value }}, {% if … %}
        "#]],
    );
    check(
        "  - {id: a, tool: text.render, params: {template: \"a\\n{{ b | uper }}\", values: {}}}",
        expect![[r#"
            V24 a 4:51 "\"a\\n{{ b": text.render: params.template: line 2: unknown filter uper; did you mean upper?
        "#]],
    );
    check(
        "  - {id: a, kind: aggregator, deps: [list], params: {template: '{{ rnage(3) }}'}}",
        expect![[r#"
            V24 a 4:64 "'{{ rnag": aggregator: params.template: line 1: unknown function rnage; use minijinja syntax: {{ value }}, {% if … %}
        "#]],
    );
    check(
        "  - {id: a, kind: aggregator, deps: [list], params: {template: '{% if x %}'}}",
        expect![[r#"
            V24 a 4:64 "'{% if x": aggregator: params.template: line 1: syntax error: unexpected end of input, expected end of block at `%}`; use minijinja syntax: {{ value }}, {% if … %}
        "#]],
    );
    check(
        "  - {id: a, tool: fs.read, params: {path: x}, contract: [{method: schema}, {method: code, spec: {check: matches, path: text, value: '('}}]}",
        expect![[r#"
            V09 a 4:133 "'('}}]}\n": contract[1] is invalid: the pattern is not a regular expression: unclosed group; write a regular expression of the `regex` crate: no look-around
        "#]],
    );
    check(
        "  - {id: a, tool: fs.read, params: {path: x}, contract: [{method: code, spec: {check: non_emty}}]}",
        expect![[r#"
            V09 a 4:87 "non_emty": contract[0] is invalid: unknown check "non_emty"; did you mean "non_empty"?
        "#]],
    );
    check(
        "  - {id: a, tool: fs.read, params: {path: x}, contract: [{method: test, spec: {argv: make}}]}",
        expect![[r#"
            V09 a 4:86 "make}}]}": contract[0] is invalid: `argv` must be a list of texts; give the program and its arguments: spec: {argv: [make, check]}
        "#]],
    );
    check(
        "  - {id: a, tool: fs.read, params: {path: x}, contract: [{method: schema, spec: {type: objekt}}]}",
        expect![[r#"
            V09 a 4:88 "objekt}}": contract[0] is invalid: schema at "/type": "objekt" is not valid under any of the schemas listed in the 'anyOf' keyword; use a JSON Schema, such as {type: object}
        "#]],
    );
}

#[test]
fn references_are_judged_by_what_the_source_can_have() {
    check(
        "  - {id: a, tool: fs.read, param_refs: {path: {from: list, path: files.x}}}",
        expect![[r#"
        V17 a 4:66 "files.x}": parameter path refers to files.x of list: files is a list, and x is not an index; use an item, such as files.0, or the whole list: files
    "#]],
    );
    check(
        "  - {id: a, tool: fs.read, param_refs: {path: {from: list, path: fles}}}",
        expect![[r#"
        V17 a 4:66 "fles}}}\n": parameter path refers to fles of list: the result has no fles; did you mean "files"?
    "#]],
    );
    check("  - {id: a, tool: fs.read, param_refs: {path: {from: list, path: files.0}}}", expect![""]);
}

#[test]
fn values_of_a_known_wrong_type_are_refused() {
    for good in [
        "{id: a, tool: fs.read, for_each: {from: list, path: files, as: path, max: 3}}",
        "{id: a, tool: time.sleep, param_refs: {ms: {from: list, path: count}}}",
        "{id: a, tool: text.stats, param_refs: {files: {from: list, path: files}}}",
        "{id: a, tool: fs.read, param_refs: {path: {from: list, path: count, template: \"{}.md\"}}}",
        "{id: a, tool: fs.list, params: {path: .}, when: {from: list, path: count, op: gt, value: 1}}",
        "{id: a, tool: fs.list, params: {path: .}, when: {from: list, path: files, op: contains, value: x}}",
        "{id: a, tool: fs.list, params: {path: .}, when: {from: list, path: count, op: eq, value: x}}",
    ] {
        check(&format!("  - {good}"), expect![""]);
    }
    check(
        "  - {id: a, tool: fs.read, param_refs: {path: {from: list, path: count}}}",
        expect![[r#"
        V24 a 4:66 "count}}}": fs.read: parameter path takes a text, and count of list is a number; refer to a text, or make one of it: `path: {from: list, path: count, template: "{}"}`
    "#]],
    );
    check(
        "  - {id: a, tool: shell.run, for_each: {from: list, path: files, as: argv, max: 3}}",
        expect![[r#"
            V24 a 4:70 "argv, ma": shell.run: parameter argv takes a list, and files.0 of list is a text; name a parameter in `as` that takes an element of the list, or go over another list
        "#]],
    );
    check(
        "  - {id: a, tool: time.sleep, param_refs: {ms: {from: list, path: files}}}",
        expect![[r#"
        V24 a 4:67 "files}}}": time.sleep: parameter ms takes a number, and files of list is a list; refer to a number
    "#]],
    );
    check(
        "  - {id: a, tool: fs.list, params: {path: .}, when: {from: list, path: count, op: gt, value: \"1\"}}",
        expect![[r#"
            V27 a 4:47 "when: {f": guard 1: count of list is a number, and `gt` needs a text; write `value` as a number
        "#]],
    );
    check(
        "  - {id: a, tool: fs.list, params: {path: .}, when: {from: list, path: files, op: lt, value: 1}}",
        expect![[r#"
            V27 a 4:47 "when: {f": guard 1: files of list is a list, and `lt` needs a number; ask for another path
        "#]],
    );
    check(
        "  - {id: a, tool: fs.list, params: {path: .}, when: {from: list, path: count, op: contains, value: 1}}",
        expect![[r#"
            V27 a 4:47 "when: {f": guard 1: count of list is a number, and `contains` needs a list, a text or an object; ask for another path, or use `eq`
        "#]],
    );
}

#[test]
fn a_help_names_what_can_be_written() {
    check(
        "  - {id: a, tool: fs.list, params: {path: .}, when: {from: list, path: size, op: gt, value: 1}}",
        expect![[r#"
            V17 a 4:47 "when: {f": a guard asks for size of list: the result has no size; known names: bytes, count, data_folders, files
        "#]],
    );
    check(
        "  - {id: a, tool: shell.run, params: {argv: [rm, x]}, impact: 0, effect: none}",
        expect![[r#"
        V15 a 4:74 "none}\n": effect none does not fit impact 2, the least of this call of shell.run; remove `effect`: it is external then
    "#]],
    );
    check(
        "  - {id: a, tool: fs.read, for_each: {from: list, path: files, max: 3}}",
        expect![[r#"
        V28 a 4:28 "for_each": for_each has no `as`, or one that is not 1 to 64 of A-Z a-z 0-9 _ -; write {from: NODE, path: PATH, as: PARAMETER, max: NUMBER}, and on_child: collect to keep what did not fail
    "#]],
    );
    check(
        "  - {id: a, kind: reflection, contract: [{method: code}]}",
        expect![[r#"
        V09 a 4:42 "{method:": contract[0] is invalid: a code rule needs a `spec`; add a `spec`, such as {check: non_empty, path: matches}
        V21 a 4:19 "reflecti": kind reflection has no executor here; use one of tool, model, aggregator, human_approval, sub_agent, wait
    "#]],
    );
}

#[test]
fn a_wait_and_a_sequence_are_no_slip() {
    check(
        "  - {id: a, tool: time.sleep, params: {ms: 1}, deps: [list], reads: [list]}\n  - {id: b, tool: fs.list, params: {path: .}, deps: [a]}",
        expect![""],
    );
}

#[test]
fn each_fault_of_a_node_stands_at_its_own_place() {
    check(
        "  - {id: a, tool: time.sleep, params: {ms: 1}, deps: [lst, nowhere, list, lits]}",
        expect![[r#"
        V03 a 4:55 "lst, now": depends on lst, which the plan does not define; did you mean "list"?
        V03 a 4:60 "nowhere,": depends on nowhere, which the plan does not define; add that node, or depend on another
        V03 a 4:75 "lits]}\n": depends on lits, which the plan does not define; did you mean "list"?
    "#]],
    );
    check(
        "  - {id: list, tool: time.sleep, params: {ms: 1}, timeout: 0, retries: -1}",
        expect![[r#"
        V01 list 4:10 "list, to": duplicate id; give each node an id of its own
        V14 list 4:60 "0, retri": timeout is 0 ms, expected more than 0; set a timeout, such as 30s
        V14 list 4:72 "-1}\n": retries is -1, expected 0 or more; set 0 or more
    "#]],
    );
    check(
        "  - {id: a, tool: time.sleep, params: {ms: 1}, deps: [b]}\n  - {id: b, tool: time.sleep, params: {ms: 1}, deps: [list, c]}\n  - {id: c, tool: time.sleep, params: {ms: 1}, deps: [a]}",
        expect![[r#"
            V04 a 4:55 "b]}\n  - ": is in a cycle: a -> b -> c -> a; remove one of these dependencies
            V04 b 5:61 "c]}\n  - ": is in a cycle: a -> b -> c -> a; remove one of these dependencies
            V04 c 6:55 "a]}\n": is in a cycle: a -> b -> c -> a; remove one of these dependencies
        "#]],
    );
}

#[test]
fn json_and_toml_have_the_same_places() {
    let json = r#"{"id": "p", "nodes": [
  {"id": "a", "tool": "time.sleep", "params": {"ms": "x", "mss": 1}, "deps": ["b", "c"]},
  {"id": "a", "tool": "time.slep", "params": {"ms": 1}, "contract": [{"method": "code"}]}
]}"#;
    expect![[r#"
        V01 a 3:10 "\"a\", \"to": duplicate id; give each node an id of its own
        V03 a 2:79 "\"b\", \"c\"": depends on b, which the plan does not define; did you mean "a"?
        V03 a 2:84 "\"c\"]},\n ": depends on c, which the plan does not define; did you mean "a"?
        V09 a 3:70 "{\"method": contract[0] is invalid: a code rule needs a `spec`; add a `spec`, such as {check: non_empty, path: matches}
        V20 a 3:23 "\"time.sl": unknown tool time.slep; did you mean "time.sleep"?
        V23 a 2:59 "\"mss\": 1": time.sleep: unknown parameter `mss`; did you mean "ms"?
        V24 a 2:54 "\"x\", \"ms": time.sleep: params.ms: must be a whole number, found a text; give it a whole number
    "#]].assert_eq(&told(Format::Json, json));
    let toml = "id = \"p\"\n[[nodes]]\nid = \"a\"\ntool = \"time.sleep\"\ndeps = [\"b\", \"c\"]\n[nodes.params]\nms = \"x\"\nmss = 1\n[[nodes]]\nid = \"a\"\ntool = \"time.slep\"\nparams.ms = 1\ncontract = [{method = \"code\"}]\n";
    expect![[r#"
        V01 a 10:6 "\"a\"\ntool": duplicate id; give each node an id of its own
        V03 a 5:9 "\"b\", \"c\"": depends on b, which the plan does not define; did you mean "a"?
        V03 a 5:14 "\"c\"]\n[no": depends on c, which the plan does not define; did you mean "a"?
        V09 a 13:13 "{method ": contract[0] is invalid: a code rule needs a `spec`; add a `spec`, such as {check: non_empty, path: matches}
        V20 a 11:8 "\"time.sl": unknown tool time.slep; did you mean "time.sleep"?
        V23 a 8:1 "mss = 1\n": time.sleep: unknown parameter `mss`; did you mean "ms"?
        V24 a 7:6 "\"x\"\nmss ": time.sleep: params.ms: must be a whole number, found a text; give it a whole number
    "#]].assert_eq(&told(Format::Toml, toml));
}

#[test]
fn an_aggregator_takes_what_became_of_its_dependencies_and_nothing_else() {
    let template = |template: &str| {
        format!("  - {{id: a, kind: aggregator, deps: [list], params: {{template: {template:?}}}}}")
    };
    for good in [
        "{{ list.state }}",
        "{% for file in list.result.files %}{{ loop.index }} {{ file | upper }}{% endfor %}{{ range(3) }}",
        "{% set n = list.result.count %}{{ n }} {{ 'lost' }} {# lost #}{% raw %}{{ lost }}{% endraw %}",
        "{% if list.result is defined and list.lost is not defined %}x{% endif %}",
    ] {
        check(&template(good), expect![""]);
    }
    check(
        &template("{{ lits.state }}"),
        expect![[r#"
        V24 a 4:64 "\"{{ lits": aggregator: params.template: line 1: lits is not a dependency; did you mean "list"?
    "#]],
    );
    check(
        &template("{{ list.state }}\n{{ list.lost | default(other.state) }}"),
        expect![[r#"
            V24 a 4:64 "\"{{ list": aggregator: params.template: line 2: other is not a dependency; remove it; the dependencies are list
        "#]],
    );
    check(
        "  - {id: a, kind: aggregator, params: {template: '{{ list.state }}'}}",
        expect![[r#"
            V24 a 4:50 "'{{ list": aggregator: params.template: line 1: list is not a dependency; add list to its deps
        "#]],
    );
}

#[test]
fn what_a_template_takes_and_is_never_there_is_advised_of() {
    check(
        "  - {id: a, kind: aggregator, deps: [list], params: {template: \"{{ list.result.cuont }}\"}}",
        expect![[r#"
            W07 a 4:64 "\"{{ list": params.template, line 1: list.result.cuont never exists; did you mean "count"?
        "#]],
    );
    check(
        "  - {id: a, kind: aggregator, deps: [list], params: {template: \"{{ list.output }}\"}}",
        expect![[r#"
            W07 a 4:64 "\"{{ list": params.template, line 1: list.output never exists; known names: state, result, error
        "#]],
    );
    check(
        "  - {id: a, kind: aggregator, deps: [list], params: {template: \"{{ list.result.count.x }}\"}}",
        expect![[r#"
            W07 a 4:64 "\"{{ list": params.template, line 1: list.result.count.x never exists; remove the last step: the value has no named parts
        "#]],
    );
    check(
        "  - {id: a, tool: text.render, params: {template: '{{ whom }}', values: {who: x}}}",
        expect![[r#"
            W07 a 4:51 "'{{ whom": params.template, line 1: whom never exists; did you mean "who"?
        "#]],
    );
    check(
        "  - {id: a, tool: text.render, params: {template: '{{ x }}', values: {}}}",
        expect![[r#"
            W07 a 4:51 "'{{ x }}": params.template, line 1: x never exists; add it to params.values
        "#]],
    );
}

#[test]
fn a_fault_in_a_block_of_lines_stands_at_its_line() {
    for block in ["|", "|-", "|+2  # as it is"] {
        let nodes = format!(
            "  - id: a\n    tool: text.render\n    params:\n      values: {{}}\n      template: {block}\n\n        one\n        \
             two {{{{ b | uper }}}}\n        three"
        );
        let told = told(Format::Yaml, &format!("id: p\nnodes:\n{nodes}\n"));
        assert!(told.starts_with("V24 a 10:9 \"two {{ b\": "), "{block}: {told}");
    }
    // The column within folded or escaped lines is unknown.
    check(
        "  - id: a\n    kind: aggregator\n    deps: [list]\n    params:\n      template: >\n        one\n\n        {{ lost }}",
        expect![[r#"
            V24 a 9:9 "one\n\n   ": aggregator: params.template: line 2: lost is not a dependency; did you mean "list"?
        "#]],
    );
}
