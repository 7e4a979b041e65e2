//! Abandoned starts of branches: nothing stays behind, at any moment.

use ostler_supervisor::{ChildSpec, Exit, Shutdown, Strategy, SupervisorRef};
use tokio::task::JoinHandle;

use crate::world::*;

fn mid(world: &World) -> ChildSpec {
    let children = vec![world.probe("first"), world.probe("last")];
    ChildSpec::supervisor("mid", world.spec(Strategy::OneForOne, 1, children))
}

/// Aborts `start` when `mid` is up and unread.
async fn break_off<T>(world: &World, start: JoinHandle<T>) {
    let breaking = tokio::spawn({
        let (world, start) = (world.clone(), start.abort_handle());
        async move {
            world.until("last1 up").await;
            start.abort();
        }
    });
    in_time(breaking).await.unwrap();
    assert!(in_time(start).await.is_err_and(|error| error.is_cancelled()));
}

#[tokio::test]
async fn a_tree_whose_start_is_dropped_as_it_comes_up_is_killed() {
    let world = World::new();
    let spec = world.spec(Strategy::OneForOne, 1, vec![mid(&world)]);
    let start = tokio::spawn({
        let world = world.clone();
        async move { world.try_start(spec).await.map(|_| ()) }
    });
    break_off(&world, start).await;
    world.until("first1 dropped").await;
    world.until("last1 dropped").await;
    world.settle();
}

#[tokio::test]
async fn a_kill_finds_a_branch_that_just_came_up() {
    let world = World::new();
    let root = world.start(world.spec(Strategy::OneForOne, 1, vec![])).await;
    let killing = tokio::spawn({
        let (world, root) = (world.clone(), root.clone());
        async move {
            world.until("last1 up").await;
            root.kill().await
        }
    });
    root.start_child(mid(&world)).await.unwrap_err();
    assert_eq!(in_time(killing).await.unwrap(), Exit::Killed);
    assert_eq!(world.since(0, &["stop"]), "");
    world.settle();
}

#[tokio::test]
async fn a_branch_whose_start_is_dropped_as_it_comes_up_does_not_keep_its_pool() {
    let world = World::new();
    let children = vec![ChildSpec::pool("pool", world.pool_spec(1))];
    let root = world.start(world.spec(Strategy::OneForOne, 1, children)).await;
    let pool = root.pool("pool").unwrap();
    let start = tokio::spawn({
        let (pool, mid) = (pool.clone(), mid(&world));
        async move { pool.start_child(mid).await }
    });
    break_off(&world, start).await;
    world.until("last1 dropped").await;
    assert_eq!(pool.count_children().await, counts(0, 0, 0, 0));
    world.end_pool(&pool).await;
    world.end(&root).await;
}

/// A tree that starts a branch; the branch has failed to start and waits for the stop hook of its first child.
async fn failing(world: &World, shutdown: Shutdown) -> SupervisorRef {
    world.script("a", |script| script.stop = Stop::Sleep(ms(1_000_000)));
    world.script("b", |script| script.init = Init::Fail);
    let children = vec![world.probe("a").shutdown(Shutdown::Infinity), world.probe("b")];
    let mid = ChildSpec::supervisor("mid", world.spec(Strategy::OneForOne, 1, children)).shutdown(shutdown);
    let root = world.start(world.spec(Strategy::OneForOne, 1, vec![])).await;
    tokio::spawn({
        let root = root.clone();
        async move { root.start_child(mid).await.map(|_| ()) }
    });
    in_time(world.clock.sleeping(1)).await;
    root
}

#[tokio::test]
async fn a_kill_finds_a_branch_that_undoes_its_start() {
    let world = World::new();
    let root = failing(&world, Shutdown::Infinity).await;
    assert_eq!(in_time(root.kill()).await, Exit::Killed);
    assert!(!world.has("a1 stop"));
    world.settle();
}

#[tokio::test]
async fn a_stop_waits_for_a_branch_that_undoes_its_start_as_its_spec_says() {
    for (shutdown, sleeps, wait, orderly) in
        [(Shutdown::Infinity, 1, 1_000_000, true), (Shutdown::Timeout(ms(200)), 2, 200, false)]
    {
        let world = World::new();
        let root = failing(&world, shutdown).await;
        let stopping = tokio::spawn({
            let root = root.clone();
            async move { root.stop().await }
        });
        tokio::task::yield_now().await;
        in_time(world.clock.sleeping(sleeps)).await;
        world.clock.advance(ms(wait));
        assert_eq!(in_time(stopping).await.unwrap(), Exit::Shutdown);
        assert_eq!(world.has("a1 stop"), orderly);
        world.settle();
    }
}
