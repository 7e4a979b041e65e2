//! What a change of one node reaches in another.

use serde_json::{Map, Value, json};

use super::Change;
use crate::plan::{Approval, Kind, Node, ParamRef};
use crate::run::NodeState;
use crate::template::{project, read_part};

impl Change<'_> {
    /// True unless a consumer of the edited node reads only parts of the result that the new content leaves as they are (0051).
    pub(super) fn reaches(&self, consumer: &Node) -> bool {
        let (Some(edited), Some((before, now))) = (self.edited, self.contents) else { return true };
        let only_reads = matches!(consumer.kind, Kind::Tool | Kind::Model)
            && !consumer.acts()
            && consumer.approval == Approval::None
            && consumer.when.is_empty()
            && consumer.for_each.is_none()
            && consumer.param_refs.values().all(|reference| reference.from.as_str() != ParamRef::WINNER);
        if !only_reads || consumer.reads.contains(edited) {
            return true;
        }
        let refs = consumer.param_refs.values().filter(|reference| reference.from == *edited);
        let mut parts = refs.map(|reference| reference.path.as_deref().unwrap_or_default());
        if parts.any(|path| project(before, path) != project(now, path)) {
            return true;
        }
        let read = |result: &Value| {
            let fate = json!({"state": NodeState::Executed.as_str(), "result": result});
            let values = Map::from_iter([(edited.to_string(), fate)]);
            Some(read_part(consumer.params.get("prompt")?.as_str()?, &values))
        };
        consumer.kind == Kind::Model && (read(before).is_none() || read(before) != read(now))
    }
}

/// True if two descriptions of a node ask for the same work: they differ at most in how often and how long it is tried, in who
/// approves it, and in what its result has to satisfy.
pub(super) fn is_same_work(before: &Node, now: &Node) -> bool {
    let work = |node: &Node| {
        let mut node = node.clone();
        (node.dispatch, node.timeout, node.heartbeat_timeout) = Default::default();
        (node.retries, node.patches, node.human_timeout, node.deadline) = Default::default();
        (node.approval, node.fallback, node.undo) = (Approval::None, None, None);
        (node.contract, node.tests) = (Vec::new(), None);
        node
    };
    before == now || work(before) == work(now)
}
