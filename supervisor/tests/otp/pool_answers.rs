//! What a pool answers to those who saw a child end before the pool has heard of it.

use std::sync::Mutex;
use std::sync::mpsc::channel;

use ostler_supervisor::{ChildRef, ChildSpec, Exit, Pool, PoolSpec, Restart, StartChildError};
use ractor::{Actor, ActorProcessingErr, ActorRef};

use crate::world::*;

/// What a full pool is asked as soon as the state of its only child, `a`, is dropped.
async fn after_the_end<F>(ask: impl FnOnce(World, Pool) -> F + Send + 'static) -> F::Output
where
    F: Future<Output: Send> + Send + 'static,
{
    let world = World::new();
    let pool = world.start_pool(PoolSpec { max_children: 1, ..world.pool_spec(1) }).await;
    pool.start_child(world.probe("a").restart(Restart::Temporary)).await.unwrap();
    let asking = tokio::spawn({
        let (world, pool) = (world.clone(), pool.clone());
        async move {
            world.until("a1 dropped").await;
            ask(world, pool).await
        }
    });
    tokio::task::yield_now().await;
    tell_pool(&pool, "a", Msg::StopSelf);
    let answer = in_time(asking).await.unwrap();
    world.end_pool(&pool).await;
    answer
}

#[tokio::test]
async fn the_place_of_a_child_is_free_once_its_state_is_dropped() {
    after_the_end(|world, pool| async move { pool.start_child(world.probe("b")).await }).await.unwrap();
}

#[tokio::test]
async fn the_id_of_a_child_is_free_once_its_state_is_dropped() {
    after_the_end(|world, pool| async move { pool.start_child(world.probe("a")).await }).await.unwrap();
}

#[tokio::test]
async fn a_child_is_not_listed_once_its_state_is_dropped() {
    let counted = after_the_end(|_, pool| async move { pool.count_children().await }).await;
    assert_eq!(counted, counts(0, 0, 0, 0));
    let listed = after_the_end(|_, pool| async move { pool.which_children().await }).await;
    assert!(listed.is_empty(), "{listed:?}");
}

/// Asks its pool for its siblings as it stops.
struct Curious;

impl Actor for Curious {
    type Msg = ();
    type State = Pool;
    type Arguments = Pool;

    async fn pre_start(&self, _: ActorRef<()>, pool: Pool) -> Result<Pool, ActorProcessingErr> {
        Ok(pool)
    }

    async fn post_stop(&self, _: ActorRef<()>, pool: &mut Pool) -> Result<(), ActorProcessingErr> {
        assert!(pool.which_children().await.is_empty());
        Ok(())
    }
}

#[tokio::test]
async fn a_pool_that_stops_answers_its_children() {
    let world = World::new();
    let pool = world.start_pool(world.pool_spec(1)).await;
    let given = pool.clone();
    pool.start_child(ChildSpec::actor("curious", || Curious, move || given.clone())).await.unwrap();
    assert_eq!(in_time(pool.stop()).await, Exit::Shutdown);
    assert!(world.has("curious1 exit shutdown"));
}

#[tokio::test]
async fn a_child_that_comes_up_as_its_pool_stops_is_told_to_be_gone_when_it_is() {
    let world = World::new();
    world.script("a", |script| script.init = Init::Gate);
    let pool = world.start_pool(world.pool_spec(1)).await;
    let starting = tokio::spawn({
        let (pool, a) = (pool.clone(), world.probe("a"));
        async move { pool.start_child(a).await }
    });
    world.until("a1 init").await;
    // The pool hears of the stop before the child is up, and the child is up before the pool breaks its start off.
    let (exit, ()) = in_time(async { tokio::join!(pool.stop(), async { world.open_gate() }) }).await;
    assert_eq!(exit, Exit::Shutdown);
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
    // It is up again and ends while the hook that is told of it still runs.
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
