//! C: one for one.

use ostler_supervisor::{
    DeleteChildError, Exit, Intensity, PoolSpec, RestartChildError, StartChildError, Strategy, SupervisorRef,
};

use crate::world::*;

#[tokio::test]
async fn c01_only_the_crashed_child_restarts() {
    let world = World::new();
    let children = vec![world.probe("a"), world.probe("b")];
    let supervisor = world.start(world.spec(Strategy::OneForOne, 1, children)).await;
    let before = supervisor.child::<Probe>("b").unwrap();
    tell(&supervisor, "a", Msg::Panic);
    world.until("a2 up").await;
    assert_eq!(listing(&supervisor).await, "a2 up, b1 up");
    assert_eq!(supervisor.child::<Probe>("b").unwrap(), before);
    assert_eq!(supervisor.count_children().await, counts(2, 2, 0, 2));
    world.end(&supervisor).await;
}

#[tokio::test]
async fn c02_the_window_is_shared_by_all_children() {
    let world = World::new();
    let children = vec![world.probe("a"), world.probe("b")];
    let supervisor = world.start(world.spec(Strategy::OneForOne, 2, children)).await;
    tell(&supervisor, "a", Msg::Panic);
    world.until("a2 up").await;
    tell(&supervisor, "b", Msg::Panic);
    world.until("b2 up").await;
    listing(&supervisor).await;
    tell(&supervisor, "a", Msg::Panic);
    assert_eq!(in_time(supervisor.wait_exit()).await, Exit::Shutdown);
    assert!(world.has("b2 exit shutdown"));
    world.settle();
}

#[tokio::test]
async fn c03_a_child_that_cannot_restart_uses_up_the_window() {
    let world = World::new();
    let children = vec![world.probe("b"), world.probe("a")];
    let supervisor = world.start(world.spec(Strategy::OneForOne, 4, children)).await;
    world.script("a", |script| script.init = Init::Fail);
    tell(&supervisor, "a", Msg::Panic);
    assert_eq!(in_time(supervisor.wait_exit()).await, Exit::Shutdown);
    assert_eq!(world.starts("a"), 1 + 4);
    assert!(world.has("b1 exit shutdown"));
    world.settle();
}

/// `a` is in the middle of a restart that fails after 50 ms; `b` is up.
async fn hanging_restart(world: &World) -> SupervisorRef {
    let children = vec![world.probe("a"), world.probe("b")];
    let supervisor = world.start(world.spec(Strategy::OneForOne, 1000, children)).await;
    world.script("a", |script| script.init = Init::SleepThenFail(ms(50)));
    tell(&supervisor, "a", Msg::Panic);
    world.until("a2 init").await;
    in_time(world.clock.sleeping(1)).await;
    supervisor
}

/// Lets restart attempts pass until `question` is answered; returns the answer.
async fn between_attempts<T: Send + 'static>(
    world: &World,
    question: impl Future<Output = T> + Send + 'static,
) -> T {
    let before = world.starts("a");
    let mut answer = tokio::spawn(question);
    // The question is queued once its task reached its first wait.
    tokio::task::yield_now().await;
    let answer = loop {
        world.clock.advance(ms(50));
        tokio::select! {
            biased;
            answer = &mut answer => break answer.unwrap(),
            () = world.clock.sleeping(1) => {}
        }
    };
    assert!(world.starts("a") <= before + 2, "answered after more than two attempts");
    answer
}

#[tokio::test]
async fn c04_questions_are_answered_between_restart_attempts() {
    let world = World::new();
    let supervisor = hanging_restart(&world).await;
    let asked = supervisor.clone();
    let listed = between_attempts(&world, async move { listing(&asked).await }).await;
    assert_eq!(listed, "a2 restarting, b1 up");

    let (asked, new) = (supervisor.clone(), world.probe("new"));
    in_time(between_attempts(&world, async move { asked.start_child(new).await.unwrap() })).await;
    let asked = supervisor.clone();
    let counted = between_attempts(&world, async move { asked.count_children().await }).await;
    assert_eq!(counted, counts(3, 2, 0, 3));

    world.script("a", |script| script.init = Init::Up);
    world.clock.advance(ms(50));
    world.until(&format!("a{} up", world.starts("a") + 1)).await;
    world.end(&supervisor).await;
}

#[tokio::test]
async fn c05_a_restarting_child_cannot_be_started_restarted_or_deleted() {
    let world = World::new();
    let supervisor = hanging_restart(&world).await;
    let (asked, again) = (supervisor.clone(), world.probe("a"));
    let started = between_attempts(&world, async move { asked.start_child(again).await }).await;
    assert!(matches!(started, Err(StartChildError::AlreadyPresent { .. })), "{started:?}");
    let asked = supervisor.clone();
    let restarted = between_attempts(&world, async move { asked.restart_child("a").await }).await;
    assert!(matches!(restarted, Err(RestartChildError::Restarting { .. })), "{restarted:?}");
    let asked = supervisor.clone();
    let deleted = between_attempts(&world, async move { asked.delete_child("a").await }).await;
    assert_eq!(deleted, Err(DeleteChildError::Restarting { id: id("a") }));
    // Terminating the child calls the restart off.
    let asked = supervisor.clone();
    between_attempts(&world, async move { asked.terminate_child("a").await }).await.unwrap();
    let starts = world.starts("a");
    assert_eq!(listing(&supervisor).await, format!("a{starts} down, b1 up"));
    assert_eq!(world.starts("a"), starts);
    world.end(&supervisor).await;
}

#[tokio::test]
async fn c06_a_stop_ends_a_restart_loop_within_one_attempt() {
    let world = World::new();
    let supervisor = hanging_restart(&world).await;
    let before = world.starts("a");
    let asked = supervisor.clone();
    let exit = between_attempts(&world, async move { asked.stop().await }).await;
    assert_eq!(exit, Exit::Shutdown);
    assert_eq!(world.starts("a"), before);
    world.settle();
}

#[tokio::test]
async fn a_restart_that_declines_leaves_the_child_down_and_the_group_goes_on() {
    for strategy in [Strategy::OneForOne, Strategy::OneForAll, Strategy::RestForOne] {
        let world = World::new();
        let supervisor = world.start_probes(strategy, 1, &["a", "b", "c"]).await;
        world.script("b", |script| script.init = Init::Ignore);
        tell(&supervisor, "b", Msg::Panic);
        world.until("b2 ignored").await;
        let expected = match strategy {
            Strategy::OneForOne => "a1 up, b2 down, c1 up",
            Strategy::OneForAll => "a2 up, b2 down, c2 up",
            Strategy::RestForOne => "a1 up, b2 down, c2 up",
        };
        assert_eq!(listing(&supervisor).await, expected);
        assert_eq!(supervisor.count_children().await, counts(3, 2, 0, 3));
        drain().await;
        assert_eq!(listing(&supervisor).await, expected);
        world.end(&supervisor).await;
    }
}

#[tokio::test]
async fn a_hot_restart_loop_does_not_starve_callers_or_a_stop() {
    let world = World::new();
    let supervisor = world.start_probes(Strategy::OneForOne, u32::MAX, &["a", "b"]).await;
    let pool = world.start_pool(PoolSpec { intensity: Intensity::UNLIMITED, ..world.pool_spec(0) }).await;
    pool.start_child(world.probe("c")).await.unwrap();
    for name in ["a", "c"] {
        world.script(name, |script| script.init = Init::Fail);
    }
    tell(&supervisor, "a", Msg::Panic);
    tell_pool(&pool, "c", Msg::Panic);
    world.until("a10 not-started start failed: no luck").await;
    world.until("c10 not-started start failed: no luck").await;
    assert_eq!(in_time(supervisor.count_children()).await, counts(2, 1, 0, 2));
    assert_eq!(in_time(pool.count_children()).await, counts(1, 0, 0, 1));
    in_time(supervisor.start_child(world.probe("d"))).await.unwrap();
    in_time(pool.start_child(world.probe("e"))).await.unwrap();
    in_time(pool.stop()).await;
    world.end(&supervisor).await;
}
