//! The state of a driven run, and how events take effect on it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use ostler_kernel::agent::Telemetry;
use ostler_kernel::event::{Event, HumanRequestKind, RunOpened, TimerKind};
use ostler_kernel::id::{NodeId, Ticks};
use ostler_kernel::json::Json;
use ostler_kernel::port::{Position, Seq, StreamId};
use ostler_kernel::run::{AbandonedWork, DecisionContext, NodeState, Run, RunInput};
use ractor::ActorRef;
use tokio::task::AbortHandle;
use tokio_util::sync::CancellationToken;

use super::asked::Asked;
use super::asked::TurnWait;
use super::attempt_launch::Launch;
use super::deadlines::Timers;
use super::dispatch_queue::DispatchQueue;
use super::inline_budget::InlineBudget;
use super::judge_state::JudgeState;
use super::reuse_progress::ReuseProgress;
use crate::base::keys::AttemptKey;
use crate::base::workspace_turns::Turn;
use crate::messages::agent::{AgentMessage, AskReply, PendingReply};
use crate::messages::clearance::Answer;
use crate::run::arguments::AgentArguments;
use crate::run::services::RunServices;
use crate::state::caller::Caller;
use crate::state::ledger::ClientBook;

/// Drives one run: the shell around the kernel's decisions. Everything here is a cache of the journal, the attempt table and the
/// run queue, and may be lost at any time.
pub(super) struct RunDriver {
    pub(super) arguments: AgentArguments,
    pub(super) services: Arc<RunServices>,
    pub(super) me: ActorRef<AgentMessage>,
    /// The opening record, without the text of the plan.
    pub(super) opened: RunOpened,
    /// Unix time of the opening in milliseconds.
    pub(super) opened_ms: u64,
    pub(super) caller: Arc<Caller>,
    pub(super) book: Arc<ClientBook>,
    /// Deadline of the market job that the run is for; `None` without one, and once the run was cancelled for it.
    pub(super) deadline: Option<Ticks>,
    pub(super) run: Run,
    pub(super) writer: RunWriter,
    pub(super) queue: DispatchQueue,
    pub(super) in_flight: InFlight,
    pub(super) timers: Timers,
    pub(super) judges: Judges,
    pub(super) pause: Pause,
}

/// The end of the run's stream, and what waits for the next append.
pub(super) struct RunWriter {
    pub(super) stream: StreamId,
    pub(super) seq: Seq,
    pub(super) position: Position,
    /// Events of the turn that are not appended yet.
    pub(super) pending: Vec<Event>,
    /// Answers that wait until everything decided before them is durable: an earlier decision may be their reason.
    pub(super) answers: Vec<PendingReply>,
    /// Attempts with recorded results: the attempt table keeps each until its record is appended.
    pub(super) unacked_results: Vec<AttemptKey>,
    /// Work with child runs to cancel after the append. A child that is opened meanwhile reads the record.
    pub(super) abandoned_work: Vec<AbandonedWork>,
}

impl RunWriter {
    fn new(stream: StreamId, seq: Seq, position: Position) -> RunWriter {
        RunWriter {
            stream,
            seq,
            position,
            pending: Vec::new(),
            answers: Vec::new(),
            unacked_results: Vec::new(),
            abandoned_work: Vec::new(),
        }
    }
}

#[derive(Default)]
pub(super) struct InFlight {
    /// Attempts that start after the next append.
    pub(super) launches: Vec<Launch>,
    /// Attempts may be running after their start record was rolled back.
    pub(super) has_orphans: bool,
    /// Lost attempts that run again once no interjection holds them.
    pub(super) paused_reruns: Vec<NodeId>,
    pub(super) inline: InlineBudget,
    /// Calls of the micro-planner that are under way, by their place among the calls of the run. They end with the driver.
    pub(super) advice: BTreeMap<usize, CancellationToken>,
    /// Waits for the clearance authority, by node. The attempts hold their slots.
    pub(super) asked: BTreeMap<NodeId, Asked>,
    /// Nodes whose approved attempt could not begin: a person is asked next, also if a grant covers the call.
    pub(super) unapproved: BTreeSet<NodeId>,
    /// Open questions that may show something else by now.
    pub(super) doubted: Vec<(NodeId, HumanRequestKind)>,
    /// Waits for turns in the workspace, by node.
    pub(super) turns: BTreeMap<NodeId, TurnWait>,
    /// Answer of the authority about the attempt that begins now; `None` at all other times.
    pub(super) answer: Option<(NodeId, Answer)>,
    /// Turn alone of the attempt that begins now; `None` at all other times.
    pub(super) turn: Option<Turn>,
    pub(super) recovery: Recovery,
    pub(super) reuse: ReuseProgress,
}

/// Judges that the end of the run waits for. Their tasks end with the driver.
#[derive(Default)]
pub(super) struct Judges {
    pub(super) contract: Option<AbortHandle>,
    pub(super) run: JudgeState,
}

/// What stops a run from going on by itself.
#[derive(Default)]
pub(super) struct Pause {
    /// Callers that wait for the run to be suspended; nothing starts while there are any.
    pub(super) suspend_waiters: Vec<AskReply>,
    /// Nothing goes on until a person answers, and the registry knows.
    pub(super) blocked_on_human: bool,
}

/// True if the end of the process counts against a run that it recovered.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Recovery {
    /// The process opened the run, or the recovery record is durable.
    #[default]
    None,
    /// The recovery record is appended, and not known to be durable.
    Counted,
    /// No recovery record yet.
    Uncounted,
}

impl RunDriver {
    pub(super) fn new(
        arguments: &AgentArguments,
        me: &ActorRef<AgentMessage>,
        (opened, opened_ms): (RunOpened, Ticks),
        run: Run,
        (seq, position): (Seq, Position),
    ) -> RunDriver {
        RunDriver {
            arguments: arguments.clone(),
            services: Arc::clone(&arguments.services),
            me: me.clone(),
            opened_ms: u64::try_from(opened_ms).unwrap_or(0),
            caller: Arc::new(Caller::of(&opened, &run)),
            book: arguments.services.ledger.client(&opened.client),
            deadline: None,
            run,
            writer: RunWriter::new(StreamId::run(&opened.client, opened.run), seq, position),
            queue: DispatchQueue::default(),
            in_flight: InFlight::default(),
            timers: Timers::default(),
            judges: Judges::default(),
            pause: Pause::default(),
            opened: RunOpened { plan: Json::null(), ..opened },
        }
    }

    /// Decides on an input, and lets the events take effect.
    pub(super) fn decide(&mut self, input: RunInput) {
        let events = self.within(|run, cx| run.decide(cx, input));
        self.apply_effects(events);
    }

    pub(super) fn within<T>(&mut self, act: impl FnOnce(&mut Run, &mut DecisionContext<'_>) -> T) -> T {
        self.services.kernel.within(self.opened.run, &mut self.run, act)
    }

    /// Lets decided events take effect on the queue, the timers and the attempts, and keeps them for the next append.
    pub(super) fn apply_effects(&mut self, events: Vec<Event>) {
        for event in &events {
            match event {
                Event::NodeTransition(moved) => {
                    self.timers.deadlines.clear(&moved.node);
                    if moved.from == NodeState::Ready {
                        self.unqueue(&moved.node);
                    }
                    if moved.to == NodeState::Ready {
                        self.offer(&moved.node);
                    }
                    if moved.from == NodeState::Running
                        && matches!(moved.to, NodeState::Skipped | NodeState::Cancelled)
                    {
                        let key = self.key(&moved.node, moved.attempt);
                        self.services.attempts.cancel(&key);
                        self.stop_asking(&moved.node);
                    }
                    if moved.from == NodeState::Running {
                        self.stop_waiting_for_turn(&moved.node);
                    }
                }
                Event::Draining { node } => {
                    let attempt = self.run.instance(node).map_or(0, |instance| instance.attempts);
                    self.services.scheduler.drains(&self.key(node, attempt));
                    self.stop_asking(node);
                    self.stop_waiting_for_turn(node);
                }
                Event::PlanVersion(_) => self.reorder(),
                Event::TimerSet(timer) => self.set_deadline(&timer.node, timer.kind, timer.at),
                Event::HumanRequest(request) => {
                    if let Some(deadline) = request.deadline {
                        self.set_deadline(&request.node, TimerKind::Human, deadline);
                    }
                }
                _ => {}
            }
        }
        let (active_runs, run) = (&self.services.active_runs, self.opened.run);
        let left_open = |node: &NodeId| active_runs.has_opened(run, node);
        self.writer.abandoned_work.extend(self.run.abandoned_work(&events, left_open));
        self.writer.pending.extend(events);
        let run = &self.run;
        let released: Vec<NodeId> =
            self.in_flight.paused_reruns.extract_if(.., |node| !run.is_rerun_held(node)).collect();
        if !released.is_empty() {
            self.rerun(released);
        }
    }

    pub(super) fn key(&self, node: &NodeId, attempt: u32) -> AttemptKey {
        AttemptKey { run: self.opened.run, node: node.clone(), attempt }
    }

    /// Reports an event of the agent to metrics and traces.
    pub(super) fn tell(&self, event: Telemetry) {
        self.services.measures.tell(event, Some(&self.arguments.owner.agent), Some(self.opened.run));
    }
}

impl Drop for RunDriver {
    fn drop(&mut self) {
        self.release_all_slots();
        self.refund_unrecorded();
        if let Some((_, alarm)) = self.timers.armed.take() {
            alarm.abort();
        }
        if let Some(judge) = self.judges.contract.take() {
            judge.abort();
        }
        self.judges.run.abort();
        self.in_flight.advice.values().for_each(CancellationToken::cancel);
        self.in_flight.asked.values().for_each(Asked::end);
    }
}
