//! The calls of models of a run, as they can be made again: what was asked, and the answer.
//!
//! Records hold answers and no prompts: prompts follow from the records. They are made again from the run as it was before each
//! call, with the tools of this system.

use ostler_kernel::contract::{ModelQuestion, model_questions};
use ostler_kernel::event::{AttemptIntent, AttemptResult, Event, ModelExchanged, Outcome};
use ostler_kernel::id::{NodeId, RunId, Ticks};
use ostler_kernel::json;
use ostler_kernel::plan::Kind;
use ostler_kernel::policy::{self, CallIntent, FaultyAnswer, FinalAnswer, Role, Source, View};
use ostler_kernel::port::{ModelCall, Recorded, StreamId};
use ostler_kernel::run::{AttemptInput, Run, RunFold};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::api::system::System;
use crate::base::error::RunError;
use crate::run::goal::{equip, evidence, read};
use crate::storage::results::Unreadable;
use crate::storage::run_reader::each;

/// An answered call.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ModelExchange {
    /// The node.
    pub node: NodeId,
    /// Number of the attempt.
    pub attempt: u32,
    /// Parameters of the tool that called the model.
    pub params: Map<String, Value>,
    /// Result of the tool.
    pub result: Value,
    /// The call, with its usage.
    pub call: ModelCall,
}

/// The calls of a run.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ModelExchanges {
    /// Answered calls that can be made again, in the order of their answers.
    pub exchanges: Vec<ModelExchange>,
    /// Calls whose question or answer the records do not hold: which, and why.
    pub left_out: Vec<String>,
}

impl System {
    /// The calls of models of a run, in a form in which another system can answer them. Calls no model.
    ///
    /// # Errors
    ///
    /// The run is unknown or damaged, or a result that a prompt showed cannot be read.
    pub async fn model_exchanges(&self, run: RunId) -> Result<ModelExchanges, RunError> {
        let row = self.row(run)?;
        let mut records: Vec<Recorded> = Vec::new();
        let stream = StreamId::run(&row.client, row.run);
        each(&**self.services.journal, stream, None, |record| -> Result<(), RunError> {
            records.push(record.clone());
            Ok(())
        })?;
        let mut asked_by_programs: Vec<ModelExchanged> = Vec::new();
        let stream = StreamId::attempts(&row.client, row.run);
        each(&**self.services.journal, stream, None, |record| -> Result<(), RunError> {
            if let Event::ModelExchanged(exchanged) = &record.event {
                asked_by_programs.push((**exchanged).clone());
            }
            Ok(())
        })?;
        let mut fold = RunFold::of(run);
        let mut walk = Walk {
            system: self,
            scope: String::new(),
            asked_by_programs,
            asked: Vec::new(),
            found: ModelExchanges::default(),
        };
        for record in &records {
            if let Event::RunOpened(opened) = &record.event {
                walk.scope.clone_from(&opened.scope);
            }
            if let Some(folded) = fold.so_far() {
                walk.record(&record.event, &folded.run, record.at_ms).await?;
            }
            fold.record(record, &|plan| self.services.runs.plans.read(plan))?;
        }
        // Calls of a process that died before their attempt ended; later attempts had their answers from the steps.
        for ModelExchanged { node, attempt, params, answer, call } in
            std::mem::take(&mut walk.asked_by_programs)
        {
            if let Ok(params) = serde_json::from_str(params.as_str()) {
                let result = answer.value();
                walk.found.exchanges.push(ModelExchange { node, attempt, params, result, call });
            }
        }
        Ok(walk.found)
    }
}

/// A call that has begun.
struct Asked {
    node: NodeId,
    attempt: u32,
    /// `None`: the question cannot be made again, or the attempt asks no model itself.
    params: Option<Map<String, Value>>,
    role: Option<Role>,
    /// Questions of its contract for models, asked in order after its own call.
    judges: Vec<ModelQuestion>,
    /// Its answered calls.
    calls: Vec<ModelCall>,
    /// The answer, if it is in the record of the call's end: a faulty one, and any of the micro-planner.
    told: Option<FaultyAnswer>,
    /// The answer is known, or known to be missing.
    is_over: bool,
}

struct Walk<'a> {
    system: &'a System,
    scope: String,
    /// Exchanges whose calls the run has not recorded yet.
    asked_by_programs: Vec<ModelExchanged>,
    asked: Vec<Asked>,
    found: ModelExchanges,
}

impl Walk<'_> {
    /// Takes a record; `run`: the run before it.
    async fn record(&mut self, event: &Event, run: &Run, at: Ticks) -> Result<(), RunError> {
        match event {
            Event::CallBegun { intent, .. } => self.begin_call(&intent.value(), run, at).await?,
            Event::AttemptIntent(intent) => self.begin_attempt(intent, run).await?,
            Event::ModelCalled { node, attempt, call } if call.is_answered() => {
                self.called(node, *attempt, call, run);
            }
            Event::CallEnded { call, faulty, .. } => {
                let intent = run.goal().and_then(|goal| goal.calls().get(*call as usize));
                let of = intent.map(|call| (call.intent.node.clone(), call.intent.attempt));
                if let Some((node, attempt)) = of
                    && let Some(asked) = self.open(&node, attempt)
                {
                    asked.told.clone_from(faulty);
                }
            }
            Event::AttemptResult(result) => self.end(result).await?,
            _ => {}
        }
        Ok(())
    }

    async fn begin_call(&mut self, intent: &Value, run: &Run, at: Ticks) -> Result<(), RunError> {
        let Ok(intent) = serde_json::from_value::<CallIntent>(intent.clone()) else { return Ok(()) };
        let (node, attempt, role) = (intent.node.clone(), intent.attempt, intent.role);
        let mut run = run.clone();
        equip(&self.system.services, &mut run, &self.scope);
        let evidence = evidence(&self.system.services.results, &run).await.map_err(unreadable)?;
        let faulty = |attempt| run.goal()?.faulty_answer(&node, attempt).cloned();
        let params = View::of(&run, at).map(|view| policy::prompt(view, &intent, &read(&evidence), &faulty));
        self.ask(Asked { role: Some(role), ..Asked::new(node, attempt, params) });
        Ok(())
    }

    async fn begin_attempt(&mut self, intent: &AttemptIntent, run: &Run) -> Result<(), RunError> {
        let is_control = run.goal().is_some_and(|goal| goal.role(&intent.node).is_some());
        let Some(node) = run.node(&intent.node).filter(|_| !is_control) else { return Ok(()) };
        let judges = model_questions(&node.contract);
        let is_model = node.kind == Kind::Model;
        if !is_model && judges.is_empty() {
            return Ok(());
        }
        let mut params = None;
        if is_model {
            let results = self.system.services.results.needed(run, node).await.map_err(unreadable)?;
            if let Ok((AttemptInput::Params(given), _)) = run.attempt_input(node, &results, &|_| None) {
                params = Some(given.into_map());
            }
        }
        self.ask(Asked { judges, ..Asked::new(intent.node.clone(), intent.attempt, params) });
        Ok(())
    }

    fn ask(&mut self, asked: Asked) {
        // A call that was lost with its process is made again under its number.
        let of = (asked.node.clone(), asked.attempt);
        self.asked.retain(|earlier| (&earlier.node, earlier.attempt) != (&of.0, of.1) || earlier.is_over);
        self.asked.push(asked);
    }

    fn open(&mut self, node: &NodeId, attempt: u32) -> Option<&mut Asked> {
        let is_it = |asked: &&mut Asked| (&asked.node, asked.attempt) == (node, attempt) && !asked.is_over;
        self.asked.iter_mut().rev().find(is_it)
    }

    /// Takes an answered call.
    fn called(&mut self, node: &NodeId, attempt: u32, call: &ModelCall, run: &Run) {
        if let Some(exchange) = self.take_of_program(node, attempt, call) {
            return self.found.exchanges.push(exchange);
        }
        let Some(asked) = self.open(node, attempt) else {
            let why = match run.node(node).is_some_and(|node| node.kind == Kind::Tool) {
                true => IN_PROGRAM,
                false => "the records hold no question",
            };
            return self.leave_out(node, attempt, why);
        };
        if asked.role != Some(Role::Micro) {
            return asked.calls.push(call.clone());
        }
        // It belongs to no attempt: its answer is in the record of its end, which comes first.
        asked.is_over = true;
        let answer = asked.told.take().and_then(|told| serde_json::from_str(&told.answer).ok());
        match (asked.params.take(), answer) {
            (Some(params), Some(result)) => {
                let (node, call) = (node.clone(), call.clone());
                self.found.exchanges.push(ModelExchange { node, attempt, params, result, call });
            }
            _ => self.leave_out(node, attempt, UNUSABLE),
        }
    }

    /// The exchange of a call that a program made.
    fn take_of_program(&mut self, node: &NodeId, attempt: u32, call: &ModelCall) -> Option<ModelExchange> {
        // The time of the end is set as the run records the call.
        let is_it = |made: &ModelExchanged| {
            let of = ModelCall { ended_at: call.ended_at, ..made.call.clone() };
            made.node == *node && made.attempt == attempt && of == *call
        };
        let at = self.asked_by_programs.iter().position(is_it)?;
        let ModelExchanged { params, answer, .. } = self.asked_by_programs.remove(at);
        let params = serde_json::from_str(params.as_str()).ok()?;
        Some(ModelExchange {
            node: node.clone(),
            attempt,
            params,
            result: answer.value(),
            call: call.clone(),
        })
    }

    fn leave_out(&mut self, node: &NodeId, attempt: u32, why: &str) {
        self.found.left_out.push(format!("{node}, attempt {attempt}: {why}"));
    }

    async fn end(&mut self, ended: &AttemptResult) -> Result<(), RunError> {
        let value = match &ended.outcome {
            Outcome::Ok(output) => Some(self.system.services.results.load(output).await?),
            Outcome::Failed(_) => None,
        };
        let (node, attempt) = (&ended.node, ended.attempt);
        let Some(asked) = self.open(node, attempt) else { return Ok(()) };
        asked.is_over = true;
        let mut calls = std::mem::take(&mut asked.calls);
        let (params, judges) = (asked.params.take(), std::mem::take(&mut asked.judges));
        let (role, told) = (asked.role, asked.told.take());
        // A result that counts was asked every question of its contract, in order.
        let judged = value.as_ref().filter(|_| !judges.is_empty() && calls.len() >= judges.len());
        let verdicts = match judged {
            Some(value) => verdicts(&judges, value, calls.split_off(calls.len() - judges.len())),
            None => Vec::new(),
        };
        // With a result that was refused, nothing tells its own call from those of its judges.
        let is_mixed = judged.is_none() && !judges.is_empty();
        let own = calls.pop();
        let result = match (value, told) {
            _ if is_mixed => None,
            (_, Some(faulty)) => faulty_result(role, &faulty),
            (Some(value), None) => Some(answer_of(role, value)),
            (None, None) => None,
        };
        match (own, params, result) {
            (None, ..) => {}
            (Some(call), Some(params), Some(result)) => {
                let node = node.clone();
                self.found.exchanges.push(ModelExchange { node, attempt, params, result, call });
            }
            (Some(_), None, _) if !is_mixed => {
                (0..=calls.len()).for_each(|_| self.leave_out(node, attempt, IN_PROGRAM));
            }
            (Some(_), ..) => self.leave_out(node, attempt, UNUSABLE),
        }
        let exchange =
            |(params, result, call)| ModelExchange { node: node.clone(), attempt, params, result, call };
        self.found.exchanges.extend(verdicts.into_iter().map(exchange));
        Ok(())
    }
}

/// Why a call of a program is left out. Longer questions are in no record.
const IN_PROGRAM: &str =
    "made by a program with a question and an answer of more than 64 KiB, which no record holds";

const UNUSABLE: &str = "the answer could not be used, and is in no record";

impl Asked {
    fn new(node: NodeId, attempt: u32, params: Option<Map<String, Value>>) -> Asked {
        let (judges, calls) = (Vec::new(), Vec::new());
        Asked { node, attempt, params, role: None, judges, calls, told: None, is_over: false }
    }
}

/// The exchanges with the models that judged a result and let it pass. The reason of such a verdict is in no record.
fn verdicts(
    judges: &[ModelQuestion],
    value: &Value,
    calls: Vec<ModelCall>,
) -> Vec<(Map<String, Value>, Value, ModelCall)> {
    let Ok(result) = json::canonical(value) else { return Vec::new() };
    let asked = judges.iter().zip(calls);
    asked.map(|(judge, call)| (judge.params(&result), json!({"holds": true, "why": ""}), call)).collect()
}

fn unreadable(unreadable: Unreadable) -> RunError {
    unreadable.error.into()
}

/// The answer of a model, from the result of its node.
fn answer_of(role: Option<Role>, mut result: Value) -> Value {
    match role {
        Some(Role::Answer) => match serde_json::from_value::<FinalAnswer>(result.clone()) {
            Ok(FinalAnswer { source: Source::Model, answer, citations, .. }) => {
                json!({"answer": answer, "citations": citations})
            }
            _ => result,
        },
        Some(Role::Think) => {
            policy::restore_marks(&mut result);
            result
        }
        _ => result,
    }
}

/// The result that a faulty answer was; `None` if it was cut or no JSON.
fn faulty_result(role: Option<Role>, faulty: &FaultyAnswer) -> Option<Value> {
    role?;
    serde_json::from_str(&faulty.answer).ok()
}
