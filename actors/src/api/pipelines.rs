//! Creating, finding and removing pipelines.

use ostler_kernel::pipeline::{PipelineSpec, Topology};

use crate::api::pipeline_handle::PipelineHandle;
use crate::api::system::{System, ask};
use crate::pipelines::error::PipelineError;
use crate::pipelines::message::PipelinesMessage;
use crate::pipelines::row::PipelineRow;

impl System {
    /// Creates a pipeline, or finds an equally declared one. Durable on return; dropping the future may or may
    /// not have created it.
    ///
    /// # Errors
    ///
    /// [`PipelineError`] with all faults; nothing was created then.
    pub async fn create_pipeline(&self, spec: &PipelineSpec) -> Result<PipelineHandle, PipelineError> {
        let topology = spec.validate().or_else(|faults| match self.pipeline(&spec.id) {
            // An existing pipeline was valid when it was created.
            Ok(there) if there.log.topology().spec() == spec => spec.validate_recorded(),
            _ => Err(faults),
        });
        let topology: Box<Topology> = Box::new(topology.map_err(PipelineError::Spec)?);
        let pipelines = self.pipelines.actor.get().ok().ok_or(PipelineError::Restarting)?;
        let made = ask(&pipelines, |reply| PipelinesMessage::Create { topology, reply }).await;
        let (log, position) = made.ok_or(PipelineError::Restarting)??;
        self.services.journal.durable(position).await?;
        Ok(PipelineHandle { system: self.clone(), log })
    }

    /// Finds a pipeline.
    ///
    /// # Errors
    ///
    /// The pipeline is unknown or cannot be read.
    pub fn pipeline(&self, id: &str) -> Result<PipelineHandle, PipelineError> {
        let found = self.pipelines.find(id)?;
        let log = found.ok_or_else(|| PipelineError::Unknown(id.chars().take(80).collect()))?;
        Ok(PipelineHandle { system: self.clone(), log })
    }

    /// All pipelines by name, in a durable state.
    ///
    /// # Errors
    ///
    /// A pipeline cannot be read.
    pub async fn pipelines(&self) -> Result<Vec<PipelineRow>, PipelineError> {
        let logs = self.pipelines.all()?;
        let rows = logs.iter().map(|log| log.row()).collect();
        if let Some(position) = logs.iter().map(|log| log.position()).max() {
            self.services.journal.durable(position).await?;
        }
        Ok(rows)
    }

    /// Removes a pipeline, with its events and the state of its stages, and returns its last state. Handles of it become
    /// invalid, and another pipeline may be declared under the name. Durable on return; dropping the future may or may not
    /// have removed it.
    ///
    /// # Errors
    ///
    /// The pipeline is unknown; or a stage has code in the process, or events left. Nothing has changed then.
    pub async fn remove_pipeline(&self, id: &str) -> Result<PipelineRow, PipelineError> {
        let PipelineHandle { log, .. } = self.pipeline(id)?;
        let row = log.row();
        let pipelines = self.pipelines.actor.get().ok().ok_or(PipelineError::Restarting)?;
        let removed = ask(&pipelines, |reply| PipelinesMessage::Remove { log, reply }).await;
        let position = removed.ok_or(PipelineError::Restarting)??;
        self.services.journal.durable(position).await?;
        Ok(row)
    }
}
