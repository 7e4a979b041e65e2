//! Whether something here can do it: V20 of tools, V21 of kinds.

use super::super::fault::{Fault, FaultCode};
use super::super::nearest::Hints;
use super::super::{Kind, Plan, Settings};

pub(super) fn judge(plan: &Plan, settings: &Settings<'_>, hints: &Hints, faults: &mut Vec<Fault>) {
    let names = settings.tools.map(|tools| tools.names()).unwrap_or_default();
    for node in &plan.nodes {
        if !(settings.executes)(node.kind) {
            let detail = format!("nothing here executes nodes of kind {}", word(node.kind));
            faults.push(Fault::new(FaultCode::V21, &node.id, detail, "use another kind"));
        }
        let Some(tools) = settings.tools else { continue };
        match &node.tool {
            Some(tool) if tools.defaults(tool, &node.params).is_some() => {}
            Some(tool) => {
                let mend = hints.mend(tool, names.iter().map(String::as_str), "use a tool that is there");
                let detail = format!("there is no tool {tool}");
                faults.push(Fault::new(FaultCode::V20, &node.id, detail, mend));
            }
            None if node.kind == Kind::Tool => {
                let mend = "say `tool: NAME`, or another `kind`";
                faults.push(Fault::new(FaultCode::V20, &node.id, "is a tool node without a tool", mend));
            }
            None => {}
        }
    }
}

fn word(kind: Kind) -> &'static str {
    match kind {
        Kind::Tool => "tool",
        Kind::Model => "model",
        Kind::Reflection => "reflection",
        Kind::Observer => "observer",
        Kind::MicroPlanner => "micro_planner",
        Kind::Interjection => "interjection",
        Kind::Aggregator => "aggregator",
        Kind::HumanApproval => "human_approval",
        Kind::SubAgent => "sub_agent",
    }
}
