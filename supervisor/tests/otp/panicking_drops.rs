//! Values that panic in their drop, captured by a spec or used as a panic payload: the supervisor continues.

use futures::FutureExt;
use ostler_supervisor::{
    ChildSpec, Exit, Intensity, PoolSpec, Restart, StartChildError, StartError, Strategy,
};
use ractor::{Actor, ActorProcessingErr, ActorRef};

use crate::world::*;

struct Bomb;

impl Drop for Bomb {
    fn drop(&mut self) {
        panic!("as the spec is dropped");
    }
}

/// A probe with a value that panics in its drop behind each closure.
fn bombed(world: &World, id: &str) -> ChildSpec {
    let (earlier, later) = (Bomb, Bomb);
    world.probe(id).on_start(move |_| _ = &earlier).on_start(move |_| _ = &later)
}

#[tokio::test]
async fn a_supervisor_outlives_the_specs_that_it_forgets() {
    let world = World::new();
    let supervisor = world.start_probes(Strategy::OneForAll, 1, &["a"]).await;
    supervisor.start_child(bombed(&world, "deleted")).await.unwrap();
    supervisor.terminate_child("deleted").await.unwrap();
    supervisor.delete_child("deleted").await.unwrap();
    for id in ["ends", "terminated", "bystander"] {
        supervisor.start_child(bombed(&world, id).restart(Restart::Temporary)).await.unwrap();
    }
    world.script("fails", |script| script.init = Init::Fail);
    supervisor.start_child(bombed(&world, "fails")).await.unwrap_err();
    supervisor.start_child(bombed(&world, "a")).await.unwrap_err();
    supervisor.terminate_child("terminated").await.unwrap();
    tell(&supervisor, "ends", Msg::StopSelf);
    world.until("ends1 exit normal").await;
    assert_eq!(listing(&supervisor).await, "a1 up, bystander1 up");
    tell(&supervisor, "a", Msg::Panic);
    world.until("a2 up").await;
    assert_eq!(listing(&supervisor).await, "a2 up");
    supervisor.start_child(bombed(&world, "last")).await.unwrap();
    world.end(&supervisor).await;
}

#[tokio::test]
async fn a_start_that_fails_is_undone_in_order_whatever_was_still_to_be_started() {
    let world = World::new();
    world.script("c", |script| script.init = Init::Fail);
    let children = vec![world.probe("a"), bombed(&world, "b"), world.probe("c"), bombed(&world, "d")];
    let error = world.try_start(world.spec(Strategy::OneForOne, 0, children)).await.unwrap_err();
    assert!(matches!(error, StartError::Child { .. }), "{error}");
    assert_eq!(world.since(0, &["stop"]), "b1 stop, a1 stop");
}

#[tokio::test]
async fn a_pool_outlives_the_specs_that_it_forgets() {
    let world = World::new();
    let child_intensity = Some(Intensity::new(0, ms(1_000)));
    let pool = world.start_pool(PoolSpec { child_intensity, ..world.pool_spec(0) }).await;
    pool.start_child(world.probe("a")).await.unwrap();
    pool.start_child(bombed(&world, "a")).await.unwrap_err();
    for id in ["ends", "terminated"] {
        pool.start_child(bombed(&world, id).restart(Restart::Temporary)).await.unwrap();
    }
    pool.start_child(bombed(&world, "given")).await.unwrap();
    world.script("fails", |script| script.init = Init::Fail);
    pool.start_child(bombed(&world, "fails")).await.unwrap_err();
    world.script("dropped", |script| script.init = Init::Gate);
    assert!(pool.start_child(bombed(&world, "dropped")).now_or_never().is_none());
    pool.terminate_child("terminated").await.unwrap();
    tell_pool(&pool, "ends", Msg::StopSelf);
    tell_pool(&pool, "given", Msg::Panic);
    world.until("given given-up panicked: ouch").await;
    assert_eq!(pool.count_children().await, counts(1, 1, 0, 1));
    pool.start_child(bombed(&world, "last")).await.unwrap();
    world.end_pool(&pool).await;
}

/// A panic payload that panics in its drop, repeatedly.
struct Chain(u32);

impl Drop for Chain {
    fn drop(&mut self) {
        if self.0 > 0 {
            std::panic::panic_any(Chain(self.0 - 1));
        }
    }
}

/// Panics in its handler, or in its factory on request.
struct Thrower;

impl Actor for Thrower {
    type Msg = ();
    type State = ();
    type Arguments = ();

    async fn pre_start(&self, _: ActorRef<()>, (): ()) -> Result<(), ActorProcessingErr> {
        Ok(())
    }

    async fn handle(&self, _: ActorRef<()>, (): (), (): &mut ()) -> Result<(), ActorProcessingErr> {
        std::panic::panic_any(Chain(2));
    }
}

#[tokio::test]
async fn a_supervisor_outlives_what_panics_as_a_panic_is_dropped() {
    let world = World::new();
    let thrower =
        ChildSpec::actor("thrower", || Thrower, || ()).on_start(|_| std::panic::panic_any(Chain(2)));
    let supervisor = world.start(world.spec(Strategy::OneForOne, 1, vec![thrower, world.probe("a")])).await;
    let factory = ChildSpec::actor("b", || -> Thrower { std::panic::panic_any(Chain(2)) }, || ());
    let error = supervisor.start_child(factory).await.unwrap_err();
    assert!(matches!(error, StartChildError::Failed { exit: Exit::Panicked(_), .. }), "{error}");
    supervisor.child::<Thrower>("thrower").unwrap().send_message(()).unwrap();
    world.until("thrower1 exit panicked: a panic without text").await;
    assert_eq!(listing(&supervisor).await, "thrower2 up, a1 up");
    world.end(&supervisor).await;
}
