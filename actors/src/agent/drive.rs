//! A run being driven: the shell around the kernel's decisions.

use std::collections::{BTreeSet, VecDeque};
use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use futures::FutureExt;

use ostler_kernel::agent::Telemetry;
use ostler_kernel::event::{AttemptResult, Event, HumanRequestKind, Output, RunOpened, TimerKind};
use ostler_kernel::id::{NodeId, RunId, Ticks};
use ostler_kernel::json::Json;
use ostler_kernel::port::{JournalError, Position, Seq, StreamBatch, StreamId};
use ostler_kernel::run::{Context, Input, NodeState, Prepared, Quiet, Run, Standing};
use ractor::{ActorProcessingErr, ActorRef};
use tokio::time::{Duration, Instant};

use super::appraise::Appraisal;
use super::deadlines::{Deadline, Deadlines};
use super::here::Here;
use super::{AgentArguments, AgentMessage, AskReply, Request};
use crate::approval;
use crate::attempt::{self, Caller};
use crate::children;
use crate::effects::{AttemptKey, Ended};
use crate::error::RunError;
use crate::estimates::UNKNOWN;
use crate::evaluator::EvaluatorMessage;
use crate::ledger::ClientBook;
use crate::registry::RegistryMessage;
use crate::scheduler::{Granted, Job};
use crate::services::Services;

/// What a run waits for that its client has none of.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Waits {
    #[default]
    Nothing,
    /// The credits of the client are used up.
    Credits,
    /// What the client has left is reserved for jobs of the market.
    Reserve,
}

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
    opened_ms: u64,
    pub(super) run: Run,
    pub(super) stream: StreamId,
    /// The last record of the stream.
    pub(super) seq: Seq,
    /// Decided in this turn and not appended yet.
    pub(super) pending: Vec<Event>,
    /// Granted, and not looked at yet.
    pub(super) slots: VecDeque<Granted>,
    /// What was done here in this turn.
    pub(super) here: Here,
    /// Work whose runs are not wanted any more, once what was decided is appended: who opens one meanwhile reads that.
    given_up: Vec<children::GivenUp>,
    /// To be started once what was decided is appended.
    pub(super) launches: Vec<super::launch::Launch>,
    /// Attempts whose end was taken in: the effects table keeps it until it is appended.
    taken: Vec<AttemptKey>,
    /// To be answered once what was decided is durable.
    answers: Vec<AskReply>,
    /// Ready nodes that have a question to ask first.
    asking: BTreeSet<NodeId>,
    /// Ready nodes that are not queued yet: (level, id).
    fresh: BTreeSet<(u32, NodeId)>,
    /// Nodes in the run queue.
    queued: BTreeSet<NodeId>,
    /// Why nothing of it is started; whether anything is the matter stands in its last record of that.
    pub(super) waits: Waits,
    /// Nodes for which there was no room there.
    crowded: Vec<NodeId>,
    /// Who wants it to come to rest: nothing starts any more.
    resting: Vec<AskReply>,
    deadlines: Deadlines,
    alarm: Option<(Instant, tokio::task::JoinHandle<()>)>,
    /// Judges the plan's own contract; ends with this.
    judge: Option<tokio::task::AbortHandle>,
    /// What a judge says of the run, which is over but for that.
    pub(super) appraisal: Appraisal,
    /// What is known of its client.
    pub(super) book: Arc<ClientBook>,
}

impl Drive {
    pub(super) fn new(
        arguments: &AgentArguments,
        me: &ActorRef<AgentMessage>,
        (opened, opened_ms): (RunOpened, Ticks),
        run: Run,
        seq: Seq,
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
            pending: Vec::new(),
            slots: VecDeque::new(),
            here: Here::default(),
            given_up: Vec::new(),
            launches: Vec::new(),
            taken: Vec::new(),
            answers: Vec::new(),
            asking: BTreeSet::new(),
            fresh: BTreeSet::new(),
            queued: BTreeSet::new(),
            waits: Waits::Nothing,
            crowded: Vec::new(),
            resting: Vec::new(),
            deadlines: Deadlines::default(),
            alarm: None,
            judge: None,
            appraisal: Appraisal::default(),
            book: arguments.services.ledger.client(&opened.client),
            opened: RunOpened { plan: Json::null(), ..opened },
        }
    }

    /// Hands the run something that came in, and takes note of what follows.
    pub(super) fn decide(&mut self, input: Input) {
        let events = self.within(|run, cx| run.decide(cx, input));
        self.note(events);
    }

    pub(super) fn within<T>(&mut self, act: impl FnOnce(&mut Run, &mut Context<'_>) -> T) -> T {
        let services = Arc::clone(&self.services);
        let settings = services.settings();
        let (run, now) = (self.opened.run, services.clock.now());
        let mut cx = Context { run, now, settings: &settings, planner: &mut Prepared(&settings) };
        act(&mut self.run, &mut cx)
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
        self.given_up.extend(children::given_up(&self.run, &events));
        self.pending.extend(events);
    }

    pub(super) fn key(&self, node: &NodeId, attempt: u32) -> AttemptKey {
        AttemptKey { run: self.opened.run, node: node.clone(), attempt }
    }

    /// A ready node wants a slot, or has a question to ask before.
    pub(super) fn offer(&mut self, node: &NodeId) {
        if self.run.question(node).is_some() {
            self.asking.insert(node.clone());
        } else {
            self.fresh.insert(self.order(node));
        }
    }

    /// Place in the order of dispatch.
    fn order(&self, node: &NodeId) -> (u32, NodeId) {
        let graph = self.run.graph();
        (graph.position(node).map_or(0, |at| graph.level[at]), node.clone())
    }

    /// The node is no longer ready. Its job, if it has one, is given back when it is granted.
    fn unqueue(&mut self, node: &NodeId) {
        // It is in one of them at most; the last may be as large as the plan.
        let _ = self.queued.remove(node) || self.asking.remove(node) || self.fresh.remove(&self.order(node));
    }

    /// A new version may have moved nodes to other levels.
    fn reorder(&mut self) {
        let nodes: Vec<NodeId> = std::mem::take(&mut self.fresh).into_iter().map(|(_, node)| node).collect();
        nodes.iter().for_each(|node| self.offer(node));
    }

    /// There was no room in the run queue: these nodes want a slot still, and ask again in a while.
    pub(super) fn no_room(&mut self, nodes: Vec<NodeId>) {
        for node in nodes {
            if self.queued.remove(&node) || self.is_lost_attempt(&node) {
                self.crowded.push(node);
            }
        }
        let me = self.me.clone();
        tokio::spawn(async move {
            tokio::time::sleep(CROWDED).await;
            let _ = me.cast(AgentMessage::Again);
        });
    }

    /// Nodes for which there was no room ask again, as far as they are still ready.
    pub(super) fn again(&mut self) {
        let (has_credits, mut still) = (self.book.may_start(self.opened.run), Vec::new());
        for node in std::mem::take(&mut self.crowded) {
            if self.is_lost_attempt(&node) {
                if has_credits {
                    self.redo(vec![node]);
                } else {
                    still.push(node);
                }
            } else if self.run.instance(&node).is_some_and(|instance| instance.state() == NodeState::Ready) {
                self.offer(&node);
            }
        }
        if !still.is_empty() {
            self.no_room(still);
        }
    }

    /// Whether the attempt of a node died with its process, and is to be done again.
    fn is_lost_attempt(&self, node: &NodeId) -> bool {
        let running = self.run.instance(node).is_some_and(|instance| instance.state() == NodeState::Running);
        running && self.is_lost(node)
    }

    /// The client's credits are used up, or they are not any more. That says nothing of what is reserved.
    pub(super) fn out_of_credit(&mut self, out: bool) {
        match self.waits {
            _ if out => self.wait_for(Waits::Credits),
            Waits::Credits => self.wait_for(Waits::Nothing),
            Waits::Nothing | Waits::Reserve => {}
        }
    }

    /// What it waits for from here on: whether it waits is written down, so that whoever looks at the run knows.
    fn wait_for(&mut self, waits: Waits) {
        let was = std::mem::replace(&mut self.waits, waits);
        let out = waits != Waits::Nothing;
        if (was != Waits::Nothing) != out {
            self.pending.push(Event::OutOfCredit { out });
        }
    }

    /// The run was opened by this one.
    pub(super) fn adopt_by(&self, parent: RunId) {
        self.book.adopt(self.opened.run, parent);
    }

    /// Slots were granted, so the client has credits, whatever was heard before. Whether they may be spent: a contract may have been
    /// signed since the slots were asked for.
    pub(super) fn may_spend(&mut self) -> bool {
        let spare = self.book.may_start(self.opened.run);
        self.wait_for(if spare { Waits::Nothing } else { Waits::Reserve });
        spare
    }

    /// Whether anything may be started that costs something: what the client has reserved for others is not its to spend.
    fn has_spare(&mut self) -> bool {
        let spare = self.book.may_start(self.opened.run);
        match self.waits {
            Waits::Nothing if !spare => self.wait_for(Waits::Reserve),
            Waits::Reserve if spare => self.wait_for(Waits::Nothing),
            // Who is out of credits waits for those first.
            Waits::Nothing | Waits::Reserve | Waits::Credits => {}
        }
        spare
    }

    /// Whether fresh nodes may be started. Those that wait for what is reserved ask again in a while.
    fn may_start(&mut self) -> bool {
        if self.fresh.is_empty() || self.has_spare() {
            return true;
        }
        let nodes: Vec<NodeId> = std::mem::take(&mut self.fresh).into_iter().map(|(_, node)| node).collect();
        self.queued.extend(nodes.iter().cloned());
        self.no_room(nodes);
        false
    }

    /// A granted node is not in the queue any more.
    pub(super) fn take_from_queue(&mut self, node: &NodeId) {
        self.queued.remove(node);
    }

    pub(super) fn set_deadline(&mut self, node: &NodeId, kind: TimerKind, at: Ticks) {
        let wait = at.saturating_sub(self.services.clock.now()).max(0) as u64;
        // A clock that was set back while nobody was there makes no backoff longer.
        let wait = match kind {
            TimerKind::Backoff => wait.min(self.run.plan().policy.backoff_cap.max(0) as u64),
            TimerKind::Human | TimerKind::Sleep => wait,
        };
        let instance = self.run.instance(node);
        let number = instance.map_or(0, |instance| match kind {
            TimerKind::Human => instance.requests,
            TimerKind::Sleep | TimerKind::Backoff => instance.attempts,
        });
        // Far enough to never come true, and near enough for the clock to add.
        let wait = Duration::from_millis(wait.min(LONGEST_WAIT_MS));
        self.deadlines.set(node, Deadline { at: Instant::now() + wait, kind, number });
    }

    /// Everything whose time has come.
    pub(super) fn due(&mut self) {
        let now = Instant::now();
        while let Some((node, Deadline { kind, number, .. })) = self.deadlines.pop_due(now) {
            match kind {
                TimerKind::Backoff => self.decide(Input::RetryDue(node)),
                TimerKind::Human => self.decide(Input::Silence { node, request: number }),
                TimerKind::Sleep => {
                    let outcome = attempt::slept();
                    let result = AttemptResult::unpaid(node, number, outcome);
                    self.decide(Input::Result(Box::new(result)));
                }
            }
        }
    }

    /// Attempts ended: takes in as many as are written together, and comes back to the others.
    pub(super) async fn all_ended(&mut self, mut keys: Vec<AttemptKey>) {
        if keys.len() > ENDED_TOGETHER_MAX {
            let later = keys.split_off(ENDED_TOGETHER_MAX);
            let _ = self.me.cast(AgentMessage::Ended(later));
        }
        for key in &keys {
            self.ended(key).await;
        }
    }

    /// An attempt ended: its outcome is in the table.
    async fn ended(&mut self, key: &AttemptKey) {
        if key.run != self.opened.run {
            self.services.effects.forget(key);
            return;
        }
        let Some(ended) = self.services.effects.ended(key) else { return };
        self.take_in(key, ended).await;
        self.taken.push(key.clone());
    }

    /// Takes in how an attempt ended.
    pub(super) async fn take_in(&mut self, key: &AttemptKey, ended: Ended) {
        if let Some(node) = self.run.node(&key.node) {
            self.services.estimates.learn(node, ended.cost);
            self.services.measures.attempted(&self.opened.client, node.kind, &ended);
        }
        let result = AttemptResult {
            node: key.node.clone(),
            attempt: key.attempt,
            outcome: ended.outcome,
            duration_ms: ended.duration_ms,
            cost: ended.cost,
            accounts: ended.accounts,
        };
        let result = Box::new(result);
        let unsure = self.run.plan().policy.oversight.is_some()
            // Boxed, as all that is seldom awaited: what stands here is part of the future of every message.
            && Box::pin(attempt::is_unsure(&self.services, &result.outcome)).await;
        self.decide(if unsure { Input::Unsure(result) } else { Input::Result(result) });
        self.put_back(key);
    }

    pub(super) fn contract_judged(&mut self, version: u32, broken: Option<String>) {
        self.judge = None;
        if self.run.plan().version != version {
            return;
        }
        let holds = broken.is_none();
        let why = broken.map(|why| why.chars().take(WHY_CHARS_MAX).collect());
        self.pending.extend(why.map(|why| Event::ContractBroken { version, why }));
        self.decide(Input::ContractJudged(holds));
    }

    /// Does what somebody asks for; the answer comes once that is durable.
    pub(super) fn ask(&mut self, request: Request, reply: AskReply) {
        // What time has decided already counts first.
        self.due();
        let input = match request {
            Request::Operate(operation) => match self.run.check_operation(&operation) {
                Ok(()) => Ok(Input::Operator(operation)),
                Err(error) => Err(error.into()),
            },
            Request::Answer(request) => request.into_input(&self.run, self.services.clock.now()),
            Request::Resolve(request) => request.into_input(&self.run),
            Request::Checkpoint => {
                self.services.note_resting(self.opened.run, true);
                self.resting.push(reply);
                return;
            }
            Request::GoOn => {
                self.services.note_resting(self.opened.run, false);
                for waiting in self.resting.drain(..) {
                    let _ = waiting.send(Err(RunError::Said("it was resumed meanwhile".to_owned())));
                }
                self.offer_again();
                self.answers.push(reply);
                return;
            }
        };
        match input {
            Ok(input) => {
                self.decide(input);
                self.answers.push(reply);
            }
            Err(error) => {
                let _ = reply.send(Err(error));
            }
        }
    }

    /// Asks a person what a ready node wants to know; asks anew where an approval was given for something else.
    async fn ask_person(&mut self, id: &NodeId) -> bool {
        let (Some(node), Some(ask)) = (self.run.node(id), self.run.shows(id)) else { return false };
        // Boxed, as all that is seldom awaited: what stands here is part of the future of every message.
        let shown =
            Box::pin(approval::shown(&self.services, &self.opened, &self.run, node, ask)).await.digest();
        let events = self.within(|run, cx| run.ask(cx, id, Some(shown)));
        let asked = !events.is_empty();
        self.note(events);
        asked
    }

    /// Asks anew what would show something else by now: tools and the policy may have changed since it was asked.
    pub(super) async fn ask_anew(&mut self) {
        let waiting = self.run.instances().filter_map(|(node, instance)| match instance.standing {
            Standing::WaitingHuman { ask, .. } => Some((node.clone(), ask)),
            _ => None,
        });
        for (node, ask) in waiting.collect::<Vec<_>>() {
            if matches!(ask, HumanRequestKind::Before | HumanRequestKind::Node) {
                let shown = approval::shown(&self.services, &self.opened, &self.run, &node, ask).await;
                let events = self.within(|run, cx| run.ask_anew(cx, &node.id, Some(shown.digest())));
                self.note(events);
            }
        }
    }

    /// Does what follows from the last input, until only waiting is left: asks for approvals and slots, starts what
    /// needs none, and closes the run when nothing can follow; then appends all of it and starts what was granted.
    /// True if the run is over for this actor.
    pub(super) async fn advance(&mut self) -> Result<bool, ActorProcessingErr> {
        self.here.begin();
        let over = loop {
            self.enqueue().await;
            // What was refused or done here may have made others ready.
            if self.start_granted().await {
                continue;
            }
            let (events, quiet) = self.within(|run, cx| run.quiesce(cx));
            let moved = !events.is_empty();
            self.note(events);
            match quiet {
                // What was stopped has its end to tell, which is paid for.
                Quiet::Over if self.services.effects.knows_another(self.opened.run, &self.taken) => {
                    break false;
                }
                Quiet::Over if self.asks_judge() => break false,
                Quiet::Over => break true,
                Quiet::JudgeContract if self.judge.is_none() => {
                    self.judge_contract();
                    break false;
                }
                Quiet::Busy if moved => {}
                Quiet::Busy | Quiet::JudgeContract => break false,
            }
        };
        let evaluated = if over { self.evaluate() } else { None };
        if over {
            self.pending.push(Event::RunClosed { outcome: self.run.outcome() });
        }
        for event in self.pending.iter().filter_map(Telemetry::of) {
            self.tell(event);
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
            if let Some(evaluated) = evaluated {
                let (lane, run) = (self.arguments.owner.lane.clone(), self.opened.run);
                self.services.links.tell_evaluator(EvaluatorMessage::Evaluated { lane, run, evaluated });
            }
            self.close(position);
        } else if position.is_some() && self.run.waits_for_person() {
            self.services.stir_run(self.opened.run);
        }
        Ok(over)
    }

    /// Puts fresh ready nodes into the run queue, as many as the plan's own limit allows; starts at once what holds
    /// no slot.
    async fn enqueue(&mut self) {
        if self.is_resting() {
            return;
        }
        let mut jobs = Vec::new();
        // Who asks needs no slot for it.
        while let Some(id) = self.asking.pop_first() {
            self.ask_person(&id).await;
        }
        if !self.may_start() {
            return;
        }
        let plan = Arc::clone(self.run.plan());
        while self.queued.len() < self.run.free_slots() {
            let Some((_, id)) = self.fresh.pop_first() else { break };
            if self.ask_person(&id).await {
                continue;
            }
            let Some(at) = self.run.graph().position(&id) else { continue };
            let node = &plan.nodes[at];
            if self.services.toolbox.is_timer(node) {
                Box::pin(self.launch_timer(node)).await;
            } else {
                jobs.push(self.job(id.clone()));
                self.queued.insert(id);
            }
        }
        self.submit(jobs);
    }

    pub(super) fn submit(&mut self, jobs: Vec<Job>) {
        if jobs.is_empty() {
            return;
        }
        let owner = &self.arguments.owner;
        self.slots.extend(self.services.scheduling.enqueue(&self.services, owner, &self.me, jobs));
    }

    /// What is queued of a node. Its rank: nodes from here to the end of the plan, along the longest path.
    pub(super) fn job(&self, id: NodeId) -> Job {
        let graph = self.run.graph();
        let rank = graph.position(&id).map_or(0, |at| u64::from(graph.height[at]) + 1);
        let estimate = self.run.node(&id).map_or(UNKNOWN, |node| self.services.estimates.of(node));
        Job { run: self.opened.run, rank, opened_ms: self.opened_ms, estimate, node: id }
    }

    /// Appends what was decided. Without a journal nothing can go on.
    pub(super) fn append(&mut self) -> Result<Option<Position>, ActorProcessingErr> {
        if self.pending.is_empty() {
            self.taken.drain(..).for_each(|key| self.services.effects.forget(&key));
            for reply in self.answers.drain(..) {
                let _ = reply.send(Ok(()));
            }
            return Ok(None);
        }
        let events = std::mem::take(&mut self.pending);
        let last = Seq(self.seq.0 + events.len() as u64);
        // A question is known before anybody can read it, its end not before it is written.
        let (run, asks) = (self.opened.run, self.run.asks());
        if asks {
            self.services.note_quiet(run, last, None);
        }
        let at_ms = self.services.clock.now();
        let batch = StreamBatch { stream: self.stream, expected: self.seq, at_ms, events };
        match self.services.journal.append(vec![batch]) {
            Ok(position) => {
                self.seq = last;
                if !asks {
                    self.services.note_quiet(run, last, Some(position));
                }
                self.taken.drain(..).for_each(|key| self.services.effects.forget(&key));
                self.here.recorded();
                self.answer_when_durable(position);
                Ok(Some(position))
            }
            // Somebody else wrote to the run, or it wants more at once than is written: that is between the run and its
            // agent, which reads the records again, and sets the run aside if it does not get on.
            Err(error @ (JournalError::Conflict { .. } | JournalError::Refused(_))) => Err(error.into()),
            Err(error) => {
                self.services.halt(&error.to_string());
                Err(error.into())
            }
        }
    }

    fn answer_when_durable(&mut self, position: Position) {
        let answers = std::mem::take(&mut self.answers);
        if answers.is_empty() {
            return;
        }
        let services = Arc::clone(&self.services);
        tokio::spawn(async move {
            let durable = services.journal.durable(position).await;
            for reply in answers {
                let _ = reply.send(durable.clone().map_err(RunError::from));
            }
        });
    }

    /// Judges the plan's own contract over the map of the outputs.
    fn judge_contract(&mut self) {
        let (services, me) = (Arc::clone(&self.services), self.me.clone());
        let version = self.run.plan().version;
        let rules = self.run.plan().contract.clone();
        let outputs: Vec<(NodeId, Option<Output>)> = self
            .run
            .plan()
            .outputs
            .iter()
            .map(|id| (id.clone(), self.run.instance(id).and_then(|instance| instance.output.clone())))
            .collect();
        let task = tokio::spawn(async move {
            let judged = AssertUnwindSafe(attempt::judge_plan(&services, &rules, outputs)).catch_unwind();
            let broken = judged.await.unwrap_or_else(|_| Err("it could not be judged".to_owned())).err();
            let _ = me.cast(AgentMessage::ContractJudged { version, broken });
        });
        self.judge = Some(task.abort_handle());
    }

    fn set_alarm(&mut self) {
        let Some(at) = self.deadlines.first() else { return };
        if self.alarm.as_ref().is_some_and(|(set, task)| *set == at && !task.is_finished()) {
            return;
        }
        let me = self.me.clone();
        let task = tokio::spawn(async move {
            tokio::time::sleep_until(at).await;
            let _ = me.cast(AgentMessage::Due);
        });
        if let Some((_, earlier)) = self.alarm.replace((at, task)) {
            earlier.abort();
        }
    }

    /// Tells something of its agent to whoever watches.
    pub(super) fn tell(&self, event: Telemetry) {
        self.services.measures.tell(event, Some(&self.arguments.owner.agent), Some(self.opened.run));
    }

    /// Slots that were given back while the run was to come to rest are wanted again.
    fn offer_again(&mut self) {
        let wanting = self.run.instances().filter(|(node, instance)| {
            matches!(instance.state(), NodeState::Ready | NodeState::Running)
                && !self.queued.contains(&node.id)
        });
        for node in wanting.map(|(node, _)| node.id.clone()).collect::<Vec<_>>() {
            if self.is_lost_attempt(&node) {
                self.redo(vec![node]);
            } else if self.run.instance(&node).is_some_and(|instance| instance.state() == NodeState::Ready) {
                self.offer(&node);
            }
        }
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

    /// Whether only time or a person can move the run, and not soon: then the journal has all there is to it.
    pub(super) fn idle(&self) -> Option<Idle> {
        let until = self.deadlines.first();
        let soon = until.is_some_and(|until| until < Instant::now() + IDLE_MIN);
        let still = self.run.only_waits() && self.judge.is_none() && self.crowded.is_empty() && !soon;
        // What was stopped has its end to tell.
        (still && !self.services.effects.knows_run(self.opened.run)).then_some(Idle { until })
    }

    /// The run is closed: tells the registry once that is durable.
    fn close(&self, position: Option<Position>) {
        let services = Arc::clone(&self.services);
        let (agent, run) = (self.arguments.owner.agent.clone(), self.opened.run);
        tokio::spawn(async move {
            if let Some(position) = position {
                let _ = services.journal.durable(position).await;
            }
            services.links.tell_registry(RegistryMessage::Done { agent, run });
        });
    }
}

impl Drop for Drive {
    fn drop(&mut self) {
        for granted in self.slots.drain(..) {
            self.services.scheduling.give_back(&self.services, granted.ticket);
        }
        self.unspend();
        self.book.part_with(self.opened.run);
        if let Some((_, alarm)) = self.alarm.take() {
            alarm.abort();
        }
        if let Some(judge) = self.judge.take() {
            judge.abort();
        }
        self.appraisal.abort();
    }
}

/// Nothing can happen to the run before this, unless somebody asks for something.
pub(super) struct Idle {
    pub(super) until: Option<Instant>,
}

/// Ends of attempts that are written in one append: their results, each of which may stand in its record, have room in a frame of
/// the journal.
const ENDED_TOGETHER_MAX: usize = 512;

/// Characters that are kept of why a contract does not hold.
const WHY_CHARS_MAX: usize = 1_000;

/// Waits that are shorter are waited for here.
const IDLE_MIN: Duration = Duration::from_secs(1);

/// How long a node waits for which there was no room in the run queue.
const CROWDED: Duration = Duration::from_millis(200);

/// A century: longer waits are cut to it, so that adding them to the clock cannot overflow.
const LONGEST_WAIT_MS: u64 = 100 * 366 * 24 * 3_600 * 1_000;
