//! Turns of calls that no job stands for: they wait in the run queue like jobs, and take no slot.
//!
//! A turn is a job of its client whose slot is returned in the moment of its grant: clients get turns by the same order as slots, and
//! the turn takes from the same buckets.

use ostler_kernel::id::{AgentId, ClientId, NodeId, RunId};
use ostler_scheduler::{EnqueueError, JobHandle, NewJob, Price};
use ractor::ActorProcessingErr;

use super::SlotAllocator;
use crate::messages::slots::{Job, TurnRequest};
use crate::scheduler::context::QueueContext;
use crate::scheduler::queue_time::KeptLevels;
use crate::scheduler::queued::{Asked, Purpose, Queued, TurnSignal};
use crate::scheduler::rows::RateWait;

/// Priority of work that has begun, above that of jobs without credits.
const STARTED_PRIORITY: i32 = 2;

impl SlotAllocator {
    /// Takes a turn, or queues the request.
    pub(in crate::scheduler) fn ask_turn(
        &mut self,
        cx: &QueueContext,
        TurnRequest { owner, run, node, uses }: TurnRequest,
    ) -> Result<Asked, ActorProcessingErr> {
        let Some(model) = self.queue.model(&uses.model) else { return Ok(Asked::Taken) };
        self.catch_up();
        let books = self.tenants.lane(&mut self.queue, &cx.ledger, &owner, cx.clock.now(), false)?.books;
        if let Some(client) = self.tenants.client(&owner.lane.client)
            && self.queue.take_if_free(client, model, uses.tokens, &mut self.events)?
        {
            return Ok(Asked::Taken);
        }
        let agent = self.tenants.model_lane(&mut self.queue, &owner, &uses.model)?;
        // A turn takes no slot time, so it needs no credits and costs the least charge; the attempt pays at its end.
        let estimate = Price { charge: 1, credits: 0, tokens: uses.tokens };
        let new = NewJob { priority: STARTED_PRIORITY, model: Some(model), ..NewJob::of(estimate) };
        let (signal, receiver) = TurnSignal::new();
        let node = node.unwrap_or_else(|| NodeId::from(""));
        let job = Job { run, node, rank: 0, opened_ms: 0, estimate, model: Some(uses) };
        let (since, purpose) = (self.measures.now(), Purpose::Turn(signal));
        let queued = Queued { job, owner, books, since, purpose };
        let turn = match self.queue.enqueue(agent, new, queued, &mut self.events) {
            Ok(turn) => turn,
            Err(EnqueueError::Full(_)) => return Ok(Asked::Full),
            Err(error) => return Err(error.into()),
        };
        self.turns.insert(turn);
        self.tenants.restore_new(&mut self.queue, &mut self.events)?;
        Ok(Asked::Waits(turn, receiver))
    }

    /// Withdraws a request that no longer waits; `false` if its turn was given.
    pub(in crate::scheduler) fn cancel_turn(&mut self, turn: JobHandle) -> bool {
        self.turns.remove(&turn) && self.queue.cancel(turn, &mut self.events).is_ok()
    }

    /// Gives a turn that the queue granted, and returns its slot.
    pub(super) fn give_turn(&mut self, turn: JobHandle) {
        self.turns.remove(&turn);
        let Some(Queued { job, purpose: Purpose::Turn(signal), .. }) = self.queue.job(turn) else { return };
        let estimate = job.estimate;
        let ended = match signal.send() {
            true => self.queue.settle(turn, estimate, &mut self.events),
            false => self.queue.refund(turn, &mut self.events),
        };
        if let Err(error) = ended {
            tracing::error!(%error, "a turn cannot be settled");
        }
    }

    /// Counts the tokens of an ended call beyond those of its turn, and parks its model.
    pub(in crate::scheduler) fn turn_ended(
        &mut self,
        client: &ClientId,
        model: &str,
        (tokens, requests): (i64, i64),
        park_ms: Option<u64>,
    ) -> Result<(), ActorProcessingErr> {
        let Some(handle) = self.queue.model(model) else { return Ok(()) };
        if let Some(client) = self.tenants.client(client) {
            self.queue.take_directly(client, handle, tokens, requests, &mut self.events)?;
        }
        if let Some(ms) = park_ms.filter(|ms| *ms > 0) {
            if self.queue.parked_ms(handle) == 0 {
                tracing::info!(model, ms, "the provider asks to wait: calls of the model wait that long");
            }
            self.queue.park(handle, ms, &mut self.events);
        }
        Ok(())
    }

    /// Nodes of a run whose next call waits for the limits of its model, with the model and the least wait.
    pub(in crate::scheduler) fn rate_waits(&self, agent: &AgentId, run: RunId) -> Vec<RateWait> {
        if !self.has_models {
            return Vec::new();
        }
        let jobs = self.agents.get(agent).into_iter().flat_map(|known| &known.jobs).chain(&self.turns);
        let waits = jobs.filter_map(|&handle| {
            let job = &self.queue.job(handle).filter(|queued| queued.job.run == run)?.job;
            let ms = self.queue.wait_ms(handle).filter(|ms| *ms > 0)?;
            Some(RateWait { node: job.node.clone(), model: job.model.as_ref()?.model.to_string(), ms })
        });
        waits.collect()
    }

    /// Lets the time since the last call pass.
    pub(super) fn catch_up(&mut self) {
        if self.has_models {
            let ms = self.time.pass();
            if ms > 0 {
                self.queue.advance(ms, &mut self.events);
            }
        }
    }

    /// Sets the timer for the next change by time alone.
    pub(super) fn set_timer(&mut self, cx: &QueueContext) {
        if self.has_models
            && let Some(ms) = self.queue.next_change_ms()
        {
            self.time.wake_in(ms, cx);
        }
    }

    pub(in crate::scheduler) fn timer_fired(&mut self) {
        self.time.fired();
    }

    pub(in crate::scheduler) fn levels(&self) -> KeptLevels {
        KeptLevels { levels: self.queue.levels(), at: self.time.upto() }
    }
}
