//! Damaged, torn and missing data: reported, never returned, and quarantined by a repair.

use std::fs::File;

use ostler_store::IndexDifferences;
use redb::{Database, ReadableTable, TableDefinition};

use super::*;

fn segments(path: &Path) -> Vec<Vec<u8>> {
    let mut files: Vec<_> =
        fs::read_dir(path.join("journal")).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.retain(|file| file.extension().is_some_and(|extension| extension == "seg"));
    files.sort();
    files.iter().map(|file| fs::read(file).unwrap()).collect()
}

#[test]
fn a_journal_whose_end_is_gone_is_refused_and_what_it_lost_is_set_aside() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("data");
    fill(&open(&path).0);
    let last = segments(&path).len();
    let segment = |path: &Path, number: usize| path.join(format!("journal/{number:010}.seg"));
    let cut = |path: &Path, len: u64| {
        File::options().write(true).open(segment(path, last)).unwrap().set_len(len).unwrap();
    };
    type Lose<'a> = &'a dyn Fn(&Path);
    let ways: [(&str, Lose); 5] = [
        ("half of the last segment", &|path| cut(path, 2_500)),
        ("all of it but its header", &|path| cut(path, 64)),
        ("the last segment", &|path| fs::remove_file(segment(path, last)).unwrap()),
        ("all segments", &|path| (1..=last).for_each(|at| fs::remove_file(segment(path, at)).unwrap())),
        ("the folder of the journal", &|path| fs::remove_dir_all(path.join("journal")).unwrap()),
    ];
    for (at, (what, lose)) in ways.iter().enumerate() {
        let lost = folder.path().join(format!("lost-{at}"));
        copy(&path, &lost);
        lose(&lost);
        let before = if lost.join("journal").is_dir() { segments(&lost) } else { Vec::new() };
        let refused = Store::open_with(&lost, small()).map(drop).unwrap_err();
        let OpenError::Damaged { damages, .. } = &refused else { panic!("{what}: {refused}") };
        assert!(damages.iter().any(|damage| damage.what.contains("the end is missing")), "{what}: {refused}");
        // Collecting is refused too.
        let retention = RetentionPolicy {
            closed_before_ms: Some(i64::MAX),
            quarantined: false,
            ..RetentionPolicy::default()
        };
        for removed in [
            Store::open_with(&lost, Options { retention, ..small() }).map(drop),
            Store::collect(&lost, retention, false).map(drop),
            Store::collect(&lost, retention, true).map(drop),
        ] {
            assert!(matches!(removed, Err(OpenError::Damaged { .. })), "{what}: {removed:?}");
        }
        let found = Store::examine(&lost).unwrap().journal;
        assert_eq!(segments(&lost), before, "{what}: inspection changes nothing");
        assert!(found.charges_known && !found.runs.is_empty(), "{what}: {found:?}");
        assert_eq!(Store::repair(&lost).unwrap().journal.runs, found.runs, "{what}");
        assert!(Store::examine(&lost).unwrap().is_sound(), "{what}");
        let (store, _) = Store::open_with(&lost, small()).unwrap();
        // Charges stay, and no closed run is open again.
        let spent: u64 = store.journal.accounts().unwrap().iter().map(|row| row.spent).sum();
        assert_eq!(spent, (1..=20).sum::<u64>(), "{what}");
        let rows = store.journal.runs(false).unwrap();
        assert_eq!(rows.len(), 20, "{what}");
        let set_aside = rows.iter().filter(|row| matches!(row.status, RunRowStatus::Quarantined(_))).count();
        assert_eq!(set_aside, found.runs.len(), "{what}");
        assert!(store.journal.runs(true).unwrap().iter().all(|row| row.run == run(20)), "{what}");
        drop(store);
        // Without an index the missing end goes unnoticed.
        let unknown = folder.path().join(format!("unknown-{at}"));
        copy(&path, &unknown);
        lose(&unknown);
        fs::remove_file(unknown.join("index.redb")).unwrap();
        assert!(Store::open_with(&unknown, small()).is_ok(), "{what}");
    }
}

#[test]
fn who_looks_at_a_journal_whose_end_is_gone_reads_what_is_whole_and_writes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("data");
    fill(&open(&path).0);
    let last = segments(&path).len();
    for len in [0, 64, 2_500] {
        let lost = folder.path().join(format!("lost-{len}"));
        copy(&path, &lost);
        let segment = lost.join(format!("journal/{last:010}.seg"));
        File::options().write(true).open(segment).unwrap().set_len(len).unwrap();
        let before = files(&lost.join("journal"));
        for look in 0..2 {
            let inspect = Options { inspect: true, ..small() };
            let (store, found) = Store::open_with(&lost, inspect).unwrap();
            let told = found.lost_end.map(|damage| damage.what).unwrap_or_default();
            assert!(told.contains("the end is missing"), "{len}, look {look}: {told:?}");
            assert_eq!(store.journal.runs(false).unwrap().len(), 20);
            let (mut whole, mut cut) = (0, 0);
            for number in 1..=20 {
                match store.journal.read(stream(number), Seq(0), usize::MAX) {
                    Ok(read) => {
                        assert_eq!(read.len(), 22, "{len}: run {number}");
                        whole += 1;
                    }
                    Err(error) => {
                        assert!(error.to_string().contains(&format!("segment {last},")), "{error}");
                        cut += 1;
                    }
                }
            }
            assert!(whole > 0 && cut > 0, "{len}: {whole} whole, {cut} cut");
            let appended = store.journal.append(vec![batch(stream(99), 0, vec![numbered(0)])]);
            assert!(appended.unwrap_err().to_string().contains("the end is missing"));
            drop(store);
            assert!(files(&lost.join("journal")) == before, "{len}, look {look}: it was written to");
        }
        assert!(matches!(Store::open_with(&lost, small()), Err(OpenError::Damaged { .. })), "{len}");
        let found = Store::examine(&lost).unwrap().journal.damages;
        assert!(!found.is_empty() && found.iter().all(|damage| !damage.torn), "{len}: {found:?}");
    }
}

#[test]
fn a_segment_copied_under_the_next_number_is_damage_and_a_repair_keeps_the_closed_runs() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    fill(&open(path).0);
    let segments = || -> Vec<std::path::PathBuf> {
        let mut paths: Vec<_> =
            fs::read_dir(path.join("journal")).unwrap().map(|e| e.unwrap().path()).collect();
        paths.retain(|path| path.extension().is_some_and(|it| it == "seg"));
        paths.sort();
        paths
    };
    let last = segments().pop().unwrap();
    let number: u32 = last.file_stem().unwrap().to_str().unwrap().parse().unwrap();
    let next = path.join(format!("journal/{:010}.seg", number + 1));
    for copied in segments() {
        fs::copy(&copied, &next).unwrap();
        let refused = Store::open(path).err().unwrap().to_string();
        assert!(refused.contains("a copy of it, or a file of another journal"), "{refused}");
        assert!(!Store::examine(path).unwrap().is_sound());
        fs::remove_file(&next).unwrap();
    }
    fs::copy(&last, &next).unwrap();
    Store::repair(path).unwrap();
    let (store, _) = open(path);
    // The copy may stand in the place of a true segment, so the one run that was open is set aside.
    for number in 1..20 {
        assert_eq!(events(&*store.journal, stream(number)).len(), 22, "run {number}");
    }
    assert_eq!(store.journal.runs(false).unwrap().len(), 20);
}

/// Moves the last segment of `from` behind the last one of `to`, where it names the right predecessor.
fn graft_last(from: &Path, to: &Path) -> std::path::PathBuf {
    let (last, own) = (segments(from).len(), segments(to).len());
    assert_eq!(last, own + 1, "the numbers continue");
    let name = format!("journal/{last:010}.seg");
    fs::copy(from.join(&name), to.join(&name)).unwrap();
    to.join(name)
}

/// Appends only runs from number 100 on, until the journal has `count` segments.
fn fill_others(path: &Path, count: usize) {
    let (store, _) = open(path);
    for number in 100.. {
        let journal = &*store.journal;
        let appended = journal.append(vec![batch(stream(number), 0, vec![opened(number)])]).unwrap();
        wait(journal, appended).unwrap();
        if segments(path).len() == count {
            break;
        }
    }
}

#[test]
fn a_segment_of_another_journal_is_damage_even_with_the_right_number_and_new_runs() {
    let folder = tempfile::tempdir().unwrap();
    let (path, other) = (folder.path().join("data"), folder.path().join("other"));
    fill(&open(&path).0);
    fill_others(&other, segments(&path).len() + 1);
    let grafted = graft_last(&other, &path);
    for with_index in [true, false] {
        if !with_index {
            fs::remove_file(path.join("index.redb")).unwrap();
        }
        let refused = Store::open_with(&path, small()).map(drop).unwrap_err().to_string();
        assert!(refused.contains("a segment of another journal"), "{with_index}: {refused}");
        assert!(!Store::examine(&path).unwrap().is_sound());
    }
    let found = fs::read(&grafted).unwrap();
    Store::repair(&path).unwrap();
    assert!(
        files(&path.join("journal")).iter().any(|(_, kept)| *kept == found),
        "the segment is kept beside"
    );
    let (store, _) = open(&path);
    for number in 1..20 {
        assert_eq!(events(&*store.journal, stream(number)).len(), 22, "run {number}");
    }
    assert_eq!(store.journal.runs(false).unwrap().len(), 20, "no run of the other journal");
    drop(store);
    assert!(Store::examine(&path).unwrap().is_sound());
}

#[test]
fn all_segments_of_a_journal_share_an_identity_also_after_reopening_and_a_collection() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("data");
    let identities = || -> Vec<[u8; 8]> {
        segments(&path).iter().map(|bytes| bytes[24..32].try_into().unwrap()).collect()
    };
    fill(&open(&path).0);
    let identity = identities()[0];
    assert_ne!(identity, [0; 8]);
    let count = segments(&path).len() + 1;
    fill_others(&path, count);
    assert!(count > 2 && identities().iter().all(|own| *own == identity));
    let retention = RetentionPolicy {
        closed_before_ms: Some(i64::MAX),
        quarantined: false,
        ..RetentionPolicy::default()
    };
    Store::collect(&path, retention, true).unwrap();
    assert!(segments(&path).len() < count && identities().iter().all(|own| *own == identity));
}

#[test]
fn a_segment_whose_header_is_damaged_is_kept_whoever_looks() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("data");
    fill(&open(&path).0);
    let (first, last) = (1, segments(&path).len());
    for (name, damage) in [("flipped", last), ("alone", first)] {
        let damaged = folder.path().join(name);
        copy(&path, &damaged);
        let segment = damaged.join(format!("journal/{damage:010}.seg"));
        if name == "alone" {
            // The last segment exists, its predecessors do not.
            (first..last).for_each(|number| {
                fs::remove_file(damaged.join(format!("journal/{number:010}.seg"))).unwrap()
            });
        } else {
            let mut bytes = fs::read(&segment).unwrap();
            bytes[20] ^= 1;
            fs::write(&segment, bytes).unwrap();
        }
        let before = files(&damaged.join("journal"));
        for inspect in [true, false] {
            let opened = Store::open_with(&damaged, Options { inspect, ..small() });
            assert!(matches!(opened, Err(OpenError::Damaged { .. })), "{name}, {inspect}");
            assert!(files(&damaged.join("journal")) == before, "{name}: it was written to");
        }
        assert!(!Store::examine(&damaged).unwrap().is_sound());
    }
}

#[test]
fn a_torn_end_is_told_from_damage_whatever_its_bytes_look_like() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("data");
    let (store, _) = Store::open(&path).unwrap();
    let journal = &*store.journal;
    wait(journal, journal.append(vec![batch(stream(1), 0, vec![opened(1)])]).unwrap()).unwrap();
    // Nearly every offset passes for the header of a frame of megabytes.
    let reason: String = noise(100_000).chars().flat_map(|letter| [letter, 'a', 'a', '\u{1}']).collect();
    let large = journal.append(vec![batch(stream(1), 1, vec![Event::Parked { reason }])]).unwrap();
    wait(journal, large).unwrap();
    let start = (large.0 & 0xffff_ffff) as usize;
    for (at, lost) in
        [start..start + 8, start..start + 512, start + 65_536..start + 500_000].into_iter().enumerate()
    {
        let torn = folder.path().join(format!("torn-{at}"));
        copy(&path, &torn);
        let segment = torn.join("journal/0000000001.seg");
        let mut bytes = fs::read(&segment).unwrap();
        bytes[lost].fill(0);
        fs::write(&segment, bytes).unwrap();
        assert!(Store::examine(&torn).unwrap().is_sound(), "{at}");
        let (store, report) = Store::open(&torn).unwrap();
        assert_eq!(report.torn.unwrap().offset, start as u64, "{at}");
        assert_eq!(events(&*store.journal, stream(1)), [opened(1)], "{at}");
    }
}

#[test]
fn bytes_put_in_or_taken_out_are_damage_and_no_torn_end() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("data");
    fill(&open(&path).0);
    fs::remove_file(path.join("index.redb")).unwrap();
    let last = format!("journal/{:010}.seg", segments(&path).len());
    let bytes = fs::read(path.join(&last)).unwrap();
    // Within the header and the body of the first frame behind the 64 bytes of the segment's own header.
    for (at, put_in) in [(65, 1_isize), (73, 8), (84, 3), (65, -1), (84, -8)] {
        let changed = folder.path().join(format!("changed-{at}-{put_in}"));
        copy(&path, &changed);
        let mut bytes = bytes.clone();
        match usize::try_from(put_in) {
            Ok(count) => drop(bytes.splice(at..at, vec![b'x'; count])),
            Err(_) => drop(bytes.drain(at..at + put_in.unsigned_abs())),
        }
        fs::write(changed.join(&last), bytes).unwrap();
        let refused = Store::open_with(&changed, small()).map(drop);
        assert!(matches!(refused, Err(OpenError::Damaged { .. })), "{put_in} bytes at {at}: {refused:?}");
        assert!(!Store::examine(&changed).unwrap().is_sound(), "{put_in} bytes at {at}");
    }
}

#[test]
fn a_seal_that_is_not_what_it_was_is_made_anew() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("data");
    fill(&open(&path).0);
    let last = path.join(format!("journal/{:010}.seg", segments(&path).len()));
    let bytes = fs::read(&last).unwrap();
    let end = bytes.iter().rposition(|byte| *byte != 0).unwrap() + 1;
    for at in end - 10..end {
        let flipped = folder.path().join(format!("flipped-{at}"));
        copy(&path, &flipped);
        let mut bytes = bytes.clone();
        bytes[at] ^= 0x10;
        fs::write(flipped.join("journal").join(last.file_name().unwrap()), bytes).unwrap();
        check_filled(&open(&flipped).0, &format!("byte {at} of {end}"));
    }
}

#[test]
fn what_the_index_covers_is_swept_before_anything_is_written_and_never_given_out_damaged() {
    let folder = tempfile::tempdir().unwrap();
    fill(&open(folder.path()).0);
    let segment = folder.path().join("journal/0000000002.seg");
    let mut bytes = fs::read(&segment).unwrap();
    bytes[1000] ^= 1;
    fs::write(&segment, bytes).unwrap();
    // Opening is refused; opening for inspection reads all intact data.
    let refused = Store::open(folder.path()).map(drop).unwrap_err();
    let inspect = Options { inspect: true, ..small() };
    let (store, _) = Store::open_with(folder.path(), inspect).unwrap();
    let mut damaged = 0;
    for number in 1..=20 {
        match store.journal.read(stream(number), Seq(0), usize::MAX) {
            Ok(read) => assert_eq!(read.len(), 22),
            Err(error) => {
                assert!(error.to_string().contains("segment 2"), "{error}");
                damaged += 1;
            }
        }
    }
    assert_eq!(damaged, 1);
    let found = store.journal.verify().unwrap();
    assert_eq!((found.len(), found[0].segment, found[0].streams.len()), (1, 2, 1), "{found:?}");
    drop(store);
    assert!(matches!(refused, OpenError::Damaged { damages, .. } if damages == found));
    assert_eq!(Store::examine(folder.path()).unwrap().journal.damages, found);
    // A background thread scrubs the segments beyond the limit, and poisons the journal on damage.
    let little = Options { scrub_bytes_max: 0, ..small() };
    let (store, _) = Store::open_with(folder.path(), little).unwrap();
    let begun = std::time::Instant::now();
    let mut expected = 0;
    let stopped = loop {
        match store.journal.append(vec![batch(stream(99), expected, vec![numbered(expected)])]) {
            Err(error) => break error,
            Ok(position) => drop(wait(&*store.journal, position)),
        }
        expected += 1;
        assert!(begun.elapsed().as_secs() < 60, "nothing was found");
    };
    assert!(stopped.to_string().contains("doctor --repair"), "{stopped}");
    drop(store);
    fs::remove_file(folder.path().join("index.redb")).unwrap();
    assert!(
        matches!(Store::open(folder.path()), Err(OpenError::Damaged { damages, .. }) if damages == found)
    );
}

#[test]
fn a_damaged_artifact_is_never_given_out_and_can_be_stored_again() {
    let folder = tempfile::tempdir().unwrap();
    let (store, _) = open(folder.path());
    let artifact = Artifact { media: "text/plain".into(), content: b"hello".to_vec() };
    let digest = runtime().block_on(store.artifacts.put(artifact.clone())).unwrap();
    let name = digest.to_string();
    let path = folder.path().join("artifacts").join(&name[..2]).join(&name);
    let whole = fs::read(&path).unwrap();
    for at in 0..whole.len() {
        let mut bytes = whole.clone();
        bytes[at] ^= 1;
        fs::write(&path, &bytes).unwrap();
        let got = runtime().block_on(store.artifacts.get(digest));
        assert!(matches!(got, Err(ArtifactError::Damaged { .. })), "byte {at}: {got:?}");
    }
    drop(store);
    assert_eq!(Store::examine(folder.path()).unwrap().artifacts.len(), 1);
    let (store, _) = open(folder.path());
    runtime().block_on(store.artifacts.put(artifact.clone())).unwrap();
    assert_eq!(runtime().block_on(store.artifacts.get(digest)), Ok(artifact));
    drop(store);
    assert_eq!(Store::examine(folder.path()).unwrap().artifacts, []);
}

/// Removes the first entry of an index table, or copies the value of the first to the second, with valid checksums.
fn tamper(path: &Path, table: &str, replaces: bool) {
    let database = Database::open(path.join("index.redb")).unwrap();
    let write = database.begin_write().unwrap();
    {
        let mut table = write.open_table(TableDefinition::<&[u8], &[u8]>::new(table)).unwrap();
        let entries = table.iter().unwrap().map(|entry| {
            let (key, value) = entry.unwrap();
            (key.value().to_vec(), value.value()[4..].to_vec())
        });
        let entries: Vec<(Vec<u8>, Vec<u8>)> = entries.take(2).collect();
        if replaces {
            let (key, value) = (&entries[1].0, &entries[0].1);
            let crc = crc32c::crc32c_append(crc32c::crc32c(key), value);
            let bytes = [&crc.to_le_bytes()[..], &value[..]].concat();
            table.insert(&key[..], &bytes[..]).unwrap();
        } else {
            table.remove(&entries[0].0[..]).unwrap();
        }
    }
    write.commit().unwrap();
}

#[test]
fn an_index_that_says_otherwise_than_the_records_is_told_and_left_as_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("data");
    fill(&open(&path).0);
    assert_eq!(Store::examine(&path).unwrap().index, IndexDifferences::default());
    let of = |number, what: &str| format!("run {}{what}", run(number));
    for (table, replaces, told) in [
        ("heads", false, of(1, ": missing in the index")),
        ("heads", true, of(2, ": wrong last record in the index")),
        ("frames", false, of(1, ": wrong addresses for the records from 1 on")),
        ("rows", false, of(20, ": not listed as open")),
        ("rows", true, "standing is \"open\", by the records {\"closed\":\"succeeded\"}".to_owned()),
        ("accounts", false, "account of agent worker of client acme: missing in the index".to_owned()),
    ] {
        let context = format!("{table}, {replaces}");
        let odd = folder.path().join(&context);
        copy(&path, &odd);
        tamper(&odd, table, replaces);
        for look in 0..2 {
            let found = Store::examine(&odd).unwrap();
            assert!(found.is_sound() && !found.index_broken, "{context}, look {look}: {found:?}");
            let IndexDifferences { described: all, count } = found.index;
            assert!(count == 1 && all[0].contains(&told), "{context}, look {look}: {count}, {all:?}");
        }
        fs::remove_file(odd.join("index.redb")).unwrap();
        check_filled(&open(&odd).0, &context);
        assert_eq!(Store::examine(&odd).unwrap().index, IndexDifferences::default(), "{context}");
    }
}

#[test]
fn an_index_that_lacks_the_last_records_says_nothing_otherwise() {
    let folder = tempfile::tempdir().unwrap();
    let index = folder.path().join("index.redb");
    let append = |expected, event| {
        let (store, _) = open(folder.path());
        let end = store.journal.append(vec![batch(stream(1), expected, vec![event])]).unwrap();
        wait(&*store.journal, end).unwrap();
    };
    append(0, opened(1));
    let older = fs::read(&index).unwrap();
    append(1, Event::RunClosed { outcome: RunOutcome::Succeeded });
    fs::write(&index, older).unwrap();
    let found = Store::examine(folder.path()).unwrap();
    assert!(!found.index_broken, "{found:?}");
    assert_eq!(found.index, IndexDifferences::default());
}
