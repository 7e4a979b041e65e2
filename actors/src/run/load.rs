//! Recovers a run from its records, and attaches attempts that outlived the last driver.

use ostler_kernel::agent::Telemetry;
use ostler_kernel::event::{Event, TimerKind};
use ostler_kernel::id::{NodeId, RunId};
use ostler_kernel::port::{Position, Recorded, RunRow, StreamId};
use ostler_kernel::run::{
    Canceller, CrashRecovery, FoldedRun, NodeStatus, Operation, RecoveryContext, RunInput,
};
use ractor::{ActorProcessingErr, ActorRef};

use super::dispatch_queue::CreditWait;
use super::driver::{Recovery, RunDriver};
use super::goal;
use super::lost_calls::RecordedCalls;
use crate::attempts::children;
use crate::base::error::RunError;
use crate::messages::agent::AgentMessage;
use crate::messages::registry::RegistryMessage;
use crate::run::arguments::AgentArguments;
use crate::run::missing::missing;
use crate::state::attempt_table::Found;
use crate::storage::step_logs;

/// A run as its records tell, and what the records say about the process.
struct Loaded {
    folded: FoldedRun,
    recovered_at: Option<Position>,
    is_ours: bool,
    calls: RecordedCalls,
}

impl RunDriver {
    /// Recovers a run. Attempts of the process are attached, attempts lost with another process run again or are in doubt,
    /// deadlines are armed, and ready nodes are queued. Returns `None` if the run is closed, suspended or unreadable.
    ///
    /// # Errors
    ///
    /// The journal cannot be read.
    pub(super) async fn load(
        arguments: &AgentArguments,
        me: &ActorRef<AgentMessage>,
        row: RunRow,
    ) -> Result<Option<RunDriver>, ActorProcessingErr> {
        let Some(Loaded { folded, recovered_at, is_ours, calls }) = read(arguments, &row)? else {
            return Ok(None);
        };
        let (services, run) = (&arguments.services, row.run);
        let FoldedRun { opened, run: mut state, last, position, parked, out_of_credit, .. } = folded;
        if let Some(missing) = missing(&services.gatekeeper, &state, &opened.workspace) {
            leave(arguments, run, missing);
            return Ok(None);
        }
        if state.goal().is_some() {
            goal::equip(services, &mut state, &opened.scope);
        }
        let was_loaded = services.active_runs.was_loaded(run);
        if let Some(goal) = state.goal() {
            let most = goal.terms().budgets.model_calls;
            let made = || children::calls_made(&services.runs, row.run, &state);
            services.active_runs.limit_calls(run, most, made);
        }
        // A run that continues in its process is not assigned a second time.
        let is_assigned = !was_loaded && parked.is_none() && (!state.has_started() || state.is_sent_back());
        let was_suspended = services.active_runs.forget_suspended(run);
        let waited = was_suspended || services.active_runs.waits(run);
        services.active_runs.note_waits(run, false, false);
        if let Some(parent) = state.terms().parent.as_ref().filter(|_| waited) {
            services.attempts.look_again(parent.run, &parent.of.node);
        }
        services.active_runs.note_quiet(run, last, (!state.has_open_question()).then_some(position));
        if let Some(budget) = state.terms().budget {
            let given = services.step_logs.of(StreamId::attempts(&row.client, run)).granted()?;
            services.run_budgets.recall(&services.attempts, run, budget, (state.cost(), given));
        }
        let mut driver = RunDriver::new(arguments, me, (opened, row.opened_ms), state, (last, position));
        // The record does not say which of the two; the next request for a slot finds out.
        driver.queue.credit_wait = if out_of_credit { CreditWait::Credits } else { CreditWait::Nothing };
        let parent = driver.run.terms().parent.clone();
        if let Some(parent) = &parent {
            driver.book.adopt(run, parent.run);
        }
        driver.deadline = services.deadline_for(run, parent.as_ref())?;
        // Before the attempts of this process report theirs.
        let called = calls.complete(services, &row, &mut driver.run)?;
        driver.apply_effects(called);
        let lost = driver.attach().await;
        // Attempts whose start was rolled back say nothing about whether the run ends its process.
        let made_progress = was_loaded
            || match recovered_at.filter(|_| !lost.is_empty()) {
                Some(at) => {
                    step_logs::made_progress(&services.journal, StreamId::attempts(&row.client, run), at)?
                }
                None => false,
            };
        let context = RecoveryContext {
            was_parked: parked.is_some(),
            forced: services.active_runs.asked_for(run),
            made_progress,
        };
        if !driver.recover(&lost, context, is_ours) {
            return Ok(None);
        }
        driver.set_wall();
        if is_assigned {
            driver.tell(Telemetry::JobAssigned);
        }
        if let Some(parent) = parent
            && (services.active_runs.add_child(run, &parent)
                || children::is_unwanted(&services.runs, &services.active_runs, &parent)?)
        {
            driver.decide(RunInput::Operator(Operation::CancelPlan(Canceller::Parent)));
        }
        driver.cancel_after_deadline();
        Ok(Some(driver))
    }

    /// Decides about attempts that were lost with another process. `false`: the run is suspended instead.
    fn recover(&mut self, lost: &[NodeId], context: RecoveryContext, is_ours: bool) -> bool {
        match self.within(|run, cx| run.recover_from_crash(cx, lost, context)) {
            CrashRecovery::Parked(reason) => {
                set_aside(&self.arguments, &self.opened.run, reason);
                return false;
            }
            CrashRecovery::Resumed { events, rerun } => {
                let counts = |event: &Event| matches!(event, Event::RunRecovered { count: 1.. });
                self.in_flight.recovery = match events.iter().any(counts) {
                    _ if is_ours => Recovery::None,
                    true => Recovery::Counted,
                    false => Recovery::Uncounted,
                };
                self.apply_effects(events);
                self.rerun(rerun);
            }
        }
        self.decide(RunInput::Propagate);
        true
    }

    /// Queues and arms everything live, and attaches attempts from the attempt table. Returns the running nodes without
    /// an attempt there.
    async fn attach(&mut self) -> Vec<NodeId> {
        let live = self.run.instances().filter(|(_, instance)| instance.is_live());
        let live = live.map(|(node, instance)| (node.id.clone(), instance.status.clone(), instance.attempts));
        let (mut ended, mut lost) = (Vec::new(), Vec::new());
        for (node, status, attempt) in live.collect::<Vec<_>>() {
            match status {
                NodeStatus::Ready => self.offer(&node),
                NodeStatus::Running { sleep_until: Some(at), .. } => {
                    self.set_deadline(&node, TimerKind::Sleep, at);
                }
                NodeStatus::Running { .. } => {
                    let key = self.key(&node, attempt);
                    match self.services.attempts.attach(&key, &self.me) {
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
        // Attempts of nodes that ended meanwhile report to this driver too: their cost counts.
        for key in self.services.attempts.of_run(self.opened.run) {
            self.in_flight.has_orphans = true;
            let attached = self.services.attempts.attach(&key, &self.me);
            if matches!(attached, Some(Found::Ended)) && !ended.contains(&key) {
                ended.push(key);
            }
        }
        self.results_arrived(ended).await;
        lost
    }
}

/// Folds the records of a run. `None` if it is closed, or suspended because its records do not follow from each other: failing
/// instead would only repeat the failure.
fn read(arguments: &AgentArguments, row: &RunRow) -> Result<Option<Loaded>, ActorProcessingErr> {
    let services = &arguments.services;
    let (mut recovered_at, mut is_ours, mut calls) = (None, false, RecordedCalls::default());
    let see = |record: &Recorded| match &record.event {
        Event::RunOpened(_) => is_ours = services.journal.is_ours(record.position),
        Event::RunRecovered { .. } => recovered_at = Some(record.position),
        event => calls.see(event),
    };
    let folded = match services.runs.fold(row, None, see) {
        Ok(folded) => folded,
        Err(RunError::Fold(error)) => {
            set_aside(arguments, &row.run, format!("it cannot be read: {error}"));
            return Ok(None);
        }
        Err(error) => return Err(error.into()),
    };
    if folded.closed.is_some() {
        let (agent, run) = (arguments.owner.agent.clone(), row.run);
        services.mailboxes.tell_registry(RegistryMessage::Done { agent, run });
        return Ok(None);
    }
    Ok(Some(Loaded { folded, recovered_at, is_ours, calls }))
}

/// Stops driving a run that lacks a model or a tool in this process. A run that a person resumed by name is suspended, with the
/// reason. Any other run stays unchanged for a process that has all parts.
fn leave(arguments: &AgentArguments, run: RunId, missing: String) {
    if arguments.services.active_runs.asked_for(run) {
        set_aside(arguments, &run, missing);
    } else {
        let agent = arguments.owner.agent.clone();
        arguments.services.mailboxes.tell_registry(RegistryMessage::Done { agent, run });
    }
}

fn set_aside(arguments: &AgentArguments, run: &RunId, reason: String) {
    let (agent, run, replies) = (arguments.owner.agent.clone(), *run, Vec::new());
    arguments.services.mailboxes.tell_registry(RegistryMessage::Suspend { agent, run, reason, replies });
}
