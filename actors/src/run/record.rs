//! What was decided is written down; whoever waits for that hears of it.

use std::sync::Arc;

use ostler_kernel::agent::Telemetry;
use ostler_kernel::port::{JournalError, Position, Seq, StreamBatch};
use ractor::ActorProcessingErr;

use super::driver::RunDriver;
use crate::base::error::RunError;
use crate::registry::RegistryMessage;

impl RunDriver {
    /// Appends what was decided. Without a journal nothing can go on.
    pub(super) fn append(&mut self) -> Result<Option<Position>, ActorProcessingErr> {
        if self.writer.pending.is_empty() {
            self.writer.unacked_results.drain(..).for_each(|key| self.services.effects.forget(&key));
            self.services.answer_when_durable(self.writer.position, std::mem::take(&mut self.writer.answers));
            return Ok(None);
        }
        let events = std::mem::take(&mut self.writer.pending);
        let last = Seq(self.writer.seq.0 + events.len() as u64);
        // A question is known before anybody can read it, its end not before it is written.
        let (run, asks) = (self.opened.run, self.run.has_open_question());
        if asks {
            self.services.driven.note_quiet(run, last, None);
        }
        let told: Vec<Telemetry> = events.iter().filter_map(Telemetry::of).collect();
        let at_ms = self.services.clock.now();
        let batch = StreamBatch { stream: self.writer.stream, expected: self.writer.seq, at_ms, events };
        let appended = self.services.append(batch);
        if appended.is_err() {
            // At once: an actor that ends is let go of when others count already.
            self.refund_unrecorded();
        }
        match appended {
            Ok(position) => {
                (self.writer.seq, self.writer.position) = (last, position);
                told.into_iter().for_each(|event| self.tell(event));
                if !asks {
                    self.services.driven.note_quiet(run, last, Some(position));
                }
                if !self.writer.unacked_results.is_empty() {
                    self.services.sweep_effects();
                    self.writer
                        .unacked_results
                        .drain(..)
                        .for_each(|key| self.services.effects.ordered(key, position));
                }
                self.in_flight.inline.recorded();
                self.services.answer_when_durable(position, std::mem::take(&mut self.writer.answers));
                Ok(Some(position))
            }
            // Somebody else wrote to the run, or it wants more at once than is written: that is between the run and its
            // agent, which reads the records again, and sets the run aside if it does not get on.
            Err(error @ (JournalError::Conflict { .. } | JournalError::Refused(_))) => Err(error.into()),
            // It is read again when there may be room.
            Err(error @ JournalError::Full(_)) => {
                for (reply, _) in self.writer.answers.drain(..) {
                    let _ = reply.send(Err(RunError::Journal(error.clone())));
                }
                Err(error.into())
            }
            Err(error) => {
                self.services.halt(&error.to_string());
                Err(error.into())
            }
        }
    }

    /// Takes leave of the run, as the process ends in good order. Nobody waits for that: where there is no room, it is not said.
    pub(super) fn record_clean_shutdown(&mut self) -> Result<(), JournalError> {
        let events = self.within(|run, cx| run.record_clean_shutdown(cx));
        if !events.is_empty() && self.writer.pending.is_empty() {
            let (stream, expected, at_ms) = (self.writer.stream, self.writer.seq, self.services.clock.now());
            self.services.append(StreamBatch { stream, expected, at_ms, events })?;
        }
        Ok(())
    }

    /// The run is closed: tells the registry once that is durable.
    pub(super) fn close(&mut self, position: Option<Position>) {
        let services = Arc::clone(&self.services);
        let (agent, run) = (self.arguments.owner.agent.clone(), self.opened.run);
        tokio::spawn(async move {
            if let Some(position) = position
                && let Err(error) = services.journal.durable(position).await
            {
                // It is open still.
                services.not_durable(&error);
                return;
            }
            services.sweep_effects();
            services.links.tell_registry(RegistryMessage::Done { agent, run });
        });
    }
}
