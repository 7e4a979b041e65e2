//! Stages that start late, are slow, wait for each other or run elsewhere: each gets every event once, or a count of
//! the missed ones.

use ostler_kernel::pipeline::EVENT_BYTES_MAX;

use super::*;

#[tokio::test(flavor = "multi_thread")]
async fn a_stage_hears_all_events_in_order_wherever_it_begins_and_whatever_is_published_meanwhile() {
    let system = system(journal(), Vec::new()).await;
    let pipeline = system.create_pipeline(&three()).await.unwrap();
    let source = pipeline.publisher("source").unwrap();
    // More than memory holds, so the beginning comes from the journal.
    let old = 20_000u64;
    for from in (0..old).step_by(1_000) {
        let events = (from..from + 1_000).map(|at| ("number".to_owned(), canonical(&at.into()).unwrap()));
        source.publish_all(events.collect()).await.unwrap();
    }
    assert_eq!(row(&pipeline, "double").lag, old);
    let heard: Arc<Mutex<Vec<u64>>> = Arc::default();
    let hears = heard.clone();
    pipeline
        .on("double", move |event, _| {
            hears.lock().unwrap().push(event.seq);
            async { Ok(()) }
        })
        .unwrap();
    for at in 0..500u64 {
        match source.publish_soon("number", &at).await {
            Ok(_) => {}
            Err(error) => panic!("{error}"),
        }
    }
    until(async || row(&pipeline, "double").lag == 0).await;
    assert!(heard.lock().unwrap().iter().copied().eq(1..=old + 500));
    // The same from every position, live events included.
    for after in [0, 1, 19_999, 20_400] {
        heard.lock().unwrap().clear();
        pipeline.catch_up("double", after, false).await.unwrap();
        source.publish("number", &0).await.unwrap();
        until(async || row(&pipeline, "double").lag == 0).await;
        let head = pipeline.row().head;
        assert!(heard.lock().unwrap().iter().copied().eq(after + 1..=head), "after {after}");
    }
    system.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn who_is_farther_behind_than_the_quota_is_told_what_it_missed() {
    let system = system(journal(), Vec::new()).await;
    let spec = three().keep(Keep { events: 16, bytes: 1 << 20 });
    let pipeline = system.create_pipeline(&spec).await.unwrap();
    for at in 0..50 {
        number(&pipeline, at).await;
    }
    let oldest = pipeline.row().oldest;
    assert!((32..=35).contains(&oldest), "{oldest}");
    assert!(matches!(pipeline.catch_up("double", 3, false).await, Err(PipelineError::Gone { seq: 4, .. })));
    assert!(matches!(pipeline.events_after(3), Err(PipelineError::Gone { seq: 4, .. })));
    assert!(pipeline.events_after(oldest - 1).is_ok());
    for (seq, is_kept) in [(0, false), (oldest - 1, false), (oldest, true), (50, true), (51, false)] {
        assert_eq!(pipeline.event(seq).unwrap().map(|event| event.seq), is_kept.then_some(seq));
    }
    let heard: Arc<Mutex<Vec<String>>> = Arc::default();
    let notes = heard.clone();
    pipeline.attach("double", move |_| Note { heard: notes.clone() }).unwrap();
    until(async || row(&pipeline, "double").lag == 0).await;
    let mut expected = vec![format!("gap 1-{}", oldest - 1)];
    expected.extend((oldest..=50).map(|seq| seq.to_string()));
    assert_eq!(*heard.lock().unwrap(), expected);
    assert_eq!(row(&pipeline, "double").missed, oldest - 1);
    // A stage with all events read misses nothing when they are deleted.
    for at in 0..50 {
        number(&pipeline, at).await;
        until(async || row(&pipeline, "double").lag == 0).await;
    }
    assert_eq!(row(&pipeline, "double").missed, oldest - 1);
    // Neither does a stage that subscribes to none of the deleted events.
    assert_eq!((row(&pipeline, "sum").lag, row(&pipeline, "sum").missed), (0, 0));
    let heard = pipeline.heard("sum", 10).await.unwrap();
    assert_eq!((heard.gap, heard.events.len(), heard.ended), (None, 0, false));
    system.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stage_that_idles_while_what_is_not_for_it_goes_has_missed_nothing() {
    let system = system(journal(), Vec::new()).await;
    let spec = three().keep(Keep { events: 16, bytes: 1 << 20 });
    let pipeline = system.create_pipeline(&spec).await.unwrap();
    double(&pipeline);
    let heard: Arc<Mutex<Vec<String>>> = Arc::default();
    let notes = heard.clone();
    pipeline.attach("sum", move |_| Note { heard: notes.clone() }).unwrap();
    number(&pipeline, 1).await;
    until(async || row(&pipeline, "sum").cursor == 2).await;
    for _ in 0..50 {
        pipeline.publisher("source").unwrap().publish("word", "nobody hears it").await.unwrap();
    }
    assert!(pipeline.row().oldest > 30, "{}", pipeline.row().oldest);
    number(&pipeline, 2).await;
    until(async || row(&pipeline, "sum").cursor == 54).await;
    assert_eq!(*heard.lock().unwrap(), ["2", "54"]);
    assert_eq!((row(&pipeline, "double").missed, row(&pipeline, "sum").missed), (0, 0));
    system.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn who_publishes_waits_for_a_slow_stage_and_is_told_when_that_takes_too_long() {
    let limits = Limits { pipeline_behind: 3, ..Limits::default() };
    let system = within(journal(), Vec::new(), limits).await;
    let pipeline = system.create_pipeline(&three()).await.unwrap();
    let go = Arc::new(Semaphore::new(0));
    let wait = go.clone();
    pipeline
        .on("double", move |_, _| {
            let wait = wait.clone();
            async move {
                wait.acquire().await?.forget();
                Ok(())
            }
        })
        .unwrap();
    for at in 0..3 {
        number(&pipeline, at).await;
    }
    let source = pipeline.publisher("source").unwrap();
    source.publish("word", "nobody hears it").await.unwrap();
    let refused = source.publish("number", &3).await.unwrap_err();
    assert_eq!(
        refused.to_string(),
        "stage double is 3 events behind, which is the most: publish slower, or see what keeps it"
    );
    assert_eq!(pipeline.row().head, 4);
    let publishing = tokio::spawn(async move { source.publish("number", &3).await });
    tokio::task::yield_now().await;
    go.add_permits(1);
    assert_eq!(publishing.await.unwrap(), Ok(5));
    go.add_permits(10);
    system.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stage_waits_for_those_behind_it_and_goes_on_when_they_do() {
    let limits = Limits { pipeline_behind: 10, ..Limits::default() };
    let system = within(journal(), Vec::new(), limits).await;
    let pipeline = system.create_pipeline(&three()).await.unwrap();
    let source = pipeline.publisher("source").unwrap();
    for at in 0..100u64 {
        source.publish("number", &at).await.unwrap();
    }
    let go = Arc::new(Semaphore::new(0));
    let wait = go.clone();
    pipeline
        .on("sum", move |_, _| {
            let wait = wait.clone();
            async move {
                wait.acquire().await?.forget();
                Ok(())
            }
        })
        .unwrap();
    // One event at a time, so that one turn does not carry the stage far beyond.
    pipeline
        .on("double", |event, out| async move {
            out.publish("doubled", &event.value())?;
            tokio::time::sleep(std::time::Duration::from_millis(2)).await;
            Ok(())
        })
        .unwrap();
    until(async || row(&pipeline, "sum").lag >= 10).await;
    go.add_permits(1_000);
    until(async || row(&pipeline, "sum").cursor == 200).await;
    assert_eq!((row(&pipeline, "double").lag, row(&pipeline, "sum").lag), (0, 0));
    system.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn somebody_elsewhere_can_deal_with_a_stage_and_nothing_counts_twice() {
    let system = system(journal(), Vec::new()).await;
    let pipeline = system.create_pipeline(&three()).await.unwrap();
    for at in 1..=5 {
        number(&pipeline, at).await;
    }
    let heard = pipeline.heard("double", 2).await.unwrap();
    assert_eq!((heard.after, heard.upto, heard.events.len(), heard.ended), (0, 2, 2, false));
    assert_eq!(pipeline.heard("double", 2).await.unwrap(), heard, "it was not acknowledged");
    let state = || Some(canonical(&json!({"heard": 2})).unwrap());
    let output = || vec![("doubled".to_owned(), canonical(&json!(6)).unwrap())];
    pipeline.ack("double", 0, 2, state(), output()).await.unwrap();
    let again = pipeline.ack("double", 0, 2, state(), output()).await.unwrap_err();
    assert!(matches!(again, PipelineError::Moved { cursor: 2, expected: 0, .. }));
    // Without events there is no output: repeated, it would be published twice.
    let nothing = pipeline.ack("double", 2, 2, None, output()).await.unwrap_err();
    assert!(matches!(nothing, PipelineError::NothingAcknowledged { after: 2, .. }), "{nothing:?}");
    pipeline.ack("double", 2, 2, state(), Vec::new()).await.unwrap();
    assert_eq!(pipeline.row().head, 6, "it is published once");
    let undeclared = vec![("number".to_owned(), canonical(&json!(6)).unwrap())];
    assert!(matches!(pipeline.ack("double", 2, 3, None, undeclared).await, Err(PipelineError::Publish(_))));
    assert!(matches!(
        pipeline.ack("double", 2, 99, None, Vec::new()).await,
        Err(PipelineError::Beyond { .. })
    ));
    assert!(matches!(pipeline.end("double").await, Err(PipelineError::NotThrough(_))));
    let heard = pipeline.heard("double", 200).await.unwrap();
    assert_eq!((heard.after, heard.upto, heard.events.len()), (2, 6, 3));
    assert_eq!(heard.state, state());
    pipeline.end("source").await.unwrap();
    pipeline.ack("double", 2, 6, None, Vec::new()).await.unwrap();
    assert!(pipeline.heard("double", 1).await.unwrap().ended);
    pipeline.end("double").await.unwrap();
    assert_eq!((row(&pipeline, "double").state, row(&pipeline, "double").lag), ("ended".into(), 0));
    assert_eq!(row(&pipeline, "sum").lag, 1);
    system.shutdown().await;
}

/// Unsubscribed events are too many to count: the end is looked up, and every caller gets the same answer.
#[tokio::test]
async fn a_stage_that_is_told_that_it_has_heard_everything_can_be_ended() {
    let spec = PipelineSpec::new("p")
        .stage(StageSpec::new("a").publishes(["x", "y"]))
        .stage(StageSpec::new("f").subscribes(["x"]).publishes(["z"]))
        .stage(StageSpec::new("b").subscribes(["y"]));
    for (last, asks_first) in [("x", true), ("x", false), ("y", true), ("y", false)] {
        let system = system(journal(), Vec::new()).await;
        let pipeline = system.create_pipeline(&spec).await.unwrap();
        let source = pipeline.publisher("a").unwrap();
        let one = canonical(&json!(1)).unwrap();
        for _ in 0..9 {
            source.publish_all(vec![("x".to_owned(), one.clone()); 1_000]).await.unwrap();
        }
        source.publish(last, &1).await.unwrap();
        assert!(matches!(pipeline.end("b").await, Err(PipelineError::NotThrough(_))), "more may come");
        source.end().await.unwrap();
        pipeline.catch_up("b", 0, false).await.unwrap();
        let through = last == "x";
        if asks_first {
            let heard = pipeline.heard("b", 10).await.unwrap();
            assert_eq!((heard.after, heard.upto, heard.ended), (0, 9_001, through), "{last}");
        }
        let ended = pipeline.end("b").await;
        assert_eq!(ended.is_ok(), through, "{last}, {asks_first}: {ended:?}");
        if !through {
            pipeline.ack("b", 0, 9_001, None, Vec::new()).await.unwrap();
            assert!(pipeline.heard("b", 10).await.unwrap().ended);
            pipeline.end("b").await.unwrap();
        }
        system.shutdown().await;
    }
}

#[tokio::test]
async fn of_large_events_no_more_are_told_at_once_than_an_answer_holds() {
    let system = system(journal(), Vec::new()).await;
    let pipeline = system.create_pipeline(&three()).await.unwrap();
    let source = pipeline.publisher("source").unwrap();
    let number = |bytes: usize| ("number".to_owned(), canonical(&"x".repeat(bytes - 2).into()).unwrap());
    // The 16th event reaches exactly 4 MiB.
    for bytes in [EVENT_BYTES_MAX; 18].into_iter().chain([2; 70]) {
        source.publish_all(vec![number(bytes)]).await.unwrap();
    }
    source.publish("word", "nobody hears it").await.unwrap();
    for (after, limit, upto, count) in [
        (0, 256, 16, 16),
        (0, 10, 10, 10),
        (1, 256, 17, 16),
        (2, 256, 18, 16),
        (3, 256, 89, 85),
        (18, 70, 88, 70),
        (18, 0, 19, 1),
    ] {
        pipeline.catch_up("double", after, false).await.unwrap();
        let heard = pipeline.heard("double", limit).await.unwrap();
        assert_eq!((heard.upto, heard.events.len()), (upto, count), "after {after}");
        assert_eq!(heard.events.last().unwrap().seq, upto.min(88));
    }
    system.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stage_that_has_ended_hears_more_when_one_before_it_is_moved() {
    let system = system(journal(), Vec::new()).await;
    let pipeline = system.create_pipeline(&three()).await.unwrap();
    double(&pipeline);
    pipeline.attach("sum", Sum::from).unwrap();
    for at in 1..=3 {
        number(&pipeline, at).await;
    }
    pipeline.end("source").await.unwrap();
    assert_eq!(pipeline.ended().await.unwrap(), PipelineEnd::Ended);
    pipeline.catch_up("double", 1, true).await.unwrap();
    assert_eq!(pipeline.ended().await.unwrap(), PipelineEnd::Ended);
    let told = told(&pipeline).await;
    let totals: Vec<&Value> = told.iter().filter(|(kind, _)| kind == "total").map(|(_, data)| data).collect();
    assert_eq!(totals, [&json!(12), &json!(22)], "what is heard again is published again");
    system.shutdown().await;
}
