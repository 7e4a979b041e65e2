//! Provenance of a run, from its records.

use ostler_kernel::id::RunId;
use ostler_kernel::port::StreamId;
use ostler_kernel::provenance::{Provenance, Tracer};

use crate::api::system::System;
use crate::base::error::RunError;
use crate::storage::run_reader::each;

impl System {
    /// The provenance of a run up to its last record. Reads the records once; equal records give equal provenance.
    ///
    /// # Errors
    ///
    /// The run is unknown, or its records are damaged.
    pub fn provenance(&self, run: RunId) -> Result<Provenance, RunError> {
        let row = self.row(run)?;
        let mut tracer = Tracer::of(run);
        let read = |plan: &_| self.services.runs.plans.read(plan);
        each(&**self.services.journal, StreamId::run(&row.client, row.run), None, |record| {
            tracer.record(record, &read).map_err(RunError::from)
        })?;
        Ok(tracer.end()?)
    }
}
