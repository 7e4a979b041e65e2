//! The scripted outside of a goal run: tools, models, people.

use std::collections::BTreeMap;

use ostler_kernel::id::NodeId;
use ostler_kernel::plan::{Effect, HumanDuration, ParamRef};
use ostler_kernel::policy::{Call, CallIntent, GoalTools, Reach, Role, StepFields, ToolTerms};
use ostler_kernel::port::WorkspaceUse;
use ostler_kernel::run::{FailureCategory, Planner, Run};
use serde_json::{Map, Value, json};

use super::case::{AnswerScript, AnswerScripts, OutsideScript, Presence, ToolScript, WorkScript};
use crate::graph::script::HumanScript;

/// The tools of a case.
#[derive(Debug)]
pub(super) struct Toolbox {
    scripts: BTreeMap<String, ToolScript>,
    terms: BTreeMap<String, ToolTerms>,
}

impl Toolbox {
    pub(super) fn new(scripts: BTreeMap<String, ToolScript>) -> Toolbox {
        let terms = scripts.iter().map(|(name, script)| (name.clone(), terms(script))).collect();
        Toolbox { scripts, terms }
    }

    pub(super) fn names(&self) -> impl Iterator<Item = &String> {
        self.scripts.keys()
    }

    /// Tokens of a result of the tool.
    pub(super) fn size(&self, tool: Option<&str>) -> u64 {
        tool.and_then(|tool| self.scripts.get(tool)).map_or(0, |script| script.size)
    }
}

fn terms(script: &ToolScript) -> ToolTerms {
    let params = script.params.as_ref().map(|params| {
        params.iter().map(|(name, presence)| (name.clone(), *presence == Presence::Required)).collect()
    });
    ToolTerms {
        trusted: script.trusted,
        trusted_outside: script.trusted,
        sensitive: script.sensitive.clone(),
        workspace_use: WorkspaceUse::NONE,
        params,
        patches: script.patches,
        step: Some(StepFields {
            idem: script.idem,
            retries: script.retries,
            timeout: HumanDuration::Whole(script.timeout),
            result_schema: None,
        }),
    }
}

impl GoalTools for Toolbox {
    fn terms(&self, tool: &str) -> Option<&ToolTerms> {
        self.terms.get(tool)
    }

    fn reach(&self, tool: &str, literal: &Map<String, Value>, refs: &BTreeMap<String, ParamRef>) -> Reach {
        let Some(script) = self.scripts.get(tool) else { return Reach { effect: Effect::None, impact: 0 } };
        let raised = script.impacts.iter().map(|(name, impacts)| {
            let of_literal =
                literal.get(name).and_then(Value::as_str).and_then(|value| impacts.get(value)).copied();
            let worst = refs.contains_key(name).then(|| impacts.values().copied().max()).flatten();
            of_literal.max(worst).unwrap_or(0)
        });
        let impact = raised.max().unwrap_or(0).max(script.impact);
        Reach { effect: if impact > 0 { Effect::Write } else { Effect::None }, impact }
    }

    fn index_tokens(&self) -> u64 {
        self.scripts.values().map(|script| script.index).sum()
    }
}

/// Scripted answers and outcomes, with what of them is used.
pub(super) struct ScriptedWorld {
    answers: AnswerScripts,
    outcomes: BTreeMap<String, Vec<WorkScript>>,
    humans: BTreeMap<String, Vec<HumanScript>>,
    /// Outcomes after the last accepted patch.
    patched: BTreeMap<NodeId, Vec<WorkScript>>,
    /// Outcomes used since the last accepted patch.
    used: BTreeMap<NodeId, usize>,
    /// Answers of people to interjections.
    persons: BTreeMap<NodeId, AnswerScript>,
}

impl Planner for ScriptedWorld {
    fn reserve(&self, run: &Run, call: &CallIntent) -> u64 {
        self.answer(run, call).tokens
    }
}

impl ScriptedWorld {
    pub(super) fn new(answers: AnswerScripts, outside: &OutsideScript) -> ScriptedWorld {
        ScriptedWorld {
            answers,
            outcomes: outside.script.clone(),
            humans: outside.human.clone(),
            patched: BTreeMap::new(),
            used: BTreeMap::new(),
            persons: BTreeMap::new(),
        }
    }

    /// The answer to a call that the run has not counted yet.
    pub(super) fn answer(&self, run: &Run, intent: &CallIntent) -> AnswerScript {
        let calls = run.goal().map_or(&[][..], |goal| goal.calls());
        self.answer_number(run, intent, count(calls, intent))
    }

    /// The answer to call number `call` of the run.
    pub(super) fn answer_of(&self, run: &Run, call: usize) -> Option<AnswerScript> {
        let calls = run.goal()?.calls();
        let intent = &calls.get(call)?.intent;
        Some(self.answer_number(run, intent, count(&calls[..call], intent)))
    }

    fn answer_number(&self, run: &Run, intent: &CallIntent, number: usize) -> AnswerScript {
        let about = |lists: &BTreeMap<String, Vec<AnswerScript>>, node: &NodeId| {
            lists.get(node.as_str()).and_then(|list| list.get(number)).cloned()
        };
        let observed = || Some(&run.node(&intent.node)?.deps.first()?.n);
        let scripted = match intent.role {
            Role::Planner => self.answers.plans.get(number).cloned(),
            Role::Reflect => self.answers.reflections.get(number).cloned(),
            Role::Think => self.answers.thoughts.get(number).cloned(),
            Role::Answer => self.answers.answers.get(number).cloned(),
            Role::Interject => self.answers.interjections.get(number).cloned(),
            Role::Observe => observed().and_then(|node| about(&self.answers.observations, node)),
            Role::Micro => about(&self.answers.micro, &intent.node),
        };
        scripted.unwrap_or_else(|| default_answer(intent.role))
    }

    pub(super) fn set_person(&mut self, interjection: NodeId, answer: AnswerScript) {
        self.persons.insert(interjection, answer);
    }

    /// A person's answer to an interjection, the same for every try; `None` if a model answers it.
    pub(super) fn person(&self, interjection: &NodeId) -> Option<AnswerScript> {
        self.persons.get(interjection).cloned()
    }

    pub(super) fn add_outcomes(&mut self, outcomes: BTreeMap<String, Vec<WorkScript>>) {
        self.outcomes.extend(outcomes);
    }

    pub(super) fn adopt_patch(&mut self, node: &NodeId, outcomes: Vec<WorkScript>) {
        self.patched.insert(node.clone(), outcomes);
        self.used.remove(node);
    }

    /// The outcome of the next attempt of work.
    pub(super) fn outcome(&mut self, node: &NodeId) -> WorkScript {
        let list = self.patched.get(node).or_else(|| self.outcomes.get(node.as_str()));
        let used = self.used.entry(node.clone()).or_default();
        let number = *used;
        *used += 1;
        list.and_then(|list| list.get(number).or(list.last())).cloned().unwrap_or_default()
    }

    /// The answer to question `number` of a node, counted from 1.
    pub(super) fn human(&self, node: &NodeId, number: u32) -> Option<HumanScript> {
        self.humans.get(node.as_str())?.get(number as usize - 1).copied()
    }
}

/// Calls before `intent` that use up the same list of answers.
fn count(before: &[Call], intent: &CallIntent) -> usize {
    let is_same_node = |call: &Call| call.intent.node == intent.node;
    let by_node = matches!(intent.role, Role::Observe | Role::Micro);
    before.iter().filter(|call| call.intent.role == intent.role && (!by_node || is_same_node(call))).count()
}

/// The answer of a role whose list has ended.
fn default_answer(role: Role) -> AnswerScript {
    match role {
        Role::Planner => AnswerScript::fail(FailureCategory::Structural),
        Role::Reflect | Role::Interject => {
            AnswerScript::ok(json!({"decision": "continue", "verdict": null, "next": null, "cancel": []}))
        }
        Role::Observe => AnswerScript::ok(json!({"decision": "continue", "next": null, "cancel": []})),
        Role::Micro => {
            AnswerScript::ok(json!({"decision": "skip", "tool": null, "params": null, "refs": null}))
        }
        Role::Think => AnswerScript::ok(json!({"text": "done", "calls": []})),
        Role::Answer => AnswerScript::ok(json!({"answer": "done", "citations": []})),
    }
}
