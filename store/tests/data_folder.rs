//! The data folder on a real file system.

#![allow(clippy::unwrap_used)] // the functions that tests share are tests too

mod common;

use std::fs::{self, File};
use std::future::Future;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::process::Command;

use common::{batch, charged, client, events, numbered, opened, result, run, runtime, small, stream, wait};
use ostler_kernel::event::{AttemptIntent, Event, NodeTransition};
use ostler_kernel::id::{Digest, NodeId};
use ostler_kernel::port::{Artifact, ArtifactError, ArtifactStore, Journal, RunStanding, Seq, StreamId};
use ostler_kernel::run::{NodeState, Reason, RunOutcome};
use ostler_store::{FORMAT, OpenError, Opened, Options, Store, Unwanted};

/// Opens a folder. A look at a segment that goes on beside may hold on to it for a moment after it was closed here.
fn open(path: &Path) -> (Store, Opened) {
    loop {
        match Store::open_with(path, small()) {
            Err(OpenError::Held { pid: Some(pid), .. }) if pid == std::process::id() => {
                std::thread::yield_now();
            }
            opened => return opened.unwrap(),
        }
    }
}

/// Runs, clients and records enough for several segments; the last run stays open.
fn fill(store: &Store) {
    let journal = &*store.journal;
    let set = Event::ClientSet { client: client(), weight: 1, contracted: false };
    journal.append(vec![batch(StreamId::client(&client()), 0, vec![set])]).unwrap();
    let mut last = None;
    for number in 1..=20 {
        journal.append(vec![batch(stream(number), 0, vec![opened(number)])]).unwrap();
        for expected in 1..20 {
            last = Some(
                journal.append(vec![batch(stream(number), expected, vec![numbered(expected)])]).unwrap(),
            );
        }
        let ended = charged(number as i64, number);
        journal.append(vec![batch(stream(number), 20, vec![ended])]).unwrap();
        let end = if number < 20 {
            Event::RunClosed { outcome: RunOutcome::Succeeded }
        } else {
            Event::RunRecovered { count: 1 }
        };
        last = Some(journal.append(vec![batch(stream(number), 21, vec![end])]).unwrap()).or(last);
    }
    wait(journal, last.unwrap()).unwrap();
}

fn check_filled(store: &Store, context: &str) {
    let journal = &*store.journal;
    for number in 1..=20 {
        let found = events(journal, stream(number));
        assert_eq!(found.len(), 22, "{context}: run {number}");
        assert_eq!((&found[0], &found[7]), (&opened(number), &numbered(7)), "{context}");
        assert_eq!(journal.read(stream(number), Seq(9), 2).unwrap()[0].event, numbered(9), "{context}");
    }
    let rows = journal.runs(false).unwrap();
    assert_eq!(rows.len(), 20, "{context}");
    let accounts = journal.accounts().unwrap();
    let accounts = accounts.iter().map(|row| (row.spent, row.accounts.map(|known| known.client_vruntime)));
    assert_eq!(accounts.collect::<Vec<_>>(), [((1..=20).sum(), Some(20))], "{context}");
    let open = journal.runs(true).unwrap();
    assert_eq!(open.iter().map(|row| row.run).collect::<Vec<_>>(), [run(20)], "{context}");
    assert_eq!(rows[19].standing, RunStanding::Closed(RunOutcome::Succeeded), "{context}");
    assert_eq!(journal.clients().unwrap(), [StreamId::client(&client())], "{context}");
    assert_eq!(journal.verify().unwrap(), [], "{context}");
    let position = journal.append(vec![batch(stream(3), 22, Vec::new())]);
    assert!(position.is_ok(), "{context}: {position:?}");
}

/// Copies a folder as a kill would leave it: what was written, and nobody's last words.
fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let to = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy(&entry.path(), &to);
        } else {
            fs::copy(entry.path(), to).unwrap();
        }
    }
}

#[test]
fn a_new_folder_is_its_owners_alone() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("deep/data");
    let (store, report) = open(&path);
    assert_eq!((report.epoch, report.torn, report.index_rebuilt), (1, None, false));
    for part in ["", "journal", "artifacts"] {
        assert_eq!(fs::metadata(path.join(part)).unwrap().permissions().mode() & 0o777, 0o700, "{part}");
    }
    assert_eq!(fs::read_to_string(path.join("format")).unwrap(), format!("ostler-store {FORMAT}\n"));
    drop(store);
}

#[test]
fn a_configuration_may_be_there_before_the_data_folder_is() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("ostler.toml"), "").unwrap();
    assert_eq!(open(folder.path()).1.epoch, 1);
}

#[test]
fn a_second_opener_is_told_who_holds_the_folder() {
    let folder = tempfile::tempdir().unwrap();
    let (store, _) = open(folder.path());
    let journal = store.journal.clone();
    drop(store);
    let refused = Store::open(folder.path()).err().unwrap();
    assert!(refused.to_string().contains(&format!("process {}", std::process::id())), "{refused}");
    assert!(matches!(Store::examine(folder.path()), Err(OpenError::Held { .. })));
    drop(journal);
    assert_eq!(open(folder.path()).1.epoch, 2);
}

#[test]
fn each_opening_begins_an_epoch_even_if_the_lock_file_is_gone() {
    let folder = tempfile::tempdir().unwrap();
    for epoch in 1..4 {
        let (store, report) = open(folder.path());
        assert_eq!(report.epoch, epoch);
        let event = numbered(epoch);
        store.journal.append(vec![batch(stream(1), epoch - 1, vec![event])]).unwrap();
    }
    fs::remove_file(folder.path().join("lock")).unwrap();
    assert_eq!(open(folder.path()).1.epoch, 4);
    fs::write(folder.path().join("lock"), "nonsense").unwrap();
    assert_eq!(open(folder.path()).1.epoch, 4, "nothing was written in the last one");
}

#[test]
fn what_is_no_data_folder_of_ours_is_refused_by_name() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    fs::write(&file, "x").unwrap();
    assert!(matches!(Store::open(&file), Err(OpenError::NotAFolder { .. })));
    assert!(matches!(Store::open(&file.join("below")), Err(OpenError::NotAFolder { .. })));
    let path = folder.path().join("data");
    drop(open(&path));
    fs::write(path.join("format"), format!("ostler-store {}\n", FORMAT + 1)).unwrap();
    assert!(matches!(Store::open(&path), Err(OpenError::NewerFormat { found, .. }) if found == FORMAT + 1));
    assert!(matches!(Store::repair(&path), Err(OpenError::NewerFormat { .. })));
    fs::write(path.join("format"), "something else").unwrap();
    assert!(matches!(Store::open(&path), Err(OpenError::NotOurs { .. })));
}

#[test]
fn a_folder_of_an_earlier_format_is_marked_with_this_one_once_it_is_opened_to_write() {
    let folder = tempfile::tempdir().unwrap();
    let format = folder.path().join("format");
    drop(open(folder.path()));
    fs::write(&format, "ostler-store 1\n").unwrap();
    Store::examine(folder.path()).unwrap();
    assert_eq!(fs::read_to_string(&format).unwrap(), "ostler-store 1\n");
    drop(open(folder.path()));
    assert_eq!(fs::read_to_string(&format).unwrap(), format!("ostler-store {FORMAT}\n"));
}

#[test]
fn what_is_no_file_of_ours_is_neither_followed_nor_waited_for() {
    let folder = tempfile::tempdir().unwrap();
    let (path, target) = (folder.path().join("data"), folder.path().join("target"));
    drop(open(&path));
    fs::write(&target, "ostler-store 1\n").unwrap();
    for name in ["lock", "format"] {
        let place = path.join(name);
        for make in ["link", "dangling", "fifo", "folder"] {
            fs::remove_file(&place).unwrap();
            match make {
                "link" => symlink(&target, &place).unwrap(),
                "dangling" => symlink("nowhere", &place).unwrap(),
                "fifo" => assert!(Command::new("mkfifo").arg(&place).status().unwrap().success()),
                _ => fs::create_dir(&place).unwrap(),
            }
            for refused in [Store::open(&path).err(), Store::examine(&path).err()] {
                assert!(
                    matches!(&refused, Some(OpenError::NotAFile { path }) if *path == place),
                    "{name}, {make}: {refused:?}"
                );
            }
            if make == "folder" {
                fs::remove_dir(&place).unwrap();
                fs::write(&place, "ostler-store 1\n").unwrap();
            }
        }
    }
    assert!(!path.join("nowhere").exists());
    fs::remove_file(path.join("format")).unwrap();
    fs::create_dir(path.join("format.new")).unwrap();
    let refused = Store::open(&path).err().unwrap().to_string();
    assert!(refused.contains("format.new is not a regular file"), "{refused}");
    fs::remove_dir(path.join("format.new")).unwrap();
    symlink(&target, path.join("format.new")).unwrap();
    fs::write(&target, "kept").unwrap();
    drop(open(&path));
    assert_eq!(fs::read_to_string(&target).unwrap(), "kept");
    assert!(fs::symlink_metadata(path.join("format")).unwrap().is_file());
}

#[test]
fn an_index_that_is_a_link_is_made_anew_and_a_segment_that_is_one_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let (path, target) = (folder.path().join("data"), folder.path().join("target"));
    fill(&open(&path).0);
    fs::write(&target, "").unwrap();
    fs::remove_file(path.join("index.redb")).unwrap();
    symlink(&target, path.join("index.redb")).unwrap();
    check_filled(&open(&path).0, "another index");
    assert_eq!(fs::read(&target).unwrap(), b"");
    let segment = path.join("journal/0000000001.seg");
    fs::rename(&segment, folder.path().join("moved")).unwrap();
    symlink(folder.path().join("moved"), &segment).unwrap();
    let refused = Store::examine(&path).err().unwrap().to_string();
    assert!(refused.contains("0000000001.seg is not a regular file"), "{refused}");
}

#[test]
fn a_folder_that_may_only_be_read_is_refused_and_can_be_verified() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("data");
    fill(&open(&path).0);
    let mode = |mode| {
        for part in ["journal", "artifacts", "lock", "format", "index.redb", ""] {
            fs::set_permissions(path.join(part), PermissionsExt::from_mode(mode)).unwrap();
        }
    };
    mode(0o500);
    if fs::write(path.join("probe"), "x").is_ok() {
        println!("skipped: this user may write anywhere");
        fs::remove_file(path.join("probe")).unwrap();
    } else {
        assert!(matches!(Store::open(&path), Err(OpenError::ReadOnly { .. })));
        assert!(Store::examine(&path).unwrap().is_sound());
    }
    mode(0o700);
}

#[test]
fn the_index_may_be_gone_broken_older_or_of_another_journal() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("data");
    let index = path.join("index.redb");
    let (store, _) = open(&path);
    drop(store);
    let empty = fs::read(&index).unwrap();
    let (store, _) = open(&path);
    fill(&store);
    check_filled(&store, "written");
    let killed = folder.path().join("killed");
    copy(&path, &killed);
    drop(store);
    let whole = fs::read(&index).unwrap();
    let check = |context: &str, rebuilt: Option<bool>| {
        let (store, report) = open(&path);
        assert!(rebuilt.is_none_or(|rebuilt| report.index_rebuilt == rebuilt), "{context}: {report:?}");
        check_filled(&store, context);
    };
    check("closed", Some(false));
    fs::remove_file(&index).unwrap();
    check("gone", Some(true));
    check("built again", Some(false));
    fs::write(&index, &empty).unwrap();
    check("older", None);
    for len in [0, 1, 1000, whole.len() / 2] {
        fs::write(&index, &whole[..len]).unwrap();
        check(&format!("cut to {len} bytes"), Some(true));
    }
    fs::write(&index, vec![0xa5; whole.len()]).unwrap();
    check("noise", Some(true));
    // Any page may be wrong: the database may notice, panic, or hand out nonsense.
    for at in (0..whole.len()).step_by(whole.len() / 60) {
        let mut bytes = whole.clone();
        let end = (at + 64).min(bytes.len());
        bytes[at..end].iter_mut().for_each(|byte| *byte ^= 0x55);
        fs::write(&index, bytes).unwrap();
        check(&format!("wrong from byte {at}"), None);
    }
    // The index of another journal.
    let other = folder.path().join("other");
    drop(open(&other));
    let (store, _) = open(&other);
    let end = store.journal.append(vec![batch(stream(99), 0, vec![opened(99)])]).unwrap();
    wait(&*store.journal, end).unwrap();
    drop(store);
    fs::copy(other.join("index.redb"), &index).unwrap();
    check("of another journal", Some(true));

    let (store, report) = open(&killed);
    assert_eq!((report.torn, report.epoch), (None, 3));
    check_filled(&store, "killed");
}

/// What the segments of a journal hold.
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
        assert!(damages.iter().any(|damage| damage.what.contains("its end is gone")), "{what}: {refused}");
        // Nor does anybody clear away what its records would need.
        let unwanted = Unwanted { closed_before_ms: Some(i64::MAX), quarantined: false };
        for removed in [
            Store::open_with(&lost, Options { unwanted, ..small() }).map(drop),
            Store::collect(&lost, unwanted, false).map(drop),
            Store::collect(&lost, unwanted, true).map(drop),
        ] {
            assert!(matches!(removed, Err(OpenError::Damaged { .. })), "{what}: {removed:?}");
        }
        let found = Store::examine(&lost).unwrap().journal;
        assert_eq!(segments(&lost), before, "{what}: who only looks changes nothing");
        assert!(found.charges_known && !found.runs.is_empty(), "{what}: {found:?}");
        assert_eq!(Store::repair(&lost).unwrap().journal.runs, found.runs, "{what}");
        assert!(Store::examine(&lost).unwrap().is_sound(), "{what}");
        let (store, _) = Store::open_with(&lost, small()).unwrap();
        // Charged is what was charged, and no run that was over is open again.
        let spent: u64 = store.journal.accounts().unwrap().iter().map(|row| row.spent).sum();
        assert_eq!(spent, (1..=20).sum::<u64>(), "{what}");
        let rows = store.journal.runs(false).unwrap();
        assert_eq!(rows.len(), 20, "{what}");
        let set_aside = rows.iter().filter(|row| matches!(row.standing, RunStanding::Quarantined(_))).count();
        assert_eq!(set_aside, found.runs.len(), "{what}");
        assert!(store.journal.runs(true).unwrap().iter().all(|row| row.run == run(20)), "{what}");
        drop(store);
        // Nobody knows of it where there is no index: that looks like a journal that never had it.
        let unknown = folder.path().join(format!("unknown-{at}"));
        copy(&path, &unknown);
        lose(&unknown);
        fs::remove_file(unknown.join("index.redb")).unwrap();
        assert!(Store::open_with(&unknown, small()).is_ok(), "{what}");
    }
}

/// What stands in a folder, without those in it.
fn files(path: &Path) -> Vec<(std::ffi::OsString, Vec<u8>)> {
    let paths = fs::read_dir(path).unwrap().map(|entry| entry.unwrap().path());
    let files = paths.filter(|path| path.is_file());
    let mut files: Vec<_> =
        files.map(|path| (path.file_name().unwrap().to_owned(), fs::read(&path).unwrap())).collect();
    files.sort();
    files
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
            let looks = Options { looks: true, ..small() };
            let (store, found) = Store::open_with(&lost, looks).unwrap();
            let told = found.lost_end.map(|damage| damage.what).unwrap_or_default();
            assert!(told.contains("its end is gone"), "{len}, look {look}: {told:?}");
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
            assert!(appended.unwrap_err().to_string().contains("its end is gone"));
            drop(store);
            assert!(files(&lost.join("journal")) == before, "{len}, look {look}: it was written to");
        }
        assert!(matches!(Store::open_with(&lost, small()), Err(OpenError::Damaged { .. })), "{len}");
        let found = Store::examine(&lost).unwrap().journal.damages;
        assert!(!found.is_empty() && found.iter().all(|damage| !damage.torn), "{len}: {found:?}");
    }
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
            // The last one is there, and none of those before it.
            (first..last).for_each(|number| {
                fs::remove_file(damaged.join(format!("journal/{number:010}.seg"))).unwrap()
            });
        } else {
            let mut bytes = fs::read(&segment).unwrap();
            bytes[20] ^= 1;
            fs::write(&segment, bytes).unwrap();
        }
        let before = files(&damaged.join("journal"));
        for looks in [true, false] {
            let opened = Store::open_with(&damaged, Options { looks, ..small() });
            assert!(matches!(opened, Err(OpenError::Damaged { .. })), "{name}, {looks}");
            assert!(files(&damaged.join("journal")) == before, "{name}: it was written to");
        }
        assert!(!Store::examine(&damaged).unwrap().is_sound());
    }
}

#[test]
fn what_is_no_data_folder_is_touched_by_nobody() {
    let folder = tempfile::tempdir().unwrap();
    for (name, parts) in [
        ("other", &["syslog", "journal/notes.new", "artifacts/new/x"][..]),
        ("notes", &["journal/monday.md", "journal/notes.new"]),
    ] {
        let path = folder.path().join(name);
        for part in parts {
            fs::create_dir_all(path.join(part).parent().unwrap()).unwrap();
            fs::write(path.join(part), "x").unwrap();
        }
        let before = (files(&path), files(&path.join("journal")));
        let foreign =
            |refused: Result<(), OpenError>| assert!(matches!(refused, Err(OpenError::Foreign { .. })));
        foreign(Store::open(&path).map(drop));
        foreign(Store::examine(&path).map(drop));
        foreign(Store::repair(&path).map(drop));
        assert!((files(&path), files(&path.join("journal"))) == before, "{name}: it was written to");
    }
}

#[test]
fn records_without_a_format_file_are_read_and_it_is_made_anew() {
    let folder = tempfile::tempdir().unwrap();
    assert!(!open(folder.path()).1.format_missing);
    fill(&open(folder.path()).0);
    fs::remove_file(folder.path().join("format")).unwrap();
    let found = Store::examine(folder.path()).unwrap();
    assert!(found.is_sound() && found.format_missing && !folder.path().join("format").exists());
    let (store, opened) = open(folder.path());
    check_filled(&store, "without a format file");
    assert!(opened.format_missing && folder.path().join("format").exists());
    drop(store);
    assert!(!open(folder.path()).1.format_missing);
}

#[test]
fn a_torn_end_is_told_from_damage_whatever_its_bytes_look_like() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("data");
    let (store, _) = Store::open(&path).unwrap();
    let journal = &*store.journal;
    wait(journal, journal.append(vec![batch(stream(1), 0, vec![opened(1)])]).unwrap()).unwrap();
    // Nearly every byte may be the first of a frame of megabytes, as far as its header says.
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
fn a_page_of_large_records_is_short_and_the_next_goes_on() {
    let folder = tempfile::tempdir().unwrap();
    let (store, _) = Store::open(folder.path()).unwrap();
    for number in 0..12 {
        let events = vec![Event::Parked { reason: format!("{number} {}", noise(1_000_000)) }];
        store.journal.append(vec![batch(stream(1), number, events)]).unwrap();
    }
    let (mut after, mut pages) = (Seq(0), Vec::new());
    loop {
        let page = store.journal.read(stream(1), after, usize::MAX).unwrap();
        let Some(last) = page.last() else { break };
        after = last.seq;
        pages.push(page.len());
    }
    assert_eq!((pages.iter().sum::<usize>(), pages.iter().max()), (12, Some(&5)), "{pages:?}");
}

#[test]
fn what_the_index_covers_is_swept_before_anything_is_written_and_never_given_out_damaged() {
    let folder = tempfile::tempdir().unwrap();
    fill(&open(folder.path()).0);
    let segment = folder.path().join("journal/0000000002.seg");
    let mut bytes = fs::read(&segment).unwrap();
    bytes[1000] ^= 1;
    fs::write(&segment, bytes).unwrap();
    // Who would write is refused; who looks reads whatever is not damaged.
    let refused = Store::open(folder.path()).map(drop).unwrap_err();
    let looks = Options { looks: true, ..small() };
    let (store, _) = Store::open_with(folder.path(), looks).unwrap();
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
    // What is beyond the limit is swept beside what goes on, which stops when something is found.
    let little = Options { sweep_bytes_max: 0, ..small() };
    let (store, _) = Store::open_with(folder.path(), little).unwrap();
    let begun = std::time::Instant::now();
    let mut expected = 0;
    let stopped = loop {
        match store.journal.append(vec![batch(stream(99), expected, vec![numbered(expected)])]) {
            Err(error) => break error,
            Ok(position) => drop(wait(&*store.journal, position)),
        }
        expected += 1;
        assert!(begun.elapsed().as_secs() < 30, "nothing was found");
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

#[test]
fn a_long_stream_is_read_by_pages_from_more_segments_than_are_kept_open() {
    const RECORDS: u64 = 9000;
    let folder = tempfile::tempdir().unwrap();
    let (store, _) = open(folder.path());
    let mut last = Default::default();
    for number in 0..RECORDS {
        last = store.journal.append(vec![batch(stream(1), number, vec![numbered(number)])]).unwrap();
    }
    wait(&*store.journal, last).unwrap();
    let check = |store: &Store, context: &str| {
        for after in [0, 1, 1023, 1024, 1025, 2048, 3000, 8990] {
            let page = store.journal.read(stream(1), Seq(after), 20).unwrap();
            let expected: Vec<Event> = (after..RECORDS).take(20).map(numbered).collect();
            let found: Vec<Event> = page.into_iter().map(|record| record.event).collect();
            assert_eq!(found, expected, "{context}: after {after}");
        }
        assert_eq!(events(&*store.journal, stream(1)).len() as u64, RECORDS, "{context}");
    };
    check(&store, "written");
    drop(store);
    assert!(fs::read_dir(folder.path().join("journal")).unwrap().count() > 70);
    check(&open(folder.path()).0, "opened");
    // Built at once, the stream's places fill several entries of the index.
    fs::remove_file(folder.path().join("index.redb")).unwrap();
    check(&open(folder.path()).0, "built again");
    // Segments of another length are still read whole.
    check(&Store::open(folder.path()).unwrap().0, "opened with larger segments");
}

#[test]
fn a_journal_of_large_segments_opens_with_small_ones() {
    let folder = tempfile::tempdir().unwrap();
    fill(&Store::open(folder.path()).unwrap().0);
    fs::remove_file(folder.path().join("index.redb")).unwrap();
    let (store, _) = open(folder.path());
    check_filled(&store, "opened with smaller segments");
    let position = store.journal.append(vec![batch(stream(3), 22, vec![numbered(21)])]).unwrap();
    wait(&*store.journal, position).unwrap();
    drop(store);
    assert_eq!(open(folder.path()).0.journal.verify().unwrap(), []);
}

/// Text that packing makes no smaller.
fn noise(bytes: usize) -> String {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        char::from(b'!' + (state % 90) as u8)
    };
    (0..bytes).map(|_| next()).collect()
}

#[test]
fn an_append_at_the_limit_is_taken_and_one_over_it_is_refused() {
    use ostler_store::journal::segments::FRAME_BYTES_MAX;
    let folder = tempfile::tempdir().unwrap();
    let (store, _) = Store::open(folder.path()).unwrap();
    let of = |bytes| vec![Event::Parked { reason: noise(bytes) }];
    let two = |bytes: usize| {
        let half = bytes / 2;
        store.journal.append(vec![batch(stream(1), 0, of(half)), batch(stream(2), 0, of(bytes - half))])
    };
    let why = two(FRAME_BYTES_MAX).unwrap_err().to_string();
    assert!(why.contains("FRAME_BYTES_MAX"), "{why}");
    wait(&*store.journal, two(FRAME_BYTES_MAX - 250).unwrap()).unwrap();
    let next = store.journal.append(vec![batch(stream(1), 1, of(FRAME_BYTES_MAX - 8000))]).unwrap();
    wait(&*store.journal, next).unwrap();
    drop(store);
    let (store, _) = Store::open(folder.path()).unwrap();
    assert_eq!(events(&*store.journal, stream(1))[1..], of(FRAME_BYTES_MAX - 8000));
}

#[test]
fn sizes_that_make_no_journal_are_refused() {
    use ostler_store::journal::segments::Options;
    let folder = tempfile::tempdir().unwrap();
    for options in [
        Options { segment_bytes: 100, ..small() },
        Options { segment_bytes: u64::MAX, ..small() },
        Options { reserve_bytes: 0, ..small() },
    ] {
        assert!(matches!(Store::open_with(folder.path(), options), Err(OpenError::Io { .. })));
    }
}

#[test]
fn verifying_a_folder_that_is_not_ours_leaves_it_alone() {
    let folder = tempfile::tempdir().unwrap();
    assert!(Store::examine(folder.path()).is_err());
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[test]
fn more_artifacts_than_are_taken_at_a_time_are_all_stored() {
    let folder = tempfile::tempdir().unwrap();
    let (store, _) = open(folder.path());
    let artifact = |number: u64| {
        let media = if number == 0 {
            "m".repeat(ostler_store::artifact::MEDIA_BYTES_MAX)
        } else {
            "text/plain".into()
        };
        Artifact { media, content: number.to_string().into_bytes() }
    };
    runtime().block_on(async {
        let puts = (0..200).map(|number| store.artifacts.put(artifact(number)));
        let mut puts: Vec<_> = puts.map(Box::pin).collect();
        // All at once: each is polled before any is done.
        std::future::poll_fn(|context| {
            puts.retain_mut(|put| match put.as_mut().poll(context) {
                std::task::Poll::Ready(stored) => stored.map(|_| false).unwrap(),
                std::task::Poll::Pending => true,
            });
            if puts.is_empty() { std::task::Poll::Ready(()) } else { std::task::Poll::Pending }
        })
        .await;
        let over = Artifact { media: "m".repeat(256), content: Vec::new() };
        assert!(matches!(store.artifacts.put(over).await, Err(ArtifactError::Io(_))));
    });
    drop(store);
    assert!(Store::examine(folder.path()).unwrap().is_sound());
    let unnamed = Store::collect(folder.path(), Unwanted::default(), false).unwrap();
    assert_eq!(unnamed.artifacts, 200);
}

/// What a step of a chain writes: the intent with two transitions, the result with two more.
fn step(number: u64, bytes: usize) -> [Vec<Event>; 2] {
    let node = NodeId::from(format!("step-{number:03}").as_str());
    let moved = |from, to, reason| {
        let node = node.clone();
        Event::NodeTransition(NodeTransition { node, version: 1, from, to, reason, attempt: 1 })
    };
    let digest = |fill: u64| Digest(std::array::from_fn(|at| (fill * 31 + at as u64 * 7) as u8));
    let accounts = ostler_kernel::event::Accounts {
        client_vruntime: 123_456_789 + number as i64,
        client_remainder: 17,
        balance: Some(1_000_000 - number as i64),
        agents_vruntime: 98_760,
        agent_vruntime: 98_765 + number as i64,
        agent_remainder: 3,
        tier_vruntime: 123_456_000 + number as i64,
        owed: 0,
    };
    let intent = AttemptIntent {
        node: node.clone(),
        generation: 1,
        phase: 0,
        attempt: 1,
        reuse: digest(number),
        idempotency_key: digest(number + 1),
        intent: 1,
        policy_epoch: 1,
        provenance: vec!["plan".into()],
        accounts: Some(accounts),
    };
    let Event::AttemptResult(mut done) = result(bytes) else { unreachable!() };
    done.node = node.clone();
    done.accounts = Some(accounts);
    [
        vec![
            moved(NodeState::Ready, NodeState::Running, Reason::Attempt(1)),
            Event::AttemptIntent(Box::new(intent)),
        ],
        vec![Event::AttemptResult(done), moved(NodeState::Running, NodeState::Executed, Reason::Ok)],
    ]
}

#[test]
fn a_chain_of_steps_takes_little_more_than_its_results() {
    const STEPS: u64 = 200;
    const RESULT_BYTES: usize = 1024;
    let folder = tempfile::tempdir().unwrap();
    let (store, _) = Store::open(folder.path()).unwrap();
    let (mut expected, mut last) = (0, Default::default());
    for number in 0..STEPS {
        for events in step(number, RESULT_BYTES) {
            let count = events.len() as u64;
            last = store.journal.append(vec![batch(stream(1), expected, events)]).unwrap();
            expected += count;
        }
    }
    wait(&*store.journal, last).unwrap();
    let used = (last.0 & 0xffff_ffff) as usize;
    let ratio = used as f64 / (STEPS as usize * RESULT_BYTES) as f64;
    println!("{used} bytes, {ratio:.2} of the results");
    assert!(ratio <= 1.5, "{used} bytes are {ratio:.2} of the results");
}
