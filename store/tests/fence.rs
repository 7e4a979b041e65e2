//! Fencing of a process suspended while another takes the folder over.

#![allow(clippy::unwrap_used)] // shared test functions

mod common;

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, Receiver};

use common::{PATIENCE, batch, events, numbered, small, stream, wait};
use ostler_kernel::event::Event;
use ostler_kernel::id::RunId;
use ostler_kernel::port::{Artifact, ArtifactStore, Journal, OutputStore};
use ostler_store::Store;

/// Environment variable with the child's folder; unset in the parent.
const FOLDER: &str = "OSTLER_TEST_FENCE_FOLDER";

/// The suspended child process: appends a record per line of input and prints the result.
#[test]
fn child_that_appends_when_it_is_told() {
    let Ok(folder) = std::env::var(FOLDER) else { return };
    let (store, _) = Store::open_with(Path::new(&folder), small()).unwrap();
    for (line, count) in std::io::stdin().lines().zip(0u64..) {
        line.unwrap();
        let appended = store.journal.append(vec![batch(stream(1), count, vec![numbered(count)])]);
        match appended.and_then(|position| wait(&*store.journal, position)) {
            Ok(()) => println!("\ndurable {count}"),
            Err(error) => println!("\nrefused {error}"),
        }
    }
}

struct Stale {
    child: Child,
    said: Receiver<String>,
}

impl Stale {
    fn start(folder: &Path) -> Stale {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "child_that_appends_when_it_is_told", "--nocapture"])
            .env(FOLDER, folder)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
        let (tell, said) = mpsc::channel();
        std::thread::spawn(move || {
            lines
                .filter(|line| line.starts_with("durable ") || line.starts_with("refused "))
                .try_for_each(|line| tell.send(line))
        });
        Stale { child, said }
    }

    fn tell(&mut self) {
        self.child.stdin.as_mut().unwrap().write_all(b"append\n").unwrap();
    }

    fn says(&self) -> String {
        self.said.recv_timeout(PATIENCE).expect("it says what became of the record")
    }

    fn signal(&self, name: &str) {
        let sent = Command::new("kill").args(["-s", name, &self.child.id().to_string()]).status().unwrap();
        assert!(sent.success(), "{name}");
    }
}

impl Drop for Stale {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn a_writer_that_was_suspended_while_its_folder_was_taken_over_writes_nothing_more() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("data");
    let mut stale = Stale::start(&path);
    for number in 0..3 {
        stale.tell();
        assert_eq!(stale.says(), format!("durable {number}"));
    }
    stale.signal("STOP");
    // The suspended process still holds the lock.
    let refused = Store::open_with(&path, small()).err().unwrap().to_string();
    assert!(refused.contains(&format!("process {}", stale.child.id())), "{refused}");
    std::fs::remove_file(path.join("lock")).unwrap();
    let (store, opened) = Store::open_with(&path, small()).unwrap();
    assert_eq!(opened.epoch, 2);
    let mine = |number: u64| Event::Parked { reason: format!("of the second holder: {number}") };
    let append = |expected: u64| {
        let position = store.journal.append(vec![batch(stream(1), expected, vec![mine(expected)])]).unwrap();
        wait(&*store.journal, position).unwrap();
    };
    append(3);

    stale.tell();
    stale.signal("CONT");
    let said = stale.says();
    assert!(said.starts_with("refused ") && said.contains("another process may hold the folder"), "{said}");
    stale.tell();
    assert!(stale.says().starts_with("refused "), "not even later");
    drop(stale.child.stdin.take());
    let begun = std::time::Instant::now();
    let status = loop {
        if let Some(status) = stale.child.try_wait().unwrap() {
            break status;
        }
        assert!(begun.elapsed() < PATIENCE, "it ends when nobody tells it anything any more");
        std::thread::yield_now();
    };
    assert!(status.success(), "{status}");

    append(4);
    drop(store);
    let expected = vec![numbered(0), numbered(1), numbered(2), mine(3), mine(4)];
    let (store, opened) = Store::open_with(&path, small()).unwrap();
    assert_eq!((opened.torn, events(&*store.journal, stream(1))), (None, expected));
    assert_eq!(store.journal.verify().unwrap(), []);
}

#[tokio::test]
async fn a_holder_whose_folder_was_replaced_writes_no_artifact_and_no_output_into_the_new_one() {
    let parent = tempfile::tempdir().unwrap();
    let (folder, moved) = (parent.path().join("data"), parent.path().join("moved"));
    let (stale, _) = Store::open_with(&folder, small()).unwrap();
    let run = RunId(uuid::Uuid::from_u128(1));
    stale.output.append(run, b"{}\n").unwrap();
    std::fs::rename(&folder, &moved).unwrap();
    let (new, _) = Store::open_with(&folder, small()).unwrap();
    let lost = "the lock file was deleted or replaced";
    let artifact = Artifact { media: "text/plain".into(), content: b"late".to_vec() };
    let folders = || std::fs::read_dir(folder.join("artifacts")).unwrap().count();
    let before = folders();
    let refused = stale.artifacts.put(artifact.clone()).await.unwrap_err();
    assert!(refused.to_string().contains(lost), "{refused}");
    assert_eq!(folders(), before);
    new.artifacts.put(artifact).await.unwrap();
    assert_eq!(folders(), before + 1);
    let refused = stale.output.append(run, b"{}\n").unwrap_err();
    assert!(refused.to_string().contains(lost), "{refused}");
    assert_eq!(new.output.read(run, 0, 99).unwrap(), b"");
}
