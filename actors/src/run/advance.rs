//! A turn of a run: decide until only waiting is left, append, then start what was granted.

use std::mem;

use ostler_kernel::event::{Event, HumanRequestKind};
use ostler_kernel::gate::OnLostResult;
use ostler_kernel::port::{MCP_PREFIX, Position};
use ostler_kernel::run::{Completion, NodeStatus};
use ractor::ActorProcessingErr;
use tokio::time::{Duration, Instant};

use super::asked::TurnWait;
use super::dispatch_queue::CreditWait;
use super::driver::RunDriver;
use crate::base::error::RunError;
use crate::messages::agent::{AgentMessage, AskReply};
use crate::messages::evaluator::EvaluatorMessage;
use crate::messages::registry::RegistryMessage;

/// A run that moves only on request and needs no actor.
pub(super) struct Idle {
    /// Earliest deadline; `None` without one.
    pub(super) until: Option<Instant>,
    /// The run also waits for credits.
    pub(super) unpaid: bool,
}

/// A run with a deadline within this time keeps its actor.
const IDLE_MIN: Duration = Duration::from_secs(1);

impl RunDriver {
    /// Decides everything that follows from the last input, appends it, and starts what was granted. Returns whether the run is
    /// over for the actor.
    ///
    /// # Errors
    ///
    /// The append failed: the actor ends and reads the run again.
    pub(super) async fn advance(&mut self) -> Result<bool, ActorProcessingErr> {
        self.in_flight.inline.begin();
        self.cancel_after_deadline();
        let over = self.decide_turn().await?;
        // A reopened run was evaluated at its first end; the undo is not evaluated.
        let is_evaluated = over && !self.run.is_reopened() && self.evaluate().is_some();
        if over {
            self.writer.pending.push(Event::RunClosed { outcome: self.run.outcome() });
        }
        let position = self.append()?;
        self.launch(position);
        // Boxed: otherwise this rare future enlarges the future of every message.
        Box::pin(self.launch_advice()).await;
        self.arm_timer();
        if over {
            self.finish(position, is_evaluated);
        } else {
            let is_new = self.note_blocked_on_human();
            if self.pause.blocked_on_human && (is_new || position.is_some()) {
                self.services.notify_run_changed(self.opened.run);
            }
        }
        Ok(over)
    }

    /// Repeats enqueueing, starting and propagation until nothing moves. Returns whether the run is over.
    ///
    /// A turn ends early when its inline budget is used up: [`AgentMessage::Again`] continues behind other messages, so
    /// a long run blocks neither thread nor callers.
    async fn decide_turn(&mut self) -> Result<bool, ActorProcessingErr> {
        loop {
            self.cancel_if_given_up();
            if Box::pin(self.refuse_unaffordable()).await && self.continue_later() {
                return Ok(false);
            }
            if Box::pin(self.read_results()).await {
                continue;
            }
            if Box::pin(self.ask_anew()).await && self.continue_later() {
                return Ok(false);
            }
            self.enqueue().await;
            if self.continue_later() {
                return Ok(false);
            }
            // Refused and inline attempts may have made other nodes ready.
            if self.start_granted().await? {
                if self.continue_later() {
                    return Ok(false);
                }
                continue;
            }
            let (events, completion) = self.within(|run, cx| run.check_completion(cx));
            let moved = !events.is_empty();
            self.apply_effects(events);
            if self.withdraw() {
                continue;
            }
            match completion {
                Completion::Done => {
                    return Ok(
                        !self.has_results_to_come() && (self.run.is_reopened() || !self.awaits_judge())
                    );
                }
                Completion::JudgeContract if self.judges.contract.is_none() => {
                    self.judge_contract();
                    return Ok(false);
                }
                Completion::InProgress if moved => {}
                Completion::InProgress | Completion::JudgeContract => return Ok(false),
            }
        }
    }

    /// Schedules another turn if this one has used up its inline budget.
    fn continue_later(&self) -> bool {
        let is_full = self.in_flight.inline.is_full();
        if is_full {
            let _ = self.me.cast(AgentMessage::Again);
        }
        is_full
    }

    /// True if stopped attempts and ended advice have still to report: their cost counts for the run.
    fn has_results_to_come(&self) -> bool {
        !self.in_flight.advice.is_empty()
            || self.services.attempts.knows_another(self.opened.run, &self.writer.unacked_results)
    }

    /// Reports the end of the run to suspended callers and the evaluator.
    fn finish(&mut self, position: Option<Position>, is_evaluated: bool) {
        for reply in self.pause.suspend_waiters.drain(..) {
            let _ = reply.send(Err(RunError::Over));
        }
        self.services.measures.diagnosed(&self.run);
        if is_evaluated {
            let (lane, run, is_verdict) = (self.arguments.owner.lane.clone(), self.opened.run, false);
            self.services.mailboxes.tell_evaluator(EvaluatorMessage::Evaluated { lane, run, is_verdict });
        }
        self.close(position);
    }

    /// Updates whether nothing goes on until somebody answers, and returns whether that has changed. Runs behind this one in the
    /// agent's line are told.
    fn note_blocked_on_human(&mut self) -> bool {
        let below = self.waits_below();
        let waits = below || self.services.needs_answer(&self.run);
        let is_new = mem::replace(&mut self.pause.blocked_on_human, waits) != waits;
        let has_behind = self.services.active_runs.note_waits(self.opened.run, waits, below);
        if is_new && has_behind && waits {
            let agent = self.arguments.owner.agent.clone();
            self.services.mailboxes.tell_registry(RegistryMessage::BlockedOnHuman { agent });
        }
        if is_new && let Some(parent) = &self.run.terms().parent {
            self.services.attempts.look_again(parent.run, &parent.of.node);
        }
        is_new
    }

    /// True if nothing goes on until a person answers a question in a run that the run has opened. A call of an MCP server that asks
    /// goes on: the server waits on a connection of this process.
    fn waits_below(&self) -> bool {
        if !self.services.active_runs.may_wait_below(self.opened.run) {
            return false;
        }
        let mut is_any = false;
        let has_work = self.run.has_ready_nodes()
            || self.run.is_replanning()
            || self.run.instances().any(|(node, instance)| match &instance.status {
                NodeStatus::Running { sleep_until: None, .. } => {
                    is_any = true;
                    let key = self.key(&node.id, instance.attempts);
                    // A call that may not be repeated would be in doubt if its process ended, and a call of a server would be
                    // cancelled.
                    node.tool.as_deref().is_some_and(|tool| tool.starts_with(MCP_PREFIX))
                        || !self.services.attempts.is_without_slot(&key)
                        || node.on_lost_result() == OnLostResult::InDoubt
                        || !self.services.active_runs.all_opened_wait(self.opened.run, &node.id)
                }
                NodeStatus::Running { .. } | NodeStatus::FailedRetryable { .. } => true,
                // The process listens for its value.
                NodeStatus::WaitingHuman { ask: HumanRequestKind::Wait, .. } => {
                    self.services.gatekeeper.callbacks.is_served()
                }
                _ => false,
            });
        is_any && !has_work
    }

    /// True if a suspension was requested.
    pub(super) fn is_suspending(&self) -> bool {
        !self.pause.suspend_waiters.is_empty()
    }

    /// The callers that wait for the suspension, once no attempt and no advice of the run is left.
    pub(super) fn suspended_waiters(&mut self) -> Option<Vec<AskReply>> {
        let is_still = self.in_flight.advice.is_empty() && !self.services.attempts.knows_run(self.opened.run);
        let is_still = is_still && self.is_suspending();
        is_still.then(|| mem::take(&mut self.pause.suspend_waiters))
    }

    /// True if only time, a person or credits can move the run, and not soon: then the journal holds all of it, and the actor may
    /// end.
    pub(super) fn idle(&self) -> Option<Idle> {
        let until = self.timers.first();
        let is_soon = until.is_some_and(|until| until < Instant::now() + IDLE_MIN);
        let unpaid = self.is_unpaid();
        let waits = unpaid || (self.run.is_only_waiting() && !self.queue.has_rejected());
        let is_still = waits && self.judges.contract.is_none() && self.queue.granted.is_empty() && !is_soon;
        let is_still = is_still
            && self.in_flight.advice.is_empty()
            && self.in_flight.asked.is_empty()
            && self.in_flight.doubted.is_empty()
            && !self.in_flight.turns.values().any(TurnWait::is_open)
            && !self.run.has_unread();
        // Stopped attempts have still to report.
        (is_still && !self.services.attempts.knows_run(self.opened.run)).then_some(Idle { until, unpaid })
    }

    /// True if only credits are missing, and other runs hold the client's place in the run queue. A run with a used up
    /// budget needs no credits to end.
    fn is_unpaid(&self) -> bool {
        let waits = match self.queue.credit_wait {
            CreditWait::Nothing => false,
            CreditWait::Credits => self.queue.is_surplus,
            CreditWait::Reserve => true,
        };
        let is_still = self.run.has_ready_nodes()
            && !self.run.has_work_in_flight()
            && self.pause.suspend_waiters.is_empty();
        waits && is_still && !self.is_used_up()
    }
}
