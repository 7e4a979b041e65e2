//! Runs around others, kept in memory as of their last record.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use ostler_kernel::event::Event;
use ostler_kernel::id::{NodeId, RunId};
use ostler_kernel::port::{Seq, StreamId};
use ostler_kernel::run::{Run, RunFold};

use crate::base::error::RunError;
use crate::base::lock::lock;
use crate::storage::run_reader::{READ_AT_ONCE, RunReader};

/// Runs kept in memory. Another one drops them all, and each is read again when it is asked for.
const RUNS_KEPT_MAX: usize = 256;

/// Runs around others as of their last record. Each is read once, and from then on only its new records.
pub(crate) struct RunsAround {
    runs: Arc<RunReader>,
    read: Mutex<BTreeMap<RunId, RunAround>>,
}

/// A run, and the runs that its nodes opened.
struct RunAround {
    stream: StreamId,
    fold: RunFold,
    last: Seq,
    children: Vec<(NodeId, RunId)>,
    last_step: Seq,
}

impl RunAround {
    /// Reads what is new. After an error the run must be dropped.
    fn read_on(&mut self, runs: &RunReader) -> Result<(), RunError> {
        loop {
            let records = runs.journal.read(self.stream, self.last, READ_AT_ONCE)?;
            for record in &records {
                self.fold.record(record, &|plan| runs.plans.read(plan))?;
            }
            let Some(record) = records.last() else { break };
            self.last = record.seq;
        }
        loop {
            let records = runs.journal.read(self.stream.attempts_stream(), self.last_step, READ_AT_ONCE)?;
            let Some(record) = records.last() else { return Ok(()) };
            self.last_step = record.seq;
            self.children.extend(records.into_iter().filter_map(|record| match record.event {
                Event::ChildRun { of, run, .. } => Some((of.node, run)),
                _ => None,
            }));
        }
    }
}

impl RunsAround {
    pub(crate) fn new(runs: Arc<RunReader>) -> RunsAround {
        RunsAround { runs, read: Mutex::default() }
    }

    /// Drops what was read: records may have been rolled back.
    pub(crate) fn read_again(&self) {
        lock(&self.read).clear();
    }

    /// Shows a run as of its last record, and the runs that its nodes opened.
    pub(crate) fn with<T>(
        &self,
        id: RunId,
        see: impl FnOnce(&Run, &[(NodeId, RunId)]) -> T,
    ) -> Result<T, RunError> {
        let mut read = lock(&self.read);
        if !read.contains_key(&id) {
            let row = self.runs.journal.run(id)?.ok_or(RunError::Unknown(id))?;
            if read.len() >= RUNS_KEPT_MAX {
                read.clear();
            }
            let stream = StreamId::run(&row.client, id);
            let (fold, children) = (RunFold::of(id), Vec::new());
            read.insert(id, RunAround { stream, fold, last: Seq(0), children, last_step: Seq(0) });
        }
        let around = read.get_mut(&id).expect("it is there, or was put there");
        let seen = around.read_on(&self.runs).and_then(|()| {
            let folded = around.fold.so_far().ok_or(RunError::Unknown(id))?;
            Ok(see(&folded.run, &around.children))
        });
        if seen.is_err() {
            read.remove(&id);
        }
        seen
    }
}
