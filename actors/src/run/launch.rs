//! From a granted slot to a started attempt: inputs, gate, intent, effect.

use std::collections::BTreeSet;
use std::pin::Pin;
use std::sync::Arc;

use ostler_kernel::event::{Accounts, AttemptRef, AttemptResult, Event, GateDecision, Outcome};
use ostler_kernel::gate::{Denial, Permit};
use ostler_kernel::id::{Digest, NodeId};
use ostler_kernel::json::Object;
use ostler_kernel::plan::Node;
use ostler_kernel::port::{ArtifactError, Position, Tool};
use ostler_kernel::run::{
    AttemptInput, FailureCategory, GENERATION, IntentContext, NodeInstance, NodeState, RefDigests, RunInput,
};
use ractor::ActorProcessingErr;

use super::drive::{Drive, Recovery};
use crate::api::approval;
use crate::attempts::attempt::{self, Work};
use crate::attempts::attempt_journal::{LiveLog, Site};
use crate::attempts::attempt_table::{AttemptKey, Effects, failed};
use crate::scheduler::{Granted, Ticket};
use crate::storage::results::{self, Unreadable};

/// An attempt that starts as soon as its intent is appended (durable, if it acts on the world).
pub(super) struct Launch {
    pub(super) key: AttemptKey,
    pub(super) slot: Ticket,
    acts: bool,
    log: Arc<LiveLog>,
    /// Does it. Boxed: it is handed on several times until it is done.
    pub(super) body: Pin<Box<dyn Future<Output = Outcome> + Send>>,
}

/// Why a granted node does not start.
enum Refusal {
    /// A failure like any other.
    Failed(FailureCategory, String),
    /// The gate said no. What the plan gets to see is the same sentence for every reason.
    Denied(Denial),
}

impl Refusal {
    /// What it would be given cannot be read. What is gone or damaged stays so; a disk may think better of it.
    fn unreadable(unreadable: Unreadable) -> Refusal {
        let category = match &unreadable.error {
            ArtifactError::Missing(_) | ArtifactError::Damaged { .. } => FailureCategory::ParamMissing,
            ArtifactError::Io(_) | ArtifactError::Full(_) => FailureCategory::Transient,
        };
        Refusal::Failed(category, unreadable.to_string())
    }

    fn unapproved() -> Refusal {
        let what = "what was approved is not what would be done now: tools or the policy have changed";
        Refusal::Failed(FailureCategory::Transient, what.to_owned())
    }
}

impl Drive {
    /// Starts what was granted; gives back what is not wanted any more, and what may not be spent any more. What is done at once may
    /// have freed slots for more. Whether there was anything.
    pub(super) async fn start_granted(&mut self) -> Result<bool, ActorProcessingErr> {
        if self.slots.is_empty() {
            return Ok(false);
        }
        if self.recovery != Recovery::None {
            self.count_recovery().await?;
        }
        let (may_spend, mut later) = (self.may_spend(), Vec::new());
        while !self.here.is_full()
            && let Some(Granted { ticket, job, accounts }) = self.slots.pop_front()
        {
            self.here.looked_at();
            if job.run != self.opened.run {
                self.give_back(ticket);
                continue;
            }
            let wanted = self.run.instance(&job.node).filter(|instance| !instance.is_draining());
            let state = wanted.map(|instance| instance.state());
            let mine = !self.services.is_stopping() && !self.is_resting();
            match state {
                Some(NodeState::Ready | NodeState::Running)
                    if mine
                        && self.may_be_granted(&job.node)
                        && !(may_spend && self.may_afford(&job.node)) =>
                {
                    self.give_back(ticket);
                    later.push(job.node);
                    continue;
                }
                // What was undone of it has not come to its end.
                Some(NodeState::Ready) if mine && self.is_stray(&job.node) => {
                    self.give_back(ticket);
                    later.push(job.node);
                    continue;
                }
                Some(NodeState::Ready) if mine => {
                    let events = self.within(|run, cx| run.start(cx, &job.node, None));
                    self.note(events);
                    self.begin_attempt(&job.node, ticket, accounts, false).await;
                }
                Some(NodeState::Running) if mine && self.run.is_rerun_held(&job.node) => {
                    self.give_back(ticket);
                    self.held_back.push(job.node.clone());
                }
                // Its process died; it may be done again, under the same attempt, but not twice.
                Some(NodeState::Running) if mine && self.is_lost(&job.node) => {
                    self.begin_attempt(&job.node, ticket, accounts, true).await;
                }
                _ => {
                    self.give_back(ticket);
                    self.end_unwanted(&job.node);
                }
            }
            self.take_from_queue(&job.node);
        }
        // They ask again in a while, like those for which there was no room.
        if !later.is_empty() {
            self.no_room(later);
        }
        Ok(true)
    }

    /// Refuses what wants a slot when the budget of the run is used up: that takes neither a slot nor credits. Whether there was
    /// anything.
    pub(super) fn refuse_unaffordable(&mut self) -> bool {
        let is_open = !self.is_resting() && !self.services.is_stopping();
        // What is about to start has something set aside.
        if !is_open || !self.is_used_up() {
            return false;
        }
        let wanting = self.wanting_slots();
        if wanting.is_empty() {
            return false;
        }
        // What is queued of it keeps nobody waiting.
        self.slots.clear();
        self.services.scheduling.bye(&self.services, &self.arguments.owner.agent);
        self.queued.retain(|id| !wanting.contains(id));
        self.crowded.retain(|id| !wanting.contains(id));
        for id in wanting {
            if self.here.is_full() {
                // For another turn; one that is ready is fresh till then.
                self.crowded.push(id);
                continue;
            }
            self.here.looked_at();
            self.unqueue(&id);
            let Some(instance) = self.run.instance(&id) else { continue };
            match instance.state() {
                NodeState::Ready => {
                    let events = self.within(|run, cx| run.start(cx, &id, None));
                    self.note(events);
                }
                NodeState::Running if !instance.is_draining() => {}
                NodeState::Running => {
                    self.end_unwanted(&id);
                    continue;
                }
                // Another one was refused, and has taken it along.
                _ => continue,
            }
            let attempt = self.run.instance(&id).map_or(0, |instance| instance.attempts);
            let refusal = self.spent_budget();
            self.refuse(&id, attempt, refusal);
        }
        true
    }

    /// Nodes that want a slot, or have one granted, and cost something.
    fn wanting_slots(&self) -> BTreeSet<NodeId> {
        let running = self.run.instances().filter(|(_, instance)| instance.state() == NodeState::Running);
        let lost = running.map(|(node, _)| &node.id).filter(|id| self.is_lost_attempt(id));
        let ready = self.fresh.iter().map(|(_, id)| id).chain(&self.queued).chain(&self.crowded);
        lost.chain(ready).filter(|id| self.costs(id)).cloned().collect()
    }

    /// Whether nothing more of the run starts, by its budget.
    pub(super) fn is_used_up(&self) -> bool {
        self.has_budget() && self.services.purses.is_used_up(self.opened.run)
    }

    /// Whether a node is anything but a wait.
    fn costs(&self, id: &NodeId) -> bool {
        self.run.node(id).is_some_and(|node| !self.services.toolbox.is_timer(node))
    }

    /// Before the first attempt of a run that another process has opened: should it end this process before there is a record of
    /// it, the next one finds that it was tried.
    async fn count_recovery(&mut self) -> Result<(), ActorProcessingErr> {
        let starts =
            |granted: &Granted| granted.job.run == self.opened.run && self.may_be_granted(&granted.job.node);
        if self.services.is_stopping() || self.is_resting() || !self.slots.iter().any(starts) {
            return Ok(());
        }
        let (run, recovery) = (self.opened.run, std::mem::replace(&mut self.recovery, Recovery::None));
        if self.services.driven.is_counted(run) {
            return Ok(());
        }
        if recovery == Recovery::Uncounted {
            let events = self.within(|run, cx| run.count_recovery(cx));
            self.note(events);
        }
        self.append()?;
        self.services.journal.durable(self.position).await?;
        self.services.driven.note_counted(run);
        Ok(())
    }

    /// Gives a granted slot back unused.
    fn give_back(&self, slot: Ticket) {
        self.services.scheduling.give_back(&self.services, slot);
    }

    /// Whether a node is to be started, or to be done again.
    fn may_be_granted(&self, node: &NodeId) -> bool {
        let state = self.run.instance(node).map(|instance| instance.state());
        state == Some(NodeState::Ready) || self.is_lost(node)
    }

    /// Whether a node finds anything of the budget of the run, or nobody is left who would leave it some.
    fn may_afford(&self, node: &NodeId) -> bool {
        let Some(instance) = self.run.instance(node).filter(|_| self.has_budget()) else { return true };
        let attempt = instance.attempts + u32::from(instance.state() == NodeState::Ready);
        let lent =
            self.services.purses.with(self.opened.run, |purse| purse.must_wait(&(node.clone(), attempt)));
        !lent.unwrap_or(false)
    }

    /// Whether an attempt of a ready node is under way that would be its next: the record that it began was undone. It is stopped, as it
    /// only looks or computes.
    fn is_stray(&self, node: &NodeId) -> bool {
        let next = self.run.instance(node).map_or(1, |instance| instance.attempts + 1);
        let key = self.key(node, next);
        let is_stray = self.has_strays && self.services.effects.knows(&key);
        if is_stray {
            self.services.effects.cancel(&key);
        }
        is_stray
    }

    /// Whether nobody is about the attempt of a running node: it died with its process.
    pub(super) fn is_lost(&self, node: &NodeId) -> bool {
        let attempt = self.run.instance(node).map_or(0, |instance| instance.attempts);
        !self.knows(&self.key(node, attempt))
    }

    /// Whether an attempt runs, is about to start, or has ended and is not recorded yet.
    fn knows(&self, key: &AttemptKey) -> bool {
        self.launches.iter().any(|launch| launch.key == *key) || self.services.effects.knows(key)
    }

    /// Lets go of attempts that what was decided since does without: they have not begun. Whether there were any. One that acts and
    /// is to drain begins, and tells its end.
    pub(super) fn withdraw(&mut self) -> bool {
        let is_unwanted = |launch: &mut Launch| !self.run.is_current(&launch.key.node, launch.key.attempt);
        let unwanted: Vec<Launch> = self.launches.extract_if(.., is_unwanted).collect();
        for Launch { key, slot, .. } in &unwanted {
            self.give_back(*slot);
            self.put_back(key);
        }
        !unwanted.is_empty()
    }

    /// An attempt that was lost with its process, and stopped before it could be done again.
    fn end_unwanted(&mut self, node: &NodeId) {
        let Some(instance) = self.run.instance(node) else { return };
        let key = self.key(node, instance.attempts);
        if instance.is_draining() && !self.knows(&key) {
            self.decide(RunInput::AttemptLost(node.clone()));
        }
    }

    /// Starts the attempt of a running node; `again`: one that died with its process.
    async fn begin_attempt(&mut self, id: &NodeId, slot: Ticket, accounts: Accounts, again: bool) {
        let plan = Arc::clone(self.run.plan());
        let at = self.run.graph().position(id).expect("a node that was started exists");
        let node = &plan.nodes[at];
        let attempt = self.run.instance(id).map_or(0, |instance| instance.attempts);
        // What was approved is shown again before an attempt starts; only one that its process did not live to end can
        // come here with something else.
        let key = self.key(id, attempt);
        let most = u64::try_from(node.timeout).unwrap_or(1);
        let affords = !self.has_budget() || self.services.purses.may_start(&key, most);
        let afforded = if affords { self.prepare(node).await } else { Err(self.spent_budget()) };
        let prepared = afforded.and_then(|prepared| {
            let shown = || approval::of_work(&self.services, &self.caller, node, &prepared.work).digest();
            if self.run.is_approved(id, shown) { Ok(prepared) } else { Err(Refusal::unapproved()) }
        });
        match prepared {
            Ok(Prepared { refs, .. }) if again && !self.is_same_work(node, &refs) => {
                self.give_back(slot);
                self.put_back(&key);
                let what = self.changed_since(node);
                self.decide(RunInput::WorkChanged { node: id.clone(), what });
            }
            Ok(prepared) => {
                let acts = prepared.work.acts(node);
                self.record_intent(node, &prepared, Some(accounts));
                let is_quick = !acts && self.has_time() && node.tests.is_none() && prepared.work.is_quick();
                let site = self.site(node, attempt, prepared.key);
                let log = Arc::new(LiveLog::new(&self.services, site));
                let (services, caller) = (Arc::clone(&self.services), Arc::clone(&self.caller));
                let log_of_work = Arc::clone(&log);
                let body = Box::pin(async move {
                    let work = Box::new(prepared.work);
                    attempt::perform(&services, &caller, &plan.nodes[at], work, log_of_work).await
                });
                let launch = Launch { key, slot, acts, log, body };
                if is_quick {
                    Box::pin(self.perform_here(launch)).await;
                } else {
                    self.launches.push(launch);
                }
            }
            Err(refusal) => {
                self.give_back(slot);
                self.put_back(&key);
                self.refuse(id, attempt, refusal);
            }
        }
    }

    fn has_budget(&self) -> bool {
        self.run.terms().budget.is_some()
    }

    /// What was set aside for an attempt that has ended, or does not start, is its run's again, but for what it cost.
    pub(super) fn put_back(&self, key: &AttemptKey) {
        if self.has_budget() {
            self.services.purses.ended(key, self.run.cost());
        }
    }

    fn spent_budget(&self) -> Refusal {
        let budget = self.run.terms().budget.unwrap_or(0);
        let what = format!("the budget of the run, {budget} credits, is used up");
        Refusal::Failed(FailureCategory::ResourceExhaustion, what)
    }

    fn tool_version(&self, node: &Node) -> Option<&str> {
        self.services.toolbox.version(node.tool.as_deref()?)
    }

    fn is_same_work(&self, node: &Node, refs: &RefDigests) -> bool {
        self.run.is_same_work(&node.id, refs, self.services.toolbox.executable_digest(node))
    }

    /// Why an attempt that was lost is not just done again.
    fn changed_since(&self, node: &Node) -> String {
        let tool = node.tool.as_deref().unwrap_or("what it does");
        let version = self.tool_version(node).map(|version| format!(", now version {version},"));
        format!("not done again: {tool}{} has changed since it was started", version.unwrap_or_default())
    }

    /// Starts a node that is nothing but a wait. It passes the gate like any other.
    pub(super) async fn launch_timer(&mut self, node: &Node) {
        let prepared = self.prepare(node).await;
        let wait = match &prepared {
            Ok(Prepared { work: Work::Tool { tool, permit }, .. }) => tool.timer_ms(permit.params()),
            _ => None,
        };
        let due = wait.map(|ms| self.services.clock.now().saturating_add_unsigned(ms));
        let events = self.within(|run, cx| run.start(cx, &node.id, due));
        self.note(events);
        let attempt = self.run.instance(&node.id).map_or(0, |instance| instance.attempts);
        match prepared {
            Ok(prepared) if due.is_some() => self.record_intent(node, &prepared, None),
            Ok(_) => {
                let what = format!("{} does not say how long to wait", node.id);
                self.refuse(&node.id, attempt, Refusal::Failed(FailureCategory::Structural, what));
            }
            Err(refusal) => self.refuse(&node.id, attempt, refusal),
        }
    }

    fn refuse(&mut self, id: &NodeId, attempt: u32, refusal: Refusal) {
        let (category, message) = match refusal {
            Refusal::Failed(category, message) => (category, message),
            Refusal::Denied(denial) => {
                let seen = denial.for_model().to_owned();
                self.pending.push(Event::GateDecision(GateDecision {
                    node: id.clone(),
                    attempt,
                    code: denial.code.as_str().to_owned(),
                    detail: denial.operator,
                }));
                (FailureCategory::GateDenied, seen)
            }
        };
        let outcome = failed(category, message);
        self.decide(RunInput::Result(Box::new(AttemptResult::without_cost(id.clone(), attempt, outcome))));
    }

    /// What the attempt is given, and leave to make it.
    async fn prepare(&mut self, node: &Node) -> Result<Prepared, Refusal> {
        let results = results::needed(&self.services, &self.run, node).await.map_err(Refusal::unreadable)?;
        let given = self.run.attempt_input(node, &results);
        let (given, refs) = given.map_err(|error| Refusal::Failed(error.category(), error.to_string()))?;
        let key = self.run.idempotency_key(self.opened.run, &node.id);
        let work = match given {
            AttemptInput::Aggregate { template, values } => Work::Render { template, values },
            AttemptInput::Params(params) => {
                let (tool, permit) = self.gate(node, params, key)?;
                Work::Tool { tool, permit }
            }
        };
        Ok(Prepared { work, refs, key })
    }

    fn gate(&self, node: &Node, params: Object, key: Digest) -> Result<(Arc<dyn Tool>, Permit), Refusal> {
        let name = node.tool.as_deref().unwrap_or_default();
        self.services.gate(&self.caller, name, params, node.impact, key).map_err(Refusal::Denied)
    }

    /// Records what is about to happen.
    fn record_intent(&mut self, node: &Node, prepared: &Prepared, accounts: Option<Accounts>) {
        let services = &self.services;
        let sigma = services.toolbox.executable_digest(node);
        let Prepared { refs, key, .. } = prepared;
        let intended = IntentContext { opened: &self.opened, refs, sigma, idempotency_key: *key, accounts };
        let intent = self.run.record_intent(services.clock.now(), &node.id, intended);
        self.note(intent.into_iter().collect());
    }

    /// Where an attempt of a node notes what it has to note of itself.
    fn site(&self, node: &Node, attempt: u32, key: Digest) -> Site {
        let patch_count = self.run.instance(&node.id).map_or(0, |instance| instance.patch_count);
        let run = self.opened.run;
        Site {
            run,
            stream: self.stream.attempts_stream(),
            of: AttemptRef { node: node.id.clone(), generation: GENERATION, patch_count, attempt },
            key,
            heartbeat_ms: node.heartbeat_timeout.and_then(|span| u64::try_from(span).ok()),
            impact: node.reach().impact,
        }
    }

    /// Starts what was appended. What acts on the world waits until its intent is durable.
    pub(super) fn launch(&mut self, position: Option<Position>) {
        for Launch { key, slot, acts, log, body } in std::mem::take(&mut self.launches) {
            let services = Arc::clone(&self.services);
            let body = async move {
                if let (true, Some(position)) = (acts, position)
                    && let Err(error) = services.journal.durable(position).await
                {
                    services.not_durable(&error);
                    return None;
                }
                Some(body.await)
            };
            let held = (Arc::clone(&self.arguments.owner), slot);
            Effects::spawn(&self.services, key.clone(), held, self.me.clone(), (acts, log), body);
            if self.run.instance(&key.node).is_some_and(NodeInstance::is_draining) {
                self.services.effects.drains(&key);
            }
        }
    }
}

/// What a node is about to do.
struct Prepared {
    work: Work,
    /// What it was given by reference.
    refs: RefDigests,
    /// What a receiver can recognise a repetition of it by.
    key: Digest,
}
