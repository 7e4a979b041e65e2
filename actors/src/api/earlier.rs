//! What a goal may use of earlier runs.

use ostler_kernel::id::RunId;
use ostler_kernel::policy::EarlierRun;
use ostler_kernel::run::RunStatus;

use crate::api::system::System;
use crate::base::error::RunError;

/// An earlier run as a new goal is told of it.
#[derive(Debug, Clone)]
pub struct Earlier {
    /// What the goal is told.
    pub told: EarlierRun,
    /// The client of the run.
    pub client: String,
    /// The status of the run. Results of a run that is not over may still change.
    pub status: RunStatus,
}

impl System {
    /// What a goal is told of a run.
    ///
    /// # Errors
    ///
    /// The run does not exist, or cannot be read.
    pub async fn earlier(&self, run: RunId) -> Result<Earlier, RunError> {
        let view = self.view(run, None).await?;
        let status = self.status(&view)?.status;
        let told = self.services.gatekeeper.earlier_run(run, &view.run);
        Ok(Earlier { told, client: view.opened.client.to_string(), status })
    }
}
