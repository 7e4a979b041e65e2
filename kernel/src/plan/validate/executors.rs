//! Executors: V20 (tools), V21 (kinds, unused tools and models) and V26 (domains).

use std::collections::BTreeSet;

use super::super::diagnostic::{Diagnostic, DiagnosticCode};
use super::super::suggest::Suggestions;
use super::super::{Kind, SUB_AGENT_TOOL, Settings, model_of_tool, model_tool};
use super::{Context, IndexedPlan};

pub(super) fn check(
    indexed: &IndexedPlan<'_>,
    at: usize,
    context: &Context<'_>,
    faults: &mut Vec<Diagnostic>,
) {
    let Context { settings, suggestions, tools: names, .. } = context;
    let node = &indexed.plan.nodes[at];
    let place = |key: &str| indexed.place(at).key(key);
    if !(settings.executes)(node.kind) {
        let detail = format!("kind {} has no executor here", node.kind.as_str());
        // Only the engine makes collectors (V28).
        let can_be_written = |kind: &&Kind| (settings.executes)(**kind) && **kind != Kind::Collector;
        let kinds: Vec<&str> = Kind::ALL.iter().filter(can_be_written).map(|kind| kind.as_str()).collect();
        let help = format!("use one of {}", kinds.join(", "));
        faults.push(Diagnostic::new(DiagnosticCode::V21, &node.id, detail, help).at(&place("kind")));
    }
    if settings.tools.is_none() {
        return;
    }
    match &node.tool {
        Some(tool) if names.contains(tool) => {}
        // The tool is never called, so the tool need not exist; V21 reports the unused name.
        Some(_) if settings.real_run && calls_nothing(node.kind) && !node.calls_model() => {}
        Some(tool) if node.calls_model() => faults.extend(unknown_model(indexed, at, tool, context)),
        Some(tool) => {
            let otherwise = format!("use one of {}", list_names(names));
            let help = suggestions.help(tool, names.iter().map(String::as_str), &otherwise);
            let detail = format!("unknown tool {tool}");
            faults.push(Diagnostic::new(DiagnosticCode::V20, &node.id, detail, help).at(&place("tool")));
        }
        None if node.kind == Kind::Tool => {
            let help = "set `tool: NAME`, or another `kind`";
            let fault = Diagnostic::new(DiagnosticCode::V20, &node.id, "tool node without a tool", help);
            faults.push(fault.at(&place("tool")));
        }
        None => {}
    }
}

/// V20: the model is not configured.
fn unknown_model(
    indexed: &IndexedPlan<'_>,
    at: usize,
    tool: &str,
    context: &Context<'_>,
) -> Option<Diagnostic> {
    let node = &indexed.plan.nodes[at];
    let model = node.model.as_deref()?;
    if tool != model_tool(model) {
        return None; // V21 reports the tool.
    }
    let models: BTreeSet<String> =
        context.tools.iter().filter_map(|tool| model_of_tool(tool)).map(str::to_owned).collect();
    let help = if models.is_empty() {
        format!("no model is configured: add [models.{model}] to ostler.toml; see `ostler help models`")
    } else {
        let otherwise = format!("use one of {}, or add [models.{model}] to ostler.toml", list_names(&models));
        context.suggestions.help(model, models.iter().map(String::as_str), &otherwise)
    };
    let place = indexed.place(at).key("model");
    let detail = format!("unknown model {model}");
    Some(Diagnostic::new(DiagnosticCode::V20, &node.id, detail, help).at(&place))
}

fn calls_nothing(kind: Kind) -> bool {
    matches!(kind, Kind::Aggregator | Kind::HumanApproval | Kind::Wait | Kind::Collector)
}

/// V21: the kind never calls the named tool or model. Skipped for a running plan.
pub(super) fn check_unused(indexed: &IndexedPlan<'_>, at: usize, faults: &mut Vec<Diagnostic>) {
    let node = &indexed.plan.nodes[at];
    if node.calls_model() {
        let named = node.model.as_deref().map(model_tool);
        if let Some(tool) =
            node.tool.as_ref().filter(|&tool| named.as_ref().is_some_and(|named| named != tool))
        {
            let detail = format!("names the tool {tool} beside a model");
            let help = "remove `tool`, or call it in a separate node";
            let place = indexed.place(at).key("tool");
            faults.push(Diagnostic::new(DiagnosticCode::V21, &node.id, detail, help).at(&place));
        }
        return;
    }
    if let (Kind::SubAgent, Some(tool)) =
        (node.kind, node.tool.as_ref().filter(|tool| *tool != SUB_AGENT_TOOL))
    {
        let detail = format!("names the tool {tool}, but a sub_agent calls {SUB_AGENT_TOOL}");
        let help = "remove `tool`; name tools for the agent in `params: {tools: [..]}`";
        let place = indexed.place(at).key("tool");
        faults.push(Diagnostic::new(DiagnosticCode::V21, &node.id, detail, help).at(&place));
    }
    if !calls_nothing(node.kind) {
        return;
    }
    for (key, named) in [("tool", &node.tool), ("model", &node.model)] {
        let Some(name) = named else { continue };
        let kind = node.kind.as_str();
        let detail = format!("names the {key} {name}, but nodes of kind {kind} call no {key}");
        let help = format!("remove `{key}`, or call it in a separate node");
        let place = indexed.place(at).key(key);
        faults.push(Diagnostic::new(DiagnosticCode::V21, &node.id, detail, help).at(&place));
    }
}

/// V26. Skipped for a running plan, even if the configuration changed since.
pub(super) fn domain(
    indexed: &IndexedPlan<'_>,
    settings: &Settings<'_>,
    suggestions: &Suggestions,
    faults: &mut Vec<Diagnostic>,
) {
    let (Some(domains), Some(domain)) = (settings.domains, &indexed.plan.policy.domain) else { return };
    if domains.get(domain).is_some() {
        return;
    }
    let known: Vec<&str> = domains.names().collect();
    let otherwise = format!("known domains: {}", known.join(", "));
    let help = suggestions.help(domain, known.iter().copied(), &otherwise);
    let place = indexed.origin.whole().key("policy").key("domain");
    let detail = format!("unknown domain {domain:?}");
    faults.push(Diagnostic::new(DiagnosticCode::V26, Diagnostic::PLAN, detail, help).at(&place));
}

const TOOLS_NAMED_MAX: usize = 20;

fn list_names(names: &BTreeSet<String>) -> String {
    let named: Vec<&str> = names.iter().take(TOOLS_NAMED_MAX).map(String::as_str).collect();
    match names.len() {
        0 => "(none available)".to_owned(),
        1..=TOOLS_NAMED_MAX => named.join(", "),
        _ => format!("{}, …", named.join(", ")),
    }
}
