//! Calls of models that ended, and whose attempt, advice or judge did not live to report them.
//!
//! The log of the attempts has each call as soon as it ends; the records of the run have it with the result. What is in the log alone
//! is recorded when the run is next read.

use std::collections::BTreeMap;

use ostler_kernel::event::Event;
use ostler_kernel::id::NodeId;
use ostler_kernel::port::{JournalError, ModelCall, RunRow, StreamId};
use ostler_kernel::run::Run;

use crate::base::keys::AttemptKey;
use crate::run::services::RunServices;
use crate::storage::run_reader;

/// Number of the calls in the records of a run, by node and attempt.
#[derive(Default)]
pub(super) struct RecordedCalls(BTreeMap<(NodeId, u32), usize>);

impl RecordedCalls {
    pub(super) fn see(&mut self, event: &Event) {
        if let Event::ModelCalled { node, attempt, .. } = event {
            *self.0.entry((node.clone(), *attempt)).or_default() += 1;
        }
    }

    /// The records of the calls that are missing, already applied. Attempts of this process report theirs themselves.
    pub(super) fn complete(
        mut self,
        services: &RunServices,
        row: &RunRow,
        run: &mut Run,
    ) -> Result<Vec<Event>, JournalError> {
        if !run.has_started() {
            return Ok(Vec::new());
        }
        let mut lost: Vec<(NodeId, u32, ModelCall)> = Vec::new();
        let stream = StreamId::attempts(&row.client, row.run);
        run_reader::each(&**services.journal, stream, None, |record| -> Result<(), JournalError> {
            let Event::ModelCalled { node, attempt, call } = &record.event else { return Ok(()) };
            let recorded = self.0.entry((node.clone(), *attempt)).or_default();
            match recorded.checked_sub(1) {
                Some(left) => *recorded = left,
                None => lost.push((node.clone(), *attempt, ModelCall::clone(call))),
            }
            Ok(())
        })?;
        let reports = services.attempts.of_run(row.run);
        lost.retain(|(node, attempt, _)| {
            let key = AttemptKey { run: row.run, node: node.clone(), attempt: *attempt };
            !reports.contains(&key)
        });
        let now = services.journal.now();
        let record = |(node, attempt, call)| run.record_calls(now, &node, attempt, vec![call].into());
        Ok(lost.into_iter().flat_map(record).collect())
    }
}
