//! Which nodes the settling still has to look at, in passes of ascending id. A node that is not in here has no
//! step to make, so looking only at these gives the very order that looking at all of them would.

use std::collections::BTreeSet;

#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Dirty {
    /// To be looked at in this pass, all above `passed`.
    now: BTreeSet<usize>,
    /// To be looked at in the next one.
    next: BTreeSet<usize>,
    /// The last node looked at in this pass.
    passed: Option<usize>,
    /// How many nodes were looked at since the plan was last changed.
    #[cfg(test)]
    pub(super) looks: usize,
}

impl Dirty {
    pub(super) fn mark(&mut self, at: usize) {
        if self.passed.is_none_or(|passed| at > passed) {
            self.now.insert(at);
        } else {
            self.next.insert(at);
        }
    }

    pub(super) fn mark_all(&mut self, nodes: usize) {
        (0..nodes).for_each(|at| self.mark(at));
    }

    /// The next node to look at; `None` once there is none left, which ends the passes.
    pub(super) fn take(&mut self) -> Option<usize> {
        if self.now.is_empty() {
            std::mem::swap(&mut self.now, &mut self.next);
            self.passed = None;
        }
        let at = self.now.pop_first()?;
        self.passed = Some(at);
        #[cfg(test)]
        {
            self.looks += 1;
        }
        Some(at)
    }

    /// Forgets everything: the indices are about to change.
    pub(super) fn clear(&mut self) {
        *self = Dirty::default();
    }
}
