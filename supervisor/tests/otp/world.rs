//! Test world: probes that log events, a manual clock, a script per probe.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use ostler_supervisor::testing::ManualClock;
use ostler_supervisor::{
    ChildEvent, ChildId, ChildSpec, ChildState, Clock, Counts, Event, Exit, Ignore, Intensity, Pool,
    PoolSpec, StartError, Strategy, Supervisor, SupervisorRef, SupervisorSpec,
};
use ractor::{Actor, ActorProcessingErr, ActorRef};
use tokio::sync::{Notify, Semaphore};

/// Upper limit of waits for immediate events.
const PATIENCE: Duration = Duration::from_secs(60);

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Init {
    Up,
    Fail,
    Panic,
    Ignore,
    /// Waits for `World::open_gate`, then comes up.
    Gate,
    /// Sleeps on the clock, then fails.
    SleepThenFail(Duration),
    /// Sleeps on the clock, then declines.
    SleepThenIgnore(Duration),
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Stop {
    Quick,
    Sleep(Duration),
    Panic,
}

#[derive(Debug, Clone)]
pub(crate) struct Script {
    pub(crate) init: Init,
    /// Number of the failing start, whatever `init` says.
    pub(crate) fails_at: Option<u64>,
    pub(crate) post_start_panics_at: Option<u64>,
    pub(crate) stop: Stop,
}

impl Default for Script {
    fn default() -> Self {
        Script { init: Init::Up, fails_at: None, post_start_panics_at: None, stop: Stop::Quick }
    }
}

#[derive(Debug)]
pub(crate) enum Msg {
    /// Returns this as the handler's error.
    Leave(Exit),
    /// Returns a plain error.
    Fail,
    Panic,
    /// Stops through the actor's own reference.
    StopSelf,
    /// Busy for this long on the clock.
    Sleep(Duration),
    /// Holds the thread until this is true.
    Spin(Arc<AtomicBool>),
}

#[derive(Default)]
struct Shared {
    lines: Mutex<Vec<String>>,
    changed: Notify,
    scripts: Mutex<HashMap<String, Script>>,
    starts: Mutex<HashMap<String, u64>>,
    alive: Mutex<HashSet<String>>,
}

impl Shared {
    fn log(&self, line: String) {
        self.lines.lock().unwrap().push(line);
        self.changed.notify_waiters();
    }
}

#[derive(Clone)]
pub(crate) struct World {
    pub(crate) clock: ManualClock,
    gate: Arc<Semaphore>,
    shared: Arc<Shared>,
}

pub(crate) struct Probe {
    id: String,
    world: World,
}

/// State of a probe; logs its drop.
pub(crate) struct Alive {
    name: String,
    world: World,
}

impl Drop for Alive {
    fn drop(&mut self) {
        self.world.shared.alive.lock().unwrap().remove(&self.name);
        self.world.shared.log(format!("{} dropped", self.name));
    }
}

impl Probe {
    fn script(&self) -> Script {
        self.world.shared.scripts.lock().unwrap().get(&self.id).cloned().unwrap_or_default()
    }
}

impl Actor for Probe {
    type Msg = Msg;
    type State = (Alive, u64);
    type Arguments = u64;

    async fn pre_start(&self, _: ActorRef<Msg>, start: u64) -> Result<Self::State, ActorProcessingErr> {
        let name = format!("{}{start}", self.id);
        let world = self.world.clone();
        world.shared.log(format!("{name} init"));
        world.shared.alive.lock().unwrap().insert(name.clone());
        let alive = Alive { name: name.clone(), world: world.clone() };
        let script = self.script();
        let init = if script.fails_at == Some(start) { Init::Fail } else { script.init };
        match init {
            Init::Up => {}
            Init::Fail => return Err("no luck".into()),
            Init::Panic => panic!("no start"),
            Init::Ignore => return Err(Ignore.into()),
            Init::Gate => world.gate.acquire().await?.forget(),
            Init::SleepThenFail(span) => {
                world.clock.sleep_until(world.clock.now() + span).await;
                return Err("no luck".into());
            }
            Init::SleepThenIgnore(span) => {
                world.clock.sleep_until(world.clock.now() + span).await;
                return Err(Ignore.into());
            }
        }
        world.shared.log(format!("{name} up"));
        Ok((alive, start))
    }

    async fn post_start(&self, _: ActorRef<Msg>, state: &mut Self::State) -> Result<(), ActorProcessingErr> {
        assert!(self.script().post_start_panics_at != Some(state.1), "just after the start");
        Ok(())
    }

    async fn handle(
        &self,
        myself: ActorRef<Msg>,
        message: Msg,
        _: &mut Self::State,
    ) -> Result<(), ActorProcessingErr> {
        match message {
            Msg::Leave(exit) => return Err(exit.into()),
            Msg::Fail => return Err("broken".into()),
            Msg::Panic => panic!("ouch"),
            Msg::StopSelf => myself.stop(None),
            Msg::Spin(until) => {
                self.world.shared.log(format!("{} spins", self.id));
                while !until.load(Ordering::Acquire) {
                    std::thread::yield_now();
                }
            }
            Msg::Sleep(span) => self.world.clock.sleep_until(self.world.clock.now() + span).await,
        }
        Ok(())
    }

    async fn post_stop(
        &self,
        _: ActorRef<Msg>,
        (alive, _): &mut Self::State,
    ) -> Result<(), ActorProcessingErr> {
        match self.script().stop {
            Stop::Quick => {}
            Stop::Sleep(span) => self.world.clock.sleep_until(self.world.clock.now() + span).await,
            Stop::Panic => panic!("no stop"),
        }
        self.world.shared.log(format!("{} stop", alive.name));
        Ok(())
    }
}

impl World {
    pub(crate) fn new() -> Self {
        World { clock: ManualClock::new(), gate: Arc::new(Semaphore::new(0)), shared: Arc::default() }
    }

    pub(crate) fn probe(&self, id: &str) -> ChildSpec {
        let (args, actor) = (self.clone(), self.clone());
        let name = id.to_string();
        let actor_id = name.clone();
        ChildSpec::actor(
            id,
            move || Probe { id: actor_id.clone(), world: actor.clone() },
            move || {
                let mut starts = args.shared.starts.lock().unwrap();
                let start = starts.entry(name.clone()).or_default();
                *start += 1;
                *start
            },
        )
    }

    pub(crate) fn script(&self, id: &str, change: impl FnOnce(&mut Script)) {
        change(self.shared.scripts.lock().unwrap().entry(id.into()).or_default());
    }

    /// A spec on this world's clock; the period is an hour.
    pub(crate) fn spec(&self, strategy: Strategy, restarts: u32, children: Vec<ChildSpec>) -> SupervisorSpec {
        SupervisorSpec {
            strategy,
            intensity: Intensity::new(restarts, Duration::from_secs(3600)),
            children,
            clock: Arc::new(self.clock.clone()),
            ..SupervisorSpec::default()
        }
    }

    pub(crate) fn pool_spec(&self, restarts: u32) -> PoolSpec {
        PoolSpec {
            intensity: Intensity::new(restarts, Duration::from_secs(3600)),
            clock: Arc::new(self.clock.clone()),
            ..PoolSpec::default()
        }
    }

    /// Starts a supervisor and logs its observer's events.
    pub(crate) async fn try_start(&self, spec: SupervisorSpec) -> Result<SupervisorRef, StartError> {
        Supervisor::start_observed(spec, Arc::new(self.observer())).await
    }

    pub(crate) async fn start(&self, spec: SupervisorSpec) -> SupervisorRef {
        self.try_start(spec).await.unwrap()
    }

    pub(crate) async fn start_probes(
        &self,
        strategy: Strategy,
        restarts: u32,
        ids: &[&str],
    ) -> SupervisorRef {
        self.start(self.spec(strategy, restarts, ids.iter().map(|id| self.probe(id)).collect())).await
    }

    pub(crate) async fn start_pool(&self, spec: PoolSpec) -> Pool {
        Pool::start_observed(spec, Arc::new(self.observer())).await.unwrap()
    }

    fn observer(&self) -> impl Fn(&Event<'_>) + Send + Sync + 'static {
        let shared = self.shared.clone();
        move |event| {
            let name = format!("{}{}", event.id, event.generation);
            match event.kind {
                ChildEvent::Exited { exit, .. } => shared.log(format!("{name} exit {exit}")),
                ChildEvent::GivenUp { exit } => shared.log(format!("{} given-up {exit}", event.id)),
                ChildEvent::Escalated { exit } => {
                    shared.log(format!("{}{} escalated {exit}", event.tree, event.id))
                }
                ChildEvent::Ignored => shared.log(format!("{name} ignored")),
                ChildEvent::StartFailed { exit } => shared.log(format!("{name} not-started {exit}")),
                ChildEvent::Unkillable => shared.log(format!("{name} unkillable")),
                ChildEvent::Started { .. } | ChildEvent::Restarted { .. } => {}
            }
        }
    }

    pub(crate) fn note(&self, line: &str) {
        self.shared.log(line.into());
    }

    pub(crate) fn open_gate(&self) {
        self.gate.add_permits(1);
    }

    /// Waits until `line` is in the log.
    pub(crate) async fn until(&self, line: &str) {
        let mut read = 0;
        let wait = async {
            loop {
                let mut changed = std::pin::pin!(self.shared.changed.notified());
                changed.as_mut().enable();
                {
                    let lines = self.shared.lines.lock().unwrap();
                    if lines[read..].iter().any(|known| known == line) {
                        return;
                    }
                    read = lines.len();
                }
                changed.await;
            }
        };
        if tokio::time::timeout(PATIENCE, wait).await.is_err() {
            panic!("never came: {line}; log: {:#?}", self.lines());
        }
    }

    pub(crate) fn lines(&self) -> Vec<String> {
        self.shared.lines.lock().unwrap().clone()
    }

    /// Length of the log; see `since`.
    pub(crate) fn mark(&self) -> usize {
        self.lines().len()
    }

    /// The lines after `mark` whose second word is one of `kinds`, joined with commas.
    pub(crate) fn since(&self, mark: usize, kinds: &[&str]) -> String {
        let lines = self.lines();
        let kept = lines[mark..].iter().filter(|line| {
            let kind = line.split(' ').nth(1).unwrap_or_default();
            kinds.contains(&kind)
        });
        kept.cloned().collect::<Vec<_>>().join(", ")
    }

    pub(crate) fn has(&self, line: &str) -> bool {
        self.lines().iter().any(|known| known == line)
    }

    /// Number of starts of `id`.
    pub(crate) fn starts(&self, id: &str) -> u64 {
        self.shared.starts.lock().unwrap().get(id).copied().unwrap_or_default()
    }

    /// Asserts that no probe is alive and that no start happened twice.
    pub(crate) fn settle(&self) {
        let alive = self.shared.alive.lock().unwrap().clone();
        assert!(alive.is_empty(), "left behind: {alive:?}");
        let mut seen = HashSet::new();
        for line in self.lines().iter().filter(|line| line.ends_with(" init")) {
            assert!(seen.insert(line.clone()), "twice: {line}");
        }
    }

    /// Stops the supervisor and asserts an orderly end.
    pub(crate) async fn end(&self, supervisor: &SupervisorRef) {
        assert_eq!(in_time(supervisor.stop()).await, Exit::Shutdown);
        self.settle();
    }

    pub(crate) async fn end_pool(&self, pool: &Pool) {
        assert_eq!(in_time(pool.stop()).await, Exit::Shutdown);
        self.settle();
    }
}

/// Fails the test if `wait` takes too long.
pub(crate) async fn in_time<T>(wait: impl Future<Output = T>) -> T {
    tokio::time::timeout(PATIENCE, wait).await.expect("should have happened by now")
}

pub(crate) async fn drain() {
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
}

/// Sends a message to the running probe `id`.
pub(crate) fn tell(supervisor: &SupervisorRef, id: &str, message: Msg) {
    supervisor.child::<Probe>(id).expect("the probe runs").send_message(message).unwrap();
}

pub(crate) fn tell_pool(pool: &Pool, id: &str, message: Msg) {
    pool.child::<Probe>(id).expect("the probe runs").send_message(message).unwrap();
}

pub(crate) fn counts(specs: u32, active: u32, supervisors: u32, workers: u32) -> Counts {
    Counts { specs, active, supervisors, workers }
}

/// The children as one line: id, generation and a letter for the state.
pub(crate) async fn listing(supervisor: &SupervisorRef) -> String {
    let children = supervisor.which_children().await;
    let words = children.iter().map(|child| {
        let state = match child.state {
            ChildState::Down => "down",
            ChildState::Starting => "starting",
            ChildState::Restarting => "restarting",
            ChildState::Running(_) => "up",
            ChildState::Stopping => "stopping",
        };
        format!("{}{} {state}", child.id, child.generation)
    });
    words.collect::<Vec<_>>().join(", ")
}

pub(crate) fn id(text: &str) -> ChildId {
    text.into()
}

pub(crate) fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}
