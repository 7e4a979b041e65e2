//! `ostler pipeline`.

use std::sync::Arc;

use ostler_actors::{Measures, StageError, System, SystemConfig};
use ostler_kernel::gate::GatePolicy;
use ostler_store::{MemoryOutput, Options, Store, WriteCounts};

use super::world::World;

const WEB: &str = include_str!("../../examples/pipelines/web_testing.yaml");

const WRONG: &str = "\
id: web
stages:
  - {name: recon, publishes: [page]}
  - {name: load, subscribes: [page, flow], on_poison: ignore}
";

#[test]
fn a_pipeline_is_declared_published_to_and_looked_at() {
    let world = World::new();
    world.file("web.yaml", WEB);
    world.ostler("pipeline ps").exits(0).complains("no pipeline yet");
    world.ostler("pipeline create web.yaml").exits(0).says("pipeline web_testing with 5 stages");
    world.ostler("pipeline create web.yaml").exits(0).says("pipeline web_testing exists, with 5 stages");
    world.file("web.yaml", &WEB.replace("events: 100000", "events: 9"));
    world.ostler("pipeline create web.yaml").exits(2).complains("there is a pipeline web_testing already");

    for (seq, kind) in [(1, "page_discovered"), (2, "page_discovered"), (3, "api_found")] {
        let line = format!("pipeline publish web_testing recon {kind} {{\"n\":{seq}}}");
        world.ostler(&line).exits(0).says(&format!("event {seq} of web_testing"));
    }
    world.ostler("pipeline publish web_testing recon load_result 1").exits(2).complains(
        "stage recon does not publish load_result: it declares api_found, page_discovered, sitemap_built",
    );
    world.ostler("pipeline publish web_testing recon api_found {").exits(2).complains("event: not JSON");
    world
        .ostler("pipeline publish nobody recon api_found 1")
        .exits(2)
        .complains("there is no pipeline nobody");
    world.ostler("pipeline publish web_testing spy api_found 1").exits(2).complains("it has recon, behavior");

    let told = world.ostler("pipeline events web_testing --json").exits(0).lines();
    let kinds: Vec<&str> = told.iter().map(|line| line["kind"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["page_discovered", "page_discovered", "api_found"]);
    assert_eq!(
        (&told[2]["seq"], &told[2]["data"]["n"], &told[2]["stage"]),
        (&3.into(), &3.into(), &"recon".into())
    );
    world.ostler("pipeline events web_testing --from 3").exits(0).says("recon         api_found");
    world.ostler("pipeline events web_testing --from 5").exits(2).complains("there is no event 5");

    let stood = world.ostler("pipeline ps web_testing --json").exits(0).lines();
    let lag = |stage: usize| stood[0]["stages"][stage]["lag"].as_u64().unwrap();
    assert_eq!((lag(1), lag(2), lag(3), lag(4)), (2, 1, 0, 0));
    world.ostler("pipeline catch-up web_testing behavior --from 2").exits(0).says("continues at event 2");
    world.ostler("pipeline ps").exits(0).says("web_testing: 3 events, 3 kept");
    let stood = world.ostler("pipeline ps --json").exits(0).lines();
    assert_eq!((&stood[0]["stages"][1]["cursor"], &stood[0]["stages"][1]["lag"]), (&1.into(), &1.into()));
    world.ostler("pipeline catch-up web_testing behavior --from 9").exits(2).complains("there is no event 9");
    world.ostler("pipeline release web_testing behavior").exits(2).complains("has not stopped");
    world.ostler("pipeline end web_testing behavior").exits(2).complains("still has events to deal with");
    world.ostler("pipeline end web_testing recon").exits(0);
    world
        .ostler("pipeline publish web_testing recon api_found 1")
        .exits(2)
        .complains("stage recon has ended");
    world.ostler("doctor").exits(0).says("1 with 3 events, all consistent");
}

#[test]
fn a_pipeline_is_removed_when_no_stage_has_events_left() {
    let world = World::new();
    world.file("web.yaml", WEB);
    world.ostler("pipeline remove web_testing").exits(2).complains("no pipeline yet");
    world.ostler("pipeline create web.yaml").exits(0);
    world.ostler("pipeline publish web_testing recon page_discovered {}").exits(0);
    let skip = "pipeline catch-up web_testing behavior --from 2";
    let used = world.ostler("pipeline remove web_testing").exits(2);
    used.complains("its stage behavior has 1 event left").complains(&format!("`ostler {skip}`"));
    world.ostler(skip).exits(0);
    world
        .ostler("pipeline remove web_testing")
        .exits(0)
        .says("pipeline web_testing is removed, with 1 event");
    world.ostler("pipeline remove web_testing").exits(2).complains("there is no pipeline web_testing");
    world.ostler("pipeline ps").exits(0).complains("no pipeline yet");
    world.ostler("doctor").exits(0).says("nothing is broken");
    world.file("web.yaml", &WEB.replace("events: 100000", "events: 9"));
    world.ostler("pipeline create web.yaml").exits(0).says("pipeline web_testing with 5 stages");
    world
        .ostler("pipeline publish web_testing recon page_discovered {}")
        .exits(0)
        .says("event 2 of web_testing");
    let told = world.ostler("pipeline events web_testing --json").exits(0).lines();
    assert_eq!(told.len(), 1);
}

#[test]
fn an_event_that_is_too_long_for_a_command_line_comes_from_stdin() {
    let world = World::new();
    world.file("web.yaml", WEB);
    world.ostler("pipeline create web.yaml").exits(0);
    // Linux limits an argument to 128 KiB.
    for (bytes, taken) in [(200_000, true), (300_000, false), (2_000_000, false)] {
        world.file("long.json", &format!("\"{}\"", "x".repeat(bytes)));
        let mut publish = world.command("pipeline publish web_testing recon api_found -");
        publish.stdin(std::fs::File::open(world.path().join("long.json")).unwrap());
        let published = publish.output().unwrap();
        let said = String::from_utf8_lossy(&published.stderr);
        assert_eq!(published.status.code(), Some(if taken { 0 } else { 2 }), "{bytes}: {said}");
    }
    let told = world.ostler("pipeline events web_testing --json").exits(0).lines();
    assert_eq!(told.len(), 1);
    assert_eq!(told[0]["data"].as_str().map(str::len), Some(200_000));
}

#[test]
fn every_fault_of_a_pipeline_is_shown_where_it_stands() {
    let world = World::new();
    world.file("web.yaml", WRONG);
    world.ostler("pipeline create web.yaml").exits(2).complains("web.yaml:4").complains("ignore");
    world.file("web.yaml", &WRONG.replace("ignore", "skip"));
    world
        .ostler("pipeline create web.yaml")
        .exits(2)
        .complains("unknown value \"skip\"")
        .complains("use stop or park");
    world.file("web.yaml", &WRONG.replace(", on_poison: ignore", ""));
    let told = world.ostler("pipeline create web.yaml").exits(2);
    let told = told.complains("web.yaml:4").complains("invalid_subscription: stage load subscribes to flow");
    assert!(!told.err.contains("there is no run"), "{}", told.err);
    assert!(!world.data().exists(), "nothing was made");
}

/// Runs an action in a system of its own.
fn within(world: &World, act: impl AsyncFn(&System)) {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let (store, _) = Store::open_with(&world.data(), Options::default()).unwrap();
        let config = SystemConfig {
            journal: store.journal.clone(),
            artifacts: store.artifacts.clone(),
            output: Arc::new(MemoryOutput::default()),
            writes: Arc::new(WriteCounts::default()),
            tools: Vec::new(),
            gate: GatePolicy::default(),
            slots: 1,
            run_slots: 1,
            drain: std::time::Duration::from_secs(1),
            clients: Vec::new(),
            models: Default::default(),
            measures: Measures::default(),
            evaluation: Default::default(),
            planner: Arc::new(ostler_kernel::run::StaticPlanner),
            diagnoser: Arc::new(ostler_kernel::run::RuleDiagnoser),
        };
        let system = Arc::new(System::start(config).await.unwrap());
        act(&system).await;
        system.shutdown().await;
    });
}

/// A stage that fails on its events, in a process of its own.
fn fail(world: &World) {
    within(world, async |system| {
        let pipeline = system.pipeline("p").unwrap();
        pipeline.on("b", |_, _| async { Err(StageError::new("out of paper")) }).unwrap();
        let _ = pipeline.ended().await.unwrap();
    });
}

#[test]
fn what_a_pipeline_does_not_need_any_more_goes_when_somebody_says_so() {
    let world = World::new();
    world.file(
        "p.json",
        r#"{"id": "p", "keep": {"events": 80}, "stages": [{"name": "a", "publishes": ["x"]}]}"#,
    );
    world.ostler("pipeline create p.json").exits(0);
    world.ostler("gc").exits(0).says("nothing to remove");
    within(&world, async |system| {
        let publisher = system.pipeline("p").unwrap().publisher("a").unwrap();
        for number in 0..1_205 {
            publisher.publish_soon("x", &number).await.unwrap();
        }
    });
    // A chunk has ten events; the last eight chunks are kept, and five events after them.
    let what =
        "1120 events over the quota of their pipeline and 112 records of stages that later ones supersede";
    world.ostler("gc").exits(0).says(&format!("{what} would be removed: of ")).says("use --apply");
    let told = &world.ostler("gc --json").exits(0).lines()[0];
    assert_eq!((&told["pipeline_events"], &told["stage_records"]), (&1_120.into(), &112.into()));
    assert!(told["journal_bytes_after"].as_u64() < told["journal_bytes_before"].as_u64());
    world.ostler("gc --apply").exits(0).says(&format!("{what} removed: of "));
    world.ostler("gc").exits(0).says("nothing to remove");
    world.ostler("doctor").exits(0);
    world.ostler("pipeline events p --from 1120").exits(2).complains("is gone");
    assert_eq!(world.ostler("pipeline events p --json").exits(0).lines().len(), 85);
    world.ostler("pipeline publish p a x 1").exits(0).says("event 1206 of p");
}

#[test]
fn a_stage_that_stopped_is_shown_with_its_event_by_ps_and_doctor_and_released() {
    let world = World::new();
    world.file(
        "p.json",
        r#"{"id": "p", "keep": {"events": 3, "bytes": 1000000}, "stages": [
            {"name": "a", "publishes": ["x"]}, {"name": "b", "subscribes": ["x"]}
        ]}"#,
    );
    world.ostler("pipeline create p.json").exits(0);
    world.ostler(&format!("pipeline publish p a x {{\"copies\":\"{}\"}}", "9".repeat(300))).exits(0);
    world.ostler("pipeline publish p a x 2").exits(0);
    fail(&world);
    let shown = "event 1 is a dead letter: out of paper";
    let ps = world.ostler("pipeline ps").exits(0).says(&format!("{shown}\n      x  {{\"copies\":\"9999"));
    ps.says("stopped").says("ostler pipeline release p b");
    world.ostler("doctor").exits(0).says(&format!("stage b of pipeline p: {shown}"));
    let parked = &world.ostler("pipeline ps p --json").exits(0).lines()[0]["stages"][1]["parked"][0];
    let excerpt = format!("{{\"copies\":\"{}…", "9".repeat(200 - "{'copies':'".len()));
    assert_eq!((&parked["kind"], &parked["excerpt"]), (&"x".into(), &excerpt.into()));
    world.ostler("pipeline release p b").exits(0).says("stage b is released");
    let stood = world.ostler("pipeline ps p --json").exits(0).lines();
    let stage = &stood[0]["stages"][1];
    assert_eq!(
        (&stage["state"], &stage["lag"], &stage["parked_total"]),
        (&"external".into(), &1.into(), &1.into())
    );
    for n in 3..=5 {
        world.ostler(&format!("pipeline publish p a x {n}")).exits(0);
    }
    world.ostler("pipeline ps").exits(0).says(shown).says("      data removed: over the quota");
    let parked = &world.ostler("pipeline ps p --json").exits(0).lines()[0]["stages"][1]["parked"][0];
    assert_eq!((&parked["gone"], parked.get("kind")), (&true.into(), None));
}

#[test]
fn events_that_nobody_heard_in_any_process_are_told_as_gone() {
    let world = World::new();
    world.file(
        "shop.json",
        r#"{"id": "shop", "keep": {"events": 3, "bytes": 1000000}, "stages": [
            {"name": "orders", "publishes": ["order", "refund"]},
            {"name": "price", "subscribes": ["order"]}
        ]}"#,
    );
    world.ostler("pipeline create shop.json").exits(0);
    for (kind, n) in [("order", 1), ("refund", 1), ("refund", 2), ("refund", 3), ("refund", 4)] {
        world.ostler(&format!("pipeline publish shop orders {kind} {n}")).exits(0);
    }
    let stood = world.ostler("pipeline ps shop --json").exits(0).lines();
    let price = &stood[0]["stages"][1];
    assert_eq!((&stood[0]["oldest"], &price["cursor"], &price["missed"]), (&3.into(), &0.into(), &0.into()));
    assert_eq!((&price["gap"]["first"], &price["gap"]["last"]), (&1.into(), &2.into()));
    world.ostler("pipeline ps").exits(0).says("shop: 5 events, 3 kept").says("events 1 to 2 are gone");
}

#[test]
fn help_finds_the_page_of_every_word_for_a_fault_of_a_pipeline() {
    let world = World::new();
    world.ostler("help idle_stage").exits(0).says("# pipeline: invalid pipeline");
    world.ostler("help pipeline").exits(0).says("catch-up").says("# pipeline: invalid pipeline");
}
