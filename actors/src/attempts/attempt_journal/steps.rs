//! The steps of an attempt that are under way.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use ostler_kernel::event::StepKey;

/// Steps that are under way.
#[derive(Default)]
pub(super) struct Steps {
    pub(super) open: BTreeMap<String, Open>,
    /// Runs whose end is waited for.
    pub(super) waiting: u32,
    /// The slot was given back for that, and nobody has seen to it since.
    pub(super) lent: bool,
}

/// A step that is under way.
pub(super) struct Open {
    pub(super) key: StepKey,
    pub(super) acts: bool,
    /// It does nothing but wait for the end of a run that it opened.
    pub(super) waits: bool,
    /// The step that it is taken in.
    pub(super) around: Option<Arc<str>>,
}

impl Steps {
    /// Whether a run is waited for, and each step that is under way does nothing but that, or is around one that does.
    pub(super) fn only_wait(&self) -> bool {
        if self.waiting == 0 {
            return false;
        }
        let around = self.around_waiting();
        self.open.iter().all(|(id, open)| open.waits || around.contains(id.as_str()))
    }

    /// Whether a step acts on the world that is under way and does more than that.
    pub(super) fn any_acts(&self) -> bool {
        let around = self.around_waiting();
        self.open.iter().any(|(id, open)| open.acts && !open.waits && !around.contains(id.as_str()))
    }

    /// The steps around those that wait for a run.
    fn around_waiting(&self) -> BTreeSet<&str> {
        let mut waiting = BTreeSet::new();
        for open in self.open.values().filter(|open| open.waits) {
            let mut around = open.around.as_deref();
            // Whatever is around one that was seen was seen, too.
            while let Some(step) = around.filter(|step| waiting.insert(*step)) {
                around = self.open.get(step).and_then(|open| open.around.as_deref());
            }
        }
        waiting
    }
}
