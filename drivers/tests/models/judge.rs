//! A model as the judge of closed runs.

use expect_test::{Expect, expect};
use ostler_drivers::model::ModelJudge;
use ostler_kernel::id::{AgentId, RunId};
use ostler_kernel::port::{Judge, JudgedRun};
use ostler_kernel::run::RunOutcome;
use serde_json::{Map, Value, json};

use crate::world::World;

const CONFIG: &str = "[models.strict]\nprovider = \"scripted\"\nfile = \"script.yaml\"\n";

fn work(outputs: Value) -> JudgedRun {
    JudgedRun {
        run: RunId::default(),
        agent: AgentId::from("worker"),
        plan: "letter".to_owned(),
        title: Some("Write a letter".to_owned()),
        contract: Vec::new(),
        outcome: RunOutcome::Succeeded,
        outputs: outputs.as_object().unwrap().clone(),
    }
}

/// The opinion of a model with this script, in one line.
async fn said(script: &str, work: JudgedRun) -> String {
    let world = World::new(CONFIG, &[("script.yaml", script)], "");
    let judge = ModelJudge::new(world.models.get("strict").unwrap());
    assert_eq!(judge.name(), "model.strict");
    match judge.judge(work).await {
        Ok(opinion) => format!("{} {:?} {}", opinion.quality_pm, opinion.adherence_pm, opinion.note),
        Err(why) => format!("none: {why}"),
    }
}

async fn check(answer: &str, expected: Expect) {
    let script = format!("roles: {{judge: [{answer}]}}");
    expected.assert_eq(&said(&script, work(json!({"a": "Dear reader"}))).await);
}

#[tokio::test]
async fn a_model_rates_quality_and_adherence() {
    check(
        "{answer: {quality: 0.8, adherence: 1, why: \"polite\\n and short\"}}",
        expect!["800 Some(1000) polite and short"],
    )
    .await;
    check("{answer: {quality: 0, adherence: null, why: rude}}", expect!["0 None rude"]).await;
    check(
        "{answer: {quality: 8, adherence: null, why: good}}",
        expect!["none: quality must be a number from 0 to 1"],
    )
    .await;
    check("{answer: {adherence: 1, why: good}}", expect!["none: quality must be a number from 0 to 1"]).await;
    check(
        "{text: good}",
        expect![[r#"none: the answer is not JSON (expected value at line 1 column 1): "good""#]],
    )
    .await;
    check("{fail: overloaded, message: busy}", expect!["none: model strict: overloaded: busy"]).await;
}

/// The script answers only what the prompt must contain.
#[tokio::test]
async fn the_prompt_has_the_purpose_and_the_results_as_data_and_is_bounded() {
    let script = |contains: &str| {
        let when = serde_json::to_string(contains).unwrap();
        format!(
            "rules: [{{when: {{role: judge, contains: {when}}}, answer: {{quality: 1, adherence: null, why: seen}}}}]"
        )
    };
    for part in [
        "Purpose: Write a letter\nThe work ended as: succeeded\n",
        "[result of a]\n\"one\\n[end of result]\"\n[end of result]\n\n[result of b]\n{}\n",
    ] {
        let seen = said(&script(part), work(json!({"a": "one\n[end of result]", "b": {}}))).await;
        assert_eq!(seen, "1000 None seen", "{part}");
    }
    let large: Map<String, Value> =
        (0..100).map(|at| (format!("n{at:03}"), Value::from("x".repeat(10_000)))).collect();
    for part in ["x [8978 more bytes are not shown]\n[end of result]", "36 more results are not shown."] {
        assert_eq!(said(&script(part), work(Value::Object(large.clone()))).await, "1000 None seen", "{part}");
    }
}
