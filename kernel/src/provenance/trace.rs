//! From records to provenance.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::Value;

use super::{AnswerTrace, AttemptTrace, CarriedTrace, Moment, NodeTrace, Origin, Provenance, ResultTrace};
use crate::event::{
    AnswerVerdict, ApprovalCarried, AttemptIntent, AttemptResult, Event, HumanAnswer, NodeTransition,
    Outcome, ReuseDecided, ReuseDecision,
};
use crate::id::{Digest, NodeId, RunId};
use crate::lineage;
use crate::port::Recorded;
use crate::run::{NodeState, ReadPlan, RunFold, RunFoldError};

/// Builds the provenance of a run, one record after the other.
#[derive(Debug)]
pub struct Tracer {
    run: RunId,
    fold: RunFold,
    nodes: BTreeMap<NodeId, NodeTrace>,
    origins: BTreeMap<NodeId, Origin>,
    /// Digest of the document of the last question about a node.
    shown: BTreeMap<NodeId, Digest>,
    opened: Option<(Moment, Digest)>,
    closed: Option<Moment>,
}

impl Tracer {
    /// Starts before the first record of a run.
    pub fn of(run: RunId) -> Tracer {
        Tracer {
            run,
            fold: RunFold::of(run),
            nodes: BTreeMap::new(),
            origins: BTreeMap::new(),
            shown: BTreeMap::new(),
            opened: None,
            closed: None,
        }
    }

    /// Adds the next record of the run; `read` parses the plan of the first one. After an error the tracer must be dropped.
    ///
    /// # Errors
    ///
    /// See [`RunFold::record`].
    pub fn record(&mut self, record: &Recorded, read: &ReadPlan<'_>) -> Result<(), RunFoldError> {
        self.fold.record(record, read)?;
        let at = Moment { at: record.at_ms, seq: record.seq.0 };
        match &record.event {
            Event::RunOpened(opened) => {
                self.opened =
                    Some((at, lineage::artifact(crate::port::JSON, opened.plan.as_str().as_bytes())));
            }
            Event::RunClosed { .. } => self.closed = Some(at),
            Event::AttemptIntent(intent) => self.start(intent, at),
            Event::AttemptResult(result) => self.finish(result, at, false),
            Event::LateResult(result) => self.finish(result, at, true),
            Event::ModelCalled { node, attempt, call } => {
                let call = (**call).clone();
                self.attempt(node, *attempt, |found| found.calls.push(call));
            }
            Event::Caged { node, attempt, rung } => {
                self.attempt(node, *attempt, |found| found.cage = Some(*rung));
            }
            Event::ReuseDecided(decided) => self.origins.extend(origin(decided)),
            Event::Forked(forked) => {
                let kept = |(node, _): &(NodeId, _)| (node.clone(), Origin::Kept { from: forked.from });
                self.origins.extend(forked.done.iter().map(kept));
            }
            Event::ResultRecorded(recorded) => {
                let node = self.nodes.get_mut(&recorded.node);
                if let Some(result) = node.and_then(|node| node.result.as_mut()) {
                    result.recorded = Some(at.seq);
                }
            }
            Event::HumanRequest(request) => {
                self.shown.remove(&request.node);
                self.shown.extend(request.shown.map(|shown| (request.node.clone(), shown)));
            }
            Event::HumanAnswer(answer) => self.answer(answer, at),
            Event::WaitAnswered(answer) if answer.verdict == AnswerVerdict::Accepted => {
                self.origins.insert(answer.node.clone(), Origin::Answered { by: answer.by.clone() });
                let by = answer.by.clone();
                let given = AnswerTrace { at, by, approve: true, shown: None, carried: None };
                self.node(&answer.node).answers.push(given);
            }
            Event::ApprovalCarried(carried) => {
                let ApprovalCarried { node, by, at: answered_at, from } = &**carried;
                let (shown, by) = (self.shown.remove(node), by.clone());
                let carried = Some(CarriedTrace { from: *from, at: *answered_at });
                self.node(node).answers.push(AnswerTrace { at, by, approve: true, shown, carried });
            }
            Event::NodeTransition(moved) if moved.to.is_terminal() => self.end_of_node(moved, at),
            _ => {}
        }
        Ok(())
    }

    /// The provenance as of the last record.
    ///
    /// # Errors
    ///
    /// There was no record.
    pub fn end(self) -> Result<Provenance, RunFoldError> {
        let run = self.run;
        let folded = self.fold.end()?;
        let (opened, plan_digest) = self.opened.ok_or(RunFoldError::Unopened(run))?;
        let plan = folded.run.plan();
        Ok(Provenance {
            run,
            plan: plan.id.clone(),
            plan_digest,
            version: plan.version,
            opened,
            // An undo opens a closed run again.
            closed: self.closed.zip(folded.closed),
            parent: folded.run.terms().parent.clone(),
            client: folded.opened.client,
            agent: folded.opened.agent,
            nodes: self.nodes,
        })
    }

    /// The trace of a node, with what the current version of the plan says about the node.
    fn node(&mut self, id: &NodeId) -> &mut NodeTrace {
        let trace = self.nodes.entry(id.clone()).or_default();
        if let Some(run) = self.fold.so_far().map(|folded| &folded.run)
            && let Some(node) = run.node(id)
        {
            trace.kind = word(&node.kind);
            trace.uses = node.tool.clone().or_else(|| node.model.clone());
            trace.used = run.sources(node).into_iter().collect();
            trace.after = node.deps.iter().map(|dep| dep.n.clone()).collect();
            trace.after.sort_unstable();
        }
        trace
    }

    fn start(&mut self, intent: &AttemptIntent, started: Moment) {
        let attempts = &mut self.node(&intent.node).attempts;
        let lost = attempts.iter().filter(|earlier| earlier.attempt == intent.attempt).count();
        attempts.push(AttemptTrace {
            attempt: intent.attempt,
            lost: u32::try_from(lost).unwrap_or(u32::MAX),
            started,
            ended: None,
            failure: None,
            is_late: false,
            cost: 0,
            reuse: intent.reuse,
            intent: intent.intent,
            policy_epoch: intent.policy_epoch,
            cage: None,
            calls: Vec::new(),
        });
    }

    fn finish(&mut self, result: &AttemptResult, at: Moment, is_late: bool) {
        let failure = match &result.outcome {
            Outcome::Ok(_) => None,
            Outcome::Failed(failure) => Some(failure.category.as_str().to_owned()),
        };
        self.attempt(&result.node, result.attempt, |found| {
            (found.ended, found.failure) = (Some(at), failure);
            (found.is_late, found.cost) = (is_late, result.cost);
        });
    }

    /// Changes the last start of an attempt.
    fn attempt(&mut self, node: &NodeId, attempt: u32, change: impl FnOnce(&mut AttemptTrace)) {
        let attempts = self.nodes.get_mut(node).map(|node| &mut node.attempts);
        let found = attempts.and_then(|all| all.iter_mut().rev().find(|found| found.attempt == attempt));
        if let Some(found) = found {
            change(found);
        }
    }

    fn answer(&mut self, answer: &HumanAnswer, at: Moment) {
        let shown = self.shown.remove(&answer.node);
        let (by, approve) = (answer.by.clone(), answer.approve);
        let given = AnswerTrace { at, by, approve, shown, carried: None };
        self.node(&answer.node).answers.push(given);
    }

    fn end_of_node(&mut self, moved: &NodeTransition, at: Moment) {
        let origin = self.origins.remove(&moved.node).unwrap_or(Origin::Executed);
        let run = self.fold.so_far().map(|folded| &folded.run);
        let output = run.and_then(|run| run.instance(&moved.node)).and_then(|instance| instance.result());
        let result = output.filter(|_| moved.to == NodeState::Executed).map(|output| ResultTrace {
            artifact: output.artifact,
            bytes: output.bytes,
            origin,
            recorded: None,
        });
        let is_kept = result.as_ref().is_some_and(|result| matches!(result.origin, Origin::Kept { .. }));
        let trace = self.node(&moved.node);
        if is_kept {
            // The attempts that a fork takes over are those of the other run.
            trace.attempts.clear();
        }
        (trace.end, trace.result) = (Some((at, moved.to.to_string())), result);
    }
}

fn origin(decided: &ReuseDecided) -> Option<(NodeId, Origin)> {
    let origin = match &decided.decision {
        ReuseDecision::Reused(result) => Origin::Reused {
            from: result.from,
            sampled: result.sampled,
            basis: result.basis.word().to_owned(),
        },
        ReuseDecision::Edited { author, .. } => Origin::Edited { author: author.clone() },
        ReuseDecision::Kept { from, .. } => Origin::Kept { from: *from },
        ReuseDecision::Recomputed(_) => return None,
    };
    Some((decided.node.clone(), origin))
}

fn word(variant: &impl Serialize) -> String {
    let value = serde_json::to_value(variant).ok();
    value.as_ref().and_then(Value::as_str).unwrap_or_default().to_owned()
}
