//! A: starting.

use ostler_supervisor::{
    AutoShutdown, ChildSpec, Exit, Intensity, Kind, Restart, RestartChildError, Shutdown, SpecError,
    StartChildError, StartError, Strategy, SupervisorSpec,
};

use crate::world::*;

#[tokio::test]
async fn a01_an_empty_supervisor_starts_and_stops() {
    let world = World::new();
    let supervisor = world.start(world.spec(Strategy::OneForOne, 1, vec![])).await;
    assert_eq!(supervisor.count_children().await, counts(0, 0, 0, 0));
    world.end(&supervisor).await;
    assert_eq!(supervisor.count_children().await, counts(0, 0, 0, 0));
}

#[tokio::test]
async fn a02_children_start_in_the_order_of_the_spec() {
    let world = World::new();
    let children = ["e", "b", "d", "a", "c"].map(|id| world.probe(id)).to_vec();
    let supervisor = world.start(world.spec(Strategy::OneForOne, 1, children)).await;
    assert_eq!(
        world.since(0, &["init", "up"]),
        "e1 init, e1 up, b1 init, b1 up, d1 init, d1 up, a1 init, a1 up, c1 init, c1 up"
    );
    world.end(&supervisor).await;
}

async fn check_failing_start(init: Init, expected: Exit) {
    let world = World::new();
    world.script("c", |script| script.init = init);
    let children = ["a", "b", "c", "d"].map(|id| world.probe(id)).to_vec();
    let error = world.try_start(world.spec(Strategy::OneForOne, 1, children)).await.unwrap_err();
    assert_eq!(error, StartError::Child { id: id("c"), exit: expected });
    assert_eq!(
        world.since(0, &["init", "stop", "exit"]),
        "a1 init, b1 init, c1 init, b1 stop, b1 exit shutdown, a1 stop, a1 exit shutdown"
    );
    world.settle();
}

#[tokio::test]
async fn a03_a_failed_start_stops_the_started_in_reverse() {
    check_failing_start(Init::Fail, Exit::StartFailed("no luck".into())).await;
}

#[tokio::test]
async fn a04_a_panic_in_a_start_hook_is_a_failed_start() {
    check_failing_start(Init::Panic, Exit::Panicked("no start".into())).await;
}

#[tokio::test]
async fn a05_a_supervisor_may_decline_to_start() {
    let world = World::new();
    let supervisor = world.start(world.spec(Strategy::OneForOne, 1, vec![])).await;
    let mid = |name: &str| ChildSpec::supervisor_with(name, || None);
    let refused = supervisor.start_child(mid("kept")).await.unwrap_err();
    assert!(matches!(refused, StartChildError::Ignored { id } if id == "kept"));
    let refused = supervisor.start_child(mid("gone").restart(Restart::Temporary)).await.unwrap_err();
    assert!(matches!(refused, StartChildError::Ignored { id } if id == "gone"));
    assert_eq!(listing(&supervisor).await, "kept1 down");
    assert_eq!(supervisor.count_children().await, counts(1, 0, 1, 0));
    world.end(&supervisor).await;
}

#[tokio::test]
async fn a06_a_permanent_child_that_declines_is_kept_as_down() {
    let world = World::new();
    world.script("a", |script| script.init = Init::Ignore);
    let children = vec![world.probe("a"), world.probe("b")];
    let supervisor = world.start(world.spec(Strategy::OneForOne, 1, children)).await;
    assert_eq!(listing(&supervisor).await, "a1 down, b1 up");
    assert_eq!(supervisor.count_children().await, counts(2, 1, 0, 2));
    world.end(&supervisor).await;
}

#[tokio::test]
async fn a07_a_temporary_child_that_declines_is_forgotten() {
    let world = World::new();
    world.script("a", |script| script.init = Init::Ignore);
    let children = vec![world.probe("a").restart(Restart::Temporary), world.probe("b")];
    let supervisor = world.start(world.spec(Strategy::OneForOne, 1, children)).await;
    assert_eq!(listing(&supervisor).await, "b1 up");
    assert_eq!(supervisor.count_children().await, counts(1, 1, 0, 1));
    world.end(&supervisor).await;
}

#[tokio::test]
async fn a08_two_children_with_one_id_are_refused() {
    let world = World::new();
    let children = vec![world.probe("a"), world.probe("b"), world.probe("a")];
    let error = world.try_start(world.spec(Strategy::OneForOne, 1, children)).await.unwrap_err();
    assert_eq!(error, StartError::Invalid(vec![SpecError::DuplicateId { id: id("a") }]));
    assert_eq!(world.mark(), 0);
}

#[tokio::test]
async fn a09_every_fault_of_a_spec_is_named_and_nothing_runs() {
    let world = World::new();
    let mut spec = world.spec(
        Strategy::OneForOne,
        1,
        vec![
            world.probe("a").significant(true),
            world.probe("b").shutdown(Shutdown::Timeout(ms(0))),
            world.probe("c").significant(true).restart(Restart::Transient),
        ],
    );
    spec.intensity = Intensity::new(1, ms(0));
    let faults = vec![
        SpecError::PeriodZero,
        SpecError::SignificantPermanent { id: id("a") },
        SpecError::SignificantWithoutAutoShutdown { id: id("a") },
        SpecError::ShutdownZero { id: id("b") },
        SpecError::SignificantWithoutAutoShutdown { id: id("c") },
    ];
    assert_eq!(spec.check(), Err(faults.clone()));
    assert_eq!(world.try_start(spec).await.unwrap_err(), StartError::Invalid(faults));

    let supervisor = world.start(world.spec(Strategy::OneForOne, 1, vec![])).await;
    let refused = supervisor.start_child(world.probe("c").significant(true)).await.unwrap_err();
    assert!(matches!(refused, StartChildError::Invalid(faults) if faults.len() == 2));
    assert_eq!(world.mark(), 0);
    world.end(&supervisor).await;
}

#[tokio::test]
async fn a10_the_defaults_are_as_documented() {
    let world = World::new();
    let children = vec![world.probe("a"), ChildSpec::supervisor("mid", SupervisorSpec::default())];
    let supervisor = world.start(world.spec(Strategy::OneForOne, 1, children)).await;
    let worker = supervisor.get_spec("a").await.unwrap();
    let mid = supervisor.get_spec("mid").await.unwrap();
    assert_eq!((worker.kind, worker.shutdown), (Kind::Worker, Shutdown::Timeout(ms(5000))));
    assert_eq!((mid.kind, mid.shutdown), (Kind::Supervisor, Shutdown::Infinity));
    for spec in [worker, mid] {
        assert_eq!((spec.restart, spec.significant), (Restart::Permanent, false));
    }
    let defaults = SupervisorSpec::default();
    assert_eq!(defaults.strategy, Strategy::OneForOne);
    assert_eq!(defaults.intensity, Intensity::new(1, ms(5000)));
    assert_eq!(defaults.auto_shutdown, AutoShutdown::Never);
    world.end(&supervisor).await;
}

#[tokio::test]
async fn a11_a_child_that_fails_to_start_on_demand_is_not_kept() {
    let world = World::new();
    world.script("b", |script| script.init = Init::Fail);
    let supervisor = world.start(world.spec(Strategy::OneForOne, 0, vec![world.probe("a")])).await;
    for _ in 0..3 {
        let error = supervisor.start_child(world.probe("b")).await.unwrap_err();
        assert!(matches!(error, StartChildError::Failed { exit: Exit::StartFailed(_), .. }));
    }
    assert_eq!(listing(&supervisor).await, "a1 up");
    world.end(&supervisor).await;
}

#[tokio::test]
async fn a12_a_question_during_a_slow_start_sees_a_whole_state() {
    let world = World::new();
    world.script("slow", |script| script.init = Init::Gate);
    let supervisor = world.start(world.spec(Strategy::OneForOne, 1, vec![])).await;
    let starting = tokio::spawn({
        let (supervisor, probe) = (supervisor.clone(), world.probe("slow"));
        async move { supervisor.start_child(probe).await.map(|_| ()) }
    });
    world.until("slow1 init").await;
    let asking = tokio::spawn({
        let supervisor = supervisor.clone();
        async move { listing(&supervisor).await }
    });
    tokio::task::yield_now().await;
    world.open_gate();
    in_time(starting).await.unwrap().unwrap();
    let seen = in_time(asking).await.unwrap();
    assert!(seen.is_empty() || seen == "slow1 up", "{seen}");
    world.end(&supervisor).await;
}

#[tokio::test]
async fn a_failure_deep_below_undoes_the_whole_start() {
    let world = World::new();
    world.script("bad", |script| script.init = Init::Fail);
    let mid = ChildSpec::supervisor(
        "mid",
        world.spec(Strategy::OneForOne, 1, vec![world.probe("x"), world.probe("bad")]),
    );
    let pool = ChildSpec::pool("pool", world.pool_spec(1));
    let error = world
        .try_start(world.spec(Strategy::OneForOne, 1, vec![world.probe("a"), pool, mid, world.probe("z")]))
        .await
        .unwrap_err();
    let StartError::Child { id, .. } = &error else { panic!("{error}") };
    assert_eq!(*id, "mid");
    assert_eq!(world.since(0, &["stop"]), "x1 stop, a1 stop");
    assert_eq!(world.starts("z"), 0);
    world.settle();
}

#[tokio::test]
async fn a_failed_start_waits_for_slow_stops() {
    let world = World::new();
    world.script("a", |script| script.stop = Stop::Sleep(ms(10_000)));
    world.script("b", |script| script.init = Init::Fail);
    let spec = world.spec(
        Strategy::OneForOne,
        1,
        vec![world.probe("a").shutdown(Shutdown::Timeout(ms(3000))), world.probe("b")],
    );
    let starting = tokio::spawn({
        let world = world.clone();
        async move { world.try_start(spec).await.map(|_| ()) }
    });
    in_time(world.clock.sleeping(2)).await;
    world.clock.advance(ms(2999));
    drain().await;
    assert!(!starting.is_finished());
    world.clock.advance(ms(1));
    in_time(starting).await.unwrap().unwrap_err();
    assert!(world.has("a1 exit killed"));
    world.settle();
}

#[tokio::test]
async fn a_declined_child_is_restarted_by_hand() {
    let world = World::new();
    world.script("a", |script| script.init = Init::Ignore);
    let supervisor = world.start_probes(Strategy::OneForOne, 0, &["a", "b"]).await;
    let error = supervisor.restart_child("a").await.unwrap_err();
    assert_eq!(error, RestartChildError::Ignored { id: id("a") });
    assert_eq!(listing(&supervisor).await, "a2 down, b1 up");
    let error = supervisor.start_child(world.probe("a")).await.unwrap_err();
    assert!(matches!(error, StartChildError::AlreadyPresent { .. }));
    world.script("a", |script| script.init = Init::Up);
    supervisor.restart_child("a").await.unwrap();
    assert_eq!(listing(&supervisor).await, "a3 up, b1 up");
    supervisor.terminate_child("a").await.unwrap();
    supervisor.delete_child("a").await.unwrap();
    supervisor.start_child(world.probe("a")).await.unwrap();
    assert_eq!(listing(&supervisor).await, "b1 up, a1 up");
    world.end(&supervisor).await;
}
