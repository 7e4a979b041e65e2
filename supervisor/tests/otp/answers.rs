//! Answers to callers that see a child's end before the supervisor does, on any thread.

use std::sync::{Arc, OnceLock};

use ostler_supervisor::{ChildSpec, PoolSpec, Restart, Strategy, SupervisorRef};
use ractor::{Actor, ActorProcessingErr, ActorRef, SupervisionEvent};

use crate::world::*;

/// Rounds per case: a wrong answer depends on timing.
const ROUNDS: u32 = 300;

#[derive(Debug, Clone, Copy)]
enum Seen {
    Killed,
    Stopped,
    Dropped,
}

const SEEN: [Seen; 3] = [Seen::Killed, Seen::Stopped, Seen::Dropped];

impl Seen {
    /// Ends `child` and waits for the end; `name` is the name of the probe's state.
    async fn end(self, world: &World, child: ActorRef<Msg>, name: &str) {
        match self {
            Seen::Killed => child.kill_and_wait(None).await.unwrap(),
            Seen::Stopped => child.stop_and_wait(None, None).await.unwrap(),
            Seen::Dropped => {
                child.send_message(Msg::StopSelf).unwrap();
                world.until(&format!("{name} dropped")).await;
            }
        }
    }
}

/// Supervisors of a child `a` with an observed end: one for each round and way of observing.
async fn after_the_end<F>(restart: Restart, check: impl Fn(World, SupervisorRef) -> F)
where
    F: Future<Output = ()>,
{
    for seen in SEEN {
        for _ in 0..ROUNDS {
            let world = World::new();
            let a = world.probe("a").restart(restart);
            let supervisor = world.start(world.spec(Strategy::OneForOne, 1, vec![a])).await;
            seen.end(&world, supervisor.child::<Probe>("a").unwrap(), "a1").await;
            check(world.clone(), supervisor.clone()).await;
            world.end(&supervisor).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_temporary_child_that_was_seen_to_end_is_not_known_any_more() {
    after_the_end(Restart::Temporary, |world, supervisor| async move {
        assert_eq!(supervisor.count_children().await, counts(0, 0, 0, 0), "{:?}", world.lines());
    })
    .await;
    after_the_end(Restart::Temporary, |world, supervisor| async move {
        supervisor.start_child(world.probe("a")).await.unwrap();
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_permanent_child_that_was_seen_to_end_is_up_again() {
    after_the_end(Restart::Permanent, |_, supervisor| async move {
        assert_eq!(listing(&supervisor).await, "a2 up");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_child_that_was_seen_to_end_and_stays_down_can_be_restarted() {
    for _ in 0..ROUNDS {
        let world = World::new();
        let a = world.probe("a").restart(Restart::Transient);
        let supervisor = world.start(world.spec(Strategy::OneForOne, 0, vec![a])).await;
        Seen::Stopped.end(&world, supervisor.child::<Probe>("a").unwrap(), "a1").await;
        supervisor.restart_child("a").await.unwrap();
        world.end(&supervisor).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn the_place_in_a_pool_of_a_child_that_was_seen_to_end_is_free() {
    for seen in SEEN {
        for id in ["a", "b"] {
            for _ in 0..ROUNDS {
                let world = World::new();
                let pool = world.start_pool(PoolSpec { max_children: 1, ..world.pool_spec(0) }).await;
                let temporary = |id| world.probe(id).restart(Restart::Temporary);
                pool.start_child(temporary("a")).await.unwrap();
                seen.end(&world, pool.child::<Probe>("a").unwrap(), "a1").await;
                pool.start_child(temporary(id)).await.unwrap();
                seen.end(&world, pool.child::<Probe>(id).unwrap(), if id == "a" { "a2" } else { "b1" }).await;
                assert_eq!(pool.count_children().await, counts(0, 0, 0, 0));
                world.end_pool(&pool).await;
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_branch_that_was_seen_to_end_is_up_again() {
    for _ in 0..ROUNDS {
        let world = World::new();
        let mid = ChildSpec::supervisor("mid", world.spec(Strategy::OneForOne, 0, vec![]));
        let root = world.start(world.spec(Strategy::OneForOne, 1, vec![mid])).await;
        in_time(root.supervisor("mid").unwrap().stop()).await;
        assert_eq!(listing(&root).await, "mid2 up");
        world.end(&root).await;
    }
}

/// Keeps the event of an actor's end while asking for a restart of that actor.
struct Keeper;

type Root = Arc<OnceLock<SupervisorRef>>;

impl Actor for Keeper {
    type Msg = ();
    type State = (World, Root);
    type Arguments = (World, Root);

    async fn pre_start(
        &self,
        _: ActorRef<()>,
        given: Self::Arguments,
    ) -> Result<Self::State, ActorProcessingErr> {
        Ok(given)
    }

    async fn handle_supervisor_evt(
        &self,
        _: ActorRef<()>,
        event: SupervisionEvent,
        (world, root): &mut Self::State,
    ) -> Result<(), ActorProcessingErr> {
        if let SupervisionEvent::ActorTerminated(_, Some(_state), _) = event {
            let answer = root.get().unwrap().restart_child("a").await.map(drop);
            world.note(&format!("answer {answer:?}"));
        }
        Ok(())
    }
}

#[tokio::test]
async fn an_event_that_a_linked_actor_keeps_holds_up_no_call() {
    let world = World::new();
    let root = Root::default();
    let given = (world.clone(), root.clone());
    let keeper = ChildSpec::actor("keeper", || Keeper, move || given.clone());
    let a = world.probe("a").restart(Restart::Transient);
    let supervisor = world.start(world.spec(Strategy::OneForOne, 0, vec![keeper, a])).await;
    let _ = root.set(supervisor.clone());
    let child = supervisor.child::<Probe>("a").unwrap();
    child.link(supervisor.child::<Keeper>("keeper").unwrap().get_cell());
    child.stop(None);
    world.until("answer Ok(())").await;
    assert_eq!(listing(&supervisor).await, "keeper1 up, a2 up");
    world.end(&supervisor).await;
}
