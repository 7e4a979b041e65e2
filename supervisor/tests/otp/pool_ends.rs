//! Ends reported by a pool: each once, and after the child is gone.

use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};

use ostler_supervisor::{
    ChildEvent, ChildRef, ChildSpec, ChildState, Event, Exit, Pool, PoolSpec, Restart, Shutdown,
    StartChildError, Strategy,
};

use crate::world::*;

#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn a_child_that_comes_up_as_its_pool_stops_is_told_to_be_gone_when_it_is() {
    let world = World::new();
    let pool = world.start_pool(PoolSpec { max_children: 1, ..world.pool_spec(1) }).await;
    let (tell, hooked) = channel();
    let (go, let_go) = channel::<()>();
    let let_go = Mutex::new(let_go);
    let slow = world.probe("a").on_start(move |_| {
        tell.send(()).unwrap();
        tokio::task::block_in_place(|| let_go.lock().unwrap().recv().unwrap());
    });
    let starting = tokio::spawn({
        let pool = pool.clone();
        async move { pool.start_child(slow).await }
    });
    hooked.recv().unwrap();
    let stopping = tokio::spawn({
        let pool = pool.clone();
        async move { pool.stop().await }
    });
    // The pool is closed before the child is recorded as up.
    while !matches!(pool.start_child(world.probe("b")).await, Err(StartChildError::Ended)) {
        tokio::task::yield_now().await;
    }
    go.send(()).unwrap();
    assert_eq!(in_time(stopping).await.unwrap(), Exit::Shutdown);
    assert_eq!(world.since(0, &["up", "dropped", "exit"]), "a1 up, a1 dropped, a1 exit killed");
    let error = in_time(starting).await.unwrap().unwrap_err();
    assert!(matches!(error, StartChildError::Ended), "{error}");
    world.settle();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn a_restart_that_is_overtaken_by_its_end_is_not_taken_for_one_of_the_next_child_of_that_id() {
    let world = World::new();
    let pool = world.start_pool(world.pool_spec(1)).await;
    let (tell, hooked) = channel::<ChildRef>();
    let (go, let_go) = channel();
    let let_go = Mutex::new(let_go);
    let slow = world.probe("a").on_start(move |child| {
        tell.send(child.clone()).unwrap();
        tokio::task::block_in_place(|| let_go.lock().unwrap().recv().unwrap());
    });
    go.send(()).unwrap();
    let first = pool.start_child(slow).await.unwrap().actor::<Probe>().unwrap();
    hooked.recv().unwrap();
    first.send_message(Msg::Panic).unwrap();
    // The child restarts, and ends while the hook for its first end still runs.
    let second = hooked.recv().unwrap().actor::<Probe>().unwrap();
    second.send_message(Msg::StopSelf).unwrap();
    world.until("a2 dropped").await;
    in_time(pool.terminate_child("a")).await.unwrap();
    pool.start_child(world.probe("a")).await.unwrap();
    go.send(()).unwrap();
    world.until("a2 exit normal").await;
    let listed = pool.which_children().await;
    assert_eq!((listed[0].generation, listed[0].restarts), (1, 0));
    world.end_pool(&pool).await;
}

/// The start of a child is recorded after its hook. A termination in between finds it unrecorded, and its end may be handled
/// while the hook still runs.
#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn the_end_of_a_child_that_is_terminated_before_its_start_is_recorded_is_told_after_the_start() {
    for ends_itself in [false, true] {
        let (world, told) = (World::new(), Arc::new(Mutex::new(Vec::new())));
        let observer = {
            let told = told.clone();
            move |event: &Event<'_>| {
                let word = match event.kind {
                    ChildEvent::Started { .. } => "started",
                    ChildEvent::Exited { .. } => "exited",
                    _ => "other",
                };
                told.lock().unwrap().push(word);
            }
        };
        let pool = Pool::start_observed(world.pool_spec(1), Arc::new(observer)).await.unwrap();
        let (tell, hooked) = channel::<ChildRef>();
        let (go, let_go) = channel::<()>();
        let let_go = Mutex::new(let_go);
        let slow = world.probe("a").on_start(move |child| {
            tell.send(child.clone()).unwrap();
            tokio::task::block_in_place(|| let_go.lock().unwrap().recv().unwrap());
        });
        let starting = tokio::spawn({
            let pool = pool.clone();
            async move { pool.start_child(slow).await }
        });
        let child = hooked.recv().unwrap().actor::<Probe>().unwrap();
        let terminating = tokio::spawn({
            let pool = pool.clone();
            async move { pool.terminate_child("a").await }
        });
        // Until the pool knows of the termination, the start may succeed.
        while !matches!(pool.which_children().await[0].state, ChildState::Stopping) {
            tokio::task::yield_now().await;
        }
        if ends_itself {
            // The stop of the pool may have been faster.
            let _ = child.send_message(Msg::StopSelf);
            world.until("a1 dropped").await;
            drain().await;
        }
        go.send(()).unwrap();
        in_time(starting).await.unwrap().unwrap_err();
        in_time(terminating).await.unwrap().unwrap();
        while told.lock().unwrap().len() < 2 {
            tokio::task::yield_now().await;
        }
        in_time(pool.stop()).await;
        assert_eq!(*told.lock().unwrap(), ["started", "exited"], "ends itself: {ends_itself}");
    }
}

#[tokio::test]
async fn a_child_that_a_stop_has_ended_is_not_told_to_end_again_by_a_kill() {
    let world = World::new();
    world.script("slow", |script| script.stop = Stop::Sleep(ms(1_000_000)));
    let pool = world.start_pool(world.pool_spec(1)).await;
    pool.start_child(world.probe("quick")).await.unwrap();
    pool.start_child(world.probe("slow").shutdown(Shutdown::Infinity)).await.unwrap();
    let stopping = tokio::spawn({
        let pool = pool.clone();
        async move { pool.stop().await }
    });
    world.until("quick1 exit shutdown").await;
    in_time(world.clock.sleeping(1)).await;
    assert_eq!(in_time(pool.kill()).await, Exit::Killed);
    assert_eq!(in_time(stopping).await.unwrap(), Exit::Killed);
    assert_eq!(world.since(0, &["exit"]), "quick1 exit shutdown, slow1 exit killed");
    world.settle();
}

#[tokio::test]
async fn a_terminated_child_has_its_own_limit() {
    let world = World::new();
    let pool = world.start_pool(world.pool_spec(1)).await;
    pool.start_child(world.probe("brutal").shutdown(Shutdown::Brutal)).await.unwrap();
    world.script("slow", |script| script.stop = Stop::Sleep(ms(10_000)));
    pool.start_child(world.probe("slow").shutdown(Shutdown::Timeout(ms(100)))).await.unwrap();
    in_time(pool.terminate_child("brutal")).await.unwrap();
    assert!(world.has("brutal1 exit killed") && !world.has("brutal1 stop"));
    let stopping = tokio::spawn({
        let pool = pool.clone();
        async move { pool.terminate_child("slow").await }
    });
    in_time(world.clock.sleeping(2)).await;
    assert!(matches!(pool.which_children().await[0].state, ChildState::Stopping));
    world.clock.advance(ms(100));
    in_time(stopping).await.unwrap().unwrap();
    assert!(world.has("slow1 exit killed"));
    world.script("slow", |script| script.stop = Stop::Quick);
    pool.start_child(world.probe("slow")).await.unwrap();
    world.end_pool(&pool).await;
}

#[tokio::test]
async fn a_branch_in_a_pool_gives_up_as_its_restart_type_says() {
    for (restart, left) in [(Restart::Permanent, 1), (Restart::Transient, 0), (Restart::Temporary, 0)] {
        let world = World::new();
        let pool = world.start_pool(world.pool_spec(1)).await;
        let mid = ChildSpec::supervisor("mid", world.spec(Strategy::OneForOne, 0, vec![world.probe("leaf")]));
        let mid = pool.start_child(mid.restart(restart)).await.unwrap().supervisor().unwrap();
        assert_eq!(pool.count_children().await, counts(1, 1, 1, 0));
        tell(&mid, "leaf", Msg::Panic);
        world.until("mid1 exit shutdown").await;
        if left == 1 {
            world.until("leaf2 up").await;
        }
        drain().await;
        assert_eq!(pool.count_children().await, counts(left, left, left, 0));
        world.end_pool(&pool).await;
    }
}
