//! That nothing is done to the world on speculation: V12.

use super::super::fault::{Fault, FaultCode};
use super::super::{Dispatch, Join, On};
use super::Subject;

/// Names nodes with an effect that may turn out not to have been wanted: candidates of a parallel any_of that
/// nothing else requires, and what is done only for such a candidate.
///
/// The cone of a candidate holds those nodes. Where one candidate lies in the cone of another, its own cone is
/// part of it; else two cones share nothing, for what leads to both candidates only leads to one through the
/// other. So, with consumers first, each node is looked at once.
pub(super) fn judge(subject: &Subject<'_>, order: &[usize], faults: &mut Vec<Fault>) {
    let nodes = &subject.plan.nodes;
    let is_any_of = |at: usize| nodes[at].join == Some(Join::AnyOf);
    let races = |at: usize| is_any_of(at) && nodes[at].dispatch == Dispatch::Parallel;
    let successes = |at: usize| {
        subject.consumers[at].iter().filter(|&&(_, on)| on == On::Success).map(|&(consumer, _)| consumer)
    };
    let is_candidate = |at: usize| {
        !subject.is_output[at]
            && subject.consumers[at].iter().any(|&(consumer, _)| races(consumer))
            && successes(at).all(is_any_of)
    };
    // Success edges of a node that do not lead into a cone, as far as they were seen to.
    let mut outside: Vec<usize> = (0..nodes.len()).map(|at| successes(at).count()).collect();
    let mut in_cone = vec![false; nodes.len()];
    for &candidate in order.iter().rev() {
        if in_cone[candidate] || !is_candidate(candidate) {
            continue;
        }
        in_cone[candidate] = true;
        let mut cone = vec![candidate];
        let mut seen: Vec<usize> = Vec::new();
        while let Some(at) = cone.pop() {
            if nodes[at].reach().impact > 0 {
                faults.push(speculative(subject, at, candidate));
            }
            for &(source, on) in &subject.sources[at] {
                if on == On::Terminal {
                    continue;
                }
                outside[source] -= 1;
                seen.push(source);
                if outside[source] == 0 && !subject.is_output[source] && !in_cone[source] {
                    in_cone[source] = true;
                    cone.push(source);
                }
            }
        }
        for source in seen {
            outside[source] += 1; // the next cone is another
        }
    }
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
