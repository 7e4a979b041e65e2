//! Patches without a program's planner: the node's fallback by the plan, and a person's feedback on a rejected result.

use super::planner::{Patch, Planner, PlannerAnswer, PlannerRequest};
use crate::id::NodeId;
use crate::plan::{BadParam, Node, NodeFields};
use crate::run::{FailureCategory, NodeInstance};

/// The tool parameter that receives a person's feedback on the last result.
pub const FEEDBACK: &str = "feedback";

/// The default planner: patches a node with the person's feedback, else with the fallback of its plan, and refuses every replan.
#[derive(Debug, Clone, Copy, Default)]
pub struct StaticPlanner;

impl Planner for StaticPlanner {}

/// Passes the feedback of a rejected result on to a tool with a parameter for it; else uses the node's `fallback` as its
/// first patch.
pub(super) fn patch(request: &PlannerRequest<'_>, node: &NodeId) -> PlannerAnswer<Patch> {
    let (Some(node), Some(instance)) = (request.run.node(node), request.run.instance(node)) else {
        return PlannerAnswer::Refused;
    };
    let set = with_feedback(request, node, instance).or_else(|| {
        let is_first = instance.patch_count == 0;
        node.fallback.as_deref().filter(|_| is_first).cloned()
    });
    set.map_or(PlannerAnswer::Refused, |set| PlannerAnswer::Now(Patch { set: Some(set) }))
}

/// The node's parameters with a person's comment beside them. `None` if no person commented, or if the tool's schema does not
/// know the parameter [`FEEDBACK`].
fn with_feedback(request: &PlannerRequest<'_>, node: &Node, instance: &NodeInstance) -> Option<NodeFields> {
    let rejected = |category| category == FailureCategory::HumanRejection;
    let failure = instance.failure.as_ref().filter(|failure| rejected(failure.category))?;
    let note = Some(failure.message.as_str()).filter(|note| !note.is_empty())?;
    let tool = node.tool.as_ref()?;
    let mut params = node.params.clone().into_map();
    params.insert(FEEDBACK.to_owned(), note.into());
    let referred = node.param_refs.keys().map(String::as_str).collect();
    let faults = request.settings.tools?.check_params(tool, &params, &referred);
    let is_unknown = |fault: &BadParam| matches!(fault, BadParam::Unknown { name, .. } if name == FEEDBACK);
    (!faults.iter().any(is_unknown)).then(|| NodeFields { params: Some(params), ..NodeFields::default() })
}
