//! The operations of a revision.

use std::collections::{BTreeMap, BTreeSet};

use ostler_kernel::id::NodeId;
use ostler_kernel::lineage::{Decision, EditRefusal, Edited, Override, check_edit};
use serde_json::{Map, Value};

use super::case::Op;
use super::contract::passes;
use super::function::Content;
use super::step::{Step, shape};
use super::world::{Edit, World};
use crate::graph::CaseError;

/// Reason for refusing an operation; `None` if the operation was applied.
pub(super) type Refusal = Option<String>;

impl World {
    /// Applies one operation.
    pub(super) fn operate(&mut self, op: &Op) -> Result<Refusal, CaseError> {
        match op {
            Op::Set { node, field, value } => set(self.fields(node)?, field, value.clone()),
            Op::Param { node, name, value } => {
                self.members(node, "params")?.insert(name.clone(), value.clone());
            }
            Op::Ref { node, name, value } => set(self.members(node, "param_refs")?, name, value.clone()),
            Op::Plan {} | Op::Reorder {} => {}
            Op::Rename { from, to } => self.rename(from, to)?,
            Op::Add { node } => self.add(node.clone())?,
            Op::Remove { node } => {
                self.nodes.remove(node);
                self.edits.remove(node);
                self.decided.remove(node);
            }
            Op::Source { name, source } => {
                self.sources.insert(name.clone(), source.clone());
            }
            Op::ArtifactEdit { .. } => return self.edit(op),
            Op::Unpin { node } => {
                let pinned = self.edits.remove(node).is_some();
                self.forget_question(node);
                return Ok((!pinned).then(|| "not_pinned".to_owned()));
            }
            Op::Answer { node, keep } => return Ok(self.answer(node, *keep)),
            Op::Retract { fields } => {
                self.retractions.add(fields).map_err(|error| shape(format!("`match`: {error}")))?;
            }
            Op::Corrupt { node, bytes } => {
                let published = self.decided.get(node).and_then(|decided| decided.published.as_ref());
                if let Some(published) = published {
                    self.stored.insert(published.artifact, bytes.clone());
                }
            }
            Op::Gate { node, allow } => {
                if *allow {
                    self.denied.remove(node);
                } else {
                    self.denied.insert(node.clone());
                }
            }
            Op::Domain { to } => self.domain.clone_from(to),
            Op::Undo { node } => return Ok(self.undo(node)),
        }
        Ok(None)
    }

    fn fields(&mut self, node: &NodeId) -> Result<&mut Map<String, Value>, CaseError> {
        self.nodes.get_mut(node).ok_or_else(|| shape(format!("no node {node}")))
    }

    fn members(&mut self, node: &NodeId, field: &str) -> Result<&mut Map<String, Value>, CaseError> {
        let members = self.fields(node)?.entry(field).or_insert_with(|| Value::Object(Map::new()));
        if members.is_null() {
            *members = Value::Object(Map::new());
        }
        members.as_object_mut().ok_or_else(|| shape(format!("`{field}` of {node} is no object")))
    }

    fn rename(&mut self, from: &NodeId, to: &NodeId) -> Result<(), CaseError> {
        let mut fields = self.nodes.remove(from).ok_or_else(|| shape(format!("no node {from}")))?;
        fields.insert("id".to_owned(), Value::from(to.as_str()));
        if self.nodes.insert(to.clone(), fields).is_some() {
            return Err(shape(format!("two nodes {to}")));
        }
        for fields in self.nodes.values_mut() {
            rename_uses(fields, from, to);
        }
        move_key(&mut self.edits, from, to);
        move_key(&mut self.instances, from, to);
        move_key(&mut self.decided, from, to);
        self.denied.remove(to);
        if self.denied.remove(from) {
            self.denied.insert(to.clone());
        }
        let domains: BTreeSet<String> = self.manifests.keys().map(|(domain, _)| domain.clone()).collect();
        for domain in domains {
            let (old, new) = ((domain.clone(), from.clone()), (domain, to.clone()));
            move_key(&mut self.manifests, &old, &new);
        }
        Ok(())
    }

    fn edit(&mut self, op: &Op) -> Result<Refusal, CaseError> {
        let Op::ArtifactEdit { node, value, author, old, stale } = op else { return Ok(None) };
        let refused = |refusal: EditRefusal| Ok(Some(refusal.to_string()));
        let Some(fields) = self.nodes.get(node) else { return refused(EditRefusal::NoArtifact) };
        let step = Step::read(fields)?;
        let content = Content::new(step.media(), value);
        let satisfies = match &content {
            Some(content) => passes(&step.contract.0, content).map_err(CaseError::shape)?,
            None => false,
        };
        let decided = self.decided.get_mut(node);
        let published = decided.as_ref().and_then(|decided| decided.published.as_ref());
        let current = published.map(|published| published.artifact);
        let seen = match old {
            Some(old) => Some(old.parse().map_err(|_| shape(format!("`old`: {old:?} is no digest")))?),
            None => None,
        };
        if let Err(refusal) =
            check_edit(Edited { current, acts: step.effect.acts(), satisfies }, seen.as_ref())
        {
            return refused(refusal);
        }
        let (Some(decided), Some(content)) = (decided, content) else {
            return refused(EditRefusal::NoArtifact);
        };
        let (Some(identity), Some(published)) = (&decided.identity, &mut decided.published) else {
            return refused(EditRefusal::NoArtifact);
        };
        let pin = Override {
            artifact: content.digest(),
            author: author.clone(),
            base: identity.reuse,
            received: identity.received.clone(),
            stale: *stale,
        };
        (published.artifact, published.content) = (pin.artifact, content.clone());
        self.stored.insert(pin.artifact, content.bytes.clone());
        self.edits.insert(node.clone(), Edit { pin, content });
        Ok(None)
    }

    /// Retracts the record of an undone effect, so that neither this run nor a later one keeps it.
    fn undo(&mut self, node: &NodeId) -> Refusal {
        let done = self.decided.get(node).filter(|decided| decided.acts && decided.published.is_some());
        let Some(identity) = done.and_then(|decided| decided.identity.clone()) else {
            return Some("nothing".to_owned());
        };
        self.undone.insert((self.domain.clone(), identity.reuse));
        self.withdraw(node);
        None
    }

    fn answer(&mut self, node: &NodeId, keep: bool) -> Refusal {
        let asked = self.decided.get(node).filter(|decided| decided.decision == Decision::Asked);
        let Some(identity) = asked.and_then(|decided| decided.identity.clone()) else {
            return Some("not_asked".to_owned());
        };
        if let Some(edit) = self.edits.get_mut(node).filter(|_| keep) {
            (edit.pin.base, edit.pin.received) = (identity.reuse, identity.received);
        } else {
            self.edits.remove(node);
        }
        self.forget_question(node);
        None
    }

    /// Marks an answered step as waiting; the step has no artifact until its next decision.
    fn forget_question(&mut self, node: &NodeId) {
        if let Some(decided) =
            self.decided.get_mut(node).filter(|decided| decided.decision == Decision::Asked)
        {
            decided.decision = Decision::Waiting(node.clone());
        }
    }
}

/// Sets a field; null removes the field.
fn set(fields: &mut Map<String, Value>, name: &str, value: Value) {
    if value.is_null() {
        fields.remove(name);
    } else {
        fields.insert(name.to_owned(), value);
    }
}

fn rename_uses(fields: &mut Map<String, Value>, from: &NodeId, to: &NodeId) {
    let renamed = |value: &mut Value| {
        if value.as_str() == Some(from.as_str()) {
            *value = Value::from(to.as_str());
        }
    };
    if let Some(Value::Array(deps)) = fields.get_mut("deps") {
        deps.iter_mut().for_each(renamed);
    }
    if let Some(Value::Object(refs)) = fields.get_mut("param_refs") {
        refs.values_mut().filter_map(|reference| reference.get_mut("from")).for_each(renamed);
    }
    fields.get_mut("for_each").and_then(|list| list.get_mut("from")).into_iter().for_each(renamed);
    match fields.get_mut("when") {
        Some(Value::Array(guards)) => {
            guards.iter_mut().filter_map(|guard| guard.get_mut("from")).for_each(renamed);
        }
        guard => guard.and_then(|guard| guard.get_mut("from")).into_iter().for_each(renamed),
    }
}

/// Renames the entry `from` to `to`, replacing an existing entry.
fn move_key<K: Ord + Clone, V>(map: &mut BTreeMap<K, V>, from: &K, to: &K) {
    map.remove(to);
    if let Some(value) = map.remove(from) {
        map.insert(to.clone(), value);
    }
}
