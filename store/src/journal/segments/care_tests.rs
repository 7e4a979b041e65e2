//! Removing runs and setting damaged ones aside, on a disk that forgets, flips and dies.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use ostler_kernel::evaluation::{Scores, Verdict};
use ostler_kernel::event::{
    Accounts, AttemptIntent, AttemptOf, AttemptResult, Evaluated, Event, Outcome, Output, Parent,
    PipelineRecord, Published, RunOpened, RunTerms, StepKey, StepResult,
};
use ostler_kernel::id::{ClientId, Digest, RunId};
use ostler_kernel::json::canonical;
use ostler_kernel::market::{Closing, Job, MarketStep};
use ostler_kernel::port::{
    Journal, JournalError, RunRow, RunStanding, Seq, StreamBatch, StreamId, StreamKind,
};
use ostler_kernel::run::RunOutcome;
use serde_json::json;

use super::collect::{Unwanted, collect};
use super::files::Files;
use super::repair::{Findings, repair};
use super::segment::SEGMENT_HEADER_BYTES;
use super::verify::verify;
use super::{Options, SegmentJournal};
use crate::disk::{Disk, FaultyDisk};
use crate::index::Index;

/// Sizes at which a few kilobytes fill a segment.
pub(super) fn small() -> Options {
    Options { segment_bytes: 8 * 1024, prepare_bytes: 1024, reserve_bytes: 4096, ..Options::default() }
}

pub(super) fn open(disk: &FaultyDisk) -> SegmentJournal {
    SegmentJournal::on_disk(Arc::new(disk.clone()), small()).unwrap().0
}

pub(super) fn run(number: u64) -> RunId {
    format!("00000000-0000-7000-8000-{number:012x}").parse().unwrap()
}

/// Runs belong to two clients by turns.
pub(super) fn client(number: u64) -> ClientId {
    ClientId::from(["acme", "bolt"][(number % 2) as usize])
}

pub(super) fn stream(number: u64) -> StreamId {
    StreamId::run(&client(number), run(number))
}

fn opened(number: u64) -> Event {
    Event::RunOpened(Box::new(RunOpened {
        run: run(number),
        client: client(number),
        agent: "worker".into(),
        plan: canonical(&json!({"id": format!("plan-{number}"), "nodes": []})).unwrap(),
        intent: 1,
        scope: "default".into(),
        workspace: "/tmp".into(),
        policy_epoch: 1,
        seed: 7,
    }))
}

pub(super) fn result(number: u64, step: u64) -> Event {
    let outcome = Outcome::Ok(Output {
        artifact: Digest([number as u8; 32]),
        bytes: 300,
        inline: Some(canonical(&json!("x".repeat(300))).unwrap()),
        directive: None,
    });
    let accounts = Some(Accounts { client_vruntime: (number * 100 + step) as i64, ..Accounts::default() });
    let result =
        AttemptResult { cost: 1 + number, accounts, ..AttemptResult::unpaid("node".into(), 1, outcome) };
    Event::AttemptResult(Box::new(result))
}

/// The last records of a run.
fn ending() -> Vec<Event> {
    let scores =
        Scores { quality: None, adherence: None, speed: 900, cost: 800, errors: 700, revisions: 600 };
    vec![
        Event::Evaluated(Evaluated { scores, composite: 750 }),
        Event::RunClosed { outcome: RunOutcome::Succeeded },
    ]
}

/// What a person says of a run that is over.
fn verdict(number: u64) -> Event {
    let scores =
        Scores { quality: Some(10), adherence: None, speed: 900, cost: 800, errors: 700, revisions: 600 };
    let Event::RunOpened(opened) = opened(number) else { unreachable!("that is what it gives") };
    Event::Verdict(Box::new(Verdict {
        run: run(number),
        agent: Some(opened.agent),
        quality: Some(10),
        adherence: None,
        evaluated: Evaluated { scores, composite: 300 },
        by: "pat".into(),
        note: String::new(),
    }))
}

pub(super) fn append(journal: &SegmentJournal, stream: StreamId, at_ms: i64, events: Vec<Event>) {
    let last = journal.read(stream, Seq(0), usize::MAX).unwrap().last().map_or(Seq(0), |record| record.seq);
    journal.append(vec![StreamBatch { stream, expected: last, at_ms, events }]).unwrap();
}

const RUNS: u64 = 30;

/// Thirty runs whose records lie among each other: the first twenty are over, at times that are their numbers.
pub(super) fn filled() -> FaultyDisk {
    let disk = FaultyDisk::new();
    let journal = open(&disk);
    for name in ["acme", "bolt"] {
        let set = Event::ClientSet { client: name.into(), weight: 5, contracted: true };
        append(&journal, StreamId::client(&name.into()), 1, vec![set]);
    }
    for number in 0..RUNS {
        append(&journal, stream(number), 0, vec![opened(number)]);
        for back in 0..4.min(number + 1) {
            append(&journal, stream(number - back), 1, vec![result(number - back, number)]);
        }
        if number >= 4 && number - 4 < 20 {
            append(&journal, stream(number - 4), (number - 4) as i64, ending());
            if number % 5 == 0 {
                let stream = StreamId::client(&client(number - 4));
                append(&journal, stream, 2, vec![verdict(number - 4)]);
            }
        }
        if number % 7 == 0 {
            let client = client(number);
            let stream = StreamId::client(&client);
            append(&journal, stream, 2, vec![Event::CreditDeposited { client, credits: 10, spent: 0 }]);
        }
    }
    drop(journal);
    disk
}

/// Everything that a journal tells, apart from where it stands.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Told {
    runs: BTreeMap<RunId, (RunRow, Vec<(u64, Event)>)>,
    accounts: BTreeMap<String, (u64, String)>,
    /// Accounts in the order in which they were settled last.
    settled: Vec<String>,
    clients: BTreeMap<StreamId, Vec<Event>>,
}

pub(super) fn told(disk: &FaultyDisk) -> Told {
    super::swap::finish(disk).unwrap();
    assert_eq!(verify(&files(disk), None).unwrap(), []);
    let journal = open(disk);
    let records = |stream| journal.read(stream, Seq(0), usize::MAX);
    let rows = journal.runs(false).unwrap().into_iter();
    let runs = rows.map(|row| {
        let read = records(StreamId::run(&row.client, row.run)).unwrap_or_default();
        let read = read.into_iter().map(|record| (record.seq.0, record.event)).collect();
        (row.run, (RunRow { position: Default::default(), ..row }, read))
    });
    let mut rows = journal.accounts().unwrap();
    rows.sort_by_key(|row| row.settled);
    let name = |row: &ostler_kernel::port::AccountRow| format!("{} {:?}", row.client, row.agent);
    let known = |row: &ostler_kernel::port::AccountRow| {
        (row.spent, format!("{:?} {:?}", row.accounts, row.reputation))
    };
    let clients = journal.clients().unwrap().into_iter();
    Told {
        runs: runs.collect(),
        settled: rows.iter().map(name).collect(),
        accounts: rows.iter().map(|row| (name(row), known(row))).collect(),
        clients: clients
            .map(|stream| (stream, records(stream).unwrap().into_iter().map(|record| record.event).collect()))
            .collect(),
    }
}

pub(super) fn files(disk: &FaultyDisk) -> Files {
    super::swap::finish(disk).unwrap();
    Files::new(Arc::new(disk.clone()), small().segment_bytes)
}

pub(super) fn before(closed_before_ms: i64) -> Unwanted {
    Unwanted { closed_before_ms: Some(closed_before_ms), quarantined: false }
}

/// Runs numbered below `closed` were over before then, and are to be gone; all else is as it was.
fn check_collected(found: &Told, whole: &Told, closed: u64) {
    let mut expected = whole.clone();
    expected.runs.retain(|id, _| (0..closed).all(|number| *id != run(number)));
    assert_eq!(found, &expected);
}

#[test]
fn runs_that_are_over_for_long_go_and_what_was_charged_for_them_stays() {
    let disk = filled();
    let whole = told(&disk);
    let used = disk.used();
    let dry = collect(&files(&disk), before(15), 0, 4096, None).unwrap();
    assert_eq!((dry.runs.len(), disk.used()), (15, used), "nothing changes unless told to");
    let done = collect(&files(&disk), before(15), 0, 4096, Some(&mut || Ok(()))).unwrap();
    assert_eq!(done.bytes, dry.bytes);
    let kept: BTreeSet<Digest> = (15..RUNS).map(|number| Digest([number as u8; 32])).collect();
    assert_eq!(done.needed.into_iter().collect::<BTreeSet<_>>(), kept);
    check_collected(&told(&disk), &whole, 15);
    // What is left goes on, is collected again, and opens again.
    let journal = open(&disk);
    append(&journal, stream(25), 30, ending());
    append(
        &journal,
        StreamId::client(&client(0)),
        30,
        vec![Event::CreditDeposited { client: client(0), credits: 3, spent: 9 }],
    );
    drop(journal);
    let whole = told(&disk);
    assert_eq!(collect(&files(&disk), before(20), 0, 4096, Some(&mut || Ok(()))).unwrap().runs.len(), 5);
    check_collected(&told(&disk), &whole, 20);
    assert_eq!(collect(&files(&disk), before(20), 0, 4096, Some(&mut || Ok(()))).unwrap().runs, []);
}

#[test]
fn the_room_that_is_taken_goes_with_what_is_kept() {
    let disk = FaultyDisk::new();
    let journal = open(&disk);
    for number in 0..400 {
        append(&journal, stream(number), 0, vec![opened(number)]);
        append(&journal, stream(number), number as i64, [vec![result(number, 0)], ending()].concat());
    }
    drop(journal);
    let all = disk.used();
    let mut last = all;
    for gone in [100, 200, 300, 390, 400] {
        let done = collect(&files(&disk), before(gone), 0, 4096, Some(&mut || Ok(()))).unwrap();
        let used = disk.used();
        let kept = (400 - gone) as u64 * all / 400;
        // Beside what is kept: the reserve, room for segments to come, a segment that is not full.
        let beside = 6 * small().segment_bytes;
        assert!(used <= kept + kept / 4 + beside, "{gone} gone: {used} bytes for {kept}, of {all}");
        assert!(used < last || gone == 400, "{gone} gone: {used} bytes, {last} before");
        assert!(done.bytes.bytes_after < done.bytes.bytes_before);
        last = used;
        drop(open(&disk));
    }
    let segments = disk.list().unwrap().iter().filter(|name| name.ends_with(".seg")).count();
    assert!(segments <= 2, "{segments}");
    let spares = disk.list().unwrap().iter().filter(|name| name.ends_with(".spare")).count();
    assert!(spares > 0, "room is kept for segments to come");
    let journal = open(&disk);
    for number in 500..600 {
        append(&journal, stream(number), 0, vec![opened(number), result(number, 0)]);
    }
    drop(journal);
    assert_eq!(disk.list().unwrap().iter().filter(|name| name.ends_with(".spare")).count(), 0);
    assert_eq!(told(&disk).runs.len(), 100);
}

#[test]
fn a_power_cut_at_any_step_of_collecting_leaves_all_or_nothing_done() {
    let whole = told(&filled());
    let disk = filled();
    let start = disk.changes();
    collect(&files(&disk), before(15), 0, 4096, Some(&mut || Ok(()))).unwrap();
    let (steps, after) = (disk.changes() - start, told(&disk));
    let (mut undone, mut done) = (0, 0);
    for cut in 0..steps {
        for seed in 0..1 {
            let mut disk = filled();
            let files = files(&disk);
            disk.die_after(cut);
            // What is left to do after the change was made is not needed for it.
            let _ = collect(&files, before(15), 0, 4096, Some(&mut || Ok(())));
            disk = disk.cut_power(seed + 10 * cut);
            let found = told(&disk);
            assert!(found == whole || found == after, "cut {cut}, seed {seed}");
            undone += u32::from(found == whole);
            done += u32::from(found == after);
            collect(&self::files(&disk), before(15), 0, 4096, Some(&mut || Ok(()))).unwrap();
            assert_eq!(told(&disk), after, "again after cut {cut}, seed {seed}");
        }
    }
    assert!(undone > 5 && done > 5, "{undone} {done}");
}

#[test]
fn a_damaged_journal_is_not_collected() {
    let disk = filled();
    disk.flip("0000000002.seg", 1000, 1);
    let before_it = disk.changes();
    assert!(collect(&files(&disk), before(15), 0, 4096, Some(&mut || Ok(()))).is_err());
    assert_eq!(disk.changes(), before_it);
}

#[test]
fn a_flip_in_the_accounts_that_collecting_left_is_damage_and_no_torn_end() {
    let disk = filled();
    collect(&files(&disk), before(15), 0, 4096, Some(&mut || Ok(()))).unwrap();
    let last = disk.list().unwrap().into_iter().filter(|name| name.ends_with(".seg")).max().unwrap();
    disk.flip(&last, SEGMENT_HEADER_BYTES + 60, 1);
    assert_ne!(verify(&files(&disk), None).unwrap(), []);
    assert!(SegmentJournal::on_disk(Arc::new(disk), small()).is_err(), "nobody builds upon it");
}

pub(super) fn mend(disk: &FaultyDisk) -> std::io::Result<Findings> {
    super::swap::finish(disk)?;
    let files = Files::new(Arc::new(disk.clone()), small().segment_bytes);
    let fine = |_| None;
    match repair(&files, &Index::open(None), 0, &fine, Some(&mut || Ok(()))) {
        Ok(findings) => Ok(findings),
        Err(error) => Err(std::io::Error::other(error)),
    }
}

/// Each run is as it was, or it was set aside: listed, unreadable, and closed to whoever would go on with it.
fn check_mended(disk: &FaultyDisk, whole: &Told, context: &str) -> BTreeSet<RunId> {
    let found = told(disk);
    let mut aside = BTreeSet::new();
    for (id, (row, events)) in &whole.runs {
        match found.runs.get(id) {
            Some((left, _)) if matches!(left.standing, RunStanding::Quarantined(_)) => {
                aside.insert(*id);
            }
            Some((left, records)) => {
                assert_eq!((left, records), (row, events), "{context}");
            }
            // All that named it is gone.
            None => assert!(events.len() < 3, "{context}: {id} is gone"),
        }
    }
    let journal = open(disk);
    for id in &aside {
        let row = &found.runs[id].0;
        let stream = StreamId::run(&row.client, *id);
        let batch = StreamBatch { stream, expected: Seq(0), at_ms: 0, events: vec![opened(0)] };
        assert!(matches!(journal.append(vec![batch]), Err(JournalError::Refused(_))), "{context}");
        let read = journal.read(stream, Seq(0), 10);
        assert!(matches!(read, Err(JournalError::Damaged { .. })), "{context}: {read:?}");
    }
    for (stream, events) in &found.clients {
        let mut left = whole.clients[stream].iter();
        assert!(events.iter().all(|event| left.any(|other| other == event)), "{context}: {events:?}");
    }
    aside
}

#[test]
fn whichever_byte_flips_the_runs_it_touches_are_set_aside_and_no_other_is_changed() {
    let whole = told(&filled());
    let segment = small().segment_bytes as usize;
    let mut most = 0;
    for flip in 0..60 {
        let disk = filled();
        let (number, offset) = (1 + flip % 3, (flip * 7919) % segment);
        disk.flip(&format!("{number:010}.seg"), offset, 1 << (flip % 8));
        let context = format!("segment {number}, offset {offset}");
        let findings = mend(&disk).unwrap();
        let aside = check_mended(&disk, &whole, &context);
        let named: BTreeSet<RunId> = findings.runs.iter().map(|one| one.row.run).collect();
        assert!(named.is_superset(&aside), "{context}");
        most = most.max(aside.len());
        if findings.damages.is_empty() {
            continue; // nothing was written there
        }
        assert!(!findings.kept.is_empty(), "{context}");
        let again = mend(&disk).unwrap();
        assert!(again.is_empty(), "{context}: {again:?}");
        // What is not touched goes on.
        let journal = open(&disk);
        for number in (0..RUNS).filter(|number| !named.contains(&run(*number))) {
            if whole.runs[&run(number)].0.standing == RunStanding::Open {
                append(&journal, stream(number), 99, vec![result(number, 99)]);
            }
        }
    }
    assert!((1..=8).contains(&most), "{most} runs of one byte");
}

#[test]
fn a_power_cut_at_any_step_of_repairing_loses_nothing_that_was_left() {
    let whole = told(&filled());
    let damaged = || {
        let disk = filled();
        disk.flip("0000000002.seg", 4000, 1);
        disk.flip("0000000001.seg", 3000, 1);
        disk
    };
    let disk = damaged();
    let start = disk.changes();
    let findings = mend(&disk).unwrap();
    let (steps, after) = (disk.changes() - start, told(&disk));
    assert!(!findings.runs.is_empty());
    for cut in 0..steps {
        for seed in 0..1 {
            let mut disk = damaged();
            disk.die_after(cut);
            let _ = mend(&disk);
            disk = disk.cut_power(seed + 10 * cut);
            mend(&disk).unwrap();
            let context = format!("cut {cut}, seed {seed}");
            check_mended(&disk, &whole, &context);
            assert_eq!(told(&disk), after, "{context}");
            let damaged = disk.list().unwrap().iter().filter(|name| name.contains(".damaged-")).count();
            assert_eq!(damaged, 2, "{context}");
        }
    }
}

#[test]
fn records_of_a_client_that_are_lost_are_told_and_the_others_stay() {
    let disk = filled();
    let whole = told(&disk);
    let acme = StreamId::client(&"acme".into());
    // The second record of the client, found by its name and its kind.
    let journal = open(&disk);
    let place = journal.read(acme, Seq(1), 1).unwrap()[0].position.0;
    drop(journal);
    let name = format!("{:010}.seg", place >> 32);
    disk.flip(&name, (place & 0xffff_ffff) as usize + 40, 4);
    let findings = mend(&disk).unwrap();
    assert_eq!(findings.clients.len(), 1);
    assert_eq!(findings.clients[0].client, Some("acme".into()));
    let mut left = whole.clients[&acme].clone();
    left.remove(1);
    assert_eq!(told(&disk).clients[&acme], left);
    let journal = open(&disk);
    let deposit = Event::CreditDeposited { client: "acme".into(), credits: 1, spent: 0 };
    append(&journal, acme, 1, vec![deposit]);
}

#[test]
fn a_list_that_is_damaged_is_made_anew_from_what_is_left_of_the_runs() {
    let disk = filled();
    disk.flip("0000000002.seg", 1000, 1);
    let first = mend(&disk).unwrap();
    let moved: BTreeSet<RunId> =
        first.runs.iter().filter(|one| one.moved > 0).map(|one| one.row.run).collect();
    assert!(!moved.is_empty());
    disk.flip("quarantine", 100, 1);
    let refused = SegmentJournal::on_disk(Arc::new(disk.clone()), small()).err().unwrap().to_string();
    assert!(refused.contains("doctor --repair"), "{refused}");
    assert!(mend(&disk).unwrap().list_damaged);
    let found = told(&disk);
    for id in &moved {
        assert!(matches!(found.runs[id].0.standing, RunStanding::Quarantined(_)), "{id}");
    }
    let unwanted = Unwanted { closed_before_ms: None, quarantined: true };
    let gone = collect(&files(&disk), unwanted, 0, 4096, Some(&mut || Ok(()))).unwrap();
    assert_eq!(gone.quarantined.into_iter().collect::<BTreeSet<_>>(), moved);
    let names = disk.list().unwrap();
    let left: Vec<&String> = names
        .iter()
        .filter(|name| name.contains("damaged") || name.contains("remains") || *name == "quarantine")
        .collect();
    assert!(left.is_empty(), "{left:?}");
    assert!(moved.iter().all(|id| !told(&disk).runs.contains_key(id)));
}

/// A journal whose last write, of three frames, was cut short in its first.
fn torn() -> FaultyDisk {
    let disk = filled();
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let journal = open(&disk);
    disk.hold_syncs();
    append(&journal, stream(25), 50, vec![result(25, 50)]);
    while disk.syncs_waiting() == 0 {
        std::thread::yield_now();
    }
    let write = |number: u64| {
        append(&journal, stream(number), 51, vec![result(number, 51)]);
        let last = journal.read(stream(number), Seq(0), usize::MAX).unwrap();
        last.last().unwrap().position
    };
    let places = [write(26), write(27), write(26)];
    disk.release_syncs();
    runtime.block_on(journal.durable(places[2])).unwrap();
    disk.die_after(0);
    drop(journal);
    let disk = disk.cut_power(1);
    disk.flip(&format!("{:010}.seg", places[0].0 >> 32), (places[0].0 & 0xffff_ffff) as usize + 20, 1);
    disk
}

#[test]
fn what_was_torn_goes_whoever_meets_it_first() {
    let disk = torn();
    drop(open(&disk));
    let whole = told(&disk);
    let disk = torn();
    assert!(mend(&disk).unwrap().is_empty());
    collect(&files(&disk), before(15), 0, 4096, Some(&mut || Ok(()))).unwrap();
    check_collected(&told(&disk), &whole, 15);
}

/// What an attempt of a run noted.
fn noted(number: u64, step: u64) -> Event {
    let of = AttemptOf { node: "node".into(), generation: 1, phase: 0, attempt: 1 };
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
        phase: 0,
        attempt: 1,
        reuse: Digest([1; 32]),
        idempotency_key: Digest([2; 32]),
        intent: 1,
        policy_epoch: 1,
        provenance: Vec::new(),
        accounts: None,
    }))
}

/// Ten runs whose attempts noted something, one after the other and once more in the end; the first three are over, the next
/// three have no work that is not done.
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

/// Wherever a bit flips, and without an index: a run that goes on has all that its attempts noted, if any of its work is not done.
#[test]
fn a_run_of_whose_notes_any_are_lost_does_not_go_on() {
    let whole: Vec<Vec<Event>> = (0..10).map(|number| notes_of(&with_notes(), number)).collect();
    let (mut aside, mut spared) = (0, 0);
    for segment in with_notes().list().unwrap().iter().filter(|name| name.ends_with(".seg")) {
        for offset in (0..small().segment_bytes as usize).step_by(61) {
            let disk = with_notes();
            disk.flip(segment, offset, 1);
            if mend(&disk).is_err() {
                continue;
            }
            let rows: BTreeMap<RunId, RunRow> =
                open(&disk).runs(false).unwrap().into_iter().map(|row| (row.run, row)).collect();
            for number in 6..10 {
                match rows.get(&run(number)).map(|row| &row.standing) {
                    Some(RunStanding::Quarantined(_)) => {
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

/// Events and acknowledgements of a pipeline, among the records of runs.
fn with_pipeline() -> FaultyDisk {
    let disk = filled();
    let journal = open(&disk);
    let id = ostler_kernel::id::PipelineId::from("web");
    let stream = StreamId::pipeline(&id);
    let spec = canonical(&json!({"id": "web", "stages": [
        {"name": "a", "publishes": ["x"]}, {"name": "b", "subscribes": ["x"]},
    ]}))
    .unwrap();
    let told = |record| Event::Pipeline(Box::new(record));
    append(&journal, stream, 1, vec![told(PipelineRecord::Created { spec })]);
    for upto in 1..=20 {
        let data = canonical(&json!("y".repeat(200))).unwrap();
        let event = Published { stage: "a".into(), kind: "x".into(), data };
        append(&journal, stream.log(), 1, vec![Event::Published(event)]);
        let acked = PipelineRecord::Acked { stage: "b".into(), upto, state: None };
        append(&journal, stream, 1, vec![told(acked)]);
        append(&journal, StreamId::run(&client(29), run(29)), 1, vec![result(29, upto)]);
    }
    drop(journal);
    disk
}

#[test]
fn a_pipeline_that_lost_a_record_is_moved_out_and_begins_anew_and_one_that_lost_none_stays() {
    let stream = StreamId::pipeline(&"web".into());
    let read = |disk: &FaultyDisk, stream| {
        let journal = open(disk);
        journal.read(stream, Seq(0), usize::MAX).unwrap()
    };
    let whole = [stream, stream.log()].map(|stream| read(&with_pipeline(), stream).len());
    assert_eq!(whole, [21, 20]);
    let segments = Files::new(Arc::new(with_pipeline()), small().segment_bytes).numbers().unwrap();
    let (mut moved, mut stayed) = (0, 0);
    for flip in 0..60 {
        let disk = with_pipeline();
        let number = segments[flip % segments.len()];
        let offset = (flip * 7919) % small().segment_bytes as usize;
        disk.flip(&format!("{number:010}.seg"), offset, 1 << (flip % 8));
        let findings = mend(&disk).unwrap();
        let left = [stream, stream.log()].map(|stream| read(&disk, stream).len());
        match &findings.pipelines[..] {
            [] => {
                assert_eq!(left, whole);
                stayed += 1;
            }
            [loss] => {
                assert_eq!(left, [0, 0]);
                assert!(
                    loss.moved <= 41 && loss.pipeline.as_deref().is_none_or(|name| name == "web"),
                    "{loss:?}"
                );
                let names = disk.list().unwrap();
                assert_eq!(names.contains(&loss.remains), loss.moved > 0, "{names:?}");
                // It can be declared again.
                let spec = canonical(&json!({})).unwrap();
                let created = Event::Pipeline(Box::new(PipelineRecord::Created { spec }));
                append(&open(&disk), stream, 1, vec![created]);
                moved += 1;
            }
            several => panic!("{several:?}"),
        }
        assert!(mend(&disk).unwrap().is_empty());
    }
    assert!(moved > 0 && stayed > 0, "{moved} moved, {stayed} stayed");
}

#[test]
fn collecting_runs_leaves_pipelines_as_they_are_but_for_what_they_do_not_need() {
    let disk = with_pipeline();
    let stream = StreamId::pipeline(&"web".into());
    let found = collect(&files(&disk), before(20), 0, 4096, Some(&mut || Ok(()))).unwrap();
    assert_eq!((found.runs.len(), found.bytes.events, found.stage_records), (20, 0, 19));
    let journal = open(&disk);
    assert_eq!(journal.streams(StreamKind::Pipeline).unwrap(), [stream]);
    assert_eq!(journal.streams(StreamKind::PipelineLog).unwrap(), [stream.log()]);
    let events = journal.read(stream.log(), Seq(5), 100).unwrap();
    assert_eq!((events.len(), events[0].seq), (15, Seq(6)));
    let acks = journal.read(stream, Seq(0), 100).unwrap();
    let last = PipelineRecord::Acked { stage: "b".into(), upto: 20, state: None };
    assert_eq!((acks.len(), &acks[1].event), (2, &Event::Pipeline(Box::new(last))));
}

/// A job whose run is the one of this number.
fn posted(number: u64) -> Event {
    let job = Job {
        id: run(number),
        client: client(number),
        title: "a job".into(),
        capabilities: BTreeSet::new(),
        domain: None,
        budget: 10,
        deadline: None,
        oversight: Default::default(),
        plan: canonical(&json!({"id": "p", "nodes": []})).unwrap(),
        intent: 1,
        scope: "default".into(),
        workspace: "/tmp".into(),
    };
    Event::Market { job: run(number), step: Box::new(MarketStep::Posted(job)) }
}

fn closed_job(number: u64) -> Event {
    let closing = Closing { outcome: RunOutcome::Succeeded, spent: 1, composite: Some(750) };
    Event::Market { job: run(number), step: Box::new(MarketStep::Evaluated(closing)) }
}

#[test]
fn a_run_that_is_over_stays_until_its_job_and_the_run_that_opened_it_are() {
    let disk = FaultyDisk::new();
    let journal = open(&disk);
    // Runs 0 and 1 are of jobs, 2 was opened by 3, 4 by nobody.
    (0..2).for_each(|number| append(&journal, StreamId::client(&client(number)), 0, vec![posted(number)]));
    let of = AttemptOf { node: "node".into(), generation: 1, phase: 0, attempt: 1 };
    let parent = Some(Parent { run: run(3), of, step: "s".into() });
    for number in 0..5 {
        append(&journal, stream(number), 0, vec![opened(number)]);
        if number == 2 {
            let terms = RunTerms { budget: None, parent: parent.clone() };
            append(&journal, stream(number), 0, vec![Event::RunTerms(Box::new(terms))]);
        }
        if number != 3 {
            append(&journal, stream(number), 1, ending());
        }
    }
    append(&journal, StreamId::client(&client(1)), 1, vec![closed_job(1)]);
    drop(journal);
    let gone = || {
        let collected = collect(&files(&disk), before(15), 0, 4096, Some(&mut || Ok(()))).unwrap();
        collected.runs.into_iter().collect::<BTreeSet<_>>()
    };
    assert_eq!(gone(), [run(1), run(4)].into());
    let journal = open(&disk);
    append(&journal, StreamId::client(&client(0)), 2, vec![closed_job(0)]);
    append(&journal, stream(3), 20, ending());
    drop(journal);
    assert_eq!(gone(), [run(0), run(2)].into());
}

/// The least room beside what is there, in kilobytes, with which old runs are removed. With less, nothing has changed.
fn room_to_collect(reserve: bool) -> u64 {
    for room in 0.. {
        let disk = filled();
        let whole = told(&disk);
        if !reserve {
            disk.remove("reserve").unwrap();
        }
        let (names, used) = (disk.list().unwrap(), disk.used());
        disk.set_capacity(Some(used + 1024 * room));
        let collected = collect(&files(&disk), before(15), 0, 4096, Some(&mut || Ok(())));
        let left = (disk.list().unwrap(), disk.used());
        disk.set_capacity(None);
        match collected {
            Ok(_) => {
                check_collected(&told(&disk), &whole, 15);
                return room;
            }
            Err(error) => {
                assert!(error.to_string().contains("space"), "{error}");
                assert!(!reserve || left == (names, used), "{room} kilobytes: {left:?}");
                assert_eq!(told(&disk), whole);
            }
        }
    }
    unreachable!("some room is enough")
}

#[test]
fn removing_runs_on_a_full_disk_uses_the_reserve_and_leaves_nothing_behind_if_that_is_too_little() {
    let (with, without) = (room_to_collect(true), room_to_collect(false));
    assert!(with > 0, "it may be too little");
    assert_eq!(without - with, 4, "the reserve is of four kilobytes");
}

#[test]
fn the_plan_of_a_job_goes_with_its_run_and_all_else_of_it_stays() {
    let long = canonical(&json!({"id": "p".repeat(3_000), "nodes": []})).unwrap();
    let disk = filled();
    let journal = open(&disk);
    let client_of = |number| StreamId::client(&client(number));
    for number in 0..RUNS {
        let Event::Market { job, step } = posted(number) else { unreachable!("that is what it gives") };
        let MarketStep::Posted(posted) = *step else { unreachable!("that is what it gives") };
        let posted = Box::new(MarketStep::Posted(Job { plan: long.clone(), ..posted }));
        let decomposed = Box::new(MarketStep::Decomposed { plan: long.clone(), nodes: 1 });
        append(&journal, client_of(number), 1, vec![Event::Market { job, step: posted }]);
        append(&journal, client_of(number), 2, vec![Event::Market { job, step: decomposed }]);
        if number < 18 {
            append(&journal, client_of(number), 3, vec![closed_job(number)]);
        }
    }
    drop(journal);
    let whole = told(&disk);
    let done = collect(&files(&disk), before(15), 0, 4096, Some(&mut || Ok(()))).unwrap();
    let plans = |events: &[Event]| {
        let plan = |event: &Event| match event {
            Event::Market { job, step } => match &**step {
                MarketStep::Posted(Job { plan, .. }) | MarketStep::Decomposed { plan, .. } => {
                    Some((*job, plan.clone()))
                }
                _ => None,
            },
            _ => None,
        };
        events.iter().filter_map(plan).collect::<Vec<_>>()
    };
    let after = told(&disk);
    assert!(done.bytes.bytes_after < done.bytes.bytes_before, "{done:?}");
    for (stream, events) in &after.clients {
        assert_eq!(events.len(), whole.clients[stream].len());
        for (job, plan) in plans(events) {
            let goes = (0..15).any(|number| job == run(number));
            assert_eq!(plan != long, goes, "{job}");
        }
    }
    check_collected(&Told { clients: whole.clients.clone(), ..after }, &whole, 15);
    // Nothing is left to do, and the clients go on.
    let again = collect(&files(&disk), before(15), 0, 4096, Some(&mut || Ok(()))).unwrap();
    assert_eq!(again.bytes.bytes_after, again.bytes.bytes_before);
    append(&open(&disk), client_of(1), 9, vec![closed_job(29)]);
    assert_eq!(verify(&files(&disk), None).unwrap(), []);
}
