//! Diagnoses: a program's diagnoser raises the level of recovery, and what came of it is scored.
#![allow(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

mod common;

use std::sync::{Arc, Mutex};

use common::{diagnosed_by, left_by, states, submit, system};
use ostler_actors::System;
use ostler_kernel::event::Event;
use ostler_kernel::id::RunId;
use ostler_kernel::plan::Delta;
use ostler_kernel::port::{Journal, Seq, StreamId};
use ostler_kernel::run::{
    Diagnoser, Diagnosis, DiagnosisRequest, DiagnosisScore, FailureCategory, Planner, PlannerAnswer,
    PlannerRequest, RunStatus, StaticPlanner,
};
use ostler_store::MemoryJournal;
use serde_json::{Value, json};

/// Proposes the same level for every failure.
struct Says(u8);

impl Diagnoser for Says {
    fn diagnose(&self, _: &DiagnosisRequest<'_>) -> Diagnosis {
        Diagnosis { cause: "a loose cable".to_owned(), level: self.0, confidence: 90 }
    }
}

/// Gives a text that breaks its contract, as often as it is asked.
fn bad(more: Value) -> Value {
    let mut node = json!({"id": "n", "tool": "text.render", "params": {"template": "bad", "values": {}}, "retries": 3,
        "contract": [{"method": "schema", "spec": {"properties": {"text": {"const": "good"}}}}]});
    node.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    json!({"id": "p", "policy": {"backoff_base": "1ms", "max_replans": 1}, "nodes": [node]})
}

fn fallback() -> Value {
    json!({"fallback": {"params": {"template": "good", "values": {}}}})
}

/// (category, acted level, proposed level, confidence, cause) of each diagnosis.
fn diagnoses(journal: &MemoryJournal, run: RunId) -> Vec<(FailureCategory, u8, Diagnosis)> {
    let records = journal.read(StreamId::run(&"local".into(), run), Seq(0), usize::MAX).unwrap();
    let of = |event| match event {
        Event::Diagnosis { category, level, diagnosis, .. } => Some((category, level, *diagnosis)),
        _ => None,
    };
    records.into_iter().filter_map(|record| of(record.event)).collect()
}

async fn score(system: &System, run: RunId) -> DiagnosisScore {
    let scores = system.view(run, None).await.unwrap().run.diagnosis_scores();
    *scores.values().next().unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_diagnosis_raises_the_level_and_never_lowers_it() {
    let missing = json!({"tool": "fs.read", "params": {"path": "none"}, "contract": [{"method": "schema", "spec": {}}]});
    for (says, plan, levels, ends, tried) in [
        // An invalid output is retried; the diagnosis knows better.
        (2, bad(fallback()), vec![2], "n executed", 1),
        (1, bad(fallback()), vec![1, 1, 1, 1], "n executed", 3),
        // A structural failure is never retried, whatever the diagnosis says.
        (1, bad(missing), vec![2], "n failed", 0),
        // Without a patch in the plan, the retries are all there is.
        (2, bad(json!({})), vec![1, 1, 1, 1], "n failed", 0),
    ] {
        let journal = Arc::new(MemoryJournal::default());
        let system = diagnosed_by(journal.clone(), StaticPlanner, Says(says)).await;
        let run = submit(&system, plan).await;
        system.outcome(run).await.unwrap();
        assert_eq!(states(&system, run).await, ends);
        let made = diagnoses(&journal, run);
        assert_eq!(made.iter().map(|(_, level, _)| *level).collect::<Vec<_>>(), levels, "{made:?}");
        assert!(
            made.iter().all(|(.., diagnosis)| diagnosis.cause == "a loose cable" && diagnosis.level == says)
        );
        let score = score(&system, run).await;
        assert_eq!((score.made as usize, score.tried), (levels.len(), tried), "{score:?}");
        system.shutdown().await;
    }
}

/// Writes a node that does the work in another way, and keeps the diagnostic context that it was given.
struct Replaces(Arc<Mutex<Vec<String>>>);

impl Planner for Replaces {
    fn replan(&self, request: &PlannerRequest<'_>) -> PlannerAnswer<Delta> {
        let seen =
            request.run.diagnoses().map(|made| format!("{} {}: {}", made.node, made.category, made.cause));
        self.0.lock().unwrap().extend(seen);
        let node =
            json!({"id": "other", "tool": "text.render", "params": {"template": "good", "values": {}}});
        let delta = json!({"add": [node], "outputs": ["other"]});
        PlannerAnswer::Now(serde_json::from_value(delta).unwrap())
    }
}

#[tokio::test(start_paused = true)]
async fn a_diagnosis_asks_for_a_new_version_and_is_scored_by_its_end() {
    let (journal, seen) = (Arc::new(MemoryJournal::default()), Arc::default());
    let first = diagnosed_by(journal.clone(), Replaces(Arc::clone(&seen)), Says(3)).await;
    let run = submit(&first, bad(fallback())).await;
    assert_eq!(first.outcome(run).await.unwrap(), RunStatus::Succeeded);
    assert_eq!(states(&first, run).await, "n failed, other executed");
    assert_eq!(*seen.lock().unwrap(), ["n invalid_output: a loose cable"], "the planner sees the diagnosis");
    let expected = DiagnosisScore { made: 1, tried: 1, mended: 1, squared_errors: 100 };
    assert_eq!(score(&first, run).await, expected);
    first.shutdown().await;

    let second = system(left_by(&journal), Vec::new()).await;
    assert_eq!(score(&second, run).await, expected, "another process reads the same score");
    let view = second.view(run, None).await.unwrap();
    assert_eq!(view.run.diagnoses().count(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_level_that_the_plan_does_not_allow_is_the_one_below() {
    let journal = Arc::new(MemoryJournal::default());
    let system = diagnosed_by(journal.clone(), StaticPlanner, Says(3)).await;
    let mut source = bad(fallback());
    source["policy"]["max_replans"] = json!(0);
    let run = submit(&system, source).await;
    assert_eq!(system.outcome(run).await.unwrap(), RunStatus::Succeeded);
    let levels: Vec<u8> = diagnoses(&journal, run).iter().map(|(_, level, _)| *level).collect();
    assert_eq!(levels, [2], "no replan is left, so the node gets its fallback");
}

#[tokio::test(start_paused = true)]
async fn by_default_a_contract_that_is_broken_twice_in_the_same_way_is_patched() {
    let journal = Arc::new(MemoryJournal::default());
    let system = system(journal.clone(), Vec::new()).await;
    let run = submit(&system, bad(fallback())).await;
    assert_eq!(system.outcome(run).await.unwrap(), RunStatus::Succeeded);
    let made = diagnoses(&journal, run);
    let told: Vec<(u8, u8)> = made.iter().map(|(_, level, made)| (*level, made.confidence)).collect();
    assert_eq!(told, [(1, 60), (2, 60)], "{made:?}");
    assert!(made[1].2.cause.ends_with("again in the same way"), "{made:?}");
    let score = score(&system, run).await;
    assert_eq!((score.made, score.tried, score.mended), (2, 2, 1), "{score:?}");
    assert_eq!(score.brier(), Some((0.36 + 0.16) / 2.0));
}
