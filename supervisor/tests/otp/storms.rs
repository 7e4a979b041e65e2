//! Storms: several tasks act at random on a tree with every kind of child. In every order the tree settles, stops,
//! leaves nothing behind, and reports one end for each start.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use ostler_supervisor::{
    AutoShutdown, Branch, ChildEvent, ChildSpec, ChildState, Event, Exit, Intensity, PoolSpec, Restart,
    Shutdown, Strategy, Supervisor, SupervisorRef,
};

use crate::world::*;

const STORMS: u64 = 8;
const TASKS: u64 = 4;
const STEPS: u64 = 60;
const FAMILIES: [&str; 4] = ["m", "n", "root", "pool"];

/// A deterministic random number generator.
struct Dice(u64);

impl Dice {
    fn new(seed: u64) -> Self {
        Dice(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1)
    }

    fn below(&mut self, most: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % most
    }

    fn pick<T: Clone>(&mut self, among: &[T]) -> T {
        among[self.below(among.len() as u64) as usize].clone()
    }

    fn restart(&mut self) -> Restart {
        self.pick(&[Restart::Permanent, Restart::Transient, Restart::Temporary])
    }

    fn shutdown(&mut self) -> Shutdown {
        self.pick(&[Shutdown::Brutal, Shutdown::Infinity, Shutdown::Timeout(ms(50))])
    }

    fn strategy(&mut self) -> Strategy {
        self.pick(&[Strategy::OneForOne, Strategy::OneForAll, Strategy::RestForOne])
    }
}

#[derive(Default)]
struct Heard {
    up: HashMap<String, u64>,
    faults: Vec<String>,
}

impl Heard {
    fn hear(&mut self, event: &Event<'_>) {
        let child = format!("{}{}", event.tree, event.id);
        let sound = match event.kind {
            ChildEvent::Started { .. } | ChildEvent::Restarted { .. } => {
                self.up.insert(child.clone(), event.generation).is_none()
            }
            ChildEvent::Exited { .. } => self.up.remove(&child) == Some(event.generation),
            ChildEvent::Ignored | ChildEvent::StartFailed { .. } => !self.up.contains_key(&child),
            ChildEvent::Unkillable | ChildEvent::GivenUp { .. } | ChildEvent::Escalated { .. } => true,
        };
        if !sound {
            self.faults.push(format!("{child}{} {:?}", event.generation, event.kind));
        }
    }
}

fn leaves(world: &World, family: &str, dice: &mut Dice) -> Vec<ChildSpec> {
    let leaf =
        |n: u64| world.probe(&format!("{family}{n}-")).restart(dice.restart()).shutdown(dice.shutdown());
    (0..3).map(leaf).collect()
}

/// A branch with a small window; some ends of its children fill the window.
fn branch(world: &World, name: &str, dice: &mut Dice) -> ChildSpec {
    let restarts = dice.pick(&[0, 1, 3]);
    let mut spec = world.spec(dice.strategy(), restarts, leaves(world, name, dice));
    spec.auto_shutdown =
        dice.pick(&[AutoShutdown::Never, AutoShutdown::AnySignificant, AutoShutdown::AllSignificant]);
    for child in &mut spec.children {
        child.significant = spec.auto_shutdown != AutoShutdown::Never && child.restart != Restart::Permanent;
    }
    let restart = dice.pick(&[Restart::Permanent, Restart::Transient]);
    ChildSpec::supervisor(name, spec).shutdown(dice.shutdown()).restart(restart)
}

async fn start(world: &World, dice: &mut Dice, heard: &Arc<Mutex<Heard>>) -> SupervisorRef {
    let pool = PoolSpec {
        intensity: Intensity::new(10, ms(1000)),
        child_intensity: dice.pick(&[None, Some(Intensity::new(2, ms(100)))]),
        max_children: 4,
        ..world.pool_spec(0)
    };
    let mut children = vec![branch(world, "m", dice), branch(world, "n", dice)];
    children.push(ChildSpec::pool("pool", pool).shutdown(dice.shutdown()));
    children.extend(leaves(world, "root", dice));
    let mut spec = world.spec(dice.strategy(), 0, children);
    spec.intensity = Intensity::UNLIMITED;
    let heard = heard.clone();
    let observer = move |event: &Event<'_>| heard.lock().unwrap().hear(event);
    Supervisor::start_observed(spec, Arc::new(observer)).await.unwrap()
}

/// Acts on a random child and ignores the outcome.
async fn step(world: &World, root: &SupervisorRef, dice: &mut Dice) {
    let family = dice.pick(&FAMILIES);
    let id = format!("{family}{}-", dice.below(3));
    if dice.below(8) == 0 {
        let init = dice.pick(&[Init::Up, Init::Up, Init::Fail, Init::Ignore, Init::SleepThenFail(ms(20))]);
        let stop = dice.pick(&[Stop::Quick, Stop::Quick, Stop::Sleep(ms(30)), Stop::Panic]);
        world.script(&id, |script| (script.init, script.stop) = (init, stop));
    }
    match family {
        "pool" => step_in_pool(world, root, &id, dice).await,
        "root" => step_below(world, root, &id, dice).await,
        branch => match root.supervisor(branch) {
            Some(branch) if dice.below(10) > 0 => step_below(world, &branch, &id, dice).await,
            Some(branch) if dice.below(2) == 0 => drop(branch.stop().await),
            Some(branch) => drop(branch.kill().await),
            None => drop(root.restart_child(branch).await),
        },
    }
}

async fn step_below(world: &World, supervisor: &SupervisorRef, id: &str, dice: &mut Dice) {
    // Some callers time out; their request is carried out nevertheless.
    let patience = Duration::from_micros(dice.pick(&[0, 100, 300, 10_000_000]));
    let asked = async {
        match dice.below(8) {
            0..4 => hurt(supervisor.child::<Probe>(id), dice),
            4 => drop(supervisor.terminate_child(id).await),
            5 => drop(supervisor.restart_child(id).await),
            6 => drop(supervisor.delete_child(id).await),
            _ => drop(supervisor.start_child(world.probe(id).restart(dice.restart())).await),
        }
    };
    let _ = tokio::time::timeout(patience, asked).await;
}

async fn step_in_pool(world: &World, root: &SupervisorRef, id: &str, dice: &mut Dice) {
    let Some(pool) = root.pool("pool") else {
        return drop(root.restart_child("pool").await);
    };
    let patience = Duration::from_micros(dice.pick(&[0, 100, 300, 10_000_000]));
    let asked = async {
        match dice.below(10) {
            0..4 => hurt(pool.child::<Probe>(id), dice),
            4 => drop(pool.terminate_child(id).await),
            5 => assert!(pool.count_children().await.specs <= 4),
            6..9 => {
                let inner = [world.probe(&format!("{id}x")), world.probe(&format!("{id}y"))];
                let spec = match dice.below(4) {
                    0 => ChildSpec::supervisor(id, world.spec(dice.strategy(), 1, inner.to_vec())),
                    _ => world.probe(id),
                };
                drop(pool.start_child(spec.restart(dice.restart()).shutdown(dice.shutdown())).await);
            }
            _ if dice.below(3) > 0 => {}
            _ if dice.below(2) == 0 => drop(pool.stop().await),
            _ => drop(root.terminate_child("pool").await),
        }
    };
    let _ = tokio::time::timeout(patience, asked).await;
}

fn hurt(child: Option<ractor::ActorRef<Msg>>, dice: &mut Dice) {
    let Some(child) = child else { return };
    let message = match dice.below(6) {
        0 => return child.kill(),
        1 => Msg::Panic,
        2 => Msg::StopSelf,
        3 => Msg::Fail,
        4 => Msg::Sleep(ms(30)),
        _ => Msg::Leave(Exit::Shutdown),
    };
    // An ended child ignores the message.
    let _ = child.send_message(message);
}

fn restless(tree: &[Branch]) -> bool {
    tree.iter().any(|branch| match branch.child.state {
        ChildState::Restarting | ChildState::Starting | ChildState::Stopping => true,
        ChildState::Down | ChildState::Running(_) => restless(&branch.branches),
    })
}

async fn storm(seed: u64) {
    let (world, heard) = (World::new(), Arc::new(Mutex::new(Heard::default())));
    let root = start(&world, &mut Dice::new(seed), &heard).await;
    let ticking = tokio::spawn({
        let clock = world.clock.clone();
        async move {
            loop {
                clock.advance(ms(10));
                tokio::time::sleep(ms(1)).await;
            }
        }
    });
    let tasks = (0..TASKS).map(|task| {
        let (world, root, mut dice) = (world.clone(), root.clone(), Dice::new(seed * 100 + task));
        tokio::spawn(async move {
            for _ in 0..STEPS {
                step(&world, &root, &mut dice).await;
            }
        })
    });
    for task in tasks.collect::<Vec<_>>() {
        in_time(task).await.unwrap();
    }
    for family in FAMILIES {
        (0..3).for_each(|n| world.script(&format!("{family}{n}-"), |script| script.init = Init::Up));
    }
    let rest = async {
        while restless(&root.tree(100).await) {
            tokio::task::yield_now().await;
        }
    };
    in_time(rest).await;
    if seed.is_multiple_of(4) {
        assert_eq!(in_time(root.kill()).await, Exit::Killed);
    } else {
        assert_eq!(in_time(root.stop()).await, Exit::Shutdown);
    }
    ticking.abort();
    world.settle();
    let heard = heard.lock().unwrap();
    assert!(heard.faults.is_empty() && heard.up.is_empty(), "{:?}, up: {:?}", heard.faults, heard.up);
}

#[tokio::test]
async fn storms_on_one_thread_pass() {
    for seed in 1..=STORMS {
        storm(seed).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn storms_on_two_threads_pass() {
    for seed in 1..=STORMS {
        storm(seed).await;
    }
}
