//! That nothing is done to the world on speculation: V12.

use super::super::diagnostic::{Diagnostic, DiagnosticCode};
use super::super::{Dispatch, Join, On};
use super::IndexedPlan;

/// Names nodes with an effect that may turn out not to have been wanted: candidates of a parallel any_of that
/// nothing else requires, and what is done only for such a candidate.
pub(super) fn check(indexed: &IndexedPlan<'_>, cones: &Cones, faults: &mut Vec<Diagnostic>) {
    faults.extend((0..indexed.plan.nodes.len()).filter_map(|at| node(indexed, at, cones)));
}

/// The fault of one node.
pub(super) fn node(indexed: &IndexedPlan<'_>, at: usize, Cones(cones): &Cones) -> Option<Diagnostic> {
    let candidate = cones[at].filter(|_| indexed.plan.nodes[at].reach().impact > 0)?;
    Some(speculative(indexed, at, candidate))
}

/// Per node, the candidate in whose cone it is.
pub(super) struct Cones(Vec<Option<usize>>);

/// The cone of a candidate holds the nodes that may turn out not to have been wanted with it. Where one candidate lies in
/// the cone of another, its own cone is part of it; else two cones share nothing, for what leads to both candidates only
/// leads to one through the other. So, with consumers first, each node is looked at once.
pub(super) fn cones(indexed: &IndexedPlan<'_>, order: &[usize]) -> Cones {
    let nodes = &indexed.plan.nodes;
    let is_any_of = |at: usize| nodes[at].join == Some(Join::AnyOf);
    let races = |at: usize| is_any_of(at) && nodes[at].dispatch == Dispatch::Parallel;
    let successes = |at: usize| {
        indexed.edges.consumers[at]
            .iter()
            .filter(|&&(_, on)| on == On::Success)
            .map(|&(consumer, _)| consumer)
    };
    let is_candidate = |at: usize| {
        !indexed.edges.is_output[at]
            && indexed.edges.consumers[at].iter().any(|&(consumer, _)| races(consumer))
            && successes(at).all(is_any_of)
    };
    // Success edges of a node that do not lead into a cone, as far as they were seen to.
    let mut outside: Vec<usize> = (0..nodes.len()).map(|at| successes(at).count()).collect();
    let mut cones = vec![None; nodes.len()];
    for &candidate in order.iter().rev() {
        if cones[candidate].is_some() || !is_candidate(candidate) {
            continue;
        }
        cones[candidate] = Some(candidate);
        let mut cone = vec![candidate];
        let mut seen: Vec<usize> = Vec::new();
        while let Some(at) = cone.pop() {
            for &(source, on) in &indexed.edges.sources[at] {
                if on == On::Terminal {
                    continue;
                }
                outside[source] -= 1;
                seen.push(source);
                if outside[source] == 0 && !indexed.edges.is_output[source] && cones[source].is_none() {
                    cones[source] = Some(candidate);
                    cone.push(source);
                }
            }
        }
        for source in seen {
            outside[source] += 1; // the next cone is another
        }
    }
    Cones(cones)
}

fn speculative(indexed: &IndexedPlan<'_>, at: usize, candidate: usize) -> Diagnostic {
    let node = &indexed.plan.nodes[at];
    let impact = node.reach().impact;
    let detail = if at == candidate {
        format!("has impact {impact} and races other candidates of a parallel any_of")
    } else {
        let raced = &indexed.plan.nodes[candidate].id;
        format!("has impact {impact} and is done for {raced} alone, which races other candidates")
    };
    let help = "use `dispatch: ordered`, which tries one candidate at a time, or make it an output";
    Diagnostic::new(DiagnosticCode::V12, &node.id, detail, help).at(&indexed.place(at).key("impact"))
}
