//! G: shutdown.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use ostler_supervisor::{
    ChildSpec, Exit, KILL_GRACE, Restart, Shutdown, StartChildError, Strategy, SupervisorRef,
    TerminateChildError,
};
use ractor::{Actor, ActorProcessingErr, ActorRef};

use crate::world::*;

#[tokio::test]
async fn g01_children_stop_in_reverse_one_at_a_time() {
    let world = World::new();
    let children = ["a", "b", "c", "d", "e"].map(|id| world.probe(id)).to_vec();
    let supervisor = world.start(world.spec(Strategy::OneForOne, 1, children)).await;
    let mark = world.mark();
    world.end(&supervisor).await;
    assert_eq!(
        world.since(mark, &["stop", "dropped"]),
        "e1 stop, e1 dropped, d1 stop, d1 dropped, c1 stop, c1 dropped, b1 stop, b1 dropped, a1 stop, \
         a1 dropped"
    );
}

#[tokio::test]
async fn g02_a_busy_child_is_killed_after_its_limit() {
    let world = World::new();
    let busy = world.probe("busy").shutdown(Shutdown::Timeout(ms(1000)));
    let children = vec![world.probe("a"), busy];
    let supervisor = world.start(world.spec(Strategy::OneForOne, 1, children)).await;
    tell(&supervisor, "busy", Msg::Sleep(ms(200_000)));
    in_time(world.clock.sleeping(1)).await;
    let stopping = tokio::spawn({
        let supervisor = supervisor.clone();
        async move { supervisor.stop().await }
    });
    in_time(world.clock.sleeping(2)).await;
    world.clock.advance(ms(999));
    drain().await;
    assert!(!world.has("busy1 exit killed"));
    world.clock.advance(ms(1));
    assert_eq!(in_time(stopping).await.unwrap(), Exit::Shutdown);
    assert!(!world.has("busy1 stop"));
    assert!(world.has("busy1 exit killed") && world.has("a1 exit shutdown"));
    world.settle();
}

#[tokio::test]
async fn g03_a_brutal_kill_runs_no_stop_hook() {
    let world = World::new();
    let children = vec![world.probe("a"), world.probe("b").shutdown(Shutdown::Brutal), world.probe("c")];
    let supervisor = world.start(world.spec(Strategy::OneForOne, 1, children)).await;
    let mark = world.mark();
    world.end(&supervisor).await;
    assert_eq!(
        world.since(mark, &["stop", "exit"]),
        "c1 stop, c1 exit shutdown, b1 exit killed, a1 stop, a1 exit shutdown"
    );
}

#[tokio::test]
async fn g04_infinity_waits_for_the_stop_hook() {
    let world = World::new();
    world.script("a", |script| script.stop = Stop::Sleep(ms(3_000_000)));
    let children = vec![world.probe("a").shutdown(Shutdown::Infinity)];
    let supervisor = world.start(world.spec(Strategy::OneForOne, 1, children)).await;
    let stopping = tokio::spawn({
        let supervisor = supervisor.clone();
        async move { supervisor.stop().await }
    });
    in_time(world.clock.sleeping(1)).await;
    world.clock.advance(ms(2_999_999));
    drain().await;
    assert!(!stopping.is_finished());
    world.clock.advance(ms(1));
    assert_eq!(in_time(stopping).await.unwrap(), Exit::Shutdown);
    assert!(world.has("a1 stop"));
    world.settle();
}

#[tokio::test]
async fn g05_a_branch_stops_from_its_leaves() {
    let world = World::new();
    world.script("leaf", |script| script.stop = Stop::Sleep(ms(500)));
    let mid = ChildSpec::supervisor("mid", world.spec(Strategy::OneForOne, 1, vec![world.probe("leaf")]));
    let root = world.start(world.spec(Strategy::OneForOne, 1, vec![world.probe("a"), mid])).await;
    let stopping = tokio::spawn({
        let root = root.clone();
        async move { root.stop().await }
    });
    // The stop hook and its limit.
    in_time(world.clock.sleeping(2)).await;
    drain().await;
    assert!(!stopping.is_finished());
    world.clock.advance(ms(500));
    in_time(stopping).await.unwrap();
    assert_eq!(
        world.since(0, &["stop", "exit"]),
        "leaf1 stop, leaf1 exit shutdown, mid1 exit shutdown, a1 stop, a1 exit shutdown"
    );
    world.settle();
}

#[tokio::test]
async fn g05_a_stop_waits_for_the_start_of_a_branch_and_then_stops_it_in_order() {
    for in_time_up in [true, false] {
        let world = World::new();
        world.script("slow", |script| script.init = Init::Gate);
        let children = ["a", "slow", "never"].map(|id| world.probe(id)).to_vec();
        let mid = ChildSpec::supervisor("mid", world.spec(Strategy::OneForOne, 1, children));
        let root = world.start(world.spec(Strategy::OneForOne, 1, vec![])).await;
        let starting = tokio::spawn({
            let root = root.clone();
            async move { root.start_child(mid).await.map(|_| ()) }
        });
        world.until("slow1 init").await;
        let stopping = tokio::spawn({
            let root = root.clone();
            async move { root.stop().await }
        });
        in_time(world.clock.sleeping(1)).await;
        // The start hook has the limit of its worker; a branch has none.
        if in_time_up {
            world.clock.advance(ms(4999));
            world.open_gate();
        } else {
            world.clock.advance(ms(5000));
        }
        assert_eq!(in_time(stopping).await.unwrap(), Exit::Shutdown);
        in_time(starting).await.unwrap().unwrap_err();
        let stopped = if in_time_up { "slow1 stop, a1 stop" } else { "a1 stop" };
        assert_eq!(world.since(0, &["stop"]), stopped);
        assert_eq!(world.starts("never"), 0);
        world.settle();
    }
}

#[tokio::test]
async fn g06_a_panic_in_a_stop_hook_does_not_disturb_the_others() {
    let world = World::new();
    world.script("b", |script| script.stop = Stop::Panic);
    let children = ["a", "b", "c"].map(|id| world.probe(id)).to_vec();
    let supervisor = world.start(world.spec(Strategy::OneForOne, 1, children)).await;
    let mark = world.mark();
    world.end(&supervisor).await;
    assert_eq!(world.since(mark, &["exit"]), "c1 exit shutdown, b1 exit panicked: no stop, a1 exit shutdown");
}

#[tokio::test]
async fn g07_a_crash_during_the_shutdown_is_not_restarted() {
    let world = World::new();
    world.script("b", |script| script.stop = Stop::Sleep(ms(100)));
    let children = vec![world.probe("a"), world.probe("b")];
    let supervisor = world.start(world.spec(Strategy::OneForOne, 1, children)).await;
    let stopping = tokio::spawn({
        let supervisor = supervisor.clone();
        async move { supervisor.stop().await }
    });
    in_time(world.clock.sleeping(2)).await;
    tell(&supervisor, "a", Msg::Panic);
    world.until("a1 dropped").await;
    world.clock.advance(ms(100));
    assert_eq!(in_time(stopping).await.unwrap(), Exit::Shutdown);
    assert_eq!(world.since(0, &["exit"]), "b1 exit shutdown, a1 exit panicked: ouch");
    assert_eq!(world.starts("a"), 1);
    world.settle();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn g08_a_child_that_never_yields_is_reported_and_left_behind() {
    let world = World::new();
    let spinning = world.probe("spin").shutdown(Shutdown::Timeout(ms(200)));
    let children = vec![world.probe("a"), spinning, world.probe("b")];
    let root = world.start(world.spec(Strategy::OneForOne, 1, children)).await;
    let release = Arc::new(AtomicBool::new(false));
    tell(&root, "spin", Msg::Spin(release.clone()));
    world.until("spin spins").await;
    let stopping = tokio::spawn({
        let root = root.clone();
        async move { root.stop().await }
    });
    world.until("b1 exit shutdown").await;
    for limit in [ms(200), KILL_GRACE] {
        in_time(world.clock.sleeping(1)).await;
        world.clock.advance(limit);
    }
    assert_eq!(in_time(stopping).await.unwrap(), Exit::Shutdown);
    assert!(world.has("spin1 unkillable") && world.has("a1 exit shutdown"));
    assert!(!world.has("spin1 dropped"));
    release.store(true, Ordering::Release);
    world.until("spin1 dropped").await;
    world.settle();
}

#[tokio::test]
async fn g09_every_stop_waits_for_the_end() {
    let world = World::new();
    world.script("a", |script| script.stop = Stop::Sleep(ms(100)));
    let supervisor = world.start(world.spec(Strategy::OneForOne, 1, vec![world.probe("a")])).await;
    let stops: Vec<_> = (0..3)
        .map(|_| {
            let (supervisor, world) = (supervisor.clone(), world.clone());
            tokio::spawn(async move {
                let exit = supervisor.stop().await;
                world.settle();
                exit
            })
        })
        .collect();
    in_time(world.clock.sleeping(2)).await;
    world.clock.advance(ms(100));
    for stop in stops {
        assert_eq!(in_time(stop).await.unwrap(), Exit::Shutdown);
    }
    assert_eq!(supervisor.stop().await, Exit::Shutdown);
}

#[tokio::test]
async fn g10_a_killed_supervisor_takes_all_below_it_along() {
    let world = World::new();
    for id in ["leaf", "agent", "a"] {
        // No stop hook may run: the test would hang.
        world.script(id, |script| script.stop = Stop::Sleep(ms(1_000_000)));
    }
    let mid = ChildSpec::supervisor("mid", world.spec(Strategy::OneForOne, 1, vec![world.probe("leaf")]));
    let pool = ChildSpec::pool("pool", world.pool_spec(1));
    let root = world.start(world.spec(Strategy::OneForOne, 1, vec![world.probe("a"), mid, pool])).await;
    let pool = root.pool("pool").unwrap();
    pool.start_child(world.probe("agent").restart(Restart::Transient)).await.unwrap();
    tell(&root, "a", Msg::Sleep(ms(1_000_000)));
    assert_eq!(in_time(root.kill()).await, Exit::Killed);
    world.settle();
    assert_eq!(pool.wait_exit().await, Exit::Killed);
    assert_eq!(world.since(0, &["stop"]), "");
}

#[tokio::test]
async fn g10_a_kill_breaks_off_a_start_and_an_orderly_stop() {
    let world = World::new();
    world.script("slow", |script| script.init = Init::Gate);
    world.script("a", |script| script.stop = Stop::Sleep(ms(1_000_000)));
    let root = world.start(world.spec(Strategy::OneForOne, 1, vec![world.probe("a")])).await;
    let starting = tokio::spawn({
        let (root, slow) = (root.clone(), world.probe("slow"));
        async move { root.start_child(slow).await }
    });
    world.until("slow1 init").await;
    assert_eq!(in_time(root.kill()).await, Exit::Killed);
    world.settle();
    in_time(starting).await.unwrap().unwrap_err();

    let root = world.start(world.spec(Strategy::OneForOne, 1, vec![world.probe("a")])).await;
    let stopping = tokio::spawn({
        let root = root.clone();
        async move { root.stop().await }
    });
    in_time(world.clock.sleeping(2)).await;
    assert_eq!(in_time(root.kill()).await, Exit::Killed);
    assert_eq!(in_time(stopping).await.unwrap(), Exit::Killed);
    world.settle();
}

/// Asks its supervisor for its siblings while stopping.
struct Curious;

impl Actor for Curious {
    type Msg = ();
    type State = Arc<OnceLock<SupervisorRef>>;
    type Arguments = Self::State;

    async fn pre_start(
        &self,
        _: ActorRef<()>,
        given: Self::State,
    ) -> Result<Self::State, ActorProcessingErr> {
        Ok(given)
    }

    async fn post_stop(&self, _: ActorRef<()>, given: &mut Self::State) -> Result<(), ActorProcessingErr> {
        assert!(given.get().unwrap().which_children().await.is_empty());
        Ok(())
    }
}

#[tokio::test]
async fn a_supervisor_that_stops_answers_its_children() {
    let world = World::new();
    let given = Arc::new(OnceLock::new());
    let curious = ChildSpec::actor("curious", || Curious, {
        let given = given.clone();
        move || given.clone()
    });
    let children = vec![curious.shutdown(Shutdown::Infinity)];
    let supervisor = world.start(world.spec(Strategy::OneForOne, 1, children)).await;
    given.set(supervisor.clone()).unwrap();
    assert_eq!(in_time(supervisor.stop()).await, Exit::Shutdown);
    assert!(world.has("curious1 exit shutdown"));
}

#[tokio::test]
async fn what_is_asked_of_a_supervisor_that_ends_is_not_done() {
    let world = World::new();
    world.script("a", |script| script.stop = Stop::Sleep(ms(100)));
    let children = vec![world.probe("a"), world.probe("b")];
    let supervisor = world.start(world.spec(Strategy::OneForOne, 1, children)).await;
    let stopping = tokio::spawn({
        let supervisor = supervisor.clone();
        async move { supervisor.stop().await }
    });
    in_time(world.clock.sleeping(2)).await;
    let started = in_time(supervisor.start_child(world.probe("c"))).await;
    assert!(matches!(started, Err(StartChildError::Ended)), "{started:?}");
    assert_eq!(in_time(supervisor.terminate_child("a")).await, Err(TerminateChildError::Ended));
    assert!(!stopping.is_finished());
    world.clock.advance(ms(100));
    assert_eq!(in_time(stopping).await.unwrap(), Exit::Shutdown);
    assert_eq!(world.starts("c"), 0);
    world.settle();
}

#[tokio::test]
async fn a_branch_over_its_limit_is_killed_with_all_below() {
    let world = World::new();
    world.script("leaf", |script| script.stop = Stop::Sleep(ms(1_000_000)));
    world.script("agent", |script| script.stop = Stop::Sleep(ms(1_000_000)));
    let children =
        vec![ChildSpec::pool("pool", world.pool_spec(1)), world.probe("leaf").shutdown(Shutdown::Infinity)];
    let mid = ChildSpec::supervisor("mid", world.spec(Strategy::OneForOne, 1, children))
        .shutdown(Shutdown::Timeout(ms(700)));
    let root = world.start(world.spec(Strategy::OneForOne, 1, vec![world.probe("a"), mid])).await;
    let pool = root.supervisor("mid").unwrap().pool("pool").unwrap();
    pool.start_child(world.probe("agent")).await.unwrap();
    let stopping = tokio::spawn({
        let root = root.clone();
        async move { root.stop().await }
    });
    in_time(world.clock.sleeping(2)).await;
    world.clock.advance(ms(699));
    drain().await;
    assert!(!world.has("leaf1 exit killed"));
    world.clock.advance(ms(1));
    assert_eq!(in_time(stopping).await.unwrap(), Exit::Shutdown);
    assert!(world.has("leaf1 exit killed") && world.has("agent1 exit killed"));
    assert!(world.has("mid1 exit killed") && world.has("a1 exit shutdown"));
    assert_eq!(pool.wait_exit().await, Exit::Killed);
    world.settle();
}

#[tokio::test]
async fn a_brutal_branch_runs_no_stop_hook_below() {
    let world = World::new();
    let mid = ChildSpec::supervisor("mid", world.spec(Strategy::OneForOne, 1, vec![world.probe("leaf")]));
    let root = world
        .start(world.spec(Strategy::OneForOne, 1, vec![world.probe("a"), mid.shutdown(Shutdown::Brutal)]))
        .await;
    world.end(&root).await;
    assert_eq!(
        world.since(0, &["stop", "exit"]),
        "leaf1 exit killed, mid1 exit killed, a1 stop, a1 exit shutdown"
    );
}

#[tokio::test]
async fn a_stop_during_a_group_restart_starts_nothing_more() {
    let world = World::new();
    world.script("c", |script| script.stop = Stop::Sleep(ms(100)));
    let supervisor = world.start_probes(Strategy::OneForAll, 1, &["a", "b", "c"]).await;
    tell(&supervisor, "a", Msg::Panic);
    in_time(world.clock.sleeping(2)).await;
    let stopping = tokio::spawn({
        let supervisor = supervisor.clone();
        async move { supervisor.stop().await }
    });
    drain().await;
    world.clock.advance(ms(100));
    assert_eq!(in_time(stopping).await.unwrap(), Exit::Shutdown);
    assert_eq!((world.starts("a"), world.starts("b"), world.starts("c")), (1, 1, 1));
    assert_eq!(world.since(0, &["stop"]), "c1 stop, b1 stop");
    world.settle();
}
