//! B: restart types.

use ostler_supervisor::testing::cancel_child;
use ostler_supervisor::{ChildRef, ChildSpec, Exit, Restart, Strategy, SupervisorRef};
use ractor::{Actor, ActorProcessingErr, ActorRef, SupervisionEvent};

use crate::world::*;

async fn start_one(world: &World, restart: Restart) -> SupervisorRef {
    world.start(world.spec(Strategy::OneForOne, 10, vec![world.probe("a").restart(restart)])).await
}

/// Sends each message to the present `a`; asserts its exit and whether it was restarted.
async fn check(restart: Restart, steps: Vec<(Msg, &str, bool)>) {
    let world = World::new();
    let supervisor = start_one(&world, restart).await;
    for (message, exit, restarted) in steps {
        let start = world.starts("a");
        tell(&supervisor, "a", message);
        world.until(&format!("a{start} exit {exit}")).await;
        if restarted {
            world.until(&format!("a{} up", start + 1)).await;
            assert_eq!(listing(&supervisor).await, format!("a{} up", start + 1));
        } else if restart == Restart::Temporary {
            assert_eq!(supervisor.count_children().await, counts(0, 0, 0, 0));
            supervisor.start_child(world.probe("a").restart(restart)).await.unwrap();
        } else {
            assert_eq!(listing(&supervisor).await, format!("a{start} down"));
            assert_eq!(supervisor.count_children().await, counts(1, 0, 0, 1));
            assert_eq!(world.starts("a"), start);
            supervisor.restart_child("a").await.unwrap();
        }
    }
    world.end(&supervisor).await;
}

fn detail() -> Exit {
    Exit::ShutdownWith("enough".into())
}

#[tokio::test]
async fn b01_a_permanent_child_that_stops_itself_is_restarted() {
    check(
        Restart::Permanent,
        vec![(Msg::StopSelf, "normal", true), (Msg::Leave(Exit::Normal), "normal", true)],
    )
    .await;
}

#[tokio::test]
async fn b02_a_permanent_child_that_shuts_down_is_restarted() {
    check(
        Restart::Permanent,
        vec![
            (Msg::Leave(Exit::Shutdown), "shutdown", true),
            (Msg::Leave(detail()), "shutdown: enough", true),
        ],
    )
    .await;
}

#[tokio::test]
async fn b03_a_permanent_child_that_panics_is_restarted() {
    check(Restart::Permanent, vec![(Msg::Panic, "panicked: ouch", true)]).await;
}

#[tokio::test]
async fn b04_a_transient_child_that_ends_normally_stays_down() {
    check(
        Restart::Transient,
        vec![(Msg::StopSelf, "normal", false), (Msg::Leave(Exit::Normal), "normal", false)],
    )
    .await;
}

#[tokio::test]
async fn b05_a_transient_child_that_shuts_down_stays_down() {
    check(
        Restart::Transient,
        vec![
            (Msg::Leave(Exit::Shutdown), "shutdown", false),
            (Msg::Leave(detail()), "shutdown: enough", false),
        ],
    )
    .await;
}

#[tokio::test]
async fn b06_a_transient_child_that_fails_is_restarted() {
    check(
        Restart::Transient,
        vec![(Msg::Fail, "failed: broken", true), (Msg::Panic, "panicked: ouch", true)],
    )
    .await;
}

#[tokio::test]
async fn b07_a_transient_child_killed_from_outside_is_restarted() {
    let world = World::new();
    let supervisor = start_one(&world, Restart::Transient).await;
    supervisor.child::<Probe>("a").unwrap().kill();
    world.until("a1 exit killed").await;
    world.until("a2 up").await;
    assert!(!world.has("a1 stop"));
    // The text "killed" alone is no kill.
    supervisor.child::<Probe>("a").unwrap().stop(Some("killed".into()));
    world.until("a2 exit normal").await;
    assert_eq!(listing(&supervisor).await, "a2 down");
    world.end(&supervisor).await;
}

#[tokio::test]
async fn b08_a_temporary_child_that_panics_is_forgotten() {
    check(Restart::Temporary, vec![(Msg::Panic, "panicked: ouch", false)]).await;
}

#[tokio::test]
async fn b09_a_temporary_child_that_ends_normally_is_forgotten() {
    check(Restart::Temporary, vec![(Msg::StopSelf, "normal", false)]).await;
}

#[tokio::test]
async fn b10_a_panic_right_after_the_start_is_a_crash_and_charges_once() {
    let world = World::new();
    world.script("a", |script| script.post_start_panics_at = Some(1));
    let probe = world.probe("a").restart(Restart::Transient);
    let supervisor = world.start(world.spec(Strategy::OneForOne, 1, vec![probe])).await;
    world.until("a1 exit panicked: just after the start").await;
    world.until("a2 up").await;
    world.end(&supervisor).await;
}

#[tokio::test]
async fn b11_a_transient_child_whose_task_is_dropped_is_restarted() {
    let world = World::new();
    let supervisor = start_one(&world, Restart::Transient).await;
    assert!(cancel_child(&supervisor, "a").await);
    world.until("a1 exit cancelled").await;
    world.until("a2 up").await;
    assert!(!cancel_child(&supervisor, "nobody").await);
    // Only workers have a task to drop.
    supervisor.start_child(ChildSpec::pool("pool", world.pool_spec(1))).await.unwrap();
    assert!(!cancel_child(&supervisor, "pool").await);
    world.end(&supervisor).await;
}

#[tokio::test]
async fn b12_a_panic_in_the_stop_hook_is_the_exit() {
    let world = World::new();
    world.script("a", |script| script.stop = Stop::Panic);
    let supervisor = start_one(&world, Restart::Transient).await;
    tell(&supervisor, "a", Msg::StopSelf);
    world.until("a1 exit panicked: no stop").await;
    world.until("a2 up").await;
    world.script("a", |script| script.stop = Stop::Quick);
    world.end(&supervisor).await;
}

#[tokio::test]
async fn a_branch_stopped_or_killed_through_its_own_handle_ends_as_any_child() {
    for (restart, kill, after) in [
        (Restart::Permanent, false, "mid2 up"),
        (Restart::Permanent, true, "mid2 up"),
        (Restart::Transient, false, "mid1 down"),
        (Restart::Transient, true, "mid2 up"),
        (Restart::Temporary, false, ""),
        (Restart::Temporary, true, ""),
    ] {
        for pool in [false, true] {
            let world = World::new();
            let mid = if pool {
                ChildSpec::pool("mid", world.pool_spec(1))
            } else {
                ChildSpec::supervisor("mid", world.spec(Strategy::OneForOne, 1, vec![world.probe("leaf")]))
            };
            let root = world.start(world.spec(Strategy::OneForOne, 1, vec![mid.restart(restart)])).await;
            let exit = in_time(async {
                match (root.child_ref("mid").unwrap(), kill) {
                    (ChildRef::Supervisor(mid), false) => mid.stop().await,
                    (ChildRef::Supervisor(mid), true) => mid.kill().await,
                    (ChildRef::Pool(mid), false) => mid.stop().await,
                    (ChildRef::Pool(mid), true) => mid.kill().await,
                    (ChildRef::Actor(_), _) => unreachable!("it is a branch"),
                }
            })
            .await;
            assert_eq!(exit, if kill { Exit::Killed } else { Exit::Shutdown });
            world.until(&format!("mid1 exit {exit}")).await;
            assert_eq!(listing(&root).await, after, "{restart:?} {kill} {pool}");
            world.end(&root).await;
        }
    }
}

#[tokio::test]
async fn a_temporary_crash_triggers_no_group_restart_and_no_charge() {
    for strategy in [Strategy::OneForOne, Strategy::OneForAll, Strategy::RestForOne] {
        let world = World::new();
        let children = vec![
            world.probe("t").restart(Restart::Temporary),
            world.probe("a"),
            world.probe("n").restart(Restart::Transient),
        ];
        let supervisor = world.start(world.spec(strategy, 0, children)).await;
        tell(&supervisor, "t", Msg::Panic);
        world.until("t1 exit panicked: ouch").await;
        tell(&supervisor, "n", Msg::StopSelf);
        world.until("n1 exit normal").await;
        assert_eq!(listing(&supervisor).await, "a1 up, n1 down");
        world.end(&supervisor).await;
    }
}

#[tokio::test]
async fn exits_an_actor_names_itself_count_as_named() {
    let world = World::new();
    let supervisor = world
        .start(world.spec(Strategy::OneForOne, 10, vec![world.probe("a").restart(Restart::Transient)]))
        .await;
    let abnormal = [
        Exit::Killed,
        Exit::Cancelled,
        Exit::Failed("x".into()),
        Exit::Panicked("x".into()),
        Exit::StartFailed("x".into()),
    ];
    for (n, exit) in abnormal.into_iter().enumerate() {
        tell(&supervisor, "a", Msg::Leave(exit.clone()));
        world.until(&format!("a{} exit {exit}", n + 1)).await;
        world.until(&format!("a{} up", n + 2)).await;
        assert_eq!(supervisor.which_children().await[0].last_exit, Some(exit));
    }
    world.end(&supervisor).await;
}

/// Has a linked actor and passes on its failure.
struct Parent;

/// Panics.
struct Linked;

impl Actor for Linked {
    type Msg = ();
    type State = ();
    type Arguments = ();

    async fn pre_start(&self, _: ActorRef<()>, (): ()) -> Result<(), ActorProcessingErr> {
        Ok(())
    }

    async fn handle(&self, _: ActorRef<()>, (): (), (): &mut ()) -> Result<(), ActorProcessingErr> {
        panic!("linked");
    }
}

impl Actor for Parent {
    type Msg = ();
    type State = ActorRef<()>;
    type Arguments = ();

    async fn pre_start(&self, myself: ActorRef<()>, (): ()) -> Result<ActorRef<()>, ActorProcessingErr> {
        Ok(Linked::spawn_linked(None, Linked, (), myself.get_cell()).await?.0)
    }

    async fn handle(
        &self,
        _: ActorRef<()>,
        (): (),
        linked: &mut ActorRef<()>,
    ) -> Result<(), ActorProcessingErr> {
        Ok(linked.send_message(())?)
    }

    async fn handle_supervisor_evt(
        &self,
        _: ActorRef<()>,
        event: SupervisionEvent,
        _: &mut ActorRef<()>,
    ) -> Result<(), ActorProcessingErr> {
        match event {
            SupervisionEvent::ActorFailed(_, error) => Err(error),
            _ => Ok(()),
        }
    }
}

#[tokio::test]
async fn a_failure_of_a_linked_actor_that_is_passed_on_restarts_a_transient_child() {
    let world = World::new();
    let parent = ChildSpec::actor("parent", || Parent, || ()).restart(Restart::Transient);
    let root = world.start(world.spec(Strategy::OneForOne, 1, vec![parent])).await;
    root.child::<Parent>("parent").unwrap().send_message(()).unwrap();
    world.until("parent1 exit failed: linked").await;
    assert_eq!(listing(&root).await, "parent2 up");
    world.end(&root).await;
}
