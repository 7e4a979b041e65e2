//! F: the restart window.

use std::time::{Duration, Instant};

use ostler_supervisor::intensity::{Charge, Window};
use ostler_supervisor::{ChildSpec, Exit, Intensity, Strategy, SupervisorRef};

use crate::world::*;

async fn start(world: &World, restarts: u32, period_ms: u64) -> SupervisorRef {
    let mut spec = world.spec(Strategy::OneForOne, 1, vec![world.probe("a")]);
    spec.intensity = Intensity::new(restarts, ms(period_ms));
    world.start(spec).await
}

/// Crashes `a` and waits until it is up and listed again.
async fn crash(world: &World, supervisor: &SupervisorRef) {
    let start = world.starts("a");
    tell(supervisor, "a", Msg::Panic);
    world.until(&format!("a{} up", start + 1)).await;
    assert_eq!(listing(supervisor).await, format!("a{} up", start + 1));
}

async fn last_crash(world: &World, supervisor: &SupervisorRef) {
    let start = world.starts("a");
    tell(supervisor, "a", Msg::Panic);
    assert_eq!(in_time(supervisor.wait_exit()).await, Exit::Shutdown);
    assert_eq!(world.starts("a"), start);
    world.settle();
}

#[tokio::test]
async fn f01_crashes_further_apart_than_the_period_never_add_up() {
    let world = World::new();
    let supervisor = start(&world, 1, 1000).await;
    for _ in 0..4 {
        crash(&world, &supervisor).await;
        world.clock.advance(ms(2100));
    }
    world.end(&supervisor).await;
}

#[tokio::test]
async fn f02_an_intensity_of_zero_allows_nothing() {
    let world = World::new();
    let supervisor = start(&world, 0, 1000).await;
    last_crash(&world, &supervisor).await;
}

#[tokio::test]
async fn f03_as_many_crashes_as_the_intensity_are_repaired() {
    let world = World::new();
    let supervisor = start(&world, 5, 1000).await;
    for _ in 0..5 {
        crash(&world, &supervisor).await;
        world.clock.advance(ms(100));
    }
    assert_eq!(world.starts("a"), 1 + 5);
    world.end(&supervisor).await;
}

#[tokio::test]
async fn f04_one_crash_more_than_the_intensity_ends_the_supervisor() {
    let world = World::new();
    let supervisor = start(&world, 5, 1000).await;
    for _ in 0..5 {
        crash(&world, &supervisor).await;
        world.clock.advance(ms(100));
    }
    last_crash(&world, &supervisor).await;
}

#[tokio::test]
async fn f05_the_window_slides() {
    let world = World::new();
    let supervisor = start(&world, 2, 10_000).await;
    for pause in [9000, 2000, 0] {
        crash(&world, &supervisor).await;
        world.clock.advance(ms(pause));
    }
    // At 11 s: 9 s and 11 s count. At exactly 19 s, 9 s still does.
    world.clock.advance(ms(8000));
    last_crash(&world, &supervisor).await;
}

#[tokio::test]
async fn f06_what_is_done_by_hand_is_not_charged() {
    let world = World::new();
    world.script("bad", |script| script.init = Init::Fail);
    let supervisor = start(&world, 0, 1000).await;
    for _ in 0..5 {
        supervisor.terminate_child("a").await.unwrap();
        supervisor.restart_child("a").await.unwrap();
        supervisor.start_child(world.probe("bad")).await.unwrap_err();
    }
    world.end(&supervisor).await;
}

#[tokio::test]
async fn f07_a_group_of_fifty_is_one_charge() {
    let world = World::new();
    let children: Vec<ChildSpec> = (0..50).map(|n| world.probe(&format!("c{n}-"))).collect();
    let supervisor = world.start(world.spec(Strategy::OneForAll, 1, children)).await;
    tell(&supervisor, "c20-", Msg::Panic);
    world.until("c49-2 up").await;
    assert_eq!(supervisor.count_children().await, counts(50, 50, 0, 50));
    tell(&supervisor, "c0-", Msg::Panic);
    assert_eq!(in_time(supervisor.wait_exit()).await, Exit::Shutdown);
    world.settle();
}

#[test]
fn f08_the_cost_of_a_crash_does_not_grow_with_history() {
    const CRASHES: usize = 200_000;
    const PART: usize = 10_000;
    for restarts in [1_000_000, 1_000, 1] {
        let start = Instant::now();
        let mut window = Window::new(Intensity::new(restarts, Duration::from_secs(5)));
        // Instants that each charge inserts, removes or keeps.
        let costs: Vec<usize> = (0..CRASHES as u32)
            .map(|crash| {
                let before = window.len();
                let charge = window.charge(start + crash * Duration::from_millis(1));
                let put = usize::from(charge == Charge::Allowed);
                assert!(window.len() <= restarts as usize, "the memory is bounded by the intensity");
                1 + put + (before + put - window.len())
            })
            .collect();
        let (first, last) = (&costs[..PART], &costs[CRASHES - PART..]);
        let (first, last) = (first.iter().sum::<usize>(), last.iter().sum::<usize>());
        assert!(2 * last <= 3 * first, "{restarts}: {last} against {first} at first");
    }
}

#[tokio::test]
async fn failed_attempts_leave_the_window_as_time_passes() {
    let world = World::new();
    let mut spec = world.spec(Strategy::OneForOne, 2, vec![world.probe("a")]);
    spec.intensity = Intensity::new(2, ms(100));
    let supervisor = world.start(spec).await;
    world.script("a", |script| script.init = Init::SleepThenFail(ms(60)));
    tell(&supervisor, "a", Msg::Panic);
    for n in 2..12 {
        world.until(&format!("a{n} init")).await;
        in_time(world.clock.sleeping(1)).await;
        world.clock.advance(ms(60));
    }
    world.until("a12 init").await;
    in_time(world.clock.sleeping(1)).await;
    world.script("a", |script| script.init = Init::Up);
    world.clock.advance(ms(60));
    world.until("a13 up").await;
    world.end(&supervisor).await;
}
