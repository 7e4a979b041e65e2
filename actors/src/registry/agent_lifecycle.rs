//! True if an agent has an actor: a pure state machine. The registry passes inputs and performs the returned step.
//!
//! `Idle -> Starting -> Live -> Stopping -> Idle`, with `Waiting` before the start when the pool is full, and
//! `Quarantined` from any state until a release. Inputs during `Starting` and `Stopping` need no memory of their own:
//! the work is on the list of runs, so no wake-up is lost. The model beside the file checks every order of inputs.

use ostler_kernel::id::RunId;

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum Phase<A> {
    /// No actor.
    Idle,
    /// In line for a place in the full pool.
    Waiting,
    Starting,
    /// Live, with the number of requests forwarded so far.
    Live {
        actor: A,
        asked: u64,
    },
    /// Told to stop.
    Stopping,
    /// Out of service.
    Quarantined,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct AgentLifecycle<A> {
    phase: Phase<A>,
    /// The first run only waits, and needs no actor.
    passive: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Input<A> {
    /// There may be work.
    Work,
    /// The actor has started.
    Up(A),
    /// A run has left the list.
    RunOver,
    /// The actor is idle with the run, after so many requests.
    Idle { run: RunId, asked: u64 },
    /// The deadline of a passive run has come.
    Wake { run: RunId },
    /// A request to a run on the list.
    Asked { run: RunId },
    /// The actor has ended; `again`: its supervisor restarts it.
    Gone { again: bool },
    /// The pool has started, without children.
    PoolUp,
    /// The pool had no place for the actor.
    NoPlace,
    /// The agent's turn to try for a place.
    Called,
    /// The pool ended before the actor started; `another`: a new pool exists.
    PoolGone { another: bool },
    /// The actor failed too often.
    GivenUp,
    /// A person released the agent.
    Released,
}

/// Context of the state machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct LifecycleContext {
    pub(crate) first: Option<RunId>,
    pub(crate) pool: bool,
}

/// What the registry must do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Step<A> {
    Nothing,
    /// Start an actor.
    Start,
    /// Send the actor the first run and its waiting requests.
    Drive(A),
    /// Tell the actor to stop.
    Stop(A),
    /// Forward the request to the actor.
    PassOn(A),
}

impl<A> Phase<A> {
    pub(crate) const WORDS: [&str; 6] = ["idle", "waiting", "starting", "live", "stopping", "quarantined"];

    pub(crate) fn as_str(&self) -> &'static str {
        Phase::<A>::WORDS[self.index()]
    }

    /// Index in [`Phase::WORDS`].
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
    pub(crate) fn new() -> AgentLifecycle<A> {
        AgentLifecycle { phase: Phase::Idle, passive: false }
    }

    pub(crate) fn quarantined() -> AgentLifecycle<A> {
        AgentLifecycle { phase: Phase::Quarantined, passive: false }
    }

    pub(crate) fn phase(&self) -> &Phase<A> {
        &self.phase
    }

    pub(crate) fn is_quarantined(&self) -> bool {
        matches!(self.phase, Phase::Quarantined)
    }

    /// True if the first run waits without an actor.
    pub(crate) fn is_passive(&self) -> bool {
        self.passive
    }

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
                // Not idle if a request is on its way: the actor reports idle again after it.
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
            // All actors ended with the old pool.
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
            // In any other phase the list of runs remembers the work.
            _ => Step::Nothing,
        }
    }

    /// Gives a live actor its next run, or stops it.
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
