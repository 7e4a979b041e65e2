//! The data folder on the file system.

#![allow(clippy::unwrap_used)] // shared test functions

#[path = "../common/mod.rs"]
mod common;
mod damage;
mod sizes;

use std::fs;
use std::future::Future;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::process::Command;

use common::{
    batch, charged, client, events, numbered, opened, pages_join_to_the_table, run, runtime, small, stream,
    wait,
};
use ostler_kernel::evaluation::Scores;
use ostler_kernel::event::{CallReserved, CallSettled, Evaluated, Event};
use ostler_kernel::ledger::Amounts;
use ostler_kernel::port::{Artifact, ArtifactError, ArtifactStore, Journal, RunRowStatus, Seq, StreamId};
use ostler_kernel::run::RunOutcome;
use ostler_store::{FORMAT, OpenError, Opened, Options, RetentionPolicy, Store};

/// Opens a folder, retrying: a background scrub may hold the folder for a moment after closing.
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

/// Appends runs and clients filling several segments; the last run stays open.
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
    pages_join_to_the_table(journal);
    assert_eq!(rows[19].status, RunRowStatus::Closed(RunOutcome::Succeeded), "{context}");
    assert_eq!(journal.clients().unwrap(), [StreamId::client(&client())], "{context}");
    assert_eq!(journal.verify().unwrap(), [], "{context}");
    let position = journal.append(vec![batch(stream(3), 22, Vec::new())]);
    assert!(position.is_ok(), "{context}: {position:?}");
}

/// Copies a folder, as a kill would leave it.
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
fn an_account_goes_on_whatever_changes_it_first_in_a_new_process() {
    let amounts = |tokens| Amounts { tokens, nano_usd: 0 };
    let reserved = || CallReserved { node: "a".into(), call: 2, model: "m".into(), amounts: amounts(9) };
    let settled = || CallSettled { call: 2, reserved: amounts(9), used: amounts(5), prices: None };
    let attempts = StreamId::attempts(&client(), run(1));
    let scores =
        Scores { quality: None, adherence: None, speed: 900, cost: 800, errors: 700, revisions: 600 };
    let evaluated = Evaluated { scores, composite: 500 };
    let changes = [
        (attempts, 1, Event::CallReserved(Box::new(reserved()))),
        (attempts, 1, Event::CallSettled(Box::new(settled()))),
        (stream(1), 2, charged(1, 1)),
        (stream(1), 2, Event::Evaluated(evaluated)),
        (stream(1), 2, Event::RunRecovered { count: 1 }),
    ];
    for (of, at, change) in changes {
        let folder = tempfile::tempdir().unwrap();
        let (store, _) = open(folder.path());
        let journal = &*store.journal;
        journal.append(vec![batch(stream(1), 0, vec![opened(1), charged(1, 7)])]).unwrap();
        let first = vec![Event::CallReserved(Box::new(reserved()))];
        wait(journal, journal.append(vec![batch(attempts, 0, first)]).unwrap()).unwrap();
        drop(store);
        for reopened in [false, true] {
            let (store, _) = open(folder.path());
            let journal = &*store.journal;
            if !reopened {
                wait(journal, journal.append(vec![batch(of, at, vec![change.clone()])]).unwrap()).unwrap();
            }
            let row = journal.accounts().unwrap().remove(0);
            assert!(row.spent >= 7 && row.calls.tokens >= 5, "{change:?}: {row:?}");
            assert_eq!(journal.verify().unwrap(), [], "{change:?}");
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
    fs::remove_dir_all(path.join("journal")).unwrap();
    assert!(matches!(Store::open(&path), Err(OpenError::NotOurs { .. })));
    assert!(matches!(Store::repair(&path), Err(OpenError::NotOurs { .. })));
}

#[test]
fn a_damaged_format_file_beside_a_journal_is_written_again_by_a_repair() {
    let folder = tempfile::tempdir().unwrap();
    let (path, format) = (folder.path(), folder.path().join("format"));
    fill(&open(path).0);
    let whole = fs::read(&format).unwrap();
    for at in 0..whole.len() {
        let mut damaged = whole.clone();
        damaged[at] = b'x';
        fs::write(&format, &damaged).unwrap();
        assert!(matches!(Store::open(path), Err(OpenError::FormatDamaged { .. })), "byte {at}");
        assert!(matches!(Store::examine(path), Err(OpenError::FormatDamaged { .. })), "byte {at}");
        assert_eq!(fs::read(&format).unwrap(), damaged, "only a repair changes it");
        assert!(Store::repair(path).unwrap().format_repaired, "byte {at}");
        assert_eq!(fs::read(&format).unwrap(), whole);
    }
    check_filled(&open(path).0, "after the repairs");
}

#[test]
fn a_file_left_by_a_killed_measurement_of_the_disk_is_no_reason_to_refuse() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join(".ostler-probe-77"), "x").unwrap();
    Store::check_place(folder.path()).unwrap();
    drop(open(folder.path()));
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

/// Two folders that differ in nothing but the ids of their runs, and so have records, frames and seals of the same lengths.
#[test]
fn an_index_of_another_folder_with_the_same_lengths_is_built_again() {
    let folder = tempfile::tempdir().unwrap();
    let [own, other] = ["own", "other"].map(|name| folder.path().join(name));
    for (path, number) in [(&own, 3), (&other, 4)] {
        let (store, _) = open(path);
        let set = Event::ClientSet { client: client(), weight: 1, contracted: false };
        let journal = &store.journal;
        let first = vec![
            batch(stream(number), 0, vec![opened(number)]),
            batch(StreamId::client(&client()), 0, vec![set]),
        ];
        let position = journal.append(first).unwrap();
        wait(&**journal, position).unwrap();
    }
    let lengths = |path: &Path| fs::metadata(path.join("journal/0000000001.seg")).unwrap().len();
    assert_eq!(lengths(&own), lengths(&other));
    fs::copy(other.join("index.redb"), own.join("index.redb")).unwrap();
    let (store, report) = open(&own);
    assert!(report.index_rebuilt, "{report:?}");
    let rows = store.journal.runs(true).unwrap();
    assert_eq!(rows.iter().map(|row| row.run).collect::<Vec<_>>(), [run(3)]);
}

/// Two copies of one folder that went on differently, in records of the same lengths.
#[test]
fn an_index_of_a_copy_that_went_another_way_is_not_taken_for_this_journals() {
    let folder = tempfile::tempdir().unwrap();
    let [own, other] = ["own", "other"].map(|name| folder.path().join(name));
    let append = |path: &Path, number: u64| {
        let (store, _) = open(path);
        let position = store.journal.append(vec![batch(stream(number), 0, vec![opened(number)])]).unwrap();
        wait(&*store.journal, position).unwrap();
    };
    append(&own, 1);
    copy(&own, &other);
    append(&own, 3);
    append(&other, 4);
    fs::copy(other.join("index.redb"), own.join("index.redb")).unwrap();
    let (store, report) = open(&own);
    assert!(report.index_rebuilt, "{report:?}");
    let runs = store.journal.runs(true).unwrap();
    assert_eq!(runs.iter().map(|row| row.run).collect::<Vec<_>>(), [run(3), run(1)]);
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
    // On a corrupted page the database may report an error, panic, or return wrong data.
    for at in (0..whole.len()).step_by(whole.len() / 60) {
        let mut bytes = whole.clone();
        let end = (at + 64).min(bytes.len());
        bytes[at..end].iter_mut().for_each(|byte| *byte ^= 0x55);
        fs::write(&index, bytes).unwrap();
        check(&format!("wrong from byte {at}"), None);
    }
    // The index of another journal, sharing no stream, or one client.
    let other = folder.path().join("other");
    drop(open(&other));
    let set = Event::ClientSet { client: client(), weight: 2, contracted: true };
    for (of, event) in [(stream(99), opened(99)), (StreamId::client(&client()), set)] {
        let (store, _) = open(&other);
        let end = store.journal.append(vec![batch(of, 0, vec![event])]).unwrap();
        wait(&*store.journal, end).unwrap();
        drop(store);
        fs::copy(other.join("index.redb"), &index).unwrap();
        check(&format!("of another journal, which has {of:?}"), Some(true));
    }

    let (store, report) = open(&killed);
    assert_eq!((report.torn, report.epoch), (None, 3));
    check_filled(&store, "killed");
}

fn files(path: &Path) -> Vec<(std::ffi::OsString, Vec<u8>)> {
    let paths = fs::read_dir(path).unwrap().map(|entry| entry.unwrap().path());
    let files = paths.filter(|path| path.is_file());
    let mut files: Vec<_> =
        files.map(|path| (path.file_name().unwrap().to_owned(), fs::read(&path).unwrap())).collect();
    files.sort();
    files
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
fn verifying_a_folder_that_is_not_ours_leaves_it_alone() {
    let folder = tempfile::tempdir().unwrap();
    assert!(Store::examine(folder.path()).is_err());
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
}
