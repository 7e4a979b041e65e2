//! Composition of programs is associative and has an identity.
#![allow(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

mod common;

use std::sync::Arc;

use common::{submit, system};
use ostler_actors::{Mapping, Program, ProgramContext, Settled, System};
use ostler_kernel::event::{Event, Outcome};
use ostler_kernel::id::RunId;
use ostler_kernel::plan::Effect;
use ostler_kernel::port::{Journal, Seq, StreamId, Tool};
use ostler_kernel::run::{RunOutcome, RunStatus};
use ostler_store::MemoryJournal;
use proptest::prelude::*;
use serde_json::{Value, json};

/// A program that adds to a number in one or two steps.
#[derive(Debug, Clone)]
enum Piece {
    Adds(i64, bool),
    Identity,
}

impl Piece {
    fn program(&self) -> Program {
        let Piece::Adds(number, twice) = self.clone() else { return Program::identity() };
        Program::new(format!("add{number}"), "1", move |agent: ProgramContext, input: Value| async move {
            let before = input["n"].as_i64().unwrap_or(0);
            let mut sum: i64 = agent.step("add", async || Ok(before + number)).await?;
            if twice {
                sum = agent.step("more", async || Ok(sum * 3)).await?;
            }
            Ok(json!({"n": sum}))
        })
        .input(
            json!({"type": "object", "properties": {"n": {"type": "integer"}}, "additionalProperties": true}),
        )
    }
}

/// A mapping between two programs.
fn mapping(by: Option<i64>) -> Mapping {
    match by {
        None => Mapping::none(),
        Some(by) => Mapping::new(format!("times {by}"), move |value| {
            let number = value["n"].as_i64().ok_or("no number")?;
            Ok(json!({"n": number.wrapping_mul(by)}))
        }),
    }
}

fn piece() -> impl Strategy<Value = Piece> {
    prop_oneof![
        4 => (-9i64..9, any::<bool>()).prop_map(|(number, twice)| Piece::Adds(number, twice)),
        1 => Just(Piece::Identity),
    ]
}

fn by() -> impl Strategy<Value = Option<i64>> {
    prop_oneof![1 => Just(None), 3 => (-3i64..4).prop_map(Some)]
}

type Steps = Vec<(String, Option<Value>)>;

/// Result or failure of a program, and its recorded steps with their results.
fn seen(program: Program) -> (Result<Value, String>, Steps) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let journal = Arc::new(MemoryJournal::default());
        let program: Arc<dyn Tool> = Arc::new(program.named("whole"));
        let system = system(journal.clone(), vec![program]).await;
        let node = json!({"id": "n", "tool": "whole", "params": {"n": 5}, "retries": 0});
        let run = submit(&system, json!({"id": "p", "nodes": [node]})).await;
        let settled = system.outcome(run).await.unwrap();
        let given = given(&system, run, settled).await;
        system.shutdown().await;
        (given, steps(&*journal, run))
    })
}

async fn given(system: &System, run: RunId, settled: Settled) -> Result<Value, String> {
    if settled == RunStatus::Succeeded {
        return Ok(common::value(system, run, "n").await);
    }
    let view = system.view(run, None).await.unwrap();
    Err(view.run.instance(&"n".into()).unwrap().failure.clone().unwrap().message)
}

fn steps(journal: &dyn Journal, run: RunId) -> Steps {
    let records = journal.read(StreamId::attempts(&"local".into(), run), Seq(0), usize::MAX).unwrap();
    let results = records.into_iter().filter_map(|record| match record.event {
        Event::StepResult(result) => Some(match result.outcome {
            Outcome::Ok(output) => (result.step, output.inline.map(|inline| inline.value())),
            Outcome::Failed(_) => (result.step, None),
        }),
        _ => None,
    });
    results.collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn how_programs_are_bracketed_makes_no_difference(
        (a, b, c) in (piece(), piece(), piece()), (f, g) in (by(), by())
    ) {
        let [a, b, c] = [a, b, c].map(|piece| piece.program());
        let left = a.clone().then(mapping(f), b.clone()).then(mapping(g), c.clone());
        let right = a.then(mapping(f), b.then(mapping(g), c));
        prop_assert_eq!((left.name(), left.version()), (right.name(), right.version()));
        prop_assert_eq!(seen(left), seen(right));
    }

    #[test]
    fn the_identity_changes_nothing_before_or_behind((a, b, f) in (piece(), piece(), by())) {
        let alone = || a.program().then(mapping(f), b.program());
        let expected = seen(alone());
        prop_assert_eq!(&seen(Program::identity().then(Mapping::none(), alone())), &expected);
        prop_assert_eq!(&seen(alone().then(Mapping::none(), Program::identity())), &expected);
    }
}

#[test]
fn each_step_of_a_piece_is_known_by_its_place_and_what_a_piece_gave_is_kept() {
    let program = Piece::Adds(1, true).program().then(mapping(Some(2)), Piece::Adds(1, false).program());
    assert_eq!((program.name(), program.version()), ("add1-add1", "1-1"));
    let (given, steps) = seen(program);
    assert_eq!(given, Ok(json!({"n": 37})));
    let expected = [
        ("1.add1/add", json!(6)),
        ("1.add1/more", json!(18)),
        ("1.add1", json!({"n": 18})),
        ("2.add1/add", json!(37)),
    ];
    assert_eq!(steps, expected.map(|(step, value)| (step.to_owned(), Some(value))));
    let (_, alone) = seen(Piece::Adds(1, false).program());
    assert_eq!(alone, [("add".to_owned(), Some(json!(6)))]);
}

#[test]
fn what_is_wrong_between_two_pieces_names_the_second() {
    let spoils = |to: Value| Mapping::new("spoils", move |_| Ok(to.clone()));
    let add = || Piece::Adds(1, false).program();
    let (given, steps) = seen(add().then(spoils(json!({"n": "x"})), add()));
    let said = given.unwrap_err();
    assert!(said.starts_with("stage 2, add1: its input is not as it must be: "), "{said}");
    assert_eq!(steps.len(), 2, "the first was done");
    let refuses = Mapping::new("refuses", |_| Err("nothing will do".to_owned()));
    let (given, _) = seen(add().then(refuses, add()));
    assert_eq!(given.unwrap_err(), "map \"refuses\", before stage 2: nothing will do");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_said_of_programs_put_together_counts_beside_what_they_say() {
    let number = json!({"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]});
    let both = || {
        let (first, second) = (Piece::Adds(1, false).program(), Piece::Adds(2, false).program());
        first.impact(1).then(Mapping::none(), second)
    };
    let class = |program: &Program| program.class(&serde_json::Map::new());
    let acts = both().effect(Effect::External).impact(0).description("adds").named("program");
    assert_eq!((class(&acts).impact, class(&acts).effect), (1, Effect::External));
    assert_eq!(class(&both().impact(2)).impact, 2);
    assert_eq!((acts.spec().description.as_str(), acts.name()), ("adds", "program"));
    let small = json!({"type": "object", "properties": {"n": {"type": "integer", "maximum": 9}}});
    let held = both().input(number.clone()).output(small.clone()).effect(Effect::External).impact(2);
    let held = held.named("program");
    assert_eq!((&held.spec().params, &held.spec().result), (&number, &small));
    assert_eq!(class(&held.clone().then(Mapping::none(), both())).impact, 2);
    let system = system(Arc::new(MemoryJournal::default()), vec![Arc::new(held) as Arc<dyn Tool>]).await;
    for (n, outcome) in [(1, RunOutcome::Succeeded), (7, RunOutcome::Failed)] {
        let node = json!({"id": "n", "tool": "program", "params": {"n": n}, "retries": 0});
        let run = submit(&system, json!({"id": "p", "nodes": [node]})).await;
        assert_eq!(system.outcome(run).await.unwrap(), Settled::from(outcome), "{n}");
    }
}

#[test]
fn a_name_that_is_none_is_refused() {
    for name in ["", "two\nlines", "\0", &"x".repeat(201)] {
        let program: Arc<dyn Tool> = Arc::new(Program::identity().named(name));
        let refused = ostler_actors::Toolbox::new(vec![program]).unwrap_err().to_string();
        assert!(
            refused.ends_with("is no name of a tool: 1 to 200 bytes, without control characters"),
            "{refused}"
        );
    }
}
