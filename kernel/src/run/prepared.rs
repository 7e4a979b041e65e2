//! Patches that need nobody to write them: what a plan has prepared for a node, and what a person said about its result.

use super::Run;
use super::turn::{Answer, Patch, Planner};
use crate::id::NodeId;
use crate::plan::{BadParam, Delta, NodeFields, Settings};
use crate::run::Category;

/// The parameter by which a tool takes what a person said about its last result.
pub const FEEDBACK: &str = "feedback";

/// Patches a node with what its plan has prepared, or with what a person said; asks nobody for a new plan.
pub struct Prepared<'a>(pub &'a Settings<'a>);

impl Planner for Prepared<'_> {
    fn patch(&mut self, run: &Run, node: &NodeId) -> Answer<Patch> {
        let (Some(node), Some(instance)) = (run.node(node), run.instance(node)) else {
            return Answer::Refused;
        };
        let failure = instance.failure.as_ref();
        let said = failure.filter(|failure| failure.category == Category::HumanRejection);
        let feedback = said.map(|failure| failure.message.as_str()).filter(|note| !note.is_empty());
        if let (Some(tool), Some(note)) = (&node.tool, feedback) {
            let mut params = node.params.clone().into_map();
            params.insert(FEEDBACK.to_owned(), note.into());
            let referred = node.param_refs.keys().map(String::as_str).collect();
            let faults = self.0.tools.map(|tools| tools.judge(tool, &params, &referred));
            let takes_it =
                |fault: &BadParam| !matches!(fault, BadParam::Unknown { name, .. } if name == FEEDBACK);
            if faults.is_some_and(|faults| faults.iter().all(takes_it)) {
                let set = Some(NodeFields { params: Some(params), ..NodeFields::default() });
                return Answer::Now(Patch { set });
            }
        }
        match &node.fallback {
            Some(fields) if instance.phase == 0 => {
                Answer::Now(Patch { set: Some(NodeFields::clone(fields)) })
            }
            Some(_) | None => Answer::Refused,
        }
    }

    fn replan(&mut self, _: &Run) -> Answer<Delta> {
        Answer::Refused
    }
}
