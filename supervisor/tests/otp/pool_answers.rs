//! Answers of a pool to callers that see a child's end before the pool does.

use ostler_supervisor::{ChildSpec, Exit, Pool, PoolSpec, Restart};
use ractor::{Actor, ActorProcessingErr, ActorRef};

use crate::world::*;

/// Asks a full pool as soon as the state of its only child, `a`, is dropped.
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

/// Asks its pool for its siblings while stopping.
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
