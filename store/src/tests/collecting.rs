//! Collecting expired runs.

use ostler_kernel::event::{Parent, RunTerms};
use ostler_kernel::market::{Job, JobOutcome, MarketStep};

use super::*;
use crate::format::segment::SEGMENT_HEADER_BYTES;

/// Checks that the runs below `closed` are gone and everything else is unchanged.
fn check_collected(found: &Content, whole: &Content, closed: u64) {
    let mut expected = whole.clone();
    expected.runs.retain(|id, _| (0..closed).all(|number| *id != run(number)));
    assert_eq!(found, &expected);
}

#[test]
fn runs_that_are_over_for_long_go_and_what_was_charged_for_them_stays() {
    let disk = filled();
    let whole = content(&disk);
    let used = disk.used();
    let dry = collect(&files(&disk), before(15), 0, 4096, None).unwrap();
    assert_eq!((dry.runs.len(), disk.used()), (15, used), "a dry run changes nothing");
    let done = collect(&files(&disk), before(15), 0, 4096, Some(&mut || Ok(()))).unwrap();
    assert_eq!(done.bytes, dry.bytes);
    let kept: BTreeSet<Digest> = (15..RUNS).map(|number| Digest([number as u8; 32])).collect();
    assert_eq!(done.needed.into_iter().collect::<BTreeSet<_>>(), kept);
    check_collected(&content(&disk), &whole, 15);
    // The remaining runs continue and are collected later.
    let journal = open(&disk);
    append(&journal, stream(25), 30, ending());
    append(
        &journal,
        StreamId::client(&client(0)),
        30,
        vec![Event::CreditDeposited { client: client(0), credits: 3, spent: 9 }],
    );
    drop(journal);
    let whole = content(&disk);
    assert_eq!(collect(&files(&disk), before(20), 0, 4096, Some(&mut || Ok(()))).unwrap().runs.len(), 5);
    check_collected(&content(&disk), &whole, 20);
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
        // Besides the records: the reserve, spare segments, and a partly filled segment.
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
    assert_eq!(content(&disk).runs.len(), 100);
}

#[test]
fn a_power_cut_at_any_step_of_collecting_leaves_all_or_nothing_done() {
    let whole = content(&filled());
    let disk = filled();
    let start = disk.changes();
    collect(&files(&disk), before(15), 0, 4096, Some(&mut || Ok(()))).unwrap();
    let (steps, after) = (disk.changes() - start, content(&disk));
    let (mut undone, mut done) = (0, 0);
    for cut in 0..steps {
        for seed in 0..1 {
            let mut disk = filled();
            let files = files(&disk);
            disk.die_after(cut);
            // A failure after the commit point does not undo the change.
            let _ = collect(&files, before(15), 0, 4096, Some(&mut || Ok(())));
            disk = disk.cut_power(seed + 10 * cut);
            let found = content(&disk);
            assert!(found == whole || found == after, "cut {cut}, seed {seed}");
            undone += u32::from(found == whole);
            done += u32::from(found == after);
            collect(&self::files(&disk), before(15), 0, 4096, Some(&mut || Ok(()))).unwrap();
            assert_eq!(content(&disk), after, "again after cut {cut}, seed {seed}");
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

/// A journal with a last write of three frames, torn in the first.
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
    let whole = content(&disk);
    let disk = torn();
    assert!(repaired(&disk).unwrap().is_empty());
    collect(&files(&disk), before(15), 0, 4096, Some(&mut || Ok(()))).unwrap();
    check_collected(&content(&disk), &whole, 15);
}

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
    let closing = JobOutcome { outcome: RunOutcome::Succeeded, spent: 1, composite: Some(750) };
    Event::Market { job: run(number), step: Box::new(MarketStep::Evaluated(closing)) }
}

#[test]
fn a_run_that_is_over_stays_until_its_job_and_the_run_that_opened_it_are() {
    let disk = FaultyDisk::new();
    let journal = open(&disk);
    // Runs 0 and 1 belong to jobs; run 3 opened run 2.
    (0..2).for_each(|number| append(&journal, StreamId::client(&client(number)), 0, vec![posted(number)]));
    let of = AttemptRef { node: "node".into(), generation: 1, patch_count: 0, attempt: 1 };
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

/// Finds the least free space, in kilobytes, for collecting. With less, collecting fails and changes nothing.
fn room_to_collect(reserve: bool) -> u64 {
    for room in 0.. {
        let disk = filled();
        let whole = content(&disk);
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
                check_collected(&content(&disk), &whole, 15);
                return room;
            }
            Err(error) => {
                assert!(error.to_string().contains("space"), "{error}");
                assert!(!reserve || left == (names, used), "{room} kilobytes: {left:?}");
                assert_eq!(content(&disk), whole);
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
    let whole = content(&disk);
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
    let after = content(&disk);
    assert!(done.bytes.bytes_after < done.bytes.bytes_before, "{done:?}");
    for (stream, events) in &after.clients {
        assert_eq!(events.len(), whole.clients[stream].len());
        for (job, plan) in plans(events) {
            let goes = (0..15).any(|number| job == run(number));
            assert_eq!(plan != long, goes, "{job}");
        }
    }
    check_collected(&Content { clients: whole.clients.clone(), ..after }, &whole, 15);
    // A second pass changes nothing, and the clients continue.
    let again = collect(&files(&disk), before(15), 0, 4096, Some(&mut || Ok(()))).unwrap();
    assert_eq!(again.bytes.bytes_after, again.bytes.bytes_before);
    append(&open(&disk), client_of(1), 9, vec![closed_job(29)]);
    assert_eq!(verify(&files(&disk), None).unwrap(), []);
}
