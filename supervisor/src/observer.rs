//! Observers of a tree: every start, exit and surrender.

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
/// # use ostler_supervisor::{ChildEvent, Event, Observer};
/// let observer = |event: &Event<'_>| {
///     if let ChildEvent::GivenUp { exit } = event.kind {
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

/// An event of a child.
#[derive(Debug, Clone, Copy)]
pub struct Event<'a> {
    /// Path of the supervisor: `/` for the root, `/agents/` for the root's child `agents`.
    pub tree: &'a str,
    /// The child.
    pub id: &'a ChildId,
    /// Number of the start, from 1, failed attempts included.
    pub generation: u64,
    /// The event.
    pub kind: ChildEvent<'a>,
}

/// Kinds of events.
#[derive(Debug, Clone, Copy)]
pub enum ChildEvent<'a> {
    /// The child runs for the first time, or was started by hand.
    Started {
        /// The new reference.
        child: &'a ChildRef,
    },
    /// The supervisor restarted the child.
    Restarted {
        /// The new reference.
        child: &'a ChildRef,
    },
    /// The child declined to run.
    Ignored,
    /// The child failed to start.
    StartFailed {
        /// The exit of its start.
        exit: &'a Exit,
    },
    /// The child is gone, its state dropped.
    Exited {
        /// The exit.
        exit: &'a Exit,
        /// The supervisor had asked it to stop.
        asked: bool,
    },
    /// The child still runs [`crate::KILL_GRACE`] after a kill: some of its code never yields. The supervisor continues
    /// without the child.
    Unkillable,
    /// The child exhausted its own restart window in a pool and leaves the pool.
    GivenUp {
        /// The last exit.
        exit: &'a Exit,
    },
    /// The child exhausted its supervisor's restart window; the supervisor ends.
    Escalated {
        /// The last exit.
        exit: &'a Exit,
    },
}

/// The event sink of one supervisor: its path, and the observer of the tree.
#[derive(Clone)]
pub(crate) struct EventSink {
    observer: Option<Arc<dyn Observer>>,
    tree: Arc<str>,
}

impl EventSink {
    pub(crate) fn root(observer: Option<Arc<dyn Observer>>) -> Self {
        EventSink { observer, tree: "/".into() }
    }

    /// The sink of the child supervisor `id`.
    pub(crate) fn child_sink(&self, id: &ChildId) -> Self {
        EventSink { observer: self.observer.clone(), tree: format!("{}{id}/", self.tree).into() }
    }

    /// True if there is an observer.
    pub(crate) fn has_observer(&self) -> bool {
        self.observer.is_some()
    }

    /// Reports a restart and the end that caused it: the child's own, or a sibling's in the same group.
    pub(crate) fn emit_restarted(&self, id: &ChildId, generation: u64, child: &ChildRef, cause: &Cause) {
        let (tree, because_of, exit) = (&*self.tree, &cause.id, &cause.exit);
        tracing::info!(tree, %id, generation, %because_of, %exit, "child restarted");
        self.emit(id, generation, ChildEvent::Restarted { child });
    }

    /// Reports an event to the log and the observer.
    pub(crate) fn emit(&self, id: &ChildId, generation: u64, kind: ChildEvent<'_>) {
        let tree = &*self.tree;
        match kind {
            ChildEvent::Started { .. } => tracing::debug!(tree, %id, generation, "child started"),
            // Reported by `say_restarted`, which knows the cause.
            ChildEvent::Restarted { .. } => {}
            ChildEvent::Ignored => tracing::debug!(tree, %id, generation, "child declined to run"),
            ChildEvent::StartFailed { exit } => {
                tracing::warn!(tree, %id, generation, %exit, "child did not start");
            }
            ChildEvent::Exited { exit, asked } if exit.is_abnormal() => {
                tracing::warn!(tree, %id, generation, %exit, asked, "child ended");
            }
            ChildEvent::Exited { exit, asked } => {
                tracing::debug!(tree, %id, generation, %exit, asked, "child ended");
            }
            ChildEvent::Unkillable => tracing::error!(tree, %id, generation, "child cannot be killed"),
            ChildEvent::GivenUp { exit } => tracing::error!(tree, %id, generation, %exit, "child given up"),
            ChildEvent::Escalated { exit } => {
                tracing::error!(tree, %id, generation, %exit, "too many restarts, supervisor ends");
            }
        }
        if let Some(observer) = &self.observer {
            let event = Event { tree, id, generation, kind };
            shielded("observer", || observer.observe(&event));
        }
    }
}

/// Runs a hook of the embedding program; its panic must not end the tree.
pub(crate) fn shielded(hook: &'static str, run: impl FnOnce()) {
    if let Err(payload) = catch_unwind(AssertUnwindSafe(run)) {
        discard(payload);
        tracing::error!(hook, "a hook panicked");
    }
}
