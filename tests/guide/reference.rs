//! The tables of the guide: compared with types, or generated from code.

use std::fmt::Write;

use ostler::config::Config;
use ostler::kernel::plan::{
    Approval, Dep, Dispatch, Effect, Idempotency, InDoubt, Join, KEPT_ANSWERS_MAX, Kind, Method, NodeDraft,
    On, OnFailure, PLAN_PATTERNS_BYTES_MAX, ParamRef, PlanDraft, Policy, PolicyDraft, RuleDraft, Settings,
};
use ostler::kernel::{contract, gate, template};
use ostler::{config, plan_file};
use ostler_actors::metric;
use ostler_drivers::tool::{self, ToolConfig, builtin};
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

use super::page::Page;

const REFERENCE: &str = "docs/guide/plan-reference.md";
const CONTRACTS: &str = "docs/guide/contracts.md";
const RECOVERY: &str = "docs/guide/recovery.md";
const OPERATING: &str = "docs/guide/operating.md";
const GATE: &str = "docs/guide/gate.md";

/// Rows of the table below a comment, as cells.
fn rows(page: &Page, note: &str) -> Vec<Vec<String>> {
    let mark = format!("<!-- {note} -->\n");
    let (_, below) =
        page.text.split_once(&mark).unwrap_or_else(|| panic!("{}: no {mark}", page.path.display()));
    let table = below.lines().skip(2).take_while(|line| line.starts_with('|'));
    // A bar in a cell is written `\|`.
    let cells = |line: &str| {
        let cells = line.trim_matches('|').replace("\\|", "\u{1}");
        cells.split('|').map(|cell| cell.trim().replace('\u{1}', "|")).collect()
    };
    table.map(cells).collect()
}

/// Texts in backticks.
fn quoted(text: &str) -> Vec<String> {
    text.split('`').skip(1).step_by(2).map(str::to_owned).collect()
}

/// Names in the first column.
fn names(rows: &[Vec<String>]) -> Vec<String> {
    rows.iter().flat_map(|row| quoted(&row[0])).collect()
}

/// Names that a type accepts, from its error for an unknown name.
fn known(error: &str) -> Vec<String> {
    quoted(error).into_iter().skip(1).collect()
}

fn keys<T: DeserializeOwned>() -> Vec<String> {
    let error = serde_json::from_value::<T>(json!({"?": 0})).err().expect("no type has such a key");
    known(&error.to_string())
}

fn words<T: DeserializeOwned>() -> Vec<String> {
    let error = serde_json::from_value::<T>(json!("?")).err().expect("no type has such a word");
    known(&error.to_string())
}

#[track_caller]
fn check(path: &str, note: &str, expected: &[String]) -> Vec<Vec<String>> {
    let rows = rows(&Page::read(path), note);
    assert!(!expected.is_empty());
    let sorted = |mut names: Vec<String>| {
        names.sort();
        names
    };
    assert_eq!(sorted(names(&rows)), sorted(expected.to_vec()), "{path}: {note}");
    rows
}

#[test]
fn every_metric_has_its_row() {
    let metrics: Vec<String> = metric::ALL.iter().map(|metric| metric.name.to_owned()).collect();
    let rows = check(OPERATING, "metrics", &metrics);
    for metric in metric::ALL {
        let row = rows.iter().find(|row| names(std::slice::from_ref(row)) == [metric.name]).unwrap();
        assert_eq!(quoted(&row[1]), metric.labels, "{}", metric.name);
    }
}

#[test]
fn every_key_has_its_row() {
    check(REFERENCE, "keys of a plan", &keys::<PlanDraft>());
    check(REFERENCE, "keys of a node", &keys::<NodeDraft>());
    check(REFERENCE, "keys of a dependency", &keys::<Dep>());
    check(REFERENCE, "keys of a reference", &keys::<ParamRef>());
    check(REFERENCE, "keys of a policy", &keys::<PolicyDraft>());
    check(CONTRACTS, "keys of a rule", &keys::<RuleDraft>());
}

#[test]
fn every_word_has_its_row() {
    check(REFERENCE, "words of on", &words::<On>());
    check(CONTRACTS, "words of a method", &words::<Method>());
    check(RECOVERY, "words of idem", &words::<Idempotency>());
    let mut kinds = words::<Kind>();
    let rows = rows(&Page::read(REFERENCE), "words of a kind");
    let mut told = names(&rows);
    kinds.sort();
    told.sort();
    assert_eq!(told, kinds);
    let tools = std::collections::BTreeSet::<String>::new();
    let executes = Settings::real(1, &tools).executes;
    for row in &rows {
        let kind: Kind = serde_json::from_value(json!(quoted(&row[0])[0])).unwrap();
        assert_eq!(row[1], if executes(kind) { "yes" } else { "no" }, "{kind:?}");
    }
}

#[test]
fn the_words_of_a_key_stand_in_its_row() {
    let rows = rows(&Page::read(REFERENCE), "keys of a node");
    let row =
        |name: &str| rows.iter().find(|row| names(std::slice::from_ref(row)) == [name]).unwrap().clone();
    for (key, words) in [
        ("join", words::<Join>()),
        ("dispatch", words::<Dispatch>()),
        ("effect", words::<Effect>()),
        ("approval", words::<Approval>()),
        ("idem", words::<Idempotency>()),
    ] {
        let told = quoted(&row(key)[1]);
        assert!(words.iter().all(|word| told.contains(word)), "{key}: {told:?}, {words:?}");
    }
}

#[test]
fn the_defaults_are_what_a_real_run_takes() {
    let page = Page::read(REFERENCE);
    let rows = rows(&page, "keys of a policy");
    let policy = serde_json::to_value(Policy::real(7)).unwrap();
    for row in &rows {
        let key = &names(std::slice::from_ref(row))[0];
        let expected = match (key.as_str(), &policy[key]) {
            ("slots", slots) => {
                assert_eq!(slots, 7);
                "twice the cores".to_owned()
            }
            ("backoff_base", ms) => format!("{ms}ms"),
            ("backoff_cap", ms) => format!("{}s", ms.as_i64().unwrap() / 1_000),
            // Records leave out default values.
            ("max_kept", Value::Null) => KEPT_ANSWERS_MAX.to_string(),
            ("on_failure", Value::Null) => format!("`{}`", words::<OnFailure>()[0]),
            (_, Value::Null) => "none".to_owned(),
            (_, Value::String(word)) => format!("`{word}`"),
            (_, number) => number.to_string(),
        };
        assert_eq!(row[2], expected, "{key}");
    }
    assert_eq!(words::<InDoubt>(), ["ask", "fail"]);
    let tools = std::collections::BTreeSet::<String>::new();
    let settings = Settings::real(1, &tools);
    let nodes = self::rows(&page, "keys of a node");
    let default =
        |name: &str| nodes.iter().find(|row| names(std::slice::from_ref(row)) == [name]).unwrap()[2].clone();
    assert_eq!(default("timeout"), format!("{}s", settings.timeout / 1_000));
    let (again, never) = ((settings.retries)(Idempotency::Natural), (settings.retries)(Idempotency::None));
    assert_eq!(default("retries"), format!("{again}; {never} if `idem` is `none`, and for `shell.run`"));
}

#[test]
fn every_check_has_its_row() {
    let rule = |check: &str| ostler::kernel::plan::Rule {
        method: Method::Code,
        p: None,
        spec: Some(json!({"check": check}).into()),
    };
    let refused = contract::check_spec(&rule("?")).unwrap_err();
    let list = refused.help.split("one of ").nth(1).unwrap();
    let known: Vec<String> = list.split(", ").map(str::to_owned).collect();
    check(CONTRACTS, "checks", &known);
}

#[test]
fn every_key_of_the_configuration_has_its_row() {
    let keys = |table: &str| {
        let text = if table.is_empty() { "'?' = 0".to_owned() } else { format!("[{table}]\n'?' = 0") };
        known(toml::from_str::<Config>(&text).unwrap_err().message())
    };
    let mut all = Vec::new();
    for table in keys("") {
        match table.as_str() {
            "policy" => drop(check(GATE, "keys of [policy]", &keys("policy"))),
            // Keys below are user-defined names.
            "scopes" | "clients" | "mcp" => all.push(table),
            "evaluation" => all.extend(keys("evaluation").into_iter().map(|key| format!("evaluation.{key}"))),
            "tools" => {
                for tool in keys("tools") {
                    all.extend(
                        keys(&format!("tools.{tool}")).into_iter().map(|key| format!("tools.{tool}.{key}")),
                    );
                }
            }
            _ => all.extend(keys(&table).into_iter().map(|key| format!("{table}.{key}"))),
        }
    }
    let rows = check(OPERATING, "keys of the configuration", &all);
    for (table, key) in [("tools.http.hosts.'a:1'", "tools.http.hosts"), ("clients.x", "clients")] {
        let row = rows.iter().find(|row| row[0] == format!("`{key}`")).unwrap();
        assert!(keys(table).iter().all(|key| row[1].contains(key.as_str())), "{row:?}");
    }
}

/// Compares the text between two comments with generated text, or updates it.
fn made(path: &str, name: &str, expected: &str) {
    let page = Page::read(path);
    let (begin, end) = (format!("<!-- begin: {name} -->\n"), format!("<!-- end: {name} -->"));
    let from = page.text.find(&begin).expect("the page has a place for it") + begin.len();
    let to = from + page.text[from..].find(&end).expect("the place ends");
    if page.text[from..to] == *expected {
        return;
    }
    if std::env::var_os("UPDATE_EXPECT").is_some() {
        let mut text = page.text.clone();
        text.replace_range(from..to, expected);
        std::fs::write(&page.path, text).unwrap();
        return;
    }
    panic!("{path}: {name} is now (UPDATE_EXPECT=1 rewrites the page):\n{expected}");
}

#[test]
fn tools_and_limits_are_those_of_the_code() {
    made(REFERENCE, "tools", &tools());
    made(REFERENCE, "limits", &limits());
}

fn tools() -> String {
    let mut text = String::new();
    for tool in builtin(&ToolConfig::complete(), None) {
        let spec = tool.spec();
        let description = spec.description.replace('|', "\\|");
        let _ = write!(text, "\n### {}\n\n{description}\n\n", spec.name);
        let _ = write!(text, "| parameter | value | required |\n|---|---|---|\n{}", parameters(&spec.params));
        let results: Vec<String> =
            members(&spec.result).map(|(name, schema)| format!("`{name}` ({})", holds(schema))).collect();
        let results = if results.is_empty() { "nothing".to_owned() } else { results.join(", ") };
        let _ = write!(text, "\nGives {results}.\n\n{}\n", does(&*tool));
    }
    text.push('\n');
    text
}

fn members(schema: &Value) -> impl Iterator<Item = (&String, &Value)> {
    schema["properties"].as_object().into_iter().flatten()
}

fn parameters(schema: &Value) -> String {
    let needed: Vec<&str> =
        schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    members(schema).fold(String::new(), |mut text, (name, schema)| {
        let must = if needed.contains(&name.as_str()) { "yes" } else { "no" };
        let _ = writeln!(text, "| `{name}` | {} | {must} |", holds(schema).replace('|', "\\|"));
        text
    })
}

/// Describes the values that a schema accepts.
fn holds(schema: &Value) -> String {
    if let Some(words) = schema["enum"].as_array() {
        let words: Vec<String> = words.iter().map(|word| format!("`{}`", word.as_str().unwrap())).collect();
        return words.join(" or ");
    }
    let most = |key: &str| schema[key].as_u64();
    let range = match (most("minimum"), most("maximum")) {
        (Some(least), Some(most)) => format!(", {least} to {most}"),
        (Some(least), None) => format!(", {least} or more"),
        (None, Some(most)) => format!(", at most {most}"),
        (None, None) => String::new(),
    };
    let kind = match (schema["type"].as_str(), schema["format"].as_str()) {
        (Some("string"), Some("path")) => "a path in the workspace".to_owned(),
        (Some("string"), Some("uri")) => "a URL".to_owned(),
        (Some("string"), _) => "a text".to_owned(),
        (Some("integer"), _) => "a whole number".to_owned(),
        (Some("number"), _) => "a number".to_owned(),
        (Some("boolean"), _) => "`true` or `false`".to_owned(),
        (Some("array"), _) => format!("a list, each item {}", holds(&schema["items"])),
        (Some("object"), _) => "a map".to_owned(),
        _ => "anything".to_owned(),
    };
    let size = most("maxLength").map(|most| format!(", at most {most} characters")).unwrap_or_default();
    format!("{kind}{range}{size}")
}

/// Effects of a tool, by the parameter that decides.
fn does(tool: &dyn ostler::kernel::port::Tool) -> String {
    let spec = tool.spec();
    let class = |params: &Map<String, Value>| {
        let class = tool.class(params);
        let word = |value: Value| value.as_str().unwrap().to_owned();
        let effect = word(serde_json::to_value(class.effect).unwrap());
        let idem = word(serde_json::to_value(class.idem).unwrap());
        format!("impact {}, effect `{effect}`, idem `{idem}`", class.impact)
    };
    let deciding = members(&spec.params).find(|(_, schema)| schema["enum"].is_array());
    match deciding {
        Some((name, schema)) => {
            let words = schema["enum"].as_array().unwrap();
            let each = words.iter().map(|word| {
                let params = Map::from_iter([(name.clone(), word.clone())]);
                format!("- {}: {}", word.as_str().unwrap(), class(&params))
            });
            each.collect::<Vec<_>>().join("\n")
        }
        None => {
            let told = class(&Map::new());
            let by_argv = members(&spec.params).any(|(name, _)| name == "argv");
            let listed = if by_argv { ", unless its arguments are listed: see `[tools.shell]`" } else { "" };
            let (first, rest) = told.split_at(1);
            format!("{}{rest}{listed}.", first.to_uppercase())
        }
    }
}

fn limits() -> String {
    let rows: [(&str, u64, &str); 31] = [
        ("a plan file", plan_file::PLAN_FILE_BYTES_MAX as u64, "bytes"),
        ("values within values in a plan file", plan_file::PLAN_FILE_DEPTH_MAX as u64, ""),
        ("values in a plan file", plan_file::PLAN_FILE_VALUES_MAX as u64, ""),
        ("values that aliases of a YAML file repeat", plan_file::YAML_REPEATED_MAX as u64, ""),
        ("the configuration", config::CONFIG_BYTES_MAX as u64, "bytes"),
        ("a template", template::TEMPLATE_BYTES_MAX as u64, "bytes"),
        ("what a template is filled with", template::RENDER_VALUES_BYTES_MAX as u64, "bytes"),
        ("a text that a template gives", template::RENDER_BYTES_MAX as u64, "bytes"),
        ("what filters of a template copy", template::RENDER_COPIES_BYTES_MAX as u64, "bytes"),
        ("the work of a template", template::RENDER_FUEL, "instructions"),
        ("a schema", contract::SCHEMA_BYTES_MAX as u64, "bytes"),
        ("the parts of a schema that it holds one value against", contract::SCHEMA_STEPS_MAX, ""),
        ("the work of judging by a contract", contract::JUDGEMENT_STEPS_MAX, "steps"),
        ("the work of checking the parameters of a call", gate::PARAMS_STEPS_MAX, "steps"),
        ("the rules of a contract", contract::CONTRACT_RULES_MAX as u64, ""),
        ("the patterns of a contract, compiled", contract::CONTRACT_PATTERNS_BYTES_MAX as u64, "bytes"),
        ("the patterns of a plan, compiled", PLAN_PATTERNS_BYTES_MAX as u64, "bytes"),
        ("the arguments of a test", contract::TEST_ARGUMENTS_MAX as u64, ""),
        ("the time that a test takes", ostler_actors::TEST_MS_MAX, "ms"),
        (
            "runs that are open at once below the run at the top",
            ostler_actors::CHILD_RUNS_OPEN_MAX as u64,
            "",
        ),
        ("a result", ostler_actors::RESULT_BYTES_MAX as u64, "bytes"),
        (
            "what a result takes in memory, and the parameters of a call",
            ostler_actors::RESULT_MEMORY_MAX as u64,
            "bytes",
        ),
        ("a file of text that a tool reads", tool::TEXT_FILE_BYTES_MAX, "bytes"),
        ("an answer that http.request takes", tool::HTTP_BODY_BYTES_MAX as u64, "bytes"),
        ("a page that http.fetch reads", tool::HTTP_BODY_BYTES_MAX as u64, "bytes"),
        ("the text of a page", tool::FETCH_BYTES_MAX as u64, "bytes"),
        ("the links that http.fetch lists", tool::PAGE_LINKS_MAX as u64, ""),
        ("a file that fs.edit changes", tool::EDIT_BYTES_MAX as u64, "bytes"),
        ("the entries of a list of host.facts", tool::FACTS_ITEMS_MAX as u64, ""),
        ("the processes that host.facts reads", tool::FACTS_PROCESSES_MAX as u64, ""),
        ("output of a program that is kept: the begin and the end", KEPT, "bytes"),
    ];
    let row = |mut text: String, (what, most, unit): (&str, u64, &str)| {
        let _ = writeln!(text, "| {what} | {} |", told(most, unit));
        text
    };
    let head = "| of | at most |\n|---|---|\n".to_owned();
    rows.into_iter().fold(head, row)
}

const KEPT: u64 = (tool::OUTPUT_HEAD_BYTES + tool::OUTPUT_TAIL_BYTES) as u64;

/// A number with its unit.
fn told(number: u64, unit: &str) -> String {
    match (unit, number) {
        ("bytes", number) if number % (1 << 20) == 0 => format!("{} MiB", number >> 20),
        ("bytes", number) if number % (1 << 10) == 0 => format!("{} KiB", number >> 10),
        ("", number) => number.to_string(),
        (unit, number) => format!("{number} {unit}"),
    }
}
