//! The graph of a run as a drawing: the boxes and arrows that the dot and mermaid forms share.

mod dot;
mod mermaid;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

use ostler_server::wire::{GraphNode, GraphView};

use crate::cli::output::labels;
use crate::cli::output::units::date;

pub(crate) use dot::dot;
pub(crate) use mermaid::mermaid;

/// A node, or all nodes of a list.
struct Shape {
    /// Lines of the label; texts of plans, so any characters.
    lines: Vec<String>,
    fill: &'static str,
    is_output: bool,
    is_critical: bool,
}

struct Arrow {
    from: usize,
    to: usize,
    /// The dependent node starts also if the dependency has failed.
    on_terminal: bool,
    is_critical: bool,
}

struct Drawing {
    title: String,
    shapes: Vec<Shape>,
    arrows: Vec<Arrow>,
}

impl Drawing {
    /// The children of a list are drawn with their collector, in one shape.
    fn of(graph: &GraphView) -> Drawing {
        let mut children: BTreeMap<&str, Vec<&GraphNode>> = BTreeMap::new();
        for node in &graph.nodes {
            if let Some(list) = &node.list {
                children.entry(list).or_default().push(node);
            }
        }
        let ids: BTreeSet<&str> = graph.nodes.iter().map(|node| node.id.as_str()).collect();
        let is_folded = |node: &GraphNode| node.list.as_deref().is_some_and(|list| ids.contains(list));
        let (mut places, mut shapes) = (BTreeMap::new(), Vec::new());
        for node in graph.nodes.iter().filter(|node| !is_folded(node)) {
            places.insert(node.id.as_str(), shapes.len());
            let items = children.get(node.id.as_str()).map(Vec::as_slice).unwrap_or_default();
            shapes.push(shape(node, items, graph.outputs.contains(&node.id)));
        }
        for node in graph.nodes.iter().filter(|node| is_folded(node)) {
            let list = node.list.as_deref().and_then(|list| places.get(list)).copied();
            places.extend(list.map(|at| (node.id.as_str(), at)));
        }
        let critical: BTreeSet<&str> =
            graph.nodes.iter().filter(|node| node.critical).map(|node| node.id.as_str()).collect();
        let (mut arrows, mut seen) = (Vec::<Arrow>::new(), BTreeMap::new());
        for edge in &graph.edges {
            let ends = places.get(edge.from.as_str()).zip(places.get(edge.to.as_str()));
            let Some((&from, &to)) = ends.filter(|(from, to)| from != to) else { continue };
            let is_critical = critical.contains(edge.from.as_str()) && critical.contains(edge.to.as_str());
            let on_terminal = edge.on == "terminal";
            let at = *seen.entry((from, to, on_terminal)).or_insert_with(|| {
                arrows.push(Arrow { from, to, on_terminal, is_critical: false });
                arrows.len() - 1
            });
            arrows[at].is_critical |= is_critical;
        }
        Drawing { title: graph.plan.clone(), shapes, arrows }
    }
}

fn shape(node: &GraphNode, items: &[&GraphNode], is_output: bool) -> Shape {
    let mut lines = vec![node.id.clone()];
    if items.is_empty() {
        lines.push(node.uses.clone().unwrap_or_else(|| node.kind.clone()));
    } else {
        lines[0] = format!("{} {}", node.id, counts(items));
        lines.extend(items.iter().find_map(|item| item.uses.clone()));
    }
    let state = labels::state(&node.state);
    lines.push(match &node.reuse {
        Some(reuse) => reuse.replace('_', " "),
        None => state.to_owned(),
    });
    lines.extend(node.deadline_ms.map(|at| format!("until {}", date(at))));
    if let (Some(undoes), Some(round)) = (&node.undoes, node.round) {
        lines.push(format!("undoes {undoes}, round {round}"));
    }
    let is_critical = node.critical || items.iter().any(|item| item.critical);
    Shape { lines, fill: fill(node, items), is_output, is_critical }
}

/// Executed of all, and the other ends: `48/50, 2 failed`.
fn counts(items: &[&GraphNode]) -> String {
    let mut states: BTreeMap<&str, usize> = BTreeMap::new();
    for item in items {
        *states.entry(labels::state(&item.state)).or_default() += 1;
    }
    let executed = states.remove("executed").unwrap_or(0);
    let others = states.iter().map(|(state, many)| format!(", {many} {state}")).collect::<String>();
    format!("{executed}/{}{others}", items.len())
}

fn fill(node: &GraphNode, items: &[&GraphNode]) -> &'static str {
    let has_failed = items.iter().any(|item| item.state == "failed");
    match (node.state.as_str(), node.reuse.as_deref()) {
        ("executed", _) if has_failed => "#fbe3a4",
        ("executed", Some("reused" | "revalidated" | "kept")) => "#d0e7ff",
        ("executed", Some("cut_off")) => "#e2d9f3",
        ("executed", Some("edited")) => "#ffd9b3",
        ("executed", _) => "#b7e4c7",
        ("failed", _) => "#f4a6a6",
        ("cancelled", _) => "#e5c1c1",
        ("skipped", _) => "#e5e5e5",
        ("running", _) => "#a9d6f5",
        ("waiting_human" | "failed_retryable" | "blocked", _) => "#fbe3a4",
        _ => "#ffffff",
    }
}

/// Colour of the critical path.
const CRITICAL: &str = "#c0392b";
