//! The decision about a repetition of a run, with all that records, stored results and tools of today say about it.

use std::collections::BTreeMap;

use ostler_kernel::event::{Event, Output};
use ostler_kernel::id::{NodeId, RunId};
use ostler_kernel::lineage::record_key;
use ostler_kernel::plan::{Effect, Freshness, Node, Plan};
use ostler_kernel::port::{JournalError, Recorded, Seq, StreamId};
use ostler_kernel::run::{Change, NodeStatus, RecomputationCause, RefDigests, RepeatDecision};
use serde_json::Value;

use crate::api::again::{Again, AgainError};
use crate::api::system::System;
use crate::api::view::RunView;
use crate::base::error::RunError;
use crate::storage::results::verifies;

impl System {
    /// What a repetition of a run does about each node. The dry run and the submission ask the same.
    ///
    /// # Errors
    ///
    /// See [`AgainError`].
    pub(crate) async fn repeat(
        &self,
        run: RunId,
        again: &Again,
    ) -> Result<(RunView, RepeatDecision), AgainError> {
        let view = self.view(run, None).await?;
        if view.run.goal().is_some() {
            return Err(AgainError::Goal(run));
        }
        if let Some(edit) = &again.edit {
            self.check_edit_of(&view, edit)?;
        }
        let plan = again.plan.clone().unwrap_or_else(|| view.run.plan_to_repeat());
        let against = self.against(run, &view, &plan).await?;
        let before = self.edited_result(&view, again).await;
        let change = Change {
            plan: again.plan.as_ref(),
            edited: again.edit.as_ref().map(|edit| &edit.node),
            contents: again.edit.as_ref().and_then(|edit| Some((before.as_ref()?, &edit.value))),
            from: again.from.as_ref(),
            stale: again.stale,
            against: Some(&against),
        };
        let decision = view.run.repeat(change);
        if let Some(unknown) = again.from.as_ref().filter(|from| decision.whole.node(from).is_none()) {
            return Err(RunError::UnknownNode(unknown.clone()).into());
        }
        if let Some((node, doubt)) = decision.doubtful() {
            let is_over = view.closed.is_some();
            return Err(AgainError::Doubt { run, node: node.clone(), doubt, is_over });
        }
        Ok((view, decision))
    }

    /// What speaks against the results of a run in a repetition with `plan`.
    async fn against(
        &self,
        run: RunId,
        view: &RunView,
        plan: &Plan,
    ) -> Result<BTreeMap<NodeId, RecomputationCause>, AgainError> {
        let withdrawn = self.withdrawn_in(run, &view.run)?;
        let mut against = BTreeMap::new();
        for (node, instance) in view.run.instances() {
            if instance.status != NodeStatus::Executed || node.is_undo() {
                continue;
            }
            let now = plan.node(node.parent().unwrap_or(&node.id)).unwrap_or(node);
            let cause = match instance.result() {
                _ if withdrawn.contains(&node.id) => Some(RecomputationCause::Withdrawn),
                Some(output) => self.against_result(view, (node, now), output).await,
                None => None,
            };
            against.extend(cause.map(|cause| (node.id.clone(), cause)));
        }
        Ok(against)
    }

    /// The same for one result; `now` is the node in the plan of the repetition.
    async fn against_result(
        &self,
        view: &RunView,
        (node, now): (&Node, &Node),
        output: &Output,
    ) -> Option<RecomputationCause> {
        let has_other_contract = node.contract != now.contract && node.items().is_none();
        if has_other_contract || output.inline.is_none() || !verifies(output) {
            let value = self.services.results.load(output).await.ok().filter(|_| verifies(output));
            match value {
                // What has happened is not made again because its account is lost.
                None if node.acts() => {}
                None => return Some(RecomputationCause::Damaged),
                Some(value) if has_other_contract && !self.holds(now, &value) => {
                    return Some(RecomputationCause::ContractFailed);
                }
                Some(_) => {}
            }
        }
        if !view.run.is_reusable(node) {
            return None;
        }
        let refs = self.refs(view, node).await?;
        if node.reach().effect == Effect::Read {
            let is_fresh = self.has_fresh_record(view, node, &refs, output).unwrap_or(false);
            return (!is_fresh).then_some(RecomputationCause::Expired);
        }
        let sigma = self.services.gatekeeper.toolbox.executable_digest(node);
        (!view.run.is_same_work(&node.id, &refs, sigma)).then_some(RecomputationCause::OtherTool)
    }

    fn holds(&self, node: &Node, value: &Value) -> bool {
        self.services.gatekeeper.satisfies(&node.contract, value)
    }

    /// Digests of the values that a node received; `None` if they cannot be read any more.
    async fn refs(&self, view: &RunView, node: &Node) -> Option<RefDigests> {
        let results = self.services.results.needed(&view.run, node).await.ok()?;
        let callbacks = &self.services.gatekeeper.callbacks;
        let address = |wait: &NodeId| callbacks.address(view.opened.run, wait);
        view.run.attempt_input(node, &results, &address).ok().map(|(_, refs)| refs)
    }

    /// True if the newest recorded read of the same work gave this result, and is as fresh as the node wants.
    fn has_fresh_record(
        &self,
        view: &RunView,
        node: &Node,
        refs: &RefDigests,
        output: &Output,
    ) -> Result<bool, JournalError> {
        let opened = &view.opened;
        let version = node.tool.as_deref().and_then(|tool| self.services.gatekeeper.toolbox.version(tool));
        let Ok(manifest) = view.run.manifest(node, refs, version, &opened.workspace) else {
            return Ok(false);
        };
        let journal = &self.services.journal;
        let Some(place) = journal.record(record_key(&opened.client, manifest.reuse()))? else {
            return Ok(false);
        };
        let stream = StreamId::run(&opened.client, place.run);
        let read = journal.read(stream, Seq(place.seq.saturating_sub(1)), 1)?;
        let is_this = |record: &&Recorded| matches!(&record.event, Event::ResultRecorded(found) if found.output.artifact == output.artifact);
        let found = read.first().filter(is_this);
        Ok(found.is_some_and(|record| {
            let age = journal.now().saturating_sub(record.at_ms).max(0);
            !matches!(node.fresh, Freshness::Within(most) if age >= most)
        }))
    }
}
