//! The calls of models of a run, as they can be made again: what was asked, and the answer.
//!
//! Records hold answers and no prompts: prompts follow from the records. They are made again from the run as it was before each
//! call, with the tools of this system.

use ostler_kernel::event::{AttemptIntent, AttemptResult, Event, Outcome};
use ostler_kernel::id::{NodeId, RunId, Ticks};
use ostler_kernel::plan::{Kind, Method};
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
        let mut fold = RunFold::of(run);
        let mut walk =
            Walk { system: self, scope: String::new(), asked: Vec::new(), found: ModelExchanges::default() };
        for record in &records {
            if let Event::RunOpened(opened) = &record.event {
                walk.scope.clone_from(&opened.scope);
            }
            if let Some(folded) = fold.so_far() {
                walk.record(&record.event, &folded.run, record.at_ms).await?;
            }
            fold.record(record, &|plan| self.services.runs.plans.read(plan))?;
        }
        Ok(walk.found)
    }
}

/// A call that has begun.
struct Asked {
    node: NodeId,
    attempt: u32,
    /// `None`: the question cannot be made again.
    params: Option<Map<String, Value>>,
    role: Option<Role>,
    /// Its model calls: with fallbacks several, of which the last one answered.
    calls: Vec<ModelCall>,
    faulty: Option<FaultyAnswer>,
    /// The answer is known, or known to be missing.
    is_over: bool,
}

struct Walk<'a> {
    system: &'a System,
    scope: String,
    asked: Vec<Asked>,
    found: ModelExchanges,
}

impl Walk<'_> {
    /// Takes a record; `run`: the run before it.
    async fn record(&mut self, event: &Event, run: &Run, at: Ticks) -> Result<(), RunError> {
        match event {
            Event::CallBegun { intent, .. } => self.begin_call(&intent.value(), run, at).await?,
            Event::AttemptIntent(intent) => self.begin_attempt(intent, run).await?,
            Event::ModelCalled { node, attempt, call } => self.called(node, *attempt, call, run),
            Event::CallEnded { call, faulty, .. } => {
                let intent = run.goal().and_then(|goal| goal.calls().get(*call as usize));
                let of = intent.map(|call| (call.intent.node.clone(), call.intent.attempt));
                if let Some((node, attempt)) = of
                    && let Some(asked) = self.open(&node, attempt)
                {
                    asked.faulty.clone_from(faulty);
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
        let mut params = None;
        // The answer of the micro-planner is in no record, only what became of it.
        if role != Role::Micro {
            let mut run = run.clone();
            equip(&self.system.services, &mut run, &self.scope);
            let evidence = evidence(&self.system.services.results, &run).await.map_err(unreadable)?;
            let faulty = |attempt| run.goal()?.faulty_answer(&node, attempt).cloned();
            params = View::of(&run, at).map(|view| policy::prompt(view, &intent, &read(&evidence), &faulty));
        }
        self.ask(node, attempt, params, Some(role));
        Ok(())
    }

    async fn begin_attempt(&mut self, intent: &AttemptIntent, run: &Run) -> Result<(), RunError> {
        let node = run.node(&intent.node).filter(|node| node.kind == Kind::Model);
        let is_control = run.goal().is_some_and(|goal| goal.role(&intent.node).is_some());
        let Some(node) = node.filter(|_| !is_control) else { return Ok(()) };
        let results = self.system.services.results.needed(run, node).await.map_err(unreadable)?;
        let params = match run.attempt_input(node, &results) {
            Ok((AttemptInput::Params(params), _)) => Some(params.into_map()),
            // A judge's calls are recorded with those of the node.
            _ => None,
        };
        let params = params.filter(|_| !node.is_judged_by(Method::Model));
        self.ask(intent.node.clone(), intent.attempt, params, None);
        Ok(())
    }

    fn ask(&mut self, node: NodeId, attempt: u32, params: Option<Map<String, Value>>, role: Option<Role>) {
        // A call that was lost with its process is made again under its number.
        self.asked.retain(|asked| (&asked.node, asked.attempt) != (&node, attempt) || asked.is_over);
        let (calls, faulty, is_over) = (Vec::new(), None, false);
        self.asked.push(Asked { node, attempt, params, role, calls, faulty, is_over });
    }

    fn open(&mut self, node: &NodeId, attempt: u32) -> Option<&mut Asked> {
        let is_it = |asked: &&mut Asked| (&asked.node, asked.attempt) == (node, attempt) && !asked.is_over;
        self.asked.iter_mut().rev().find(is_it)
    }

    fn called(&mut self, node: &NodeId, attempt: u32, call: &ModelCall, run: &Run) {
        let answered = call.is_answered();
        let why = match self.open(node, attempt) {
            Some(asked) if asked.params.is_some() => return asked.calls.push(call.clone()),
            Some(asked) if asked.role == Some(Role::Micro) => {
                "asked for the patch of a failed step, whose answer is in no record"
            }
            Some(_) => "the node has a contract that a model judges, whose verdict is in no record",
            None if run.node(node).is_some_and(|node| node.kind == Kind::Tool) => {
                "made by a program or a contract, of which the records hold no question"
            }
            None => "the records hold no question",
        };
        if answered {
            self.found.left_out.push(format!("{node}, attempt {attempt}: {why}"));
        }
    }

    async fn end(&mut self, ended: &AttemptResult) -> Result<(), RunError> {
        let value = match &ended.outcome {
            Outcome::Ok(output) => Some(self.system.services.results.load(output).await?),
            Outcome::Failed(_) => None,
        };
        let (node, attempt) = (ended.node.clone(), ended.attempt);
        let Some(asked) = self.open(&node, attempt) else { return Ok(()) };
        asked.is_over = true;
        let Some(params) = asked.params.take() else { return Ok(()) };
        let Some(call) = asked.calls.pop().filter(ModelCall::is_answered) else { return Ok(()) };
        let result = match (value, asked.faulty.take()) {
            (_, Some(faulty)) => faulty_result(asked.role, &faulty),
            (Some(value), None) => Some(answer_of(asked.role, value)),
            (None, None) => None,
        };
        match result {
            Some(result) => {
                self.found.exchanges.push(ModelExchange { node, attempt, params, result, call });
            }
            None => {
                let why = "the answer could not be used, and is in no record";
                self.found.left_out.push(format!("{node}, attempt {attempt}: {why}"));
            }
        }
        Ok(())
    }
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
