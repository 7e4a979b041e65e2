//! Appends decisions to the journal.

use std::sync::Arc;

use ostler_kernel::event::Event;
use ostler_kernel::port::{JournalError, Position, Seq};
use ractor::ActorProcessingErr;

use super::decided::Decided;
use super::driver::RunDriver;
use crate::base::attempt_end::Ended;
use crate::base::error::RunError;
use crate::messages::registry::RegistryMessage;

impl RunDriver {
    /// Appends the pending events, and sends answers once they are durable. Returns `None` if nothing was pending.
    ///
    /// # Errors
    ///
    /// A conflict or a refused batch ends the actor, which reads the run again. A full disk does too; the run is read again when
    /// there is room. Any other error halts the system: nothing can be decided without a journal.
    pub(super) fn append(&mut self) -> Result<Option<Position>, ActorProcessingErr> {
        if self.writer.pending.is_empty() {
            self.writer.unacked_results.drain(..).for_each(|key| self.services.attempts.forget(&key));
            self.services
                .journal
                .reply_when_durable(self.writer.position, std::mem::take(&mut self.writer.answers));
            return Ok(None);
        }
        let events = std::mem::take(&mut self.writer.pending);
        let last = Seq(self.writer.seq.0 + events.len() as u64);
        // Set before anybody can read the question, and cleared only after its end is appended.
        let (run, asks) = (self.opened.run, self.run.has_open_question());
        if asks {
            self.services.active_runs.note_quiet(run, last, None);
        }
        let is_raised = events.iter().any(|event| matches!(event, Event::BudgetRaised { .. }));
        let abandoned = std::mem::take(&mut self.writer.abandoned_work);
        let (agent, client) = (&self.arguments.owner.agent, &self.opened.client);
        let decided = Decided { agent, client, run, last: self.writer.seq, events, abandoned };
        let appended = decided.append(&self.services);
        if appended.is_err() {
            // At once: by the time a failed actor is dropped, other runs of the client may have counted the cost.
            self.refund_unrecorded();
        }
        match appended {
            Ok(position) => {
                (self.writer.seq, self.writer.position) = (last, position);
                if !asks {
                    self.services.active_runs.note_quiet(run, last, Some(position));
                }
                if !self.writer.unacked_results.is_empty() {
                    self.services.attempts.sweep();
                    self.writer
                        .unacked_results
                        .drain(..)
                        .for_each(|key| self.services.attempts.ordered(key, position));
                }
                self.in_flight.inline.recorded();
                // Not before: a raise that cannot be recorded is none.
                if is_raised && let Some(account) = self.payer().account {
                    self.services.call_accounts.raised(account, &self.opened.client);
                }
                self.services.journal.reply_when_durable(position, std::mem::take(&mut self.writer.answers));
                Ok(Some(position))
            }
            // Another writer was faster, or the batch is too large: the agent reads the run again, and suspends it if that repeats.
            Err(error @ (JournalError::Conflict { .. } | JournalError::Refused(_))) => Err(error.into()),
            Err(error @ JournalError::Full(_)) => {
                for (reply, _) in self.writer.answers.drain(..) {
                    let _ = reply.send(Err(RunError::Journal(error.clone())));
                }
                Err(error.into())
            }
            Err(error) => {
                self.services.journal.status.halt(&error.to_string());
                Err(error.into())
            }
        }
    }

    /// Records the end in good order, so that the end of the process does not count against the run, and what the attempts
    /// cost that ended with it. Best effort: on a full disk the shutdown counts as a crash.
    pub(super) fn record_clean_shutdown(&mut self) -> Result<(), JournalError> {
        let stopped = self.services.attempts.take_stopped(self.opened.run).into_iter();
        let mut events: Vec<Event> = stopped
            .map(|(key, ended)| {
                let cost = self.services.run_budgets.chargeable(&key, ended.cost);
                Event::LateResult(Ended { cost, ..ended }.result_of(&key))
            })
            .collect();
        events.extend(self.within(|run, cx| run.record_clean_shutdown(cx)));
        if !events.is_empty() && self.writer.pending.is_empty() {
            self.services.journal.append_events(self.writer.stream, self.writer.seq, events)?;
        }
        Ok(())
    }

    /// Tells the registry that the run is closed, once that is durable.
    pub(super) fn close(&mut self, position: Option<Position>) {
        let services = Arc::clone(&self.services);
        let (agent, run) = (self.arguments.owner.agent.clone(), self.opened.run);
        tokio::spawn(async move {
            if let Some(position) = position
                && let Err(error) = services.journal.durable(position).await
            {
                // The run is still open.
                services.journal.not_durable(&error);
                return;
            }
            services.attempts.sweep();
            services.mailboxes.tell_registry(RegistryMessage::Done { agent, run });
        });
    }
}
