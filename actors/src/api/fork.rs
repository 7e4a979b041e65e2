//! Forks: runs that continue another run from one of its records.

use std::collections::BTreeMap;

use ostler_kernel::event::Event;
use ostler_kernel::id::{NodeId, RunId};
use ostler_kernel::plan::{Delta, NodeFields};
use ostler_kernel::port::{Seq, StreamId};
use ostler_kernel::run::{FORK_RECORDS_MAX, ForkPrefix, NodeStatus, Operation, Run, RunFoldError, RunInput};
use serde_json::{Map, Value};

use crate::api::submission::new_run_id;
use crate::api::system::System;
use crate::base::error::RunError;
use crate::messages::submission::{Submission, SubmitError};
use crate::storage::run_reader;

/// A fork of a run.
#[derive(Debug, Clone, PartialEq)]
pub struct Fork {
    /// The last record to take over. Records of one append are taken over together.
    pub at: Seq,
    /// New values of parameters, by node. The nodes have not started by then.
    pub set: BTreeMap<NodeId, Map<String, Value>>,
    /// Name of the person.
    pub by: String,
}

/// The reason why a run is not forked. Nothing has changed.
#[derive(Debug, thiserror::Error)]
pub enum ForkError {
    /// The run cannot be read, or has no such node.
    #[error(transparent)]
    Run(#[from] RunError),
    /// A goal run is not forked: each answer of its models depends on the answers before.
    #[error("run {0} pursues a goal: ask anew with `ostler ask --on {0}`")]
    Goal(RunId),
    /// The run is executed by this process.
    #[error("run {0} is running: wait for its end, or suspend it with `ostler checkpoint {0}`")]
    Running(RunId),
    /// The run has no such record.
    #[error("run {run} has the records 1 to {}: there is no record {}", .last.0, .at.0)]
    Record {
        /// The run.
        run: RunId,
        /// The number.
        at: Seq,
        /// The last record.
        last: Seq,
    },
    /// Too many records would be taken over.
    #[error("a fork takes over at most {FORK_RECORDS_MAX} records: choose an earlier one")]
    TooLong,
    /// The parameter is no literal of the plan.
    #[error("parameter {param} of {node} comes from another node: edit the result of that node instead")]
    Reference {
        /// The node.
        node: NodeId,
        /// The parameter.
        param: String,
    },
    /// The node had started by then.
    #[error(
        "node {0} had started by then, so its parameters cannot be set any more: fork at an earlier record"
    )]
    Started(NodeId),
    /// The result of the node was withdrawn since.
    #[error("the result of {0} was withdrawn: fork before the node was executed")]
    Withdrawn(NodeId),
    /// The effect of the node was undone since.
    #[error("the effect of {0} was undone: fork before the node was executed")]
    Undone(NodeId),
    /// The new run was refused.
    #[error(transparent)]
    Submit(#[from] SubmitError),
    /// The plan of the run cannot be read.
    #[error("the plan of the run cannot be read: {0}")]
    Plan(#[from] serde_json::Error),
}

impl System {
    /// Opens a run that continues another one from one of its records. Nodes that were executed by then keep their results, and are
    /// not executed again; attempts that may have changed the world are in doubt; everything later is executed anew. The new run is
    /// durable on return.
    ///
    /// # Errors
    ///
    /// See [`ForkError`]; no run is opened.
    pub async fn fork(&self, from: RunId, fork: Fork) -> Result<RunId, ForkError> {
        let row = self.row(from)?;
        if !self.rests(from) {
            return Err(ForkError::Running(from));
        }
        let mut prefix = ForkPrefix::until(fork.at);
        let stream = StreamId::run(&row.client, from);
        run_reader::each(&**self.services.journal, stream, None, |record| -> Result<(), RunError> {
            prefix.see(from, record);
            Ok(())
        })?;
        let opened = prefix.opened.clone().ok_or(RunError::Fold(RunFoldError::Unopened(from)))?;
        match prefix.last {
            _ if prefix.has_goal => return Err(ForkError::Goal(from)),
            last if fork.at > last => return Err(ForkError::Record { run: from, at: fork.at, last }),
            _ if prefix.is_too_long() => return Err(ForkError::TooLong),
            _ => {}
        }
        let plan = self.services.runs.plans.read(&opened.plan)?;
        let (run, now) = (new_run_id(), self.services.journal.now());
        let mut state = Run::new(plan.clone(), opened.seed, now);
        let mut records = prefix.records(now);
        for record in &records {
            state.apply(record, now).map_err(|step| RunError::Change(step.to_string()))?;
        }
        let is_done = |node: &NodeId| {
            state.instance(node).is_some_and(|instance| instance.status == NodeStatus::Executed)
        };
        let withdrawn = self.withdrawn_in(from, &state)?;
        if let Some(node) = withdrawn.iter().find(|node| is_done(node)) {
            return Err(ForkError::Withdrawn(node.clone()));
        }
        let today = self.view(from, None).await?;
        if let Some(node) = today.run.undone().into_iter().find(|node| is_done(node)) {
            return Err(ForkError::Undone(node.clone()));
        }
        let mut approvals = today.run.approvals_since(from, &state, &withdrawn);
        let forked = prefix.forked(from, &state, fork.by);
        state.apply(&forked, now).map_err(|step| RunError::Change(step.to_string()))?;
        self.leave_in_doubt((from, &today.run), run, &mut state, &mut records);
        records.extend(state.void_approvals(from, now));
        let guarded = state.instances().filter(|(_, instance)| instance.is_live());
        let guarded = guarded.map(|(node, _)| (node.id.clone(), state.guards_elsewhere(&node.id)));
        let guarded: Vec<(NodeId, Vec<NodeId>)> = guarded.collect();
        self.add_answers_of_guards((from, &today), &guarded, &mut approvals).await;
        if !fork.set.is_empty() {
            self.set_params(run, &mut state, fork.set, &mut records)?;
        }
        records.insert(0, forked);
        let mut terms = prefix.terms.clone().without_account();
        terms.reuse.get_or_insert_default();
        terms.kept.retain(|kept| !withdrawn.contains(&kept.node));
        terms.approvals = approvals;
        let submission = Submission { run: Some(run), ..Submission::continuing(&opened, plan, terms) };
        Ok(self.open_with(submission, None, (records, state.has_open_question())).await?)
    }

    /// Leaves attempts in doubt that may have changed the world: under the id of another run, no receiver recognises them. `today`: the
    /// other run as it is now.
    fn leave_in_doubt(
        &self,
        (from, today): (RunId, &Run),
        run: RunId,
        state: &mut Run,
        records: &mut Vec<Event>,
    ) {
        for node in state.acting() {
            let mut what = format!("under way in run {from} at the record of the fork");
            if today.instance(&node).is_some_and(|instance| instance.result().is_some()) {
                what.push_str(&format!(
                    ", and executed there since; to take its result over: \
                     `ostler artifact {from}/{node} > FILE`, then `ostler resolve {run} {node} --done FILE`"
                ));
            }
            let input = RunInput::WorkChanged { node, what };
            records.extend(
                self.services.kernel.without_planner(run, state, |state, cx| state.decide(cx, input)),
            );
        }
    }

    fn set_params(
        &self,
        run: RunId,
        state: &mut Run,
        set: BTreeMap<NodeId, Map<String, Value>>,
        records: &mut Vec<Event>,
    ) -> Result<(), ForkError> {
        let mut delta = Delta::default();
        for (id, values) in set {
            let node = state.node(&id).ok_or_else(|| RunError::UnknownNode(id.clone()))?;
            if state.instance(&id).is_some_and(|instance| instance.attempts > 0 || !instance.is_live()) {
                return Err(ForkError::Started(id));
            }
            if let Some(param) = values.keys().find(|param| node.param_refs.contains_key(*param)) {
                return Err(ForkError::Reference { node: id, param: param.clone() });
            }
            let mut params: Map<String, Value> = serde_json::from_value(serde_json::to_value(&node.params)?)?;
            params.extend(values);
            delta.set.insert(id, NodeFields { params: Some(params), ..NodeFields::default() });
        }
        let operation = Operation::Delta(Box::new(delta));
        let settings = self.services.kernel.settings_of(state);
        state.check_operation(&operation, &settings).map_err(RunError::from)?;
        let input = RunInput::Operator(operation);
        records.extend(self.services.kernel.without_planner(run, state, |state, cx| state.decide(cx, input)));
        Ok(())
    }
}
