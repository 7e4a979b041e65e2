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
            let advice: Vec<String> =
                advice.iter().map(|finding| file.show(finding, RenderStyle::default())).collect();
            format!("valid: {}\n{}", plan.nodes.len(), advice.concat())
        }
        Err(findings) => findings.iter().map(|finding| file.show(finding, RenderStyle::default())).collect(),
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
            V03 (https://github.com/ostler-os/ostler/blob/main/docs/errors/V03.md)

              × find: depends on lisst, which the plan does not define
               ╭─[p.yaml:8:18]
             7 │     tool: text.search
             8 │     deps: [list, lisst]
               ·                  ─────
             9 │     timeout: 0
               ╰────
              help: did you mean "list"?
            V03 (https://github.com/ostler-os/ostler/blob/main/docs/errors/V03.md)

              × report: unknown output
                ╭─[p.yaml:11:17]
             10 │     contract: [{method: code}]
             11 │ outputs: [find, report]
                ·                 ──────
                ╰────
              help: add that node, or remove the name from `outputs`
            V14 (https://github.com/ostler-os/ostler/blob/main/docs/errors/V14.md)

              × find: timeout is 0, expected more than 0
                ╭─[p.yaml:9:14]
              8 │     deps: [list, lisst]
              9 │     timeout: 0
                ·              ─
             10 │     contract: [{method: code}]
                ╰────
              help: set a timeout, such as 30s
            V20 (https://github.com/ostler-os/ostler/blob/main/docs/errors/V20.md)

              × list: unknown tool fs.lst
               ╭─[p.yaml:4:11]
             3 │   - id: list
             4 │     tool: fs.lst
               ·           ──────
             5 │     contract: [{method: code}]
               ╰────
              help: did you mean "fs.list"?
        "#]],
    );
}

#[test]
fn wrong_shapes_are_all_told_and_sound_nodes_are_judged() {
    check(
        Format::Yaml,
        "id: p\nnodes:\n  - id: a\n    toool: fs.list\n    retries: many\n  - id: b\n    tool: nothing\n    contract: [{method: cod}]\n  - id: c\n    tool: nothing\n    contract: [{method: code}]\n  - tool: fs.list\n",
        expect![[r#"
            shape (https://github.com/ostler-os/ostler/blob/main/docs/errors/shape.md)

              × unknown key "toool"
               ╭─[p.yaml:4:5]
             3 │   - id: a
             4 │     toool: fs.list
               ·     ─────
             5 │     retries: many
               ╰────
              help: did you mean "tool"?
            shape (https://github.com/ostler-os/ostler/blob/main/docs/errors/shape.md)

              × expected a whole number, found the text "many"
               ╭─[p.yaml:5:14]
             4 │     toool: fs.list
             5 │     retries: many
               ·              ────
             6 │   - id: b
               ╰────
            shape (https://github.com/ostler-os/ostler/blob/main/docs/errors/shape.md)

              × unknown value "cod"
               ╭─[p.yaml:8:25]
             7 │     tool: nothing
             8 │     contract: [{method: cod}]
               ·                         ───
             9 │   - id: c
               ╰────
              help: did you mean "code"?
            shape (https://github.com/ostler-os/ostler/blob/main/docs/errors/shape.md)

              × the key "id" is missing
                ╭─[p.yaml:12:5]
             11 │     contract: [{method: code}]
             12 │   - tool: fs.list
                ·     ────
                ╰────
              help: add id: …
            V08 (https://github.com/ostler-os/ostler/blob/main/docs/errors/V08.md)

              × a: no contract
               ╭─[p.yaml:4:12]
             3 │   - id: a
             4 │     toool: fs.list
               ·            ───────
             5 │     retries: many
               ╰────
              help: add a contract, such as [{method: schema, spec: {type: object}}]
            V20 (https://github.com/ostler-os/ostler/blob/main/docs/errors/V20.md)

              × b: unknown tool nothing
               ╭─[p.yaml:7:11]
             6 │   - id: b
             7 │     tool: nothing
               ·           ───────
             8 │     contract: [{method: cod}]
               ╰────
              help: use one of fs.list, shell.run, text.search, time.sleep
            V20 (https://github.com/ostler-os/ostler/blob/main/docs/errors/V20.md)

              × c: unknown tool nothing
                ╭─[p.yaml:10:11]
              9 │   - id: c
             10 │     tool: nothing
                ·           ───────
             11 │     contract: [{method: code}]
                ╰────
              help: use one of fs.list, shell.run, text.search, time.sleep
        "#]],
    );
    check(
        Format::Yaml,
        "id: p\nnodes:\n  - id: a\n    toool: fs.list\n  - id: c\n    tool: nothing\n    contract: [{method: code}]\n",
        expect![[r#"
            shape (https://github.com/ostler-os/ostler/blob/main/docs/errors/shape.md)

              × unknown key "toool"
               ╭─[p.yaml:4:5]
             3 │   - id: a
             4 │     toool: fs.list
               ·     ─────
             5 │   - id: c
               ╰────
              help: did you mean "tool"?
            V08 (https://github.com/ostler-os/ostler/blob/main/docs/errors/V08.md)

              × a: no contract
               ╭─[p.yaml:4:12]
             3 │   - id: a
             4 │     toool: fs.list
               ·            ───────
             5 │   - id: c
               ╰────
              help: add a contract, such as [{method: schema, spec: {type: object}}]
            V20 (https://github.com/ostler-os/ostler/blob/main/docs/errors/V20.md)

              × c: unknown tool nothing
               ╭─[p.yaml:6:11]
             5 │   - id: c
             6 │     tool: nothing
               ·           ───────
             7 │     contract: [{method: code}]
               ╰────
              help: use one of fs.list, shell.run, text.search, time.sleep
        "#]],
    );
}

#[test]
fn a_key_that_was_guessed_makes_no_other_faults() {
    for (line, suggestion) in [
        ("needs: [list]", "deps"),
        ("depends_on: [list]", "deps"),
        ("after: [gone]", "deps"),
        ("requires: [list]", "deps"),
        ("raeds: [list]", "reads"),
        ("timout: 0", "timeout"),
    ] {
        let text = format!(
            "id: p\nnodes:\n  - {{id: list, tool: fs.list, {RULE}}}\n  - id: a\n    tool: fs.list\n    {RULE}\n    {line}\n"
        );
        let file = PlanFile::parse("p.yaml", Format::Yaml, &text, &BTreeMap::new());
        let found = file.validate(&Settings::simulation(Default::default(), Some(&tools()))).unwrap_err();
        let told: Vec<(&str, &str)> = found.iter().map(|it| (it.code.as_str(), it.help.as_str())).collect();
        assert_eq!(told, [("shape", format!("did you mean {suggestion:?}?").as_str())], "{line}");
    }
}

#[test]
fn a_condition_of_a_node_is_told_what_can_be_written_instead() {
    for line in ["if: x", "unless: {a: b}", "only_if: [list]"] {
        let text = format!("id: p\nnodes:\n  - id: a\n    tool: fs.list\n    {RULE}\n    {line}\n");
        let file = PlanFile::parse("p.yaml", Format::Yaml, &text, &BTreeMap::new());
        let found = file.validate(&Settings::simulation(Default::default(), Some(&tools()))).unwrap_err();
        let [finding] = found.as_slice() else { panic!("{line}: {found:?}") };
        assert!(finding.help.contains("a guard: `when: {from: NODE"), "{line}: {finding:?}");
    }
}

#[test]
fn a_guess_at_the_nodes_hides_nothing_of_them() {
    let text = "id: p\nnods:\n  - {id: a, tool: fs.lst}\n";
    let file = PlanFile::parse("p.yaml", Format::Yaml, text, &BTreeMap::new());
    let found = file.validate(&Settings::simulation(Default::default(), Some(&tools()))).unwrap_err();
    let told: Vec<&str> = found.iter().map(|it| it.code.as_str()).collect();
    assert_eq!(told, ["shape", "V08", "V20"], "{found:?}");
}

#[test]
fn a_whole_number_beyond_its_type_is_too_large() {
    let nine = "9".repeat(23);
    for (line, detail, help) in [
        (
            format!("retries: {nine}"),
            "a whole number, found one that is too large",
            "at most 9007199254740992",
        ),
        (
            format!("retries: -{nine}"),
            "a whole number, found one that is too small",
            "at least -9007199254740992",
        ),
        ("retries: 1.5".to_owned(), "a whole number, found 1.5", ""),
    ] {
        let text = format!("id: p\nnodes:\n  - id: a\n    tool: fs.list\n    {line}\n");
        let file = PlanFile::parse("p.yaml", Format::Yaml, &text, &BTreeMap::new());
        let [found] = file.findings.as_slice() else { panic!("{:?}", file.findings) };
        let help = if help.is_empty() { String::new() } else { format!("use {help}") };
        assert_eq!((&found.detail, &found.help), (&format!("expected {detail}"), &help), "{line}");
    }
    let text = "id: p\npolicy: {slots: 5000000000}\nnodes: []\n";
    let file = PlanFile::parse("p.yaml", Format::Yaml, text, &BTreeMap::new());
    assert_eq!(file.findings[0].detail, "expected a whole number of 0 or more, found one that is too large");
    assert_eq!(file.findings[0].help, "use at most 4294967295");
}

#[test]
fn a_key_of_another_kind_is_no_key_that_is_missing() {
    for (text, told) in [
        ("id: 5\nnodes: [{id: a, tool: fs.list}]\n", &["expected a text, found 5"][..]),
        ("id: p\nnodes: {a: {tool: fs.list}}\n", &["expected a list, found a map"]),
        ("nodes: [{id: 5, tool: fs.list}]\n", &["expected a text, found 5", "the key \"id\" is missing"]),
    ] {
        let file = PlanFile::parse("p.yaml", Format::Yaml, text, &BTreeMap::new());
        let found = file.validate(&Settings::simulation(Default::default(), Some(&tools()))).unwrap_err();
        let found: Vec<&str> =
            found.iter().filter(|it| it.code == "shape").map(|it| it.detail.as_str()).collect();
        assert_eq!(found, told, "{text}");
    }
}

/// Codes of a node with an unknown tool, an unknown dependency and no contract.
const ALL: &[&str] = &["V03", "V08", "V20"];

#[test]
fn what_a_part_of_another_kind_does_not_touch_is_judged() {
    for (whole, node, first, rest, hides_more) in [
        ("id: 5", "", "shape", ALL, false),
        ("id: true", "", "shape", ALL, false),
        ("title: [x]", "", "shape", ALL, false),
        ("policy: many", "", "shape", ALL, false),
        ("policy: {slots: many}", "", "shape", ALL, false),
        (
            "policy: {max_nodes: none, max_depth: none, backoff_base: -1}",
            "",
            "shape",
            &["shape", "V03", "V08", "V14", "V20"],
            false,
        ),
        (
            "policy: {max_attempts: 1, backoff_base: ages}",
            ", retries: 5",
            "shape",
            &["V03", "V08", "V14", "V20"],
            false,
        ),
        ("policy: {max_attempts: few}", ", retries: 5", "shape", ALL, false),
        ("strict: maybe", "", "shape", &["V08", "V20"], true),
        ("outputs: x", "", "shape", ALL, true),
        ("", ", retries: many", "shape", ALL, false),
        ("", ", retries: many, patches: -1", "shape", &["V03", "V08", "V14", "V20"], false),
        ("", ", timeout: 5 minutes", "shape", ALL, false),
        ("", ", timeout: 5 minutes, heartbeat_timeout: 500", "shape", ALL, true),
        ("", ", timeout: [1], fallback: {tool: no.such}", "shape", ALL, true),
        ("", ", idem: [2], retries: 900", "shape", ALL, true),
        ("", ", human_timeout: long, approval: before", "shape", ALL, false),
        ("", ", approval: 5", "shape", ALL, false),
        ("", ", effect: 5, impact: 1", "shape", ALL, true),
        ("", ", parms: {path: 5}", "shape", ALL, true),
        ("", ", contract: [{method: code, p: high}]", "shape", &["V03", "V20"], true),
        ("", ", reads: 5", "shape", &[], true),
        ("title: ${t}", "", "parameter", ALL, false),
        ("policy:\n  slots: ${n}", "", "parameter", ALL, false),
        ("", ", retries: '${n}'", "parameter", ALL, false),
        ("", ", params: {path: '${p}'}", "parameter", ALL, false),
    ] {
        let id = if whole.starts_with("id:") { "" } else { "id: p\n" };
        let text = format!("{id}{whole}\nnodes:\n  - {{id: x, tool: fs.lst, deps: [zz]{node}}}\n");
        let file = PlanFile::parse("p.yaml", Format::Yaml, &text, &BTreeMap::new());
        let found = file.validate(&Settings::simulation(Default::default(), Some(&tools()))).unwrap_err();
        let told: Vec<&str> = found.iter().map(|it| it.code.as_str()).collect();
        assert_eq!(told, [&[first][..], rest].concat(), "{text}");
        assert_eq!(file.hides_more(), hides_more, "{text}");
    }
}

#[test]
fn a_number_is_a_name_to_others_only_as_it_is_written() {
    for (id, dep, told) in [
        ("7", "7", &["shape"][..]),
        ("true", "true", &["shape"]),
        ("7", "8", &["shape", "V03"]),
        ("007", "007", &["shape"]),
        ("1.10", "1.10", &["shape"]),
        ("0x10", "16", &["shape"]),
    ] {
        let contract = "contract: [{method: code}]";
        let text = format!(
            "id: p\nnodes:\n  - {{id: {id}, tool: fs.list, {contract}}}\n  - {{id: b, tool: fs.list, deps: ['{dep}'], {contract}}}\n"
        );
        let file = PlanFile::parse("p.yaml", Format::Yaml, &text, &BTreeMap::new());
        let found = file.validate(&Settings::simulation(Default::default(), Some(&tools()))).unwrap_err();
        let codes: Vec<&str> = found.iter().map(|it| it.code.as_str()).collect();
        assert_eq!(codes, told, "{id} and {dep}");
    }
}

#[test]
fn where_a_node_is_lost_the_others_are_judged_by_themselves() {
    let text = "id: p\nnodes:\n  - 7\n  - {id: a, tool: fs.list, deps: [b], timeout: 0}\noutputs: [b]\n";
    let file = PlanFile::parse("p.yaml", Format::Yaml, text, &BTreeMap::new());
    let found = file.validate(&Settings::simulation(Default::default(), Some(&tools()))).unwrap_err();
    let told: Vec<(&str, Option<usize>)> =
        found.iter().map(|it| (it.code.as_str(), it.place.map(|place| place.line))).collect();
    assert_eq!(told, [("shape", Some(3)), ("V08", Some(4)), ("V14", Some(4))]);
    assert!(file.hides_more());
}

#[test]
fn the_whole_of_a_value_is_marked() {
    for (node, marked) in [
        ("{id: a, tool: fs.list, timeout: 5 minutes, retries: 1}", "5 minutes"),
        ("{id: a, tool: fs.list, timeout: 5 minutes}", "5 minutes"),
        ("{id: a, tool: fs.list, timeout: '5 minutes'}", "'5 minutes'"),
        ("{id: a, tool: fs.list, timeout: \"5 minutes\"}", "'5 minutes'"),
        ("id: a\n    timeout: 5 minutes  # no more", "5 minutes"),
        ("id: a\n    timeout: ätwas lang", "ätwas lang"),
        ("id: a\n    timeout: 5 minutes\n      or so", "5 minutes"),
        ("id: a\n    timeout: http://x", "http://x"),
        ("id: a\n    no such key: 1", "no such key"),
    ] {
        let text = format!("id: p\nnodes:\n  - {node}\n");
        let file = PlanFile::parse("p.yaml", Format::Yaml, &text, &BTreeMap::new());
        let [found] = file.findings.as_slice() else { panic!("{:?}", file.findings) };
        let shown = file.show(found, RenderStyle::default());
        let marks = shown.lines().find(|line| line.trim_start().starts_with('·')).unwrap();
        assert_eq!(marks.matches('─').count(), marked.chars().count(), "{shown}");
    }
}

#[test]
fn json_and_toml_have_places_too() {
    check(
        Format::Json,
        "{\"id\": \"p\",\n \"nodes\": [{\"id\": \"a\", \"tool\": \"fs.lst\",\n  \"contract\": [{\"method\": \"code\"}]}]}",
        expect![[r#"
            V20 (https://github.com/ostler-os/ostler/blob/main/docs/errors/V20.md)

              × a: unknown tool fs.lst
               ╭─[p.json:2:32]
             1 │ {"id": "p",
             2 │  "nodes": [{"id": "a", "tool": "fs.lst",
               ·                                ────────
             3 │   "contract": [{"method": "code"}]}]}
               ╰────
              help: did you mean "fs.list"?
        "#]],
    );
    check(
        Format::Json,
        "{\"id\": \"p\",}",
        expect![[r#"
            syntax (https://github.com/ostler-os/ostler/blob/main/docs/errors/syntax.md)

              × not JSON: expected a key in double quotes
               ╭─[p.json:1:12]
             1 │ {"id": "p",}
               ·            ─
               ╰────
              help: remove the comma before it
        "#]],
    );
    check(
        Format::Toml,
        "id = \"p\"\n[[nodes]]\nid = \"a\"\ntool = \"fs.lst\"\ncontract = [{method = \"code\"}]\n",
        expect![[r#"
            V20 (https://github.com/ostler-os/ostler/blob/main/docs/errors/V20.md)

              × a: unknown tool fs.lst
               ╭─[p.toml:4:8]
             3 │ id = "a"
             4 │ tool = "fs.lst"
               ·        ────────
             5 │ contract = [{method = "code"}]
               ╰────
              help: did you mean "fs.list"?
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
            W05 (https://github.com/ostler-os/ostler/blob/main/docs/errors/W05.md)

              ⚠ a: contract[0] is a schema rule without a schema, so every result passes
               ╭─[p.yaml:3:39]
             2 │ nodes:
             3 │   - {id: a, tool: fs.list, contract: [{method: schema}]}
               ·                                       ─
               ╰────
              help: add a `spec`, such as {type: object, required: [text]}
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
fn a_parameter_stays_text_wherever_a_text_is_written_as_one() {
    for (written, is_text) in [
        ("${n}", false),
        ("\n        ${n}", false),
        ("&a ${n}", false),
        ("\"${n}\"", true),
        ("'${n}'", true),
        ("|-\n        ${n}", true),
        ("|- # as a text\n        ${n}", true),
        (">-\n        ${n}", true),
        ("&a |-\n        ${n}", true),
        ("!!str ${n}", true),
        ("!!str &a ${n}", true),
        ("&a !!str # as a text\n        ${n}", true),
        ("! ${n}", true),
    ] {
        for alias in
            ["", "\n      again: *a"].into_iter().filter(|it| it.is_empty() || written.contains("&a"))
        {
            let text = format!(
                "id: p\nnodes:\n  - id: a\n    tool: fs.list\n    params:\n      x: {written}{alias}\n"
            );
            for text in [text.as_str(), text.trim_end()] {
                let file = PlanFile::parse("p.yaml", Format::Yaml, text, &params(&[("n", "42")]));
                let draft = file.draft().unwrap_or_else(|| panic!("{text}: {:?}", file.findings));
                let expected = if is_text { serde_json::json!("42") } else { serde_json::json!(42) };
                let values = draft.nodes[0].params.as_ref().unwrap().values();
                assert_eq!(
                    values.collect::<Vec<_>>(),
                    vec![&expected; 1 + usize::from(!alias.is_empty())],
                    "{text}"
                );
            }
        }
    }
}

#[test]
fn numbers_that_json_cannot_carry_are_refused_where_they_stand() {
    let told = "an integer beyond 2^53, which JSON cannot carry exactly";
    let yaml = |field: &str| format!("id: p\nnodes:\n  - id: a\n    tool: fs.list\n    {field}\n");
    for (format, text, place) in [
        (Format::Yaml, yaml("retries: 9223372036854775806"), (5, 14)),
        (Format::Yaml, yaml("params: {x: [-9007199254740993]}"), (5, 18)),
        (Format::Yaml, yaml("params: {x: 18446744073709551615}"), (5, 17)),
        (Format::Yaml, yaml("params: {x: 1e20}"), (5, 17)),
        (Format::Json, r#"{"id": "p", "nodes": [{"id": "a", "retries": 9007199254740993}]}"#.into(), (1, 46)),
        (Format::Toml, "id = 'p'\n[[nodes]]\nid = 'a'\nretries = 9007199254740993\n".into(), (4, 11)),
    ] {
        let file = PlanFile::parse("p", format, &text, &BTreeMap::new());
        let found: Vec<_> = file
            .findings
            .iter()
            .map(|found| {
                (found.detail.as_str(), found.place.as_ref().map(|place| (place.line, place.column)))
            })
            .collect();
        assert_eq!(found, [(told, Some(place))], "{text}");
    }
    let fits = yaml("params: {x: [9007199254740992, -9007199254740992, 1e21, '9007199254740993']}");
    assert!(PlanFile::parse("p.yaml", Format::Yaml, &fits, &BTreeMap::new()).draft().is_some());
    let file = PlanFile::parse(
        "p.yaml",
        Format::Yaml,
        &yaml("params:\n      x: ${n}"),
        &params(&[("n", "9007199254740993")]),
    );
    let [found] = file.findings.as_slice() else { panic!("{:?}", file.findings) };
    assert_eq!((found.code.as_str(), found.place.as_ref().map(|place| place.line)), ("parameter", Some(6)));
    assert_eq!(found.help, "write \"${n}\" in quotes to make it a text");
}

#[test]
fn missing_and_idle_parameters_are_named() {
    let text = "id: ${name}\nnodes:\n  - {id: a, tool: fs.list, params: {path: \"${}\"}}\n";
    let file = PlanFile::parse("p.yaml", Format::Yaml, text, &params(&[("nam", "x"), ("unasked", "y")]));
    let told: String = file
        .validate(&Settings::simulation(Default::default(), None))
        .unwrap_err()
        .iter()
        .map(|finding| file.show(finding, RenderStyle::default()))
        .collect();
    expect![[r#"
        parameter (https://github.com/ostler-os/ostler/blob/main/docs/errors/parameter.md)

          × the parameter "name" is not given
           ╭─[p.yaml:1:5]
         1 │ id: ${name}
           ·     ───────
         2 │ nodes:
           ╰────
          help: did you mean "nam"?
        parameter (https://github.com/ostler-os/ostler/blob/main/docs/errors/parameter.md)

          × "${}" is not a parameter
           ╭─[p.yaml:3:43]
         2 │ nodes:
         3 │   - {id: a, tool: fs.list, params: {path: "${}"}}
           ·                                           ─────
           ╰────
          help: write ${name}, or $${ for a literal ${
        parameter (https://github.com/ostler-os/ostler/blob/main/docs/errors/parameter.md)

          × the plan does not use the parameter "unasked"
          help: write ${unasked} in the plan, or remove the parameter
        V08 (https://github.com/ostler-os/ostler/blob/main/docs/errors/V08.md)

          × a: no contract
           ╭─[p.yaml:3:19]
         2 │ nodes:
         3 │   - {id: a, tool: fs.list, params: {path: "${}"}}
           ·                   ───────
           ╰────
          help: add a contract, such as [{method: schema, spec: {type: object}}]
    "#]]
    .assert_eq(&told);
}

#[test]
fn faults_of_shape_come_to_an_end() {
    let nodes = "  - {id: a, x: 1}\n".repeat(SHAPE_FAULTS_MAX + 10);
    let file = PlanFile::parse("p.yaml", Format::Yaml, &format!("id: p\nnodes:\n{nodes}"), &BTreeMap::new());
    assert_eq!(file.findings.len(), SHAPE_FAULTS_MAX);
    let nodes = "  - {id: '${x}'}\n".repeat(SHAPE_FAULTS_MAX + 10);
    let file = PlanFile::parse("p.yaml", Format::Yaml, &format!("id: p\nnodes:\n{nodes}"), &BTreeMap::new());
    assert_eq!(file.findings.len(), SHAPE_FAULTS_MAX);
}

#[test]
fn faults_that_follow_from_others_come_to_an_end_too() {
    for (bare, read_on) in [(FOLLOWING_FAULTS_MAX, true), (FOLLOWING_FAULTS_MAX + 1, false), (20_000, false)]
    {
        let nodes = format!("{{\"id\":[]}}{},{{\"id\":\"z\",\"x\":1}}", ",{}".repeat(bare - 1));
        let text = format!("{{\"id\":\"p\",\"nodes\":[{nodes}]}}");
        let file = PlanFile::parse("p.json", Format::Json, &text, &BTreeMap::new());
        let told: Vec<&str> = file.findings.iter().map(|found| found.detail.as_str()).collect();
        let expected = ["expected a text, found a list", "unknown key \"x\""];
        assert_eq!(told, expected[..1 + usize::from(read_on)], "{bare}");
    }
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
        let shown = file.show(finding, RenderStyle::default());
        assert!(shown.lines().all(|line| line.chars().count() < LINE), "{shown}");
    }
    assert_eq!(file.findings.len(), 2, "{:?}", file.findings);
}

const LINE: usize = 250;

#[test]
fn the_deepest_file_is_read_and_one_level_more_is_refused_on_a_small_stack() {
    let nested =
        |levels: usize| format!("id: p\nnodes: {}{}", "{? a : [".repeat(levels / 2), "]}".repeat(levels / 2));
    for (levels, is_refused) in
        [(PLAN_FILE_DEPTH_MAX - 2, false), (PLAN_FILE_DEPTH_MAX + 2, true), (4_000, true)]
    {
        let text = nested(levels);
        let read = std::thread::Builder::new().stack_size(1 << 20).spawn(move || {
            let file = PlanFile::parse("p.yaml", Format::Yaml, &text, &BTreeMap::new());
            let findings = file.validate(&Settings::simulation(Default::default(), None)).unwrap_err();
            findings.iter().any(|finding| {
                file.show(finding, RenderStyle::default()).contains("nested more than 64 deep")
            })
        });
        assert_eq!(read.unwrap().join().unwrap(), is_refused, "{levels}");
    }
}

#[test]
fn a_file_of_too_many_values_is_refused_in_every_format() {
    let refused = |format: Format, text: String| {
        let file = PlanFile::parse("p", format, &text, &BTreeMap::new());
        file.findings.iter().any(|finding| finding.detail == "the file has more than 500000 values")
    };
    let list = |count: usize| format!("[{}]", vec!["1"; count].join(","));
    // The other values are the map and its list.
    for (count, expected) in [(PLAN_FILE_VALUES_MAX - 2, false), (PLAN_FILE_VALUES_MAX - 1, true)] {
        assert_eq!(refused(Format::Json, format!("{{\"x\": {}}}", list(count))), expected, "JSON, {count}");
        assert_eq!(refused(Format::Toml, format!("x = {}", list(count))), expected, "TOML, {count}");
    }
    assert!(refused(Format::Yaml, format!("x: {}", list(PLAN_FILE_VALUES_MAX))));
}
