//! Streaming against batch: the five stages of the web example, each with the same total work.

use std::time::{Duration, Instant};

use ostler::pipeline_file::PipelineFile;
use ostler::plan_file::Format;
use ostler::{Ostler, PipelineHandle};

use crate::{Must, Row, ratios, runtime};

const SPEC: &str = include_str!("../../examples/pipelines/web_testing.yaml");

/// Pages of the site.
const PAGES: usize = 40;

/// Work per page and stage.
const WORK: Duration = Duration::from_millis(5);

const ROUNDS: usize = 5;

/// Stage, subscribed type, published type.
const STAGES: [(&str, &str, &[&str]); 4] = [
    ("behavior", "page_discovered", &["test_generated", "flow_mapped"]),
    ("load", "flow_mapped", &["load_result", "perf_metric"]),
    ("observer", "load_result", &["anomaly_detected"]),
    ("synthesis", "anomaly_detected", &[]),
];

pub(crate) fn row() -> Row {
    let pairs: Vec<(f64, f64)> =
        (0..ROUNDS).map(|_| runtime().block_on(async { (test(true).await, test(false).await) })).collect();
    let [ratio, streaming, batch] = ratios(&pairs);
    Row {
        figure: "web example, five stages of equal time: less wall-clock time than in batch",
        must: Must::Least(0.4),
        measured: 1.0 - ratio,
        note: format!("{streaming:.2} s ÷ {batch:.2} s"),
    }
}

async fn test(streams: bool) -> f64 {
    let os = Ostler::builder().memory().start().await.unwrap();
    let file = PipelineFile::parse("web_testing.yaml", Format::Yaml, SPEC);
    let pipeline = os.create_pipeline(file.validate().unwrap()).await.unwrap();
    let begun = Instant::now();
    if streams {
        STAGES.iter().for_each(|stage| attach(&pipeline, stage));
    }
    let recon = pipeline.publisher("recon").unwrap();
    for page in 0..PAGES {
        tokio::time::sleep(WORK).await;
        recon.publish("page_discovered", &page).await.unwrap();
    }
    recon.end().await.unwrap();
    if !streams {
        for stage in &STAGES {
            attach(&pipeline, stage);
            let over = || {
                let row = pipeline.row();
                row.stages.iter().any(|row| row.stage.as_str() == stage.0 && row.state == "ended")
            };
            while !over() {
                tokio::time::sleep(Duration::from_micros(100)).await;
            }
        }
    }
    pipeline.ended().await.unwrap();
    let took = begun.elapsed().as_secs_f64();
    os.shutdown().await;
    took
}

fn attach(pipeline: &PipelineHandle, (stage, works_for, publishes): &(&str, &'static str, &'static [&str])) {
    let (works_for, publishes) = (*works_for, *publishes);
    pipeline
        .on(stage, move |event, out| async move {
            if event.kind.as_str() == works_for {
                tokio::time::sleep(WORK).await;
                for kind in publishes {
                    out.publish(kind, &event.seq)?;
                }
            }
            Ok(())
        })
        .unwrap();
}
