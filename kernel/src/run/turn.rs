//! One decision: what came in, and the records it leads to in the order they take effect.

use super::Run;
use crate::event::{AttemptResult, Event, NodeTransition};
use crate::id::{NodeId, RunId, Ticks};
use crate::plan::{Delta, NodeFields, Settings};
use crate::run::{NodeState, Reason};

/// What a decision may look at besides the run.
pub struct Context<'a> {
    /// Which run it is: what it draws for spot checks depends on it.
    pub run: RunId,
    /// The time.
    pub now: Ticks,
    /// How changes of the plan are normalised and judged.
    pub settings: &'a Settings<'a>,
    /// Who writes patches and new versions.
    pub planner: &'a mut dyn Planner,
}

/// Writes patches and new versions. Whoever takes time says [`Answer::Later`]
/// and sends the answer as an [`Input`].
pub trait Planner {
    /// The micro-planner: a new configuration for a node that failed.
    fn patch(&mut self, run: &Run, node: &NodeId) -> Answer<Patch>;

    /// The planner: a change of the plan that brings what is missing.
    fn replan(&mut self, run: &Run) -> Answer<Delta>;
}

/// Nobody to ask: every request is refused at once.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoPlanner;

impl Planner for NoPlanner {
    fn patch(&mut self, _: &Run, _: &NodeId) -> Answer<Patch> {
        Answer::Refused
    }

    fn replan(&mut self, _: &Run) -> Answer<Delta> {
        Answer::Refused
    }
}

/// What a planner says to a request.
#[derive(Debug, Clone, PartialEq)]
pub enum Answer<T> {
    /// No.
    Refused,
    /// This.
    Now(T),
    /// It is being written, and comes as an input.
    Later,
}

/// A new configuration of a node that failed; `None` tries the same again.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Patch {
    /// Fields of the node to replace.
    pub set: Option<NodeFields>,
}

/// What can come in.
#[derive(Debug, Clone, PartialEq)]
pub enum Input {
    /// Nothing: look at what follows by itself (once, when a run opens or is recovered).
    Settle,
    /// An attempt ended, one way or the other.
    Result(Box<AttemptResult>),
    /// The same, and the result says of itself that it may be wrong (see [`is_unsure`](crate::agent::is_unsure)).
    Unsure(Box<AttemptResult>),
    /// The wait before a retry is over.
    RetryDue(NodeId),
    /// A person answered request number `request` of a node.
    Human {
        /// Which node.
        node: NodeId,
        /// Which of its requests.
        request: u32,
        /// What they said.
        approve: bool,
        /// Who.
        by: String,
        /// In their words.
        note: String,
    },
    /// The time for an answer is over.
    Silence {
        /// Which node.
        node: NodeId,
        /// Which of its requests.
        request: u32,
    },
    /// The micro-planner answered; `None` refuses.
    Patched(NodeId, Option<Box<Patch>>),
    /// The planner answered; `None` refuses.
    Replanned(Option<Box<Delta>>),
    /// The plan's own contract was judged for the current version.
    ContractJudged(bool),
    /// The operator asked for something.
    Operator(Operation),
    /// An attempt in doubt is settled by a person: it was done, with this result; or it failed; or it is to be
    /// done again.
    Resolved {
        /// Which node.
        node: NodeId,
        /// How.
        how: Resolution,
        /// Who.
        by: String,
    },
    /// The process that ran this attempt died, and its result may be lost.
    Lost(NodeId),
    /// An attempt that was lost would be other work if it were done again: what it calls has changed meanwhile.
    Changed {
        /// Which node.
        node: NodeId,
        /// What is different.
        what: String,
    },
}

/// How a person settles an attempt in doubt.
#[derive(Debug, Clone, PartialEq)]
pub enum Resolution {
    /// It was done; this is its result.
    Done(Box<AttemptResult>),
    /// Do it again.
    Redo,
    /// Count it as failed.
    Fail,
}

/// What an operator may ask for.
#[derive(Debug, Clone, PartialEq)]
pub enum Operation {
    /// Cancel the whole run.
    CancelPlan(Canceller),
    /// Cancel one node.
    Cancel(NodeId),
    /// Skip one node.
    Skip(NodeId),
    /// Change the plan.
    Delta(Box<Delta>),
    /// Change the plan by nodes that hold everything else until they have ended, see [`Run::interjection`]. One that fails,
    /// that a person says no to or that nobody answers in time cancels the run.
    Interject(Box<Delta>),
}

/// Who has a whole run cancelled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Canceller {
    /// An operator asks for it.
    Operator,
    /// Nobody: the deadline of the job that it is for has passed.
    Deadline,
    /// Nobody: the attempt that opened it has no use for it any more.
    Parent,
}

/// A run in the middle of a decision.
pub(super) struct Turn<'r, 'c, 'p> {
    pub(super) run: &'r mut Run,
    pub(super) cx: &'c mut Context<'p>,
    pub(super) events: Vec<Event>,
}

impl Run {
    /// Decides what follows from `input`, and settles. The records have taken effect in memory; append them
    /// before anything leaves the process, and drop the run if they cannot be appended.
    ///
    /// Input that no longer matters (an answer to a withdrawn request, a timer of a node that moved on) gives no
    /// records.
    pub fn decide(&mut self, cx: &mut Context<'_>, input: Input) -> Vec<Event> {
        let mut turn = Turn { run: self, cx, events: Vec::new() };
        turn.take(input);
        turn.settle();
        turn.events
    }
}

impl Turn<'_, '_, '_> {
    fn take(&mut self, input: Input) {
        match input {
            Input::Settle => {}
            Input::Result(result) => self.result(result, false),
            Input::Unsure(result) => self.result(result, true),
            Input::RetryDue(node) => self.retry_due(&node),
            Input::Human { node, request, approve, by, note } => {
                self.answer(&node, request, approve, by, note)
            }
            Input::Silence { node, request } => self.silence(&node, request),
            Input::Patched(node, patch) => self.patched(&node, patch.map(|patch| *patch)),
            Input::Replanned(delta) => self.replanned(delta),
            Input::ContractJudged(holds) => self.contract_judged(holds),
            Input::Operator(operation) => self.operator(operation),
            Input::Resolved { node, how, by } => self.resolved(&node, how, by),
            Input::Lost(node) => self.lost(&node),
            Input::Changed { node, what } => self.changed(&node, what),
        }
    }

    /// Records an event and lets it take effect.
    pub(super) fn emit(&mut self, event: Event) {
        if let Err(illegal) = self.run.apply(&event, self.cx.now) {
            debug_assert!(false, "decided an illegal step: {illegal}");
        }
        self.events.push(event);
    }

    /// Moves the node at `at`. If that is the end of an interjection that cancels the run, everything stops.
    pub(super) fn transit(&mut self, at: usize, to: NodeState, reason: Reason) {
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
            self.stop_all(NodeState::Cancelled, &Reason::InterjectionFailed);
        }
    }

    pub(super) fn id(&self, at: usize) -> NodeId {
        self.run.plan.nodes[at].id.clone()
    }
}
