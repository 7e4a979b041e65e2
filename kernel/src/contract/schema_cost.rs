//! Upper bounds on the evaluation steps of a schema, computed before any evaluation.
//!
//! An evaluation cannot be interrupted, and a small schema can be exponentially expensive: forty definitions,
//! each with `allOf` of two references to the next, take 2^40 steps. A step is one subschema applied to one
//! value, with every reference followed.
//!
//! The schema graph has two kinds of edges. *Same-value* edges (`allOf`, `$ref`, `if`, …) apply another
//! subschema to the same value; *within* edges (`properties`, `items`, …) apply a subschema to a member or an
//! item. A cycle of same-value edges never terminates and is rejected as [`SchemaError::Endless`]; without
//! such a cycle the same-value edges form a DAG, and one pass over its nodes in topological order sums the
//! steps of each node.
//!
//! Within edges may be cyclic, because each one descends into the value. The pass is therefore repeated per
//! depth: `steps(d)` of a node uses `steps(d - 1)` for the parts of the value. Keywords such as `properties`
//! apply one of their subschemas to a part (take the maximum), others such as `contains` apply all (take the
//! sum). The result is the cost along one path of a value; multiplied by the number of values in the
//! document, the result bounds the whole evaluation. `unevaluatedProperties` and `unevaluatedItems` evaluate
//! earlier subschemas again and are counted twice.
//!
//! A keyword that reads a text, such as `pattern`, takes time in proportion to the bytes of the text. The same
//! pass sums the cost per byte along a path; multiplied by the bytes of all texts in the document, the sum
//! bounds the reading.

use serde_json::Value;

use super::evaluation_steps::{Visited, Visits};
use super::excerpt;
use super::keyword_cost::{BYTES_PER_STEP, Extent, own_reading, own_steps};
use super::patterns::PatternSizes;
use super::schema::SchemaError;
use super::schema_graph::{LIST, MAP, Role, Subschema, schema_graph};
use crate::json::MAX_DEPTH;

/// Most steps of a schema for one value, excluding the parts of the value.
pub const SCHEMA_STEPS_MAX: u64 = 10_000;

/// Longest chain of subschemas for one value. The engine descends along such a chain.
pub const SCHEMA_CHAIN_MAX: u64 = 500;

/// Most subschemas that the engine is in at once while it evaluates a value: the longest chain, for each level of the value.
const EVALUATION_DEPTH_MAX: u64 = 4_000;

/// Most subschemas that `unevaluated…` compiles again.
const RECOMPILED_MAX: u64 = 100_000;

/// Most steps of one evaluation.
pub const JUDGEMENT_STEPS_MAX: u64 = 100_000_000;

/// Bytes of a violation that the schema engine collects, without the path of its value.
const VIOLATION_BYTES: u64 = 512;

/// Costs along one path of a value, by the depth of the value. Deeper values cost as much as the last entry.
#[derive(Debug)]
pub(super) struct SchemaCost {
    /// Steps for each value.
    steps: Vec<u64>,
    /// Steps for [`BYTES_PER_STEP`] bytes of text.
    reading: Vec<u64>,
    /// Length of the longest chain of subschemas for one value.
    chain: u64,
    visits: Option<Visits>,
}

impl SchemaCost {
    /// Bounds the steps of a compiled schema.
    ///
    /// # Errors
    ///
    /// The schema takes too many steps, or never terminates.
    pub(super) fn of(schema: &Value, patterns: &PatternSizes) -> Result<SchemaCost, SchemaError> {
        let both =
            |subschema: &Subschema<'_>| (CostNode::of(subschema, patterns), Visited::of(subschema, patterns));
        let (nodes, visited): (Vec<CostNode>, Vec<Option<Visited>>) =
            schema_graph(schema, both)?.into_iter().unzip();
        let order = targets_before_sources(&nodes)?;
        let of_one_value = count(&nodes, &order, &vec![[0; 2]; nodes.len()], |node| node.steps);
        if of_one_value.iter().flatten().any(|&steps| steps > SCHEMA_STEPS_MAX) {
            return Err(SchemaError::TooManySteps);
        }
        let again = nodes.iter().zip(&of_one_value).filter(|(node, _)| node.unevaluated);
        if again.map(|(_, [map, list])| map.max(list)).sum::<u64>() > RECOMPILED_MAX {
            return Err(SchemaError::TooManySteps);
        }
        let chain = longest_chain(&nodes, &order);
        if chain > SCHEMA_CHAIN_MAX {
            return Err(SchemaError::Chain);
        }
        let steps = along_paths(&nodes, &order, |node| node.steps);
        let reading = along_paths(&nodes, &order, |node| node.reading);
        Ok(SchemaCost { steps, reading, chain, visits: Visits::of(visited) })
    }

    /// Steps to evaluate a value, or an upper bound on them: where the bound is more than `most`, they are counted. Endless for a
    /// value with so many levels that the engine has no stack for them.
    pub(super) fn of_value(&self, value: &Value, extent: Extent, most: u64) -> u64 {
        if self.chain.saturating_mul(extent.depth as u64 + 1) > EVALUATION_DEPTH_MAX {
            return u64::MAX;
        }
        let bound = self.for_extent(extent);
        if bound <= most {
            return bound;
        }
        self.visits.as_ref().and_then(|visits| visits.steps(value, most)).unwrap_or(bound)
    }

    /// Upper bound on the bytes of all violations by a value of this extent, each with its path.
    pub(super) fn violation_bytes(&self, extent: Extent) -> u64 {
        let steps = self.for_extent(Extent { bytes: 0, ..extent });
        steps.saturating_mul(VIOLATION_BYTES.saturating_add(extent.path))
    }

    /// Upper bound on the steps to evaluate a value of this extent.
    pub(super) fn for_extent(&self, Extent { values, depth, bytes, .. }: Extent) -> u64 {
        let at = |costs: &[u64]| costs.get(depth).or(costs.last()).copied().unwrap_or_default();
        let reading = bytes.saturating_mul(at(&self.reading)) / BYTES_PER_STEP;
        values.saturating_mul(at(&self.steps)).saturating_add(reading)
    }
}

/// The costs of the root along a path, by the depth of a value, until they stay the same or pass the limit.
fn along_paths(nodes: &[CostNode], order: &[usize], own: impl Fn(&CostNode) -> u64) -> Vec<u64> {
    let mut costs = Vec::new();
    let mut within = vec![[0; 2]; nodes.len()];
    for _ in 0..=MAX_DEPTH {
        let here = count(nodes, order, &within, &own);
        costs.push(here[0][MAP].max(here[0][LIST]));
        if costs.last() > Some(&JUDGEMENT_STEPS_MAX) || here == within {
            break;
        }
        within = here;
    }
    costs
}

#[derive(Debug, Default)]
struct CostNode {
    /// Own steps for a value, without those of other subschemas.
    steps: u64,
    /// Own steps for [`BYTES_PER_STEP`] bytes of text.
    reading: u64,
    /// Subschemas for the same value; `true` if `unevaluated…` evaluates the subschema again.
    same: Vec<(usize, bool)>,
    /// Subschemas for members of a map, and for items of a list.
    within: [Within; 2],
    unevaluated: bool,
    reference: Option<String>,
}

#[derive(Debug, Default)]
struct Within {
    one: Vec<usize>,
    each: Vec<usize>,
}

impl CostNode {
    fn of(subschema: &Subschema<'_>, patterns: &PatternSizes) -> CostNode {
        let mut node = CostNode { steps: 1, ..CostNode::default() };
        for (keyword, value) in subschema.schema.as_object().into_iter().flatten() {
            node.steps = node.steps.saturating_add(own_steps(keyword, value));
            node.reading = node.reading.saturating_add(own_reading(keyword, value, patterns));
        }
        for lead in &subschema.edges {
            node.unevaluated |= lead.keyword.starts_with("unevaluated");
            match lead.role {
                Role::Same { again } => node.same.push((lead.to, again)),
                Role::OneWithin(kind) => node.within[kind].one.push(lead.to),
                Role::EachWithin(kind) => node.within[kind].each.push(lead.to),
                Role::InText => {}
            }
            if lead.is_reference() {
                node.reference = subschema.schema[lead.keyword].as_str().map(excerpt);
            }
        }
        node
    }
}

/// Number of subschemas on the longest chain for one value.
fn longest_chain(nodes: &[CostNode], order: &[usize]) -> u64 {
    let mut chains = vec![1_u64; nodes.len()];
    for &at in order {
        let longest = nodes[at].same.iter().map(|&(target, _)| chains[target]).max();
        chains[at] += longest.unwrap_or_default();
    }
    chains.into_iter().max().unwrap_or_default()
}

/// Orders the nodes topologically over same-value edges, targets before sources; an error for a cycle.
fn targets_before_sources(nodes: &[CostNode]) -> Result<Vec<usize>, SchemaError> {
    let mut open: Vec<usize> = nodes.iter().map(|node| node.same.len()).collect();
    let mut sources = vec![Vec::new(); nodes.len()];
    for (source, node) in nodes.iter().enumerate() {
        node.same.iter().for_each(|&(target, _)| sources[target].push(source));
    }
    let mut order: Vec<usize> = (0..nodes.len()).filter(|&at| open[at] == 0).collect();
    let mut next = 0;
    while let Some(&target) = order.get(next) {
        next += 1;
        for &source in &sources[target] {
            open[source] -= 1;
            if open[source] == 0 {
                order.push(source);
            }
        }
    }
    let Some(mut at) = open.iter().position(|&open| open > 0) else { return Ok(order) };
    // Every remaining node has a remaining successor, so the walk enters a cycle and passes a reference.
    let mut reference = None;
    for _ in 0..2 * nodes.len() {
        let CostNode { same, reference: here, .. } = &nodes[at];
        let ahead = same.iter().find(|(target, _)| open[*target] > 0);
        reference = here.as_ref().or(reference);
        at = ahead.map_or(at, |&(target, _)| target);
    }
    Err(SchemaError::Endless { reference: reference.cloned().unwrap_or_default() })
}

/// Costs of every node for a map and for a list, from its own cost and the costs of the parts.
fn count(
    nodes: &[CostNode],
    order: &[usize],
    within: &[[u64; 2]],
    own: impl Fn(&CostNode) -> u64,
) -> Vec<[u64; 2]> {
    let within = |at: usize| within[at][MAP].max(within[at][LIST]);
    let mut steps = vec![[0; 2]; nodes.len()];
    // Steps to find the evaluated members and items: applicable subschemas are evaluated again.
    let mut again = vec![[0_u64; 2]; nodes.len()];
    for &at in order {
        let CostNode { same, within: inner, unevaluated, .. } = &nodes[at];
        for kind in [MAP, LIST] {
            let Within { one, each } = &inner[kind];
            let one = one.iter().map(|&at| within(at)).max().unwrap_or_default();
            let each = each.iter().map(|&at| within(at));
            let mut all = each.fold(own(&nodes[at]).saturating_add(one), u64::saturating_add);
            for &(target, is_again) in same {
                all = all.saturating_add(steps[target][kind]);
                let twice = if is_again { steps[target][kind] } else { 0 };
                again[at][kind] = again[at][kind].saturating_add(again[target][kind]).saturating_add(twice);
            }
            if *unevaluated {
                all = all.saturating_add(again[at][kind]);
                again[at][kind] = all;
            }
            steps[at][kind] = all;
        }
    }
    steps
}
