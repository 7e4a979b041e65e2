//! Maintenance after losing the lock of the folder.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use ostler_kernel::event::{Event, RunOpened};
use ostler_kernel::id::{ClientId, RunId};
use ostler_kernel::json::canonical;
use ostler_kernel::port::{Journal, Seq, StreamBatch, StreamId};
use ostler_kernel::run::RunOutcome;
use serde_json::json;

use crate::data_folder::lock_if_writable;
use crate::disk::lock::HeldLock;
use crate::index::Index;
use crate::maintenance::{collect_folder, examine_locked};
use crate::{OpenError, Options, RetentionPolicy, Store};

fn filled(path: &Path) {
    let (store, _) = Store::open(path).unwrap();
    let (client, run) = (ClientId::from("acme"), RunId(uuid::Uuid::from_u128(7)));
    let opened = RunOpened {
        run,
        client: client.clone(),
        agent: "worker".into(),
        plan: canonical(&json!({"id": "p", "nodes": []})).unwrap(),
        intent: 1,
        scope: "default".into(),
        workspace: "/tmp".into(),
        policy_epoch: 1,
        seed: 7,
    };
    let closed = Event::RunClosed { outcome: RunOutcome::Succeeded };
    let events = vec![Event::RunOpened(Box::new(opened)), closed];
    let stream = StreamId::run(&client, run);
    store.journal.append(vec![StreamBatch { stream, expected: Seq(0), at_ms: 5, events }]).unwrap();
}

/// Every file of the journal with its content, except the new files of a replacement under preparation.
fn files(path: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let all = fs::read_dir(path.join("journal")).unwrap().map(|entry| entry.unwrap().path());
    let counts = all.filter(|path| path.extension().is_none_or(|it| it != "new"));
    counts.map(|path| (path.clone(), fs::read(path).unwrap())).collect()
}

/// Calls `act` with a folder and a lock, after replacing the lock file.
fn check_taken_over(prepare: impl Fn(&Path), act: impl Fn(&Path, &(HeldLock, u64)) -> OpenError) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("data");
    filled(&path);
    prepare(&path);
    let lock = lock_if_writable(&path).unwrap().unwrap();
    let copy = fs::read(path.join("lock")).unwrap();
    fs::remove_file(path.join("lock")).unwrap();
    fs::write(path.join("lock"), copy).unwrap();
    let before = files(&path);
    let error = act(&path, &lock);
    assert!(matches!(error, OpenError::Lost { .. }), "{error}");
    let after = files(&path);
    let names: Vec<_> =
        before.keys().chain(after.keys()).filter(|it| before.get(*it) != after.get(*it)).collect();
    assert!(names.is_empty(), "{names:?}");
}

#[test]
fn a_folder_taken_over_meanwhile_is_not_collected() {
    let retention =
        RetentionPolicy { closed_before_ms: Some(100), quarantined: false, ..RetentionPolicy::default() };
    check_taken_over(
        |_| {},
        |path, (lock, epoch)| {
            let index = Index::open(Some(&path.join("index.redb")));
            collect_folder(path, &index, &Options::default(), retention, (lock, *epoch), true).unwrap_err()
        },
    );
}

#[test]
fn a_folder_taken_over_meanwhile_is_not_repaired() {
    let damage = |path: &Path| {
        let mut names: Vec<PathBuf> =
            fs::read_dir(path.join("journal")).unwrap().map(|entry| entry.unwrap().path()).collect();
        names.retain(|name| name.extension().is_some_and(|it| it == "seg"));
        let mut bytes = fs::read(&names[0]).unwrap();
        let at = bytes.windows(6).position(|it| it == b"worker").unwrap();
        bytes[at] ^= 1;
        fs::write(&names[0], bytes).unwrap();
    };
    check_taken_over(damage, |path, lock| examine_locked(path, Some(lock), true).unwrap_err());
}
