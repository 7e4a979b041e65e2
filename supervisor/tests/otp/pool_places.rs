//! Places of a pool: what occupies a place, and for how long.

use ostler_supervisor::{ChildState, PoolSpec, StartChildError};

use crate::world::*;

#[tokio::test]
async fn a_restart_that_declines_leaves_the_pool() {
    let world = World::new();
    let pool = world.start_pool(PoolSpec { max_children: 1, ..world.pool_spec(5) }).await;
    pool.start_child(world.probe("a")).await.unwrap();
    world.script("a", |script| script.init = Init::Ignore);
    tell_pool(&pool, "a", Msg::Panic);
    world.until("a2 ignored").await;
    drain().await;
    assert_eq!(pool.count_children().await, counts(0, 0, 0, 0));
    pool.start_child(world.probe("b")).await.unwrap();
    world.end_pool(&pool).await;
}

#[tokio::test]
async fn a_child_being_restarted_keeps_its_place() {
    let world = World::new();
    let pool = world.start_pool(PoolSpec { max_children: 1, ..world.pool_spec(500) }).await;
    pool.start_child(world.probe("a")).await.unwrap();
    world.script("a", |script| script.init = Init::Gate);
    tell_pool(&pool, "a", Msg::Panic);
    world.until("a2 init").await;
    let error = pool.start_child(world.probe("b")).await.unwrap_err();
    assert!(matches!(error, StartChildError::MaxChildren { max: 1 }), "{error}");
    let error = pool.start_child(world.probe("a")).await.unwrap_err();
    assert!(matches!(error, StartChildError::AlreadyPresent { .. }), "{error}");
    let listed = pool.which_children().await;
    assert!(matches!(listed[0].state, ChildState::Restarting));
    world.open_gate();
    world.until("a2 up").await;
    world.end_pool(&pool).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn concurrent_starts_never_exceed_the_most_children() {
    let world = World::new();
    let pool = world.start_pool(PoolSpec { max_children: 10, ..world.pool_spec(0) }).await;
    let starts: Vec<_> = (0..100)
        .map(|n| {
            let (pool, probe) = (pool.clone(), world.probe(&format!("c{n}-")));
            tokio::spawn(async move { pool.start_child(probe).await })
        })
        .collect();
    let mut up = 0;
    for start in starts {
        match in_time(start).await.unwrap() {
            Ok(_) => up += 1,
            Err(StartChildError::MaxChildren { max: 10 }) => {}
            Err(other) => panic!("{other}"),
        }
    }
    assert_eq!(up, 10);
    assert_eq!(pool.count_children().await, counts(10, 10, 0, 10));
    world.end_pool(&pool).await;
}
