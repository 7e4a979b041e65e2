//! Recall: withdraws recorded results, and voids what rests on them.

use std::collections::{BTreeMap, BTreeSet};

use ostler_kernel::event::{RecordPlace, Retraction, Withdrawn};
use ostler_kernel::grant::Grant;
use ostler_kernel::id::{CLIENT_DEFAULT, ClientId, NodeId, RunId};
use ostler_kernel::json::canonical;
use ostler_kernel::port::{Recorded, RunRow, RunRowStatus};
use ostler_kernel::run::{NodeState, Operation, Origins, Recall, Run};
use serde_json::json;

use crate::api::system::System;
use crate::api::view::RunView;
use crate::base::error::RunError;
use crate::messages::registry::RegistryMessage;
use crate::messages::retraction::{NAME_BYTES_MAX, RetractError, RetractionStep};
use crate::run::suspended_runs;

/// Most nodes that a recall names. All are counted.
pub const REACHED_MAX: usize = 1_000;

/// The results to withdraw.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RecallTarget {
    /// The result of a node.
    Result {
        /// The run.
        run: RunId,
        /// The node.
        node: NodeId,
    },
    /// All results of a tool, past and future ones, of all clients. The tool `model.NAME` is the model `NAME`.
    Tool {
        /// The tool.
        tool: String,
        /// The version; `None`: all versions.
        version: Option<String>,
    },
}

/// The result of a recall, or of its preview.
#[derive(Debug, Clone, Default)]
pub struct Recalled {
    /// The retraction; `None` for a preview.
    pub retraction: Option<Retraction>,
    /// Number of withdrawn records.
    pub records: usize,
    /// The nodes with a withdrawn result or one that rests on withdrawn ones, oldest run first; at most [`REACHED_MAX`].
    pub reached: Vec<ReachedNode>,
    /// Number of such nodes.
    pub reached_total: usize,
    /// Nodes of open runs with a void approval: cancelled.
    pub voided: Vec<(RunId, NodeId)>,
    /// Grants that approved such nodes of open runs: revoked.
    pub grants: Vec<Grant>,
    /// The newest run of each plan with such nodes: repeated, it executes what is withdrawn, and what rests on it.
    pub again: Vec<RunId>,
    /// Runs that cannot be read or changed, and the reason.
    pub unreadable: Vec<(RunId, RunError)>,
}

/// A node with a result that is withdrawn, or rests on withdrawn ones.
#[derive(Debug, Clone, PartialEq)]
pub struct ReachedNode {
    /// The run.
    pub run: RunId,
    /// The node.
    pub node: NodeId,
    /// State of the node.
    pub state: NodeState,
    /// The node's own result is withdrawn.
    pub is_withdrawn: bool,
    /// The node has changed the world, or may have.
    pub has_acted: bool,
}

impl System {
    /// Previews a retraction: the nodes, approvals and grants that it would reach. Changes nothing.
    ///
    /// # Errors
    ///
    /// See [`RetractError`].
    pub async fn recall_preview(&self, target: RecallTarget) -> Result<Recalled, RetractError> {
        let (_, what) = self.withdrawn(target.clone()).await?;
        let found = self.survey(&what).await?;
        self.check_tool(target, &found)?;
        Ok(found)
    }

    /// Withdraws results in the name of `by`: they never stand in for an execution again. Cancels the nodes of open runs with an
    /// approval that rests on them, and revokes the grants that approved such nodes. Durable on return; dropping the future may or
    /// may not have withdrawn the results. A process that dies in between does the rest before the next answer, or the next resumption.
    ///
    /// # Errors
    ///
    /// See [`RetractError`].
    pub async fn retract(&self, target: RecallTarget, by: &str) -> Result<Recalled, RetractError> {
        let (client, what) = self.withdrawn(target.clone()).await?;
        if matches!(&target, RecallTarget::Tool { tool, .. } if !self.has_tool(tool)) {
            self.check_tool(target, &self.survey(&what).await?)?;
        }
        let retraction = Retraction { id: String::new(), client, what, by: by.to_owned() };
        // A task of its own: a caller that hangs up must not leave half a recall.
        let system = self.clone();
        let recalled = tokio::spawn(async move {
            let recorded = system.ask_registry(|reply| RegistryMessage::Retract { retraction, reply }).await;
            let (retraction, position) = recorded.ok_or(RetractError::Restarting)??;
            if let Some(position) = position {
                system.services.journal.durable(position).await?;
            }
            Ok(system.carry_out(&retraction).await?)
        });
        recalled.await.unwrap_or(Err(RetractError::Restarting))
    }

    /// Lifts a retraction in the name of `by`: its results may stand in again. What it voided stays void. Durable on return.
    ///
    /// # Errors
    ///
    /// See [`RetractError`].
    pub async fn lift_retraction(&self, id: &str, by: &str) -> Result<Retraction, RetractError> {
        self.end_retraction(id, RetractionStep::Lifted(by.to_owned())).await
    }

    /// The retractions in force, the oldest first.
    pub fn retractions(&self) -> Vec<Retraction> {
        self.services.retractions.in_force()
    }

    /// Refuses a tool that the system does not know and that has no results.
    fn check_tool(&self, target: RecallTarget, found: &Recalled) -> Result<(), RetractError> {
        match target {
            RecallTarget::Tool { tool, .. } if found.records == 0 && !self.has_tool(&tool) => {
                let nearest = self.similar_tool(&tool);
                Err(RetractError::UnknownTool { tool, nearest })
            }
            _ => Ok(()),
        }
    }

    async fn end_retraction(&self, id: &str, step: RetractionStep) -> Result<Retraction, RetractError> {
        let id = id.to_owned();
        let ended = self.ask_registry(|reply| RegistryMessage::EndRetraction { id, step, reply }).await;
        let (retraction, position) = ended.ok_or(RetractError::Restarting)??;
        self.services.journal.durable(position).await?;
        Ok(retraction)
    }

    /// Carries out the retractions that a process left half done when it died.
    pub(crate) async fn finish_retractions(&self) -> Result<(), RunError> {
        for retraction in self.services.retractions.unfinished() {
            Box::pin(self.carry_out(&retraction)).await?;
        }
        Ok(())
    }

    /// The records to withdraw, and the client whose stream has the retraction.
    async fn withdrawn(&self, target: RecallTarget) -> Result<(ClientId, Withdrawn), RetractError> {
        match target {
            RecallTarget::Tool { tool, version } => {
                let names = std::iter::once(&tool).chain(&version);
                if let Some(name) = names.into_iter().find(|name| !(1..=NAME_BYTES_MAX).contains(&name.len()))
                {
                    return Err(RetractError::Name(name.chars().take(NAME_BYTES_MAX).collect()));
                }
                let fields = match version {
                    Some(version) => json!({"tool": tool, "tool_version": version}),
                    None => json!({"tool": tool}),
                };
                let fields = canonical(&fields).expect("texts are canonical");
                Ok((CLIENT_DEFAULT.into(), Withdrawn::Executable(fields)))
            }
            RecallTarget::Result { run, node } => {
                let view = self.view(run, None).await?;
                let instance = view.run.instance(&node);
                let instance = instance.ok_or_else(|| RunError::UnknownNode(node.clone()))?;
                if instance.result().is_none() {
                    let state = instance.state();
                    return Err(RunError::NoResult { node, state }.into());
                }
                if let Some(edit) = view.run.edit_of(&node).filter(|_| view.run.is_edited(&node)) {
                    return Err(RetractError::Edited(node.clone(), edit.author.clone()));
                }
                let (run, place) = self.maker(run, &node)?;
                Ok((view.opened.client.clone(), Withdrawn::Result { run, node, place }))
            }
        }
    }

    /// Nodes with a result that a retraction in force withdraws.
    ///
    /// # Errors
    ///
    /// The run cannot be read.
    pub fn withdrawn_results(&self, run: RunId, view: &RunView) -> Result<BTreeSet<NodeId>, RunError> {
        self.withdrawn_in(run, &view.run)
    }

    /// The run that made the result of a node, through runs that keep it as their own, and the record behind it.
    fn maker(&self, run: RunId, node: &NodeId) -> Result<(RunId, Option<RecordPlace>), RunError> {
        let mut maker = run;
        loop {
            let what = Withdrawn::Result { run: maker, node: node.clone(), place: None };
            let (_, origins) = self.origins(&self.row(maker)?, &what)?;
            match origins.made_in(node) {
                // The run may be deleted, while this one has its result.
                Some(earlier) if earlier != maker && self.row(earlier).is_ok() => maker = earlier,
                _ => return Ok((maker, origins.bound(node))),
            }
        }
    }

    /// Nodes of a run with a result that a retraction in force withdraws, of the run itself or of those whose results it keeps.
    ///
    /// # Errors
    ///
    /// The run cannot be read.
    pub(crate) fn withdrawn_in(&self, run: RunId, of: &Run) -> Result<BTreeSet<NodeId>, RunError> {
        let retractions = self.services.retractions.in_force();
        let mut withdrawn = BTreeSet::new();
        if retractions.is_empty() {
            return Ok(withdrawn);
        }
        let mut makers: BTreeMap<RunId, Vec<&NodeId>> = BTreeMap::from([(run, Vec::new())]);
        for kept in of.kept_results() {
            makers.entry(kept.from).or_default().push(&kept.node);
        }
        for (maker, kept) in makers {
            let row = match self.row(maker) {
                // Its records are gone, and with them what could be withdrawn.
                Err(RunError::Unknown(_)) if maker != run => continue,
                row => row?,
            };
            let mut origins: Vec<Origins<'_>> =
                retractions.iter().map(|retraction| Origins::of(maker, &retraction.what)).collect();
            let see = |record: &Recorded| {
                origins.iter_mut().for_each(|origins| origins.see(record.seq.0, &record.event));
            };
            self.services.runs.fold(&row, None, see)?;
            let found = origins.iter().flat_map(|origins| origins.withdrawn());
            withdrawn.extend(found.filter(|node| maker == run || kept.contains(node)).cloned());
        }
        Ok(withdrawn)
    }

    fn origins<'a>(&self, row: &RunRow, what: &'a Withdrawn) -> Result<(Run, Origins<'a>), RunError> {
        let mut origins = Origins::of(row.run, what);
        let folded = self.services.runs.fold(row, None, |record| origins.see(record.seq.0, &record.event))?;
        Ok((folded.run, origins))
    }

    /// Finds everything that rests on withdrawn results, in all runs.
    async fn survey(&self, what: &Withdrawn) -> Result<Recalled, RunError> {
        let mut rows = self.services.journal.runs(false)?;
        rows.retain(|row| !matches!(row.status, RunRowStatus::Quarantined(_)));
        rows.sort_by_key(|row| (row.opened_ms, row.run));
        let mut recall = Recall::of(what);
        loop {
            let (mut found, mut grew) = (Survey::default(), false);
            for row in &rows {
                match self.origins(row, what) {
                    Ok((run, origins)) => {
                        grew |= recall.add(&run, &origins);
                        self.add_reached(row, &run, &origins, &recall, &mut found);
                    }
                    // Deleted since the list was made.
                    Err(RunError::Unknown(_)) => {}
                    Err(error) => found.recalled.unreadable.push((row.run, error)),
                }
                // A long list blocks no thread.
                tokio::task::yield_now().await;
            }
            if !grew {
                found.recalled.records = recall.records();
                found.recalled.again = found.newest.into_values().collect();
                found.recalled.again.sort();
                return Ok(found.recalled);
            }
        }
    }

    /// Adds the reached nodes of a run to what was found.
    fn add_reached(
        &self,
        row: &RunRow,
        run: &Run,
        origins: &Origins<'_>,
        recall: &Recall,
        found: &mut Survey,
    ) {
        let is_open = !matches!(row.status, RunRowStatus::Closed(_));
        let grants = self.services.grants.in_force(self.services.journal.now());
        let Survey { recalled, newest } = found;
        for (node, instance) in run.instances().filter(|(node, _)| recall.has(row.run, &node.id)) {
            let state = instance.state();
            let is_lost = matches!(state, NodeState::Skipped | NodeState::Cancelled);
            let has_acted = run.has_acted(node);
            if is_lost && !has_acted {
                continue;
            }
            let is_withdrawn = recall.is_withdrawn(origins, &node.id);
            recalled.reached_total += 1;
            if recalled.reached.len() < REACHED_MAX {
                let (run, node) = (row.run, node.id.clone());
                recalled.reached.push(ReachedNode { run, node, state, is_withdrawn, has_acted });
            }
            if run.goal().is_none() && run.terms().parent.is_none() {
                newest.insert((row.client.clone(), row.plan.clone()), row.run);
            }
            if !is_open {
                continue;
            }
            let rests = !is_withdrawn || instance.output.is_some();
            if rests && run.has_open_approval(node) {
                recalled.voided.push((row.run, node.id.clone()));
            }
            let by = instance.answered.as_ref().map(|answered| &answered.by);
            let gave = grants.iter().find(|grant| by == Some(&grant.terms.answers_as()));
            if let Some(grant) = gave.filter(|grant| !recalled.grants.contains(grant)) {
                recalled.grants.push(grant.clone());
            }
        }
    }

    /// Voids what rests on the withdrawn results, and records that it is done. Repeats nothing that is void already.
    async fn carry_out(&self, retraction: &Retraction) -> Result<Recalled, RunError> {
        let mut recalled = self.survey(&retraction.what).await?;
        let mut failed = Vec::new();
        for (run, node) in &recalled.voided {
            if let Err(error) = self.void(*run, node).await {
                failed.push((*run, error));
            }
        }
        for grant in &recalled.grants {
            // Another request may have revoked it.
            let _ = self.revoke_grant(&grant.terms.id, &retraction.by).await;
        }
        let is_unfinished = self.services.retractions.unfinished().iter().any(|one| one.id == retraction.id);
        if failed.is_empty() && is_unfinished {
            // Lifted meanwhile, or carried out by another request: nothing is left to record.
            let _ = self.end_retraction(&retraction.id, RetractionStep::CarriedOut).await;
        }
        recalled.unreadable.extend(failed);
        recalled.retraction = Some(retraction.clone());
        Ok(recalled)
    }

    /// Cancels a node that waits for an approval, or was approved and has not started. A run without a driver is not started.
    async fn void(&self, run: RunId, node: &NodeId) -> Result<(), RunError> {
        let operation = Operation::Cancel(node.clone());
        let voided = if self.rests(run) {
            match suspended_runs::operate(&self.services, &self.row(run)?, &operation) {
                Ok(position) => Ok(self.services.journal.durable(position).await?),
                Err(error) => Err(error),
            }
        } else {
            self.cancel_node(run, node.clone()).await
        };
        match voided {
            // It ended with a node above it, or with its run.
            Err(RunError::Over | RunError::NodeOver { .. }) => Ok(()),
            voided => voided,
        }
    }
}

/// Findings of a survey so far.
#[derive(Default)]
struct Survey {
    recalled: Recalled,
    /// The newest run of each plan of a client.
    newest: BTreeMap<(ClientId, String), RunId>,
}
