//! Panics that tests inject into actors. Outside of tests the type has no size and the call is empty.

#[cfg(test)]
use std::{collections::BTreeMap, sync::Mutex};

#[derive(Default)]
pub(crate) struct FaultInjector {
    /// Number of messages at which an actor panics, by its name.
    #[cfg(test)]
    panics: Mutex<BTreeMap<String, u32>>,
}

#[cfg(not(test))]
impl FaultInjector {
    pub(crate) fn inject_panic(&self, _actor: &str) {}
}

#[cfg(test)]
impl FaultInjector {
    /// Makes an actor panic at its next `times` messages.
    pub(crate) fn arm(&self, actor: &str, times: u32) {
        super::lock::lock(&self.panics).insert(actor.to_owned(), times);
    }

    pub(crate) fn disarm_all(&self) {
        super::lock::lock(&self.panics).clear();
    }

    pub(crate) fn inject_panic(&self, actor: &str) {
        let mut panics = super::lock::lock(&self.panics);
        let Some(left) = panics.get_mut(actor) else { return };
        *left -= 1;
        if *left == 0 {
            panics.remove(actor);
        }
        drop(panics);
        panic!("{actor} was to panic");
    }
}
