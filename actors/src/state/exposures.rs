//! Exposure of a run to what the runs above and beside it have read, which may reach it by its plan, by the program that opened both, and
//! by the workspace.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use ostler_kernel::event::{Event, Exposure, Parent};
use ostler_kernel::id::{NodeId, RunId};
use ostler_kernel::plan::Node;
use ostler_kernel::policy::{exposure, exposure_of_run};
use ostler_kernel::port::{Seq, StreamId};
use ostler_kernel::run::{Run, RunFold};

use crate::base::error::RunError;
use crate::base::lock::lock;
use crate::state::gatekeeper::{Gatekeeper, Terms};
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
    fn with<T>(&self, id: RunId, see: impl FnOnce(&Run, &[(NodeId, RunId)]) -> T) -> Result<T, RunError> {
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

impl Gatekeeper {
    /// Exposure to the runs above a run and beside it by now, as far as it decides about the call of `node`; `None`: nothing that they
    /// read changes the decision. A run that cannot be read counts as the worst.
    pub(crate) fn exposure_above(&self, id: RunId, run: &Run, node: &Node) -> Option<Exposure> {
        let (policy, known) = (self.policy(), run.exposure());
        let is_open = !known.strangers || policy.has_labels();
        // What a goal's models are shown decides whether their steps count as theirs.
        if !is_open || !self.asks_for_provenance(&policy, node) && run.goal().is_none() {
            return None;
        }
        let (mut below, mut next) = (id, run.terms().parent.clone());
        let mut above = next.is_some().then(Exposure::default);
        while let (Some(parent), Some(all)) = (next, &mut above) {
            let read = self.exposure_of_caller(&parent);
            let (caller, before) = read.unwrap_or_else(|error| (unknown(parent.run, &error), None));
            all.extend(&caller);
            all.extend(&self.exposure_beside(&parent, below));
            (below, next) = (parent.run, before);
        }
        above
    }

    /// Exposure of a child run by the call of a node of another run, and the caller of that other run.
    fn exposure_of_caller(&self, parent: &Parent) -> Result<(Exposure, Option<Parent>), RunError> {
        let found = self.runs_around.with(parent.run, |run, _| {
            Some((self.exposure(run, run.node(&parent.of.node)?), run.terms().parent.clone()))
        })?;
        found.ok_or_else(|| RunError::UnknownNode(parent.of.node.clone()))
    }

    /// Exposure of `run` to the other runs that the same node has opened, and to the runs below them: they share the workspace, and the
    /// program that opens them all.
    pub(crate) fn exposure_beside(&self, parent: &Parent, run: RunId) -> Exposure {
        let of_node = |children: &[(NodeId, RunId)]| -> Vec<RunId> {
            let siblings = children.iter().filter(|(node, child)| *node == parent.of.node && *child != run);
            siblings.map(|(_, child)| *child).collect()
        };
        let (mut all, mut open) = (Exposure::default(), Vec::new());
        match self.runs_around.with(parent.run, |_, children| of_node(children)) {
            Ok(siblings) => open.extend(siblings),
            Err(error) => all.extend(&unknown(parent.run, &error)),
        }
        while let Some(id) = open.pop() {
            let read = self.runs_around.with(id, |run, children| {
                open.extend(children.iter().map(|(_, child)| *child));
                exposure_of_run(run, &Terms { toolbox: &self.toolbox, policy: &self.policy() })
            });
            match read {
                Ok(read) => all.extend(&read),
                // The node has recorded that it opens the run, and the run has not begun.
                Err(RunError::Unknown(_)) => {}
                Err(error) => all.extend(&unknown(id, &error)),
            }
        }
        all
    }

    /// Exposure of a child run that the call of a node opens.
    pub(crate) fn exposure(&self, run: &Run, node: &Node) -> Exposure {
        exposure(run, node, &Terms { toolbox: &self.toolbox, policy: &self.policy() })
    }
}

/// The exposure to a run that cannot be read.
fn unknown(run: RunId, error: &RunError) -> Exposure {
    tracing::warn!(%run, %error, "the data that a run has read is not known");
    Exposure { strangers: true, private: true, ..Exposure::default() }
}
