//! Panics that tests inject into actors. Outside of tests the type has no size and the call is empty.

#[cfg(test)]
use std::{collections::BTreeMap, sync::Mutex};

/// The actors that are to panic.
#[derive(Default)]
pub(crate) struct FaultInjector {
    /// Messages at which an actor panics, by its name.
    #[cfg(test)]
    panics: Mutex<BTreeMap<String, u32>>,
}

#[cfg(not(test))]
impl FaultInjector {
    pub(crate) fn inject_panic(&self, _actor: &str) {}
}

#[cfg(test)]
impl FaultInjector {
    /// Lets an actor panic at so many of its next messages.
    pub(crate) fn arm(&self, actor: &str, times: u32) {
        super::lock::lock(&self.panics).insert(actor.to_owned(), times);
    }

    /// Lets no actor panic any more.
    pub(crate) fn disarm_all(&self) {
        super::lock::lock(&self.panics).clear();
    }

    /// Panics if the actor is armed.
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
