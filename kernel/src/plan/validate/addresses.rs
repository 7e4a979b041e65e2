//! Rule V33: `{{ NODE.address }}` names a wait, in a node that can send the address out, where a listener takes callbacks.

use std::collections::BTreeSet;

use super::super::diagnostic::{Diagnostic, DiagnosticCode};
use super::super::suggest::Suggestions;
use super::super::{Kind, Node, RENDER_TOOL, Settings, address};
use super::IndexedPlan;

const LISTEN: &str = "set callback_listen = \"127.0.0.1:8787\" under [service] in ostler.toml";

pub(super) fn check(
    indexed: &IndexedPlan<'_>,
    settings: &Settings<'_>,
    suggestions: &Suggestions,
    faults: &mut Vec<Diagnostic>,
) {
    let nodes = &indexed.plan.nodes;
    let waits: BTreeSet<&str> =
        nodes.iter().filter(|node| is_wait(node)).map(|node| node.id.as_str()).collect();
    if waits.is_empty() && nodes.iter().all(|node| node.kind != Kind::Wait) {
        return; // an expression of another template language
    }
    for (at, node) in nodes.iter().enumerate() {
        let mut named = BTreeSet::new();
        for (name, value) in node.params.iter() {
            address::mentioned(value, &mut |wait| {
                named.insert((name.as_str(), wait.to_owned()));
            });
        }
        let undo = node.undo.iter().flat_map(|undo| undo.params.values());
        let mut undoes = false;
        undo.for_each(|value| address::mentioned(value, &mut |wait| undoes |= waits.contains(wait)));
        let mut fault = |detail: String, help: &str, name: &str| {
            let place = indexed.place(at).key("params").key(name);
            faults.push(Diagnostic::new(DiagnosticCode::V33, &node.id, detail, help).at(&place));
        };
        for (name, wait) in named {
            if !waits.contains(wait.as_str()) {
                if node.tool.as_deref() == Some(RENDER_TOOL) || address::cannot_send(node).is_some() {
                    continue; // a value of the template
                }
                let help = "name a node of kind wait without for_each";
                let help = suggestions.help(&wait, waits.iter().copied(), help);
                fault(format!("parameter {name} names the address of {wait}, which is no wait"), &help, name);
            } else if let Some(why) = address::cannot_send(node) {
                let help = "send it with http.request, or a tool of an MCP server";
                fault(format!("the address of {wait} cannot be sent from here: {why}"), help, name);
            } else if !settings.callbacks {
                fault(format!("no listener takes callbacks, so {wait} has no address"), LISTEN, name);
            }
        }
        if undoes {
            let detail = "an undo cannot send out the address of a wait, which has ended by then";
            let help = "remove the address from the undo";
            let place = indexed.place(at).key("undo").key("params");
            faults.push(Diagnostic::new(DiagnosticCode::V33, &node.id, detail, help).at(&place));
        }
    }
}

fn is_wait(node: &Node) -> bool {
    node.kind == Kind::Wait && node.for_each.is_none()
}
