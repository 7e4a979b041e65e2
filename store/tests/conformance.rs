//! Conformance suite of all journals and artifact stores.

#![allow(clippy::unwrap_used)] // shared test functions

mod common;

use std::time::Duration;

use common::{
    batch, charged, client, events, numbered, opened, pages_join_to_the_table, result, run, runtime, small,
    stream, wait,
};
use ostler_kernel::event::{Event, RunOpened};
use ostler_kernel::id::{AgentId, ClientId, Digest};
use ostler_kernel::port::{
    Artifact, ArtifactError, ArtifactStore, Journal, JournalError, Position, RunRowStatus, Seq, StreamId,
};
use ostler_kernel::run::RunOutcome;
use ostler_store::{
    EVENTS_PER_APPEND_MAX, FolderArtifacts, MemoryArtifacts, MemoryJournal, STREAMS_PER_APPEND_MAX,
    SegmentJournal, Store,
};

/// Runs `check` against each kind of journal.
fn each(check: impl Fn(&dyn Journal)) {
    check(&MemoryJournal::default());
    let folder = tempfile::tempdir().unwrap();
    check(&*Store::open(folder.path()).unwrap().0.journal);
    // Small segments, so that the index holds most records.
    let folder = tempfile::tempdir().unwrap();
    check(&*Store::open_with(folder.path(), small()).unwrap().0.journal);
    let disk = ostler_store::disk::FaultyDisk::new();
    check(&SegmentJournal::on_disk(std::sync::Arc::new(disk), small()).unwrap().0);
}

fn refused(result: Result<Position, JournalError>) -> String {
    match result {
        Err(JournalError::Refused(why)) => why,
        other => panic!("not refused: {other:?}"),
    }
}

#[test]
fn records_read_back_in_order_with_their_numbers() {
    each(|journal| {
        let mut position = Position::default();
        for number in 0..300u64 {
            let next = journal.append(vec![batch(stream(1), number, vec![numbered(number)])]).unwrap();
            assert!(next > position, "positions grow");
            position = next;
        }
        let read = journal.read(stream(1), Seq(0), usize::MAX).unwrap();
        let seqs: Vec<u64> = read.iter().map(|record| record.seq.0).collect();
        assert_eq!(seqs, (1..=300).collect::<Vec<_>>());
        for (record, number) in read.iter().zip(0u64..) {
            assert_eq!((&record.event, record.at_ms), (&numbered(number), 1_700_000_000_000 + number as i64));
        }
        assert!(read.windows(2).all(|pair| pair[0].position < pair[1].position));
        assert_eq!(read[299].position, position);
        wait(journal, position).unwrap();
        assert_eq!(journal.read(stream(1), Seq(0), usize::MAX).unwrap(), read, "the same once durable");
    });
}

#[test]
fn a_page_starts_after_and_ends_at_the_limit() {
    each(|journal| {
        // Batches of several records: pages begin and end within a batch.
        let mut expected = 0;
        while expected < 200 {
            let events: Vec<Event> = (expected..expected + 7).map(numbered).collect();
            let position = journal.append(vec![batch(stream(1), expected, events)]).unwrap();
            expected += 7;
            if expected == 140 {
                wait(journal, position).unwrap();
            }
        }
        for (after, limit) in
            [(0, 1), (0, 7), (3, 10), (7, 7), (100, 50), (136, 8), (0, 500), (202, 5), (203, 5)]
        {
            let page = journal.read(stream(1), Seq(after), limit).unwrap();
            let wanted: Vec<u64> = (after + 1..=expected).take(limit).collect();
            let found: Vec<u64> = page.iter().map(|record| record.seq.0).collect();
            assert_eq!(found, wanted, "{limit} after {after}");
            assert!(page.iter().all(|record| record.event == numbered(record.seq.0 - 1)));
        }
        for after in [expected, expected + 1, u64::MAX] {
            assert_eq!(journal.read(stream(1), Seq(after), 10).unwrap(), []);
        }
        assert_eq!(journal.read(stream(1), Seq(0), 0).unwrap(), []);
        assert_eq!(journal.read(stream(2), Seq(0), 10).unwrap(), []);
    });
}

#[test]
fn an_append_to_several_streams_is_all_or_none() {
    each(|journal| {
        let both = |first, second| {
            journal.append(vec![
                batch(stream(1), first, vec![numbered(1)]),
                batch(stream(2), second, vec![numbered(2), numbered(3)]),
            ])
        };
        both(0, 0).unwrap();
        let conflict = JournalError::Conflict { stream: stream(2), expected: Seq(1), actual: Seq(2) };
        assert_eq!(both(1, 1), Err(conflict));
        assert_eq!((events(journal, stream(1)).len(), events(journal, stream(2)).len()), (1, 2));
        both(1, 2).unwrap();
        assert_eq!((events(journal, stream(1)).len(), events(journal, stream(2)).len()), (2, 4));
        let ahead = JournalError::Conflict { stream: stream(1), expected: Seq(9), actual: Seq(2) };
        assert_eq!(both(9, 4), Err(ahead), "a gap is as wrong as a repetition");
    });
}

#[test]
fn a_batch_without_events_only_checks() {
    each(|journal| {
        let position = journal.append(vec![batch(stream(1), 0, vec![numbered(1)])]).unwrap();
        assert_eq!(journal.append(Vec::new()), Ok(position));
        assert_eq!(journal.append(vec![batch(stream(1), 1, Vec::new())]), Ok(position));
        let conflict = JournalError::Conflict { stream: stream(1), expected: Seq(0), actual: Seq(1) };
        let mixed = vec![batch(stream(2), 0, vec![numbered(2)]), batch(stream(1), 0, Vec::new())];
        assert_eq!(journal.append(mixed), Err(conflict));
        let next = journal
            .append(vec![batch(stream(1), 1, Vec::new()), batch(stream(2), 0, vec![numbered(2)])])
            .unwrap();
        assert!(next > position);
        assert_eq!((events(journal, stream(1)).len(), events(journal, stream(2)).len()), (1, 1));
    });
}

#[test]
fn what_breaks_a_limit_is_refused_by_its_name() {
    each(|journal| {
        let other = StreamId::client(&ClientId::from("somebody else"));
        assert_ne!(other.partition, stream(1).partition);
        let spanning = vec![batch(stream(1), 0, vec![numbered(1)]), batch(other, 0, vec![numbered(1)])];
        assert!(refused(journal.append(spanning)).contains("partitions"));
        let twice = vec![batch(stream(1), 0, vec![numbered(1)]), batch(stream(1), 1, vec![numbered(2)])];
        assert!(refused(journal.append(twice)).contains("twice"));
        let streams = |count: usize| -> Vec<_> {
            (0..count).map(|number| batch(stream(number as u64), 0, vec![numbered(1)])).collect()
        };
        let why = refused(journal.append(streams(STREAMS_PER_APPEND_MAX + 1)));
        assert!(why.contains("STREAMS_PER_APPEND_MAX"), "{why}");
        let many = vec![Event::RunRecovered { count: 1 }; EVENTS_PER_APPEND_MAX + 1];
        let why = refused(journal.append(vec![batch(stream(1), 0, many)]));
        assert!(why.contains("EVENTS_PER_APPEND_MAX"), "{why}");
        assert_eq!(events(journal, stream(1)), []);
    });
    let journal = MemoryJournal::default();
    let at_limit: Vec<_> = (0..STREAMS_PER_APPEND_MAX)
        .map(|number| batch(stream(number as u64), 0, vec![numbered(1)]))
        .collect();
    journal.append(at_limit.clone()).unwrap();
    let folder = tempfile::tempdir().unwrap();
    Store::open(folder.path()).unwrap().0.journal.append(at_limit).unwrap();
}

#[test]
fn durable_answers_for_what_was_ordered_and_nothing_else() {
    each(|journal| {
        let position = journal.append(vec![batch(stream(1), 0, vec![numbered(1)])]).unwrap();
        wait(journal, position).unwrap();
        wait(journal, position).unwrap();
        wait(journal, Position::default()).unwrap();
        assert!(matches!(wait(journal, Position(u64::MAX)), Err(JournalError::Refused(_))));
    });
}

#[test]
fn changed_wakes_for_its_stream_and_past_its_number() {
    each(|journal| {
        runtime().block_on(async {
            let add = |number: u64, expected| {
                journal.append(vec![batch(stream(number), expected, vec![numbered(1)])]).unwrap();
            };
            let changed = journal.changed(stream(1), Seq(1));
            tokio::pin!(changed);
            let mut sleeps = async |why: &str| {
                // A spurious wake-up would complete the future at once.
                let polled = tokio::time::timeout(Duration::ZERO, &mut changed).await;
                assert!(polled.is_err(), "{why}");
            };
            sleeps("nothing happened").await;
            add(2, 0);
            sleeps("another stream grew").await;
            add(1, 0);
            sleeps("it has one record, and shall have more than one").await;
            add(1, 1);
            changed.await;
            journal.changed(stream(1), Seq(1)).await;
            drop(journal.changed(stream(1), Seq(2)));
        });
    });
}

#[test]
fn a_waiting_task_is_woken_by_another_thread() {
    each(|journal| {
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| runtime().block_on(journal.changed(stream(1), Seq(0))));
            journal.append(vec![batch(stream(1), 0, vec![numbered(1)])]).unwrap();
            waiting.join().unwrap();
        });
    });
}

#[test]
fn the_table_of_runs_follows_the_records() {
    each(|journal| {
        let add = |number: u64, expected, event: Event| {
            journal.append(vec![batch(stream(number), expected, vec![event])]).unwrap();
        };
        let standings = |open_only| -> Vec<_> {
            journal.runs(open_only).unwrap().into_iter().map(|row| (row.run, row.status)).collect()
        };
        add(9, 0, numbered(1)); // a stream without an opened run has no row
        (1..=3).for_each(|number| add(number, 0, opened(number)));
        let row = journal.runs(false).unwrap().pop().unwrap();
        assert_eq!(
            (row.run, row.client, row.plan.as_str(), row.closed_ms),
            (run(1), client(), "plan-1", None)
        );
        add(1, 1, Event::RunClosed { outcome: RunOutcome::Succeeded });
        add(2, 1, Event::Parked { reason: "it crashes".into() });
        add(3, 1, Event::Parked { reason: "it crashes".into() });
        add(3, 2, Event::RunRecovered { count: 2 });
        let all = vec![
            (run(3), RunRowStatus::Open),
            (run(2), RunRowStatus::Parked("it crashes".into())),
            (run(1), RunRowStatus::Closed(RunOutcome::Succeeded)),
        ];
        assert_eq!(standings(false), all);
        assert_eq!(standings(true), all[..1]);
        assert_eq!(journal.runs(false).unwrap()[2].closed_ms, Some(1_700_000_000_001));
        pages_join_to_the_table(journal);
    });
}

#[test]
fn the_table_of_accounts_adds_up_what_attempts_cost_by_client_and_agent() {
    each(|journal| {
        let of = |number: u64, client: &str, agent: Option<&str>| {
            let Event::RunOpened(opened) = opened(number) else { unreachable!() };
            let agent = AgentId::from(agent.unwrap_or(&run(number).to_string()));
            Event::RunOpened(Box::new(RunOpened { client: client.into(), agent, ..*opened }))
        };
        let runs = [
            (1, "acme", Some("worker")),
            (2, "acme", None),
            (3, "acme", None),
            (4, "umbrella", Some("worker")),
            (5, "acme", Some("worker")),
        ];
        let stream = |number: u64, client: &str| StreamId::run(&client.into(), run(number));
        for (number, client, agent) in runs {
            journal.append(vec![batch(stream(number, client), 0, vec![of(number, client, agent)])]).unwrap();
        }
        for round in 1..=20 {
            for (number, client, _) in runs {
                let ended = charged((round * 10 + number) as i64, number);
                journal.append(vec![batch(stream(number, client), round, vec![ended])]).unwrap();
            }
        }
        // An unsettled result is charged too, and leaves the accounts unchanged.
        journal.append(vec![batch(stream(5, "acme"), 21, vec![result(1)])]).unwrap();
        let mut found: Vec<_> = journal.accounts().unwrap().into_iter().collect();
        found.sort_by(|a, b| (&a.client, &a.agent).cmp(&(&b.client, &b.agent)));
        let found: Vec<_> = found
            .iter()
            .map(|row| {
                let agent = row.agent.as_ref().map_or("-", |agent| agent.as_str());
                (row.client.as_str(), agent, row.accounts.unwrap().client_vruntime, row.spent)
            })
            .collect();
        let expected =
            [("acme", "-", 203, 100), ("acme", "worker", 205, 20 + 100 + 3), ("umbrella", "worker", 204, 80)];
        assert_eq!(found, expected);
    });
}

#[test]
fn clients_with_records_are_listed_once() {
    each(|journal| {
        assert_eq!(journal.clients().unwrap(), []);
        let mut streams: Vec<StreamId> =
            ["acme", "other", "third"].map(|name| StreamId::client(&ClientId::from(name))).into();
        for stream in &streams {
            for expected in 0..2 {
                let event = Event::ClientSet { client: client(), weight: 1, contracted: false };
                journal.append(vec![batch(*stream, expected, vec![event])]).unwrap();
            }
        }
        // A conflict does not create the stream.
        let nowhere = StreamId::client(&ClientId::from("nobody"));
        assert!(journal.append(vec![batch(nowhere, 5, vec![numbered(1)])]).is_err());
        journal.append(vec![batch(stream(1), 0, vec![opened(1)])]).unwrap();
        streams.sort_unstable();
        assert_eq!(journal.clients().unwrap(), streams);
    });
}

#[test]
fn many_threads_append_without_losing_or_mixing_anything() {
    const EACH: u64 = 200;
    each(|journal| {
        std::thread::scope(|scope| {
            for thread in 0..4u64 {
                scope.spawn(move || {
                    for number in 0..EACH {
                        let event = numbered(thread * EACH + number);
                        let position =
                            journal.append(vec![batch(stream(thread), number, vec![event])]).unwrap();
                        if number % 50 == 0 {
                            wait(journal, position).unwrap();
                        }
                        let last = journal.read(stream(thread), Seq(number), 2).unwrap();
                        assert_eq!(last.len(), 1, "one reads what one wrote, durable or not");
                    }
                });
            }
        });
        for thread in 0..4u64 {
            let expected: Vec<Event> = (0..EACH).map(|number| numbered(thread * EACH + number)).collect();
            assert_eq!(events(journal, stream(thread)), expected);
        }
    });
}

fn each_artifacts(check: impl Fn(&dyn ArtifactStore)) {
    check(&MemoryArtifacts::default());
    let folder = tempfile::tempdir().unwrap();
    check(&FolderArtifacts::open(&folder.path().join("artifacts")).unwrap());
}

#[test]
fn an_artifact_comes_back_by_its_digest_however_often_it_was_stored() {
    each_artifacts(|store| {
        runtime().block_on(async {
            for content in [Vec::new(), b"\n\n".to_vec(), vec![0xa5; 100_000]] {
                let artifact = Artifact { media: "application/json".into(), content };
                let digest = store.put(artifact.clone()).await.unwrap();
                assert_eq!(store.put(artifact.clone()).await, Ok(digest));
                assert_eq!(store.get(digest).await, Ok(artifact.clone()));
                let other = Artifact { media: "text/plain".into(), ..artifact };
                assert_ne!(store.put(other).await.unwrap(), digest, "the media type is part of it");
            }
            let missing = Digest([9; 32]);
            assert_eq!(store.get(missing).await, Err(ArtifactError::Missing(missing)));
            let lines = Artifact { media: "text\nplain".into(), content: Vec::new() };
            assert!(matches!(store.put(lines).await, Err(ArtifactError::Io(_))));
        });
    });
}

#[test]
fn the_newest_record_of_work_is_found_by_its_client_alone() {
    use ostler_kernel::event::{
        RecordPlace, ResultRecorded, ReuseBasis, ReuseDecided, ReuseDecision, ReusedResult,
    };
    use ostler_kernel::lineage::{ExecutableSpec, Manifest, Material, last_record_key, record_key};

    let sigma = ExecutableSpec { kind: "tool", ..ExecutableSpec::default() };
    let nothing = (Default::default(), Default::default(), Default::default());
    let material =
        Material { sigma: &sigma, params: &nothing.0, refs: &nothing.1, receipts: &nothing.2, world: None };
    let manifest = Manifest::new(material).unwrap();
    let work = manifest.reuse();
    let Event::AttemptResult(ended) = result(10) else { panic!("not a result") };
    let ostler_kernel::event::Outcome::Ok(output) = ended.outcome else { panic!("failed") };
    let recorded = || {
        Event::ResultRecorded(Box::new(ResultRecorded {
            node: "n".into(),
            attempt: 1,
            reuse: work,
            manifest: manifest.clone(),
            contract: ostler_kernel::json::Json::null(),
            output: output.clone(),
        }))
    };
    each(|journal| {
        let key = record_key(&client(), work);
        assert_eq!(journal.record(key), Ok(None));
        journal.append(vec![batch(stream(1), 0, vec![opened(1), numbered(1), recorded()])]).unwrap();
        journal.append(vec![batch(stream(2), 0, vec![opened(2), recorded()])]).unwrap();
        // Enough records to fill segments, so the index must locate the record.
        for number in 2..60 {
            journal.append(vec![batch(stream(2), number, vec![result(3_000)])]).unwrap();
        }
        let second = Ok(Some(RecordPlace { run: run(2), seq: 2 }));
        assert_eq!(journal.record(key), second);
        assert_eq!(journal.record(record_key(&ClientId::from("another"), work)), Ok(None));
        let last = |number: u64| last_record_key(&client(), &format!("plan-{number}"), &"n".into());
        assert_eq!(journal.record(last(2)), second);
        // A bound record counts as the last record of the node, not as a new record of the work.
        let place = RecordPlace { run: run(1), seq: 3 };
        let reused =
            ReusedResult { basis: ReuseBasis::Same, from: place, output: output.clone(), sampled: false };
        let decision = ReuseDecision::Reused(reused);
        let decided = ReuseDecided { node: "n".into(), reuse: Some(work), decision };
        let reused = Event::ReuseDecided(Box::new(decided));
        journal.append(vec![batch(stream(3), 0, vec![opened(3), reused])]).unwrap();
        assert_eq!((journal.record(last(3)), journal.record(key)), (Ok(Some(place)), second));
    });
}
