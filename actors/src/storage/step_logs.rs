//! Step logs of attempts: one stream for each run, written only by attempts of the process while they run.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};

use dashmap::DashMap;
use ostler_kernel::event::{AttemptRef, Event, Outcome};
use ostler_kernel::id::{Digest, NodeId, RunId};
use ostler_kernel::lineage;
use ostler_kernel::port::{AttemptLogError, JournalError, Position, Seq, StreamId};
use ostler_kernel::step_history::StepHistory;

use crate::base::lock::lock;
use crate::storage::journal_client::JournalClient;
use crate::storage::run_reader;

/// Step logs of driven runs that were asked for: a cache of the journal.
pub(crate) struct StepLogs {
    journal: Arc<JournalClient>,
    runs: DashMap<RunId, Arc<RunStepLog>>,
}

impl StepLogs {
    pub(crate) fn new(journal: Arc<JournalClient>) -> StepLogs {
        StepLogs { journal, runs: DashMap::new() }
    }

    pub(crate) fn of(&self, stream: StreamId) -> Arc<RunStepLog> {
        let run = RunId(uuid::Uuid::from_bytes(stream.key));
        Arc::clone(&self.runs.entry(run).or_insert_with(|| RunStepLog::new(&self.journal, stream)))
    }

    /// The log of a run that no process drives; nothing is cached.
    pub(crate) fn peek(&self, stream: StreamId) -> Arc<RunStepLog> {
        let run = RunId(uuid::Uuid::from_bytes(stream.key));
        self.runs.get(&run).map_or_else(|| RunStepLog::new(&self.journal, stream), |notes| Arc::clone(&notes))
    }

    /// Drops the cache: records may have been rolled back.
    pub(crate) fn read_again(&self) {
        self.runs.iter().for_each(|notes| notes.read_again());
    }

    pub(crate) fn forget(&self, run: RunId) {
        self.runs.remove(&run);
    }
}

type WorkKey = (NodeId, u32, u32);

fn work_of(of: &AttemptRef) -> WorkKey {
    (of.node.clone(), of.generation, of.patch_count)
}

pub(crate) struct RunStepLog {
    journal: Arc<JournalClient>,
    stream: StreamId,
    known: Mutex<Known>,
}

#[derive(Default)]
struct Known {
    /// The last record of the stream; `None` before the first read.
    last: Option<Seq>,
    works: BTreeMap<WorkKey, StepHistory>,
    /// Credits given to child runs.
    granted: u64,
}

impl Known {
    fn read(&mut self, journal: &JournalClient, stream: StreamId) -> Result<Seq, JournalError> {
        if let Some(last) = self.last {
            return Ok(last);
        }
        let (mut last, mut known) = (Seq(0), Known::default());
        run_reader::each(&**journal, stream, None, |record| -> Result<(), JournalError> {
            last = record.seq;
            known.apply(&record.event);
            Ok(())
        })?;
        *self = Known { last: Some(last), ..known };
        Ok(last)
    }

    fn apply(&mut self, event: &Event) {
        let of = match event {
            Event::AttemptProgress(progress) => &progress.of,
            Event::StepIntent(intent) => &intent.of,
            Event::StepResult(result) => &result.of,
            Event::StepInDoubt { of, .. } | Event::ChildRun { of, .. } => of,
            _ => return,
        };
        if let Event::ChildRun { budget, .. } = event {
            self.granted = self.granted.saturating_add(budget.unwrap_or(0));
        }
        self.works.entry(work_of(of)).or_default().apply(event);
    }
}

impl RunStepLog {
    fn new(journal: &Arc<JournalClient>, stream: StreamId) -> Arc<RunStepLog> {
        Arc::new(RunStepLog { journal: Arc::clone(journal), stream, known: Mutex::default() })
    }

    pub(crate) fn ask<T>(
        &self,
        of: &AttemptRef,
        question: impl FnOnce(&StepHistory) -> T,
    ) -> Result<T, AttemptLogError> {
        let mut known = lock(&self.known);
        known.read(&self.journal, self.stream)?;
        Ok(question(known.works.get(&work_of(of)).unwrap_or(&StepHistory::default())))
    }

    /// Queries the history of one piece of work, and of the same node before each patch, latest first.
    pub(crate) fn ask_all<T>(
        &self,
        of: &AttemptRef,
        question: impl FnOnce(&StepHistory, &mut dyn Iterator<Item = &StepHistory>) -> T,
    ) -> Result<T, AttemptLogError> {
        let mut known = lock(&self.known);
        known.read(&self.journal, self.stream)?;
        let (own, first) = (work_of(of), (of.node.clone(), of.generation, 0));
        let mut earlier = known.works.range(first..own.clone()).rev().map(|(_, notes)| notes);
        Ok(question(known.works.get(&own).unwrap_or(&StepHistory::default()), &mut earlier))
    }

    pub(crate) fn read_again(&self) {
        *lock(&self.known) = Known::default();
    }

    /// Appends a record. The expected sequence number detects other writers.
    pub(crate) fn append(&self, event: Event) -> Result<Position, AttemptLogError> {
        let (mut known, mut may_be_behind) = (lock(&self.known), true);
        loop {
            let expected = known.read(&self.journal, self.stream)?;
            match self.journal.append_events(self.stream, expected, vec![event.clone()]) {
                // An attempt keeps a log that was dropped from the cache: it reads the newer records once.
                Err(JournalError::Conflict { .. }) if std::mem::take(&mut may_be_behind) => {
                    *known = Known::default();
                }
                appended => {
                    let position = appended?;
                    known.last = Some(Seq(expected.0 + 1));
                    known.apply(&event);
                    return Ok(position);
                }
            }
        }
    }

    pub(crate) fn granted(&self) -> Result<u64, AttemptLogError> {
        let mut known = lock(&self.known);
        known.read(&self.journal, self.stream)?;
        Ok(known.granted)
    }

    /// Child runs that attempts of the work opened and that are not known to be over.
    pub(crate) fn children(
        &self,
        is_such: impl Fn(&NodeId, u32) -> bool,
    ) -> Result<Vec<RunId>, AttemptLogError> {
        let mut known = lock(&self.known);
        known.read(&self.journal, self.stream)?;
        let works = known.works.iter().filter(|((node, _, patch_count), _)| is_such(node, *patch_count));
        let children = works.flat_map(|(_, notes)| notes.children().map(move |child| (notes, child)));
        Ok(children
            .filter(|(notes, (step, _))| !notes.is_done(step))
            .map(|(_, (_, child))| child.run)
            .collect())
    }

    /// Forgets finished work, except steps that acted: a patch may ask for them.
    pub(crate) fn forget(&self, of: &AttemptRef) {
        let (mut known, work) = (lock(&self.known), work_of(of));
        if !known.works.get_mut(&work).is_some_and(StepHistory::retain_side_effects) {
            known.works.remove(&work);
        }
    }
}

/// True if an attempt made progress after `at`: it finished a step, or wrote a new token.
pub(crate) fn made_progress(
    journal: &JournalClient,
    stream: StreamId,
    at: Position,
) -> Result<bool, JournalError> {
    let (mut made_progress, mut told) = (false, BTreeMap::<WorkKey, BTreeSet<Digest>>::new());
    run_reader::each(&**journal, stream, None, |record| -> Result<(), JournalError> {
        let further = match &record.event {
            Event::StepResult(result) => matches!(result.outcome, Outcome::Ok(_)),
            Event::AttemptProgress(progress) => {
                let token = lineage::hash("aos/token/1", &[progress.token.as_str().as_bytes()]);
                told.entry(work_of(&progress.of)).or_default().insert(token)
            }
            _ => false,
        };
        made_progress |= further && record.position > at;
        Ok(())
    })?;
    Ok(made_progress)
}
