//! Control nodes of a goal run: what their attempts do, and the verdict on their answers.

use std::collections::BTreeMap;
use std::sync::Arc;

use ostler_kernel::event::{AttemptResult, Outcome, Output};
use ostler_kernel::id::NodeId;
use ostler_kernel::json::{self, Json};
use ostler_kernel::ledger::Shortfall;
use ostler_kernel::plan::Node;
use ostler_kernel::policy::{self, CallEnd, FaultyAnswer, Judged, Role, Start, View};
use ostler_kernel::port::{Finish, ModelCall};
use ostler_kernel::run::{FailureCategory, NodeStatus, RefDigests, Run};
use serde_json::Value;

use super::driver::RunDriver;
use super::launch::{Prepared, Refusal};
use crate::attempts::attempt::Work;
use crate::base::attempt_end::{Ended, ModelCalls, failed};
use crate::base::keys::AttemptKey;
use crate::run::services::RunServices;
use crate::state::goal_tools::RunTools;
use crate::storage::results::{CONTROL_RESULT_BYTES_MAX, ResultStore, Unreadable};

/// Results of executed work, as prompts and templates show them.
pub(crate) type Evidence = BTreeMap<NodeId, Json>;

/// Reads the results of all executed work of a goal run.
pub(crate) async fn evidence(results: &ResultStore, run: &Run) -> Result<Evidence, Unreadable> {
    let mut evidence = Evidence::new();
    let is_work = |node: &Node| run.goal().is_none_or(|goal| goal.role(&node.id).is_none());
    let shown = run.instances().filter(|(node, done)| done.status == NodeStatus::Executed && is_work(node));
    let outputs: Vec<(NodeId, Output)> =
        shown.filter_map(|(node, instance)| Some((node.id.clone(), instance.output.clone()?))).collect();
    for (node, output) in outputs {
        let result = match output.inline {
            Some(inline) => inline,
            None => match results.load(&output).await {
                Ok(value) => json::canonical(&value).unwrap_or_else(|_| Json::null()),
                Err(error) => return Err(Unreadable { node, error }),
            },
        };
        evidence.insert(node, result);
    }
    Ok(evidence)
}

pub(crate) fn read(evidence: &Evidence) -> impl Fn(&NodeId) -> Json {
    |node| evidence.get(node).cloned().unwrap_or_else(Json::null)
}

/// Gives a goal run its tools: the records name them only.
pub(crate) fn equip(services: &RunServices, run: &mut Run, scope: &str) {
    let gatekeeper = &services.gatekeeper;
    if let Some(goal) = run.goal() {
        let tools = RunTools::new(&gatekeeper.toolbox, &gatekeeper.policy(), scope, goal.terms());
        run.set_goal_tools(Arc::new(tools));
    }
}

impl RunDriver {
    pub(super) fn control_role(&self, node: &NodeId) -> Option<Role> {
        self.run.goal()?.role(node)
    }

    /// The attempt of a control node: a call of its model, or a result that needs none. `None` for work.
    pub(super) async fn prepare_control(
        &mut self,
        node: &Node,
        charged: Option<u32>,
    ) -> Result<Option<Prepared>, Refusal> {
        if self.control_role(&node.id).is_none() {
            return Ok(None);
        }
        let evidence = self.evidence().await.map_err(Refusal::unreadable)?;
        let (read, now) = (read(&evidence), self.services.journal.now());
        let key = self.run.idempotency_key(self.opened.run, &node.id);
        let Some(view) = View::of(&self.run, now) else { return Ok(None) };
        let work = match policy::start(view, &node.id, &read) {
            None => return Ok(None),
            Some(Start::Result(known)) => Work::Known(known.value()),
            Some(Start::Exhausted(what)) => {
                return Err(Refusal::Failed(FailureCategory::ResourceExhaustion, what));
            }
            Some(Start::Call(intent)) => {
                let goal = self.run.goal();
                let faulty = |attempt| goal?.faulty_answer(&node.id, attempt).cloned();
                let params = policy::prompt(view, &intent, &read, &faulty);
                let (tool, permit) = self.gate(node, params.into(), key, charged)?;
                let begun = self.run.begin_call(now, &intent, policy::ANSWER_TOKENS_RESERVED);
                self.apply_effects(begun.into_iter().map(|(_, record)| record).collect());
                Work::Tool { tool, permit, tokens: Vec::new(), recorded: None }
            }
        };
        // The prompt follows from the records, so it is no part of the work's identity: a lost call is made again.
        Ok(Some(Prepared { work, refs: RefDigests::new(), key }))
    }

    /// The attempt of a node that holds a result of an earlier run; `None` for any other node.
    pub(super) async fn prepare_earlier(&mut self, node: &Node) -> Result<Option<Prepared>, Refusal> {
        let Some(result) = self.run.goal().and_then(|goal| goal.earlier(&node.id)) else { return Ok(None) };
        let value = self.services.results.load(&result.output()).await;
        let value =
            value.map_err(|error| Refusal::unreadable(Unreadable { node: node.id.clone(), error }))?;
        let key = self.run.idempotency_key(self.opened.run, &node.id);
        Ok(Some(Prepared { work: Work::Known(value), refs: RefDigests::new(), key }))
    }

    pub(super) async fn evidence(&mut self) -> Result<Evidence, Unreadable> {
        evidence(&self.services.results, &self.run).await
    }

    /// Judges the answer that the attempt of a control node brought, and records the end of its call. Does nothing for work.
    /// `shortfall`: the call was not made, because it does not fit the budget.
    pub(super) async fn judge_answer(
        &mut self,
        key: &AttemptKey,
        ended: &mut Ended,
        calls: &[ModelCall],
        shortfall: Option<&Shortfall>,
    ) {
        let Some(role) = self.control_role(&key.node) else { return };
        let now = self.services.journal.now();
        let call = self.run.goal().and_then(|goal| goal.call_of(&key.node, key.attempt));
        let is_current = self.run.is_current(&key.node, key.attempt);
        if let (None, Outcome::Ok(output)) = (call, &ended.outcome)
            && output.inline.is_none()
        {
            // A template over large results: known without a call, and too large to be inline by itself.
            match self.services.results.load(output).await {
                Ok(value) => self.keep_verdict(ended, &value),
                Err(error) => ended.outcome = failed(FailureCategory::Transient, error.to_string()),
            }
        }
        if let Some(call) = call {
            let (faults, faulty) = match is_current {
                true => self.judge_call(key, ended, calls).await,
                false => (0, None),
            };
            let output_tokens = calls.iter().map(|call| call.output_tokens).fold(0, u64::saturating_add);
            let input_tokens = Some(calls.iter().map(|call| call.input_tokens).fold(0, u64::saturating_add));
            let end = CallEnd {
                input_tokens,
                output_tokens,
                faults,
                is_skip: false,
                is_unmade: shortfall.is_some(),
            };
            let record = self.run.end_call(now, call, end, faulty);
            self.apply_effects(vec![record]);
        }
        if let (true, Role::Answer, Outcome::Failed(failure)) = (is_current, role, &ended.outcome)
            // The answer is not given up before a person was asked.
            && !(shortfall.is_some() && self.run.asks_over_budget())
            && self.run.is_last_try(&key.node, failure.category)
        {
            self.answer_by_template(key, ended).await;
        }
    }

    /// The number of faults of an answer, and the answer if it was faulty. The outcome becomes the verdict.
    async fn judge_call(
        &mut self,
        key: &AttemptKey,
        ended: &mut Ended,
        calls: &[ModelCall],
    ) -> (u32, Option<FaultyAnswer>) {
        let output = match &ended.outcome {
            Outcome::Failed(failure) if failure.category == FailureCategory::InvalidOutput => {
                // The driver keeps no answer that it cannot read.
                let (answer, faults) = (String::new(), failure.message.clone());
                return (1, Some(FaultyAnswer { answer, faults }));
            }
            Outcome::Failed(_) => return (0, None),
            Outcome::Ok(output) => output,
        };
        let mut value = match self.services.results.load(output).await {
            Ok(value) => value,
            Err(error) => {
                ended.outcome =
                    failed(FailureCategory::Transient, format!("the answer cannot be read: {error}"));
                return (0, None);
            }
        };
        let is_cut = calls.last().is_some_and(|call| call.finish == Finish::Length.as_str());
        let Some(view) = View::of(&self.run, self.services.journal.now()) else { return (0, None) };
        let is_turn = self.control_role(&key.node) == Some(Role::Think);
        let marks = if is_turn { policy::detach_marks(&mut value) } else { None };
        let (result, faults) = match policy::judge(view, &key.node, &value, is_cut) {
            Judged::Good(result) => (result, Vec::new()),
            Judged::Forgiven(result, faults) => (result, faults),
            Judged::Faulty(faults) => {
                let told = policy::describe(&faults);
                ended.outcome = failed(FailureCategory::InvalidOutput, told.clone());
                let faulty = FaultyAnswer { answer: value.to_string(), faults: told };
                return (faults.len() as u32, Some(faulty));
            }
        };
        let result = result.value();
        // Marks too large for a record are left out; the next turn is then told without them.
        let marked = marks.map(|marks| marks.attach(result.clone()));
        let fits = |marked: &Value| {
            let bytes = marked.as_object().and_then(|marked| json::measure(marked).ok());
            bytes.is_some_and(|bytes| bytes <= CONTROL_RESULT_BYTES_MAX)
        };
        self.keep_verdict(ended, &marked.filter(fits).unwrap_or(result));
        (faults.len() as u32, None)
    }

    fn keep_verdict(&self, ended: &mut Ended, value: &Value) {
        let kept = self.services.results.keep_in_record(value);
        ended.outcome = kept.map_or_else(Outcome::Failed, Outcome::Ok);
    }

    /// The result of the node that holds the answer, whose last attempt is refused; `None` for any other attempt, and for a
    /// call that the gate denied, which operators have to see.
    pub(super) async fn answer_unasked(
        &mut self,
        key: &AttemptKey,
        refusal: &Refusal,
    ) -> Option<Box<AttemptResult>> {
        let Refusal::Failed(category, message) = refusal else { return None };
        let is_answer = self.control_role(&key.node) == Some(Role::Answer);
        if !is_answer || !self.run.is_last_try(&key.node, *category) {
            return None;
        }
        let (accounts, model_calls) = (None, ModelCalls::default());
        let outcome = failed(*category, message.clone());
        let mut ended = Ended { outcome, duration_ms: 0, cost: 0, accounts, model_calls };
        self.answer_by_template(key, &mut ended).await;
        matches!(ended.outcome, Outcome::Ok(_)).then(|| ended.result_of(key))
    }

    /// An answer never fails: the template stands in for the model.
    async fn answer_by_template(&mut self, key: &AttemptKey, ended: &mut Ended) {
        let Ok(evidence) = self.evidence().await else { return };
        let Some(view) = View::of(&self.run, self.services.journal.now()) else { return };
        if let Some(answer) = view.stands_in(&key.node, &read(&evidence)) {
            self.keep_verdict(ended, &answer.to_json().value());
        }
    }
}
