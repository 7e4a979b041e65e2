//! Step records of attempts share the fate of their run.

use ostler_kernel::event::{AttemptIntent, StepKey, StepResult};

use super::*;

fn noted(number: u64, step: u64) -> Event {
    let of = AttemptRef { node: "node".into(), generation: 1, patch_count: 0, attempt: 1 };
    let key = StepKey { version: "1".into(), input: Digest([0; 32]) };
    let outcome = Outcome::Ok(Output {
        artifact: Digest([100 + number as u8; 32]),
        bytes: 100,
        inline: Some(canonical(&json!("y".repeat(100))).unwrap()),
        directive: None,
    });
    Event::StepResult(Box::new(StepResult { of, step: step.to_string(), key, outcome }))
}

fn attempts(number: u64) -> StreamId {
    StreamId::attempts(&client(number), run(number))
}

fn begun() -> Event {
    Event::AttemptIntent(Box::new(AttemptIntent {
        node: "node".into(),
        generation: 1,
        patch_count: 0,
        attempt: 1,
        reuse: Digest([1; 32]),
        idempotency_key: Digest([2; 32]),
        intent: 1,
        policy_epoch: 1,
        provenance: Vec::new(),
        accounts: None,
    }))
}

/// Ten runs with step records. Runs 0 to 2 are closed, and runs 3 to 5 have no unfinished node.
fn with_notes() -> FaultyDisk {
    let disk = FaultyDisk::new();
    let journal = open(&disk);
    for number in 0..10 {
        append(&journal, stream(number), 0, vec![opened(number), begun()]);
        (0..4).for_each(|step| append(&journal, attempts(number), 1, vec![noted(number, step)]));
        if number < 6 {
            append(&journal, stream(number), 2, vec![result(number, 0)]);
        }
        if number < 3 {
            append(&journal, stream(number), number as i64, ending());
        }
    }
    for number in 3..10 {
        let parked = Event::RunRecovered { count: 0 };
        append(&journal, stream(number), 3, vec![parked]);
    }
    drop(journal);
    disk
}

fn notes_of(disk: &FaultyDisk, number: u64) -> Vec<Event> {
    let records = open(disk).read(attempts(number), Seq(0), usize::MAX).unwrap_or_default();
    records.into_iter().map(|record| record.event).collect()
}

#[test]
fn what_attempts_noted_goes_with_their_run_and_its_artifacts_stay_with_it() {
    let disk = with_notes();
    let kept: Vec<Vec<Event>> = (0..10).map(|number| notes_of(&disk, number)).collect();
    let collected = collect(&files(&disk), before(2), 0, 4096, Some(&mut || Ok(()))).unwrap();
    assert_eq!(collected.runs.len(), 2);
    for number in 0..10 {
        let gone = number < 2;
        assert_eq!(notes_of(&disk, number), if gone { Vec::new() } else { kept[number as usize].clone() });
        assert_eq!(collected.needed.contains(&Digest([100 + number as u8; 32])), !gone);
    }
}

/// Without an index, wherever a bit flips: a run with unfinished nodes is quarantined or has all step records.
#[test]
fn a_run_of_whose_notes_any_are_lost_does_not_go_on() {
    let whole: Vec<Vec<Event>> = (0..10).map(|number| notes_of(&with_notes(), number)).collect();
    let (mut aside, mut spared) = (0, 0);
    for segment in with_notes().list().unwrap().iter().filter(|name| name.ends_with(".seg")) {
        for offset in (0..small().segment_bytes as usize).step_by(61) {
            let disk = with_notes();
            disk.flip(segment, offset, 1);
            if repaired(&disk).is_err() {
                continue;
            }
            let rows: BTreeMap<RunId, RunRow> =
                open(&disk).runs(false).unwrap().into_iter().map(|row| (row.run, row)).collect();
            for number in 6..10 {
                match rows.get(&run(number)).map(|row| &row.status) {
                    Some(RunRowStatus::Quarantined(_)) => {
                        aside += 1;
                        assert!(
                            open(&disk)
                                .append(vec![StreamBatch {
                                    stream: attempts(number),
                                    expected: Seq(4),
                                    at_ms: 9,
                                    events: vec![noted(number, 9)],
                                }])
                                .is_err()
                        );
                    }
                    Some(_) => {
                        spared += 1;
                        let notes = notes_of(&disk, number);
                        assert_eq!(notes, whole[number as usize], "{segment} {offset}: run {number}");
                    }
                    None => {}
                }
            }
        }
    }
    assert!(aside > 10 && spared > 50, "{aside} {spared}");
}
