//! Whether an actor stands behind an agent: a pure machine that knows no actors. The registry tells it what came in, and does
//! what it says.
//!
//! `Idle -> Starting -> Live -> Stopping -> Idle`, with `Waiting` before it starts if there are as many actors as there may be,
//! and `Quarantined` from anywhere until it is released. What comes while an actor
//! is on its way in or out is remembered by what is left to do, so no wake-up is lost; the model beside this tries every
//! order.

use ostler_kernel::id::RunId;

/// Where the actor of an agent is.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum Phase<A> {
    /// There is none.
    Idle,
    /// There are as many as there may be: it is in line for a place.
    Waiting,
    Starting,
    /// With the requests that were passed on to it.
    Live {
        actor: A,
        asked: u64,
    },
    /// It was told to stop.
    Stopping,
    /// It is out of service.
    Quarantined,
}

/// The machine of one agent.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct AgentLifecycle<A> {
    phase: Phase<A>,
    /// Its first run only waits, and needs no actor.
    passive: bool,
}

/// What came in about an agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Input<A> {
    /// There may be work to go on with.
    Work,
    /// The actor is up.
    Up(A),
    /// The list of runs is shorter now.
    RunOver,
    /// The actor has nothing to do about this run for long, and had so many requests by then.
    Idle { run: RunId, asked: u64 },
    /// The time has come that a passive run waited for.
    Wake { run: RunId },
    /// Somebody asks for something about this run, which is on the list.
    Asked { run: RunId },
    /// The actor is gone; `again`: its supervisor brings it up once more by itself.
    Gone { again: bool },
    /// The pool is up, empty.
    PoolUp,
    /// There is no place for the actor that was to start: it stands in line.
    NoPlace,
    /// It is its turn to try for a place.
    Called,
    /// The pool ended before the actor was up; `another`: by now there is a new one.
    PoolGone { another: bool },
    /// The actor failed too often.
    GivenUp,
    /// A person has put the agent back into service.
    Released,
}

/// What stands around the machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct LifecycleContext {
    /// The first run on the list.
    pub(crate) first: Option<RunId>,
    /// Whether there is a pool to start an actor in.
    pub(crate) pool: bool,
}

/// What is to be done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Step<A> {
    Nothing,
    /// Start an actor.
    Start,
    /// Give it the first run, and the requests that wait for that.
    Drive(A),
    /// Tell it to stop.
    Stop(A),
    /// Pass the request on to it.
    PassOn(A),
}

impl<A> Phase<A> {
    /// Every phase, as it is told.
    pub(crate) const WORDS: [&str; 6] = ["idle", "waiting", "starting", "live", "stopping", "quarantined"];

    pub(crate) fn as_str(&self) -> &'static str {
        Phase::<A>::WORDS[self.index()]
    }

    /// Place among [`Phase::WORDS`].
    pub(crate) fn index(&self) -> usize {
        match self {
            Phase::Idle => 0,
            Phase::Waiting => 1,
            Phase::Starting => 2,
            Phase::Live { .. } => 3,
            Phase::Stopping => 4,
            Phase::Quarantined => 5,
        }
    }
}

impl<A: Clone> AgentLifecycle<A> {
    /// Of an agent that has no actor.
    pub(crate) fn new() -> AgentLifecycle<A> {
        AgentLifecycle { phase: Phase::Idle, passive: false }
    }

    /// Of an agent that is out of service.
    pub(crate) fn quarantined() -> AgentLifecycle<A> {
        AgentLifecycle { phase: Phase::Quarantined, passive: false }
    }

    pub(crate) fn phase(&self) -> &Phase<A> {
        &self.phase
    }

    pub(crate) fn is_quarantined(&self) -> bool {
        matches!(self.phase, Phase::Quarantined)
    }

    /// Whether the first run waits without an actor.
    pub(crate) fn is_passive(&self) -> bool {
        self.passive
    }

    /// Takes in what came, and says what is to be done.
    pub(crate) fn take(&mut self, input: Input<A>, around: LifecycleContext) -> Step<A> {
        match input {
            Input::Work => self.start(around),
            Input::Up(actor) if self.is_quarantined() => Step::Stop(actor),
            Input::Up(actor) => {
                self.phase = Phase::Live { actor, asked: 0 };
                self.go_on(around)
            }
            Input::RunOver => self.go_on(around),
            Input::Idle { run, asked } => match &self.phase {
                // A request on its way to it counts: then it says so again afterwards.
                Phase::Live { actor, asked: sent } if *sent == asked && around.first == Some(run) => {
                    let actor = actor.clone();
                    (self.phase, self.passive) = (Phase::Stopping, true);
                    Step::Stop(actor)
                }
                _ => Step::Nothing,
            },
            Input::Wake { run } => self.wake(run, around),
            Input::Asked { run } => match &mut self.phase {
                Phase::Live { actor, asked } if around.first == Some(run) => {
                    *asked += 1;
                    Step::PassOn(actor.clone())
                }
                _ => self.wake(run, around),
            },
            Input::Gone { .. } if self.is_quarantined() => Step::Nothing,
            Input::Gone { again: true } => {
                self.phase = Phase::Starting;
                Step::Nothing
            }
            Input::Gone { again: false } => self.none(around),
            Input::PoolUp if self.is_quarantined() => Step::Nothing,
            // Every actor is gone with the old pool.
            Input::PoolUp => self.none(around),
            Input::PoolGone { another } => match self.phase {
                Phase::Starting => {
                    self.phase = Phase::Idle;
                    if another { self.start(around) } else { Step::Nothing }
                }
                _ => Step::Nothing,
            },
            Input::NoPlace => {
                if matches!(self.phase, Phase::Starting) {
                    self.phase = Phase::Waiting;
                }
                Step::Nothing
            }
            Input::Called if matches!(self.phase, Phase::Waiting) => self.none(around),
            Input::Called => Step::Nothing,
            Input::GivenUp => {
                (self.phase, self.passive) = (Phase::Quarantined, false);
                Step::Nothing
            }
            Input::Released if self.is_quarantined() => self.none(around),
            Input::Released => Step::Nothing,
        }
    }

    /// There is no actor: starts one if there is something to do.
    fn none(&mut self, around: LifecycleContext) -> Step<A> {
        self.phase = Phase::Idle;
        self.start(around)
    }

    fn start(&mut self, around: LifecycleContext) -> Step<A> {
        match self.phase {
            Phase::Idle if around.first.is_some() && !self.passive && around.pool => {
                self.phase = Phase::Starting;
                Step::Start
            }
            // In any other phase the work is remembered: it is on the list.
            _ => Step::Nothing,
        }
    }

    /// Gives a live actor its next run, or lets it go.
    fn go_on(&mut self, around: LifecycleContext) -> Step<A> {
        let Phase::Live { actor, .. } = &self.phase else { return Step::Nothing };
        let actor = actor.clone();
        match around.first {
            Some(_) => {
                self.passive = false;
                Step::Drive(actor)
            }
            None => {
                self.phase = Phase::Stopping;
                Step::Stop(actor)
            }
        }
    }

    fn wake(&mut self, run: RunId, around: LifecycleContext) -> Step<A> {
        if around.first == Some(run) && std::mem::take(&mut self.passive) {
            self.start(around)
        } else {
            Step::Nothing
        }
    }
}

#[cfg(test)]
mod model;
