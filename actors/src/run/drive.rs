//! A run being driven: the shell around the kernel's decisions.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;

use ostler_kernel::agent::Telemetry;
use ostler_kernel::event::{Event, RunOpened, TimerKind};
use ostler_kernel::id::{NodeId, Ticks};
use ostler_kernel::json::Json;
use ostler_kernel::port::{Position, Seq, StreamId};
use ostler_kernel::run::{AbandonedWork, Completion, DecisionContext, NodeState, Run, RunInput};
use ractor::{ActorProcessingErr, ActorRef};
use tokio::time::{Duration, Instant};

use super::deadlines::Deadlines;
use super::inline::Here;
use super::judge::Appraisal;
use super::queue::Waits;
use super::{AgentArguments, AgentMessage, Answer, AskReply};
use crate::attempts::attempt::Caller;
use crate::attempts::attempt_table::AttemptKey;
use crate::base::error::RunError;
use crate::evaluator::EvaluatorMessage;
use crate::registry::RegistryMessage;
use crate::scheduler::Granted;
use crate::services::Services;
use crate::state::ledger::ClientBook;

/// A run, and what its agent keeps besides: all of it a cache of the journal, the effects table and the queue.
pub(super) struct Drive {
    pub(super) arguments: AgentArguments,
    pub(super) services: Arc<Services>,
    pub(super) me: ActorRef<AgentMessage>,
    /// How it was opened; without the text of its plan, which `run` has read.
    pub(super) opened: RunOpened,
    /// On whose behalf its attempts act.
    pub(super) caller: Arc<Caller>,
    /// When, in milliseconds since the Unix epoch.
    pub(super) opened_ms: u64,
    pub(super) run: Run,
    pub(super) stream: StreamId,
    /// The last record of the stream, and where it stands.
    pub(super) seq: Seq,
    pub(super) position: Position,
    /// What is to be durable before anything of it starts.
    pub(super) recovery: Recovery,
    /// Decided in this turn and not appended yet.
    pub(super) pending: Vec<Event>,
    /// Granted, and not looked at yet.
    pub(super) slots: VecDeque<Granted>,
    /// What was done here in this turn.
    pub(super) here: Here,
    /// Work whose runs are not wanted any more, once what was decided is appended: who opens one meanwhile reads that.
    pub(super) given_up: Vec<AbandonedWork>,
    /// To be started once what was decided is appended.
    pub(super) launches: Vec<super::launch::Launch>,
    /// Attempts whose end was taken in: the effects table keeps it until it is appended.
    pub(super) taken: Vec<AttemptKey>,
    /// Whether it is known that nothing goes on until a person answers.
    pub(super) stands_still: bool,
    /// Whether attempts may be under way of whose beginning there is no record.
    pub(super) has_strays: bool,
    /// What is answered once all that was decided by then is durable: that may be why.
    pub(super) answers: Vec<Answer>,
    /// Ready nodes that have a question to ask first.
    pub(super) asking: BTreeSet<NodeId>,
    /// Ready nodes that are not queued yet: (level, id).
    pub(super) fresh: BTreeSet<(u32, NodeId)>,
    /// Nodes in the run queue.
    pub(super) queued: BTreeSet<NodeId>,
    /// Why nothing of it is started; whether anything is the matter stands in its last record of that.
    pub(super) waits: Waits,
    /// Enough others of its client wait for credits in the run queue.
    pub(super) is_surplus: bool,
    /// Nodes for which there was no room there.
    pub(super) crowded: Vec<NodeId>,
    /// When they ask again; `None`: nobody sees to that.
    pub(super) asks_again: Option<Instant>,
    /// Who wants it to come to rest: nothing starts any more.
    pub(super) resting: Vec<AskReply>,
    /// Attempts that died with their process, and are done again when no interjection holds them back.
    pub(super) held_back: Vec<NodeId>,
    pub(super) deadlines: Deadlines,
    pub(super) alarm: Option<(Instant, tokio::task::JoinHandle<()>)>,
    /// Judges the plan's own contract; ends with this.
    pub(super) judge: Option<tokio::task::AbortHandle>,
    /// What a judge says of the run, which is over but for that.
    pub(super) appraisal: Appraisal,
    /// When the job of the market must be over that it is for; `None`: whenever, or it was cancelled for that.
    pub(super) deadline: Option<Ticks>,
    /// What is known of its client.
    pub(super) book: Arc<ClientBook>,
}

impl Drive {
    pub(super) fn new(
        arguments: &AgentArguments,
        me: &ActorRef<AgentMessage>,
        (opened, opened_ms): (RunOpened, Ticks),
        run: Run,
        (seq, position): (Seq, Position),
    ) -> Drive {
        Drive {
            arguments: arguments.clone(),
            services: Arc::clone(&arguments.services),
            me: me.clone(),
            stream: StreamId::run(&opened.client, opened.run),
            caller: Arc::new(Caller::of(&opened)),
            opened_ms: u64::try_from(opened_ms).unwrap_or(0),
            run,
            seq,
            position,
            recovery: Recovery::None,
            pending: Vec::new(),
            slots: VecDeque::new(),
            here: Here::default(),
            given_up: Vec::new(),
            launches: Vec::new(),
            taken: Vec::new(),
            stands_still: false,
            has_strays: false,
            answers: Vec::new(),
            asking: BTreeSet::new(),
            fresh: BTreeSet::new(),
            queued: BTreeSet::new(),
            waits: Waits::Nothing,
            is_surplus: false,
            crowded: Vec::new(),
            asks_again: None,
            resting: Vec::new(),
            held_back: Vec::new(),
            deadlines: Deadlines::default(),
            alarm: None,
            judge: None,
            appraisal: Appraisal::default(),
            deadline: None,
            book: arguments.services.ledger.client(&opened.client),
            opened: RunOpened { plan: Json::null(), ..opened },
        }
    }

    /// Hands the run something that came in, and takes note of what follows.
    pub(super) fn decide(&mut self, input: RunInput) {
        let events = self.within(|run, cx| run.decide(cx, input));
        self.note(events);
    }

    pub(super) fn within<T>(&mut self, act: impl FnOnce(&mut Run, &mut DecisionContext<'_>) -> T) -> T {
        self.services.within(self.opened.run, &mut self.run, act)
    }

    /// Keeps what follows from records: which nodes want a slot, which deadlines are set, which attempts are not
    /// wanted any more.
    pub(super) fn note(&mut self, events: Vec<Event>) {
        for event in &events {
            match event {
                Event::NodeTransition(moved) => {
                    self.deadlines.clear(&moved.node);
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
                        self.services.effects.cancel(&key);
                    }
                }
                Event::Draining { node } => {
                    let attempt = self.run.instance(node).map_or(0, |instance| instance.attempts);
                    self.services.scheduling.drains(&self.services, &self.key(node, attempt));
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
        self.given_up.extend(self.run.abandoned_work(&events));
        self.pending.extend(events);
        let run = &self.run;
        let released: Vec<NodeId> = self.held_back.extract_if(.., |node| !run.is_rerun_held(node)).collect();
        if !released.is_empty() {
            self.redo(released);
        }
    }

    pub(super) fn key(&self, node: &NodeId, attempt: u32) -> AttemptKey {
        AttemptKey { run: self.opened.run, node: node.clone(), attempt }
    }

    /// Does what follows from the last input, until only waiting is left: asks for approvals and slots, starts what
    /// needs none, and closes the run when nothing can follow; then appends all of it and starts what was granted.
    /// True if the run is over for this actor.
    pub(super) async fn advance(&mut self) -> Result<bool, ActorProcessingErr> {
        self.here.begin();
        self.end_late();
        let over = loop {
            if self.refuse_unaffordable() && self.here.is_full() {
                // The rest comes behind what others ask for, and is written down by itself.
                let _ = self.me.cast(AgentMessage::Again);
                break false;
            }
            self.enqueue().await;
            // What was refused or done here may have made others ready.
            if self.start_granted().await? {
                if self.here.is_full() {
                    // The rest comes behind what others ask for, and is written down by itself.
                    let _ = self.me.cast(AgentMessage::Again);
                    break false;
                }
                continue;
            }
            let (events, quiet) = self.within(|run, cx| run.check_completion(cx));
            let moved = !events.is_empty();
            self.note(events);
            if self.withdraw() {
                continue;
            }
            match quiet {
                // What was stopped has its end to tell, which is paid for.
                Completion::Done if self.services.effects.knows_another(self.opened.run, &self.taken) => {
                    break false;
                }
                Completion::Done if self.asks_judge() => break false,
                Completion::Done => break true,
                Completion::JudgeContract if self.judge.is_none() => {
                    self.judge_contract();
                    break false;
                }
                Completion::InProgress if moved => {}
                Completion::InProgress | Completion::JudgeContract => break false,
            }
        };
        let evaluated = if over { self.evaluate() } else { None };
        if over {
            self.pending.push(Event::RunClosed { outcome: self.run.outcome() });
        }
        let position = self.append()?;
        self.services.cancel_children(
            &self.opened.client,
            self.opened.run,
            std::mem::take(&mut self.given_up),
        );
        self.launch(position);
        self.set_alarm();
        if over {
            for reply in self.resting.drain(..) {
                let _ = reply.send(Err(RunError::Over));
            }
            if evaluated.is_some() {
                let (lane, run, is_verdict) = (self.arguments.owner.lane.clone(), self.opened.run, false);
                self.services.links.tell_evaluator(EvaluatorMessage::Evaluated { lane, run, is_verdict });
            }
            self.close(position);
        } else {
            let is_new = self.note_standing_still();
            if self.stands_still && (is_new || position.is_some()) {
                self.services.stir_run(self.opened.run);
            }
        }
        Ok(over)
    }

    /// Takes note of whether nothing goes on until a person answers: whether that is new. Those behind it in the line of its agent are
    /// told.
    fn note_standing_still(&mut self) -> bool {
        let waits = self.services.waits_for_person(&self.run);
        let is_new = std::mem::replace(&mut self.stands_still, waits) != waits;
        if is_new && self.services.driven.note_waits(self.opened.run, waits) && waits {
            let agent = self.arguments.owner.agent.clone();
            self.services.links.tell_registry(RegistryMessage::StandsStill { agent });
        }
        is_new
    }

    /// Tells something of its agent to whoever watches.
    pub(super) fn tell(&self, event: Telemetry) {
        self.services.measures.tell(event, Some(&self.arguments.owner.agent), Some(self.opened.run));
    }

    /// Whether the run is to come to rest.
    pub(super) fn is_resting(&self) -> bool {
        !self.resting.is_empty()
    }

    /// Who waited for the run to come to rest, if it has: nothing of it is under way, and the journal has all there is to it.
    pub(super) fn rests(&mut self) -> Option<Vec<AskReply>> {
        let still = self.is_resting() && !self.services.effects.knows_run(self.opened.run);
        still.then(|| std::mem::take(&mut self.resting))
    }

    /// Whether only time, a person or credits can move the run, and not soon: then the journal has all there is to it.
    pub(super) fn idle(&self) -> Option<Idle> {
        let until = self.deadlines.first();
        let soon = until.is_some_and(|until| until < Instant::now() + IDLE_MIN);
        let unpaid = self.is_unpaid();
        let waits = unpaid || (self.run.is_only_waiting() && self.crowded.is_empty());
        let still = waits && self.judge.is_none() && self.slots.is_empty() && !soon;
        // What was stopped has its end to tell.
        (still && !self.services.effects.knows_run(self.opened.run)).then_some(Idle { until, unpaid })
    }

    /// Whether nothing of it can start for want of credits, and nobody has to wait for them here. What is left of a run whose budget
    /// is used up costs none.
    fn is_unpaid(&self) -> bool {
        let waits = match self.waits {
            Waits::Nothing => false,
            Waits::Credits => self.is_surplus,
            Waits::Reserve => true,
        };
        let still = self.run.has_ready_nodes() && !self.run.has_work_in_flight() && self.resting.is_empty();
        waits && still && !self.is_used_up()
    }
}

/// Whether a process that ends now counts against a run that it has taken up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Recovery {
    /// This process has opened the run, or the record of it is durable.
    None,
    /// There is a record of it.
    Counted,
    /// There is none yet.
    Uncounted,
}

impl Drop for Drive {
    fn drop(&mut self) {
        self.give_all_back();
        self.unspend();
        if let Some((_, alarm)) = self.alarm.take() {
            alarm.abort();
        }
        if let Some(judge) = self.judge.take() {
            judge.abort();
        }
        self.appraisal.abort();
    }
}

/// Nothing can happen to the run, unless somebody asks for something.
pub(super) struct Idle {
    /// Before this.
    pub(super) until: Option<Instant>,
    /// Nor before there are credits to spend.
    pub(super) unpaid: bool,
}

/// Waits that are shorter are waited for here.
const IDLE_MIN: Duration = Duration::from_secs(1);
