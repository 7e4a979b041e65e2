//! Latency of an event through a chain of stages, against a message through a chain of bare actors.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use ostler::{Ostler, OstlerBuilder, PipelineSpec, StageSpec};
use ractor::{Actor, ActorProcessingErr, ActorRef};
use tokio::sync::Notify;

use crate::{Must, Row, ratios, runtime, tmpfs};

/// Subscribing stages, and actors.
pub(crate) const LENGTH: usize = 4;

/// Events per sample, sent one after the other.
const EVENTS: u64 = 500;

const ROUNDS: usize = 41;

/// Counts arrivals at the end.
#[derive(Default)]
pub(crate) struct End {
    count: AtomicU64,
    told: Notify,
}

impl End {
    pub(crate) fn tell(&self) {
        self.count.fetch_add(1, Ordering::Relaxed);
        self.told.notify_one();
    }

    /// Waits for `count` arrivals since the start.
    pub(crate) async fn reach(&self, count: u64) {
        while self.count.load(Ordering::Relaxed) < count {
            self.told.notified().await;
        }
    }
}

/// Forwards a message.
struct Link;

type Next = Option<ActorRef<u64>>;

impl Actor for Link {
    type Msg = u64;
    type State = (Next, Arc<End>);
    type Arguments = (Next, Arc<End>);

    async fn pre_start(
        &self,
        _: ActorRef<u64>,
        given: (Next, Arc<End>),
    ) -> Result<(Next, Arc<End>), ActorProcessingErr> {
        Ok(given)
    }

    async fn handle(
        &self,
        _: ActorRef<u64>,
        message: u64,
        (next, end): &mut (Next, Arc<End>),
    ) -> Result<(), ActorProcessingErr> {
        match next {
            Some(next) => next.cast(message)?,
            None => end.tell(),
        }
        Ok(())
    }
}

/// A chain: `source` publishes `t0`, and each stage subscribes to the one before.
pub(crate) fn spec(length: usize) -> PipelineSpec {
    (0..length).fold(
        PipelineSpec::new("chain").stage(StageSpec::new("source").publishes(["t0"])),
        |spec, at| {
            let stage = StageSpec::new(format!("s{at}")).subscribes([format!("t{at}")]);
            spec.stage(stage.publishes([format!("t{}", at + 1)]))
        },
    )
}

/// Attaches forwarding code to each stage; the last one counts.
pub(crate) fn attach(pipeline: &ostler::PipelineHandle, length: usize, end: &Arc<End>) {
    for at in 0..length {
        let (end, next) = (end.clone(), (at + 1 < length).then(|| format!("t{}", at + 1)));
        pipeline
            .on(&format!("s{at}"), move |event, out| {
                let (end, next) = (end.clone(), next.clone());
                async move {
                    match next {
                        Some(next) => out.publish(&next, &event.seq)?,
                        None => end.tell(),
                    }
                    Ok(())
                }
            })
            .unwrap();
    }
}

pub(crate) fn row() -> Row {
    let folder = tmpfs();
    let in_memory = samples(Ostler::builder().memory());
    let on_tmpfs = samples(Ostler::builder().data_dir(folder.path().join("data")).without_socket());
    let [ratio, ours, bare] = ratios(&in_memory);
    let [more, on_tmpfs, _] = ratios(&on_tmpfs);
    Row {
        figure: "an event through four stages, without an fsync ÷ a message through four bare actors",
        must: Must::Most(3.0),
        measured: ratio,
        note: format!(
            "{ours:.1} µs ÷ {bare:.1} µs, in memory; with a journal on tmpfs {on_tmpfs:.1} µs, {more:.1} times"
        ),
    }
}

/// Microseconds per event, through stages and through actors.
fn samples(builder: OstlerBuilder) -> Vec<(f64, f64)> {
    runtime().block_on(async {
        let os = builder.start().await.unwrap();
        let pipeline = os.create_pipeline(&spec(LENGTH)).await.unwrap();
        let ours = Arc::new(End::default());
        attach(&pipeline, LENGTH, &ours);
        let source = pipeline.publisher("source").unwrap();
        let theirs = Arc::new(End::default());
        let mut first: Next = None;
        for _ in 0..LENGTH {
            first = Some(Actor::spawn(None, Link, (first, theirs.clone())).await.unwrap().0);
        }
        let first = first.unwrap();
        let mut pairs = Vec::new();
        for round in 0..=ROUNDS as u64 {
            // From a runtime task, like the actors.
            let (source, ours) = (source.clone(), ours.clone());
            let by_stages = tokio::spawn(async move {
                let begun = Instant::now();
                for event in 1..=EVENTS {
                    source.publish_soon("t0", &event).await.unwrap();
                    ours.reach(round * EVENTS + event).await;
                }
                begun.elapsed().as_secs_f64()
            });
            let by_stages = by_stages.await.unwrap();
            let (first, theirs) = (first.clone(), theirs.clone());
            let by_actors = tokio::spawn(async move {
                let begun = Instant::now();
                for event in 1..=EVENTS {
                    first.cast(event).unwrap();
                    theirs.reach(round * EVENTS + event).await;
                }
                begun.elapsed().as_secs_f64()
            });
            let by_actors = by_actors.await.unwrap();
            if round > 0 {
                let each = 1e6 / EVENTS as f64;
                pairs.push((by_stages * each, by_actors * each));
            }
        }
        os.shutdown().await;
        pairs
    })
}
