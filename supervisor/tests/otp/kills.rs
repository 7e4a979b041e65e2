//! Kills at any moment: no stop hook runs afterwards.

use std::sync::{Arc, OnceLock};

use futures::FutureExt;
use ostler_supervisor::{
    ChildEvent, ChildSpec, Event, Exit, Pool, Restart, StartChildError, Strategy, Supervisor, SupervisorRef,
};
use ractor::{Actor, ActorProcessingErr, ActorRef};

use crate::world::*;

/// Observes the end of `a` and kills at once, while the observer's caller is busy.
fn killing<T: Send + Sync + 'static>(
    handle: &Arc<OnceLock<T>>,
    kill: fn(&T),
) -> impl Fn(&Event<'_>) + Send + Sync + use<T> {
    let handle = handle.clone();
    move |event| {
        if *event.id == "a" && matches!(event.kind, ChildEvent::Exited { .. }) {
            kill(handle.get().unwrap());
        }
    }
}

#[tokio::test]
async fn a_kill_that_finds_its_supervisor_busy_is_no_stop() {
    for others in [&["b", "c"][..], &[]] {
        let world = World::new();
        let mut children = vec![world.probe("a").restart(Restart::Temporary)];
        children.extend(others.iter().map(|id| world.probe(id)));
        let root = Arc::new(OnceLock::<SupervisorRef>::new());
        let observer = killing(&root, |root| drop(root.kill().now_or_never()));
        let spec = world.spec(Strategy::OneForAll, 1, children);
        let supervisor = Supervisor::start_observed(spec, Arc::new(observer)).await.unwrap();
        root.set(supervisor.clone()).unwrap();
        tell(&supervisor, "a", Msg::Panic);
        assert_eq!(in_time(supervisor.wait_exit()).await, Exit::Killed);
        assert_eq!(world.since(0, &["stop"]), "");
        world.settle();
    }
}

#[tokio::test]
async fn a_worker_that_is_killed_in_its_start_hook_is_told_to_be_killed() {
    struct Selfish;
    impl Actor for Selfish {
        type Msg = ();
        type State = ();
        type Arguments = ();
        async fn pre_start(&self, myself: ActorRef<()>, (): ()) -> Result<(), ActorProcessingErr> {
            myself.kill();
            std::future::pending().await
        }
    }
    let world = World::new();
    let selfish = || ChildSpec::actor("selfish", || Selfish, || ());
    let root = world.start_probes(Strategy::OneForOne, 1, &[]).await;
    let pool = world.start_pool(world.pool_spec(1)).await;
    for started in [root.start_child(selfish()).await, pool.start_child(selfish()).await] {
        let error = started.unwrap_err();
        assert!(matches!(error, StartChildError::Failed { exit: Exit::Killed, .. }), "{error}");
    }
    in_time(pool.stop()).await;
    world.end(&root).await;
}

#[tokio::test]
async fn a_kill_that_finds_its_pool_busy_is_no_stop() {
    for others in [&["b", "c"][..], &[]] {
        let world = World::new();
        let handle = Arc::new(OnceLock::<Pool>::new());
        let observer = killing(&handle, |pool| drop(pool.kill().now_or_never()));
        let pool = Pool::start_observed(world.pool_spec(1), Arc::new(observer)).await.unwrap();
        handle.set(pool.clone()).unwrap();
        pool.start_child(world.probe("a").restart(Restart::Temporary)).await.unwrap();
        for id in others {
            pool.start_child(world.probe(id)).await.unwrap();
        }
        tell_pool(&pool, "a", Msg::Panic);
        assert_eq!(in_time(pool.wait_exit()).await, Exit::Killed);
        assert_eq!(world.since(0, &["stop"]), "");
        world.settle();
    }
}
