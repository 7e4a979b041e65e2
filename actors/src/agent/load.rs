//! Taking a run up again from its records.

use std::sync::Arc;

use ostler_kernel::event::{Event, RunOpened, TimerKind};
use ostler_kernel::id::Ticks;
use ostler_kernel::plan::Plan;
use ostler_kernel::port::{JournalError, RunRow, RunStanding, Seq, StreamId};
use ostler_kernel::run::{Input, NodeState, Run, Standing};
use ractor::{ActorProcessingErr, ActorRef};

use super::drive::Drive;
use super::{AgentArguments, AgentMessage};
use crate::effects::Found;
use crate::registry::{READ_AT_ONCE, RegistryMessage};
use crate::scheduler::Job;
use crate::services::Services;

/// Times that a run may take its process down with it, without any progress between, before it is set aside.
pub const RECOVERIES_MAX: u32 = 3;

/// A run as its records tell it.
pub(crate) struct Folded {
    pub(crate) opened: RunOpened,
    pub(crate) run: Run,
    pub(crate) seq: Seq,
    pub(crate) intents: Vec<Event>,
    /// Recoveries since the last attempt that ended.
    pub(crate) recoveries: u32,
    pub(crate) closed: bool,
}

/// Why a stream is no run.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FoldError {
    /// The journal cannot be read.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// The stream does not begin with a run.
    #[error("run {0} has no first record")]
    Unopened(ostler_kernel::id::RunId),
    /// A record does not follow from those before it.
    #[error("run {run}, record {seq}: {what}")]
    Illegal {
        /// Which run.
        run: ostler_kernel::id::RunId,
        /// Which record.
        seq: u64,
        /// What is wrong.
        what: String,
    },
}

/// Starts a run from its first record.
pub(crate) fn open(opened: &RunOpened, at: Ticks) -> Result<Run, FoldError> {
    let plan: Plan = serde_json::from_str(opened.plan.as_str()).map_err(|error| FoldError::Illegal {
        run: opened.run,
        seq: 1,
        what: format!("the plan cannot be read: {error}"),
    })?;
    Ok(Run::new(Arc::new(plan), opened.seed, at))
}

/// Applies all records of a run.
pub(crate) fn fold(services: &Services, row: &RunRow) -> Result<Folded, FoldError> {
    let stream = StreamId::run(&row.client, row.run);
    let mut folded: Option<Folded> = None;
    let mut after = Seq(0);
    loop {
        let records = services.journal.read(stream, after, READ_AT_ONCE)?;
        let Some(last) = records.last() else { break };
        after = last.seq;
        for record in records {
            let Some(folded) = &mut folded else {
                let Event::RunOpened(opened) = record.event else {
                    return Err(FoldError::Unopened(row.run));
                };
                let run = open(&opened, record.at_ms)?;
                let (seq, intents) = (record.seq, Vec::new());
                folded = Some(Folded { opened, run, seq, intents, recoveries: 0, closed: false });
                continue;
            };
            folded.seq = record.seq;
            folded.run.apply(&record.event, record.at_ms).map_err(|illegal| FoldError::Illegal {
                run: row.run,
                seq: record.seq.0,
                what: illegal.to_string(),
            })?;
            match &record.event {
                Event::AttemptIntent(_) => folded.intents.push(record.event),
                Event::AttemptResult(_) => folded.recoveries = 0,
                Event::RunRecovered { count } => folded.recoveries = *count,
                Event::RunClosed { .. } => folded.closed = true,
                _ => {}
            }
        }
    }
    folded.ok_or(FoldError::Unopened(row.run))
}

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
        let folded = fold(services, &row)?;
        if folded.closed {
            let (agent, run) = (arguments.agent.clone(), row.run);
            services.links.tell_registry(RegistryMessage::Done { agent, run });
            return Ok(None);
        }
        let Folded { opened, run, seq, intents, recoveries, .. } = folded;
        let mut drive = Drive::new(arguments, me, opened, run, seq);
        drive.note(intents);
        drive.pending.clear();
        if matches!(row.standing, RunStanding::Parked(_)) {
            drive.pending.push(Event::RunRecovered { count: 0 });
        }
        if !drive.take_up(recoveries)? {
            return Ok(None);
        }
        drive.ask_anew().await?;
        drive.decide(Input::Settle);
        Ok(Some(drive))
    }

    /// Attaches, queues and arms whatever is live. False if the run was set aside instead.
    fn take_up(&mut self, recoveries: u32) -> Result<bool, ActorProcessingErr> {
        let live: Vec<(ostler_kernel::id::NodeId, Standing, u32)> = self
            .run
            .instances()
            .filter(|(_, instance)| instance.is_live())
            .map(|(node, instance)| (node.id.clone(), instance.standing.clone(), instance.attempts))
            .collect();
        let mut lost = Vec::new();
        for (node, standing, attempt) in live {
            match standing {
                Standing::Ready => self.offer(&node),
                Standing::Running { sleep_until: Some(at), .. } => {
                    self.set_deadline(&node, TimerKind::Sleep, at);
                }
                Standing::Running { .. } => {
                    let key = self.key(&node, attempt);
                    match self.services.effects.attach(&key, &self.me) {
                        Some(Found::Running) => {}
                        Some(Found::Done) => self.ended(&key, None),
                        None => lost.push(node),
                    }
                }
                Standing::WaitingHuman { deadline: Some(at), .. } => {
                    self.set_deadline(&node, TimerKind::Human, at);
                }
                Standing::FailedRetryable { retry_at: Some(at), .. } => {
                    self.set_deadline(&node, TimerKind::Backoff, at);
                }
                Standing::FailedRetryable { retry_at: None, .. } => {
                    self.decide(Input::Patched(node, None)); // nobody writes it any more
                }
                _ => {}
            }
        }
        if self.run.is_replanning() {
            self.decide(Input::Replanned(None));
        }
        if lost.is_empty() {
            return Ok(true);
        }
        if recoveries >= RECOVERIES_MAX && !self.services.asked_for(self.opened.run) {
            let reason = format!("it ended {recoveries} processes in a row without getting on");
            self.park(&reason)?;
            return Ok(false);
        }
        self.pending.push(Event::RunRecovered { count: recoveries + 1 });
        self.redo(lost);
        Ok(true)
    }

    /// Attempts that died with their process: in doubt, or queued again.
    fn redo(&mut self, lost: Vec<ostler_kernel::id::NodeId>) {
        let mut jobs = Vec::new();
        for node in lost {
            self.decide(Input::Lost(node.clone()));
            let Some(instance) = self.run.instance(&node) else { continue };
            if instance.is_draining() {
                self.end_unwanted(&node);
            } else if instance.state() == NodeState::Running {
                jobs.push(Job { run: self.opened.run, node, rank: u64::MAX >> 11 });
            }
        }
        self.submit(jobs);
    }

    fn park(&mut self, reason: &str) -> Result<(), ActorProcessingErr> {
        self.pending.push(Event::Parked { reason: reason.to_owned() });
        self.append()?;
        let (agent, run) = (self.arguments.agent.clone(), self.opened.run);
        self.services.links.tell_registry(RegistryMessage::Done { agent, run });
        Ok(())
    }
}
