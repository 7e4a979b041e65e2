//! Removing a pipeline: refused while it is in use, and then gone for all who know it.

use ostler_store::RetentionPolicy;

use super::*;
use crate::common::{left_by, once_let_go};

/// `source` publishes numbers; another process reads `sum`.
fn external(types: &[&'static str]) -> PipelineSpec {
    PipelineSpec::new("sums")
        .stage(StageSpec::new("source").publishes(types.iter().copied()))
        .stage(StageSpec::new("sum").subscribes(["number"]))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pipeline_in_use_is_not_removed_and_a_removed_one_is_gone_and_its_name_free() {
    let journal = journal();
    let system = system(journal.clone(), Vec::new()).await;
    let spec = external(&["number"]);
    let pipeline = system.create_pipeline(&spec).await.unwrap();
    number(&pipeline, 1).await;
    number(&pipeline, 2).await;
    let removed = async |id: &str| system.remove_pipeline(id).await.map(|row| row.head);
    assert_eq!(removed("other").await, Err(PipelineError::Unknown("other".into())));
    let left = PipelineError::HasEvents { pipeline: "sums".into(), stage: "sum".into(), events: 2, next: 3 };
    assert_eq!(removed("sums").await, Err(left));
    assert_eq!(row(&pipeline, "sum").lag, 2, "nothing has changed");
    pipeline.ack("sum", 0, 2, None, Vec::new()).await.unwrap();

    let mut follower = pipeline.events_after(2).unwrap();
    let following = tokio::spawn(async move { follower.next().await.is_none() });
    let ended = tokio::spawn({
        let pipeline = pipeline.clone();
        async move { pipeline.ended().await }
    });
    let publisher = pipeline.publisher("source").unwrap();
    assert_eq!(removed("sums").await, Ok(2));
    assert!(following.await.unwrap(), "its followers end");
    let unknown = || PipelineError::Unknown("sums".into());
    assert_eq!(ended.await.unwrap(), Err(unknown()));
    assert_eq!(removed("sums").await, Err(unknown()));
    assert_eq!(system.pipelines().await.unwrap(), []);
    assert!(publisher.publish("number", &3).await.is_err());
    assert_eq!(pipeline.catch_up("sum", 0, true).await, Err(unknown()));
    assert_eq!(pipeline.events_after(2).err(), Some(unknown()));

    // A kill leaves it removed.
    let next = common::system(left_by(&journal), Vec::new()).await;
    assert_eq!(next.pipelines().await.unwrap(), []);
    next.shutdown().await;

    // Another declaration may have the name; it knows nothing of the first one.
    let again = system.create_pipeline(&external(&["number", "word"])).await.unwrap();
    assert_eq!((again.row().head, again.row().oldest, row(&again, "sum").gap), (2, 3, None));
    assert!(matches!(again.events_after(0).err(), Some(PipelineError::Gone { oldest: 3, .. })));
    number(&again, 4).await;
    assert_eq!(again.heard("sum", 10).await.unwrap().events[0].seq, 3);
    assert!(publisher.publish("number", &5).await.is_err(), "an old handle is not one of the new pipeline");
    let next = common::system(left_by(&journal), Vec::new()).await;
    let known = next.pipelines().await.unwrap();
    assert_eq!((known.len(), known[0].head, known[0].stages[1].lag), (1, 3, 1));
    next.shutdown().await;
    system.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stage_with_code_keeps_its_pipeline_until_it_has_ended() {
    let system = system(journal(), Vec::new()).await;
    for _ in 0..2 {
        let pipeline = system.create_pipeline(&external(&["number"])).await.unwrap();
        let heard: Arc<Mutex<Vec<String>>> = Arc::default();
        let notes = heard.clone();
        pipeline.attach("sum", move |_| Note { heard: notes.clone() }).unwrap();
        let used = PipelineError::HasCode { pipeline: "sums".into(), stage: "sum".into() };
        assert_eq!(system.remove_pipeline("sums").await, Err(used));
        number(&pipeline, 1).await;
        pipeline.end("source").await.unwrap();
        assert_eq!(pipeline.ended().await.unwrap(), PipelineEnd::Ended);
        assert_eq!(heard.lock().unwrap().len(), 1, "each life hears its own event alone");
        system.remove_pipeline("sums").await.unwrap();
    }
    system.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn collecting_frees_the_room_of_a_removed_pipeline_and_numbers_go_on() {
    const EVENTS: u64 = 1_200;
    let folder = tempfile::tempdir().unwrap();
    let opened = async || once_let_go(|| Store::open_with(folder.path(), Options::default())).await.0;
    let mut heads = Vec::new();
    for _ in 0..2 {
        let store = opened().await;
        let system = system(store.journal.clone(), Vec::new()).await;
        let pipeline = system.create_pipeline(&external(&["number"])).await.unwrap();
        let source = pipeline.publisher("source").unwrap();
        for at in 0..EVENTS {
            source.publish_soon("number", &at).await.unwrap();
        }
        let head = pipeline.row().head;
        pipeline.catch_up("sum", head, false).await.unwrap();
        heads.push(system.remove_pipeline("sums").await.unwrap().head);
        system.shutdown().await;
        drop((system, source, pipeline, store));
        let collect = || Store::collect(folder.path(), RetentionPolicy::default(), true);
        let garbage = once_let_go(collect).await;
        assert!(garbage.pipeline_events >= EVENTS - 1, "{garbage:?}");
        let store = opened().await;
        let system = common::system(store.journal.clone(), Vec::new()).await;
        assert_eq!(system.pipelines().await.unwrap(), []);
        system.shutdown().await;
    }
    assert_eq!(heads, [EVENTS, 2 * EVENTS]);
}
