//! Repeats a run: the same plan and terms, executed only where the new run differs.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use ostler_kernel::event::{ArtifactEdited, CallTerms, Fresh, ReuseTerms};
use ostler_kernel::id::{Digest, NodeId, RunId};
use ostler_kernel::lineage::{EditRefusal, Edited, StalePolicy, check_edit};
use ostler_kernel::plan::Plan;
use ostler_kernel::run::{Change, Recomputation, RecomputationCause, Spent};
use serde_json::Value;

use crate::api::system::System;
use crate::api::view::RunView;
use crate::base::error::RunError;
use crate::messages::submission::{Submission, SubmitError};

/// The differences between a run and its repetition.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Again {
    /// Node to execute again, with all nodes below, even if results are recorded. `None`: reuse wherever the work is the same.
    pub from: Option<NodeId>,
    /// A person's replacement for the result of a node. Earlier edits of the run stay.
    pub edit: Option<NodeEdit>,
    /// The plan of the repetition; `None`: that of the run. Edits of nodes that it lacks are dropped.
    pub plan: Option<Arc<Plan>>,
}

impl Again {
    fn change<'a>(&'a self, withdrawn: &'a BTreeSet<NodeId>, before: Option<&'a Value>) -> Change<'a> {
        Change {
            plan: self.plan.as_deref(),
            edited: self.edit.as_ref().map(|edit| &edit.node),
            contents: self.edit.as_ref().and_then(|edit| Some((before?, &edit.value))),
            from: self.from.as_ref(),
            withdrawn: Some(withdrawn),
        }
    }
}

/// An edit of a result.
#[derive(Debug, Clone, PartialEq)]
pub struct NodeEdit {
    /// Node with the result to replace.
    pub node: NodeId,
    /// The new content.
    pub value: Value,
    /// Name of the editing person.
    pub author: String,
    /// Digest of the result that the person saw; another present result refuses the edit. `None`: any result is replaced.
    pub seen: Option<Digest>,
    /// Policy for the edit after the inputs of the node change.
    pub stale: StalePolicy,
}

/// The reason why a run is not repeated.
#[derive(Debug, thiserror::Error)]
pub enum AgainError {
    /// The run cannot be read, or has no such node.
    #[error(transparent)]
    Run(#[from] RunError),
    /// A goal run is not repeated: each answer of its models depends on the answers before.
    #[error("run {0} pursues a goal: ask anew with `ostler ask --on {0}`")]
    Goal(RunId),
    /// The edit was refused.
    #[error("the edit of {node} is refused: {}", in_words(*.why, *.current, .broken.as_deref()))]
    Edit {
        /// The node.
        node: NodeId,
        /// The reason.
        why: EditRefusal,
        /// Digest of the present result.
        current: Option<Digest>,
        /// The rule of the contract that the new content breaks.
        broken: Option<String>,
    },
    /// The new content cannot be kept.
    #[error("the new content of {node}: {why}")]
    Content {
        /// The node.
        node: NodeId,
        /// The reason.
        why: String,
    },
    /// The new run was refused.
    #[error(transparent)]
    Submit(#[from] SubmitError),
    /// The plan of the run cannot be read.
    #[error("the plan of the run cannot be read: {0}")]
    Plan(#[from] serde_json::Error),
}

fn in_words(why: EditRefusal, current: Option<Digest>, broken: Option<&str>) -> String {
    match why {
        EditRefusal::NoArtifact => {
            "it has no result; only the result of an executed node can be edited".to_owned()
        }
        EditRefusal::OldMismatch => {
            format!(
                "its result is b3:{} now; look at it, and edit that",
                current.map(|digest| digest.to_string()).unwrap_or_default()
            )
        }
        EditRefusal::Effectful => "it changed the world, and what happened cannot be edited".to_owned(),
        EditRefusal::ContractFailed => {
            let broken = broken.map(|rule| format!(": {rule}")).unwrap_or_default();
            format!("the new content breaks the contract of the node{broken}")
        }
    }
}

impl System {
    /// Opens a run with the plan, the client and the terms of an earlier run. Recorded results replace the execution of nodes with
    /// the same work as before. The new run is durable on return.
    ///
    /// # Errors
    ///
    /// See [`AgainError`]; no run is opened.
    pub async fn run_again(&self, run: RunId, again: Again) -> Result<RunId, AgainError> {
        let view = self.repeatable(run).await?;
        let plan = match &again.plan {
            Some(plan) => Arc::clone(plan),
            None => self.services.runs.plans.read(&view.opened.plan)?,
        };
        let below = |node: &NodeId| {
            let at = plan.position(node).ok_or_else(|| RunError::UnknownNode(node.clone()))?;
            Ok::<_, RunError>(with_all_below(&plan, at))
        };
        let fresh = again.from.as_ref().map(below).transpose()?;
        // Children of a list are in no plan before the list is expanded.
        let is_there = |node: &NodeId| again.plan.is_none() || plan.position(node).is_some();
        let withdrawn = self.withdrawn_in(run, &view.run)?;
        let before = self.edited_result(&view, &again).await;
        let recomputed = view.run.recomputed(again.change(&withdrawn, before.as_ref()));
        // A repetition without a change is a run like the first: it acts again.
        let kept = match recomputed.iter().any(|line| line.cause == Some(RecomputationCause::Repeats)) {
            true => Vec::new(),
            false => {
                let mut changed: BTreeSet<NodeId> = recomputed.into_iter().map(|line| line.node).collect();
                changed.extend(again.edit.iter().map(|edit| edit.node.clone()));
                let mut kept = view.run.results_to_keep(run, &changed);
                kept.retain(|kept| is_there(&kept.node));
                kept
            }
        };
        let fresh = fresh.map_or(Fresh::Nothing, Fresh::Nodes);
        let mut edits: Vec<ArtifactEdited> = view.run.edits().cloned().collect();
        edits.retain(|edit| is_there(&edit.node));
        if let Some(edit) = again.edit {
            let edited = self.edited(&view, edit).await?;
            edits.retain(|earlier| earlier.node != edited.node);
            edits.push(edited);
        }
        let opened = &view.opened;
        let is_named = opened.agent.as_str() != run.to_string();
        let calls = view.run.call_terms().map(|terms| CallTerms { account: None, ..*terms });
        let submission = Submission {
            client: opened.client.clone(),
            agent: is_named.then(|| opened.agent.clone()),
            intent: opened.intent,
            scope: opened.scope.clone(),
            workspace: opened.workspace.clone().into(),
            budget: view.run.terms().budget,
            calls,
            reuse: Some(ReuseTerms { fresh }),
            edits,
            kept,
            exposure: view.run.exposure().clone(),
            ..Submission::plan(Arc::clone(&plan))
        };
        Ok(self.submit(submission).await?)
    }

    /// What a repetition executes at most, each node with what it spent when it was executed last; `None`: it never was, or its run
    /// is gone. Changes nothing.
    ///
    /// # Errors
    ///
    /// Those of [`System::run_again`].
    pub async fn invoice(
        &self,
        run: RunId,
        again: &Again,
    ) -> Result<Vec<(Recomputation, Option<Spent>)>, AgainError> {
        let view = self.repeatable(run).await?;
        if let Some(edit) = &again.edit {
            self.check(&view, edit)?;
        }
        if let Some(unknown) = again.from.as_ref().filter(|node| view.run.node(node).is_none()) {
            return Err(RunError::UnknownNode(unknown.clone()).into());
        }
        let (withdrawn, before) =
            (self.withdrawn_in(run, &view.run)?, self.edited_result(&view, again).await);
        let recomputed = view.run.recomputed(again.change(&withdrawn, before.as_ref()));
        let mut lines = Vec::with_capacity(recomputed.len());
        let mut elsewhere: BTreeMap<RunId, Option<RunView>> = BTreeMap::new();
        for line in recomputed {
            let here = &view.figures.spending;
            let spent = match here.made_in(&line.node) {
                None => here.of(&line.node),
                Some(run) => {
                    let other = match elsewhere.entry(run) {
                        Entry::Occupied(known) => known.into_mut(),
                        Entry::Vacant(unread) => unread.insert(self.view(run, None).await.ok()),
                    };
                    other.as_ref().and_then(|other| other.figures.spending.of(&line.node))
                }
            };
            lines.push((line, spent));
        }
        Ok(lines)
    }

    async fn repeatable(&self, run: RunId) -> Result<RunView, AgainError> {
        let view = self.view(run, None).await?;
        if view.run.goal().is_some() { Err(AgainError::Goal(run)) } else { Ok(view) }
    }

    /// The result that an edit replaces; `None` without an edit, or if it cannot be read.
    async fn edited_result(&self, view: &RunView, again: &Again) -> Option<Value> {
        let output = view.run.instance(&again.edit.as_ref()?.node)?.result()?;
        self.services.results.load(output).await.ok()
    }

    /// Checks an edit, and stores its content.
    async fn edited(&self, view: &RunView, edit: NodeEdit) -> Result<ArtifactEdited, AgainError> {
        self.check(view, &edit)?;
        let NodeEdit { node, value, author, stale, .. } = edit;
        let instance = view.run.instance(&node);
        let kept = self.services.results.keep(&value).await;
        let output =
            kept.map_err(|failure| AgainError::Content { node: node.clone(), why: failure.message })?;
        let base = instance.and_then(|instance| instance.identity).map(|work| work.reuse);
        Ok(ArtifactEdited { node, output, author, base, stale })
    }

    fn check(&self, view: &RunView, edit: &NodeEdit) -> Result<(), AgainError> {
        let NodeEdit { node, value, seen, .. } = edit;
        let description = view.run.node(node).ok_or_else(|| RunError::UnknownNode(node.clone()))?;
        let broken = match self.services.gatekeeper.contract(&description.contract) {
            Ok(contract) => contract.judge(value).broken.first().map(ToString::to_string),
            Err(error) => Some(error.to_string()),
        };
        let result = view.run.instance(node).and_then(|instance| instance.result());
        let current = result.map(|output| output.artifact);
        let edited = Edited { current, acts: description.acts(), satisfies: broken.is_none() };
        check_edit(edited, *seen).map_err(|why| AgainError::Edit { node: node.clone(), why, current, broken })
    }
}

/// Ids of the node at `at` and of all nodes below.
fn with_all_below(plan: &Plan, at: usize) -> Vec<NodeId> {
    std::iter::once(at).chain(plan.graph().below(at)).map(|at| plan.nodes[at].id.clone()).collect()
}
