//! What somebody asks of a run, and what a run asks people.

use ostler_kernel::agent::InvalidState;
use ostler_kernel::event::HumanRequestKind;
use ostler_kernel::id::NodeId;
use ostler_kernel::run::{NodeStatus, Operation, RunInput};

use super::driver::RunDriver;
use super::{AskReply, Request};
use crate::api::approval;
use crate::base::error::RunError;

impl RunDriver {
    /// Does what somebody asks for; the answer comes once that is durable.
    pub(super) fn ask(&mut self, request: Request, reply: AskReply) {
        // What time has decided already counts first.
        self.fire_due_timers();
        if !matches!(request, Request::Operate(Operation::CancelPlan(_))) {
            self.cancel_after_deadline();
        }
        let input = match request {
            // Somebody has had it come to rest since that was looked at.
            Request::Operate(Operation::Interject(_)) if self.is_suspending() => {
                Err(InvalidState::SUSPENDED.into())
            }
            Request::Operate(operation) => {
                match self.run.check_operation(&operation, &self.services.settings()) {
                    Ok(()) => Ok(RunInput::Operator(operation)),
                    Err(error) => Err(error.into()),
                }
            }
            Request::Answer(request) => request.into_input(&self.run, self.services.clock.now()),
            Request::Resolve(request) => request.into_input(&self.run),
            Request::Checkpoint => {
                self.services.driven.note_resting(self.opened.run, true);
                self.pause.suspend_waiters.push(reply);
                return;
            }
            Request::GoOn => {
                self.services.driven.note_resting(self.opened.run, false);
                for waiting in self.pause.suspend_waiters.drain(..) {
                    let _ = waiting.send(Err(RunError::Said("it was resumed meanwhile".to_owned())));
                }
                self.reoffer();
                self.writer.answers.push((reply, Ok(())));
                return;
            }
        };
        // It may be refused, or done already, for what was asked before: whoever hears so is to find that there.
        let answer = input.map(|input| self.decide(input));
        self.writer.answers.push((reply, answer));
    }

    /// Asks a person what a ready node wants to know; asks anew where an approval was given for something else.
    pub(super) async fn ask_person(&mut self, id: &NodeId) -> bool {
        let (Some(node), Some(ask)) = (self.run.node(id), self.run.shows(id)) else { return false };
        // Boxed, as all that is seldom awaited: what stands here is part of the future of every message.
        let shown =
            Box::pin(approval::shown(&self.services, &self.opened, &self.run, node, ask)).await.digest();
        let events = self.within(|run, cx| run.ask(cx, id, Some(shown)));
        let asked = !events.is_empty();
        self.apply_effects(events);
        asked
    }

    /// Asks anew what would show something else by now: tools and the policy may have changed since it was asked.
    pub(super) async fn ask_anew(&mut self) {
        let waiting = self.run.instances().filter_map(|(node, instance)| match instance.status {
            NodeStatus::WaitingHuman { ask, .. } => Some((node.clone(), ask)),
            _ => None,
        });
        for (node, ask) in waiting.collect::<Vec<_>>() {
            if matches!(ask, HumanRequestKind::Before | HumanRequestKind::Node) {
                let shown = approval::shown(&self.services, &self.opened, &self.run, &node, ask).await;
                let events = self.within(|run, cx| run.ask_again(cx, &node.id, Some(shown.digest())));
                self.apply_effects(events);
            }
        }
    }
}
