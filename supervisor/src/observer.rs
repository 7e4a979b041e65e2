//! What the outside may hear: every start, exit and surrender, as it happens.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use crate::child::ChildRef;
use crate::exit::discard;
use crate::{Cause, ChildId, Exit};

/// Hears everything that happens in a tree, for counting and logging.
///
/// Called in order for each child, before its supervisor does anything else with it: it must be
/// quick and must not block. In a pool, different children may be spoken of at the same time. A panic
/// in it is logged and otherwise ignored.
///
/// ```
/// # use ostler_supervisor::{Event, Observer, What};
/// let observer = |event: &Event<'_>| {
///     if let What::GivenUp { exit } = event.what {
///         println!("{}{} is given up after {exit}", event.tree, event.id);
///     }
/// };
/// fn takes(_: impl Observer) {}
/// takes(observer);
/// ```
pub trait Observer: Send + Sync {
    /// Called once for every event.
    fn observe(&self, event: &Event<'_>);
}

impl<F: Fn(&Event<'_>) + Send + Sync> Observer for F {
    fn observe(&self, event: &Event<'_>) {
        self(event);
    }
}

/// Something that happened to a child.
#[derive(Debug, Clone, Copy)]
pub struct Event<'a> {
    /// The path of its supervisor: `/` for the root, `/agents/` for the root's child `agents`.
    pub tree: &'a str,
    /// The child.
    pub id: &'a ChildId,
    /// Which start of the child this is about: 1 for the first, one more for every attempt.
    pub generation: u64,
    /// What happened.
    pub what: What<'a>,
}

/// What happened to a child.
#[derive(Debug, Clone, Copy)]
pub enum What<'a> {
    /// It is up for the first time, or was started by hand.
    Started {
        /// The fresh reference.
        child: &'a ChildRef,
    },
    /// Its supervisor has brought it up again.
    Restarted {
        /// The fresh reference.
        child: &'a ChildRef,
    },
    /// It declined to run.
    Ignored,
    /// It did not come up.
    StartFailed {
        /// How its start ended.
        exit: &'a Exit,
    },
    /// It is gone, its state dropped.
    Exited {
        /// How it ended.
        exit: &'a Exit,
        /// Whether its supervisor had asked it to stop.
        asked: bool,
    },
    /// It was killed and still runs after [`crate::KILL_GRACE`]: some code of it never yields.
    /// Its supervisor goes on without it.
    Unkillable,
    /// It used up its own restart window in a pool and leaves the pool.
    GivenUp {
        /// How it ended last.
        exit: &'a Exit,
    },
    /// It used up the restart window of its supervisor, which therefore ends.
    Escalated {
        /// How it ended last.
        exit: &'a Exit,
    },
}

/// One supervisor's voice: its path and the observer of the whole tree.
#[derive(Clone)]
pub(crate) struct Voice {
    observer: Option<Arc<dyn Observer>>,
    tree: Arc<str>,
}

impl Voice {
    /// The voice of a root supervisor.
    pub(crate) fn root(observer: Option<Arc<dyn Observer>>) -> Self {
        Voice { observer, tree: "/".into() }
    }

    /// The voice of the child supervisor `id`.
    pub(crate) fn below(&self, id: &ChildId) -> Self {
        Voice { observer: self.observer.clone(), tree: format!("{}{id}/", self.tree).into() }
    }

    /// Whether there is an observer.
    pub(crate) fn is_heard(&self) -> bool {
        self.observer.is_some()
    }

    /// Says that a child is up again, and whose end led to it: its own, or that of a sibling of its group.
    pub(crate) fn say_restarted(&self, id: &ChildId, generation: u64, child: &ChildRef, cause: &Cause) {
        let (tree, because_of, exit) = (&*self.tree, &cause.id, &cause.exit);
        tracing::info!(tree, %id, generation, %because_of, %exit, "child restarted");
        self.say(id, generation, What::Restarted { child });
    }

    /// Says what happened, to the log and to the observer.
    pub(crate) fn say(&self, id: &ChildId, generation: u64, what: What<'_>) {
        let tree = &*self.tree;
        match what {
            What::Started { .. } => tracing::debug!(tree, %id, generation, "child started"),
            // Told by `say_restarted`, which knows why.
            What::Restarted { .. } => {}
            What::Ignored => tracing::debug!(tree, %id, generation, "child declined to run"),
            What::StartFailed { exit } => {
                tracing::warn!(tree, %id, generation, %exit, "child did not start");
            }
            What::Exited { exit, asked } if exit.is_abnormal() => {
                tracing::warn!(tree, %id, generation, %exit, asked, "child ended");
            }
            What::Exited { exit, asked } => {
                tracing::debug!(tree, %id, generation, %exit, asked, "child ended");
            }
            What::Unkillable => tracing::error!(tree, %id, generation, "child cannot be killed"),
            What::GivenUp { exit } => tracing::error!(tree, %id, generation, %exit, "child given up"),
            What::Escalated { exit } => {
                tracing::error!(tree, %id, generation, %exit, "too many restarts, supervisor ends");
            }
        }
        if let Some(observer) = &self.observer {
            let event = Event { tree, id, generation, what };
            shielded("observer", || observer.observe(&event));
        }
    }
}

/// Runs a hook of the embedding program; its panic must not take the tree down.
pub(crate) fn shielded(hook: &'static str, run: impl FnOnce()) {
    if let Err(payload) = catch_unwind(AssertUnwindSafe(run)) {
        discard(payload);
        tracing::error!(hook, "a hook panicked");
    }
}
