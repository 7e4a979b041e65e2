//! Uses of granted slots: start an attempt, or return the slot.

use std::collections::BTreeSet;

use ostler_kernel::event::Accounts;
use ostler_kernel::id::NodeId;
use ostler_kernel::run::{NodeState, RunInput};
use ractor::ActorProcessingErr;

use super::attempt_launch::Launch;
use super::driver::{Recovery, RunDriver};
use super::without_slot::takes_no_slot;
use crate::base::keys::AttemptKey;
use crate::messages::slots::{Granted, Ticket};

enum GrantUse {
    /// A new attempt.
    Start,
    /// An attempt under its old number, after the loss of its process or a wait for its turn.
    Rerun,
    /// Nothing now; the node is offered again after a delay.
    Later,
    /// Nothing until the interjection that holds the rerun is answered.
    Held,
    /// Nothing any more.
    Drop,
}

impl RunDriver {
    /// Uses granted slots, as many as fit into the turn, and returns the others. Returns whether there was any. Inline attempts may
    /// bring further grants.
    ///
    /// # Errors
    ///
    /// The recovery record could not be made durable.
    pub(super) async fn start_granted(&mut self) -> Result<bool, ActorProcessingErr> {
        if self.queue.granted.is_empty() {
            return Ok(false);
        }
        if self.in_flight.recovery != Recovery::None {
            self.count_recovery().await?;
        }
        let (may_spend, mut later) = (self.may_spend(), Vec::new());
        while !self.in_flight.inline.is_full()
            && let Some(Granted { ticket, job, accounts }) = self.queue.granted.pop_front()
        {
            self.in_flight.inline.count_grant();
            if job.run != self.opened.run {
                self.release_slot(ticket);
                continue;
            }
            if self.use_grant(&job.node, ticket, accounts, may_spend).await {
                self.queue.unmark_queued(&job.node);
            } else {
                later.push(job.node);
            }
        }
        if !later.is_empty() {
            self.rejected_by_queue(later);
        }
        Ok(true)
    }

    /// Uses or returns one slot. `false`: the node is to be offered again.
    async fn use_grant(&mut self, node: &NodeId, slot: Ticket, accounts: Accounts, may_spend: bool) -> bool {
        match self.grant_use(node, may_spend) {
            GrantUse::Start if self.must_ask_first(node) => {
                self.release_slot(slot);
                self.offer(node);
            }
            GrantUse::Start => {
                let events = self.within(|run, cx| run.start(cx, node, None));
                self.apply_effects(events);
                self.begin_attempt(node, slot, accounts, false).await;
            }
            GrantUse::Rerun => {
                let again = self.take_turn(node);
                // The run may have read more while the attempt waited.
                self.must_ask_first(node);
                self.begin_attempt(node, slot, accounts, again).await;
            }
            GrantUse::Later => {
                self.release_slot(slot);
                return false;
            }
            GrantUse::Held => {
                self.yield_turn(node);
                self.release_slot(slot);
                self.in_flight.paused_reruns.push(node.clone());
            }
            GrantUse::Drop => {
                self.yield_turn(node);
                self.release_slot(slot);
                self.end_lost_drain(node);
            }
        }
        true
    }

    /// True if a person has to allow a call because of what the run, or runs around it, have read since it was queued.
    pub(super) fn must_ask_first(&mut self, node: &NodeId) -> bool {
        let heeds = |node| self.services.gatekeeper.heeds_labels(node);
        if self.run.terms().parent.is_none() && !self.run.node(node).is_some_and(heeds) {
            return false;
        }
        self.record_exposure(node);
        self.hold_for_person(node);
        self.run.question(node).is_some()
    }

    fn grant_use(&mut self, node: &NodeId, may_spend: bool) -> GrantUse {
        let wanted = self.run.instance(node).filter(|instance| !instance.is_draining());
        let state = wanted.map(|instance| instance.state());
        if self.services.journal.status.is_stopping() || self.is_suspending() {
            return GrantUse::Drop;
        }
        match state {
            Some(NodeState::Ready | NodeState::Running)
                if self.may_be_granted(node) && !(may_spend && self.has_budget_left(node)) =>
            {
                GrantUse::Later
            }
            Some(NodeState::Ready) if self.is_orphan(node) => GrantUse::Later,
            Some(NodeState::Ready) => GrantUse::Start,
            Some(NodeState::Running) if self.run.is_rerun_held(node) => GrantUse::Held,
            Some(NodeState::Running) if self.is_lost(node) => GrantUse::Rerun,
            _ => GrantUse::Drop,
        }
    }

    /// Refuses every node that wants a slot once the budget of the run is used up; a refusal needs neither a slot nor credits.
    /// Returns whether there was any.
    pub(super) async fn refuse_unaffordable(&mut self) -> bool {
        let is_open = !self.is_suspending() && !self.services.journal.status.is_stopping();
        if !is_open || !self.is_used_up() {
            return false;
        }
        let wanting = self.wanting_slots();
        if wanting.is_empty() {
            return false;
        }
        self.queue.withdraw(&wanting);
        self.services.scheduler.unregister(&self.arguments.owner.agent);
        for id in wanting {
            if self.in_flight.inline.is_full() {
                // For another turn; a ready node stays in `ready` until then.
                self.queue.reject(id);
                continue;
            }
            self.in_flight.inline.count_grant();
            self.unqueue(&id);
            let Some(instance) = self.run.instance(&id) else { continue };
            match instance.state() {
                NodeState::Ready => {
                    let events = self.within(|run, cx| run.start(cx, &id, None));
                    self.apply_effects(events);
                }
                NodeState::Running if !instance.is_draining() => {}
                NodeState::Running => {
                    self.end_lost_drain(&id);
                    continue;
                }
                // The refusal of another node has ended this one.
                _ => continue,
            }
            let attempt = self.run.instance(&id).map_or(0, |instance| instance.attempts);
            let (key, refusal) = (self.key(&id, attempt), self.spent_budget());
            self.refuse_attempt(&key, refusal).await;
        }
        true
    }

    /// Nodes that want a slot or have a granted one, except timers, which cost nothing.
    fn wanting_slots(&self) -> BTreeSet<NodeId> {
        let running = self.run.instances().filter(|(_, instance)| instance.state() == NodeState::Running);
        let lost = running.map(|(node, _)| &node.id).filter(|id| self.is_lost_attempt(id));
        lost.chain(self.queue.wanting_slots()).filter(|id| self.costs(id)).cloned().collect()
    }

    /// True if the run has a budget, and nothing of it is left.
    pub(super) fn is_used_up(&self) -> bool {
        self.has_budget() && self.services.run_budgets.is_used_up(self.opened.run)
    }

    fn costs(&self, id: &NodeId) -> bool {
        let is_timer = |node| self.services.gatekeeper.toolbox.is_timer(node);
        self.run.node(id).is_some_and(|node| !is_timer(node)) && !takes_no_slot(&self.run, id)
    }

    /// Makes the recovery record durable before the first attempt of a run that another process opened: should the attempt end
    /// the process, the next one finds that the run was tried.
    async fn count_recovery(&mut self) -> Result<(), ActorProcessingErr> {
        let starts =
            |granted: &Granted| granted.job.run == self.opened.run && self.may_be_granted(&granted.job.node);
        if self.services.journal.status.is_stopping()
            || self.is_suspending()
            || !self.queue.granted.iter().any(starts)
        {
            return Ok(());
        }
        let (run, recovery) = (self.opened.run, std::mem::take(&mut self.in_flight.recovery));
        if self.services.active_runs.is_counted(run) {
            return Ok(());
        }
        if recovery == Recovery::Uncounted {
            let events = self.within(|run, cx| run.count_recovery(cx));
            self.apply_effects(events);
        }
        self.append()?;
        self.services.journal.durable(self.writer.position).await?;
        self.services.active_runs.note_counted(run);
        Ok(())
    }

    pub(super) fn release_slot(&self, slot: Ticket) {
        self.services.scheduler.give_back(slot);
    }

    /// True if a node is to be started or run again.
    fn may_be_granted(&self, node: &NodeId) -> bool {
        let state = self.run.instance(node).map(|instance| instance.state());
        state == Some(NodeState::Ready) || self.is_lost(node)
    }

    /// True if the run's budget has something for the node, or will never have more.
    fn has_budget_left(&self, node: &NodeId) -> bool {
        let Some(instance) = self.run.instance(node).filter(|_| self.has_budget()) else { return true };
        let attempt = instance.attempts + u32::from(instance.state() == NodeState::Ready);
        let lent = self
            .services
            .run_budgets
            .with(self.opened.run, |run_budget| run_budget.must_wait(&(node.clone(), attempt)));
        !lent.unwrap_or(false)
    }

    /// True if an attempt with the next number of a ready node still runs, because its start record was rolled back. Such an
    /// attempt only reads or computes, and is cancelled.
    fn is_orphan(&self, node: &NodeId) -> bool {
        let next = self.run.instance(node).map_or(1, |instance| instance.attempts + 1);
        let key = self.key(node, next);
        let is_orphan = self.in_flight.has_orphans && self.services.attempts.knows(&key);
        if is_orphan {
            self.services.attempts.cancel(&key);
        }
        is_orphan
    }

    /// True if the attempt of a running node died with its process: neither the driver nor the attempt table has it.
    pub(super) fn is_lost(&self, node: &NodeId) -> bool {
        let attempt = self.run.instance(node).map_or(0, |instance| instance.attempts);
        !self.knows(&self.key(node, attempt))
    }

    /// True if an attempt is about to start, runs, or has ended without a record.
    fn knows(&self, key: &AttemptKey) -> bool {
        self.in_flight.launches.iter().any(|launch| launch.key == *key)
            || self.services.attempts.knows(key)
            || self.asks_about(key)
            || self.waits_for_turn(key)
    }

    /// Drops attempts that have not begun and became needless through later decisions. Returns whether any were
    /// dropped. An acting attempt that is to drain begins all the same, and reports its end.
    pub(super) fn withdraw(&mut self) -> bool {
        let is_unwanted = |launch: &mut Launch| !self.run.is_current(&launch.key.node, launch.key.attempt);
        let unwanted: Vec<Launch> = self.in_flight.launches.extract_if(.., is_unwanted).collect();
        for Launch { key, slot, .. } in &unwanted {
            self.release_slot(*slot);
            self.release_budget(key);
        }
        !unwanted.is_empty()
    }

    /// Ends a draining attempt that was lost with its process.
    pub(super) fn end_lost_drain(&mut self, node: &NodeId) {
        let Some(instance) = self.run.instance(node) else { return };
        let key = self.key(node, instance.attempts);
        if instance.is_draining() && !self.knows(&key) {
            self.decide(RunInput::AttemptLost(node.clone()));
        }
    }
}
