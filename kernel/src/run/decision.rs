//! A decision: one input, and the resulting records in the order they take effect.

use super::Run;
use super::diagnosis::Diagnoser;
use super::input::RunInput;
use super::planner::{Planner, PlannerRequest};
use crate::event::{ChangeCause, Event, NodeTransition};
use crate::id::{NodeId, RunId, Ticks};
use crate::plan::{Change, Settings};
use crate::policy::{self, View};
use crate::run::{NodeState, TransitionReason};

/// Everything a decision depends on besides the run and the input.
pub struct DecisionContext<'a> {
    /// Id of the run; spot checks draw from it.
    pub run_id: RunId,
    /// The current time.
    pub now: Ticks,
    /// Rules by which changes of the plan are normalised and validated.
    pub settings: &'a Settings<'a>,
    /// Writes patches and new plan versions.
    pub planner: &'a dyn Planner,
    /// Finds the causes of failures.
    pub diagnoser: &'a dyn Diagnoser,
}

/// A run in the middle of a decision.
///
/// A decision is a sequence of records, and each record depends on the state after the one before. So [`Decision::emit`]
/// applies every record to the run at once, through [`Run::apply`] like recovery.
pub(super) struct Decision<'r, 'c, 'p> {
    pub(super) run: &'r mut Run,
    pub(super) cx: &'c mut DecisionContext<'p>,
    pub(super) events: Vec<Event>,
}

impl Run {
    /// Decides the consequences of `input` and propagates them through the graph. Returns the records; all of them have
    /// taken effect in memory. Append the records before anything leaves the process, and drop the run if the journal
    /// refuses them.
    ///
    /// An outdated input (an answer to a withdrawn request, the timer of a node in another state) gives no records.
    pub fn decide(&mut self, cx: &mut DecisionContext<'_>, input: RunInput) -> Vec<Event> {
        let mut decision = Decision::new(self, cx);
        decision.handle(input);
        decision.propagate();
        decision.events
    }
}

impl Run {
    /// The first half of [`Run::decide`]: the consequences of `input` without propagation, as if the process died in between.
    pub fn decide_without_propagation(
        &mut self,
        cx: &mut DecisionContext<'_>,
        input: RunInput,
    ) -> Vec<Event> {
        let mut decision = Decision::new(self, cx);
        decision.handle(input);
        decision.events
    }
}

impl<'r, 'c, 'p> Decision<'r, 'c, 'p> {
    pub(super) fn new(run: &'r mut Run, cx: &'c mut DecisionContext<'p>) -> Decision<'r, 'c, 'p> {
        Decision { run, cx, events: Vec::new() }
    }

    fn handle(&mut self, input: RunInput) {
        match input {
            RunInput::Propagate => {}
            RunInput::Result(result) => self.result(result, false),
            RunInput::Unsure(result) => self.result(result, true),
            RunInput::Reused(decided) => self.reused(decided),
            RunInput::RetryDue(node) => self.retry_due(&node),
            RunInput::OverBudget(result, shortfall) => self.over_budget(result, shortfall),
            RunInput::AdviceOverBudget(node, shortfall) => self.advice_over_budget(&node, shortfall),
            RunInput::HumanAnswer { node, request, approve, by, note, raise } => {
                self.answer(&node, request, approve, (by, note), raise)
            }
            RunInput::HumanTimeout { node, request } => self.human_timeout(&node, request),
            RunInput::Patched(node, patch) => self.patched(&node, patch.map(|patch| *patch)),
            RunInput::Replanned(delta) => self.replanned(delta),
            RunInput::ContractJudged(holds) => self.contract_judged(holds),
            RunInput::Operator(operation) => self.operator(operation),
            RunInput::Resolved { node, how, by } => self.resolved(&node, how, by),
            RunInput::AttemptLost(node) => self.attempt_lost(&node),
            RunInput::WorkChanged { node, what } => self.work_changed(&node, what),
            RunInput::Unapproved { node, what } => self.unapproved(&node, what),
            RunInput::ResultsRead(results) => self.run.results_read(results),
            RunInput::WaitAnswer(answer) => self.wait_answer(*answer),
            RunInput::KeptAnswer { node, holds } => self.kept_answer(&node, holds),
        }
    }

    /// Applies a record to the run and adds it to the decision.
    pub(super) fn emit(&mut self, event: Event) {
        if let Err(illegal) = self.run.apply(&event, self.cx.now) {
            debug_assert!(false, "decided an illegal step: {illegal}");
        }
        self.events.push(event);
    }

    /// Moves the node at index `at`. The end of an interjection may cancel the run; every other node then stops. An
    /// interjection whose model failed becomes a question to a person, and the question holds the run.
    pub(super) fn transit(&mut self, at: usize, to: NodeState, reason: TransitionReason) {
        let was_cancelled = self.run.cancelled;
        let instance = &self.run.instances[at];
        let attempt = instance.attempts + u32::from(to == NodeState::Running);
        self.emit(Event::NodeTransition(NodeTransition {
            node: self.run.plan.nodes[at].id.clone(),
            version: self.run.plan.version,
            from: instance.state(),
            to,
            reason,
            attempt,
        }));
        if self.run.cancelled && !was_cancelled {
            self.stop_all(NodeState::Cancelled, &TransitionReason::InterjectionFailed);
        }
        let node = &self.run.plan.nodes[at];
        if to == NodeState::Failed && !self.run.cancelled && self.run.falls_back_to_person(node) {
            self.ask_in_place_of_model(at);
        }
    }

    /// Without room for the question the run goes on, and the refused change is on record.
    fn ask_in_place_of_model(&mut self, at: usize) {
        let Some(view) = View::of(self.run, self.cx.now) else { return };
        let why = self.run.instances[at].failure_message().unwrap_or("its call failed");
        let asks = policy::ask_person(view, &self.run.plan.nodes[at], why);
        self.change(ChangeCause::Interject, Change::Delta(asks));
    }

    pub(super) fn id(&self, at: usize) -> NodeId {
        self.run.plan.nodes[at].id.clone()
    }

    pub(super) fn planner_request(&self, number: u32) -> PlannerRequest<'_> {
        PlannerRequest { run_id: self.cx.run_id, run: self.run, settings: self.cx.settings, number }
    }
}
