use std::collections::{BTreeMap, BTreeSet};

use expect_test::{Expect, expect};
use ostler_kernel::plan::Settings;

use super::*;

fn tools() -> BTreeSet<String> {
    ["fs.list", "text.search", "time.sleep", "shell.run"].map(str::to_owned).into()
}

fn params(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    pairs.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect()
}

#[track_caller]
fn check(format: Format, text: &str, expected: Expect) {
    let name = match format {
        Format::Yaml => "p.yaml",
        Format::Json => "p.json",
        Format::Toml => "p.toml",
    };
    let file = PlanFile::parse(name, format, text, &BTreeMap::new());
    let tools = tools();
    let told = match file.validate(&Settings::simulation(Default::default(), Some(&tools))) {
        Ok((plan, advice)) => {
            let advice: Vec<String> = advice.iter().map(|finding| file.show(finding, Look::default())).collect();
            format!("valid: {}\n{}", plan.nodes.len(), advice.concat())
        }
        Err(findings) => findings.iter().map(|finding| file.show(finding, Look::default())).collect(),
    };
    expected.assert_eq(&told);
}

const RULE: &str = "contract: [{method: code}]";

#[test]
fn faults_point_at_what_they_are_about() {
    check(
        Format::Yaml,
        &format!(
            "id: p\nnodes:\n  - id: list\n    tool: fs.lst\n    {RULE}\n  - id: find\n    tool: text.search\n    deps: [list, lisst]\n    timeout: 0\n    {RULE}\noutputs: [find, report]\n"
        ),
        expect![[r#"
            error V03 find: depends on lisst, which the plan does not define
              --> p.yaml:8:18
              |
            8 |     deps: [list, lisst]
              |                  ^^^^^ did you mean "list"?
            error V03 report: is an output the plan does not define
               --> p.yaml:11:17
               |
            11 | outputs: [find, report]
               |                 ^^^^^^ add that node, or take it out of the outputs
            error V14 find: its timeout is 0
              --> p.yaml:9:14
              |
            9 |     timeout: 0
              |              ^ give an attempt more time than none
            error V20 list: there is no tool fs.lst
              --> p.yaml:4:11
              |
            4 |     tool: fs.lst
              |           ^^^^^^ did you mean "fs.list"?
        "#]],
    );
}

#[test]
fn wrong_shapes_are_all_told_and_sound_nodes_are_judged() {
    check(
        Format::Yaml,
        "id: p\nnodes:\n  - id: a\n    toool: fs.list\n    retries: many\n  - id: b\n    tool: nothing\n    contract: [{method: cod}]\n  - id: c\n    tool: nothing\n    contract: [{method: code}]\n  - tool: fs.list\n",
        expect![[r#"
            error shape: unknown key "toool"
              --> p.yaml:4:5
              |
            4 |     toool: fs.list
              |     ^^^^^ did you mean "tool"?
            error shape: expected i64, found the text "many"
              --> p.yaml:5:14
              |
            5 |     retries: many
              |              ^^^^
            error shape: there is no "cod" here
              --> p.yaml:8:25
              |
            8 |     contract: [{method: cod}]
              |                         ^^^ did you mean "code"?
            error shape: the key "id" is missing
               --> p.yaml:12:5
               |
            12 |   - tool: fs.list
               |     ^^^^ add id: …
        "#]],
    );
    check(
        Format::Yaml,
        "id: p\nnodes:\n  - id: a\n    toool: fs.list\n  - id: c\n    tool: nothing\n    contract: [{method: code}]\n",
        expect![[r#"
            error shape: unknown key "toool"
              --> p.yaml:4:5
              |
            4 |     toool: fs.list
              |     ^^^^^ did you mean "tool"?
            error V08 a: nothing says when its result is good
              --> p.yaml:3:9
              |
            3 |   - id: a
              |         ^ give it a contract, such as [{method: schema, spec: {type: object}}]
            error V20 c: there is no tool nothing
              --> p.yaml:6:11
              |
            6 |     tool: nothing
              |           ^^^^^^^ use a tool that is there
        "#]],
    );
}

#[test]
fn json_and_toml_have_places_too() {
    check(
        Format::Json,
        "{\"id\": \"p\",\n \"nodes\": [{\"id\": \"a\", \"tool\": \"fs.lst\",\n  \"contract\": [{\"method\": \"code\"}]}]}",
        expect![[r#"
        error V20 a: there is no tool fs.lst
          --> p.json:2:32
          |
        2 |  "nodes": [{"id": "a", "tool": "fs.lst",
          |                                ^^^^^^^^ did you mean "fs.list"?
    "#]],
    );
    check(
        Format::Json,
        "{\"id\": \"p\",}",
        expect![[r#"
        error syntax: not JSON at byte 11: expected a key in double quotes
          --> p.json:1:12
          |
        1 | {"id": "p",}
          |            ^
    "#]],
    );
    check(
        Format::Toml,
        "id = \"p\"\n[[nodes]]\nid = \"a\"\ntool = \"fs.lst\"\ncontract = [{method = \"code\"}]\n",
        expect![[r#"
            error V20 a: there is no tool fs.lst
              --> p.toml:4:8
              |
            4 | tool = "fs.lst"
              |        ^^^^^^^^ did you mean "fs.list"?
        "#]],
    );
}

#[test]
fn what_is_no_plan_says_so() {
    for (format, text) in [
        (Format::Yaml, ""),
        (Format::Yaml, "- 1"),
        (Format::Yaml, "a: b: c"),
        (Format::Yaml, "id: p\nnodes: 7\n"),
        (Format::Json, "null"),
        (Format::Toml, ""),
        (Format::Yaml, "id: p\nnodes: [{id: a, tool: fs.list, params: {x: .nan}}]"),
    ] {
        let file = PlanFile::parse("p", format, text, &BTreeMap::new());
        let findings = file.validate(&Settings::simulation(Default::default(), None)).unwrap_err();
        assert!(!findings.is_empty(), "{text}");
        assert!(file.draft().is_none(), "{text}");
    }
}

#[test]
fn schema_rules_without_a_schema_are_advised_against() {
    check(
        Format::Yaml,
        "id: p\nnodes:\n  - {id: a, tool: fs.list, contract: [{method: schema}]}\n",
        expect![[r#"
            valid: 1
            advice W05 a: rule 1 of the contract asks for a schema and gives none: all passes
              --> p.yaml:3:48
              |
            3 |   - {id: a, tool: fs.list, contract: [{method: schema}]}
              |                                                ^^^^^^ give it a `spec`, such as {type: object, required: [text]}
        "#]],
    );
}

#[test]
fn parameters_become_text_or_what_they_read_as() {
    let text = "id: p\npolicy:\n  slots: ${slots}\nnodes:\n  - id: a\n    tool: fs.list\n    params:\n      path: x/${dir}\n      max: ${slots}\n      text: \"${slots}\"\n      kept: $${HOME}\n";
    let file = PlanFile::parse("p.yaml", Format::Yaml, text, &params(&[("slots", "3"), ("dir", "a: [b")]));
    let draft = file.draft().unwrap_or_else(|| panic!("{:?}", file.findings));
    assert_eq!(draft.policy.as_ref().unwrap().slots, Some(3));
    assert_eq!(
        serde_json::Value::from(draft.nodes[0].params.clone().unwrap()),
        serde_json::json!({"path": "x/a: [b", "max": 3, "text": "3", "kept": "${HOME}"})
    );
}

#[test]
fn missing_and_idle_parameters_are_named() {
    let text = "id: ${name}\nnodes:\n  - {id: a, tool: fs.list, params: {path: \"${}\"}}\n";
    let file = PlanFile::parse("p.yaml", Format::Yaml, text, &params(&[("nam", "x")]));
    let told: String = file
        .validate(&Settings::simulation(Default::default(), None))
        .unwrap_err()
        .iter()
        .map(|finding| file.show(finding, Look::default()))
        .collect();
    expect![[r#"
        error parameter: the parameter "name" is not given
          --> p.yaml:1:5
          |
        1 | id: ${name}
          |     ^^^^^^ --param gives "nam": did you mean that?
        error parameter: "${}" is no parameter
          --> p.yaml:3:43
          |
        3 |   - {id: a, tool: fs.list, params: {path: "${}"}}
          |                                           ^^^^^ write ${name}, or $${ for the text itself
        error parameter: nothing takes the parameter "nam"
          --> p.yaml
          = write ${nam} where its value should stand, or leave it out
    "#]]
    .assert_eq(&told);
}

#[test]
fn faults_of_shape_come_to_an_end() {
    let nodes = "  - {id: a, x: 1}\n".repeat(SHAPE_FAULTS_MAX + 10);
    let file = PlanFile::parse("p.yaml", Format::Yaml, &format!("id: p\nnodes:\n{nodes}"), &BTreeMap::new());
    assert_eq!(file.findings.len(), SHAPE_FAULTS_MAX);
}

#[test]
fn a_line_that_is_too_long_shows_the_part_that_matters() {
    let text = format!(
        "{{\"id\": \"p\", \"x\": {}, \"nodes\": [{{\"id\": \"a\", \"y\": 1}}]}}",
        vec!["1"; 500].join(",")
    );
    let text = text.replace("\"x\": 1", "\"title\": [1").replace("1, \"nodes\"", "1], \"nodes\"");
    let file = PlanFile::parse("p.json", Format::Json, &text, &BTreeMap::new());
    for finding in &file.findings {
        let shown = file.show(finding, Look::default());
        assert!(shown.lines().all(|line| line.chars().count() < LINE), "{shown}");
    }
    assert_eq!(file.findings.len(), 2, "{:?}", file.findings);
}

/// Wider than any line that is shown of a file.
const LINE: usize = 240;
