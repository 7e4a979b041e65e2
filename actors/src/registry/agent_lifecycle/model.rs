//! Model checker: the state machine in a small world where runs and requests come, actors crash, are given up and
//! released, and the pool ends and restarts, in every order.

use std::collections::{BTreeSet, HashMap, VecDeque};

use uuid::Uuid;

use super::*;

type Number = u8;

type Birth = u8;

/// Messages to the registry, in order.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Message {
    Drive(Number),
    Ask(Number),
    Done(Number),
    Idle { run: Number, asked: u64 },
    Wake(Number),
    Up(Birth),
    Gone { again: bool },
    GivenUp,
    Release,
    PoolUp,
    PoolGone(u8),
    NoPlace(u8),
    Called,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum ToActor {
    Drive(Number),
    Ask(Number),
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Child {
    None,
    /// The child crashed and is being restarted.
    Restarting,
    Up(Actor),
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Actor {
    birth: Birth,
    mailbox: VecDeque<ToActor>,
    run: Option<Number>,
    is_idle: bool,
    asked: u64,
    is_to_stop: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Left {
    runs: u8,
    requests: u8,
    crashes: u8,
    pool_crashes: u8,
    releases: u8,
    full: u8,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct World {
    machine: AgentLifecycle<Birth>,
    runs: VecDeque<Number>,
    waiting: Vec<Number>,
    inbox: VecDeque<Message>,
    child: Child,
    /// The pool that the registry knows, and whether it runs.
    pool: (u8, bool),
    starts: Vec<u8>,
    in_line: bool,
    open: BTreeSet<Number>,
    alarm: Option<Number>,
    left: Left,
}

fn id(run: Number) -> RunId {
    RunId(Uuid::from_u128(run.into()))
}

fn number(run: RunId) -> Number {
    run.0.as_u128() as Number
}

impl World {
    fn new(left: Left) -> World {
        World {
            machine: AgentLifecycle::new(),
            runs: VecDeque::new(),
            waiting: Vec::new(),
            inbox: VecDeque::new(),
            child: Child::None,
            pool: (0, true),
            starts: Vec::new(),
            in_line: false,
            open: BTreeSet::new(),
            alarm: None,
            left,
        }
    }

    fn take(&mut self, input: Input<Birth>) -> Step<Birth> {
        let around = LifecycleContext { first: self.runs.front().map(|&run| id(run)), pool: true };
        let step = self.machine.take(input, around);
        if !self.machine.is_passive() {
            self.alarm = None;
        }
        match step {
            Step::Start => self.starts.push(self.pool.0),
            Step::Drive(birth) => {
                let run = number(around.first.expect("only what is first is driven"));
                self.send(birth, ToActor::Drive(run));
                let waited = std::mem::take(&mut self.waiting);
                let (now, later) = waited.into_iter().partition(|waits| *waits == run);
                self.waiting = later;
                let now: Vec<Number> = now;
                now.into_iter().for_each(|run| self.asked(run));
            }
            Step::Stop(birth) => {
                if let Child::Up(actor) = &mut self.child
                    && actor.birth == birth
                {
                    actor.is_to_stop = true;
                }
            }
            Step::Nothing | Step::PassOn(_) => {}
        }
        step
    }

    /// A message to an ended actor is lost; its sender learns that.
    fn send(&mut self, birth: Birth, message: ToActor) {
        if let Child::Up(actor) = &mut self.child
            && actor.birth == birth
        {
            actor.mailbox.push_back(message);
        }
    }

    fn asked(&mut self, run: Number) {
        if !self.runs.contains(&run) {
            return;
        }
        match self.take(Input::Asked { run: id(run) }) {
            Step::PassOn(birth) => self.send(birth, ToActor::Ask(run)),
            _ => self.waiting.push(run),
        }
    }

    fn deliver(&mut self, message: Message) {
        match message {
            // A quarantined agent's run is suspended.
            Message::Drive(run) if self.machine.is_quarantined() => drop(self.open.remove(&run)),
            Message::Drive(run) => {
                self.runs.push_back(run);
                self.take(Input::Work);
            }
            Message::Ask(run) => self.asked(run),
            Message::Done(run) => {
                self.runs.retain(|known| *known != run);
                self.waiting.retain(|waits| *waits != run);
                self.take(Input::RunOver);
            }
            Message::Idle { run, asked } => {
                if let Step::Stop(_) = self.take(Input::Idle { run: id(run), asked }) {
                    self.alarm = Some(run);
                }
            }
            Message::Wake(run) => drop(self.take(Input::Wake { run: id(run) })),
            Message::Up(birth) => drop(self.take(Input::Up(birth))),
            Message::Gone { again } => drop(self.take(Input::Gone { again })),
            Message::GivenUp => {
                self.take(Input::GivenUp);
                for run in std::mem::take(&mut self.runs) {
                    self.open.remove(&run);
                    self.waiting.retain(|waits| *waits != run);
                }
            }
            Message::Release => drop(self.take(Input::Released)),
            Message::PoolUp => {
                self.in_line = false;
                self.take(Input::PoolUp);
            }
            Message::NoPlace(pool) if pool != self.pool.0 => {}
            Message::NoPlace(_) => {
                self.take(Input::NoPlace);
                self.in_line |= matches!(self.machine.phase(), Phase::Waiting);
            }
            Message::Called => drop(self.take(Input::Called)),
            Message::PoolGone(pool) => {
                let another = self.pool.0 > pool;
                self.take(Input::PoolGone { another });
            }
        }
    }

    fn born(&mut self) {
        // Reusing numbers keeps the number of worlds finite.
        let is_free = |birth: &Birth| {
            !matches!(self.machine.phase(), Phase::Live { actor, .. } if actor == birth)
                && !self.inbox.contains(&Message::Up(*birth))
        };
        let birth = (0..).find(is_free).expect("few are known at a time");
        let (mailbox, run, is_idle, asked, is_to_stop) = (VecDeque::new(), None, false, 0, false);
        self.child = Child::Up(Actor { birth, mailbox, run, is_idle, asked, is_to_stop });
        self.inbox.push_back(Message::Up(birth));
    }

    /// All possible next events, and the states after them.
    fn inner(&self) -> Vec<(String, World)> {
        let mut next = Vec::new();
        let mut then = |what: String, change: &dyn Fn(&mut World)| {
            let mut world = self.clone();
            change(&mut world);
            next.push((what, world));
        };
        if let Some(message) = self.inbox.front() {
            then(format!("registry: {message:?}"), &|world| {
                let message = world.inbox.pop_front().expect("it is there");
                world.deliver(message);
            });
        }
        for (at, &pool) in self.starts.iter().enumerate() {
            let is_there = self.pool == (pool, true);
            match &self.child {
                Child::None if is_there && self.left.full > 0 => {
                    then("there is no place".to_owned(), &|world| {
                        world.left.full -= 1;
                        world.starts.remove(at);
                        world.inbox.push_back(Message::NoPlace(pool));
                    })
                }
                _ => {}
            }
            match &self.child {
                _ if !is_there => then(format!("no pool {pool}"), &|world| {
                    world.starts.remove(at);
                    world.inbox.push_back(Message::PoolGone(pool));
                }),
                Child::None => then("the start succeeds".to_owned(), &|world| {
                    world.starts.remove(at);
                    world.born();
                }),
                Child::Up(_) => then("it is there already".to_owned(), &|world| {
                    world.starts.remove(at);
                }),
                // The start is repeated.
                Child::Restarting => {}
            }
        }
        match &self.child {
            Child::None => {}
            Child::Restarting => then("it is up again".to_owned(), &World::born),
            Child::Up(actor) => {
                if !actor.mailbox.is_empty() {
                    then(format!("actor {}: {:?}", actor.birth, actor.mailbox[0]), &|world| {
                        world.handle(false)
                    });
                    then(format!("actor {}, active: {:?}", actor.birth, actor.mailbox[0]), &|world| {
                        world.handle(true);
                    });
                }
                if actor.is_to_stop {
                    then("the actor stops".to_owned(), &|world| {
                        world.child = Child::None;
                        world.inbox.push_back(Message::Gone { again: false });
                    });
                }
            }
        }
        if self.in_line {
            then("it is called".to_owned(), &|world| {
                world.in_line = false;
                world.inbox.push_back(Message::Called);
            });
        }
        if !self.pool.1 {
            then("the pool is up".to_owned(), &|world| {
                world.pool = (world.pool.0 + 1, true);
                world.inbox.push_back(Message::PoolUp);
            });
        }
        next
    }

    /// The actor handles a message; `active`: the run has work then.
    fn handle(&mut self, active: bool) {
        let Child::Up(actor) = &mut self.child else { return };
        match actor.mailbox.pop_front() {
            Some(ToActor::Drive(run)) if self.open.contains(&run) => {
                (actor.run, actor.is_idle) = (Some(run), !active);
                if !active {
                    self.inbox.push_back(Message::Idle { run, asked: actor.asked });
                }
            }
            Some(ToActor::Drive(run)) => self.inbox.push_back(Message::Done(run)),
            Some(ToActor::Ask(run)) => {
                actor.asked += 1;
                if actor.run == Some(run) {
                    actor.is_idle = !active;
                    if !active {
                        self.inbox.push_back(Message::Idle { run, asked: actor.asked });
                    }
                }
            }
            None => {}
        }
    }

    fn outer(&self) -> Vec<(String, World)> {
        let mut next = Vec::new();
        let mut then = |what: String, change: &dyn Fn(&mut World)| {
            let mut world = self.clone();
            change(&mut world);
            next.push((what, world));
        };
        if self.left.runs > 0 {
            then("a run comes".to_owned(), &|world| {
                let run = world.left.runs;
                world.left.runs -= 1;
                world.open.insert(run);
                world.inbox.push_back(Message::Drive(run));
            });
        }
        if self.left.requests > 0 {
            for &run in &self.open {
                then(format!("somebody asks about {run}"), &|world| {
                    world.left.requests -= 1;
                    world.inbox.push_back(Message::Ask(run));
                });
            }
        }
        if let Some(run) = self.alarm {
            then(format!("the time of {run} has come"), &|world| {
                world.alarm = None;
                world.inbox.push_back(Message::Wake(run));
            });
        }
        if let Child::Up(Actor { run: Some(run), is_idle: false, .. }) = self.child {
            then(format!("{run} is over"), &|world| {
                world.open.remove(&run);
                if let Child::Up(actor) = &mut world.child {
                    actor.run = None;
                }
                world.inbox.push_back(Message::Done(run));
            });
            then(format!("{run} only waits"), &|world| {
                let Child::Up(actor) = &mut world.child else { return };
                actor.is_idle = true;
                let asked = actor.asked;
                world.inbox.push_back(Message::Idle { run, asked });
            });
        }
        if self.left.crashes > 0 {
            match self.child {
                Child::Up(_) => then("the actor crashes".to_owned(), &|world| {
                    world.left.crashes -= 1;
                    world.child = Child::Restarting;
                    world.inbox.push_back(Message::Gone { again: true });
                }),
                Child::Restarting => then("the actor is given up".to_owned(), &|world| {
                    world.left.crashes -= 1;
                    world.child = Child::None;
                    world.inbox.push_back(Message::GivenUp);
                }),
                Child::None if self.starts.contains(&self.pool.0) && self.pool.1 => {
                    then("the start fails".to_owned(), &|world| {
                        world.left.crashes -= 1;
                        let pool = world.pool.0;
                        world.starts.retain(|start| *start != pool);
                        world.inbox.push_back(Message::GivenUp);
                    });
                }
                Child::None => {}
            }
        }
        if self.left.pool_crashes > 0 && self.pool.1 {
            then("the pool ends".to_owned(), &|world| {
                world.left.pool_crashes -= 1;
                world.pool.1 = false;
                if let Child::Up(_) = std::mem::replace(&mut world.child, Child::None) {
                    world.inbox.push_back(Message::Gone { again: false });
                }
            });
        }
        if self.left.releases > 0 && self.machine.is_quarantined() {
            then("it is released".to_owned(), &|world| {
                world.left.releases -= 1;
                world.inbox.push_back(Message::Release);
            });
        }
        next
    }

    /// The violated property of a world where nothing follows by itself.
    fn fault(&self) -> Option<&'static str> {
        let first = self.runs.front();
        let is_passive = self.machine.is_passive();
        let wrong = |wrong: bool, what| wrong.then_some(what);
        match self.machine.phase() {
            Phase::Idle => wrong(first.is_some() && !is_passive, "there is work and nobody to do it")
                .or(wrong(self.child != Child::None, "an actor is there that the registry does not know"))
                .or(wrong(is_passive && self.alarm != first.copied(), "nothing will wake a passive run")),
            Phase::Waiting => Some("a place is waited for that nobody gives"),
            Phase::Starting => Some("an actor is waited for that does not come"),
            Phase::Stopping => Some("an end is waited for that does not come"),
            Phase::Live { actor: birth, .. } => match &self.child {
                Child::Up(actor) if actor.birth == *birth => {
                    wrong(actor.run != first.copied(), "the actor drives another run than the first")
                        .or(wrong(actor.is_idle, "an actor stays that nobody needs"))
                }
                _ => Some("the registry takes an actor for alive that is gone"),
            },
            Phase::Quarantined => wrong(first.is_some(), "an agent out of service has runs")
                .or(wrong(self.child != Child::None, "an agent out of service has an actor")),
        }
        .or(wrong(self.waiting.iter().any(|run| first == Some(run)), "a request is left waiting"))
        .or(wrong(
            self.waiting.iter().any(|run| !self.runs.contains(run)),
            "a request waits for a run that is over",
        ))
        .or(wrong(
            self.open.iter().ne(&self.runs.iter().copied().collect::<BTreeSet<_>>()),
            "an accepted run is lost",
        ))
    }
}

fn explore(left: Left) -> usize {
    let mut known: HashMap<World, usize> = HashMap::new();
    // How each world was reached first.
    let mut ways: Vec<(usize, String)> = vec![(0, "start".to_owned())];
    let mut open = VecDeque::from([World::new(left)]);
    known.insert(World::new(left), 0);
    while let Some(world) = open.pop_front() {
        let at = known[&world];
        let inner = world.inner();
        if let Some(fault) = inner.is_empty().then(|| world.fault()).flatten() {
            let mut story = Vec::new();
            let mut way = at;
            while way > 0 {
                story.push(ways[way].1.clone());
                way = ways[way].0;
            }
            story.reverse();
            panic!("{fault}, after:\n  {}\n{world:#?}", story.join("\n  "));
        }
        for (what, next) in inner.into_iter().chain(world.outer()) {
            if !known.contains_key(&next) {
                known.insert(next.clone(), ways.len());
                ways.push((at, what));
                open.push_back(next);
            }
        }
    }
    known.len()
}

#[test]
fn no_order_of_wakes_stops_and_crashes_loses_work() {
    let none = Left { runs: 0, requests: 0, crashes: 0, pool_crashes: 0, releases: 0, full: 0 };
    for (left, least) in [
        (Left { runs: 2, requests: 2, ..none }, 1_000),
        (Left { runs: 2, requests: 1, crashes: 1, ..none }, 1_000),
        (Left { runs: 1, requests: 1, crashes: 2, releases: 1, ..none }, 1_000),
        (Left { runs: 1, requests: 1, crashes: 1, pool_crashes: 1, ..none }, 1_000),
        (Left { runs: 2, crashes: 1, pool_crashes: 2, ..none }, 1_000),
        (Left { runs: 2, requests: 1, full: 2, ..none }, 1_000),
        (Left { runs: 1, requests: 1, crashes: 1, pool_crashes: 1, full: 2, ..none }, 1_000),
    ] {
        let worlds = explore(left);
        assert!(worlds >= least, "only {worlds} worlds with {left:?}");
    }
}
