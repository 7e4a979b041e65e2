//! Many and large records, streams, segments and artifacts.

use ostler_kernel::event::{AttemptIntent, NodeTransition};
use ostler_kernel::id::{Digest, NodeId};
use ostler_kernel::run::{NodeState, TransitionReason};

use super::*;
use crate::common::result;

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
    // Rebuilt at once, the stream's addresses fill several entries of the index.
    fs::remove_file(folder.path().join("index.redb")).unwrap();
    check(&open(folder.path()).0, "built again");
    // Segments of another length are read completely.
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

#[test]
fn an_append_at_the_limit_is_taken_and_one_over_it_is_refused() {
    use ostler_store::FRAME_BYTES_MAX;
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
fn more_artifacts_than_are_taken_at_a_time_are_all_stored() {
    let folder = tempfile::tempdir().unwrap();
    let (store, _) = open(folder.path());
    let artifact = |number: u64| {
        let media = if number == 0 { "m".repeat(ostler_store::MEDIA_BYTES_MAX) } else { "text/plain".into() };
        Artifact { media, content: number.to_string().into_bytes() }
    };
    runtime().block_on(async {
        let puts = (0..200).map(|number| store.artifacts.put(artifact(number)));
        let mut puts: Vec<_> = puts.map(Box::pin).collect();
        // Concurrently: each future is polled before any completes.
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
    let unnamed = Store::collect(folder.path(), RetentionPolicy::default(), false).unwrap();
    assert_eq!(unnamed.artifacts, 200);
}

/// The records of a chain's step: the intent and the result, with their transitions.
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
        patch_count: 0,
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
            moved(NodeState::Ready, NodeState::Running, TransitionReason::Attempt(1)),
            Event::AttemptIntent(Box::new(intent)),
        ],
        vec![
            Event::AttemptResult(done),
            moved(NodeState::Running, NodeState::Executed, TransitionReason::Ok),
        ],
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
