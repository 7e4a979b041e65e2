//! The last step before a node is ready: its guards are judged, and its list is expanded.
//!
//! Both read results of earlier nodes. A small result is in its record. A large result is in the artifact store, and the
//! kernel does no reads: the node stays pending, [`Run::unread`] names the result, and
//! [`RunInput::ResultsRead`](super::RunInput::ResultsRead) delivers the result. A decision thus remains a function of its
//! input, and reads need no record.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::Value;

use super::Run;
use super::decision::Decision;
use crate::event::{ChangeCause, Event, Failure};
use crate::id::NodeId;
use crate::json::Json;
use crate::plan::{self, Guard, ParamRef};
use crate::run::{FailureCategory, NodeState, TransitionReason};

/// The result of a node, or the reason why the result is unreadable.
pub type ReadResult = Result<Arc<Value>, String>;

/// Results in memory during one decision, and the missing ones.
#[derive(Debug, Clone, Default)]
pub(super) struct Reading {
    results: BTreeMap<NodeId, ReadResult>,
    unread: BTreeSet<NodeId>,
}

impl Reading {
    /// Before a plan version is taken: every node is looked at again.
    pub(super) fn forget_unread(&mut self) {
        self.unread.clear();
    }

    /// After the nodes have settled.
    pub(super) fn end(&mut self) {
        self.results.clear();
    }
}

enum Judged {
    Holds,
    Fails,
    /// A result is not in memory.
    Unread,
    Error(String),
}

impl Run {
    /// Nodes whose results the run needs before its next step, ascending. Deliver the results with
    /// [`RunInput::ResultsRead`](super::RunInput::ResultsRead).
    pub fn unread(&self) -> impl Iterator<Item = &NodeId> {
        self.reading.unread.iter()
    }

    /// True if the next step of the run needs results named by [`Run::unread`].
    pub fn has_unread(&self) -> bool {
        !self.reading.unread.is_empty()
    }

    pub(super) fn results_read(&mut self, results: Vec<(NodeId, ReadResult)>) {
        for (node, result) in results {
            self.reading.unread.remove(&node);
            if let Some(at) = self.position(&node) {
                let graph = Arc::clone(&self.graph);
                graph.consumers[at].iter().for_each(|&(consumer, _)| self.dirty.mark(consumer));
            }
            self.reading.results.insert(node, result);
        }
    }

    /// The result of an executed node; `None` if the result must be read first.
    fn known_result(&mut self, node: &NodeId) -> Option<ReadResult> {
        if let Some(known) = self.reading.results.get(node) {
            return Some(known.clone());
        }
        let output = self.instance(node).and_then(|instance| instance.result());
        let value = match output.map(|output| output.inline.as_ref()) {
            None => Value::Null,
            Some(Some(inline)) => Json::value(inline),
            Some(None) => {
                self.reading.unread.insert(node.clone());
                return None;
            }
        };
        let result: ReadResult = Ok(Arc::new(value));
        self.reading.results.insert(node.clone(), result.clone());
        Some(result)
    }

    fn judge_guards(&mut self, at: usize) -> Judged {
        let plan = Arc::clone(&self.plan);
        let node = &plan.nodes[at];
        for Guard { from, .. } in &node.when {
            let source = self.source_of(&node.id, from);
            if self.known_result(&source).is_none() {
                return Judged::Unread;
            }
        }
        for (number, guard) in node.when.iter().enumerate() {
            let source = self.source_of(&node.id, &guard.from);
            let judged = match self.known_result(&source) {
                Some(Ok(result)) => guard.holds(&result),
                Some(Err(why)) => Err(why),
                None => return Judged::Unread,
            };
            match judged {
                Ok(true) => {}
                Ok(false) => return Judged::Fails,
                Err(why) => return Judged::Error(format!("guard {} cannot be judged: {why}", number + 1)),
            }
        }
        Judged::Holds
    }

    fn source_of(&self, node: &NodeId, from: &NodeId) -> NodeId {
        let winner = (from.as_str() == ParamRef::WINNER).then(|| self.winner(node)).flatten();
        winner.unwrap_or(from).clone()
    }

    /// Number of elements in the list of a node; `None` if the list has to be read first.
    fn list_length(&mut self, at: usize) -> Option<Result<usize, String>> {
        let plan = Arc::clone(&self.plan);
        let list = plan.nodes[at].for_each.as_ref()?;
        let result = match self.known_result(&list.from)? {
            Ok(result) => result,
            Err(why) => return Some(Err(why)),
        };
        let path = list.path.as_deref().unwrap_or_default();
        Some(match crate::template::project(&result, path) {
            None => Err(format!("the result of {} has no field {path:?}", list.from)),
            Some(Value::Array(items)) if items.len() as u64 > list.max => {
                Err(format!("{path} of {} has {} elements, `max` is {}", list.from, items.len(), list.max))
            }
            Some(Value::Array(items)) => Ok(items.len()),
            Some(_) => Err(format!("{path} of {} is no list", list.from)),
        })
    }
}

impl Decision<'_, '_, '_> {
    /// Advances a node whose join is satisfied: skipped, failed, expanded or ready. The node stays pending while a required
    /// result is missing.
    pub(super) fn enter(&mut self, at: usize, reason: TransitionReason) {
        match self.run.judge_guards(at) {
            Judged::Unread => {}
            Judged::Fails => self.transit(at, NodeState::Skipped, TransitionReason::GuardFalse),
            Judged::Error(why) => self.fail_unstarted(at, FailureCategory::GuardError, why),
            Judged::Holds if self.run.plan.nodes[at].for_each.is_some() => self.expand(at),
            Judged::Holds => self.transit(at, NodeState::Ready, reason),
        }
    }

    fn expand(&mut self, at: usize) {
        let count = match self.run.list_length(at) {
            None => return,
            Some(Ok(count)) => count,
            Some(Err(why)) => return self.fail_unstarted(at, FailureCategory::ExpandError, why),
        };
        let cause = ChangeCause::Expand(self.id(at));
        let expanded = self.run.judge_with(
            self.cx.settings,
            super::change::Limits::Reserved,
            |plan, progress, closed, settings| plan::expand(plan, at, count, progress, closed, settings),
        );
        match expanded {
            Ok((revision, _)) => self.accept(cause, revision),
            Err(faults) => {
                self.refuse(cause, &faults);
                let first = faults
                    .first()
                    .map_or_else(String::new, |fault| format!("{} ({})", fault.detail, fault.code));
                self.fail_unstarted(at, FailureCategory::ExpandError, format!("{count} children: {first}"));
            }
        }
    }

    /// Fails a node outside of any attempt. A patch can repair the node; a retry cannot.
    pub(super) fn fail_unstarted(&mut self, at: usize, category: FailureCategory, message: String) {
        self.emit(Event::NodeFault { node: self.id(at), failure: Failure::new(category, message) });
        self.recover(at, category);
    }
}
