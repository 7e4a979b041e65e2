//! The running steps of an attempt.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use ostler_kernel::event::StepKey;

#[derive(Default)]
pub(super) struct Steps {
    pub(super) open: BTreeMap<String, Open>,
    pub(super) waiting: u32,
    /// The slot was yielded for that, and not asked back.
    pub(super) lent: bool,
}

pub(super) struct Open {
    pub(super) key: StepKey,
    pub(super) acts: bool,
    /// The step only waits for a child run.
    pub(super) waits: bool,
    pub(super) around: Option<Arc<str>>,
}

impl Steps {
    /// True if a child run is waited for, and every running step waits for one or encloses one that does.
    pub(super) fn only_wait(&self) -> bool {
        if self.waiting == 0 {
            return false;
        }
        let around = self.around_waiting();
        self.open.iter().all(|(id, open)| open.waits || around.contains(id.as_str()))
    }

    /// True if a running step acts on the world and does more than wait.
    pub(super) fn any_acts(&self) -> bool {
        let around = self.around_waiting();
        self.open.iter().any(|(id, open)| open.acts && !open.waits && !around.contains(id.as_str()))
    }

    fn around_waiting(&self) -> BTreeSet<&str> {
        let mut waiting = BTreeSet::new();
        for open in self.open.values().filter(|open| open.waits) {
            let mut around = open.around.as_deref();
            // Steps around one that was visited were visited too.
            while let Some(step) = around.filter(|step| waiting.insert(*step)) {
                around = self.open.get(step).and_then(|open| open.around.as_deref());
            }
        }
        waiting
    }
}
