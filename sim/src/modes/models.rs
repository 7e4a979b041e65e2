//! The scripted models of a goal run: calls, and the judgement of answers.

use ostler_kernel::event::{Failure, Outcome, Output};
use ostler_kernel::id::NodeId;
use ostler_kernel::json::Json;
use ostler_kernel::lineage;
use ostler_kernel::policy::{self, CallEnd, CallIntent, Judged, JudgedPatch, Start};
use ostler_kernel::port::JSON;
use ostler_kernel::run::{FailureCategory, NodeStatus, Patch, Run, RunInput};
use serde_json::Value;

use super::case::{AnswerScript, Finish};
use super::simulated_goal::{Entry, Rank, SimulatedGoal};

impl SimulatedGoal<'_> {
    /// Reacts to the start of an attempt: a call of a model, a question to a person, or a result at once.
    pub(super) fn start(&mut self, node: NodeId, attempt: u32) {
        if let Some(answer) = self.world.person(&node) {
            return self.await_answer(node, attempt, None, answer);
        }
        let start = policy::start(self.view(), &node, &|id| result_of(&self.run, id));
        let ended = |outcome| Entry::Ended { node: node.clone(), attempt, outcome: Box::new(outcome) };
        match start {
            None => self.start_work(node, attempt),
            Some(Start::Result(value)) => {
                let entry = ended(good(value));
                self.schedule(self.now, Rank::Result, node, entry);
            }
            Some(Start::Exhausted(_)) => {
                let entry = ended(failed(FailureCategory::ResourceExhaustion, ""));
                self.schedule(self.now, Rank::Result, node, entry);
            }
            Some(Start::Call(intent)) => {
                let answer = self.world.answer(&self.run, &intent);
                let Some((call, begun)) = self.run.begin_call(self.now, &intent, answer.tokens) else {
                    return;
                };
                self.journal.push((self.now, begun));
                self.recorded = call as usize + 1;
                self.await_answer(node, attempt, Some(call as usize), answer);
            }
        }
    }

    fn await_answer(&mut self, node: NodeId, attempt: u32, call: Option<usize>, answer: AnswerScript) {
        let due = answer.dur;
        let answered = Entry::Answered { node: node.clone(), attempt, call, answer: Box::new(answer) };
        self.await_end(node, attempt, due, answered);
    }

    /// Schedules the answers of the micro-planner to the calls that a decision made.
    pub(super) fn ask_micro_planner(&mut self) {
        let calls = self.run.goal().map_or(0, |goal| goal.calls().len());
        for call in self.recorded..calls {
            let (Some(intent), Some(answer)) = (self.intent(call), self.world.answer_of(&self.run, call))
            else {
                continue;
            };
            let (node, due) = (intent.node.clone(), self.now.saturating_add(answer.dur));
            self.schedule(due, Rank::Timer, node, Entry::Advised { call, answer: Box::new(answer) });
        }
        self.recorded = calls;
    }

    /// Judges the answer of a model or a person, if the run still waits for it.
    pub(super) fn answered(&mut self, node: NodeId, attempt: u32, call: Option<usize>, answer: AnswerScript) {
        let AnswerScript { ok, fail, tokens, finish, .. } = answer;
        let is_current = self.run.is_current(&node, attempt);
        let judged = match fail {
            Some(category) => Err(failed(category, "")),
            None if !is_current => Err(failed(FailureCategory::InvalidOutput, "")),
            None => Ok(policy::judge(self.view(), &node, &ok, finish == Finish::Length)),
        };
        let (outcome, faults) = match judged {
            Err(outcome) => (outcome, Vec::new()),
            Ok(Judged::Good(value)) => (good(value), Vec::new()),
            Ok(Judged::Forgiven(value, faults)) => (good(value), faults),
            Ok(Judged::Faulty(faults)) => {
                (failed(FailureCategory::InvalidOutput, &policy::describe(&faults)), faults)
            }
        };
        if !faults.is_empty() {
            self.trace.add_faults(self.now, &node, attempt, &faults);
        }
        if let Some(call) = call {
            let faults = faults.len() as u32;
            self.settle_call(
                call,
                CallEnd {
                    input_tokens: None,
                    output_tokens: tokens,
                    faults,
                    is_skip: false,
                    is_unmade: false,
                },
            );
        }
        self.end(node, attempt, outcome);
    }

    fn settle_call(&mut self, call: usize, end: CallEnd) {
        let ended = self.run.end_call(self.now, call as u32, end, None);
        self.journal.push((self.now, ended));
    }

    /// Judges the answer of the micro-planner, if its node still waits for it.
    pub(super) fn advised(&mut self, call: usize, answer: AnswerScript) {
        let AnswerScript { ok, fail, tokens, finish, outcomes, .. } = answer;
        let Some(intent) = self.intent(call) else { return };
        if !policy::awaited_advice(self.view()).contains(&call) {
            return;
        }
        let judged = match fail {
            Some(_) => JudgedPatch::Faulty(Vec::new()),
            None => policy::judge_patch(self.view(), call, &ok, finish == Finish::Length),
        };
        let mut end = CallEnd {
            input_tokens: None,
            output_tokens: tokens,
            faults: 0,
            is_skip: judged == JudgedPatch::Skip,
            is_unmade: false,
        };
        let patch: Option<Box<Patch>> = match judged {
            JudgedPatch::Patch(patch) => Some(patch),
            JudgedPatch::Skip => None,
            JudgedPatch::Faulty(faults) => {
                end.faults = faults.len() as u32;
                if !faults.is_empty() {
                    self.trace.add_faults(self.now, &intent.node, intent.attempt, &faults);
                }
                None
            }
        };
        self.settle_call(call, end);
        let patches = |run: &Run| run.instance(&intent.node).map_or(0, |instance| instance.patch_count);
        let before = patches(&self.run);
        let events = self.within(|run, cx| run.decide(cx, RunInput::Patched(intent.node.clone(), patch)));
        if patches(&self.run) > before {
            self.world.adopt_patch(&intent.node, outcomes);
        }
        self.observe(&events);
    }

    fn intent(&self, call: usize) -> Option<CallIntent> {
        Some(self.run.goal()?.calls().get(call)?.intent.clone())
    }
}

pub(super) fn value_of(run: &Run, node: &NodeId) -> Value {
    let instance = run.instance(node).filter(|instance| instance.status == NodeStatus::Executed);
    let inline = instance.and_then(|instance| instance.output.as_ref()?.inline.as_ref());
    inline.map_or(Value::Null, Json::value)
}

pub(super) fn result_of(run: &Run, node: &NodeId) -> Json {
    let output = run.instance(node).and_then(|instance| instance.result());
    output.and_then(|output| output.inline.clone()).unwrap_or_else(Json::null)
}

pub(super) fn result(value: Json, bytes: u64) -> Outcome {
    let artifact = lineage::artifact(JSON, value.as_str().as_bytes());
    Outcome::Ok(Output { artifact, bytes, inline: Some(value), directive: None })
}

/// The result of a control node. Nothing shows it, so its size does not count.
pub(super) fn good(value: Json) -> Outcome {
    let bytes = value.as_str().len() as u64;
    result(value, bytes)
}

pub(super) fn failed(category: FailureCategory, message: &str) -> Outcome {
    Outcome::Failed(Failure::new(category, message))
}
