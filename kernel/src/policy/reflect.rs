//! Mode reflect: steps run in levels, with a reflection behind each level (KAIJU §5).
//!
//! The edges between a level and its reflection, and between the reflection and the next level, are terminal: a reflection that
//! fails, or that cannot be had, never stops planned work.

use std::collections::BTreeMap;

use super::answer::Step;
use super::graft::{own_sources, wait_for};
use super::room::Room;
use super::{Role, View};
use crate::id::NodeId;
use crate::plan::Delta;

/// Adds a reflection behind each level of the steps, and lets the next level wait for it.
pub(super) fn gate(view: View<'_>, steps: &[&Step], room: &mut Room<'_>, delta: &mut Delta) {
    let mut number = 0;
    let mut gate: Option<NodeId> = None;
    for level in levels(steps) {
        if let Some(gate) = &gate {
            level.iter().for_each(|step| wait_for(delta, step, gate));
        }
        gate = room.take(Role::Reflect).then(|| {
            let id = view.next_id_after(Role::Reflect, number);
            number += 1;
            delta.add.push(view.control(Role::Reflect, id.clone(), level.iter().copied()));
            id
        });
    }
}

/// The steps by level: the longest path within their own answer.
fn levels<'s>(steps: &[&'s Step]) -> Vec<Vec<&'s NodeId>> {
    let mut level: BTreeMap<&NodeId, usize> = steps.iter().map(|step| (&step.id, 0)).collect();
    // The steps have no cycle, so a level is final after as many rounds as its path has steps.
    for _ in steps {
        for step in steps {
            let behind = own_sources(step, steps).map(|source| level[source] + 1).max().unwrap_or(0);
            level.insert(&step.id, behind);
        }
    }
    let mut levels = vec![Vec::new(); level.values().max().map_or(0, |most| most + 1)];
    level.into_iter().for_each(|(step, at)| levels[at].push(step));
    levels
}
