//! Repairing quarantines the affected runs and no others.

use ostler_kernel::port::JournalError;

use super::*;

/// Checks that each run is unchanged or quarantined: listed, unreadable, and closed to appends. Returns the quarantined.
fn check_mended(disk: &FaultyDisk, whole: &Content, context: &str) -> BTreeSet<RunId> {
    let found = content(disk);
    let mut aside = BTreeSet::new();
    for (id, (row, events)) in &whole.runs {
        match found.runs.get(id) {
            Some((left, _)) if matches!(left.status, RunRowStatus::Quarantined(_)) => {
                aside.insert(*id);
            }
            Some((left, records)) => {
                assert_eq!((left, records), (row, events), "{context}");
            }
            // All records with the run's id are lost.
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
    let whole = content(&filled());
    let segment = small().segment_bytes as usize;
    let mut most = 0;
    for flip in 0..60 {
        let disk = filled();
        let (number, offset) = (1 + flip % 3, (flip * 7919) % segment);
        disk.flip(&format!("{number:010}.seg"), offset, 1 << (flip % 8));
        let context = format!("segment {number}, offset {offset}");
        let findings = repaired(&disk).unwrap();
        let aside = check_mended(&disk, &whole, &context);
        let named: BTreeSet<RunId> = findings.runs.iter().map(|one| one.row.run).collect();
        assert!(named.is_superset(&aside), "{context}");
        most = most.max(aside.len());
        if findings.damages.is_empty() {
            continue; // nothing is written there
        }
        assert!(!findings.kept.is_empty(), "{context}");
        let again = repaired(&disk).unwrap();
        assert!(again.is_empty(), "{context}: {again:?}");
        // The other runs continue.
        let journal = open(&disk);
        for number in (0..RUNS).filter(|number| !named.contains(&run(*number))) {
            if whole.runs[&run(number)].0.status == RunRowStatus::Open {
                append(&journal, stream(number), 99, vec![result(number, 99)]);
            }
        }
    }
    assert!((1..=8).contains(&most), "{most} runs of one byte");
}

#[test]
fn a_power_cut_at_any_step_of_repairing_loses_nothing_that_was_left() {
    let whole = content(&filled());
    let damaged = || {
        let disk = filled();
        disk.flip("0000000002.seg", 4000, 1);
        disk.flip("0000000001.seg", 3000, 1);
        disk
    };
    let disk = damaged();
    let start = disk.changes();
    let findings = repaired(&disk).unwrap();
    let (steps, after) = (disk.changes() - start, content(&disk));
    assert!(!findings.runs.is_empty());
    for cut in 0..steps {
        for seed in 0..1 {
            let mut disk = damaged();
            disk.die_after(cut);
            let _ = repaired(&disk);
            disk = disk.cut_power(seed + 10 * cut);
            repaired(&disk).unwrap();
            let context = format!("cut {cut}, seed {seed}");
            check_mended(&disk, &whole, &context);
            assert_eq!(content(&disk), after, "{context}");
            let damaged = disk.list().unwrap().iter().filter(|name| name.contains(".damaged-")).count();
            assert_eq!(damaged, 2, "{context}");
        }
    }
}

#[test]
fn records_of_a_client_that_are_lost_are_told_and_the_others_stay() {
    let disk = filled();
    let whole = content(&disk);
    let acme = StreamId::client(&"acme".into());
    // The second record of the client.
    let journal = open(&disk);
    let place = journal.read(acme, Seq(1), 1).unwrap()[0].position.0;
    drop(journal);
    let name = format!("{:010}.seg", place >> 32);
    disk.flip(&name, (place & 0xffff_ffff) as usize + 40, 4);
    let findings = repaired(&disk).unwrap();
    assert_eq!(findings.clients.len(), 1);
    assert_eq!(findings.clients[0].client, Some("acme".into()));
    let mut left = whole.clients[&acme].clone();
    left.remove(1);
    assert_eq!(content(&disk).clients[&acme], left);
    let journal = open(&disk);
    let deposit = Event::CreditDeposited { client: "acme".into(), credits: 1, spent: 0 };
    append(&journal, acme, 1, vec![deposit]);
}

#[test]
fn a_list_that_is_damaged_is_made_anew_from_what_is_left_of_the_runs() {
    let disk = filled();
    disk.flip("0000000002.seg", 1000, 1);
    let first = repaired(&disk).unwrap();
    let moved: BTreeSet<RunId> =
        first.runs.iter().filter(|one| one.moved > 0).map(|one| one.row.run).collect();
    assert!(!moved.is_empty());
    disk.flip("quarantine", 100, 1);
    let refused = SegmentJournal::on_disk(Arc::new(disk.clone()), small()).err().unwrap().to_string();
    assert!(refused.contains("doctor --repair"), "{refused}");
    assert!(repaired(&disk).unwrap().list_damaged);
    let found = content(&disk);
    for id in &moved {
        assert!(matches!(found.runs[id].0.status, RunRowStatus::Quarantined(_)), "{id}");
    }
    let retention =
        RetentionPolicy { closed_before_ms: None, quarantined: true, ..RetentionPolicy::default() };
    let gone = collect(&files(&disk), retention, 0, 4096, Some(&mut || Ok(()))).unwrap();
    assert_eq!(gone.quarantined.into_iter().collect::<BTreeSet<_>>(), moved);
    let names = disk.list().unwrap();
    let left: Vec<&String> = names
        .iter()
        .filter(|name| name.contains("damaged") || name.contains("remains") || *name == "quarantine")
        .collect();
    assert!(left.is_empty(), "{left:?}");
    assert!(moved.iter().all(|id| !content(&disk).runs.contains_key(id)));
}
