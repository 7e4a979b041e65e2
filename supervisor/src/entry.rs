//! One child of a pool as the book keeps it: what it is, and what it is doing.

use std::sync::{Arc, Mutex};
use std::task::Waker;

use tokio::sync::oneshot;

use crate::book::Reserved;
use crate::child::{Attempt, ChildRef, Running};
use crate::completion::Completion;
use crate::intensity::Window;
use crate::status::ChildState;
use crate::{Cause, ChildSpec, ChildStatus, Exit, StartChildError, TerminateChildError};

/// One child as its pool keeps it.
pub(crate) struct Entry {
    pub(crate) spec: ChildSpec,
    /// Its first birth, and so its place in the order of first starts.
    pub(crate) ordinal: u64,
    pub(crate) generation: u64,
    /// How often it was brought up again.
    pub(crate) restarts: u32,
    /// How it ended last.
    pub(crate) last_exit: Option<Box<Exit>>,
    /// Made at its first crash, if children have windows of their own.
    pub(crate) window: Option<Box<Window>>,
    pub(crate) state: State,
}

/// What a child is doing.
pub(crate) enum State {
    Starting(Starting),
    Up(Running),
    /// It ended this way, because of what is below; the restart of that `birth` is due.
    Restarting {
        birth: u64,
        exit: Exit,
        causes: Vec<Cause>,
    },
    Stopping(Stopping),
}

impl State {
    /// The start `birth`, if this is it.
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
    /// Callers that want a child of the same id.
    pub(crate) turns: Vec<Turn>,
    /// Whether this is a restart.
    pub(crate) again: bool,
    /// The child ended before it was noted as up.
    pub(crate) gone: bool,
    pub(crate) progress: Progress,
}

impl Starting {
    /// Breaks the start off. If it is polled at this moment, or over, whoever has the ticket finds out next.
    pub(crate) fn break_off(&mut self) {
        if let Progress::Parked(attempt, waker) = std::mem::take(&mut self.progress) {
            drop(attempt);
            waker.wake();
        }
    }
}

/// How far a start has come.
#[derive(Default)]
pub(crate) enum Progress {
    /// It is still to be polled, or is polled.
    #[default]
    Polled,
    /// It waits for something. Kept here, so that it can be broken off whether or not its caller polls on; in a mutex that is never
    /// locked, because the book is shared and a future is not.
    Parked(Mutex<Attempt>, Waker),
    /// The child is up and is being announced.
    Announced(ChildRef),
}

/// A stop under way, or an end that is still to be told.
pub(crate) struct Stopping {
    pub(crate) birth: u64,
    pub(crate) completion: Arc<Completion>,
    /// The child, unless its start was broken off, or it ended by itself.
    pub(crate) running: Option<Running>,
    pub(crate) waiting: Vec<oneshot::Sender<Result<(), TerminateChildError>>>,
    /// Callers that want a child of the same id.
    pub(crate) turns: Vec<Turn>,
}

/// Of a caller that wants the id of a child whose start or stop is under way: dropped when that is over, so that the caller
/// asks again, and told why it need not if the child is terminated meanwhile.
pub(crate) type Turn = oneshot::Sender<StartChildError>;

impl Entry {
    /// What somebody hears who asks for another child of its id. Copies the spec, which is not to be dropped while the book is
    /// locked.
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

    /// Lets those go who wait for its place.
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
