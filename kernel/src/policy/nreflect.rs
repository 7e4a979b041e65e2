//! Mode nreflect: a reflection over every so many results (KAIJU §5). Reflections hold nothing back.

use super::{Role, View};
use crate::plan::Delta;

/// A reflection over all uncovered evidence, once there are `results` of it and no reflection is under way.
pub(super) fn review(view: View<'_>, results: u32) -> Option<Delta> {
    let uncovered = view.uncovered();
    let is_due = uncovered.len() >= results as usize
        && !view.of_role(Role::Reflect).any(|(_, instance)| instance.is_live())
        && view.fits(Role::Reflect);
    is_due.then(|| {
        let id = view.next_id(Role::Reflect);
        Delta { add: vec![view.control(Role::Reflect, id, uncovered)], ..Delta::default() }
    })
}
