//! A child of a pool in the table.

use std::sync::{Arc, Mutex};
use std::task::Waker;

use tokio::sync::oneshot;

use crate::child::{Attempt, ChildRef, Running};
use crate::child_table::Reserved;
use crate::completion::Completion;
use crate::intensity::Window;
use crate::status::ChildState;
use crate::{Cause, ChildSpec, ChildStatus, Exit, StartChildError, TerminateChildError};

pub(crate) struct Entry {
    pub(crate) spec: ChildSpec,
    /// Number of the first start; orders the children.
    pub(crate) ordinal: u64,
    pub(crate) generation: u64,
    pub(crate) restarts: u32,
    pub(crate) last_exit: Option<Box<Exit>>,
    /// Created at the first crash, if children have windows of their own.
    pub(crate) window: Option<Box<Window>>,
    pub(crate) state: State,
}

pub(crate) enum State {
    Starting(Starting),
    Up(Running),
    /// The child ended with `exit`, caused by `causes`; the restart of `incarnation` is queued.
    Restarting {
        incarnation: u64,
        exit: Exit,
        causes: Vec<Cause>,
    },
    Stopping(Stopping),
}

impl State {
    /// The start with the number, if it is under way.
    pub(crate) fn as_start(&mut self, incarnation: u64) -> Option<&mut Starting> {
        match self {
            State::Starting(starting) if starting.incarnation == incarnation => Some(starting),
            State::Starting(_) | State::Up(_) | State::Restarting { .. } | State::Stopping(_) => None,
        }
    }
}

pub(crate) struct Starting {
    pub(crate) incarnation: u64,
    pub(crate) completion: Arc<Completion>,
    pub(crate) waiters: Vec<Waiter>,
    pub(crate) is_restart: bool,
    /// The child ended before its start was recorded.
    pub(crate) gone: bool,
    pub(crate) progress: Progress,
}

impl Starting {
    /// Breaks the start off. A start that is being polled, or is over, notices next.
    pub(crate) fn abort_start(&mut self) {
        if let Progress::Parked(attempt, waker) = std::mem::take(&mut self.progress) {
            drop(attempt);
            waker.wake();
        }
    }
}

#[derive(Default)]
pub(crate) enum Progress {
    /// To be polled, or being polled.
    #[default]
    Polled,
    /// Waiting. Kept here, so that the start can be broken off even if the caller never polls again; the mutex is never
    /// locked, and only makes the shared table `Sync`.
    Parked(Mutex<Attempt>, Waker),
    /// The child runs and is being announced.
    Announced(ChildRef),
}

/// A stop under way, or an end that is still to be reported.
pub(crate) struct Stopping {
    pub(crate) incarnation: u64,
    pub(crate) completion: Arc<Completion>,
    /// The child; `None` if the start was broken off, or the child ended by itself.
    pub(crate) running: Option<Running>,
    pub(crate) waiting: Vec<oneshot::Sender<Result<(), TerminateChildError>>>,
    pub(crate) waiters: Vec<Waiter>,
}

/// The turn of a caller that wants the id of a starting or stopping child. Dropped afterwards, so that the caller
/// repeats the request; answered if the child is terminated meanwhile.
pub(crate) type Waiter = oneshot::Sender<StartChildError>;

impl Entry {
    /// The refusal of a second child with the same id. Copies the spec, which must not be dropped under the lock.
    pub(crate) fn refuse(&mut self, spec: &ChildSpec) -> Result<Reserved, StartChildError> {
        let id = spec.id.clone();
        match &mut self.state {
            State::Starting(Starting { waiters, is_restart: false, .. })
            | State::Stopping(Stopping { waiters, .. }) => {
                let (waiter, refused) = oneshot::channel();
                waiters.push(waiter);
                Ok(Reserved::Wait(spec.clone(), refused))
            }
            State::Up(running) => {
                let child = running.handle.child.clone();
                let live = child.is_live();
                let refused = StartChildError::AlreadyStarted { id, child };
                if live { Err(refused) } else { Ok(Reserved::MaybeStale(spec.clone(), refused)) }
            }
            State::Starting(_) | State::Restarting { .. } => Err(StartChildError::AlreadyPresent { id }),
        }
    }

    pub(crate) fn dismiss(&mut self) {
        match &mut self.state {
            State::Starting(Starting { waiters, .. }) | State::Stopping(Stopping { waiters, .. }) => {
                waiters.clear()
            }
            State::Up(_) | State::Restarting { .. } => {}
        }
    }

    pub(crate) fn status(&self) -> ChildStatus {
        let state = match &self.state {
            State::Starting(starting) if !starting.is_restart => ChildState::Starting,
            State::Starting(_) | State::Restarting { .. } => ChildState::Restarting,
            State::Up(running) => ChildState::Running(running.handle.child.clone()),
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
