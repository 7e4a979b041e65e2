//! I: the dynamic pool.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use ostler_supervisor::{
    Cause, ChildSpec, Exit, Intensity, Pool, PoolSpec, Restart, Shutdown, SpecError, StartChildError,
    TerminateChildError,
};
use ractor::{Actor, ActorProcessingErr, ActorRef};

use crate::world::*;

fn transient(world: &World, id: &str) -> ChildSpec {
    world.probe(id).restart(Restart::Transient)
}

async fn names(pool: &Pool) -> String {
    let children = pool.which_children().await;
    children.iter().map(|child| format!("{}{}", child.id, child.generation)).collect::<Vec<_>>().join(" ")
}

#[tokio::test]
async fn i01_a_child_too_many_is_refused_and_never_started() {
    let world = World::new();
    let pool = world.start_pool(PoolSpec { max_children: 2, ..world.pool_spec(1) }).await;
    pool.start_child(transient(&world, "a")).await.unwrap();
    pool.start_child(transient(&world, "b")).await.unwrap();
    let error = pool.start_child(transient(&world, "c")).await.unwrap_err();
    assert!(matches!(error, StartChildError::MaxChildren { max: 2 }));
    assert_eq!(world.starts("c"), 0);
    assert_eq!(names(&pool).await, "a1 b1");
    world.end_pool(&pool).await;
}

#[tokio::test]
async fn i02_the_place_of_a_child_that_ended_is_free() {
    let world = World::new();
    let pool = world.start_pool(PoolSpec { max_children: 2, ..world.pool_spec(1) }).await;
    pool.start_child(transient(&world, "a")).await.unwrap();
    pool.start_child(transient(&world, "b")).await.unwrap();
    tell_pool(&pool, "a", Msg::StopSelf);
    world.until("a1 exit normal").await;
    pool.start_child(transient(&world, "c")).await.unwrap();
    assert_eq!(names(&pool).await, "b1 c1");
    world.end_pool(&pool).await;
}

#[tokio::test]
async fn i03_a_child_that_declines_leaves_nothing() {
    let world = World::new();
    world.script("shy", |script| script.init = Init::Ignore);
    let pool = world.start_pool(PoolSpec { max_children: 1, ..world.pool_spec(0) }).await;
    let error = pool.start_child(transient(&world, "shy")).await.unwrap_err();
    assert!(matches!(error, StartChildError::Ignored { .. }), "{error}");
    assert_eq!(pool.count_children().await, counts(0, 0, 0, 0));
    pool.start_child(transient(&world, "a")).await.unwrap();
    world.end_pool(&pool).await;
}

#[tokio::test]
async fn i04_a_child_that_fails_to_start_leaves_nothing_and_is_not_charged() {
    let world = World::new();
    world.script("bad", |script| script.init = Init::Fail);
    world.script("worse", |script| script.init = Init::Panic);
    let pool = world.start_pool(PoolSpec { max_children: 1, ..world.pool_spec(0) }).await;
    for (name, exit) in
        [("bad", Exit::StartFailed("no luck".into())), ("worse", Exit::Panicked("no start".into()))]
    {
        match pool.start_child(transient(&world, name)).await.unwrap_err() {
            StartChildError::Failed { exit: found, .. } => assert_eq!(found, exit),
            other => panic!("{other}"),
        }
    }
    assert_eq!(pool.count_children().await, counts(0, 0, 0, 0));
    pool.start_child(transient(&world, "a")).await.unwrap();
    world.end_pool(&pool).await;
}

#[tokio::test]
async fn i05_a_pool_stops_its_children_in_parallel() {
    let world = World::new();
    let pool = world.start_pool(world.pool_spec(1)).await;
    for n in 0..100 {
        let name = format!("c{n}-");
        let hook = if n == 42 { ms(5000) } else { ms(1000) };
        world.script(&name, |script| script.stop = Stop::Sleep(hook));
        pool.start_child(transient(&world, &name).shutdown(Shutdown::Timeout(ms(2000)))).await.unwrap();
    }
    let stopping = tokio::spawn({
        let pool = pool.clone();
        async move { pool.stop().await }
    });
    // A stop hook and a limit each.
    in_time(world.clock.sleeping(200)).await;
    world.clock.advance(ms(1000));
    for n in (0..100).filter(|n| *n != 42) {
        world.until(&format!("c{n}-1 exit shutdown")).await;
    }
    assert!(!stopping.is_finished());
    world.clock.advance(ms(1000));
    assert_eq!(in_time(stopping).await.unwrap(), Exit::Shutdown);
    assert!(world.has("c42-1 exit killed"));
    assert_eq!(world.clock.elapsed(), ms(2000));
    world.settle();
}

/// True if `measure` takes at most `most` times as long for `many` as for `few` in one of a few tries: a busy machine
/// does not slow every try.
async fn grows_at_most(most: f64, (few, many): (usize, usize), measure: impl AsyncFn(usize) -> Duration) {
    let mut least = f64::MAX;
    for _ in 0..5 {
        let small = measure(few).await.min(measure(few).await);
        least = least.min(measure(many).await.as_secs_f64() / small.as_secs_f64());
        if least <= most {
            return;
        }
    }
    panic!("{many} take {least:.0} times as long as {few}, expected at most {most}");
}

/// A pool with `count` idle children.
async fn crowd(world: &World, count: usize) -> Pool {
    let pool = world.start_pool(PoolSpec { intensity: Intensity::UNLIMITED, ..world.pool_spec(0) }).await;
    for n in 0..count {
        pool.start_child(quiet(n)).await.unwrap();
    }
    pool
}

fn quiet(n: usize) -> ChildSpec {
    ChildSpec::actor(n.to_string(), || Quiet, || ()).restart(Restart::Temporary)
}

struct Quiet;

impl Actor for Quiet {
    type Msg = ();
    type State = ();
    type Arguments = ();

    async fn pre_start(&self, _: ActorRef<()>, (): ()) -> Result<(), ActorProcessingErr> {
        Ok(())
    }
}

#[tokio::test]
async fn i06_many_children_are_terminated_one_by_one_in_linear_time() {
    grows_at_most(50.0, (300, 3_000), async |count| {
        let world = World::new();
        let pool = crowd(&world, count).await;
        let begun = Instant::now();
        for n in 0..count {
            pool.terminate_child(n.to_string()).await.unwrap();
        }
        let took = begun.elapsed();
        assert_eq!(pool.count_children().await, counts(0, 0, 0, 0));
        pool.stop().await;
        took
    })
    .await;
}

#[tokio::test]
async fn i07_many_children_start_and_stop_in_linear_time() {
    grows_at_most(1_000.0, (50, 5_000), async |count| {
        let begun = Instant::now();
        let pool = crowd(&World::new(), count).await;
        pool.stop().await;
        begun.elapsed()
    })
    .await;
}

#[tokio::test]
async fn i08_children_that_cannot_restart_are_counted_but_not_active() {
    let world = World::new();
    let pool = world.start_pool(world.pool_spec(1_000_000)).await;
    for name in ["a", "b", "c"] {
        pool.start_child(world.probe(name)).await.unwrap();
    }
    for name in ["a", "b"] {
        world.script(name, |script| script.init = Init::SleepThenFail(ms(50)));
        tell_pool(&pool, name, Msg::Panic);
    }
    for _ in 0..3 {
        in_time(world.clock.sleeping(2)).await;
        assert_eq!(pool.count_children().await, counts(3, 1, 0, 3));
        world.clock.advance(ms(50));
    }
    in_time(world.clock.sleeping(2)).await;
    let next = world.starts("a") + 1;
    for name in ["a", "b"] {
        world.script(name, |script| script.init = Init::Up);
    }
    world.clock.advance(ms(50));
    for name in ["a", "b"] {
        world.until(&format!("{name}{next} up")).await;
    }
    while pool.count_children().await != counts(3, 3, 0, 3) {
        tokio::task::yield_now().await;
    }
    world.end_pool(&pool).await;
}

#[tokio::test]
async fn i09_an_id_in_use_gives_the_live_reference() {
    let world = World::new();
    let pool = world.start_pool(world.pool_spec(1)).await;
    let first = pool.start_child(world.probe("a")).await.unwrap().actor::<Probe>().unwrap();
    match pool.start_child(world.probe("a")).await.unwrap_err() {
        StartChildError::AlreadyStarted { child, .. } => assert_eq!(child.actor::<Probe>().unwrap(), first),
        other => panic!("{other}"),
    }
    assert_eq!(world.starts("a"), 1);
    world.end_pool(&pool).await;
}

#[tokio::test]
async fn i09_a_second_start_waits_for_the_first() {
    let world = World::new();
    world.script("a", |script| script.init = Init::Gate);
    let pool = world.start_pool(world.pool_spec(1)).await;
    let start = || {
        let (pool, probe) = (pool.clone(), world.probe("a"));
        tokio::spawn(async move { pool.start_child(probe).await })
    };
    let first = start();
    world.until("a1 init").await;
    let second = start();
    tokio::task::yield_now().await;
    // Other callers are served meanwhile.
    pool.start_child(world.probe("b")).await.unwrap();
    world.open_gate();
    let first = in_time(first).await.unwrap().unwrap().actor::<Probe>().unwrap();
    match in_time(second).await.unwrap().unwrap_err() {
        StartChildError::AlreadyStarted { child, .. } => assert_eq!(child.actor::<Probe>().unwrap(), first),
        other => panic!("{other}"),
    }
    world.end_pool(&pool).await;
}

#[tokio::test]
async fn a_poisoned_child_is_given_up_and_the_pool_goes_on() {
    let world = World::new();
    let child_intensity = Some(Intensity::new(2, ms(1000)));
    let pool = world.start_pool(PoolSpec { child_intensity, ..world.pool_spec(2) }).await;
    for name in ["poison", "a"] {
        pool.start_child(world.probe(name)).await.unwrap();
    }
    world.script("poison", |script| script.init = Init::Fail);
    tell_pool(&pool, "poison", Msg::Panic);
    world.until("poison given-up start failed: no luck").await;
    assert_eq!(world.starts("poison"), 1 + 2);
    assert_eq!(names(&pool).await, "a1");
    // The id is free again.
    world.script("poison", |script| script.init = Init::Up);
    pool.start_child(world.probe("poison")).await.unwrap();
    world.end_pool(&pool).await;
}

#[tokio::test]
async fn the_windows_of_children_are_independent() {
    let world = World::new();
    let child_intensity = Some(Intensity::new(1, ms(1000)));
    let spec = PoolSpec { child_intensity, intensity: Intensity::UNLIMITED, ..world.pool_spec(0) };
    let pool = world.start_pool(spec).await;
    for name in ["a", "b", "c"] {
        pool.start_child(world.probe(name)).await.unwrap();
        tell_pool(&pool, name, Msg::Panic);
        world.until(&format!("{name}2 up")).await;
    }
    names(&pool).await;
    tell_pool(&pool, "b", Msg::Fail);
    world.until("b given-up failed: broken").await;
    assert_eq!(names(&pool).await, "a2 c2");
    // The window has expired.
    world.clock.advance(ms(1001));
    tell_pool(&pool, "a", Msg::Panic);
    world.until("a3 up").await;
    world.end_pool(&pool).await;
}

#[tokio::test]
async fn a_pool_gives_up_when_its_own_window_is_full() {
    let world = World::new();
    let pool = world.start_pool(world.pool_spec(1)).await;
    for name in ["a", "b"] {
        pool.start_child(world.probe(name)).await.unwrap();
    }
    tell_pool(&pool, "a", Msg::Panic);
    world.until("a2 up").await;
    tell_pool(&pool, "b", Msg::Fail);
    assert_eq!(in_time(pool.wait_exit()).await, Exit::Shutdown);
    assert_eq!(pool.causes(), [Cause { id: id("b"), exit: Exit::Failed("broken".into()) }]);
    world.settle();
    let error = pool.start_child(world.probe("c")).await.unwrap_err();
    assert!(matches!(error, StartChildError::Ended));
}

#[tokio::test]
async fn terminating_a_child_works_in_every_state() {
    let world = World::new();
    let pool = world.start_pool(world.pool_spec(1_000_000)).await;
    let missing = pool.terminate_child("a").await.unwrap_err();
    assert_eq!(missing, TerminateChildError::NotFound { id: id("a") });

    // Up.
    pool.start_child(world.probe("a")).await.unwrap();
    pool.terminate_child("a").await.unwrap();
    assert!(world.has("a1 stop") && world.has("a1 dropped") && pool.child::<Probe>("a").is_none());

    // Starting: the start is aborted.
    world.script("slow", |script| script.init = Init::Gate);
    let starting = tokio::spawn({
        let (pool, slow) = (pool.clone(), world.probe("slow"));
        async move { pool.start_child(slow).await }
    });
    world.until("slow1 init").await;
    in_time(pool.terminate_child("slow")).await.unwrap();
    let error = in_time(starting).await.unwrap().unwrap_err();
    assert!(matches!(error, StartChildError::Failed { exit: Exit::Killed, .. }), "{error}");
    assert!(world.has("slow1 dropped"));

    // Restarting: the restart is called off.
    pool.start_child(world.probe("b")).await.unwrap();
    world.script("b", |script| script.init = Init::SleepThenFail(ms(50)));
    tell_pool(&pool, "b", Msg::Panic);
    world.until("b2 init").await;
    in_time(pool.terminate_child("b")).await.unwrap();

    // Stopping: both wait for the end.
    world.script("c", |script| script.stop = Stop::Sleep(ms(100)));
    pool.start_child(world.probe("c")).await.unwrap();
    let stops: Vec<_> = (0..2)
        .map(|_| {
            let pool = pool.clone();
            tokio::spawn(async move { pool.terminate_child("c").await })
        })
        .collect();
    in_time(world.clock.sleeping(2)).await;
    world.clock.advance(ms(100));
    for stop in stops {
        in_time(stop).await.unwrap().unwrap();
    }
    assert_eq!(pool.count_children().await, counts(0, 0, 0, 0));
    world.end_pool(&pool).await;
}

#[tokio::test]
async fn a_pool_that_stops_breaks_off_starts() {
    let world = World::new();
    world.script("slow", |script| script.init = Init::Gate);
    let pool = world.start_pool(world.pool_spec(1)).await;
    let starting = tokio::spawn({
        let (pool, slow) = (pool.clone(), world.probe("slow"));
        async move { pool.start_child(slow).await }
    });
    world.until("slow1 init").await;
    world.end_pool(&pool).await;
    let error = in_time(starting).await.unwrap().unwrap_err();
    assert!(matches!(error, StartChildError::Ended), "{error}");
}

#[tokio::test]
async fn a_pool_refuses_significant_children() {
    let world = World::new();
    let pool = world.start_pool(world.pool_spec(1)).await;
    let error = pool.start_child(transient(&world, "a").significant(true)).await.unwrap_err();
    let fault = SpecError::SignificantWithoutAutoShutdown { id: id("a") };
    assert!(matches!(error, StartChildError::Invalid(faults) if faults == [fault]));
    world.end_pool(&pool).await;
}

/// Crashes many children repeatedly on two threads; all must be up in the end.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_storm_of_crashes_loses_no_child() {
    const CHILDREN: u64 = 100;
    const CRASHES: u64 = 20;
    let world = World::new();
    let pool = world.start_pool(PoolSpec { intensity: Intensity::UNLIMITED, ..world.pool_spec(0) }).await;
    let sent = Arc::new(AtomicU32::new(0));
    let storms: Vec<_> = (0..CHILDREN)
        .map(|n| {
            let (world, pool, sent) = (world.clone(), pool.clone(), sent.clone());
            tokio::spawn(async move {
                let name = format!("c{n}-");
                pool.start_child(world.probe(&name)).await.unwrap();
                for crash in 1..=CRASHES {
                    let child = loop {
                        match pool.child::<Probe>(&name) {
                            Some(child) if world.starts(&name) == crash => break child,
                            _ => tokio::task::yield_now().await,
                        }
                    };
                    if child.send_message(Msg::Panic).is_ok() {
                        sent.fetch_add(1, Ordering::Relaxed);
                    }
                    world.until(&format!("{name}{} up", crash + 1)).await;
                }
            })
        })
        .collect();
    for storm in storms {
        storm.await.unwrap();
    }
    assert_eq!(u64::from(sent.load(Ordering::Relaxed)), CHILDREN * CRASHES);
    assert_eq!(pool.count_children().await.specs, CHILDREN as u32);
    world.end_pool(&pool).await;
}

#[tokio::test]
async fn a_start_that_is_dropped_is_broken_off_and_leaves_nothing() {
    let world = World::new();
    world.script("a", |script| script.init = Init::Gate);
    let pool = world.start_pool(PoolSpec { max_children: 1, ..world.pool_spec(1) }).await;
    let start = || {
        let (pool, probe) = (pool.clone(), world.probe("a"));
        tokio::spawn(async move { pool.start_child(probe).await })
    };
    let first = start();
    world.until("a1 init").await;
    let second = start();
    tokio::task::yield_now().await;
    first.abort();
    world.until("a1 dropped").await;
    // The next waiter has its turn, and may be dropped as well.
    world.until("a2 init").await;
    second.abort();
    world.until("a2 dropped").await;
    world.script("a", |script| script.init = Init::Up);
    pool.start_child(world.probe("a")).await.unwrap();
    world.end_pool(&pool).await;
}

#[tokio::test]
async fn a_child_killed_from_outside_is_told_from_one_that_ended() {
    let world = World::new();
    let pool = world.start_pool(world.pool_spec(10)).await;
    pool.start_child(transient(&world, "a")).await.unwrap();
    pool.child::<Probe>("a").unwrap().kill();
    world.until("a1 exit killed").await;
    world.until("a2 up").await;
    tell_pool(&pool, "a", Msg::Leave(Exit::ShutdownWith("enough".into())));
    world.until("a2 exit shutdown: enough").await;
    assert_eq!(pool.count_children().await, counts(0, 0, 0, 0));
    world.end_pool(&pool).await;
}
