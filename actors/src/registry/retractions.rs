//! Records retractions and their ends in the streams of the clients.

use ostler_kernel::event::{Event, Retraction};
use ostler_kernel::port::Position;

use super::RegistryState;
use crate::messages::retraction::{RetractError, RetractionStep};

impl RegistryState {
    /// Records a retraction under the next free number; one that withdraws the same is returned as it is.
    pub(super) fn retract(
        &mut self,
        mut retraction: Retraction,
    ) -> Result<(Retraction, Option<Position>), RetractError> {
        let known = &self.services.retractions;
        if let Some(same) = known.in_force().into_iter().find(|known| known.what == retraction.what) {
            return Ok((same, None));
        }
        retraction.id = known.next_id().ok_or(RetractError::TooMany)?;
        let event = Event::Retracted(Box::new(retraction.clone()));
        let position = self.append(&retraction.client.clone(), vec![event])?;
        Ok((retraction, Some(position)))
    }

    pub(super) fn end_retraction(
        &mut self,
        id: String,
        step: RetractionStep,
    ) -> Result<(Retraction, Position), RetractError> {
        let found = self.services.retractions.in_force().into_iter().find(|known| known.id == id);
        let retraction = found.ok_or_else(|| RetractError::Unknown(id.clone()))?;
        let client = retraction.client.clone();
        let event = match step {
            RetractionStep::CarriedOut => Event::RetractionCarriedOut { client, retraction: id },
            RetractionStep::Lifted(by) => Event::RetractionLifted { client, retraction: id, by },
        };
        let position = self.append(&retraction.client.clone(), vec![event])?;
        Ok((retraction, position))
    }
}
