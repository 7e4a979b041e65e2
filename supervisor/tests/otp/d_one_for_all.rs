//! D: one for all.

use ostler_supervisor::{Exit, Restart, Shutdown, Strategy};

use crate::world::*;

#[tokio::test]
async fn d01_one_crash_restarts_all_in_order() {
    let world = World::new();
    let children = ["a", "b", "c"].map(|id| world.probe(id)).to_vec();
    let supervisor = world.start(world.spec(Strategy::OneForAll, 1, children)).await;
    let mark = world.mark();
    tell(&supervisor, "b", Msg::Panic);
    world.until("c2 up").await;
    assert_eq!(
        world.since(mark, &["init", "exit", "dropped"]),
        "b1 dropped, b1 exit panicked: ouch, c1 dropped, c1 exit shutdown, a1 dropped, a1 exit shutdown, \
         a2 init, b2 init, c2 init"
    );
    world.end(&supervisor).await;
}

#[tokio::test]
async fn d02_a_group_restart_is_one_charge() {
    let world = World::new();
    let children = vec![world.probe("a"), world.probe("b")];
    let supervisor = world.start(world.spec(Strategy::OneForAll, 2, children)).await;
    tell(&supervisor, "a", Msg::Panic);
    world.until("b2 up").await;
    listing(&supervisor).await;
    tell(&supervisor, "b", Msg::Panic);
    world.until("b3 up").await;
    listing(&supervisor).await;
    tell(&supervisor, "a", Msg::Panic);
    assert_eq!(in_time(supervisor.wait_exit()).await, Exit::Shutdown);
    assert_eq!((world.starts("a"), world.starts("b")), (3, 3));
    world.settle();
}

#[tokio::test]
async fn d03_a_failed_group_restart_is_tried_again_as_a_whole() {
    for (restarts, survives) in [(2, true), (1, false)] {
        let world = World::new();
        let children = vec![world.probe("a"), world.probe("b")];
        let supervisor = world.start(world.spec(Strategy::OneForAll, restarts, children)).await;
        world.script("b", |script| script.fails_at = Some(2));
        let mark = world.mark();
        tell(&supervisor, "a", Msg::Panic);
        world.until("a2 exit shutdown").await;
        if survives {
            world.until("b3 up").await;
            assert_eq!(
                world.since(mark, &["init", "stop"]),
                "b1 stop, a2 init, b2 init, a2 stop, a3 init, b3 init"
            );
            world.end(&supervisor).await;
        } else {
            assert_eq!(in_time(supervisor.wait_exit()).await, Exit::Shutdown);
            assert_eq!((world.starts("a"), world.starts("b")), (2, 2));
            world.settle();
        }
    }
}

#[tokio::test]
async fn d04_a_temporary_bystander_is_stopped_and_forgotten() {
    let world = World::new();
    let children = vec![world.probe("a"), world.probe("t").restart(Restart::Temporary)];
    let supervisor = world.start(world.spec(Strategy::OneForAll, 1, children)).await;
    tell(&supervisor, "a", Msg::StopSelf);
    world.until("a2 up").await;
    assert!(world.has("t1 exit shutdown"));
    assert_eq!(listing(&supervisor).await, "a2 up");
    world.end(&supervisor).await;
}

#[tokio::test]
async fn d05_nothing_starts_before_a_slow_stop_hook_has_ended() {
    let world = World::new();
    world.script("b", |script| script.stop = Stop::Sleep(ms(200)));
    let children = vec![world.probe("a"), world.probe("b")];
    let supervisor = world.start(world.spec(Strategy::OneForAll, 1, children)).await;
    let mark = world.mark();
    tell(&supervisor, "a", Msg::Panic);
    // The stop hook and the shutdown limit.
    in_time(world.clock.sleeping(2)).await;
    world.clock.advance(ms(199));
    for _ in 0..50 {
        tokio::task::yield_now().await;
    }
    assert_eq!(world.since(mark, &["init"]), "");
    world.clock.advance(ms(1));
    world.until("b2 up").await;
    assert_eq!(
        world.since(mark, &["init", "stop", "dropped"]),
        "a1 dropped, b1 stop, b1 dropped, a2 init, b2 init"
    );
    world.script("b", |script| script.stop = Stop::Quick);
    world.end(&supervisor).await;
}

#[tokio::test]
async fn a_group_restart_calls_off_what_a_member_was_still_to_try_alone() {
    for strategy in [Strategy::OneForAll, Strategy::RestForOne] {
        let world = World::new();
        let children = vec![world.probe("a"), world.probe("b")];
        let supervisor = world.start(world.spec(strategy, 10, children)).await;
        // While `b` fails to restart, `a` crashes and fails to restart too.
        world.script("b", |script| script.init = Init::SleepThenFail(ms(50)));
        tell(&supervisor, "b", Msg::Panic);
        world.until("b2 init").await;
        in_time(world.clock.sleeping(1)).await;
        let start = world.starts("a");
        tell(&supervisor, "a", Msg::Panic);
        world.until(&format!("a{start} dropped")).await;
        world.script("a", |script| script.init = Init::SleepThenFail(ms(50)));
        world.clock.advance(ms(50));
        world.until(&format!("a{} init", start + 1)).await;
        in_time(world.clock.sleeping(1)).await;
        let terminating = tokio::spawn({
            let supervisor = supervisor.clone();
            async move { supervisor.terminate_child("a").await }
        });
        tokio::task::yield_now().await;
        world.clock.advance(ms(50));
        in_time(terminating).await.unwrap().unwrap();
        let listed = listing(&supervisor).await;
        assert_eq!(listed, format!("a{} down, b2 down", start + 1));
        world.script("b", |script| script.init = Init::Up);
        supervisor.restart_child("b").await.unwrap();
        world.end(&supervisor).await;
    }
}

#[tokio::test]
async fn a_group_restart_revives_what_ended_normally_or_was_terminated() {
    let world = World::new();
    let children = vec![world.probe("a").restart(Restart::Transient), world.probe("b"), world.probe("c")];
    let supervisor = world.start(world.spec(Strategy::OneForAll, 1, children)).await;
    tell(&supervisor, "a", Msg::StopSelf);
    world.until("a1 exit normal").await;
    supervisor.terminate_child("b").await.unwrap();
    tell(&supervisor, "c", Msg::Panic);
    world.until("c2 up").await;
    assert_eq!(listing(&supervisor).await, "a2 up, b2 up, c2 up");
    world.end(&supervisor).await;
}

#[tokio::test]
async fn crashes_at_once_in_a_group_are_one_restart() {
    let world = World::new();
    let supervisor = world.start_probes(Strategy::OneForAll, 1, &["a", "b", "c"]).await;
    for name in ["c", "a", "b"] {
        tell(&supervisor, name, Msg::Panic);
    }
    world.until("c2 up").await;
    drain().await;
    assert_eq!(listing(&supervisor).await, "a2 up, b2 up, c2 up");
    world.end(&supervisor).await;
}

#[tokio::test]
async fn a_member_that_crashes_while_its_group_stops_is_not_charged() {
    let world = World::new();
    world.script("c", |script| script.stop = Stop::Sleep(ms(100)));
    let supervisor = world.start_probes(Strategy::OneForAll, 1, &["a", "b", "c"]).await;
    tell(&supervisor, "b", Msg::Panic);
    in_time(world.clock.sleeping(2)).await;
    tell(&supervisor, "a", Msg::Panic);
    world.until("a1 dropped").await;
    world.clock.advance(ms(100));
    world.until("c2 up").await;
    drain().await;
    assert_eq!(listing(&supervisor).await, "a2 up, b2 up, c2 up");
    world.script("c", |script| script.stop = Stop::Quick);
    world.end(&supervisor).await;
}

#[tokio::test]
async fn a_brutal_member_is_killed_in_a_group_restart_and_a_hung_one_after_its_limit() {
    let world = World::new();
    let children = vec![
        world.probe("a"),
        world.probe("b").shutdown(Shutdown::Brutal),
        world.probe("c").shutdown(Shutdown::Timeout(ms(300))),
    ];
    let supervisor = world.start(world.spec(Strategy::OneForAll, 1, children)).await;
    tell(&supervisor, "c", Msg::Sleep(ms(1_000_000)));
    in_time(world.clock.sleeping(1)).await;
    let mark = world.mark();
    tell(&supervisor, "a", Msg::Panic);
    in_time(world.clock.sleeping(2)).await;
    world.clock.advance(ms(300));
    world.until("c2 up").await;
    assert_eq!(
        world.since(mark, &["stop", "exit", "up"]),
        "a1 exit panicked: ouch, c1 exit killed, b1 exit killed, a2 up, b2 up, c2 up"
    );
    world.end(&supervisor).await;
}
