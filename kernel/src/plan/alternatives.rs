//! Further calls of a node: its fallback and its undo.

use std::collections::BTreeSet;

use super::contract_rules::PatternBudget;
use super::set_fields::set;
use super::undo::{Place, undo_node};
use super::{Node, Settings};

/// The node after its fallback; `None` without one. Meant for nodes of a plan that is valid under `settings`.
pub fn with_fallback(node: &Node, settings: &Settings<'_>) -> Option<Node> {
    let fields = node.fallback.as_ref()?;
    let mut patched = Node { fallback: None, ..node.clone() };
    // A valid plan has no faults here.
    set(&mut patched, fields, settings, &mut PatternBudget::default(), &mut Vec::new());
    Some(patched)
}

/// The node that undoes the effect of `node`, with at least the impact of its tool; `None` without one.
pub fn undoing(node: &Node, settings: &Settings<'_>) -> Option<Node> {
    let undo = node.undo.as_deref()?;
    let first = Place { round: 1, turn: 0, intent: None };
    let mut made = undo_node(node, undo, first, BTreeSet::new());
    if let Some(known) = settings.tools.and_then(|tools| tools.defaults(&undo.tool, &undo.params)) {
        made.impact = made.impact.max(known.impact);
    }
    Some(made)
}
