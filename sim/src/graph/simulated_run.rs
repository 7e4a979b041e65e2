//! A run in virtual time. Time advances from tick to tick; the entries of a tick are processed in the order (rank, node,
//! arrival).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use ostler_kernel::event::{
    AttemptResult, ChangeCause, Directive, Event, Failure, HumanRequest, HumanRequestKind, NodeTransition,
    Outcome, Output, TimerKind,
};
use ostler_kernel::id::{Digest, NodeId, RunId};
use ostler_kernel::json::{self, Json};
use ostler_kernel::ledger::Amounts;
use ostler_kernel::lineage;
use ostler_kernel::plan::{Delta, Kind, Plan, Settings};
use ostler_kernel::port::JSON;
use ostler_kernel::run::{
    self, Canceller, Completion, DecisionContext, FailureCategory, NodeState, NodeStatus, Operation,
    OutsideAnswer, Patch, RuleDiagnoser, Run, RunInput,
};
use serde_json::{Map, Value};

use super::CaseError;
use super::script::{
    AddedScript, AnswerScript, Case, ControlKind, ControlScript, CrashScript, DeltaScript, HumanScript,
    OutcomeScript,
};
use super::scripted_outside::ScriptedOutside;

#[derive(Debug, Default)]
pub(super) struct Trace {
    pub(super) events: Vec<(i64, String, String, String, String)>,
    pub(super) rounds: Vec<u32>,
    pub(super) dispatches: u32,
    pub(super) inputs: BTreeMap<String, Map<String, Value>>,
    pub(super) late: Vec<(i64, String)>,
    pub(super) answers: Vec<(i64, String, &'static str)>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Rank {
    Result,
    Human,
    Timer,
    Operator,
}

pub(super) enum Entry {
    Result { node: NodeId, attempt: u32, outcome: Box<OutcomeScript> },
    Timeout { node: NodeId, attempt: u32 },
    MissingParameter { node: NodeId, attempt: u32, message: String },
    Human { node: NodeId, request: u32, approve: Option<bool> },
    Answer(Box<AnswerScript>),
    KeptAnswer(NodeId),
    Collected { node: NodeId, attempt: u32, outcome: Box<OutcomeScript> },
    RetryDue(NodeId),
    Patched(NodeId, Option<Box<Patch>>),
    Replanned(Option<Box<Delta>>),
    Operator(Box<ControlScript>),
}

pub(super) struct SimulatedRun<'s> {
    pub(super) run: Run,
    /// Every record with its time, as in a journal.
    journal: Vec<(i64, Event)>,
    first: Arc<Plan>,
    pub(super) trace: Trace,
    settings: &'s Settings<'s>,
    script: ScriptedOutside,
    now: i64,
    entries: BTreeMap<(i64, Rank, NodeId, u64), Entry>,
    arrivals: u64,
    crashes: Crashes,
    /// By digest of the answer: true if the answer breaks the contract of its node.
    invalid: BTreeSet<Digest>,
}

/// Deaths of the process to come.
enum Crashes {
    Always,
    /// Numbers of events, ascending.
    At(std::vec::IntoIter<usize>, Option<usize>),
}

impl<'s> SimulatedRun<'s> {
    pub(super) fn new(plan: Plan, case: Case, settings: &'s Settings<'s>) -> SimulatedRun<'s> {
        let script = ScriptedOutside::new(case.script, case.patch, case.human, case.replans);
        let first = Arc::new(plan);
        let run = Run::new(Arc::clone(&first), 0, 0);
        let (trace, entries, journal) = (Trace::default(), BTreeMap::new(), Vec::new());
        let crashes = match case.crash {
            CrashScript::Always(true) => Crashes::Always,
            CrashScript::Always(false) => Crashes::At(Vec::new().into_iter(), None),
            CrashScript::At(counts) => {
                let mut counts = counts.into_iter();
                let next = counts.next();
                Crashes::At(counts, next)
            }
        };
        let invalid = BTreeSet::new();
        let mut simulated = SimulatedRun {
            run,
            journal,
            first,
            trace,
            settings,
            script,
            now: 0,
            entries,
            arrivals: 0,
            crashes,
            invalid,
        };
        for answer in case.answers {
            let node = NodeId::from(answer.node.as_str());
            simulated.schedule(answer.at, Rank::Human, node, Entry::Answer(Box::new(answer)));
        }
        for control in case.control {
            simulated.schedule(
                control.at,
                Rank::Operator,
                NodeId::from(""),
                Entry::Operator(Box::new(control)),
            );
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

    /// The first difference between this run and a replay of its records.
    pub(super) fn replay_difference(&self) -> Option<String> {
        let again = match self.replayed() {
            Ok(again) => again,
            Err(illegal) => return Some(illegal),
        };
        let same = again.plan() == self.run.plan()
            && again.outcome() == self.run.outcome()
            && again.instances().eq(self.run.instances());
        (!same).then(|| "the records applied again do not give the state they came from".to_owned())
    }

    fn schedule(&mut self, at: i64, rank: Rank, node: NodeId, entry: Entry) {
        self.arrivals += 1;
        self.entries.insert((at, rank, node, self.arrivals), entry);
    }

    /// Starts ready nodes; then checks completion until the run is done or waits for an entry.
    fn dispatch_and_complete(&mut self) {
        loop {
            let before = self.trace.dispatches;
            let events = self.within(|run, cx| run.dispatch(cx));
            self.observe(&events);
            self.crash_if_due();
            if self.trace.dispatches > before {
                self.trace.rounds.push(self.trace.dispatches - before);
            }
            let (events, quiet) = self.within(|run, cx| run.check_completion(cx));
            self.observe(&events);
            match quiet {
                Completion::JudgeContract => {
                    let checks = self.script.outcomes.get("*").cloned().unwrap_or_default();
                    let check = checks.get(self.script.contract_checks).or(checks.last());
                    let holds = !check.is_some_and(|outcome| outcome.invalid);
                    self.script.contract_checks += 1;
                    self.decide(RunInput::ContractJudged(holds));
                }
                Completion::InProgress if events.is_empty() => return,
                Completion::InProgress => {}
                Completion::Done => return,
            }
        }
    }

    fn within<T>(&mut self, act: impl FnOnce(&mut Run, &mut DecisionContext<'_>) -> T) -> T {
        let mut cx = DecisionContext {
            run_id: RunId::default(),
            now: self.now,
            settings: self.settings,
            planner: &self.script,
            diagnoser: &RuleDiagnoser,
        };
        act(&mut self.run, &mut cx)
    }

    fn decide(&mut self, input: RunInput) {
        let events = self.within(|run, cx| run.decide_without_propagation(cx, input));
        self.observe(&events);
        self.crash_if_due();
        let events = self.within(|run, cx| run.decide(cx, RunInput::Propagate));
        self.observe(&events);
        self.crash_if_due();
    }

    /// Rebuilds the run from the journal at the crash points of the case.
    fn crash_if_due(&mut self) {
        let is_due = match &mut self.crashes {
            Crashes::Always => true,
            Crashes::At(later, next) => {
                let is_due = next.is_some_and(|count| self.trace.events.len() >= count);
                if is_due {
                    *next = later.next();
                }
                is_due
            }
        };
        if is_due && let Ok(run) = self.replayed() {
            self.run = run;
        }
    }

    fn replayed(&self) -> Result<Run, String> {
        let mut again = Run::new(Arc::clone(&self.first), 0, 0);
        for (number, (at, event)) in self.journal.iter().enumerate() {
            again.apply(event, *at).map_err(|illegal| format!("record {}: {illegal}", number + 1))?;
        }
        Ok(again)
    }

    fn process(&mut self, entry: Entry) -> Result<(), CaseError> {
        match entry {
            Entry::Result { node, attempt, outcome } => {
                let result = self.result(&node, attempt, *outcome)?;
                self.decide(RunInput::Result(Box::new(result)));
            }
            Entry::Timeout { node, attempt } => {
                if self.run.is_current(&node, attempt) {
                    self.decide(failed(node, attempt, FailureCategory::Timeout, String::new()));
                }
            }
            // The attempt never started, so it cannot end late.
            Entry::MissingParameter { node, attempt, .. } if !self.run.is_current(&node, attempt) => {}
            Entry::MissingParameter { node, attempt, message } => {
                self.decide(failed(node, attempt, FailureCategory::ParamMissing, message));
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
            Entry::Answer(answer) => self.answer(*answer)?,
            Entry::KeptAnswer(node) => {
                let Some(kept) = self.run.kept_answers(&node).first().cloned() else { return Ok(()) };
                let holds = !self.invalid.contains(&kept.output.artifact);
                let verdict = self.run.kept_verdict(&node, kept.id.as_deref(), holds);
                self.trace.answers.push((self.now, node.to_string(), verdict.as_str()));
                self.decide(RunInput::KeptAnswer { node, holds });
            }
            // A collector takes no time, so its result cannot be late.
            Entry::Collected { node, attempt, .. } if !self.run.is_current(&node, attempt) => {}
            Entry::Collected { node, attempt, outcome } => {
                let result = self.result(&node, attempt, *outcome)?;
                self.decide(RunInput::Result(Box::new(result)));
            }
            Entry::RetryDue(node) => self.decide(RunInput::RetryDue(node)),
            Entry::Patched(node, patch) => self.decide(RunInput::Patched(node, patch)),
            Entry::Replanned(delta) => self.decide(RunInput::Replanned(delta)),
            Entry::Operator(control) => {
                let operation = self.operation(*control)?;
                self.decide(RunInput::Operator(operation));
            }
        }
        Ok(())
    }

    fn answer(&mut self, answer: AnswerScript) -> Result<(), CaseError> {
        let AnswerScript { node, value, invalid, id, .. } = answer;
        let (node, holds) = (NodeId::from(node.as_str()), !invalid);
        // An invalid answer has no value, so the digest identifies the answer.
        let value = if invalid { serde_json::json!({"invalid": self.arrivals}) } else { value };
        let output = output(&value)?;
        self.arrivals += 1;
        if invalid {
            self.invalid.insert(output.artifact);
        }
        let verdict = self.run.answer_verdict(&node, id.as_deref(), holds, self.now);
        self.trace.answers.push((self.now, node.to_string(), verdict.as_str()));
        let answer = OutsideAnswer { node, id, output: Some(output), holds, by: String::new(), at: self.now };
        self.decide(RunInput::WaitAnswer(Box::new(answer)));
        Ok(())
    }

    fn result(
        &mut self,
        node: &NodeId,
        attempt: u32,
        outcome: OutcomeScript,
    ) -> Result<AttemptResult, CaseError> {
        let outcome = match outcome {
            OutcomeScript { fail: Some(category), .. } => failure(category, String::new()),
            OutcomeScript { invalid: true, .. } => failure(FailureCategory::InvalidOutput, String::new()),
            OutcomeScript { ok, delta, conclude, .. } => {
                let delta = match delta {
                    Some(DeltaScript { written, script, .. }) => {
                        self.script.stage_outcomes(ChangeCause::Node(node.clone()), script);
                        Some(canonical(&Value::Object(written))?)
                    }
                    None => None,
                };
                let directive =
                    (conclude || delta.is_some()).then(|| Box::new(Directive { conclude, delta }));
                Outcome::Ok(Output { directive, ..output(&ok)? })
            }
        };
        Ok(AttemptResult::without_cost(node.clone(), attempt, outcome))
    }

    fn operation(&mut self, control: ControlScript) -> Result<Operation, CaseError> {
        let node = || control.node.as_deref().map(NodeId::from).ok_or(CaseError::ControlWithoutNode);
        Ok(match control.op {
            ControlKind::Undo => Operation::Undo { intent: None },
            ControlKind::CancelPlan => Operation::CancelPlan(Canceller::Operator),
            ControlKind::Cancel => Operation::Cancel(node()?),
            ControlKind::Skip => Operation::Skip(node()?),
            ControlKind::Delta => {
                let DeltaScript { delta, script, .. } =
                    control.delta.ok_or(CaseError::ControlWithoutDelta)?;
                self.script.stage_outcomes(ChangeCause::Operator, script);
                Operation::Delta(Box::new(delta))
            }
            ControlKind::Interject => {
                let node = node()?;
                let timeout = control.timeout.unwrap_or(100);
                let add = serde_json::json!({"add": [{
                    "id": node, "kind": "interjection", "timeout": timeout, "contract": [{"method": "schema"}],
                }]});
                let delta = serde_json::from_value(add).map_err(CaseError::shape)?;
                let script =
                    AddedScript::from([(node.to_string(), vec![control.outcome.unwrap_or_default()])]);
                self.script.stage_outcomes(ChangeCause::Interject, script);
                Operation::Interject(Box::new(delta))
            }
        })
    }

    /// Adds records to the course and schedules the reaction of the scripted outside.
    fn observe(&mut self, events: &[Event]) {
        self.journal.extend(events.iter().map(|event| (self.now, event.clone())));
        for event in events {
            match event {
                Event::NodeTransition(moved) => self.record_transition(moved),
                Event::PlanVersion(version) => {
                    let (from, to) = (format!("v{}", version.version - 1), format!("v{}", version.version));
                    let reason = version.cause.to_string();
                    self.trace.events.push((self.now, "*".to_owned(), from, to, reason));
                    self.script.adopt_outcomes(&version.cause);
                }
                Event::PlanRefused { version, step } => {
                    let stands = format!("v{version}");
                    let row = (self.now, "*".to_owned(), stands.clone(), stands, step.to_string());
                    self.trace.events.push(row);
                }
                Event::LateResult(result) => self.trace.late.push((self.now, result.node.to_string())),
                Event::TimerSet(timer) if timer.kind == TimerKind::Backoff => {
                    let node = timer.node.clone();
                    self.schedule(timer.at, Rank::Timer, node.clone(), Entry::RetryDue(node));
                }
                Event::HumanRequest(request) if request.kind == HumanRequestKind::Wait => {
                    self.schedule_deadline(request);
                }
                Event::HumanRequest(request) => self.schedule_answer(request),
                _ => {}
            }
        }
        let delayed = self.script.take_delayed();
        for (node, dur, entry) in delayed {
            self.schedule(self.now.saturating_add(dur), Rank::Timer, node, entry);
        }
    }

    fn record_transition(&mut self, moved: &NodeTransition) {
        let NodeTransition { node, from, to, reason, attempt, .. } = moved;
        let row = (self.now, node.to_string(), from.to_string(), to.to_string(), reason.to_string());
        self.trace.events.push(row);
        if *to == NodeState::Running {
            self.trace.dispatches += 1;
            self.schedule_result(node.clone(), *attempt);
        }
    }

    /// Resolves the inputs of a new attempt and schedules its end.
    fn schedule_result(&mut self, id: NodeId, attempt: u32) {
        let node = self.run.node(&id).expect("a node that moved exists").clone();
        let patch_count = self.run.instance(&id).map_or(0, |instance| instance.patch_count);
        let value = |source: &NodeId| Arc::new(value_of(&self.run, source));
        match run::resolve(&self.run, &node, &value) {
            Err(error) => {
                self.trace.inputs.remove(id.as_str());
                let message = error.to_string();
                let entry = Entry::MissingParameter { node: id.clone(), attempt, message };
                self.schedule(self.now, Rank::Result, id, entry);
                return;
            }
            Ok(inputs) if !node.param_refs.is_empty() => {
                self.trace.inputs.insert(id.to_string(), inputs.into_map());
            }
            Ok(_) => drop(self.trace.inputs.remove(id.as_str())),
        }
        if node.kind == Kind::HumanApproval || node.kind == Kind::Wait {
            return;
        }
        if node.kind == Kind::Collector {
            let ok = self.run.collected(&node, &value);
            let outcome = Box::new(OutcomeScript { ok, dur: 0, ..OutcomeScript::default() });
            let entry = Entry::Collected { node: id.clone(), attempt, outcome };
            return self.schedule(self.now, Rank::Result, id, entry);
        }
        let outcome = self.script.next(&node, patch_count);
        if outcome.dur > node.timeout {
            let entry = Entry::Timeout { node: id.clone(), attempt };
            self.schedule(self.now.saturating_add(node.timeout), Rank::Result, id.clone(), entry);
        }
        let at = self.now.saturating_add(outcome.dur);
        self.schedule(
            at,
            Rank::Result,
            id.clone(),
            Entry::Result { node: id, attempt, outcome: Box::new(outcome) },
        );
    }

    /// Deadline and kept answers of a wait.
    fn schedule_deadline(&mut self, request: &HumanRequest) {
        let node = request.node.clone();
        let number = self.run.instance(&node).map_or(0, |instance| instance.requests);
        if let Some(deadline) = request.deadline {
            let entry = Entry::Human { node: node.clone(), request: number, approve: None };
            self.schedule(deadline, Rank::Human, node.clone(), entry);
        }
        for _ in 0..self.run.kept_answers(&node).len() {
            self.schedule(self.now, Rank::Human, node.clone(), Entry::KeptAnswer(node.clone()));
        }
    }

    fn schedule_answer(&mut self, request: &HumanRequest) {
        let node = request.node.clone();
        let number = self.run.instance(&node).map_or(0, |instance| instance.requests);
        let answers = self.script.row(&self.script.humans, self.run.node(&node));
        let answer = answers.and_then(|answers| answers.get(number as usize - 1));
        let (delay, approve) = match answer {
            Some(HumanScript::Approve(delay)) => (Some(*delay), Some(true)),
            Some(HumanScript::Reject(delay)) => (Some(*delay), Some(false)),
            None => (None, None),
        };
        let answered = delay.map(|delay| self.now.saturating_add(delay));
        let (at, approve) = match (answered, request.deadline) {
            (Some(at), Some(deadline)) if at > deadline => (deadline, None),
            (Some(at), _) => (at, approve),
            (None, Some(deadline)) => (deadline, None),
            (None, None) => return,
        };
        let entry = Entry::Human { node: node.clone(), request: number, approve };
        self.schedule(at, Rank::Human, node, entry);
    }
}

fn output(value: &Value) -> Result<Output, CaseError> {
    let value = canonical(value)?;
    let artifact = lineage::artifact(JSON, value.as_str().as_bytes());
    let bytes = value.as_str().len() as u64;
    Ok(Output { artifact, bytes, inline: Some(value), directive: None })
}

pub(super) fn value_of(run: &Run, node: &NodeId) -> Value {
    let instance = run.instance(node).filter(|instance| instance.status == NodeStatus::Executed);
    let inline = instance.and_then(|instance| instance.output.as_ref()?.inline.as_ref());
    inline.map_or(Value::Null, Json::value)
}

fn canonical(value: &Value) -> Result<Json, CaseError> {
    json::canonical(value).map_err(|error| CaseError::Shape(error.to_string()))
}

fn failure(category: FailureCategory, message: String) -> Outcome {
    Outcome::Failed(Failure { category, message })
}

fn failed(node: NodeId, attempt: u32, category: FailureCategory, message: String) -> RunInput {
    let outcome = failure(category, message);
    RunInput::Result(Box::new(AttemptResult::without_cost(node, attempt, outcome)))
}
