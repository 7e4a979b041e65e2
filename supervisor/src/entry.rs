//! One child of a pool in the table.

use std::sync::{Arc, Mutex};
use std::task::Waker;

use tokio::sync::oneshot;

use crate::book::Reserved;
use crate::child::{Attempt, ChildRef, Running};
use crate::completion::Completion;
use crate::intensity::Window;
use crate::status::ChildState;
use crate::{Cause, ChildSpec, ChildStatus, Exit, StartChildError, TerminateChildError};

/// A child of a pool.
pub(crate) struct Entry {
    pub(crate) spec: ChildSpec,
    /// Number of its first start, which orders the children.
    pub(crate) ordinal: u64,
    pub(crate) generation: u64,
    /// Number of restarts.
    pub(crate) restarts: u32,
    /// Last exit.
    pub(crate) last_exit: Option<Box<Exit>>,
    /// Created at the first crash, if children have windows of their own.
    pub(crate) window: Option<Box<Window>>,
    pub(crate) state: State,
}

/// State of a child.
pub(crate) enum State {
    Starting(Starting),
    Up(Running),
    /// Ended this way, because of the failures below; the restart of `birth` is due.
    Restarting {
        birth: u64,
        exit: Exit,
        causes: Vec<Cause>,
    },
    Stopping(Stopping),
}

impl State {
    /// The start with this number, if it is under way.
    pub(crate) fn as_start(&mut self, birth: u64) -> Option<&mut Starting> {
        match self {
            State::Starting(starting) if starting.birth == birth => Some(starting),
            State::Starting(_) | State::Up(_) | State::Restarting { .. } | State::Stopping(_) => None,
        }
    }
}

/// A start under way.
pub(crate) struct Starting {
    pub(crate) birth: u64,
    pub(crate) completion: Arc<Completion>,
    /// Callers that want the same id.
    pub(crate) turns: Vec<Turn>,
    /// Whether this is a restart.
    pub(crate) again: bool,
    /// The child ended before its start was recorded.
    pub(crate) gone: bool,
    pub(crate) progress: Progress,
}

impl Starting {
    /// Breaks the start off. A start that is being polled, or is over, notices next.
    pub(crate) fn break_off(&mut self) {
        if let Progress::Parked(attempt, waker) = std::mem::take(&mut self.progress) {
            drop(attempt);
            waker.wake();
        }
    }
}

/// Progress of a start.
#[derive(Default)]
pub(crate) enum Progress {
    /// To be polled, or being polled.
    #[default]
    Polled,
    /// Waiting. Kept here, so that it can be broken off even if its caller never polls again; the mutex is never
    /// locked, it only makes the shared table `Sync`.
    Parked(Mutex<Attempt>, Waker),
    /// The child runs and is being announced.
    Announced(ChildRef),
}

/// A stop under way, or an end that is still to be reported.
pub(crate) struct Stopping {
    pub(crate) birth: u64,
    pub(crate) completion: Arc<Completion>,
    /// The child, unless its start was broken off, or it ended by itself.
    pub(crate) running: Option<Running>,
    pub(crate) waiting: Vec<oneshot::Sender<Result<(), TerminateChildError>>>,
    /// Callers that want the same id.
    pub(crate) turns: Vec<Turn>,
}

/// The turn of a caller that wants the id of a child whose start or stop is under way. Dropped when that is over, so
/// that the caller repeats its request; answered if the child is terminated meanwhile.
pub(crate) type Turn = oneshot::Sender<StartChildError>;

impl Entry {
    /// The refusal of a second child with the same id. Copies the spec, which must not be dropped under the lock.
    pub(crate) fn refuse(&mut self, spec: &ChildSpec) -> Result<Reserved, StartChildError> {
        let id = spec.id.clone();
        match &mut self.state {
            State::Starting(Starting { turns, again: false, .. })
            | State::Stopping(Stopping { turns, .. }) => {
                let (turn, refused) = oneshot::channel();
                turns.push(turn);
                Ok(Reserved::Wait(spec.clone(), refused))
            }
            State::Up(running) => {
                let child = running.leash.child.clone();
                let live = child.is_live();
                let refused = StartChildError::AlreadyStarted { id, child };
                if live { Err(refused) } else { Ok(Reserved::Doubtful(spec.clone(), refused)) }
            }
            State::Starting(_) | State::Restarting { .. } => Err(StartChildError::AlreadyPresent { id }),
        }
    }

    /// Dismisses the callers that wait for the entry.
    pub(crate) fn dismiss(&mut self) {
        match &mut self.state {
            State::Starting(Starting { turns, .. }) | State::Stopping(Stopping { turns, .. }) => {
                turns.clear()
            }
            State::Up(_) | State::Restarting { .. } => {}
        }
    }

    pub(crate) fn status(&self) -> ChildStatus {
        let state = match &self.state {
            State::Starting(starting) if !starting.again => ChildState::Starting,
            State::Starting(_) | State::Restarting { .. } => ChildState::Restarting,
            State::Up(running) => ChildState::Running(running.leash.child.clone()),
            State::Stopping(_) => ChildState::Stopping,
        };
        ChildStatus {
            id: self.spec.id.clone(),
            state,
            kind: self.spec.kind,
            restart: self.spec.restart,
            generation: self.generation,
            restarts: self.restarts.into(),
            last_exit: self.last_exit.as_deref().cloned(),
        }
    }
}
