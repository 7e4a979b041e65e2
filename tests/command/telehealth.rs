//! The example `telehealth.yaml`: what an edit executes again, and nothing else.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::world::World;

const RUN: &str = "run examples/plans/telehealth.yaml --config examples/plans/telehealth.toml";

/// A folder with the example, which has run once.
fn memo() -> World {
    let world = World::new();
    let repository = Path::new(env!("CARGO_MANIFEST_DIR"));
    for folder in ["examples/plans", "examples/models", "examples/data/telehealth"] {
        fs::create_dir_all(world.path().join(folder)).unwrap();
        for entry in fs::read_dir(repository.join(folder)).unwrap() {
            let file = Path::new(folder).join(entry.unwrap().file_name());
            if file.to_string_lossy().contains("telehealth") {
                fs::copy(repository.join(&file), world.path().join(&file)).unwrap();
            }
        }
    }
    world.ostler(RUN).exits(0).says("15 executed").says("[C1] Behavioral health");
    world
}

#[track_caller]
fn replace(world: &World, file: &str, from: &str, to: &str) {
    let path = world.path().join("examples").join(file);
    let text = fs::read_to_string(&path).unwrap();
    assert!(text.contains(from), "no {from:?} in {file}");
    fs::write(path, text.replacen(from, to, 1)).unwrap();
}

/// Why each writing node of the last run has its result: `recomputed`, `reused` and the like, and the reason.
fn fates(world: &World) -> BTreeMap<String, (String, String)> {
    let mut lines = world.ostler("explain @last --json").exits(0).lines();
    lines.retain(|line| line["type"] == "explanation");
    let text = |line: &Value, key: &str| line[key].as_str().unwrap().to_owned();
    let fates = lines.iter().map(|line| (text(line, "node"), (text(line, "state"), text(line, "why"))));
    fates.filter(|(node, _)| !node.ends_with("_source")).collect()
}

/// Checks which nodes of the last run were executed again.
#[track_caller]
fn check(world: &World, recomputed: &[&str]) -> BTreeMap<String, (String, String)> {
    let fates = fates(world);
    let found: Vec<&str> =
        fates.iter().filter(|(_, (state, _))| state == "recomputed").map(|(node, _)| node.as_str()).collect();
    assert_eq!(found, recomputed);
    fates
}

#[test]
fn a_statement_is_written_anew_by_what_quotes_it_and_the_rest_is_kept() {
    let world = memo();
    replace(&world, "data/telehealth/operations.md", "64 of 210", "80 of 210");
    world.ostler(RUN).exits(0).says("80 of 210");
    let fates = check(&world, &["claim_matrix", "memo", "operations", "plan", "tension"]);
    assert!(fates["criteria"].1.contains("cut off: tension changed nothing"), "{fates:?}");
    assert_eq!(fates["plan"].1, "input `operations` changed: field `text`");
    let root = "root cause: operations_source: gave another result; recomputed below it: 5";
    assert_eq!(world.ostler("explain @last").exits(0).out.matches("root cause").count(), 1);
    world.ostler("explain @last").exits(0).says(root);

    replace(&world, "data/telehealth/operations.md", "From the interviews", "From interviews");
    world.ostler(RUN).exits(0);
    let fates = check(&world, &["operations"]);
    assert!(fates["memo"].1.contains(", operations, "), "{fates:?}");

    replace(&world, "data/telehealth/recruiting.md", "14 roles", "15 roles");
    world.ostler(RUN).exits(0);
    check(&world, &["recruiting"]);
}

#[test]
fn a_prompt_is_asked_again_and_an_equal_answer_ends_the_change() {
    let world = memo();
    replace(&world, "plans/telehealth.yaml", "Which claims speak for", "Which of these claims speak for");
    world.ostler(RUN).exits(0);
    let fates = check(&world, &["tension"]);
    assert_eq!(fates["tension"].1, "prompt changed");
    // A title is no part of the work.
    replace(&world, "plans/telehealth.yaml", "title: Should visits", "title: Shall visits");
    world.ostler(RUN).exits(0);
    check(&world, &[]);
}

#[test]
fn an_edited_result_reaches_what_reads_the_edited_field() {
    let world = memo();
    let config = "--config examples/plans/telehealth.toml";
    let artifact = world.ostler("artifact @last/claim_matrix").exits(0).out;
    let questions = artifact.replace("is unknown", "is studied");
    assert_ne!(artifact, questions);
    world.file("questions.json", &questions);
    world
        .ostler(&format!("edit @last claim_matrix --file questions.json {config}"))
        .exits(0)
        .says("is studied")
        .says("root cause: claim_matrix: edited by ");
    let fates = check(&world, &["memo"]);
    assert_eq!(fates["claim_matrix"].0, "edited");

    world.ostler(RUN).exits(0);
    let criteria = world.ostler("artifact @last/criteria").exits(0).out;
    let budget = r#""- [C4] The first year is budget-neutral.""#;
    let edited = criteria.replacen(r#"{"conditions":["#, &format!(r#"{{"conditions":[{budget},"#), 1);
    assert_ne!(criteria, edited);
    world.file("criteria.json", &edited);
    let edit = format!("edit @last criteria --file criteria.json {config}");
    world
        .ostler(&format!("{edit} --dry-run"))
        .exits(0)
        .says("executes at most 2 nodes\n  plan  uses the edited `criteria`\n  memo  uses");
    world.ostler(&edit).exits(0).says("[C4] The first year is budget-neutral.");
    let fates = check(&world, &["memo", "plan"]);
    assert_eq!(fates["criteria"].0, "edited");
}

#[test]
fn a_model_of_the_command_line_plays_the_nodes_that_ask_the_default() {
    let world = memo();
    world.file("short.yaml", "rules: [{when: {}, text: \"- [Z1] short\", repeat: true}]\n");
    let plan = "id: p\nnodes:\n  - {id: say, kind: model, params: {prompt: Say}}\n";
    world.file("plan.yaml", plan);
    let config = "--config examples/plans/telehealth.toml";
    let ran = world.ostler(&format!("run plan.yaml {config} --model scripted:short.yaml")).exits(0);
    ran.says("[Z1] short");
    let unknown = world.ostler(&format!("run plan.yaml {config} --model other")).exits(2);
    unknown.complains("--model other: not a configured model (default)");
}
