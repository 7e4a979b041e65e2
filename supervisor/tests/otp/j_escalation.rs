//! J: auto-shutdown and escalation.

use ostler_supervisor::{
    AutoShutdown, Cause, ChildSpec, Exit, Restart, Strategy, SupervisorRef, SupervisorSpec,
};

use crate::world::*;

/// A supervisor with this rule and three transient children; `s` and `t` are significant.
async fn start(world: &World, auto_shutdown: AutoShutdown) -> SupervisorRef {
    let child = |name: &str| world.probe(name).restart(Restart::Transient);
    let children = vec![child("s").significant(true), child("t").significant(true), child("n")];
    let mut spec = world.spec(Strategy::OneForOne, 10, children);
    spec.auto_shutdown = auto_shutdown;
    world.start(spec).await
}

#[tokio::test]
async fn j01_the_first_significant_end_ends_an_any_significant_supervisor() {
    let world = World::new();
    let supervisor = start(&world, AutoShutdown::AnySignificant).await;
    tell(&supervisor, "s", Msg::StopSelf);
    assert_eq!(in_time(supervisor.wait_exit()).await, Exit::Shutdown);
    assert!(world.has("n1 exit shutdown"));
    assert!(supervisor.causes().is_empty());
    world.settle();
}

#[tokio::test]
async fn j02_a_restarted_significant_child_ends_nothing() {
    let world = World::new();
    let supervisor = start(&world, AutoShutdown::AnySignificant).await;
    tell(&supervisor, "s", Msg::Panic);
    world.until("s2 up").await;
    assert_eq!(listing(&supervisor).await, "s2 up, t1 up, n1 up");
    // Neither does one terminated by hand.
    supervisor.terminate_child("s").await.unwrap();
    assert_eq!(listing(&supervisor).await, "s2 down, t1 up, n1 up");
    world.end(&supervisor).await;
}

#[tokio::test]
async fn j03_the_last_significant_end_ends_an_all_significant_supervisor() {
    let world = World::new();
    let supervisor = start(&world, AutoShutdown::AllSignificant).await;
    tell(&supervisor, "s", Msg::StopSelf);
    world.until("s1 exit normal").await;
    assert_eq!(listing(&supervisor).await, "s1 down, t1 up, n1 up");
    tell(&supervisor, "t", Msg::Leave(Exit::Shutdown));
    assert_eq!(in_time(supervisor.wait_exit()).await, Exit::Shutdown);
    world.settle();
}

#[tokio::test]
async fn j03_a_significant_temporary_child_counts_however_it_ends() {
    let world = World::new();
    let probe = world.probe("s").restart(Restart::Temporary).significant(true);
    let mut spec = world.spec(Strategy::OneForOne, 10, vec![probe]);
    spec.auto_shutdown = AutoShutdown::AllSignificant;
    let supervisor = world.start(spec).await;
    tell(&supervisor, "s", Msg::Panic);
    assert_eq!(in_time(supervisor.wait_exit()).await, Exit::Shutdown);
    world.settle();
}

#[tokio::test]
async fn j04_the_end_of_an_ordinary_child_ends_nothing() {
    let world = World::new();
    let supervisor = start(&world, AutoShutdown::AnySignificant).await;
    tell(&supervisor, "n", Msg::StopSelf);
    world.until("n1 exit normal").await;
    assert_eq!(listing(&supervisor).await, "s1 up, t1 up, n1 down");
    world.end(&supervisor).await;
}

async fn two_levels(world: &World, root_restarts: u32, mid: Restart) -> SupervisorRef {
    let inner = world.spec(Strategy::OneForOne, 0, vec![world.probe("leaf")]);
    let mid = ChildSpec::supervisor("mid", inner).restart(mid);
    let root = world.start(world.spec(Strategy::OneForOne, root_restarts, vec![mid])).await;
    root.supervisor("mid").unwrap().start_child(world.probe("extra")).await.unwrap();
    root
}

#[tokio::test]
async fn j05_a_permanent_branch_that_gives_up_is_restarted_with_its_own_children() {
    let world = World::new();
    let root = two_levels(&world, 1, Restart::Permanent).await;
    tell(&root.supervisor("mid").unwrap(), "leaf", Msg::Panic);
    world.until("mid1 exit shutdown").await;
    assert_eq!(listing(&root).await, "mid2 up");
    assert_eq!(listing(&root.supervisor("mid").unwrap()).await, "leaf1 up");
    assert_eq!((world.starts("leaf"), world.starts("extra")), (2, 1));
    // The window of one restart is used up.
    tell(&root.supervisor("mid").unwrap(), "leaf", Msg::Panic);
    assert_eq!(in_time(root.wait_exit()).await, Exit::Shutdown);
    world.settle();
}

#[tokio::test]
async fn j05_a_transient_branch_that_gives_up_stays_down() {
    let world = World::new();
    let root = two_levels(&world, 1, Restart::Transient).await;
    tell(&root.supervisor("mid").unwrap(), "leaf", Msg::Panic);
    world.until("mid1 exit shutdown").await;
    assert_eq!(listing(&root).await, "mid1 down");
    world.end(&root).await;
}

#[tokio::test]
async fn j06_the_root_tells_the_chain_of_failures() {
    let world = World::new();
    let root = two_levels(&world, 0, Restart::Permanent).await;
    tell(&root.supervisor("mid").unwrap(), "leaf", Msg::Panic);
    assert_eq!(in_time(root.wait_exit()).await, Exit::Shutdown);
    assert_eq!(
        root.causes(),
        [
            Cause { id: id("leaf"), exit: Exit::Panicked("ouch".into()) },
            Cause { id: id("mid"), exit: Exit::Shutdown },
        ]
    );
    assert_eq!(world.since(0, &["escalated"]), "/mid/leaf escalated panicked: ouch, /mid escalated shutdown");
    world.settle();
}

/// The branch `mid` above the branch `inner` above `leaf`, whose second start fails.
fn three_levels(world: &World) -> ChildSpec {
    world.script("leaf", |script| script.fails_at = Some(2));
    let inner = world.spec(Strategy::OneForOne, 0, vec![world.probe("leaf")]);
    let inner = ChildSpec::supervisor("inner", inner);
    ChildSpec::supervisor("mid", world.spec(Strategy::OneForOne, 0, vec![inner]))
}

/// The causes of the end of the supervisor that could not start `mid` again.
fn failed_start() -> [Cause; 3] {
    let failed = |name: &str, text: &str| Cause { id: id(name), exit: Exit::StartFailed(text.into()) };
    [
        failed("leaf", "no luck"),
        failed("inner", "child leaf did not start: start failed: no luck"),
        failed(
            "mid",
            "child inner did not start: start failed: child leaf did not start: start failed: no luck",
        ),
    ]
}

#[tokio::test]
async fn j06_the_root_tells_the_chain_below_a_branch_that_does_not_start() {
    let world = World::new();
    let root = world.start(world.spec(Strategy::OneForOne, 1, vec![three_levels(&world)])).await;
    tell(&root.supervisor("mid").unwrap().supervisor("inner").unwrap(), "leaf", Msg::Panic);
    assert_eq!(in_time(root.wait_exit()).await, Exit::Shutdown);
    assert_eq!(root.causes(), failed_start());
    world.settle();
}

#[tokio::test]
async fn j06_a_pool_tells_the_chain_below_a_branch_that_does_not_start() {
    let world = World::new();
    let pool = world.start_pool(world.pool_spec(1)).await;
    let mid = pool.start_child(three_levels(&world)).await.unwrap().supervisor().unwrap();
    tell(&mid.supervisor("inner").unwrap(), "leaf", Msg::Panic);
    assert_eq!(in_time(pool.wait_exit()).await, Exit::Shutdown);
    assert_eq!(pool.causes(), failed_start());
    world.settle();
}

fn significant(world: &World, id: &str, restart: Restart) -> ChildSpec {
    world.probe(id).restart(restart).significant(true)
}

async fn start_with(
    world: &World,
    auto_shutdown: AutoShutdown,
    strategy: Strategy,
    children: Vec<ChildSpec>,
) -> SupervisorRef {
    world.start(SupervisorSpec { auto_shutdown, ..world.spec(strategy, 100, children) }).await
}

#[tokio::test]
async fn a_significant_bystander_stopped_with_its_group_ends_nothing() {
    for rule in [AutoShutdown::AnySignificant, AutoShutdown::AllSignificant] {
        let world = World::new();
        let children = vec![
            world.probe("a"),
            significant(&world, "t", Restart::Temporary),
            significant(&world, "s", Restart::Transient),
        ];
        let supervisor = start_with(&world, rule, Strategy::OneForAll, children).await;
        tell(&supervisor, "a", Msg::Panic);
        world.until("s2 up").await;
        assert_eq!(listing(&supervisor).await, "a2 up, s2 up");
        tell(&supervisor, "s", Msg::StopSelf);
        assert_eq!(in_time(supervisor.wait_exit()).await, Exit::Shutdown);
        world.settle();
    }
}

#[tokio::test]
async fn all_significant_counts_only_those_that_are_not_down() {
    let world = World::new();
    world.script("shy", |script| script.init = Init::Ignore);
    let children = vec![
        significant(&world, "shy", Restart::Transient),
        significant(&world, "gone", Restart::Transient),
        significant(&world, "s", Restart::Transient),
        world.probe("n"),
    ];
    let supervisor = start_with(&world, AutoShutdown::AllSignificant, Strategy::OneForOne, children).await;
    supervisor.terminate_child("gone").await.unwrap();
    assert_eq!(listing(&supervisor).await, "shy1 down, gone1 down, s1 up, n1 up");
    tell(&supervisor, "s", Msg::StopSelf);
    assert_eq!(in_time(supervisor.wait_exit()).await, Exit::Shutdown);
    world.settle();
}

#[tokio::test]
async fn a_significant_child_that_is_restarting_still_counts() {
    let world = World::new();
    let children =
        vec![significant(&world, "s", Restart::Transient), significant(&world, "t", Restart::Temporary)];
    let supervisor = start_with(&world, AutoShutdown::AllSignificant, Strategy::OneForOne, children).await;
    world.script("s", |script| script.init = Init::SleepThenFail(ms(50)));
    tell(&supervisor, "s", Msg::Panic);
    world.until("s2 init").await;
    in_time(world.clock.sleeping(1)).await;
    tell(&supervisor, "t", Msg::StopSelf);
    world.until("t1 dropped").await;
    world.script("s", |script| script.init = Init::Up);
    world.clock.advance(ms(50));
    world.until("s3 up").await;
    assert_eq!(listing(&supervisor).await, "s3 up");
    tell(&supervisor, "s", Msg::Leave(Exit::ShutdownWith("done".into())));
    assert_eq!(in_time(supervisor.wait_exit()).await, Exit::Shutdown);
    world.settle();
}

#[tokio::test]
async fn the_last_significant_child_terminated_by_hand_ends_nothing() {
    let world = World::new();
    let children =
        vec![significant(&world, "s", Restart::Transient), significant(&world, "t", Restart::Temporary)];
    let supervisor = start_with(&world, AutoShutdown::AllSignificant, Strategy::OneForOne, children).await;
    tell(&supervisor, "t", Msg::Panic);
    world.until("t1 exit panicked: ouch").await;
    supervisor.terminate_child("s").await.unwrap();
    assert_eq!(listing(&supervisor).await, "s1 down");
    // A child added later counts.
    supervisor.start_child(significant(&world, "late", Restart::Temporary)).await.unwrap();
    tell(&supervisor, "late", Msg::StopSelf);
    assert_eq!(in_time(supervisor.wait_exit()).await, Exit::Shutdown);
    world.settle();
}

#[tokio::test]
async fn auto_shutdown_climbs_through_significant_branches() {
    for crash in [false, true] {
        let world = World::new();
        let mut inner = world.spec(
            Strategy::OneForOne,
            0,
            vec![world.probe("n"), significant(&world, "s", Restart::Transient)],
        );
        inner.auto_shutdown = AutoShutdown::AnySignificant;
        let mid = ChildSpec::supervisor("mid", inner).restart(Restart::Transient).significant(true);
        let root = start_with(
            &world,
            AutoShutdown::AnySignificant,
            Strategy::OneForOne,
            vec![world.probe("a"), mid],
        )
        .await;
        let message = if crash { Msg::Panic } else { Msg::StopSelf };
        tell(&root.supervisor("mid").unwrap(), "s", message);
        assert_eq!(in_time(root.wait_exit()).await, Exit::Shutdown);
        let stopped = if crash { "n1 stop, a1 stop" } else { "s1 stop, n1 stop, a1 stop" };
        assert_eq!(world.since(0, &["stop"]), stopped);
        world.settle();
    }
}
