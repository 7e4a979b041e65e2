//! That nothing is done to the world on speculation: V12.

use super::super::fault::{Fault, FaultCode};
use super::super::{Dispatch, Join, On};
use super::Subject;

/// Names nodes with an effect that may turn out not to have been wanted: candidates of a parallel any_of that
/// nothing else requires, and what is done only for such a candidate.
pub(super) fn judge(subject: &Subject<'_>, cones: &Cones, faults: &mut Vec<Fault>) {
    faults.extend((0..subject.plan.nodes.len()).filter_map(|at| node(subject, at, cones)));
}

/// The fault of one node.
pub(super) fn node(subject: &Subject<'_>, at: usize, Cones(cones): &Cones) -> Option<Fault> {
    let candidate = cones[at].filter(|_| subject.plan.nodes[at].reach().impact > 0)?;
    Some(speculative(subject, at, candidate))
}

/// Per node, the candidate in whose cone it is.
pub(super) struct Cones(Vec<Option<usize>>);

/// The cone of a candidate holds the nodes that may turn out not to have been wanted with it. Where one candidate lies in
/// the cone of another, its own cone is part of it; else two cones share nothing, for what leads to both candidates only
/// leads to one through the other. So, with consumers first, each node is looked at once.
pub(super) fn cones(subject: &Subject<'_>, order: &[usize]) -> Cones {
    let nodes = &subject.plan.nodes;
    let is_any_of = |at: usize| nodes[at].join == Some(Join::AnyOf);
    let races = |at: usize| is_any_of(at) && nodes[at].dispatch == Dispatch::Parallel;
    let successes = |at: usize| {
        subject.edges.consumers[at]
            .iter()
            .filter(|&&(_, on)| on == On::Success)
            .map(|&(consumer, _)| consumer)
    };
    let is_candidate = |at: usize| {
        !subject.edges.is_output[at]
            && subject.edges.consumers[at].iter().any(|&(consumer, _)| races(consumer))
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
            for &(source, on) in &subject.edges.sources[at] {
                if on == On::Terminal {
                    continue;
                }
                outside[source] -= 1;
                seen.push(source);
                if outside[source] == 0 && !subject.edges.is_output[source] && cones[source].is_none() {
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

fn speculative(subject: &Subject<'_>, at: usize, candidate: usize) -> Fault {
    let node = &subject.plan.nodes[at];
    let impact = node.reach().impact;
    let detail = if at == candidate {
        format!("has impact {impact} and races other candidates of a parallel any_of")
    } else {
        let raced = &subject.plan.nodes[candidate].id;
        format!("has impact {impact} and is done for {raced} alone, which races other candidates")
    };
    let mend = "use `dispatch: ordered`, which tries one candidate at a time, or make it an output";
    Fault::new(FaultCode::V12, &node.id, detail, mend).at(&subject.place(at).key("impact"))
}
