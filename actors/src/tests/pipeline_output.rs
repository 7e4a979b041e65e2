//! Limits of a stage's unrecorded work: the journal accepts the largest.

use ostler_kernel::event::Published;
use ostler_kernel::json::canonical;
use ostler_kernel::pipeline::{
    DEAD_LETTER_REASON_CHARS_MAX, EVENT_BYTES_MAX, Keep, OUTPUT_BYTES_MAX, OnFailure, PipelineSpec,
    STAGES_MAX, STATE_BYTES_MAX, StageSpec, output_bytes,
};
use ostler_store::{Options, Store};

use crate::Measures;
use crate::pipelines::batch_limits::OUTPUT_BYTES_AT_ONCE;
use crate::pipelines::log::Done;
use crate::tests::pipeline_crash::system_on;

/// A text of so many bytes as JSON.
fn text(bytes: usize) -> ostler_kernel::json::Json {
    canonical(&"x".repeat(bytes - 2).into()).unwrap()
}

/// Stages whose names have so many characters; each event that is over the quota moves all that do not hear it.
fn spec(name: usize) -> PipelineSpec {
    let named = |at: usize| format!("{at:0name$}");
    let spec = PipelineSpec::new("p")
        .stage(StageSpec::new(named(0)).publishes([named(0), named(1)]))
        .stage(
            StageSpec::new(named(1))
                .subscribes([named(0)])
                .publishes([named(2)])
                .on_failure(OnFailure::Continue),
        )
        .keep(Keep { events: 1, bytes: 1 });
    (2..STAGES_MAX).fold(spec, |spec, at| spec.stage(StageSpec::new(named(at)).subscribes([named(1)])))
}

#[tokio::test]
async fn the_most_that_a_stage_may_have_done_fits_into_one_append() {
    for (name, bytes) in [(2, 2), (64, 2), (2, 2_000), (64, EVENT_BYTES_MAX)] {
        let folder = tempfile::tempdir().unwrap();
        let (store, _) = Store::open_with(folder.path(), Options::default()).unwrap();
        let system = system_on(store.journal.clone(), Measures::default()).await;
        let pipeline = system.create_pipeline(&spec(name)).await.unwrap();
        let (stage, kind) = (format!("{:0name$}", 1), format!("{:0name$}", 2));
        let source = pipeline.publisher(&format!("{:0name$}", 0)).unwrap();
        source.publish(&format!("{:0name$}", 0), &1).await.unwrap();
        let event = Published { stage: stage.as_str().into(), kind: kind.as_str().into(), data: text(bytes) };
        let most = (OUTPUT_BYTES_AT_ONCE + OUTPUT_BYTES_MAX) / output_bytes(&event);
        let log = system.pipelines.find("p").unwrap().unwrap();
        let done = Done {
            upto: 1,
            heard: 1,
            state: Some(text(STATE_BYTES_MAX)),
            events: vec![event; most],
            parked: Some((1, "\u{10348}".repeat(DEAD_LETTER_REASON_CHARS_MAX))),
            ended: true,
            ..Done::default()
        };
        let recorded = log.ack(log.stage(&stage).unwrap(), 0, done);
        assert!(recorded.is_ok(), "{most} events of {bytes} bytes: {recorded:?}");
        assert_eq!(pipeline.row().head, most as u64 + 1);
        system.shutdown().await;
    }
}
