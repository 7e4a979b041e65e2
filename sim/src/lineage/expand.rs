//! Steps with `for_each`: one child for each element of a list, and the collector of their results.

use ostler_kernel::id::NodeId;
use ostler_kernel::lineage::Decision;
use ostler_kernel::plan::{ForEach, OnChild};
use ostler_kernel::template::project;
use serde_json::{Map, Value, json};

use super::function::Function;
use super::step::{Step, shape};
use super::world::World;
use crate::graph::CaseError;

/// Function of the collector of a step.
fn collecting(id: &NodeId) -> String {
    format!("collect {id}")
}

impl World {
    /// Decides the children of a step, then its collector. A step that cannot be expanded is decided as itself.
    pub(super) fn decide_list(
        &mut self,
        step: &Step,
        for_each: &ForEach,
        order: &mut Vec<NodeId>,
    ) -> Result<(), CaseError> {
        let expanded = match self.held(step)? {
            Some(held) => Err(held),
            None => self.elements(for_each)?.ok_or(Decision::ExpandError),
        };
        let elements = *expanded.as_ref().unwrap_or(&0);
        self.forget_surplus(&step.id, elements);
        if let Err(held) = expanded {
            let decided = self.undecided(step, held)?;
            self.decided.insert(step.id.clone(), decided);
            order.push(step.id.clone());
            return Ok(());
        }
        let children: Vec<NodeId> = (0..elements).map(|k| ForEach::child(&step.id, k)).collect();
        for (k, child) in children.iter().enumerate() {
            self.decide_into(&child_of(step, for_each, child, k)?, order)?;
        }
        let collector = self.collector_of(step, for_each, &children)?;
        self.decide_into(&collector, order)
    }

    /// Length of the list; `None` if there is no list at the path, or it is too long.
    fn elements(&self, for_each: &ForEach) -> Result<Option<u64>, CaseError> {
        let result = &self.published(&for_each.from)?.content.value;
        let list = project(result, for_each.path.as_deref().unwrap_or_default()).and_then(Value::as_array);
        Ok(list.map(|list| list.len() as u64).filter(|&elements| elements <= for_each.max))
    }

    /// Forgets the children of elements that a list no longer has.
    fn forget_surplus(&mut self, id: &NodeId, elements: u64) {
        for child in (elements..).map(|k| ForEach::child(id, k)) {
            self.instances.remove(&child);
            if self.decided.remove(&child).is_none() {
                return;
            }
        }
    }

    /// The collector: the children are its references, by index. With `collect` it leaves out those without a result.
    fn collector_of(
        &mut self,
        step: &Step,
        for_each: &ForEach,
        children: &[NodeId],
    ) -> Result<Step, CaseError> {
        let keeps_all = for_each.on_child == OnChild::All;
        let (mut refs, mut items, mut missing) = (Map::new(), Vec::new(), Vec::new());
        for (k, child) in children.iter().enumerate() {
            if keeps_all || self.published(child).is_ok() {
                refs.insert(k.to_string(), json!({"from": child}));
                items.push(json!({"ref": k.to_string()}));
            } else {
                items.push(json!({"const": null}));
                missing.push(k);
            }
        }
        let function = json!({"obj": {"items": {"list": items}, "missing": {"const": missing}}});
        let function: Function = serde_json::from_value(function).map_err(CaseError::shape)?;
        let name = collecting(&step.id);
        self.functions.insert(name.clone(), function);
        let fields = json!({
            "id": step.id, "kind": "collector", "fn": name, "param_refs": refs, "deps": step.above(),
            "params": {"missing": missing},
        });
        let Value::Object(fields) = fields else { return Err(shape("a collector is an object")) };
        Step::read(&fields)
    }
}

/// The child for the element at `k`: the step with one more reference. Sources of guards stay dependencies.
fn child_of(step: &Step, for_each: &ForEach, id: &NodeId, k: usize) -> Result<Step, CaseError> {
    let mut fields = step.fields.clone();
    fields.insert("id".to_owned(), json!(id));
    fields.remove("for_each");
    fields.remove("when");
    let deps: Vec<&NodeId> = step.deps.iter().chain(step.guards.iter().map(|guard| &guard.from)).collect();
    fields.insert("deps".to_owned(), json!(deps));
    let path = match for_each.path.as_deref() {
        None | Some("") => k.to_string(),
        Some(path) => format!("{path}.{k}"),
    };
    let refs = fields.entry("param_refs").or_insert_with(|| json!({}));
    let refs = refs.as_object_mut().ok_or_else(|| shape(format!("`param_refs` of {id} is no object")))?;
    refs.insert(for_each.parameter.clone(), json!({"from": for_each.from, "path": path}));
    Step::read(&fields)
}
