//! Bounds that keep a run finite: V13 (except depth), V14, and the agreement of effect and impact (V15).

use super::super::diagnostic::{Diagnostic, DiagnosticCode};
use super::super::pointer::Pointer;
use super::super::{Approval, Kind, Node, Policy, Settings};
use super::IndexedPlan;
use crate::id::Ticks;

/// Edges of either kind in a plan of a real run.
pub const PLAN_EDGES_MAX: usize = 100_000;

/// Longest timeout of an attempt or a person in a real run, in milliseconds: ten years.
pub const TIMEOUT_MS_MAX: Ticks = 10 * 366 * 24 * 60 * 60 * 1_000;

pub(super) fn check(
    indexed: &IndexedPlan<'_>,
    at: usize,
    settings: &Settings<'_>,
    faults: &mut Vec<Diagnostic>,
) {
    let (node, place) = (&indexed.plan.nodes[at], || indexed.place(at));
    attempts(node, indexed.plan.policy.max_attempts, settings, &place, faults);
    check_human_timeout(node, settings, &place, faults);
    effect(node, settings, &place, faults);
}

pub(super) fn size(indexed: &IndexedPlan<'_>, settings: &Settings<'_>, faults: &mut Vec<Diagnostic>) {
    let plan = indexed.plan;
    let mut fault = |detail: String, help: &str| {
        let place = indexed.origin.whole().key("nodes");
        faults.push(Diagnostic::new(DiagnosticCode::V13, Diagnostic::PLAN, detail, help).at(&place));
    };
    if plan.nodes.is_empty() {
        fault("the plan has no nodes".into(), "add at least one node");
    }
    let edges = plan.nodes.iter().map(|node| node.deps.len()).sum();
    for (detail, help) in too_large(plan.nodes.len(), edges, &plan.policy, settings) {
        fault(detail, help);
    }
}

/// What is wrong with a plan of so many nodes and edges, and the help.
pub(in crate::plan) fn too_large(
    nodes: usize,
    edges: usize,
    policy: &Policy,
    settings: &Settings<'_>,
) -> Vec<(String, &'static str)> {
    let (mut faults, most) = (Vec::new(), policy.max_nodes);
    if nodes > most as usize {
        let detail = format!("the plan has {nodes} nodes, policy.max_nodes allows {most}");
        faults.push((detail, "split the plan, or raise policy.max_nodes"));
    }
    if settings.real_run && edges > PLAN_EDGES_MAX {
        let detail = format!("the plan has {edges} edges, at most {PLAN_EDGES_MAX} are allowed");
        faults.push((detail, "split the plan, or add a node that collects many results for many readers"));
    }
    faults
}

/// Checks the waits before retries; skipped for a running plan.
pub(super) fn backoff(indexed: &IndexedPlan<'_>, settings: &Settings<'_>, faults: &mut Vec<Diagnostic>) {
    let policy = &indexed.plan.policy;
    for (name, wait) in [("backoff_base", policy.backoff_base), ("backoff_cap", policy.backoff_cap)] {
        if wait < 0 {
            let place = indexed.origin.whole().key("policy").key(name);
            let (detail, help) = (
                format!("policy.{name} is {}, expected 0 or more", format_ticks(wait, settings)),
                "set a duration of 0 or more, such as 200ms",
            );
            faults.push(Diagnostic::new(DiagnosticCode::V14, Diagnostic::PLAN, detail, help).at(&place));
        }
    }
}

/// Formats a duration: milliseconds in a real run, ticks in a simulation.
fn format_ticks(ticks: Ticks, settings: &Settings<'_>) -> String {
    let unit = if settings.real_run { " ms" } else { "" };
    format!("{ticks}{unit}")
}

fn attempts(
    node: &Node,
    most: i64,
    settings: &Settings<'_>,
    place: &dyn Fn() -> Pointer,
    faults: &mut Vec<Diagnostic>,
) {
    let mut fault = |field: &str, detail: String, help: &str| {
        faults.push(Diagnostic::new(DiagnosticCode::V14, &node.id, detail, help).at(&place().key(field)));
    };
    if node.timeout <= 0 {
        fault(
            "timeout",
            format!("timeout is {}, expected more than 0", format_ticks(node.timeout, settings)),
            "set a timeout, such as 30s",
        );
    }
    if let Some(silence) = node.heartbeat_timeout.filter(|silence| *silence <= 0 || *silence >= node.timeout)
    {
        let (silence, timeout) = (format_ticks(silence, settings), format_ticks(node.timeout, settings));
        let detail = format!(
            "heartbeat_timeout is {silence}, expected more than 0 and less than the timeout of {timeout}"
        );
        fault("heartbeat_timeout", detail, "set a duration between 0 and the timeout");
    }
    for (name, count) in [("retries", node.retries), ("patches", node.patches)] {
        if count < 0 {
            fault(name, format!("{name} is {count}, expected 0 or more"), "set 0 or more");
        }
    }
    let all = (i128::from(node.retries) + 1) * (i128::from(node.patches) + 1);
    if node.retries >= 0 && node.patches >= 0 && all > i128::from(most) {
        fault(
            if node.retries > 0 { "retries" } else { "patches" },
            format!("(retries + 1) x (patches + 1) is {all}, policy.max_attempts allows {most}"),
            "lower `retries` or `patches`, or raise policy.max_attempts",
        );
    }
}

/// V14: every wait for a person needs an end.
fn check_human_timeout(
    node: &Node,
    settings: &Settings<'_>,
    place: &dyn Fn() -> Pointer,
    faults: &mut Vec<Diagnostic>,
) {
    let asks = node.approval != Approval::None || node.kind == Kind::HumanApproval || node.asks_after();
    if asks && node.human_timeout.is_none_or(|span| span <= 0) {
        let detail = match node.human_timeout {
            None => "asks a person without a human_timeout".to_owned(),
            Some(span) => format!(
                "asks a person, and human_timeout is {}, expected more than 0",
                format_ticks(span, settings)
            ),
        };
        let help = "set the time after which silence cancels the node, such as human_timeout: 1h";
        let field = match (node.human_timeout, node.approval) {
            (Some(_), _) => "human_timeout",
            (None, Approval::None) if node.kind == Kind::HumanApproval => "kind",
            (None, Approval::None) => "contract",
            (None, Approval::Before | Approval::After) => "approval",
        };
        faults.push(Diagnostic::new(DiagnosticCode::V14, &node.id, detail, help).at(&place().key(field)));
    }
}

/// V14: a timeout beyond ten years is a typing error. Skipped for a running plan.
pub(super) fn check_timeout_max(indexed: &IndexedPlan<'_>, at: usize, faults: &mut Vec<Diagnostic>) {
    let node = &indexed.plan.nodes[at];
    let spans =
        [("timeout", Some(node.timeout)), ("human_timeout", node.human_timeout), ("deadline", node.deadline)];
    for (name, span) in spans {
        let Some(span) = span.filter(|span| *span > TIMEOUT_MS_MAX) else { continue };
        let detail = format!("{name} is {span} ms, more than ten years");
        let help = format!("set at most {TIMEOUT_MS_MAX} ms, such as 1h or 30d");
        let place = indexed.place(at).key(name);
        faults.push(Diagnostic::new(DiagnosticCode::V14, &node.id, detail, help).at(&place));
    }
}

fn effect(node: &Node, settings: &Settings<'_>, place: &dyn Fn() -> Pointer, faults: &mut Vec<Diagnostic>) {
    if node.effect.acts() != (node.impact > 0) {
        let known = node.tool.as_deref().zip(settings.tools).and_then(|(tool, tools)| {
            // A plan may raise the impact of its call, and not lower it.
            Some((tool, tools.defaults(tool, &node.params)?)).filter(|(_, known)| known.impact == node.impact)
        });
        let (whose, help) = match known.filter(|(_, known)| settings.real_run && known.impact > 0) {
            Some((tool, known)) => (
                format!(", the least of this call of {tool}"),
                format!("remove `effect`: it is {} then", known.effect.as_str()),
            ),
            None => (
                String::new(),
                "write and external need impact 1 or 2, none and read need impact 0".to_owned(),
            ),
        };
        let detail = format!("effect {} does not fit impact {}{whose}", node.effect.as_str(), node.impact);
        faults.push(Diagnostic::new(DiagnosticCode::V15, &node.id, detail, help).at(&place().key("effect")));
    }
}
