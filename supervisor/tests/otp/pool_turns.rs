//! Concurrent calls about one id of a pool: their answers fit a sequential order.

use ostler_supervisor::{ChildRef, ChildSpec, Exit, Pool, PoolSpec, Shutdown, StartChildError};
use tokio::task::JoinHandle;

use crate::world::*;

type Starting = JoinHandle<Result<ChildRef, StartChildError>>;

/// The probe `name` under a child id.
fn called(world: &World, name: &str, child: &str) -> ChildSpec {
    let mut spec = world.probe(name);
    spec.id = id(child);
    spec
}

/// Starts a child in a separate task and runs that task to its first wait.
async fn start(pool: &Pool, spec: ChildSpec) -> Starting {
    let pool = pool.clone();
    let starting = tokio::spawn(async move { pool.start_child(spec).await });
    drain().await;
    starting
}

/// A pool in which `first` and then `second` are started as `x`; the first start lasts until the gate opens.
async fn two_starts(world: &World) -> (Pool, Starting, Starting) {
    world.script("first", |script| script.init = Init::Gate);
    let pool = world.start_pool(PoolSpec { max_children: 1, ..world.pool_spec(0) }).await;
    let first = start(&pool, called(world, "first", "x")).await;
    assert!(world.has("first1 init"));
    let second = start(&pool, called(world, "second", "x")).await;
    (pool, first, second)
}

#[tokio::test]
async fn a_second_start_is_refused_once_the_first_is_up() {
    let world = World::new();
    let (pool, first, second) = two_starts(&world).await;
    world.open_gate();
    in_time(first).await.unwrap().unwrap();
    let error = in_time(second).await.unwrap().unwrap_err();
    assert!(matches!(error, StartChildError::AlreadyStarted { .. }), "{error}");
    assert_eq!(world.starts("second"), 0);
    world.end_pool(&pool).await;
}

#[tokio::test]
async fn a_second_start_is_tried_when_the_first_fails_or_declines() {
    for init in [Init::SleepThenFail(ms(10)), Init::SleepThenIgnore(ms(10))] {
        let world = World::new();
        world.script("first", |script| script.init = init);
        let pool = world.start_pool(PoolSpec { max_children: 1, ..world.pool_spec(0) }).await;
        let first = start(&pool, called(&world, "first", "x")).await;
        let second = start(&pool, called(&world, "second", "x")).await;
        world.clock.advance(ms(10));
        in_time(first).await.unwrap().unwrap_err();
        in_time(second).await.unwrap().unwrap();
        assert!(world.has("second1 up"));
        world.end_pool(&pool).await;
    }
}

#[tokio::test]
async fn a_second_start_is_tried_when_nobody_waits_for_the_first_any_more() {
    let world = World::new();
    let (pool, first, second) = two_starts(&world).await;
    first.abort();
    in_time(second).await.unwrap().unwrap();
    assert!(world.has("second1 up") && !world.has("first1 up"));
    world.end_pool(&pool).await;
}

#[tokio::test]
async fn a_terminated_start_ends_with_all_that_waited_for_it() {
    let world = World::new();
    let (pool, first, second) = two_starts(&world).await;
    in_time(pool.terminate_child("x")).await.unwrap();
    for start in [first, second] {
        let error = in_time(start).await.unwrap().unwrap_err();
        assert!(matches!(error, StartChildError::Failed { exit: Exit::Killed, .. }), "{error}");
    }
    assert_eq!(pool.count_children().await, counts(0, 0, 0, 0));
    assert_eq!(world.starts("second"), 0);
    world.end_pool(&pool).await;
}

#[tokio::test]
async fn a_pool_that_stops_lets_go_of_those_who_wait_for_a_place() {
    let world = World::new();
    let (pool, first, second) = two_starts(&world).await;
    assert_eq!(in_time(pool.stop()).await, Exit::Shutdown);
    for start in [first, second] {
        let error = in_time(start).await.unwrap().unwrap_err();
        assert!(matches!(error, StartChildError::Ended), "{error}");
    }
    world.settle();
}

/// A pool with a terminated child `a` that stops after ten milliseconds of the clock.
async fn stopping(world: &World) -> (Pool, JoinHandle<()>) {
    world.script("a", |script| script.stop = Stop::Sleep(ms(10)));
    let pool = world.start_pool(PoolSpec { max_children: 1, ..world.pool_spec(0) }).await;
    pool.start_child(world.probe("a").shutdown(Shutdown::Infinity)).await.unwrap();
    let terminating = tokio::spawn({
        let pool = pool.clone();
        async move { pool.terminate_child("a").await.unwrap() }
    });
    in_time(world.clock.sleeping(1)).await;
    (pool, terminating)
}

/// A pool and a start that lasts until the gate opens, with a caller that stops polling.
macro_rules! unpolled_start {
    ($world:ident, $pool:ident, $start:ident) => {
        let $world = World::new();
        $world.script("a", |script| script.init = Init::Gate);
        let $pool = $world.start_pool(PoolSpec { max_children: 1, ..$world.pool_spec(0) }).await;
        let mut $start = Box::pin($pool.start_child($world.probe("a").shutdown(Shutdown::Infinity)));
        assert!(futures::poll!(&mut $start).is_pending());
        assert!($world.has("a1 init"));
    };
}

#[tokio::test]
async fn a_stop_breaks_a_start_off_that_nobody_polls() {
    unpolled_start!(world, pool, start);
    assert_eq!(in_time(pool.stop()).await, Exit::Shutdown);
    world.settle();
    let error = in_time(start).await.unwrap_err();
    assert!(matches!(error, StartChildError::Ended), "{error}");
}

#[tokio::test]
async fn a_kill_breaks_a_start_off_that_nobody_polls() {
    unpolled_start!(world, pool, start);
    assert_eq!(in_time(pool.kill()).await, Exit::Killed);
    world.settle();
    let error = in_time(start).await.unwrap_err();
    assert!(matches!(error, StartChildError::Ended), "{error}");
}

#[tokio::test]
async fn a_terminated_start_that_nobody_polls_gives_its_place_back() {
    unpolled_start!(world, pool, start);
    in_time(pool.terminate_child("a")).await.unwrap();
    assert!(world.has("a1 dropped"));
    world.script("a", |script| script.init = Init::Up);
    pool.start_child(world.probe("a")).await.unwrap();
    let error = in_time(start).await.unwrap_err();
    assert!(matches!(error, StartChildError::Failed { exit: Exit::Killed, .. }), "{error}");
    assert_eq!(pool.count_children().await, counts(1, 1, 0, 1));
    world.end_pool(&pool).await;
}

#[tokio::test]
async fn a_start_that_is_polled_on_comes_up() {
    unpolled_start!(world, pool, start);
    assert!(futures::poll!(&mut start).is_pending());
    world.open_gate();
    in_time(start).await.unwrap();
    world.end_pool(&pool).await;
}

#[tokio::test]
async fn a_start_behind_a_stop_waits_for_it_and_starts() {
    let world = World::new();
    let (pool, terminating) = stopping(&world).await;
    let again = start(&pool, world.probe("a")).await;
    assert!(!again.is_finished());
    world.script("a", |script| script.stop = Stop::Quick);
    world.clock.advance(ms(10));
    in_time(terminating).await.unwrap();
    in_time(again).await.unwrap().unwrap();
    assert_eq!(world.since(0, &["up", "dropped"]), "a1 up, a1 dropped, a2 up");
    world.end_pool(&pool).await;
}

#[tokio::test]
async fn a_start_between_two_stops_does_not_outlive_the_second() {
    let world = World::new();
    let (pool, terminating) = stopping(&world).await;
    let again = start(&pool, world.probe("a")).await;
    let twice = tokio::spawn({
        let pool = pool.clone();
        async move { pool.terminate_child("a").await.unwrap() }
    });
    drain().await;
    world.clock.advance(ms(10));
    in_time(terminating).await.unwrap();
    in_time(twice).await.unwrap();
    let error = in_time(again).await.unwrap().unwrap_err();
    assert!(matches!(error, StartChildError::Failed { exit: Exit::Killed, .. }), "{error}");
    assert_eq!(world.starts("a"), 1);
    world.end_pool(&pool).await;
}

#[tokio::test]
async fn a_pool_that_stops_lets_go_of_those_who_wait_for_a_stop() {
    let world = World::new();
    let (pool, terminating) = stopping(&world).await;
    let again = start(&pool, world.probe("a")).await;
    let ending = tokio::spawn({
        let pool = pool.clone();
        async move { pool.stop().await }
    });
    let error = in_time(again).await.unwrap().unwrap_err();
    assert!(matches!(error, StartChildError::Ended), "{error}");
    world.clock.advance(ms(10));
    assert_eq!(in_time(ending).await.unwrap(), Exit::Shutdown);
    assert!(in_time(terminating).await.is_err(), "the pool has ended first");
    world.settle();
}
