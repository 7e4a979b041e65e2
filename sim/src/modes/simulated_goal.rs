//! A goal run in virtual time: the decisions of real runs around scripted models, tools and people.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use ostler_kernel::event::{AttemptResult, ChangeCause, Event, HumanRequest, Outcome, TimerKind};
use ostler_kernel::id::{NodeId, RunId};
use ostler_kernel::json;
use ostler_kernel::ledger::Amounts;
use ostler_kernel::plan::{Kind, Plan, PolicyDraft, Settings, normalise};
use ostler_kernel::policy::{self, Decider, Decision, Goal, GoalTerms, OperatorAnswer, View, opening_plan};
use ostler_kernel::run::{
    self, Canceller, Completion, DecisionContext, FailureCategory, NodeState, Operation, RuleDiagnoser, Run,
    RunInput,
};
use ostler_kernel::text::TOKEN_BYTES;

use super::case::{AnswerScript, Case, ControlScript, WorkScript};
use super::models::{failed, good, result, result_of, value_of};
use super::outside::{ScriptedWorld, Toolbox};
use super::trace::Trace;
use crate::graph::CaseError;
use crate::graph::script::{ControlKind, HumanScript};

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Rank {
    Result,
    Human,
    Timer,
    Operator,
}

pub(super) enum Entry {
    Work {
        node: NodeId,
        attempt: u32,
        outcome: Box<WorkScript>,
    },
    /// An answer of a model to this call, or of a person.
    Answered {
        node: NodeId,
        attempt: u32,
        call: Option<usize>,
        answer: Box<AnswerScript>,
    },
    /// The end of an attempt that never went outside, so it cannot come late.
    Ended {
        node: NodeId,
        attempt: u32,
        outcome: Box<Outcome>,
    },
    Timeout {
        node: NodeId,
        attempt: u32,
    },
    Human {
        node: NodeId,
        request: u32,
        approve: Option<bool>,
    },
    RetryDue(NodeId),
    Advised {
        call: usize,
        answer: Box<AnswerScript>,
    },
    Operator(Box<ControlScript>),
    /// The time is up: the mode looks at the run.
    Wall,
}

pub(super) struct SimulatedGoal<'s> {
    pub(super) run: Run,
    pub(super) trace: Trace,
    /// The records of the run, each with its time.
    pub(super) journal: Vec<(i64, Event)>,
    pub(super) first: Arc<Plan>,
    pub(super) goal: Goal,
    settings: &'s Settings<'s>,
    tools: Arc<Toolbox>,
    pub(super) world: ScriptedWorld,
    pub(super) now: i64,
    entries: BTreeMap<(i64, Rank, NodeId, u64), Entry>,
    arrivals: u64,
    /// Calls that the journal has.
    pub(super) recorded: usize,
}

/// The settings of simulated goal runs with these tools.
pub(super) fn settings<'a>(names: &'a BTreeSet<String>) -> Settings<'a> {
    Settings::simulation(PolicyDraft::default(), Some(names as _))
}

impl<'s> SimulatedGoal<'s> {
    pub(super) fn new(case: Case, tools: Arc<Toolbox>, settings: &'s Settings<'s>) -> SimulatedGoal<'s> {
        let terms: GoalTerms = case.terms.terms();
        let wall = terms.budgets.wall;
        let mut draft = opening_plan(&terms);
        draft.policy = Some(case.terms.policy());
        // Valid by construction under any limits.
        let first = Arc::new(normalise(draft, settings).plan().clone());
        let goal = Goal::new(Arc::new(terms), Arc::clone(&tools) as _);
        let run = Run::with_goal(Arc::clone(&first), 0, 0, goal.clone());
        let trace = Trace::new(&run);
        let world = ScriptedWorld::new(case.answers, &case.outside);
        let (journal, entries) = (Vec::new(), BTreeMap::new());
        let mut simulated = SimulatedGoal {
            run,
            trace,
            journal,
            first,
            goal,
            settings,
            tools,
            world,
            now: 0,
            entries,
            arrivals: 0,
            recorded: 0,
        };
        if let Some(wall) = wall {
            simulated.schedule(wall, Rank::Operator, NodeId::from(""), Entry::Wall);
        }
        for control in case.outside.controls {
            let at = control.at;
            simulated.schedule(at, Rank::Operator, NodeId::from(""), Entry::Operator(Box::new(control)));
        }
        simulated
    }

    pub(super) fn run(&mut self) -> Result<(), CaseError> {
        self.decide(RunInput::Propagate);
        loop {
            self.dispatch_and_complete();
            let Some((&(tick, ..), _)) = self.entries.first_key_value() else { return Ok(()) };
            self.now = tick;
            while let Some(entry) = self.entries.first_entry().filter(|entry| entry.key().0 == tick) {
                let entry = entry.remove();
                self.process(entry)?;
            }
        }
    }

    pub(super) fn schedule(&mut self, at: i64, rank: Rank, node: NodeId, entry: Entry) {
        self.arrivals += 1;
        self.entries.insert((at, rank, node, self.arrivals), entry);
    }

    pub(super) fn view(&self) -> View<'_> {
        View::of(&self.run, self.now).expect("the run has a goal")
    }

    fn dispatch_and_complete(&mut self) {
        loop {
            let events = self.within(|run, cx| run.dispatch(cx));
            self.observe(&events);
            let (events, completion) = self.within(|run, cx| run.check_completion(cx));
            self.observe(&events);
            if completion != Completion::InProgress || events.is_empty() {
                return;
            }
        }
    }

    pub(super) fn within<T>(&mut self, act: impl FnOnce(&mut Run, &mut DecisionContext<'_>) -> T) -> T {
        let mut cx = DecisionContext {
            run_id: RunId::default(),
            now: self.now,
            settings: self.settings,
            planner: &self.world,
            diagnoser: &RuleDiagnoser,
        };
        act(&mut self.run, &mut cx)
    }

    pub(super) fn decide(&mut self, input: RunInput) {
        let events = self.within(|run, cx| run.decide(cx, input));
        self.observe(&events);
    }

    fn process(&mut self, entry: Entry) -> Result<(), CaseError> {
        match entry {
            Entry::Work { node, attempt, outcome } => {
                let outcome = self.work_outcome(&node, *outcome)?;
                self.end(node, attempt, outcome);
            }
            Entry::Answered { node, attempt, call, answer } => self.answered(node, attempt, call, *answer),
            Entry::Ended { node, attempt, outcome } => {
                if self.run.is_current(&node, attempt) {
                    self.end(node, attempt, *outcome);
                }
            }
            Entry::Timeout { node, attempt } => {
                if self.run.is_current(&node, attempt) {
                    self.end(node, attempt, failed(FailureCategory::Timeout, ""));
                }
            }
            Entry::Human { node, request, approve } => self.decide(match approve {
                Some(approve) => RunInput::HumanAnswer {
                    node,
                    request,
                    approve,
                    by: "script".into(),
                    note: String::new(),
                    raise: Amounts::default(),
                },
                None => RunInput::HumanTimeout { node, request },
            }),
            Entry::RetryDue(node) => self.decide(RunInput::RetryDue(node)),
            Entry::Advised { call, answer } => self.advised(call, *answer),
            Entry::Operator(control) => self.operate(*control)?,
            Entry::Wall => self.decide(RunInput::Propagate),
        }
        Ok(())
    }

    /// Ends an attempt. The answer of the run never fails: the template stands in for a model.
    pub(super) fn end(&mut self, node: NodeId, attempt: u32, outcome: Outcome) {
        let category = match &outcome {
            Outcome::Failed(failure) => Some(failure.category),
            Outcome::Ok(_) => None,
        };
        let is_final = category.is_some_and(|category| self.run.is_last_try(&node, category));
        let instead =
            if is_final { self.view().stands_in(&node, &|id| result_of(&self.run, id)) } else { None };
        let outcome = instead.map_or(outcome, |answer| good(answer.to_json()));
        let result = AttemptResult::without_cost(node, attempt, outcome);
        self.decide(RunInput::Result(Box::new(result)));
    }

    fn work_outcome(&self, node: &NodeId, script: WorkScript) -> Result<Outcome, CaseError> {
        let WorkScript { ok, fail, invalid, size, message, .. } = script;
        if let Some(category) = fail {
            return Ok(failed(category, &message));
        }
        if invalid {
            return Ok(failed(FailureCategory::InvalidOutput, ""));
        }
        let value = json::canonical(&ok).map_err(|error| CaseError::Shape(error.to_string()))?;
        let tool = self.run.node(node).and_then(|node| node.tool.as_deref());
        let tokens = size.unwrap_or_else(|| self.tools.size(tool));
        Ok(result(value, tokens.saturating_mul(TOKEN_BYTES)))
    }

    fn operate(&mut self, control: ControlScript) -> Result<(), CaseError> {
        let operation = match control.op {
            ControlKind::CancelPlan => Operation::CancelPlan(Canceller::Operator),
            ControlKind::Cancel => Operation::Cancel(control.node()?),
            ControlKind::Skip => Operation::Skip(control.node()?),
            ControlKind::Undo => Operation::Undo { intent: None },
            ControlKind::Delta => {
                let said = control.delta()?;
                self.trace.operator_outputs = said.delta.outputs.clone();
                let (delta, outcomes) = (said.delta.clone(), said.script.clone());
                let version = self.run.plan().version;
                let input = RunInput::Operator(Operation::Delta(Box::new(delta)));
                let events = self.within(|run, cx| run.decide(cx, input));
                let is_accepted = events.iter().any(|event| {
                    matches!(event, Event::PlanVersion(next)
                        if next.cause == ChangeCause::Operator && next.version == version + 1)
                });
                if is_accepted {
                    self.world.add_outcomes(outcomes);
                }
                self.observe(&events);
                return Ok(());
            }
            ControlKind::Interject => {
                // A scripted person takes time and may err, so the answer follows when the node has started.
                let go_on = OperatorAnswer { decision: Decision::Continue, cancel: Vec::new() };
                let decider = control.person.as_ref().map_or(Decider::Model, |_| Decider::Operator(go_on));
                let (node, delta) = policy::interjection(self.view(), &control.message, 0, &decider)
                    .expect("going on has no faults");
                if let Some(person) = control.person {
                    self.world.set_person(node, person);
                }
                Operation::Interject(Box::new(delta))
            }
        };
        self.decide(RunInput::Operator(operation));
        Ok(())
    }

    /// Adds records to the course and schedules the reaction of the scripted outside.
    pub(super) fn observe(&mut self, events: &[Event]) {
        self.journal.extend(events.iter().map(|event| (self.now, event.clone())));
        self.ask_micro_planner();
        for event in events {
            match event {
                Event::NodeTransition(moved) => {
                    self.trace.add_transition(self.now, moved);
                    if moved.to == NodeState::Running {
                        self.start(moved.node.clone(), moved.attempt);
                    }
                }
                Event::PlanVersion(version) => {
                    let reason = version.cause.to_string();
                    self.trace.add_step(self.now, version.version - 1, version.version, reason);
                    self.trace.add_version(version, &self.run);
                }
                Event::PlanRefused { version, step } => {
                    self.trace.add_step(self.now, *version, *version, step.to_string());
                }
                Event::LateResult(result) => self.trace.late.push((self.now, result.node.to_string())),
                Event::TimerSet(timer) if timer.kind == TimerKind::Backoff => {
                    let node = timer.node.clone();
                    self.schedule(timer.at, Rank::Timer, node.clone(), Entry::RetryDue(node));
                }
                Event::HumanRequest(request) => self.ask_human(request),
                _ => {}
            }
        }
    }

    pub(super) fn start_work(&mut self, id: NodeId, attempt: u32) {
        let node = self.run.node(&id).expect("a node that moved exists").clone();
        match run::resolve(&self.run, &node, &|source| Arc::new(value_of(&self.run, source))) {
            Err(_) => {
                self.trace.inputs.remove(id.as_str());
                let outcome = Box::new(failed(FailureCategory::ParamMissing, ""));
                let entry = Entry::Ended { node: id.clone(), attempt, outcome };
                return self.schedule(self.now, Rank::Result, id, entry);
            }
            Ok(inputs) if !node.param_refs.is_empty() => {
                self.trace.inputs.insert(id.to_string(), inputs.into_map());
            }
            Ok(_) => drop(self.trace.inputs.remove(id.as_str())),
        }
        if node.kind == Kind::HumanApproval {
            return;
        }
        let outcome = self.world.outcome(&id);
        let (due, outcome) = (outcome.dur, Box::new(outcome));
        self.await_end(id.clone(), attempt, due, Entry::Work { node: id, attempt, outcome });
    }

    pub(super) fn await_end(&mut self, node: NodeId, attempt: u32, due: i64, entry: Entry) {
        let timeout = self.run.node(&node).map_or(i64::MAX, |node| node.timeout);
        if due > timeout {
            let timed_out = Entry::Timeout { node: node.clone(), attempt };
            self.schedule(self.now.saturating_add(timeout), Rank::Result, node.clone(), timed_out);
        }
        self.schedule(self.now.saturating_add(due), Rank::Result, node, entry);
    }

    fn ask_human(&mut self, request: &HumanRequest) {
        let node = request.node.clone();
        let number = self.run.instance(&node).map_or(0, |instance| instance.requests);
        let (delay, approve) = match self.world.human(&node, number) {
            Some(HumanScript::Approve(delay)) => (Some(delay), Some(true)),
            Some(HumanScript::Reject(delay)) => (Some(delay), Some(false)),
            None => (None, None),
        };
        let answered = delay.map(|delay| self.now.saturating_add(delay));
        let (at, approve) = match (answered, request.deadline) {
            (Some(at), Some(deadline)) if at > deadline => (deadline, None),
            (Some(at), _) => (at, approve),
            (None, Some(deadline)) => (deadline, None),
            (None, None) => return,
        };
        self.schedule(at, Rank::Human, node.clone(), Entry::Human { node, request: number, approve });
    }
}
