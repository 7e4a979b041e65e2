//! Speculative effects: V12.
//!
//! A parallel `any_of` starts all its candidates and cancels the losers, so a candidate needed by nothing
//! else must not have an effect: the effect may turn out unwanted. The same holds for every node that only
//! such a candidate needs, its *cone*.

use super::super::diagnostic::{Diagnostic, DiagnosticCode};
use super::super::{Dispatch, Join, On};
use super::IndexedPlan;

/// Reports nodes with an effect in the cone of a racing candidate.
pub(super) fn check(indexed: &IndexedPlan<'_>, cones: &Cones, faults: &mut Vec<Diagnostic>) {
    faults.extend((0..indexed.plan.nodes.len()).filter_map(|at| node(indexed, at, cones)));
}

pub(super) fn node(indexed: &IndexedPlan<'_>, at: usize, Cones(cones): &Cones) -> Option<Diagnostic> {
    let candidate = cones[at].filter(|_| indexed.plan.nodes[at].reach().impact > 0)?;
    Some(speculative(indexed, at, candidate))
}

/// Per node: the candidate whose cone contains the node.
pub(super) struct Cones(Vec<Option<usize>>);

/// Computes the cones in O(V + E).
///
/// The cone of a candidate is the smallest set with the candidate in it and, for every node not an output,
/// the node itself once all its success edges lead into the set. `outside[n]` counts success edges of `n`
/// that do not lead into the cone under construction; a node joins the cone when its counter reaches 0.
/// Counters are restored after each cone.
///
/// Consumers come before sources, so if one candidate lies in the cone of another, the outer cone is built
/// first and contains the inner one. Otherwise two cones are disjoint: a node leading to both candidates
/// would have success edges outside either cone. Each node therefore joins one cone only.
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
        format!("has impact {impact} and competes with other candidates of a parallel any_of")
    } else {
        let raced = &indexed.plan.nodes[candidate].id;
        format!(
            "has impact {impact} and runs only for {raced}, which competes with other candidates of a parallel any_of"
        )
    };
    let help = "use `dispatch: ordered` to try one candidate at a time, or make the node an output";
    Diagnostic::new(DiagnosticCode::V12, &node.id, detail, help).at(&indexed.place(at).key("impact"))
}
