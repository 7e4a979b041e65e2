//! Repeats a run: the same plan and terms, executed only where the new run differs.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::Arc;

use ostler_kernel::event::{ApprovalKept, ArtifactEdited, HumanRequestKind};
use ostler_kernel::id::{Digest, DigestStart, NodeId, RunId, Ticks};
use ostler_kernel::lineage::{EditRefusal, Edited, StalePolicy, check_edit};
use ostler_kernel::plan::Plan;
use ostler_kernel::run::{Doubt, EarlierApproval, Recomputation, RepeatDecision, Spent};
use serde_json::Value;

use crate::api::system::System;
use crate::api::view::RunView;
use crate::attempts::approval_request::shown;
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
    /// The fate of earlier edits whose policy is to ask, where what they rest on may change. [`StalePolicy::Ask`] refuses the
    /// repetition then.
    pub stale: StalePolicy,
}

/// A node that a repetition executes at most, and what its last execution took.
#[derive(Debug, Clone, PartialEq)]
pub struct Charge {
    /// The node.
    pub line: Recomputation,
    /// What it spent; `None`: it was never executed, or its run is gone.
    pub spent: Option<Spent>,
    /// Duration of its last attempt in milliseconds; `None` without one.
    pub took_ms: Option<Ticks>,
}

/// What a repetition executes at most.
#[derive(Debug, Clone, PartialEq)]
pub struct Invoice {
    /// The nodes, in the order of the plan.
    pub charges: Vec<Charge>,
    /// Nodes with an earlier artifact of a person that stays, although what the node rests on may come out changed.
    pub stale_edits: Vec<NodeId>,
    /// Nodes with such an artifact about which the repetition asks.
    pub asked_edits: Vec<NodeId>,
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
    /// Beginning of the digest of the result that the person saw; another present result refuses the edit. `None`: any result is
    /// replaced.
    pub seen: Option<DigestStart>,
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
    /// A node that would be executed may have acted already, and another run must not act a second time.
    #[error("{}", what_to_find_out(*.run, .node, *.doubt, *.is_over))]
    Doubt {
        /// The run.
        run: RunId,
        /// The node.
        node: NodeId,
        /// The reason.
        doubt: Doubt,
        /// The run has ended.
        is_over: bool,
    },
    /// Earlier edits rest on results that may change, and the request does not say whether the edits stay.
    #[error(
        "{}: edited before, and what the edit rests on may change; say --keep-edits to keep the edit, or --drop-edits to compute \
         the node again if it changes", names(.nodes)
    )]
    StaleEdits {
        /// The edited nodes.
        nodes: Vec<NodeId>,
    },
    /// The new run was refused.
    #[error(transparent)]
    Submit(#[from] SubmitError),
}

fn names(nodes: &[NodeId]) -> String {
    nodes.iter().map(NodeId::as_str).collect::<Vec<_>>().join(", ")
}

fn what_to_find_out(run: RunId, node: &NodeId, doubt: Doubt, is_over: bool) -> String {
    let settle = match doubt {
        Doubt::UnderWay => {
            return format!(
                "{node} acts in run {run} right now, and would act a second time: wait for its end (`ostler resume {run}` if no process \
                 runs it), or end it with `ostler cancel {run}`"
            );
        }
        Doubt::Asked => {
            format!(
                "`ostler resolve {run} {node} --done FILE` with its result, or `ostler resolve {run} {node} --fail` if it did nothing"
            )
        }
        Doubt::Unknown => {
            // A run that goes on settles nothing by hand.
            let end = if is_over { String::new() } else { format!("`ostler cancel {run}`, ") };
            format!("{end}undo by hand what is left of it, then `ostler resolve {run} {node} --gone`")
        }
    };
    format!(
        "nobody knows whether {node} has acted in run {run}, and it would act a second time; look, then settle it: {settle}"
    )
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
        let (view, decision) = self.repeat(run, &again).await?;
        if !decision.asked_edits.is_empty() {
            return Err(AgainError::StaleEdits { nodes: decision.asked_edits });
        }
        let mut terms = view.run.terms_to_repeat(run, &decision);
        let guarded = decision.executed().map(|line| (line.node.clone(), line.guards.clone()));
        let guarded: Vec<(NodeId, Vec<NodeId>)> = guarded.collect();
        self.add_answers_of_guards((run, &view), &guarded, &mut terms.approvals).await;
        if let Some(edit) = again.edit {
            let edited = self.edited(&view, edit).await?;
            terms.edits.retain(|earlier| earlier.node != edited.node);
            terms.edits.push(edited);
        }
        Ok(self.submit(Submission::continuing(&view.opened, decision.plan, terms)).await?)
    }

    /// What a repetition executes at most, each node with what its last execution took. Changes nothing.
    ///
    /// # Errors
    ///
    /// Those of [`System::run_again`].
    pub async fn invoice(&self, run: RunId, again: &Again) -> Result<Invoice, AgainError> {
        let (view, decision) = self.repeat(run, again).await?;
        let (mut charges, mut elsewhere) = (Vec::new(), BTreeMap::new());
        for line in decision.executed() {
            let made_in = view.run.instance(&line.node).and_then(|instance| instance.made_in);
            let figures = match made_in {
                None => Some(&view.figures),
                Some(run) => {
                    let other: &Option<RunView> = match elsewhere.entry(run) {
                        Entry::Occupied(known) => known.into_mut(),
                        Entry::Vacant(unread) => unread.insert(self.view(run, None).await.ok()),
                    };
                    other.as_ref().map(|other| &other.figures)
                }
            };
            let spent = figures.and_then(|figures| figures.spending.of(&line.node));
            let took_ms = figures.and_then(|figures| figures.took.get(&line.node)).copied();
            let mut line = line.clone();
            if line.approved == Some(EarlierApproval::Holds)
                && !self.still_shows(run, &view, &line.node).await
            {
                line.approved = Some(EarlierApproval::Void);
            }
            charges.push(Charge { line, spent, took_ms: took_ms.filter(|_| spent.is_some()) });
        }
        let RepeatDecision { stale_edits, asked_edits, .. } = decision;
        Ok(Invoice { charges, stale_edits, asked_edits })
    }

    /// True if the questions about a node that people have approved in a run would show the same today: tools, files and policy are
    /// what they were.
    async fn still_shows(&self, run: RunId, view: &RunView, id: &NodeId) -> bool {
        let Some(node) = view.run.node(id) else { return false };
        let gatekeeper = &self.services.gatekeeper;
        for approval in view.run.approvals_of(run, id) {
            let now = match approval.kind {
                HumanRequestKind::After => {
                    let output = view.run.instance(id).and_then(|instance| instance.output.as_ref());
                    output.map_or(approval.shown, |output| output.artifact)
                }
                kind => {
                    let results = &self.services.results;
                    let shown = shown(gatekeeper, results, &view.opened, &view.run, node, kind, None).await;
                    shown.request.digest()
                }
            };
            let policy = gatekeeper.policy_digest();
            let material = view.run.approval_material(id, approval.kind, now, policy);
            if material != Some(approval.material) {
                return false;
            }
        }
        true
    }

    /// Adds the answers of guards that stood for effects of a run: the question about another effect names the person, and what differs
    /// from the call that was made. An effect with an approval of its own has that.
    pub(crate) async fn add_answers_of_guards(
        &self,
        (run, view): (RunId, &RunView),
        guarded: &[(NodeId, Vec<NodeId>)],
        approvals: &mut Vec<ApprovalKept>,
    ) {
        for (effect, guards) in guarded {
            let is_there =
                |kept: &ApprovalKept| kept.node == *effect && kept.kind == HumanRequestKind::Before;
            let (Some(guard), Some(node)) = (guards.first(), view.run.node(effect)) else { continue };
            if approvals.iter().any(is_there) {
                continue;
            }
            let (gatekeeper, results) = (&self.services.gatekeeper, &self.services.results);
            let before = HumanRequestKind::Before;
            let made = shown(gatekeeper, results, &view.opened, &view.run, node, before, None).await.request;
            // Without the document, for lack of space, the question shows no difference.
            let _ = results.artifacts.put(made.document()).await;
            approvals.extend(view.run.approval_by_guard(run, guard, effect.clone(), made.digest()));
        }
    }

    /// The result that an edit replaces; `None` without an edit, or if it cannot be read.
    pub(crate) async fn edited_result(&self, view: &RunView, again: &Again) -> Option<Value> {
        let output = view.run.instance(&again.edit.as_ref()?.node)?.result()?;
        self.services.results.load(output).await.ok()
    }

    /// Stores the content of an edit.
    async fn edited(&self, view: &RunView, edit: NodeEdit) -> Result<ArtifactEdited, AgainError> {
        let NodeEdit { node, value, author, stale, .. } = edit;
        let instance = view.run.instance(&node);
        let kept = self.services.results.keep(&value).await;
        let output =
            kept.map_err(|failure| AgainError::Content { node: node.clone(), why: failure.message })?;
        let base = instance.and_then(|instance| instance.identity).map(|work| work.reuse);
        Ok(ArtifactEdited { node, output, author, base, stale })
    }

    pub(crate) fn check_edit_of(&self, view: &RunView, edit: &NodeEdit) -> Result<(), AgainError> {
        let NodeEdit { node, value, seen, .. } = edit;
        let description = view.run.node(node).ok_or_else(|| RunError::UnknownNode(node.clone()))?;
        let broken = match self.services.gatekeeper.judge(&description.contract, value) {
            Ok(judged) => judged.broken.first().map(ToString::to_string),
            Err(error) => Some(error.to_string()),
        };
        let result = view.run.instance(node).and_then(|instance| instance.result());
        let current = result.map(|output| output.artifact);
        let edited = Edited { current, acts: description.acts(), satisfies: broken.is_none() };
        check_edit(edited, seen.as_ref()).map_err(|why| AgainError::Edit {
            node: node.clone(),
            why,
            current,
            broken,
        })
    }
}
