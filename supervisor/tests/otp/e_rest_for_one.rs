//! E: rest for one.

use ostler_supervisor::{ChildSpec, Exit, Restart, Strategy, SupervisorRef};

use crate::world::*;

async fn start(world: &World, restarts: u32, ids: &[&str]) -> SupervisorRef {
    let children = ids.iter().map(|id| world.probe(id)).collect();
    world.start(world.spec(Strategy::RestForOne, restarts, children)).await
}

/// `crashed` of the children in `ids` panics; `last` is the line that ends the restart.
async fn check(ids: &[&str], crashed: &str, last: &str, expected: &str) {
    let world = World::new();
    let supervisor = start(&world, 1, ids).await;
    let mark = world.mark();
    tell(&supervisor, crashed, Msg::Panic);
    world.until(last).await;
    assert_eq!(world.since(mark, &["stop", "up"]), expected);
    world.end(&supervisor).await;
}

#[tokio::test]
async fn e01_a_crash_restarts_the_child_and_those_after_it() {
    let ids = ["p", "q", "r", "s", "t"];
    check(&ids, "r", "t2 up", "t1 stop, s1 stop, r2 up, s2 up, t2 up").await;
}

#[tokio::test]
async fn e02_a_crash_of_the_last_child_restarts_it_alone() {
    check(&["a", "b", "c"], "c", "c2 up", "c2 up").await;
}

#[tokio::test]
async fn e03_a_crash_of_the_first_child_restarts_all() {
    check(&["a", "b", "c"], "a", "c2 up", "c1 stop, b1 stop, a2 up, b2 up, c2 up").await;
}

#[tokio::test]
async fn e04_a_failed_member_is_tried_again_from_its_own_place() {
    let world = World::new();
    let supervisor = start(&world, 2, &["a", "b"]).await;
    world.script("b", |script| script.fails_at = Some(2));
    let mark = world.mark();
    tell(&supervisor, "a", Msg::Panic);
    world.until("b3 up").await;
    assert_eq!(world.since(mark, &["init", "stop"]), "b1 stop, a2 init, b2 init, b3 init");
    // Both charges are used up.
    listing(&supervisor).await;
    tell(&supervisor, "b", Msg::Panic);
    assert_eq!(in_time(supervisor.wait_exit()).await, Exit::Shutdown);
    world.settle();
}

#[tokio::test]
async fn e05_a_member_that_never_starts_again_ends_the_supervisor() {
    let world = World::new();
    let supervisor = start(&world, 4, &["z", "a", "b"]).await;
    world.script("b", |script| script.init = Init::Fail);
    let mark = world.mark();
    tell(&supervisor, "a", Msg::Panic);
    assert_eq!(in_time(supervisor.wait_exit()).await, Exit::Shutdown);
    // Five charges are wanted, four fit.
    assert_eq!(world.starts("b"), 1 + 4);
    assert_eq!(world.since(mark, &["stop"]), "b1 stop, a2 stop, z1 stop");
    world.settle();
}

#[tokio::test]
async fn e06_a_temporary_bystander_is_stopped_and_forgotten() {
    let world = World::new();
    let children = vec![world.probe("a"), world.probe("b").restart(Restart::Temporary), world.probe("c")];
    let supervisor = world.start(world.spec(Strategy::RestForOne, 1, children)).await;
    tell(&supervisor, "a", Msg::Panic);
    world.until("c2 up").await;
    assert_eq!(listing(&supervisor).await, "a2 up, c2 up");
    assert_eq!(world.starts("b"), 1);
    world.end(&supervisor).await;
}

async fn system_tree(world: &World) -> SupervisorRef {
    let mut children: Vec<ChildSpec> =
        ["registry", "evaluator", "scheduler", "pipeline"].iter().map(|id| world.probe(id)).collect();
    children.push(ChildSpec::pool("agents", world.pool_spec(10)));
    let root = world.start(world.spec(Strategy::RestForOne, 10, children)).await;
    let pool = root.pool("agents").unwrap();
    for n in 0..10 {
        pool.start_child(world.probe(&format!("agent{n}-")).restart(Restart::Transient)).await.unwrap();
    }
    root
}

#[tokio::test]
async fn e07_a_crashed_scheduler_restarts_the_pipeline_and_the_agents_with_it() {
    let world = World::new();
    let root = system_tree(&world).await;
    let old = root.pool("agents").unwrap();
    let mark = world.mark();
    tell(&root, "scheduler", Msg::Panic);
    world.until("pipeline2 up").await;
    assert_eq!(listing(&root).await, "registry1 up, evaluator1 up, scheduler2 up, pipeline2 up, agents2 up");
    let log = world.since(mark, &["stop", "exit", "up"]);
    let order = ["agents1 exit shutdown", "pipeline1 stop", "scheduler2 up", "pipeline2 up"];
    let places: Vec<usize> = order.iter().map(|line| log.find(line).expect(line)).collect();
    assert!(places.is_sorted(), "{log}");
    let last_agent = (0..10).map(|n| log.find(&format!("agent{n}-1 stop")).unwrap()).max();
    assert!(last_agent < Some(places[0]), "{log}");
    // The new pool is empty, and the old handle reports its end.
    assert_eq!(root.pool("agents").unwrap().count_children().await, counts(0, 0, 0, 0));
    assert_eq!(old.wait_exit().await, Exit::Shutdown);
    world.end(&root).await;
}

#[tokio::test]
async fn e08_a_crashed_agent_restarts_alone() {
    let world = World::new();
    let root = system_tree(&world).await;
    let pool = root.pool("agents").unwrap();
    tell_pool(&pool, "agent3-", Msg::Panic);
    world.until("agent3-2 up").await;
    assert_eq!(listing(&root).await, "registry1 up, evaluator1 up, scheduler1 up, pipeline1 up, agents1 up");
    assert_eq!(world.lines().iter().filter(|line| line.ends_with("2 up")).count(), 1);
    world.end(&root).await;
}

#[tokio::test]
async fn e09_a_group_restart_revives_members_that_are_down() {
    let world = World::new();
    let supervisor = start(&world, 1, &["a", "b", "c"]).await;
    supervisor.terminate_child("b").await.unwrap();
    tell(&supervisor, "a", Msg::Panic);
    world.until("c2 up").await;
    assert_eq!(listing(&supervisor).await, "a2 up, b2 up, c2 up");
    world.end(&supervisor).await;
}

#[tokio::test]
async fn a_child_added_later_restarts_with_the_rest() {
    let world = World::new();
    let supervisor = world.start_probes(Strategy::RestForOne, 2, &["a", "b"]).await;
    supervisor.start_child(world.probe("late")).await.unwrap();
    let mark = world.mark();
    tell(&supervisor, "b", Msg::Panic);
    world.until("late2 up").await;
    assert_eq!(world.since(mark, &["stop", "up"]), "late1 stop, b2 up, late2 up");
    // A child restarted by hand keeps its place.
    supervisor.terminate_child("a").await.unwrap();
    supervisor.restart_child("a").await.unwrap();
    let mark = world.mark();
    tell(&supervisor, "a", Msg::Panic);
    world.until("late3 up").await;
    assert_eq!(world.since(mark, &["stop", "up"]), "late2 stop, b2 stop, a3 up, b3 up, late3 up");
    world.end(&supervisor).await;
}

#[tokio::test]
async fn a_child_deleted_and_added_again_is_the_last() {
    let world = World::new();
    let supervisor = world.start_probes(Strategy::RestForOne, 2, &["a", "b"]).await;
    supervisor.terminate_child("a").await.unwrap();
    supervisor.delete_child("a").await.unwrap();
    supervisor.start_child(world.probe("a")).await.unwrap();
    assert_eq!(listing(&supervisor).await, "b1 up, a1 up");
    tell(&supervisor, "a", Msg::Panic);
    world.until("a3 up").await;
    assert_eq!(listing(&supervisor).await, "b1 up, a2 up");
    let mark = world.mark();
    world.end(&supervisor).await;
    assert_eq!(world.since(mark, &["stop"]), "a3 stop, b1 stop");
}

#[tokio::test]
async fn later_members_stay_down_until_the_failed_one_is_up() {
    let world = World::new();
    let supervisor = world.start_probes(Strategy::RestForOne, 1000, &["a", "b", "c"]).await;
    world.script("b", |script| script.init = Init::SleepThenFail(ms(50)));
    tell(&supervisor, "a", Msg::Panic);
    world.until("b2 init").await;
    in_time(world.clock.sleeping(1)).await;
    let asked = tokio::spawn({
        let supervisor = supervisor.clone();
        async move {
            let listed = listing(&supervisor).await;
            (listed, supervisor.terminate_child("b").await)
        }
    });
    while !asked.is_finished() {
        drain().await;
        world.clock.advance(ms(50));
    }
    let (listed, terminated) = in_time(asked).await.unwrap();
    terminated.unwrap();
    assert_eq!(listed, "a2 up, b2 restarting, c1 down");
    // After the call-off the rest stays down, as in OTP.
    drain().await;
    let b = world.starts("b");
    assert_eq!(listing(&supervisor).await, format!("a2 up, b{b} down, c1 down"));
    world.script("b", |script| script.init = Init::Up);
    supervisor.restart_child("c").await.unwrap();
    supervisor.restart_child("b").await.unwrap();
    world.end(&supervisor).await;
}

#[tokio::test]
async fn nested_groups_restart_as_one_member() {
    let world = World::new();
    let inner = world.spec(Strategy::OneForAll, 0, vec![world.probe("x"), world.probe("y")]);
    let children = vec![world.probe("a"), ChildSpec::supervisor("mid", inner), world.probe("z")];
    let root = world.start(world.spec(Strategy::RestForOne, 1, children)).await;
    let mark = world.mark();
    tell(&root.supervisor("mid").unwrap(), "x", Msg::Panic);
    world.until("z2 up").await;
    assert_eq!(
        world.since(mark, &["escalated", "exit", "stop", "up"]),
        "x1 exit panicked: ouch, /mid/x escalated panicked: ouch, y1 stop, y1 exit shutdown, mid1 exit shutdown, \
         z1 stop, z1 exit shutdown, x2 up, y2 up, z2 up"
    );
    world.end(&root).await;
}
