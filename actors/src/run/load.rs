//! Taking a run up again from its records.

use ostler_kernel::agent::{LifecycleMessage, RunLifecycle, Telemetry};
use ostler_kernel::event::{Event, TimerKind};
use ostler_kernel::id::NodeId;
use ostler_kernel::port::{Recorded, RunRow, StreamId};
use ostler_kernel::run::{
    Canceller, CrashRecovery, FoldedRun, NodeStatus, Operation, RecoveryContext, RunInput,
};
use ractor::{ActorProcessingErr, ActorRef};

use super::drive::{Drive, Recovery};
use super::queue::Waits;
use super::{AgentArguments, AgentMessage};
use crate::attempts::attempt_table::Found;
use crate::attempts::children;
use crate::base::error::RunError;
use crate::registry::RegistryMessage;
use crate::scheduler::Job;
use crate::storage::run_reader;
use crate::storage::step_logs;

impl Drive {
    /// Takes a run up: attempts that still run or have ended in this process are attached again, those lost with
    /// another process are done again or are in doubt, deadlines are set, ready nodes are queued. `None` if there
    /// is nothing to drive.
    pub(super) async fn load(
        arguments: &AgentArguments,
        me: &ActorRef<AgentMessage>,
        row: RunRow,
    ) -> Result<Option<Drive>, ActorProcessingErr> {
        let services = &arguments.services;
        let (agent, run) = (arguments.owner.agent.clone(), row.run);
        let set_aside = |reason| {
            let (agent, replies) = (agent.clone(), Vec::new());
            services.links.tell_registry(RegistryMessage::SetAside { agent, run, reason, replies });
        };
        let (mut recovered, mut is_ours) = (None, false);
        let see = |record: &Recorded| match record.event {
            Event::RunOpened(_) => is_ours = services.is_ours(record.position),
            Event::RunRecovered { .. } => recovered = Some(record.position),
            _ => {}
        };
        let folded = match run_reader::fold(services, &row, None, see) {
            Ok(folded) => folded,
            // To fail for it would only be to fail again.
            Err(RunError::Fold(error)) => {
                set_aside(format!("it cannot be read: {error}"));
                return Ok(None);
            }
            Err(error) => return Err(error.into()),
        };
        if folded.closed.is_some() {
            services.links.tell_registry(RegistryMessage::Done { agent, run });
            return Ok(None);
        }
        let FoldedRun { opened, run: state, last, position, parked, out_of_credit, .. } = folded;
        let was_loaded = services.driven.was_loaded(run);
        // What goes on where it was is not assigned once more.
        let is_assigned = !was_loaded
            && RunLifecycle::of(&state, None, parked.is_some(), true)
                .accepts(LifecycleMessage::AssignJob)
                .is_ok();
        services.driven.note_waits(run, false);
        services.driven.note_quiet(run, last, (!state.has_open_question()).then_some(position));
        if let Some(budget) = state.terms().budget {
            let given = services.notes.of(StreamId::attempts(&row.client, run)).granted(services)?;
            services.purses.recall(&services.effects, run, budget, (state.cost(), given));
        }
        let mut drive = Drive::new(arguments, me, (opened, row.opened_ms), state, (last, position));
        // Which of the two it waited for is found out by whoever asks for a slot.
        drive.waits = if out_of_credit { Waits::Credits } else { Waits::Nothing };
        let parent = drive.run.terms().parent.clone();
        if let Some(parent) = &parent {
            drive.book.adopt(run, parent.run);
        }
        drive.deadline = services.market.deadline_for(services, run, parent.as_ref())?;
        let lost = drive.attach().await;
        // What was undone is no sign that it ends its process.
        let made_progress = was_loaded
            || match recovered.filter(|_| !lost.is_empty()) {
                Some(at) => step_logs::made_progress(services, StreamId::attempts(&row.client, run), at)?,
                None => false,
            };
        let since = RecoveryContext {
            was_parked: parked.is_some(),
            forced: services.driven.asked_for(run),
            made_progress,
        };
        match drive.within(|run, cx| run.recover_from_crash(cx, &lost, since)) {
            CrashRecovery::Parked(reason) => {
                set_aside(reason);
                return Ok(None);
            }
            CrashRecovery::Resumed { events, rerun: again } => {
                let counts = |event: &Event| matches!(event, Event::RunRecovered { count: 1.. });
                drive.recovery = match events.iter().any(counts) {
                    _ if is_ours => Recovery::None,
                    true => Recovery::Counted,
                    false => Recovery::Uncounted,
                };
                drive.note(events);
                drive.redo(again);
            }
        }
        drive.decide(RunInput::Propagate);
        if is_assigned {
            drive.tell(Telemetry::JobAssigned);
        }
        if let Some(parent) = parent
            && children::is_unwanted(&drive.services, &parent)?
        {
            drive.decide(RunInput::Operator(Operation::CancelPlan(Canceller::Parent)));
        }
        drive.end_late();
        Ok(Some(drive))
    }

    /// Queues and arms whatever is live, and attaches the attempts that the effects table knows. Gives the nodes
    /// whose attempt it does not know.
    async fn attach(&mut self) -> Vec<NodeId> {
        let live = self.run.instances().filter(|(_, instance)| instance.is_live());
        let live = live.map(|(node, instance)| (node.id.clone(), instance.status.clone(), instance.attempts));
        let (mut ended, mut lost) = (Vec::new(), Vec::new());
        for (node, standing, attempt) in live.collect::<Vec<_>>() {
            match standing {
                NodeStatus::Ready => self.offer(&node),
                NodeStatus::Running { sleep_until: Some(at), .. } => {
                    self.set_deadline(&node, TimerKind::Sleep, at);
                }
                NodeStatus::Running { .. } => {
                    let key = self.key(&node, attempt);
                    match self.services.effects.attach(&key, &self.me) {
                        Some(Found::UnderWay) => {}
                        Some(Found::Ended) => ended.push(key),
                        None => lost.push(node),
                    }
                }
                NodeStatus::WaitingHuman { deadline: Some(at), .. } => {
                    self.set_deadline(&node, TimerKind::Human, at);
                }
                NodeStatus::FailedRetryable { retry_at: Some(at), .. } => {
                    self.set_deadline(&node, TimerKind::Backoff, at);
                }
                _ => {}
            }
        }
        // Those of nodes that were given up meanwhile have their end to tell as well, to whoever drives the run now.
        for key in self.services.effects.of_run(self.opened.run) {
            self.has_strays = true;
            let attached = self.services.effects.attach(&key, &self.me);
            if matches!(attached, Some(Found::Ended)) && !ended.contains(&key) {
                ended.push(key);
            }
        }
        self.all_ended(ended).await;
        lost
    }

    /// Queues attempts that died with their process, and are done again under the same number: those that an interjection holds back
    /// when it does no longer.
    pub(super) fn redo(&mut self, again: Vec<NodeId>) {
        let (later, now): (Vec<NodeId>, Vec<NodeId>) =
            again.into_iter().partition(|node| self.run.is_rerun_held(node));
        self.held_back.extend(later);
        let jobs = now.into_iter().map(|node| Job { rank: REDO_RANK, ..self.job(node) });
        self.submit(jobs.collect());
    }
}

/// Before anything else of its agent: what was under way once is not overtaken.
const REDO_RANK: u64 = u64::MAX >> 11;
